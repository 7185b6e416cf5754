//! What was written since the last checkpoint.

use alloc::collections::BTreeMap;

use slab::Slab;

use super::extent::Span;
use crate::dm::stl::format::Checksum;
use crate::dm::stl::{Lba, Pba};
use crate::prelude::*;

/// Extents that do not overlap, in memory. What is put in goes over what was there.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    extents: BTreeMap<Lba, Row>,
    /// Checksums of extents of several blocks.
    lists: Slab<Box<[Checksum]>>,
    /// How many there are in lists.
    listed: usize,
}

/// An extent without its first block, in 12 bytes: most of a random load have one block, and what fits here is written as one run.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The lower bits of its place, or of [`ZEROES`].
    low: u32,
    /// The upper ones, and above these the number of blocks.
    high: u32,
    /// The checksum of one block, or the number of the list of those of several.
    sum: Checksum,
}

/// Bits of a place in [`Row::high`].
const HIGH_BITS: u32 = 8;
/// Most blocks of a row: 64 GiB. What is longer are zeroes, and takes several.
const MOST_BLOCKS: u32 = u32::MAX >> HIGH_BITS;
/// The last of all places, which is no block.
const ZEROES: Pba = Pba(Pba::END.0 - 1);
const _: () = assert!(ZEROES.0 >> u32::BITS < 1 << HIGH_BITS);

impl Row {
    fn new(place: Option<Pba>, blocks: u32, sum: Checksum) -> Self {
        let place = place.unwrap_or(ZEROES).0;
        Self { low: place as u32, high: (place >> u32::BITS) as u32 | blocks << HIGH_BITS, sum }
    }

    fn blocks(&self) -> u32 {
        self.high >> HIGH_BITS
    }

    fn place(&self) -> Option<Pba> {
        let high = u64::from(self.high & ((1 << HIGH_BITS) - 1));
        let place = Pba(high << u32::BITS | u64::from(self.low));
        (place != ZEROES).then_some(place)
    }

    fn has_list(&self) -> bool {
        self.blocks() > 1 && self.place().is_some()
    }
}

