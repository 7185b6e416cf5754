//! A leaf taken apart, block by block, for merging.

use core::ops::Range;

use super::{Extent, LeafNo, LeafSize};
use crate::dm::stl::format::Checksum;
use crate::dm::stl::{Lba, Pba};
use crate::prelude::*;

/// Where each block of a leaf is. It takes the same memory whatever is in it, so that a sweep needs none for each extent.
#[derive(Clone, Debug)]
pub struct LeafImage {
    leaf: LeafNo,
    size: LeafSize,
    /// [`Pba::END`] is where blocks of zeroes are.
    blocks: Box<[(Pba, Checksum)]>,
}

/// Blocks of a leaf that are an extent.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The first of them in the leaf.
    pub first: u32,
    /// Where each is.
    pub blocks: &'a [(Pba, Checksum)],
}

impl Row<'_> {
    /// Where it begins.
    #[must_use]
    pub fn place(&self) -> Pba {
        self.blocks[0].0
    }
}

const NOTHING: (Pba, Checksum) = (Pba::END, Checksum(0));

impl LeafImage {
    /// Leaf `leaf`, with nothing but zeroes.
    #[must_use]
    pub fn new(size: LeafSize, leaf: LeafNo) -> Self {
        Self { leaf, size, blocks: vec![NOTHING; size.blocks() as usize].into() }
    }

    /// A leaf with these extents.
    #[must_use]
    pub fn of(size: LeafSize, leaf: LeafNo, extents: &[Extent]) -> Self {
        let mut image = Self::new(size, leaf);
        extents.iter().for_each(|extent| image.put(extent, |_| ()));
        image
    }

    /// Makes it another leaf, with nothing but zeroes.
    pub fn clear(&mut self, leaf: LeafNo) {
        self.leaf = leaf;
        self.blocks.fill(NOTHING);
    }

    /// Blocks of the leaf.
    #[must_use]
    pub fn size(&self) -> LeafSize {
        self.size
    }

    /// Number of the leaf.
    #[must_use]
    pub fn leaf(&self) -> LeafNo {
        self.leaf
    }

    /// First block of the leaf.
    #[must_use]
    pub fn start(&self) -> Lba {
        self.size.start(self.leaf)
    }

    /// Where each block is; at [`Pba::END`] those of zeroes.
    #[must_use]
    pub fn blocks(&self) -> &[(Pba, Checksum)] {
        &self.blocks
    }

    /// Puts blocks in a row, from `first` on.
    pub fn put_row(&mut self, first: u32, place: Pba, checksums: &[Checksum]) {
        let to = self.blocks[first as usize..].iter_mut();
        to.zip(checksums).zip(0..).for_each(|((to, checksum), offset)| *to = (place + offset, *checksum));
    }

    /// Puts what of an extent lies in this leaf, which is some of it, over what is there. `replaced` is told where that was.
    pub fn put(&mut self, extent: &Extent, mut replaced: impl FnMut(Pba)) {
        let Range { start, end } = self.size.range(self.leaf);
        let (from, to) = (extent.lba.max(start), extent.end().min(end));
        let first = (from - start) as usize;
        let skipped = (from - extent.lba) as u32;
        for (offset, block) in (skipped..).zip(&mut self.blocks[first..(to - start) as usize]) {
            if block.0 != Pba::END {
                replaced(block.0);
            }
            *block = extent.place(offset).unwrap_or(NOTHING);
        }
    }

    /// Where the blocks are that have data.
    pub fn places(&self) -> impl Iterator<Item = Pba> {
        self.blocks.iter().map(|block| block.0).filter(|place| *place != Pba::END)
    }

    /// The blocks that have data, extent by extent.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let follows = |one: &(Pba, Checksum), next: &(Pba, Checksum)| one.0 != Pba::END && one.0 + 1 == next.0;
        let mut end = 0;
        let rows = self.blocks.chunk_by(follows).map(move |blocks| {
            let first = end;
            end += blocks.len() as u32;
            Row { first, blocks }
        });
        rows.filter(|row| row.place() != Pba::END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::map::{Pending, Source, Span};
    use crate::random::Rng;

    /// Its extents.
    fn extents(image: &LeafImage) -> Vec<Extent> {
        let extent = |row: Row<'_>| {
            let checksums: Vec<Checksum> = row.blocks.iter().map(|block| block.1).collect();
            Extent::at(image.start() + u64::from(row.first), row.place(), &checksums)
        };
        image.rows().map(extent).collect()
    }

    #[test]
    fn an_image_has_what_was_put_last_and_says_what_it_replaced() {
        let mut rng = Rng::new(3);
        let size = LeafSize::default();
        let Range { start: from, end: to } = size.range(LeafNo(2));
        for _ in 0..20 {
            let (mut image, mut pending) = (LeafImage::new(size, LeafNo(2)), Pending::default());
            let (mut placed, mut gone) = (0, 0);
            for step in 0..60_u64 {
                let lba = from.0 - 20 + rng.below(u64::from(size.blocks()) + 10);
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
                pending.put(extent.span());
            }
            assert_eq!(image.places().count() + gone, placed);
            let inside = |extent: &Span<'_>| extent.place.is_some();
            let expected = pending.touching(from, to).filter(inside).map(|extent| extent.part(from, to).to_extent());
            let blocks = |extents: Vec<Extent>| -> Vec<_> {
                let of = |extent: &Extent| {
                    (0..extent.blocks).map(|n| (extent.lba + u64::from(n), extent.place(n))).collect::<Vec<_>>()
                };
                extents.iter().flat_map(of).collect()
            };
            assert_eq!(blocks(extents(&image)), blocks(expected.collect()));
        }
    }

    #[test]
    fn blocks_in_a_row_are_one_extent() {
        let mut image = LeafImage::new(LeafSize::default(), LeafNo(0));
        let sums = [1, 2, 3].map(Checksum);
        image.put(&Extent::at(Lba(5), Pba(50), &sums[..2]), |_| ());
        image.put_row(7, Pba(52), &sums[2..]);
        assert_eq!(extents(&image), [Extent::at(Lba(5), Pba(50), &sums)]);
        image.clear(LeafNo(1));
        assert_eq!(extents(&image), []);
    }
}
