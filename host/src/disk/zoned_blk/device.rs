//! The disk as a device of a stack. It keeps no state of the zones: the disk has it, and the plug above keeps the order.
//!
//! ```text
//!   bio ── ring ──> kernel ── well ──> answered
//!     │                └── failed ──> helper: is the disk there, how is the zone? ──> answered with the reason
//!     └── zone management, reports ──> helper
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;
use shingle_core::block::{Bio, BlockDevice, Cx, Event, Flags, Limits, Op, Payload, Reason, Status, ZonedLimits};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::Instant;
use shingle_core::zone::{Zone, ZoneKind, ZoneNo};
use shingle_sys::zoned_block::ZoneCommand;
use shingle_sys::{Fd, Request, RingHandle};

use super::calls::Calls;
use super::verdict::{Verdict, judge};
use crate::disk::jobs::{InSteps, Job, Jobs};
use crate::disk::overdue::{Overdue, Watch};
use crate::disk::transfer::{Alignment, ENOBUFS, ENOMEM, Way, lend, reason_of, take_back, was_interrupted, way_of};
use crate::helper::{Helper, Work};
use crate::shard::device_token;
use crate::tally::Tally;

/// A zoned block device of the kernel, open and nobody else's.
pub struct ZonedBlk {
    path: PathBuf,
    file: Fd,
    calls: Arc<dyn Calls>,
    limits: Limits,
    zones: ZonedLimits,
    /// Whether the disk itself makes single writes durable.
    fua: bool,
    direct: Alignment,
    ring: RingHandle,
    helper: Helper,
    jobs: Jobs<Step>,
    /// Jobs whose call waits until the helper has room for one.
    in_line: VecDeque<usize>,
    watch: Watch,
    /// Why nothing is done any more: the disk is gone.
    gone: Option<Arc<str>>,
    /// Whether a flush has failed. One that goes well after it proves nothing: a disk tells only once what it has lost.
    flush_failed: bool,
    /// Failed writes of which is asked whether their flush has failed.
    doubts: u32,
    /// Jobs whose step relies on a flush and went well meanwhile, with the result: they end when none of those is left.
    doubted: Vec<(usize, i32)>,
    /// Why no change and no flush succeeds any more: what of the earlier ones is durable is unknown.
    lost: Option<Arc<str>>,
    notices: VecDeque<String>,
}

/// An open disk and what is known of it.
pub struct Parts {
    /// Where it was found.
    pub path: PathBuf,
    /// The disk, for the ring.
    pub file: Fd,
    /// The disk, for calls that block.
    pub calls: Arc<dyn Calls>,
    /// What it accepts. It has zones.
    pub limits: Limits,
    /// Whether it makes single writes durable by itself.
    pub fua: bool,
    /// What direct I/O needs, in bytes of memory and of the disk.
    pub alignment: (usize, u32),
    /// After this time a command that the kernel has not answered is told of.
    pub timeout: std::time::Duration,
}

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disk) enum Step {
    /// The flush before its data.
    Before,
    /// Data that is read or written.
    Transfer,
    /// The flush that it is.
    Flush,
    /// A write in its place that was refused, once more and by a call that blocks.
    Again,
    /// What is left of such a write.
    Rest,
    /// Another call that blocks: zone management or a report.
    Call,
    /// To know why the step before failed, which gave this.
    Verdict(Failed),
}

/// A failed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disk) struct Failed {
    errno: i32,
    was_flush: bool,
    was_second_try: bool,
}

/// Most notices that are kept for the next one to ask.
const MOST_NOTICES: usize = 64;
/// What a write gets that the kernel refuses, and one that the disk does: `EIO`, `EREMOTEIO`.
const REFUSED: [i32; 2] = [5, 121];
/// What is told to who asks about a disk that is gone: `ENODEV`, `ENXIO`.
const GONE: [i32; 2] = [19, 6];

