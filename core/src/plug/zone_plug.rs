//! The plug as a device: what happens to each kind of bio, and the FIFO discipline of the `plug` policy.

use core::fmt;

use slab::Slab;

use super::disk_queue::{DiskQueue, DiskTurn};
use super::error::PlugError;
use super::learn::Reports;
use super::merge_delay::MergeDelay;
use super::policy::{Append, PlugOptions, WritePolicy};
use super::queue::{List, Nodes, Slot};
use super::zone_lock::ZoneLock;
use super::zones::{Bit, Class, MAX_SLOTS, Record, Zones};
use crate::block::{
    Bio, BlockDevice, Cx, Data, DeviceId, Event, Flags, Limits, Op, PathEvent, Payload, Reason, Status,
};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::Duration;
use crate::zone::ZoneNo;

/// The word of a report that the plug sent itself.
pub(super) const OWN: u64 = 1;

/// The word of a change that passed without an order. It comes back so that the plug is not drained, and does not learn
/// its zones, while such a change is under way.
pub(super) const PASSED: u64 = u64::MAX;

/// What the plug is waiting for, other than writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its own report, to learn the zones. What needs an order waits.
    Learning,
    /// Nothing.
    Ready,
    /// The last busy zone, then its reset of all zones.
    Emptying,
    /// A device that reports its zones. Ordered bios fail.
    Failed(PlugError),
}

/// Orders writes to the zones of the device below.
pub struct ZonePlug {
    below: [DeviceId; 1],
    pub(super) limits: Limits,
    pub(super) zones: Zones,
    pub(super) nodes: Nodes,
    pub(super) slots: Slab<Slot>,
    /// The scheduler of the `zone-lock` policy, once that was in force.
    pub(super) lock: Option<Box<ZoneLock>>,
    pub(super) disk_queue: DiskQueue,
    pub(super) merge_delay: MergeDelay,
    /// What was chosen; the policy is the one in force.
    pub(super) options: PlugOptions,
    /// Whether a write to an idle zone goes down at once, whatever other zones do.
    at_once: bool,
    emulate_append: bool,
    pub(super) max_segments: usize,
    /// Most sectors of a command that is put together of several writes.
    pub(super) longest_merge: u32,
    pub(super) state: State,
    /// Whether the report that is under way may be too old.
    pub(super) asks_again: bool,
    /// Ordered bios that arrived while the plug was learning or emptying.
    pub(super) behind: List,
    pub(super) reset_all: Option<Box<Bio>>,
    /// Reports in flight; what changes meanwhile is not learned from them.
    pub(super) reports: Reports,
    /// Changes in flight that passed without an order.
    passed: u32,
    /// How often the disk has lost its power, as far as somebody has counted.
    losses: u64,
    /// Empty segment lists of merged writes, kept for their capacity.
    pub(super) spare: Vec<Vec<Data>>,
    pub(super) longest_wait: Duration,
}

impl ZonePlug {
    /// What the plug keeps of a zone in which nothing happens, in bytes.
    pub const BYTES_PER_ZONE: usize = size_of::<Record>();

    /// A plug over device `below`, whose limits are `below_limits`. It asks for a zone report once it is in a stack.
    pub fn new(below: DeviceId, below_limits: &Limits, options: PlugOptions) -> Result<Self, PlugError> {
        let zoned = below_limits.zoned.as_ref().ok_or(PlugError::NotZoned)?;
        let max_segments = options.max_segments.min(below_limits.max_segments.unwrap_or(u32::MAX)).max(1);
        let emulate_append = options.append == Append::Emulated || zoned.max_append.is_none();
        let mut limits = below_limits.clone();
        if let Some(zoned) = &mut limits.zoned
            && emulate_append
        {
            zoned.max_append = Some(below_limits.max_sectors.unwrap_or(u32::MAX).min(zoned.zone_sectors));
        }
        let mut plug = Self {
            below: [below],
            zones: Zones::unknown(zoned.zone_sectors),
            nodes: Nodes::with_capacity(1024),
            slots: Slab::with_capacity(256),
            lock: None,
            disk_queue: DiskQueue::new(below_limits.capacity),
            merge_delay: MergeDelay::new(false),
            options,
            at_once: false,
            emulate_append,
            max_segments: max_segments as usize,
            longest_merge: 0,
            state: State::Learning,
            asks_again: false,
            behind: List::EMPTY,
            reset_all: None,
            reports: Reports::default(),
            passed: 0,
            losses: 0,
            spare: Vec::new(),
            longest_wait: Duration::ZERO,
            limits,
        };
        plug.prepare_policy();
        Ok(plug)
    }

