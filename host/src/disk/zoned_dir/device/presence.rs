//! Looking after the zones' files: what somebody else does to them must not pass for success.

use std::sync::Arc;

use shingle_core::block::Reason;
use shingle_core::time::Duration;
use shingle_core::zone::{Condition, ZoneKind, ZoneNo};
use shingle_sys::Fd;

use super::super::directory::{bytes, write_zone_name, zone_name};
use super::super::presence::{Change, Loss, Names};
use super::{Step, ZoneJob, ZonedDir};
use crate::disk::files::fd;

/// How long nobody looks at the names again while the directory's times cannot tell whether they have changed.
const DOUBT: Duration = Duration::from_millis(100);

impl ZonedDir {
    /// Whether the open file of `zone` still has a name and the size that it was given. After a loss the zone is given up.
    pub(super) fn check_file(&mut self, zone: ZoneNo, file: &Fd) -> Result<(), Reason> {
        let (identity, sizes) = (self.identities[zone.index()], self.sizes(zone));
        match Loss::find(self.directory.files.fstat(fd(file)), identity, sizes) {
            // Another file may have its name.
            Some(Loss::Removed) => {
                let named = self.directory.stat(&zone_name(self.zones.geometry(), zone));
                Err(self.lost(zone, Loss::find(named, identity, sizes).unwrap_or(Loss::Removed)))
            }
            Some(loss) => Err(self.lost(zone, loss)),
            None => Ok(()),
        }
    }

    /// Whether every zone's name still leads to its file. Looks only if some name in the directory may have changed, and not
    /// all the time while nobody can tell.
    pub(super) fn check_all_names(&mut self) {
        let names = Names::now(&self.directory);
        match names.change_since(self.names) {
            Change::No => return,
            Change::Perhaps if self.now < self.next_look => return,
            Change::Perhaps | Change::Yes => (self.names, self.next_look) = (names, self.now + DOUBT),
        }
        let mut name = std::mem::take(&mut self.name);
        for zone in (0..self.zones.geometry().zones()).map(ZoneNo) {
            write_zone_name(&mut name, self.zones.geometry(), zone);
            let stat = self.directory.stat(&name);
            if let Some(loss) = Loss::find(stat, self.identities[zone.index()], self.sizes(zone)) {
                self.lost(zone, loss);
            }
        }
        self.name = name;
    }

    /// Whether nothing of `zone` is certain any more: a sync of it failed, or its file was lost.
    #[must_use]
    pub fn has_failed(&self, zone: ZoneNo) -> bool {
        self.flush.has_failed(zone)
    }

    /// A read met the end of its file. Fails if something was written behind that.
    pub(super) fn check_end(&mut self, job: usize) -> Result<(), Reason> {
        let (zone, end) = (self.jobs[job].zone, self.jobs[job].at + self.jobs[job].skip as u64);
        // Once it has failed any size passes for its own, but what is missing of its data was written.
        if let Some(reason) = self.given_up(zone).filter(|_| end < self.end_of_data(zone)) {
            return Err(reason);
        }
        // A write that came after the read may have moved the pointer: the file itself knows.
        let Some(file) = self.jobs[job].file.clone().filter(|_| end < self.sizes(zone).0) else { return Ok(()) };
        self.check_file(zone, &file)
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

    /// Where in its file the data of `zone` ends that is written, in bytes: what is being written begins there.
    pub(super) fn end_of_data(&self, zone: ZoneNo) -> u64 {
        let first = self.lanes.get(&zone).map(|lane| &self.jobs[lane.first]);
        let is_writing = |job: &&ZoneJob| matches!(job.step, Step::Transfer | Step::Zeroes | Step::Space | Step::Sync);
        first.filter(is_writing).map_or(bytes(self.zones.state(zone).wp), |job| job.at)
    }

    /// Nothing of `zone` is certain any more: neither it nor any flush succeeds from now on.
    fn lost(&mut self, zone: ZoneNo, loss: Loss) -> Reason {
        if !self.flush.has_failed(zone) {
            let text: Arc<str> = self.about(zone, loss).into();
            self.flush.fail(zone, text.clone());
            self.say(text.to_string());
            self.close_off(zone);
        }
        self.given_up(zone).expect("it has failed")
    }
}