impl ZonedBlk {
    /// The device over an open disk, which does its I/O on `ring` and what blocks in `helper`.
    ///
    /// # Panics
    /// If the limits are those of a disk without zones: the caller made them.
    #[must_use]
    pub fn new(parts: Parts, ring: RingHandle, helper: Helper) -> Self {
        let Parts { path, file, calls, limits, fua, alignment: (memory, offset), timeout } = parts;
        let zones = limits.zoned.clone().expect("the disk has zones");
        let (direct, watch) = (Alignment { memory, offset }, Watch::new(timeout));
        let (jobs, in_line, notices) = (Jobs::new(), VecDeque::with_capacity(256), VecDeque::new());
        let (gone, lost) = (None, None);
        let (flush_failed, doubts, doubted) = (false, 0, Vec::new());
        Self {
            path,
            file,
            calls,
            limits,
            zones,
            fua,
            direct,
            ring,
            helper,
            jobs,
            in_line,
            watch,
            gone,
            flush_failed,
            doubts,
            doubted,
            lost,
            notices,
        }
    }
}

impl BlockDevice for ZonedBlk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn takes_remote(&self, _: bool) -> bool {
        self.direct.suits_remote()
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if let Some(reason) = self.refusal(&bio) {
            return cx.fail(bio, reason);
        }
        match bio.op {
            Op::Flush => self.start(bio, Step::Flush, cx),
            Op::Write if bio.flags.has(Flags::PREFLUSH) => self.start(bio, Step::Before, cx),
            Op::Read | Op::Write => self.start(bio, Step::Transfer, cx),
            op if op.is_zone_management() || op == Op::ReportZones => self.start(bio, Step::Call, cx),
            _ => cx.fail(bio, Reason::NotSupported),
        }
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Event::Done { word, result, payload } = event else { return };
        let job = word as usize;
        let by_helper = matches!(self.jobs[job].step, Step::Again | Step::Call | Step::Verdict(_));
        self.done(job, result, payload, cx);
        if by_helper && let Some(next) = self.in_line.pop_front() {
            self.call(next, cx);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.jobs.bios().for_each(|(_, bio)| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (path, number, zones) = (self.path.display(), self.limits.zones(), &self.zones);
        write!(out, "zoned-blk {path} zones={number} zone_sectors={}", zones.zone_sectors)?;
        write!(out, " sequential={} block_bytes={}", zones.sequential_in(0..number), self.limits.logical_block_bytes)
    }
}

impl InSteps for ZonedBlk {
    type Step = Step;

    fn jobs(&mut self) -> &mut Jobs<Step> {
        &mut self.jobs
    }

    /// Asks for the next step of a job. A request that the ring refuses, or for which there is no memory, is a failed one.
    fn go(&mut self, job: usize, step: Step, cx: &mut Cx<'_>) {
        self.jobs[job].step = step;
        let request = match step {
            Step::Again | Step::Call | Step::Verdict(_) => return self.call(job, cx),
            Step::Before | Step::Flush => Some(Request::Sync { file: self.file.clone(), metadata: false }),
            Step::Transfer | Step::Rest => self.transfer(job),
        };
        let Some(request) = request else { return self.not_begun(job, -ENOMEM, cx) };
        if let Err(refused) = self.ring.submit(device_token(cx.me(), job as u64), request) {
            if matches!(step, Step::Transfer | Step::Rest) {
                let bio = &mut self.jobs[job].bio;
                take_back(&mut bio.payload, refused.into_payload(), way_of(bio.op));
            }
            self.not_begun(job, -ENOBUFS, cx);
        }
    }
}

/// What others ask.
impl ZonedBlk {
    /// Looks whether commands are answered; returns what there is to say. To be called now and then.
    pub fn check(&mut self, now: Instant) -> Vec<String> {
        let overdue = self.watch.tell(self.overdue(now));
        self.notices.drain(..).chain(overdue).collect()
    }

    /// What was done so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        self.jobs.tally()
    }

    /// The commands that are overdue.
    #[must_use]
    pub fn overdue(&self, now: Instant) -> Option<Overdue> {
        self.watch.overdue(self.jobs.bios(), now)
    }
}

/// Jobs, step by step.
impl ZonedBlk {
    /// Why `bio` is not even begun.
    fn refusal(&self, bio: &Bio) -> Option<Reason> {
        let host = |status, text: &Arc<str>| Reason::Host(status, text.clone());
        if let Some(gone) = &self.gone {
            return Some(host(Status::Offline, gone));
        }
        self.lost.as_ref().filter(|_| bio.op.is_write()).map(|lost| host(Status::Io, lost))
    }

