//! Replay: the unflushed writes of a killed server are written again.
//!
//! ```text
//!  records, oldest first ── batch: writes ──> FLUSH ──> its records are forgotten ──> next batch
//! ```
//!
//! A server that is killed during replay leaves the records of the batches that were not durable: the next server
//! replays the rest.

use alloc::collections::{BTreeMap, VecDeque};
use core::mem;
use core::ops::{Range, RangeInclusive};

use super::guards::Guards;
use super::session::{Next, REPLAYED};
use super::unflushed::Left;
use crate::block::{Bio, Op, Payload, Status};
use crate::prelude::*;
use crate::sector::Sector;

/// Most writes in flight.
const MAX_IN_FLIGHT: usize = 32;
/// Most writes of a batch: at 100 IOPS a flush every three seconds.
const MAX_BATCH: usize = 256;

/// Progress of a takeover: the work before requests are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Sectors of unflushed writes that are written again and durable.
    pub durable: u64,
    /// Sectors of unflushed writes that the killed server left.
    pub all: u64,
    /// Bios completed so far. As long as this number rises, the devices below answer.
    pub completions: u64,
}

/// Writes each sector as it was acknowledged last. Older data is never written, not even for a moment: the newest may be durable, and a power
/// loss may come before it is written again.
pub(super) struct Replay {
    /// Parts of writes with the sequence of each, the oldest first.
    parts: VecDeque<(u64, Bio)>,
    /// Sectors after which a batch ends.
    batch_sectors: u64,
    /// Writes and sectors of the batch so far.
    batch: (usize, u64),
    in_flight: usize,
    words: u64,
    is_flushing: bool,
    failure: Option<Status>,
    progress: Progress,
    guards: Guards,
}

impl Replay {
    /// Replays `left`, which is in the order of acknowledgement, in batches of `batch_sectors`.
    pub fn new((left, batch_sectors): (Vec<Left>, u64), next: &mut VecDeque<Next>, guards: Guards) -> Self {
        let mut left = left;
        if guards.gone().replay_unordered {
            let sequences: Vec<u64> = left.iter().map(|left| left.sequence).collect();
            left.reverse();
            left.iter_mut().zip(sequences).for_each(|(left, sequence)| left.sequence = sequence);
        }
        let mut parts = newest(&left);
        if !guards.gone().replayed_newest_first {
            parts.make_contiguous().reverse();
        }
        let progress =
            Progress { all: parts.iter().map(|(_, bio)| u64::from(bio.sectors)).sum(), ..Progress::default() };
        let (batch, in_flight, words) = ((0, 0), 0, REPLAYED);
        let mut new =
            Self { parts, batch_sectors, batch, in_flight, words, is_flushing: false, failure: None, progress, guards };
        new.submit_batch(next);
        new
    }

    /// Error that ended the replay.
    pub fn failure(&self) -> Option<Status> {
        self.failure
    }

    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// True if all writes are durable.
    pub fn is_over(&self) -> bool {
        self.parts.is_empty() && self.batch == (0, 0)
    }

    /// Takes a completion. Returns the sequences of the writes that may be forgotten now.
    pub fn handle_completion(
        &mut self,
        bio: &Bio,
        status: Status,
        next: &mut VecDeque<Next>,
    ) -> Option<RangeInclusive<u64>> {
        self.progress.completions += 1;
        if !status.is_ok() {
            self.failure = Some(self.failure.unwrap_or(status));
        }
        if bio.op == Op::Flush {
            self.is_flushing = false;
            if self.failure.is_some() {
                return None;
            }
            let (_, sectors) = mem::take(&mut self.batch);
            self.progress.durable += sectors;
            let durable = self.sent();
            self.submit_batch(next);
            return Some(durable);
        }
        self.in_flight -= 1;
        let is_durable = self.guards.gone().forgotten_unflushed && self.failure.is_none() && self.in_flight == 0;
        self.submit_batch(next);
        is_durable.then(|| self.sent())
    }

    /// Sequences of the writes of which all parts were sent. Older records are forgotten first: as long as one is left, so are those of newer
    /// writes to its sectors, which the next server needs to write the newest data.
    fn sent(&self) -> RangeInclusive<u64> {
        match self.parts.front() {
            None => 1..=u64::MAX,
            Some((sequence, _)) if self.guards.gone().replayed_newest_first => sequence + 1..=u64::MAX,
            Some((sequence, _)) => 1..=sequence - 1,
        }
    }

    /// Sends writes of the batch, and its flush behind them.
    fn submit_batch(&mut self, next: &mut VecDeque<Next>) {
        if self.failure.is_some() || self.is_flushing {
            return;
        }
        while self.in_flight < MAX_IN_FLIGHT
            && !self.is_batch_full()
            && let Some((_, bio)) = self.parts.pop_front()
        {
            self.batch = (self.batch.0 + 1, self.batch.1 + u64::from(bio.sectors));
            self.words += 1;
            self.in_flight += 1;
            next.push_back(Next::Submit(self.words, Box::new(bio)));
        }
        if self.in_flight == 0 && self.batch.0 > 0 {
            self.is_flushing = true;
            let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            next.push_back(Next::Submit(REPLAYED, Box::new(flush)));
        }
    }

    fn is_batch_full(&self) -> bool {
        self.batch.0 >= MAX_BATCH || self.batch.1 >= self.batch_sectors
    }
}

/// The parts of writes that no later one of them covers, the newest first.
fn newest(left: &[Left]) -> VecDeque<(u64, Bio)> {
    let (mut covered, mut parts) = (BTreeMap::new(), VecDeque::new());
    for Left { sequence, bio } in left.iter().rev() {
        for Range { start, end } in uncovered(&covered, bio.sector.0..bio.end().0) {
            let (skip, sectors) = ((start - bio.sector.0) as u32, (end - start) as u32);
            parts.push_back((*sequence, Bio::new(bio.op, Sector(start), sectors, bio.payload.slice(skip, sectors))));
            covered.insert(start, end);
        }
    }
    parts
}

/// What of `range` none of the ranges covers, which do not overlap.
fn uncovered(covered: &BTreeMap<u64, u64>, range: Range<u64>) -> Vec<Range<u64>> {
    let (mut holes, mut at) = (Vec::new(), range.start);
    let before = covered.range(..range.start).next_back();
    for (start, end) in before.into_iter().chain(covered.range(range.start..range.end)) {
        if *start > at {
            holes.push(at..*start);
        }
        at = at.max(*end);
    }
    if at < range.end {
        holes.push(at..range.end);
    }
    holes
}
