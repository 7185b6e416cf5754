//! The memory of a disk that keeps nothing: blocks that are not zero, without the zeroes at their ends, in a file.
//!
//! What users write here is zeroes, so that hours of writing take room for headers and the map alone.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use shingle_core::block::{Bio, BlockDevice, Cx, Data, DeviceId, Limits, Op, Payload, Reason, Status};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS};

use super::spill::{Place, Spill};

/// Bytes of a part of a disk: a zone of most.
const PART_BYTES: u64 = 256 << 20;

/// A layer over such a disk, which takes whole blocks.
pub struct Keeper {
    below: [DeviceId; 1],
    limits: Limits,
    blocks: BTreeMap<u64, Place>,
    spill: Spill,
    /// Why the file takes or gives nothing.
    pub failure: Option<io::Error>,
}

impl Keeper {
    /// Over the device `below`, which has `limits` and was never written.
    ///
    /// # Errors
    /// If there is no room for a file.
    pub fn new(below: DeviceId, limits: &Limits) -> io::Result<Self> {
        let (blocks, spill) = (BTreeMap::new(), Spill::new()?);
        Ok(Self { below: [below], limits: limits.clone(), blocks, spill, failure: None })
    }

    fn write(&mut self, first: u64, payload: &Payload) -> io::Result<()> {
        let are_whole = payload.segments().iter().all(|segment| segment.len() % BLOCK_BYTES == 0);
        if !are_whole {
            let whole = Data::zeroed(payload.bytes());
            payload.copy_to(&whole);
            return self.write(first, &Payload::Data(whole));
        }
        self.forget(first..first + (payload.bytes() / BLOCK_BYTES) as u64);
        let mut number = first;
        let mut one = [0; BLOCK_BYTES];
        for segment in payload.segments() {
            for (place, words) in segment.words().chunks(BLOCK_BYTES / 8).enumerate() {
                let Some(last) = words.iter().rposition(|word| word.load(Relaxed) != 0) else { continue };
                let bytes = &mut one[..(last + 1) * 8];
                segment.read(place * BLOCK_BYTES, bytes);
                self.blocks.insert(number + place as u64, self.spill.keep(part_of(number + place as u64), bytes)?);
            }
            number += (segment.len() / BLOCK_BYTES) as u64;
        }
        Ok(())
    }

    fn forget(&mut self, blocks: Range<u64>) {
        self.blocks.extract_if(blocks, |_, _| true).for_each(|(block, place)| self.spill.forget(part_of(block), place));
    }

    fn read(&self, first: u64, payload: &Payload) -> io::Result<()> {
        let mut number = first;
        let mut one = [0; BLOCK_BYTES];
        for segment in payload.segments() {
            segment.fill(0);
            for at in (0..segment.len()).step_by(BLOCK_BYTES) {
                if let Some(kept) = self.blocks.get(&number) {
                    let bytes = &mut one[..kept.len()];
                    self.spill.read(*kept, bytes)?;
                    segment.write(at, bytes);
                }
                number += 1;
            }
        }
        Ok(())
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

/// The part of the disk that a block is in: most are emptied at once.
fn part_of(block: u64) -> u64 {
    block * BLOCK_BYTES as u64 / PART_BYTES
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
            Op::Write => {
                if let Err(error) = self.write(blocks.start, &bio.payload) {
                    self.failure = Some(error);
                    return cx.fail(bio, Reason::Medium);
                }
            }
            Op::WriteZeroes | Op::Discard | Op::ZoneReset => self.forget(blocks),
            Op::Read => return cx.submit(self.below[0], bio, blocks.start),
            Op::ZoneAppend | Op::ZoneResetAll => return cx.fail(bio, Reason::NotSupported),
            _ => {}
        }
        cx.remap(self.below[0], bio);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if status.is_ok()
            && let Err(error) = self.read(word, &bio.payload)
        {
            self.failure = Some(error);
            return cx.fail(bio, Reason::Medium);
        }
        cx.complete(bio, status);
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        write!(out, "{} blocks of device {} that are not zero", self.blocks.len(), self.below[0].0)
    }
}
