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

use std::cell::Cell;
use std::cmp::Reverse;
use std::fmt;
use std::io;
use std::mem;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time;

use shingle_core::block::{Bio, Completion as Done, DeviceId, Event, Failure, Op, Payload, PortId, Stack, Status};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_sys::{Completion, Fd, Request, RingError, RingHandle, Token};
use slab::Slab;

use crate::devices::{Devices, Rest};
use crate::mailbox::{self, Inbox, Mailbox, MailboxError};

/// Something on a shard's thread that waits for the kernel and talks to the stack.
pub trait Source {
    /// A request that it submitted is done.
    fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>);

    /// Called once per round: takes finished bios from its port, submits what it can. Bounded: a source that has more to
    /// do at once returns [`Pump::Again`].
    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump;

    /// Take no new work and finish what there is; then `pump` returns [`Pump::Done`].
    fn stop(&mut self, cx: &mut SourceCx<'_>);
}

/// What a source says after its turn to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pump {
    /// It waits for a completion of the ring or of a bio.
    Idle,
    /// It has more to do: do not sleep.
    Again,
    /// It is finished: drop it. Completions of requests it still has are dropped too.
    Done,
}

/// A source of a shard. Numbers are not reused, so that a late completion finds nobody instead of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SourceId {
    index: usize,
    generation: u32,
}

/// Tokens of devices have their place as owner, tokens of sources this bit, their generation and their index.
const SOURCE: u64 = 1 << 63;
/// The owner of the shard's own requests.
const SHARD: u64 = u64::MAX;

/// The token for I/O that the device in place `me` starts outside of the stack: it comes back as `Event::Done`.
#[must_use]
pub fn device_token(me: DeviceId, word: u64) -> Token {
    Token { owner: me.0.into(), word }
}

impl SourceId {
    fn token(self, word: u64) -> Token {
        Token { owner: SOURCE | u64::from(self.generation & 0x7fff_ffff) << 32 | self.index as u64, word }
    }
}

struct SourceSlot {
    id: SourceId,
    /// Taken out while it is called.
    source: Option<Box<dyn Source>>,
    ports: Vec<PortId>,
}

/// What a source may do.
pub struct SourceCx<'a> {
    /// The devices.
    pub stack: &'a mut Stack,
    /// Their names.
    pub devices: &'a Devices,
    ring: &'a RingHandle,
    ports: &'a mut Ports,
    mine: &'a mut Vec<PortId>,
    born: &'a mut Vec<Box<dyn Source>>,
    alarm: &'a mut Option<Instant>,
    id: SourceId,
    now: Instant,
}

impl SourceCx<'_> {
    /// The time of this round.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Starts a request; it comes back to `on_completion` with `word` in its token. It comes straight back if the ring
    /// has too many.
    pub fn submit(&mut self, word: u64, request: Request) -> Result<(), Request> {
        self.ring.submit(self.id.token(word), request)
    }

    /// Gives up this source's requests under `word`; each still comes back.
    pub fn cancel(&mut self, word: u64) {
        self.ring.cancel(self.id.token(word));
    }

    /// From `pump`: has it called again at `at`, if nothing happens before.
    pub fn wake_at(&mut self, at: Instant) {
        *self.alarm = Some(self.alarm.map_or(at, |other| other.min(at)));
    }

    /// A port of the stack for this source alone. The shard takes it back when the source is done.
    pub fn open_port(&mut self) -> PortId {
        let port = self.ports.open(self.stack);
        self.mine.push(port);
        port
    }

    /// Puts another source on this shard. It is pumped in this round or the next.
    pub fn spawn(&mut self, source: Box<dyn Source>) {
        self.born.push(source);
    }
}

/// Ports of a stack cannot be closed, so they are used again once nothing is under way on them.
#[derive(Default)]
struct Ports {
    free: Vec<PortId>,
    draining: Vec<PortId>,
}

impl Ports {
    fn open(&mut self, stack: &mut Stack) -> PortId {
        self.free.pop().unwrap_or_else(|| stack.open_port())
    }

    fn drain(&mut self, stack: &mut Stack) {
        self.draining.retain(|port| {
            while stack.poll_completion(*port).is_some() {}
            let busy = stack.outstanding(*port) > 0;
            if !busy {
                self.free.push(*port);
            }
            busy
        });
    }
}

type Then = Box<dyn FnOnce(&mut Shard, Box<Bio>, Status)>;