    fn prepare_policy(&mut self) {
        let policy = self.options.policy;
        let elevator = policy == WritePolicy::Elevator;
        self.disk_queue.wanted = policy == WritePolicy::Qd1 || elevator && self.limits.rotational;
        self.at_once = policy.orders() && !self.disk_queue.wanted;
        let most = if elevator && self.limits.write_cache { self.options.elevator.merge_sectors } else { u32::MAX };
        self.longest_merge = most.min(self.limits.max_sectors.unwrap_or(u32::MAX));
        self.merge_delay = MergeDelay::new(elevator);
        self.longest_wait = Duration::ZERO;
        if policy == WritePolicy::ZoneLock {
            let lock = || ZoneLock::new(self.below[0], &self.limits, self.max_segments, self.options.queue_depth);
            self.lock.get_or_insert_with(|| Box::new(lock())).longest_wait = Duration::ZERO;
        }
    }

    /// True if the plug makes writes of appends, and the device below sees none.
    #[must_use]
    pub fn emulates_append(&self) -> bool {
        self.emulate_append
    }

    /// Chooses the policy of a plug to which no bio has come yet. Later it is switched with [`ZonePlug::set_policy`].
    pub fn begin_with(&mut self, policy: WritePolicy) {
        self.options.policy = policy;
        self.prepare_policy();
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> WritePolicy {
        self.options.policy
    }

    /// The longest time from submission to dispatch of a write that had to wait here, since the policy was chosen.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        let lock = self.lock.as_ref().filter(|_| self.policy() == WritePolicy::ZoneLock);
        lock.map_or(self.longest_wait, |lock| lock.longest_wait)
    }

    /// Whether the plug orders writes and nothing else is going on: then an idle zone's write needs no second look.
    #[inline]
    fn is_calm(&self) -> bool {
        self.at_once && self.state == State::Ready && self.reports.in_flight == 0
    }

    /// Whether nothing waits here and nothing is in flight that the order or the write pointers depend on.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let settled = matches!(self.state, State::Ready | State::Failed(_));
        let in_flight = self.reports.in_flight + self.passed + self.zones.busy;
        settled && in_flight == 0 && self.behind.is_empty() && self.lock.as_ref().is_none_or(|lock| lock.is_idle())
    }

    /// The error with which the plug refuses ordered bios, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<&PlugError> {
        if let State::Failed(error) = &self.state { Some(error) } else { None }
    }

    /// Whether the plug has learned the zones.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    pub(super) fn below_id(&self) -> DeviceId {
        self.below[0]
    }

    /// Switches the policy. The device must be suspended and drained; the zones are learned anew.
    pub fn set_policy(&mut self, policy: WritePolicy, cx: &mut Cx<'_>) -> Result<(), PlugError> {
        self.revalidate(cx)?;
        self.options.policy = policy;
        self.prepare_policy();
        Ok(())
    }

    /// Asks the device for all of its zones and believes the answer. The plug must be idle; bios wait meanwhile.
    pub fn revalidate(&mut self, cx: &mut Cx<'_>) -> Result<(), PlugError> {
        if !self.is_idle() {
            return Err(PlugError::Busy);
        }
        self.ask_for_report(cx);
        Ok(())
    }

    pub(super) fn ask_for_report(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Learning;
        let room = Vec::with_capacity(self.limits.zones() as usize);
        let report = cx.own_bio(Bio::new(Op::ReportZones, Sector::ZERO, 0, Payload::Zones(room)));
        cx.submit(self.below[0], report, OWN);
    }
}

impl BlockDevice for ZonePlug {
    keeps_limits_and_below!();

