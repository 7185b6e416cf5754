//! The mapping of a set in memory, and every way in which it changes.
//!
//! Three rules keep acknowledged data through a loss of power, and all of them are here:
//!
//! - A block becomes valid when its write is *complete*, not when it is sent; so a commit never tells of data that is not there.
//! - A zone that a chunk gives up is [`Role::Leaving`]: nothing is written to it until a commit that does not name it is durable.
//! - A commit writes what would be left if all bios in flight had never been sent, see [`Volume::entry_to_commit`].

use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Range;

use slab::Slab;

use super::dirty::DirtyBlocks;
use super::format::{Held, MapEntry, NO_ZONE, Places};
use super::guards::Guards;
use super::valid::ValidBlocks;
use super::zones::{Role, Zones};
use super::{BLOCK_BYTES, Block, ChunkNo, MetaBlock, Number, Rows, SetZone, ZoneClass};
use crate::block::Bio;
use crate::prelude::*;
use crate::time::Instant;

/// A chunk and its zones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub entry: MapEntry,
    /// Whether there is more to know of it, see [`Busy`].
    pub is_busy: bool,
    /// Whether its entry on the disk was no good: its blocks cannot be read.
    pub is_bad: bool,
}

/// What else there is to know of a chunk that something goes on with.
#[derive(Default)]
pub(super) struct Busy {
    /// Bios that wait until it can take them, in their order.
    pub waiting: VecDeque<Box<Bio>>,
    /// Writes that are held back because what goes before them may be on its way.
    pub held: VecDeque<Box<Bio>>,
    /// Until when they are.
    pub held_until: Instant,
    /// Since when they are, or since one of them could go.
    pub held_since: Instant,
    /// The copy that reclaim makes of it.
    pub job: Option<ReclaimJob>,
    /// Its sequential zone is asked where its write pointer is.
    pub is_recovering: bool,
}

/// A copy that is being made of a chunk.
pub(super) struct ReclaimJob {
    /// Blocks that were written or discarded since it began: their copies are out of date.
    pub changed: ValidBlocks,
    /// Whether writes to the write pointer of the chunk's zone are its own.
    pub owns_pointer: bool,
    /// Whether nobody else may write the chunk.
    pub is_exclusive: bool,
    /// True if bios for the chunk wait until the copy is over, as in the kernel.
    pub excludes_users: bool,
    /// True if such a bio ends the copy.
    pub yields: bool,
    /// Whether it is to end.
    pub is_cancelled: bool,
}

impl Busy {
    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty() && self.job.is_none() && !self.is_recovering
    }

    /// Whether writes have to wait.
    pub fn holds_writes(&self) -> bool {
        let job = self.job.as_ref();
        self.is_recovering || !self.waiting.is_empty() || job.is_some_and(|job| job.is_exclusive || job.excludes_users)
    }
}

/// A write on its way to a zone.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub chunk: ChunkNo,
    pub zone: SetZone,
    pub blocks: Range<Block>,
    /// Whether it is done only when it is durable.
    pub is_fua: bool,
}

/// The mapping.
pub(super) struct Volume {
    pub zones: Zones,
    pub chunks: Rows<ChunkNo, Chunk>,
    pub busy: BTreeMap<ChunkNo, Busy>,
    pub writes: Slab<Write>,
    pub dirty: DirtyBlocks,
    pub places: Places,
    /// Cache and random zones that chunks gave up, until somebody has counted them.
    pub random_freed: u32,
    /// Those of them that take buffers.
    pub buffers_freed: u32,
    /// Chunks of which not all bits held as the metadata was loaded, or with zones in which nothing was valid. Both
    /// are committed when zones are needed, and empty zones become free.
    pub to_settle: Vec<ChunkNo>,
    pub guards: Guards,
}

impl Volume {
    /// A volume with these chunks, none of them mapped.
    pub fn new(zones: Zones, chunks: u32, map_blocks: u32, metadata_blocks: u32) -> Self {
        let chunk = Chunk { entry: MapEntry::UNMAPPED, is_busy: false, is_bad: false };
        Self {
            places: Places::new(map_blocks, zones.zone_blocks),
            zones,
            chunks: Rows::filled(chunk, chunks as usize),
            busy: BTreeMap::new(),
            writes: Slab::new(),
            dirty: DirtyBlocks::new(metadata_blocks),
            random_freed: 0,
            buffers_freed: 0,
            to_settle: Vec::new(),
            guards: Guards::default(),
        }
    }

