//! Cleaning: what is live in a zone is copied elsewhere, so that the zone can be given back.

use super::append::{MOST_ATTEMPTS, arrive, room_for};
use super::format::{BatchKind, Copied, Header};
use super::lanes::LaneNo;
use super::log::{Pool, Sealed};
use super::map::{Bitmap, Extent};
use super::policy::{Candidate, Choice, Level};
use super::state::{Readiness, Shared, Slot, State};
use super::victim::{Block, Victim};
use super::{CopyNo, Generation, ZoneIndex};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// Cleans zones while there are too few free ones.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        let victim = signals.progress.until(|| shared.borrow_mut().choose()).await;
        let (zone, generation) = (victim.zone, victim.generation);
        let result = clean(&shared, victim).await;
        let mut state = shared.borrow_mut();
        state.victim = None;
        match result {
            _ if !state.is_still(zone, generation) => {}
            Ok(()) => {
                state.counters.cleaned_zones += 1;
                state.cleaned_in_vain += 1;
            }
            // It may be moved when there is room.
            Err(Reason::VolumeFull) if state.is_to_be_emptied(zone) => {}
            // What cannot be read stays where it is.
            Err(_) => {
                state.zones.spoil(zone);
                state.map.live.forget(zone);
            }
        }
        state.is_checkpoint_wanted |= state.is_short();
        state.notify(|signals| &signals.progress);
        state.notify(|signals| &signals.changes);
    }
}

impl State {
    /// Whether free zones should become more.
    pub fn is_short(&self) -> bool {
        self.zones.free(Pool::Users) < self.stock()
    }

    /// Free zones that there should be.
    pub fn stock(&self) -> usize {
        let (_, zones) = self.disks.set.used();
        (zones / 64).clamp(2, 256)
    }

    /// Free zones, and those that will be when what is done with was reset.
    pub fn level(&self) -> Level {
        let free = self.zones.free(Pool::Users) + self.zones.done_with() + self.zones.waiting();
        Level { free, high: self.stock() }
    }

    /// Whether zones will soon have to be cleaned.
    pub fn wants_victims(&self) -> bool {
        self.level().free < 2 * self.stock() || self.is_evacuating()
    }

    /// Users wait until cleaning has done its part.
    pub fn is_cleaning_owed(&self) -> bool {
        self.pace.owed() > f64::from(self.options.turn_blocks) && self.can_clean()
    }

    /// The zone to be cleaned next, if one should be.
    fn choose(&mut self) -> Option<Victim> {
        let Level { free, high } = self.level();
        let is_short = free < high;
        if self.readiness != Readiness::Ready || self.is_suspended || !(is_short || self.is_evacuating()) {
            return None;
        }
        if self.is_cleaned_in_vain() {
            self.degrade("the zones that can be written are full, however often they are cleaned".into());
            return None;
        }
        self.victim = self.best_marked().filter(|_| is_short).or_else(|| self.leaving_victim());
        let Some(zone) = self.victim else {
            if !self.look_for_leaving() && is_short {
                self.look_for_victims();
            }
            return None;
        };
        if !self.is_to_be_emptied(zone) {
            self.pace.begin(self.live_share(zone, self.marked(zone)));
        }
        Some(Victim::new(zone, self))
    }

