//! Making changes durable.

use shingle_core::block::{Cx, Op, Status};
use shingle_core::zone::ZoneNo;
use shingle_sys::{Fd, Request};

use super::super::flush::Round;
use super::{SYNC, Step, ZonedDir};
use crate::disk::transfer::was_interrupted;
use crate::shard::device_token;

impl ZonedDir {
    pub(super) fn sync(&mut self, zone: ZoneNo, round: Round, cx: &mut Cx<'_>) {
        match self.file(zone, cx) {
            Ok(file) => self.start_sync(zone, round, file, cx),
            Err(status) => self.flush.not_started(zone, round, status),
        }
    }

    pub(super) fn start_sync(&mut self, zone: ZoneNo, round: Round, file: Fd, cx: &mut Cx<'_>) {
        // A sync of a file that has lost its name or its data succeeds. The verdict on this zone stays in `flush`.
        let _ = self.check_file(zone, &file);
        let word = SYNC | u64::from(round.0) << 32 | u64::from(zone.0);
        if self.ring.submit(device_token(cx.me(), word), Request::Sync { file, metadata: false }).is_err() {
            self.flush.not_started(zone, round, Status::Resource);
        }
    }

    pub(super) fn synced(&mut self, (zone, round): (ZoneNo, Round), result: i32, cx: &mut Cx<'_>) {
        if was_interrupted(result) {
            return self.sync(zone, round, cx);
        }
        if result < 0 {
            self.sync_failed(zone, result);
        }
        self.flush.synced(round);
    }

    pub(super) fn sync_failed(&mut self, zone: ZoneNo, result: i32) {
        self.flush.fail(zone);
        self.notice(zone, format_args!("making it durable failed (errno {})", -result));
        self.give_up(zone, "data that was written may be lost");
    }

    /// A round of flushes is over.
    pub(super) fn answer(&mut self, status: Status, cx: &mut Cx<'_>) {
        self.check_all_names();
        let status = self.flush.verdict(status);
        while let Some(job) = self.flush.take_served() {
            if self.bio(job).op == Op::Flush || !status.is_ok() {
                self.finish(job, status, cx);
            } else {
                self.jobs[job].step = Step::Flushed;
                self.ready.push_back(job);
            }
        }
    }
}