impl Pending {
    /// Memory that an extent takes, with its share of the tree.
    const BYTES: usize = (size_of::<Lba>() + size_of::<Row>()) * 3 / 2;
    /// The same of a list.
    const LIST_BYTES: usize = size_of::<Box<[Checksum]>>() * 2;

    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.extents.len() * Self::BYTES + self.lists.len() * Self::LIST_BYTES + self.listed * size_of::<Checksum>()
    }

    /// How many extents there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Span<'_>> {
        self.extents.iter().map(|row| self.span(row))
    }

    fn span<'a>(&'a self, (lba, row): (&Lba, &'a Row)) -> Span<'a> {
        let checksums = match row.place() {
            Some(_) if row.has_list() => &self.lists[row.sum.0 as usize],
            Some(_) => core::slice::from_ref(&row.sum),
            None => &[],
        };
        Span { lba: *lba, blocks: row.blocks(), place: row.place(), checksums }
    }

    /// Those that touch `from..to`, in order, as they are.
    pub fn touching(&self, from: Lba, to: Lba) -> impl Iterator<Item = Span<'_>> {
        let before = self.extents.range(..from).next_back().filter(|(lba, row)| end(**lba, row) > from);
        before.into_iter().chain(self.extents.range(from..to.max(from))).map(|row| self.span(row))
    }

    /// That with this block.
    #[must_use]
    pub fn find(&self, lba: Lba) -> Option<Span<'_>> {
        let row = self.extents.range(..=lba).next_back()?;
        (end(*row.0, row.1) > lba).then(|| self.span(row))
    }

    /// The first that touches `from..to`.
    #[must_use]
    pub fn first(&self, from: Lba, to: Lba) -> Option<Span<'_>> {
        let behind = || self.extents.range(from + 1..to).next().map(|row| self.span(row));
        self.find(from).or_else(|| if to > from + 1 { behind() } else { None })
    }

    /// Puts an extent over what is there.
    pub fn put(&mut self, extent: Span<'_>) {
        if extent.blocks > MOST_BLOCKS {
            let middle = extent.lba + u64::from(MOST_BLOCKS);
            self.put(extent.part(extent.lba, middle));
            return self.put(extent.part(middle, extent.end()));
        }
        // What is written again and again takes one look.
        if let Some(known) = self.extents.get_mut(&extent.lba)
            && (known.blocks(), known.has_list(), extent.checksums.len()) == (extent.blocks, false, 1)
        {
            *known = Row::new(extent.place, extent.blocks, extent.checksums[0]);
            return;
        }
        let last = self.extents.range(..extent.end()).next_back();
        if last.is_some_and(|(lba, row)| end(*lba, row) > extent.lba) {
            self.cut(extent.lba, extent.end());
        }
        self.add(extent);
    }

    /// Says that a block is at `to`, if this set says that it is at `from`; whether it did.
    pub fn moved(&mut self, lba: Lba, from: Pba, to: Pba) -> bool {
        let Some((place, checksum)) = self.find(lba).and_then(|extent| extent.block((lba - extent.lba) as u32)) else {
            return false;
        };
        if place == from {
            self.put(Span::at(lba, to, &[checksum]));
        }
        place == from
    }

    /// Takes all that is in `from..to` away.
    fn cut(&mut self, from: Lba, to: Lba) {
        let first = |pending: &Self| pending.touching(from, to).next().map(Span::to_extent);
        while let Some(extent) = first(self) {
            self.remove(extent.lba);
            if extent.lba < from {
                self.add(extent.span().part(extent.lba, from));
            }
            if extent.end() > to {
                self.add(extent.span().part(to, extent.end()));
            }
        }
    }

    fn remove(&mut self, lba: Lba) {
        if let Some(row) = self.extents.remove(&lba).filter(Row::has_list) {
            self.listed -= self.lists.remove(row.sum.0 as usize).len();
        }
    }

    fn add(&mut self, extent: Span<'_>) {
        let sum = match extent.checksums {
            [] => Checksum(0),
            [one] => *one,
            several => {
                self.listed += several.len();
                Checksum(self.lists.insert(several.into()) as u32)
            }
        };
        self.extents.insert(extent.lba, Row::new(extent.place, extent.blocks, sum));
    }
}

