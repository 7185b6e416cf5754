//! What reads and reports show, beside what can be there.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Model;
use super::Seen;
use super::words::{DiskRequest, Rule, Verdict, ZoneLine};
use super::zone::{Mark, Value};
use shingle_core::zone::{Condition, ZoneKind, ZoneNo};

/// Reads.
impl Model {
    pub(super) fn compare_data(&mut self, from: u64, request: &DiskRequest, seen: &[Seen]) -> Verdict {
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

    fn compare_sector(&self, from: u64, number: ZoneNo, offset: u32, seen: Seen) -> Verdict {
        let zone = &self.zones[number.index()];
        let cell = &zone.cells[offset as usize];
        let known =
            zone.sequential && zone.is_quiet_since(from) && !zone.is_doubted() && !zone.failed && self.knows_pointers();
        let full = zone.marks.possible(from).any(|mark| mark == Mark::Finish);
        // Below the pointer there is data, above it there is none.
        let fits_pointer = |value: Value| match value {
            Value::Unwritten => !known || full || offset >= zone.pointer() || self.recovering && self.files,
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
    pub(super) fn compare_report(&mut self, from: u64, zones: &[ZoneLine]) -> Verdict {
        zones.iter().try_for_each(|line| self.compare_zone(from, line))
    }

    fn compare_zone(&mut self, from: u64, line: &ZoneLine) -> Verdict {
        let ZoneLine { number, zone: reported, is_heard } = *line;
        let zone = &self.zones[number.index()];
        let shape = (reported.start.0, reported.len, reported.capacity, reported.kind == ZoneKind::Sequential);
        if shape != (0, zone.cells.len() as u64, u64::from(zone.capacity), zone.sequential) {
            return Err((Rule::Condition, format!("zone {number} is reported with another shape: {reported:?}")));
        }
        if !zone.sequential || !zone.is_quiet_since(from) || !self.knows_pointers() {
            return Ok(());
        }
        if matches!(reported.cond, Condition::ReadOnly | Condition::Offline) {
            self.zones[number.index()].failed = true;
            return Ok(());
        }
        // A condition that a start of the disk has ended.
        self.zones[number.index()].failed = false;
        let zone = &self.zones[number.index()];
        let full = reported.cond == Condition::Full;
        let offset = if full { zone.capacity } else { reported.wp.0 as u32 };
        self.check_pointer(number, offset)?;
        self.check_condition(number, offset, reported.cond)?;
        self.check_possible(from, number, offset, full)?;
        let learned = zone.last_change < self.reports_since;
        if learned {
            let zone = &mut self.zones[number.index()];
            zone.is_unheard = !is_heard && (zone.is_unheard || zone.is_doubted());
            zone.rebase(from, offset);
            (zone.pointer, zone.planned, zone.doubt) = (offset, offset, None);
            zone.ends.clear();
        }
        Ok(())
    }

    fn check_pointer(&self, number: ZoneNo, offset: u32) -> Verdict {
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

    fn check_condition(&self, number: ZoneNo, offset: u32, cond: Condition) -> Verdict {
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
    fn check_possible(&self, from: u64, number: ZoneNo, offset: u32, full: bool) -> Verdict {
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
