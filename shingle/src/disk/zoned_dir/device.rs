//! The disk as a device of a stack.
//!
//! Whatever changes a sequential zone goes through the zone's lane: one at a time, in the order of arrival, each judged
//! by the state that the one before it left. So a write is in its place or it is refused, a failed one cannot be overtaken
//! by its successors, and a reset never meets a write. Under a plug the lanes are empty. Reads and conventional zones
//! need no order and have no lane.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::Path;

use rustix::fs::{OFlags, fstat, ftruncate};
use shingle_core::block::{Bio, BlockDevice, Cx, Data, Event, Flags, Limits, Op, Payload, Status};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{Action, Condition, ZoneKind, ZoneNo, ZonedDisk};
use shingle_sys::{Allocate, Fd, Request, RingHandle};
use slab::Slab;

use super::directory::{Directory, Lock, bytes, zone_name};
use super::error::ZonedDirError;
use super::fd_cache::FdCache;
use super::flush::{Flush, Next, Round};
use super::load::load;
use super::shape::Shape;
use crate::disk::transfer::{
    Alignment, ENOBUFS, Way, is_unsupported, lend, status_of, take_back, was_interrupted, way_of, zero_from,
};
use crate::shard::device_token;

/// How to open a disk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The geometry of a disk that has no geometry file because zloop made it.
    pub geometry: Option<Shape>,
    /// Whether data goes past the page cache, if the file system can do that for this block size.
    pub direct: bool,
    /// Most zone files that are open without I/O in flight.
    pub most_files: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { geometry: None, direct: false, most_files: 256 }
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
    ring: RingHandle,
    jobs: Slab<Job>,
    /// The last job of each lane that is not empty.
    lanes: HashMap<ZoneNo, usize>,
    /// Jobs whose turn has come.
    ready: VecDeque<usize>,
    flush: Flush<usize>,
    /// Zeroes to write where the file system cannot make them; empty until they are needed.
    zeroes: Option<Data>,
    notices: VecDeque<String>,
}

/// Something that takes more than one call.
struct Job {
    work: Work,
    zone: ZoneNo,
    step: Step,
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
    /// A flush. Afterwards it is its turn, or it is done.
    Flush,
    /// Its turn, after the flush that it asked for.
    Flushed,
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
    /// Its parts: where to look for the next zone, how many parts are under way, and how it went so far.
    Parts { cursor: u32, under_way: u32, status: Status },
}

/// Marks the words of syncs; the rest of the word is round and zone. Other words are jobs.
const SYNC: u64 = 1 << 63;
/// Most zones that a reset of all works on at once.
const MOST_PARTS: u32 = 16;
/// Bytes of zeroes that are written at once.
const ZEROES: usize = 1 << 20;
/// Most notices that are kept for the next one to ask.
const MOST_NOTICES: usize = 64;

/// Opens the disk in `path` as a device whose I/O goes through `ring`. The disk stays locked until the device is dropped.
pub fn open(path: &Path, options: &Options, ring: RingHandle) -> Result<ZonedDir, ZonedDirError> {
    let mut loaded = load(path, options.geometry.as_ref(), Lock::Exclusive)?;
    let notices = loaded.notices().into();
    loaded.mend()?;
    let shape = loaded.shape;
    let direct = if options.direct { alignment(&loaded.directory, &shape) } else { None };
    Ok(ZonedDir {
        limits: shape.device_limits(),
        block_bytes: shape.block_bytes,
        direct,
        files: FdCache::new(options.most_files),
        ring,
        jobs: Slab::with_capacity(256),
        lanes: HashMap::with_capacity(256),
        ready: VecDeque::with_capacity(256),
        flush: Flush::new(shape.zones.zones()),
        zeroes: None,
        notices,
        zones: loaded.zones,
        directory: loaded.directory,
    })
}

/// What direct I/O needs here; `None` if it cannot do the disk's blocks.
fn alignment(directory: &Directory, shape: &Shape) -> Option<Alignment> {
    let name = zone_name(&shape.zones, ZoneNo(0));
    let file = directory.open_file(&name, OFlags::RDWR | OFlags::DIRECT).ok()?;
    Alignment::of(&file).filter(|alignment| shape.block_bytes.is_multiple_of(alignment.offset))
}