    /// Where block `at` of `chunk` is, and up to which block, at most `end`, that is so.
    #[inline]
    pub fn find(&self, chunk: ChunkNo, at: Block, end: Block) -> (Option<SetZone>, Block) {
        let MapEntry { dzone, bzone } = self.chunks[chunk].entry;
        if dzone == NO_ZONE {
            return (None, end);
        }
        let (is_valid, until) = self.zones.all[dzone].valid.run(at, end);
        if is_valid {
            return (Some(dzone), until);
        }
        if bzone == NO_ZONE {
            return (None, until);
        }
        let (is_valid, until) = self.zones.all[bzone].valid.run(at, until);
        (is_valid.then_some(bzone), until)
    }

    /// The copy that is being made of `chunk`.
    pub fn job(&mut self, chunk: ChunkNo) -> Option<&mut ReclaimJob> {
        if !self.chunks[chunk].is_busy {
            return None;
        }
        self.busy.get_mut(&chunk)?.job.as_mut()
    }

    /// What else there is to know of `chunk`, from now on.
    pub fn make_busy(&mut self, chunk: ChunkNo) -> &mut Busy {
        self.chunks[chunk].is_busy = true;
        self.busy.entry(chunk).or_default()
    }

    /// Forgets what else there is to know of `chunk` if that is nothing any more.
    pub fn calm(&mut self, chunk: ChunkNo) {
        if self.busy.get(&chunk).is_some_and(Busy::is_over) {
            self.busy.remove(&chunk);
            self.chunks[chunk].is_busy = false;
        }
    }

    /// Notes that the entry of `chunk` has changed.
    pub fn mark_entry(&mut self, chunk: ChunkNo) {
        self.dirty.mark(self.places.entry(chunk));
    }

    fn mark_bits(&mut self, zone: SetZone, blocks: &Range<Block>) {
        self.places.bits(zone, blocks).for_each(|block| self.dirty.mark(block));
    }

    /// Notes that all that is known of the zones of `chunk` may have changed.
    pub fn mark_all(&mut self, chunk: ChunkNo) {
        let MapEntry { dzone, bzone } = self.chunks[chunk].entry;
        let all = Block::all(self.zones.zone_blocks);
        [dzone, bzone].into_iter().filter(|zone| *zone != NO_ZONE).for_each(|zone| self.mark_bits(zone, &all));
        self.mark_entry(chunk);
    }

    /// Whether the disk knows all of these blocks of `chunk` in `zone`.
    pub fn is_durable(&self, chunk: ChunkNo, zone: SetZone, blocks: &Range<Block>) -> bool {
        let is_clean = |block| self.dirty.is_clean(block);
        is_clean(self.places.entry(chunk)) && self.places.bits(zone, blocks).all(is_clean)
    }

    /// Puts blocks into the valid ones of `zone`, which `chunk` has.
    pub fn validate(&mut self, chunk: ChunkNo, zone: SetZone, blocks: &Range<Block>) {
        let valid = &mut self.zones.all[zone].valid;
        let was_empty = valid.is_empty();
        if valid.insert(blocks.clone()) > 0 {
            self.mark_bits(zone, blocks);
            if was_empty {
                self.mark_entry(chunk);
            }
        }
    }

    /// Takes blocks out of the valid ones of `zone`, which `chunk` has.
    pub fn invalidate(&mut self, chunk: ChunkNo, zone: SetZone, blocks: &Range<Block>) {
        if zone == NO_ZONE {
            return;
        }
        let valid = &mut self.zones.all[zone].valid;
        if valid.remove(blocks.clone()) > 0 {
            let is_empty = valid.is_empty();
            self.mark_bits(zone, blocks);
            if is_empty {
                // The next commit does not name it, see `entry_to_commit`.
                self.zones.set_unrecorded(zone, true);
                self.mark_entry(chunk);
            }
        }
    }

