//! Copies of blocks: written elsewhere, they count if their blocks are still where they were.

use super::append::{MOST_ATTEMPTS, arrive, room_for};
use super::format::{BatchKind, Copied, Header};
use super::lanes::{LaneNo, Lanes};
use super::log::{Pool, Sealed, Stream};
use super::map::{Found, Span};
use super::refusal::{is_refusal, until_let_in};
use super::state::{Readiness, Shared, Slot, State};
use super::victim::Block;
use super::{CopyNo, Generation, Pba, ZoneIndex};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// Blocks of the shortest batch of copies that is begun at the end of a zone.
const LEAST_BATCH: u32 = 2;

/// Where blocks are copied from. It says how it is known that they are there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// A zone whose live blocks are marked: in which stream it was written, and its generation when these were read. It may have been given back
    /// since, and others be where they were.
    Victim(Stream, Generation),
    /// Blocks in order, wherever they lie: the map was asked.
    Range,
}

/// Copies these blocks until fewer than `least` are left. What could not be written is copied again elsewhere, with another number: that of a copy
/// may be missing, and until it counts its block is where it was.
pub(super) async fn copy_until(
    shared: &Shared,
    origin: Origin,
    blocks: &mut Vec<(Block, Data)>,
    least: usize,
) -> Result<(), Reason> {
    let mut failures = 0;
    while blocks.len() >= least {
        match until_let_in(shared, async || copy(shared, origin, blocks).await).await {
            Ok(copied) => drop(blocks.drain(..copied)),
            Err(reason) if is_refusal(&reason) => return Err(reason),
            Err(reason) => {
                failures += 1;
                if failures > MOST_ATTEMPTS || shared.borrow().readiness != Readiness::Ready {
                    return Err(reason);
                }
            }
        }
    }
    Ok(())
}

/// Copies the first of these blocks, as many as a batch takes; how many.
pub(super) async fn copy(shared: &Shared, origin: Origin, blocks: &[(Block, Data)]) -> Result<usize, Reason> {
    let wanted = shared.borrow().lane_of(origin);
    let lane = room_for(shared, wanted, Pool::Cleaning, LEAST_BATCH).await?;
    let now = shared.borrow().copies_that_fit(lane, blocks.len());
    let lane = room_for(shared, lane, Pool::Cleaning, State::blocks_of_copies(now)).await?;
    let progress = shared.borrow().signals.progress.clone();
    progress.until(|| shared.borrow().may_seal(origin).then_some(())).await;
    let begun = {
        let mut state = shared.borrow_mut();
        let sealed = state.seal_copies(&blocks[..now], origin);
        sealed.map(|sealed| (state.send(lane, &sealed, 0), sealed))
    };
    let Some((sent, sealed)) = begun else { return Ok(now) };
    let result = match sent {
        Ok(sent) => arrive(shared, &sealed, sent).await,
        Err(reason) => Err(reason),
    };
    let mut state = shared.borrow_mut();
    state.copies_under_way -= 1;
    state.notify(|signals| &signals.progress);
    state.apply_copies(&result?, &sealed, origin);
    Ok(now)
}

impl Origin {
    /// The stream in which copies of it are written.
    fn stream(self) -> Stream {
        match self {
            Self::Victim(stream, _) => stream.of_copies(),
            Self::Range => Stream::Copies,
        }
    }
}

impl State {
    /// The lane that copies go to.
    fn lane_of(&self, origin: Origin) -> LaneNo {
        if self.options.one_stream { Lanes::USERS } else { self.lanes.of_copies(origin.stream()) }
    }

    /// How many of so many blocks the open zone takes in one batch.
    fn copies_that_fit(&self, lane: LaneNo, blocks: usize) -> usize {
        let room = self.lanes[lane].room().min(self.disks.least_room);
        let most = blocks.min(self.options.most_copies() as usize);
        (1..=most).rev().find(|count| Self::blocks_of_copies(*count) <= room).unwrap_or(1)
    }

