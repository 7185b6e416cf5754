//! Disks that refuse writes because of their host: its file system is full or read-only, or it lost a file on a server.
//!
//! Such a refusal passes. So a batch that is refused is written to another device if there is one, and otherwise waits:
//!
//! - The changes in a batch of users fail with the error of the host. The number of the batch has to be written all the same, without a change in
//!   it (a *void* batch), as no later batch counts before. Every further change has that tried again, and so has a timer.
//! - A batch that may be on a disk waits as it is: one that failed otherwise before it was refused, and one that was written behind a refused one.
//!   If its changes failed, they could be found done later.
//! - Parts of the map wait as they are.
//!
//! No zone is lost: where nothing of a refused batch was written, the next batch goes to the same place.

use alloc::collections::BTreeSet;

use super::append::{Tries, finish, room_for};
use super::format::{BatchKind, MemberState};
use super::lanes::{LaneNo, Lanes};
use super::log::{Pool, Sealed};
use super::state::{Done, Readiness, Shared, Slot, State};
use super::write::is_hint;
use super::{BLOCK_SECTORS, BatchNo};
use crate::block::{Reason, Status};
use crate::prelude::*;
use crate::time::Duration;
use crate::zone::Condition;

/// The shortest and the longest pause before refused writes are tried again: a write of a user may wait for it.
const PAUSES: [Duration; 2] = [Duration::from_millis(1_000), Duration::from_millis(16_000)];

/// The members that refuse writes, and the number of tasks that wait for them.
#[derive(Debug)]
pub(super) struct Refusals {
    /// Members whose zones are set aside, as others take writes.
    aside: BTreeSet<usize>,
    /// No member takes writes.
    nowhere: bool,
    /// Numbers of the void batches that are not written yet.
    voids: BTreeSet<BatchNo>,
    /// Tasks whose writes were refused and that wait.
    waiting: u32,
    /// Counts how often refused writes were tried again.
    round: u64,
    pause: Duration,
}

impl Default for Refusals {
    fn default() -> Self {
        let aside = BTreeSet::new();
        Self { aside, nowhere: false, voids: BTreeSet::new(), waiting: 0, round: 0, pause: PAUSES[0] }
    }
}

/// True of an error of the host below a disk that passes and says nothing about the disk.
pub(super) fn is_refusal(reason: &Reason) -> bool {
    match reason {
        Reason::Below(why) => is_refusal(&why.reason),
        Reason::Host(status, _) => matches!(status, Status::NoSpace | Status::ReadOnly | Status::Transport),
        _ => false,
    }
}

/// Has refused writes tried again after a pause, which doubles each time.
pub(super) async fn run(shared: Shared) {
    let (io, signals) = {
        let state = shared.borrow();
        (state.io.clone(), state.signals.clone())
    };
    loop {
        let pause = signals.progress.until(|| shared.borrow().refusals.pause()).await;
        io.sleep_until(io.now() + pause).await;
        let mut state = shared.borrow_mut();
        state.refusals.pause = PAUSES[1].min(Duration(2 * pause.0));
        state.try_again();
    }
}

/// Waits until it is time to try a refused write again. `newest` is the newest change of a user when the write was sent: changes up to that one which
/// are in no batch yet fail, as the host refuses what they wait for.
///
/// # Errors
/// `reason`, if the volume comes to rest or takes no changes any more.
async fn wait_to_try_again(shared: &Shared, newest: u64, reason: &Reason) -> Result<(), Reason> {
    let (signal, round) = {
        let mut state = shared.borrow_mut();
        state.refusals.waiting += 1;
        state.refuse_changes(newest, reason);
        state.notify(|signals| &signals.progress);
        // Later changes have it tried again at once.
        state.notify(|signals| &signals.changes);
        (state.signals.progress.clone(), state.refusals.round)
    };
    let result = signal
        .until(|| {
            let state = shared.borrow();
            match () {
                () if state.is_suspended || state.readiness != Readiness::Ready => Some(Err(reason.clone())),
                () if state.refusals.round != round => Some(Ok(())),
                () => None,
            }
        })
        .await;
    shared.borrow_mut().refusals.waiting -= 1;
    result
}

