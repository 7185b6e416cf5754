//! Blocks in a row.

use crate::dm::stl::format::Checksum;
use crate::dm::stl::{Lba, Pba};
use crate::prelude::*;

/// Where the blocks of an extent come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// From here on, in a row, with a checksum each.
    At(Pba, Checksums),
    /// They are zeroes.
    Zeroes,
}

/// A checksum for each block. Most extents of a random load have one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// Of one block.
    One(Checksum),
    /// Of several.
    Several(Box<[Checksum]>),
}

impl Checksums {
    /// These.
    #[must_use]
    pub fn new(checksums: &[Checksum]) -> Self {
        if let [one] = checksums { Self::One(*one) } else { Self::Several(checksums.into()) }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Checksum] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::Several(all) => all,
        }
    }
}

impl Source {
    /// From here on, with these checksums.
    #[must_use]
    pub fn at(place: Pba, checksums: &[Checksum]) -> Self {
        Self::At(place, Checksums::new(checksums))
    }
}

/// Blocks of the exposed disk in a row, and where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first one.
    pub lba: Lba,
    /// How many, at least one.
    pub blocks: u32,
    /// Where from.
    pub source: Source,
}

impl Extent {
    /// Blocks with data.
    #[must_use]
    pub fn at(lba: Lba, place: Pba, checksums: &[Checksum]) -> Self {
        Self { lba, blocks: checksums.len() as u32, source: Source::at(place, checksums) }
    }

    /// Blocks without.
    #[must_use]
    pub fn zeroes(lba: Lba, blocks: u32) -> Self {
        Self { lba, blocks, source: Source::Zeroes }
    }

    /// Behind its last block.
    #[must_use]
    pub fn end(&self) -> Lba {
        self.lba + u64::from(self.blocks)
    }

    /// What of it lies in `from..to`, which has to touch it.
    #[must_use]
    pub fn part(&self, from: Lba, to: Lba) -> Self {
        let (lba, end) = (self.lba.max(from), self.end().min(to));
        let (skipped, blocks) = ((lba - self.lba) as usize, (end - lba) as u32);
        match &self.source {
            Source::Zeroes => Self::zeroes(lba, blocks),
            Source::At(place, checksums) => {
                let part = &checksums.all()[skipped..skipped + blocks as usize];
                Self::at(lba, *place + skipped as u64, part)
            }
        }
    }

    /// The checksums of its blocks; none of zeroes.
    #[must_use]
    pub fn checksums(&self) -> &[Checksum] {
        match &self.source {
            Source::At(_, checksums) => checksums.all(),
            Source::Zeroes => &[],
        }
    }

    /// Where the block is that is so far behind the first one; `None` if it is zeroes.
    #[must_use]
    pub fn place(&self, offset: u32) -> Option<(Pba, Checksum)> {
        match &self.source {
            Source::At(place, checksums) => Some((*place + u64::from(offset), checksums.all()[offset as usize])),
            Source::Zeroes => None,
        }
    }
}
