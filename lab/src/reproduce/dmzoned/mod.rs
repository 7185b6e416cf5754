//! dm-zoned under two hours of files, in virtual time: `shingle reproduce dmzoned`.
//!
//! ```text
//!  published: phases ─────────────────────────────────────────────────┐
//!  measure: ext4's load ─> volume: table `zoned` ─> keeper ─> drives   ├─> outcome ─> text, JSON, page
//!              └─ every 10 s: files closed, status, drives' counters ─┘
//! ```
//!
//! Each of two policies runs on one SMR disk, and on the same with an SSD in front. The kernel's is the baseline: how near it
//! comes to what was published says how far the drive and the load can be trusted.

mod chart;
mod goals;
mod keeper;
mod measure;
mod outcome;
mod page;
mod published;
mod status;
mod text;
mod volume;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

use serde::{Deserialize, Serialize};

use super::Goal;
use super::model::facts;
use super::page::imprint::Imprint;
use super::run::{RunError, Watch, cores};
use measure::Extent;
pub use outcome::{Report, Run, Sample, from_json, to_json};
use shingle_host::profile::{Model, Profile};
pub use status::{Free, Zones};
pub use text::Rows;
use volume::Drives;

/// Minutes of the published run.
pub const MINUTES: u32 = 120;
/// Minutes of a quick one.
pub const QUICK_MINUTES: u32 = 15;

/// The drives of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setup {
    /// One SMR disk.
    Single,
    /// The same with an SSD in front.
    Dual,
}

/// Whose decisions the target takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Those of Linux' dm-zoned.
    Kernel,
    /// Ours.
    Shingle,
}

/// A policy on drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// The drives.
    pub setup: Setup,
    /// The policy.
    pub policy: Policy,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only runs with this in their name, in any case.
    pub only: Option<String>,
    /// Minutes of virtual time.
    pub minutes: u32,
    /// The seed of the load.
    pub seed: u64,
}

impl Setup {
    /// Both.
    pub const ALL: [Setup; 2] = [Setup::Single, Setup::Dual];

    /// As the published table names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Setup::Single => "single",
            Setup::Dual => "dual",
        }
    }

    /// In words, within a sentence.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Setup::Single => "one disk",
            Setup::Dual => "with an SSD",
        }
    }

    /// In words, above a section.
    fn heading(self) -> &'static str {
        match self {
            Setup::Single => "One SMR disk of 15 TB",
            Setup::Dual => "The same disk with an SSD of 500 GB in front",
        }
    }
}

impl Policy {
    /// Both, the baseline first.
    pub const ALL: [Policy; 2] = [Policy::Kernel, Policy::Shingle];

    /// As the target's knob has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::Kernel => "kernel",
            Policy::Shingle => "shingle",
        }
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.setup.name(), self.policy.name())
    }
}

/// Runs what `options` ask for: a world for each on all cores.
///
/// # Errors
/// If nothing fits the filter, a run fails, or `stop` was set.
pub fn run(options: &Options, stop: &AtomicBool, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let experiments = experiments(options.only.as_deref())?;
    let profiles = ["smr-15tb", "ssd-500gb"].map(Profile::find);
    let [smr, ssd] = profiles.map(|profile| profile.map_err(|error| RunError::Failed(error.to_string())));
    let (smr, ssd) = (smr?, ssd?);
    watch.steps(experiments.len() as u64 * u64::from(options.minutes));
    let mut runs = run_all(&experiments, (&smr, &ssd), options, (stop, watch))?;
    runs.sort_by_key(|(place, _)| *place);
    Ok(Report {
        seed: options.seed,
        minutes: options.minutes,
        profiles: vec![facts(&smr), facts(&ssd)],
        runs: runs.into_iter().map(|(_, run)| run).collect(),
    })
}

/// The experiments whose names have `only` in them.
fn experiments(only: Option<&str>) -> Result<Vec<Experiment>, RunError> {
    let all = Setup::ALL.into_iter().flat_map(|setup| Policy::ALL.map(|policy| Experiment { setup, policy }));
    let wanted = only.unwrap_or_default().to_lowercase();
    let picked: Vec<Experiment> = all.clone().filter(|one| one.to_string().contains(&wanted)).collect();
    if picked.is_empty() {
        let names: Vec<String> = all.map(|one| one.to_string()).collect();
        return Err(RunError::NothingToRun(format!("no run has `{wanted}` in its name: {}", names.join(", "))));
    }
    Ok(picked)
}