/// Does something again and again for as long as a host refuses it.
///
/// # Errors
/// Any other error, or the refusal if the volume comes to rest or takes no changes any more.
pub(super) async fn until_let_in<T>(
    shared: &Shared,
    mut attempt: impl AsyncFnMut() -> Result<T, Reason>,
) -> Result<T, Reason> {
    loop {
        let newest = shared.borrow().changes.newest();
        match attempt().await {
            Err(reason) if is_refusal(&reason) => wait_to_try_again(shared, newest, &reason).await?,
            result => return result,
        }
    }
}

/// Waits until there is room for a batch that failed for `reason`; `newest` was the newest change when it was sent. Unless it `waits` for a
/// host, a refusal is returned.
pub(super) async fn room_elsewhere(
    shared: &Shared,
    (waits, pool, blocks): (bool, Pool, u32),
    (mut reason, mut newest): (Reason, u64),
) -> Result<LaneNo, Reason> {
    let mut has_to_wait = is_refusal(&reason) && shared.borrow().refusals.nowhere;
    loop {
        if has_to_wait && !waits {
            return Err(reason);
        }
        if has_to_wait {
            wait_to_try_again(shared, newest, &reason).await?;
        }
        newest = shared.borrow().changes.newest();
        shared.borrow_mut().retries_under_way += 1;
        let lane = room_for(shared, Lanes::base(pool), pool, blocks).await;
        shared.borrow_mut().retries_under_way -= 1;
        match lane {
            Err(why) if is_refusal(&why) => (reason, has_to_wait) = (why, true),
            lane => return lane,
        }
    }
}

/// Fails the changes of a refused batch, and writes a void batch with its number as soon as a host takes it.
///
/// # Errors
/// The volume comes to rest before, or the void batch fails otherwise.
pub(super) async fn write_void(
    shared: &Shared,
    number: BatchNo,
    shares: Vec<(usize, u64)>,
    (tries, mut reason): (&mut Tries, Reason),
) -> Result<Done, Reason> {
    let (kind, checksums, payload) = (BatchKind::User(Vec::new()), Vec::new(), Vec::new());
    let sealed = Sealed { number: number.0, kind, checksums, payload };
    shared.borrow_mut().begin_void(number, shares, &reason);
    let mut newest = 0;
    let result = loop {
        if shared.borrow().guards.gone().voids_unwritten {
            let slot = shared.borrow().slot_of_users();
            break slot.map(|slot| Done { slot, sealed, shares: Vec::new() }).ok_or(reason);
        }
        if let Err(reason) = wait_to_try_again(shared, newest, &reason).await {
            break Err(reason);
        }
        newest = shared.borrow().changes.newest();
        let lane = room_for(shared, Lanes::USERS, Pool::Users, sealed.blocks()).await;
        let sent = lane.and_then(|lane| shared.borrow_mut().send(lane, &sealed, tries.next()));
        match finish(shared, Pool::Users, &sealed, sent, tries).await {
            Ok(slot) => break Ok(Done { slot, sealed, shares: Vec::new() }),
            Err(why) if is_refusal(&why) && shared.borrow().readiness == Readiness::Ready => {
                reason = why;
            }
            Err(why) => break Err(why),
        }
    };
    shared.borrow_mut().refusals.voids.remove(&number);
    result
}

/// Nothing of a batch was written that its host refused: the next one goes to its place. Returns false if some was.
pub(super) async fn put_back(shared: &Shared, lane: LaneNo, slot: &Slot) -> bool {
    let signal = shared.borrow().signals.progress.clone();
    let is_ours = || shared.borrow().is_open(lane, slot);
    signal.until(|| (!is_ours() || shared.borrow().lanes[lane].under_way == 0).then_some(())).await;
    let (io, spot, landed) = {
        let state = shared.borrow();
        let spot = state.disks.spot(state.disks.set.start(slot.zone)).map(|(disk, sector)| (disk.device, sector));
        (state.io.clone(), spot, state.zones.landed(slot.zone))
    };
    let Ok((device, sector)) = spot else { return false };
    if shared.borrow().disks.shape(slot.zone).is_sequential {
        let zone = io.report(device, sector, 1).await.ok().and_then(|zones| zones.first().copied());
        let written = zone.filter(|zone| zone.cond != Condition::Full).map(|zone| zone.wp - zone.start);
        if written != Some(u64::from(landed * BLOCK_SECTORS)) {
            return false;
        }
    }
    let mut state = shared.borrow_mut();
    if !state.is_open(lane, slot) || state.lanes[lane].under_way > 0 {
        return false;
    }
    if let Some(cursor) = &mut state.lanes[lane].cursor {
        cursor.next = landed;
    }
    state.notify(|signals| &signals.progress);
    true
}