    fn takes_remote(&self, below: bool) -> bool {
        below
    }

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.ask_for_report(cx);
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.op == Op::Write
            && self.is_calm()
            && let Some((zone, offset)) = self.zones.take_if_idle(bio.sector, bio.sectors)
        {
            return cx.submit(self.below[0], bio, Place { zone, offset }.word());
        }
        self.submit_by_policy(bio, cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if bio.op == Op::Write
            && status.is_ok()
            && self.is_calm()
            && self.zones.free_if_alone(Place::from_word(word).zone)
        {
            return cx.complete(bio, status);
        }
        self.end_by_op(bio, status, word, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(word) => self.hold_expired(word, cx),
            // Below may be another device now, or one that others wrote to meanwhile. Busy, it knows better than a report.
            Event::Resume => {
                self.losses = 0;
                if self.state == State::Learning { self.asks_again = true } else { drop(self.revalidate(cx)) }
            }
            Event::Path(PathEvent::Losses { losses, .. }) => {
                if self.limits.write_cache && losses.is_none_or(|losses| losses > self.losses) {
                    self.losses = self.losses.max(losses.unwrap_or(0));
                    self.doubt_all();
                }
            }
            Event::Suspend { .. } | Event::Failed { .. } | Event::Path(_) => {}
            Event::Done { .. } => unreachable!("a plug has no I/O of its own"),
        }
    }

    fn hears_losses(&self) -> bool {
        true
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let lists = self.slots.iter().flat_map(|(_, slot)| [&slot.waiting, &slot.riding]).chain([&self.behind]);
        lists.for_each(|list| self.nodes.iter(list).for_each(&mut *visit));
        self.reset_all.iter().for_each(|bio| visit(bio));
        self.lock.iter().for_each(|lock| lock.held(visit));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let append = if self.emulate_append { "emulated" } else { "native" };
        write!(out, "zone plug, policy {}, {append} append", self.policy())?;
        let us = self.longest_wait().as_nanos() / 1_000;
        if us > 0 { write!(out, ", longest wait {}.{:03} ms", us / 1_000, us % 1_000) } else { Ok(()) }
    }
}

/// The zone and the offset of a write in flight: the word of its frame.
#[derive(Clone, Copy)]
struct Place {
    zone: ZoneNo,
    offset: u32,
}

impl Place {
    #[inline]
    fn word(self) -> u64 {
        u64::from(self.zone.0) << 32 | u64::from(self.offset)
    }

    #[inline]
    fn from_word(word: u64) -> Self {
        Self { zone: ZoneNo((word >> 32) as u32), offset: word as u32 }
    }
}

/// The general case of submission and completion.
impl ZonePlug {
    #[inline(never)]
    fn submit_by_policy(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match self.options.policy {
            WritePolicy::Plug | WritePolicy::Qd1 | WritePolicy::Elevator => self.submit_plugged(bio, cx),
            WritePolicy::ZoneLock => self.submit_locked(bio, cx),
            WritePolicy::None => self.submit_unordered(bio, cx),
        }
    }

    #[inline(never)]
    fn end_by_op(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        match bio.op {
            Op::ReportZones => self.reported(bio, status, word, cx),
            _ if word == PASSED => {
                self.passed -= 1;
                cx.complete(bio, status);
            }
            _ if self.policy() == WritePolicy::ZoneLock => self.end_locked(bio, status, word, cx),
            Op::Write | Op::WriteZeroes => self.written(bio, status, Place::from_word(word), cx),
            Op::ZoneAppend => self.appended(bio, status, Place::from_word(word).zone, cx),
            Op::ZoneResetAll => self.emptied(bio, status, cx),
            _ => self.managed(bio, status, Place::from_word(word).zone, cx),
        }
    }
}

/// Without an order there is no write pointer to put an append at. Out of line, as a reason takes room on the stack.
#[cold]
#[inline(never)]
fn refuse_unordered(bio: Box<Bio>, cx: &mut Cx<'_>) {
    cx.fail(bio, Reason::AppendUnordered);
}

/// The `zone-lock` policy, but for what its scheduler does.
impl ZonePlug {
    fn submit_locked(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::ReportZones => self.report(bio, cx),
            Op::Flush | Op::Discard => cx.remap(self.below[0], bio),
            _ if !self.is_ready() => self.wait_behind(bio, cx),
            Op::ZoneAppend if !self.emulate_append => self.pass(bio, cx),
            // Zone management was never ordered against writes.
            op if op.is_zone_management() => {
                let zone = self.zones.zone_of(bio.sector);
                cx.submit(self.below[0], bio, zone.0.into());
            }
            _ => self.scheduler(|lock, zones| lock.submit(bio, zones, cx)),
        }
    }

    fn end_locked(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if bio.op.is_zone_management() {
            let (zone, all) = (word as u32, self.zones.len() as u32);
            let zones = if bio.op == Op::ZoneResetAll { 0..all } else { zone..zone + 1 };
            zones.for_each(|zone| self.changed(&bio, ZoneNo(zone), status));
            return cx.complete(bio, status);
        }
        if let Some(zone) = self.scheduler(|lock, zones| lock.end_io((bio, status), word, zones, cx)) {
            self.touch(zone);
        }
    }

    fn scheduler<R>(&mut self, f: impl FnOnce(&mut ZoneLock, &mut Zones) -> R) -> R {
        f(self.lock.as_mut().expect("the policy has made its scheduler"), &mut self.zones)
    }
}

