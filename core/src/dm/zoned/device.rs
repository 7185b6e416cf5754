//! The target as a device: what comes from above and from below, and the tasks that work in it.

use alloc::rc::Rc;
use core::cell::RefCell;
use core::fmt;
use core::ops::Range;

#[cfg(feature = "sabotage")]
use super::guards::{Guards, Sabotage};
use super::state::{Readiness, Shared, State, ZonedCounters};
use super::{
    BLOCK_BYTES, BLOCK_SECTORS, ChunkNo, MemberNo, Number, SetZone, ZoneClass, ZoneSpace, clean, commit, load, reclaim,
};
use crate::block::{
    Bio, BlockDevice, Content, Cx, DeviceHealth, DeviceId, Event, Figure, Limits, MessageError, Op, Payload, Reason,
    Status, Survival, WordOwner,
};
use crate::prelude::*;
use crate::sector::Sector;
use crate::task::Tasks;
use crate::zone::ZoneNo;

/// What a frame's word says of a bio: its kind in the upper bits, below that a zone or a number.
const KIND: u64 = WordOwner::REST & !((1 << 56) - 1);
/// A read of a zone.
pub(super) const READ: u64 = 1 << 56;
/// A write that changes nothing but data of a zone.
pub(super) const OVERWRITE: u64 = 2 << 56;
/// A write with more to know of it.
pub(super) const WRITE: u64 = 3 << 56;
/// Zeroes in front of a write to a zone.
pub(super) const FILL: u64 = 4 << 56;

/// The timer after which changes are committed.
pub(super) const COMMIT: u64 = 1 << 56;
/// The timer of paced writes.
pub(super) const PACE: u64 = 2 << 56;
/// The timer of the writes of a chunk that are held back.
pub(super) const HELD: u64 = 3 << 56;
/// The timer after which the volume may be idle.
const IDLE: u64 = 4 << 56;
/// The timer of a chunk that reclaim leaves alone for a while.
const RESTED: u64 = 5 << 56;

/// A dm-zoned volume.
pub struct Zoned {
    limits: Limits,
    below: Vec<DeviceId>,
    shared: Shared,
    tasks: Tasks,
}

impl Zoned {
    /// A volume of `sectors` on these devices, which have `space`. Its metadata is read when it is first used.
    pub(super) fn new(
        below: Vec<DeviceId>,
        devices: &[Limits],
        space: ZoneSpace,
        sectors: u64,
    ) -> Result<Self, Reason> {
        let limits = exposed(devices, &space, sectors);
        let shared = Rc::new(RefCell::new(load::blank(&space, &below, devices)?));
        let mut tasks = Tasks::default();
        let io = tasks.io();
        let chunks = sectors / (u64::from(space.zone_blocks()) * u64::from(BLOCK_SECTORS));
        tasks.spawn(load::run(shared.clone(), io.clone(), space.clone(), chunks));
        tasks.spawn(commit::run(shared.clone(), io.clone(), space));
        tasks.spawn(clean::reset_zones(shared.clone(), io.clone()));
        tasks.spawn(clean::recover_zones(shared.clone(), io.clone()));
        let workers = devices.iter().enumerate().filter(|(_, limits)| limits.zoned.is_some());
        for (member, _) in workers {
            tasks.spawn(reclaim::run(shared.clone(), io.clone(), MemberNo::of(member)));
        }
        Ok(Self { limits, below, shared, tasks })
    }

    /// Takes guards away. For tests; before its first use.
    #[cfg(feature = "sabotage")]
    pub fn sabotage(&mut self, gone: Sabotage, cx: &mut Cx<'_>) {
        let mut state = self.shared.borrow_mut();
        state.guards = Guards::without(gone);
        state.volume.guards = state.guards;
        drop(state);
        if gone.found_early {
            self.start(cx);
        }
    }

    /// What it has done since it was loaded.
    #[must_use]
    pub fn counters(&self) -> ZonedCounters {
        self.shared.borrow().counters
    }

