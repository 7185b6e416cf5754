//! dm-zoned under two hours of files, in virtual time: `shingle reproduce dmzoned`.
//!
//! ```text
//!  published: phases ─────────────────────────────────────────────────┐
//!  measure: ext4's load ─> volume: table `zoned` ─> keeper ─> drives   ├─> outcome ─> text, JSON, page
//!              └─ every 10 s: files closed, status, drives' counters ─┘
//! ```
//!
//! Each of three policies runs on one SMR disk, and on the same with an SSD in front. That of the kernel of 2020, on which the
//! published speeds were measured, is the baseline: how near it comes to them says how far the drive and the load can be trusted.

mod goals;
mod keeper;
mod measure;
mod outcome;
mod page;
mod published;
mod status;
mod text;
pub(super) mod volume;

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::model::facts;
use super::work::{Options, RunError, Watch, on_all_cores};
use measure::Extent;
pub use outcome::{Report, Run, Sample, from_json};
use shingle_host::profile::{Model, Profile};
pub use status::{Free, Zones};
use volume::Drives;

/// Minutes of the published run.
const MINUTES: u32 = 120;
/// Minutes of a quick one.
const QUICK_MINUTES: u32 = 15;

shingle_core::named_enum! {
    /// The drives of a volume.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Setup {
        /// One SMR disk.
        Single => "single",
        /// The same with an SSD in front.
        Dual => "dual",
    }

    /// As the published table names it.
    fn name(self) -> &'static str;
}

shingle_core::named_enum! {
    /// Whose decisions the target takes. The baselines come first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Policy {
        /// Those of dm-zoned as it was when the speeds were published.
        #[serde(rename = "kernel-2020")]
        Kernel2020 => "kernel-2020",
        /// Those of today's Linux.
        Kernel => "kernel",
        /// Ours.
        Shingle => "shingle",
    }

    /// As the target's knob has it.
    fn name(self) -> &'static str;
}

/// A policy on drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// The drives.
    pub setup: Setup,
    /// The policy.
    pub policy: Policy,
}

impl Policy {
    /// True for those of a kernel, which are held to the published phases.
    pub fn is_kernel(self) -> bool {
        self != Policy::Shingle
    }

    /// Class of its curves in the style sheet.
    fn class(self) -> &'static str {
        match self {
            Policy::Kernel2020 => "new",
            Policy::Kernel => "old",
            Policy::Shingle => "own",
        }
    }
}

impl Setup {
    /// In words, within a sentence.
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

shingle_core::impl_display!(Experiment, |self, f| write!(f, "{} / {}", self.setup.name(), self.policy.name()));

/// Runs what `options` ask for: a world for each on all cores.
///
/// # Errors
/// If nothing fits the filter, a run fails, or `stop` was set.
pub fn run(options: &Options, stop: &AtomicBool, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let experiments = experiments(options.only.as_deref())?;
    let find = |name| Profile::find(name).map_err(|error| RunError::Failed(error.to_string()));
    let (smr, ssd) = (find("smr-15tb")?, find("ssd-500gb")?);
    let (Model::Smr(disk), Model::Ssd(front)) = (&smr.model, &ssd.model) else {
        return Err(RunError::Failed(format!("profiles `{}` and `{}` are no SMR disk and no SSD", smr.name, ssd.name)));
    };
    let minutes = options.minutes.unwrap_or(if options.quick { QUICK_MINUTES } else { MINUTES });
    watch.steps(experiments.len() as u64 * u64::from(minutes));
    let extent = Extent { minutes, seed: options.seed };
    let run = |experiment: &Experiment, minute: &dyn Fn()| {
        let ssd = (experiment.setup == Setup::Dual).then(|| front.clone());
        let drives = Drives { smr: disk.clone(), ssd };
        measure::run((*experiment, &drives), extent, stop, minute)
    };
    let runs = on_all_cores(&experiments, ToString::to_string, run, (stop, watch))?;
    Ok(Report { seed: options.seed, minutes, profiles: vec![facts(&smr), facts(&ssd)], runs })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Imprint, Publication};

    #[test]
    fn a_filter_picks_runs_by_their_names() {
        let names = |only| experiments(only).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(names(None).unwrap().len(), 6);
        assert_eq!(names(Some("Single")).unwrap(), ["single / kernel-2020", "single / kernel", "single / shingle"]);
        assert_eq!(names(Some("dual / kernel-2020")).unwrap(), ["dual / kernel-2020"]);
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
        let (publication, minutes) = (Publication::Dmzoned, Some(1));
        let options = Options {
            publication,
            only: None,
            quick: false,
            seed: 3,
            minutes,
            times: None,
            paths: None,
            profile: None,
        };
        let run = || {
            let mut steps = Steps(0, 0);
            let report = super::run(&options, &AtomicBool::new(false), &mut steps).unwrap();
            assert_eq!((steps.0, steps.1), (6, 6));
            report
        };
        let report = run();
        assert_eq!(run(), report);
        assert_eq!(report.runs.len(), 6);
        for run in &report.runs {
            assert_eq!((run.samples.len(), run.ending.as_str()), (6, "time"));
            assert!(run.samples.iter().all(|sample| sample.mb_per_s > 50.0), "{run:?}");
            assert!(run.write_amplification() >= 0.99, "{}", run.write_amplification());
        }
        let page = report.findings().sheet.to_html(&Imprint::new(0, ["shingle".to_owned()]));
        assert!(
            page.contains("1970-01-01 with <code>shingle</code>")
                && page.contains("href=\"https://lore.kernel.org/dm-devel/")
        );
        assert!(page.matches("<svg").count() > 10 && page.contains("cut to 1 minute"));
    }
}
