//! Whose turn it is at a disk that is given one zone write at a time.
//!
//! ```text
//!   write to an idle zone ──> disk free? yes ──────────────────────────────> disk
//!                                 no: the zone gets in line                   │
//!                                      │  next zone: chosen by the policy <───┤ done
//!                                      └────────────> disk                    │
//!   the zone that had the disk, if it has more to write, is in line again <───┘
//! ```
//!
//! A zone in line is busy, has nothing in flight, and its first bio is a write. Reads, flushes, conventional writes, zone
//! management and native appends do not ask for the disk. Whenever a call returns, the line is empty or the disk is taken:
//! nobody has to be woken (`block/blk-zoned.c:disk_zone_wplugs_worker` sleeps, and needs care not to miss its alarm).

use alloc::collections::VecDeque;

use super::policy::WritePolicy;
use super::queue::Phase;
use super::zone_plug::ZonePlug;
use crate::block::{Bio, Cx};
use crate::zone::ZoneNo;

/// Whether a zone that goes on has the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has not: it may send what does not need the disk.
    Not,
    /// It has, for one write.
    Has,
}

/// The line in front of the disk, and who is through.
pub(super) struct Turns {
    /// Whether writes take turns at all; if not, nothing else here is used.
    pub(super) wanted: bool,
    /// Slots of zones that wait for the disk, in the order in which they got in line.
    pub(super) line: VecDeque<u32>,
    /// The zone that wrote last.
    at_hand: Option<ZoneNo>,
    /// Writes in flight: one or none.
    pub(super) in_flight: u32,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { wanted: false, line: VecDeque::with_capacity(256), at_hand: None, in_flight: 0 }
    }

    /// Whether the disk has a write in flight.
    pub(super) fn is_taken(&self) -> bool {
        self.in_flight > 0
    }

    /// A write to `zone` goes to the disk.
    #[inline]
    pub(super) fn take(&mut self, zone: ZoneNo) {
        if self.wanted {
            self.in_flight += 1;
            self.at_hand = Some(zone);
        }
    }

    /// The write in flight is done.
    #[inline]
    pub(super) fn give_back(&mut self) {
        if self.wanted {
            self.in_flight -= 1;
        }
    }
}

impl ZonePlug {
    /// Whether `bio` may only go to the disk when no other zone write is there.
    #[inline]
    pub(super) fn needs_turn(&self, bio: &Bio) -> bool {
        self.turns.wanted && bio.op.writes_data() && !self.is_native_append(bio)
    }

    /// Puts a zone whose first bio needs the disk in line.
    pub(super) fn list(&mut self, slot: usize) {
        self.slots[slot].phase = Phase::Listed;
        self.turns.line.push_back(slot as u32);
    }

    /// Gives the disk to one zone after the other until one of them has a write that may go.
    pub(super) fn pass_turn(&mut self, cx: &mut Cx<'_>) {
        while !self.turns.is_taken()
            && let Some(place) = self.choose_turn()
        {
            let slot = self.turns.line.remove(place).expect("the choice is in line") as usize;
            self.slots[slot].phase = Phase::InFlight;
            self.proceed(self.slots[slot].zone, Turn::Has, cx);
        }
    }

    /// The place in line of the zone that is next.
    fn choose_turn(&self) -> Option<usize> {
        debug_assert_eq!(self.policy(), WritePolicy::Qd1);
        let last = self.turns.line.len().checked_sub(1)?;
        let drains = self.turns.at_hand == Some(self.slots[self.turns.line[last] as usize].zone);
        Some(if drains { last } else { 0 })
    }
}
