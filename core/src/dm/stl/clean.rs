//! Cleaning: what is live in a zone is copied elsewhere, so that the zone can be given back.

use super::append::{finish, room_for};
use super::format::{BatchKind, Checksum, Copied, Header, Written};
use super::headers::{Found, chain};
use super::log::{Pool, Sealed};
use super::map::Extent;
use super::policy::{Candidate, Choice};
use super::read::locate;
use super::state::{Readiness, Shared, Slot, State};
use super::{BLOCK_BYTES, BatchNo, CopyNo, Generation, Lba, Pba, ZoneIndex};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// A block of a victim.
#[derive(Clone, Copy, Debug)]
struct Block {
    lba: Lba,
    place: Pba,
    checksum: Checksum,
    written: BatchNo,
}

/// Cleans zones while there are too few free ones.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        let victim = signals.progress.until(|| shared.borrow().victim()).await;
        let result = clean(&shared, victim).await;
        let mut state = shared.borrow_mut();
        match result {
            Ok(()) => state.counters.cleaned_zones += 1,
            // What cannot be read stays where it is.
            Err(_) => state.zones.spoil(victim),
        }
        state.is_checkpoint_wanted |= state.is_short();
        state.notify(|signals| &signals.progress);
    }
}

impl State {
    /// Whether free zones should become more.
    pub fn is_short(&self) -> bool {
        self.zones.free(Pool::Users) < self.stock()
    }

    /// Free zones that there should be.
    pub fn stock(&self) -> usize {
        (self.zones.rows().len() / 64).clamp(2, 256)
    }

    /// The zone to be cleaned next, if one should be.
    fn victim(&self) -> Option<ZoneIndex> {
        let soon = self.zones.free(Pool::Users) + self.zones.done_with() + self.zones.waiting();
        if self.readiness != Readiness::Ready || self.is_suspended || soon >= self.stock() {
            return None;
        }
        let candidate = |zone: ZoneIndex, live: u32, closed_at: u64| Candidate {
            live: f64::from(live) / f64::from(self.disks.shape(zone).room),
            age: (self.clock + 1).saturating_sub(closed_at) as f64,
        };
        // Where users wait, the zone counts that gives most.
        let choice = if self.zones.free(Pool::Users) == 0 { Choice::Greedy } else { self.options.choice };
        // What is in a batch that does not count yet is not in the map.
        let counts = |zone: &ZoneIndex| self.zones.newest(*zone) <= self.counted();
        let zones = self.zones.full(&[Pool::Users, Pool::Cleaning]).filter(|(zone, _)| counts(zone));
        let scored = zones.map(|(zone, row)| (zone, choice.score(&candidate(zone, row.live, row.closed_at))));
        scored.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(zone, _)| zone)
    }

    /// Whether the map says that a block is elsewhere, as far as that is known in memory.
    fn is_known_elsewhere(&self, lba: Lba, place: Pba) -> bool {
        let levels = [Some(&self.map.pending), self.map.frozen.as_ref()].into_iter().flatten();
        let knows = |level: &super::map::Pending| {
            level
                .find(lba)
                .map(|extent| extent.place((lba - extent.lba) as u32).is_none_or(|(there, _)| there != place))
        };
        levels.into_iter().find_map(knows).unwrap_or(false)
    }

    /// Copies count, of blocks that are still where they were.
    fn apply_copies(&mut self, slot: &Slot, sealed: &Sealed) {
        let BatchKind::Copies(records) = &sealed.kind else { return };
        let start = Self::payload_place(slot, sealed);
        for (at, (record, checksum)) in records.iter().zip(&sealed.checksums).enumerate() {
            let is_gone = self.is_known_elsewhere(record.lba, record.from);
            if is_gone && !self.guards.gone().copies_unconditional {
                continue;
            }
            self.map.pending.put(Extent::at(record.lba, start + at as u64, &[*checksum]));
            self.zones.count(slot.zone, 1);
            self.zones.count(self.disks.set.zone_of(record.from).0, -1);
        }
        self.counters.copied_blocks += records.len() as u64;
    }
}

/// Copies what is live in a zone, and says that nothing in it is.
async fn clean(shared: &Shared, zone: ZoneIndex) -> Result<(), Reason> {
    let generation = shared.borrow().zones.rows()[zone.0 as usize].generation;
    let mut live = blocks_of(shared, zone).await?;
    live.sort_unstable_by_key(|block| block.lba);
    let mut judged = judge(shared, live).await?;
    while !judged.live.is_empty() {
        judged = copy(shared, judged, generation).await?;
    }
    let mut state = shared.borrow_mut();
    if !state.guards.gone().reset_unjudged {
        let (user, copy) = (state.counted(), state.copies);
        state.zones.note(zone, user, copy);
    }
    state.zones.be_done_with(zone);
    Ok(())
}

