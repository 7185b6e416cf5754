//! The superblock: one block, checksummed.

use crate::dm::zoned::BLOCK_BYTES;

const MAGIC: u32 = 0x445a_4244;
pub(crate) const CRC_AT: usize = 44;
const LABEL_AT: usize = 48;
const SET_UUID_AT: usize = 80;
const DEVICE_UUID_AT: usize = 96;

/// A superblock. Version 1 has neither label nor UUIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// 1 or 2; the kernel takes 0 for 1.
    pub version: u32,
    /// Counts commits: of two valid sets the one with more is the newer.
    pub generation: u64,
    /// Its own global block number.
    pub block: u64,
    /// Blocks of the set, this one included.
    pub metadata_blocks: u32,
    /// Sequential zones kept for reclaim.
    pub reserved: u32,
    /// Chunks exposed.
    pub chunks: u32,
    /// Blocks of the mapping table.
    pub map_blocks: u32,
    /// Blocks of bitmaps.
    pub bitmap_blocks: u32,
    /// Name of the set.
    pub label: Label,
    /// UUID of the set, in printed order.
    pub set_uuid: [u8; 16],
    /// UUID of the device that holds this superblock, in printed order.
    pub device_uuid: [u8; 16],
}

/// A name of at most 31 bytes, padded with NULs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label([u8; 32]);

impl Label {
    /// Longest label in bytes.
    pub const MOST: usize = 31;

    /// `text` as a label.
    ///
    /// # Errors
    /// If it is too long or has a NUL.
    pub fn new(text: &str) -> Result<Self, LabelError> {
        if text.len() > Self::MOST || text.contains('\0') {
            return Err(LabelError);
        }
        let mut bytes = [0; 32];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self(bytes))
    }

    /// The bytes up to the first NUL, as text.
    #[must_use]
    pub fn text(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        core::str::from_utf8(&self.0[..end]).unwrap_or("?")
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

/// A label is too long, or has a NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelError;

impl_error!(LabelError, |self, f| write!(f, "a label has at most {} bytes, and no NUL", Label::MOST));

/// Invalid superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// Another magic number.
    Magic(u32),
    /// The checksum that is stored, and the one that it would have to be.
    Checksum(u32, u32),
    /// A version that is not known.
    Version(u32),
}

impl_error!(SuperblockError, |self, f| match self {
    Self::Magic(found) => write!(f, "magic number is {found:#010x}, expected {MAGIC:#010x}"),
    Self::Checksum(found, expected) => write!(f, "checksum is {found:#010x}, expected {expected:#010x}"),
    Self::Version(found) => write!(f, "version is {found}, at most 2 is known"),
});

impl Superblock {
    /// The superblock in the first bytes of a block.
    ///
    /// # Errors
    /// If there is none.
    ///
    /// # Panics
    /// If `block` is shorter than a block.
    pub fn decode(block: &[u8]) -> Result<Self, SuperblockError> {
        let block = &block[..BLOCK_BYTES];
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().unwrap_or_default());
        let uuid = |at: usize| block[at..at + 16].try_into().unwrap_or_default();
        if word(0) != MAGIC {
            return Err(SuperblockError::Magic(word(0)));
        }
        let (generation, expected) = (long(8), checksum(block, long(8)));
        if word(CRC_AT) != expected {
            return Err(SuperblockError::Checksum(word(CRC_AT), expected));
        }
        if word(4) > 2 {
            return Err(SuperblockError::Version(word(4)));
        }
        // Version 1 ends before the label.
        let is_named = word(4) > 1;
        let uuid = |at: usize| if is_named { uuid(at) } else { [0; 16] };
        let label = block[LABEL_AT..LABEL_AT + 32].try_into().unwrap_or_default();
        Ok(Self {
            version: word(4),
            generation,
            block: long(16),
            metadata_blocks: word(24),
            reserved: word(28),
            chunks: word(32),
            map_blocks: word(36),
            bitmap_blocks: word(40),
            label: if is_named { Label(label) } else { Label::default() },
            set_uuid: uuid(SET_UUID_AT),
            device_uuid: uuid(DEVICE_UUID_AT),
        })
    }

    /// The block that holds it.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(4, &self.version.to_le_bytes());
        put(8, &self.generation.to_le_bytes());
        put(16, &self.block.to_le_bytes());
        let counts = [self.metadata_blocks, self.reserved, self.chunks, self.map_blocks, self.bitmap_blocks];
        counts.iter().enumerate().for_each(|(n, count)| put(24 + 4 * n, &count.to_le_bytes()));
        if self.version > 1 {
            put(LABEL_AT, &self.label.0);
            put(SET_UUID_AT, &self.set_uuid);
            put(DEVICE_UUID_AT, &self.device_uuid);
        }
        let sum = checksum(&block, self.generation);
        block[CRC_AT..CRC_AT + 4].copy_from_slice(&sum.to_le_bytes());
        block
    }
}

/// CRC-32 (reflected, 0xedb88320) over a block with its checksum taken as zero, from the low half of the generation on and
/// without a final inversion.
fn checksum(block: &[u8], generation: u64) -> u32 {
    // The library inverts before and after; the kernel does neither.
    let mut sum = crc32fast::Hasher::new_with_initial(!(generation as u32));
    sum.update(&block[..CRC_AT]);
    sum.update(&[0; 4]);
    sum.update(&block[CRC_AT + 4..]);
    !sum.finalize()
}
