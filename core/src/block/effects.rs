//! What device calls have asked for and the stack has not done yet.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

use slab::Slab;

use super::bio::{ArrivalDelay, Bio, Frame, Owner, StackMark};
use super::event::Event;
use super::failures::Failures;
use super::fua::FuaWrites;
use super::id::{DeviceId, PortId};
use super::observer::{Observer, Span};
use super::op::Op;
use super::path_events::Question;
use super::reason::Why;
use super::scheduler::Dispatcher;
use super::status::Status;
use super::trace::{Action, Trace};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::Instant;

/// The next step of a bio.
pub(super) enum Hop {
    /// To a device.
    Down { to: DeviceId, bio: Box<Bio> },
    /// Back to whoever holds its innermost frame.
    Up { from: DeviceId, bio: Box<Bio>, status: Status },
}

/// A bio that is done.
#[derive(Debug)]
pub struct Completion {
    /// What the submitter called it.
    pub tag: u64,
    /// The bio, with its memory.
    pub bio: Box<Bio>,
    /// How it ended.
    pub status: Status,
}

impl Completion {
    /// Why it failed, if it has.
    #[must_use]
    pub fn why(&self) -> Option<&Why> {
        self.bio.why().filter(|_| !self.status.is_ok())
    }

    /// Whether it succeeded, or tells why not with a reason that its status follows from.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        let explains = |why: &Why| why.status() == self.status && why.is_explained();
        self.status.is_ok() || self.why().is_some_and(explains)
    }
}

/// A submitter's end of the stack.
#[derive(Default)]
pub(super) struct Port {
    pub completions: VecDeque<Completion>,
    pub outstanding: u64,
    /// Whether it is among those that are ready.
    pub is_ready: bool,
}

/// What went through a device for good and is counted until it is done.
#[derive(Default)]
pub(super) struct PassState {
    /// Bios that were passed on and are done.
    pub done: u64,
    /// Of a sector, the part that says where in its zone it is.
    pub zone_mask: u64,
    pub observer: Option<Box<dyn Observer>>,
    /// Whether the device is suspended: then what was not sent on yet may come back.
    pub is_shut: bool,
    /// Bios that came back to the door, in their order.
    pub pushed_back: VecDeque<Box<Bio>>,
}

/// A timer that a device set. Ordered by time, then by age.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub at: Instant,
    pub age: u64,
    pub device: DeviceId,
    pub word: u64,
}

/// A bio that waits for its pieces.
struct Split {
    parent: Box<Bio>,
    pending: u32,
    status: Status,
}

/// Free bios. It grows to the most pieces and own bios that were ever out at once.
pub(super) struct Pool {
    // The boxes are what is pooled: a bio moves through the stack without being copied.
    #[expect(clippy::vec_box)]
    free: Vec<Box<Bio>>,
}

impl Pool {
    fn new() -> Self {
        let spare = || Box::new(Bio::new(Op::Read, Sector::ZERO, 0, super::Payload::None));
        Self { free: core::iter::repeat_with(spare).take(64).collect() }
    }

    pub fn take(&mut self, mut blank: Bio) -> Box<Bio> {
        match self.free.pop() {
            Some(mut bio) => {
                blank.keep_memory_of(&mut bio);
                *bio = blank;
                bio
            }
            None => Box::new(blank),
        }
    }

    pub fn give(&mut self, mut bio: Box<Bio>) {
        debug_assert!(bio.is_idle(), "{bio:?} returned to the pool while somebody waits for it");
        bio.payload = super::Payload::None;
        self.free.push(bio);
    }
}

