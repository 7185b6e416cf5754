//! The disks of a volume in memory, with the rules of zones: for tests and fuzzing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::media::{Disk, Media, MediaError, Spot};
use crate::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS};
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::{Condition, ZoneKind};

/// Disks in memory. What was never written reads as zeroes.
#[derive(Clone, Debug, Default)]
pub struct MemoryMedia {
    disks: Vec<Disk>,
    blocks: BTreeMap<Spot, Arc<[u8]>>,
    /// Blocks that cannot be read, until they are written.
    pub bad: BTreeSet<Spot>,
    /// Changes so far.
    pub changes: u64,
}

impl MemoryMedia {
    /// Such disks, with nothing on them.
    #[must_use]
    pub fn new(disks: Vec<Disk>) -> Self {
        Self { disks, ..Self::default() }
    }

    /// Puts bytes from `to` on, whatever zone that is in and without moving its pointer.
    pub fn put(&mut self, to: Spot, bytes: &[u8]) {
        for (block, bytes) in (to.block..).zip(bytes.chunks(BLOCK_BYTES)) {
            self.blocks.insert(Spot { block, ..to }, bytes.into());
        }
    }

    /// Changes a byte.
    pub fn harm(&mut self, spot: Spot, byte: usize) {
        let mut bytes = self.block(spot);
        bytes[byte] ^= 0x55;
        self.put(spot, &bytes);
    }

    /// What a block has.
    #[must_use]
    pub fn block(&self, spot: Spot) -> Vec<u8> {
        self.blocks.get(&spot).map_or_else(|| vec![0; BLOCK_BYTES], |bytes| bytes.to_vec())
    }

    /// A disk, to be changed.
    pub fn disk_mut(&mut self, disk: usize) -> &mut Disk {
        &mut self.disks[disk]
    }

    /// The number of the zone of a block, if its disk has zones.
    fn zone_of(&self, spot: Spot) -> Option<usize> {
        let blocks = self.disks[spot.disk].zone_blocks()?;
        Some((spot.block / u64::from(blocks)) as usize)
    }

    fn check(&self, spot: Spot, bytes: usize) -> Result<(), MediaError> {
        let error = |why: &str| Err(MediaError(format!("disk {}, block {}: {why}", spot.disk, spot.block)));
        let end = spot.block + (bytes / BLOCK_BYTES) as u64;
        match self.disks.get(spot.disk) {
            Some(disk) if end <= disk.sectors / u64::from(BLOCK_SECTORS) => {}
            _ => return error("past the end"),
        }
        let is_offline = |zone: usize| self.disks[spot.disk].zones[zone].cond == Condition::Offline;
        if self.zone_of(spot).is_some_and(is_offline) { error("its zone is offline") } else { Ok(()) }
    }
}

impl Media for MemoryMedia {
    fn disks(&self) -> &[Disk] {
        &self.disks
    }

    fn read(&mut self, from: Spot, to: &mut [u8]) -> Result<(), MediaError> {
        self.check(from, to.len())?;
        for (block, to) in (from.block..).zip(to.chunks_mut(BLOCK_BYTES)) {
            let spot = Spot { block, ..from };
            if self.bad.contains(&spot) {
                return Err(MediaError(format!("disk {}, block {block}: cannot be read", from.disk)));
            }
            match self.blocks.get(&spot) {
                Some(bytes) => to.copy_from_slice(bytes),
                None => to.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, to: Spot, from: &[u8]) -> Result<(), MediaError> {
        self.check(to, from.len())?;
        let sector = Sector(to.block * u64::from(BLOCK_SECTORS));
        if let Some(zone) = self.zone_of(to).map(|zone| &mut self.disks[to.disk].zones[zone])
            && zone.kind == ZoneKind::Sequential
        {
            if zone.wp != sector || matches!(zone.cond, Condition::Full | Condition::ReadOnly) {
                return Err(MediaError(format!("disk {}, block {}: not at the pointer", to.disk, to.block)));
            }
            zone.wp += (from.len() / 512) as u64;
            zone.cond = if zone.wp.0 - zone.start.0 < zone.capacity { Condition::Closed } else { Condition::Full };
        }
        self.changes += 1;
        let end = Spot { block: to.block + (from.len() / BLOCK_BYTES) as u64, ..to };
        self.bad.retain(|spot| !(to..end).contains(spot));
        self.put(to, from);
        Ok(())
    }

    fn reset(&mut self, start: Spot) -> Result<(), MediaError> {
        self.check(start, 0)?;
        let refused = || MediaError(format!("disk {}, block {}: no zone that can be reset", start.disk, start.block));
        let zone = self.zone_of(start).map(|zone| &mut self.disks[start.disk].zones[zone]).ok_or_else(refused)?;
        if zone.kind != ZoneKind::Sequential || zone.cond == Condition::ReadOnly {
            return Err(refused());
        }
        (zone.wp, zone.cond) = (zone.start, Condition::Empty);
        let end = Spot { block: start.block + zone.len / u64::from(BLOCK_SECTORS), ..start };
        self.blocks.retain(|spot, _| !(start..end).contains(spot));
        self.changes += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}
