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
    let extent = Extent { minutes: options.minutes, size, seed: options.seed };
    let run = |experiment: &Experiment, step: &dyn Fn()| {
        let found = measure::run(*experiment, &garage.drives(experiment.row, size), extent, stop);
        step();
        found
    };
    let runs = on_all_cores(&experiments, ToString::to_string, run, (stop, watch))?;
    let is_cut = options.quick || options.minutes.is_some() || size != Size::Full;
    Ok(Report { seed: options.seed, is_cut, has_own: garage.has_own, profiles: garage.facts(), runs })
}