    fn zone_of(&self, sector: Sector) -> ZoneNo {
        ZoneNo((sector.0 / u64::from(self.zones.zone_sectors)) as u32)
    }

    fn is_sequential(&self, sector: Sector) -> bool {
        let zone = self.zone_of(sector).0;
        self.zones.sequential_in(zone..zone + 1) > 0
    }

    fn transfer(&mut self, job: usize) -> Option<Request> {
        let Job { bio, skip, .. } = &mut self.jobs[job];
        let (file, at, skip) = (self.file.clone(), bio.sector.bytes(), *skip);
        let payload = lend(&mut bio.payload, Some(self.direct))?;
        Some(match way_of(bio.op) {
            Way::FromDisk => Request::Read { file, at, payload, skip },
            Way::ToDisk => Request::Write { file, at, payload, skip, durable: bio.flags.has(Flags::FUA) },
        })
    }

    /// Has the helper do what blocks, when there is room for it.
    fn call(&mut self, job: usize, cx: &mut Cx<'_>) {
        let Job { bio, step, .. } = &mut self.jobs[job];
        let memory = match step {
            Step::Verdict(_) => Some(Payload::Zones(Vec::with_capacity(1))),
            Step::Again => lend(&mut bio.payload, Some(self.direct)),
            _ => Some(std::mem::take(&mut bio.payload)),
        };
        let Some(memory) = memory else { return self.not_begun(job, -ENOMEM, cx) };
        let work = match self.jobs[job].step {
            Step::Verdict(_) => self.ask_for_zone(job),
            Step::Again => self.write_again(job),
            _ => self.work(job),
        };
        if let Err(memory) = self.helper.call(cx.me(), job as u64, memory, work) {
            let Job { bio, step, .. } = &mut self.jobs[job];
            match step {
                Step::Verdict(_) => {}
                Step::Again => take_back(&mut bio.payload, memory, Way::ToDisk),
                _ => bio.payload = memory,
            }
            self.in_line.push_back(job);
        }
    }

    /// Zone management, or a report.
    fn work(&self, job: usize) -> Work {
        let (calls, bio) = (self.calls.clone(), &self.jobs[job].bio);
        let (first, most) = (bio.sector, self.limits.capacity - bio.sector.0.min(self.limits.capacity));
        let command = match bio.op {
            Op::ZoneOpen => ZoneCommand::Open,
            Op::ZoneClose => ZoneCommand::Close,
            Op::ZoneFinish => ZoneCommand::Finish,
            Op::ZoneReset => ZoneCommand::Reset,
            Op::ZoneResetAll => {
                let all = self.limits.capacity;
                return Box::new(move |_| calls.manage(ZoneCommand::Reset, Sector::ZERO, all).map(|()| 0));
            }
            _ => return Box::new(move |memory| report(&*calls, first, memory)),
        };
        let sectors = most.min(self.zones.zone_sectors.into());
        Box::new(move |_| calls.manage(command, first, sectors).map(|()| 0))
    }

    /// Writes what is left of a refused write. The kernel may still have the pointer where it was before somebody else moved it: a report
    /// corrects it only after it has refused a write whose submitter waits (`block/blk-zoned.c:blk_zone_wplug_handle_write`), not one
    /// of the ring's, which it refuses later and alone.
    fn write_again(&self, job: usize) -> Work {
        let (calls, Job { bio, skip, .. }) = (self.calls.clone(), &self.jobs[job]);
        let (at, skip, durable, first) = (bio.sector.bytes(), *skip, bio.flags.has(Flags::FUA), self.zone_start(bio));
        Box::new(move |memory| {
            let copy = memory.fetched().map_err(|status| io::Error::from_raw_os_error(status.errno()))?;
            let memory = copy.as_ref().unwrap_or(memory);
            let write = || calls.write(at, (memory, skip), durable);
            let written = write().or_else(|error| {
                if !error.raw_os_error().is_some_and(|errno| REFUSED.contains(&errno)) {
                    return Err(error);
                }
                calls.report(first, &mut Vec::with_capacity(1))?;
                write()
            })?;
            Ok(written as i32)
        })
    }

