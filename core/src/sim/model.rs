//! A model disk: what every acknowledged and every flushed write promised, and nothing about how a disk or a plug works.
//!
//! Whoever drives a disk tells the model what it submits and how that ended. For each sector the model keeps the set of
//! values that may be there ([`History`]), for each sequential zone where the write pointer must be as far as that can be
//! known. It compares every read and every report with that, and says of every error whether there was a reason for it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::disk::CrashDisk;
use super::history::{ALWAYS, Candidate, History, NEVER};
use crate::block::{Flags, Op, Status};
use crate::time::Instant;
use crate::zone::{Condition, Zone, ZoneGeometry, ZoneKind, ZoneNo};

/// Sectors of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The zone, on the disk.
    pub zone: ZoneNo,
    /// First sector, from the start of the zone.
    pub offset: u32,
    /// How many; none for zone management.
    pub sectors: u32,
}

/// Whether a request is one that a disk has to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It has to succeed, unless something failed before or a limit of the disk is reached.
    Sound,
    /// It may be refused, and then alone: a misplaced write, closing a zone that is not open.
    Risky,
    /// It has to be refused.
    Hopeless,
}

/// What somebody asks of the disk.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// Where on the disk; of an append the zone and the length.
    pub extents: Vec<Extent>,
    /// What may become of it.
    pub intent: Intent,
    /// False for what is done in steps between which other requests can come.
    pub atomic: bool,
}

/// Who keeps writes of one zone in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The stack: requests of one zone take effect in the order in which they were submitted.
    Stack,
    /// The host: it has at most one request in flight in a zone.
    Host,
    /// Nobody: errors need no reason, and pointers are not compared.
    Nobody,
}

/// What a sector reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Zeroes.
    Zeroes,
    /// The data of a request: its number, and the sector in it.
    Data(u64, u32),
    /// Something that nobody has written.
    Garbage,
}

/// What was promised and is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A read gives what was written.
    Data,
    /// What was flushed survives a loss of power, and zones keep a prefix.
    Durability,
    /// A report gives the write pointer that follows from what was acknowledged.
    Pointer,
    /// A report gives a condition that follows from what was acknowledged.
    Condition,
    /// An append lands in its zone, where it says, and where nothing was.
    Append,
    /// Writes reach the disk one at a time in a zone, at the pointer, and not after a failed one.
    Order,
    /// Every error has a reason.
    Unexplained,
    /// A request that breaks the rules is refused.
    Accepted,
    /// Every bio ends in bounded time.
    Stuck,
    /// Every bio ends once, with its memory.
    Completion,
    /// A plug agrees with itself.
    Plug,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// When it was found, since the last start.
    pub at: Instant,
    /// What was expected and what was found.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (us, ns) = (self.at.0 / 1_000, self.at.0 % 1_000);
        write!(f, "{:?} at {us}.{ns:03} us: {}", self.rule, self.what)
    }
}

/// What may excuse an error.
#[derive(Clone, Copy)]
pub struct Grounds<'a> {
    /// The disk, for its faults.
    pub disk: &'a CrashDisk,
    /// The plug does not know its zones and refuses everything that needs an order.
    pub plug_failed: bool,
    /// Faults that a layer above the plug has injected so far.
    pub layer_faults: u64,
    /// Native appends do not exist, and nobody emulates them.
    pub no_append: bool,
    /// The time.
    pub now: Instant,
}

impl Grounds<'_> {
    fn has_failed(&self, zone: ZoneNo) -> bool {
        matches!(self.disk.zones().state(zone).cond, Condition::ReadOnly | Condition::Offline)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unwritten,
    Zeroes,
    Data(u64, u32),
}

impl Value {
    fn looks(self) -> Seen {
        match self {
            Value::Unwritten | Value::Zeroes => Seen::Zeroes,
            Value::Data(request, sector) => Seen::Data(request, sector),
        }
    }
}

/// What makes a zone empty or full in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Reset,
    Finish,
}

