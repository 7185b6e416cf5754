//! The disks of a set, as those see them who may wait: the tools.

use crate::dm::zoned::{BLOCK_BYTES, MemberNo, SetZone, ZoneSpace};
use crate::prelude::*;

/// The disks of a set, read and written in whole blocks. A range lies in one zone.
pub trait Media {
    /// The devices and zones. The write pointers are kept up to date.
    fn space(&self) -> &ZoneSpace;

    /// Name of a disk in messages.
    fn name(&self, member: MemberNo) -> String {
        format!("device {member}")
    }

    /// Reads blocks from global block `block` on.
    ///
    /// # Errors
    /// If the disk does not.
    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError>;

    /// Writes blocks from global block `block` on; in a sequential zone, at its write pointer.
    ///
    /// # Errors
    /// If the disk does not.
    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError>;

    /// Empties a sequential zone.
    ///
    /// # Errors
    /// If the disk does not.
    fn reset(&mut self, zone: SetZone) -> Result<(), MediaError>;

    /// Makes all that was written durable, on every device.
    ///
    /// # Errors
    /// If a disk does not.
    fn flush(&mut self) -> Result<(), MediaError>;
}

/// Told how much is done of how much, in blocks and zones.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Most blocks that are read or written at once: 1 MiB.
pub(crate) const PIECE: u32 = 256;

/// The ranges of at most [`PIECE`] blocks, each in one zone, that make up `count` blocks from `first` on.
pub(crate) fn pieces(zone_blocks: u32, first: u64, count: u64) -> impl Iterator<Item = (u64, usize)> {
    let (mut at, end) = (first, first + count);
    core::iter::from_fn(move || {
        let zone_left = u64::from(zone_blocks) - at % u64::from(zone_blocks);
        let len = zone_left.min(end - at).min(u64::from(PIECE));
        let piece = (at, len as usize);
        at += len;
        (len > 0).then_some(piece)
    })
}

/// Reads a run of blocks, at once if that works and else one by one; those that cannot be read are zeroes and told.
pub(crate) fn read_run(media: &mut dyn Media, first: u64, to: &mut [u8], lost: &mut dyn FnMut(u32, MediaError)) {
    for (piece, to) in (0..).step_by(PIECE as usize).zip(to.chunks_mut(PIECE as usize * BLOCK_BYTES)) {
        if media.read(first + piece, to).is_ok() {
            continue;
        }
        for (block, to) in (piece..).zip(to.chunks_mut(BLOCK_BYTES)) {
            if let Err(error) = media.read(first + block, to) {
                to.fill(0);
                lost(block as u32, error);
            }
        }
    }
}

/// What a disk failed to do: which one, where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaError(pub String);

impl_error!(MediaError, |self, f| f.write_str(&self.0));
