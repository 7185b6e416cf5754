//! What users may expect: of blocks that can be written anywhere, and of sequential zones. It knows what was asked and answered, and
//! nothing of servers.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::kernel::Request;
use crate::model::Rule;
use shingle_core::block::Op;

/// What is broken, if something is.
pub(super) type Verdict = Result<(), (Rule, String)>;

/// What a request has to be compared with when it is answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    /// What was acknowledged when it was submitted.
    pub seen: u64,
    /// Of its zone: resets so far, twice, and 1 if one is under way.
    epoch: u64,
    /// What a read must find, where that is known.
    expected: Vec<Option<u64>>,
    /// Of each zone the changes so far, if it was quiet.
    changes: Vec<Option<u64>>,
    /// Whether it reads what a loss of power has left.
    pub is_first_look: bool,
}

/// A block that can be written at any time: what may be there, the oldest first.
#[derive(Clone, Debug)]
struct Cell {
    /// When it was acknowledged, what, and whether it is certain that nothing before is there.
    past: Vec<(u64, u64, bool)>,
}

impl Cell {
    fn allows(&self, value: u64) -> bool {
        let certain = self.past.iter().rposition(|(.., is_certain)| *is_certain).unwrap_or(0);
        self.past[certain..].iter().any(|(_, other, _)| *other == value)
    }

    /// What was acknowledged up to then is durable.
    fn flushed(&mut self, seen: u64) {
        let last = self.past.iter().rposition(|(at, _, is_certain)| *is_certain && *at <= seen);
        self.past.drain(..last.unwrap_or(0));
    }

    fn power_cut(&mut self) {
        self.past[1..].iter_mut().for_each(|(.., is_certain)| *is_certain = false);
        self.past.iter_mut().for_each(|(at, ..)| *at = 0);
    }
}

/// A sequential zone. Lengths are in blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Zone {
    /// What was acknowledged and must be there, and when it was acknowledged; 0: durable.
    known: Vec<Option<(u64, u64)>>,
    /// Where the next write goes, if it is not appended to.
    pub wp: u32,
    pub appends: bool,
    /// Blocks that appends may take, and those since a reset was submitted that is under way.
    pub reserved: u32,
    since_reset: u32,
    /// Garbage that kills may have left: parts of appends that were overtaken.
    budget: u32,
    /// Blocks acknowledged, of which a reset that was under way may have taken some.
    uncertain: u32,
    pub in_flight: u32,
    pub epoch: u64,
    changes: u64,
    /// When the last reset was acknowledged, if it is not durable.
    reset_at: u64,
    is_finished: bool,
    /// Whether an append had no room because of garbage, or nothing is known after a loss of power.
    pub needs_reset: bool,
    /// The changes at which it was known where it is written up to.
    judged: Option<u64>,
}

impl Zone {
    pub fn is_resetting(&self) -> bool {
        self.epoch & 1 == 1
    }

    /// Whether it is known where a write would go.
    pub fn knows_pointer(&self) -> bool {
        self.in_flight == 0 && (!self.appends || self.judged == Some(self.changes))
    }

    /// From now on it is appended to, or written at its pointer.
    pub fn switch(&mut self) {
        self.appends = !self.appends;
        self.reserved = self.wp;
    }

    /// Whether so many blocks can be written or appended.
    pub fn takes(&self, blocks: u32, capacity: u32) -> bool {
        let used = if self.appends { self.reserved } else { self.wp };
        !self.is_finished && !self.needs_reset && used + blocks <= capacity
    }

    fn emptied(&mut self) {
        (self.wp, self.uncertain, self.is_finished, self.needs_reset) = (0, 0, false, false);
        self.known.fill(None);
    }
}

/// All that a device owes.
pub(super) struct Promises {
    /// Sectors of a block, blocks of a zone from start to start, and how many of those can be written.
    pub unit: u32,
    pub zone_units: u32,
    pub capacity: u32,
    cells: Vec<Cell>,
    pub zones: Vec<Zone>,
    seen: u64,
    flushed: u64,
    /// What was acknowledged is durable.
    pub is_write_through: bool,
    pub garbage: u64,
}

impl Promises {
    /// Blocks that can be written anywhere, then zones of so many blocks, so many of them writable.
    pub fn new(unit: u32, cells: u32, zones: u32, (zone_units, capacity): (u32, u32)) -> Self {
        let zone = Zone { known: vec![None; capacity as usize], ..Zone::default() };
        let cell = Cell { past: vec![(0, 0, true)] };
        let (cells, zones) = (vec![cell; cells as usize], vec![zone; zones as usize]);
        let (seen, flushed, is_write_through, garbage) = (0, 0, false, 0);
        Self { unit, zone_units, capacity, cells, zones, seen, flushed, is_write_through, garbage }
    }