    fn zone_start(&self, bio: &Bio) -> Sector {
        Sector(bio.sector.0 - bio.sector.0 % u64::from(self.zones.zone_sectors))
    }

    /// Looks at the disk, and then at the zone of a failed job.
    fn ask_for_zone(&self, job: usize) -> Work {
        let (calls, capacity) = (self.calls.clone(), self.limits.capacity);
        let first = self.zone_start(&self.jobs[job].bio);
        Box::new(move |memory| {
            if calls.sectors()? < capacity {
                return Err(Errno::NODEV.into());
            }
            report(&*calls, first, memory)
        })
    }

    fn done(&mut self, job: usize, result: i32, memory: Payload, cx: &mut Cx<'_>) {
        let Job { bio, step, .. } = &mut self.jobs[job];
        match *step {
            Step::Transfer | Step::Again | Step::Rest => take_back(&mut bio.payload, memory, way_of(bio.op)),
            Step::Call => bio.payload = memory,
            Step::Verdict(failed) => return self.judged(job, failed, (result, memory), cx),
            Step::Before | Step::Flush => {}
        }
        self.ended(job, result, cx);
    }

    fn ended(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        let (step, was_flushed) = (self.jobs[job].step, self.was_flushed(job));
        match (step, result) {
            _ if was_interrupted(result) => self.go(job, step, cx),
            (_, 0..) if was_flushed && self.flush_failed => self.failed(job, Step::Flush, result, cx),
            (_, 0..) if was_flushed && self.doubts > 0 => self.doubted.push((job, result)),
            (Step::Transfer | Step::Again | Step::Rest, 1..) => {
                let Job { bio, skip, .. } = &mut self.jobs[job];
                *skip += result as usize;
                let rest = if step == Step::Transfer { step } else { Step::Rest };
                let is_whole = *skip == bio.payload.bytes();
                if is_whole { self.finish(job, Status::Ok, cx) } else { self.go(job, rest, cx) }
            }
            (Step::Before, 0) => self.go(job, Step::Transfer, cx),
            (Step::Flush | Step::Call, 0) => self.finish(job, Status::Ok, cx),
            _ => self.failed(job, step, result, cx),
        }
    }

    /// Whether the step of a job ends with a flush. The kernel sends one behind data for want of FUA.
    fn was_flushed(&self, job: usize) -> bool {
        let Job { bio, step, .. } = &self.jobs[job];
        matches!(step, Step::Before | Step::Flush) || self.has_flush_behind(bio)
    }

    fn has_flush_behind(&self, bio: &Bio) -> bool {
        bio.op == Op::Write && bio.flags.has(Flags::FUA) && !self.fua
    }

    /// The ring took nothing, so the disk knows of nothing.
    fn not_begun(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        self.fail(job, reason_of(result, "asking the kernel for I/O on", &self.path), cx);
    }

    /// A step failed: why is asked before anybody hears of it, so that the zone can be written again when they do.
    fn failed(&mut self, job: usize, step: Step, result: i32, cx: &mut Cx<'_>) {
        let errno = if result < 0 { -result } else { Errno::IO.raw_os_error() };
        let was_flush = matches!(step, Step::Before | Step::Flush);
        let was_second_try = matches!(step, Step::Again | Step::Rest);
        self.flush_failed |= was_flush;
        match self.gone.clone() {
            Some(gone) => self.fail(job, Reason::Host(Status::Offline, gone), cx),
            None => {
                self.doubts += u32::from(!was_flush && self.has_flush_behind(&self.jobs[job].bio));
                self.go(job, Step::Verdict(Failed { errno, was_flush, was_second_try }), cx);
            }
        }
    }

    fn judged(&mut self, job: usize, failed: Failed, answer: (i32, Payload), cx: &mut Cx<'_>) {
        let was_doubt = !failed.was_flush && self.has_flush_behind(&self.jobs[job].bio);
        self.weigh(job, failed, answer, cx);
        self.doubts -= u32::from(was_doubt);
        if self.doubts == 0 {
            std::mem::take(&mut self.doubted).into_iter().for_each(|(job, result)| self.ended(job, result, cx));
        }
    }

