//! One thread, one stack, one ring: wait, deliver, turn, pump.
//!
//! ```text
//!  ┌─> ring.wait(next deadline) ──> deliver ──> stack.turn(now) ──> changes go on ──> sources pump ─┐
//!  └────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Completions of the ring go by their token: to a device of the stack as an `Event`, or to a [`Source`], which is
//! anything else on this thread that waits for the kernel: a listening socket, a connection, a bench. Every step is
//! bounded, so none starves the others. The clock is read once per round.

mod error;
mod source;
mod stopping;
mod thread;
mod turn_time;
mod wait;

use std::cell::Cell;
use std::cmp::Reverse;
use std::io;
use std::mem;
use std::rc::Rc;
use std::time;

use shingle_core::block::{Bio, Completion as Done, DeviceId, Event, Failure, PortId, Stack, Status};
use shingle_core::multipath::Node;
use shingle_core::time::{Duration, Instant};
use shingle_sys::{Completion, Fd, Request, RingHandle, Token};
use slab::Slab;

use self::source::{Around, Sources};
use self::stopping::Stage;
use self::turn_time::TurnTime;
use self::wait::Wait;
use crate::devices::Devices;
use crate::mailbox::{self, Inbox};
use crate::numa::node_of_this_thread;

pub use self::error::{ShardError, StuckBio};
pub use self::source::{Pump, Source, SourceCx, SourceId, device_token};
pub use self::thread::ShardThread;
pub(crate) use self::thread::never_wait_for_own_writes;

/// The way for other threads to ask a shard for something.
pub type Mailbox = mailbox::Mailbox<Shard>;

/// The owner of the shard's own requests.
const SHARD: u64 = u64::MAX;

type Then = Box<dyn FnOnce(&mut Shard, Box<Bio>, Status)>;

/// A stack, its ring and its sources.
pub struct Shard {
    /// The devices.
    pub stack: Stack,
    /// Their names, and how mapped ones change.
    pub devices: Devices,
    ring: RingHandle,
    sources: Sources,
    inbox: Inbox<Shard>,
    /// Readable when there is mail.
    wake: Fd,
    mailbox: Mailbox,
    /// The port of bios that the shard itself submits, and what to do when they are done.
    port: PortId,
    thens: Slab<Then>,
    origin: time::Instant,
    /// The time of a simulation, in the place of the machine's.
    simulated: Option<Rc<Cell<Instant>>>,
    now: Instant,
    /// How long turns take in which bios arrive.
    turn_time: TurnTime,
    /// When the stack next needs to run by itself.
    next: Option<Instant>,
    /// Whether there is more to do at once.
    again: bool,
    stage: Stage,
    /// What is looked at in every round.
    waits: Vec<Wait>,
    more_mail: bool,
    /// Sources that have a turn when there was mail.
    mail_readers: Vec<SourceId>,
    failed_flushes: Vec<(DeviceId, Status)>,
    /// What kept mapped devices from coming to rest at the end.
    stuck_at_the_end: Vec<StuckBio>,
    /// How long sources may take to finish, mapped devices to come to rest, and devices to flush, after a request to stop.
    grace: Duration,
}

/// Most completions that one round delivers, and most messages that it runs.
const MOST_COMPLETIONS: usize = 4096;
const MOST_MESSAGES: usize = 64;
/// How long each stage of a stop may take.
const GRACE: Duration = Duration::from_millis(10_000);

impl Shard {
    /// A shard without devices or sources, for this thread.
    pub fn new() -> Result<Self, ShardError> {
        Self::on(RingHandle::new()?, None)
    }

    /// A shard on a ring that stands in for the machine's, and in the time of that.
    pub fn simulated(ring: RingHandle, clock: Rc<Cell<Instant>>) -> Result<Self, ShardError> {
        Self::on(ring, Some(clock))
    }

