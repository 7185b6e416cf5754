//! `latency`: the path with the least latency in the last window.

use super::{Access, Done, Io, PathView, Policy, PolicyOptions, cheapest};
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// What the policy can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyOptions {
    /// How long samples are gathered; not zero.
    pub window: Duration,
    /// Samples that a window must have to count.
    pub low_water: u32,
    /// How much of a latency stays over a window that does not count, in percent; up to 100.
    pub decay: u8,
}

impl Default for LatencyOptions {
    /// The publication's, for disks that do not turn.
    fn default() -> Self {
        Self { window: Duration::from_millis(2), low_water: 2, decay: 50 }
    }
}

impl From<&PolicyOptions> for LatencyOptions {
    fn from(options: &PolicyOptions) -> Self {
        let default = Self::default();
        Self {
            window: options.window.unwrap_or(default.window),
            low_water: options.low_water.unwrap_or(default.low_water),
            decay: options.decay.map_or(default.decay, |decay| decay.min(100) as u8),
        }
    }
}

/// What is known of a path, for one node.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    latency: Duration,
    sum: u64,
    samples: u32,
}

/// As proposed for Linux in 2024 (`block/blk-nlatency.c` and the I/O policy `latency`, v4), with what was found wrong with it, since it is
/// what others are measured against: within a window all I/O of a node goes to one path; a path whose I/Os take longer than a window
/// looks faster the slower it is, as a window without completions does not count; one that fails fast attracts; microseconds are cut off.
#[derive(Debug)]
pub struct Latency {
    options: LatencyOptions,
    /// Of each node the cells of all paths.
    nodes: Vec<Vec<Cell>>,
    /// When the window that is being filled ends; all paths have the same.
    window_end: Instant,
}

impl Latency {
    /// A policy that knows nothing yet.
    #[must_use]
    pub fn new(options: LatencyOptions) -> Self {
        let options =
            LatencyOptions { window: options.window.max(Duration(1)), decay: options.decay.min(100), ..options };
        Self { options, nodes: Vec::new(), window_end: Instant::ZERO }
    }

    /// Ends the windows that are over: the first one has the samples.
    fn roll(&mut self, now: Instant) {
        if now < self.window_end {
            return;
        }
        let Self { options, nodes, window_end } = self;
        let over = now.since(*window_end).0 / options.window.0 + 1;
        for cell in nodes.iter_mut().flatten() {
            cell.end_window(options);
            for _ in 1..over {
                let before = cell.latency;
                cell.end_window(options);
                // Nothing changes any more, however many there are.
                if cell.latency == before {
                    break;
                }
            }
        }
        *window_end = Instant(window_end.0 + over * options.window.0);
    }

    fn cell(&mut self, node: usize, path: usize) -> &mut Cell {
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, Vec::new());
        }
        let cells = &mut self.nodes[node];
        if cells.len() <= path {
            cells.resize(path + 1, Cell::default());
        }
        &mut cells[path]
    }
}

impl Cell {
    fn end_window(&mut self, options: &LatencyOptions) {
        self.latency = if self.samples < options.low_water {
            Duration((u128::from(self.latency.0) * u128::from(options.decay) / 100) as u64)
        } else {
            Duration(self.sum / u64::from(self.samples.max(1)))
        };
        (self.sum, self.samples) = (0, 0);
    }
}

impl Policy for Latency {
    fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        self.roll(io.at);
        let node = usize::from(io.node.0);
        if !paths.iter().any(|path| path.access != Access::Unusable) {
            return None;
        }
        self.cell(node, paths.len() - 1);
        let cells = &self.nodes[node];
        cheapest(paths, |number, _| cells[number].latency.0 / 1000)
    }

    fn ended(&mut self, path: usize, io: &Io, done: Done) {
        self.roll(done.at);
        let cell = self.cell(io.node.0.into(), path);
        cell.sum = cell.sum.saturating_add(done.at.since(io.at).0);
        cell.samples = cell.samples.saturating_add(1);
    }
}
