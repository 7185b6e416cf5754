//! The target as a device: what comes from above and from below, and the tasks that work in it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use core::cell::RefCell;
use core::fmt;
use core::ops::Range;

use super::create::Spare;
use super::evacuate::{Leaving, Stage, Step};
use super::format::{MemberState, ZoneUse};
#[cfg(feature = "sabotage")]
use super::guards::{Guards, Sabotage};
use super::knobs::Knobs;
use super::lanes::Lanes;
use super::log::{Checker, Keep, Order, Zones};
use super::map::{LeafNo, LeafSize, Map};
use super::options::Options;
use super::roots::Given;
use super::set::Set;
use super::state::{Readiness, Shared, Signals, State, StlCounters, Tables, finish};
use super::{
    BLOCK_BYTES, BLOCK_SECTORS, BatchNo, CopyNo, Epoch, ZoneIndex, checkpoint, clean, compact, flush, idle, load,
    read_ahead, read_map, refusal, sweep, write,
};
use crate::block::{
    Bio, BlockDevice, Content, Cx, DeviceHealth, DeviceId, Event, Figure, Limits, MessageError, Op, Payload, Reason,
    Status, Survival, WordOwner,
};
use crate::prelude::*;
use crate::sector::Sector;
use crate::task::Tasks;
use crate::zone::ZoneNo;

/// An `stl` volume.
pub struct Stl {
    limits: Limits,
    below: Vec<DeviceId>,
    shared: Shared,
    tasks: Tasks,
    knobs: Knobs,
}

impl Stl {
    /// A volume of `sectors` on these devices, which have `limits`. It is found on them when it is first used.
    #[must_use]
    pub fn new(below: Vec<DeviceId>, limits: &[Limits], sectors: u64, options: Options) -> Self {
        let mut tasks = Tasks::default();
        let io = tasks.io();
        let shared = Rc::new(RefCell::new(State::new(io.clone(), options)));
        let given = below.iter().zip(limits).map(|(device, limits)| Given { device: *device, limits: limits.clone() });
        let capacity = sectors / u64::from(BLOCK_SECTORS);
        tasks.spawn(load::run(shared.clone(), io, given.collect(), capacity));
        (0..write::WRITERS * below.len()).for_each(|_| tasks.spawn(write::run(shared.clone())));
        (0..read_map::NODE_READERS).for_each(|_| tasks.spawn(read_map::run(shared.clone())));
        (0..read_ahead::SEGMENT_READERS).for_each(|_| tasks.spawn(read_ahead::run(shared.clone())));
        tasks.spawn(idle::run(shared.clone()));
        tasks.spawn(flush::run(shared.clone()));
        tasks.spawn(checkpoint::run(shared.clone()));
        tasks.spawn(sweep::run(shared.clone()));
        tasks.spawn(refusal::run(shared.clone()));
        tasks.spawn(compact::run(shared.clone()));
        tasks.spawn(clean::run(shared.clone()));
        Self { limits: exposed(limits, sectors), below, shared, tasks, knobs: Knobs::default() }
    }

    /// The same, with what its table line says.
    pub(super) fn with_knobs(below: Vec<DeviceId>, limits: &[Limits], sectors: u64, knobs: Knobs) -> Self {
        Self { knobs, ..Self::new(below, limits, sectors, knobs.options()) }
    }

    fn set(&mut self, pairs: &[&str]) -> Result<(), MessageError> {
        let before = self.knobs;
        let set = self.knobs.set_all(pairs.chunks(2).map(|pair| (pair[0], pair[1])));
        set.map_err(|error| MessageError(error.message))?;
        let mut state = self.shared.borrow_mut();
        self.knobs.apply_changes(&before, &mut state.options);
        let most = state.options.cached_extents;
        state.map.cache.resize(most);
        state.notify(|signals| &signals.progress);
        Ok(())
    }

    /// Takes guards away. For tests; before its first use.
    #[cfg(feature = "sabotage")]
    pub fn sabotage(&mut self, gone: Sabotage) {
        self.shared.borrow_mut().guards = Guards::without(gone);
    }

    /// The device of this identity is to leave: what its next life does for that. Before its first use.
    pub fn let_go(&mut self, id: [u8; 16], step: Step) {
        self.shared.borrow_mut().evacuation.wanted = Some((id, step));
    }

    /// How far that is.
    ///
    /// # Errors
    /// Why the volume takes no changes.
    pub fn evacuation(&self) -> Result<Stage, String> {
        self.shared.borrow().evacuation_stage()
    }

    /// What is left to be done for it.
    #[must_use]
    pub fn leaving(&self) -> Leaving {
        self.shared.borrow().leaving()
    }

    /// What it has done since it was loaded.
    #[must_use]
    pub fn counters(&self) -> StlCounters {
        self.shared.borrow().counters
    }

    /// Lets the tasks work, and the bios that they let go.
    fn pump(&mut self, cx: &mut Cx<'_>) {
        loop {
            self.shared.borrow_mut().is_notified = false;
            self.tasks.run(cx);
            let mut state = self.shared.borrow_mut();
            state.let_go(cx);
            if !state.is_notified && state.back.is_empty() && state.done.is_empty() {
                break;
            }
        }
    }

