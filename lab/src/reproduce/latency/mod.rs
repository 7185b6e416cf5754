//! Policies of multipath in virtual time: `shingle reproduce latency`.
//!
//! ```text
//!  published: figures ──> scene: a set of paths, a load ─┐                ┌─> goals ──┐
//!                         drawn sets, sets of users ─────┴─> trials ─> outcome ───────┴─> text, JSON, page
//! ```
//!
//! In each scene every policy there is stands beside the oracle, over paths with the same weather. What nobody published figures
//! of is measured the same way.

mod curves;
mod drawn;
mod goals;
mod lanes;
mod outcome;
mod page;
mod published;
mod scene;
mod spread;
mod strips;
mod text;

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use shingle_core::multipath::{PolicyKind, PolicyOptions};
use shingle_host::profile::PathSet;

use super::ProfileFacts;
use super::model::fnv1a;
use super::own_sets::OwnSets;
use super::work::{Options, RunError, Watch, on_all_cores};
use crate::multipath::{Contender, Load, Trial, draw};
use drawn::{DrawnOutcome, DrawnSet, Found};
pub use outcome::{Report, from_json};
use outcome::{Row, SceneOutcome};
use scene::{Scene, group_of, shorten};

/// Our own policy, as [`PolicyKind`] calls it. What is asked of it is left out as long as there is none.
const OURS: &str = "expected-delay";
/// What a policy is held against.
const ORACLE: &str = "oracle";
/// The published row that is nearest to the oracle.
const DECAY_10: &str = "latency, decay 10";
/// The good path of two without the other one.
const ALONE: &str = "good path alone";
/// The numbers of the drawn sets, and how many of them a quick run tries.
const DRAWN: std::ops::Range<u64> = 1000..1200;
const QUICK_DRAWN: u64 = 4;
/// Parts of the time in which shares are looked at.
const SAMPLES: u32 = 60;

shingle_core::named_enum! {
    /// What a figure of ours is worth.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Class {
        /// The paths were fitted to it, or the load was.
        Calibrated => "calibrated",
        /// The same paths and load, with another policy.
        Predicted => "predicted",
        /// Something decided the published figure that is not known, and is not in the model.
        NotModelled => "not modelled",
        /// Nobody published it.
        Own => "own",
    }

    /// The name on pages and in tables.
    fn name(self) -> &'static str;
}

impl Class {
    /// How far from the published figure is near enough, as a share of it.
    pub const fn tolerance(self) -> Option<f64> {
        match self {
            Class::Calibrated => Some(0.05),
            Class::Predicted => Some(0.15),
            Class::NotModelled | Class::Own => None,
        }
    }
}

/// One run.
enum Work<'a> {
    Scene(&'a Scene, Option<Contender>),
    Drawn(u64),
}

/// What came out of one.
enum Piece {
    Row(Row),
    Set(DrawnSet),
}

/// Every contender: the oracle, our policy, the others. A policy with other options than usual, those of the user too, stands behind that.
fn contenders(given: PolicyOptions) -> Vec<Contender> {
    let with_variants = |kind: PolicyKind| {
        let published = (kind == PolicyKind::Latency).then_some(Contender::LATENCY_DECAY_10);
        let has_given = given != PolicyOptions::default() && given.check(kind).is_ok();
        let own = has_given.then_some(Contender::With(kind, given)).filter(|own| Some(*own) != published);
        [Some(Contender::Policy(kind)), published, own].into_iter().flatten()
    };
    let (ours, others): (Vec<_>, Vec<_>) = PolicyKind::ALL.into_iter().partition(|kind| kind.name() == OURS);
    let policies = ours.into_iter().chain(others).flat_map(with_variants);
    std::iter::once(Contender::Oracle).chain(policies).collect()
}

/// The contenders of a run.
fn contenders_of(options: &Options) -> Vec<Contender> {
    contenders(options.paths.as_ref().map_or_else(PolicyOptions::default, |own| own.policy_options))
}

/// Runs what `options` ask for: a world for each contender in each scene, on all cores.
///
/// # Errors
/// If nothing fits the filter, a set is wrong, a run fails, or `stop` was set.
pub fn run(options: &Options, stop: &AtomicBool, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let scenes = match &options.paths {
        Some(own) => scenes_of(own, options.quick)?,
        None => scene::all(options.quick).map_err(RunError::Failed)?,
    };
    let (scenes, numbers) = filtered(scenes, options)?;
    let mut works: Vec<Work<'_>> = Vec::new();
    for scene in &scenes {
        works.extend(contenders_of(options).into_iter().map(|contender| Work::Scene(scene, Some(contender))));
        works.extend(scene.alone.map(|_| Work::Scene(scene, None)));
    }
    works.extend(numbers.map(Work::Drawn));
    watch.steps(works.len() as u64);
    let run = |work: &Work<'_>, step: &dyn Fn()| {
        let found = run_one(work, options, stop);
        step();
        found
    };
    let found = on_all_cores(&works, name_of, run, (stop, watch))?;
    Ok(report(options, &scenes, found))
}

