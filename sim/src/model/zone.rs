//! What the model knows of a zone.

use alloc::vec;
use alloc::vec::Vec;

use super::Seen;
use super::words::ZoneShape;
use crate::history::{Candidate, History};
use shingle_core::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Unwritten,
    Zeroes,
    Data(u64, u32),
}

impl Value {
    pub fn looks(self) -> Seen {
        match self {
            Value::Unwritten | Value::Zeroes => Seen::Zeroes,
            Value::Data(request, sector) => Seen::Data(request, sector),
        }
    }
}

/// What makes a zone empty or full in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Reset,
    Finish,
}

#[derive(Default)]
pub(crate) struct ZoneModel {
    /// Whether it is written at a pointer.
    pub sequential: bool,
    /// Sectors that can be written.
    pub capacity: u32,
    pub write_cache: bool,
    pub disks: u32,
    pub cells: Vec<History<Value>>,
    /// Appends that are in flight or failed: nobody knows where they landed.
    pub strays: Vec<Candidate<u64>>,
    pub marks: History<Mark>,
    /// Acknowledged resets, by submission.
    pub resets: Vec<u64>,
    /// Where the pointer was after the request `base`.
    pub pointer: u32,
    pub base: u64,
    /// Ends of acknowledged writes, by submission, since the zone was last quiet.
    pub ends: Vec<(u64, u32)>,
    /// The last request after which nobody knows where the pointer is.
    pub doubt: Option<u64>,
    /// The last request that told where it is: those submitted before may have met the doubt, however late that is told.
    pub doubted_until: u64,
    /// Whether a plug that has not heard where the pointer is may refuse writes.
    pub is_unheard: bool,
    /// When something last failed in it.
    pub failed_at: Option<Instant>,
    /// Requests in flight that touch the zone at some time of their own.
    pub loose: u32,
    /// Requests in flight that change it.
    pub in_flight: u32,
    pub last_change: u64,
    pub faults_seen: u64,
    /// Whether it was reported as read-only or offline.
    pub failed: bool,
    /// Where the next write goes if all that is in flight succeeds.
    pub planned: u32,
}

impl ZoneModel {
    pub fn new(shape: &ZoneShape) -> Self {
        Self {
            sequential: shape.sequential,
            capacity: shape.capacity,
            write_cache: shape.write_cache,
            disks: shape.disks,
            cells: vec![History::certain(Value::Unwritten); shape.len as usize],
            marks: History::certain(Mark::Reset),
            ..Self::default()
        }
    }

    /// Whether what happens to it happens in parts.
    pub fn is_wide(&self) -> bool {
        !self.disks.is_power_of_two()
    }

    /// Whether something failed in it and nothing has told since where its pointer is.
    pub fn is_doubted(&self) -> bool {
        self.doubt.is_some() || self.loose > 0
    }

    pub fn is_quiet_since(&self, from: u64) -> bool {
        self.in_flight == 0 && self.last_change < from
    }

    pub fn pointer(&self) -> u32 {
        self.ends.iter().map(|(_, end)| *end).fold(self.pointer, u32::max)
    }

    /// The request submitted at `from` ended at `now`, and nobody knows what it did.
    pub fn end(&mut self, from: u64, now: u64) {
        self.cells.iter_mut().for_each(|cell| cell.end(from, now));
        self.marks.end(from, now);
        self.strays.iter_mut().filter(|stray| stray.from == from).for_each(|stray| stray.until = now);
    }

    /// Nobody knows where the request submitted at `from` has left the pointer.
    pub fn lose_pointer(&mut self, from: u64) {
        if self.sequential && from > self.base {
            self.doubt = self.doubt.max(Some(from));
        }
    }

    /// What a request that sets the pointer leaves of older knowledge.
    pub fn rebase(&mut self, from: u64, pointer: u32) {
        if from > self.base {
            (self.base, self.pointer) = (from, pointer);
            self.ends.retain(|(of, _)| *of > from);
        }
        if self.doubt.is_some_and(|doubt| doubt <= from) {
            (self.doubt, self.doubted_until) = (None, from);
        }
    }
}
