//! Changes of users: into batches, and into the map in the order of their numbers.

use super::append::{Room, Sent, Tries, finish};
use super::changes::{Change, Kind};
use super::format::{BatchKind, Header, Written};
use super::lanes::{LaneNo, Lanes, Use};
use super::log::{Pool, Sealed};
use super::map::Span;
use super::refusal::write_void;
use super::state::{Done, Readiness, Shared, State, Write};
use super::{BLOCK_SECTORS, BatchNo, Lba};
use crate::block::{Bio, Cx, Flags, Op, Payload, Reason};
use crate::prelude::*;

/// Batches of users that may be under way at one time on a device.
pub(super) const WRITERS: usize = 2;
/// The share of a faster device that is kept for batches that users wait for: one in so many zones.
const SHORT_SHARE: usize = 16;
/// Most records of a batch, so that its header stays short.
const MOST_RECORDS: usize = 512;

/// The word of the timer that ends gathering.
const GATHERED: u64 = 0;

/// A batch of users, sealed and sent.
struct Begun {
    sealed: Sealed,
    shares: Vec<(usize, u64)>,
    sent: Result<Sent, Reason>,
}

impl State {
    /// Takes a bio that changes something.
    pub fn take_change(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let lba = Lba(bio.sector.0 / u64::from(BLOCK_SECTORS));
        let blocks = bio.sectors / BLOCK_SECTORS;
        // Shared: the bio goes back with its memory, when no batch needs that any more.
        let payload = if bio.op == Op::Write { bio.payload.slice(0, bio.sectors) } else { Payload::None };
        if self.guards.gone().discards_unlogged && bio.op != Op::Write {
            self.map.pending.put(Span::zeroes(lba, blocks));
            return self.end(bio, Ok(()));
        }
        let key = self.writes.insert(Write { bio, left: blocks.into(), came: cx.now(), failure: None });
        self.changes.put(Change::new(key, lba, blocks, payload));
        if self.changes.has(self.options.batch_blocks) {
            self.notify(|signals| &signals.changes);
        } else if !self.is_gathering {
            self.is_gathering = true;
            cx.wake_at(cx.now(), GATHERED);
        }
    }

    /// The turn is over in which the first of the changes that wait came.
    pub fn has_gathered(&mut self) {
        self.is_gathering = false;
        self.notify(|signals| &signals.changes);
    }

    /// Seals and sends the next batch, if it is time: when nothing is under way, or when it is as long as it may be.
    fn begin_batch(&mut self) -> Option<Begun> {
        if self.changes.is_empty() || self.readiness != Readiness::Ready || self.idle.is_unsure {
            return None;
        }
        let has_to_wait = self.refusals.has_voids() || self.has_to_wait();
        let kinds = self.changes.kinds().filter(|_| !has_to_wait);
        let Some((kind, (lane, room))) = kinds.filter_map(|kind| Some((kind, self.lane_of_kind(kind)?))).next() else {
            if self.refusals.is_awaited() {
                self.try_again();
            }
            return None;
        };
        let (mut sealed, shares) = self.seal(kind, room.min(self.disks.least_room));
        sealed.number = self.order.seal().0;
        self.counters.batches += 1;
        self.cleaned_in_vain = 0;
        self.turns.sent(lane);
        let sent = self.send(lane, &sealed, 0);
        Some(Begun { sealed, shares, sent })
    }

    /// The lane for a batch of changes of a kind, and what it takes, if it is time for one.
    fn lane_of_kind(&mut self, kind: Kind) -> Option<(LaneNo, u32)> {
        let is_full = self.changes.has_of(kind, self.options.batch_blocks);
        match kind {
            Kind::InOrder => self.lane_in_order(is_full),
            Kind::Any if is_full => self.lane_of_long(),
            Kind::Any => self.lane_of_short(),
        }
    }

    /// The lane for what is written in order: one of its own, or any while there is no zone for that.
    fn lane_in_order(&mut self, is_full: bool) -> Option<(LaneNo, u32)> {
        let most = if is_full { WRITERS as u32 } else { 1 };
        let own = self.least_busy(most, |state, lane| state.lanes[lane].is_in_order());
        let is_busy = || self.lanes.of_users().any(|(_, lane)| lane.is_in_order() && lane.under_way > 0);
        if own.is_some() || is_busy() { own } else { self.lane_of_long() }
    }

    /// The lane for a batch that is as long as it may be. Devices work side by side.
    fn lane_of_long(&mut self) -> Option<(LaneNo, u32)> {
        self.least_busy(WRITERS as u32, Self::takes_long)
    }

