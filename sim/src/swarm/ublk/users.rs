//! What users ask for.

use alloc::vec;
use alloc::vec::Vec;

use super::kernel::{Kernel, Request};
use super::promises::{Note, Promises};
use super::scenario::{DEEDS, Sameness, Scenario};
use crate::choices::{Choices, choices_by_name};
use shingle_core::block::{Limits, Op};

choices_by_name!(Op);

/// What is done to a device, in the order of the weights.
const DEEDS_OF: [Op; DEEDS] = [
    Op::Write,
    Op::ZoneAppend,
    Op::Read,
    Op::Flush,
    Op::WriteZeroes,
    Op::Discard,
    Op::ZoneReset,
    Op::ZoneFinish,
    Op::ZoneResetAll,
    Op::ReportZones,
];

/// Users of a device.
pub(super) struct Users {
    submitted: u64,
    /// Longest append, in blocks.
    longest_append: u32,
    has_zeroes: bool,
    has_discard: bool,
    is_cached: bool,
}

/// A request for `count` sectors.
fn request(op: Op, sector: u64, count: u32) -> Request {
    let note = Note::default();
    Request {
        id: 0,
        op,
        is_fua: false,
        sector,
        count,
        values: Vec::new(),
        torn: 0,
        ordered_in: None,
        merged: Vec::new(),
        is_again: false,
        note,
    }
}

/// Blocks of a request, at most so many.
fn blocks_up_to(longest: u32, choices: &mut Choices) -> u64 {
    let longest = u64::from(longest.max(1));
    choices.between("blocks", 1, longest).clamp(1, longest)
}

impl Users {
    pub fn new(limits: &Limits, scenario: &Scenario) -> Self {
        let append = limits.zoned.as_ref().and_then(|zoned| zoned.max_append).unwrap_or(0) / scenario.unit;
        let (has_zeroes, has_discard) = (limits.max_write_zeroes.is_some(), limits.max_discard.is_some());
        let longest_append = append.min(scenario.longest);
        Self { submitted: 0, longest_append, has_zeroes, has_discard, is_cached: limits.write_cache }
    }

    /// Requests so far.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Submits a request.
    pub fn submit(&mut self, mut request: Request, kernel: &mut Kernel, promises: &mut Promises) {
        self.submitted += 1;
        request.id = self.submitted;
        promises.submitted(&mut request);
        kernel.submit(request);
    }

    /// What is read, and reported, to see if all is there.
    pub fn audit(&self, promises: &Promises, is_first_look: bool, longest: u32) -> Vec<Request> {
        let (mut script, unit) = (Vec::new(), promises.unit);
        let mut read = |mut block: u64, end: u64| {
            while block < end {
                let blocks = u64::from(longest).min(end - block);
                script.push(request(Op::Read, block * u64::from(unit), blocks as u32 * unit));
                block += blocks;
            }
        };
        read(0, promises.cells().into());
        for (number, zone) in promises.zones.iter().enumerate() {
            let first = promises.start_of(number) / u64::from(unit);
            read(first, first + u64::from(if is_first_look { zone.wp } else { promises.capacity }));
        }
        script.iter_mut().for_each(|request| request.note.is_first_look = is_first_look);
        script
    }

    /// A report of all zones.
    pub fn report(&self, promises: &Promises, is_first_look: bool) -> Request {
        let conventional = promises.cells().checked_div(promises.zone_units).unwrap_or(0);
        let mut report = request(Op::ReportZones, 0, conventional + promises.zones.len() as u32);
        report.note.is_first_look = is_first_look;
        report
    }

    /// A request that somebody may want now; none if what was drawn cannot be.
    pub fn draw(
        &mut self,
        scenario: &Scenario,
        (kernel, promises): (&Kernel, &mut Promises),
        choices: &mut Choices,
    ) -> Option<Request> {
        let op = choices.weighted("op", &DEEDS_OF, &scenario.weights);
        let zones = promises.zones.len() as u64;
        let mut drawn = match op {
            Op::Flush => self.is_cached.then(|| request(Op::Flush, 0, 0)),
            Op::ReportZones => (zones > 0).then(|| self.report(promises, false)),
            Op::ZoneResetAll => {
                let is_quiet = zones > 0 && promises.zones.iter().all(|zone| zone.in_flight == 0);
                is_quiet.then(|| request(op, 0, 0))
            }
            _ if zones > 0 && (promises.cells() == 0 || choices.usual("in-zone", 4, 5)) => {
                let zone = choices.below("zone", zones) as usize;
                self.in_zone(op, zone, scenario, (kernel, promises), choices)
            }
            _ => self.anywhere(op, scenario, (kernel, promises), choices),
        }?;
        drawn.is_fua = self.is_cached
            && matches!(drawn.op, Op::Write | Op::ZoneAppend | Op::WriteZeroes)
            && choices.chance("fua", scenario.fua, 100);
        if matches!(drawn.op, Op::Write | Op::ZoneAppend) {
            drawn.values = self.values(scenario.sameness, drawn.count / scenario.unit, choices);
        }
        Some(drawn)
    }

