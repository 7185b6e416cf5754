//! Sectors of a medium that cannot be read or written.

use core::ops::Range;

use crate::prelude::*;
use crate::sector::Sector;

/// A set of bad sectors, as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadBlocks {
    /// In order, apart from each other.
    ranges: Vec<Range<u64>>,
}

impl BadBlocks {
    /// Whether all sectors are good.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Makes `range` bad.
    pub fn add(&mut self, range: Range<Sector>) {
        let (mut start, mut end) = (range.start.0, range.end.0);
        if start >= end {
            return;
        }
        self.ranges.retain(|old| {
            let touches = old.start <= end && start <= old.end;
            if touches {
                (start, end) = (start.min(old.start), end.max(old.end));
            }
            !touches
        });
        let place = self.ranges.partition_point(|old| old.start < start);
        self.ranges.insert(place, start..end);
    }

    /// Makes `range` good.
    pub fn remove(&mut self, range: Range<Sector>) {
        let (start, end) = (range.start.0, range.end.0);
        let left = |old: &Range<u64>| old.start..old.end.min(start);
        let right = |old: &Range<u64>| old.start.max(end)..old.end;
        let cut = |old: &Range<u64>| if start < end { [left(old), right(old)] } else { [old.clone(), 0..0] };
        self.ranges = self.ranges.iter().flat_map(cut).filter(|part| !part.is_empty()).collect();
    }

    /// The first range of bad sectors, whole, that touches `sectors` at `at`.
    #[must_use]
    pub fn first_in(&self, at: Sector, sectors: u32) -> Option<Range<Sector>> {
        let end = at.0.saturating_add(sectors.into());
        let first = self.ranges.partition_point(|bad| bad.end <= at.0);
        self.ranges.get(first).filter(|bad| bad.start < end).map(|bad| Sector(bad.start)..Sector(bad.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    fn range(start: u64, end: u64) -> Range<Sector> {
        Sector(start)..Sector(end)
    }

    #[test]
    fn ranges_that_touch_become_one_and_removal_cuts_them() {
        let mut bad = BadBlocks::default();
        [range(10, 12), range(14, 16), range(12, 14), range(20, 20)].into_iter().for_each(|r| bad.add(r));
        assert_eq!(bad.first_in(Sector(0), 11), Some(range(10, 16)));
        assert_eq!(bad.first_in(Sector(0), 10), None);
        bad.remove(range(12, 13));
        assert_eq!(bad.first_in(Sector(12), 1), None);
        assert_eq!(bad.first_in(Sector(12), 9), Some(range(13, 16)));
        bad.remove(range(0, 100));
        assert!(bad.is_empty());
    }

    #[test]
    fn it_is_the_set_of_what_was_added_and_not_removed() {
        let (mut bad, mut model, mut seed) = (BadBlocks::default(), BTreeSet::new(), 42_u64);
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (start, len) = (seed >> 58, seed >> 54 & 7);
            if seed >> 53 & 1 == 0 {
                bad.add(range(start, start + len));
                model.extend(start..start + len);
            } else {
                bad.remove(range(start, start + len));
                model.retain(|s| !(start..start + len).contains(s));
            }
            for at in 0..72 {
                let expected = (at..at + 4).find(|s| model.contains(s));
                let found = bad.first_in(Sector(at), 4).map(|r| r.start.0.max(at));
                assert_eq!(found, expected, "4 sectors at {at}");
            }
        }
    }
}
