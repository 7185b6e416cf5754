//! Zone write locking: the deadline scheduler of Linux up to 6.9, as a baseline to compare with.
//!
//! Reads and writes are sorted by sector and, beside that, kept in arrival order with a deadline. A write to a sequential
//! zone leaves only while no other write to that zone is at the device; nothing checks that it starts at the write pointer.
//! Requests merge on arrival, at either end. Facts: `block/mq-deadline.c` of Linux 6.1. Priorities are left out: bios have
//! none. Two things are the SCSI driver's of that time: appends take the zone's lock and become writes, and after a failed
//! write they fail until the write pointer is reported.

use alloc::collections::VecDeque;

use slab::Slab;

use super::merge::carries_plain_data;
use super::zones::{Bit, Class, Zones};
use crate::block::{Bio, Cx, Data, DeviceId, Flags, Limits, Op, Payload, Reason, Status};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::{Duration, Instant};
use crate::zone::ZoneNo;

/// Requests of one direction that go out in a row (`fifo_batch`).
const BATCH: u32 = 16;
/// Times that reads may go first while writes wait (`writes_starved`).
const WRITES_STARVED: u32 = 2;
/// How long a read may be passed over (`read_expire`).
const READ_EXPIRE: Duration = Duration::from_millis(500);
/// How long a write may be passed over (`write_expire`).
const WRITE_EXPIRE: Duration = Duration::from_millis(5_000);

/// A direction's place in arrays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read = 0,
    Write = 1,
}

/// A bio, and those that were merged with it.
struct DeadlineRequest {
    first: Option<Box<Bio>>,
    op: Op,
    flags: Flags,
    sector: Sector,
    sectors: u32,
    /// In device order, the first one included; empty for a request of one bio.
    riders: VecDeque<Box<Bio>>,
    /// Room for the riders' memory on the way down.
    segments: Vec<Data>,
    arrived: Instant,
    at_device: bool,
}

/// Room for a request's riders, and for their memory.
type Lists = (VecDeque<Box<Bio>>, Vec<Data>);

/// Requests of one direction.
struct Queue {
    /// By sector, then by arrival.
    sorted: Vec<(Sector, usize)>,
    /// By arrival.
    fifo: VecDeque<usize>,
}

impl Queue {
    fn new() -> Self {
        Self { sorted: Vec::with_capacity(256), fifo: VecDeque::with_capacity(256) }
    }
}

/// The scheduler. It is made when its policy is first in force, so no other policy pays for it.
pub(super) struct ZoneLock {
    below: DeviceId,
    requests: Slab<DeadlineRequest>,
    queues: [Queue; 2],
    last: Direction,
    /// Where the last batch ended.
    position: [Sector; 2],
    batched: u32,
    starved: u32,
    at_device: u32,
    depth: u32,
    max_segments: usize,
    max_sectors: u32,
    rotational: bool,
    /// The longest time that a write has waited here.
    pub(super) longest_wait: Duration,
    /// Empty lists of merged requests, kept for their capacity.
    spare: Vec<Lists>,
}

