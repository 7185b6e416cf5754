//! Reports of zones. That of one zone with a write pointer tells what its file says: another machine may have appended to it where locks do not work.

use std::ffi::CString;

use shingle_core::block::{Bio, Cx, Payload, Status};
use shingle_core::zone::{ZoneKind, ZoneNo};
use shingle_sys::{Answer, Request, StatusBuffer};

use super::super::directory::zone_name;
use super::super::presence::Loss;
use super::{Step, Work, ZonedDir};

impl ZonedDir {
    /// Reports zones as they are known.
    pub(super) fn report(&self, bio: &mut Bio) {
        if let Payload::Zones(zones) = &mut bio.payload {
            let room = zones.capacity() - zones.len();
            zones.extend(self.zones.zones(bio.sector).take(room));
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
        let (status, directory) = (Answer::new(), self.directory.fd.clone());
        let name = CString::new(zone_name(self.zones.geometry(), zone));
        let name = name.expect("the name of a zone file contains no NUL");
        self.learning.insert(job, status.clone());
        self.ask(job, Request::Stat { directory, name, buffer: StatusBuffer::new(), status }, cx);
    }

    /// Reports a zone, after the kernel has told the size of its file, or could not: then nothing speaks against what is known.
    pub(super) fn pointer_found(&mut self, job: usize, cx: &mut Cx<'_>) {
        let zone = self.jobs[job].zone;
        let status = self.learning.remove(&job).and_then(|answer| answer.take());
        let loss = status.and_then(|status| Loss::find(Ok(status), self.identities[zone.index()], self.sizes(zone)));
        if let Some(loss) = loss {
            self.lost(zone, loss);
        }
        if let Work::Bio(mut bio) = std::mem::replace(&mut self.jobs[job].work, Work::PartOf(job)) {
            self.report(&mut bio);
            self.jobs[job].work = Work::Bio(bio);
        }
        self.finish(job, Status::Ok, cx);
    }
}
