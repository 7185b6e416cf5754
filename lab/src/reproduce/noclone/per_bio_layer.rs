//! A layer that keeps something for each bio: what it costs a target to have per-bio data.

use std::fmt;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Status};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use slab::Slab;

/// Maps a device from a sector on, as `linear` does, and wants every bio back: it pushes a frame whose word is the place of a
/// record. The record is what a target that retries or accounts has to keep (`drivers/md/dm-bio-record.h:dm_bio_details`).
pub struct PerBioLayer {
    below: [DeviceId; 1],
    start: u64,
    limits: Limits,
    records: Slab<Record>,
}

/// What is kept of a bio while it is below.
struct Record {
    sector: Sector,
    sectors: u32,
    since: Instant,
}

impl PerBioLayer {
    /// The device `below` from sector `start` on.
    pub fn new(below: DeviceId, below_limits: &Limits, start: u64) -> Self {
        let limits = Limits { capacity: below_limits.capacity - start, ..below_limits.clone() };
        Self { below: [below], start, limits, records: Slab::with_capacity(64) }
    }
}

impl BlockDevice for PerBioLayer {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        let key = self.records.insert(Record { sector: bio.sector, sectors: bio.sectors, since: bio.since });
        bio.sector += self.start;
        cx.submit(self.below[0], bio, key as u64);
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let Record { sector, sectors, since } = self.records.remove(word as usize);
        (bio.sector, bio.sectors, bio.since) = (sector, sectors, since);
        cx.complete(bio, status);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "per-bio data for device {} from sector {} on", self.below[0].0, self.start)
    }
}
