//! Checksums of blocks.

use crc_fast::{CrcAlgorithm, Digest};

use crate::dm::stl::Lba;

/// A CRC-32C (Castagnoli).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum(pub u32);

impl Checksum {
    /// That of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32)
    }

    /// That of a block of the exposed disk: its address goes first, so that the right data in the wrong place is found.
    #[must_use]
    pub fn of_block(lba: Lba, data: &[u8]) -> Self {
        Self::of_parts(&[&lba.0.to_le_bytes(), data])
    }

    /// That of bytes in pieces.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        parts.iter().for_each(|part| digest.update(part));
        Self(digest.finalize() as u32)
    }
}

/// The identity of a set: drawn when it is formatted, and in every header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetId(pub [u8; 16]);
