//! What an acknowledgement promises, now and after a loss of power.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::words::{DiskRequest, Extent, Grounds, Rule, Trust, Verdict};
use super::zone::{Mark, Value};
use super::{Change, Model, Unflushed};
use crate::history::Candidate;
use shingle_core::block::{Flags, Op};
use shingle_core::time::Instant;
use shingle_core::zone::ZoneNo;

impl Model {
    pub(super) fn acknowledge_write(
        &mut self,
        (from, now): (u64, u64),
        request: &DiskRequest,
        extents: &[Extent],
        at: Instant,
    ) {
        let oldest = self.oldest_asker();
        for extent in extents {
            let is_undone = self.may_be_undone(from, request, extent.zone, at) && !request.flags.has(Flags::FUA);
            let zone = &mut self.zones[extent.zone.index()];
            let ordered = self.trust == Trust::Stack && zone.sequential;
            if is_undone {
                zone.cells.iter_mut().for_each(|cell| cell.end(from, now));
                continue;
            }
            for cell in &mut zone.cells[extent.offset as usize..(extent.offset + extent.sectors) as usize] {
                cell.end(from, now);
                cell.acknowledge(from, ordered, (now, oldest));
            }
            if from > zone.base {
                zone.ends.push((from, extent.offset + extent.sectors));
            }
        }
        let fua = request.flags.has(Flags::FUA);
        let ordered = self.trust == Trust::Stack;
        let lasting = extents.iter().filter(|extent| fua || !self.may_be_undone(from, request, extent.zone, at));
        let extents = lasting.copied().collect();
        self.remember(Unflushed { from, done: now, ordered, change: Change::Written, extents }, fua);
    }

    pub(super) fn acknowledge_append(
        &mut self,
        (from, now): (u64, u64),
        request: &DiskRequest,
        landed: Extent,
        at: Instant,
    ) -> Verdict {
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
        self.acknowledge_write((from, now), request, &[landed], at);
        Ok(())
    }

    /// An append that is acknowledged may also be in its zone a second time: that is a reason for what has failed there since.
    pub(super) fn may_be_twice(&mut self, (from, now): (u64, u64), request: &DiskRequest) {
        self.absolve(from, request);
        for extent in &request.extents {
            let zone = &mut self.zones[extent.zone.index()];
            zone.strays.push(Candidate { until: now, ..Candidate::in_flight(from, from) });
            zone.lose_pointer(from);
        }
    }

    /// Checks that a sequential zone had no data where some has landed.
    pub(super) fn check_free(&self, from: u64, Extent { zone: number, offset, sectors }: Extent) -> Result<(), String> {
        let zone = &self.zones[number.index()];
        let taken = |place: &u32| !zone.cells[*place as usize].possible(from).any(|value| value == Value::Unwritten);
        match (offset..offset + sectors).find(taken) {
            Some(place) if zone.sequential => {
                Err(format!("it landed in zone {number} on sector {place}, which has data"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn acknowledge_mark(&mut self, from: u64, now: u64, request: &DiskRequest, grounds: &Grounds<'_>) {
        let mark = if request.op == Op::ZoneFinish { Mark::Finish } else { Mark::Reset };
        let oldest = self.oldest_asker();
        let ordered = self.trust == Trust::Stack && request.atomic;
        // A reset of all zones leaves out those that failed. These did since it came, before their turn or after it.
        let left_out = |zone: ZoneNo| request.op == Op::ZoneResetAll && grounds.disks.has_failed(zone);
        let (out, done): (Vec<Extent>, Vec<Extent>) = request.extents.iter().partition(|extent| left_out(extent.zone));
        let (undone, done): (Vec<Extent>, Vec<Extent>) =
            done.into_iter().partition(|extent| self.may_be_undone(from, request, extent.zone, grounds.now));
        for extent in out.into_iter().chain(undone) {
            let zone = &mut self.zones[extent.zone.index()];
            zone.end(from, now);
            zone.lose_pointer(from);
        }
        for extent in &done {
            let zone = &mut self.zones[extent.zone.index()];
            zone.marks.end(from, now);
            zone.marks.acknowledge(from, ordered, (now, oldest));
            let pointer = if mark == Mark::Finish { zone.capacity } else { 0 };
            if request.atomic {
                zone.rebase(from, pointer);
                zone.is_unheard = false;
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
        self.remember(Unflushed { from, done: now, ordered, change: Change::Marked(mark), extents: done }, false);
    }

    /// What of a change is durable as it is, and what a flush will have to make so.
    fn remember(&mut self, change: Unflushed, fua: bool) {
        let (durable, volatile) = change.part(|zone| fua || !self.zones[zone.index()].write_cache);
        durable.iter().for_each(|change| self.make_durable(change));
        self.unflushed.extend(volatile);
    }

    /// A flush that was submitted at `from` has reached the disks `reach`: what was acknowledged before is durable there.
    pub(super) fn flushed(&mut self, from: u64, reach: u32) {
        for change in core::mem::take(&mut self.unflushed) {
            if change.done >= from {
                self.unflushed.push(change);
                continue;
            }
            let (durable, rest) = change.part(|zone| self.zones[zone.index()].disks & !reach == 0);
            durable.iter().for_each(|change| self.make_durable(change));
            self.unflushed.extend(rest);
        }
    }

    fn make_durable(&mut self, Unflushed { from, ordered, change, extents, .. }: &Unflushed) {
        for Extent { zone, offset, sectors } in extents {
            let zone = &mut self.zones[zone.index()];
            match change {
                Change::Written => {
                    let ordered = *ordered && zone.sequential;
                    let cells = &mut zone.cells[*offset as usize..(offset + sectors) as usize];
                    cells.iter_mut().for_each(|cell| cell.make_durable(*from, ordered));
                }
                Change::Marked(mark) => {
                    zone.marks.make_durable(*from, *ordered);
                    if *mark == Mark::Reset {
                        zone.cells.iter_mut().for_each(|cell| cell.make_durable(*from, *ordered));
                        zone.strays.iter_mut().for_each(|stray| stray.bury(*from, *ordered));
                    }
                }
            }
        }
    }
}
