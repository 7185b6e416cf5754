//! A model disk: what every acknowledged and every flushed write promised, and nothing about how a disk or a plug works.
//!
//! Whoever drives a disk tells the model what it submits and how that ended. For each sector the model keeps the set of
//! values that may be there (`History`), for each sequential zone where the write pointer must be as far as that can be
//! known. It compares every read and every report with that, and says of every error whether there was a reason for it.

mod acknowledge;
mod compare;
mod errors;
mod outage;
mod recovery;
mod scheduler;
mod words;
mod zone;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use crate::stamp::Seen;
use outage::Outage;
pub use scheduler::SchedulerWatch;
pub use words::{
    Answer, Broken, DiskRequest, Disks, Extent, Grounds, Intent, Rule, Trust, Violation, ZoneLine, ZoneShape,
};
pub(crate) use words::{Verdict, flag_names};
use zone::{Mark, Value, ZoneModel};

use crate::history::{Candidate, NEVER};
use shingle_core::block::{Flags, Op, Status};
use shingle_core::time::Instant;
use shingle_core::zone::ZoneNo;

struct Pending {
    request: DiskRequest,
    at: Instant,
    all_faults: u64,
    layer_faults: u64,
    doubled: u64,
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
    extents: Vec<Extent>,
}

#[derive(Clone, Copy)]
enum Change {
    Written,
    Marked(Mark),
}

impl Unflushed {
    /// The part of the change in zones that `is` picks, and the rest.
    fn part(self, is: impl Fn(ZoneNo) -> bool) -> (Option<Unflushed>, Option<Unflushed>) {
        let Unflushed { from, done, ordered, change, extents } = self;
        let (own, rest): (Vec<Extent>, Vec<Extent>) = extents.into_iter().partition(|extent| is(extent.zone));
        let some =
            |extents: Vec<Extent>| (!extents.is_empty()).then_some(Unflushed { from, done, ordered, change, extents });
        (some(own), some(rest))
    }
}

/// The model.
#[derive(Default)]
pub struct Model {
    trust: Trust,
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
    /// See [`Model::of_files`].
    files: bool,
    /// See [`Model::of_emulated_fua`].
    emulated_fua: bool,
    /// The last loss of the cache while the host went on.
    outage: Option<Outage>,
}

impl Model {
    /// Zones that were never written. `limited`: not all of them can be open at once.
    #[must_use]
    pub fn new(zones: &[ZoneShape], trust: Trust, limited: bool) -> Self {
        Self { zones: zones.iter().map(ZoneModel::new).collect(), trust, limited, ..Self::default() }
    }

    /// Whether zones are files. Then a loss of power may leave zeroes below a pointer, where nothing was flushed, while other
    /// disks keep a prefix of what was written; and many requests end in one moment, which hosts look at in any order.
    pub fn of_files(&mut self, files: bool) {
        self.files = files;
    }

    /// Whether a write and a flush are made of a FUA write to one of the disks. Then it also fails if the flush does.
    pub fn of_emulated_fua(&mut self, emulated: bool) {
        self.emulated_fua = emulated;
    }