/// A stack, its ring and its sources.
pub struct Shard {
    /// The devices.
    pub stack: Stack,
    /// Their names, and how mapped ones change.
    pub devices: Devices,
    ring: RingHandle,
    sources: Slab<SourceSlot>,
    generations: u32,
    ports: Ports,
    inbox: Inbox,
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
    /// When the stack next needs to run by itself.
    next: Option<Instant>,
    /// When a source next does.
    alarm: Option<Instant>,
    /// Whether there is more to do at once.
    again: bool,
    stage: Stage,
    /// Sources that were not pumped yet.
    newborn: bool,
    more_mail: bool,
    failed_flushes: Vec<(DeviceId, Status)>,
    /// What kept mapped devices from coming to rest at the end.
    stuck_at_the_end: Vec<StuckBio>,
    /// How long sources may take to finish, mapped devices to come to rest, and devices to flush, after a request to stop.
    grace: Duration,
}

/// How far a shard is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Sources finish what they have.
    Draining {
        give_up: Instant,
    },
    /// Mapped devices come to rest, from the top down: their targets end what they have under way.
    Suspending {
        give_up: Instant,
    },
    /// Devices make durable what they have.
    Flushing {
        give_up: Instant,
    },
    Stopped,
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
            sources: Slab::new(),
            generations: 0,
            ports: Ports::default(),
            wake: inbox.wake().map_err(ShardError::Wake)?.into(),
            inbox,
            mailbox,
            port,
            thens: Slab::new(),
            origin: time::Instant::now(),
            simulated,
            now: Instant::ZERO,
            next: None,
            alarm: None,
            again: true,
            stage: Stage::Running,
            newborn: false,
            more_mail: false,
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

    fn clock(&self) -> Instant {
        if let Some(clock) = &self.simulated {
            return clock.get();
        }
        Instant(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// What the times of its stack count from.
    #[must_use]
    pub fn origin(&self) -> time::Instant {
        self.origin
    }

    /// Puts a source on this shard.
    pub fn spawn(&mut self, source: Box<dyn Source>) {
        let entry = self.sources.vacant_entry();
        self.generations = self.generations.wrapping_add(1);
        let id = SourceId { index: entry.key(), generation: self.generations };
        self.newborn = true;
        entry.insert(SourceSlot { id, source: Some(source), ports: Vec::new() });
        if self.stage != Stage::Running {
            self.with_source(id.index, |source, cx| source.stop(cx));
        }
    }

    /// Submits `bio` to `device` and calls `then` with the outcome: for the control path.
    pub fn submit(&mut self, device: DeviceId, bio: Bio, then: impl FnOnce(&mut Shard, Box<Bio>, Status) + 'static) {
        let tag = self.thens.insert(Box::new(then)) as u64;
        self.stack.submit(self.port, tag, device, Box::new(bio));
    }

    /// Asks for the end: sources finish, mapped devices are suspended, all devices flush, then [`Shard::run`] returns.
    pub fn stop(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        self.stage = Stage::Draining { give_up: self.now + self.grace };
        self.again = true;
        self.devices.let_in(&mut self.stack);
        let indices: Vec<usize> = self.sources.iter().map(|(index, _)| index).collect();
        for index in indices {
            self.with_source(index, |source, cx| source.stop(cx));
        }
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
        self.next = self.stack.turn(self.now);
        self.tell_failures();
        self.advance_devices();
        self.again = self.pump();
        self.ports.drain(&mut self.stack);
        self.again |= self.run_thens();
        self.again |= self.advance_stop()?;
        Ok(())
    }

    /// How long there is nothing to do but for the kernel; `None`: for ever.
    fn sleep(&self) -> Option<Duration> {
        if self.again || self.newborn || self.more_mail || self.stack.has_arrivals() {
            return Some(Duration::ZERO);
        }
        let stop = match self.stage {
            Stage::Draining { give_up } | Stage::Suspending { give_up } | Stage::Flushing { give_up } => Some(give_up),
            Stage::Running | Stage::Stopped => None,
        };
        let deadlines = [self.next, self.alarm, stop, self.devices.next_deadline(), self.stack.failure_due()];
        let next = deadlines.into_iter().flatten().min();
        next.map(|next| next.since(self.now))
    }

    /// Puts failed bios in the log: the first of each kind, and how many more of it came.
    fn tell_failures(&mut self) {
        while let Some(failure) = self.stack.poll_failure(self.now) {
            match failure {
                Failure::First(why) => tracing::warn!("{}", self.devices.tell_why(&why)),
                Failure::More(why, more) => tracing::warn!("{more} more like this: {}", self.devices.tell_why(&why)),
            }
        }
    }

    fn pump(&mut self) -> bool {
        let mut again = false;
        self.newborn = false;
        self.alarm = None;
        for index in 0..self.sources.capacity() {
            match self.with_source(index, |source, cx| source.pump(cx)) {
                Some(Pump::Again) => again = true,
                Some(Pump::Done) => {
                    let slot = self.sources.remove(index);
                    self.ports.draining.extend(slot.ports);
                }
                Some(Pump::Idle) | None => {}
            }
        }
        again
    }

    /// Calls a source, if it is there, and takes in those that it spawns.
    fn with_source<R>(
        &mut self,
        index: usize,
        call: impl FnOnce(&mut dyn Source, &mut SourceCx<'_>) -> R,
    ) -> Option<R> {
        let slot = self.sources.get_mut(index)?;
        let mut source = slot.source.take()?;
        let mut born = Vec::new();
        let mut cx = SourceCx {
            stack: &mut self.stack,
            devices: &self.devices,
            ring: &self.ring,
            ports: &mut self.ports,
            mine: &mut slot.ports,
            born: &mut born,
            alarm: &mut self.alarm,
            id: slot.id,
            now: self.now,
        };
        let result = call(source.as_mut(), &mut cx);
        slot.source = Some(source);
        born.into_iter().for_each(|source| self.spawn(source));
        Some(result)
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
                owner if owner & SOURCE != 0 => self.deliver_to_source(done),
                owner => {
                    let Completion { token: Token { word, .. }, result, request } = done;
                    let event = Event::Done { word, result, payload: request.into_payload() };
                    self.stack.deliver(DeviceId(owner as u16), event);
                }
            }
        }
        Ok(())
    }

    fn deliver_to_source(&mut self, done: Completion) {
        let index = (done.token.owner & 0xffff_ffff) as usize;
        let lives = |slot: &SourceSlot| slot.id.token(done.token.word) == done.token;
        if self.sources.get(index).is_some_and(lives) {
            self.with_source(index, |source, cx| source.on_completion(done, cx));
        }
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
        for _ in 0..MOST_MESSAGES {
            let Some(message) = self.inbox.take() else {
                self.more_mail = false;
                return;
            };
            message(self);
        }
    }
}