fn name_of(work: &Work<'_>) -> String {
    match work {
        Work::Scene(scene, contender) => {
            format!("{} / {}", scene.name(), contender.map_or_else(|| ALONE.to_owned(), Contender::name))
        }
        Work::Drawn(number) => format!("drawn / {number}"),
    }
}

fn run_one(work: &Work<'_>, options: &Options, stop: &AtomicBool) -> Result<Option<Piece>, String> {
    match work {
        Work::Scene(scene, contender) => {
            let one = scene.set_of_one().filter(|_| contender.is_none());
            let (set, load, seed) =
                (one.as_ref().unwrap_or(&scene.set), &scene.load, options.seed.wrapping_add(scene.phase));
            let trial = Trial { set, load, seed, samples: SAMPLES };
            let found = trial.run_unless(contender.unwrap_or(Contender::Policy(PolicyKind::Numa)), stop)?;
            let name = contender.map_or_else(|| ALONE.to_owned(), Contender::name);
            Ok(found.map(|found| Piece::Row(Row::new(&name, scene, set, &found))))
        }
        Work::Drawn(number) => run_drawn(*number, options, stop).map(|set| set.map(Piece::Set)),
    }
}

fn run_drawn(number: u64, options: &Options, stop: &AtomicBool) -> Result<Option<DrawnSet>, String> {
    let mut drawn = draw(number);
    if options.quick {
        shorten(&mut drawn.load);
    }
    let trial = Trial { set: &drawn.set, load: &drawn.load, seed: number ^ (options.seed << 32), samples: 1 };
    let mut found = Vec::new();
    for contender in contenders_of(options) {
        let Some(outcome) = trial.run_unless(contender, stop)? else { return Ok(None) };
        found.push(Found::new(&outcome));
    }
    Ok(Some(DrawnSet::new(number, &drawn, found)))
}

fn report(options: &Options, scenes: &[Scene], found: Vec<Piece>) -> Report {
    let (mut rows, mut sets) = (Vec::new(), Vec::new());
    for found in found {
        match found {
            Piece::Row(row) => rows.push(row),
            Piece::Set(set) => sets.push(set),
        }
    }
    let mut rows = rows.into_iter();
    let outcome = |scene: &Scene| {
        let count = contenders_of(options).len() + usize::from(scene.alone.is_some());
        SceneOutcome::new(scene, rows.by_ref().take(count).collect())
    };
    let mut profiles: Vec<ProfileFacts> = scenes.iter().map(|scene| facts(&scene.set)).collect();
    profiles.dedup();
    let policies = contenders_of(options).into_iter().map(Contender::name).collect();
    Report {
        seed: options.seed,
        quick: options.quick,
        own: options.paths.is_some(),
        profiles,
        scenes: scenes.iter().map(outcome).collect(),
        drawn: (!sets.is_empty()).then_some(DrawnOutcome { policies, sets }),
    }
}

fn facts(set: &PathSet) -> ProfileFacts {
    let hash = format!("{:016x}", fnv1a(format!("{set:?}").as_bytes()));
    ProfileFacts { name: set.name.clone(), hash, media_mb_per_s: None }
}

/// The scenes of a user's own sets.
fn scenes_of(own: &OwnSets, is_quick: bool) -> Result<Vec<Scene>, RunError> {
    let mut load = own.load.clone();
    if is_quick {
        shorten(&mut load);
    }
    let scene = |name: &String| {
        let set = PathSet::find(name).map_err(|error| RunError::Failed(error.to_string()))?;
        check(&set, &load).map_err(|what| RunError::Failed(format!("{name}: {what}")))?;
        let (group, load_name) = (group_of(&set.name).to_owned(), "own load".to_owned());
        Ok(Scene { group, load_name, set, load: load.clone(), phase: 0, published: Vec::new(), alone: None })
    };
    own.sets.iter().map(scene).collect()
}

/// Whether the disk of `set` takes `load`.
fn check(set: &PathSet, load: &Load) -> Result<(), String> {
    let block = set.disk.block_bytes;
    match load.bytes.iter().find(|bytes| **bytes == 0 || !bytes.is_multiple_of(block)) {
        Some(bytes) => Err(format!("its disk takes multiples of {block} bytes, and {bytes} are none")),
        None if load.bytes.iter().any(|bytes| u64::from(*bytes) > set.disk.capacity * 512) => {
            Err("its disk is smaller than one I/O of the load".into())
        }
        None => Ok(()),
    }
}

