//! The disk as a device of a stack.
//!
//! Whatever changes a sequential zone goes through the zone's lane: one at a time, in the order of arrival, each judged
//! by the state that the one before it left. So a write is in its place or it is refused, a failed one cannot be overtaken
//! by its successors, and a reset never meets a write. Under a plug the lanes are empty. Reads and conventional zones
//! need no order and have no lane.

mod data;
mod files;
mod learn;
mod presence;
mod report;
mod resize;
mod sync;
mod zeroes;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::time;

use rustix::fs::OFlags;
use shingle_core::block::{Bio, BlockDevice, Cx, Event, Flags, Limits, Op, Payload, Reason, Status};
use shingle_core::time::Instant;
use shingle_core::zone::{Action, ZoneError, ZoneKind, ZoneNo, ZonedDisk};
use shingle_sys::{Answer, Fd, FileStatus, Request, RingHandle};
use slab::Slab;

use super::directory::{Directory, Lock, zone_name};
use super::error::ZonedDirError;
use super::fd_cache::FdCache;
use super::flush::{Flush, Next, Round};
use super::load::load;
use super::presence::{FileId, Names};
use super::shape::Shape;
use crate::disk::FileBudget;
use crate::disk::files::{FilesHandle, machine};
use crate::disk::overdue::{Overdue, TIMEOUT, Watch};
use crate::disk::transfer::{Alignment, ENOBUFS, Zeroes, reason_of, take_back, was_interrupted, way_of};
use crate::disk::unanswered::{Epoch, Unanswered, flushes};
use crate::shard::device_token;
use crate::tally::Tally;
use files::{Closing, Opening};
use presence::NamesCheck;

/// How to open a disk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The geometry of a disk that has no geometry file because zloop made it.
    pub geometry: Option<Shape>,
    /// Whether data goes past the page cache, if the file system can do that for this block size.
    pub direct: bool,
    /// Whether everything that changes it is refused. Several programs may have a disk open so, and nothing is mended.
    pub read_only: bool,
    /// Most zone files that are open without I/O in flight. All disks together keep to what the process may have open as well.
    pub most_files: usize,
    /// After this time a command that the kernel has not answered is told of.
    pub timeout: time::Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { geometry: None, direct: false, read_only: false, most_files: 256, timeout: TIMEOUT }
    }
}

/// A zoned disk in a directory, open and locked.
pub struct ZonedDir {
    directory: Directory,
    limits: Limits,
    zones: ZonedDisk,
    block_bytes: u32,
    direct: Option<Alignment>,
    files: FdCache,
    /// Files that are being opened.
    opening: HashMap<ZoneNo, Opening>,
    closing: Vec<Closing>,
    ring: RingHandle,
    /// Requests in the kernel that are the disk's own, and no bio's.
    requests: u64,
    jobs: Slab<ZoneJob>,
    /// The lanes that are not empty.
    lanes: HashMap<ZoneNo, Lane>,
    /// Jobs whose turn has come.
    ready: VecDeque<usize>,
    flush: Flush<usize>,
    unanswered: Unanswered,
    /// How the syncs of a round of flushes went that is answered after a look at the names.
    answering: Option<Status>,
    /// Sizes of files that jobs have asked for after a failure.
    learning: HashMap<usize, Answer<FileStatus>>,
    /// Jobs whose flush waits for earlier changes.
    parked: Vec<usize>,
    watch: Watch,
    /// What was done.
    tally: Tally,
    /// The time of this call.
    now: Instant,
    /// When names are looked at again of which nobody can tell whether they have changed.
    next_look: Instant,
    /// Zeroes to write where the file system cannot make them; empty until they are needed.
    zeroes: Zeroes,
    notices: VecDeque<String>,
    /// Which file each zone has had from the beginning.
    identities: Box<[FileId]>,
    names: Names,
    names_check: NamesCheck,
}

/// Jobs of one zone, linked by [`ZoneJob::next`].
struct Lane {
    /// The one whose turn it is.
    first: usize,
    last: usize,
}

/// Something that takes more than one call.
struct ZoneJob {
    work: Work,
    zone: ZoneNo,
    step: Step,
    /// When it came.
    since: Instant,
    epoch: Epoch,
    in_lane: bool,
    /// The next job of the lane.
    next: Option<usize>,
    /// The zone's file, kept open while something is in flight.
    file: Option<Fd>,
    /// Where in the file the bio's data begins, in bytes.
    at: u64,
    /// Bytes that are done.
    skip: usize,
}

