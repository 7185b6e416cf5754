//! Writes that wait behind each other leave as one command.

use super::zone_plug::ZonePlug;
use super::zones::Bit;
use crate::block::{Bio, Cx, Flags, Op, Payload, Priority, Status};
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::ZoneNo;

impl ZonePlug {
    /// Puts `first` and the contiguous writes behind it into one command, as far as the limits go.
    pub(super) fn merge(&mut self, zone: ZoneNo, slot: usize, first: Box<Bio>, cx: &mut Cx<'_>) -> Box<Bio> {
        let end = first.end();
        let fits = self.longest_merge.min(self.zones.capacity_of(zone).saturating_sub(self.zones.offset(first.sector)));
        let mergeable = is_mergeable(&first)
            && self.max_segments > 1
            && self.next_merges(slot, (first.flags, first.priority), end, fits.saturating_sub(first.sectors))
            && self.zones.place(zone, first.op, first.sector, first.sectors).is_ok();
        if !mergeable {
            return first;
        }
        let mut segments = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.max_segments));
        let (sector, flags, since, priority) = (first.sector, first.flags, first.since, first.priority);
        let mut sectors = 0;
        let mut next = Some(first);
        while let Some(mut bio) = next {
            if sectors > 0 {
                cx.merged(&bio);
            }
            sectors += bio.sectors;
            if let Payload::Data(data) = core::mem::take(&mut bio.payload) {
                segments.push(data);
            }
            self.nodes.push(&mut self.slots[slot].riding, bio);
            let more = segments.len() < self.max_segments
                && self.next_merges(slot, (flags, priority), sector + u64::from(sectors), fits - sectors);
            next = if more { self.next_waiting(slot) } else { None };
        }
        self.zones.at_mut(zone).set(Bit::Merged, true);
        let carrier = Bio::new(Op::Write, sector, sectors, Payload::Segments(segments));
        let carrier = carrier.with_flags(flags).with_priority(priority);
        let mut carrier = cx.own_bio(carrier);
        carrier.since = since;
        carrier
    }

    /// True if the next waiting bio continues a write that ends at `end` and has room for `room` sectors more, has its flags and is of its
    /// priority class.
    fn next_merges(&self, slot: usize, kind: (Flags, Priority), end: Sector, room: u32) -> bool {
        let is_next = |next: &Bio| next.sector == end && next.sectors <= room && (next.flags, next.priority) == kind;
        self.nodes.front(&self.slots[slot].waiting).is_some_and(|next| is_mergeable(next) && is_next(next))
    }

    /// Gives a merged write's memory back to the bios it came from, and ends them.
    pub(super) fn unmerge(&mut self, zone: ZoneNo, mut carrier: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        self.zones.at_mut(zone).set(Bit::Merged, false);
        let slot = self.zones.at(zone).slot().expect("a merged write has a slot");
        let Payload::Segments(mut segments) = core::mem::take(&mut carrier.payload) else {
            unreachable!("a device below kept the payload of {carrier:?}")
        };
        for data in segments.drain(..) {
            let mut bio = self.nodes.pop(&mut self.slots[slot].riding).expect("a rider for each segment");
            bio.payload = Payload::Data(data);
            if !status.is_ok() {
                bio.share(&carrier);
            }
            cx.complete(bio, status);
        }
        self.spare.push(segments);
        cx.recycle(carrier);
    }
}

/// Whether a waiting bio may become part of a longer one here: a write.
pub(super) fn is_mergeable(bio: &Bio) -> bool {
    bio.op == Op::Write && carries_plain_data(bio)
}

/// What every merging asks for: one piece of memory, and no flush around it.
pub(super) fn carries_plain_data(bio: &Bio) -> bool {
    let plain = !bio.flags.has(Flags::FUA) && !bio.flags.has(Flags::PREFLUSH);
    plain && matches!(bio.payload, Payload::Data(_))
}
