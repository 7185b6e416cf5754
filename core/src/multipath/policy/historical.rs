//! dm-multipath's `historical-service-time`: the path on which an I/O would be through first, as far as the past tells.

use super::turns::Turns;
use super::{Done, Io, PathView, Policy};
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// Fractions have 10 bits.
const ONE: u64 = 1 << 10;
/// A sample counts for as many steps as it has of these, 16.8 ms each.
const BUCKET_BITS: u32 = 24;
const BUCKETS: u64 = 64;

/// What the selector can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoricalServiceTimeOptions {
    /// How much of the past stays with each sample, in 1024ths; below 1024.
    pub weight: u16,
    /// Paths are told apart if one is slower than so many times the other; otherwise those with fewer I/Os go first.
    pub threshold: u32,
}

impl Default for HistoricalServiceTimeOptions {
    /// The kernel's.
    fn default() -> Self {
        Self { weight: 972, threshold: 0 }
    }
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Moving average of the time that the path takes for one I/O, in 1024ths of a ns.
    pub service: u64,
    last_end: Instant,
    /// From when on the past means little.
    pub stale_after: Instant,
}

impl Default for History {
    /// Nothing yet.
    fn default() -> Self {
        Self { service: ONE, last_end: Instant::ZERO, stale_after: Instant::ZERO }
    }
}

/// dm-multipath's (`drivers/md/dm-ps-historical-service-time.c`). The time of an I/O counts from the end of the one before on its path:
/// then it is that of the path, without the queue before it.
#[derive(Debug, Default)]
pub struct HistoricalServiceTime {
    options: HistoricalServiceTimeOptions,
    turns: Turns,
    histories: Vec<History>,
    usable: u64,
}

impl HistoricalServiceTime {
    /// A selector that knows nothing yet.
    #[must_use]
    pub fn new(options: HistoricalServiceTimeOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// How much of the past stays when an I/O took so long.
    fn weight(&self, time: Duration) -> u64 {
        let steps = (time.0 >> BUCKET_BITS).min(BUCKETS - 1) + 1;
        let weight = u64::from(self.options.weight).min(ONE - 1);
        if steps == BUCKETS { 0 } else { (1..steps).fold(weight, |power, _| (power * weight + ONE / 2) / ONE) }
    }
}

impl Policy for HistoricalServiceTime {
    fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        self.histories.resize(self.histories.len().max(paths.len()), History::default());
        self.usable = paths.iter().filter(|path| path.access != super::Access::Unusable).count() as u64;
        let (histories, threshold) = (&self.histories, self.options.threshold);
        let load = |number: usize| (histories[number], u64::from(paths[number].in_flight));
        self.turns.take(paths, |one, best| is_better(load(one), load(best), threshold, io.at))
    }

    fn history(&self, path: usize) -> Option<History> {
        Some(self.histories.get(path).copied().unwrap_or_default())
    }

    fn ended(&mut self, path: usize, io: &Io, done: Done) {
        let Some(before) = self.histories.get(path).copied() else { return };
        let time = done.at.since(io.at.max(before.last_end));
        let (weight, sample) = (self.weight(time), time.0.min(u64::MAX >> 12) * ONE);
        let sum = u128::from(before.service) * u128::from(weight) + u128::from(sample) * u128::from(ONE - weight);
        let service = ((sum + u128::from(ONE / 2)) / u128::from(ONE)) as u64;
        let stale_after = done.at + Duration(self.usable * (service / ONE));
        self.histories[path] = History { service, last_end: done.at, stale_after };
    }
}

/// Whether an I/O goes to the first path rather than to the second. A path that is idle and of which nothing is known for long is
/// tried; one that is busy and of which nothing is known for long gets no more than the other.
fn is_better((one, here): (History, u64), (other, there): (History, u64), threshold: u32, now: Instant) -> bool {
    let (less, more) = (one.service.min(other.service), one.service.max(other.service));
    if more <= less.saturating_mul(threshold.into()) {
        return here < there;
    }
    let is_stale = |history: History| history.stale_after < now;
    match (here, there) {
        (0, 0) => return one.stale_after < other.stale_after,
        (0, _) if is_stale(one) => return true,
        (_, 0) if is_stale(other) => return false,
        _ => {}
    }
    let wait = |history: History, load: u64| u128::from(1 + load) * u128::from(history.service);
    let is_other = wait(one, here) > wait(other, there);
    if is_stale(if is_other { other } else { one }) { here < there } else { !is_other }
}