    pub fn cells(&self) -> u32 {
        self.cells.len() as u32
    }

    /// The first sector of a sequential zone.
    pub fn start_of(&self, zone: usize) -> u64 {
        (u64::from(self.cells()) + zone as u64 * u64::from(self.zone_units)) * u64::from(self.unit)
    }

    /// The sequential zone of a sector, and its block in it.
    fn place(&self, sector: u64) -> Option<(usize, usize)> {
        let block = (sector / u64::from(self.unit)).checked_sub(self.cells().into())?;
        let zone = (block / u64::from(self.zone_units)) as usize;
        (zone < self.zones.len()).then_some((zone, (block % u64::from(self.zone_units)) as usize))
    }

    /// The zones that a request changes.
    fn zones_of(&self, request: &Request) -> core::ops::Range<usize> {
        match request.op {
            Op::ZoneResetAll => 0..self.zones.len(),
            Op::Flush | Op::ReportZones => 0..0,
            _ => self.place(request.sector).map_or(0..0, |(zone, _)| zone..zone + 1),
        }
    }

    /// A request is submitted.
    pub fn submitted(&mut self, request: &mut Request) {
        let units = request.count / self.unit;
        request.note.seen = self.seen;
        if request.op == Op::ReportZones {
            request.note.changes =
                self.zones.iter().map(|zone| (zone.in_flight == 0).then_some(zone.changes)).collect();
        }
        for number in self.zones_of(request) {
            let zone = &mut self.zones[number];
            zone.in_flight += u32::from(request.op != Op::Read);
            zone.changes += u64::from(request.op != Op::Read);
            match request.op {
                Op::Write => zone.wp += units,
                Op::ZoneAppend => (zone.reserved, zone.since_reset) = (zone.reserved + units, zone.since_reset + units),
                Op::ZoneReset | Op::ZoneResetAll => {
                    zone.epoch += 1;
                    zone.since_reset = 0;
                }
                Op::ZoneFinish => zone.is_finished = true,
                _ => {}
            }
            request.note.epoch = zone.epoch;
        }
        if let (Op::Read, Some((zone, block))) = (request.op, self.place(request.sector)) {
            let known = &self.zones[zone].known[block..block + units as usize];
            request.note.expected = known.iter().map(|known| known.map(|(value, _)| value)).collect();
        }
    }

    /// A reset is submitted beside appends of so many blocks, which may come after it.
    pub fn races(&mut self, sector: u64, blocks: u32) {
        if let Some((zone, _)) = self.place(sector) {
            self.zones[zone].since_reset = blocks;
        }
    }

    /// A request is answered: with the sector, or an errno.
    pub fn answered(&mut self, request: &Request, outcome: Result<u64, i32>) -> Verdict {
        self.seen += 1;
        let zones = self.zones_of(request);
        for zone in &mut self.zones[zones.clone()] {
            zone.in_flight -= u32::from(request.op != Op::Read);
        }
        let sector = match outcome {
            Ok(sector) => sector,
            Err(errno) => return self.failed(request, errno),
        };
        match request.op {
            Op::Flush => self.has_flushed(request.note.seen),
            Op::ReportZones => return self.reported(request),
            Op::Read => return self.read(request),
            Op::ZoneReset | Op::ZoneResetAll => zones.for_each(|zone| self.reset(zone)),
            Op::ZoneFinish => {}
            Op::ZoneAppend => return self.appended(request, sector),
            Op::Write if !zones.is_empty() => {
                let block = self.place(request.sector).map_or(0, |(_, block)| block);
                self.written(zones.start, block, request);
            }
            _ => self.changed(request),
        }
        Ok(())
    }

    fn failed(&mut self, request: &Request, errno: i32) -> Verdict {
        let what = || {
            format!(
                "request {} ({:?} {}+{}) failed with {errno}",
                request.id, request.op, request.sector, request.count
            )
        };
        if let (Op::ZoneAppend, Some((zone, _))) = (request.op, self.place(request.sector)) {
            let zone = &mut self.zones[zone];
            zone.needs_reset = true;
            if zone.reserved + zone.budget > self.capacity {
                return Ok(());
            }
        }
        Err((Rule::Unexplained, what()))
    }

