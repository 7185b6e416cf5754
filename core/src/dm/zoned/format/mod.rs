//! What dm-zoned keeps on the disks: superblocks, the mapping table and the validity bitmaps, twice.
//!
//! ```text
//!   set:  superblock | mapping table: (dzone, bzone) a chunk | bitmaps: a bit for each block of every zone
//! ```

use core::ops::Range;

use super::{Block, ChunkNo, MetaBlock, SetZone};

mod bitmap;
mod create;
mod layout;
mod mapping;
mod media;
mod members;
mod memory;
mod sets;
mod superblock;
mod volume;

pub use bitmap::Bitmap;
pub use create::{DEFAULT_RESERVED, FormatError, FormatOptions, format, too_few_active};
pub use layout::{Layout, LayoutError, is_tertiary, metadata_zones, tertiaries};
pub(crate) use layout::{random_zones, usable_zones};
pub(crate) use mapping::Judge;
pub use mapping::{MappingFault, MappingProblem, Part, validate_mapping};
pub use media::{Media, MediaError, Progress};
pub(crate) use media::{pieces, read_run};
pub use members::{MemberFound, WrongMembers, check_members, read_members};
pub use memory::MemoryMedia;
pub use sets::{
    Choice, Other, SuperblockProblem, choose, failed_metadata_zone, read_superblock, second_set_zones,
    validate_superblock,
};
pub(super) use superblock::CRC_AT;
pub use superblock::{Label, LabelError, Superblock, SuperblockError};
pub use volume::{Chunk, LoadError, Sets, ValidIn, Volume, bitmap_start, locate, read_bitmap, read_entries};

/// "No zone" in the mapping table.
pub const NO_ZONE: SetZone = SetZone(u32::MAX);
/// Entries of a block of the mapping table.
pub const ENTRIES: usize = super::BLOCK_BYTES / 8;
/// Bits of a bitmap block.
pub const BITS: u32 = super::BLOCK_BYTES as u32 * 8;

/// An entry of the mapping table: the zones of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// The zone that holds the chunk's blocks, [`NO_ZONE`] for none.
    pub dzone: SetZone,
    /// The zone that buffers rewrites of a sequential one, [`NO_ZONE`] for none.
    pub bzone: SetZone,
}

impl MapEntry {
    /// A chunk without zones.
    pub const UNMAPPED: MapEntry = MapEntry { dzone: NO_ZONE, bzone: NO_ZONE };

    /// The entry in these 8 bytes.
    #[must_use]
    pub fn decode(bytes: [u8; 8]) -> Self {
        let value = u64::from_le_bytes(bytes);
        Self { dzone: SetZone(value as u32), bzone: SetZone((value >> 32) as u32) }
    }

    /// The entry as bytes.
    #[must_use]
    pub fn encode(self) -> [u8; 8] {
        (u64::from(self.dzone) | u64::from(self.bzone) << 32).to_le_bytes()
    }
}

/// Bitmap blocks of a zone: at least one.
#[must_use]
pub fn bitmap_blocks(zone_blocks: u32) -> u32 {
    (zone_blocks / BITS).max(1)
}

/// Where in a set of metadata entries and bits are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    map_blocks: u32,
    /// Of each zone.
    bitmap_blocks: u32,
}

/// What a block of metadata holds.
pub(super) enum Held {
    /// Entries, from that of this chunk on.
    Entries(ChunkNo),
    /// Bits of this zone, from that of this block on.
    Bits(SetZone, Block),
}

impl Places {
    /// Those of a set with so many blocks of mapping table, and zones of so many blocks.
    pub fn new(map_blocks: u32, zone_blocks: u32) -> Self {
        Self { map_blocks, bitmap_blocks: bitmap_blocks(zone_blocks) }
    }

    /// The block with the entry of `chunk`.
    #[inline]
    pub fn entry(self, chunk: ChunkNo) -> MetaBlock {
        MetaBlock(1 + chunk.0 / ENTRIES as u32)
    }

    /// The blocks with the bits of `blocks` of `zone`, which are not none.
    #[inline]
    pub fn bits(self, zone: SetZone, blocks: &Range<Block>) -> impl Iterator<Item = MetaBlock> + use<> {
        let first = 1 + self.map_blocks + zone.0 * self.bitmap_blocks;
        (blocks.start.0 / BITS..=(blocks.end.0 - 1) / BITS).map(move |block| MetaBlock(first + block))
    }

    /// What `block` holds, which is not the superblock.
    pub fn held(self, block: MetaBlock) -> Held {
        match block.0.checked_sub(1 + self.map_blocks) {
            None => Held::Entries(ChunkNo((block.0 - 1) * ENTRIES as u32)),
            Some(bitmap) => Held::Bits(SetZone(bitmap / self.bitmap_blocks), Block(bitmap % self.bitmap_blocks * BITS)),
        }
    }

    /// Whether `block` is the last one of the mapping table.
    pub fn ends_entries(self, block: MetaBlock) -> bool {
        block.0 == self.map_blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::zoned::Number;
    use std::vec::Vec;

    #[test]
    fn the_block_that_is_marked_for_a_change_is_the_one_that_holds_it() {
        for (map_blocks, zone_blocks) in [(1, 64), (3, BITS), (2, 4 * BITS)] {
            let places = Places::new(map_blocks, zone_blocks);
            for chunk in ChunkNo(0).onwards().take((map_blocks * ENTRIES as u32) as usize) {
                let block = places.entry(chunk);
                assert!(matches!(places.held(block), Held::Entries(first) if (chunk - first) < ENTRIES as u32));
                assert_eq!(places.ends_entries(block), chunk.0 / ENTRIES as u32 + 1 == map_blocks);
            }
            for zone in SetZone(0).onwards().take(5) {
                let blocks: Vec<MetaBlock> = places.bits(zone, &Block::all(zone_blocks)).collect();
                assert_eq!(blocks.len() as u32, bitmap_blocks(zone_blocks));
                for (part, block) in (0..).zip(blocks) {
                    let first = Block(part * BITS);
                    assert!(matches!(places.held(block), Held::Bits(of, bit) if (of, bit) == (zone, first)));
                    assert!(places.bits(zone, &(first..first + 1)).eq([block]));
                }
            }
        }
    }
}