    /// Lets the tasks work if they were told something.
    fn pump_if_notified(&mut self, is_notified: bool, cx: &mut Cx<'_>) {
        if is_notified {
            self.pump(cx);
        }
    }

    /// Brings it to rest: what waits is written, and a checkpoint made.
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
            state.notify(|signals| &signals.progress);
        }
        self.pump(cx);
    }
}

/// What the volume accepts: blocks of 4 KiB.
fn exposed(devices: &[Limits], sectors: u64) -> Limits {
    let most = |of: fn(&Limits) -> Option<u32>| devices.iter().filter_map(of).min();
    Limits {
        logical_block_bytes: BLOCK_BYTES as u32,
        physical_block_bytes: BLOCK_BYTES as u32,
        max_sectors: most(|limits| limits.max_sectors).map(|most| (most - most % BLOCK_SECTORS).max(BLOCK_SECTORS)),
        max_segments: most(|limits| limits.max_segments),
        max_write_zeroes: Some(1 << 22),
        max_discard: Some(1 << 22),
        write_cache: true,
        rotational: devices.iter().any(|limits| limits.rotational),
        read_only: devices.iter().any(|limits| limits.read_only),
        ..Limits::new(sectors)
    }
}

impl State {
    fn new(io: crate::task::Io, options: Options) -> Self {
        Self {
            readiness: Readiness::Unloaded,
            guards: super::guards::Guards::default(),
            io,
            signals: Signals::default(),
            is_notified: false,
            disks: super::disks::Disks::default(),
            id: super::format::SetId::default(),
            epoch: Epoch(0),
            since: BatchNo(0),
            lives: Vec::new(),
            capacity: 0,
            reserve: 0,
            zones: Zones::new(Vec::new(), Keep::default()),
            map: Map::new(0, LeafSize::default(), options.cached_extents),
            lanes: Lanes::new(&[]),
            turns: super::turns::Turns::default(),
            refusals: refusal::Refusals::default(),
            retries_under_way: 0,
            order: Order::after(BatchNo(0)),
            gap: None,
            doubts: Default::default(),
            copies: CopyNo(0),
            copies_under_way: 0,
            cleaned_in_vain: 0,
            map_cut: Default::default(),
            frozen_cut: Default::default(),
            swept: Default::default(),
            compacted: None,
            pace: super::policy::Pace::default(),
            evacuation: super::evacuate::Evacuation::default(),
            victim: None,
            is_census_stale: false,
            map_batches: 0,
            changes: super::changes::Changes::default(),
            is_gathering: false,
            writes: slab::Slab::new(),
            checker: Checker::default(),
            readings: slab::Slab::new(),
            node_waiters: BTreeMap::new(),
            wanted_nodes: VecDeque::new(),
            idle: idle::Idle::default(),
            scattered: super::policy::Scattered::new(options.range_blocks),
            map_reads: super::policy::Readers::default(),
            ahead: read_ahead::ReadAhead::new(options.ahead_blocks),
            flushes: VecDeque::new(),
            back: VecDeque::new(),
            early: VecDeque::new(),
            done: Vec::new(),
            tables: Tables::default(),
            since_checkpoint: 0,
            clock: 0,
            is_checkpoint_wanted: false,
            is_checkpointing: false,
            is_freezing: false,
            is_sweep_wanted: false,
            is_sweeping: false,
            in_sweep: Default::default(),
            merged_before: LeafNo(0),
            is_compacting: false,
            token: None,
            is_suspended: false,
            counters: StlCounters::default(),
            events: 0,
            options,
        }
    }

    fn start(&mut self) {
        if self.readiness == Readiness::Unloaded {
            self.readiness = Readiness::Loading;
            self.notify(|signals| &signals.wanted);
        }
    }

    /// Lets the bios go that tasks are done with.
    fn let_go(&mut self, cx: &mut Cx<'_>) {
        for bio in core::mem::take(&mut self.back) {
            self.route(bio, cx);
        }
        let mut done = core::mem::take(&mut self.done);
        for (mut bio, result) in done.drain(..) {
            let status = finish(&mut bio, result);
            cx.complete(bio, status);
        }
        // Its memory stays for the next.
        self.done = done;
        let may_rest = !self.is_suspended || self.is_at_rest();
        if let Some(token) = self.token.take_if(|_| may_rest) {
            cx.recycle(token);
        }
    }

    /// Sends a bio where it goes.
    fn route(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match (&self.readiness, bio.op) {
            (Readiness::Unloaded | Readiness::Loading, _) => self.early.push_back(bio),
            (Readiness::Failed(_), _) => {
                let reason = self.refusal();
                cx.fail(bio, reason);
            }
            (Readiness::ReadOnly(_), Op::Read) => self.route_read_in_doubt(bio, cx),
            (_, Op::Read) => self.route_read(bio, cx),
            (_, Op::Flush) => self.take_flush(bio),
            (Readiness::ReadOnly(_), _) => {
                let reason = self.refusal();
                cx.fail(bio, reason);
            }
            (_, Op::Write | Op::WriteZeroes | Op::Discard) => self.take_change(bio, cx),
            _ => cx.fail(bio, Reason::NotSupported),
        }
    }

