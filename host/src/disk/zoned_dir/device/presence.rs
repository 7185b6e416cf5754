//! Looking after the zones' files: what somebody else does to them must not pass for success.
//!
//! ```text
//!   flush, FUA ── have the directory's times changed? ── no ──────────────────────────────> answered
//!                                                 └───── yes ──> look at all names ───────────^
//!   now and then ── ask the file system for the directory's times ──^
//! ```

use std::collections::HashMap;
use std::ffi::CString;
use std::mem;
use std::sync::Arc;

use rustix::io::Errno;
use shingle_core::block::{Cx, Reason};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::time::Duration;
use shingle_core::zone::{Condition, ZoneKind, ZoneNo};
use shingle_sys::{Answer, Fd, FileStatus, Request, StatusBuffer};

use super::super::directory::{bytes, zone_name};
use super::super::presence::{Change, Loss, Names};
use super::{LOOK, Step, ZonedDir};
use crate::disk::files::fd;
use crate::disk::transfer::was_interrupted;

/// How long nobody looks at the names again while the directory's times cannot tell whether they have changed.
const DOUBT: Duration = Duration::from_millis(100);
/// Most names that are looked at at the same time.
const MOST_LOOKS: usize = 64;
/// The directory itself, among the numbers of zones.
const DIRECTORY: u32 = u32::MAX;

/// What waits for a look at the names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    /// A durable write.
    Job(usize),
    /// A round of flushes.
    Flushes,
}

/// The look at the names of all zone files, if there is one.
#[derive(Default)]
pub(super) struct NamesCheck {
    stage: Stage,
    /// What the kernel has been asked for, by the numbers of zones.
    asked: HashMap<u32, Answer<FileStatus>>,
    /// Those for which this look is made.
    served: Vec<Pending>,
    /// Those that came during this look, and need a later one.
    waiting: Vec<Pending>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// The file system is asked for the directory's times.
    Directory,
    /// The names are looked at; those from this zone on have still to be asked for.
    Names { next: u32 },
}

impl ZonedDir {
    /// Whether the open file of `zone` still has a name and the size that it was given. After a loss the zone is given up.
    pub(super) fn check_file(&mut self, zone: ZoneNo, file: &Fd) -> Result<(), Reason> {
        let status = self.directory.files.cached_status(fd(file));
        match Loss::find(status, self.identities[zone.index()], self.sizes(zone)) {
            Some(loss) => Err(self.lost(zone, loss)),
            None => Ok(()),
        }
    }

    /// Goes on with `pending` when it is known that every zone's name still leads to its file. The names are looked at only if some name
    /// in the directory may have changed, and not all the time while nobody can tell.
    pub(super) fn check_names_for(&mut self, pending: Pending, cx: &mut Cx<'_>) {
        if self.names_check.stage != Stage::Idle {
            return self.names_check.waiting.push(pending);
        }
        let names = Names::of(self.directory.cached_status());
        if self.are_as_before(names) {
            return self.names_checked(pending, cx);
        }
        self.names_check.served.push(pending);
        self.look_at_names(names, cx);
    }

    /// Has the file system say whether names have changed: on other machines, too, where it is a network file system.
    pub(super) fn check_names(&mut self, cx: &mut Cx<'_>) {
        if self.names_check.stage == Stage::Idle {
            self.names_check.stage = Stage::Directory;
            self.look_at(DIRECTORY, cx);
            if self.names_check.asked.is_empty() {
                self.names_check.stage = Stage::Idle;
            }
        }
    }

    fn are_as_before(&self, names: Names) -> bool {
        match names.change_since(self.names) {
            Change::No => true,
            Change::Perhaps => self.now < self.next_look,
            Change::Yes => false,
        }
    }

    fn look_at_names(&mut self, names: Names, cx: &mut Cx<'_>) {
        (self.names, self.next_look) = (names, self.now + DOUBT);
        self.names_check.stage = Stage::Names { next: 0 };
        self.look_on(cx);
    }

    /// Asks for as many names as may be asked for at once; ends the look after the last.
    fn look_on(&mut self, cx: &mut Cx<'_>) {
        while let Stage::Names { next } = self.names_check.stage
            && next < self.zones.geometry().zones()
            && self.names_check.asked.len() < MOST_LOOKS
        {
            self.names_check.stage = Stage::Names { next: next + 1 };
            self.look_at(next, cx);
        }
        if self.names_check.asked.is_empty() {
            self.end_look(cx);
        }
    }

    fn look_at(&mut self, number: u32, cx: &mut Cx<'_>) {
        let name = match number {
            DIRECTORY => String::new(),
            zone => zone_name(self.zones.geometry(), ZoneNo(zone)),
        };
        let (request, status) = self.status_of(name);
        self.names_check.asked.insert(number, status);
        if self.ask_for_disk(LOOK | u64::from(number), request, cx).is_err() {
            // The ring is full. The next flush looks again.
            self.names_check.asked.remove(&number);
            self.names = Names::UNKNOWN;
        }
    }

