//! One layer alone on a desk, for tests: bios are fed in from above, and below it a [`MockDevice`] keeps what was sent until the
//! test says how it ended. No clock, no thread, no file.

use core::fmt;

use crate::block::{Bio, BlockDevice, Cx, DeviceId, Event, Flags, Limits, Op, Payload, PortId, Reason, Stack, Status};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::Instant;
use crate::zone::{Condition, Zone, ZoneKind};

/// A device that keeps every bio until the test ends it, with its own simple idea of zones: it notes every bio that breaks
/// a rule of zoned devices, independently of the layer above.
pub struct MockDevice {
    limits: Limits,
    zones: Vec<Zone>,
    held: Vec<(u64, Box<Bio>)>,
    arrived: u64,
    /// Whether it is a rule of this disk that it gets one write to a sequential zone at a time.
    pub one_write: bool,
    /// Rules that were broken, in words.
    pub violations: Vec<String>,
}

/// A bio that lies on the desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its number, from 0 in order of arrival.
    pub number: u64,
    /// Operation.
    pub op: Op,
    /// First sector.
    pub sector: Sector,
    /// Length.
    pub sectors: u32,
    /// Flags.
    pub flags: Flags,
    /// Segments of memory.
    pub segments: usize,
}

impl MockDevice {
    /// A regular device of 2^20 sectors.
    #[must_use]
    pub fn regular() -> Self {
        Self::with(Limits::new(1 << 20), Vec::new())
    }

    /// A device with `limits` and these zones.
    #[must_use]
    pub fn with(limits: Limits, zones: Vec<Zone>) -> Self {
        Self { limits, zones, held: Vec::new(), arrived: 0, one_write: false, violations: Vec::new() }
    }

    /// `count` zones of `len` sectors, `capacity` of them writable, the first `conventional` conventional.
    #[must_use]
    pub fn zoned(count: u32, len: u32, capacity: u32, conventional: u32) -> Self {
        let zone = |n: u32| {
            let start = Sector(u64::from(n) * u64::from(len));
            let random = n < conventional;
            let kind = if random { ZoneKind::Conventional } else { ZoneKind::Sequential };
            let cond = if random { Condition::NotWp } else { Condition::Empty };
            let capacity = u64::from(if random { len } else { capacity });
            Zone { start, len: len.into(), capacity, wp: start, kind, cond }
        };
        let mut limits = Limits::new(u64::from(count) * u64::from(len));
        limits.zoned = Some(crate::block::ZonedLimits::new(len).with_conventional(conventional));
        limits.write_cache = true;
        limits.max_write_zeroes = Some(len);
        Self::with(limits, (0..count).map(zone).collect())
    }

    /// The limits, to be changed before use.
    pub fn limits_mut(&mut self) -> &mut Limits {
        &mut self.limits
    }

    /// The desk's idea of zone `n`.
    pub fn zone_mut(&mut self, n: u32) -> &mut Zone {
        &mut self.zones[n as usize]
    }

    /// What lies there, oldest first.
    #[must_use]
    pub fn held(&self) -> Vec<Held> {
        let view = |(number, bio): &(u64, Box<Bio>)| {
            let Bio { op, sector, sectors, flags, .. } = **bio;
            Held { number: *number, op, sector, sectors, flags, segments: bio.payload.segments().len() }
        };
        self.held.iter().map(view).collect()
    }

    /// All bytes that the bio with this number carries.
    #[must_use]
    pub fn bytes(&self, number: u64) -> Vec<u8> {
        let bio = self.held.iter().find(|(n, _)| *n == number).map(|(_, bio)| bio);
        bio.into_iter().flat_map(|bio| bio.payload.segments()).flat_map(|data| data.to_vec()).collect()
    }

    /// Ends the bio with this number; of a write that fails, `written` sectors reach the medium.
    pub fn end(&mut self, number: u64, status: Status, written: u32, cx: &mut Cx<'_>) {
        let at = self.held.iter().position(|(n, _)| *n == number).expect("no such bio on the desk");
        let (_, mut bio) = self.held.remove(at);
        let (status, written) = match status {
            // A disk fails an append that does not fit.
            Status::Ok if self.has_no_room(&bio) => (Status::Io, 0),
            Status::Ok => (status, bio.sectors),
            _ => (status, written),
        };
        self.apply(&mut bio, status, written);
        if status.is_ok() { cx.complete(bio, status) } else { cx.fail(bio, Reason::Injected(status)) }
    }