/// The `none` policy.
impl ZonePlug {
    fn submit_unordered(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.op == Op::ZoneAppend && self.emulate_append {
            return refuse_unordered(bio, cx);
        }
        self.pass(bio, cx);
    }

    /// Sends a bio on in no order.
    pub(super) fn pass(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.op.is_write() {
            self.passed += 1;
            cx.submit(self.below[0], bio, PASSED);
        } else {
            cx.remap(self.below[0], bio);
        }
    }
}

/// The policies that order, on the way down.
impl ZonePlug {
    #[inline]
    fn submit_plugged(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::Read | Op::Flush | Op::Discard => cx.remap(self.below[0], bio),
            Op::ReportZones => self.report(bio, cx),
            Op::ZoneResetAll => self.empty(bio, cx),
            _ => self.order(bio, cx),
        }
    }

    /// A bio that takes its turn in its zone.
    #[inline]
    fn order(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.state != State::Ready && self.detain(&bio) {
            return self.wait_behind(bio, cx);
        }
        let zone = self.zones.zone_of(bio.sector);
        let record = self.zones.at(zone);
        if record.class() == Class::Conventional {
            return self.pass_conventional(bio, cx);
        }
        if record.is(Bit::Busy) && !self.joins_appends(zone, &bio) {
            return self.wait(zone, bio, cx);
        }
        if self.needs_turn(&bio) && self.disk_queue.is_taken() {
            return self.wait_in_line(zone, bio, cx);
        }
        if self.launch(zone, bio, cx) && !record.is(Bit::Busy) {
            self.zones.set_busy(zone, true);
        }
    }

    /// Whether the plug's state stops `bio`. While all zones are being reset, conventional ones are not concerned.
    fn detain(&self, bio: &Bio) -> bool {
        let conventional = || self.zones.at(self.zones.zone_of(bio.sector)).class() == Class::Conventional;
        self.state != State::Emptying || !conventional()
    }

    pub(super) fn wait_behind(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if let State::Failed(error) = &self.state {
            return cx.fail(bio, Reason::ZonesUnknown(format!("{error}").into()));
        }
        self.nodes.push(&mut self.behind, bio);
    }

    fn pass_conventional(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::Write | Op::WriteZeroes => cx.remap(self.below[0], bio),
            _ => {
                let fault = self.zones.fault(self.zones.zone_of(bio.sector), true);
                cx.fail(bio, fault);
            }
        }
    }

    /// Whether `bio` is a native append to a zone that is busy with native appends only.
    fn joins_appends(&self, zone: ZoneNo, bio: &Bio) -> bool {
        let slot = || self.zones.at(zone).slot().map(|slot| &self.slots[slot]);
        self.is_native_append(bio) && slot().is_some_and(|slot| slot.appends > 0 && slot.waiting.is_empty())
    }

    pub(super) fn is_native_append(&self, bio: &Bio) -> bool {
        bio.op == Op::ZoneAppend && !self.emulate_append
    }

    fn wait(&mut self, zone: ZoneNo, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Some(slot) = self.slot(zone) else { return cx.fail(bio, Reason::TooManyWaiting) };
        self.queue(slot, bio);
        self.joined(zone, slot, cx);
    }

    /// An idle zone's write while another zone has the disk.
    fn wait_in_line(&mut self, zone: ZoneNo, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Some(slot) = self.slot(zone) else { return cx.fail(bio, Reason::TooManyWaiting) };
        self.zones.set_busy(zone, true);
        self.queue(slot, bio);
        self.list(slot);
    }

    fn queue(&mut self, slot: usize, mut bio: Box<Bio>) {
        // NOWAIT is about resources; the zone's turn comes by itself (`block/blk-zoned.c:blk_zone_wplug_handle_write`).
        bio.flags = bio.flags.without(Flags::NOWAIT);
        self.slots[slot].sectors += u64::from(bio.sectors);
        self.nodes.push(&mut self.slots[slot].waiting, bio);
    }

    pub(super) fn next_waiting(&mut self, slot: usize) -> Option<Box<Bio>> {
        let bio = self.nodes.pop(&mut self.slots[slot].waiting)?;
        self.slots[slot].sectors -= u64::from(bio.sectors);
        Some(bio)
    }

    /// The zone's slot, made if it has none; `None` when all slots are taken.
    pub(super) fn slot(&mut self, zone: ZoneNo) -> Option<usize> {
        if let Some(slot) = self.zones.at(zone).slot() {
            return Some(slot);
        }
        if self.slots.len() == MAX_SLOTS {
            return None;
        }
        let slot = self.slots.insert(Slot::new(zone));
        self.zones.at_mut(zone).set_slot(Some(slot));
        Some(slot)
    }

    /// Sends `bio` down if it may go, and fails it alone if not. The caller keeps the busy bit; the disk has to be free if
    /// `bio` needs it.
    #[inline]
    fn launch(&mut self, zone: ZoneNo, mut bio: Box<Bio>, cx: &mut Cx<'_>) -> bool {
        let mut place = Place { zone, offset: 0 };
        if self.is_native_append(&bio) {
            if let Err(reason) = self.admit_append(zone) {
                cx.fail(bio, reason);
                return false;
            }
        } else if bio.op.writes_data() {
            match self.zones.place(zone, bio.op, bio.sector, bio.sectors) {
                Ok(offset) => place.offset = offset,
                Err(fault) => {
                    let reason = self.zones.refusal(fault);
                    cx.fail(bio, reason);
                    return false;
                }
            }
            let record = self.zones.at_mut(zone);
            record.wp = place.offset + bio.sectors;
            if bio.op == Op::ZoneAppend {
                record.set(Bit::Append, true);
                bio.op = Op::Write;
                bio.sector += u64::from(place.offset);
            }
            self.disk_queue.take(zone, &bio, cx.now());
        }
        cx.submit(self.below[0], bio, place.word());
        true
    }

    /// Counts a native append in. The device knows the write pointer even where the host has lost it.
    fn admit_append(&mut self, zone: ZoneNo) -> Result<(), Reason> {
        let record = self.zones.at(zone);
        let full = record.wp >= self.zones.capacity_of(zone) && !record.is(Bit::Lost);
        if full || record.class() != Class::Sequential {
            return Err(self.zones.fault(zone, true).into());
        }
        let slot = self.slot(zone).ok_or(Reason::TooManyWaiting)?;
        self.slots[slot].appends += 1;
        Ok(())
    }

    /// Something has ended in `zone`: reports under way may be older than that. While it is in flight the zone is busy, and
    /// nothing is learned of it anyway.
    #[inline]
    pub(super) fn touch(&mut self, zone: ZoneNo) {
        self.reports.note_change(zone);
    }
}

