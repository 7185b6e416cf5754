//! Device mapper without clones: 512-byte reads of a RAM disk through layers, on this machine.
//!
//! ```text
//!  plan: which layers ──> stacks: one stack a thread, all layers over one RAM disk
//!                              ^
//!  measure: rounds of short runs ──> psync: jobs take turns, one read in flight each
//! ```
//!
//! The publication has a kernel that clones every bio and one that does not. Here the first is [`clone_layer`], and the
//! second is the real thing: tables, as text, in a stack.

mod clone_layer;
mod measure;
mod per_bio_layer;
mod plan;
mod psync;
mod stacks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::outcome::{Ours, Report};
use super::plan::{Cell, Table};
use super::work::{Options, RunError, Watch, filtered};
use measure::{Effort, Found};
pub use plan::plan;

/// The order in which sectors are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Each job one sector after the other, as published.
    Sequential,
    /// Each job sectors drawn at random.
    Random,
}

/// What device mapper is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A range of the disk.
    Linear,
    /// Chunks of 64 KiB on the two halves of the disk in turn.
    Striped,
    /// No disk: reads give zeroes.
    Zero,
    /// The disk, encrypted with AES-256 in XTS mode.
    Crypt,
}

/// How a bio gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// A table of ours: the bio itself is mapped.
    Mapped,
    /// The same, with statistics of all its sectors.
    Counted,
    /// A layer that keeps something for each bio and wants it back.
    PerBioData,
    /// A layer that sends a clone, as device mapper does.
    Cloned,
}

/// Layers over the RAM disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layers {
    /// What they do.
    pub target: Target,
    /// How.
    pub way: Way,
    /// How many are on top of each other.
    pub depth: u8,
}

/// What is run: reads through layers, or of the disk itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reads {
    /// The order of the reads.
    pub pattern: Pattern,
    /// What they go through; `None` is the disk itself.
    pub layers: Option<Layers>,
}

impl Reads {
    /// The disk itself, which the layers are compared with.
    pub fn raw(pattern: Pattern) -> Self {
        Self { pattern, layers: None }
    }

    /// What lies between the jobs and the disk, in a word.
    pub fn name(&self) -> &'static str {
        match self.layers.map(|layers| layers.way) {
            None => "raw",
            Some(Way::Mapped) => "mapped",
            Some(Way::Counted) => "statistics",
            Some(Way::PerBioData) => "per-bio",
            Some(Way::Cloned) => "cloned",
        }
    }
}

/// Runs what `options` ask for.
pub fn run(options: &Options, stop: &Arc<AtomicBool>, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let tables = plan().map_err(RunError::Failed)?;
    let tables = filtered(tables, options.only.as_deref())?;
    let effort = if options.quick { Effort::QUICK } else { Effort::FULL };
    let works = works(&tables);
    watch.steps(works.iter().map(|work| effort.runs(work.len())).sum());
    let mut found = Found::new();
    for work in &works {
        watch.begin(&format!("{:?} reads", work[0].pattern));
        let samples = measure::measure(work, effort, (stop, &mut || watch.step())).map_err(RunError::Failed)?;
        found.extend(samples.ok_or(RunError::Stopped)?);
    }
    Ok(Report::new(options, tables, |cell| Some(cell.with(ours(cell, &found)?, None))))
}

/// What has to run together: everything in one order of reads, the disk itself first.
fn works(tables: &[Table<Reads>]) -> Vec<Vec<Reads>> {
    let mut works: BTreeMap<Pattern, Vec<Reads>> = BTreeMap::new();
    for cell in tables.iter().flat_map(|table| &table.cells) {
        let pattern = cell.ours.pattern;
        let work = works.entry(pattern).or_insert_with(|| vec![Reads::raw(pattern)]);
        if !work.contains(&cell.ours) {
            work.push(cell.ours);
        }
    }
    works.into_values().collect()
}

fn ours(cell: &Cell<Reads>, found: &Found) -> Option<Ours> {
    let raw = found.get(&Reads::raw(cell.ours.pattern))?;
    Some(measure::summarize(found.get(&cell.ours)?, raw, cell.unit))
}