    /// That of the zones whose live blocks are known which is best to clean. Where users wait, that counts which gives most.
    pub fn best_marked(&self) -> Option<ZoneIndex> {
        let choice = if self.zones.free(Pool::Users) == 0 { Choice::Greedy } else { self.options.choice };
        let zones = self.map.live.zones().filter(|(zone, live)| self.has_gain(*zone, *live));
        let scored = zones.map(|(zone, live)| (zone, self.score(choice, zone, live)));
        scored.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(zone, _)| zone)
    }

    pub fn marked(&self, zone: ZoneIndex) -> u32 {
        self.map.live.of(zone).map_or(0, Bitmap::count)
    }

    fn live_share(&self, zone: ZoneIndex, live: u32) -> f64 {
        f64::from(live) / f64::from(self.disks.shape(zone).room)
    }

    fn score(&self, choice: Choice, zone: ZoneIndex, live: u32) -> f64 {
        let closed_at = self.zones.rows()[zone.0 as usize].closed_at;
        let age = (self.clock + 1).saturating_sub(closed_at) as f64;
        choice.score(&Candidate { live: self.live_share(zone, live), age })
    }

    /// Whether what is live in a zone takes less space elsewhere than the zone. One of a device that leaves gives none back.
    fn has_gain(&self, zone: ZoneIndex, live: u32) -> bool {
        if self.disks.set.is_leaving(zone) {
            return false;
        }
        let batch = self.options.batch_blocks;
        let (whole, rest) = (live / batch, live % batch);
        let of = |count: u32| if count == 0 { 0 } else { Self::blocks_of_copies(count as usize) };
        whole * of(batch) + of(rest) < self.disks.shape(zone).room
    }

    /// There is nothing to clean, as far as is known: more may be known after a checkpoint and a sweep.
    fn look_for_victims(&mut self) {
        self.pace.forgive();
        if self.is_sweep_wanted {
            return;
        }
        if self.map_cut != self.swept || self.is_census_stale {
            self.is_sweep_wanted = true;
        } else if (self.counted(), self.copies) != self.map_cut && !self.is_checkpoint_wanted && !self.is_checkpointing
        {
            self.is_checkpoint_wanted = true;
        } else {
            return self.look_for_hope();
        }
        self.notify(|signals| &signals.progress);
    }

    /// Nothing can be cleaned, and nothing more can be known: if users wait for a zone, they will for ever.
    fn look_for_hope(&mut self) {
        let is_settled = self.order.counted() == self.order.sealed() && self.copies_under_way == 0;
        if is_settled {
            self.have_no_room_for_leaving();
        }
        if is_settled && self.do_users_wait() && !self.are_zones_coming() {
            self.degrade("there is no zone left that can be written, and none that can be cleaned".into());
        }
    }

    /// Whether users have something to write, and no zone for it.
    pub fn do_users_wait(&self) -> bool {
        let has_zone = self.lanes.of_users().any(|(_, lane)| lane.has_room()) || self.zones.free(Pool::Users) > 0;
        !has_zone && !self.changes.is_empty()
    }

    /// Whether all zones were cleaned, and those who wait for one got none: so many died that what is left is full.
    fn is_cleaned_in_vain(&self) -> bool {
        self.cleaned_in_vain > 2 * self.zones.rows().len() && self.do_users_wait()
    }

    /// Zones of these whose live blocks a sweep should mark: the best ones, as far as counts can tell. Marks of worse ones are given up.
    pub fn worth_marking(&mut self, settled: &[(ZoneIndex, Generation)]) -> Vec<ZoneIndex> {
        let score = |(zone, _): &(ZoneIndex, Generation)| {
            let live = self.map.live.of(*zone).map_or(self.zones.rows()[zone.0 as usize].live, Bitmap::count);
            (*zone, self.has_gain(*zone, live), self.score(self.options.choice, *zone, live))
        };
        let readable = settled.iter().filter(|(zone, _)| !self.zones.is_spoilt(*zone));
        let mut scored: Vec<(ZoneIndex, bool, f64)> = readable.map(score).collect();
        scored.sort_by(|one, other| other.1.cmp(&one.1).then(other.2.total_cmp(&one.2)));
        let mut scored = self.with_leaving_first(scored);
        let worse = scored.split_off(scored.len().min(self.options.marked_zones));
        for (zone, ..) in worse.into_iter().filter(|(zone, ..)| self.victim != Some(*zone)) {
            self.map.live.forget(zone);
        }
        scored.into_iter().map(|(zone, ..)| zone).filter(|zone| self.map.live.of(*zone).is_none()).collect()
    }

    /// Whether there is a zone of these that would be worth cleaning if its live blocks were known.
    pub fn has_unmarked_gain(&self, settled: &[(ZoneIndex, Generation)]) -> bool {
        let is_unmarked = |zone: &ZoneIndex| self.map.live.of(*zone).is_none() && !self.zones.is_spoilt(*zone);
        settled
            .iter()
            .map(|(zone, _)| *zone)
            .filter(is_unmarked)
            .any(|zone| self.has_gain(zone, self.zones.rows()[zone.0 as usize].live))
    }

    /// Copies count, of blocks that are still where they were.
    fn apply_copies(&mut self, slot: &Slot, sealed: &Sealed) {
        let BatchKind::Copies(records) = &sealed.kind else { return };
        let start = Self::payload_place(slot, sealed);
        for (at, (record, checksum)) in records.iter().zip(&sealed.checksums).enumerate() {
            let block = Block { lba: record.lba, place: record.from, checksum: *checksum, written: record.written };
            if !self.is_live(&block) && !self.guards.gone().copies_unconditional {
                continue;
            }
            self.map.pending.put(Extent::at(record.lba, start + at as u64, &[*checksum]));
            self.zones.count(slot.zone, 1);
            self.zones.count(self.disks.set.zone_of(record.from).0, -1);
        }
        self.counters.copied_blocks += records.len() as u64;
        self.is_checkpoint_wanted |= self.map.pending.bytes() > self.options.pending_bytes;
    }
}

