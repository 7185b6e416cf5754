//! Zeroes: by the file system where it can make them, by writing where it cannot.

use shingle_core::block::{Cx, Flags, Reason};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::ZoneKind;
use shingle_sys::{Allocate, Request};

use super::super::directory::bytes;
use super::{Step, ZoneJob, ZonedDir};
use crate::disk::transfer::{ENOMEM, is_unsupported};

impl ZonedDir {
    /// Asks the file system for zeroes: a sequential zone grows by them, in a conventional zone they replace what was there.
    pub(super) fn make_zeroes(&mut self, job: usize, cx: &mut Cx<'_>) {
        let (zone, flags, sectors) = (self.jobs[job].zone, self.bio(job).flags, self.bio(job).sectors);
        self.jobs[job].step = Step::Space;
        let (at, len) = (self.jobs[job].at, bytes(sectors));
        let Some(file) = self.jobs[job].file.clone() else { unreachable!("the file was opened") };
        let keep_blocks = flags.has(Flags::NO_UNMAP);
        let request = match (self.zones.geometry().kind(zone), keep_blocks) {
            (ZoneKind::Sequential, false) => Request::Truncate { file, len: at + len },
            (ZoneKind::Sequential, true) => Request::Allocate { file, mode: Allocate::Extend, at, len },
            (ZoneKind::Conventional, false) => Request::Allocate { file, mode: Allocate::PunchHole, at, len },
            (ZoneKind::Conventional, true) => Request::Allocate { file, mode: Allocate::ZeroRange, at, len },
        };
        self.ask(job, request, cx);
    }

    pub(super) fn zeroes_made(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        if result == 0 {
            return self.zeroes_done(job, cx);
        }
        if !is_unsupported(result) {
            return self.write_failed(job, result, cx);
        }
        if self.bio(job).flags.has(Flags::FAST) {
            // Nothing was written, and that is no fault of the zone.
            let status = self.blame(job, Reason::NotSupported);
            return self.learn_write_pointer(job, status, cx);
        }
        self.write_zeroes(job, cx);
    }

    /// Writes the next zeroes: for file systems that cannot make them.
    pub(super) fn write_zeroes(&mut self, job: usize, cx: &mut Cx<'_>) {
        self.jobs[job].step = Step::Zeroes;
        let left = self.bio(job).sectors as usize * SECTOR_BYTES as usize - self.jobs[job].skip;
        let Some(payload) = self.zeroes.next(left) else { return self.zeroes_written(job, -ENOMEM, cx) };
        let ZoneJob { file: Some(file), at, skip, .. } = &self.jobs[job] else { unreachable!("the file was opened") };
        let request = Request::Write { file: file.clone(), at: *at + *skip as u64, payload, skip: 0, durable: false };
        self.ask(job, request, cx);
    }

    pub(super) fn zeroes_written(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        if result <= 0 {
            return self.write_failed(job, result, cx);
        }
        self.jobs[job].skip += result as usize;
        if self.jobs[job].skip < self.bio(job).sectors as usize * SECTOR_BYTES as usize {
            self.write_zeroes(job, cx);
        } else {
            self.zeroes_done(job, cx);
        }
    }

    pub(super) fn zeroes_done(&mut self, job: usize, cx: &mut Cx<'_>) {
        if !self.bio(job).flags.has(Flags::FUA) {
            return self.written(job, false, cx);
        }
        self.sync_job(job, cx);
    }

    pub(super) fn sync_job(&mut self, job: usize, cx: &mut Cx<'_>) {
        self.jobs[job].step = Step::Sync;
        let Some(file) = self.jobs[job].file.clone() else { unreachable!("the file was opened") };
        self.ask(job, Request::Sync { file, metadata: false }, cx);
    }

    pub(super) fn job_synced(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        if result == 0 {
            return self.written(job, true, cx);
        }
        let zone = self.jobs[job].zone;
        self.sync_failed(zone, result);
        self.fail(job, self.reason_of(zone, "making durable", result), cx);
    }
}
