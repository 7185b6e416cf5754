//! The disks of a volume, as those see them who may wait: the tools.

use crate::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS};
use crate::prelude::*;
use crate::zone::{Condition, Zone, ZoneKind};

/// A disk of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its length.
    pub sectors: u64,
    /// Its zones, with their pointers as they are now; none of a regular disk.
    pub zones: Vec<Zone>,
    /// Most active zones, if the disk has a limit.
    pub max_active: Option<u32>,
}

/// A block of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The disk, in the order in which they were given.
    pub disk: usize,
    /// The block, of 4096 bytes.
    pub block: u64,
}

/// The disks of a volume, read and written in whole blocks. A range lies in one zone.
pub trait Media {
    /// The disks. Pointers are kept up to date.
    fn disks(&self) -> &[Disk];

    /// Name of a disk in messages.
    fn name(&self, disk: usize) -> String {
        format!("disk {disk}")
    }

    /// Reads blocks from `from` on.
    ///
    /// # Errors
    /// If the disk does not.
    fn read(&mut self, from: Spot, to: &mut [u8]) -> Result<(), MediaError>;

    /// Writes blocks from `to` on; in a sequential zone, at its pointer.
    ///
    /// # Errors
    /// If the disk does not.
    fn write(&mut self, to: Spot, from: &[u8]) -> Result<(), MediaError>;

    /// Empties the sequential zone that begins at `start`.
    ///
    /// # Errors
    /// If the disk does not.
    fn reset(&mut self, start: Spot) -> Result<(), MediaError>;

    /// Makes all that was written durable, on every disk.
    ///
    /// # Errors
    /// If a disk does not.
    fn flush(&mut self) -> Result<(), MediaError>;
}

/// Told how much is done of how much.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// What a disk failed to do: which one, where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaError(pub String);

impl_error!(MediaError, |self, f| f.write_str(&self.0));

/// Blocks that are read or written at once at most: 1 MiB.
pub(super) const PIECE: u32 = 256;

impl Disk {
    /// Blocks of a zone, if it has zones.
    #[must_use]
    pub fn zone_blocks(&self) -> Option<u32> {
        self.zones.first().map(|zone| (zone.len / u64::from(BLOCK_SECTORS)) as u32)
    }

    /// Blocks up to which zone `zone` of `blocks` has something; all of one without a pointer.
    pub(super) fn written(&self, zone: usize, blocks: u32) -> u32 {
        let sectors = match self.zones.get(zone) {
            Some(zone) if zone.kind == ZoneKind::Sequential => match zone.cond {
                // Where the pointer of such a zone is nobody knows.
                Condition::ReadOnly => zone.capacity,
                _ => zone.written_up_to().0 - zone.start.0,
            },
            _ => return blocks,
        };
        (sectors / u64::from(BLOCK_SECTORS)) as u32
    }
}

/// Blocks of memory.
pub(super) fn room_for(blocks: u32) -> Vec<u8> {
    vec![0; blocks as usize * BLOCK_BYTES]
}