enum Work {
    /// A bio; its payload is away while the kernel has it.
    Bio(Box<Bio>),
    /// The reset of one zone, for the job that resets all.
    PartOf(usize),
}

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its turn in the lane.
    Turn,
    /// Changes that came before its flush. Afterwards it is the flush.
    Settle,
    /// A flush. Afterwards it is its turn, or it is done.
    Flush,
    /// Its turn, after the flush that it asked for.
    Flushed,
    /// The kernel: the open file.
    Open,
    /// The kernel: data that is read or written.
    Transfer,
    /// The kernel: zeroes that are written block by block.
    Zeroes,
    /// The kernel: a change of the file's size or blocks that makes zeroes.
    Space,
    /// The kernel: the file's new size.
    Resize,
    /// The kernel: the sync that makes a change without data durable.
    Sync,
    /// The kernel: the size of the file, for a report.
    Report,
    /// A look at the names: what a durable write promises.
    Names,
    /// The kernel: the size of the file after a failure with this status.
    Learn { status: Status },
    /// The kernel: the end of a partial block that is cut off.
    Cut { len: u64, status: Status },
    /// Its parts: where to look for the next zone, how many parts are under way, and how it went so far.
    Parts { cursor: u32, under_way: u32, status: Status },
}

impl Step {
    /// Whether a change of the zone has been allowed, and its bytes are not all in the file.
    fn is_changing(self) -> bool {
        matches!(
            self,
            Self::Open
                | Self::Transfer
                | Self::Zeroes
                | Self::Space
                | Self::Sync
                | Self::Learn { .. }
                | Self::Cut { .. }
        )
    }
}

/// Marks the words of syncs; the rest of the word is round and zone.
const SYNC: u64 = 1 << 63;
/// Marks the words of files that are opened; the rest is the zone.
const OPEN: u64 = 1 << 62;
/// Marks the words of looks at names; the rest is the zone.
const LOOK: u64 = 1 << 61;
/// The word of files that are closed. Words without a mark are jobs.
const CLOSE: u64 = 1 << 60;
/// Most notices that are kept for the next one to ask.
const MOST_NOTICES: usize = 64;

/// Opens the disk in `path` as a device whose I/O goes through `ring`. The disk stays locked until the device is dropped.
pub fn open(path: &Path, options: &Options, ring: RingHandle) -> Result<ZonedDir, ZonedDirError> {
    open_on(machine(), path, options, ring)
}

/// The same on other files than the machine's; the ring knows these files, too.
pub fn open_on(
    files: FilesHandle,
    path: &Path,
    options: &Options,
    ring: RingHandle,
) -> Result<ZonedDir, ZonedDirError> {
    let lock = if options.read_only { Lock::Shared } else { Lock::Exclusive };
    let mut loaded = load(files, path, options.geometry.as_ref(), lock)?;
    let notices = loaded.notices().into();
    if !options.read_only {
        // A daemon that was killed may have left changes that are in no cache of this one, so no flush would find them.
        loaded.directory.sync()?;
        loaded.mend()?;
    }
    let shape = loaded.shape;
    let direct = if options.direct { alignment(&loaded.directory, &shape) } else { None };
    Ok(ZonedDir {
        limits: Limits { read_only: options.read_only, ..shape.device_limits() },
        block_bytes: shape.block_bytes,
        direct,
        files: FdCache::new(options.most_files, FileBudget::of_process()),
        opening: HashMap::new(),
        closing: Vec::new(),
        ring,
        requests: 0,
        jobs: Slab::with_capacity(256),
        lanes: HashMap::with_capacity(256),
        ready: VecDeque::with_capacity(256),
        flush: Flush::new(shape.zones.zones()),
        unanswered: Unanswered::new(),
        answering: None,
        learning: HashMap::new(),
        parked: Vec::with_capacity(16),
        watch: Watch::new(options.timeout),
        tally: Tally::default(),
        now: Instant::ZERO,
        next_look: Instant::ZERO,
        zeroes: Zeroes::default(),
        notices,
        zones: loaded.zones,
        directory: loaded.directory,
        identities: loaded.identities,
        names: loaded.names,
        names_check: NamesCheck::default(),
    })
}