    /// Whether its metadata is loaded.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        matches!(self.shared.borrow().readiness, Readiness::Ready | Readiness::ReadOnly(_))
    }

    /// Lets the tasks work, and the bios that they let go.
    fn pump(&mut self, cx: &mut Cx<'_>) {
        loop {
            self.shared.borrow_mut().is_notified = false;
            self.tasks.run(cx);
            let mut state = self.shared.borrow_mut();
            let back = core::mem::take(&mut state.back);
            for bio in back {
                state.route(bio, cx);
            }
            for (bio, status) in core::mem::take(&mut state.done) {
                cx.complete(bio, status);
            }
            let may_rest = !state.is_suspended || state.is_at_rest();
            if let Some(token) = state.token.take_if(|_| may_rest) {
                cx.recycle(token);
            }
            if !state.is_notified && state.back.is_empty() && state.done.is_empty() {
                break;
            }
        }
        let mut state = self.shared.borrow_mut();
        state.time_commit(cx);
        if let Some(at) = state.rested_at.take() {
            cx.wake_at(at, RESTED);
        }
        if !state.is_idle_timed && !state.is_suspended && state.readiness == Readiness::Ready && state.may_reclaim() {
            state.is_idle_timed = true;
            cx.wake_at(state.last_io.max(cx.now()) + state.knobs.idle_time(), IDLE);
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if self.shared.borrow().readiness == Readiness::Unloaded {
            let mut state = self.shared.borrow_mut();
            state.readiness = Readiness::Loading;
            state.notify(|signals| &signals.loaded);
            drop(state);
            self.pump(cx);
        }
    }

    /// Brings it to rest: what is kept back goes on, copies end, everything is committed.
    fn suspend(&mut self, cx: &mut Cx<'_>) {
        {
            let mut state = self.shared.borrow_mut();
            if state.readiness == Readiness::Unloaded {
                return;
            }
            state.is_suspended = true;
            if state.token.is_none() {
                state.token = Some(cx.own_bio(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)));
            }
            let held: Vec<ChunkNo> = state.volume.busy.keys().copied().collect();
            held.into_iter().for_each(|chunk| state.end_hold(chunk, cx));
            state.end_pace(cx);
            state.notify(|signals| &signals.progress);
            state.notify(|signals| &signals.commit);
            state.notify(|signals| &signals.reclaim);
            state.notify(|signals| &signals.clean);
        }
        self.pump(cx);
    }
}

/// What the volume accepts: blocks of 4 KiB, cut to what each of the devices takes.
fn exposed(devices: &[Limits], space: &ZoneSpace, sectors: u64) -> Limits {
    let zone_sectors = space.zone_blocks() * BLOCK_SECTORS;
    let least = |of: fn(&Limits) -> Option<u32>| devices.iter().filter_map(of).min();
    Limits {
        logical_block_bytes: BLOCK_BYTES as u32,
        physical_block_bytes: BLOCK_BYTES as u32,
        max_sectors: least(|limits| limits.max_sectors).map(|most| (most - most % BLOCK_SECTORS).max(BLOCK_SECTORS)),
        max_segments: least(|limits| limits.max_segments),
        max_write_zeroes: Some(zone_sectors),
        max_discard: Some(zone_sectors),
        // The mapping itself is only durable after a flush.
        write_cache: true,
        rotational: devices.iter().any(|limits| limits.rotational),
        read_only: devices.iter().any(|limits| limits.read_only),
        ..Limits::new(sectors)
    }
}

