//! Errors: what they leave open, and whether they have a reason.

use alloc::format;

use super::words::{DiskRequest, Grounds, Intent, Rule, Trust, Verdict, Violation};
use super::zone::Mark;
use super::{Model, Pending, Suspect};
use crate::history::Candidate;
use shingle_core::block::{Flags, Op, Status};
use shingle_core::time::Instant;
use shingle_core::zone::ZoneNo;

impl Model {
    /// Whether an error that ended before `now` is still without a reason. The reason can be an earlier request of the zone
    /// that failed, and whose end is not known yet.
    pub fn verdict(&mut self, now: Instant) -> Result<(), Violation> {
        let touches = |request: &DiskRequest, suspect: &Suspect| {
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

    /// The request submitted at `from` is a reason for what failed in its zones later.
    pub(super) fn absolve(&mut self, from: u64, request: &DiskRequest) {
        let concerns = |suspect: &Suspect| request.extents.iter().any(|extent| suspect.zones.contains(&extent.zone));
        self.suspects.retain(|suspect| suspect.from < from || !concerns(suspect));
    }

    pub(super) fn fail(
        &mut self,
        from: u64,
        now: u64,
        (pending, status): (&Pending, Status),
        grounds: &Grounds<'_>,
    ) -> Verdict {
        let explained = self.explains((from, pending), status, grounds);
        let request = &pending.request;
        if request.op.is_write() && request.intent != Intent::Hopeless {
            self.absolve(from, request);
            for extent in &request.extents {
                let alone = self.is_refused_alone(request, extent.zone, grounds);
                let zone = &mut self.zones[extent.zone.index()];
                zone.end(from, now);
                zone.failed_at = Some(grounds.now);
                if zone.sequential && zone.is_wide() && !alone {
                    zone.marks.add(Candidate { until: now, ..Candidate::in_flight(Mark::Finish, from) });
                }
                if !alone {
                    zone.lose_pointer(from);
                }
            }
        }
        if explained { Ok(()) } else { Err((Rule::Unexplained, format!("it failed with {status} for no reason"))) }
    }

    /// Whether a mistake was refused without any consequence.
    pub(super) fn is_refused_alone(&self, request: &DiskRequest, zone: ZoneNo, grounds: &Grounds<'_>) -> bool {
        let model = &self.zones[zone.index()];
        let no_fault = grounds.disks.faults_in(zone) == model.faults_seen;
        request.intent == Intent::Risky && self.trust == Trust::Stack && no_fault && !model.is_doubted()
    }

    pub(super) fn explains(&self, (from, pending): (u64, &Pending), status: Status, grounds: &Grounds<'_>) -> bool {
        let request = &pending.request;
        let by_flag = status == Status::Again && request.flags.has(Flags::NOWAIT);
        // The piece that met the limit may be told later than those that failed because of it.
        let is_limit = matches!(status, Status::ZoneOpenResource | Status::ZoneActiveResource);
        let by_limit = self.limited && (is_limit || grounds.is_late && status == Status::Io);
        let by_lack = request.op == Op::ZoneAppend && grounds.no_append && status == Status::NotSupported;
        if by_flag || by_limit || by_lack || request.intent != Intent::Sound || self.trust == Trust::Nobody {
            return true;
        }
        // A second copy of an append may have taken its room.
        let by_copy = request.op.is_write() && grounds.doubled > pending.doubled;
        if grounds.excused || by_copy || grounds.plug_failed || grounds.layer_faults > pending.layer_faults {
            return true;
        }
        let zones = || request.extents.iter().map(|extent| extent.zone);
        // Below an encryption nobody says which zones are read, no flush of a disk of files is well once a zone has failed, and a
        // reset of all zones has left out those that failed before it came, but may say so.
        let anywhere = || (0..self.zones.len() as u32).map(ZoneNo).any(|zone| grounds.disks.has_failed(zone));
        let flushes = request.op == Op::Flush || request.flags.has(Flags::PREFLUSH);
        let unnamed = match request.op {
            Op::Read => request.extents.is_empty(),
            op => op == Op::ZoneResetAll || self.files && flushes,
        };
        let failed = || zones().any(|zone| grounds.disks.has_failed(zone)) || unnamed && anywhere();
        let faulted = grounds.disks.faults() > pending.all_faults;
        // What is done in steps begins with a report, a write behind a flush with that, and of a wide zone a part is flushed before
        // the next one changes: these have no zone.
        let in_parts = matches!(request.op, Op::ZoneReset | Op::ZoneFinish)
            && zones().any(|zone| self.zones[zone.index()].is_wide());
        let has_flush = request.flags.has(Flags::PREFLUSH) || self.emulated_fua && request.flags.has(Flags::FUA);
        let in_steps = in_parts || !request.atomic || has_flush;
        if !request.op.is_write() || faulted && in_steps {
            return faulted || failed();
        }
        let excused = |zone: ZoneNo| {
            let model = &self.zones[zone.index()];
            let doubted = model.is_doubted() || from < model.doubted_until || model.is_unheard;
            let just_now = self.files && model.failed_at == Some(grounds.now);
            doubted || just_now || grounds.disks.faults_in(zone) > model.faults_seen
        };
        failed() || zones().any(excused)
    }
}