impl Refusals {
    /// The time until refused writes are tried again; `None` if there are none.
    fn pause(&self) -> Option<Duration> {
        (self.waiting > 0 || !self.aside.is_empty()).then_some(self.pause)
    }

    /// True if a task waits until its refused write is tried again.
    pub fn is_awaited(&self) -> bool {
        self.waiting > 0
    }

    /// True if void batches have to be written before other batches of users are sent.
    pub fn has_voids(&self) -> bool {
        !self.voids.is_empty()
    }
}

impl State {
    /// The host of a member refused a write to this place. The zones of the member are set aside if another member takes writes; returns true if so.
    pub fn turn_away_from(&mut self, slot: &Slot) -> bool {
        let member = self.disks.member_of(slot.zone);
        let is_used = |member: &usize| self.disks.set.members()[*member].state == MemberState::Used;
        let others = self.disks.present().into_iter().filter(is_used);
        let has_others = others.filter(|other| *other != member).any(|other| !self.refusals.aside.contains(&other));
        self.refusals.nowhere = !has_others;
        if has_others {
            self.refusals.aside.insert(member);
            self.zones.set_aside(self.disks.set.zones(member));
        } else {
            self.refusals.aside.clear();
            self.zones.take_back();
        }
        self.notify(|signals| &signals.progress);
        has_others
    }

    /// Has all refused writes tried again.
    pub fn try_again(&mut self) {
        self.refusals.round += 1;
        self.refusals.nowhere = false;
        self.refusals.aside.clear();
        self.zones.take_back();
        self.notify(|signals| &signals.progress);
        self.notify(|signals| &signals.changes);
    }

    /// A member took a batch: after its next refusal the pause is short again.
    pub fn is_let_in(&mut self, member: usize) {
        if !self.refusals.aside.contains(&member) {
            self.refusals.pause = PAUSES[0];
        }
    }

    /// The reason why no zone can be opened: a refusal if zones of members that refuse writes are set aside, else a full volume.
    pub fn no_room(&self) -> Reason {
        match self.zones.has_aside() {
            true => Reason::Host(Status::NoSpace, "the other disks are full, and this one refuses writes".into()),
            false => Reason::VolumeFull,
        }
    }

    /// Any place of users, for a batch that is not written.
    fn slot_of_users(&self) -> Option<Slot> {
        let cursor = self.lanes[Lanes::USERS].cursor?;
        let place = self.disks.set.start(cursor.zone);
        Some(Slot { zone: cursor.zone, place, generation: cursor.generation })
    }

    fn begin_void(&mut self, number: BatchNo, shares: Vec<(usize, u64)>, reason: &Reason) {
        self.refusals.voids.insert(number);
        shares.into_iter().for_each(|(key, blocks)| self.refuse_blocks(key, blocks, reason));
    }

    /// Fails all changes in no batch, up to the change `newest`.
    fn refuse_changes(&mut self, newest: u64, reason: &Reason) {
        for change in self.changes.take_up_to(newest) {
            self.refuse_blocks(change.key, change.blocks.into(), reason);
        }
    }

    /// Refuses `blocks` of a change. A discard is a hint: it is acknowledged though nothing was done.
    fn refuse_blocks(&mut self, key: usize, blocks: u64, reason: &Reason) {
        if is_hint(&self.writes[key]) {
            self.acknowledge(key, blocks)
        } else {
            self.fail_blocks_for(key, blocks, reason)
        }
    }
}