    fn has_flushed(&mut self, seen: u64) {
        self.flushed = self.flushed.max(seen);
        self.cells.iter_mut().for_each(|cell| cell.flushed(seen));
        let zones = self.zones.iter_mut();
        zones.filter(|zone| zone.reset_at <= seen).for_each(|zone| zone.reset_at = 0);
    }

    fn reset(&mut self, zone: usize) {
        let seen = self.seen;
        let zone = &mut self.zones[zone];
        zone.emptied();
        (zone.epoch, zone.reset_at, zone.reserved) = (zone.epoch + 1, seen, zone.since_reset);
        zone.uncertain = zone.since_reset;
        if zone.in_flight == 0 && zone.since_reset == 0 {
            zone.budget = 0;
            zone.judged = Some(zone.changes);
        }
        if self.is_write_through {
            zone.reset_at = 0;
        }
    }

    /// Blocks of a sequential zone are written.
    fn written(&mut self, zone: usize, block: usize, request: &Request) {
        let at = if self.is_write_through { 0 } else { self.seen };
        let zone = &mut self.zones[zone];
        let end = block + request.values.len();
        for (known, value) in zone.known[block..end].iter_mut().zip(&request.values) {
            *known = Some((*value, at));
        }
        if request.is_fua {
            // With it all that lies before it, and the reset before that.
            zone.known[..end].iter_mut().flatten().for_each(|(_, at)| *at = 0);
            zone.reset_at = 0;
        }
    }

    fn appended(&mut self, request: &Request, sector: u64) -> Verdict {
        let (number, first) = self.place(request.sector).unwrap_or_default();
        let wrong = |what: &str| {
            Err((Rule::Append, format!("append {} of {} sectors at {sector} {what}", request.id, request.count)))
        };
        let Some((zone, block)) = self.place(sector).filter(|(zone, _)| (*zone, first) == (number, 0)) else {
            return wrong("is outside of its zone");
        };
        let end = block + request.values.len();
        if end > self.capacity as usize || !sector.is_multiple_of(self.unit.into()) {
            return wrong("is not inside of its zone");
        }
        if request.note.epoch & 1 == 1 || request.note.epoch != self.zones[zone].epoch {
            // A reset beside it has taken it, or not.
            return Ok(());
        }
        if self.zones[zone].known[block..end].iter().any(Option::is_some) {
            return wrong("is where something else is that was acknowledged");
        }
        self.written(zone, block, request);
        Ok(())
    }

    /// Blocks that can be written anywhere are, or are given back.
    fn changed(&mut self, request: &Request) {
        let is_durable = request.op != Op::Discard && (request.is_fua || self.is_write_through);
        let seen = self.seen;
        let cells = self.push(request, seen);
        cells.iter_mut().filter(|_| is_durable).for_each(|cell| cell.flushed(seen));
    }

    fn push(&mut self, request: &Request, at: u64) -> &mut [Cell] {
        let (first, count) = (request.sector / u64::from(self.unit), request.count / self.unit);
        let cells = &mut self.cells[first as usize..][..count as usize];
        for (number, cell) in cells.iter_mut().enumerate() {
            let value = if request.op == Op::Write { request.values[number] } else { 0 };
            cell.past.push((at, value, request.op != Op::Discard));
        }
        cells
    }

    fn read(&mut self, request: &Request) -> Verdict {
        let wrong = |block: usize, what: String| {
            let sector = request.sector + block as u64 * u64::from(self.unit);
            let rule = if request.note.is_first_look { Rule::Durability } else { Rule::Data };
            Err((rule, format!("sector {sector} of read {} is {what}", request.id)))
        };
        if request.torn > 0 {
            return wrong(0, format!("in {} blocks of several values", request.torn));
        }
        let Some((zone, first)) = self.place(request.sector) else {
            let first = (request.sector / u64::from(self.unit)) as usize;
            for (block, value) in request.values.iter().enumerate() {
                let cell = &self.cells[first + block];
                if !cell.allows(*value) {
                    return wrong(block, format!("{value:x} and may be {:x?}", cell.past));
                }
            }
            return Ok(());
        };
        if self.zones[zone].epoch != request.note.epoch || self.zones[zone].is_resetting() {
            return Ok(());
        }
        for (block, (value, expected)) in request.values.iter().zip(&request.note.expected).enumerate() {
            if expected.is_some_and(|expected| expected != *value) {
                return wrong(block, format!("{value:x} and was written as {expected:x?}"));
            }
        }
        if request.note.is_first_look {
            for (known, value) in self.zones[zone].known[first..].iter_mut().zip(&request.values) {
                *known = Some((*value, 0));
            }
        }
        Ok(())
    }

