//! What happens when a path fails a bio, and until it works again.

use super::head::{Head, Job, PAUSE_ENDS, TIME_IS_OVER, probe_of};
use super::path::{Health, Path, Probing};
use super::retry::{Disposition, Rules};
use crate::block::{AnaState, Bio, Cx, Data, Flags, Op, PathEvent, Payload, Reason, Silence, Status};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::Duration;

/// What a bio of the head's own is for.
pub(super) enum Purpose {
    /// To see whether the path works again.
    Probe,
    /// To see what of this write is done.
    Look(Job),
    /// To make this write durable, which is done.
    Secure(Job),
}

/// The first probe of a path that failed comes after so long; the next ones take twice as long each, up to the option.
const FIRST_PROBE: Duration = Duration::from_millis(50);

impl Head {
    /// A bio of a user has failed on a path.
    pub(super) fn failed(&mut self, path: usize, mut job: Job, status: Status, cx: &mut Cx<'_>) {
        let what = self.options.rules.dispose(&job.bio, status, job.attempts < self.options.attempts);
        job.attempts = if what == Disposition::Retry { job.attempts + 1 } else { 0 };
        if what != Disposition::Complete {
            // It has waited already; that another path has no room for it at once is nothing to its user.
            job.bio.flags = job.bio.flags.without(Flags::NOWAIT);
        }
        match what {
            Disposition::Complete => {
                self.paths[path].counters.errors += 1;
                cx.complete(job.bio, status);
            }
            Disposition::Retry => {
                self.paths[path].counters.retries += 1;
                job.may_be_done = self.writes_at_pointer(&job);
                self.paused.push_back((path, job));
                cx.wake_at(cx.now() + self.options.pause, PAUSE_ENDS);
            }
            Disposition::FailOver if self.guards.gone().same_path_again => self.send(path, job, cx),
            Disposition::FailOver => {
                self.fail_path(path, cx);
                self.dispatch(job, cx);
            }
            Disposition::FailOverWhenSilent => {
                self.fail_path(path, cx);
                if self.is_unawaited(&job) {
                    return self.settled(job, cx);
                }
                self.await_silence(path, job, cx);
            }
        }
    }

    /// A path has failed a bio: others are asked from now on, and it is probed.
    fn fail_path(&mut self, path: usize, cx: &mut Cx<'_>) {
        self.policy.failed(path);
        self.paths[path].counters.failovers += 1;
        if self.paths[path].health == Health::Live {
            self.note_failure(path, cx);
        }
    }

    /// A path that worked has failed.
    pub(super) fn note_failure(&mut self, path: usize, cx: &mut Cx<'_>) {
        self.paths[path].counters.failures += 1;
        self.probe_later(path, FIRST_PROBE, cx);
        self.changed(cx);
    }

    /// Has a path that does not work be probed, if that is for the head to do.
    fn probe_later(&mut self, path: usize, pause: Duration, cx: &mut Cx<'_>) {
        let due = cx.now() + pause;
        self.paths[path].health = Health::Failed(Probing { pause, due });
        if self.options.rules == Rules::Nvme {
            cx.wake_at(due, probe_of(path));
        }
    }

    /// Reads a block on a path that has failed, if it is time.
    pub(super) fn probe(&mut self, path: usize, cx: &mut Cx<'_>) {
        let it = &mut self.paths[path];
        // A timer can be left from an earlier failure, or from an earlier path of this number.
        if !matches!(it.health, Health::Failed(probing) if probing.due <= cx.now()) || it.is_probed {
            return;
        }
        let bytes = self.limits.logical_block_bytes as usize;
        let Some(memory) = Data::try_zeroed(bytes) else { return self.probed(path, Status::Resource, cx) };
        it.is_probed = true;
        it.counters.probes += 1;
        let read = Bio::new(Op::Read, Sector::ZERO, self.limits.block_sectors(), Payload::Data(memory));
        self.send_own(path, read, Purpose::Probe, cx);
    }

    /// A path works again if the disk has answered, with whatever.
    fn probed(&mut self, path: usize, status: Status, cx: &mut Cx<'_>) {
        let it = &mut self.paths[path];
        it.is_probed = false;
        let Health::Failed(Probing { pause, .. }) = it.health else { return };
        if !status.is_path_error() && status != Status::Resource {
            it.health = Health::Live;
            return self.changed(cx);
        }
        self.probe_later(path, Duration(pause.0 * 2).min(self.options.probe.max(FIRST_PROBE)), cx);
    }

    /// Has a bio that came back from a path wait until it is settled.
    fn await_silence(&mut self, path: usize, job: Job, cx: &mut Cx<'_>) {
        let Path { device, silence, .. } = self.paths[path];
        let question = self.unsettled.push(path, job, cx.now());
        let time = match silence {
            Silence::AtOnce => return self.settle(path, cx),
            Silence::After(time) => Some(time),
            Silence::Told => self.options.silence_timeout.filter(|_| !self.guards.gone().silence_unbounded),
        };
        time.into_iter().for_each(|time| cx.wake_at(cx.now() + time, TIME_IS_OVER));
        cx.tell_path(device, PathEvent::AskSilence { by: cx.me(), question });
    }

    /// A path has answered a question.
    pub(super) fn answered(&mut self, path: usize, question: u64, cx: &mut Cx<'_>) {
        let any = self.guards.gone().kicked_early;
        while let Some(job) = self.unsettled.take_answered(path, question, any) {
            self.settled(job, cx);
        }
    }

    /// Takes what a path gave up for settled.
    pub(super) fn settle_all(&mut self, path: usize, cx: &mut Cx<'_>) {
        while let Some(job) = self.unsettled.take_over(path, Silence::AtOnce, cx.now()) {
            self.settled(job, cx);
        }
    }