    fn on(ring: RingHandle, simulated: Option<Rc<Cell<Instant>>>) -> Result<Self, ShardError> {
        let (mailbox, inbox) = mailbox::new().map_err(ShardError::Wake)?;
        let mut stack = Stack::new();
        let port = stack.open_port();
        let shard = Self {
            stack,
            devices: Devices::default(),
            ring,
            sources: Sources::default(),
            wake: inbox.wake().map_err(ShardError::Wake)?.into(),
            inbox,
            mailbox,
            port,
            thens: Slab::new(),
            origin: time::Instant::now(),
            simulated,
            now: Instant::ZERO,
            turn_time: TurnTime::default(),
            next: None,
            again: true,
            stage: Stage::Running,
            waits: Vec::new(),
            more_mail: false,
            mail_readers: Vec::new(),
            failed_flushes: Vec::new(),
            stuck_at_the_end: Vec::new(),
            grace: GRACE,
        };
        shard.watch_mail()?;
        Ok(shard)
    }

    /// The ring, for disks.
    #[must_use]
    pub fn ring(&self) -> RingHandle {
        self.ring.clone()
    }

    /// The way for other threads to ask this shard.
    #[must_use]
    pub fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// The time of this round.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Mean time that a bio can take without being seen to take any: less is known only of a bio that is done in the turn in which it was
    /// sent. `None` before the first bio.
    #[must_use]
    pub fn resolution(&self) -> Option<Duration> {
        self.turn_time.mean()
    }

    fn clock(&self) -> Instant {
        if let Some(clock) = &self.simulated {
            return clock.get();
        }
        Instant::ZERO + self.origin.elapsed().into()
    }

    /// NUMA node of the CPU on which this thread runs at the moment; 0 in a simulation.
    #[must_use]
    pub fn node(&self) -> Node {
        if self.simulated.is_some() { Node(0) } else { node_of_this_thread() }
    }

    /// What the times of its stack count from.
    #[must_use]
    pub fn origin(&self) -> time::Instant {
        self.origin
    }

    /// Puts a source on this shard.
    pub fn spawn(&mut self, source: Box<dyn Source>) -> SourceId {
        let (sources, mut around) = self.sources();
        sources.spawn(source, &mut around)
    }

    /// Has a source pumped whenever other threads have asked this shard for something.
    pub fn notify_of_mail(&mut self, source: SourceId) {
        self.mail_readers.push(source);
    }

    fn sources(&mut self) -> (&mut Sources, Around<'_>) {
        let Self { sources, stack, devices, ring, now, .. } = self;
        (sources, Around { stack, devices, ring, now: *now })
    }

    /// Submits `bio` to `device` and calls `then` with the outcome: for the control path.
    pub fn submit(&mut self, device: DeviceId, bio: Bio, then: impl FnOnce(&mut Shard, Box<Bio>, Status) + 'static) {
        let tag = self.thens.insert(Box::new(then)) as u64;
        self.stack.submit(self.port, tag, device, Box::new(bio));
    }

    /// Every bio that has waited for `at_least`, oldest first: the stuck-I/O report.
    #[must_use]
    pub fn stuck(&self, at_least: Duration) -> Vec<StuckBio> {
        let mut stuck = Vec::new();
        self.stack.held(&mut |device, bio| {
            let age = self.now.since(bio.since);
            if age >= at_least {
                stuck.push(StuckBio { device, name: self.devices.label(device), age, bio: format!("{bio:?}") });
            }
        });
        stuck.sort_by_key(|bio| Reverse(bio.age));
        stuck
    }

    /// How many bios have waited for `at_least`.
    #[must_use]
    pub fn count_stuck(&self, at_least: Duration) -> usize {
        let mut count = 0;
        self.stack.held(&mut |_, bio| count += usize::from(self.now.since(bio.since) >= at_least));
        count
    }

    /// Runs until somebody asks for the end and everything is done.
    pub fn run(&mut self) -> Result<(), ShardError> {
        while self.stage != Stage::Stopped {
            self.round()?;
        }
        match (mem::take(&mut self.stuck_at_the_end), mem::take(&mut self.failed_flushes)) {
            (none, failed) if none.is_empty() && failed.is_empty() => Ok(()),
            (none, failed) if none.is_empty() => Err(ShardError::Flush(failed)),
            (stuck, _) => Err(ShardError::Stuck(stuck)),
        }
    }