    /// A write is complete: its blocks are valid where it went, and nowhere else.
    pub fn written(&mut self, write: &Write) {
        let MapEntry { dzone, bzone } = self.chunks[write.chunk].entry;
        debug_assert!(write.zone == dzone || write.zone == bzone, "{write:?} went to a zone that the chunk gave up");
        self.validate(write.chunk, write.zone, &write.blocks);
        let other = if write.zone == dzone { bzone } else { dzone };
        self.invalidate(write.chunk, other, &write.blocks);
        self.note_change(write.chunk, &write.blocks);
    }

    /// The commit that names these zones is durable. One in which nothing is valid any more, or soon may be, will not be
    /// named by the next.
    pub fn record(&mut self, zones: &[SetZone]) {
        for zone in zones {
            if self.zones.is_recordable(*zone) && !self.may_empty(*zone, 0) {
                self.zones.set_unrecorded(*zone, false);
            }
        }
    }

    /// True if the metadata on the disk names the data zone of `chunk`, and a write of `blocks` blocks to its buffer, with those
    /// in flight, may leave nothing valid there.
    pub fn may_unrecord(&self, chunk: ChunkNo, blocks: u32) -> bool {
        let dzone = self.chunks[chunk].entry.dzone;
        self.zones.is_sequential(dzone) && !self.zones.all[dzone].is_unrecorded && self.may_empty(dzone, blocks)
    }

    /// Counts the data zone of `chunk` as unrecorded from now on if a write of `blocks` blocks to its buffer, with those in
    /// flight, may leave nothing valid there.
    pub fn expect_unrecorded(&mut self, chunk: ChunkNo, blocks: u32) {
        if self.may_unrecord(chunk, blocks) {
            self.zones.set_unrecorded(self.chunks[chunk].entry.dzone, true);
        }
    }

    /// Has the next commit write the entry of the chunk if `write`, which has ended, went to its buffer, and its data zone
    /// counts as unrecorded: if something is valid there, the commit records it again.
    pub fn mark_unrecorded(&mut self, write: &Write) {
        let dzone = self.chunks[write.chunk].entry.dzone;
        if dzone != NO_ZONE && dzone != write.zone && self.zones.all[dzone].is_unrecorded {
            self.mark_entry(write.chunk);
        }
    }

    /// True if writes in flight to the other zone of its chunk, and `blocks` more blocks, may leave nothing valid in `zone`.
    fn may_empty(&self, zone: SetZone, blocks: u32) -> bool {
        let Role::Data(chunk) = self.zones.all[zone].role else { return false };
        let elsewhere = self.writes.iter().map(|(_, write)| write);
        let elsewhere = elsewhere.filter(|write| write.chunk == chunk && write.zone != zone);
        let in_flight: u32 = elsewhere.map(|write| write.blocks.end - write.blocks.start).sum();
        in_flight + blocks >= self.zones.all[zone].valid.weight()
    }

    /// A write has failed. What was valid where it went may be as before or as written, and who has read it since has seen which: a
    /// copy that was made before may be of the other.
    pub fn write_failed(&mut self, write: &Write) {
        let valid = self.zones.all[write.zone].valid.runs(write.blocks.clone());
        valid.collect::<Vec<_>>().iter().for_each(|blocks| self.note_change(write.chunk, blocks));
    }

    /// Forgets blocks of `chunk`.
    pub fn discard(&mut self, chunk: ChunkNo, blocks: &Range<Block>) {
        let MapEntry { dzone, bzone } = self.chunks[chunk].entry;
        self.invalidate(chunk, dzone, blocks);
        self.invalidate(chunk, bzone, blocks);
        self.note_change(chunk, blocks);
        self.settle(chunk);
    }

    /// Tells the copy that is being made of `chunk` that blocks have changed.
    pub fn note_change(&mut self, chunk: ChunkNo, blocks: &Range<Block>) {
        if let Some(job) = self.job(chunk) {
            job.changed.insert(blocks.clone());
        }
    }

    /// Gives `chunk` a zone for its data.
    pub fn map(&mut self, chunk: ChunkNo, zone: SetZone) {
        self.chunks[chunk].entry = MapEntry { dzone: zone, bzone: NO_ZONE };
        self.zones.all[zone].role = Role::Data(chunk);
        self.mark_entry(chunk);
    }

