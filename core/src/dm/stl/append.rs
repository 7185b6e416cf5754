//! Batches into open zones: where the next one goes, and what becomes of one that fails.

use super::create::MIN_ACTIVE;
use super::format::{Batch, BatchKind, MemberKind};
use super::lanes::{Cursor, Lane, LaneNo, Lanes, Use};
use super::log::{Opening, Place, Pool, Sealed, Stream};
use super::refusal::{is_refusal, put_back, room_elsewhere};
use super::second_daemon::refuse_second_daemon;
use super::state::{Readiness, Shared, Slot, State};
use super::{BatchNo, CopyNo, Generation, ZoneIndex, disks};
use crate::block::{Payload, Reason};
use crate::prelude::*;
use crate::task::Answer;

/// Times that a batch is written elsewhere after it failed, before the volume gives up.
pub(super) const MOST_ATTEMPTS: u32 = 8;

/// How much the open zone of a pool takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// So many blocks, headers included.
    Blocks(u32),
    /// Nothing while another batch is on its way there.
    Busy,
    /// Nothing: there is no zone that may be opened.
    None,
}

/// Free zones that have to be left when a side lane gets one.
const LEFT: usize = 2;

/// A batch that was sent, and where to.
pub(super) struct Sent {
    lane: LaneNo,
    slot: Slot,
    answers: Vec<Answer>,
}

impl State {
    /// How much the open zone of `lane` takes, or a new one if that is full. `share`: whose share it is of the zones that may be opened now.
    pub fn room(&mut self, lane: LaneNo, share: Pool) -> Room {
        let was_open = self.lanes[lane].cursor.is_some();
        if let Some(Cursor { zone, .. }) = self.lanes[lane].cursor {
            if !self.disks.shape(zone).is_sequential && self.lanes[lane].under_way > 0 {
                return Room::Busy;
            }
            if self.lanes[lane].has_room() {
                return Room::Blocks(self.lanes[lane].room());
            }
            self.close(lane);
        }
        let pool = self.lanes[lane].stream.pool();
        let Some((zone, generation)) = self.open_for(lane, share) else {
            if was_open {
                self.release_users();
            }
            return self.lent(lane, pool);
        };
        self.take_room(zone);
        let room = self.disks.shape(zone).room;
        let lane = &mut self.lanes[lane];
        (lane.cursor, lane.under_way) = (Some(Cursor { zone, generation, next: 0, room }), 0);
        lane.passed = None;
        self.release_users();
        Room::Blocks(room)
    }

    /// How much a side lane takes, if that is enough for `blocks`.
    fn room_beside(&mut self, lane: LaneNo, share: Pool, blocks: u32) -> Room {
        match self.room(lane, share) {
            Room::Blocks(room) if room < blocks => {
                self.close(lane);
                self.room(lane, share)
            }
            room => room,
        }
    }

    /// A base lane goes on in the zone of a side lane, if there is none for it.
    fn lent(&mut self, lane: LaneNo, pool: Pool) -> Room {
        if !Lanes::is_base(lane) || pool < Pool::Cleaning {
            return Room::None;
        }
        let Some(lender) = self.lanes.lender(pool) else {
            return if self.lanes.will_lend(pool) { Room::Busy } else { Room::None };
        };
        self.lanes[lane].cursor = self.lanes[lender].cursor.take();
        (self.lanes[lane].under_way, self.lanes[lane].passed) = (0, self.lanes[lender].passed);
        Room::Blocks(self.lanes[lane].room())
    }

    /// Opens a zone for a lane.
    fn open_for(&mut self, lane: LaneNo, share: Pool) -> Option<(ZoneIndex, Generation)> {
        let Lane { stream, used_for, .. } = self.lanes[lane];
        let pool = stream.pool();
        if used_for != Use::Base && (self.readiness != Readiness::Ready || self.zones.free(pool) <= LEFT) {
            return None;
        }
        match used_for {
            Use::Base => {
                let (pool, share) = (self.right(pool), self.right(share));
                let place = match stream {
                    Stream::Map => Place::Preferred(&self.disks.fronts),
                    Stream::Users if !self.guards.gone().next_is_any => Place::Next(&self.disks.backs),
                    _ => Place::Preferred(&self.disks.backs),
                };
                self.zones.open(&Opening { pool, share, stream, behind: None, place })
            }
            Use::Copies => {
                let near = self.lanes[Lanes::COPIES].cursor?.zone;
                if !self.has_active_to_spare(self.disks.member_of(near)) {
                    return None;
                }
                let place = Place::Preferred(&self.disks.backs);
                self.zones.open(&Opening { pool, share, stream, behind: Some(near), place })
            }
            Use::Member(member) | Use::InOrder(member) => self.open_aside(member, None),
            Use::Angle => {
                let near = self.lanes[Lanes::USERS].cursor?.zone;
                self.open_aside(self.disks.member_of(near), Some(near))
            }
        }
    }

