//! Reset of all zones of parts of devices. Where a part is not all of a device that cannot do it in one, so it is one reset
//! a zone.
//!
//! As `drivers/md/dm-zone.c:dm_zone_reset_all` does: ask for a report, then reset the zones that need it, a bounded number
//! at a time.

use alloc::collections::VecDeque;
use core::ops::Range;

use crate::block::{Bio, Cx, DeviceId, Op, Payload, Status, WordOwner};
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::{Condition, Zone};

/// Resets in flight at once.
const BATCH: usize = 32;
/// Zones asked for in one report.
const REPORT: usize = 4096;

/// Sectors of a device whose zones are reset together with others.
pub(super) struct Part {
    pub device: DeviceId,
    pub range: Range<u64>,
    /// Whether these are all of the device's sequential zones: then the device can do it.
    pub has_all_zones: bool,
    /// Whether its resets have to survive a loss of power before the next part has its turn.
    pub is_flushed: bool,
}

/// The reset of all zones that is under way, and those that wait for it.
pub(super) struct ResetAll {
    parts: Vec<Part>,
    waiting: VecDeque<Box<Bio>>,
    /// The part whose turn it is.
    at: usize,
    to_reset: Vec<Sector>,
    next_report: Sector,
    /// Whether nothing is left to do in that part but to let it last.
    is_reset: bool,
    in_flight: usize,
    status: Status,
}

impl ResetAll {
    pub fn new(parts: Vec<Part>) -> Self {
        let (waiting, to_reset) = (VecDeque::new(), Vec::new());
        let (next_report, status) = (Sector::ZERO, Status::Ok);
        Self { parts, waiting, at: 0, to_reset, next_report, is_reset: false, in_flight: 0, status }
    }

    /// Starts resetting the zones of all parts, and then completes `bio`.
    pub fn begin(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if let [Part { device, has_all_zones: true, .. }] = self.parts[..] {
            return cx.pass(device, bio, Sector::ZERO);
        }
        self.waiting.push_back(bio);
        if self.waiting.len() == 1 {
            self.start(cx);
        }
    }

    /// Whether a bio that comes back with `word` was sent here.
    pub fn is_own(word: u64) -> bool {
        WordOwner::ResetAll.owns(word)
    }

    /// Resets of all zones that are not done.
    pub fn pending(&self) -> usize {
        self.waiting.len()
    }

    pub fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.waiting.iter().for_each(|bio| visit(bio));
    }

    pub fn end_io(&mut self, mut bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        self.in_flight -= 1;
        if let Some(first) = self.waiting.front_mut().filter(|_| !status.is_ok() && self.status.is_ok()) {
            first.inherit(&mut bio);
        }
        self.status = self.status.and(status);
        if let Payload::Zones(zones) = core::mem::take(&mut bio.payload) {
            self.note(&zones);
        }
        cx.recycle(bio);
        self.go_on(cx);
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        (self.at, self.status) = (0, Status::Ok);
        self.enter_part(cx);
    }

    /// Begins with the part whose turn it is; behind the last one the bio is done.
    fn enter_part(&mut self, cx: &mut Cx<'_>) {
        let failed = !self.status.is_ok();
        let Some(part) = self.parts.get(self.at).filter(|_| !failed) else { return self.finish(cx) };
        (self.next_report, self.is_reset) = (Sector(part.range.start), false);
        if part.has_all_zones {
            self.next_report = Sector(part.range.end);
            return self.send(Bio::new(Op::ZoneResetAll, Sector::ZERO, 0, Payload::None), cx);
        }
        self.go_on(cx);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.to_reset.clear();
        if let Some(bio) = self.waiting.pop_front() {
            cx.complete(bio, self.status);
        }
        if !self.waiting.is_empty() {
            self.start(cx);
        }
    }

    /// Notes which of the reported zones need a reset: not conventional, empty, read-only or offline ones.
    fn note(&mut self, zones: &[Zone]) {
        let end = self.parts[self.at].range.end;
        let needs = |zone: &&Zone| {
            let settled =
                matches!(zone.cond, Condition::NotWp | Condition::Empty | Condition::ReadOnly | Condition::Offline);
            zone.start.0 < end && !settled
        };
        self.to_reset.extend(zones.iter().filter(needs).map(|zone| zone.start));
        // A report that brings nothing ends the walk.
        self.next_report = zones.last().map_or(Sector(end), |zone| zone.start + zone.len);
    }

    fn go_on(&mut self, cx: &mut Cx<'_>) {
        let failed = !self.status.is_ok();
        while !failed && self.in_flight < BATCH {
            let Some(zone) = self.to_reset.pop() else { break };
            self.send(Bio::new(Op::ZoneReset, zone, 0, Payload::None), cx);
        }
        if self.in_flight > 0 {
            return;
        }
        if !failed && self.next_report.0 < self.parts[self.at].range.end {
            let room = Payload::Zones(Vec::with_capacity(REPORT));
            return self.send(Bio::new(Op::ReportZones, self.next_report, 0, room), cx);
        }
        if !failed && self.parts[self.at].is_flushed && !self.is_reset {
            self.is_reset = true;
            return self.send(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None), cx);
        }
        self.at += 1;
        self.enter_part(cx);
    }

    fn send(&mut self, blank: Bio, cx: &mut Cx<'_>) {
        self.in_flight += 1;
        let bio = cx.own_bio(blank);
        cx.submit(self.parts[self.at].device, bio, WordOwner::ResetAll.mark(0));
    }
}
