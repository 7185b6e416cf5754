//! `base:allocation` of a zoned device: what a zone report says about holes.

use core::ops::Range;

use alloc::vec::Vec;

use super::wire::state;
use crate::sector::Sector;
use crate::zone::{Condition, Zone, ZoneKind};

/// A run of bytes in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub length: u64,
    pub state: u32,
}

/// Nothing is known, or it is allocated.
pub const ALLOCATED: u32 = 0;
/// Reads as zeroes and holds no data.
const UNWRITTEN: u32 = state::HOLE | state::ZERO;

/// Appends the extents of byte range `wanted` that `zones` tell of: neighbours differ, the first begins at the start of the
/// range, the last ends with the range or with the last zone.
pub fn extents(zones: &[Zone], wanted: Range<u64>, out: &mut Vec<Extent>) {
    let mut at = wanted.start;
    for zone in zones {
        let end = zone.start + zone.len;
        for (end, state) in [(data_end(zone), ALLOCATED), (end, UNWRITTEN)] {
            let end = end.bytes().min(wanted.end);
            if end <= at {
                continue;
            }
            match out.last_mut() {
                Some(last) if last.state == state => last.length += end - at,
                _ => out.push(Extent { length: end - at, state }),
            }
            at = end;
        }
    }
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
        extents(zones, sectors.start * 512..sectors.end * 512, &mut out);
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
