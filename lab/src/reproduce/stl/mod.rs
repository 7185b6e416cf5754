//! What `stl` has to show, in virtual time: `shingle reproduce stl`.
//!
//! ```text
//!  plan: rows, systems, drives ─> volume in a world ─> files, blocks, aged, reading, start: loads
//!                                       └─ measure: probe, drives' counters ─> outcome ─> text, JSON, page
//!  ram: this machine, in real time ──────────────────────────────────────────────┘
//! ```
//!
//! Beside the target stand dm-zoned under both policies and the drive itself. What is missed is shown as missed.

mod aged;
mod blocks;
mod door;
mod files;
mod goals;
mod keeper;
mod load;
mod measure;
mod outcome;
mod page;
mod plan;
mod probe;
mod ram;
mod reading;
mod spill;
mod start;
mod text;
mod volume;

use std::sync::atomic::AtomicBool;

use super::work::{Options, RunError, Watch, on_all_cores};
use measure::Extent;
pub use outcome::{Report, Run, Sample, from_json};
pub use plan::{Experiment, Garage, Row, Size, System};

/// Runs what `options` ask for: a world for each on all cores.
///
/// # Errors
/// If nothing fits the filter, a run fails, or `stop` was set.
pub fn run(options: &Options, stop: &AtomicBool, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let size = if options.quick { Size::Quick } else { Size::Full };
    run_at(size, options, stop, watch)
}

/// The same, with aged volumes of such a size.
fn run_at(size: Size, options: &Options, stop: &AtomicBool, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let experiments = plan::experiments(options.only.as_deref());
    if experiments.is_empty() {
        let names: Vec<String> = plan::experiments(None).iter().map(ToString::to_string).collect();
        let wanted = options.only.as_deref().unwrap_or_default();
        return Err(RunError::NothingToRun(format!("no run has `{wanted}` in its name: {}", names.join(", "))));
    }
    let garage = Garage::new(options.profile.as_deref()).map_err(RunError::Failed)?;
    watch.steps(experiments.len() as u64);
    let extent = Extent { minutes: options.minutes, times: options.times, size, seed: options.seed };
    let run = |experiment: &Experiment, step: &dyn Fn()| {
        let found = measure::run(*experiment, &garage.drives(experiment.row, size), extent, stop);
        step();
        found
    };
    let runs = on_all_cores(&experiments, ToString::to_string, run, (stop, watch))?;
    let is_cut = options.quick || options.minutes.is_some() || options.times.is_some() || size != Size::Full;
    Ok(Report { seed: options.seed, is_cut, has_own: garage.has_own, profiles: garage.facts(), runs })
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

    fn tiny(only: Option<&str>) -> Result<Report, RunError> {
        let (publication, only) = (Publication::Stl, only.map(str::to_owned));
        let options = Options {
            publication,
            only,
            quick: false,
            seed: 3,
            minutes: None,
            times: None,
            paths: None,
            profile: None,
        };
        let mut steps = Steps(0, 0);
        let report = run_at(Size::Tiny, &options, &AtomicBool::new(false), &mut steps)?;
        assert_eq!((steps.0, steps.1), (report.runs.len() as u64, report.runs.len() as u64));
        Ok(report)
    }

    #[test]
    fn every_row_runs_on_every_system_and_is_on_the_page() {
        let report = tiny(None).unwrap();
        let failures: Vec<_> = report.runs.iter().filter_map(|run| run.failure.as_ref()).collect();
        assert_eq!(failures, Vec::<&String>::new());
        let refused: Vec<_> = report.runs.iter().filter(|run| run.refused.is_some()).map(|run| run.row).collect();
        // dm-zoned needs zones that can be written whole, and more conventional ones than are left of so small a disk.
        assert_eq!(refused, [Row::Uniform, Row::Uniform, Row::Skewed, Row::Skewed, Row::ZnsRandom]);
        let is_empty = |run: &&Run| run.excuse().is_none() && run.samples.is_empty() && run.figures.is_empty();
        assert_eq!(report.runs.iter().find(is_empty), None);
        let page = report.findings().sheet.to_html(&Imprint::new(0, ["shingle".to_owned()]));
        assert!(Row::ALL.iter().all(|row| page.contains(&format!("<h2 id=\"{}\">", row.name()))));
        let again = from_json(&report.findings().json.to_string()).unwrap();
        assert_eq!(again.findings().json, report.findings().json);
    }

    #[test]
    fn the_same_seed_gives_the_same_figures() {
        let run = || tiny(Some("skewed / stl")).unwrap();
        assert_eq!(run(), run());
    }

    #[test]
    fn a_filter_that_fits_nothing_and_a_profile_without_a_load_are_refused() {
        let Err(RunError::NothingToRun(message)) = tiny(Some("floppy")) else { panic!("something fits") };
        assert!(message.contains("`floppy`") && message.contains("zns-skewed / stl-greedy"), "{message}");
        assert!(Garage::new(Some("ram")).unwrap_err().contains("`ram` is no SMR disk"));
        assert!(Garage::new(Some("smr-30tb")).unwrap().has_own);
    }
}
