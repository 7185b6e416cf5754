//! A regular file or a block device as a disk.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time;

use rustix::fs::{FileType, FlockOperation, OFlags};
use rustix::io::Errno;
use shingle_core::block::{Bio, BlockDevice, Cx, Event, Flags, Limits, Op, Payload, Reason, Status};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::time::Instant;
use shingle_core::{impl_display, impl_error};
use shingle_sys::{Allocate, Fd, Request, RingHandle};

use super::Holder;
use super::files::{Files, FilesHandle, fd, machine};
use super::jobs::{InSteps, Job, Jobs};
use super::overdue::{Overdue, TIMEOUT, Watch};
use super::transfer::{
    Alignment, EIO, ENOBUFS, ENOMEM, MOST_SECTORS, MOST_SEGMENTS, Way, Zeroes, is_unsupported, lend, reason_of,
    take_back, was_interrupted, way_of,
};
use super::zoned_blk::attributes::{Attributes, Model, folder_of};
use super::zoned_blk::user_of;
use crate::patience::patiently;
use crate::shard::device_token;
use crate::tally::Tally;

/// How to open a file as a disk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether data goes past the page cache, if the file can do that.
    pub direct: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Smallest unit of I/O in bytes; `None`: what suits the file.
    pub block_bytes: Option<u32>,
    /// After this time a command that the kernel has not answered is told of.
    pub timeout: time::Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { direct: true, read_only: false, block_bytes: None, timeout: TIMEOUT }
    }
}

/// A file, open and locked.
pub struct FileDisk {
    path: PathBuf,
    files: FilesHandle,
    file: Fd,
    limits: Limits,
    direct: Option<Alignment>,
    ring: RingHandle,
    jobs: Jobs<Step>,
    /// Why no change and no flush succeeds any more: a sync failed, so what of the file is durable is unknown, and the next
    /// sync would not tell. Or the file was lost.
    failed: Option<Arc<str>>,
    zeroes: Zeroes,
    watch: Watch,
    /// What there is to say about the file, until somebody asks.
    notice: Option<String>,
}

/// What a job waits for in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The sync before its data.
    Before,
    /// Data that is read or written.
    Transfer,
    /// A change of the file's blocks.
    Space,
    /// Zeroes that are written block by block.
    Zeroes,
    /// The sync after its change, or the only one.
    After,
}

/// Longest discard, and longest `WriteZeroes`: 1 GiB.
const MOST_SPACE: u32 = 1 << 21;

/// Whether the file at `path` can be a disk, as far as that is seen without opening it.
pub fn check(path: &Path) -> Result<(), FileDiskError> {
    Kind::of(&*machine(), path).map(|_| ()).map_err(|kind| FileDiskError { path: path.into(), kind })
}

/// Opens the file at `path` as a device whose I/O goes through `ring`. It stays locked until the device is dropped.
pub fn open(path: &Path, options: &Options, ring: RingHandle) -> Result<FileDisk, FileDiskError> {
    open_on(machine(), path, options, ring)
}

/// The same on other files than the machine's.
pub fn open_on(
    files: FilesHandle,
    path: &Path,
    options: &Options,
    ring: RingHandle,
) -> Result<FileDisk, FileDiskError> {
    let with_path = |kind| FileDiskError { path: path.into(), kind };
    let kind = Kind::of(&*files, path).map_err(with_path)?;
    let file = claim(&*files, path, kind, options).map_err(with_path)?;
    let (size, direct, block) = measure(&*files, &file, kind, options).map_err(with_path)?;
    let limits = Limits {
        logical_block_bytes: block,
        physical_block_bytes: block.max(4096),
        max_sectors: Some(MOST_SECTORS),
        max_segments: Some(MOST_SEGMENTS),
        max_write_zeroes: Some(MOST_SPACE),
        max_discard: Some(MOST_SPACE),
        write_cache: true,
        read_only: options.read_only,
        ..Limits::new(size / u64::from(SECTOR_BYTES))
    };
    let (path, file, jobs) = (path.into(), file.into(), Jobs::new());
    let (failed, zeroes, watch, notice) = (None, Zeroes::default(), Watch::new(options.timeout), None);
    Ok(FileDisk { path, files, file, limits, direct, ring, jobs, failed, zeroes, watch, notice })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    BlockDevice,
}

