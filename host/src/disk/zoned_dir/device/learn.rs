//! What a failed change leaves behind: the file alone knows how far the zone is written.
//!
//! ```text
//!   change failed ──> Learn: ask for the file's size ──> Cut: drop a partial block, if there is one ──> the bio fails
//! ```

use std::ffi::CString;

use shingle_core::block::{Cx, Flags, Status};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{ZoneKind, ZoneNo};
use shingle_sys::{Answer, Request, StatusBuffer};

use super::{Step, Work, ZonedDir};

impl ZonedDir {
    /// A change failed with `result`: says so, and ends the job when the zone's write pointer is known again.
    pub(super) fn write_failed(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        let zone = self.jobs[job].zone;
        let reason = self.reason_of(zone, "changing", result);
        let status = self.blame(job, reason);
        let next_step = match status {
            Status::NoSpace => "free space on its file system, or raise the limit",
            _ => "check the kernel log",
        };
        self.notice(zone, format_args!("a change failed: {status} (errno {}); {next_step}", -result));
        let durable = matches!(&self.jobs[job].work, Work::Bio(bio) if bio.flags.has(Flags::FUA));
        if durable && !matches!(status, Status::NoSpace | Status::Resource) {
            // A FUA write syncs the file, and this may have been where an older write of the zone was lost.
            self.sync_failed(zone, result);
        }
        self.learn_write_pointer(job, status, cx);
    }

    /// Ends a job with `status` when the write pointer of its zone is that of the file.
    pub(super) fn learn_write_pointer(&mut self, job: usize, status: Status, cx: &mut Cx<'_>) {
        let zone = self.jobs[job].zone;
        self.flush.mark(zone);
        let file = self.jobs[job].file.clone();
        let file = file.filter(|_| self.zones.geometry().kind(zone) == ZoneKind::Sequential);
        match file.filter(|file| self.given_up(zone).is_none() && self.check_file(zone, file).is_ok()) {
            Some(_) => self.ask_for_size(job, status, cx),
            None => self.finish(job, status, cx),
        }
    }

    pub(super) fn ask_for_size(&mut self, job: usize, status: Status, cx: &mut Cx<'_>) {
        self.jobs[job].step = Step::Learn { status };
        let Some(directory) = self.jobs[job].file.clone() else { unreachable!("the file was opened") };
        let answer = Answer::new();
        self.learning.insert(job, answer.clone());
        let request =
            Request::Stat { directory, name: CString::default(), buffer: StatusBuffer::new(), status: answer };
        self.ask(job, request, cx);
    }

    /// The kernel knows how large the file is, or cannot say. A partial block at its end is no part of the zone.
    pub(super) fn size_learned(&mut self, job: usize, status: Status, cx: &mut Cx<'_>) {
        let size = self.learning.remove(&job).and_then(|answer| answer.take()).map(|file| file.size);
        let whole = size.map(|size| self.whole_blocks(size));
        match whole.filter(|whole| Some(*whole) != size) {
            Some(len) => self.cut(job, len, status, cx),
            None => self.write_pointer_learned(job, whole, status, cx),
        }
    }

    /// The bytes of the whole blocks in a file of `size` bytes.
    pub(super) fn whole_blocks(&self, size: u64) -> u64 {
        size - size % u64::from(self.block_bytes)
    }

    pub(super) fn cut(&mut self, job: usize, len: u64, status: Status, cx: &mut Cx<'_>) {
        self.jobs[job].step = Step::Cut { len, status };
        let Some(file) = self.jobs[job].file.clone() else { unreachable!("the file was opened") };
        self.ask(job, Request::Truncate { file, len }, cx);
    }

    /// The zone's file ends at byte `size`; with `None` nobody knows.
    pub(super) fn write_pointer_learned(&mut self, job: usize, size: Option<u64>, status: Status, cx: &mut Cx<'_>) {
        let zone = self.jobs[job].zone;
        let sectors = size.and_then(|size| u32::try_from(size / u64::from(SECTOR_BYTES)).ok());
        let is_known = sectors.is_some_and(|wp| self.zones.set_write_pointer(zone, wp).is_ok());
        if !is_known && self.given_up(zone).is_none() {
            self.give_up(zone, "its write pointer cannot be learned");
        }
        self.finish(job, status, cx);
    }

    /// Nothing more is written to `zone` until the disk is opened again.
    pub(super) fn give_up(&mut self, zone: ZoneNo, why: &str) {
        self.notice(zone, format_args!("{why}: the zone is read-only until the disk is opened again"));
        self.close_off(zone);
    }

    /// Makes a zone read-only, with its pointer before a write that is under way or has failed. A conventional zone has no such
    /// condition: its writes fail as those of every zone that has failed.
    pub(super) fn close_off(&mut self, zone: ZoneNo) {
        if self.zones.geometry().kind(zone) == ZoneKind::Sequential {
            let end = self.end_of_data(zone) / u64::from(SECTOR_BYTES);
            let closed = self.zones.set_write_pointer(zone, end as u32);
            // It is read-only already, or offline.
            let _ = closed.and_then(|()| self.zones.set_read_only(zone));
        }
    }
}