impl BlockDevice for ZonedDir {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        let zone = match self.zones.zone_at(bio.sector) {
            Ok(zone) => zone,
            // Operations on the whole disk have no address.
            Err(_) if matches!(bio.op, Op::Flush | Op::ZoneResetAll | Op::ReportZones) => ZoneNo(0),
            Err(error) => return cx.complete(bio, error.into()),
        };
        match bio.op {
            Op::ReportZones => {
                self.report(&mut bio);
                cx.complete(bio, Status::Ok);
            }
            Op::Discard => cx.complete(bio, Status::NotSupported),
            Op::Flush | Op::ZoneResetAll | Op::Read => {
                let job = self.job(Work::Bio(bio), zone, false);
                self.ready.push_back(job);
            }
            _ if self.zones.geometry().kind(zone) == ZoneKind::Conventional => {
                let job = self.job(Work::Bio(bio), zone, false);
                self.ready.push_back(job);
            }
            _ if bio.flags.has(Flags::NOWAIT) && self.lanes.contains_key(&zone) => cx.complete(bio, Status::Again),
            _ => self.enter_lane(Work::Bio(bio), zone),
        }
        self.run(cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Event::Done { word, result, payload } = event else { return };
        if word & SYNC != 0 {
            let (zone, round) = (ZoneNo(word as u32), Round(word >> 32 & 1 != 0));
            self.synced(zone, round, result);
        } else {
            self.continue_job(word as usize, result, payload, cx);
        }
        self.run(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        for (_, job) in &self.jobs {
            if let Work::Bio(bio) = &job.work {
                visit(bio);
            }
        }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let how = if self.direct.is_some() { "direct" } else { "buffered" };
        let (zones, files) = (self.zones.geometry(), self.files.len());
        write!(
            out,
            "zoned-dir {} zones={} zone_sectors={}",
            self.directory.path.display(),
            zones.zones(),
            zones.zone_sectors()
        )?;
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

    /// Takes out what an administrator should know: what opening mended, and failures since, the newest 64.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.notices.drain(..).collect()
    }

    fn notice(&mut self, zone: ZoneNo, what: impl fmt::Display) {
        if self.notices.len() == MOST_NOTICES {
            self.notices.pop_front();
        }
        let path = self.directory.path_of(&zone_name(self.zones.geometry(), zone));
        self.notices.push_back(format!("{}: {what}", path.display()));
    }

    fn report(&self, bio: &mut Bio) {
        if let Payload::Zones(zones) = &mut bio.payload {
            let room = zones.capacity() - zones.len();
            zones.extend(self.zones.zones(bio.sector).take(room));
        }
    }
}

/// Jobs and lanes.
impl ZonedDir {
    fn job(&mut self, work: Work, zone: ZoneNo, in_lane: bool) -> usize {
        self.jobs.insert(Job { work, zone, step: Step::Turn, in_lane, next: None, file: None, at: 0, skip: 0 })
    }

    fn enter_lane(&mut self, work: Work, zone: ZoneNo) {
        let job = self.job(work, zone, true);
        match self.lanes.insert(zone, job) {
            Some(last) => self.jobs[last].next = Some(job),
            None => self.ready.push_back(job),
        }
    }

    /// Starts every job whose turn has come, and syncs. Jobs that end here make room for others, so this is a loop.
    fn run(&mut self, cx: &mut Cx<'_>) {
        loop {
            while let Some(job) = self.ready.pop_front() {
                self.start(job, cx);
            }
            match self.flush.next() {
                Next::Sync(zone, round) => self.sync(zone, round, cx),
                Next::Answer(status) => self.answer(status, cx),
                Next::Wait | Next::Idle => return,
            }
        }
    }