struct ZoneModel {
    sequential: bool,
    capacity: u32,
    cells: Vec<History<Value>>,
    /// Appends that are in flight or failed: nobody knows where they landed.
    strays: Vec<Candidate<u64>>,
    marks: History<Mark>,
    /// Acknowledged resets, by submission.
    resets: Vec<u64>,
    /// Where the pointer was after the request `base`.
    pointer: u32,
    base: u64,
    /// Ends of acknowledged writes, by submission, since the zone was last quiet.
    ends: Vec<(u64, u32)>,
    /// The last request after which nobody knows where the pointer is.
    doubt: Option<u64>,
    /// Requests in flight that touch the zone at some time of their own.
    loose: u32,
    in_flight: u32,
    last_change: u64,
    faults_seen: u64,
    failed: bool,
    /// Where the next write goes if all that is in flight succeeds.
    planned: u32,
}

impl ZoneModel {
    fn new(sequential: bool, len: u32, capacity: u32) -> Self {
        Self {
            sequential,
            capacity,
            cells: vec![History::certain(Value::Unwritten); len as usize],
            strays: Vec::new(),
            marks: History::certain(Mark::Reset),
            resets: Vec::new(),
            pointer: 0,
            base: ALWAYS,
            ends: Vec::new(),
            doubt: None,
            loose: 0,
            in_flight: 0,
            last_change: ALWAYS,
            faults_seen: 0,
            failed: false,
            planned: 0,
        }
    }

    fn is_doubted(&self) -> bool {
        self.doubt.is_some() || self.loose > 0
    }

    fn is_quiet_since(&self, from: u64) -> bool {
        self.in_flight == 0 && self.last_change < from
    }

    fn pointer(&self) -> u32 {
        self.ends.iter().map(|(_, end)| *end).fold(self.pointer, u32::max)
    }

    /// The request submitted at `from` ended at `now`, and nobody knows what it did.
    fn end(&mut self, from: u64, now: u64) {
        self.cells.iter_mut().for_each(|cell| cell.end(from, now));
        self.marks.end(from, now);
        self.strays.iter_mut().filter(|stray| stray.from == from).for_each(|stray| stray.until = now);
    }

    /// What a request that sets the pointer leaves of older knowledge.
    fn rebase(&mut self, from: u64, pointer: u32) {
        if from > self.base {
            (self.base, self.pointer) = (from, pointer);
            self.ends.retain(|(of, _)| *of > from);
        }
        self.doubt = self.doubt.filter(|doubt| *doubt > from);
    }
}

struct Pending {
    request: Request,
    at: Instant,
    all_faults: u64,
    layer_faults: u64,
}

/// A change that failed without a reason.
struct Suspect {
    from: u64,
    zones: Vec<ZoneNo>,
    violation: Violation,
}

/// A change that a flush will make durable.
struct Unflushed {
    from: u64,
    done: u64,
    /// Whether it came later than all that was submitted before it.
    ordered: bool,
    change: Change,
}

enum Change {
    Written(Vec<Extent>),
    Marked(Mark, Vec<ZoneNo>),
}

/// The model.
pub struct Model {
    geometry: ZoneGeometry,
    trust: Trust,
    write_cache: bool,
    limited: bool,
    clock: u64,
    zones: Vec<ZoneModel>,
    pending: BTreeMap<u64, Pending>,
    unflushed: Vec<Unflushed>,
    reports: u32,
    reports_since: u64,
    /// Errors without a reason so far. What ended at the same time is looked at in any order, and may be the reason.
    suspects: Vec<Suspect>,
    /// Reads and reports are compared with what can be left after a loss of power.
    recovering: bool,
}

impl Model {
    /// A disk that was never written.
    #[must_use]
    pub fn new(geometry: ZoneGeometry, trust: Trust, write_cache: bool, limited: bool) -> Self {
        let zone = |n: u32| {
            let zone = ZoneNo(n);
            let sequential = geometry.kind(zone) == ZoneKind::Sequential;
            ZoneModel::new(sequential, geometry.len(zone), geometry.capacity_of(zone))
        };
        Self {
            zones: (0..geometry.zones()).map(zone).collect(),
            geometry,
            trust,
            write_cache,
            limited,
            clock: ALWAYS,
            pending: BTreeMap::new(),
            unflushed: Vec::new(),
            reports: 0,
            reports_since: ALWAYS,
            suspects: Vec::new(),
            recovering: false,
        }
    }

