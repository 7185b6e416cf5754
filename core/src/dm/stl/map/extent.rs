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

/// An extent that is kept elsewhere, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    /// The first one.
    pub lba: Lba,
    /// How many, at least one.
    pub blocks: u32,
    /// Where they are, in a row; `None` if they are zeroes.
    pub place: Option<Pba>,
    /// A checksum for each; none of zeroes.
    pub checksums: &'a [Checksum],
}

impl<'a> Span<'a> {
    /// Blocks with data.
    #[must_use]
    pub fn at(lba: Lba, place: Pba, checksums: &'a [Checksum]) -> Self {
        Self { lba, blocks: checksums.len() as u32, place: Some(place), checksums }
    }

    /// Blocks without.
    #[must_use]
    pub fn zeroes(lba: Lba, blocks: u32) -> Self {
        Self { lba, blocks, place: None, checksums: &[] }
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
        match self.place {
            None => Self::zeroes(lba, blocks),
            Some(place) => Self::at(lba, place + skipped as u64, &self.checksums[skipped..skipped + blocks as usize]),
        }
    }

    /// Where the block is that is so far behind the first one; `None` if it is zeroes.
    #[must_use]
    pub fn block(&self, offset: u32) -> Option<(Pba, Checksum)> {
        self.place.map(|place| (place + u64::from(offset), self.checksums[offset as usize]))
    }

    /// Each block that has data: which it is, where, and its checksum.
    pub fn data(self) -> impl Iterator<Item = (Lba, Pba, Checksum)> + use<'a> {
        let at = self.place.unwrap_or(Pba::END);
        (0..).zip(self.checksums).map(move |(offset, checksum)| (self.lba + offset, at + offset, *checksum))
    }

    /// It, kept here.
    #[must_use]
    pub fn to_extent(self) -> Extent {
        match self.place {
            Some(place) => Extent::at(self.lba, place, self.checksums),
            None => Extent::zeroes(self.lba, self.blocks),
        }
    }
}

impl Extent {
    /// It, for others.
    #[must_use]
    pub fn span(&self) -> Span<'_> {
        match &self.source {
            Source::At(place, checksums) => Span::at(self.lba, *place, checksums.all()),
            Source::Zeroes => Span::zeroes(self.lba, self.blocks),
        }
    }

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
        self.span().part(from, to).to_extent()
    }

    /// Where the block is that is so far behind the first one; `None` if it is zeroes.
    #[must_use]
    pub fn place(&self, offset: u32) -> Option<(Pba, Checksum)> {
        self.span().block(offset)
    }
}
