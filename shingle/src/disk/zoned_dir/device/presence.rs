//! Looking after the zones' files: what somebody else does to them must not pass for success.

use rustix::fs::fstat;
use shingle_core::block::Status;
use shingle_core::zone::{Condition, ZoneKind, ZoneNo};
use shingle_sys::Fd;

use super::super::directory::{bytes, zone_name};
use super::super::presence::{Loss, Names};
use super::{Step, ZonedDir};

impl ZonedDir {
    /// Whether the open file of `zone` still has a name and the size that it was given. After a loss the zone is given up.
    pub(super) fn check_file(&mut self, zone: ZoneNo, file: &Fd) -> Result<(), Status> {
        let (identity, sizes) = (self.identities[zone.index()], self.sizes(zone));
        match Loss::find(fstat(file), identity, sizes) {
            // Another file may have its name.
            Some(Loss::Removed) => {
                let named = self.directory.stat(&zone_name(self.zones.geometry(), zone));
                Err(self.lost(zone, Loss::find(named, identity, sizes).unwrap_or(Loss::Removed)))
            }
            Some(loss) => Err(self.lost(zone, loss)),
            None => Ok(()),
        }
    }

    /// Whether every zone's name still leads to its file. Looks only if some name in the directory may have changed.
    pub(super) fn check_all_names(&mut self) {
        let names = Names::now(&self.directory);
        if names.proves_unchanged_since(self.names) {
            return;
        }
        self.names = names;
        for zone in (0..self.zones.geometry().zones()).map(ZoneNo) {
            let stat = self.directory.stat(&zone_name(self.zones.geometry(), zone));
            if let Some(loss) = Loss::find(stat, self.identities[zone.index()], self.sizes(zone)) {
                self.lost(zone, loss);
            }
        }
    }

    /// Whether a read met the end of its file before the end of what is written there.
    pub(super) fn ends_early(&mut self, job: usize) -> bool {
        let (zone, end) = (self.jobs[job].zone, self.jobs[job].at + self.jobs[job].skip as u64);
        // A write that came after the read may have moved the pointer: the file itself knows.
        let Some(file) = self.jobs[job].file.clone().filter(|_| end < self.sizes(zone).0) else { return false };
        self.check_file(zone, &file).is_err()
    }

    /// The sizes in bytes that the file of `zone` may have at this moment, the smallest and the largest.
    fn sizes(&self, zone: ZoneNo) -> (u64, u64) {
        let capacity = bytes(self.zones.geometry().capacity_of(zone));
        let state = self.zones.state(zone);
        let first = self.lanes.get(&zone).map(|lane| &self.jobs[lane.first]);
        match first.map(|job| (job.step, job.at + job.skip as u64)) {
            _ if self.zones.geometry().kind(zone) == ZoneKind::Conventional => (capacity, capacity),
            _ if state.cond == Condition::ReadOnly => (0, capacity),
            // Nobody has cut off the end of a block that was never complete.
            _ if self.limits.read_only => (bytes(state.wp), capacity),
            Some((Step::Resize, _)) => (0, capacity),
            Some((Step::Transfer | Step::Zeroes | Step::Space | Step::Sync, done)) => (done, bytes(state.wp)),
            _ => (bytes(state.wp), bytes(state.wp)),
        }
    }

    /// Nothing of `zone` is certain any more: neither it nor any flush succeeds from now on.
    fn lost(&mut self, zone: ZoneNo, loss: Loss) -> Status {
        if !self.flush.has_failed(zone) {
            self.flush.fail(zone);
            self.notice(zone, loss);
            // A conventional zone has no such condition: its writes fail as those of every zone that has failed.
            let _ = self.zones.set_read_only(zone);
        }
        Status::Io
    }
}
