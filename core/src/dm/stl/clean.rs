//! Cleaning: what is live in a zone is copied elsewhere, so that the zone can be given back.

use super::copy::{Origin, copy_until};
use super::disks::data_of;
use super::lanes::{Lane, Use};
use super::log::Pool;
use super::map::Bitmap;
use super::policy::{Candidate, Choice, Level};
use super::rewrite::rewrite;
use super::state::{Readiness, Shared, State};
use super::victim::{Block, Victim};
use super::{Generation, Lba, ZoneIndex};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// What users had done when it was looked: bios, and blocks that they had written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    uses: u64,
    written: u64,
}

/// Why a zone could not be cleaned.
enum Unclean {
    /// It cannot be read.
    Unread,
    /// What is live in it could not be written elsewhere.
    Unwritten(Reason),
}

/// What is copied next.
pub(super) enum Work {
    /// What is live in a zone, so that it can be given back.
    Clean(Victim),
    /// What is in a range of blocks, so that it lies in order.
    Rewrite(Lba, Lba),
}

/// Cleans zones while there are too few free ones, and puts in order what is worth it while nobody uses the volume.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        match signals.progress.until(|| shared.borrow_mut().choose()).await {
            Work::Clean(victim) => {
                let (zone, generation) = (victim.zone, victim.generation);
                let result = clean(&shared, victim).await;
                shared.borrow_mut().end_cleaning(zone, generation, &result);
            }
            Work::Rewrite(start, end) => {
                let result = rewrite(&shared, start, end).await;
                let mut state = shared.borrow_mut();
                if result == Ok(false) {
                    state.scattered.put_back(start);
                }
                state.notify(|signals| &signals.progress);
            }
        }
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

    /// What becomes of a victim.
    fn end_cleaning(&mut self, zone: ZoneIndex, generation: Generation, result: &Result<(), Unclean>) {
        self.victim = None;
        match result {
            _ if !self.is_still(zone, generation) => {}
            Ok(()) => {
                self.counters.cleaned_zones += 1;
                self.cleaned_in_vain += 1;
            }
            // It may be moved when there is room.
            Err(Unclean::Unwritten(Reason::VolumeFull)) if self.is_to_be_emptied(zone) => {}
            // No other would do better. To read all of them first is to let users wait for hours.
            Err(Unclean::Unwritten(Reason::VolumeFull)) => {
                if !self.look_further() {
                    self.degrade(
                        "there is no zone left that can be written, and none for what is live in others".into(),
                    );
                }
            }
            // Each try takes a zone.
            Err(Unclean::Unwritten(_)) => {}
            // What cannot be read stays where it is.
            Err(Unclean::Unread) => {
                self.zones.spoil(zone);
                self.map.live.forget(zone);
            }
        }
        self.is_checkpoint_wanted |= self.is_short();
        self.notify(|signals| &signals.progress);
        self.notify(|signals| &signals.changes);
    }

    /// What is to be copied next.
    fn choose(&mut self) -> Option<Work> {
        self.choose_victim().map(Work::Clean).or_else(|| self.idle_work())
    }

    /// The zone to be cleaned next, if one has to be.
    fn choose_victim(&mut self) -> Option<Victim> {
        let Level { free, high } = self.level();
        let is_short = free < high;
        // A volume that is suspended ends the writes inside, which may wait for zones, and begins nothing else.
        let is_wanted =
            if self.is_suspended { is_short && !self.writes.is_empty() } else { is_short || self.is_evacuating() };
        if self.readiness != Readiness::Ready || !is_wanted {
            return None;
        }
        if self.is_cleaned_in_vain() {
            self.degrade("the zones that can be written are full, however often they are cleaned".into());
            return None;
        }
        let is_vain = self.moves_in_circles();
        let leaving = || self.leaving_victim().filter(|_| !is_vain);
        self.victim = self.best_marked().filter(|_| is_short).or_else(leaving);
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

    pub fn live_share(&self, zone: ZoneIndex, live: u32) -> f64 {
        f64::from(live) / f64::from(self.disks.shape(zone).room)
    }

    fn score(&self, choice: Choice, zone: ZoneIndex, live: u32) -> f64 {
        let closed_at = self.zones.rows()[zone.0 as usize].closed_at;
        let age = (self.clock + 1).saturating_sub(closed_at) as f64;
        choice.score(&Candidate { live: self.live_share(zone, live), age })
    }

    /// Whether what is live in a zone takes less space elsewhere than the zone, for sure: where it does not, zones would be cleaned for ever. One of a
    /// device that leaves gives none back.
    fn has_gain(&self, zone: ZoneIndex, live: u32) -> bool {
        if self.disks.set.is_leaving(zone) {
            return false;
        }
        self.most_blocks_of_copies(live) < self.disks.shape(zone).room
    }

    /// There is nothing to clean, as far as is known.
    fn look_for_victims(&mut self) {
        self.pace.forgive();
        if !self.is_sweep_wanted && !self.look_further() {
            self.look_for_hope();
        }
    }

    /// More may be known of zones after a checkpoint and a sweep: whether one of them is wanted now.
    pub fn look_further(&mut self) -> bool {
        if self.map_cut != self.swept || self.is_census_stale {
            self.is_sweep_wanted = true;
        } else if (self.counted(), self.copies) != self.map_cut && !self.is_checkpoint_wanted && !self.is_checkpointing
        {
            self.is_checkpoint_wanted = true;
        } else {
            return false;
        }
        self.notify(|signals| &signals.progress);
        true
    }

    /// Nothing can be cleaned, and nothing more can be known: if users wait for a zone, they will for ever.
    fn look_for_hope(&mut self) {
        let is_settled = self.order.counted() == self.order.sealed() && self.copies_under_way == 0;
        if is_settled {
            self.have_no_room_for_leaving();
        }
        if is_settled && self.do_users_wait() && !self.are_zones_coming() && !self.close_aside() {
            self.degrade("there is no zone left that can be written, and none that can be cleaned".into());
        }
    }

    /// Closes a zone of copies beside the others, if it can be cleaned then: what was copied often goes where all copies go while zones are short.
    fn close_aside(&mut self) -> bool {
        let has_gain = |zone: ZoneIndex| self.has_gain(zone, self.zones.rows()[zone.0 as usize].live);
        let is_one = |lane: &Lane| {
            let is_idle = lane.used_for == Use::Copies && lane.under_way == 0;
            is_idle && lane.cursor.is_some_and(|cursor| has_gain(cursor.zone))
        };
        let Some((lane, _)) = self.lanes.all().find(|(_, lane)| is_one(lane)) else { return false };
        self.close(lane);
        self.is_census_stale = true;
        self.notify(|signals| &signals.progress);
        true
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
}

/// Copies what is live in a zone, and says that nothing in it is.
async fn clean(shared: &Shared, mut victim: Victim) -> Result<(), Unclean> {
    let batch = shared.borrow().options.most_copies() as usize;
    let (mut live, mut seen) = (Vec::new(), None);
    while !victim.is_over() {
        let_users_go_first(shared, victim.zone, &mut seen).await;
        let before = victim.read();
        let turn = victim.next_turn(shared).await;
        let (read, failure) = (victim.read() - before, turn.as_ref().err().cloned());
        live.extend(turn.unwrap_or_default());
        live.sort_unstable_by_key(|(block, _): &(Block, Data)| block.lba);
        let all = live.len();
        // The last batch waits for more, or zones with many short ones would be as full as those that they come from.
        let least = if victim.is_over() || failure.is_some() { 1 } else { batch };
        let copied = copy_until(shared, Origin::Victim(victim.stream, victim.generation), &mut live, least).await;
        copied.map_err(Unclean::Unwritten)?;
        failure.map_or(Ok(()), |_| Err(Unclean::Unread))?;
        detach(&mut live).map_err(Unclean::Unwritten)?;
        let copied = all - live.len();
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
        return Err(Unclean::Unread);
    }
    state.settle(victim.zone);
    Ok(())
}

/// Blocks that wait for others do not keep the memory of all that was read with them.
fn detach(blocks: &mut [(Block, Data)]) -> Result<(), Reason> {
    blocks.iter_mut().try_for_each(|(_, data)| data_of(&data.to_vec()).map(|copy| *data = copy))
}

impl State {
    /// Whether a zone is what it was. A sweep may find that nothing in a victim is live, and then it is given back and opened again before its
    /// cleaning has come to an end.
    pub fn is_still(&self, zone: ZoneIndex, generation: Generation) -> bool {
        let row = &self.zones.rows()[zone.0 as usize];
        row.generation == generation || self.guards.gone().victims_by_place
    }

    /// Whether a turn of this victim is due, whoever writes. One that takes no head away goes on between batches of users.
    fn is_turn_due(&self, victim: ZoneIndex) -> bool {
        let is_beside = self.is_evacuating() || !self.disks.does_rotate(self.disks.member_of(victim));
        let is_between = self.changes.is_empty() || self.zones.free(Pool::Users) == 0;
        self.is_cleaning_owed() || self.do_users_wait() || self.is_suspended || is_beside && is_between
    }

    /// Whether cleaning may be ahead of what users owe: since this was asked before no user has come and none waits, or none has written and there is no
    /// zone left, for which others may wait.
    fn may_be_ahead(&self, before: &mut Option<Seen>) -> bool {
        let now = Seen { uses: self.uses(), written: self.clock };
        let Some(before) = before.replace(now) else { return false };
        let is_unused = before == now && !self.is_busy();
        is_unused || before.written == now.written && self.zones.free(Pool::Users) == 0
    }
}

/// Waits until users owe cleaning a turn, or do not use the volume for a while: between two of their batches is none. A head that goes to and fro
/// between them and a victim gives them a batch for each way, and so a tenth of what the disk can do.
async fn let_users_go_first(shared: &Shared, victim: ZoneIndex, before: &mut Option<Seen>) {
    let (io, progress, lull) = {
        let state = shared.borrow();
        (state.io.clone(), state.signals.progress.clone(), state.options.lull)
    };
    let is_due = || shared.borrow().is_turn_due(victim);
    while !is_due() && !shared.borrow().may_be_ahead(before) {
        let end = io.sleep_until(io.now() + lull);
        progress.until_or(end, || is_due().then_some(())).await;
    }
}