    /// Whether pointers can be compared. After a loss of power nothing is in flight, so they can, whoever keeps the order.
    fn knows_pointers(&self) -> bool {
        self.trust != Trust::Nobody || self.recovering
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Where a sound write to `zone` goes, if everything in flight succeeds.
    #[must_use]
    pub fn planned(&self, zone: ZoneNo) -> u32 {
        self.zones[zone.index()].planned
    }

    /// Requests that change `zone` and are in flight.
    #[must_use]
    pub fn in_flight(&self, zone: ZoneNo) -> u32 {
        self.zones[zone.index()].in_flight
    }

    /// Whether something failed in `zone` and nothing has told since where its pointer is.
    #[must_use]
    pub fn doubts(&self, zone: ZoneNo) -> bool {
        self.zones[zone.index()].is_doubted()
    }

    /// Whether `zone` was reported as read-only or offline.
    #[must_use]
    pub fn has_failed(&self, zone: ZoneNo) -> bool {
        self.zones[zone.index()].failed
    }

    /// Requests in flight.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// What is in flight longest: when it was submitted, and what it is.
    #[must_use]
    pub fn oldest(&self) -> Option<(Instant, String)> {
        self.pending.iter().next().map(|(number, pending)| (pending.at, describe(*number, &pending.request)))
    }
}

fn describe(number: u64, request: &Request) -> String {
    let mut text = format!("request {number}: {}", request.op.name());
    for Extent { zone, offset, sectors } in request.extents.iter().take(2) {
        text += &format!(" zone {zone} {offset}+{sectors}");
    }
    let flags = [(Flags::FUA, " fua"), (Flags::PREFLUSH, " preflush"), (Flags::NOWAIT, " nowait")];
    flags.iter().filter(|(flag, _)| request.flags.has(*flag)).for_each(|(_, name)| text += name);
    text
}

/// On the way down.
impl Model {
    /// Takes note of a request; returns its number, which its data must carry and its completion must name.
    pub fn submit(&mut self, request: Request, grounds: &Grounds<'_>) -> u64 {
        let from = self.tick();
        if request.op == Op::ReportZones || !request.atomic {
            if self.reports == 0 {
                self.reports_since = from;
            }
            self.reports += 1;
        }
        if request.op.is_write() && request.intent != Intent::Hopeless {
            self.expect_change(from, &request);
        }
        let (all_faults, layer_faults) = (grounds.disk.faults(), grounds.layer_faults);
        self.pending.insert(from, Pending { request, at: grounds.now, all_faults, layer_faults });
        from
    }