/// The way to the end.
impl Shard {
    fn advance_stop(&mut self) -> Result<bool, ShardError> {
        match self.stage {
            Stage::Running | Stage::Stopped => return Ok(false),
            Stage::Draining { give_up } => {
                if !self.sources.is_empty() && self.now < give_up {
                    return Ok(false);
                }
                self.sources.drain().for_each(|slot| self.ports.draining.extend(slot.ports));
                self.stage = Stage::Suspending { give_up: self.now + self.grace };
            }
            Stage::Suspending { give_up } => {
                match self.devices.suspend_from_top(&mut self.stack) {
                    Rest::Begun => return Ok(true),
                    Rest::Awaited if self.now < give_up => return Ok(false),
                    Rest::Awaited => self.stuck_at_the_end = self.stuck(Duration::ZERO),
                    Rest::Reached => {}
                }
                self.flush_all();
            }
            Stage::Flushing { give_up } => {
                if self.thens.is_empty() {
                    self.stage = Stage::Stopped;
                } else if self.now >= give_up {
                    return Err(ShardError::Stuck(self.stuck(Duration::ZERO)));
                } else {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn flush_all(&mut self) {
        self.stage = Stage::Flushing { give_up: self.now + self.grace };
        // Nothing gets past a door that could not be opened.
        let open = |device: &DeviceId| !self.stack.is_suspended(*device);
        let devices: Vec<DeviceId> =
            (0..self.stack.devices()).map(|index| DeviceId(index as u16)).filter(open).collect();
        for device in devices {
            let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            self.submit(device, flush, move |shard, _, status| {
                if !status.is_ok() {
                    shard.failed_flushes.push((device, status));
                }
            });
        }
    }
}

/// A bio that waits for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckBio {
    /// Where it waits.
    pub device: DeviceId,
    /// What people call that.
    pub name: String,
    /// For how long.
    pub age: Duration,
    /// What it is.
    pub bio: String,
}

/// A shard on a thread of its own.
pub struct ShardThread {
    mailbox: Mailbox,
    thread: JoinHandle<Result<(), ShardError>>,
}

impl ShardThread {
    /// Starts a thread with a shard that `build` has furnished; returns when that is done, with what it returned.
    pub fn start<R: Send + 'static, E: From<ShardError> + Send + 'static>(
        name: &str,
        build: impl FnOnce(&mut Shard) -> Result<R, E> + Send + 'static,
    ) -> Result<(Self, R), E> {
        let (sender, built) = mpsc::sync_channel(1);
        let body = move || {
            let furnished = Shard::new().map_err(E::from).and_then(|mut shard| {
                let result = build(&mut shard)?;
                Ok((shard, result))
            });
            match furnished {
                Ok((mut shard, result)) => {
                    let _ = sender.send(Ok((shard.mailbox(), result)));
                    shard.run()
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                    Ok(())
                }
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(body).map_err(ShardError::Thread)?;
        match built.recv() {
            Ok(Ok((mailbox, result))) => Ok((Self { mailbox, thread }, result)),
            Ok(Err(error)) => Err(error),
            Err(mpsc::RecvError) => Err(ShardError::Panicked.into()),
        }
    }

    /// The way to ask the shard.
    #[must_use]
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Whether the shard has ended, asked or not.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks for the end, see [`Shard::stop`], and waits for it.
    pub fn stop(self) -> Result<(), ShardError> {
        loop {
            match self.mailbox.post(Shard::stop) {
                // A full mailbox is read sooner or later, or its shard is gone.
                Err(MailboxError::Full) if !self.thread.is_finished() => thread::yield_now(),
                _ => break,
            }
        }
        self.join()
    }

    /// Waits for the end without asking for it.
    pub fn join(self) -> Result<(), ShardError> {
        self.thread.join().unwrap_or(Err(ShardError::Panicked))
    }
}

/// Why a shard did not start or did not end well.
#[derive(Debug)]
pub enum ShardError {
    /// There is no io_uring.
    Ring(RingError),
    /// Its eventfd failed.
    Wake(io::Error),
    /// Its thread did not start.
    Thread(io::Error),
    /// Waiting for the kernel failed.
    Wait(io::Error),
    /// Devices that could not make everything durable at the end.
    Flush(Vec<(DeviceId, Status)>),
    /// Bios that did not finish before the end.
    Stuck(Vec<StuckBio>),
    /// A bug: the thread panicked.
    Panicked,
}

impl From<RingError> for ShardError {
    fn from(error: RingError) -> Self {
        Self::Ring(error)
    }
}

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring(error) => error.fmt(f),
            Self::Wake(error) => write!(f, "cannot set up the shard's mailbox: {error}; raise the limit of open files"),
            Self::Thread(error) => write!(f, "cannot start the shard's thread: {error}; raise the limit of processes"),
            Self::Wait(error) => {
                write!(f, "cannot wait for the kernel: {error}; check the kernel log, then start again")
            }
            Self::Flush(failed) => {
                write!(f, "the last flush failed:")?;
                failed.iter().try_for_each(|(device, status)| write!(f, " device {}: {status};", device.0))?;
                write!(f, " what was written after the last good flush may be lost: check the disks and the kernel log")
            }
            Self::Stuck(bios) => {
                write!(f, "stopped while {} bios were stuck:", bios.len())?;
                bios.iter().take(8).try_for_each(|b| {
                    let StuckBio { device, name, age, bio } = b;
                    write!(f, " {bio} in device {} ({name}) for {} ms;", device.0, age.as_nanos() / 1_000_000)
                })?;
                write!(
                    f,
                    " writes that were not answered, or came after the last flush that was, may be lost: check the disks \
                     below and the kernel log"
                )
            }
            Self::Panicked => write!(f, "the shard's thread panicked, which is a bug: report the message above"),
        }
    }
}

impl std::error::Error for ShardError {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use shingle_core::block::{BlockDevice, Cx, Limits};
    use shingle_core::dm::parse_table;
    use shingle_core::mapper::StateName;
    use shingle_sys::Part;

    use super::*;
    use crate::devices::Named;

    /// Answers everything but flushes at once, and those with `flush`; `None` keeps them.
    struct Disk {
        limits: Limits,
        flush: Option<Status>,
        flushes: Arc<AtomicU32>,
        #[expect(clippy::vec_box, reason = "bios stay where they are")]
        kept: Vec<Box<Bio>>,
    }

    impl Disk {
        fn new(flush: Option<Status>) -> Box<Self> {
            let limits = Limits { write_cache: true, ..Limits::new(1024) };
            Box::new(Self { limits, flush, flushes: Arc::default(), kept: Vec::new() })
        }
    }

    impl BlockDevice for Disk {
        fn limits(&self) -> &Limits {
            &self.limits
        }

        fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
            if bio.op != Op::Flush {
                return cx.complete(bio, Status::Ok);
            }
            self.flushes.fetch_add(1, Ordering::Relaxed);
            match self.flush {
                Some(status) => cx.complete(bio, status),
                None => self.kept.push(bio),
            }
        }

        fn held(&self, visit: &mut dyn FnMut(&Bio)) {
            self.kept.iter().for_each(|bio| visit(bio));
        }

        fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
            out.write_str("disk of a test")
        }
    }