    fn has_no_room(&self, bio: &Bio) -> bool {
        let zone = self.zone_of(bio.sector).map(|zone| self.zones[zone]);
        bio.op == Op::ZoneAppend && zone.is_some_and(|z| z.wp + u64::from(bio.sectors) > z.start + z.capacity)
    }

    fn apply(&mut self, bio: &mut Bio, status: Status, written: u32) {
        let Some(zone) = self.zone_of(bio.sector) else { return };
        if bio.op == Op::ZoneResetAll && status.is_ok() {
            self.zones.iter_mut().for_each(|zone| set(zone, 0));
            return;
        }
        let zone = &mut self.zones[zone];
        if zone.kind == ZoneKind::Conventional {
            return;
        }
        match bio.op {
            Op::ZoneAppend => {
                bio.sector = zone.wp;
                set(zone, zone.wp - zone.start + u64::from(written));
            }
            Op::Write | Op::WriteZeroes => set(zone, zone.wp - zone.start + u64::from(written)),
            Op::ZoneReset if status.is_ok() => set(zone, 0),
            Op::ZoneFinish if status.is_ok() => set(zone, zone.capacity),
            _ => (),
        }
    }

    fn zone_of(&self, sector: Sector) -> Option<usize> {
        let len = self.limits.zoned.as_ref()?.zone_sectors;
        Some((sector.0 / u64::from(len)) as usize).filter(|zone| *zone < self.zones.len())
    }

    /// The rules that a disk of this kind has: one write at a time and at the write pointer, nothing across zones.
    fn judge(&mut self, bio: &Bio) {
        let Some(n) = self.zone_of(bio.sector) else { return };
        let zone = self.zones[n];
        if zone.kind == ZoneKind::Conventional || !bio.op.is_write() || bio.op == Op::ZoneResetAll {
            return;
        }
        let others = self.held.iter().filter(|(_, other)| other.op.is_write() && self.zone_of(other.sector) == Some(n));
        let beside_appends = |other: &Bio| other.op == Op::ZoneAppend && bio.op == Op::ZoneAppend;
        if others.filter(|(_, other)| !beside_appends(other)).count() > 0 {
            self.violations.push(format!("{bio:?} sent while zone {n} has a command in flight"));
        }
        let is_write = matches!(bio.op, Op::Write | Op::WriteZeroes);
        if is_write && self.one_write && self.held.iter().any(|(_, other)| self.is_zone_write(other)) {
            self.violations.push(format!("{bio:?} sent while the disk has a zone write in flight"));
        }
        if is_write && bio.sector != zone.wp {
            self.violations.push(format!("{bio:?} is not at the write pointer {} of zone {n}", zone.wp));
        }
        if is_write && bio.end() > zone.start + zone.capacity {
            self.violations.push(format!("{bio:?} ends past the capacity of zone {n}"));
        }
    }

    fn is_zone_write(&self, bio: &Bio) -> bool {
        let zone = self.zone_of(bio.sector).map(|zone| self.zones[zone]);
        matches!(bio.op, Op::Write | Op::WriteZeroes) && zone.is_some_and(|zone| zone.kind == ZoneKind::Sequential)
    }

    fn report(&self, bio: &mut Bio) {
        let from = self.zone_of(bio.sector).unwrap_or(self.zones.len());
        if let Payload::Zones(room) = &mut bio.payload {
            let free = room.capacity() - room.len();
            room.extend(self.zones[from..].iter().take(free));
        }
    }
}

fn set(zone: &mut Zone, offset: u64) {
    if matches!(zone.cond, Condition::ReadOnly | Condition::Offline | Condition::NotWp) {
        return;
    }
    zone.wp = zone.start + offset;
    zone.cond = match offset {
        0 => Condition::Empty,
        n if n >= zone.capacity => Condition::Full,
        _ => Condition::ImplicitOpen,
    };
}

impl BlockDevice for MockDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut bio: Box<Bio>, _cx: &mut Cx<'_>) {
        self.judge(&bio);
        if bio.op == Op::ReportZones {
            // A report tells what was true when it was taken, however late it is read.
            self.report(&mut bio);
        }
        self.held.push((self.arrived, bio));
        self.arrived += 1;
    }

    fn on_event(&mut self, event: Event, _cx: &mut Cx<'_>) {
        unreachable!("a desk waits for nothing: {event:?}")
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.held.iter().for_each(|(_, bio)| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "desk, {} bios", self.held.len())
    }
}