    /// Runs until `done`: for tools that own their shard, and tests.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Shard) -> bool) -> Result<(), ShardError> {
        while !done(self) {
            self.round()?;
        }
        Ok(())
    }

    /// Keeps the next round from waiting: whoever drives this shard has more to submit.
    pub fn hurry(&mut self) {
        self.again = true;
    }

    /// One round: waits for the kernel, but not past the next deadline, then does what is due.
    pub fn round(&mut self) -> Result<(), ShardError> {
        self.ring.wait(self.sleep().map(|d| time::Duration::from_nanos(d.as_nanos()))).map_err(ShardError::Wait)?;
        self.now = self.clock();
        self.deliver()?;
        self.read_mail();
        let arrivals = self.stack.arrivals();
        self.next = self.stack.turn(self.now);
        if self.turn_time.is_due(arrivals) {
            let took = self.clock().since(self.now);
            self.turn_time.note(arrivals, took);
        }
        self.tell_failures();
        self.devices.advance(self.now, &mut self.stack);
        self.look_at_waits();
        let (sources, mut around) = self.sources();
        sources.pump(&mut around);
        self.again = self.run_thens();
        self.again |= self.advance_stop()?;
        Ok(())
    }

    /// How long there is nothing to do but for the kernel; `None`: for ever.
    fn sleep(&self) -> Option<Duration> {
        if self.again || self.more_mail || self.sources.are_due() || self.stack.has_arrivals() {
            return Some(Duration::ZERO);
        }
        let waits = self.waits.iter().map(|wait| wait.give_up).min();
        let deadlines = [self.next, self.sources.next_alarm(), self.stage.give_up(), waits, self.stack.failure_due()];
        let next = deadlines.into_iter().flatten().min();
        next.map(|next| next.since(self.now))
    }

    /// Puts failed bios in the log: the first of each kind, and how many more of it came.
    fn tell_failures(&mut self) {
        while let Some(failure) = self.stack.poll_failure(self.now) {
            let (why, more) = match failure {
                Failure::First(why) => (why, 0),
                Failure::More(why, more) => (why, more),
            };
            let (told, device) = (self.devices.tell_why(&why), why.device.map(|id| self.devices.label(id)));
            let (said, times) = if more > 0 { (format!("{more} more like this: {told}"), more) } else { (told, 1) };
            tracing::warn!(
                device = device.as_deref(),
                op = why.op.name(),
                sector = why.sector.0,
                sectors = why.sectors,
                status = why.status().name(),
                times,
                "{said}"
            );
        }
    }

    fn run_thens(&mut self) -> bool {
        let mut any = false;
        while let Some(Done { tag, bio, status }) = self.stack.poll_completion(self.port) {
            let then = self.thens.remove(tag as usize);
            then(self, bio, status);
            any = true;
        }
        any
    }

    fn deliver(&mut self) -> Result<(), ShardError> {
        for _ in 0..MOST_COMPLETIONS {
            let Some(done) = self.ring.pop() else { break };
            match done.token.owner {
                SHARD => {
                    self.inbox.rearm();
                    self.more_mail = true;
                    self.watch_mail()?;
                }
                _ if Sources::owns(done.token) => {
                    let (sources, mut around) = self.sources();
                    sources.deliver(done, &mut around);
                }
                owner => {
                    let Completion { token: Token { word, .. }, result, request } = done;
                    let event = Event::Done { word, result, payload: request.into_payload() };
                    self.stack.deliver(DeviceId(owner as u16), event);
                }
            }
        }
        Ok(())
    }

    fn watch_mail(&self) -> Result<(), ShardError> {
        let watch = Request::Readable { file: self.wake.clone() };
        let refused = self.ring.submit(Token { owner: SHARD, word: 0 }, watch);
        refused.map_err(|_| ShardError::Wake(io::Error::other("the ring is full")))
    }

    fn read_mail(&mut self) {
        if !self.more_mail {
            return;
        }
        self.mail_readers.iter().for_each(|reader| self.sources.notify(*reader));
        for _ in 0..MOST_MESSAGES {
            let Some(message) = self.inbox.take() else {
                self.more_mail = false;
                return;
            };
            message(self);
        }
    }
}

#[cfg(test)]
mod tests;
