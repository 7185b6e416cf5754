//! Which ranges of blocks are worth writing in order: those that somebody read in order and that lie scattered.

use alloc::collections::BTreeSet;

use super::readers::{Readers, follows};
use crate::dm::stl::{Lba, Pba};

/// Most ranges that are kept in mind.
const MOST_RANGES: usize = 4096;
/// Pieces of a range that are few enough: a disk reads 1 MiB in half the time that it takes to come to another.
const BLOCKS_OF_PIECE: u64 = 256;

/// Somebody who reads in order.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// Behind what was read last.
    end: Lba,
    /// Where that ended on the disk.
    place: Pba,
    /// Blocks and pieces that were read of the range in which that is.
    blocks: u64,
    pieces: u64,
}

/// What is known of ranges.
#[derive(Clone, Debug)]
pub struct Scattered {
    /// Blocks of a range.
    length: u64,
    readers: Readers<Reader>,
    /// Ranges that are worth it, by number.
    ranges: BTreeSet<u64>,
}

impl Scattered {
    /// Ranges of so many blocks.
    #[must_use]
    pub fn new(length: u32) -> Self {
        Self { length: length.max(1).into(), readers: Readers::default(), ranges: BTreeSet::new() }
    }

    /// Somebody reads `blocks` from `lba` on, which lie in a row from `place` on.
    pub fn note(&mut self, lba: Lba, blocks: u32, place: Pba) {
        let end = (lba + u64::from(blocks), place + u64::from(blocks));
        let Some(mut reader) = self.readers.take(|reader| reader.end == lba) else {
            return self.readers.put(Reader { end: end.0, place: end.1, blocks: blocks.into(), pieces: 1 });
        };
        if lba.0 / self.length != (lba.0 - 1) / self.length {
            self.judge(&reader);
            (reader.blocks, reader.pieces) = (0, 1);
        }
        reader.blocks += u64::from(blocks);
        reader.pieces += u64::from(!follows(reader.place, place));
        (reader.end, reader.place) = end;
        if end.0.0.is_multiple_of(self.length) {
            self.judge(&reader);
            // The next part begins another range.
            reader.blocks = 0;
        }
        self.readers.put(reader);
    }

    /// A reader leaves a range. One of which most was read in order, in many pieces, is worth it.
    fn judge(&mut self, reader: &Reader) {
        let is_read = reader.blocks * 4 >= self.length * 3;
        let is_scattered = reader.pieces > 1 + reader.blocks / BLOCKS_OF_PIECE.min(self.length / 2).max(1);
        if is_read && is_scattered && self.ranges.len() < MOST_RANGES {
            self.ranges.insert((reader.end.0 - 1) / self.length);
        }
    }

    /// Takes a range that is worth it: its first block, and that behind its last.
    pub fn take(&mut self) -> Option<(Lba, Lba)> {
        let number = self.ranges.pop_first()?;
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