/// The outcome of a bio, as its submitter sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The number that [`Harness::submit`] gave.
    pub tag: u64,
    /// How it ended.
    pub status: Status,
    /// The bio's sector: for an append, where the data is.
    pub sector: Sector,
}

/// What is looked at after every hop.
pub type Check = fn(&Stack, top: DeviceId);

/// A layer between a submitter and a desk.
pub struct Harness {
    /// The stack of the two.
    pub stack: Stack,
    /// The desk.
    pub desk: DeviceId,
    /// The layer under test.
    pub top: DeviceId,
    /// The time of every turn.
    pub now: Instant,
    port: PortId,
    submitted: u64,
    check: Check,
}

impl Harness {
    /// Puts the layer that `build` makes over `desk`; `check` is called after every hop.
    pub fn new(
        desk: MockDevice,
        build: impl FnOnce(DeviceId, &Limits) -> Box<dyn BlockDevice>,
        check: Check,
    ) -> Harness {
        let mut stack = Stack::new();
        let limits = desk.limits.clone();
        let desk = stack.add(Box::new(desk)).expect("a desk fits an empty stack");
        let top = stack.add(build(desk, &limits)).expect("the layer fits its desk");
        let port = stack.open_port();
        let mut harness = Harness { stack, desk, top, now: Instant::ZERO, port, submitted: 0, check };
        harness.run();
        // A plug asks for a report first.
        harness.end_all(Status::Ok);
        harness
    }

    /// Submits a bio and runs all hops that follow from it.
    pub fn submit(&mut self, bio: Bio) -> u64 {
        let tag = self.submitted;
        self.submitted += 1;
        self.stack.submit(self.port, tag, self.top, Box::new(bio));
        self.run();
        tag
    }

    /// Submits bios one after another; the result is their numbers.
    pub fn submit_all(&mut self, bios: impl IntoIterator<Item = Bio>) -> Vec<u64> {
        bios.into_iter().map(|bio| self.submit(bio)).collect()
    }

    /// Takes hops until none is left, with a look at the layer after each.
    pub fn run(&mut self) {
        while self.stack.step() {
            (self.check)(&self.stack, self.top);
        }
        self.stack.turn(self.now);
    }

    /// What lies on the desk.
    #[must_use]
    pub fn held(&self) -> Vec<Held> {
        self.desk_ref().held()
    }

    /// The desk itself, to look at.
    #[must_use]
    pub fn desk_ref(&self) -> &MockDevice {
        self.stack.device(self.desk).expect("the desk is a desk")
    }

    /// The desk itself, to change.
    pub fn with_desk<R>(&mut self, f: impl FnOnce(&mut MockDevice, &mut Cx<'_>) -> R) -> R {
        self.stack.with_device(self.desk, f).expect("the desk is a desk")
    }

    /// Ends the oldest bio on the desk.
    pub fn end(&mut self, status: Status) {
        let oldest = self.held().first().expect("nothing on the desk").number;
        self.end_number(oldest, status, 0);
    }

    /// Ends one bio; of a failed write, `written` sectors reached the medium.
    pub fn end_number(&mut self, number: u64, status: Status, written: u32) {
        self.with_desk(|desk, cx| desk.end(number, status, written, cx));
        self.run();
    }

    /// Ends what lies on the desk, and what follows from it, until the desk is empty.
    pub fn end_all(&mut self, status: Status) {
        while !self.held().is_empty() {
            self.end(status);
        }
    }

    /// Takes the outcomes so far, in order of completion.
    pub fn outcomes(&mut self) -> Vec<Outcome> {
        let next = || self.stack.poll_completion(self.port);
        core::iter::from_fn(next).map(|c| Outcome { tag: c.tag, status: c.status, sector: c.bio.sector }).collect()
    }

    /// Takes the outcomes as plain pairs.
    pub fn statuses(&mut self) -> Vec<(u64, Status)> {
        self.outcomes().iter().map(|outcome| (outcome.tag, outcome.status)).collect()
    }

    /// Panics if the layer has broken a rule of the desk's disk.
    pub fn assert_clean(&self) {
        assert_eq!(self.desk_ref().violations, Vec::<String>::new());
    }
}