    /// Gives `chunk` a zone for rewrites.
    pub fn add_buffer(&mut self, chunk: ChunkNo, zone: SetZone) {
        self.chunks[chunk].entry.bzone = zone;
        self.zones.all[zone].role = Role::Buffer(chunk);
        self.mark_entry(chunk);
    }

    /// Gives up zones of `chunk` that hold nothing and are not written.
    pub fn settle(&mut self, chunk: ChunkNo) {
        if self.job(chunk).is_some() {
            return;
        }
        let MapEntry { dzone, bzone } = self.chunks[chunk].entry;
        if bzone != NO_ZONE && self.is_spent(bzone) {
            self.chunks[chunk].entry.bzone = NO_ZONE;
            self.give_up(bzone);
            self.mark_entry(chunk);
        }
        let bzone = self.chunks[chunk].entry.bzone;
        if dzone != NO_ZONE && self.is_spent(dzone) {
            // What is in the buffer is all that there is.
            self.chunks[chunk].entry = MapEntry { dzone: bzone, bzone: NO_ZONE };
            if bzone != NO_ZONE {
                self.zones.all[bzone].role = Role::Data(chunk);
            }
            self.give_up(dzone);
            self.mark_entry(chunk);
        }
    }

    /// True if `chunk` has a zone in which nothing is valid.
    pub fn has_spent(&self, chunk: ChunkNo) -> bool {
        let MapEntry { dzone, bzone } = self.chunks[chunk].entry;
        [dzone, bzone].into_iter().any(|zone| zone != NO_ZONE && self.is_spent(zone))
    }

    fn is_spent(&self, zone: SetZone) -> bool {
        let state = &self.zones.all[zone];
        state.valid.is_empty() && state.writes == 0 && !state.is_suspect
    }

    /// Lets `zone` go with the next commit.
    pub fn give_up(&mut self, zone: SetZone) {
        let state = &mut self.zones.all[zone];
        state.role = Role::Leaving;
        self.zones.set_unrecorded(zone, true);
        let class = self.zones.all[zone].class;
        self.random_freed += u32::from(class != ZoneClass::Sequential);
        self.buffers_freed += u32::from(self.zones.is_buffering(class));
        let state = &mut self.zones.all[zone];
        debug_assert_eq!(state.writes, 0, "zone {zone} is given up while it is written");
        if !state.valid.is_empty() {
            let blocks = Block::FIRST..state.valid.end();
            state.valid.clear();
            self.mark_bits(zone, &blocks);
        }
        if self.guards.gone().reuse_at_once {
            self.zones.leave(zone);
        } else {
            self.zones.leaving.push(zone);
        }
    }

    /// The entry of `chunk` as a commit writes it: a zone in which nothing is valid yet is not named, so what is on the disk
    /// never tells of a zone that is still empty.
    pub fn entry_to_commit(&self, chunk: ChunkNo) -> MapEntry {
        let entry = self.chunks[chunk].entry;
        let named = |zone: SetZone| zone != NO_ZONE && !self.zones.all[zone].valid.is_empty();
        match (named(entry.dzone), named(entry.bzone)) {
            (true, true) => entry,
            (true, false) => MapEntry { bzone: NO_ZONE, ..entry },
            (false, true) => MapEntry { dzone: entry.bzone, bzone: NO_ZONE },
            (false, false) => MapEntry::UNMAPPED,
        }
    }

    /// Writes metadata block `block` as a commit writes it.
    pub fn encode(&self, block: MetaBlock, to: &mut [u8]) {
        debug_assert_eq!(to.len(), BLOCK_BYTES);
        match self.places.held(block) {
            Held::Bits(zone, first) => self.zones.all[zone].valid.to_bitmap(first, to),
            Held::Entries(first) => {
                for (chunk, bytes) in first.onwards().zip(to.as_chunks_mut::<8>().0) {
                    let is_chunk = self.chunks.get(chunk).is_some();
                    *bytes = if is_chunk { self.entry_to_commit(chunk) } else { MapEntry::UNMAPPED }.encode();
                }
            }
        }
    }

    /// A zone for first writes and rewrites.
    pub fn take_random(&mut self) -> Option<SetZone> {
        self.zones.take_buffer()
    }

    /// A sequential zone.
    pub fn take_sequential(&mut self) -> Option<SetZone> {
        self.zones.take(ZoneClass::Sequential, None)
    }
}
