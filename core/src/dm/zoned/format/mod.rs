//! What dm-zoned keeps on the disks: superblocks, the mapping table and the validity bitmaps, twice.
//!
//! ```text
//!   set:  superblock | mapping table: (dzone, bzone) a chunk | bitmaps: a bit for each block of every zone
//! ```

mod bitmap;
mod create;
mod layout;
mod mapping;
mod media;
mod memory;
mod sets;
mod superblock;
mod volume;

pub use bitmap::Bitmap;
pub use create::{DEFAULT_RESERVED, FormatError, FormatOptions, format};
pub use layout::{Layout, LayoutError, is_tertiary, metadata_zones, tertiaries};
pub(crate) use layout::{random_zones, usable_zones};
pub(crate) use mapping::Judge;
pub use mapping::{MappingFault, MappingProblem, Part, validate_mapping};
pub use media::{Media, MediaError, Progress};
pub(crate) use media::{pieces, read_run};
pub use memory::MemoryMedia;
pub use sets::{
    Choice, Other, SuperblockProblem, choose, failed_metadata_zone, read_superblock, second_set_zones,
    validate_superblock,
};
pub use superblock::{Label, LabelError, Superblock, SuperblockError};
pub use volume::{Chunk, LoadError, Sets, Volume, bitmap_start, locate, read_bitmap, read_entries};

/// "No zone" in the mapping table.
pub const NO_ZONE: u32 = u32::MAX;
/// Entries of a block of the mapping table.
pub const ENTRIES: usize = super::BLOCK_BYTES / 8;
/// Bits of a bitmap block.
pub const BITS: u32 = super::BLOCK_BYTES as u32 * 8;

/// An entry of the mapping table: the zones of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The zone that holds the chunk's blocks, [`NO_ZONE`] for none.
    pub dzone: u32,
    /// The zone that buffers rewrites of a sequential one, [`NO_ZONE`] for none.
    pub bzone: u32,
}

impl Entry {
    /// A chunk without zones.
    pub const UNMAPPED: Entry = Entry { dzone: NO_ZONE, bzone: NO_ZONE };

    /// The entry in these 8 bytes.
    #[must_use]
    pub fn decode(bytes: [u8; 8]) -> Self {
        let value = u64::from_le_bytes(bytes);
        Self { dzone: value as u32, bzone: (value >> 32) as u32 }
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