/// The scenes and the drawn sets that have `only` in their names.
fn filtered(scenes: Vec<Scene>, options: &Options) -> Result<(Vec<Scene>, std::ops::Range<u64>), RunError> {
    let wanted = options.only.as_deref().unwrap_or_default().to_lowercase();
    let names: Vec<String> = scenes.iter().map(Scene::name).chain(["drawn".to_owned()]).collect();
    let fits = |name: &str| name.to_lowercase().contains(&wanted);
    let picked: Vec<Scene> = scenes.into_iter().filter(|scene| fits(&scene.name())).collect();
    let end = if options.quick { DRAWN.start + QUICK_DRAWN } else { DRAWN.end };
    let numbers = if options.paths.is_none() && fits("drawn") { DRAWN.start..end } else { 0..0 };
    if picked.is_empty() && numbers.is_empty() {
        return Err(RunError::NothingToRun(format!("nothing has `{wanted}` in its name: {}", names.join(", "))));
    }
    Ok((picked, numbers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Imprint, Publication};

    struct Steps(u64, u64);

    impl Watch for Steps {
        fn steps(&mut self, steps: u64) {
            self.0 = steps;
        }
        fn begin(&mut self, _: &str) {}
        fn step(&mut self) {
            self.1 += 1;
        }
    }

    fn options(only: &str) -> Options {
        let (publication, only) = (Publication::Latency, Some(only.to_owned()));
        Options { publication, only, quick: true, seed: 3, minutes: None, times: None, paths: None, profile: None }
    }

    #[test]
    fn a_scene_is_the_same_twice_and_every_contender_is_a_step() {
        let run = || {
            let mut steps = Steps(0, 0);
            let report = run(&options("TCP-30ms / open"), &AtomicBool::new(false), &mut steps).unwrap();
            let contenders = contenders(PolicyOptions::default()).len() as u64 + 1;
            assert_eq!((steps.0, steps.1), (contenders, contenders), "and the good path alone");
            report
        };
        let report = run();
        assert_eq!(run(), report);
        let scene = &report.scenes[0];
        assert_eq!((report.scenes.len(), scene.rows[0].policy.as_str()), (1, ORACLE));
        let alone = scene.row(ALONE).unwrap();
        assert_eq!(alone.paths.iter().map(|lane| &*lane.name).collect::<Vec<_>>(), ["fast"]);
        assert!(alone.slowest_us < 5_000.0 && scene.row("numa").unwrap().mean_us > 30_000.0);
        let page = report.findings().sheet.to_html(&Imprint::new(0, ["shingle".to_owned()]));
        assert!(page.contains("cut short") && page.matches("<svg").count() > 2);
    }

    #[test]
    fn a_filter_that_fits_nothing_says_what_there_is_and_a_stopped_run_says_nothing() {
        let failed = |only: &str, stop| run(&options(only), &AtomicBool::new(stop), &mut Steps(0, 0)).unwrap_err();
        let RunError::NothingToRun(message) = failed("floppy", false) else { panic!("something fits") };
        assert!(message.contains("`floppy`") && message.contains("hosts / open") && message.contains("drawn"));
        assert_eq!(failed("jitter / open", true), RunError::Stopped);
    }

    #[test]
    fn everyone_is_tried_and_the_policy_with_other_options_stands_behind_itself() {
        let names: Vec<String> = contenders(PolicyOptions::default()).into_iter().map(Contender::name).collect();
        assert_eq!(names[..2], [ORACLE, OURS]);
        let place = |name: &str| names.iter().position(|known| known == name).unwrap();
        assert_eq!(place(DECAY_10), place("latency") + 1);
        assert_eq!(names.len(), PolicyKind::ALL.len() + 2);
    }

    #[test]
    fn options_of_a_user_are_tried_beside_the_defaults() {
        let names = |options| contenders(options).into_iter().map(Contender::name).collect::<Vec<_>>();
        let usual = names(PolicyOptions::default());
        let options = PolicyOptions {
            decay: Some(30),
            window: Some(shingle_core::time::Duration::from_micros(500)),
            low_water: Some(3),
        };
        let own: Vec<String> = names(options).into_iter().filter(|name| !usual.contains(name)).collect();
        let words = "decay 30, window 500 us, low-water 3";
        assert_eq!(own, [format!("latency, {words}"), format!("adaptive, {words}")]);
        let all = names(PolicyOptions { decay: Some(100), ..PolicyOptions::default() });
        assert!(
            all.contains(&"latency, decay 100".to_owned()) && all.len() == usual.len() + 1,
            "adaptive takes 99 at most"
        );
    }
}
