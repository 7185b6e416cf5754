//! Reset of all zones of a part of a device: the device below cannot do it in one, so it is one reset a zone.
//!
//! As `drivers/md/dm-zone.c:dm_zone_reset_all` does: ask for a report, then reset the zones that need it, a bounded number
//! at a time.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use crate::block::{Bio, Cx, DeviceId, Op, Payload, Status};
use crate::sector::Sector;
use crate::zone::{Condition, Zone};

/// The word of frames of the bios that a reset of all zones sends.
const OWN: u64 = u64::MAX;
/// Resets in flight at once.
const BATCH: usize = 32;
/// Zones asked for in one report.
const REPORT: usize = 4096;

/// The reset of all zones that is under way, and those that wait for it.
#[derive(Default)]
pub(super) struct ResetAll {
    waiting: VecDeque<(Box<Bio>, Range<u64>)>,
    to_reset: Vec<Sector>,
    next_report: Sector,
    in_flight: usize,
    status: Status,
}

impl ResetAll {
    /// Starts resetting the zones in `range` of device `below`, and then completes `bio`.
    pub(super) fn begin(&mut self, bio: Box<Bio>, below: DeviceId, range: Range<u64>, cx: &mut Cx<'_>) {
        self.waiting.push_back((bio, range));
        if self.waiting.len() == 1 {
            self.start(below, cx);
        }
    }

    /// Whether a bio that comes back with `word` was sent here.
    pub(super) fn is_own(&self, word: u64) -> bool {
        word == OWN
    }

    pub(super) fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.waiting.iter().for_each(|(bio, _)| visit(bio));
    }

    pub(super) fn end_io(&mut self, mut bio: Box<Bio>, status: Status, below: DeviceId, cx: &mut Cx<'_>) {
        self.in_flight -= 1;
        self.status = self.status.and(status);
        if let Payload::Zones(zones) = core::mem::take(&mut bio.payload) {
            self.note(&zones);
        }
        cx.recycle(bio);
        self.go_on(below, cx);
    }

    fn start(&mut self, below: DeviceId, cx: &mut Cx<'_>) {
        let Some((_, range)) = self.waiting.front() else { return };
        self.next_report = Sector(range.start);
        self.status = Status::Ok;
        self.go_on(below, cx);
    }

    /// Notes which of the reported zones need a reset: not conventional, empty, read-only or offline ones.
    fn note(&mut self, zones: &[Zone]) {
        let Some((_, range)) = self.waiting.front() else { return };
        let needs = |zone: &&Zone| {
            let settled =
                matches!(zone.cond, Condition::NotWp | Condition::Empty | Condition::ReadOnly | Condition::Offline);
            zone.start.0 < range.end && !settled
        };
        self.to_reset.extend(zones.iter().filter(needs).map(|zone| zone.start));
        // A report that brings nothing ends the walk.
        self.next_report = zones.last().map_or(Sector(range.end), |zone| zone.start + zone.len);
    }

    fn go_on(&mut self, below: DeviceId, cx: &mut Cx<'_>) {
        let Some(end) = self.waiting.front().map(|(_, range)| range.end) else { return };
        let failed = !self.status.is_ok();
        while !failed && self.in_flight < BATCH {
            let Some(zone) = self.to_reset.pop() else { break };
            self.send(Bio::new(Op::ZoneReset, zone, 0, Payload::None), below, cx);
        }
        if self.in_flight > 0 {
            return;
        }
        if !failed && self.next_report.0 < end {
            let room = Payload::Zones(Vec::with_capacity(REPORT));
            return self.send(Bio::new(Op::ReportZones, self.next_report, 0, room), below, cx);
        }
        self.to_reset.clear();
        if let Some((bio, _)) = self.waiting.pop_front() {
            cx.complete(bio, self.status);
        }
        self.start(below, cx);
    }

    fn send(&mut self, blank: Bio, below: DeviceId, cx: &mut Cx<'_>) {
        self.in_flight += 1;
        let bio = cx.own_bio(blank);
        cx.submit(below, bio, OWN);
    }
}