/// Copies what is live in a zone, and says that nothing in it is.
async fn clean(shared: &Shared, mut victim: Victim) -> Result<(), Reason> {
    let progress = shared.borrow().signals.progress.clone();
    while !victim.is_over() {
        progress.until(|| shared.borrow().may_clean().then_some(())).await;
        let before = victim.read();
        let mut live = victim.next_turn(shared).await?;
        live.sort_unstable_by_key(|(block, _)| block.lba);
        let (read, copied) = (victim.read() - before, live.len());
        copy_all(shared, &victim, live).await?;
        let mut state = shared.borrow_mut();
        let ahead = f64::from(state.options.turn_blocks);
        state.pace.pay(u64::from(read) + copied as u64, ahead);
        state.notify(|signals| &signals.changes);
    }
    let mut state = shared.borrow_mut();
    if !state.is_still(victim.zone, victim.generation) {
        return Ok(());
    }
    if state.map.live.of(victim.zone).is_some_and(|live| live.has_any_from(victim.read())) {
        // The map leads to blocks behind the last batch that is known: an end that was lost is no reason to lose them.
        return Err(Reason::Medium);
    }
    state.settle(victim.zone);
    Ok(())
}

impl State {
    /// Whether a zone is what it was. A sweep may find that nothing in a victim is live, and then it is given back and opened again before its
    /// cleaning has come to an end.
    fn is_still(&self, zone: ZoneIndex, generation: Generation) -> bool {
        let row = &self.zones.rows()[zone.0 as usize];
        row.generation == generation || self.guards.gone().victims_by_place
    }

    /// Whether cleaning may have a turn: users wait for it, or do not write.
    fn may_clean(&self) -> bool {
        self.is_cleaning_owed() || self.changes.is_empty() || self.zones.free(Pool::Users) == 0
    }
}

/// Copies these blocks. What could not be written is copied again elsewhere, with another number: that of a copy may be missing, and
/// until it counts its block is where it was.
async fn copy_all(shared: &Shared, victim: &Victim, mut live: Vec<(Block, Data)>) -> Result<(), Reason> {
    let mut failures = 0;
    while !live.is_empty() {
        match copy(shared, victim, &live).await {
            Ok(copied) => drop(live.drain(..copied)),
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
async fn copy(shared: &Shared, victim: &Victim, live: &[(Block, Data)]) -> Result<usize, Reason> {
    let wanted = shared.borrow().lanes.of_copies(victim.stream.of_copies());
    let lane = room_for(shared, wanted, Pool::Cleaning, 3).await?;
    let now = shared.borrow().copies_that_fit(lane, live.len());
    let lane = room_for(shared, lane, Pool::Cleaning, State::blocks_of_copies(now)).await?;
    let progress = shared.borrow().signals.progress.clone();
    progress.until(|| (!shared.borrow().is_freezing).then_some(())).await;
    let begun = {
        let mut state = shared.borrow_mut();
        let sealed = state.seal_copies(&live[..now], victim.generation);
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
    state.apply_copies(&result?, &sealed);
    Ok(now)
}

impl State {
    /// How many of so many blocks the open zone takes in one batch.
    fn copies_that_fit(&self, lane: LaneNo, live: usize) -> usize {
        let room = self.lanes[lane].room().min(self.disks.least_room);
        let most = live.min(self.options.batch_blocks as usize);
        (1..=most).rev().find(|count| Self::blocks_of_copies(*count) <= room).unwrap_or(1)
    }

    /// Blocks of a batch of so many copies.
    fn blocks_of_copies(count: usize) -> u32 {
        (Header::blocks_of(count * Copied::BYTES, count) + count) as u32
    }

    /// A batch of those that are still where they were.
    fn seal_copies(&mut self, blocks: &[(Block, Data)], generation: Generation) -> Option<Sealed> {
        let (mut records, mut checksums, mut payload) = (Vec::new(), Vec::new(), Vec::new());
        for (block, data) in blocks.iter().filter(|(block, _)| self.is_live(block)) {
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
