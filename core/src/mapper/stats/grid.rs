//! How a region is divided into areas, and a bio with it.

use core::ops::Range;

use crate::block::Span;

/// The sectors of a region and its areas, all of the same length but perhaps the last.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub start: u64,
    pub length: u64,
    pub step: u64,
    /// 2^64 divided by the step and rounded up, or 0 if there is only one area: a multiplication finds a sector's area, or
    /// next to it.
    scale: u64,
}

impl Grid {
    /// Areas of `step` sectors over `sectors`; neither is empty.
    pub fn new(sectors: Range<u64>, step: u64) -> Grid {
        let length = sectors.end - sectors.start;
        let scale = if length <= step { 0 } else { (u64::MAX / step).wrapping_add(1) };
        Grid { start: sectors.start, length, step, scale }
    }

    /// Its sectors.
    pub fn sectors(&self) -> Range<u64> {
        self.start..self.start + self.length
    }

    /// The number of areas.
    pub fn areas(&self) -> u64 {
        self.length.div_ceil(self.step)
    }

    /// Whether any sector of a bio lies in the region.
    #[inline]
    pub fn touches(&self, bio: &Span) -> bool {
        bio.sector.0 < self.start + self.length && end(bio) > self.start
    }

    /// The area that all sectors of a bio lie in, found without a division: of most bios there is one. `None` says nothing.
    #[inline]
    pub fn around(&self, bio: &Span) -> Option<usize> {
        // Of a bio that begins before the region it is too far away for the region.
        let offset = bio.sector.0.wrapping_sub(self.start);
        let sectors = u64::from(bio.sectors);
        if offset.checked_add(sectors).is_none_or(|end| end > self.length) {
            return None;
        }
        let index = ((u128::from(offset) * u128::from(self.scale)) >> 64) as u64;
        // If that is not its area, the bio lies outside of it.
        let place = offset.wrapping_sub(index.wrapping_mul(self.step));
        (place <= self.step && sectors <= self.step - place).then_some(index as usize)
    }

    /// The parts of a bio that lie in the region: each with its area's index and its sectors, in order.
    pub fn parts(&self, bio: &Span) -> Parts {
        let Range { start, end: own_end } = self.sectors();
        let (at, until) = (bio.sector.0.max(start), end(bio).min(own_end));
        if at >= until {
            return Parts { at: until, until, index: 0, area_end: 0, step: 0 };
        }
        let index = (at - start) / self.step;
        let area_end = (start + index * self.step).saturating_add(self.step);
        Parts { at, until, index: index as usize, area_end, step: self.step }
    }
}

/// The sector after the last one of a bio.
#[inline]
fn end(bio: &Span) -> u64 {
    bio.sector.0.saturating_add(u64::from(bio.sectors))
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
    use crate::block::Op;
    use crate::random::Rng;
    use crate::sector::Sector;
    use std::vec::Vec;

    fn span(bio: Range<u64>) -> Span {
        Span { op: Op::Read, sector: Sector(bio.start), sectors: (bio.end - bio.start) as u32 }
    }

    fn parts(sectors: Range<u64>, step: u64, bio: Range<u64>) -> Vec<(usize, u64)> {
        Grid::new(sectors, step).parts(&span(bio)).collect()
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
        for (step, bio) in [3, 4, 5, 8, 64].into_iter().flat_map(|step| (0..40).map(move |at| (step, at))) {
            for bio in (bio + 1..41).map(|end| bio..end) {
                let parts = parts(10..30, step, bio.clone());
                let whole = parts.first().filter(|(_, sectors)| *sectors == bio.end - bio.start);
                let grid = Grid::new(10..30, step);
                let around = grid.around(&span(bio.clone()));
                assert_eq!(around, whole.map(|(index, _)| *index), "{bio:?} in areas of {step}");
                assert_eq!(grid.touches(&span(bio.clone())), !parts.is_empty(), "{bio:?}");
            }
        }
    }

    #[test]
    fn the_area_around_a_bio_is_never_another_one() {
        let mut rng = Rng::new(5);
        let mut found = 0;
        for _ in 0..200_000 {
            let some = |rng: &mut Rng| 1 + (rng.draw() >> (1 + rng.below(63)));
            let (start, length, step) = (some(&mut rng), some(&mut rng), some(&mut rng));
            let sector = (start - 1).wrapping_add(rng.below(length + 2)).min(u64::MAX - 99);
            let bio = Span { op: Op::Read, sector: Sector(sector), sectors: 1 + rng.below(99) as u32 };
            let grid = Grid::new(start..start.saturating_add(length), step);
            let Some(index) = grid.around(&bio) else { continue };
            assert_eq!(grid.parts(&bio).collect::<Vec<_>>(), [(index, u64::from(bio.sectors))], "{bio:?}");
            found += 1;
        }
        assert!(found > 50_000, "{found} bios had an area around them");
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
        assert_eq!(parts(1..end, 1 << 63, (1 << 63)..(1 << 63) + 9), [(0, 1), (1, 8)]);
    }
}