/// What direct I/O needs here; `None` if it cannot do the disk's blocks.
fn alignment(directory: &Directory, shape: &Shape) -> Option<Alignment> {
    let name = zone_name(&shape.zones, ZoneNo(0));
    let file = directory.open_file(&name, OFlags::RDWR | OFlags::DIRECT).ok()?;
    Alignment::of(&*directory.files, &file).filter(|alignment| shape.block_bytes.is_multiple_of(alignment.offset))
}

impl BlockDevice for ZonedDir {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.now = cx.now();
        let zone = match self.zones.zone_at(bio.sector) {
            Ok(zone) => zone,
            // Operations on the whole disk have no address.
            Err(_) if matches!(bio.op, Op::Flush | Op::ZoneResetAll | Op::ReportZones) => ZoneNo(0),
            Err(error) => {
                let fault = self.zones.fault(bio.sector, error);
                return cx.fail(bio, fault);
            }
        };
        match bio.op {
            Op::ReportZones if !self.asks_for_pointer(&bio, zone) => {
                Self::report(&self.zones, &mut bio);
                cx.complete(bio, Status::Ok);
            }
            Op::Discard => cx.fail(bio, Reason::NotSupported),
            op if matches!(op, Op::Flush | Op::ZoneResetAll | Op::Read)
                || self.zones.geometry().kind(zone) == ZoneKind::Conventional =>
            {
                let job = self.job(Work::Bio(bio), zone, false);
                self.ready.push_back(job);
            }
            _ if bio.flags.has(Flags::NOWAIT) && self.lanes.contains_key(&zone) => {
                cx.fail(bio, Reason::WouldWait("its zone is changing"));
            }
            _ => self.enter_lane(Work::Bio(bio), zone),
        }
        self.run(cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Event::Done { word, result, payload } = event else { return };
        self.now = cx.now();
        let number = word as u32;
        self.requests -= u64::from(word & (SYNC | OPEN | LOOK | CLOSE) != 0);
        match word & (SYNC | OPEN | LOOK | CLOSE) {
            SYNC => self.synced((ZoneNo(number), Round(word >> 32 & 1 != 0)), result, cx),
            OPEN => self.opened(ZoneNo(number), result, cx),
            LOOK => self.looked(number, result, cx),
            CLOSE => {}
            _ => self.continue_job(word as usize, result, payload, cx),
        }
        self.run(cx);
    }

    fn requests(&self) -> u64 {
        self.requests
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.bios().for_each(|(_, bio)| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let how = if self.direct.is_some() { "direct" } else { "buffered" };
        let (zones, files) = (self.zones.geometry(), self.files.len());
        let (path, number, sectors) = (self.directory.path.display(), zones.zones(), zones.zone_sectors());
        write!(out, "zoned-dir {path} zones={number} zone_sectors={sectors}")?;
        write!(out, " conventional={} block_bytes={} {how} open_files={files}", zones.conventional(), self.block_bytes)
    }
}

impl ZonedDir {
    /// The zones as they are now.
    #[must_use]
    pub fn zones(&self) -> &ZonedDisk {
        &self.zones
    }

    /// Whether data goes past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Begins to look whether the zones' files are all there, and looks whether commands are answered; returns what there is to say since the
    /// last time. To be called now and then.
    pub fn check(&mut self, now: Instant, cx: &mut Cx<'_>) -> Vec<String> {
        self.now = now;
        self.check_names(cx);
        if let Some(text) = self.watch.tell(self.overdue(now)) {
            self.say(text);
        }
        self.take_notices()
    }

    /// The commands that are overdue.
    #[must_use]
    pub fn overdue(&self, now: Instant) -> Option<Overdue> {
        self.watch.overdue(self.bios(), now)
    }

    /// Those that are here, each since it came.
    fn bios(&self) -> impl Iterator<Item = (Instant, &Bio)> {
        self.jobs.iter().filter_map(|(_, job)| match &job.work {
            Work::Bio(bio) => Some((job.since, &**bio)),
            Work::PartOf(_) => None,
        })
    }

    /// What was done so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Takes out what an administrator should know: what opening mended, and failures since, the newest 64.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.notices.drain(..).collect()
    }

