//! Which ranges of blocks are worth writing in order: those that somebody read in order and that lie scattered.

use alloc::collections::BTreeSet;

use super::readers::{Readers, follows};
use crate::dm::stl::{Lba, Pba};

/// Most ranges that are kept in mind.
const MOST_RANGES: usize = 4096;
/// Pieces of a range that are few enough: a disk reads 1 MiB in half the time that it takes to come to another.
const BLOCKS_OF_PIECE: u64 = 256;

/// Somebody who reads in order. Reads that are sent together may be answered in any order.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// The first block that was read, and where it lies.
    start: (Lba, Pba),
    /// Behind the last one.
    end: (Lba, Pba),
}

/// What was read in order of a range.
#[derive(Clone, Copy, Debug)]
struct Share {
    number: u64,
    blocks: u64,
    pieces: u64,
}

/// What is known of ranges.
#[derive(Clone, Debug)]
pub struct Scattered {
    /// Blocks of a range.
    length: u64,
    readers: Readers<Reader>,
    /// Ranges that are being read.
    shares: Readers<Share>,
    /// Ranges that are worth it, by number.
    ranges: BTreeSet<u64>,
}

impl Scattered {
    /// Ranges of so many blocks.
    #[must_use]
    pub fn new(length: u32) -> Self {
        let (readers, shares) = (Readers::default(), Readers::default());
        Self { length: length.max(1).into(), readers, shares, ranges: BTreeSet::new() }
    }

    /// Somebody reads `blocks` from `lba` on, which lie in a row from `place` on.
    pub fn note(&mut self, lba: Lba, blocks: u32, place: Pba) {
        let (start, end) = ((lba, place), (lba + u64::from(blocks), place + u64::from(blocks)));
        let before = self.readers.take(|reader| reader.end.0 == lba);
        let behind = self.readers.take(|reader| reader.start.0 == end.0);
        let is_piece = match (before, behind) {
            (Some(reader), _) => !follows(reader.end.1, place),
            (None, Some(reader)) => !follows(end.1, reader.start.1),
            (None, None) => return self.readers.put(Reader { start, end }),
        };
        let start = before.map_or(start, |reader| reader.start);
        self.readers.put(Reader { start, end: behind.map_or(end, |reader| reader.end) });
        self.count(lba.0 / self.length, blocks.into(), is_piece);
    }

    /// More was read of a range. One of which most was read in order, in many pieces, is worth it.
    fn count(&mut self, number: u64, blocks: u64, is_piece: bool) {
        let known = self.shares.take(|share| share.number == number);
        let mut share = known.unwrap_or(Share { number, blocks: 0, pieces: 1 });
        share.blocks += blocks;
        share.pieces += u64::from(is_piece);
        let is_read = share.blocks * 4 >= self.length * 3;
        let is_scattered = share.pieces > 1 + share.blocks / BLOCKS_OF_PIECE.min(self.length / 2).max(1);
        if is_read && is_scattered && self.ranges.len() < MOST_RANGES {
            self.ranges.insert(number);
        }
        if share.blocks < self.length {
            self.shares.put(share);
        }
    }

    /// Takes a range that is worth it: its first block, and that behind its last.
    pub fn take(&mut self) -> Option<(Lba, Lba)> {
        let number = self.ranges.pop_first()?;
        // How it lay tells nothing of how it will lie.
        let _ = self.shares.take(|share| share.number == number);
        Some((Lba(number * self.length), Lba((number + 1) * self.length)))
    }

    /// It was not done: it is still worth it.
    pub fn put_back(&mut self, start: Lba) {
        self.ranges.insert(start.0 / self.length);
    }

    /// Ranges that are worth it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::READERS;
    use super::*;
    use crate::random::Rng;

    /// Reads range `number` in parts of 32 blocks, each at the place that this says.
    fn read(scattered: &mut Scattered, number: u64, place: impl Fn(u64) -> u64) {
        let parts = (0..32).map(|part| number * 1024 + part * 32);
        parts.for_each(|lba| scattered.note(Lba(lba), 32, Pba(place(lba))));
    }

    #[test]
    fn a_range_that_was_read_in_order_and_lies_in_many_pieces_is_worth_it() {
        let mut scattered = Scattered::new(1024);
        read(&mut scattered, 3, |lba| lba * 7 % 100_000);
        assert_eq!(scattered.take(), Some((Lba(3 * 1024), Lba(4 * 1024))));
        assert_eq!(scattered.take(), None);
    }

    #[test]
    fn one_that_lies_in_order_is_not_though_headers_lie_between() {
        let mut scattered = Scattered::new(1024);
        (0..9).for_each(|number| read(&mut scattered, number, |lba| lba + lba / 256));
        assert!(scattered.is_empty());
    }

    #[test]
    fn reads_that_overtake_each_other_are_in_order() {
        let mut scattered = Scattered::new(1024);
        let parts = (0..32).flat_map(|four| [1, 2, 3, 0].map(|part| (four * 4 + part) * 8));
        parts.for_each(|lba| scattered.note(Lba(lba), 8, Pba(lba * 77)));
        assert_eq!(scattered.take(), Some((Lba(0), Lba(1024))));
        (0..128).for_each(|part| scattered.note(Lba(part * 8), 8, Pba(5000 + part * 8)));
        assert_eq!(scattered.take(), None, "it lies in order now");
    }

    #[test]
    fn reads_at_random_make_none() {
        let (mut scattered, mut rng) = (Scattered::new(1024), Rng::new(1));
        (0..10_000).for_each(|_| scattered.note(Lba(rng.below(4096) * 32), 32, Pba(rng.below(1 << 20))));
        assert!(scattered.is_empty());
    }

    #[test]
    fn readers_side_by_side_are_told_apart_and_memory_is_bounded() {
        let mut scattered = Scattered::new(64);
        for step in 0..u64::from(u16::MAX) {
            for reader in 0..READERS as u64 {
                scattered.note(Lba((reader << 32) + step * 8), 8, Pba((step * 977) % 100_000));
            }
        }
        assert_eq!((scattered.len(), scattered.readers.iter().count()), (MOST_RANGES, READERS));
    }

    #[test]
    fn a_range_that_was_put_back_is_taken_again() {
        let mut scattered = Scattered::new(1024);
        read(&mut scattered, 5, |lba| lba * 7 % 100_000);
        let (start, _) = scattered.take().unwrap();
        scattered.put_back(start);
        assert_eq!(scattered.take().unwrap().0, start);
    }
}
