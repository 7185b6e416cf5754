//! Making changes durable.

use shingle_core::block::{Cx, Op, Reason, Status};
use shingle_core::zone::ZoneNo;
use shingle_sys::{Fd, Request};

use super::super::flush::Round;
use super::files::Waiter;
use super::presence::Pending;
use super::{SYNC, Step, ZonedDir};
use crate::disk::transfer::was_interrupted;

impl ZonedDir {
    pub(super) fn sync(&mut self, zone: ZoneNo, round: Round, cx: &mut Cx<'_>) {
        self.with_file(zone, Waiter::Sync(round), cx);
    }

    pub(super) fn start_sync(&mut self, zone: ZoneNo, round: Round, file: Fd, cx: &mut Cx<'_>) {
        // A sync of a file that has lost its name or its data succeeds. The verdict on this zone stays in `flush`.
        let _ = self.check_file(zone, &file);
        let word = SYNC | u64::from(round.0) << 32 | u64::from(zone.0);
        if self.ask_for_disk(word, Request::Sync { file, metadata: false }, cx).is_err() {
            let closing = self.place_of_closing(zone, round);
            closing.into_iter().for_each(|place| _ = self.closing.swap_remove(place));
            self.flush.not_started(zone, round, Status::Resource);
        }
    }

    pub(super) fn synced(&mut self, (zone, round): (ZoneNo, Round), result: i32, cx: &mut Cx<'_>) {
        let closing = self.place_of_closing(zone, round);
        if was_interrupted(result) {
            return match closing {
                Some(place) => self.start_sync(zone, round, self.closing[place].file.clone(), cx),
                None => self.sync(zone, round, cx),
            };
        }
        if result < 0 {
            self.sync_failed(zone, result);
        }
        self.flush.synced(round);
        if let Some(place) = closing {
            let file = self.closing.swap_remove(place).file;
            self.close(file, cx);
        }
    }

    pub(super) fn sync_failed(&mut self, zone: ZoneNo, result: i32) {
        let text = self.about(zone, format_args!("making it durable failed (errno {})", -result));
        self.flush.fail(zone, format!("{text}, its data may be lost: open the disk again").into());
        self.say(text);
        self.give_up(zone, "data that was written may be lost");
    }

    /// Why a flush fails with `status`.
    fn unflushed(&self, status: Status) -> Reason {
        match self.flush.why_any_failed() {
            Some(why) => Reason::Host(status, why.clone()),
            None => {
                let path = self.directory.path.display();
                Reason::Host(status, format!("{path}: a zone file could not be synced ({status})").into())
            }
        }
    }

    /// All syncs of a round of flushes are over. It is answered after a look at the names.
    pub(super) fn answer(&mut self, status: Status, cx: &mut Cx<'_>) {
        self.answering = Some(status);
        self.check_names_for(Pending::Flushes, cx);
    }

    /// Answers the flushes of a round.
    pub(super) fn answer_now(&mut self, cx: &mut Cx<'_>) {
        let Some(status) = self.answering.take() else { return };
        let status = self.flush.verdict(status);
        while let Some(job) = self.flush.take_served() {
            if self.bio(job).op == Op::Flush || !status.is_ok() {
                if status.is_ok() {
                    self.finish(job, status, cx);
                } else {
                    self.fail(job, self.unflushed(status), cx);
                }
            } else {
                self.jobs[job].step = Step::Flushed;
                self.ready.push_back(job);
            }
        }
    }
}
