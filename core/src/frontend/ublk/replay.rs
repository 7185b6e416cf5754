//! What a killed server has left is written again.

use alloc::collections::VecDeque;
use core::ops::Range;

use super::session::{Next, REPLAYED};
use crate::block::{Bio, Op, Payload, Status};
use crate::prelude::*;
use crate::sector::Sector;

/// Most writes at once.
const AT_ONCE: usize = 32;

/// Writes that are written again in their order, wherever they overlap, then flushed.
pub(super) struct Replay {
    left: VecDeque<Bio>,
    under_way: Vec<(u64, Range<u64>)>,
    words: u64,
    is_flushing: bool,
    failure: Option<Status>,
}

impl Replay {
    pub fn new(left: Vec<Bio>, next: &mut VecDeque<Next>) -> Self {
        let mut new =
            Self { left: left.into(), under_way: Vec::new(), words: REPLAYED, is_flushing: false, failure: None };
        new.go_on(next);
        new
    }

    /// Why it is given up.
    pub fn failure(&self) -> Option<Status> {
        self.failure
    }

    /// Takes in a completion. Whether everything is written and flushed.
    pub fn handle_completion(&mut self, word: u64, bio: &Bio, status: Status, next: &mut VecDeque<Next>) -> bool {
        self.under_way.retain(|(other, _)| *other != word);
        if !status.is_ok() {
            self.failure = Some(self.failure.unwrap_or(status));
        }
        if bio.op == Op::Flush {
            return self.failure.is_none();
        }
        self.go_on(next);
        false
    }

    fn go_on(&mut self, next: &mut VecDeque<Next>) {
        while self.failure.is_none()
            && self.under_way.len() < AT_ONCE
            && let Some(bio) = self.left.pop_front_if(|bio| !overlaps(&self.under_way, bio))
        {
            self.words += 1;
            self.under_way.push((self.words, bio.sector.0..bio.end().0));
            next.push_back(Next::Submit(self.words, Box::new(bio)));
        }
        if self.left.is_empty() && self.under_way.is_empty() && self.failure.is_none() && !self.is_flushing {
            self.is_flushing = true;
            let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            next.push_back(Next::Submit(REPLAYED, Box::new(flush)));
        }
    }
}

fn overlaps(under_way: &[(u64, Range<u64>)], bio: &Bio) -> bool {
    under_way.iter().any(|(_, range)| bio.sector.0 < range.end && range.start < bio.end().0)
}
