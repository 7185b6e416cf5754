//! Runs every experiment of a plan once, and puts the figures back into its tables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;

use super::model::Lab;
use super::outcome::{CellOutcome, Ours, Report, cell_name};
use super::plan::{Cell, Device, Experiment, Load, PlannedTable, Policy, plan};
use super::published::Unit;
use super::{Findings, Publication, dmzoned, noclone, real};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which tables.
    pub publication: Publication,
    /// Only cells or runs that have this in their name, in any case, and the baselines beside them.
    pub only: Option<String>,
    /// Whether to cut runs short.
    pub quick: bool,
    /// The seed of what is simulated.
    pub seed: u64,
    /// Minutes of the runs, of a publication of runs over time; `None`: as many as were published.
    pub minutes: Option<u32>,
}

/// Who waits for the result.
pub trait Watch {
    /// There are so many steps.
    fn steps(&mut self, steps: u64);
    /// This is next.
    fn begin(&mut self, name: &str);
    /// A step is done.
    fn step(&mut self);
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The filter fits no cell.
    NothingToRun(String),
    /// It was told to stop.
    Stopped,
    /// An experiment failed.
    Failed(String),
}

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
    })
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
        let rivals = cell.experiment.rivals().filter_map(|rival| Some(found.get(&rival)?.value));
        let policy = cell.experiment.policy.name();
        Some(CellOutcome::new(cell, policy, *found.get(&cell.experiment)?, rivals.max_by(f64::total_cmp)))
    };
    Ok(Report { profiles: lab.facts(), ..Report::new(options, &tables, outcome) })
}

/// Cores of this machine.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
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

/// What a thread has to say of the work in this place.
enum News<T> {
    Began,
    Step,
    Ended(Result<Option<T>, String>),
}

/// Runs `works` on all cores: each is a world of a thread's own, so what comes out does not depend on how many there are. `run`
/// tells of its steps, and gives `None` if `stop` was set.
pub(super) fn on_all_cores<W: Sync, T: Send>(
    works: &[W],
    name: impl Fn(&W) -> String,
    run: impl Fn(&W, &dyn Fn()) -> Result<Option<T>, String> + Sync,
    (stop, watch): (&AtomicBool, &mut dyn Watch),
) -> Result<Vec<T>, RunError> {
    let next = AtomicUsize::new(0);
    let (sender, news) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..cores().min(works.len()) {
            let (sender, next, run) = (sender.clone(), &next, &run);
            scope.spawn(move || {
                let mut place = next.fetch_add(1, Relaxed);
                // Nobody listens any more once a run has failed.
                let tell = |place, news| drop(sender.send((place, news)));
                while let Some(work) = works.get(place) {
                    tell(place, News::Began);
                    let result = run(work, &|| tell(place, News::Step));
                    let is_last = !matches!(result, Ok(Some(_)));
                    tell(place, News::Ended(result));
                    place = if is_last { works.len() } else { next.fetch_add(1, Relaxed) };
                }
            });
        }
        drop(sender);
        let mut found = BTreeMap::new();
        for (place, news) in news {
            match news {
                News::Began => watch.begin(&name(&works[place])),
                News::Step => watch.step(),
                News::Ended(Ok(Some(result))) => _ = found.insert(place, result),
                News::Ended(Ok(None)) => return Err(RunError::Stopped),
                News::Ended(Err(error)) => {
                    stop.store(true, Relaxed);
                    return Err(RunError::Failed(format!("{}: {error}", name(&works[place]))));
                }
            }
        }
        Ok(found.into_values().collect())
    })
}

/// The cells that `only` names, with their baselines: without those there is nothing to compare with.
pub(super) fn filtered<E: Clone>(
    tables: Vec<PlannedTable<E>>,
    only: Option<&str>,
) -> Result<Vec<PlannedTable<E>>, RunError> {
    let Some(only) = only else { return Ok(tables) };
    let wanted = only.to_lowercase();
    let is_named = |table: &str, cell: &Cell<E>| {
        cell_name(table, cell.group, &cell.load, &cell.system).to_lowercase().contains(&wanted)
    };
    let pick = |table: &PlannedTable<E>| {
        let named: Vec<&Cell<E>> = table.cells.iter().filter(|cell| is_named(table.name, cell)).collect();
        let is_compared = |base: &Cell<E>| named.iter().any(|n| n.group == base.group && n.against == base.load);
        let keep = |cell: &&Cell<E>| is_named(table.name, cell) || (cell.is_baseline && is_compared(cell));
        PlannedTable { cells: table.cells.iter().filter(keep).cloned().collect(), ..table.clone() }
    };
    let picked: Vec<PlannedTable<E>> = tables.iter().map(pick).filter(|table| !table.cells.is_empty()).collect();
    if picked.is_empty() {
        let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
        return Err(RunError::NothingToRun(format!(
            "no cell has `{only}` in its name; names are like `{}`, of the tables {}",
            tables[0].cells.first().map_or(String::new(), |c| cell_name(names[0], c.group, &c.load, &c.system)),
            names.join(", ")
        )));
    }
    Ok(picked)
}

fn real_works(tables: &[PlannedTable]) -> Vec<RealWork> {
    let mut works: Vec<RealWork> = Vec::new();
    for (table, cell) in tables.iter().flat_map(|table| table.cells.iter().map(move |cell| (table, cell))) {
        let Experiment { device: Device::Null, policy, load, .. } = cell.experiment else { continue };
        let name = cell_name(table.name, cell.group, &cell.against, "");
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

fn model_works(tables: &[PlannedTable]) -> Vec<ModelWork> {
    let mut works: Vec<ModelWork> = Vec::new();
    for (table, cell) in tables.iter().flat_map(|table| table.cells.iter().map(move |cell| (table, cell))) {
        for experiment in std::iter::once(cell.experiment).chain(cell.experiment.rivals()) {
            let is_known = works.iter().any(|work| work.experiment == experiment);
            if experiment.device == Device::Null || is_known {
                continue;
            }
            let name = cell_name(table.name, cell.group, &cell.load, &cell.system);
            works.push(ModelWork { name, unit: cell.unit, experiment });
        }
    }
    works
}