    fn notice(&mut self, zone: ZoneNo, what: impl fmt::Display) {
        self.say(self.about(zone, what));
    }

    fn about(&self, zone: ZoneNo, what: impl fmt::Display) -> String {
        let path = self.directory.path_of(&zone_name(self.zones.geometry(), zone));
        format!("{}: {what}", path.display())
    }

    fn say(&mut self, notice: String) {
        if self.notices.len() == MOST_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }
}

/// Jobs and lanes.
impl ZonedDir {
    fn job(&mut self, work: Work, zone: ZoneNo, in_lane: bool) -> usize {
        let epoch = match &work {
            Work::Bio(bio) => self.unanswered.comes(bio),
            Work::PartOf(_) => self.unanswered.change(),
        };
        let (step, since) = (Step::Turn, self.now);
        self.jobs.insert(ZoneJob { work, zone, step, since, epoch, in_lane, next: None, file: None, at: 0, skip: 0 })
    }

    fn enter_lane(&mut self, work: Work, zone: ZoneNo) {
        let job = self.job(work, zone, true);
        match self.lanes.entry(zone) {
            Entry::Occupied(mut lane) => {
                let before = std::mem::replace(&mut lane.get_mut().last, job);
                self.jobs[before].next = Some(job);
            }
            Entry::Vacant(lane) => {
                lane.insert(Lane { first: job, last: job });
                self.ready.push_back(job);
            }
        }
    }

    /// Starts every job whose turn has come, and syncs. Jobs that end here make room for others, so this is a loop.
    fn run(&mut self, cx: &mut Cx<'_>) {
        loop {
            while let Some(job) = self.ready.pop_front() {
                self.start(job, cx);
            }
            if self.answering.is_some() {
                return;
            }
            match self.flush.next() {
                Next::Sync(zone, round) => self.sync(zone, round, cx),
                Next::Answer(status) => self.answer(status, cx),
                Next::Wait | Next::Idle => return,
            }
        }
    }

    fn start(&mut self, job: usize, cx: &mut Cx<'_>) {
        if let Err(reason) = self.begin(job, cx) {
            self.fail(job, reason, cx);
        }
    }

    /// Has a job do what it is for; an error is why it fails.
    fn begin(&mut self, job: usize, cx: &mut Cx<'_>) -> Result<(), Reason> {
        let ZoneJob { work, zone, step, .. } = &self.jobs[job];
        let (zone, step) = (*zone, *step);
        let bio = match work {
            Work::PartOf(_) => return self.reset_part(job, zone, cx),
            Work::Bio(bio) => bio,
        };
        match bio.op {
            _ if step == Step::Turn && flushes(bio) => {
                self.jobs[job].step = Step::Settle;
                self.parked.push(job);
                self.let_flushes_go();
            }
            Op::Read => self.read(job, zone, cx)?,
            Op::Write | Op::ZoneAppend | Op::WriteZeroes => self.write(job, zone, cx)?,
            Op::ZoneOpen => {
                let done = self.zones.open(zone);
                self.end(job, done, cx);
            }
            Op::ZoneClose => {
                let done = self.zones.close(zone);
                self.end(job, done, cx);
            }
            Op::ZoneFinish => self.resize(job, zone, Action::Finish, cx)?,
            Op::ZoneReset => self.resize(job, zone, Action::Reset, cx)?,
            Op::ZoneResetAll => self.reset_all(job, cx),
            Op::ReportZones => self.ask_for_pointer(job, zone, cx),
            Op::Flush | Op::Discard => unreachable!("they end before"),
        }
        Ok(())
    }

    /// Lets those flushes go on that no earlier change keeps.
    fn let_flushes_go(&mut self) {
        let Self { parked, jobs, flush, unanswered, .. } = self;
        parked.retain(|job| {
            let keep = !unanswered.is_settled(jobs[*job].epoch);
            if !keep {
                jobs[*job].step = Step::Flush;
                flush.wait(*job);
            }
            keep
        });
    }

