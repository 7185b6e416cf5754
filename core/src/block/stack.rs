//! The devices and the hop loop; layers call each other only here.

use alloc::collections::VecDeque;
use core::any::Any;
use core::fmt;

use super::bio::{Bio, Frame, Owner};
use super::check::{Admitted, FastCheck, check};
use super::device::{BlockDevice, Cx, MessageError, Route, Survival};
use super::effects::{Completion, Effects, Hop, Port};
use super::event::Event;
use super::failures::Failure;
use super::health::DeviceHealth;
use super::id::{DeviceId, PortId};
use super::limits::Limits;
use super::meter::{Counters, Meter};
use super::observer::Observer;
use super::op::Flags;
use super::path::Silence;
use super::reason::Reason;
use super::status::Status;
use super::trace::{Action, Trace};
use crate::prelude::*;
use crate::time::Instant;

/// What becomes of a bio that comes to a device: one test on the way of every bio instead of several.
pub(super) enum Dispatch {
    /// The device is called.
    Call,
    /// It would pass a plain bio on, and where to is arithmetic: that is done without a call.
    Route(Route),
    /// The device is suspended, has an I/O scheduler or needs its FUA writes emulated, or the stack is traced.
    Watch,
}

/// A device and what the stack knows of it. It begins with a cache line, so that its place needs no multiplication.
#[repr(align(64))]
pub(super) struct Slot {
    pub device: Box<dyn BlockDevice>,
    pub dispatch: Dispatch,
    pub suspended: bool,
    /// True if the device has an I/O scheduler.
    pub is_scheduled: bool,
    /// True if the device has a volatile write cache and no FUA.
    pub emulates_fua: bool,
    pub fast_check: FastCheck,
    pub meter: Meter,
    pub limits: Limits,
    pub deferred: VecDeque<Box<Bio>>,
    /// Frames that a bio needs from here down.
    pub depth: usize,
    /// Whether the place is empty.
    pub is_free: bool,
    /// Whether it was given up before it was sent anything: it sends nothing, and goes as soon as it is at rest.
    pub is_unused: bool,
}

/// Devices that bios hop through, on one thread.
pub struct Stack {
    pub(super) slots: Vec<Slot>,
    pub(super) effects: Effects,
    /// Devices that are to go, each after those that lie on it.
    pub(super) abandoned: Vec<DeviceId>,
}

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

impl Stack {
    /// A stack without devices.
    #[must_use]
    pub fn new() -> Self {
        Self { slots: Vec::new(), effects: Effects::new(), abandoned: Vec::new() }
    }

    /// A new submitter.
    pub fn open_port(&mut self) -> PortId {
        let effects = &mut self.effects;
        effects.ports.push(Port { completions: VecDeque::with_capacity(64), outstanding: 0, is_ready: false });
        // Room for all of them: no allocation when a bio comes back.
        effects.ready.reserve(effects.ports.len() - effects.ready.len());
        PortId((effects.ports.len() - 1) as u16)
    }

    /// Hands `bio` to device `to`; the outcome appears at `port` under `tag`, never before the next [`Stack::turn`].
    pub fn submit(&mut self, port: PortId, tag: u64, to: DeviceId, mut bio: Box<Bio>) {
        debug_assert!(bio.is_idle(), "{bio:?} is submitted twice");
        self.effects.ports[port.0 as usize].outstanding += 1;
        bio.since = self.effects.now;
        bio.forget_why();
        if self.effects.is_traced() {
            self.effects.trace_queued(to, &mut bio);
        }
        bio.enter(&self.effects.mark);
        bio.push(Owner::Port(port), tag);
        self.effects.arrivals.push_back((to, bio));
    }

    /// Takes the next finished bio of `port`.
    pub fn poll_completion(&mut self, port: PortId) -> Option<Completion> {
        self.effects.ports[port.0 as usize].completions.pop_front()
    }

    /// A port to which bios came back since it was last returned here.
    pub fn poll_ready(&mut self) -> Option<PortId> {
        let port = self.effects.ready.pop()?;
        self.effects.ports[port.0 as usize].is_ready = false;
        Some(port)
    }