    fn read() -> Bio {
        let data = shingle_core::block::Data::zeroed(512);
        Bio::new(Op::Read, Sector(0), 1, Payload::Data(data))
    }

    /// Sends back what it receives, each byte through a read of the disk.
    struct Echo {
        socket: Fd,
        port: Option<PortId>,
        receiving: bool,
        got: Option<u8>,
        closed: bool,
    }

    impl Echo {
        fn new(socket: UnixStream) -> Box<Self> {
            Box::new(Self { socket: socket.into(), port: None, receiving: false, got: None, closed: false })
        }
    }

    impl Source for Echo {
        fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>) {
            let Request::Receive { into, .. } = done.request else { return };
            self.receiving = false;
            if done.result <= 0 {
                self.closed = true;
                return;
            }
            self.got = Some(into[0]);
            let port = *self.port.get_or_insert_with(|| cx.open_port());
            cx.stack.submit(port, 0, DeviceId(0), Box::new(read()));
        }

        fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
            if self.port.is_some_and(|port| cx.stack.poll_completion(port).is_some()) {
                let parts = vec![Part::Bytes(vec![self.got.take().unwrap()])];
                cx.submit(1, Request::Send { socket: self.socket.clone(), parts, skip: 0 }).unwrap();
            }
            if self.closed {
                return Pump::Done;
            }
            if !self.receiving && self.got.is_none() {
                self.receiving = true;
                cx.submit(2, Request::Receive { socket: self.socket.clone(), into: vec![0], at: 0 }).unwrap();
            }
            Pump::Idle
        }

        fn stop(&mut self, cx: &mut SourceCx<'_>) {
            self.closed = true;
            cx.cancel(2);
        }
    }

    /// Never lets the shard sleep.
    struct Busy;

    impl Source for Busy {
        fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {}
        fn pump(&mut self, _: &mut SourceCx<'_>) -> Pump {
            Pump::Again
        }
        fn stop(&mut self, _: &mut SourceCx<'_>) {}
    }

    fn echo_shard(flush: Option<Status>) -> (ShardThread, UnixStream) {
        let (client, server) = UnixStream::pair().unwrap();
        let build = move |shard: &mut Shard| -> Result<(), ShardError> {
            shard.stack.add(Disk::new(flush)).unwrap();
            shard.spawn(Echo::new(server));
            Ok(())
        };
        (ShardThread::start("test", build).unwrap().0, client)
    }

    fn ping(client: &mut UnixStream, byte: u8) {
        use std::io::{Read as _, Write as _};
        client.write_all(&[byte]).unwrap();
        let mut got = [0];
        client.read_exact(&mut got).unwrap();
        assert_eq!(got[0], byte);
    }

    #[test]
    fn completions_and_mail_arrive_beside_a_source_that_is_always_busy() {
        let (shard, mut client) = echo_shard(Some(Status::Ok));
        shard.mailbox().post(|shard| shard.spawn(Box::new(Busy))).unwrap();
        (0..50).for_each(|n| ping(&mut client, n));
        assert_eq!(shard.mailbox().ask(|shard| shard.sources.len()), Ok(2));
        let reads = shard.mailbox().ask(|shard| shard.stack.counters(DeviceId(0)).ios[Op::Read as usize]);
        assert_eq!(reads, Ok(50));
    }

    #[test]
    fn a_stop_drains_the_sources_and_then_flushes() {
        let (shard, mut client) = echo_shard(Some(Status::Ok));
        ping(&mut client, 1);
        let flushes = shard.mailbox().ask(|shard| shard.stack.device::<Disk>(DeviceId(0)).unwrap().flushes.clone());
        shard.stop().unwrap();
        assert_eq!(flushes.unwrap().load(Ordering::Relaxed), 1);
        use std::io::Read as _;
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the connection is closed");
    }

    #[test]
    fn a_stop_suspends_mapped_devices_from_the_top_down_before_it_flushes() {
        let mut shard = Shard::new().unwrap();
        let device = shard.stack.add(Disk::new(Some(Status::Ok))).unwrap();
        shard.devices.add_disk(Named { name: "disk".into(), kind: "file", device, leaf: device, plug: None });
        for (name, below) in [("low", "disk"), ("high", "low"), ("top", "high"), ("beside", "disk")] {
            let lines = parse_table(&format!("0 1024 linear {below} 0")).unwrap();
            shard.devices.make((name, ""), lines, false, (&mut shard.stack, Instant::ZERO)).unwrap();
        }
        let flushes = shard.stack.device::<Disk>(device).unwrap().flushes.clone();
        shard.stop();
        let mut order: Vec<String> = Vec::new();
        while shard.stage != Stage::Stopped {
            shard.round().unwrap();
            let at_rest =
                |name: &&str| shard.devices.mapper.info(name, &shard.stack).unwrap().state != StateName::Active;
            let at_rest: Vec<&str> = shard.devices.mapper.names().filter(at_rest).collect();
            let new: Vec<String> =
                at_rest.iter().filter(|name| !order.contains(&(**name).into())).map(|name| (*name).into()).collect();
            assert!(new.is_empty() || flushes.load(Ordering::Relaxed) == 0, "{new:?} after a flush");
            order.extend(new);
        }
        assert_eq!((order.join(" ").as_str(), flushes.load(Ordering::Relaxed)), ("top beside high low", 1));
    }

    /// Rounds from the request to stop until all of so many devices in towers of three are suspended.
    fn rounds_to_rest(towers: usize) -> usize {
        let mut shard = Shard::new().unwrap();
        let device = shard.stack.add(Disk::new(Some(Status::Ok))).unwrap();
        shard.devices.add_disk(Named { name: "disk".into(), kind: "file", device, leaf: device, plug: None });
        for n in 0..3 * towers {
            let below = if n % 3 == 0 { "disk".to_owned() } else { format!("d{}", n - 1) };
            let lines = parse_table(&format!("0 1024 linear {below} 0")).unwrap();
            shard.devices.make((&format!("d{n}"), ""), lines, false, (&mut shard.stack, Instant::ZERO)).unwrap();
        }
        shard.stop();
        let mut rounds = 0;
        while !matches!(shard.stage, Stage::Flushing { .. } | Stage::Stopped) {
            shard.round().unwrap();
            rounds += 1;
        }
        let is_suspended = |(_, state)| state == StateName::Suspended;
        assert!(shard.devices.mapper.states().all(is_suspended));
        rounds
    }

    #[test]
    fn a_stop_takes_as_many_steps_as_there_are_layers_however_many_devices_there_are() {
        assert_eq!(rounds_to_rest(100), rounds_to_rest(1));
    }

    #[test]
    fn a_flush_that_fails_at_the_end_is_reported() {
        let (shard, _client) = echo_shard(Some(Status::Medium));
        let error = shard.stop().unwrap_err();
        assert!(matches!(&error, ShardError::Flush(failed) if failed == &[(DeviceId(0), Status::Medium)]), "{error}");
        assert!(error.to_string().contains("may be lost"), "{error}");
    }

    #[test]
    fn a_stop_with_commands_that_are_never_answered_ends_and_names_them() {
        let mut shard = Shard::new().unwrap();
        shard.grace = Duration::from_millis(1);
        let disk = shard.stack.add(Disk::new(None)).unwrap();
        shard.devices.add_disk(Named { name: "mine".into(), kind: "file", device: disk, leaf: disk, plug: None });
        shard.submit(disk, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None), |_, _, _| ());
        shard.round().unwrap();
        shard.stop();
        let error = shard.run().unwrap_err().to_string();
        let words = ["2 bios were stuck", "FLUSH 0+0 in device 0 (mine)", "last flush", "may be lost", "kernel log"];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }

    #[test]
    fn a_stopped_shard_says_so_to_those_who_ask() {
        let (shard, _client) = echo_shard(Some(Status::Ok));
        let mailbox = shard.mailbox().clone();
        shard.stop().unwrap();
        assert_eq!(mailbox.ask(|_| ()), Err(MailboxError::Stopped));
    }

    #[test]
    fn bios_that_are_stuck_are_named_with_their_device_and_age() {
        let mut shard = Shard::new().unwrap();
        let disk = shard.stack.add(Disk::new(None)).unwrap();
        shard.submit(disk, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None), |_, _, _| ());
        shard.round().unwrap_or_else(|e| panic!("{e}"));
        let stuck = shard.stuck(Duration::ZERO);
        assert_eq!((stuck.len(), stuck[0].device, stuck[0].bio.as_str()), (1, disk, "FLUSH 0+0"));
        assert!(shard.stuck(Duration(u64::MAX)).is_empty());
        let error = ShardError::Stuck(stuck).to_string();
        assert!(error.contains("FLUSH 0+0 in device 0"), "{error}");
    }

    #[test]
    fn the_port_of_a_finished_source_is_used_again_once_nothing_is_under_way_on_it() {
        let mut shard = Shard::new().unwrap();
        shard.stack.add(Disk::new(Some(Status::Ok))).unwrap();
        for _ in 0..3 {
            let (client, server) = UnixStream::pair().unwrap();
            shard.spawn(Echo::new(server));
            use std::io::Write as _;
            (&client).write_all(b"x").unwrap();
            drop(client);
            shard.run_until(|shard| shard.sources.is_empty() && shard.ports.draining.is_empty()).unwrap();
            assert_eq!(shard.ports.free.len(), 1);
        }
    }

    #[test]
    fn a_completion_for_a_source_that_is_gone_reaches_nobody_else() {
        /// Leaves at once, with a request in flight.
        struct Hasty(Fd);
        impl Source for Hasty {
            fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {
                panic!("it is gone");
            }
            fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
                cx.submit(0, Request::Readable { file: self.0.clone() }).unwrap();
                Pump::Done
            }
            fn stop(&mut self, _: &mut SourceCx<'_>) {}
        }
        struct Heir(Rc<Cell<bool>>);
        impl Source for Heir {
            fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {
                self.0.set(true);
            }
            fn pump(&mut self, _: &mut SourceCx<'_>) -> Pump {
                Pump::Idle
            }
            fn stop(&mut self, _: &mut SourceCx<'_>) {}
        }
        let (mut client, server) = UnixStream::pair().unwrap();
        let mut shard = Shard::new().unwrap();
        shard.spawn(Box::new(Hasty(server.into())));
        shard.run_until(|shard| shard.sources.is_empty()).unwrap();
        let disturbed = Rc::new(Cell::new(false));
        shard.spawn(Box::new(Heir(disturbed.clone())));
        assert_eq!(shard.ring.in_flight(), 2, "the mailbox's and the late one");
        use std::io::Write as _;
        client.write_all(b"x").unwrap();
        shard.run_until(|shard| shard.ring.in_flight() == 1).unwrap();
        assert!(!disturbed.get());
    }

    #[test]
    fn a_source_is_woken_at_the_time_it_asked_for() {
        struct Sleeper(Option<Instant>);
        impl Source for Sleeper {
            fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {}
            fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
                let at = *self.0.get_or_insert(cx.now() + Duration::from_millis(1));
                if cx.now() >= at {
                    return Pump::Done;
                }
                cx.wake_at(at);
                cx.wake_at(at + Duration::from_millis(1_000_000));
                Pump::Idle
            }
            fn stop(&mut self, _: &mut SourceCx<'_>) {}
        }
        let mut shard = Shard::new().unwrap();
        shard.spawn(Box::new(Sleeper(None)));
        shard.run_until(|shard| shard.sources.is_empty()).unwrap();
    }

    #[test]
    fn a_shard_that_cannot_be_built_says_why_and_leaves_no_thread() {
        let result = ShardThread::start("test", |_: &mut Shard| Err::<(), _>(ShardError::Panicked));
        assert!(matches!(result.map(|_| ()), Err(ShardError::Panicked)));
    }
}
