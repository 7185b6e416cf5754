//! What the published tables compare with: a layer that clones every bio, as device mapper does.

use std::fmt;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Status};
use slab::Slab;

/// Maps a device from a sector on, as `linear` does, with a clone of its own for each bio (`drivers/md/dm.c:alloc_io`).
///
/// A clone is one allocation from a pool. It shares the memory of the original, which stays here until the clone is back.
pub struct CloneLayer {
    below: [DeviceId; 1],
    start: u64,
    limits: Limits,
    originals: Slab<Box<Bio>>,
}

impl CloneLayer {
    /// The device `below` from sector `start` on.
    pub fn new(below: DeviceId, below_limits: &Limits, start: u64) -> Self {
        let limits = Limits { capacity: below_limits.capacity - start, ..below_limits.clone() };
        Self { below: [below], start, limits, originals: Slab::with_capacity(64) }
    }
}

impl BlockDevice for CloneLayer {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let (sector, payload) = (bio.sector + self.start, bio.payload.slice(0, bio.sectors));
        let clone = cx.own_bio(Bio::new(bio.op, sector, bio.sectors, payload).with_flags(bio.flags));
        let key = self.originals.insert(bio);
        cx.submit(self.below[0], clone, key as u64);
    }

    fn end_io(&mut self, mut clone: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let mut original = self.originals.remove(word as usize);
        if !status.is_ok() {
            original.inherit(&mut clone);
        }
        cx.recycle(clone);
        cx.complete(original, status);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.originals.iter().for_each(|(_, bio)| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "clone of each bio to device {} from sector {} on", self.below[0].0, self.start)
    }
}