    /// The kernel is done with a job's request.
    fn continue_job(&mut self, job: usize, result: i32, lent: Payload, cx: &mut Cx<'_>) {
        if let ZoneJob { work: Work::Bio(bio), step: Step::Transfer, .. } = &mut self.jobs[job] {
            take_back(&mut bio.payload, lent, way_of(bio.op));
        }
        let again = was_interrupted(result);
        match self.jobs[job].step {
            Step::Transfer if again => self.transfer(job, cx),
            Step::Transfer => self.transferred(job, result, cx),
            Step::Zeroes if again => self.write_zeroes(job, cx),
            Step::Zeroes => self.zeroes_written(job, result, cx),
            Step::Space if again => self.make_zeroes(job, cx),
            Step::Space => self.zeroes_made(job, result, cx),
            Step::Resize if again => self.set_size(job, cx),
            Step::Resize => self.resized(job, result, cx),
            Step::Sync if again => self.sync_job(job, cx),
            Step::Sync => self.job_synced(job, result, cx),
            Step::Report if again => self.ask_for_pointer(job, self.jobs[job].zone, cx),
            Step::Report => self.pointer_found(job, cx),
            Step::Learn { status } if again => self.ask_for_size(job, status, cx),
            Step::Learn { status } => self.size_learned(job, status, cx),
            Step::Cut { len, status } if again => self.cut(job, len, status, cx),
            Step::Cut { len, status } => {
                self.write_pointer_learned(job, Some(len).filter(|_| result >= 0), status, cx);
            }
            step @ (Step::Turn
            | Step::Open
            | Step::Names
            | Step::Settle
            | Step::Flush
            | Step::Flushed
            | Step::Parts { .. }) => {
                unreachable!("a job that waits for {step:?} has nothing in the kernel")
            }
        }
    }

    fn finish(&mut self, job: usize, status: Status, cx: &mut Cx<'_>) {
        let ZoneJob { work, zone, in_lane, next, epoch, since, .. } = self.jobs.remove(job);
        match next {
            Some(next) => {
                self.lanes.entry(zone).and_modify(|lane| lane.first = next);
                self.ready.push_back(next);
            }
            None if in_lane => drop(self.lanes.remove(&zone)),
            None => (),
        }
        let settles = match &work {
            Work::Bio(bio) => self.unanswered.goes(bio, epoch),
            Work::PartOf(_) => self.unanswered.answered(epoch),
        };
        match work {
            Work::Bio(bio) => {
                self.tally.record(&bio, status, self.now.since(since));
                cx.complete(bio, status);
            }
            Work::PartOf(whole) => self.part_done(whole, status),
        }
        if settles {
            self.let_flushes_go();
        }
    }

    /// Ends a job that the rules of zones have judged.
    fn end(&mut self, job: usize, done: Result<(), ZoneError>, cx: &mut Cx<'_>) {
        match done {
            Ok(()) => self.finish(job, Status::Ok, cx),
            Err(error) => self.fail(job, self.refusal(self.jobs[job].zone, error), cx),
        }
    }

    /// Why a rule of `zone` forbids a job.
    fn refusal(&self, zone: ZoneNo, error: ZoneError) -> Reason {
        self.zones.fault(self.zones.geometry().start(zone), error).into()
    }

    /// Ends a job because of `reason`.
    fn fail(&mut self, job: usize, reason: Reason, cx: &mut Cx<'_>) {
        let status = self.blame(job, reason);
        self.finish(job, status, cx);
    }

    /// Notes why a job fails; of the parts of one the first that does counts. Returns the status.
    fn blame(&mut self, job: usize, reason: Reason) -> Status {
        let (whole, is_first) = match self.jobs[job].work {
            Work::PartOf(whole) => {
                let step = self.jobs[whole].step;
                (whole, matches!(step, Step::Parts { status, .. } if status.is_ok()))
            }
            Work::Bio(_) => (job, true),
        };
        match &mut self.jobs[whole].work {
            Work::Bio(bio) if is_first => bio.blame(reason),
            _ => Status::from(&reason),
        }
    }

    /// Why a system call on the file of `zone` failed.
    fn reason_of(&self, zone: ZoneNo, doing: &str, result: i32) -> Reason {
        reason_of(result, doing, &self.directory.path_of(&zone_name(self.zones.geometry(), zone)))
    }

    /// Hands a request to the ring under the job's name. One that it refuses is a failed one.
    fn ask(&mut self, job: usize, request: Request, cx: &mut Cx<'_>) {
        let Err(refused) = self.ring.submit(device_token(cx.me(), job as u64), request) else { return };
        self.continue_job(job, -ENOBUFS, refused.into_payload(), cx);
    }