    /// That of these lanes with the fewest batches under way, fewer than `most`, and what its zone takes.
    fn least_busy(&mut self, most: u32, is_one: impl Fn(&Self, LaneNo) -> bool) -> Option<(LaneNo, u32)> {
        let lanes = self.lanes.len();
        let mut in_turn = (0..most).flat_map(|busy| (0..lanes).map(move |lane| (busy, LaneNo(lane))));
        in_turn.find_map(|(busy, lane)| {
            let is_next = self.lanes[lane].under_way == busy && is_one(self, lane);
            let room = if is_next { self.room_of_users(lane) } else { None };
            room.map(|room| (lane, room))
        })
    }

    /// Whether long batches may go to a lane. What a faster device has left is for the map and for short ones.
    fn takes_long(&self, lane: LaneNo) -> bool {
        let it = &self.lanes[lane];
        let has_left = |member: usize| {
            let zones = self.disks.set.zones(member);
            self.zones.front_left() > (zones.end.0 - zones.start.0) as usize / SHORT_SHARE
        };
        let is_other = it.used_for == Use::Angle || it.is_in_order();
        it.stream.pool() == Pool::Users && !is_other && self.front_of(lane).is_none_or(has_left)
    }

    /// The faster device that a lane is for.
    fn front_of(&self, lane: LaneNo) -> Option<usize> {
        match self.lanes[lane].used_for {
            Use::Member(member) => Some(member).filter(|member| self.disks.is_front(*member)),
            Use::Base | Use::Copies | Use::Angle | Use::InOrder(_) => None,
        }
    }

    /// The lane for a batch that nothing else is waited for: the fastest device, or what comes next under the head.
    fn lane_of_short(&mut self) -> Option<(LaneNo, u32)> {
        if self.lanes.of_users().any(|(_, lane)| lane.under_way > 0 && !lane.is_in_order()) {
            return None;
        }
        let front = self.lanes.of_users().map(|(lane, _)| lane).find(|lane| self.front_of(*lane).is_some());
        let front = front.filter(|lane| self.zones.front_left() > 0 || self.lanes[*lane].cursor.is_some());
        let now = self.io.now();
        let aside = front.or_else(|| self.lane_by_angle(now)).filter(|lane| *lane != Lanes::USERS);
        let mut in_turn = aside.into_iter().chain([Lanes::USERS]);
        in_turn.find_map(|lane| self.room_of_users(lane).map(|room| (lane, room)))
    }

    /// What the zone of a lane of users takes.
    fn room_of_users(&mut self, lane: LaneNo) -> Option<u32> {
        match self.room(lane, Pool::Users) {
            Room::Blocks(room) => return Some(room),
            Room::Busy => {}
            Room::None if !Lanes::is_base(lane) => {}
            Room::None => {
                self.want_zones();
                if !self.are_zones_coming() {
                    // Whoever cleans may find that there is nothing to hope for.
                    self.notify(|signals| &signals.progress);
                }
            }
        }
        None
    }

    /// Whether users have to wait: for the checkpoint, as what is pending has its bound, or for cleaning.
    fn has_to_wait(&self) -> bool {
        let is_behind = self.is_checkpointing && self.map.pending.bytes() > self.options.pending_bytes;
        is_behind || self.is_cleaning_owed()
    }

    /// As many of the changes of a kind that wait as a batch of at most `room` blocks takes.
    fn seal(&mut self, kind: Kind, room: u32) -> (Sealed, Vec<(usize, u64)>) {
        let most = (room - 1).min(self.options.batch_blocks) as usize;
        let likely = self.changes.len().min(most);
        let (mut records, mut checksums) = (Vec::<Written>::with_capacity(likely), Vec::with_capacity(likely));
        let (mut payload, mut shares) = (Vec::with_capacity(likely), Vec::with_capacity(likely));
        while let Some(change) = self.changes.front(kind) {
            let has_data = change.has_data();
            let fits = |blocks| {
                Header::blocks_of((records.len() + 1) * Written::BYTES, checksums.len() + blocks)
                    + checksums.len()
                    + blocks
            };
            let left = if has_data { most - checksums.len() } else { Written::MOST as usize };
            let mut blocks = (change.blocks as usize).min(left) as u32;
            if blocks == 0 || records.len() == MOST_RECORDS || fits(if has_data { 1 } else { 0 }) > room as usize {
                break;
            }
            while has_data && fits(blocks as usize) > room as usize {
                blocks -= 1;
            }
            let Some(Change { key, lba, payload: part, .. }) = self.changes.take(kind, blocks) else { break };
            if has_data {
                checksums.extend(self.checker.checksums(lba, &part));
                match part {
                    Payload::Data(data) => payload.push(data),
                    part => payload.extend(part.segments().iter().cloned()),
                }
            }
            add_record(&mut records, Written { lba, blocks, has_data });
            shares.push((key, u64::from(blocks)));
        }
        (Sealed { number: 0, kind: BatchKind::User(records), checksums, payload }, shares)
    }

