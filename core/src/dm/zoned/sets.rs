//! The two sets of metadata that a volume keeps.

use super::format::{Layout, Superblock};

/// Where the two sets of metadata are.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    /// The superblock that counts, with its generation.
    pub superblock: Superblock,
    /// The numbers of both.
    pub layout: Layout,
    /// First block of the set that is read at the next start if both are equal.
    pub active: u64,
    /// First block of the set that is written first.
    pub log: u64,
    /// Whether the second set is the active one, which is so only while it is loaded.
    pub is_swapped: bool,
}

impl Sets {
    /// The superblock of the set at block `at`.
    pub fn superblock_for(&self, at: u64, generation: u64) -> Superblock {
        Superblock { generation, block: at, ..self.superblock }
    }
}
