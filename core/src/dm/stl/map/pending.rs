//! What was written since the last checkpoint.

use alloc::collections::BTreeMap;

use super::extent::{Checksums, Extent, Source};
use crate::dm::stl::{Lba, Pba};

/// Extents that do not overlap, in memory. What is put in goes over what was there.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    extents: BTreeMap<Lba, Extent>,
    /// Checksums that lie apart.
    checksums: usize,
}

impl Pending {
    /// Memory that an extent takes, with its share of the tree.
    const BYTES: usize = size_of::<(Lba, Extent)>() * 3 / 2;

    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.extents.len() * Self::BYTES + self.checksums * size_of::<u32>()
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
    pub fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.extents.values()
    }

    /// Those that touch `from..to`, in order, as they are.
    pub fn touching(&self, from: Lba, to: Lba) -> impl Iterator<Item = &Extent> {
        let before = self.extents.range(..from).next_back().filter(|(_, extent)| extent.end() > from);
        before.into_iter().chain(self.extents.range(from..to.max(from))).map(|(_, extent)| extent)
    }

    /// That with this block.
    #[must_use]
    pub fn find(&self, lba: Lba) -> Option<&Extent> {
        let (_, extent) = self.extents.range(..=lba).next_back()?;
        (extent.end() > lba).then_some(extent)
    }

    /// The first that touches `from..to`.
    #[must_use]
    pub fn first(&self, from: Lba, to: Lba) -> Option<&Extent> {
        let behind = || self.extents.range(from + 1..to).next().map(|(_, extent)| extent);
        self.find(from).or_else(|| if to > from + 1 { behind() } else { None })
    }

    /// Puts an extent over what is there.
    pub fn put(&mut self, extent: Extent) {
        // What is written again and again takes one look.
        if let Some(known) = self.extents.get_mut(&extent.lba).filter(|known| known.blocks == extent.blocks) {
            self.checksums += apart(&extent);
            self.checksums -= apart(known);
            *known = extent;
            return;
        }
        let last = self.extents.range(..extent.end()).next_back().map(|(_, last)| last);
        if last.is_some_and(|last| last.end() > extent.lba) {
            self.cut(extent.lba, extent.end());
        }
        self.add(extent);
    }

    /// Says that a block is at `to`, if this set says that it is at `from`; whether it did.
    pub fn moved(&mut self, lba: Lba, from: Pba, to: Pba) -> bool {
        let Some((place, checksum)) = self.find(lba).and_then(|extent| extent.place((lba - extent.lba) as u32)) else {
            return false;
        };
        if place == from {
            self.put(Extent::at(lba, to, &[checksum]));
        }
        place == from
    }

    /// Takes all that is in `from..to` away.
    fn cut(&mut self, from: Lba, to: Lba) {
        let first = |pending: &Self| pending.touching(from, to).next().map(|extent| extent.lba);
        while let Some(extent) = first(self).and_then(|lba| self.extents.remove(&lba)) {
            self.checksums -= apart(&extent);
            if extent.lba < from {
                self.add(extent.part(extent.lba, from));
            }
            if extent.end() > to {
                self.add(extent.part(to, extent.end()));
            }
        }
    }

    fn add(&mut self, extent: Extent) {
        self.checksums += apart(&extent);
        self.extents.insert(extent.lba, extent);
    }
}

/// How many checksums of an extent lie in memory of their own.
fn apart(extent: &Extent) -> usize {
    match &extent.source {
        Source::At(_, Checksums::Several(all)) => all.len(),
        Source::At(_, Checksums::One(_)) | Source::Zeroes => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::format::Checksum;
    use crate::prelude::*;
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
                let found = pending.find(lba).map(|extent| extent.place((lba - extent.lba) as u32));
                assert_eq!(found, self.0.get(&lba).copied(), "block {lba}");
            }
            let mut end = Lba(0);
            for extent in pending.iter() {
                assert!(extent.lba >= end && extent.blocks > 0, "{extent:?} overlaps");
                end = extent.end();
            }
            assert_eq!(pending.checksums, pending.iter().map(apart).sum());
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
                pending.put(extent);
                plain.check(&pending);
            }
        }
    }

    #[test]
    fn a_block_moves_only_from_where_it_is() {
        let sums = [1, 2, 3].map(Checksum);
        let mut pending = Pending::default();
        pending.put(Extent::at(Lba(10), Pba(100), &sums));
        assert!(!pending.moved(Lba(11), Pba(100), Pba(500)), "it is at 101");
        assert!(pending.moved(Lba(11), Pba(101), Pba(500)));
        let place = |pending: &Pending, lba| {
            let extent = pending.find(Lba(lba)).unwrap();
            extent.place((lba - extent.lba.0) as u32)
        };
        assert_eq!([10, 11, 12].map(|lba| place(&pending, lba).unwrap().0), [100, 500, 102].map(Pba));
        assert_eq!(place(&pending, 11).unwrap().1, sums[1], "its checksum moves with it");
        pending.put(Extent::zeroes(Lba(12), 1));
        assert!(!pending.moved(Lba(12), Pba(102), Pba(600)), "it is not there any more");
        assert!(!pending.moved(Lba(13), Pba(103), Pba(600)), "this set knows nothing of it");
    }

    #[test]
    fn what_touches_a_range_is_found_from_the_first_to_the_last() {
        let mut pending = Pending::default();
        [(0, 4), (6, 1), (8, 4)].into_iter().for_each(|(lba, blocks)| pending.put(Extent::zeroes(Lba(lba), blocks)));
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