fn drives(setup: Setup, (smr, ssd): (&Profile, &Profile)) -> Result<Drives, String> {
    match (&smr.model, &ssd.model) {
        (Model::Smr(smr), Model::Ssd(ssd)) => {
            Ok(Drives { smr: smr.clone(), ssd: (setup == Setup::Dual).then(|| ssd.clone()) })
        }
        _ => Err(format!("profiles `{}` and `{}` are no SMR disk and no SSD", smr.name, ssd.name)),
    }
}

/// What a thread has to say of the experiment in this place.
enum News {
    Began,
    Minute,
    Ended(Box<Result<Option<Run>, String>>),
}

fn run_all(
    experiments: &[Experiment],
    profiles: (&Profile, &Profile),
    options: &Options,
    (stop, watch): (&AtomicBool, &mut dyn Watch),
) -> Result<Vec<(usize, Run)>, RunError> {
    let next = AtomicUsize::new(0);
    let (sender, news) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..cores().min(experiments.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Relaxed);
                    let Some(experiment) = experiments.get(place) else { return };
                    // Nobody listens any more once a run has failed.
                    let tell = |news| drop(sender.send((place, news)));
                    tell(News::Began);
                    let extent = Extent { minutes: options.minutes, seed: options.seed };
                    let result = drives(experiment.setup, profiles).and_then(|drives| {
                        measure::run((*experiment, &drives), extent, stop, &mut || tell(News::Minute))
                    });
                    tell(News::Ended(Box::new(result)));
                }
            });
        }
        drop(sender);
        let mut runs = Vec::new();
        for (place, news) in news {
            match news {
                News::Began => watch.begin(&experiments[place].to_string()),
                News::Minute => watch.step(),
                News::Ended(result) => match *result {
                    Ok(Some(run)) => runs.push((place, run)),
                    Ok(None) => return Err(RunError::Stopped),
                    Err(error) => {
                        stop.store(true, Relaxed);
                        return Err(RunError::Failed(format!("{}: {error}", experiments[place])));
                    }
                },
            }
        }
        Ok(runs)
    })
}

/// The report as one page.
///
/// # Errors
/// If the published phases cannot be read.
pub fn to_html(report: &Report, imprint: &Imprint) -> Result<String, String> {
    Ok(page::to_html(report, &published::read()?, imprint))
}

/// The report as tables: the runs, then the published phases; and the goals.
///
/// # Errors
/// If the published phases cannot be read.
pub fn to_text(report: &Report) -> Result<([Rows; 2], Vec<Goal>), String> {
    let published = published::read()?;
    let goals = goals::goals(report, &published.phases);
    Ok(([text::runs(report), text::phases(report, &published)], goals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_picks_runs_by_their_names() {
        let names = |only| experiments(only).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(names(None).unwrap().len(), 4);
        assert_eq!(names(Some("Single")).unwrap(), ["single / kernel", "single / shingle"]);
        assert_eq!(names(Some("dual / kernel")).unwrap(), ["dual / kernel"]);
        let Err(RunError::NothingToRun(message)) = names(Some("triple")) else { panic!("something fits") };
        assert!(message.contains("`triple`") && message.contains("dual / shingle"), "{message}");
    }

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

    #[test]
    fn minutes_of_all_runs_are_the_same_twice_and_every_minute_is_a_step() {
        let options = Options { only: None, minutes: 2, seed: 3 };
        let run = || {
            let mut steps = Steps(0, 0);
            let report = super::run(&options, &AtomicBool::new(false), &mut steps).unwrap();
            assert_eq!((steps.0, steps.1), (8, 8));
            report
        };
        let report = run();
        assert_eq!(run(), report);
        assert_eq!(report.runs.len(), 4);
        for run in &report.runs {
            assert_eq!((run.samples.len(), run.ending.as_str()), (12, "time"));
            assert!(run.samples.iter().all(|sample| sample.mb_per_s > 50.0), "{run:?}");
            assert!(run.write_amplification() >= 0.99, "{}", run.write_amplification());
        }
        let page = to_html(&report, &Imprint::new(0, ["shingle".to_owned()])).unwrap();
        assert!(
            page.contains("1970-01-01 with <code>shingle</code>")
                && page.contains("href=\"https://lore.kernel.org/dm-devel/")
        );
        assert!(page.matches("<svg").count() > 10 && page.contains("cut to 2 minutes"));
    }
}