    /// Most blocks that so many copies take, with what may be left of a zone that they fill, or another header where they go on.
    pub fn most_blocks_of_copies(&self, count: u32) -> u32 {
        let batch = self.options.most_copies();
        let of = |count: u32| if count == 0 { 0 } else { Self::blocks_of_copies(count as usize) };
        count / batch * of(batch) + of(count % batch) + LEAST_BATCH - 1
    }

    /// Blocks of a batch of so many copies.
    pub fn blocks_of_copies(count: usize) -> u32 {
        (Header::blocks_of(count * Copied::BYTES, count) + count) as u32
    }

    /// Whether copies may be sealed: a checkpoint that is to begin waits for those under way. Of a range all has to be older than a durable root.
    fn may_seal(&self, origin: Origin) -> bool {
        match origin {
            Origin::Victim(..) => !self.is_freezing,
            Origin::Range => !self.is_freezing && !self.is_checkpointing,
        }
    }

    /// A batch of those that are where they were.
    fn seal_copies(&mut self, blocks: &[(Block, Data)], origin: Origin) -> Option<Sealed> {
        let (mut records, mut checksums, mut payload) = (Vec::new(), Vec::new(), Vec::new());
        for (block, data) in blocks.iter().filter(|(block, _)| self.is_there(block, origin)) {
            let zone = self.zone_with(block.place);
            let generation = self.zones.rows()[zone.0 as usize].generation;
            let written = match origin {
                Origin::Victim(..) => block.written,
                // Runs and leaves say what was written up to there, and so does a durable root.
                Origin::Range => self.map_cut.0,
            };
            records.push(Copied { lba: block.lba, from: block.place, generation, written });
            checksums.push(block.checksum);
            payload.push(data.clone());
        }
        if records.is_empty() {
            return None;
        }
        self.copies = self.copies + 1;
        self.copies_under_way += 1;
        let CopyNo(number) = self.copies;
        Some(Sealed { number, kind: BatchKind::Copies(records), checksums, payload })
    }

    fn zone_with(&self, place: Pba) -> ZoneIndex {
        self.disks.set.zone_of(place).0
    }

    /// Whether the map says that a block is there.
    fn is_there(&self, block: &Block, origin: Origin) -> bool {
        if let Origin::Victim(_, generation) = origin {
            return self.is_still(self.zone_with(block.place), generation) && self.is_live(block);
        }
        if self.guards.gone().ranges_unasked {
            return true;
        }
        if self.map.is_above_runs(block.lba) {
            return false;
        }
        // A part of the map that is not in memory any more cannot say so.
        let (Found::Data(extent), _) = self.map.find(block.lba, block.lba + 1) else { return false };
        extent.place(0) == Some((block.place, block.checksum))
    }

    /// Whether a block of which the map has said so since copies of it were begun is still there. No checkpoint ends while copies are under way: so what
    /// is above runs and leaves knows all that has happened.
    fn is_still_there(&self, block: &Block, origin: Origin) -> bool {
        if matches!(origin, Origin::Victim(..)) {
            return self.is_there(block, origin);
        }
        !self.map.is_above_runs(block.lba)
    }

    /// Copies count, of blocks that are still where they were.
    fn apply_copies(&mut self, slot: &Slot, sealed: &Sealed, origin: Origin) {
        let BatchKind::Copies(records) = &sealed.kind else { return };
        let start = Self::payload_place(slot, sealed);
        for (at, (record, checksum)) in records.iter().zip(&sealed.checksums).enumerate() {
            let block = Block { lba: record.lba, place: record.from, checksum: *checksum, written: record.written };
            if !self.is_still_there(&block, origin) && !self.guards.gone().copies_unconditional {
                continue;
            }
            self.map.pending.put(Span::at(record.lba, start + at as u64, &[*checksum]));
            self.zones.count(slot.zone, 1);
            self.zones.count(self.zone_with(record.from), -1);
        }
        self.counters.copied_blocks += records.len() as u64;
        self.is_checkpoint_wanted |= self.map.pending.bytes() > self.options.pending_bytes;
    }
}