    /// Compares pointers with what is known, of zones that were quiet all the time.
    fn reported(&mut self, request: &Request) -> Verdict {
        let conventional = (self.cells() / self.zone_units) as usize;
        for number in 0..self.zones.len() {
            let words = &request.values[(conventional + number) * 8..][..8];
            let start = self.start_of(number);
            let cond = words[3] >> 8 & 0xff;
            let end = if cond == 14 { start + u64::from(self.capacity * self.unit) } else { words[2] };
            let pointer = (end.saturating_sub(start) / u64::from(self.unit)) as u32;
            if words[0] != start {
                return Err((Rule::Pointer, format!("entry {number} of the report is of the zone at {}", words[0])));
            }
            let (quiet, seen) = (request.note.changes[number], self.zones[number].changes);
            if request.note.is_first_look {
                self.adopt(number, pointer)?;
            } else if quiet == Some(seen) && self.zones[number].in_flight == 0 {
                self.judge(number, pointer)?;
            }
        }
        Ok(())
    }

    fn judge(&mut self, number: usize, pointer: u32) -> Verdict {
        let zone = &mut self.zones[number];
        if zone.is_finished || zone.needs_reset {
            return Ok(());
        }
        let wrong = |what: String| {
            Err((Rule::Pointer, format!("sequential zone {number} is written up to block {pointer}, {what}")))
        };
        if zone.budget == 0 && !zone.appends && pointer != zone.wp {
            return wrong(format!("and up to {} was acknowledged", zone.wp));
        }
        let known = zone.known.iter().flatten().count() as u32;
        let end = zone.known.iter().rposition(Option::is_some).map_or(0, |last| last as u32 + 1);
        if pointer < end || pointer > known + zone.uncertain + zone.budget {
            return wrong(format!(
                "{known} blocks are acknowledged up to {end}, and at most {} are garbage",
                zone.budget
            ));
        }
        self.garbage += u64::from(pointer.saturating_sub(known + zone.uncertain));
        (zone.wp, zone.reserved, zone.judged) = (pointer, pointer, Some(zone.changes));
        Ok(())
    }

    /// Takes what a loss of power has left as what is there.
    fn adopt(&mut self, number: usize, pointer: u32) -> Verdict {
        let capacity = self.capacity;
        let zone = &mut self.zones[number];
        let end = zone.known.iter().rposition(Option::is_some).map_or(0, |last| last as u32 + 1);
        if pointer < end {
            let what =
                format!("sequential zone {number} is written up to block {pointer}, and up to {end} was durable");
            return Err((Rule::Durability, what));
        }
        (zone.wp, zone.reserved, zone.budget, zone.uncertain) = (pointer, pointer, 0, 0);
        zone.judged = Some(zone.changes);
        zone.is_finished = pointer == capacity;
        Ok(())
    }

    /// Of these appends a part may stay where a killed server has written it.
    pub fn overtaken<'a>(&mut self, appends: impl Iterator<Item = &'a Request>) {
        for append in appends {
            if let Some((zone, _)) = self.place(append.sector) {
                self.zones[zone].budget += append.count / self.unit - 1;
            }
        }
    }

    /// The power goes while these requests are not answered: what was not flushed may be gone.
    pub fn power_cut<'a>(&mut self, pending: impl Iterator<Item = &'a Request>) {
        for request in pending.filter(|request| matches!(request.op, Op::Write | Op::WriteZeroes | Op::Discard)) {
            if self.zones_of(request).is_empty() {
                self.push(request, u64::MAX);
            }
        }
        self.cells.iter_mut().for_each(Cell::power_cut);
        let (flushed, is_write_through) = (self.flushed, self.is_write_through);
        for zone in &mut self.zones {
            let is_unsure = zone.is_resetting() || zone.reset_at > 0;
            let is_kept = |known: &Option<(u64, u64)>| known.is_some_and(|(_, at)| at <= flushed || is_write_through);
            zone.known.iter_mut().for_each(|known| *known = known.filter(|_| !is_unsure && is_kept(known)));
            zone.epoch += zone.epoch & 1;
            (zone.in_flight, zone.since_reset, zone.reset_at, zone.needs_reset) = (0, 0, 0, false);
            zone.changes += 1;
        }
    }
}