    /// Opens a zone of users on a device, beside the others.
    fn open_aside(&mut self, member: usize, behind: Option<ZoneIndex>) -> Option<(ZoneIndex, Generation)> {
        let zones = self.disks.set.zones(member);
        if !self.has_active_to_spare(member) {
            return None;
        }
        let has_pointer = self.disks.set.members()[member].kind == MemberKind::Zoned;
        let (pool, stream) = (Pool::Users, Stream::Side);
        self.zones.open(&Opening { pool, share: pool, stream, behind, place: Place::Named(&zones, has_pointer) })
    }

    /// Whether a device may have one more active zone than those that a volume needs.
    fn has_active_to_spare(&self, member: usize) -> bool {
        let most = self.disks.all[member].as_ref().and_then(|disk| disk.most_active);
        let aside = self.lanes.aside_in(&self.disks.set.zones(member));
        most.is_none_or(|most| aside < most.saturating_sub(MIN_ACTIVE) as usize)
    }

    /// If cleaning has no zone any more nobody waits for it.
    fn release_users(&mut self) {
        if self.victim.is_some() && !self.can_clean() {
            self.notify(|signals| &signals.changes);
        }
    }

    /// With whose right a zone is opened for `pool`.
    fn right(&self, pool: Pool) -> Pool {
        let is_retried = self.retries_under_way > 0;
        match pool {
            _ if self.readiness == Readiness::Loading => Pool::Recovery,
            // It gives zones back, and what it has written by then is nothing that a start needs.
            Pool::Map if self.is_checkpointing || self.is_hopeless(pool) => Pool::Recovery,
            // What failed has cost those that are kept for it: it gives back more than it takes.
            Pool::Cleaning if self.is_hopeless(pool) && self.map_cut == self.swept => Pool::Map,
            // Until a batch that failed is written, nothing behind it counts, and nothing can be cleaned. It may not take what a start needs: that
            // would find a volume that is full for ever.
            _ if is_retried => pool.min(Pool::Map),
            _ => pool,
        }
    }

    /// Whether a checkpoint gives zones back.
    pub fn are_zones_coming(&self) -> bool {
        let has_some = self.zones.done_with() > 0 || self.zones.has_grants(self.options.named_zones);
        has_some || self.is_checkpoint_wanted || self.is_checkpointing
    }

    /// Whether no zone will ever come for `pool`.
    fn is_hopeless(&self, pool: Pool) -> bool {
        match pool {
            _ if self.readiness == Readiness::Loading => true,
            Pool::Map if self.is_checkpointing => true,
            Pool::Map => !self.are_zones_coming() && !self.can_clean(),
            // As long as users go on, something may come of that.
            Pool::Cleaning if !self.do_users_wait() => false,
            _ => !self.are_zones_coming() && !self.is_sweep_wanted,
        }
    }

    /// Has a sweep find zones with nothing live in them, if there can be any that nobody knows.
    fn look_closer(&mut self, pool: Pool) -> bool {
        let may_find = pool == Pool::Cleaning && self.map_cut != self.swept;
        if may_find {
            self.is_sweep_wanted = true;
            self.notify(|signals| &signals.progress);
        }
        may_find
    }

    /// Whether cleaning, which makes zones, has one for itself.
    pub fn can_clean(&self) -> bool {
        let has_zone = self.lanes[Lanes::COPIES].cursor.is_some() || self.zones.free(Pool::Cleaning) > 0;
        self.victim.is_some() && (has_zone || self.lanes.lender(Pool::Cleaning).is_some())
    }

    /// Somebody waits for a zone: a checkpoint gives those back that nobody needs.
    pub fn want_zones(&mut self) {
        if self.are_zones_coming() && !self.is_checkpoint_wanted && !self.is_checkpointing {
            self.is_checkpoint_wanted = true;
            self.notify(|signals| &signals.progress);
        }
    }

    /// The open zone of `lane` takes no more. What is left of it is filled, so that the disk does not keep it active.
    pub fn close(&mut self, lane: LaneNo) {
        let Some(Cursor { zone, next, room, .. }) = self.lanes[lane].cursor else { return };
        if next < room {
            let payload = room - next - 1;
            let zeroes = disks::memory(payload as usize);
            let sealed = zeroes.map(|zeroes| Sealed {
                number: 0,
                kind: BatchKind::Filler,
                checksums: vec![super::format::Checksum::of(&[0; super::BLOCK_BYTES]); payload as usize],
                payload: if payload > 0 { vec![zeroes] } else { Vec::new() },
            });
            // If it fails, the zone is one that is not full.
            let _ = sealed.and_then(|sealed| self.send(lane, &sealed, 0).map(drop));
            self.counters.filler_blocks += u64::from(payload);
        }
        (self.lanes[lane].cursor, self.lanes[lane].under_way) = (None, 0);
        // The filler counts for nothing, whether it arrives or not.
        self.zones.fill(zone, next, self.clock);
    }