    fn start(&mut self, job: usize, cx: &mut Cx<'_>) {
        let Job { work, zone, step, .. } = &self.jobs[job];
        let (zone, step) = (*zone, *step);
        let bio = match work {
            Work::PartOf(_) => return self.reset_part(job, zone, cx),
            Work::Bio(bio) => bio,
        };
        let preflush = bio.op == Op::Flush || bio.flags.has(Flags::PREFLUSH) && bio.op.writes_data();
        match bio.op {
            _ if preflush && step == Step::Turn => {
                self.jobs[job].step = Step::Flush;
                self.flush.wait(job);
            }
            Op::Read => self.read(job, zone, cx),
            Op::Write | Op::ZoneAppend | Op::WriteZeroes => self.write(job, zone, cx),
            Op::ZoneOpen => {
                let status = self.zones.open(zone).map_or_else(Status::from, |()| Status::Ok);
                self.finish(job, status, cx);
            }
            Op::ZoneClose => {
                let status = self.zones.close(zone).map_or_else(Status::from, |()| Status::Ok);
                self.finish(job, status, cx);
            }
            Op::ZoneFinish => self.resize(job, zone, Action::Finish, cx),
            Op::ZoneReset => self.resize(job, zone, Action::Reset, cx),
            Op::ZoneResetAll => self.reset_all(job, cx),
            Op::Flush | Op::Discard | Op::ReportZones => unreachable!("they end before"),
        }
    }

    /// The kernel is done with a job's request.
    fn continue_job(&mut self, job: usize, result: i32, lent: Payload, cx: &mut Cx<'_>) {
        if let Job { work: Work::Bio(bio), step: Step::Transfer, .. } = &mut self.jobs[job] {
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
            Step::Resize => self.resized(job, result, cx),
            Step::Sync => self.job_synced(job, result, cx),
            step @ (Step::Turn | Step::Flush | Step::Flushed | Step::Parts { .. }) => {
                unreachable!("a job that waits for {step:?} has nothing in the kernel")
            }
        }
    }

    fn finish(&mut self, job: usize, status: Status, cx: &mut Cx<'_>) {
        let Job { work, zone, in_lane, next, .. } = self.jobs.remove(job);
        match next {
            Some(next) => self.ready.push_back(next),
            None if in_lane => drop(self.lanes.remove(&zone)),
            None => (),
        }
        match work {
            Work::Bio(bio) => cx.complete(bio, status),
            Work::PartOf(whole) => self.part_done(whole, status),
        }
    }

    /// Hands a request to the ring under the job's name. One that it refuses is a failed one.
    fn ask(&mut self, job: usize, request: Request, cx: &mut Cx<'_>) {
        let Err(refused) = self.ring.submit(device_token(cx.me(), job as u64), request) else { return };
        self.continue_job(job, -ENOBUFS, refused.into_payload(), cx);
    }

    fn bio(&self, job: usize) -> &Bio {
        match &self.jobs[job].work {
            Work::Bio(bio) => bio,
            Work::PartOf(_) => unreachable!("parts of a reset move no data"),
        }
    }

    /// The open file of `zone`, from the cache or from the directory.
    fn file(&mut self, zone: ZoneNo, cx: &mut Cx<'_>) -> Result<Fd, Status> {
        if let Some(file) = self.files.find(zone) {
            return Ok(file);
        }
        let direct = if self.direct.is_some() { OFlags::DIRECT } else { OFlags::empty() };
        let name = zone_name(self.zones.geometry(), zone);
        match self.directory.open_file(&name, OFlags::RDWR | direct) {
            Ok(file) => {
                self.make_room(cx);
                let file = Fd::from(file);
                self.files.insert(zone, file.clone());
                Ok(file)
            }
            Err(errno) => {
                self.notice(zone, format_args!("cannot be opened: {}; put the file back or mend its mode", errno));
                Err(status_of(-errno.raw_os_error()))
            }
        }
    }

    /// Closes files until there is room for one more. One that changed is synced first, through the open file.
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        while let Some((zone, file)) = self.files.evict() {
            if let Some(round) = self.flush.closing(zone) {
                self.start_sync(zone, round, file, cx);
            }
        }
    }
}

