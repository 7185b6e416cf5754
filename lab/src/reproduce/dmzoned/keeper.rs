//! The memory of a disk that keeps nothing: only what lies in front of a sector.
//!
//! Two hours of writing are more than fits into memory, and nobody reads it; but the target reads back its metadata, which lies
//! at the beginning of the first disk of the set.

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Op, Payload, Status};
use shingle_core::device::memory::SparseMemory;
use shingle_core::sector::Sector;

/// A layer over such a disk.
pub struct Keeper {
    below: [DeviceId; 1],
    limits: Limits,
    memory: SparseMemory,
    /// The first sector of which nothing is kept.
    until: Sector,
}

impl Keeper {
    /// Over the device `below`, which has `limits`; `memory` is what it holds up to sector `until`.
    pub fn new(below: DeviceId, limits: &Limits, memory: SparseMemory, until: Sector) -> Self {
        Self { below: [below], limits: limits.clone(), memory, until }
    }
}

impl BlockDevice for Keeper {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let is_kept = bio.sector < self.until;
        match bio.op {
            Op::Write if is_kept => self.memory.write(bio.sector, bio.sectors, &bio.payload),
            Op::WriteZeroes | Op::Discard if is_kept => self.memory.discard(bio.sector, bio.sectors),
            Op::Read if is_kept => {
                let word = bio.sector.0;
                return cx.submit(self.below[0], bio, word);
            }
            _ => {}
        }
        cx.remap(self.below[0], bio);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if let (true, Payload::Data(_) | Payload::Segments(_)) = (status.is_ok(), &bio.payload) {
            self.memory.read(Sector(word), bio.sectors, &bio.payload);
        }
        cx.complete(bio, status);
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        write!(out, "memory of device {} up to sector {}", self.below[0].0, self.until)
    }
}