    /// Whether pointers can be compared. After a loss of power nothing is in flight, so they can, whoever keeps the order.
    pub(super) fn knows_pointers(&self) -> bool {
        self.trust != Trust::Nobody || self.recovering
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// What is known of `zone`.
    pub(crate) fn zone(&self, zone: ZoneNo) -> &ZoneModel {
        &self.zones[zone.index()]
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

fn describe(number: u64, request: &DiskRequest) -> String {
    let mut text = format!("request {number}: {}", request.op.name());
    for Extent { zone, offset, sectors } in request.extents.iter().take(2) {
        text += &format!(" zone {zone} {offset}+{sectors}");
    }
    flag_names(request.flags).for_each(|name| text += name);
    text
}

/// On the way down.
impl Model {
    /// Takes note of a request; returns its number, which its data must carry and its completion must name.
    pub fn submit(&mut self, mut request: DiskRequest, grounds: &Grounds<'_>) -> u64 {
        let from = self.tick();
        if request.op == Op::ZoneResetAll && request.atomic {
            // It leaves out what has failed; a zone on several disks may have failed in part.
            let is_left_out = |zone: ZoneNo| grounds.disks.has_failed(zone) && !self.zones[zone.index()].is_wide();
            request.extents.retain(|extent| !is_left_out(extent.zone));
        }
        if request.op == Op::ReportZones || !request.atomic {
            if self.reports == 0 {
                self.reports_since = from;
            }
            self.reports += 1;
        }
        if request.op.is_write() && request.intent != Intent::Hopeless {
            self.expect_change(from, &request);
        }
        let (all_faults, layer_faults) = (grounds.disks.faults(), grounds.layer_faults);
        let doubled = grounds.doubled;
        self.pending.insert(from, Pending { request, at: grounds.now, all_faults, layer_faults, doubled });
        from
    }

    fn expect_change(&mut self, from: u64, request: &DiskRequest) {
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
            Status::Ok => self.succeed((number, now), &pending, answer, grounds),
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

    fn succeed(
        &mut self,
        (from, now): (u64, u64),
        pending: &Pending,
        answer: &Answer<'_>,
        grounds: &Grounds<'_>,
    ) -> Verdict {
        let request = &pending.request;
        self.check_outage(request, grounds.now)?;
        if request.flags.has(Flags::PREFLUSH) || request.op == Op::Flush {
            self.flushed(from, grounds.reach);
        }
        match (request.op, answer) {
            (Op::Read, Answer::Sectors(seen)) => self.compare_data(from, request, seen),
            (Op::ReportZones, Answer::Zones(zones)) => self.compare_report(from, zones),
            (Op::Write | Op::WriteZeroes, _) => {
                let free = |extent: &Extent| self.check_free(from, *extent);
                request.extents.iter().try_for_each(free).map_err(|what| (Rule::Pointer, what))?;
                self.acknowledge_write((from, now), request, &request.extents, grounds.now);
                Ok(())
            }
            (Op::ZoneAppend, Answer::Landed(extent)) => {
                self.acknowledge_append((from, now), request, *extent, grounds.now)?;
                if grounds.doubled > pending.doubled {
                    self.may_be_twice((from, now), request);
                }
                Ok(())
            }
            (Op::ZoneReset | Op::ZoneResetAll | Op::ZoneFinish, _) => {
                self.acknowledge_mark(from, now, request, grounds);
                Ok(())
            }
            (Op::Flush | Op::ZoneOpen | Op::ZoneClose | Op::Discard, _) => Ok(()),
            _ => Err((Rule::Completion, String::from("it came back without an answer"))),
        }
    }

    /// What the end of any request means for its zones.
    fn settle(&mut self, now: u64, request: &DiskRequest, grounds: &Grounds<'_>) {
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
                zone.faults_seen = grounds.disks.faults_in(extent.zone);
                (zone.pointer, zone.planned) = (zone.pointer(), zone.pointer());
                zone.ends.clear();
            }
        }
    }

    /// When the oldest request in flight was submitted. A read asks what there was since then, and so does a write to a zone, of the
    /// sector that it found free.
    pub(super) fn oldest_asker(&self) -> u64 {
        self.pending.first_key_value().map_or(NEVER, |(from, _)| *from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use shingle_core::block::Stack;

    fn model() -> Model {
        let zone = ZoneShape { sequential: true, len: 8, capacity: 8, write_cache: false, disks: 1 };
        Model::new(&[zone], Trust::Stack, false)
    }

    /// Runs `story` with a model of one zone and grounds that excuse nothing.
    fn tell(story: impl FnOnce(&mut Model, &Grounds<'_>)) {
        let stack = Stack::new();
        let disks = Disks { stack: &stack, all: Rc::from([]), parts: Rc::from([Vec::new()]) };
        let (now, reach) = (Instant::ZERO, u32::MAX);
        let (plug_failed, layer_faults, no_append, is_late, excused) = (false, 0, false, true, false);
        let doubled = 0;
        story(
            &mut model(),
            &Grounds { disks, plug_failed, layer_faults, no_append, is_late, doubled, excused, reach, now },
        );
    }

    fn request(op: Op) -> DiskRequest {
        let sectors = if op == Op::Write { 8 } else { 0 };
        let extents = Vec::from([Extent { zone: ZoneNo(0), offset: 0, sectors }]);
        DiskRequest { op, flags: Flags::NONE, extents, intent: Intent::Sound, atomic: true }
    }

    /// Found by the swarm (zones 52019218, all 53012723), a mistake of the model: the sector that the first write had found free
    /// was forgotten when everything after it had been acknowledged.
    #[test]
    fn a_write_whose_completion_is_late_found_its_sectors_free_whatever_came_after_it() {
        tell(|model, grounds| {
            let [first, reset, second] =
                [Op::Write, Op::ZoneReset, Op::Write].map(|op| model.submit(request(op), grounds));
            for late in [second, reset, first] {
                assert_eq!(model.complete(late, Status::Ok, &Answer::Nothing, grounds), Ok(()));
            }
        });
    }

    #[test]
    fn a_write_on_sectors_that_have_data_must_not_succeed() {
        tell(|model, grounds| {
            let mut write = || {
                let number = model.submit(request(Op::Write), grounds);
                model.complete(number, Status::Ok, &Answer::Nothing, grounds)
            };
            assert_eq!(write(), Ok(()));
            assert_eq!(write().map_err(|wrong| wrong.rule), Err(Rule::Pointer));
        });
    }
}
