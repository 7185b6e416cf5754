//! The memory of a disk that keeps nothing: blocks that are not zero, without the zeroes at their ends.
//!
//! What users write here is zeroes, so that hours of writing cost memory for headers and the map alone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use shingle_core::block::{Bio, BlockDevice, Cx, Data, DeviceId, Limits, Op, Payload, Reason, Status};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS};

/// A layer over such a disk, which takes whole blocks.
pub struct Keeper {
    below: [DeviceId; 1],
    limits: Limits,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Keeper {
    /// Over the device `below`, which has `limits` and was never written.
    pub fn new(below: DeviceId, limits: &Limits) -> Self {
        Self { below: [below], limits: limits.clone(), blocks: BTreeMap::new() }
    }

    fn write(&mut self, first: u64, payload: &Payload) {
        let are_whole = payload.segments().iter().all(|segment| segment.len() % BLOCK_BYTES == 0);
        if !are_whole {
            let whole = Data::zeroed(payload.bytes());
            payload.copy_to(&whole);
            return self.write(first, &Payload::Data(whole));
        }
        self.forget(first..first + (payload.bytes() / BLOCK_BYTES) as u64);
        let mut number = first;
        for segment in payload.segments() {
            for (place, words) in segment.words().chunks(BLOCK_BYTES / 8).enumerate() {
                let Some(last) = words.iter().rposition(|word| word.load(Relaxed) != 0) else { continue };
                let mut bytes = vec![0; (last + 1) * 8];
                segment.read(place * BLOCK_BYTES, &mut bytes);
                self.blocks.insert(number + place as u64, bytes.into_boxed_slice());
            }
            number += (segment.len() / BLOCK_BYTES) as u64;
        }
    }

    fn forget(&mut self, blocks: Range<u64>) {
        self.blocks.extract_if(blocks, |_, _| true).for_each(drop);
    }

    fn read(&self, first: u64, payload: &Payload) {
        let mut number = first;
        let mut one = [0; BLOCK_BYTES];
        for segment in payload.segments() {
            segment.fill(0);
            for at in (0..segment.len()).step_by(BLOCK_BYTES) {
                if let Some(kept) = self.blocks.get(&number) {
                    one[..kept.len()].copy_from_slice(kept);
                    segment.write(at, &one[..kept.len()]);
                }
                number += 1;
            }
        }
    }

    /// The blocks that a bio is about.
    fn blocks_of(&self, bio: &Bio) -> Range<u64> {
        let sectors = match bio.op {
            Op::ZoneReset => self.limits.zoned.as_ref().map_or(0, |zoned| zoned.zone_sectors.into()),
            _ => u64::from(bio.sectors),
        };
        let block = u64::from(BLOCK_SECTORS);
        bio.sector.0 / block..(bio.sector.0 + sectors).div_ceil(block)
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
        let blocks = self.blocks_of(&bio);
        match bio.op {
            Op::Write => self.write(blocks.start, &bio.payload),
            Op::WriteZeroes | Op::Discard | Op::ZoneReset => self.forget(blocks),
            Op::Read => return cx.submit(self.below[0], bio, blocks.start),
            Op::ZoneAppend | Op::ZoneResetAll => return cx.fail(bio, Reason::NotSupported),
            _ => {}
        }
        cx.remap(self.below[0], bio);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if status.is_ok() {
            self.read(word, &bio.payload);
        }
        cx.complete(bio, status);
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        write!(out, "{} blocks of device {} that are not zero", self.blocks.len(), self.below[0].0)
    }
}
