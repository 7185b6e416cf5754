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

use super::elevator::{Candidate, Choice, Head, choose_next_zone};
use super::policy::WritePolicy;
use super::queue::WaitsFor;
use super::zone_plug::ZonePlug;
use crate::block::{Bio, Cx};
use crate::sector::Sector;
use crate::time::Instant;
use crate::zone::ZoneNo;

/// Whether a zone that goes on has the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskTurn {
    /// It has not: it may send what does not need the disk.
    Not,
    /// It has, for one write.
    Has,
}

/// The line in front of the disk, and who is through.
pub(super) struct DiskQueue {
    /// Whether writes take turns at all; if not, nothing else here is used.
    pub(super) wanted: bool,
    /// Slots of zones that wait for the disk, in the order in which they got in line.
    pub(super) line: VecDeque<u32>,
    /// The zone that wrote last.
    at_hand: Option<ZoneNo>,
    /// Where that left the head.
    head: Head,
    /// Writes in flight: one or none.
    pub(super) in_flight: u32,
    /// Whether the zone at hand keeps the disk although it has nothing in flight: it is held for more.
    pub(super) reserved: bool,
}

impl DiskQueue {
    /// The line in front of a disk of `capacity` sectors.
    pub(super) fn new(capacity: u64) -> Self {
        let head = Head { sector: Sector::ZERO, capacity, batch_sectors: 0, batch_since: Instant::ZERO };
        Self { wanted: false, line: VecDeque::with_capacity(256), at_hand: None, head, in_flight: 0, reserved: false }
    }

    /// Whether the disk has a write in flight, or a zone keeps it for a moment.
    pub(super) fn is_taken(&self) -> bool {
        self.in_flight > 0 || self.reserved
    }

    /// A write to `zone` goes to the disk.
    #[inline]
    pub(super) fn take(&mut self, zone: ZoneNo, write: &Bio, now: Instant) {
        if !self.wanted {
            return;
        }
        self.in_flight += 1;
        if self.at_hand != Some(zone) {
            self.begin_batch(zone, now);
        }
        self.head.sector = write.end();
        self.head.batch_sectors += u64::from(write.sectors);
    }

    fn begin_batch(&mut self, zone: ZoneNo, now: Instant) {
        self.at_hand = Some(zone);
        (self.head.batch_sectors, self.head.batch_since) = (0, now);
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
        self.disk_queue.wanted && bio.op.writes_data() && !self.is_native_append(bio)
    }

    /// Puts a zone whose first bio needs the disk in line.
    pub(super) fn list(&mut self, slot: usize) {
        self.slots[slot].waits_for = WaitsFor::Listed;
        self.disk_queue.line.push_back(slot as u32);
    }

    /// Gives the disk to one zone after the other until one of them has a write that may go.
    pub(super) fn pass_turn(&mut self, cx: &mut Cx<'_>) {
        while !self.disk_queue.is_taken()
            && let Some(choice) = self.choose_turn(cx.now())
        {
            let slot = self.disk_queue.line.remove(choice.place).expect("the choice is in line") as usize;
            let zone = self.slots[slot].zone;
            self.slots[slot].waits_for = WaitsFor::InFlight;
            if !choice.goes_on {
                self.disk_queue.begin_batch(zone, cx.now());
            }
            self.proceed(zone, DiskTurn::Has, cx);
        }
    }

    /// The place in line of the zone that is next.
    fn choose_turn(&self, now: Instant) -> Option<Choice> {
        let DiskQueue { line, head, at_hand, .. } = &self.disk_queue;
        if self.policy() == WritePolicy::Elevator {
            return choose_next_zone(line.iter().map(|slot| self.candidate(*slot)), head, now, &self.options.elevator);
        }
        // A zone that is being drained has just got in line again, so it is the last.
        let last = line.len().checked_sub(1)?;
        let drains = *at_hand == Some(self.slots[line[last] as usize].zone);
        Some(Choice { place: if drains { last } else { 0 }, goes_on: drains })
    }

    fn candidate(&self, slot: u32) -> Candidate {
        let slot = &self.slots[slot as usize];
        let oldest = self.nodes.front(&slot.waiting).map_or(Instant::ZERO, |bio| bio.since);
        let sector = self.zones.start(slot.zone) + u64::from(self.zones.at(slot.zone).wp);
        let at_hand = self.disk_queue.at_hand == Some(slot.zone);
        Candidate { at_hand, sector, queued_sectors: slot.sectors, oldest }
    }

    /// Whether the zone at hand may have the disk for longer, whoever waits.
    pub(super) fn may_go_on(&self, now: Instant) -> bool {
        !self.disk_queue.wanted || self.disk_queue.head.has_batch_left(now, &self.options.elevator)
    }
}