    /// Hands a request of the disk's own to the ring.
    fn ask_for_disk(&mut self, word: u64, request: Request, cx: &mut Cx<'_>) -> Result<(), Request> {
        self.ring.submit(device_token(cx.me(), word), request)?;
        self.requests += 1;
        Ok(())
    }

    fn bio(&self, job: usize) -> &Bio {
        match &self.jobs[job].work {
            Work::Bio(bio) => bio,
            Work::PartOf(_) => unreachable!("parts of a reset move no data"),
        }
    }
}

#[cfg(test)]
mod tests {
    use shingle_core::time::Duration;
    use shingle_core::zone::ZoneGeometry;

    use super::*;
    use crate::disk::never_answers::{Answers, Stuck, bio, settle, submit};
    use crate::shard::Shard;

    /// Zone 1 never answers until `stuck` does.
    fn with_a_stuck_zone(name: &str, check: impl FnOnce(&mut Shard, shingle_core::block::DeviceId, Stuck)) {
        let path = std::env::temp_dir().join(format!("shingle-zoned-{name}-{}", std::process::id()));
        let shape = Shape::new(ZoneGeometry::new(40 * 2048, 2048, 2048, 0).unwrap());
        super::super::create(&path, &shape, &mut |_| ()).unwrap();
        let mut shard = Shard::new().unwrap();
        let mut disk = open(&path, &Options::default(), shard.ring()).unwrap();
        let (stuck, full) = Stuck::new();
        disk.files.insert(ZoneNo(1), Fd::from(full));
        let disk = shard.stack.add(Box::new(disk)).unwrap();
        check(&mut shard, disk, stuck);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_flush_waits_for_an_earlier_write_without_an_answer_and_the_write_is_told_of() {
        with_a_stuck_zone("flush", |shard, disk, mut stuck| {
            let answers = Answers::default();
            submit(shard, disk, bio(Op::Write, 4096), &answers);
            submit(shard, disk, bio(Op::Write, 2048), &answers);
            submit(shard, disk, bio(Op::Flush, 0), &answers);
            submit(shard, disk, bio(Op::Write, 6144).with_flags(Flags::PREFLUSH), &answers);
            submit(shard, disk, bio(Op::Write, 8192), &answers);
            settle(shard, 1);
            let expected = vec![(Op::Write, Status::Ok); 2];
            assert_eq!(*answers.borrow(), expected, "only the plain writes of other zones are answered");
            let later = shard.now() + Duration::from_millis(31_000);
            let told = shard.stack.with_device(disk, |disk: &mut ZonedDir, cx| disk.check(later, cx)).unwrap();
            let words = ["3 commands without an answer", "WRITE 2048+8 for 31 s", "FLUSH waits"];
            assert!(told.len() == 1 && words.iter().all(|word| told[0].contains(word)), "{told:?}");
            stuck.answer();
            shard.run_until(|_| answers.borrow().len() == 5).unwrap();
            assert_eq!(answers.borrow()[2], (Op::Write, Status::Ok), "the late answer counts");
            // The stand-in is no file that can be synced, so the flush that comes now cannot be well.
            assert_eq!(answers.borrow()[3].1, Status::Io);
        });
    }

    /// Its parts queue behind a write that waits for whatever came before: for the reset, if that counted as one change.
    #[test]
    fn a_reset_of_all_zones_and_a_preflush_behind_it_do_not_wait_for_each_other() {
        with_a_stuck_zone("reset", |shard, disk, _| {
            let answers = Answers::default();
            (2..40).for_each(|zone| submit(shard, disk, bio(Op::Write, zone * 2048), &answers));
            submit(shard, disk, bio(Op::ZoneResetAll, 0), &answers);
            (2..40).for_each(|zone| {
                submit(shard, disk, bio(Op::ZoneAppend, zone * 2048).with_flags(Flags::PREFLUSH), &answers);
            });
            submit(shard, disk, bio(Op::Flush, 0), &answers);
            shard.run_until(|_| answers.borrow().len() == 78).unwrap();
            assert!(answers.borrow().iter().all(|(_, status)| status.is_ok()), "{answers:?}");
        });
    }
}