fn end(lba: Lba, row: &Row) -> Lba {
    lba + u64::from(row.blocks())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::map::Extent;
    use crate::random::Rng;

    const BLOCKS: u64 = 60;

    /// The same, block by block.
    #[derive(Default)]
    struct Plain(BTreeMap<Lba, Option<(Pba, Checksum)>>);

    impl Plain {
        fn put(&mut self, extent: &Extent) {
            self.0.extend((0..extent.blocks).map(|n| (extent.lba + u64::from(n), extent.place(n))));
        }

        fn check(&self, pending: &Pending) {
            for lba in (0..BLOCKS).map(Lba) {
                let found = pending.find(lba).map(|extent| extent.block((lba - extent.lba) as u32));
                assert_eq!(found, self.0.get(&lba).copied(), "block {lba}");
            }
            let mut end = Lba(0);
            for extent in pending.iter() {
                assert!(extent.lba >= end && extent.blocks > 0, "{extent:?} overlaps");
                end = extent.end();
            }
            let several = || pending.iter().filter(|extent| extent.checksums.len() > 1);
            assert_eq!(pending.listed, several().map(|extent| extent.checksums.len()).sum::<usize>());
            assert_eq!(pending.lists.len(), several().count());
        }
    }

    fn drawn(rng: &mut Rng, place: u64) -> Extent {
        let lba = Lba(rng.below(BLOCKS));
        let blocks = 1 + rng.below((BLOCKS - lba.0).min(9)) as u32;
        if rng.below(4) == 0 {
            return Extent::zeroes(lba, blocks);
        }
        let checksums: Vec<Checksum> = (0..blocks).map(|_| Checksum(rng.below(1 << 32) as u32)).collect();
        Extent::at(lba, Pba(place), &checksums)
    }

    #[test]
    fn what_was_put_last_is_found_in_every_block() {
        for seed in 0..50 {
            let (mut rng, mut plain, mut pending) = (Rng::new(seed), Plain::default(), Pending::default());
            for step in 0..100 {
                let extent = drawn(&mut rng, step * 100);
                plain.put(&extent);
                pending.put(extent.span());
                plain.check(&pending);
            }
        }
    }

    #[test]
    fn a_block_written_at_random_takes_thirty_bytes_and_the_ends_of_what_there_can_be_are_kept() {
        let mut pending = Pending::default();
        (0..1000).for_each(|n| pending.put(Span::at(Lba(n * 7), Pba(n), &[Checksum(1)])));
        assert_eq!(pending.bytes(), 30_000);
        let (last, most) = (Span::at(Lba(Lba::END.0 - 1), Pba(Pba::END.0 - 2), &[Checksum(u32::MAX)]), u32::MAX);
        pending.put(last);
        pending.put(Span::zeroes(Lba(1 << 33), most));
        assert_eq!(pending.find(Lba(Lba::END.0 - 1)), Some(last));
        let long: Vec<Span<'_>> = pending.touching(Lba(1 << 33), Lba((1 << 33) + u64::from(most))).collect();
        assert!(long.iter().all(|span| span.place.is_none()) && long.windows(2).all(|two| two[0].end() == two[1].lba));
        assert_eq!((long[0].lba.0, long[long.len() - 1].end().0), (1 << 33, (1 << 33) + u64::from(most)));
    }

    #[test]
    fn a_block_moves_only_from_where_it_is() {
        let sums = [1, 2, 3].map(Checksum);
        let mut pending = Pending::default();
        pending.put(Span::at(Lba(10), Pba(100), &sums));
        assert!(!pending.moved(Lba(11), Pba(100), Pba(500)), "it is at 101");
        assert!(pending.moved(Lba(11), Pba(101), Pba(500)));
        let place = |pending: &Pending, lba| {
            let extent = pending.find(Lba(lba)).unwrap();
            extent.block((lba - extent.lba.0) as u32)
        };
        assert_eq!([10, 11, 12].map(|lba| place(&pending, lba).unwrap().0), [100, 500, 102].map(Pba));
        assert_eq!(place(&pending, 11).unwrap().1, sums[1], "its checksum moves with it");
        pending.put(Span::zeroes(Lba(12), 1));
        assert!(!pending.moved(Lba(12), Pba(102), Pba(600)), "it is not there any more");
        assert!(!pending.moved(Lba(13), Pba(103), Pba(600)), "this set knows nothing of it");
    }

    #[test]
    fn what_touches_a_range_is_found_from_the_first_to_the_last() {
        let mut pending = Pending::default();
        [(0, 4), (6, 1), (8, 4)].into_iter().for_each(|(lba, blocks)| pending.put(Span::zeroes(Lba(lba), blocks)));
        let touching = |from, to| pending.touching(Lba(from), Lba(to)).map(|extent| extent.lba.0).collect::<Vec<_>>();
        assert_eq!(touching(3, 9), [0, 6, 8]);
        assert_eq!(touching(4, 6), [] as [u64; 0]);
        assert_eq!(touching(11, 99), [8]);
        assert_eq!(touching(5, 5), [] as [u64; 0]);
        for (from, to) in (0..14).flat_map(|from| (from + 1..15).map(move |to| (from, to))) {
            let first = pending.first(Lba(from), Lba(to)).map(|extent| extent.lba.0);
            assert_eq!(first, touching(from, to).first().copied(), "{from}..{to}");
        }
    }
}
