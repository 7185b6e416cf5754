//! How a region is divided into areas, and a bio with it.

use core::ops::Range;

/// The sectors of a region and its areas, all of the same length but perhaps the last.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub start: u64,
    pub end: u64,
    pub step: u64,
    /// Finds a sector's area without a division, where the step is a power of two or there is only one area.
    shift: Option<u32>,
}

impl Grid {
    /// Areas of `step` sectors over `sectors`; neither is empty.
    pub fn new(sectors: Range<u64>, step: u64) -> Grid {
        let Range { start, end } = sectors;
        let length = end - start;
        let shift = match step {
            _ if step.is_power_of_two() => Some(step.ilog2()),
            _ if length <= step => length.checked_next_power_of_two().map(u64::ilog2),
            _ => None,
        };
        Grid { start, end, step, shift }
    }

    /// The number of areas.
    pub fn areas(&self) -> u64 {
        (self.end - self.start).div_ceil(self.step)
    }

    /// Whether any sector of a bio lies in the region.
    #[inline]
    pub fn touches(&self, bio: &Range<u64>) -> bool {
        bio.start < self.end && bio.end > self.start
    }

    /// The area that all sectors of a bio lie in, if there is one: of most bios there is.
    #[inline]
    pub fn around(&self, bio: &Range<u64>) -> Option<usize> {
        if bio.start < self.start || bio.end > self.end {
            return None;
        }
        let offset = bio.start - self.start;
        let index = self.index(offset);
        (offset - index * self.step + (bio.end - bio.start) <= self.step).then_some(index as usize)
    }

    /// The parts of a bio that lie in the region: each with its area's index and its sectors, in order.
    pub fn parts(&self, bio: &Range<u64>) -> Parts {
        let (at, until) = (bio.start.max(self.start), bio.end.min(self.end));
        let index = self.index(at.min(self.end - 1) - self.start);
        let area_end = (self.start + index * self.step).saturating_add(self.step);
        Parts { at, until, index: index as usize, area_end, step: self.step }
    }

    /// The area of the sector at `offset`.
    #[inline]
    fn index(&self, offset: u64) -> u64 {
        match self.shift {
            Some(shift) => offset >> shift,
            None => offset / self.step,
        }
    }
}

/// See [`Grid::parts`].
pub(super) struct Parts {
    at: u64,
    until: u64,
    index: usize,
    area_end: u64,
    step: u64,
}

impl Iterator for Parts {
    type Item = (usize, u64);

    #[inline]
    fn next(&mut self) -> Option<(usize, u64)> {
        if self.at >= self.until {
            return None;
        }
        let end = self.until.min(self.area_end);
        let part = (self.index, end - self.at);
        (self.at, self.index, self.area_end) = (end, self.index + 1, self.area_end.saturating_add(self.step));
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn parts(sectors: Range<u64>, step: u64, bio: Range<u64>) -> Vec<(usize, u64)> {
        Grid::new(sectors, step).parts(&bio).collect()
    }

    #[test]
    fn a_bio_is_cut_where_areas_end_whatever_the_step() {
        for step in [4, 5] {
            let whole = parts(10..30, step, 10..30);
            let lengths: Vec<u64> = whole.iter().map(|part| part.1).collect();
            assert_eq!(lengths, std::vec![step; 20 / step as usize], "areas of {step}");
        }
        assert_eq!(parts(10..30, 4, 13..19), [(0, 1), (1, 4), (2, 1)]);
        assert_eq!(parts(10..30, 8, 25..30), [(1, 1), (2, 4)], "the last area is short");
        assert_eq!(parts(10..30, 64, 12..14), [(0, 2)]);
    }

    #[test]
    fn an_area_is_around_a_bio_if_no_part_of_it_lies_elsewhere() {
        for (step, bio) in [4, 5, 8, 64].into_iter().flat_map(|step| (0..40).map(move |at| (step, at))) {
            for bio in (bio + 1..41).map(|end| bio..end) {
                let parts = parts(10..30, step, bio.clone());
                let whole = parts.first().filter(|(_, sectors)| *sectors == bio.end - bio.start);
                let grid = Grid::new(10..30, step);
                assert_eq!(grid.around(&bio), whole.map(|(index, _)| *index), "{bio:?} in areas of {step}");
                assert_eq!(grid.touches(&bio), !parts.is_empty(), "{bio:?}");
            }
        }
    }

    #[test]
    fn what_lies_outside_of_a_region_is_no_part_of_it() {
        assert_eq!(parts(10..30, 16, 0..100), [(0, 16), (1, 4)]);
        assert_eq!(parts(10..30, 16, 0..11), [(0, 1)]);
        assert_eq!(parts(10..30, 16, 29..31), [(1, 1)]);
        assert_eq!(parts(10..30, 16, 0..10), []);
        assert_eq!(parts(10..30, 16, 30..31), []);
    }

    #[test]
    fn sectors_at_the_very_end_of_64_bits_do_not_overflow() {
        let end = u64::MAX;
        assert_eq!(parts(end - 10..end, 8, end - 3..end), [(0, 1), (1, 2)]);
        assert_eq!(parts(0..end, end, end - 3..end), [(0, 3)]);
        assert_eq!(parts(1..end, 1 << 63, 0..end), [(0, 1 << 63), (1, (1 << 63) - 2)]);
    }
}
