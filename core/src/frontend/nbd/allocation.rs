//! `base:allocation`: what is known of holes. Of a zoned device a zone report tells it, of others the stack does.

use core::ops::Range;

use super::wire::state;
use crate::block::Extent;
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};
use crate::zone::{Condition, Zone, ZoneKind};

/// A run of bytes in one state ("NBD_REPLY_TYPE_BLOCK_STATUS").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub length: u64,
    pub state: u32,
}

/// Nothing is known, or it is allocated.
pub const ALLOCATED: u32 = 0;
/// Reads as zeroes and holds no data.
const UNWRITTEN: u32 = state::HOLE | state::ZERO;

/// Appends what `runs`, each an end and whether it is a hole, tell of the byte range `wanted`: neighbours differ, the first
/// descriptor begins at the start of the range, the last ends with the range or with the last run.
pub fn describe(runs: impl Iterator<Item = (Sector, bool)>, wanted: Range<u64>, out: &mut Vec<Descriptor>) {
    let mut at = wanted.start;
    for (end, is_hole) in runs {
        let end = end.bytes().min(wanted.end);
        if end <= at {
            continue;
        }
        let state = if is_hole { UNWRITTEN } else { ALLOCATED };
        match out.last_mut() {
            Some(last) if last.state == state => last.length += end - at,
            _ => out.push(Descriptor { length: end - at, state }),
        }
        at = end;
    }
}

/// What a report says: in each zone data, and a hole behind it.
pub fn of_zones(zones: &[Zone]) -> impl Iterator<Item = (Sector, bool)> {
    zones.iter().flat_map(|zone| [(data_end(zone), false), (zone.start + zone.len, true)])
}

/// What extents from the sector that holds byte `from` say.
pub fn of_extents(from: u64, extents: &[Extent]) -> impl Iterator<Item = (Sector, bool)> {
    extents.iter().scan(Sector(from / u64::from(SECTOR_BYTES)), |at, extent| {
        *at += extent.sectors;
        Some((*at, extent.is_hole))
    })
}

/// The sector from which on nothing was written to `zone`; its end where that is not known.
fn data_end(zone: &Zone) -> Sector {
    let end = zone.start + zone.len;
    match zone.cond {
        _ if zone.kind == ZoneKind::Conventional => end,
        // What a report says of their write pointer means nothing.
        Condition::NotWp | Condition::ReadOnly | Condition::Offline => end,
        Condition::Full => (zone.start + zone.capacity).min(end),
        Condition::Empty => zone.start,
        Condition::ImplicitOpen | Condition::ExplicitOpen | Condition::Closed => zone.wp.max(zone.start).min(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(number: u64, kind: ZoneKind, cond: Condition, written: u64) -> Zone {
        let start = Sector(number * 128);
        Zone { start, len: 128, capacity: 96, wp: start + written, kind, cond }
    }

    fn sequential(number: u64, cond: Condition, written: u64) -> Zone {
        zone(number, ZoneKind::Sequential, cond, written)
    }

    fn of(zones: &[Zone], sectors: Range<u64>) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        describe(of_zones(zones), sectors.start * 512..sectors.end * 512, &mut out);
        out.iter().map(|e| (e.length / 512, e.state)).collect()
    }

    #[test]
    fn what_lies_behind_a_write_pointer_is_a_hole_that_reads_as_zeroes() {
        let zones = [sequential(0, Condition::Closed, 8), sequential(1, Condition::ImplicitOpen, 16)];
        let expected = [(8, ALLOCATED), (120, UNWRITTEN), (16, ALLOCATED), (112, UNWRITTEN)];
        assert_eq!(of(&zones, 0..256), expected);
    }

    #[test]
    fn neighbours_of_one_state_are_one_extent() {
        let zones = [
            zone(0, ZoneKind::Conventional, Condition::NotWp, 0),
            sequential(1, Condition::Full, 128),
            sequential(2, Condition::Empty, 0),
            sequential(3, Condition::Empty, 0),
        ];
        assert_eq!(of(&zones, 0..512), [(128 + 96, ALLOCATED), (32 + 256, UNWRITTEN)]);
    }

    #[test]
    fn extents_begin_and_end_with_the_range_that_was_asked_for() {
        let zones = [sequential(0, Condition::Closed, 64), sequential(1, Condition::Empty, 0)];
        assert_eq!(of(&zones, 32..200), [(32, ALLOCATED), (136, UNWRITTEN)]);
        assert_eq!(of(&zones, 70..80), [(10, UNWRITTEN)]);
        assert_eq!(of(&zones, 130..131), [(1, UNWRITTEN)]);
    }

    #[test]
    fn a_zone_whose_write_pointer_means_nothing_counts_as_allocated() {
        for cond in [Condition::ReadOnly, Condition::Offline, Condition::NotWp] {
            assert_eq!(of(&[sequential(0, cond, 0)], 0..128), [(128, ALLOCATED)], "{cond:?}");
        }
        let absurd = Zone { wp: Sector(9999), ..sequential(0, Condition::Closed, 0) };
        assert_eq!(of(&[absurd], 0..128), [(128, ALLOCATED)], "a write pointer outside of its zone");
    }
}