/// The policies that order, on the way up.
impl ZonePlug {
    #[inline]
    fn written(&mut self, mut bio: Box<Bio>, status: Status, place: Place, cx: &mut Cx<'_>) {
        self.settle(place, &bio, status);
        let carried = if self.merge_delay.wanted { self.carried(place.zone) } else { 1 };
        let start = self.zones.start(place.zone);
        let record = self.zones.at_mut(place.zone);
        if record.is(Bit::Merged) {
            self.unmerge(place.zone, bio, status, cx);
        } else {
            if record.is(Bit::Append) {
                record.set(Bit::Append, false);
                bio.op = Op::ZoneAppend;
                bio.sector = start + u64::from(if status.is_ok() { place.offset } else { 0 });
            }
            cx.complete(bio, status);
        }
        self.disk_queue.give_back();
        let held = self.merge_delay.wanted && status.is_ok() && self.hold(place.zone, carried, cx);
        if !held {
            self.release(place.zone, cx);
        }
    }

    /// What a finished write tells about the write pointer, which was advanced when it was sent.
    #[inline]
    fn settle(&mut self, place: Place, bio: &Bio, status: Status) {
        self.touch(place.zone);
        if status.is_ok() {
            return;
        }
        if refused_untouched(status) {
            self.zones.at_mut(place.zone).wp = place.offset;
        } else {
            self.zones.lose(place.zone, bio);
        }
    }