/// Data.
impl ZonedDir {
    fn read(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) {
        let sector = self.bio(job).sector;
        if let Err(error) = self.zones.check_read(sector) {
            return self.finish(job, error.into(), cx);
        }
        let offset = self.zones.geometry().offset_in_zone(sector);
        let nothing_there = self.zones.geometry().kind(zone) == ZoneKind::Sequential
            && !self.lanes.contains_key(&zone)
            && offset >= self.zones.state(zone).wp;
        if nothing_there {
            zero_from(&self.bio(job).payload, 0);
            return self.finish(job, Status::Ok, cx);
        }
        match self.file(zone, cx) {
            Ok(file) => {
                (self.jobs[job].file, self.jobs[job].at) = (Some(file), bytes(offset));
                self.transfer(job, cx);
            }
            Err(status) => self.finish(job, status, cx),
        }
    }

    /// A write, an append or zeroes, at the moment when it is its turn.
    fn write(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) {
        if self.flush.has_failed(zone) {
            return self.finish(job, Status::Io, cx);
        }
        let file = match self.file(zone, cx) {
            Ok(file) => file,
            Err(status) => return self.finish(job, status, cx),
        };
        let (op, sector, sectors) = (self.bio(job).op, self.bio(job).sector, self.bio(job).sectors);
        let begun = match op {
            Op::ZoneAppend => self.zones.begin_append(zone, sectors),
            _ => self.zones.begin_write(sector, sectors).map(|_| sector),
        };
        let sector = match begun {
            Ok(sector) => sector,
            Err(error) => return self.finish(job, error.into(), cx),
        };
        let at = bytes(self.zones.geometry().offset_in_zone(sector));
        let this = &mut self.jobs[job];
        (this.file, this.at) = (Some(file), at);
        if let (Op::ZoneAppend, Work::Bio(bio)) = (op, &mut this.work) {
            bio.sector = sector;
        }
        if op == Op::WriteZeroes { self.make_zeroes(job, cx) } else { self.transfer(job, cx) }
    }

    /// Moves what is left of the job's data.
    fn transfer(&mut self, job: usize, cx: &mut Cx<'_>) {
        let Job { work: Work::Bio(bio), file: Some(file), at, skip, step, .. } = &mut self.jobs[job] else {
            unreachable!("data belongs to a bio, and its file is open")
        };
        *step = Step::Transfer;
        let (file, at, skip, way) = (file.clone(), *at, *skip, way_of(bio.op));
        let payload = lend(&mut bio.payload, self.direct);
        let durable = bio.flags.has(Flags::FUA);
        let request = match way {
            Way::FromDisk => Request::Read { file, at, payload, skip },
            Way::ToDisk => Request::Write { file, at, payload, skip, durable },
        };
        self.ask(job, request, cx);
    }

    fn transferred(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        let reads = self.bio(job).op == Op::Read;
        let length = self.bio(job).payload.bytes();
        match result {
            // The end of the file; what is not there reads as zeroes, and what was read before stays.
            0 if reads => {
                zero_from(&self.bio(job).payload, self.jobs[job].skip);
                self.finish(job, Status::Ok, cx);
            }
            ..0 if reads => self.finish(job, status_of(result), cx),
            ..=0 => self.write_failed(job, result, cx),
            done => {
                self.jobs[job].skip += done as usize;
                match (self.jobs[job].skip == length, reads) {
                    (false, _) => self.transfer(job, cx),
                    (true, true) => self.finish(job, Status::Ok, cx),
                    // The kernel made a FUA write durable already.
                    (true, false) => self.written(job, self.bio(job).flags.has(Flags::FUA), cx),
                }
            }
        }
    }

    /// All data of a write is in the file.
    fn written(&mut self, job: usize, durable: bool, cx: &mut Cx<'_>) {
        let (zone, sectors) = (self.jobs[job].zone, self.bio(job).sectors);
        self.zones.advance(zone, sectors);
        if !durable {
            self.flush.mark(zone);
        }
        self.finish(job, Status::Ok, cx);
    }

