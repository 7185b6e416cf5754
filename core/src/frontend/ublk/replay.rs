//! What a killed server has left is written again.

use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Range;

use super::guards::Guards;
use super::session::{Next, REPLAYED};
use crate::block::{Bio, Op, Payload, Status};
use crate::prelude::*;
use crate::sector::Sector;

/// Most writes at once.
const AT_ONCE: usize = 32;

/// Writes of which each sector is written again as it was acknowledged last, then flushed. Never older data, not even for a moment:
/// the newest may be durable, and the power may go before it is written again.
pub(super) struct Replay {
    left: VecDeque<Bio>,
    under_way: usize,
    words: u64,
    is_flushing: bool,
    failure: Option<Status>,
}

impl Replay {
    /// Of writes in the order in which they were acknowledged.
    pub fn new(mut left: Vec<Bio>, next: &mut VecDeque<Next>, guards: Guards) -> Self {
        if guards.gone().replay_unordered {
            left.reverse();
        }
        let left = newest(&left);
        let mut new = Self { left, under_way: 0, words: REPLAYED, is_flushing: false, failure: None };
        new.go_on(next);
        new
    }

    /// Why it is given up.
    pub fn failure(&self) -> Option<Status> {
        self.failure
    }

    /// Takes in a completion. Whether everything is written and flushed.
    pub fn handle_completion(&mut self, bio: &Bio, status: Status, next: &mut VecDeque<Next>) -> bool {
        if !status.is_ok() {
            self.failure = Some(self.failure.unwrap_or(status));
        }
        if bio.op == Op::Flush {
            return self.failure.is_none();
        }
        self.under_way -= 1;
        self.go_on(next);
        false
    }

    fn go_on(&mut self, next: &mut VecDeque<Next>) {
        while self.failure.is_none()
            && self.under_way < AT_ONCE
            && let Some(bio) = self.left.pop_front()
        {
            self.words += 1;
            self.under_way += 1;
            next.push_back(Next::Submit(self.words, Box::new(bio)));
        }
        if self.under_way == 0 && self.failure.is_none() && !self.is_flushing {
            self.is_flushing = true;
            let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            next.push_back(Next::Submit(REPLAYED, Box::new(flush)));
        }
    }
}

/// The parts of writes that no later one of them covers.
fn newest(left: &[Bio]) -> VecDeque<Bio> {
    let (mut covered, mut parts) = (BTreeMap::new(), VecDeque::new());
    for bio in left.iter().rev() {
        for Range { start, end } in uncovered(&covered, bio.sector.0..bio.end().0) {
            let (skip, sectors) = ((start - bio.sector.0) as u32, (end - start) as u32);
            parts.push_back(Bio::new(bio.op, Sector(start), sectors, bio.payload.slice(skip, sectors)));
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
