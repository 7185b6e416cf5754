//! Runs what a publication plans, each experiment once, and puts the figures back into its tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::findings::Findings;
use super::model::Lab;
use super::outcome::{Ours, Report, from_json};
use super::plan::{Cell, Device, Experiment, Load, Policy, Table, plan};
use super::publication::Publication;
use super::published::Unit;
use super::work::{Options, RunError, Watch, filtered, on_all_cores};
use super::{dmzoned, latency, noclone, real, stl};

/// Everything on the null device that is compared with one baseline: it runs in turns, so it is one piece of work.
struct RealWork {
    name: String,
    unit: Unit,
    /// The baseline first.
    what: Vec<(Policy, Load)>,
}

/// Figures by what was run.
type Found = BTreeMap<Experiment, Ours>;

/// Runs what `options` ask for.
///
/// # Errors
/// If nothing fits the filter, a run fails, or `stop` was set.
pub fn run(options: &Options, stop: &Arc<AtomicBool>, watch: &mut dyn Watch) -> Result<Findings, RunError> {
    Ok(match options.publication {
        Publication::Zwp | Publication::Qd1 => run_writes(options, stop, watch)?.findings(),
        Publication::Noclone => noclone::run(options, stop, watch)?.findings(),
        Publication::Dmzoned => dmzoned::run(options, stop, watch)?.findings(),
        Publication::Latency => latency::run(options, stop, watch)?.findings(),
        Publication::Stl => stl::run(options, stop, watch)?.findings(),
    })
}

impl Publication {
    /// What the JSON of findings says was found. What follows from it is computed anew.
    ///
    /// # Errors
    /// If it is something else, or of another publication.
    pub fn read(self, text: &str) -> Result<Findings, String> {
        match self {
            Publication::Dmzoned => return dmzoned::from_json(text).map(|report| report.findings()),
            Publication::Latency => return latency::from_json(text).map(|report| report.findings()),
            Publication::Stl => return stl::from_json(text).map(|report| report.findings()),
            _ => {}
        }
        let report = from_json(text)?;
        let is_it = report.publication == self;
        if is_it { Ok(report.findings()) } else { Err("it is the report of another publication".into()) }
    }
}

/// Writes to zones, on this machine and in models.
fn run_writes(options: &Options, stop: &Arc<AtomicBool>, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let tables = plan(options.publication).map_err(RunError::Failed)?;
    let tables = filtered(tables, options.only.as_deref())?;
    let works = real_works(&tables);
    let models = model_works(&tables);
    let devices = models.iter().map(|work| work.experiment.device);
    let lab = Lab::new(devices, options.seed, options.quick).map_err(RunError::Failed)?;
    let effort = if options.quick { real::Effort::QUICK } else { real::Effort::FULL };
    let real_steps: u64 = works.iter().map(|work| real::runs(work.what.len(), effort)).sum();
    watch.steps(real_steps + models.len() as u64);
    // What is measured runs alone.
    let mut found = run_real(&works, effort, stop, watch)?;
    found.extend(run_models(&models, &lab, stop, watch)?);
    let outcome = |cell: &Cell| {
        let rivals = cell.ours.rivals().filter_map(|rival| Some(found.get(&rival)?.value));
        Some(cell.with(*found.get(&cell.ours)?, rivals.max_by(f64::total_cmp)))
    };
    Ok(Report { profiles: lab.facts(), ..Report::new(options, tables, outcome) })
}

fn run_real(
    works: &[RealWork],
    effort: real::Effort,
    stop: &Arc<AtomicBool>,
    watch: &mut dyn Watch,
) -> Result<Found, RunError> {
    let mut found = Found::new();
    for work in works {
        watch.begin(&work.name);
        let figures = real::run(&work.what, work.unit, effort, (stop, &mut || watch.step()))
            .map_err(|error| RunError::Failed(format!("{}: {error}", work.name)))?;
        if figures.is_empty() {
            return Err(RunError::Stopped);
        }
        let experiments = work.what.iter().map(|(policy, load)| Experiment::on_null(*policy, *load));
        found.extend(experiments.zip(figures));
    }
    Ok(found)
}

fn run_models(works: &[ModelWork], lab: &Lab, stop: &AtomicBool, watch: &mut dyn Watch) -> Result<Found, RunError> {
    let run = |work: &ModelWork, step: &dyn Fn()| {
        let result = lab.run(&work.experiment, work.unit, stop);
        step();
        result
    };
    let figures = on_all_cores(works, |work| work.name.clone(), run, (stop, watch))?;
    Ok(works.iter().map(|work| work.experiment).zip(figures).collect())
}

fn real_works(tables: &[Table]) -> Vec<RealWork> {
    let mut works: Vec<RealWork> = Vec::new();
    for (table, cell) in tables.iter().flat_map(|table| table.cells.iter().map(move |cell| (table, cell))) {
        let Experiment { device: Device::Null, policy, load, .. } = cell.ours else { continue };
        let work = Cell { load: cell.against.clone(), system: String::new(), ..cell.clone() };
        let name = work.name(&table.name);
        let place = works.iter().position(|work| work.name == name).unwrap_or_else(|| {
            works.push(RealWork { name, unit: cell.unit, what: Vec::new() });
            works.len() - 1
        });
        let what = &mut works[place].what;
        if !what.contains(&(policy, load)) {
            what.insert(if cell.is_baseline { 0 } else { what.len() }, (policy, load));
        }
    }
    works
}

/// One world.
struct ModelWork {
    name: String,
    unit: Unit,
    experiment: Experiment,
}

fn model_works(tables: &[Table]) -> Vec<ModelWork> {
    let mut works: Vec<ModelWork> = Vec::new();
    for (table, cell) in tables.iter().flat_map(|table| table.cells.iter().map(move |cell| (table, cell))) {
        for experiment in std::iter::once(cell.ours).chain(cell.ours.rivals()) {
            let is_known = works.iter().any(|work| work.experiment == experiment);
            if experiment.device == Device::Null || is_known {
                continue;
            }
            let name = cell.name(&table.name);
            works.push(ModelWork { name, unit: cell.unit, experiment });
        }
    }
    works
}
