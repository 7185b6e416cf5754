//! Ranges of the exposed disk whose blocks the map keeps together.

use crate::dm::stl::Lba;

/// Blocks of a leaf: 32 MiB.
pub const LEAF_BLOCKS: u32 = 8192;

/// A leaf, by its place on the exposed disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeafNo(pub u32);

impl LeafNo {
    /// The leaf of a block, and where in it that is.
    #[must_use]
    pub fn of(lba: Lba) -> (Self, u32) {
        let blocks = u64::from(LEAF_BLOCKS);
        (Self((lba.0 / blocks) as u32), (lba.0 % blocks) as u32)
    }

    /// Its first block.
    #[must_use]
    pub fn start(self) -> Lba {
        Lba(u64::from(self.0) * u64::from(LEAF_BLOCKS))
    }
}
