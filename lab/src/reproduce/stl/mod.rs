//! What `stl` has to show, in virtual time: `shingle reproduce stl`.
//!
//! ```text
//!  rows ─> measure: load ─> probe ─> volume: stl, dm-zoned or the bare drive ─> outcome ─> text, JSON, page
//! ```

mod keeper;
mod load;
mod measure;
mod outcome;
mod probe;
mod text;
mod volume;

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::model::facts;
use super::work::{Options, RunError, Watch, on_all_cores};
pub use outcome::{Report, Run, Sample, from_json};
use shingle_host::profile::Profile;

shingle_core::named_enum! {
    /// A load on drives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Row {
        /// Two hours of files on one disk.
        Files => "files",
        /// Random writes to an empty disk.
        Random => "random",
    }

    /// As the command line has it.
    fn name(self) -> &'static str;
}

shingle_core::named_enum! {
    /// What is between the load and the drives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum System {
        /// The target.
        Stl => "stl",
    }

    /// As the command line has it.
    fn name(self) -> &'static str;
}

/// A row on a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// The row.
    pub row: Row,
    /// The system.
    pub system: System,
}

shingle_core::impl_display!(Experiment, |self, f| write!(f, "{} / {}", self.row.name(), self.system.name()));

/// Runs what `options` ask for: a world for each on all cores.
///
/// # Errors
/// If nothing fits the filter, a run fails, or `stop` was set.
pub fn run(options: &Options, stop: &AtomicBool, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let experiments = experiments(options.only.as_deref())?;
    let disk = Profile::find("smr-15tb").map_err(|error| RunError::Failed(error.to_string()))?;
    watch.steps(experiments.len() as u64);
    let run = |experiment: &Experiment, step: &dyn Fn()| {
        let minutes = options.minutes.unwrap_or(experiment.row.minutes(options.quick));
        let extent = measure::Extent { minutes, seed: options.seed };
        let found = measure::run(*experiment, &disk.model, extent, stop);
        step();
        found
    };
    let runs = on_all_cores(&experiments, ToString::to_string, run, (stop, watch))?;
    Ok(Report { seed: options.seed, profiles: vec![facts(&disk)], runs })
}

impl Row {
    /// Minutes of it.
    fn minutes(self, quick: bool) -> u32 {
        match self {
            _ if quick => 2,
            Row::Files => 120,
            Row::Random => 30,
        }
    }
}

/// The experiments whose names have `only` in them.
fn experiments(only: Option<&str>) -> Result<Vec<Experiment>, RunError> {
    let all = Row::ALL.into_iter().flat_map(|row| System::ALL.map(|system| Experiment { row, system }));
    let wanted = only.unwrap_or_default().to_lowercase();
    let picked: Vec<Experiment> = all.clone().filter(|one| one.to_string().contains(&wanted)).collect();
    if picked.is_empty() {
        let names: Vec<String> = all.map(|one| one.to_string()).collect();
        return Err(RunError::NothingToRun(format!("no run has `{wanted}` in its name: {}", names.join(", "))));
    }
    Ok(picked)
}
