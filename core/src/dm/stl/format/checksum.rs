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

/// Bytes of a checksum on disk.
pub(super) const CRC_BYTES: usize = 4;

/// Puts into `bytes` at `at` the checksum of all of them, with zeroes in its own place.
pub(super) fn seal(bytes: &mut [u8], at: usize) {
    bytes[at..at + CRC_BYTES].fill(0);
    let checksum = Checksum::of(bytes).0.to_le_bytes();
    bytes[at..at + CRC_BYTES].copy_from_slice(&checksum);
}

/// Whether they have that checksum.
pub(super) fn is_sealed(bytes: &[u8], at: usize) -> bool {
    let (front, rest) = bytes.split_at(at);
    let (stored, rest) = rest.split_at(CRC_BYTES);
    Checksum::of_parts(&[front, &[0; CRC_BYTES], rest]).0.to_le_bytes() == stored
}

/// The identity of a set: drawn when it is formatted, and in every header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetId(pub [u8; 16]);
