//! What the kernel believes of the zones of a drive, and so which writes it lets down (`block/blk-zoned.c`), as it was seen on real ones.

use std::collections::BTreeSet;

use shingle_core::zone::ZoneNo;

/// How a write came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Ring,
    /// By a call that waits.
    Call,
}

/// The plugs of sequential zones.
pub struct ZonePlugs {
    /// The sector where each zone is written next.
    believed: Vec<u64>,
    /// Zones in which a write has failed and of which there was no report since.
    pub failed: BTreeSet<ZoneNo>,
}

impl ZonePlugs {
    /// Plugs of zones with their pointers at these sectors.
    pub fn new(pointers: impl Iterator<Item = u64>) -> Self {
        Self { believed: pointers.collect(), failed: BTreeSet::new() }
    }

    /// Whether a write to `sector` goes down (`blk_zone_wplug_handle_write`): what is not at the pointer that it believes in does
    /// not, and after a failure nothing does. What the ring brings it refuses later, and then that fails alone.
    pub fn admits(&mut self, zone: ZoneNo, sector: u64, way: Way) -> bool {
        let is_in_place = self.believed[zone.index()] == sector;
        if !is_in_place && way == Way::Call {
            self.failed.insert(zone);
        }
        is_in_place && !self.failed.contains(&zone)
    }

    /// The sector where it takes `zone` to be written next.
    pub fn believed(&self, zone: ZoneNo) -> u64 {
        self.believed[zone.index()]
    }

    /// A write has failed.
    pub fn fails(&mut self, zone: ZoneNo) {
        self.failed.insert(zone);
    }

    /// A write, a reset or a finish has brought the pointer to `sector`.
    pub fn moves(&mut self, zone: ZoneNo, sector: u64) {
        self.believed[zone.index()] = sector;
    }

    /// A report was asked of the drive. Of zones in which no write has failed it learns nothing.
    pub fn reported(&mut self, zone: ZoneNo, sector: u64) {
        if self.failed.remove(&zone) {
            self.believed[zone.index()] = sector;
        }
    }
}