/// The queues behind [`super::Cx`].
pub(super) struct Effects {
    pub now: Instant,
    /// The first hop that the last call has sent. Most calls send one, and it needs no queue.
    next: Option<Hop>,
    /// Further hops, a stack: the last one pushed is taken first.
    hops: Vec<Hop>,
    /// Bios from outside, checked when their turn comes.
    pub arrivals: VecDeque<(DeviceId, Box<Bio>)>,
    /// Events from outside; they go before arrivals.
    pub events: VecDeque<(DeviceId, Event)>,
    /// Questions that several devices have to answer.
    pub questions: Vec<Question>,
    pub ports: Vec<Port>,
    /// Ports to which bios came back since they were last polled as ready, each once.
    pub ready: Vec<PortId>,
    /// One for each device.
    pub doors: Vec<PassState>,
    /// I/O scheduler of each device, with its queue depth and bios in flight. Apart from `doors`, which every bio that passes reads and writes.
    pub dispatchers: Vec<Dispatcher>,
    pub pool: Pool,
    pub mark: StackMark,
    pub trace: Option<Box<Trace>>,
    pub failures: Failures,
    /// Bios that traces have numbered. It is not begun anew with a trace: bios keep their numbers.
    numbered: u32,
    /// FUA writes whose data is written, and that wait for the flush.
    pub fua_writes: FuaWrites,
    splits: Slab<Split>,
    timers: BinaryHeap<Reverse<Timer>>,
    timers_set: u64,
}

impl Effects {
    pub fn new() -> Self {
        Self {
            now: Instant::ZERO,
            next: None,
            hops: Vec::with_capacity(256),
            arrivals: VecDeque::with_capacity(256),
            events: VecDeque::with_capacity(64),
            questions: Vec::new(),
            ports: Vec::new(),
            ready: Vec::new(),
            doors: Vec::new(),
            dispatchers: Vec::new(),
            pool: Pool::new(),
            mark: StackMark::new(),
            trace: None,
            failures: Failures::default(),
            numbered: 0,
            fua_writes: FuaWrites::default(),
            splits: Slab::with_capacity(64),
            timers: BinaryHeap::with_capacity(64),
            timers_set: 0,
        }
    }

