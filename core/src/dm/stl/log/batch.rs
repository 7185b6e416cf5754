//! A batch on its way to the disk.

use crate::block::{Data, Payload};
use crate::dm::stl::disks::data_of;
use crate::dm::stl::format::{Batch, BatchKind, Checksum, Header};
use crate::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS, Lba};
use crate::prelude::*;

/// A batch whose contents are settled: it is written here or there, but not changed.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Its number in the sequence of its kind.
    pub number: u64,
    /// What it is of.
    pub kind: BatchKind,
    /// A checksum for each block of payload.
    pub checksums: Vec<Checksum>,
    /// The payload.
    pub payload: Vec<Data>,
}

impl Sealed {
    /// Blocks that it takes, with its header.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.header_blocks() + self.checksums.len() as u32
    }

    /// Blocks of its header.
    #[must_use]
    pub fn header_blocks(&self) -> u32 {
        Header::blocks_of(self.kind.record_bytes(), self.checksums.len()) as u32
    }

    /// All of it, to be written where `batch` says.
    ///
    /// # Errors
    /// If there is no memory for the header.
    pub fn encode(&self, batch: Batch) -> Result<Payload, crate::block::Reason> {
        let mut segments = Vec::with_capacity(1 + self.payload.len());
        segments.push(data_of(&Header::encode_parts(&batch, &self.kind, &self.checksums))?);
        segments.extend(self.payload.iter().cloned());
        Ok(if segments.len() == 1 { Payload::Data(segments.remove(0)) } else { Payload::Segments(segments) })
    }
}

/// Takes the checksums of users' blocks.
///
/// A block is copied before that: others may write to its memory meanwhile. Its address, which goes first, lies right before the copy, so
/// both are one piece of memory; and the copy lies where the processor reads it fastest.
#[derive(Clone)]
pub struct Checker(Box<Desk>);

#[derive(Clone)]
#[repr(align(64))]
struct Desk([u8; Desk::BLOCK + BLOCK_BYTES]);

impl Desk {
    const ADDRESS: usize = Self::BLOCK - size_of::<u64>();
    const BLOCK: usize = 64;
}

impl Default for Checker {
    fn default() -> Self {
        Self(Box::new(Desk([0; Desk::BLOCK + BLOCK_BYTES])))
    }
}

impl Checker {
    /// Those of blocks from `lba` on, in whatever pieces their memory is.
    pub fn checksums(&mut self, lba: Lba, payload: &Payload) -> impl Iterator<Item = Checksum> {
        let blocks = (payload.bytes() / BLOCK_BYTES) as u32;
        (0..blocks).map(move |number| self.checksum(lba + u64::from(number), payload, number))
    }

    fn checksum(&mut self, lba: Lba, payload: &Payload, number: u32) -> Checksum {
        let Desk(bytes) = &mut *self.0;
        bytes[Desk::ADDRESS..Desk::BLOCK].copy_from_slice(&lba.0.to_le_bytes());
        read_block(payload, number, &mut bytes[Desk::BLOCK..]);
        Checksum::of(&bytes[Desk::ADDRESS..])
    }
}

/// The checksums of users' blocks from `lba` on, for those who ask once.
#[must_use]
pub fn checksums_of(lba: Lba, payload: &Payload) -> Vec<Checksum> {
    Checker::default().checksums(lba, payload).collect()
}

/// Copies block `number` out of memory in pieces.
fn read_block(payload: &Payload, number: u32, to: &mut [u8]) {
    if let Payload::Data(data) = payload {
        return data.read(number as usize * BLOCK_BYTES, to);
    }
    let part = payload.slice(number * BLOCK_SECTORS, BLOCK_SECTORS);
    let mut at = 0;
    for segment in part.segments() {
        segment.read(0, &mut to[at..at + segment.len()]);
        at += segment.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_the_same_in_whatever_pieces_the_memory_is() {
        let whole = Data::zeroed(3 * BLOCK_BYTES);
        (0..3 * BLOCK_BYTES / 8).for_each(|at| whole.write(at * 8, &(at as u64 * 77).to_le_bytes()));
        let cuts = [0, 512, 4096 + 1024, 2 * 4096 + 3584, 3 * 4096];
        let pieces = cuts.windows(2).map(|cut| whole.slice(cut[0], cut[1] - cut[0])).collect();
        let bytes = whole.to_vec();
        let expected: Vec<Checksum> =
            (0..3).map(|n| Checksum::of_block(Lba(7 + n), &bytes[n as usize * 4096..][..4096])).collect();
        assert_eq!(checksums_of(Lba(7), &Payload::Data(whole)), expected);
        assert_eq!(checksums_of(Lba(7), &Payload::Segments(pieces)), expected);
    }
}
