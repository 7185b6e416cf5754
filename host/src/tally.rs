//! What was asked of an export or a disk, how it ended and how long it took: counted by the one thread that serves it, read by any.
//!
//! A count has one writer, so adding to it is a plain load and a plain store: no lock, no atomic addition, and no message to read it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shingle_core::block::{Bio, Op, Status};
use shingle_core::time::Duration;

/// A count.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What is told apart by how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads.
    Read,
    /// Writes, appends, and zeroes.
    Write,
    /// Flushes.
    Flush,
    /// All else: discards, and zone management.
    Other,
}

impl Work {
    /// All kinds, in the order of their values.
    pub const ALL: [Work; 4] = [Work::Read, Work::Write, Work::Flush, Work::Other];

    /// The kind of an operation.
    #[must_use]
    pub const fn of(op: Op) -> Self {
        match op {
            Op::Read => Work::Read,
            Op::Write | Op::ZoneAppend | Op::WriteZeroes => Work::Write,
            Op::Flush => Work::Flush,
            _ => Work::Other,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ["read", "write", "flush", "other"][self as usize]
    }
}

/// Bounds between which times are counted.
const BOUNDS: usize = 26;
/// The first bound is 2 to the power of this, in nanoseconds: 1.024 us. Each is twice the one before; the last is 34 s.
const FIRST_BOUND: u32 = 10;

/// Times of one kind of work.
#[derive(Debug, Default)]
struct Times {
    /// By the first bound that they do not exceed; what exceeds all of them is the last.
    cells: [Count; BOUNDS + 1],
    /// In nanoseconds.
    sum: Count,
}

impl Times {
    #[inline]
    fn record(&self, took: Duration) {
        // The power of two that is no less.
        let power = u64::BITS - took.0.saturating_sub(1).leading_zeros();
        self.cells[(power.saturating_sub(FIRST_BOUND) as usize).min(BOUNDS)].add(1);
        self.sum.add(took.0);
    }
}

/// Times of one kind of work, as they were at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Upper bounds in seconds, and how many took longer than the bound before and no longer than this one. The last has no bound.
    pub cells: Vec<(f64, u64)>,
    /// Of all of them, in seconds.
    pub sum: f64,
}

impl Latency {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cells.iter().map(|(_, count)| count).sum()
    }

    /// These and those of `other`, which has the same bounds.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        self.cells.iter_mut().zip(other.cells).for_each(|((_, count), (_, more))| *count += more);
        self.sum += other.sum;
        self
    }
}

/// The counts.
#[derive(Debug, Default)]
pub struct Tally {
    ios: [Count; Op::COUNT],
    sectors: [Count; Op::COUNT],
    errors: [Count; Status::COUNT],
    times: [Times; Work::ALL.len()],
}

impl Tally {
    /// Counts what was done, and took so long. Only one thread may do that.
    #[inline]
    pub fn record(&self, bio: &Bio, status: Status, took: Duration) {
        self.ios[bio.op as usize].add(1);
        self.sectors[bio.op as usize].add(bio.sectors.into());
        self.times[Work::of(bio.op) as usize].record(took);
        if !status.is_ok() {
            self.errors[status as usize].add(1);
        }
    }

    /// By operation: how many there were, and their sectors.
    pub fn by_op(&self) -> impl Iterator<Item = (Op, u64, u64)> + '_ {
        Op::ALL.into_iter().map(|op| (op, self.ios[op as usize].get(), self.sectors[op as usize].get()))
    }

    /// Failures, by how they ended.
    pub fn errors(&self) -> impl Iterator<Item = (Status, u64)> + '_ {
        (0..Status::COUNT as u8)
            .filter_map(Status::from_byte)
            .map(|status| (status, self.errors[status as usize].get()))
    }

    /// How long a kind of work took.
    #[must_use]
    pub fn latency(&self, work: Work) -> Latency {
        let Times { cells, sum } = &self.times[work as usize];
        let bound = |cell: usize| match cell {
            BOUNDS => f64::INFINITY,
            _ => (1_u64 << (FIRST_BOUND + cell as u32)) as f64 / 1e9,
        };
        let cells = cells.iter().enumerate().map(|(cell, count)| (bound(cell), count.get())).collect();
        Latency { cells, sum: sum.get() as f64 / 1e9 }
    }
}

#[cfg(test)]
mod tests {
    use shingle_core::block::Payload;
    use shingle_core::sector::Sector;

    use super::*;

    #[test]
    fn a_time_is_counted_below_the_first_bound_that_it_does_not_exceed() {
        let tally = Tally::default();
        let read = Bio::new(Op::Read, Sector(0), 8, Payload::None);
        for ns in [0, 1024, 1025, 2048, 2049, 1 << 35, (1 << 35) + 1, u64::MAX >> 8] {
            tally.record(&read, Status::Ok, Duration(ns));
        }
        let latency = tally.latency(Work::Read);
        let filled: Vec<(f64, u64)> = latency.cells.iter().copied().filter(|(_, count)| *count > 0).collect();
        let last = (1_u64 << 35) as f64 / 1e9;
        assert_eq!(filled, [(1.024e-6, 2), (2.048e-6, 2), (4.096e-6, 1), (last, 1), (f64::INFINITY, 2)]);
        assert_eq!((latency.count(), tally.latency(Work::Write).count()), (8, 0));
    }

    #[test]
    fn what_failed_counts_as_asked_for_and_by_how_it_ended() {
        let tally = Tally::default();
        let append = Bio::new(Op::ZoneAppend, Sector(0), 16, Payload::None);
        tally.record(&append, Status::Ok, Duration(1));
        tally.record(&append, Status::Medium, Duration(1));
        assert!(tally.by_op().any(|counted| counted == (Op::ZoneAppend, 2, 32)));
        let failed: Vec<(Status, u64)> = tally.errors().filter(|(_, count)| *count > 0).collect();
        assert_eq!(failed, [(Status::Medium, 1)]);
        assert_eq!(tally.latency(Work::Write).count(), 2);
    }
}