    /// Sends a batch, for which there is room.
    pub fn send(&mut self, lane: LaneNo, sealed: &Sealed, attempt: u32) -> Result<Sent, Reason> {
        let cursor = self.lanes[lane].cursor.as_mut().expect("whoever sends a batch has asked for room");
        let Cursor { zone, generation, next, .. } = *cursor;
        cursor.next += sealed.blocks();
        debug_assert!(cursor.next <= cursor.room, "a batch that does not fit");
        let place = self.disks.set.start(zone) + u64::from(next);
        let slot = Slot { zone, place, generation };
        let batch = Batch {
            set: self.id,
            place,
            generation,
            epoch: self.epoch,
            number: sealed.number,
            attempt,
            root: self.tables.root_place,
            since: self.since,
        };
        self.counters.header_blocks += u64::from(sealed.header_blocks());
        let payload: Payload = sealed.encode(batch)?;
        self.lanes[lane].under_way += 1;
        // From now on a root that does not cover it has to name the zone.
        match sealed.kind {
            BatchKind::User(_) => self.zones.note(zone, BatchNo(sealed.number), CopyNo(0)),
            BatchKind::Copies(_) => self.zones.note(zone, BatchNo(0), CopyNo(sealed.number)),
            _ => {}
        }
        Ok(Sent { lane, slot, answers: self.disks.send(&self.io, place, payload)? })
    }

    /// The first block of payload of a batch.
    pub fn payload_place(slot: &Slot, sealed: &Sealed) -> super::Pba {
        slot.place + u64::from(sealed.header_blocks())
    }

    /// True if the zone of `slot` is still the open zone of `lane`.
    pub fn is_open(&self, lane: LaneNo, slot: &Slot) -> bool {
        let cursor = self.lanes[lane].cursor;
        cursor.is_some_and(|cursor| (cursor.zone, cursor.generation) == (slot.zone, slot.generation))
    }

    fn arrived(&mut self, lane: LaneNo, slot: &Slot) {
        if self.is_open(lane, slot) {
            self.lanes[lane].under_way -= 1;
        }
        self.notify(|signals| &signals.progress);
    }

    /// A batch is written, as far as the disk says.
    fn landed(&mut self, slot: &Slot, sealed: &Sealed) {
        let (_, at) = self.disks.set.zone_of(slot.place);
        self.zones.arrived(slot.zone, at + sealed.blocks());
        let member = self.disks.member_of(slot.zone);
        self.is_let_in(member);
        if let BatchKind::User(_) = sealed.kind {
            self.disks.doubt(member);
        }
    }
}

/// Waits until there is room for `blocks` in the open zone of a base lane, or in that of a side lane while that has some; in which.
/// `share`: whose share it is of the zones that may be opened now.
pub(super) async fn room_for(shared: &Shared, lane: LaneNo, share: Pool, blocks: u32) -> Result<LaneNo, Reason> {
    let signal = shared.borrow().signals.progress.clone();
    signal
        .until(|| {
            let mut state = shared.borrow_mut();
            if !matches!(state.readiness, Readiness::Ready | Readiness::Loading) {
                return Some(Err(state.refusal()));
            }
            let (mut lane, pool) = (lane, state.lanes[lane].stream.pool());
            if !Lanes::is_base(lane) {
                match state.room_beside(lane, share, blocks) {
                    Room::Blocks(_) => return Some(Ok(lane)),
                    Room::Busy => return None,
                    Room::None => lane = Lanes::base(pool),
                }
            }
            match state.room(lane, share) {
                Room::Blocks(room) if room >= blocks => Some(Ok(lane)),
                Room::Blocks(_) => {
                    state.close(lane);
                    // A zone that another lane lends may be busy, or take less.
                    let has_room = matches!(state.room(lane, share), Room::Blocks(room) if room >= blocks);
                    if !has_room {
                        // Others may have waited for what this one would do.
                        state.notify(|signals| &signals.progress);
                        state.release_users();
                    }
                    has_room.then_some(Ok(lane))
                }
                Room::None if pool == Pool::Cleaning && state.moves_in_vain() => Some(Err(state.no_room())),
                // It has left zones to the root that is being written, which names others.
                Room::None if share != pool && state.is_checkpointing => None,
                Room::None if state.is_hopeless(pool) && !state.look_closer(pool) => Some(Err(state.no_room())),
                Room::None => {
                    state.want_zones();
                    if pool == Pool::Cleaning {
                        state.look_for_room();
                    }
                    None
                }
                Room::Busy => None,
            }
        })
        .await
}