    #[inline]
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Whether nobody watches and the next hop is still open: then a hop is sent with [`Effects::send_first`].
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.next.is_none() && self.trace.is_none()
    }

    /// Sends the first hop of a call.
    #[inline]
    pub fn send_first(&mut self, hop: Hop) {
        debug_assert!(self.next.is_none());
        self.next = Some(hop);
    }

    #[inline]
    pub fn trace(&mut self, action: Action, device: DeviceId, bio: &Bio, status: Status) {
        if let Some(trace) = &mut self.trace {
            trace.record(self.now, action, device, bio, status);
        }
    }

    /// Traces a bio on its way from a submitter, with a new number.
    #[cold]
    #[inline(never)]
    pub fn trace_queued(&mut self, to: DeviceId, bio: &mut Bio) {
        bio.number = 0;
        self.trace_numbered(Action::Queue, to, bio);
    }

    /// Traces a bio, and gives it a number if it has none.
    pub fn trace_numbered(&mut self, action: Action, to: DeviceId, bio: &mut Bio) {
        if bio.number == 0 {
            // It comes round after 2^32 bios: 0 stays free.
            self.numbered = self.numbered.checked_add(1).unwrap_or(1);
            bio.number = self.numbered;
        }
        self.trace(action, to, bio, Status::Ok);
    }

    /// Sends `bio` back up. What is most frequent goes without a call, or by the shortest one.
    #[inline]
    pub fn complete(&mut self, from: DeviceId, bio: Box<Bio>, status: Status) {
        match bio.top().owner {
            Owner::Device(_) if self.next.is_none() => self.send_first(Hop::Up { from, bio, status }),
            Owner::Port(_) => self.complete_at_port(from, bio, status),
            _ => self.complete_any(from, bio, status),
        }
    }

    #[inline(never)]
    fn complete_at_port(&mut self, from: DeviceId, bio: Box<Bio>, status: Status) {
        self.hand_back(from, bio, status);
    }

    /// Takes off the frames of those that have passed a bio on: these get no hop.
    #[inline(never)]
    fn complete_any(&mut self, mut from: DeviceId, mut bio: Box<Bio>, status: Status) {
        while let Owner::Passed(device) = bio.top().owner {
            self.trace(Action::Complete, from, &bio, status);
            self.leave(device, &mut bio);
            from = device;
            if !status.is_ok() {
                self.tell_failed(device, &bio, status);
            }
        }
        match bio.top().owner {
            Owner::Port(_) => self.hand_back(from, bio, status),
            Owner::Scheduled(device) => self.complete_scheduled(device, bio, status),
            _ => self.send(Hop::Up { from, bio, status }),
        }
    }

    /// Gives `bio` back to its submitter, at once: nothing that a layer does can depend on when.
    #[inline(always)]
    fn hand_back(&mut self, from: DeviceId, mut bio: Box<Bio>, status: Status) {
        self.trace(Action::Complete, from, &bio, status);
        if !status.is_ok() {
            self.failures.note(self.now, &bio, status);
        }
        let Frame { owner: Owner::Port(id), word, .. } = bio.pop() else { unreachable!("it is a submitter's") };
        let port = &mut self.ports[id.0 as usize];
        port.outstanding -= 1;
        port.completions.push_back(Completion { tag: word, bio, status });
        if !port.is_ready {
            port.is_ready = true;
            self.ready.push(id);
        }
    }

    /// Addresses `bio` to `sector`, which is below `device`. That counts it as in flight, as it does all that arrived there and is
    /// not done, until [`Effects::leave`].
    #[inline]
    pub fn pass(&mut self, device: DeviceId, bio: &mut Bio, sector: Sector) {
        let door = &mut self.doors[device.0 as usize];
        let mut delay = ArrivalDelay::default();
        if let Some(observer) = &mut door.observer {
            delay = ArrivalDelay::new(self.now.since(bio.since));
            // The very instant that it will be told when the bio leaves, though a long delay is not exact.
            observer.entered(&Span::of(bio, bio.sector), bio.since + delay.time());
        }
        bio.push_frame(Frame { owner: Owner::Passed(device), delay, word: bio.sector.0 });
        bio.sector = sector;
    }

    /// Takes the innermost frame off, which says that the bio went through `device`: there it has its own sector again. An
    /// append keeps its place in the zone.
    #[inline]
    fn leave(&mut self, device: DeviceId, bio: &mut Bio) {
        let Frame { word, delay, .. } = bio.pop();
        let door = &mut self.doors[device.0 as usize];
        door.done += 1;
        let in_zone = if bio.op == Op::ZoneAppend { bio.sector.0 & door.zone_mask } else { 0 };
        bio.sector = Sector(word + in_zone);
        if let Some(observer) = &mut door.observer {
            observer.left(&Span::of(bio, Sector(word)), bio.since + delay.time(), self.now);
        }
    }

    /// Lets `device` know that a bio has failed which it had passed on for good.
    #[cold]
    #[inline(never)]
    fn tell_failed(&mut self, device: DeviceId, bio: &Bio, status: Status) {
        self.events.push_back((device, Event::Failed { op: bio.op, sector: bio.sector, status }));
    }

    /// See [`super::Cx::push_back`].
    pub fn push_back(&mut self, mut bio: Box<Bio>) -> Result<(), Box<Bio>> {
        let Owner::Passed(device) = bio.top().owner else { return Err(bio) };
        if !self.doors[device.0 as usize].is_shut {
            return Err(bio);
        }
        self.leave(device, &mut bio);
        self.doors[device.0 as usize].pushed_back.push_back(bio);
        Ok(())
    }

    /// Sends a bio one hop further.
    #[inline]
    pub fn send(&mut self, hop: Hop) {
        if self.next.is_none() {
            self.next = Some(hop);
        } else {
            self.hops.push(hop);
        }
    }

    /// The next hop: what the last call sent first.
    #[inline]
    pub fn take_hop(&mut self) -> Option<Hop> {
        self.next.take().or_else(|| self.hops.pop())
    }

    /// Puts the next hop in line, so that what a call from outside sends can go before it.
    pub fn queue_next(&mut self) {
        self.hops.extend(self.next.take());
    }

    /// Lets the `older` hops that were in line before a call go before what it has sent.
    pub fn let_go_first(&mut self, older: usize) {
        self.queue_next();
        self.hops.rotate_left(older);
    }

    /// Hops in line: before a call, the mark for [`Effects::line_up`].
    #[inline]
    pub fn queued(&self) -> usize {
        self.hops.len()
    }

    /// Puts what a call has sent since `mark` in line: the first of it goes next, then the rest, then all older hops.
    #[inline]
    pub fn line_up(&mut self, mark: usize) {
        if self.hops.len() > mark + 1 {
            self.reverse(mark);
        }
    }

    #[cold]
    #[inline(never)]
    fn reverse(&mut self, mark: usize) {
        self.hops[mark..].reverse();
    }

    /// See [`super::Cx::split`]. A piece that is cut again joins the split it came from: depth does not grow.
    pub fn split(&mut self, mut bio: Box<Bio>, front: u32) -> (Box<Bio>, Box<Bio>) {
        assert!(front > 0 && front < bio.sectors, "{bio:?} cannot be cut at {front}");
        let rest_payload = bio.payload.slice(front, bio.sectors - front);
        let (rest_sector, rest_sectors) = (bio.sector + u64::from(front), bio.sectors - front);
        let mut piece = |of: &Bio, sector, sectors, payload, split| {
            let mut blank = Bio::new(of.op, sector, sectors, payload).with_flags(of.flags);
            (blank.since, blank.number, blank.priority) = (of.since, of.number, of.priority);
            blank.enter(&self.mark);
            blank.push(Owner::Split, split);
            self.pool.take(blank)
        };
        if let Some(split) = bio.piece_of() {
            let front_payload = bio.payload.slice(0, front);
            let first = piece(&bio, bio.sector, front, front_payload, split);
            self.splits[split as usize].pending += 1;
            (bio.sector, bio.sectors, bio.payload) = (rest_sector, rest_sectors, rest_payload);
            return (first, bio);
        }
        let split = self.splits.vacant_key() as u64;
        let first = piece(&bio, bio.sector, front, bio.payload.slice(0, front), split);
        let rest = piece(&bio, rest_sector, rest_sectors, rest_payload, split);
        self.splits.insert(Split { parent: bio, pending: 2, status: Status::Ok });
        (first, rest)
    }

    /// A piece is done; gives the whole back when it was the last.
    pub fn join(&mut self, mut piece: Box<Bio>, status: Status, split: u64) -> Option<(Box<Bio>, Status)> {
        let whole = &mut self.splits[split as usize];
        if !status.is_ok() && whole.status.is_ok() {
            whole.parent.inherit(&mut piece);
        }
        self.pool.give(piece);
        whole.pending -= 1;
        whole.status = whole.status.and(status);
        (whole.pending == 0).then(|| {
            let Split { parent, status, .. } = self.splits.remove(split as usize);
            (parent, status)
        })
    }

    pub fn wake_at(&mut self, at: Instant, device: DeviceId, word: u64) {
        self.timers.push(Reverse(Timer { at, age: self.timers_set, device, word }));
        self.timers_set += 1;
    }

    /// The number of timers set so far: those of this turn wait for the next.
    pub fn timers_set(&self) -> u64 {
        self.timers_set
    }

    /// The next timer that is due and was set before the `before`th.
    pub fn pop_timer(&mut self, before: u64) -> Option<Timer> {
        let due = self.timers.peek().is_some_and(|Reverse(t)| t.at <= self.now && t.age < before);
        if due { self.timers.pop().map(|Reverse(t)| t) } else { None }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse(t)| t.at)
    }

    /// Forgets the timers of a device that was replaced.
    pub fn forget_timers(&mut self, device: DeviceId) {
        self.timers.retain(|Reverse(t)| t.device != device);
    }
}
