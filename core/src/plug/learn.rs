//! Reports, which teach the plug where the write pointers are, and the reset of all zones, which waits for them all.

use super::error::PlugError;
use super::zone_plug::{OWN, State, ZonePlug};
use super::zones::Zones;
use crate::block::{Bio, BlockDevice, Cx, Payload, Status};
use crate::prelude::*;
use crate::zone::ZoneNo;

/// Reports of hosts that are under way, and what has changed since each of them was sent.
#[derive(Default)]
pub(super) struct Reports {
    pub(super) in_flight: u32,
    /// How many were sent: the number of the last one.
    sent: u32,
    /// The number of the last report that had been sent when a zone last changed under one. It has no room in the record, and
    /// is not there before a host asks.
    changed: Vec<u32>,
}

impl Reports {
    fn send(&mut self) -> u32 {
        if self.in_flight == 0 && self.sent > u32::MAX / 2 {
            self.sent = 0;
            self.forget();
        }
        self.in_flight += 1;
        self.sent += 1;
        self.sent
    }

    pub(super) fn note_change(&mut self, zone: ZoneNo) {
        if self.in_flight > 0 {
            self.changed.resize(self.changed.len().max(zone.index() + 1), 0);
            self.changed[zone.index()] = self.sent;
        }
    }

    /// Whether nothing has changed in `zone` since report `number` was sent.
    fn is_current(&self, number: u32, zone: ZoneNo) -> bool {
        self.changed.get(zone.index()).is_none_or(|last| *last < number)
    }

    fn forget(&mut self) {
        self.changed.fill(0);
    }
}

impl ZonePlug {
    pub(super) fn report(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let number = u64::from(self.reports.send());
        // A table that asks several targets in turn comes with zones of the others, in numbers that are not ours.
        let known = if let Payload::Zones(zones) = &bio.payload { zones.len() as u64 } else { 0 };
        cx.submit(self.below_id(), bio, number << 32 | known << 1);
    }

    pub(super) fn reported(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if word == OWN {
            return self.learned(bio, status, cx);
        }
        if let (Status::Ok, Payload::Zones(report)) = (status, &bio.payload) {
            let (number, known) = ((word >> 32) as u32, word as u32 >> 1);
            let Self { reports, zones, .. } = self;
            for zone in report.iter().skip(known as usize) {
                if reports.is_current(number, zones.zone_of(zone.start)) {
                    zones.learn(zone);
                }
            }
        }
        self.reports.in_flight -= 1;
        cx.complete(bio, status);
    }

    /// Forgets which zones have changed since the reports that are under way were asked for. Only planted bugs do that.
    #[cfg(feature = "sabotage")]
    pub fn forget_changes(&mut self) {
        self.reports.forget();
    }

    /// The disk has lost its power, and pointers may have gone back: none is trusted until it was asked for, or set.
    #[cold]
    pub(super) fn doubt_all(&mut self) {
        self.zones.lose_all();
        (0..self.zones.len() as u32).for_each(|zone| self.touch(ZoneNo(zone)));
        self.asks_again |= self.state == State::Learning;
    }

    fn learned(&mut self, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        if core::mem::take(&mut self.asks_again) {
            cx.recycle(bio);
            return self.ask_for_report(cx);
        }
        let zone_sectors = self.limits.zoned.as_ref().map_or(0, |zoned| zoned.zone_sectors);
        let zones = match &bio.payload {
            Payload::Zones(report) if status.is_ok() => {
                Zones::from_report(report, zone_sectors, self.limits.capacity).map_err(PlugError::Report)
            }
            _ => Err(PlugError::NoReport(status)),
        };
        match zones {
            Ok(zones) => (self.zones, self.state) = (zones, State::Ready),
            Err(error) => self.state = State::Failed(error),
        }
        cx.recycle(bio);
        self.replay(cx);
    }

    /// Takes what waited behind, up to the next bio that makes others wait.
    fn replay(&mut self, cx: &mut Cx<'_>) {
        while matches!(self.state, State::Ready | State::Failed(_)) {
            let Some(bio) = self.nodes.pop(&mut self.behind) else { return };
            self.submit(bio, cx);
        }
    }

    pub(super) fn empty(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.state != State::Ready {
            return self.wait_behind(bio, cx);
        }
        self.state = State::Emptying;
        self.reset_all = Some(bio);
        if self.zones.busy == 0 {
            self.send_reset_all(cx);
        }
    }

    pub(super) fn send_reset_all(&mut self, cx: &mut Cx<'_>) {
        if let Some(bio) = self.reset_all.take() {
            cx.submit(self.below_id(), bio, 0);
        }
    }

    pub(super) fn emptied(&mut self, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        (0..self.zones.len() as u32).for_each(|zone| self.changed(&bio, ZoneNo(zone), status));
        self.state = State::Ready;
        cx.complete(bio, status);
        self.replay(cx);
    }
}
