//! A leaf taken apart, block by block, for merging.

use super::{Extent, LEAF_BLOCKS, LeafNo, Source};
use crate::dm::stl::format::Checksum;
use crate::dm::stl::{Lba, Pba};
use crate::prelude::*;

/// Where each block of a leaf is.
#[derive(Clone, Debug)]
pub struct LeafImage {
    start: Lba,
    /// [`Pba::END`] is where blocks of zeroes are.
    blocks: Box<[(Pba, Checksum)]>,
}

impl LeafImage {
    /// Leaf `leaf`, with nothing but zeroes.
    #[must_use]
    pub fn new(leaf: LeafNo) -> Self {
        let nothing = (Pba::END, Checksum::default());
        Self { start: leaf.start(), blocks: vec![nothing; LEAF_BLOCKS as usize].into() }
    }

    /// Its first block.
    #[must_use]
    pub fn start(&self) -> Lba {
        self.start
    }

    /// Puts what of an extent lies in this leaf, which is some of it, over what is there. `replaced` is told where that was.
    pub fn put(&mut self, extent: &Extent, mut replaced: impl FnMut(Pba)) {
        let from = extent.lba.max(self.start);
        let to = extent.end().min(self.start + u64::from(LEAF_BLOCKS));
        let first = (from - self.start) as usize;
        let skipped = (from - extent.lba) as u32;
        for (offset, block) in (skipped..).zip(&mut self.blocks[first..(to - self.start) as usize]) {
            if block.0 != Pba::END {
                replaced(block.0);
            }
            *block = extent.place(offset).unwrap_or((Pba::END, Checksum::default()));
        }
    }

    /// Where the blocks are that have data.
    pub fn places(&self) -> impl Iterator<Item = Pba> {
        self.blocks.iter().map(|block| block.0).filter(|place| *place != Pba::END)
    }

    /// The blocks that have data, as extents in order.
    #[must_use]
    pub fn extents(&self) -> Vec<Extent> {
        let (mut extents, mut at, mut checksums) = (Vec::new(), 0, Vec::new());
        let follows = |one: &(Pba, Checksum), next: &(Pba, Checksum)| one.0 != Pba::END && one.0 + 1 == next.0;
        for row in self.blocks.chunk_by(follows) {
            let (lba, place) = (self.start + at, row[0].0);
            at += row.len() as u64;
            if place != Pba::END {
                checksums.clear();
                checksums.extend(row.iter().map(|block| block.1));
                extents.push(Extent { lba, blocks: row.len() as u32, source: Source::at(place, &checksums) });
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::map::Pending;
    use crate::random::Rng;

    #[test]
    fn an_image_has_what_was_put_last_and_says_what_it_replaced() {
        let mut rng = Rng::new(3);
        let (from, to) = (LeafNo(2).start(), LeafNo(3).start());
        for _ in 0..20 {
            let (mut image, mut pending) = (LeafImage::new(LeafNo(2)), Pending::default());
            let (mut placed, mut gone) = (0, 0);
            for step in 0..60_u64 {
                let lba = from.0 - 20 + rng.below(u64::from(LEAF_BLOCKS) + 10);
                let blocks = 1 + rng.below(30) as u32;
                let sums: Vec<Checksum> = (0..blocks).map(Checksum).collect();
                let extent = match rng.below(3) {
                    0 => Extent::zeroes(Lba(lba), blocks),
                    _ => Extent::at(Lba(lba), Pba(step * 100), &sums),
                };
                if extent.end() <= from || extent.lba >= to {
                    continue;
                }
                placed += match extent.source {
                    Source::Zeroes => 0,
                    _ => extent.part(from, to).blocks as usize,
                };
                image.put(&extent, |_| gone += 1);
                pending.put(extent);
            }
            assert_eq!(image.places().count() + gone, placed);
            let inside = |extent: &&Extent| extent.source != Source::Zeroes;
            let expected = pending.touching(from, to).filter(inside).map(|extent| extent.part(from, to));
            let blocks = |extents: Vec<Extent>| -> Vec<_> {
                let of = |extent: &Extent| {
                    (0..extent.blocks).map(|n| (extent.lba + u64::from(n), extent.place(n))).collect::<Vec<_>>()
                };
                extents.iter().flat_map(of).collect()
            };
            assert_eq!(blocks(image.extents()), blocks(expected.collect()));
        }
    }

    #[test]
    fn blocks_in_a_row_are_one_extent() {
        let mut image = LeafImage::new(LeafNo(0));
        let sums = [1, 2, 3].map(Checksum);
        image.put(&Extent::at(Lba(5), Pba(50), &sums[..2]), |_| ());
        image.put(&Extent::at(Lba(7), Pba(52), &sums[2..]), |_| ());
        assert_eq!(image.extents(), [Extent::at(Lba(5), Pba(50), &sums)]);
    }
}