    fn weigh(&mut self, job: usize, failed: Failed, (result, memory): (i32, Payload), cx: &mut Cx<'_>) {
        let zone = if let Payload::Zones(zones) = &memory { zones.first().copied() } else { None };
        let errno = failed.errno;
        if GONE.contains(&-result) || GONE.contains(&errno) {
            self.is_gone();
        }
        if let Some(gone) = self.gone.clone() {
            return self.fail(job, Reason::Host(Status::Offline, gone), cx);
        }
        if result == 0 && zone.is_some_and(|zone| self.deserves_another_try(job, failed, &zone)) {
            return self.go(job, Step::Again, cx);
        }
        let bio = &self.jobs[job].bio;
        let verdict = match zone {
            Some(zone) if !failed.was_flush && result == 0 => {
                let end = if bio.sectors > 0 { bio.sector.0 + u64::from(bio.sectors) } else { zone.start.0 + zone.len };
                judge(bio.op, &(bio.sector.0..end), errno, &zone)
            }
            _ => Verdict::unknown(errno),
        };
        let reason = self.conclude(job, failed, verdict, zone);
        self.fail(job, reason, cx);
    }

    /// Whether a failed write was in its place and nothing of it was done. Then perhaps only the kernel has the pointer elsewhere: somebody
    /// else has reset the zone past it.
    fn deserves_another_try(&self, job: usize, failed: Failed, zone: &Zone) -> bool {
        let (Job { bio, skip, .. }, Failed { errno, was_flush, was_second_try }) = (&self.jobs[job], failed);
        let next = bio.sector + *skip as u64 / u64::from(SECTOR_BYTES);
        let is_in_place = zone.kind == ZoneKind::Sequential && zone.cond.has_write_pointer() && zone.wp == next;
        bio.op == Op::Write && is_in_place && !was_second_try && !was_flush && REFUSED.contains(&errno)
    }

    /// What a verdict on a job means for the disk, and the reason that the bio gets.
    fn conclude(&mut self, job: usize, failed: Failed, verdict: Verdict, zone: Option<Zone>) -> Reason {
        let (Job { bio, skip, .. }, path) = (&self.jobs[job], self.path.display());
        let next = bio.sector + *skip as u64 / u64::from(SECTOR_BYTES);
        // Some of the data is there, so what failed may be the flush that the kernel sent behind that for want of FUA.
        let flush_of_fua =
            self.has_flush_behind(bio) && zone.is_none_or(|zone| zone.wp > next || !self.is_sequential(bio.sector));
        let text: Arc<str> = match bio.op {
            _ if failed.was_flush => format!("flushing {path}: {}", verdict.text),
            Op::ReportZones | Op::ZoneResetAll => format!("{path}: {}", verdict.text),
            _ => format!("{path}, zone {}: {}", self.zone_of(bio.sector), verdict.text),
        }
        .into();
        if failed.was_flush || flush_of_fua {
            self.flush_failed = true;
            let why = self.lost.clone().unwrap_or_else(|| self.has_lost(&text));
            return Reason::Host(verdict.status, why);
        }
        if verdict.is_touched {
            self.say(text.to_string());
        }
        Reason::Host(verdict.status, text)
    }

    /// Nobody knows any more what is durable.
    fn has_lost(&mut self, text: &str) -> Arc<str> {
        let why: Arc<str> =
            format!("{text}; a cache that was not flushed may have lost data: open the disk again").into();
        self.say(why.to_string());
        self.lost.insert(why).clone()
    }

    /// Nothing can be asked of the disk any more.
    fn is_gone(&mut self) {
        if self.gone.is_none() {
            let text = format!(
                "{}: the disk is gone: it was pulled out, or the kernel has given it up; see the kernel log, and open it \
                 again when it is back",
                self.path.display()
            );
            self.gone = Some(text.as_str().into());
            self.say(text);
        }
    }

    fn say(&mut self, notice: String) {
        if self.notices.len() == MOST_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }
}

/// Fills the memory of a report.
fn report(calls: &dyn Calls, from: Sector, memory: &mut Payload) -> io::Result<i32> {
    let Payload::Zones(zones) = memory else { return Err(Errno::INVAL.into()) };
    calls.report(from, zones).map(|()| 0)
}
