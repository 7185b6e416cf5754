//! What there is to run, on all cores of this machine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

use super::own_sets::OwnSets;
use super::plan::{Cell, Table};
use super::publication::Publication;

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
    /// Of `stl`: how often an aged volume is written, of which the last time counts; `None`: three times.
    pub times: Option<u32>,
    /// Of policies of multipath: a user's sets of paths instead of those of the publication.
    pub paths: Option<OwnSets>,
    /// Of what the log-structured target has to show: a user's own drive, by its profile's name or path.
    pub profile: Option<String>,
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

/// Error of running a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The filter fits no cell.
    NothingToRun(String),
    /// It was told to stop.
    Stopped,
    /// An experiment failed.
    Failed(String),
}

/// Cores of this machine.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
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
pub(super) fn filtered<E: Clone>(tables: Vec<Table<E>>, only: Option<&str>) -> Result<Vec<Table<E>>, RunError> {
    let Some(only) = only else { return Ok(tables) };
    let wanted = only.to_lowercase();
    let is_named = |table: &str, cell: &Cell<E>| cell.name(table).to_lowercase().contains(&wanted);
    let pick = |table: &Table<E>| {
        let named: Vec<&Cell<E>> = table.cells.iter().filter(|cell| is_named(&table.name, cell)).collect();
        let is_compared = |base: &Cell<E>| named.iter().any(|n| n.group == base.group && n.against == base.load);
        let keep = |cell: &&Cell<E>| is_named(&table.name, cell) || (cell.is_baseline && is_compared(cell));
        Table { cells: table.cells.iter().filter(keep).cloned().collect(), ..table.clone() }
    };
    let picked: Vec<Table<E>> = tables.iter().map(pick).filter(|table| !table.cells.is_empty()).collect();
    if picked.is_empty() {
        let names: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
        return Err(RunError::NothingToRun(format!(
            "no cell has `{only}` in its name; names are like `{}`, of the tables {}",
            tables[0].cells.first().map_or(String::new(), |cell| cell.name(names[0])),
            names.join(", ")
        )));
    }
    Ok(picked)
}
