//! Wide zones: the zones with one number of all stripes, as one. Pure functions; `docs/targets/striped.md` says why they
//! are as they are.

use crate::block::Chunks;
use crate::sector::Sector;
use crate::zone::{Condition, Zone};

/// Sectors of each part's zone that take part in a wide zone: the least capacity, rounded down to chunks.
pub(super) fn depth(chunks: &Chunks, parts: &[Zone]) -> u64 {
    let least = parts.iter().map(|zone| zone.capacity).min().unwrap_or(0);
    least - least % chunks.size()
}

/// The wide zone at `start` whose parts are `parts`, one of each stripe.
///
/// Its write pointer is known if the parts hold a prefix of its chunks. If they do not it is torn: a zone that is full, as
/// nothing can be written that would keep it in order.
pub(super) fn widen(chunks: &Chunks, start: Sector, parts: &[Zone]) -> Zone {
    let (depth, len) = (depth(chunks, parts), parts.iter().map(|zone| zone.len).sum::<u64>());
    let capacity = depth * parts.len() as u64;
    let written = parts.iter().map(|zone| written(zone, depth));
    let total: u64 = written.clone().sum();
    let in_order = written.enumerate().all(|(number, sectors)| sectors == chunks.before(total, number));
    let has = |cond| parts.iter().any(|zone| zone.cond == cond);
    let (cond, wp) = match () {
        () if has(Condition::NotWp) => (Condition::NotWp, start),
        () if has(Condition::Offline) => (Condition::Offline, start),
        () if has(Condition::ReadOnly) => (Condition::ReadOnly, start),
        () if !in_order || total >= capacity => (Condition::Full, start + len),
        // It holds a resource for as long as one of its parts does.
        () if has(Condition::ExplicitOpen) => (Condition::ExplicitOpen, start + total),
        () if has(Condition::ImplicitOpen) => (Condition::ImplicitOpen, start + total),
        () if total == 0 => (Condition::Empty, start),
        () => (Condition::Closed, start + total),
    };
    Zone { start, len, capacity, wp, kind: parts[0].kind, cond }
}

/// How much of the first `depth` sectors of a part's zone is written.
fn written(zone: &Zone, depth: u64) -> u64 {
    match zone.cond {
        Condition::Full => depth,
        cond if cond.has_write_pointer() => zone.wp - zone.start,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::block::{DeviceId, Part};
    use crate::prelude::*;
    use crate::zone::ZoneKind;

    /// Chunks of 8 sectors on two disks.
    fn chunks() -> Chunks {
        Chunks::new(8, [0, 1].map(|n| Part { device: DeviceId(n), start: 0 }).into())
    }

    /// Zones of 64 sectors with these capacities, conditions and offsets of the write pointer.
    fn zones(parts: [(u64, Condition, u64); 2]) -> Vec<Zone> {
        let zone = |(capacity, cond, offset)| {
            let (start, wp) = (Sector(640), Sector(640 + offset));
            Zone { start, len: 64, capacity, wp, kind: ZoneKind::Sequential, cond }
        };
        parts.map(zone).to_vec()
    }

    #[test]
    fn parts_that_hold_a_prefix_of_the_chunks_give_the_write_pointer() {
        use Condition::*;
        for (parts, cond, offset) in [
            ([(64, Empty, 0), (64, Empty, 0)], Empty, 0),
            ([(64, ImplicitOpen, 3), (64, Empty, 0)], ImplicitOpen, 3),
            ([(64, Closed, 8), (64, Empty, 0)], Closed, 8),
            ([(64, Closed, 8), (64, ImplicitOpen, 5)], ImplicitOpen, 13),
            ([(64, Closed, 16), (64, Closed, 8)], Closed, 24),
            ([(64, ExplicitOpen, 0), (64, ExplicitOpen, 0)], ExplicitOpen, 0),
            ([(64, Full, 64), (64, ExplicitOpen, 56)], ExplicitOpen, 120),
            ([(64, Full, 64), (64, Full, 64)], Full, 128),
            // A part that has more than takes part is full for the wide zone before it is full itself.
            ([(60, Closed, 56), (58, Closed, 56)], Full, 128),
            ([(60, Closed, 56), (58, Closed, 48)], Closed, 104),
        ] {
            let wide = widen(&chunks(), Sector(1280), &zones(parts));
            assert_eq!((wide.cond, wide.wp.0 - 1280), (cond, offset), "{parts:?}");
            assert_eq!((wide.len, wide.capacity), (128, if parts[0].0 == 64 { 128 } else { 112 }));
        }
    }

    #[test]
    fn parts_out_of_line_are_full_and_failed_ones_fail_the_whole() {
        use Condition::*;
        for (parts, cond) in [
            ([(64, Empty, 0), (64, Closed, 8)], Full),
            ([(64, Closed, 7), (64, Closed, 1)], Full),
            ([(64, Closed, 24), (64, Closed, 8)], Full),
            ([(64, Full, 64), (64, Closed, 8)], Full),
            ([(60, Closed, 58), (58, Closed, 56)], Full),
            ([(64, ReadOnly, 0), (64, Closed, 8)], ReadOnly),
            ([(64, ReadOnly, 0), (64, Offline, 0)], Offline),
            ([(64, NotWp, 0), (64, NotWp, 0)], NotWp),
        ] {
            assert_eq!(widen(&chunks(), Sector(0), &zones(parts)).cond, cond, "{parts:?}");
        }
    }
}