    fn write_failed(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        let status = if result == 0 { Status::Io } else { status_of(result) };
        let zone = self.jobs[job].zone;
        self.notice(zone, format_args!("a write failed: {status} (errno {})", -result));
        self.learn_write_pointer(job, zone);
        let durable = matches!(&self.jobs[job].work, Work::Bio(bio) if bio.flags.has(Flags::FUA));
        if durable && !matches!(status, Status::NoSpace | Status::Resource) {
            // A FUA write syncs the file, and this may have been where an older write of the zone was lost.
            self.sync_failed(zone, result);
        }
        self.finish(job, status, cx);
    }

    /// After a failure the file alone knows how far the zone is written. A partial block is no part of it.
    fn learn_write_pointer(&mut self, job: usize, zone: ZoneNo) {
        self.flush.mark(zone);
        if self.zones.geometry().kind(zone) == ZoneKind::Conventional {
            return;
        }
        let Some(file) = self.jobs[job].file.clone() else { return };
        let learned = fstat(&file).and_then(|stat| {
            let (size, block) = (stat.st_size as u64, u64::from(self.block_bytes));
            let whole = size - size % block;
            if whole == size { Ok(size) } else { ftruncate(&file, whole).map(|()| whole) }
        });
        let sectors = learned.map(|size| u32::try_from(size / u64::from(SECTOR_BYTES)).unwrap_or(u32::MAX));
        let taken = sectors.is_ok_and(|wp| self.zones.set_write_pointer(zone, wp).is_ok());
        if !taken {
            self.give_up(zone, "its write pointer cannot be learned");
        }
    }

    /// Nothing more is written to `zone` until the disk is opened again.
    fn give_up(&mut self, zone: ZoneNo, why: &str) {
        self.notice(zone, format_args!("{why}: the zone is read-only until the disk is opened again"));
        // A conventional zone has no such condition: its writes fail because its sync has.
        let _ = self.zones.set_read_only(zone);
    }
}

