//! A loss of power: what may be left, and what turns out to be.

use alloc::format;
use alloc::string::String;

use super::Model;
use super::Seen;
use super::zone::{Mark, Value};
use crate::history::{Candidate, History, NEVER};
use shingle_core::zone::ZoneNo;

/// A loss of power.
impl Model {
    /// The power is gone. Until [`Model::recovered`], what is read and reported is compared with what may be left.
    pub fn power_cut(&mut self) {
        let now = self.tick();
        self.pending.clear();
        self.unflushed.clear();
        (self.reports, self.recovering) = (0, true);
        self.suspects.clear();
        self.outage = None;
        for zone in &mut self.zones {
            zone.cells.iter_mut().for_each(|cell| cell.crash(now));
            zone.marks.crash(now);
            if zone.sequential && zone.is_wide() {
                zone.marks.add(Candidate { until: now, ..Candidate::in_flight(Mark::Finish, now) });
            }
            zone.strays.retain(|stray| !stray.dead);
            zone.strays.iter_mut().for_each(|stray| stray.hidden = NEVER);
            zone.ends.clear();
            (zone.in_flight, zone.loose, zone.last_change, zone.base, zone.faults_seen) = (0, 0, now, now, 0);
            (zone.doubt, zone.is_unheard) = (zone.sequential.then_some(now), false);
        }
    }

    /// The same of the host: what was acknowledged stays.
    pub fn host_cut(&mut self) {
        self.flushed(u64::MAX, u32::MAX);
        self.power_cut();
    }

    /// A sector was read after a loss of power: that is its value from now on.
    pub fn pin(&mut self, number: ZoneNo, offset: u32, seen: Seen) -> Option<u64> {
        let zone = &mut self.zones[number.index()];
        let below = !zone.sequential || offset < zone.pointer();
        let may_tear = zone.is_wide() || self.files && zone.sequential;
        let cell = &mut zone.cells[offset as usize];
        let found = || cell.possible(self.clock).filter(|value| value.looks() == seen);
        // Zeroes below the pointer were written, unless nothing was and the zone was finished.
        let value = found().find(|value| (*value != Value::Unwritten) == below).or(found().next());
        let value =
            value.or(if let Seen::Data(request, sector) = seen { Some(Value::Data(request, sector)) } else { None })?;
        let origin = cell.origin(value, self.clock);
        // A part that was finished, and others that were not, look like a zone that is written so far; a hole does, too.
        let torn = may_tear && below && value == Value::Unwritten;
        *cell = History::certain(if torn { Value::Zeroes } else { value });
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
