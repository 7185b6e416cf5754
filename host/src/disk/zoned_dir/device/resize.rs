//! Resets and finishes: a zone's file gets a new size.

use shingle_core::block::{Cx, Op, Reason, Status};
use shingle_core::zone::{Action, Condition, ZoneNo};
use shingle_sys::Request;

use super::super::directory::bytes;
use super::{Step, Work, ZonedDir};

/// Most zones that a reset of all works on at once.
const MOST_PARTS: u32 = 16;

impl ZonedDir {
    /// Gives the zone's file the size that `action` calls for, if the zone's state allows it.
    pub(super) fn resize(&mut self, job: usize, zone: ZoneNo, action: Action, cx: &mut Cx<'_>) -> Result<(), Reason> {
        let (state, capacity) = (self.zones.state(zone), self.zones.geometry().capacity_of(zone));
        let next = state.apply(capacity, action).map_err(|error| self.refusal(zone, error))?;
        if next == state {
            self.finish(job, Status::Ok, cx);
            return Ok(());
        }
        self.job_with_file(job, zone, bytes(state.wp), cx);
        Ok(())
    }

    pub(super) fn set_size(&mut self, job: usize, cx: &mut Cx<'_>) {
        self.jobs[job].step = Step::Resize;
        let Some(file) = self.jobs[job].file.clone() else { unreachable!("the file was opened") };
        let capacity = self.zones.geometry().capacity_of(self.jobs[job].zone);
        let len = if self.finishes(job) { bytes(capacity) } else { 0 };
        self.ask(job, Request::Truncate { file, len }, cx);
    }

    fn finishes(&self, job: usize) -> bool {
        matches!(&self.jobs[job].work, Work::Bio(bio) if bio.op == Op::ZoneFinish)
    }

    pub(super) fn resized(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        let (zone, finishes) = (self.jobs[job].zone, self.finishes(job));
        if result < 0 {
            return self.write_failed(job, result, cx);
        }
        self.flush.mark(zone);
        // The lane kept the state as it was when this was allowed, but a failed sync may have come in between.
        let done = if finishes { self.zones.finish(zone) } else { self.zones.reset(zone) };
        self.end(job, done, cx);
    }

    pub(super) fn reset_part(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) -> Result<(), Reason> {
        if !matches!(self.zones.state(zone).cond, Condition::ReadOnly | Condition::Offline) {
            return self.resize(job, zone, Action::Reset, cx);
        }
        self.finish(job, Status::Ok, cx);
        Ok(())
    }

    /// Starts as many resets as there may be at once; ends when all are done.
    pub(super) fn reset_all(&mut self, job: usize, cx: &mut Cx<'_>) {
        let (mut cursor, mut under_way, status) = match self.jobs[job].step {
            Step::Parts { cursor, under_way, status } => (cursor, under_way, status),
            _ => (self.zones.geometry().conventional(), 0, Status::Ok),
        };
        while cursor < self.zones.geometry().zones() && under_way < MOST_PARTS {
            let zone = ZoneNo(cursor);
            let cond = self.zones.state(zone).cond;
            // A lane may hold a write that came before.
            if cond.is_active() || cond == Condition::Full || self.lanes.contains_key(&zone) {
                self.enter_lane(Work::PartOf(job), zone);
                under_way += 1;
            }
            cursor += 1;
        }
        self.jobs[job].step = Step::Parts { cursor, under_way, status };
        if under_way == 0 {
            self.finish(job, status, cx);
        }
    }

    pub(super) fn part_done(&mut self, whole: usize, outcome: Status) {
        if let Step::Parts { under_way, status, .. } = &mut self.jobs[whole].step {
            *under_way -= 1;
            *status = status.and(outcome);
            // Several parts can end before the whole has its turn, which may be its last.
            if !self.ready.contains(&whole) {
                self.ready.push_back(whole);
            }
        }
    }
}