    /// Returns the zones that a volume over the used devices of `set` needs in addition to those with data. Zones that cannot be written do not count, as when the
    /// volume was made: if they did, more zones could be kept than its capacity leaves.
    pub fn spare(&self, set: &Set) -> Spare {
        let (devices, _) = set.used();
        let is_dead = |zone: &ZoneIndex| self.zones.rows()[zone.0 as usize].used_for == ZoneUse::Dead;
        let zones = set.zones_that_are(MemberState::Used).filter(|zone| !is_dead(zone));
        let rooms: Vec<u32> = zones.map(|zone| self.disks.shape(zone).writable()).filter(|room| *room > 0).collect();
        let least = rooms.iter().copied().min().unwrap_or(self.disks.least_room);
        Spare::new((devices, rooms.len()), least, self.map.leaf_size)
    }

    /// Zones that are kept for those with more right than users.
    pub fn kept(&self) -> Keep {
        let spare = self.spare(&self.disks.set);
        Keep { recovery: spare.recovery, map: spare.map, cycle: spare.cycle, cleaning: 2 }
    }
}

impl BlockDevice for Stl {
    keeps_limits_and_below!();

    /// Batches are in the log when they are acknowledged, and the log is on the disks.
    fn survival(&self) -> Survival {
        Survival::All
    }

    /// Nothing: an instance whose table is to be replaced by this one may be at work. What there is is looked for when that has come to rest.
    fn attached(&mut self, cx: &mut Cx<'_>) {
        if self.shared.borrow().guards.gone().found_early {
            self.shared.borrow_mut().start();
            self.pump(cx);
        }
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let is_notified = {
            let mut state = self.shared.borrow_mut();
            state.start();
            state.touch();
            state.route(bio, cx);
            state.is_notified
        };
        self.pump_if_notified(is_notified, cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if WordOwner::Task.owns(word) {
            self.tasks.end_io(bio, status, word, cx);
            return self.pump(cx);
        }
        let is_notified = {
            let mut state = self.shared.borrow_mut();
            state.read_done(bio, status, word as usize, cx);
            state.is_notified
        };
        self.pump_if_notified(is_notified, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(word) if WordOwner::Task.owns(word) => self.tasks.on_timer(word),
            Event::Timer(_) => self.shared.borrow_mut().has_gathered(),
            Event::Suspend { .. } => return self.suspend(cx),
            Event::Resume => {
                let mut state = self.shared.borrow_mut();
                state.is_suspended = false;
                state.notify(|signals| &signals.progress);
                state.start();
            }
            _ => return,
        }
        self.pump(cx);
    }

    fn content(&self, sectors: Range<u64>) -> (Content, u64) {
        self.shared.borrow().content(sectors)
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let state = self.shared.borrow();
        state.writes.iter().for_each(|(_, write)| visit(&write.bio));
        let waiting =
            state.node_waiters.values().flatten().chain(&state.flushes).chain(&state.early).chain(&state.back);
        waiting.chain(state.ahead.held()).for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "stl, {} sectors on devices", self.limits.capacity)?;
        self.below.iter().try_for_each(|device| write!(out, " {}", device.0))
    }

    fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.shared.borrow().write_status(out)
    }

    fn health(&self) -> DeviceHealth {
        self.shared.borrow().readiness.health()
    }

    fn figures(&self, visit: &mut dyn FnMut(&'static str, Figure)) {
        self.shared.borrow().show_figures(visit);
    }

    fn zone_use(&self, device: DeviceId, zone: ZoneNo) -> Option<&'static str> {
        self.shared.borrow().zone_use(device, zone)
    }

    fn message(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<String, MessageError> {
        let answer = match words {
            ["checkpoint"] => {
                let mut state = self.shared.borrow_mut();
                state.is_checkpoint_wanted = true;
                state.notify(|signals| &signals.progress);
                String::new()
            }
            ["sweep"] => {
                let mut state = self.shared.borrow_mut();
                state.is_sweep_wanted = true;
                state.notify(|signals| &signals.progress);
                String::new()
            }
            ["counters"] => {
                let mut lines = String::new();
                self.figures(&mut |name, figure| lines += &format!("{name} {figure}\n"));
                lines
            }
            ["knobs"] => self.knobs.list().map(|(name, value)| format!("{name} {value}\n")).collect(),
            ["set", pairs @ ..] if !pairs.is_empty() && pairs.len() % 2 == 0 => {
                self.set(pairs)?;
                String::new()
            }
            _ => {
                let said = words.join(" ");
                let known = "write `checkpoint`, `sweep`, `knobs`, `counters` or `set <knob> <value>...`";
                return Err(MessageError(format!("stl does not know `{said}`: {known}")));
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
}
