//! Reports of zones. A report of one zone with a write pointer shows the size that its file has at this moment: where locks do not work, another
//! machine may have appended to it.

use shingle_core::block::{Bio, Cx, Payload, Status};
use shingle_core::zone::{ZoneKind, ZoneNo, ZonedDisk};

use super::super::directory::zone_name;
use super::super::presence::Loss;
use super::{Step, Work, ZonedDir};

impl ZonedDir {
    /// Reports zones as they are known.
    pub(super) fn report(disk: &ZonedDisk, bio: &mut Bio) {
        if let Payload::Zones(zones) = &mut bio.payload {
            let room = zones.capacity() - zones.len();
            zones.extend(disk.zones(bio.sector).take(room));
        }
    }

    /// True of a report of one zone that has a write pointer. Reports of many zones would take a call for each.
    pub(super) fn asks_for_pointer(&self, bio: &Bio, zone: ZoneNo) -> bool {
        let Payload::Zones(zones) = &bio.payload else { return false };
        let is_there = self.zones.zone_at(bio.sector).is_ok() && self.given_up(zone).is_none();
        zones.capacity() - zones.len() == 1 && is_there && self.zones.geometry().kind(zone) == ZoneKind::Sequential
    }

    /// Asks the file system for the size of the file of `zone`, when no change of the zone is in flight.
    pub(super) fn ask_for_pointer(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) {
        self.jobs[job].step = Step::Report;
        let (request, status) = self.status_of(zone_name(self.zones.geometry(), zone));
        self.learning.insert(job, status);
        self.ask(job, request, cx);
    }

    /// Reports a zone, after the kernel has told the size of its file, or could not: then nothing speaks against what is known.
    pub(super) fn pointer_found(&mut self, job: usize, cx: &mut Cx<'_>) {
        let zone = self.jobs[job].zone;
        let status = self.learning.remove(&job).and_then(|answer| answer.take());
        let loss = status.and_then(|status| Loss::find(Ok(status), self.identities[zone.index()], self.sizes(zone)));
        if let Some(loss) = loss {
            self.lost(zone, loss);
        }
        if let Work::Bio(bio) = &mut self.jobs[job].work {
            Self::report(&self.zones, bio);
        }
        self.finish(job, Status::Ok, cx);
    }
}