    fn values(&self, sameness: Sameness, blocks: u32, choices: &mut Choices) -> Vec<u64> {
        let unique = (0..u64::from(blocks)).map(|block| (self.submitted + 1) << 16 | block);
        let data = choices.decide("data", (Sameness::Unique, &[]), |rng| match sameness {
            Sameness::Mixed if rng.chance(1, 2) => Sameness::Unique,
            Sameness::Mixed => Sameness::Same(0x77),
            sameness => sameness,
        });
        if let Sameness::Same(value) = data { vec![value; blocks as usize] } else { unique.collect() }
    }

    /// Of blocks that can be written anywhere; nobody else uses them at that time, but two may read.
    fn anywhere(
        &self,
        op: Op,
        scenario: &Scenario,
        (kernel, promises): (&Kernel, &Promises),
        choices: &mut Choices,
    ) -> Option<Request> {
        let is_known = match op {
            Op::WriteZeroes => self.has_zeroes,
            Op::Discard => self.has_discard,
            op => matches!(op, Op::Read | Op::Write),
        };
        let span = u64::from(promises.cells().min(scenario.span));
        let count = blocks_up_to(scenario.longest, choices).min(span);
        let first = choices.below("block", span - count + 1);
        let unit = u64::from(scenario.unit);
        let wanted = request(op, first * unit, (count * unit) as u32);
        let collides = |other: &Request| {
            let overlaps = |one: &Request, two: &Request| one.sector < two.sector + u64::from(two.count);
            !(op == Op::Read && other.op == Op::Read) && overlaps(&wanted, other) && overlaps(other, &wanted)
        };
        let ranged = |other: &&Request| other.op.has_range();
        (is_known && !kernel.pending().filter(ranged).any(collides)).then_some(wanted)
    }

    fn in_zone(
        &self,
        op: Op,
        number: usize,
        scenario: &Scenario,
        (kernel, promises): (&Kernel, &mut Promises),
        choices: &mut Choices,
    ) -> Option<Request> {
        let (start, capacity, unit) = (promises.start_of(number), promises.capacity, scenario.unit);
        let zone = &mut promises.zones[number];
        if zone.appends != (op == Op::ZoneAppend) && zone.knows_pointer() && matches!(op, Op::Write | Op::ZoneAppend) {
            if !choices.chance("switches", 1, 3) && zone.wp > 0 {
                return None;
            }
            zone.switch();
        }
        let longest = if op == Op::ZoneAppend { self.longest_append } else { scenario.longest };
        let blocks = blocks_up_to(longest, choices) as u32;
        match op {
            Op::Write if !zone.appends && !zone.is_resetting() && zone.takes(blocks, capacity) => {
                let wanted = request(op, start + u64::from(zone.wp * unit), blocks * unit);
                Some(Request { ordered_in: Some(start), ..wanted })
            }
            Op::ZoneAppend if zone.appends && longest > 0 && zone.takes(blocks, capacity) => {
                (!zone.is_resetting() || scenario.races).then(|| request(op, start, blocks * unit))
            }
            Op::Read => {
                let first = choices.below("block", u64::from(capacity)) as u32;
                Some(request(op, start + u64::from(first * unit), blocks.min(capacity - first) * unit))
            }
            Op::ZoneReset if zone.in_flight == 0 => Some(request(op, start, 0)),
            Op::ZoneReset if scenario.races => {
                let appends = || kernel.pending().filter(|other| other.op == Op::ZoneAppend && other.sector == start);
                let (number, sectors) = (appends().count() as u32, appends().map(|append| append.count).sum::<u32>());
                let reset = Request { torn: (sectors / unit) as usize, ..request(op, start, 0) };
                (number == zone.in_flight).then_some(reset)
            }
            Op::ZoneFinish if zone.in_flight == 0 => Some(request(op, start, 0)),
            _ => None,
        }
    }
}
