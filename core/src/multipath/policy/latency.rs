//! `latency`: the path with the least latency in the last window.

use super::{Access, Done, Io, IoClass, Node, PathView, PathWindow, Policy, PolicyOptions, cheapest};
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
    /// Of the window that is being filled, by kind: the policy goes by all kinds together, and reports them apart.
    sums: [u64; IoClass::COUNT],
    samples: [u32; IoClass::COUNT],
}

/// Figures of the last window of a path, for one node. No I/O touches them, so they lie beside the cells.
#[derive(Clone, Copy, Debug, Default)]
struct Report {
    /// By kind. A kind is measured by itself: what it has kept can be more or less than what the path has.
    latencies: [Duration; IoClass::COUNT],
    samples: [u32; IoClass::COUNT],
    /// True for kinds that ever had a sample.
    is_known: [bool; IoClass::COUNT],
}

/// As proposed for Linux in 2024 (`block/blk-nlatency.c` and the I/O policy `latency`, v4), with what was found wrong with it, since it is
/// what others are measured against: within a window all I/O of a node goes to one path; a path whose I/Os take longer than a window
/// looks faster the slower it is, as a window without completions does not count; one that fails fast attracts; microseconds are cut off.
#[derive(Debug)]
pub struct Latency {
    options: LatencyOptions,
    /// Of each node the cells of all paths.
    nodes: Vec<Vec<Cell>>,
    reports: Vec<Vec<Report>>,
    /// When the window that is being filled ends; all paths have the same.
    window_end: Instant,
}

impl Latency {
    /// A policy that knows nothing yet.
    #[must_use]
    pub fn new(options: LatencyOptions) -> Self {
        let options =
            LatencyOptions { window: options.window.max(Duration(1)), decay: options.decay.min(100), ..options };
        Self { options, nodes: Vec::new(), reports: Vec::new(), window_end: Instant::ZERO }
    }

    /// Ends the windows that are over: the first one has the samples.
    fn roll(&mut self, now: Instant) {
        if now < self.window_end {
            return;
        }
        let Self { options, nodes, reports, window_end } = self;
        let over = now.since(*window_end).0 / options.window.0 + 1;
        for (cell, report) in nodes.iter_mut().flatten().zip(reports.iter_mut().flatten()) {
            cell.end_windows(report, over, options);
        }
        *window_end = Instant(window_end.0 + over * options.window.0);
    }

    fn cell(&mut self, node: usize, path: usize) -> &mut Cell {
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, Vec::new());
            self.reports.resize(node + 1, Vec::new());
        }
        let cells = &mut self.nodes[node];
        if cells.len() <= path {
            cells.resize(path + 1, Cell::default());
            self.reports[node].resize(path + 1, Report::default());
        }
        &mut cells[path]
    }
}

/// The latency at the end of so many windows, of which the first one has the samples.
fn at_the_end(latency: Duration, (sum, samples): (u64, u32), windows: u64, options: &LatencyOptions) -> Duration {
    let after = |latency: Duration, sum: u64, samples: u32| {
        if samples < options.low_water {
            Duration((u128::from(latency.0) * u128::from(options.decay) / 100) as u64)
        } else {
            Duration(sum / u64::from(samples.max(1)))
        }
    };
    let mut latency = after(latency, sum, samples);
    for _ in 1..windows {
        let before = latency;
        latency = after(latency, 0, 0);
        // Nothing changes any more, however many there are.
        if latency == before {
            break;
        }
    }
    latency
}

impl Cell {
    fn end_windows(&mut self, report: &mut Report, windows: u64, options: &LatencyOptions) {
        let (mut sum, mut samples) = (0_u64, 0_u32);
        for class in 0..IoClass::COUNT {
            let own = (self.sums[class], self.samples[class]);
            (sum, samples) = (sum.saturating_add(own.0), samples.saturating_add(own.1));
            report.is_known[class] |= own.1 > 0;
            report.latencies[class] = at_the_end(report.latencies[class], own, windows, options);
            report.samples[class] = if windows > 1 { 0 } else { own.1 };
        }
        self.latency = at_the_end(self.latency, (sum, samples), windows, options);
        (self.sums, self.samples) = Default::default();
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
        let class = io.class as usize;
        cell.sums[class] = cell.sums[class].saturating_add(done.at.since(io.at).0);
        cell.samples[class] = cell.samples[class].saturating_add(1);
    }

    fn windows(&self, path: usize, visit: &mut dyn FnMut(PathWindow)) {
        for (node, (cells, reports)) in self.nodes.iter().zip(&self.reports).enumerate() {
            let Some((cell, report)) = cells.get(path).zip(reports.get(path)) else { continue };
            let window =
                |class, latency, samples| PathWindow { node: Node(node as u8), class, latency, samples, weight: None };
            let all = report.samples.iter().map(|samples| u64::from(*samples)).sum();
            visit(window(None, cell.latency, all));
            for class in IoClass::ALL.into_iter().filter(|class| report.is_known[*class as usize]) {
                let (latency, samples) = (report.latencies[class as usize], report.samples[class as usize]);
                visit(window(Some(class), latency, samples.into()));
            }
        }
    }
}
