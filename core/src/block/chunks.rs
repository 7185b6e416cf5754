//! Chunks that go to several devices in turn: the arithmetic of striping.

use core::cmp::Ordering;

use super::bio::Bio;
use super::id::DeviceId;
use crate::prelude::*;
use crate::sector::Sector;

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The device.
    pub device: DeviceId,
    /// Its sector.
    pub sector: Sector,
    /// How many sectors lie there in a row.
    pub room: u64,
}

/// One of the parts that chunks go to in turn.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The device that it lies on.
    pub device: DeviceId,
    /// The first of its sectors.
    pub start: u64,
}

/// Chunks that go to several parts in turn, and where each is (`drivers/md/dm-stripe.c`).
#[derive(Debug)]
pub struct Chunks {
    parts: Box<[Part]>,
    size: Divisor,
    count: Divisor,
}

impl Chunks {
    /// Chunks of `size` sectors that go to `parts` in turn; neither is zero.
    #[must_use]
    pub fn new(size: u32, parts: Box<[Part]>) -> Self {
        Self { size: Divisor::new(size.into()), count: Divisor::new(parts.len() as u64), parts }
    }

    /// The parts, in their order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Sectors of a chunk.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size.by
    }

    /// Where `sector` lies, with the rest of its chunk (`drivers/md/dm-stripe.c:stripe_map_sector`).
    #[inline]
    #[must_use]
    pub fn place(&self, sector: u64) -> Place {
        let (number, within) = self.size.divide(sector);
        let (row, owner) = self.count.divide(number);
        let Part { device, start } = self.parts[owner as usize];
        Place { device, sector: Sector(start + row * self.size.by + within), room: self.size.by - within }
    }

    /// Where `bio` lies, if it lies in one chunk.
    #[inline]
    #[must_use]
    pub fn place_whole(&self, bio: &Bio) -> Option<(DeviceId, Sector)> {
        let Place { device, sector, room } = self.place(bio.sector.0);
        (u64::from(bio.sectors) <= room).then_some((device, sector))
    }

    /// The number of the part that holds `sector`.
    #[must_use]
    pub fn owner(&self, sector: u64) -> usize {
        let (number, _) = self.size.divide(sector);
        self.count.divide(number).1 as usize
    }

    /// How many sectors of part `number` lie before `sector`.
    #[must_use]
    pub fn before(&self, sector: u64, number: usize) -> u64 {
        let (chunks, within) = self.size.divide(sector);
        let (rows, owner) = self.count.divide(chunks);
        let rest = match (number as u64).cmp(&owner) {
            Ordering::Less => self.size.by,
            Ordering::Equal => within,
            Ordering::Greater => 0,
        };
        rows * self.size.by + rest
    }

    /// The sector that is sector `at` of part `number`, and how many follow it in both places.
    #[must_use]
    pub fn above(&self, at: u64, number: usize) -> (u64, u64) {
        let (row, within) = self.size.divide(at);
        let sector = (row * self.count.by + number as u64) * self.size.by + within;
        // Chunks of an only part lie in a row.
        (sector, if self.count.by == 1 { u64::MAX } else { self.size.by - within })
    }
}

/// A divisor that shifts if it is a power of two.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    by: u64,
    shift: Option<u32>,
}

impl Divisor {
    fn new(by: u64) -> Self {
        Self { by, shift: by.is_power_of_two().then(|| by.trailing_zeros()) }
    }

    /// Quotient and remainder.
    #[inline]
    fn divide(self, number: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (number >> shift, number & (self.by - 1)),
            None => (number / self.by, number % self.by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sector by itself, as the manual describes it: chunks go to the parts in turn.
    #[test]
    fn places_and_edges_agree_with_counting_sector_by_sector() {
        for (count, size) in [(1, 4), (2, 4), (3, 4), (4, 1), (3, 5), (5, 7)] {
            let part = |n: u16| Part { device: DeviceId(n), start: 1000 * u64::from(n) };
            let chunks = Chunks::new(size, (0..count).map(part).collect());
            let mut used = alloc::vec![0; count.into()];
            for sector in 0..u64::from(size) * u64::from(count) * 4 {
                let (number, owner) = (sector / u64::from(size), sector / u64::from(size) % u64::from(count));
                for (n, used) in used.iter().enumerate() {
                    assert_eq!(chunks.before(sector, n), *used, "sector {sector}, part {n} of {count} by {size}");
                }
                let room = (number + 1) * u64::from(size) - sector;
                let at = &mut used[owner as usize];
                let wanted = Place { device: DeviceId(owner as u16), sector: Sector(1000 * owner + *at), room };
                assert_eq!((chunks.place(sector), chunks.owner(sector)), (wanted, owner as usize));
                assert_eq!(chunks.above(*at, owner as usize), (sector, if count == 1 { u64::MAX } else { room }));
                *at += 1;
            }
        }
    }
}