/// Zeroes.
impl ZonedDir {
    /// Asks the file system for zeroes: a sequential zone grows by them, in a conventional zone they replace what was there.
    fn make_zeroes(&mut self, job: usize, cx: &mut Cx<'_>) {
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

    fn zeroes_made(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        if result == 0 {
            return self.zeroes_done(job, cx);
        }
        if !is_unsupported(result) {
            return self.write_failed(job, result, cx);
        }
        if self.bio(job).flags.has(Flags::FAST) {
            // Nothing was written, and that is no fault of the zone.
            return self.finish(job, Status::NotSupported, cx);
        }
        self.write_zeroes(job, cx);
    }

    /// Writes the next zeroes: for file systems that cannot make them.
    fn write_zeroes(&mut self, job: usize, cx: &mut Cx<'_>) {
        self.jobs[job].step = Step::Zeroes;
        let left = self.bio(job).sectors as usize * SECTOR_BYTES as usize - self.jobs[job].skip;
        let payload = Payload::Data(self.zeroes.get_or_insert_with(|| Data::zeroed(ZEROES)).slice(0, left.min(ZEROES)));
        let Job { file: Some(file), at, skip, .. } = &self.jobs[job] else { unreachable!("the file was opened") };
        let request = Request::Write { file: file.clone(), at: *at + *skip as u64, payload, skip: 0, durable: false };
        self.ask(job, request, cx);
    }

    fn zeroes_written(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
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

    fn zeroes_done(&mut self, job: usize, cx: &mut Cx<'_>) {
        if !self.bio(job).flags.has(Flags::FUA) {
            return self.written(job, false, cx);
        }
        self.jobs[job].step = Step::Sync;
        let Some(file) = self.jobs[job].file.clone() else { unreachable!("the file was opened") };
        self.ask(job, Request::Sync { file, metadata: false }, cx);
    }

    fn job_synced(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        if result == 0 {
            return self.written(job, true, cx);
        }
        let zone = self.jobs[job].zone;
        self.sync_failed(zone, result);
        self.finish(job, status_of(result), cx);
    }
}

/// Resets and finishes.
impl ZonedDir {
    /// Gives the zone's file the size that `action` calls for, if the zone's state allows it.
    fn resize(&mut self, job: usize, zone: ZoneNo, action: Action, cx: &mut Cx<'_>) {
        let capacity = self.zones.geometry().capacity_of(zone);
        let state = self.zones.state(zone);
        match state.apply(capacity, action) {
            Err(error) => return self.finish(job, error.into(), cx),
            Ok(next) if next == state => return self.finish(job, Status::Ok, cx),
            Ok(_) => (),
        }
        let file = match self.file(zone, cx) {
            Ok(file) => file,
            Err(status) => return self.finish(job, status, cx),
        };
        self.jobs[job].file = Some(file.clone());
        self.jobs[job].step = Step::Resize;
        let len = if action == Action::Finish { bytes(capacity) } else { 0 };
        self.ask(job, Request::Truncate { file, len }, cx);
    }

    fn resized(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        let zone = self.jobs[job].zone;
        let finishes = matches!(&self.jobs[job].work, Work::Bio(bio) if bio.op == Op::ZoneFinish);
        if result < 0 {
            return self.write_failed(job, result, cx);
        }
        self.flush.mark(zone);
        // The lane kept the state as it was when this was allowed, but a failed sync may have come in between.
        let done = if finishes { self.zones.finish(zone) } else { self.zones.reset(zone) };
        self.finish(job, done.map_or_else(Status::from, |()| Status::Ok), cx);
    }

    fn reset_part(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) {
        match self.zones.state(zone).cond {
            Condition::ReadOnly | Condition::Offline => self.finish(job, Status::Ok, cx),
            _ => self.resize(job, zone, Action::Reset, cx),
        }
    }

    /// Starts as many resets as there may be at once; ends when all are done.
    fn reset_all(&mut self, job: usize, cx: &mut Cx<'_>) {
        let (mut cursor, mut under_way, status) = match self.jobs[job].step {
            Step::Parts { cursor, under_way, status } => (cursor, under_way, status),
            _ => (self.zones.geometry().conventional(), 0, Status::Ok),
        };
        while cursor < self.zones.geometry().zones() && under_way < MOST_PARTS {
            let zone = ZoneNo(cursor);
            let cond = self.zones.state(zone).cond;
            // A lane may hold a write that came before.
            if cond.is_active() || cond == Condition::Full || self.lanes.contains_key(&zone) {
                self.enter_lane(Work::PartOf(job), zone);
                under_way += 1;
            }
            cursor += 1;
        }
        self.jobs[job].step = Step::Parts { cursor, under_way, status };
        if under_way == 0 {
            self.finish(job, status, cx);
        }
    }

    fn part_done(&mut self, whole: usize, outcome: Status) {
        if let Step::Parts { under_way, status, .. } = &mut self.jobs[whole].step {
            *under_way -= 1;
            *status = status.and(outcome);
            self.ready.push_back(whole);
        }
    }
}

/// Syncs.
impl ZonedDir {
    fn sync(&mut self, zone: ZoneNo, round: Round, cx: &mut Cx<'_>) {
        match self.file(zone, cx) {
            Ok(file) => self.start_sync(zone, round, file, cx),
            Err(status) => self.flush.not_started(zone, round, status),
        }
    }

    fn start_sync(&mut self, zone: ZoneNo, round: Round, file: Fd, cx: &mut Cx<'_>) {
        let word = SYNC | u64::from(round.0) << 32 | u64::from(zone.0);
        if self.ring.submit(device_token(cx.me(), word), Request::Sync { file, metadata: false }).is_err() {
            self.flush.not_started(zone, round, Status::Resource);
        }
    }

    fn synced(&mut self, zone: ZoneNo, round: Round, result: i32) {
        if result < 0 {
            self.sync_failed(zone, result);
        }
        self.flush.synced(round);
    }

    fn sync_failed(&mut self, zone: ZoneNo, result: i32) {
        self.flush.fail(zone);
        self.notice(zone, format_args!("making it durable failed (errno {})", -result));
        self.give_up(zone, "data that was written may be lost");
    }

    /// A round of flushes is over.
    fn answer(&mut self, status: Status, cx: &mut Cx<'_>) {
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