    /// The time of some commands of a path is over: these are done or not, for good. Of a path that states no time and does not answer
    /// that is not known, and nothing is sent again.
    pub(super) fn settle(&mut self, path: usize, cx: &mut Cx<'_>) {
        let silence = self.paths[path].silence;
        while let Some(job) = self.unsettled.take_over(path, silence, cx.now()) {
            self.settled(job, cx);
        }
        let Some(longest) = self.options.silence_timeout.filter(|_| silence == Silence::Told) else { return };
        if self.guards.gone().silence_unbounded {
            return;
        }
        while let Some(job) = self.unsettled.take_older(path, longest, cx.now()) {
            self.counters.unsettled += 1;
            cx.fail(job.restored(), Reason::Uncertain);
        }
    }

    /// What a path gave up is done or not, for good.
    fn settled(&mut self, mut job: Job, cx: &mut Cx<'_>) {
        match job.bio.op {
            Op::ZoneAppend if !self.options.may_double_appends => {
                self.counters.uncertain_appends += 1;
                return cx.fail(job.restored(), Reason::Uncertain);
            }
            Op::ZoneAppend => self.counters.doubled_appends += 1,
            _ => job.may_be_done = self.writes_at_pointer(&job),
        }
        self.dispatch(job, cx);
    }

    fn is_unawaited(&self, job: &Job) -> bool {
        let gone = self.guards.gone();
        match job.bio.op {
            Op::ZoneAppend => gone.appends_unawaited,
            Op::Write | Op::WriteZeroes if self.writes_at_pointer(job) => gone.zone_writes_unawaited,
            Op::Write | Op::WriteZeroes => gone.overwrites_unawaited,
            Op::ZoneReset | Op::ZoneResetAll => gone.resets_unawaited,
            _ => false,
        }
    }

    /// Whether it writes to a sequential zone, where what is done of it moves a pointer.
    fn writes_at_pointer(&self, job: &Job) -> bool {
        let is_write = matches!(job.bio.op, Op::Write | Op::WriteZeroes) && !self.guards.gone().pointers_unasked;
        is_write && self.is_in_sequential_zone(job.sector)
    }

    /// Asks on a path for the pointer of the zone of a write.
    pub(super) fn look(&mut self, path: usize, job: Job, cx: &mut Cx<'_>) {
        let zone_sectors = self.limits.zoned.as_ref().map_or(1, |zoned| u64::from(zoned.zone_sectors));
        let start = Sector(job.sector.0 / zone_sectors * zone_sectors);
        let report = Bio::new(Op::ReportZones, start, 0, Payload::Zones(Vec::with_capacity(1)));
        self.send_own(path, report, Purpose::Look(job), cx);
    }

    /// A zone is written up to `end`: what of the write is not done is sent.
    fn looked(&mut self, mut job: Job, end: u64, cx: &mut Cx<'_>) {
        job.may_be_done = false;
        let done = end.saturating_sub(job.sector.0).min(job.bio.sectors.into()) as u32;
        if done == 0 {
            return self.dispatch(job, cx);
        }
        if done == job.bio.sectors {
            return self.secure(job, cx);
        }
        let losses = job.losses;
        let (front, rest) = cx.split(job.restored(), done);
        self.secure(Job::new(front, losses), cx);
        self.dispatch(Job::new(rest, losses), cx);
    }

    /// Acknowledges a write that was found done; it is not known how durable it is.
    fn secure(&mut self, mut job: Job, cx: &mut Cx<'_>) {
        if !job.bio.flags.has(Flags::FUA) || !self.limits.write_cache {
            return cx.complete(job.restored(), Status::Ok);
        }
        let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        // The path that told may have failed meanwhile.
        match self.choose(&flush, cx) {
            Some(path) => self.send_own(path, flush, Purpose::Secure(job), cx),
            None => {
                job.may_be_done = true;
                self.wait(job, cx);
            }
        }
    }

    /// A bio of the head's own is back.
    pub(super) fn handle_own(&mut self, path: usize, purpose: Purpose, done: (Box<Bio>, Status), cx: &mut Cx<'_>) {
        let (bio, status) = done;
        let is_path_error = self.options.rules.is_path_error(&bio, status);
        let end = match &bio.payload {
            Payload::Zones(zones) if status.is_ok() => zones.first().map(|zone| zone.written_up_to().0),
            _ => None,
        };
        cx.recycle(bio);
        let (is_look, mut job) = match purpose {
            Purpose::Probe => return self.probed(path, status, cx),
            Purpose::Look(job) => (true, job),
            Purpose::Secure(job) => (false, job),
        };
        if is_path_error {
            self.fail_path(path, cx);
            job.may_be_done = true;
            return self.dispatch(job, cx);
        }
        let Some(job) = self.still_valid(job, cx) else { return };
        match end {
            Some(end) if is_look => self.looked(job, end, cx),
            _ if !is_look && status.is_ok() => cx.complete(job.restored(), Status::Ok),
            _ => cx.fail(job.restored(), Reason::Uncertain),
        }
    }

    /// Time has passed.
    pub(super) fn check(&mut self, cx: &mut Cx<'_>) {
        (0..self.paths.len()).for_each(|path| self.settle(path, cx));
        let mut is_any = false;
        for it in &mut self.paths {
            if it.change_ends.take_if(|at| *at <= cx.now()).is_some() {
                (it.state, is_any) = (AnaState::Inaccessible, true);
            }
        }
        if is_any {
            self.changed(cx);
        }
        self.fail_if_lost(cx);
        (0..self.paths.len()).for_each(|path| self.let_go(path));
    }
}