    /// Whether finished bios of `port` wait to be polled.
    #[must_use]
    pub fn has_completions(&self, port: PortId) -> bool {
        !self.effects.ports[port.0 as usize].completions.is_empty()
    }

    /// Bios of `port` that are not polled yet.
    #[must_use]
    pub fn outstanding(&self, port: PortId) -> u64 {
        let port = &self.effects.ports[port.0 as usize];
        port.outstanding + port.completions.len() as u64
    }

    /// Tells device `to` that something happened outside of the stack.
    pub fn deliver(&mut self, to: DeviceId, event: Event) {
        self.effects.events.push_back((to, event));
    }

    /// The same at once, for devices that may be gone before the next turn.
    pub fn tell(&mut self, to: DeviceId, event: Event) {
        self.call_between_turns(to, |device, cx| device.on_event(event, cx));
    }

    /// Whether something arrived since the last turn: the next one has work whatever the time is.
    #[must_use]
    pub fn has_arrivals(&self) -> bool {
        !self.effects.arrivals.is_empty() || !self.effects.events.is_empty()
    }

    /// Bios that arrived since the last turn.
    #[must_use]
    pub fn arrivals(&self) -> usize {
        self.effects.arrivals.len()
    }

    /// Does everything that is due at `now`; returns when it next needs to run by itself.
    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        self.turn_with(now, |_| ())
    }

    /// [`Stack::turn`] with a look at the stack after every hop: for checkers.
    pub fn turn_watched(&mut self, now: Instant, watch: &mut dyn FnMut(&Stack)) -> Option<Instant> {
        self.turn_with(now, watch)
    }

    /// One turn. `watch` is part of the loop that is compiled, so a turn that nobody watches does not pay for it.
    #[inline]
    fn turn_with(&mut self, now: Instant, mut watch: impl FnMut(&Stack)) -> Option<Instant> {
        self.effects.now = now;
        let timers_set = self.effects.timers_set();
        loop {
            while self.step() {
                watch(self);
            }
            let Some(timer) = self.effects.pop_timer(timers_set) else { break };
            self.call(timer.device, |device, cx| device.on_event(Event::Timer(timer.word), cx));
            watch(self);
        }
        if !self.abandoned.is_empty() {
            self.remove_abandoned();
        }
        self.effects.next_deadline()
    }

    /// Takes one hop, or lets one event or bio in if no hop is left; false when there is nothing to do. [`Stack::turn`] in
    /// slow motion, for tests that look at the devices after every hop.
    #[inline]
    pub fn step(&mut self) -> bool {
        if let Some(hop) = self.effects.take_hop() {
            match hop {
                Hop::Down { to, bio } => self.dispatch(to, bio),
                Hop::Up { from, bio, status } => self.ascend(from, bio, status),
            }
        } else if let Some((to, event)) = self.effects.events.pop_front() {
            match event {
                Event::Path(event) => self.carry(to, event),
                event => self.call(to, |device, cx| device.on_event(event, cx)),
            }
        } else if let Some((to, bio)) = self.effects.arrivals.pop_front() {
            self.enter(to, bio);
        } else {
            return false;
        }
        true
    }

    /// A bio from outside: check it, and cut it to what the device takes.
    #[inline]
    fn enter(&mut self, to: DeviceId, bio: Box<Bio>) {
        if self.slots[to.0 as usize].fast_check.admits(&bio) {
            self.dispatch(to, bio);
        } else {
            self.enter_checked(to, bio);
        }
    }

    #[inline(never)]
    fn enter_checked(&mut self, to: DeviceId, mut bio: Box<Bio>) {
        if self.slots[to.0 as usize].suspended {
            // It is checked when it is let in, by the limits of what is there then: these here may be on their way out.
            return self.dispatch_watched(to, bio);
        }
        match check(&mut bio, &self.slots[to.0 as usize].limits) {
            Ok(Admitted::Whole) => self.dispatch(to, bio),
            Ok(Admitted::Split(front)) => {
                self.effects.trace(Action::Split, to, &bio, Status::Ok);
                let (first, rest) = self.effects.split(bio, front);
                // The remainder stays first in line: a later write to the same zone must not get between.
                self.effects.arrivals.push_front((to, rest));
                self.dispatch(to, first);
            }
            Ok(Admitted::Done) => self.effects.complete(to, bio, Status::Ok),
            Err(reason) => self.refuse(to, bio, reason),
        }
    }

    /// Fails a bio at the door of a device.
    #[cold]
    fn refuse(&mut self, at: DeviceId, mut bio: Box<Bio>, reason: Reason) {
        let status = bio.blame(reason);
        self.slots[at.0 as usize].meter.errors[status as usize] += 1;
        bio.explain(at, status);
        self.effects.complete(at, bio, status);
    }

    #[inline(always)]
    fn dispatch(&mut self, mut to: DeviceId, mut bio: Box<Bio>) {
        loop {
            let slot = &mut self.slots[to.0 as usize];
            let place = match &slot.dispatch {
                Dispatch::Route(route) if bio.is_plain() => route.place(&bio),
                Dispatch::Watch => return self.dispatch_watched(to, bio),
                Dispatch::Call | Dispatch::Route(_) => None,
            };
            let Some((below, sector)) = place else { break };
            // What the device would do, and what its hop would be.
            slot.meter.arrive(&bio);
            self.effects.pass(to, &mut bio, sector);
            to = below;
        }
        self.hand_over(to, bio);
    }

    /// A bio for a device that is suspended, has a scheduler or needs its FUA writes emulated, or under a trace.
    #[cold]
    #[inline(never)]
    fn dispatch_watched(&mut self, to: DeviceId, mut bio: Box<Bio>) {
        let slot = &mut self.slots[to.0 as usize];
        if slot.is_scheduled && Effects::was_dispatched(&bio, to) {
            // It was let in before: a suspended device is drained of it.
            return self.issue(to, bio);
        }
        if slot.suspended {
            // As `drivers/md/dm.c:dm_submit_bio`: who does not want to wait hears so.
            if bio.flags.has(Flags::NOWAIT) {
                return self.refuse(to, bio, Reason::WouldWait("the device is suspended"));
            }
            return slot.deferred.push_back(bio);
        }
        if slot.is_scheduled {
            match self.schedule(to, bio) {
                Some(passing) => bio = passing,
                None => return,
            }
        }
        self.issue(to, bio);
    }

    /// A bio that a device which is watched takes now.
    fn issue(&mut self, to: DeviceId, mut bio: Box<Bio>) {
        self.effects.trace_numbered(Action::Dispatch, to, &mut bio);
        let bio = self.slots[to.0 as usize].without_emulated_fua(bio);
        self.hand_over(to, bio);
    }

    #[inline]
    pub(super) fn hand_over(&mut self, to: DeviceId, bio: Box<Bio>) {
        self.call_for_hop(to, |device, cx| {
            cx.meter.arrive(&bio);
            device.submit(bio, cx);
        });
    }

    fn ascend(&mut self, from: DeviceId, mut bio: Box<Bio>, status: Status) {
        let Frame { owner, word, .. } = bio.top();
        if owner == Owner::EmulatedFua {
            return self.advance_fua(from, bio, status);
        }
        self.effects.trace(Action::Complete, from, &bio, status);
        bio.pop();
        if let Owner::Device(above) = owner {
            return self.call_for_hop(above, |device, cx| device.end_io(bio, status, word, cx));
        }
        assert!(owner == Owner::Split, "the frames of all others go without a hop");
        if let Some((bio, status)) = self.effects.join(bio, status, word) {
            self.effects.complete(from, bio, status);
        }
    }

    /// Calls a device and puts what it sends in line: in the order it was sent, before all that was there.
    #[inline]
    pub(super) fn call(&mut self, id: DeviceId, f: impl FnOnce(&mut dyn BlockDevice, &mut Cx<'_>)) {
        self.effects.queue_next();
        self.call_for_hop(id, f);
    }

    /// The same for a hop that was just taken: so none is next.
    #[inline]
    fn call_for_hop(&mut self, id: DeviceId, f: impl FnOnce(&mut dyn BlockDevice, &mut Cx<'_>)) {
        let Slot { device, meter, .. } = &mut self.slots[id.0 as usize];
        let mark = self.effects.queued();
        f(device.as_mut(), &mut Cx { effects: &mut self.effects, meter, me: id });
        self.effects.line_up(mark);
    }

    /// The same from outside of a turn: behind what earlier such calls have sent.
    pub(super) fn call_between_turns(&mut self, id: DeviceId, f: impl FnOnce(&mut dyn BlockDevice, &mut Cx<'_>)) {
        self.effects.queue_next();
        let older = self.effects.queued();
        self.call(id, f);
        self.effects.let_go_first(older);
    }
}

/// Messages and reports: none of it is on the data path.
impl Stack {
    /// The device in place `id`, as what it is.
    #[must_use]
    pub fn device<D: BlockDevice>(&self, id: DeviceId) -> Option<&D> {
        let device: &dyn Any = self.slots.get(id.0 as usize)?.device.as_ref();
        device.downcast_ref()
    }

    /// The device in place `id`, whatever it is.
    #[must_use]
    pub fn any_device(&self, id: DeviceId) -> &dyn BlockDevice {
        self.slots[id.0 as usize].device.as_ref()
    }

    /// The devices that device `id` sends bios to.
    #[must_use]
    pub fn below(&self, id: DeviceId) -> &[DeviceId] {
        self.slots[id.0 as usize].device.below()
    }

    /// What of what device `id` has acknowledged survives the end of the process.
    #[must_use]
    pub fn survival(&self, id: DeviceId) -> Survival {
        let device = &self.slots[id.0 as usize].device;
        device.below().iter().map(|below| self.survival(*below)).fold(device.survival(), Survival::min)
    }

    /// Health of device `id`: the worst of the device and of all devices below it.
    #[must_use]
    pub fn health(&self, id: DeviceId) -> DeviceHealth {
        let device = &self.slots[id.0 as usize].device;
        device.below().iter().map(|below| self.health(*below)).fold(device.health(), DeviceHealth::max)
    }

    /// When a command can no longer take effect whose bio came back from device `id` with a path error: what a device is told
    /// that stands above several paths, with the limits of each.
    #[must_use]
    pub fn silence(&self, id: DeviceId) -> Silence {
        self.silence_of(self.slots[id.0 as usize].device.as_ref())
    }

    /// The same of a device that is to go into a place.
    #[must_use]
    pub fn silence_of(&self, device: &dyn BlockDevice) -> Silence {
        let below = || device.below().iter().map(|below| self.silence(*below)).max();
        device.silence().or_else(below).unwrap_or(Silence::AtOnce)
    }

    /// Whether bios to device `id` may carry data that nobody here can look at.
    #[must_use]
    pub fn takes_remote(&self, id: DeviceId) -> bool {
        let device = &self.slots[id.0 as usize].device;
        device.takes_remote(device.below().iter().all(|below| self.takes_remote(*below)))
    }

    /// Calls a device as what it is, outside of the data path: for policy switches and messages.
    pub fn with_device<D: BlockDevice, R>(
        &mut self,
        id: DeviceId,
        f: impl FnOnce(&mut D, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut result = None;
        self.slots.get(id.0 as usize)?;
        self.call_between_turns(id, |device, cx| {
            let device: &mut dyn Any = device;
            result = device.downcast_mut().map(|device| f(device, cx));
        });
        result
    }

    /// The number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.slots.len()
    }

    /// What device `id` accepts.
    #[must_use]
    pub fn limits(&self, id: DeviceId) -> &Limits {
        &self.slots[id.0 as usize].limits
    }

    /// What device `id` has done so far.
    #[must_use]
    pub fn counters(&self, id: DeviceId) -> Counters {
        let place = id.0 as usize;
        let mut counters = self.slots[place].meter.counters();
        let Effects { doors, dispatchers, .. } = &self.effects;
        counters.in_flight = counters.in_flight + dispatchers[place].waiting() - doors[place].done;
        counters
    }

    /// What device `id` has to say at the moment, as [`BlockDevice::status`] does.
    pub fn status(&self, id: DeviceId, out: &mut dyn fmt::Write) -> fmt::Result {
        self.slots[id.0 as usize].device.status(out)
    }

    /// Tells device `id` something in words, see [`BlockDevice::message`].
    ///
    /// # Errors
    /// The device's.
    pub fn message(&mut self, id: DeviceId, words: &[&str]) -> Result<String, MessageError> {
        let mut answer = Ok(String::new());
        self.call_between_turns(id, |device, cx| answer = device.message(words, cx));
        answer
    }

    /// How many events device `id` has raised so far.
    #[must_use]
    pub fn events(&self, id: DeviceId) -> u64 {
        self.slots[id.0 as usize].device.events()
    }

    /// Whether device `id` can take bios.
    ///
    /// # Errors
    /// What it misses.
    pub fn is_ready(&self, id: DeviceId) -> Result<(), String> {
        self.slots[id.0 as usize].device.is_ready()
    }

    /// Asks device `id` if its table can be replaced.
    ///
    /// # Errors
    /// The reason if acknowledged changes would be lost.
    pub fn is_replaceable(&self, id: DeviceId) -> Result<(), String> {
        self.slots[id.0 as usize].device.is_replaceable()
    }

    /// Has `observer` see the bios that go through device `id`; returns the one that was there.
    pub fn observe(&mut self, id: DeviceId, observer: Option<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
        core::mem::replace(&mut self.effects.doors[id.0 as usize].observer, observer)
    }

    /// The observer of device `id`, as what it is.
    pub fn observer<O: Observer>(&mut self, id: DeviceId) -> Option<&mut O> {
        let observer: &mut dyn Any = self.effects.doors[id.0 as usize].observer.as_deref_mut()?;
        observer.downcast_mut()
    }

    /// The next thing that a log should tell of failed bios.
    pub fn poll_failure(&mut self, now: Instant) -> Option<Failure> {
        self.effects.failures.poll(now)
    }

    /// When [`Stack::poll_failure`] next has something, if it ever has.
    #[must_use]
    pub fn failure_due(&self) -> Option<Instant> {
        self.effects.failures.due()
    }

    /// Writes the device's one-line description.
    pub fn describe(&self, id: DeviceId, out: &mut dyn fmt::Write) -> fmt::Result {
        self.slots[id.0 as usize].device.describe(out)
    }

    /// Starts recording hop events, the newest `bound` of them; `None` stops.
    pub fn set_trace(&mut self, bound: Option<usize>) {
        self.record(bound.map(Trace::new));
    }

    /// Starts recording hop events into `trace`; `None` stops.
    pub fn record(&mut self, trace: Option<Trace>) {
        self.slots.iter_mut().for_each(|slot| slot.find_way(trace.is_some()));
        self.effects.trace = trace.map(Box::new);
    }

    /// The recorded hop events.
    pub fn trace(&mut self) -> Option<&mut Trace> {
        self.effects.trace.as_deref_mut()
    }

    /// Shows every bio that waits somewhere in the stack: for the stuck-I/O report.
    pub fn held(&self, visit: &mut dyn FnMut(DeviceId, &Bio)) {
        for (index, slot) in self.slots.iter().enumerate() {
            let id = DeviceId(index as u16);
            slot.device.held(&mut |bio| visit(id, bio));
            let door = &self.effects.doors[index];
            door.pushed_back.iter().chain(&slot.deferred).for_each(|bio| visit(id, bio));
            self.effects.dispatchers[index].held(&mut |bio| visit(id, bio));
        }
        self.effects.fua_writes.held(visit);
        self.effects.arrivals.iter().for_each(|(to, bio)| visit(*to, bio));
    }
}

impl Slot {
    /// What becomes of bios from now on.
    pub fn find_way(&mut self, traced: bool) {
        self.dispatch = match self.device.route() {
            _ if self.suspended || self.is_scheduled || self.emulates_fua || traced => Dispatch::Watch,
            Some(route) => Dispatch::Route(route),
            None => Dispatch::Call,
        };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // A crash: what is in flight goes with the stack.
        #[cfg(debug_assertions)]
        self.effects.mark.end();
    }
}