    /// A request for the status of the file with this name, of the directory itself if it is empty, and where its answer is put.
    pub(super) fn status_of(&self, name: String) -> (Request, Answer<FileStatus>) {
        let name = CString::new(name).expect("the name of a zone file contains no NUL");
        let (status, directory) = (Answer::new(), self.directory.fd.clone());
        (Request::Stat { directory, name, buffer: StatusBuffer::new(), status: status.clone() }, status)
    }

    /// The kernel has answered a look.
    pub(super) fn looked(&mut self, number: u32, result: i32, cx: &mut Cx<'_>) {
        if was_interrupted(result) {
            self.look_at(number, cx);
            // It is under way again, unless the ring was full.
            if self.names_check.asked.is_empty() {
                self.end_look(cx);
            }
            return;
        }
        match self.names_check.stage {
            Stage::Directory => {
                let status = self.names_check.asked.remove(&number).and_then(|answer| answer.take());
                let names = Names::of(status.ok_or_else(|| Errno::from_raw_os_error(-result)));
                if self.are_as_before(names) { self.end_look(cx) } else { self.look_at_names(names, cx) }
            }
            Stage::Names { .. } => {
                self.take_look(number, result);
                self.look_on(cx);
            }
            Stage::Idle => {}
        }
    }

    fn take_look(&mut self, number: u32, result: i32) {
        let Some(answer) = self.names_check.asked.remove(&number).filter(|_| number != DIRECTORY) else { return };
        let (zone, status) = (ZoneNo(number), answer.take().ok_or_else(|| Errno::from_raw_os_error(-result)));
        // Its size may have changed since the kernel looked; whoever uses the file looks at that.
        if let Some(loss) = Loss::find(status, self.identities[zone.index()], (0, u64::MAX)) {
            self.lost(zone, loss);
        }
    }

    /// Answers those for which the look was made, and looks again for those that came later.
    fn end_look(&mut self, cx: &mut Cx<'_>) {
        let check = mem::take(&mut self.names_check);
        check.served.into_iter().for_each(|pending| self.names_checked(pending, cx));
        let names = Names::of(self.directory.cached_status());
        if check.waiting.is_empty() || self.are_as_before(names) {
            return check.waiting.into_iter().for_each(|pending| self.names_checked(pending, cx));
        }
        self.names_check.served = check.waiting;
        self.look_at_names(names, cx);
    }

    fn names_checked(&mut self, pending: Pending, cx: &mut Cx<'_>) {
        match pending {
            Pending::Job(job) => self.end_write(job, cx),
            Pending::Flushes => self.answer_now(cx),
        }
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
    pub(super) fn sizes(&self, zone: ZoneNo) -> (u64, u64) {
        let capacity = bytes(self.zones.geometry().capacity_of(zone));
        let state = self.zones.state(zone);
        let first = self.lanes.get(&zone).map(|lane| &self.jobs[lane.first]);
        match first.map(|job| (job.step, job.at + job.skip as u64)) {
            _ if self.zones.geometry().kind(zone) == ZoneKind::Conventional => (capacity, capacity),
            _ if state.cond == Condition::ReadOnly => (0, capacity),
            // Nobody has cut off the end of a block that was never complete.
            _ if self.limits.read_only => (bytes(state.wp), capacity),
            Some((Step::Resize | Step::Learn { .. } | Step::Cut { .. }, _)) => (0, capacity),
            // Nothing of the change has begun.
            Some((Step::Open, done)) => (done, done),
            Some((Step::Transfer | Step::Zeroes | Step::Space | Step::Sync, done)) => (done, bytes(state.wp)),
            _ => (bytes(state.wp), bytes(state.wp)),
        }
    }

    /// Where in its file the data of `zone` ends that is written, in bytes: what is being written begins there.
    pub(super) fn end_of_data(&self, zone: ZoneNo) -> u64 {
        let first = self.lanes.get(&zone).map(|lane| &self.jobs[lane.first]);
        first.filter(|job| job.step.is_changing()).map_or(bytes(self.zones.state(zone).wp), |job| job.at)
    }

    /// Nothing of `zone` is certain any more: neither it nor any flush succeeds from now on.
    pub(super) fn lost(&mut self, zone: ZoneNo, loss: Loss) -> Reason {
        if !self.flush.has_failed(zone) {
            let text: Arc<str> = self.about(zone, loss).into();
            self.flush.fail(zone, text.clone());
            self.say(text.to_string());
            if let Loss::Resized { is, .. } = loss {
                self.follow(zone, is);
            }
            self.close_off(zone);
        }
        self.given_up(zone).expect("it has failed")
    }

    /// Moves the write pointer of a zone to the end of its file, to which another process has appended, so that this data can be read: it may identify
    /// the process. Not while a write of this daemon is in flight: where its data begins is unknown then.
    fn follow(&mut self, zone: ZoneNo, size: u64) {
        let (known, capacity) = (bytes(self.zones.state(zone).wp), bytes(self.zones.geometry().capacity_of(zone)));
        if size > known && self.end_of_data(zone) == known {
            let whole = self.whole_blocks(size.min(capacity));
            // A conventional zone has none.
            let _ = self.zones.set_write_pointer(zone, (whole / u64::from(SECTOR_BYTES)) as u32);
        }
    }
}
