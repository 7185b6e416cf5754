//! `adaptive`: shares by latency, renewed every fifteen seconds.

use super::{Access, Done, Io, IoClass, Node, PathView, PathWindow, Policy, PolicyOptions};
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// What took longer is no sample.
const LONGEST: Duration = Duration::from_millis(1_000);
/// All shares together.
const SHARES: u128 = 64;
/// Parts of a whole in which what is kept is stated.
const WHOLE: u64 = 1_000;

/// Options of the policy `adaptive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveOptions {
    /// Time over which samples are gathered before shares are renewed; not zero.
    pub window: Duration,
    /// Samples that a window must have to change the latency of a path; 0 is the same as 1.
    pub low_water: u64,
    /// Share of the old latency that is kept when a window ends, in thousandths; up to 1,000.
    pub kept: u16,
}

impl Default for AdaptiveOptions {
    /// The publication's: a mean of fifteen seconds counts for an eighth.
    fn default() -> Self {
        Self { window: Duration::from_millis(15_000), low_water: 1, kept: 875 }
    }
}

impl From<&PolicyOptions> for AdaptiveOptions {
    fn from(options: &PolicyOptions) -> Self {
        let default = Self::default();
        Self {
            window: options.window.unwrap_or(default.window),
            low_water: options.low_water.map_or(default.low_water, u64::from),
            kept: options.decay.map_or(default.kept, |decay| decay.min(100) as u16 * 10),
        }
    }
}

/// What is known of a path, for one node and class of I/O.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    sum: u64,
    samples: u64,
    /// 0: nothing was measured yet.
    smoothed: u64,
    /// I/Os in a row, 0 while nothing was measured.
    weight: u32,
    credit: u32,
    /// Samples of the last window.
    last_samples: u64,
}

/// The paths of one node and class.
#[derive(Clone, Debug, Default)]
struct Group {
    cells: Vec<Cell>,
    cursor: usize,
}

/// As proposed for Linux in 2025 (`adaptive`, v5; 2026 as `latency`, v6), as far as the posts describe it: the lower the latency of a path
/// was on average, the more I/Os it gets in a row. What a path is to the disk (optimized or not) it does not ask; here as with all
/// others paths that are not optimized get nothing while one is.
#[derive(Debug, Default)]
pub struct Adaptive {
    options: AdaptiveOptions,
    nodes: Vec<[Group; IoClass::COUNT]>,
    period_end: Option<Instant>,
}

impl Adaptive {
    /// A policy that knows nothing yet.
    #[must_use]
    pub fn new(options: AdaptiveOptions) -> Self {
        let (window, kept) = (options.window.max(Duration(1)), options.kept.min(WHOLE as u16));
        Self { options: AdaptiveOptions { window, kept, low_water: options.low_water.max(1) }, ..Self::default() }
    }

    fn roll(&mut self, now: Instant) {
        let end = *self.period_end.get_or_insert(now + self.options.window);
        if now < end {
            return;
        }
        self.nodes.iter_mut().flatten().for_each(|group| group.end_period(&self.options));
        self.period_end = Some(now + self.options.window);
    }

    fn group(&mut self, io: &Io, paths: usize) -> &mut Group {
        let node = usize::from(io.node.0);
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, Default::default());
        }
        let group = &mut self.nodes[node][io.class as usize];
        if group.cells.len() < paths {
            group.cells.resize(paths, Cell::default());
        }
        group
    }
}

impl Group {
    fn end_period(&mut self, options: &AdaptiveOptions) {
        let kept = u64::from(options.kept);
        for cell in &mut self.cells {
            if cell.samples >= options.low_water {
                let mean = cell.sum / cell.samples;
                let old = if cell.smoothed == 0 { mean } else { cell.smoothed };
                cell.smoothed = ((kept * old + (WHOLE - kept) * mean) / WHOLE).max(1);
            }
            cell.last_samples = cell.samples;
            (cell.sum, cell.samples) = (0, 0);
        }
        let score = |cell: &Cell| if cell.smoothed == 0 { 0 } else { 1_000_000_000 / u128::from(cell.smoothed) };
        let all = self.cells.iter().map(score).sum::<u128>().max(1);
        for cell in self.cells.iter_mut().filter(|cell| cell.smoothed > 0) {
            cell.weight = (SHARES * score(cell) / all).max(1) as u32;
        }
    }

    fn choose(&mut self, is_usable: impl Fn(usize) -> bool) -> Option<usize> {
        let paths = self.cells.len();
        // Twice around: the first time may find nothing but credits that are used up.
        for _ in 0..=2 * paths {
            let (number, cell) = (self.cursor, self.cells.get_mut(self.cursor)?);
            if is_usable(number) && cell.credit > 0 {
                cell.credit -= 1;
                return Some(number);
            }
            cell.credit = cell.weight;
            self.cursor = (self.cursor + 1) % paths;
            if is_usable(number) && cell.weight == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl Policy for Adaptive {
    fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        self.roll(io.at);
        let class = paths.iter().map(|path| path.access).min().filter(|access| *access != Access::Unusable)?;
        self.group(io, paths.len()).choose(|number| paths.get(number).is_some_and(|path| path.access == class))
    }

    fn ended(&mut self, path: usize, io: &Io, done: Done) {
        self.roll(done.at);
        let took = done.at.since(io.at);
        if took <= LONGEST {
            let cell = &mut self.group(io, path + 1).cells[path];
            (cell.sum, cell.samples) = (cell.sum + took.0, cell.samples + 1);
        }
    }

    fn windows(&self, path: usize, visit: &mut dyn FnMut(PathWindow)) {
        for (node, groups) in self.nodes.iter().enumerate() {
            for (class, group) in IoClass::ALL.into_iter().zip(groups) {
                let Some(cell) = group.cells.get(path).filter(|cell| cell.smoothed > 0) else { continue };
                let (latency, samples, weight) = (Duration(cell.smoothed), cell.last_samples, Some(cell.weight));
                visit(PathWindow { node: Node(node as u8), class: Some(class), latency, samples, weight });
            }
        }
    }
}