impl Kind {
    fn of(files: &dyn Files, path: &Path) -> Result<Self, FileErrorKind> {
        let stat = files.stat(path).map_err(FileErrorKind::at_open)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Kind::Regular),
            FileType::BlockDevice if is_zoned(stat.st_rdev) => Err(FileErrorKind::Zoned),
            FileType::BlockDevice => Ok(Kind::BlockDevice),
            _ => Err(FileErrorKind::NotADisk),
        }
    }
}

/// Whether the kernel says that a block device refuses most writes. A host-aware one takes them all.
fn is_zoned(device: u64) -> bool {
    Attributes::read(&folder_of(device)).is_ok_and(|disk| disk.model == Model::HostManaged)
}

/// Opens the file and keeps others out.
fn claim(files: &dyn Files, path: &Path, kind: Kind, options: &Options) -> Result<OwnedFd, FileErrorKind> {
    let access = if options.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    // On a block device, exclusive keeps out mounts and other exclusive users, and is kept out by them.
    let exclusive = if kind == Kind::BlockDevice && !options.read_only { OFlags::EXCL } else { OFlags::empty() };
    let flags = access | exclusive | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    // The kernel may refuse to open a device that is mounted as if permission was missing.
    let user = || (kind == Kind::BlockDevice).then(|| user_of(files.stat(path).ok()?.st_rdev)).flatten();
    let file = files.open(path, flags).map_err(|errno| match FileErrorKind::at_open(errno) {
        kind @ (FileErrorKind::InUse(None) | FileErrorKind::NoAccess(_)) => {
            user().map_or(kind, |user| FileErrorKind::InUse(Some(user)))
        }
        kind => kind,
    })?;
    files.fcntl_setfl(fd(&file), OFlags::empty()).map_err(|errno| FileErrorKind::io("preparing it", errno))?;
    let lock = match options.read_only {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    patiently(|errno| *errno == Errno::WOULDBLOCK, || files.flock(fd(&file), lock)).map_err(|errno| match errno {
        Errno::WOULDBLOCK => FileErrorKind::InUse(Holder::of(&file).map(|holder| holder.to_string())),
        errno => FileErrorKind::io("locking it", errno),
    })?;
    Ok(file)
}

/// Size, what direct I/O needs if it is used, and block size.
fn measure(
    files: &dyn Files,
    file: &OwnedFd,
    kind: Kind,
    options: &Options,
) -> Result<(u64, Option<Alignment>, u32), FileErrorKind> {
    let size = files.size(fd(file)).map_err(|errno| FileErrorKind::io("asking for its size", errno))?;
    let native = match kind {
        Kind::Regular => SECTOR_BYTES,
        Kind::BlockDevice => rustix::fs::ioctl_blksszget(file).unwrap_or(SECTOR_BYTES),
    };
    let block = options.block_bytes.unwrap_or(native);
    if !block.is_power_of_two() || !(native..=1 << 16).contains(&block) {
        return Err(FileErrorKind::Block { block, native });
    }
    let usable = |alignment: &Alignment| {
        let block_fits = options.block_bytes.is_none() || block.is_multiple_of(alignment.offset);
        block_fits && alignment.offset <= 1 << 16 && size.is_multiple_of(alignment.offset.into())
    };
    let alignment = if options.direct { Alignment::of(files, file).filter(usable) } else { None };
    let direct = alignment.filter(|_| files.fcntl_setfl(fd(file), OFlags::DIRECT).is_ok());
    let block = block.max(direct.map_or(0, |alignment| alignment.offset));
    if size == 0 || !size.is_multiple_of(block.into()) {
        return Err(FileErrorKind::Size { size, block });
    }
    Ok((size, direct, block))
}

impl BlockDevice for FileDisk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn takes_remote(&self, _: bool) -> bool {
        self.direct.is_none_or(Alignment::suits_remote)
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::Read => self.start(bio, Step::Transfer, cx),
            Op::Flush => self.start(bio, Step::After, cx),
            Op::Write | Op::WriteZeroes | Op::Discard if let Some(reason) = self.given_up() => cx.fail(bio, reason),
            Op::Write | Op::WriteZeroes if bio.flags.has(Flags::PREFLUSH) => self.start(bio, Step::Before, cx),
            Op::Write => self.start(bio, Step::Transfer, cx),
            Op::WriteZeroes | Op::Discard => self.start(bio, Step::Space, cx),
            _ => cx.fail(bio, Reason::NotSupported),
        }
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if let Event::Done { word, result, payload } = event {
            self.done(word as usize, result, payload, cx);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.jobs.bios().for_each(|(_, bio)| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let how = if self.direct.is_some() { "direct" } else { "buffered" };
        let Limits { capacity, logical_block_bytes: block, .. } = self.limits;
        write!(out, "file {} sectors={capacity} block_bytes={block} {how}", self.path.display())
    }
}

impl InSteps for FileDisk {
    type Step = Step;

    fn jobs(&mut self) -> &mut Jobs<Step> {
        &mut self.jobs
    }

    /// Asks the kernel for the next step of a job. A request that the ring refuses, or for which there is no memory, is a
    /// failed one.
    fn go(&mut self, job: usize, step: Step, cx: &mut Cx<'_>) {
        self.jobs[job].step = step;
        let request = match step {
            Step::Before | Step::After => Some(Request::Sync { file: self.file.clone(), metadata: false }),
            Step::Transfer => self.transfer(job),
            Step::Space => Some(self.space(job)),
            Step::Zeroes => self.write_zeroes(job),
        };
        let Some(request) = request else { return self.done(job, -ENOMEM, Payload::None, cx) };
        if let Err(refused) = self.ring.submit(device_token(cx.me(), job as u64), request) {
            self.done(job, -ENOBUFS, refused.into_payload(), cx);
        }
    }
}

impl FileDisk {
    /// Whether data goes past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Looks whether commands are answered; returns what there is to say. To be called now and then.
    pub fn check(&mut self, now: Instant) -> Vec<String> {
        let overdue = self.watch.tell(self.overdue(now));
        self.notice.take().into_iter().chain(overdue).collect()
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

    fn transfer(&mut self, job: usize) -> Option<Request> {
        let Job { bio, skip, .. } = &mut self.jobs[job];
        let (file, at, skip) = (self.file.clone(), bio.sector.bytes(), *skip);
        let payload = lend(&mut bio.payload, self.direct)?;
        Some(match way_of(bio.op) {
            Way::FromDisk => Request::Read { file, at, payload, skip },
            Way::ToDisk => Request::Write { file, at, payload, skip, durable: bio.flags.has(Flags::FUA) },
        })
    }

    fn space(&self, job: usize) -> Request {
        let bio = &self.jobs[job].bio;
        let keep_blocks = bio.op == Op::WriteZeroes && bio.flags.has(Flags::NO_UNMAP);
        let mode = if keep_blocks { Allocate::ZeroRange } else { Allocate::PunchHole };
        let len = u64::from(bio.sectors) * u64::from(SECTOR_BYTES);
        Request::Allocate { file: self.file.clone(), mode, at: bio.sector.bytes(), len }
    }

    fn write_zeroes(&mut self, job: usize) -> Option<Request> {
        let Job { bio, skip, .. } = &self.jobs[job];
        let left = length(bio) - skip;
        let payload = self.zeroes.next(left)?;
        let at = bio.sector.bytes() + *skip as u64;
        Some(Request::Write { file: self.file.clone(), at, payload, skip: 0, durable: false })
    }

    fn done(&mut self, job: usize, result: i32, lent: Payload, cx: &mut Cx<'_>) {
        let Job { bio, step, skip, .. } = &mut self.jobs[job];
        let step = *step;
        if step == Step::Transfer {
            take_back(&mut bio.payload, lent, way_of(bio.op));
        }
        if was_interrupted(result) {
            return self.go(job, step, cx);
        }
        match (step, result) {
            (Step::Space, _) if is_unsupported(result) => self.without_space(job, cx),
            // The end of the file, which somebody else has cut.
            (Step::Transfer, 0) if bio.op == Op::Read => {
                self.check_file();
                match self.given_up() {
                    Some(reason) => self.fail(job, reason, cx),
                    None => self.failed(job, step, -EIO, cx),
                }
            }
            (Step::Transfer | Step::Zeroes, 1..) => {
                *skip += result as usize;
                if *skip < length(bio) { self.go(job, step, cx) } else { self.changed(job, cx) }
            }
            (Step::Before | Step::After | Step::Space, 0) => self.advance(job, step, cx),
            _ => self.failed(job, step, result, cx),
        }
    }

    /// A sync or a change of blocks went well.
    fn advance(&mut self, job: usize, step: Step, cx: &mut Cx<'_>) {
        if step == Step::Before || step == Step::After {
            self.check_file();
            // A sync that went well after one that failed proves nothing: the kernel has forgotten what it lost.
            if let Some(reason) = self.given_up() {
                return self.fail(job, reason, cx);
            }
        }
        match (step, self.jobs[job].bio.op) {
            (Step::Before, Op::Write) => self.go(job, Step::Transfer, cx),
            (Step::Before, _) => self.go(job, Step::Space, cx),
            (Step::Space, _) => self.changed(job, cx),
            _ => self.finish(job, Status::Ok, cx),
        }
    }

    /// A sync of a file that has lost its name or its end succeeds all the same, and means nothing.
    fn check_file(&mut self) {
        let Ok(stat) = self.files.fstat(fd(&self.file)) else { return };
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let what = match stat.st_size as u64 {
            _ if !regular || self.failed.is_some() => return,
            _ if stat.st_nlink == 0 => "the file was removed".into(),
            is if is < self.limits.capacity * u64::from(SECTOR_BYTES) => format!("the file was cut to {is} bytes"),
            _ => return,
        };
        let text = format!(
            "{}: {what} while the disk is in use; no write and no flush succeeds until it is opened again: copy what can \
             still be read, then stop the daemon and restore the file",
            self.path.display()
        );
        self.failed = Some(text.as_str().into());
        self.notice = Some(text);
    }

    /// All bytes are as the bio wants them. A FUA write is durable already, other changes need a sync for that.
    fn changed(&mut self, job: usize, cx: &mut Cx<'_>) {
        let bio = &self.jobs[job].bio;
        let needs_sync = bio.op != Op::Write && bio.op != Op::Read && bio.flags.has(Flags::FUA);
        if needs_sync { self.go(job, Step::After, cx) } else { self.finish(job, Status::Ok, cx) }
    }

    /// The file system cannot make holes: zeroes can be written, a discard is a hint that nobody takes.
    fn without_space(&mut self, job: usize, cx: &mut Cx<'_>) {
        let bio = &self.jobs[job].bio;
        if bio.op == Op::Discard || bio.flags.has(Flags::FAST) {
            return self.fail(job, Reason::NotSupported, cx);
        }
        self.go(job, Step::Zeroes, cx);
    }

    fn failed(&mut self, job: usize, step: Step, result: i32, cx: &mut Cx<'_>) {
        let bio = &self.jobs[job].bio;
        let doing = match (step, bio.op) {
            (Step::Before | Step::After, _) => "syncing",
            (Step::Transfer, Op::Read) => "reading",
            (Step::Transfer | Step::Zeroes, _) => "writing",
            (Step::Space, _) => "changing the blocks of",
        };
        let reason = reason_of(result, doing, &self.path);
        let status = Status::from(&reason);
        let has_lost = match step {
            // Whatever a sync says that was begun, the kernel says it once, also of blocks for which there was no space.
            Step::Before | Step::After => result != -ENOBUFS,
            // A write for which there was no space has not got as far as its sync.
            _ => {
                bio.op == Op::Write
                    && bio.flags.has(Flags::FUA)
                    && !matches!(status, Status::NoSpace | Status::Resource)
            }
        };
        if has_lost {
            let why = || format!("{reason}; data may be lost: open the disk again").into();
            self.failed.get_or_insert_with(why);
        }
        self.fail(job, reason, cx);
    }

    /// Why changes and flushes fail, if they do.
    fn given_up(&self) -> Option<Reason> {
        self.failed.clone().map(|why| Reason::Host(Status::Io, why))
    }
}

fn length(bio: &Bio) -> usize {
    bio.sectors as usize * SECTOR_BYTES as usize
}

/// Error of opening a file as a disk.
#[derive(Debug)]
pub struct FileDiskError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub kind: FileErrorKind,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum FileErrorKind {
    /// It is not there.
    Absent,
    /// It is neither a regular file nor a block device.
    NotADisk,
    /// It is a zoned block device.
    Zoned,
    /// Somebody else uses it: which process, if that can be seen.
    InUse(Option<String>),
    /// This user may not open it.
    NoAccess(io::Error),
    /// It has no bytes, or no whole number of blocks.
    Size {
        /// Its size in bytes.
        size: u64,
        /// The block size in bytes.
        block: u32,
    },
    /// The block size that was asked for is not possible.
    Block {
        /// In bytes.
        block: u32,
        /// The smallest one here.
        native: u32,
    },
    /// A system call failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl FileErrorKind {
    fn io(doing: &'static str, errno: Errno) -> Self {
        Self::Io { doing, source: errno.into() }
    }

    fn at_open(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Absent,
            Errno::BUSY => Self::InUse(None),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::NoAccess(errno.into()),
            errno => Self::io("opening it", errno),
        }
    }
}

impl_error!(FileDiskError, |self, f| write!(f, "{}: {}", self.path.display(), self.kind));

impl_display!(FileErrorKind, |self, f| match self {
    Self::Absent => write!(f, "there is no such file: make one, for example with `truncate -s 1G`"),
    Self::NotADisk =>
        write!(f, "it is neither a regular file nor a block device; for a zoned disk in a directory use `zoned-dir`"),
    Self::Zoned => write!(f, "it is a zoned block device: use it with `type = \"zoned-blk\"`"),
    Self::InUse(None) => write!(f, "it is in use: stop the other program, or unmount it"),
    Self::InUse(Some(holder)) => write!(f, "it is in use by {holder}: stop or unmount that"),
    Self::NoAccess(error) => {
        write!(f, "no permission to open it ({error}): check owner and mode, or open it read-only")
    }
    Self::Size { size: 0, .. } => write!(f, "it is empty: give it a size, for example with `truncate -s 1G`"),
    Self::Size { size, block } => write!(
        f,
        "its size of {size} bytes is no multiple of the block size of {block} bytes: look whether it is the right file; \
         an image that was cut off has to be restored, or take another block size"
    ),
    Self::Block { block, native } => {
        write!(f, "block size of {block} bytes is no power of two between {native} and 65536")
    }
    Self::Io { doing, source } => write!(f, "{doing} failed: {source}; check the kernel log"),
});

#[cfg(test)]
mod tests {
    use shingle_core::block::Stack;
    use shingle_core::time::Duration;
    use shingle_sys::{Completion, RequestQueue, Token};

    use super::*;
    use crate::disk::never_answers::{Answers, Stuck, bio, settle, submit};
    use crate::shard::Shard;

    const REFUSED: i32 = i32::MIN;

    /// Answers syncs as it is told, the last one first.
    struct Syncs(Vec<i32>, Vec<Completion>);

    impl RequestQueue for Syncs {
        fn submit(&mut self, token: Token, request: Request) -> Result<(), Request> {
            let result = self.0.pop().unwrap_or(REFUSED);
            if result == REFUSED {
                return Err(request);
            }
            self.1.push(Completion { token, result, request });
            Ok(())
        }

        fn cancel(&mut self, _: Token) {}

        fn wait(&mut self, _: Option<time::Duration>) -> io::Result<()> {
            Ok(())
        }

        fn pop(&mut self) -> Option<Completion> {
            self.1.pop()
        }

        fn in_flight(&self) -> usize {
            self.1.len()
        }
    }

    /// How so many flushes end.
    fn flush(name: &str, answers: &[i32], flushes: usize) -> Vec<Status> {
        let path = std::env::temp_dir().join(format!("shingle-file-{name}-{}", std::process::id()));
        std::fs::write(&path, vec![0; 1 << 16]).unwrap();
        let ring = RingHandle::over(Syncs(answers.iter().rev().copied().collect(), Vec::new()));
        let disk = open(&path, &Options { direct: false, ..Options::default() }, ring.clone()).unwrap();
        let mut stack = Stack::new();
        let (disk, port) = (stack.add(Box::new(disk)).unwrap(), stack.open_port());
        let mut flush = || {
            stack.submit(port, 0, disk, Box::new(bio(Op::Flush, 0)));
            stack.turn(Instant::ZERO);
            if let Some(Completion { token, result, .. }) = ring.pop() {
                stack.deliver(disk, Event::Done { word: token.word, result, payload: Payload::None });
                stack.turn(Instant::ZERO);
            }
            stack.poll_completion(port).unwrap().status
        };
        let ends = (0..flushes).map(|_| flush()).collect();
        std::fs::remove_file(&path).unwrap();
        ends
    }

    #[test]
    fn a_sync_that_found_no_space_has_lost_data_and_no_later_one_succeeds() {
        for (errno, status) in [(28, Status::NoSpace), (122, Status::NoSpace), (12, Status::Resource), (5, Status::Io)]
        {
            let ends = flush(&format!("errno-{errno}"), &[0, -errno, 0, 0], 4);
            assert_eq!(ends, [Status::Ok, status, Status::Io, Status::Io], "errno {errno}");
        }
    }

    #[test]
    fn a_sync_that_the_ring_refused_has_lost_nothing() {
        assert_eq!(flush("refused", &[0, REFUSED, 0], 3), [Status::Ok, Status::Resource, Status::Ok]);
    }

    #[test]
    fn a_flush_waits_for_an_earlier_write_without_an_answer_and_the_write_is_told_of() {
        let path = std::env::temp_dir().join(format!("shingle-file-stuck-{}", std::process::id()));
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let mut shard = Shard::new().unwrap();
        let mut disk = open(&path, &Options { direct: false, ..Options::default() }, shard.ring()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (mut stuck, full) = Stuck::new();
        disk.file = full.into();
        let (disk, answers) = (shard.stack.add(Box::new(disk)).unwrap(), Answers::default());
        for op in [Op::Write, Op::Flush, Op::Flush] {
            submit(&mut shard, disk, bio(op, 0), &answers);
        }
        settle(&mut shard, 1);
        assert!(answers.borrow().is_empty(), "{answers:?}");
        let (later, much_later) =
            (shard.now() + Duration::from_millis(31_000), shard.now() + Duration::from_millis(59_000));
        let mut check = |at| shard.stack.with_device(disk, |disk: &mut FileDisk, _| disk.check(at)).unwrap();
        let told = check(later);
        assert!(
            told.len() == 1 && told[0].contains("3 commands") && told[0].contains("WRITE 0+8 for 31 s"),
            "{told:?}"
        );
        assert!(check(much_later).is_empty(), "told once until it is twice as old");
        stuck.answer();
        shard.run_until(|_| answers.borrow().len() == 3).unwrap();
        assert_eq!(answers.borrow()[0], (Op::Write, Status::Ok), "the late answer counts");
    }
}