/// All blocks of users that were written to a zone.
async fn blocks_of(shared: &Shared, zone: ZoneIndex) -> Result<Vec<Block>, Reason> {
    let mut blocks = Vec::new();
    let found = chain(shared, zone, None).await?;
    let written = shared.borrow().zones.rows()[zone.0 as usize].written;
    if found.last().map_or(0, |last| last.end) < written {
        // A header is damaged. What comes behind it may be live.
        return Err(Reason::Medium);
    }
    for Found { header, payload, .. } in found {
        let at = |number: usize| (payload + number as u64, header.checksums[number]);
        match &header.kind {
            BatchKind::User(records) => {
                let mut number = 0;
                for Written { lba, blocks: count, .. } in records.iter().filter(|record| record.has_data) {
                    blocks.extend((0..u64::from(*count)).map(|offset| {
                        let (place, checksum) = at(number + offset as usize);
                        Block { lba: *lba + offset, place, checksum, written: BatchNo(header.batch.number) }
                    }));
                    number += *count as usize;
                }
            }
            BatchKind::Copies(records) => {
                blocks.extend(records.iter().enumerate().map(|(number, record)| {
                    let (place, checksum) = at(number);
                    Block { lba: record.lba, place, checksum, written: record.written }
                }));
            }
            _ => {}
        }
    }
    Ok(blocks)
}

/// Blocks that are live, as of a number of runs: a later one may say otherwise.
struct Judged {
    live: Vec<Block>,
    runs: u64,
}

/// Those of them that are where the map says.
async fn judge(shared: &Shared, blocks: Vec<Block>) -> Result<Judged, Reason> {
    let runs = shared.borrow().runs_written;
    let mut live = Vec::new();
    for block in blocks {
        if locate(shared, block.lba).await?.is_some_and(|(place, _)| place == block.place) {
            live.push(block);
        }
    }
    Ok(Judged { live, runs })
}

/// Copies the first of these blocks, as many as a batch takes. Those that are left.
async fn copy(shared: &Shared, judged: Judged, generation: Generation) -> Result<Judged, Reason> {
    room_for(shared, Pool::Cleaning, 3).await?;
    let now = shared.borrow().copies_that_fit(&judged.live);
    let data = read_blocks(shared, &judged.live[..now]).await?;
    room_for(shared, Pool::Cleaning, State::blocks_of_copies(now)).await?;
    let progress = shared.borrow().signals.progress.clone();
    progress.until(|| (!shared.borrow().is_freezing).then_some(())).await;
    if shared.borrow().runs_written != judged.runs {
        return judge(shared, judged.live).await;
    }
    let begun = {
        let mut state = shared.borrow_mut();
        let sealed = state.seal_copies(&judged.live[..now], &data, generation);
        sealed.map(|sealed| (state.send(Pool::Cleaning, &sealed, 0), sealed))
    };
    if let Some((sent, sealed)) = begun {
        let result = finish(shared, Pool::Cleaning, &sealed, sent).await;
        let mut state = shared.borrow_mut();
        state.copies_under_way -= 1;
        state.notify(|signals| &signals.progress);
        state.apply_copies(&result?, &sealed);
    }
    Ok(Judged { live: judged.live[now..].to_vec(), runs: judged.runs })
}

impl State {
    /// How many of them the open zone takes in one batch.
    fn copies_that_fit(&self, live: &[Block]) -> usize {
        let room = self.cursors[Pool::Cleaning as usize].map_or(0, |cursor| cursor.room - cursor.next);
        let most = live.len().min(self.options.batch_blocks as usize);
        (1..=most).rev().find(|count| Self::blocks_of_copies(*count) <= room).unwrap_or(1)
    }

    /// Blocks of a batch of so many copies.
    fn blocks_of_copies(count: usize) -> u32 {
        (Header::blocks_of(count * Copied::BYTES, count) + count) as u32
    }

    /// A batch of those that are still where they were.
    fn seal_copies(&mut self, blocks: &[Block], data: &[Data], generation: Generation) -> Option<Sealed> {
        let (mut records, mut checksums, mut payload) = (Vec::new(), Vec::new(), Vec::new());
        for (block, data) in blocks.iter().zip(data) {
            if self.is_known_elsewhere(block.lba, block.place) {
                continue;
            }
            records.push(Copied { lba: block.lba, from: block.place, generation, written: block.written });
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
}

/// Reads blocks, those that lie in a row at once, and checks each.
async fn read_blocks(shared: &Shared, blocks: &[Block]) -> Result<Vec<Data>, Reason> {
    let mut readings = Vec::new();
    {
        let state = shared.borrow();
        for part in blocks.chunk_by(|one, next| one.place + 1 == next.place) {
            readings.push((part, state.disks.read(&state.io, part[0].place, part.len() as u32)?));
        }
    }
    let mut all = Vec::with_capacity(blocks.len());
    for (part, reading) in readings {
        let data = reading.data().await?;
        for (number, block) in part.iter().enumerate() {
            let data = data.slice(number * BLOCK_BYTES, BLOCK_BYTES);
            if Checksum::of_block(block.lba, &data.to_vec()) != block.checksum {
                return Err(Reason::WrongChecksum { block: block.lba.0 });
            }
            all.push(data);
        }
    }
    Ok(all)
}