    /// A batch is written: it and those behind it count as far as none is missing.
    fn batch_done(&mut self, done: Done) {
        let number = BatchNo(done.sealed.number);
        if self.gap.is_some_and(|gap| gap < number) {
            return self.fail_changes(&done.sealed, done.shares);
        }
        self.order.done(number, done);
        while let Some((_, Done { slot, sealed, shares })) = self.order.pop() {
            self.apply(&slot, &sealed);
            shares.into_iter().for_each(|(key, blocks)| self.acknowledge(key, blocks));
        }
        self.notify(|signals| &signals.progress);
    }

    /// A batch cannot be written: nothing counts from there on.
    fn batch_failed(&mut self, number: BatchNo, reason: &Reason) {
        self.degrade(format!("a batch could not be written: {reason}"));
        if self.gap.is_none_or(|gap| number < gap) {
            self.gap = Some(number);
            let behind: Vec<Done> = self.order.give_up_behind(number).collect();
            behind.into_iter().for_each(|done| self.fail_changes(&done.sealed, done.shares));
        }
    }

    /// Fails the changes in a batch that does not count, unless the next start finds it and all before it.
    fn fail_changes(&mut self, sealed: &Sealed, shares: Vec<(usize, u64)>) {
        self.doubts.add(&sealed.kind);
        shares.into_iter().for_each(|(key, blocks)| self.fail_blocks(key, blocks));
    }

    /// The map has the changes of a batch from now on.
    pub fn apply(&mut self, slot: &super::state::Slot, sealed: &Sealed) {
        let BatchKind::User(records) = &sealed.kind else { return };
        let (mut at, place) = (0, Self::payload_place(slot, sealed));
        for Written { lba, blocks, has_data } in records {
            if *has_data {
                let checksums = &sealed.checksums[at..at + *blocks as usize];
                self.map.pending.put(Span::at(*lba, place + at as u64, checksums));
                at += *blocks as usize;
            } else {
                self.map.pending.put(Span::zeroes(*lba, *blocks));
            }
        }
        self.zones.count(slot.zone, at as i64);
        self.counters.user_blocks += at as u64;
        self.clock += at as u64;
        self.since_checkpoint += sealed.blocks() as u64;
        let level = self.level();
        self.pace.charge(at as u64, level);
        self.is_checkpoint_wanted |= self.since_checkpoint >= self.options.replay_blocks
            || self.map.pending.bytes() > self.options.pending_bytes;
    }

    /// Counts blocks of a write that are in a batch which counts; the write ends when all are.
    pub fn acknowledge(&mut self, key: usize, blocks: u64) {
        let write = &mut self.writes[key];
        if write.failure.is_some() {
            return self.fail_blocks(key, blocks);
        }
        write.left -= blocks;
        if write.left > 0 {
            return;
        }
        let Write { bio, came, .. } = self.writes.remove(key);
        let took_us = self.io.now().since(came).as_nanos() / 1_000;
        self.counters.slowest_write_us = self.counters.slowest_write_us.max(took_us);
        let is_durable_first = bio.flags.has(Flags::FUA) || bio.flags.has(Flags::PREFLUSH);
        let is_durable_first = is_durable_first && !self.guards.gone().fua_is_nothing;
        if is_durable_first {
            self.flushes.push_back(bio);
            self.notify(|signals| &signals.flushes);
        } else {
            self.end(bio, Ok(()));
        }
    }
}

/// True of a discard: it may be acknowledged though nothing was done.
pub(super) fn is_hint(write: &Write) -> bool {
    write.bio.op == Op::Discard
}

/// Changes that follow each other are one record.
fn add_record(records: &mut Vec<Written>, new: Written) {
    match records.last_mut() {
        Some(last)
            if last.has_data == new.has_data
                && last.lba + u64::from(last.blocks) == new.lba
                && last.blocks + new.blocks <= Written::MOST =>
        {
            last.blocks += new.blocks;
        }
        _ => records.push(new),
    }
}

/// Writes batches of users, one after the other.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        let Begun { sealed, shares, sent } = signals.changes.until(|| shared.borrow_mut().begin_batch()).await;
        let (number, mut tries) = (BatchNo(sealed.number), Tries::default());
        match finish(&shared, Pool::Users, &sealed, sent, &mut tries).await {
            Ok(slot) => shared.borrow_mut().batch_done(Done { slot, sealed, shares }),
            Err(reason) if tries.is_refused_by(&reason) && shared.borrow().readiness == Readiness::Ready => {
                match write_void(&shared, number, shares, (&mut tries, reason)).await {
                    Ok(done) => shared.borrow_mut().batch_done(done),
                    Err(reason) => shared.borrow_mut().batch_failed(number, &reason),
                }
            }
            Err(reason) => {
                let mut state = shared.borrow_mut();
                state.batch_failed(number, &reason);
                state.fail_changes(&sealed, shares);
            }
        }
        shared.borrow_mut().notify(|signals| &signals.changes);
    }
}