    fn expect_change(&mut self, from: u64, request: &Request) {
        let mut sector = 0;
        for extent in &request.extents {
            let zone = &mut self.zones[extent.zone.index()];
            zone.in_flight += 1;
            zone.last_change = from;
            zone.loose += u32::from(!request.atomic);
            let planned = request.intent == Intent::Sound;
            match request.op {
                Op::Write | Op::WriteZeroes => {
                    for place in extent.offset..extent.offset + extent.sectors {
                        let value = written(request.op, from, sector);
                        zone.cells[place as usize].add(Candidate::in_flight(value, from));
                        sector += 1;
                    }
                    if planned {
                        zone.planned = extent.offset + extent.sectors;
                    }
                }
                Op::ZoneAppend => {
                    zone.strays.push(Candidate::in_flight(from, from));
                    if planned {
                        zone.planned += extent.sectors;
                    }
                }
                Op::ZoneReset | Op::ZoneResetAll => {
                    let reset = Candidate { loose: !request.atomic, ..Candidate::in_flight(Value::Unwritten, from) };
                    zone.cells.iter_mut().for_each(|cell| cell.add(reset));
                    zone.marks.add(reset.with(Mark::Reset));
                    zone.planned = 0;
                }
                Op::ZoneFinish => {
                    zone.marks.add(Candidate::in_flight(Mark::Finish, from));
                    zone.planned = zone.capacity;
                }
                _ => {}
            }
        }
    }
}

fn written(op: Op, request: u64, sector: u32) -> Value {
    if op == Op::WriteZeroes { Value::Zeroes } else { Value::Data(request, sector) }
}

/// What came back with a completion.
pub enum Answer<'a> {
    /// Nothing but the status.
    Nothing,
    /// An append's place.
    Landed(Extent),
    /// What the sectors of a read hold, in order.
    Sectors(&'a [Seen]),
    /// Zones, as they are on the disk.
    Zones(&'a [(ZoneNo, Zone)]),
}

/// On the way up.
impl Model {
    /// Compares an outcome with what was promised.
    pub fn complete(
        &mut self,
        number: u64,
        status: Status,
        answer: &Answer<'_>,
        grounds: &Grounds<'_>,
    ) -> Result<(), Violation> {
        let fail = |rule, what| Violation { rule, at: grounds.now, what };
        self.verdict(grounds.now)?;
        let Some(pending) = self.pending.remove(&number) else {
            return Err(fail(Rule::Completion, format!("request {number} ended twice, or never began")));
        };
        let now = self.tick();
        let outcome = match status {
            Status::Ok if pending.request.intent == Intent::Hopeless => {
                Err((Rule::Accepted, format!("a request that breaks the disk's limits ended with {status}")))
            }
            Status::Ok => self.succeed((number, now), &pending.request, answer, grounds),
            _ => self.fail(number, now, (&pending, status), grounds),
        };
        self.settle(now, &pending.request, grounds);
        let outcome =
            outcome.map_err(|(rule, what)| fail(rule, format!("{}: {what}", describe(number, &pending.request))));
        match outcome {
            Err(violation) if violation.rule == Rule::Unexplained && pending.request.op.is_write() => {
                let zones = pending.request.extents.iter().map(|extent| extent.zone).collect();
                self.suspects.push(Suspect { from: number, zones, violation });
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Whether an error that ended before `now` is still without a reason. The reason can be an earlier request of the zone
    /// that failed, and whose end is not known yet.
    pub fn verdict(&mut self, now: Instant) -> Result<(), Violation> {
        let touches = |request: &Request, suspect: &Suspect| {
            request.op.is_write() && request.extents.iter().any(|extent| suspect.zones.contains(&extent.zone))
        };
        let hopeless = |suspect: &Suspect| {
            let mut earlier = self.pending.range(..suspect.from).map(|(_, pending)| &pending.request);
            suspect.violation.at < now && !earlier.any(|request| touches(request, suspect))
        };
        match self.suspects.iter().position(hopeless) {
            Some(found) => Err(self.suspects.swap_remove(found).violation),
            None => Ok(()),
        }
    }

    fn succeed(
        &mut self,
        (from, now): (u64, u64),
        request: &Request,
        answer: &Answer<'_>,
        grounds: &Grounds<'_>,
    ) -> Result<(), (Rule, String)> {
        if request.flags.has(Flags::PREFLUSH) || request.op == Op::Flush {
            self.flushed(from);
        }
        match (request.op, answer) {
            (Op::Read, Answer::Sectors(seen)) => self.compare_data(from, request, seen),
            (Op::ReportZones, Answer::Zones(zones)) => self.compare_report(from, zones),
            (Op::Write | Op::WriteZeroes, _) => {
                let free = |extent: &Extent| self.check_free(from, *extent);
                request.extents.iter().try_for_each(free).map_err(|what| (Rule::Pointer, what))?;
                self.acknowledge_write(from, now, request, &request.extents);
                Ok(())
            }
            (Op::ZoneAppend, Answer::Landed(extent)) => self.acknowledge_append(from, now, request, *extent),
            (Op::ZoneReset | Op::ZoneResetAll, _) => {
                self.acknowledge_mark(from, now, (request, Mark::Reset), grounds);
                Ok(())
            }
            (Op::ZoneFinish, _) => {
                self.acknowledge_mark(from, now, (request, Mark::Finish), grounds);
                Ok(())
            }
            (Op::Flush | Op::ZoneOpen | Op::ZoneClose | Op::Discard, _) => Ok(()),
            _ => Err((Rule::Completion, String::from("it came back without an answer"))),
        }
    }

    fn acknowledge_write(&mut self, from: u64, now: u64, request: &Request, extents: &[Extent]) {
        let oldest = self.oldest_reader();
        for extent in extents {
            let zone = &mut self.zones[extent.zone.index()];
            let ordered = self.trust == Trust::Stack && zone.sequential;
            for cell in &mut zone.cells[extent.offset as usize..(extent.offset + extent.sectors) as usize] {
                cell.end(from, now);
                cell.acknowledge(from, ordered, (now, oldest));
            }
            if from > zone.base {
                zone.ends.push((from, extent.offset + extent.sectors));
            }
        }
        let durable = !self.write_cache || request.flags.has(Flags::FUA);
        let ordered = self.trust == Trust::Stack;
        self.remember(Unflushed { from, done: now, ordered, change: Change::Written(extents.to_vec()) }, durable);
    }

    fn acknowledge_append(
        &mut self,
        from: u64,
        now: u64,
        request: &Request,
        landed: Extent,
    ) -> Result<(), (Rule, String)> {
        let asked = request.extents[0];
        let zone = &mut self.zones[asked.zone.index()];
        let fits = landed.zone == asked.zone && landed.offset + landed.sectors <= zone.capacity;
        let place = zone.strays.iter().position(|stray| stray.value == from);
        let (true, Some(place)) = (fits && landed.sectors == asked.sectors, place) else {
            return Err((Rule::Append, format!("it landed in zone {} at {}", landed.zone, landed.offset)));
        };
        let stray = zone.strays.swap_remove(place);
        for (sector, place) in (landed.offset..landed.offset + landed.sectors).enumerate() {
            let value = Value::Data(from, sector as u32);
            zone.cells[place as usize].add(stray.with(value));
        }
        self.check_free(from, landed).map_err(|what| (Rule::Append, what))?;
        self.acknowledge_write(from, now, request, &[landed]);
        Ok(())
    }

    /// Checks that a sequential zone had no data where some has landed.
    fn check_free(&self, from: u64, Extent { zone: number, offset, sectors }: Extent) -> Result<(), String> {
        let zone = &self.zones[number.index()];
        let taken = |place: &u32| !zone.cells[*place as usize].possible(from).any(|value| value == Value::Unwritten);
        match (offset..offset + sectors).find(taken) {
            Some(place) if zone.sequential => {
                Err(format!("it landed in zone {number} on sector {place}, which has data"))
            }
            _ => Ok(()),
        }
    }

    fn acknowledge_mark(&mut self, from: u64, now: u64, (request, mark): (&Request, Mark), grounds: &Grounds<'_>) {
        let oldest = self.oldest_reader();
        let ordered = self.trust == Trust::Stack && request.atomic;
        // A reset of all zones leaves out those that failed, and it cannot be seen from here when they did.
        let left_out = |zone: ZoneNo| request.op == Op::ZoneResetAll && grounds.has_failed(zone);
        let (out, done): (Vec<Extent>, Vec<Extent>) = request.extents.iter().partition(|extent| left_out(extent.zone));
        for extent in out {
            self.zones[extent.zone.index()].end(from, now);
        }
        for extent in &done {
            let zone = &mut self.zones[extent.zone.index()];
            zone.marks.end(from, now);
            zone.marks.acknowledge(from, ordered, (now, oldest));
            let pointer = if mark == Mark::Finish { zone.capacity } else { 0 };
            if request.atomic {
                zone.rebase(from, pointer);
            }
            if mark == Mark::Finish {
                continue;
            }
            if ordered {
                zone.resets.push(from);
            }
            for cell in &mut zone.cells {
                cell.end(from, now);
                cell.acknowledge(from, ordered, (now, oldest));
            }
            zone.strays.iter_mut().for_each(|stray| stray.hide(from, ordered, now));
        }
        let zones = done.iter().map(|extent| extent.zone).collect();
        let durable = !self.write_cache;
        self.remember(Unflushed { from, done: now, ordered, change: Change::Marked(mark, zones) }, durable);
    }

    fn remember(&mut self, change: Unflushed, durable: bool) {
        if durable { self.make_durable(&change) } else { self.unflushed.push(change) }
    }

    /// A flush that was submitted at `from` is done: what was acknowledged before is durable.
    fn flushed(&mut self, from: u64) {
        let all = core::mem::take(&mut self.unflushed);
        let (durable, rest) = all.into_iter().partition(|change| change.done < from);
        self.unflushed = rest;
        let durable: Vec<Unflushed> = durable;
        durable.iter().for_each(|change| self.make_durable(change));
    }

    fn make_durable(&mut self, Unflushed { from, ordered, change, .. }: &Unflushed) {
        match change {
            Change::Written(extents) => {
                for Extent { zone, offset, sectors } in extents {
                    let zone = &mut self.zones[zone.index()];
                    let ordered = *ordered && zone.sequential;
                    let cells = &mut zone.cells[*offset as usize..(offset + sectors) as usize];
                    cells.iter_mut().for_each(|cell| cell.make_durable(*from, ordered));
                }
            }
            Change::Marked(mark, zones) => {
                for zone in zones {
                    let zone = &mut self.zones[zone.index()];
                    zone.marks.make_durable(*from, *ordered);
                    if *mark == Mark::Reset {
                        zone.cells.iter_mut().for_each(|cell| cell.make_durable(*from, *ordered));
                        zone.strays.iter_mut().for_each(|stray| stray.bury(*from, *ordered));
                    }
                }
            }
        }
    }

    fn fail(
        &mut self,
        from: u64,
        now: u64,
        (pending, status): (&Pending, Status),
        grounds: &Grounds<'_>,
    ) -> Result<(), (Rule, String)> {
        let explained = self.explains(pending, status, grounds);
        let request = &pending.request;
        if request.op.is_write() && request.intent != Intent::Hopeless {
            let concerns =
                |suspect: &Suspect| request.extents.iter().any(|extent| suspect.zones.contains(&extent.zone));
            self.suspects.retain(|suspect| suspect.from < from || !concerns(suspect));
            for extent in &request.extents {
                let alone = self.is_refused_alone(request, extent.zone, grounds);
                let zone = &mut self.zones[extent.zone.index()];
                zone.end(from, now);
                if zone.sequential && !alone && from > zone.base {
                    zone.doubt = zone.doubt.max(Some(from));
                }
            }
        }
        if explained { Ok(()) } else { Err((Rule::Unexplained, format!("it failed with {status} for no reason"))) }
    }

    /// Whether a mistake was refused without any consequence.
    fn is_refused_alone(&self, request: &Request, zone: ZoneNo, grounds: &Grounds<'_>) -> bool {
        let model = &self.zones[zone.index()];
        let no_fault = grounds.disk.faults_in(zone) == model.faults_seen;
        request.intent == Intent::Risky && self.trust == Trust::Stack && no_fault && !model.is_doubted()
    }

    fn explains(&self, pending: &Pending, status: Status, grounds: &Grounds<'_>) -> bool {
        let request = &pending.request;
        let by_flag = status == Status::Again && request.flags.has(Flags::NOWAIT);
        let by_limit = self.limited && matches!(status, Status::ZoneOpenResource | Status::ZoneActiveResource);
        let by_lack = request.op == Op::ZoneAppend && grounds.no_append && status == Status::NotSupported;
        if by_flag || by_limit || by_lack || request.intent != Intent::Sound || self.trust == Trust::Nobody {
            return true;
        }
        if grounds.plug_failed || grounds.layer_faults > pending.layer_faults {
            return true;
        }
        let zones = || request.extents.iter().map(|extent| extent.zone);
        let failed = || zones().any(|zone| grounds.has_failed(zone));
        let faulted = grounds.disk.faults() > pending.all_faults;
        // What is done in steps begins with a report, which has no zone.
        if !request.op.is_write() || faulted && !request.atomic {
            return faulted || failed();
        }
        let excused = |zone: ZoneNo| {
            let model = &self.zones[zone.index()];
            model.is_doubted() || grounds.disk.faults_in(zone) > model.faults_seen
        };
        failed() || zones().any(excused)
    }

    /// What the end of any request means for its zones.
    fn settle(&mut self, now: u64, request: &Request, grounds: &Grounds<'_>) {
        if request.op == Op::ReportZones || !request.atomic {
            self.reports -= 1;
        }
        if !request.op.is_write() || request.intent == Intent::Hopeless {
            return;
        }
        for extent in &request.extents {
            let zone = &mut self.zones[extent.zone.index()];
            zone.in_flight -= 1;
            zone.last_change = now;
            if !request.atomic {
                zone.loose -= 1;
                zone.doubt = zone.sequential.then_some(now);
            }
            if zone.in_flight == 0 && !zone.is_doubted() {
                zone.faults_seen = grounds.disk.faults_in(extent.zone);
                (zone.pointer, zone.planned) = (zone.pointer(), zone.pointer());
                zone.ends.clear();
            }
        }
    }

    /// When the oldest read in flight was submitted.
    fn oldest_reader(&self) -> u64 {
        let reads = self.pending.iter().filter(|(_, pending)| !pending.request.op.is_write());
        reads.map(|(from, _)| *from).next().unwrap_or(NEVER)
    }
}

/// Reads.
impl Model {
    fn compare_data(&mut self, from: u64, request: &Request, seen: &[Seen]) -> Result<(), (Rule, String)> {
        let mut seen = seen.iter();
        for extent in &request.extents {
            for offset in extent.offset..extent.offset + extent.sectors {
                let Some(seen) = seen.next() else {
                    return Err((Rule::Completion, String::from("it came back with less memory than it had")));
                };
                self.compare_sector(from, extent.zone, offset, *seen)?;
            }
        }
        Ok(())
    }

    fn compare_sector(&self, from: u64, number: ZoneNo, offset: u32, seen: Seen) -> Result<(), (Rule, String)> {
        let zone = &self.zones[number.index()];
        let cell = &zone.cells[offset as usize];
        let known =
            zone.sequential && zone.is_quiet_since(from) && !zone.is_doubted() && !zone.failed && self.knows_pointers();
        let full = zone.marks.possible(from).any(|mark| mark == Mark::Finish);
        // Below the pointer there is data, above it there is none.
        let fits_pointer = |value: Value| match value {
            Value::Unwritten => !known || full || offset >= zone.pointer(),
            _ => !known || offset < zone.pointer(),
        };
        let allowed = cell.possible(from).filter(|value| fits_pointer(*value)).any(|value| value.looks() == seen);
        let stray = |request: u64| zone.strays.iter().any(|stray| stray.value == request && stray.shows(from));
        if allowed || matches!(seen, Seen::Data(request, _) if stray(request)) {
            return Ok(());
        }
        let expected: Vec<Value> = cell.possible(from).filter(|value| fits_pointer(*value)).collect();
        let rule = if self.recovering { Rule::Durability } else { Rule::Data };
        Err((rule, format!("zone {number} sector {offset} reads as {seen:?}; it can be {expected:?}")))
    }
}

/// Reports.
impl Model {
    fn compare_report(&mut self, from: u64, zones: &[(ZoneNo, Zone)]) -> Result<(), (Rule, String)> {
        zones.iter().try_for_each(|(number, zone)| self.compare_zone(from, *number, zone))
    }

    fn compare_zone(&mut self, from: u64, number: ZoneNo, reported: &Zone) -> Result<(), (Rule, String)> {
        let (start, len) = (self.geometry.start(number), u64::from(self.geometry.len(number)));
        let zone = &self.zones[number.index()];
        let shape = (reported.start, reported.len, reported.capacity, reported.kind == ZoneKind::Sequential);
        if shape != (start, len, u64::from(zone.capacity), zone.sequential) {
            return Err((Rule::Condition, format!("zone {number} is reported with another shape: {reported:?}")));
        }
        if !zone.sequential || !zone.is_quiet_since(from) || !self.knows_pointers() {
            return Ok(());
        }
        if matches!(reported.cond, Condition::ReadOnly | Condition::Offline) {
            self.zones[number.index()].failed = true;
            return Ok(());
        }
        let full = reported.cond == Condition::Full;
        let offset = if full { zone.capacity } else { reported.wp.0.saturating_sub(start.0) as u32 };
        self.check_pointer(number, offset)?;
        self.check_condition(number, offset, reported.cond)?;
        self.check_possible(from, number, offset, full)?;
        let learned = zone.last_change < self.reports_since;
        if learned {
            let zone = &mut self.zones[number.index()];
            zone.rebase(from, offset);
            (zone.pointer, zone.planned, zone.doubt) = (offset, offset, None);
            zone.ends.clear();
        }
        Ok(())
    }

    fn check_pointer(&self, number: ZoneNo, offset: u32) -> Result<(), (Rule, String)> {
        let zone = &self.zones[number.index()];
        let expected = zone.pointer();
        if zone.is_doubted() || zone.failed || offset == expected {
            return Ok(());
        }
        Err((
            Rule::Pointer,
            format!("zone {number} is reported with its pointer at {offset}; acknowledged is {expected}"),
        ))
    }

    fn check_condition(&self, number: ZoneNo, offset: u32, cond: Condition) -> Result<(), (Rule, String)> {
        let capacity = self.zones[number.index()].capacity;
        let agrees = match cond {
            Condition::Empty => offset == 0,
            Condition::ImplicitOpen | Condition::ExplicitOpen => offset < capacity && !self.recovering,
            Condition::Closed => offset > 0 && offset < capacity,
            Condition::Full => true,
            _ => false,
        };
        if agrees { Ok(()) } else { Err((Rule::Condition, format!("zone {number} is {} at {offset}", cond.name()))) }
    }

    /// Whether data and marks allow a zone with its pointer at `offset`.
    fn check_possible(&self, from: u64, number: ZoneNo, offset: u32, full: bool) -> Result<(), (Rule, String)> {
        let rule = if self.recovering { Rule::Durability } else { Rule::Pointer };
        let zone = &self.zones[number.index()];
        let can = |mark: Mark| zone.marks.possible(from).any(|possible| possible == mark);
        if full && can(Mark::Finish) {
            return Ok(());
        }
        if !full && !can(Mark::Reset) {
            return Err((rule, format!("zone {number} was finished, and is reported with its pointer at {offset}")));
        }
        for (place, cell) in (0..zone.capacity).zip(&zone.cells) {
            let below = place < offset;
            let stray = below && zone.strays.iter().any(|stray| stray.shows(from));
            if !stray && !cell.possible(from).any(|value| (value != Value::Unwritten) == below) {
                let is = if below { "was never written" } else { "was written" };
                return Err((rule, format!("zone {number} has its pointer at {offset}, and sector {place} {is}")));
            }
        }
        Ok(())
    }
}

/// A loss of power.
impl Model {
    /// The power is gone. Until [`Model::recovered`], what is read and reported is compared with what may be left.
    pub fn power_cut(&mut self) {
        let now = self.tick();
        self.pending.clear();
        self.unflushed.clear();
        (self.reports, self.recovering) = (0, true);
        self.suspects.clear();
        for zone in &mut self.zones {
            zone.cells.iter_mut().for_each(|cell| cell.crash(now));
            zone.marks.crash(now);
            zone.strays.retain(|stray| !stray.dead);
            zone.strays.iter_mut().for_each(|stray| stray.hidden = NEVER);
            zone.ends.clear();
            (zone.in_flight, zone.loose, zone.last_change, zone.base, zone.faults_seen) = (0, 0, now, now, 0);
            zone.doubt = zone.sequential.then_some(now);
        }
    }

    /// A sector was read after a loss of power: that is its value from now on.
    pub fn pin(&mut self, number: ZoneNo, offset: u32, seen: Seen) -> Option<u64> {
        let zone = &mut self.zones[number.index()];
        let below = !zone.sequential || offset < zone.pointer();
        let cell = &mut zone.cells[offset as usize];
        let found = || cell.possible(self.clock).filter(|value| value.looks() == seen);
        // Zeroes below the pointer were written, unless nothing was and the zone was finished.
        let value = found().find(|value| (*value != Value::Unwritten) == below).or(found().next());
        let value =
            value.or(if let Seen::Data(request, sector) = seen { Some(Value::Data(request, sector)) } else { None })?;
        let origin = cell.origin(value, self.clock);
        *cell = History::certain(value);
        origin.filter(|_| matches!(value, Value::Data(..)))
    }

    /// Checks that data of these ages can be in `zone` together: there was no reset between the oldest and the newest.
    pub fn check_generation(&self, number: ZoneNo, oldest: u64, newest: u64) -> Result<(), String> {
        let between = self.zones[number.index()].resets.iter().find(|reset| (oldest..newest).contains(*reset));
        match between {
            None => Ok(()),
            Some(reset) => Err(format!(
                "zone {number} holds data of request {oldest} and of request {newest}, and request {reset} was a reset"
            )),
        }
    }

    /// Everything was read back: what is there now is what was kept.
    pub fn recovered(&mut self) {
        self.recovering = false;
        for zone in &mut self.zones {
            let full = zone.pointer() >= zone.capacity;
            zone.marks = History::certain(if full { Mark::Finish } else { Mark::Reset });
            zone.strays.clear();
            zone.resets.clear();
        }
    }
}