/// Counts how often a batch was sent.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// The number of the last attempt, which its header has.
    attempt: u32,
    /// Failures other than refusals of a host.
    failures: u32,
}

impl Tries {
    /// The number of the next attempt.
    pub fn next(&mut self) -> u32 {
        self.attempt += 1;
        self.attempt
    }

    /// True if hosts refused all attempts, the last one for `reason`. A batch that failed otherwise may be on a disk.
    pub fn is_refused_by(&self, reason: &Reason) -> bool {
        self.failures == 0 && is_refusal(reason)
    }

    /// Counts a failure.
    ///
    /// # Errors
    /// `reason`, if there were more than [`MOST_ATTEMPTS`].
    fn count(&mut self, reason: &Reason) -> Result<(), Reason> {
        self.failures += u32::from(!is_refusal(reason));
        if self.failures > MOST_ATTEMPTS { Err(reason.clone()) } else { Ok(()) }
    }
}

/// Waits until a batch is written; one that fails is written again elsewhere, with its number.
///
/// # Errors
/// The refusal of a batch of users by all devices, or the reason of the last attempt.
pub(super) async fn finish(
    shared: &Shared,
    pool: Pool,
    sealed: &Sealed,
    mut sent: Result<Sent, Reason>,
    tries: &mut Tries,
) -> Result<Slot, Reason> {
    loop {
        let newest = shared.borrow().changes.newest();
        let reason = match arrive(shared, sealed, sent?).await {
            Ok(slot) => return Ok(slot),
            Err(reason) => reason,
        };
        tries.count(&reason)?;
        let waits = pool != Pool::Users || tries.failures > 0;
        let lane = room_elsewhere(shared, (waits, pool, sealed.blocks()), (reason, newest)).await?;
        let mut state = shared.borrow_mut();
        state.counters.retries += 1;
        sent = state.send(lane, sealed, tries.next());
    }
}

/// Waits until a batch is written. Nothing more goes to the zone of one that fails, unless its host refused all of it.
pub(super) async fn arrive(shared: &Shared, sealed: &Sealed, sent: Sent) -> Result<Slot, Reason> {
    let Sent { lane, slot, answers } = sent;
    let result = disks::all(answers).await;
    let (result, is_refused) = {
        let mut state = shared.borrow_mut();
        state.arrived(lane, &slot);
        let result = if state.guards.gone().failed_batches_count { Ok(()) } else { result };
        let is_refused = state.readiness == Readiness::Ready && result.as_ref().is_err_and(is_refusal);
        (result, is_refused)
    };
    match result {
        Ok(()) => shared.borrow_mut().landed(&slot, sealed),
        Err(_) => {
            let has_others = is_refused && shared.borrow_mut().turn_away_from(&slot);
            if has_others || !is_refused || !put_back(shared, lane, &slot).await {
                give_up(shared, lane, &slot).await;
            }
        }
    }
    result.map(|()| slot)
}

/// Nothing more is written to the zone of a batch that failed.
async fn give_up(shared: &Shared, lane: LaneNo, slot: &Slot) {
    let (io, spot) = {
        let mut state = shared.borrow_mut();
        let (zone, at) = state.disks.set.zone_of(slot.place);
        if state.is_open(lane, slot) {
            let room = state.disks.shape(zone).room;
            (state.lanes[lane].cursor, state.lanes[lane].under_way) = (None, 0);
            let closed_at = state.clock;
            state.zones.fill(slot.zone, room, closed_at);
            state.release_users();
        }
        state.zones.end_at(zone, at);
        let start = state.disks.set.start(slot.zone);
        let is_sequential = state.disks.shape(slot.zone).is_sequential;
        let spot = state.disks.spot(start).map(|(disk, sector)| (disk.device, sector));
        (state.io.clone(), spot.ok().filter(|_| is_sequential))
    };
    if refuse_second_daemon(shared).await.is_err() {
        // The zone may be in use by the other daemon.
        return;
    }
    let Some((device, sector)) = spot else { return };
    let zone = io.report(device, sector, 1).await.ok().and_then(|zones| zones.first().copied());
    if zone.is_some_and(|zone| zone.cond.is_dead()) {
        let mut state = shared.borrow_mut();
        state.zones.die(slot.zone);
        // Should it be gone for good, a start cannot find what is in it: a root that has all of that does without.
        state.is_checkpoint_wanted = true;
        state.notify(|signals| &signals.progress);
    } else if zone.is_some() {
        // It is not full, and would count as active.
        let _ = io.finish(device, sector).ok().await;
    }
}