impl ZoneLock {
    /// A scheduler that keeps `depth` commands at a device with `limits`. It makes what it will need: later it allocates only
    /// for more requests than ever before.
    pub(super) fn new(below: DeviceId, limits: &Limits, max_segments: usize, depth: u32) -> Self {
        let depth = depth.max(1);
        Self {
            below,
            requests: Slab::with_capacity(256),
            queues: [Queue::new(), Queue::new()],
            last: Direction::Read,
            position: [Sector::ZERO; 2],
            batched: 0,
            starved: 0,
            at_device: 0,
            depth,
            max_segments,
            max_sectors: limits.max_sectors.unwrap_or(u32::MAX),
            rotational: limits.rotational,
            longest_wait: Duration::ZERO,
            spare: (0..depth).map(|_| lists(max_segments)).collect(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        for (_, request) in &self.requests {
            request.first.iter().chain(&request.riders).for_each(|bio| visit(bio));
        }
    }

    /// Bios that wait for zone `start..end`'s lock or ride on its holder: for the dump.
    pub(super) fn waiting_in(&self, start: Sector, end: Sector) -> usize {
        let inside = |request: &&DeadlineRequest| !request.at_device && request.sector >= start && request.sector < end;
        let bios = |request: &DeadlineRequest| request.riders.len().max(1);
        self.requests.iter().map(|(_, request)| request).filter(inside).map(bios).sum()
    }

    fn insert(&mut self, bio: Box<Bio>, zones: &Zones, cx: &mut Cx<'_>) {
        let queue = direction(bio.op) as usize;
        let at = self.queues[queue].sorted.partition_point(|(sector, _)| *sector <= bio.sector);
        let before = at.checked_sub(1).map(|at| self.queues[queue].sorted[at].1);
        let after = self.queues[queue].sorted.get(at).map(|(_, id)| *id);
        if let Some(id) = before.filter(|id| self.merges(*id, &bio, Edge::Back, zones)) {
            cx.merged(&bio);
            return self.requests[id].join(bio, Edge::Back);
        }
        if let Some(id) = after.filter(|id| self.merges(*id, &bio, Edge::Front, zones)) {
            cx.merged(&bio);
            self.queues[queue].sorted[at].0 = bio.sector;
            return self.requests[id].join(bio, Edge::Front);
        }
        let sector = bio.sector;
        let lists = self.spare.pop().unwrap_or_else(|| lists(self.max_segments));
        let id = self.requests.insert(DeadlineRequest::new(bio, cx.now(), lists));
        self.queues[queue].sorted.insert(at, (sector, id));
        self.queues[queue].fifo.push_back(id);
    }

    fn merges(&self, id: usize, bio: &Bio, edge: Edge, zones: &Zones) -> bool {
        let request = &self.requests[id];
        let touches = match edge {
            Edge::Back => request.end() == bio.sector,
            Edge::Front => bio.end() == request.sector,
        };
        let plain = matches!(bio.op, Op::Read | Op::Write) && carries_plain_data(bio);
        let one_segment_each = request.riders.len() > 1
            || request.first.as_ref().is_some_and(|first| matches!(first.payload, Payload::Data(_)));
        let segments = request.riders.len().max(1);
        touches
            && plain
            && one_segment_each
            && bio.op == request.op
            && bio.flags == request.flags
            && segments < self.max_segments
            && u64::from(request.sectors) + u64::from(bio.sectors) <= u64::from(self.max_sectors)
            && zones.zone_of(bio.sector) == zones.zone_of(request.sector)
    }

    /// The request that goes to the device next.
    fn choose(&self, now: Instant, zones: &Zones) -> Option<Choice> {
        if self.batched > 0 && self.batched < BATCH {
            let next = self.next_by_sector(self.last, zones);
            if let Some(id) = next {
                return Some(Choice { id, starved: self.starved, batched: self.batched + 1 });
            }
        }
        let write = self.first_of(Direction::Write, now, zones);
        let read = self.first_of(Direction::Read, now, zones);
        match (read, write) {
            (Some(id), None) => Some(Choice { id, starved: self.starved, batched: 1 }),
            (Some(id), Some(_)) if self.starved < WRITES_STARVED => {
                Some(Choice { id, starved: self.starved + 1, batched: 1 })
            }
            (_, Some(id)) => Some(Choice { id, starved: 0, batched: 1 }),
            (None, None) => None,
        }
    }

    /// The start of a new batch: the oldest request if it is overdue or nothing follows in sector order.
    fn first_of(&self, direction: Direction, now: Instant, zones: &Zones) -> Option<usize> {
        let oldest = self.queues[direction as usize].fifo.front()?;
        let allowed = if direction == Direction::Read { READ_EXPIRE } else { WRITE_EXPIRE };
        if now.since(self.requests[*oldest].arrived) < allowed
            && let Some(id) = self.next_by_sector(direction, zones)
        {
            return Some(id);
        }
        self.queues[direction as usize].fifo.iter().copied().find(|id| self.may_start(*id, zones))
    }

    /// The next request upwards from where the last one ended whose zone is free.
    fn next_by_sector(&self, direction: Direction, zones: &Zones) -> Option<usize> {
        let sorted = &self.queues[direction as usize].sorted;
        let from = sorted.partition_point(|(sector, _)| *sector < self.position[direction as usize]);
        let mut blocked_until = None;
        for (sector, id) in &sorted[from..] {
            let in_blocked_run = self.rotational && blocked_until == Some(*sector);
            if !in_blocked_run && self.may_go(*id, zones) {
                return Some(*id);
            }
            // On a rotational disk, a sequential run is not entered in its middle.
            blocked_until = Some(self.requests[*id].end());
        }
        None
    }

    fn may_go(&self, id: usize, zones: &Zones) -> bool {
        let request = &self.requests[id];
        !needs_lock(request.op, request.sector, zones) || !zones.at(zones.zone_of(request.sector)).is(Bit::Busy)
    }

    /// Whether an overdue request may go; on a rotational disk, not if another one leads up to it.
    fn may_start(&self, id: usize, zones: &Zones) -> bool {
        let request = &self.requests[id];
        let sorted = &self.queues[direction(request.op) as usize].sorted;
        let continues = || {
            let at = sorted.partition_point(|(sector, _)| *sector < request.sector);
            at.checked_sub(1).is_some_and(|before| self.requests[sorted[before].1].end() == request.sector)
        };
        self.may_go(id, zones) && !(self.rotational && request.op.is_write() && continues())
    }

    fn take(&mut self, choice: &Choice) {
        let request = &mut self.requests[choice.id];
        request.at_device = true;
        let direction = direction(request.op);
        let (sector, end) = (request.sector, request.end());
        let queue = &mut self.queues[direction as usize];
        let from = queue.sorted.partition_point(|(at, _)| *at < sector);
        let place = (from..queue.sorted.len()).find(|place| queue.sorted[*place].1 == choice.id);
        queue.sorted.remove(place.expect("a queued request is sorted in"));
        let place = queue.fifo.iter().position(|id| *id == choice.id);
        queue.fifo.remove(place.expect("a queued request has its turn"));
        (self.last, self.batched, self.starved) = (direction, choice.batched, choice.starved);
        self.position[direction as usize] = end;
        self.at_device += 1;
    }
}

/// What goes next, and what that makes of the scheduler's counts.
struct Choice {
    id: usize,
    starved: u32,
    batched: u32,
}

/// The end of a request at which a bio joins.
#[derive(Clone, Copy)]
enum Edge {
    Back,
    Front,
}

impl DeadlineRequest {
    fn new(bio: Box<Bio>, arrived: Instant, (riders, segments): Lists) -> Self {
        let (op, flags, sector, sectors) = (bio.op, bio.flags, bio.sector, bio.sectors);
        Self { first: Some(bio), op, flags, sector, sectors, riders, segments, arrived, at_device: false }
    }

    fn end(&self) -> Sector {
        self.sector + u64::from(self.sectors)
    }

    fn join(&mut self, bio: Box<Bio>, edge: Edge) {
        self.riders.extend(self.first.take());
        self.sectors += bio.sectors;
        match edge {
            Edge::Back => self.riders.push_back(bio),
            Edge::Front => {
                self.sector = bio.sector;
                self.riders.push_front(bio);
            }
        }
    }
}

fn lists(most: usize) -> Lists {
    (VecDeque::with_capacity(most), Vec::with_capacity(most))
}

fn direction(op: Op) -> Direction {
    if op.is_write() { Direction::Write } else { Direction::Read }
}

fn needs_lock(op: Op, sector: Sector, zones: &Zones) -> bool {
    op.writes_data() && zones.at(zones.zone_of(sector)).class() != Class::Conventional
}

/// What goes through it.
impl ZoneLock {
    /// Takes a bio with a range.
    pub(super) fn submit(&mut self, bio: Box<Bio>, zones: &mut Zones, cx: &mut Cx<'_>) {
        self.insert(bio, zones, cx);
        self.run(zones, cx);
    }

    /// Takes back the command of request `id`; returns the zone that it had locked.
    pub(super) fn end_io(
        &mut self,
        (mut bio, status): (Box<Bio>, Status),
        id: u64,
        zones: &mut Zones,
        cx: &mut Cx<'_>,
    ) -> Option<ZoneNo> {
        let DeadlineRequest { op, sector, riders, segments, .. } = self.requests.remove(id as usize);
        self.at_device -= 1;
        let locked = needs_lock(op, sector, zones).then(|| zones.zone_of(sector));
        if let Some(zone) = locked {
            zones.set_busy(zone, false);
            if !status.is_ok() {
                zones.lose(zone, &bio);
            }
        }
        if riders.is_empty() {
            self.spare.push((riders, segments));
            if op == Op::ZoneAppend {
                let start = zones.start(zones.zone_of(sector));
                (bio.op, bio.sector) = (op, if status.is_ok() { sector } else { start });
            }
            cx.complete(bio, status);
        } else {
            self.spare.push(end_merged(bio, status, riders, cx));
        }
        self.run(zones, cx);
        locked
    }

    /// Sends requests until the device has its fill or everything waits for a lock.
    fn run(&mut self, zones: &mut Zones, cx: &mut Cx<'_>) {
        while self.at_device < self.depth {
            let Some(choice) = self.choose(cx.now(), zones) else { return };
            self.take(&choice);
            self.start(choice.id, zones, cx);
        }
    }

    fn start(&mut self, id: usize, zones: &mut Zones, cx: &mut Cx<'_>) {
        let DeadlineRequest { op, sector, sectors, arrived, .. } = self.requests[id];
        let mut start = sector;
        if op.writes_data() {
            self.longest_wait = self.longest_wait.max(cx.now().since(arrived));
        }
        if needs_lock(op, sector, zones) {
            let zone = zones.zone_of(sector);
            if op == Op::ZoneAppend {
                let offset = match zones.place(zone, op, sector, sectors) {
                    Ok(offset) => offset,
                    Err(fault) => return self.refuse(id, &zones.refusal(fault), cx),
                };
                start += u64::from(offset);
                self.requests[id].sector = start;
            }
            zones.set_busy(zone, true);
            zones.at_mut(zone).wp = zones.offset(start) + sectors;
        }
        let mut bio = self.command(id, cx);
        if op == Op::ZoneAppend {
            (bio.op, bio.sector) = (Op::Write, start);
        }
        cx.submit(self.below, bio, id as u64);
    }

    /// Ends an append for which the zone has no room or no known write pointer.
    fn refuse(&mut self, id: usize, reason: &Reason, cx: &mut Cx<'_>) {
        let request = self.requests.remove(id);
        self.at_device -= 1;
        self.spare.push((request.riders, request.segments));
        request.first.into_iter().for_each(|bio| cx.fail(bio, reason.clone()));
    }

    /// The bio that goes to the device for a request: its only one, or one that carries all.
    fn command(&mut self, id: usize, cx: &mut Cx<'_>) -> Box<Bio> {
        let request = &mut self.requests[id];
        if let Some(bio) = request.first.take() {
            return bio;
        }
        let mut segments = core::mem::take(&mut request.segments);
        for rider in &mut request.riders {
            if let Payload::Data(data) = core::mem::take(&mut rider.payload) {
                segments.push(data);
            }
        }
        let (op, sector, sectors, flags) = (request.op, request.sector, request.sectors, request.flags);
        cx.own_bio(Bio::new(op, sector, sectors, Payload::Segments(segments)).with_flags(flags))
    }
}

/// Ends the bios that a command has carried; returns the empty lists.
fn end_merged(mut carrier: Box<Bio>, status: Status, mut riders: VecDeque<Box<Bio>>, cx: &mut Cx<'_>) -> Lists {
    let Payload::Segments(mut segments) = core::mem::take(&mut carrier.payload) else {
        unreachable!("a device below kept the payload of {carrier:?}")
    };
    for (mut rider, data) in riders.drain(..).zip(segments.drain(..)) {
        rider.payload = Payload::Data(data);
        if !status.is_ok() {
            rider.share(&carrier);
        }
        cx.complete(rider, status);
    }
    cx.recycle(carrier);
    (riders, segments)
}