    fn appended(&mut self, bio: Box<Bio>, status: Status, zone: ZoneNo, cx: &mut Cx<'_>) {
        self.touch(zone);
        let end = self.zones.offset(bio.sector).saturating_add(bio.sectors).min(self.zones.capacity_of(zone));
        let record = self.zones.at_mut(zone);
        if status.is_ok() {
            record.wp = record.wp.max(end);
        } else if !refused_untouched(status) {
            self.zones.lose(zone, &bio);
        }
        let slot = self.zones.at(zone).slot().expect("a zone with appends in flight has a slot");
        self.slots[slot].appends -= 1;
        let last = self.slots[slot].appends == 0;
        cx.complete(bio, status);
        if last {
            self.release(zone, cx);
        }
    }

    fn managed(&mut self, bio: Box<Bio>, status: Status, zone: ZoneNo, cx: &mut Cx<'_>) {
        self.changed(&bio, zone, status);
        cx.complete(bio, status);
        self.release(zone, cx);
    }

    /// Zone management of `zone` has ended.
    pub(super) fn changed(&mut self, bio: &Bio, zone: ZoneNo, status: Status) {
        self.touch(zone);
        if status.is_ok() {
            self.zones.manage(bio.op, zone);
        } else if may_have_moved(bio, status) {
            self.zones.doubt(zone, bio);
        }
    }

    /// The zone's command is done: the zone goes on, and the disk to the next zone if it is free.
    #[inline]
    pub(super) fn release(&mut self, zone: ZoneNo, cx: &mut Cx<'_>) {
        self.proceed(zone, DiskTurn::Not, cx);
        if self.disk_queue.wanted {
            self.pass_turn(cx);
        }
    }

    /// Nothing is in flight in the busy `zone`: send what waits next, have it wait for the disk, or set the zone free.
    #[inline]
    pub(super) fn proceed(&mut self, zone: ZoneNo, turn: DiskTurn, cx: &mut Cx<'_>) {
        if let Some(slot) = self.zones.at(zone).slot() {
            if self.launch_waiting(zone, slot, turn, cx) {
                return;
            }
            if self.slots[slot].is_unused() {
                self.slots.remove(slot);
                self.zones.at_mut(zone).set_slot(None);
            }
        }
        self.zones.set_busy(zone, false);
        if self.state == State::Emptying && self.zones.busy == 0 {
            self.send_reset_all(cx);
        }
    }

    /// Sends the next bio that may go, or all native appends that come next. Those that may not go fail, one by one. False
    /// when nothing is left to wait for.
    fn launch_waiting(&mut self, zone: ZoneNo, slot: usize, turn: DiskTurn, cx: &mut Cx<'_>) -> bool {
        let mut launched = false;
        loop {
            let front = self.nodes.front(&self.slots[slot].waiting);
            let Some(next) = front.filter(|bio| !launched || self.is_native_append(bio)) else { return launched };
            let native = self.is_native_append(next);
            if turn == DiskTurn::Not && self.needs_turn(next) {
                self.list(slot);
                return true;
            }
            let waited = if next.op.writes_data() { cx.now().since(next.since) } else { Duration::ZERO };
            let bio = self.next_waiting(slot).expect("the front is there");
            let bio = self.merge(zone, slot, bio, cx);
            launched |= self.launch(zone, bio, cx);
            if launched {
                self.longest_wait = self.longest_wait.max(waited);
            }
            if launched && !native {
                return true;
            }
        }
    }
}

/// Whether zone management that failed so may have moved a pointer all the same: what was done can be reported as failed, and
/// a way to the disk can lose the answer. What broke a rule of zones was not done.
#[cold]
fn may_have_moved(bio: &Bio, status: Status) -> bool {
    let moves = matches!(bio.op, Op::ZoneReset | Op::ZoneFinish | Op::ZoneResetAll);
    let breaks_a_rule = matches!(bio.why().map(|why| &why.reason), Some(Reason::Zone(_)));
    moves && !breaks_a_rule && !refused_untouched(status)
}

/// Whether a device that answers so has not moved the zone's write pointer.
fn refused_untouched(status: Status) -> bool {
    matches!(status, Status::NotSupported | Status::ZoneOpenResource | Status::ZoneActiveResource | Status::ReadOnly)
}
