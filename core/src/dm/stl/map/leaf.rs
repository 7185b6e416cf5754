//! Ranges of the exposed disk whose blocks the map keeps together.

use crate::dm::stl::Lba;
use core::ops::Range;

/// Number of a leaf, in the order of the exposed disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeafNo(pub u32);

/// Blocks of the exposed disk in each leaf of a volume: a power of two. Volumes have [`LeafSize::default`]; tests have smaller leaves, so that a
/// small volume has many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafSize {
    log2: u32,
}

impl Default for LeafSize {
    /// 32 MiB.
    fn default() -> Self {
        Self { log2: Self::MAX_LOG2 }
    }
}

impl LeafSize {
    const MAX_LOG2: u32 = 13;
    const MAX_HALVINGS: u32 = 10;
    /// Most blocks of a leaf.
    pub const MAX_BLOCKS: u32 = 1 << Self::MAX_LOG2;

    /// The default size halved `times` times. Returns `None` if a leaf would have less than 8 blocks.
    #[must_use]
    pub fn halved(times: u32) -> Option<Self> {
        (times <= Self::MAX_HALVINGS).then(|| Self { log2: Self::MAX_LOG2 - times })
    }

    /// Number of times that the default size is halved: the size as a root stores it.
    #[must_use]
    pub fn halvings(self) -> u32 {
        Self::MAX_LOG2 - self.log2
    }

    /// Blocks of a leaf.
    #[must_use]
    pub fn blocks(self) -> u32 {
        1 << self.log2
    }

    /// Leaves of a volume of `capacity` blocks, the last of which may be shorter.
    #[must_use]
    pub fn leaves(self, capacity: u64) -> usize {
        capacity.div_ceil(self.blocks().into()) as usize
    }

    /// The leaf of a block, and the offset of the block in it.
    #[must_use]
    pub fn leaf_of(self, lba: Lba) -> (LeafNo, u32) {
        (LeafNo((lba.0 >> self.log2) as u32), lba.0 as u32 & (self.blocks() - 1))
    }

    /// First block and end of a leaf.
    #[must_use]
    pub fn range(self, leaf: LeafNo) -> Range<Lba> {
        self.start(leaf)..self.start(LeafNo(leaf.0 + 1))
    }

    /// First block of a leaf.
    #[must_use]
    pub fn start(self, leaf: LeafNo) -> Lba {
        Lba(u64::from(leaf.0) << self.log2)
    }
}