impl BlockDevice for Zoned {
    /// Where blocks are is in memory until it is committed.
    fn survival(&self) -> Survival {
        Survival::Flushed
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let is_notified = {
            let mut state = self.shared.borrow_mut();
            state.route(bio, cx);
            state.is_notified || state.readiness == Readiness::Unloaded
        };
        if is_notified {
            self.start(cx);
            self.pump(cx);
        }
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if WordOwner::Task.owns(word) {
            self.tasks.end_io(bio, status, word, cx);
            return self.pump(cx);
        }
        let mut state = self.shared.borrow_mut();
        let low = word & !KIND;
        match word & KIND {
            READ => {
                state.read_done(SetZone(low as u32));
                cx.complete(bio, status);
            }
            OVERWRITE => {
                state.overwrite_done(SetZone(low as u32));
                cx.complete(bio, status);
            }
            FILL => {
                state.fill_done(SetZone(low as u32), status);
                cx.recycle(bio);
            }
            _ => {
                let write = state.write_done(low as usize, status, cx);
                if write.is_fua && status.is_ok() {
                    state.flush(bio, super::state::Then::Complete);
                } else {
                    cx.complete(bio, status);
                }
            }
        }
        if state.token.is_some() {
            // A write that comes back has changed something that is to be committed before all is at rest.
            state.notify(|signals| &signals.commit);
        }
        let is_notified = state.is_notified;
        drop(state);
        if is_notified {
            self.pump(cx);
        }
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(word) if WordOwner::Task.owns(word) => self.tasks.on_timer(word),
            Event::Timer(word) => {
                let mut state = self.shared.borrow_mut();
                match word & KIND {
                    COMMIT => {
                        (state.is_commit_timed, state.is_commit_due) = (false, true);
                        state.notify(|signals| &signals.commit);
                    }
                    PACE => state.end_pace(cx),
                    HELD => state.end_hold(ChunkNo((word & !KIND) as u32), cx),
                    RESTED => state.notify(|signals| &signals.reclaim),
                    _ => {
                        state.is_idle_timed = false;
                        state.notify(|signals| &signals.reclaim);
                    }
                }
            }
            Event::Suspend { .. } => return self.suspend(cx),
            Event::Resume => {
                {
                    let mut state = self.shared.borrow_mut();
                    state.is_suspended = false;
                    state.notify(|signals| &signals.reclaim);
                    state.notify(|signals| &signals.progress);
                }
                self.start(cx);
            }
            Event::Failed { .. } | Event::Path(_) | Event::Done { .. } => return,
        }
        self.pump(cx);
    }

    fn content(&self, sectors: Range<u64>) -> (Content, u64) {
        self.shared.borrow().content(sectors)
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.shared.borrow().held(visit);
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "zoned, {} sectors on devices", self.limits.capacity)?;
        self.below.iter().try_for_each(|device| write!(out, " {}", device.0))
    }

    /// As `drivers/md/dm-zoned-target.c:dmz_status`; behind that what is wrong, if something is.
    fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let state = self.shared.borrow();
        let zones = &state.volume.zones;
        let cache = zones.pool(ZoneClass::Cache, MemberNo(0));
        write!(out, "{} zones {}/{} cache", zones.all.len(), cache.free, cache.total)?;
        // The zones that are kept for reclaim are the first ones.
        let mut reserve = zones.reserve;
        for member in zones.members.numbers().skip(usize::from(zones.has_cache)) {
            let [random, sequential] =
                [ZoneClass::Random, ZoneClass::Sequential].map(|class| zones.pool(class, member));
            let kept = reserve.min(sequential.total);
            reserve -= kept;
            let (free, total) = (sequential.free.saturating_sub(kept), sequential.total - kept);
            write!(out, " {}/{} random {free}/{total} sequential", random.free, random.total)?;
        }
        match &state.readiness {
            Readiness::Ready => Ok(()),
            Readiness::Unloaded => out.write_str(" unloaded"),
            Readiness::Loading => out.write_str(" loading"),
            Readiness::ReadOnly(why) => write!(out, " read-only: {why}"),
            Readiness::Failed(why) => write!(out, " failed: {why}"),
        }
    }

    fn zone_use(&self, device: DeviceId, zone: ZoneNo) -> Option<&'static str> {
        self.shared.borrow().volume.zones.use_of(device, zone)
    }

    fn health(&self) -> DeviceHealth {
        self.shared.borrow().readiness.health()
    }

    fn figures(&self, visit: &mut dyn FnMut(&'static str, Figure)) {
        let state = self.shared.borrow();
        state.counters.list().for_each(|(name, count)| visit(name, Figure::Count(count)));
        visit("amplification", Figure::Ratio(state.counters.amplification()));
        visit("waiting_writes", Figure::Count((state.paced.len() + state.starved.len() + state.crowded.len()) as u64));
        let zones = &state.volume.zones;
        let pools = [
            (ZoneClass::Cache, ["cache_zones", "free_cache_zones"]),
            (ZoneClass::Random, ["random_zones", "free_random_zones"]),
            (ZoneClass::Sequential, ["sequential_zones", "free_sequential_zones"]),
        ];
        for (class, names) in pools {
            let pool = zones.sum(class);
            names
                .into_iter()
                .zip([pool.total, pool.free])
                .for_each(|(name, count)| visit(name, Figure::Count(count.into())));
        }
        visit("unrecorded_zones", Figure::Count(zones.unrecorded.into()));
        visit("policy", Figure::Word(state.knobs.style.name()));
        visit("reclaim", Figure::Word(state.urgency.name()));
    }

    fn message(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<String, MessageError> {
        let answer = match words {
            [word] if word.eq_ignore_ascii_case("reclaim") => {
                let mut state = self.shared.borrow_mut();
                state.is_reclaim_wanted = true;
                state.notify(|signals| &signals.reclaim);
                String::new()
            }
            [word] if word.eq_ignore_ascii_case("knobs") => {
                let state = self.shared.borrow();
                state.knobs.list().map(|(name, value)| format!("{name} {value}\n")).collect()
            }
            [word] if word.eq_ignore_ascii_case("counters") => {
                let mut lines = String::new();
                self.figures(&mut |name, figure| lines += &format!("{name} {figure}\n"));
                lines
            }
            [word, pairs @ ..] if word.eq_ignore_ascii_case("set") && !pairs.is_empty() && pairs.len() % 2 == 0 => {
                let mut state = self.shared.borrow_mut();
                let pairs = pairs.chunks(2).map(|pair| (pair[0], pair[1]));
                state.knobs.set_all(pairs).map_err(|error| MessageError(format!("{error}")))?;
                state.follow_style();
                state.notify(|signals| &signals.reclaim);
                String::new()
            }
            _ => {
                let said = words.join(" ");
                let known = "write `reclaim`, `knobs`, `counters` or `set <knob> <value>...`";
                return Err(MessageError(format!("zoned does not know `{said}`: {known}")));
            }
        };
        self.pump(cx);
        Ok(answer)
    }

    fn events(&self) -> u64 {
        self.shared.borrow().events
    }

    fn is_ready(&self) -> Result<(), String> {
        match &self.shared.borrow().readiness {
            Readiness::Failed(why) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    fn is_replaceable(&self) -> Result<(), String> {
        let state = self.shared.borrow();
        if !state.has_lost || state.guards.gone().replaceable_after_loss {
            return Ok(());
        }
        Err(format!("acknowledged writes are in memory only, since {}", state.loss()))
    }
}

impl State {
    /// Whether nothing is left to be done before it is put away.
    fn is_at_rest(&self) -> bool {
        let is_clean =
            self.volume.dirty.is_empty() && self.volume.zones.is_settled() && !self.volume.zones.is_volatile();
        let gave_up = self.readiness != Readiness::Ready && self.readiness != Readiness::Loading;
        // What was found when the metadata was loaded stays as it is if the volume was not changed since.
        let is_clean = is_clean && (self.has_settled_found() || self.counters.commits == 0);
        let is_held = if self.guards.gone().rest_while_held { !self.flushes.is_empty() } else { self.holds_bios() };
        let is_quiet = self.jobs == 0 && !self.is_committing && !is_held;
        let is_written = self.volume.zones.is_written_somewhere() && !self.guards.gone().rest_while_written;
        is_quiet && (is_clean || gave_up) && !is_written
    }

    /// Whether reclaim could ever have something to do.
    fn may_reclaim(&self) -> bool {
        if !self.is_changed {
            return false;
        }
        let pool = self.volume.zones.stock().buffers();
        pool.free < pool.total && !self.is_reclaimed
    }

    /// True if a bio waits in it, which may still change something.
    fn holds_bios(&self) -> bool {
        let mut any = false;
        self.held(&mut |_| any = true);
        any
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let early = self.early.iter().chain(&self.starved).chain(&self.crowded).chain(&self.back);
        let paced = self.paced.iter().map(|(_, bio)| bio);
        let flushes = self.flushes.iter().map(|(bio, _)| bio);
        let busy = self.volume.busy.values().flat_map(|busy| busy.waiting.iter().chain(&busy.held));
        early.chain(paced).chain(flushes).chain(busy).for_each(|bio| visit(bio));
    }
}
