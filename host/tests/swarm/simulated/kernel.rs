//! A kernel with a ring and files, in memory and in virtual time. One seed, one behaviour.
//!
//! A request waits a random time and is carried out when that is over, so those in flight overtake each other. Descriptors are
//! real ones of `/dev/null`: only their numbers mean something.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::rc::Rc;
use std::time;

use rustix::fs::{Access, AtFlags, FlockOperation, Mode, OFlags, Stat, Statx, StatxFlags};
use rustix::io::Errno;
use shingle_core::block::{BlockDevice, Cx, Event, Payload};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::ZoneNo;
use shingle_host::disk::files::Files;
use shingle_sys::{Allocate, Completion, Fd, FileStatus, Request, RequestQueue, Token};

use super::tree::{File, Node, ROOT, Tree};

/// Guards of a disk that are taken away, by what the kernel does in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bug {
    #[default]
    None,
    /// A file is not synced if all that happened was a reset.
    UnsyncedReset,
    /// A file that left the cache is not synced.
    UnsyncedEviction,
    /// A short write is taken for a whole one.
    NoContinuation,
    /// A short read is taken for a whole one.
    NoReadContinuation,
    /// FUA is decoration.
    NoFua,
    /// A sync that failed is taken for one that did not.
    DeafToSync,
    /// A failed write is taken for one that changed nothing: the file's size is not asked for.
    NoLearning,
    /// The names of new files are not made durable.
    NoNameSync,
    /// The new geometry file is renamed before its bytes are durable.
    NoGeometrySync,
    /// The limit of open zones is forgotten.
    NoOpenLimit,
    /// A request that was interrupted is taken for one that was carried out.
    NoRetry,
    /// A sync that failed is taken for one that was never begun.
    ForgottenSync,
    /// A file is not synced if all that happened was that a range was zeroed.
    UnsyncedZeroes,
    /// What was read before a short result is not kept.
    NoMemory,
    /// The sync before a write is decoration.
    NoPreflush,
    /// A flush does not wait for changes without an answer.
    HastyFlush,
    /// An answer gets lost.
    LostAnswer,
}

struct Flight {
    token: Token,
    request: Request,
    /// The last change before it came: what a sync must make durable.
    after: u64,
}

/// The kernel.
pub struct Kernel {
    pub tree: Tree,
    open: BTreeMap<RawFd, Node>,
    /// Zones by their files.
    zones: BTreeMap<Node, usize>,
    pub rng: Rng,
    pub now: Instant,
    flights: BTreeMap<(Instant, u64), Flight>,
    arrived: u64,
    done: VecDeque<Completion>,
    pub troubled: bool,
    /// Whether some requests have no answer for minutes.
    pub stalls: bool,
    pub bug: Bug,
    fastest: Duration,
    slowest: Duration,
    /// Whether the file system can punch holes and make zeroes.
    makes_zeroes: bool,
    pub faults: BTreeMap<usize, u64>,
    pub all_faults: u64,
    /// Zones of which a sync failed.
    pub unsynced: BTreeSet<usize>,
    /// Calls that may still be made: then the power goes, and everything fails.
    pub calls_left: Option<u64>,
    /// Calls until one that fails, alone.
    pub fails_in: Option<u64>,
    /// Files before the last sync through each descriptor, for [`Bug::UnsyncedEviction`].
    before_sync: BTreeMap<RawFd, (Node, File)>,
    /// Sizes before the last write, for [`Bug::NoLearning`].
    sizes: BTreeMap<Node, usize>,
    /// Bytes that are written whole or not at all.
    pub sector: usize,
    /// What direct I/O needs, if there is such a thing: units of memory and of the file.
    pub direct: Option<(u32, u32)>,
}

/// The kernel, as those hold it who ask it.
#[derive(Clone)]
pub struct Shared(pub Rc<RefCell<Kernel>>);

/// The word of the kernel's own timers.
pub const KERNEL: u64 = u64::MAX;

impl Shared {
    /// What is done goes to `disk`, which may ask for more.
    pub fn drive(&self, disk: &mut dyn BlockDevice, cx: &mut Cx<'_>) {
        self.0.borrow_mut().advance(cx.now());
        let mut ring = self.clone();
        while let Some(done) = ring.pop() {
            let payload = done.request.into_payload();
            disk.on_event(Event::Done { word: done.token.word, result: done.result, payload }, cx);
        }
        if let Some(due) = self.0.borrow().next_due() {
            cx.wake_at(due, KERNEL);
        }
    }
}

const ENOENT: i32 = 2;
const EINTR: i32 = 4;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EOPNOTSUPP: i32 = 95;
const ECANCELED: i32 = 125;

impl Kernel {
    pub fn new(tree: Tree, mut rng: Rng, (fastest, slowest): (Duration, Duration)) -> Self {
        let mut new = Self {
            open: BTreeMap::new(),
            zones: BTreeMap::new(),
            makes_zeroes: rng.chance(3, 4),
            rng,
            now: Instant::ZERO,
            flights: BTreeMap::new(),
            arrived: 0,
            done: VecDeque::new(),
            troubled: false,
            stalls: false,
            bug: Bug::None,
            fastest,
            slowest,
            faults: BTreeMap::new(),
            all_faults: 0,
            unsynced: BTreeSet::new(),
            calls_left: None,
            fails_in: None,
            before_sync: BTreeMap::new(),
            sizes: BTreeMap::new(),
            sector: 512,
            direct: None,
            tree,
        };
        new.find_zones();
        new
    }

    fn find_zones(&mut self) {
        let directories = self.tree.directory(ROOT).into_iter().flat_map(|root| root.now.values());
        let names = directories.filter_map(|node| self.tree.directory(*node)).flat_map(|directory| &directory.now);
        let numbered = names.filter_map(|(name, node)| Some((*node, name.get(4..)?.parse().ok()?)));
        self.zones = numbered.collect();
    }

    fn node(&self, file: &impl AsFd) -> Node {
        self.open[&file.as_fd().as_raw_fd()]
    }

    fn opened(&mut self, node: Node) -> OwnedFd {
        let descriptor = OwnedFd::from(fs::File::open("/dev/null").unwrap());
        self.open.insert(descriptor.as_raw_fd(), node);
        descriptor
    }

    /// One of so many requests goes wrong, if any may.
    fn goes_wrong(&mut self, of: u64) -> bool {
        self.troubled && self.rng.chance(1, of)
    }

    fn fault(&mut self, node: Node) {
        self.fault_in(self.zones.get(&node).map(|zone| ZoneNo(*zone as u32)));
    }

    /// Counts a fault, perhaps in a zone.
    pub fn fault_in(&mut self, zone: Option<ZoneNo>) {
        self.all_faults += 1;
        if let Some(zone) = zone {
            *self.faults.entry(zone.index()).or_default() += 1;
        }
    }

    /// When something happens next.
    pub fn next_due(&self) -> Option<Instant> {
        self.flights.keys().next().map(|(due, _)| *due)
    }

    /// Carries out what is due.
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
        while let Some(entry) = self.flights.first_entry().filter(|entry| entry.key().0 <= now) {
            let Flight { token, mut request, after } = entry.remove();
            let result = self.answer(&mut request, after);
            if self.bug == Bug::LostAnswer && self.rng.chance(1, 200) {
                continue;
            }
            self.done.push_back(Completion { token, result, request });
        }
    }

    fn arrives(&mut self, token: Token, request: Request) -> Result<(), Request> {
        let node = match &request {
            Request::Open { directory, name, .. } | Request::Stat { directory, name, .. } => {
                self.named(directory, name)
            }
            request => target(request).map(|file| self.node(file)),
        };
        if self.bug == Bug::ForgottenSync && matches!(request, Request::Sync { .. }) && self.goes_wrong(20) {
            self.failed_sync(node.expect("a file"), self.tree.serial);
            return Err(request);
        }
        if self.goes_wrong(400) {
            node.into_iter().for_each(|node| self.fault(node));
            return Err(request);
        }
        let span = self.slowest.0.saturating_sub(self.fastest.0);
        let late = if self.rng.chance(1, 50) { 20 } else { 1 };
        let mut due = self.now + Duration((self.fastest.0 + self.rng.below(span + 1)) * late);
        if self.stalls && self.rng.chance(1, 40) {
            due = due + Duration::from_millis(self.rng.below(200_000));
        }
        self.flights.insert((due, self.arrived), Flight { token, request, after: self.tree.serial });
        self.arrived += 1;
        Ok(())
    }

    /// What becomes of a request, and of what is told about it.
    fn answer(&mut self, request: &mut Request, after: u64) -> i32 {
        if self.rng.chance(1, 40) {
            return if self.bug == Bug::NoRetry { self.whole(request) } else { -EINTR };
        }
        if let (Bug::NoFua, Request::Write { durable, .. }) = (self.bug, &mut *request) {
            *durable = false;
        }
        if let Request::Sync { file, .. } = request {
            let node = self.node(file);
            let skipped = match self.bug {
                Bug::UnsyncedReset => self.tree.was_just_emptied(node),
                Bug::UnsyncedEviction => {
                    let before = self.tree.file(node).cloned();
                    before.into_iter().for_each(|before| self.keep_unsynced(file, node, before));
                    false
                }
                Bug::UnsyncedZeroes => self.tree.was_just_zeroed(node),
                _ => false,
            };
            if skipped {
                return 0;
            }
        }
        let result = self.carry_out(request, after);
        match (self.bug, &*request) {
            (Bug::NoContinuation, Request::Write { .. }) if result > 0 => self.whole(request),
            (Bug::NoReadContinuation, Request::Read { .. }) if result > 0 => self.whole(request),
            (Bug::DeafToSync, Request::Sync { .. }) if result < 0 => 0,
            _ => result,
        }
    }

    /// The result of a request that did all that it should.
    fn whole(&self, request: &Request) -> i32 {
        match request {
            Request::Read { payload, skip, .. } | Request::Write { payload, skip, .. } => {
                (payload.bytes() - skip) as i32
            }
            _ => 0,
        }
    }

    fn carry_out(&mut self, request: &mut Request, after: u64) -> i32 {
        match request {
            Request::Read { file, at, payload, skip } => {
                let node = self.node(file);
                if self.goes_wrong(100) {
                    self.fault(node);
                    return -EIO;
                }
                let (from, most) = (*at as usize + *skip, payload.bytes() - *skip);
                let there = self.tree.file(node).map_or(0, |file| file.now.len()).saturating_sub(from).min(most);
                let done = self.perhaps_short(there);
                if self.bug == Bug::NoMemory {
                    fill(payload, 0, &vec![0; *skip]);
                }
                if let Some(file) = self.tree.file(node) {
                    fill(payload, *skip, &file.now[from.min(file.now.len())..][..done]);
                }
                done as i32
            }
            Request::Write { file, at, payload, skip, durable } => {
                let node = self.node(file);
                let bytes = taken(payload, *skip);
                self.write(node, *at as usize + *skip, &bytes, (*durable, after))
            }
            Request::Sync { file, .. } => {
                let node = self.node(file);
                if self.goes_wrong(60) {
                    self.failed_sync(node, after);
                    return -[EIO, ENOSPC, ENOMEM][self.rng.below(3) as usize];
                }
                self.tree.sync(node, after);
                0
            }
            Request::Truncate { file, len } => {
                let node = self.node(file);
                self.change_space(node, |tree| tree.resize(node, *len as usize))
            }
            Request::Allocate { .. } if !self.makes_zeroes => -EOPNOTSUPP,
            Request::Allocate { file, mode, at, len } => {
                let (node, range) = (self.node(file), *at as usize..(*at + *len) as usize);
                let size = self.tree.file(node).map_or(0, |file| file.now.len());
                self.change_space(node, |tree| match mode {
                    Allocate::Extend => tree.resize(node, size.max(range.end)),
                    Allocate::PunchHole | Allocate::ZeroRange => tree.zero(node, range),
                })
            }
            Request::Open { directory, name, opened, .. } => {
                let Some(node) = self.named(directory, name) else { return -ENOENT };
                if self.goes_wrong(OPENS) {
                    self.fault(node);
                    return -EMFILE;
                }
                opened.give(self.opened(node));
                0
            }
            Request::Stat { directory, name, status, .. } => {
                let Some(node) = self.named(directory, name) else { return -ENOENT };
                if self.goes_wrong(CALLS) {
                    self.fault(node);
                    return -EIO;
                }
                status.give(self.status(node));
                0
            }
            Request::Close { file } => {
                let number = file.take().map(|file| file.as_raw_fd());
                if let Some((node, before)) = number.and_then(|number| self.before_sync.remove(&number)) {
                    self.tree.undo_sync(node, before);
                }
                0
            }
            other => panic!("a disk asked for {other:?}"),
        }
    }

    /// Keeps what the file was before a sync, for [`Bug::UnsyncedEviction`].
    fn keep_unsynced(&mut self, file: &Fd, node: Node, before: File) {
        self.before_sync.insert(file.as_fd().as_raw_fd(), (node, before));
    }

    /// What `name` in `directory` is; the directory itself, or the file, if it is empty.
    fn named(&self, directory: &Fd, name: &CStr) -> Option<Node> {
        let directory = self.node(directory);
        let name = name.to_str().expect("a name of zones");
        if name.is_empty() { Some(directory) } else { self.tree.find(directory, name) }
    }

    fn status(&self, node: Node) -> FileStatus {
        let size = self.tree.file(node).map_or(0, |file| file.now.len());
        let told = if self.bug == Bug::NoLearning { self.sizes.get(&node).copied() } else { None };
        let stat = stat(self.tree.file(node).is_none(), told.unwrap_or(size));
        FileStatus {
            device: stat.st_dev,
            inode: stat.st_ino,
            links: stat.st_nlink as u32,
            size: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
        }
    }

    fn change_space(&mut self, node: Node, change: impl FnOnce(&mut Tree)) -> i32 {
        if self.goes_wrong(60) {
            self.fault(node);
            return -*[EIO, ENOSPC, EAGAIN].get(self.rng.below(3) as usize).unwrap();
        }
        change(&mut self.tree);
        0
    }

    fn write(&mut self, node: Node, at: usize, bytes: &[u8], (durable, after): (bool, u64)) -> i32 {
        let size = self.tree.file(node).map_or(0, |file| file.now.len());
        self.sizes.insert(node, size);
        if self.goes_wrong(60) {
            self.fault(node);
            let errno = [EIO, ENOSPC, EAGAIN][self.rng.below(3) as usize];
            if errno == EIO {
                let some = self.rng.below(bytes.len() as u64 + 1) as usize;
                // Only a file that grows can end inside of a sector: what is overwritten is overwritten by sectors.
                let some = if at + bytes.len() > size { some } else { some - some % self.sector };
                self.tree.write(node, at, &bytes[..some]);
                if durable {
                    self.failed_sync(node, after);
                }
            }
            return -errno;
        }
        let done = self.perhaps_short(bytes.len());
        if durable {
            self.tree.write_durably(node, at, &bytes[..done]);
        } else {
            self.tree.write(node, at, &bytes[..done]);
        }
        done as i32
    }

    fn failed_sync(&mut self, node: Node, after: u64) {
        self.fault(node);
        self.unsynced.extend(self.zones.get(&node));
        self.tree.lose(node, after, &mut self.rng);
    }

    /// In whole sectors: what is read and written at the same time is old or new, never both in one.
    fn perhaps_short(&mut self, bytes: usize) -> usize {
        let sectors = bytes / self.sector;
        let is_short = sectors > 1 && self.rng.chance(1, 6);
        if is_short { (1 + self.rng.below(sectors as u64 - 1) as usize) * self.sector } else { bytes }
    }

    /// What is left when the power goes now: some of what is in flight has just been carried out, in any order.
    pub fn cut_power(&self, rng: &mut Rng) -> Tree {
        let mut tree = self.tree.clone();
        let mut flights: Vec<&Flight> = self.flights.values().collect();
        while !flights.is_empty() {
            let flight = flights.swap_remove(rng.below(flights.len() as u64) as usize);
            if !rng.chance(1, 2) {
                continue;
            }
            match &flight.request {
                Request::Write { file, at, payload, skip, .. } => {
                    tree.write(self.node(file), *at as usize + *skip, &taken(payload, *skip));
                }
                Request::Truncate { file, len } => tree.resize(self.node(file), *len as usize),
                _ => {}
            }
        }
        tree.survive(rng)
    }

    /// Whether a call still finds a kernel with power, and no fault.
    fn call(&mut self, node: Option<Node>, of: u64) -> rustix::io::Result<()> {
        match &mut self.calls_left {
            Some(0) => return Err(Errno::IO),
            Some(left) => *left -= 1,
            None => {}
        }
        let fails_now = self.fails_in == Some(0);
        self.fails_in = self.fails_in.and_then(|calls| calls.checked_sub(1));
        if fails_now {
            return Err(Errno::IO);
        }
        if self.goes_wrong(of) {
            node.into_iter().for_each(|node| self.fault(node));
            return Err(if of == OPENS { Errno::from_raw_os_error(EMFILE) } else { Errno::IO });
        }
        Ok(())
    }
}

/// Of so many opens one fails.
const OPENS: u64 = 80;
/// Of so many other calls one fails.
const CALLS: u64 = 20;

fn target(request: &Request) -> Option<&Fd> {
    match request {
        Request::Read { file, .. }
        | Request::Write { file, .. }
        | Request::Sync { file, .. }
        | Request::Truncate { file, .. }
        | Request::Allocate { file, .. } => Some(file),
        _ => None,
    }
}

/// The bytes of `payload` from `skip` on.
pub fn taken(payload: &Payload, skip: usize) -> Vec<u8> {
    payload.segments().iter().flat_map(|data| data.to_vec()).skip(skip).collect()
}

pub fn fill(payload: &Payload, skip: usize, bytes: &[u8]) {
    let (mut at, mut left) = (0, bytes);
    for data in payload.segments() {
        let from = skip.saturating_sub(at).min(data.len());
        let (here, rest) = left.split_at(left.len().min(data.len() - from));
        data.write(from, here);
        (at, left) = (at + data.len(), rest);
    }
}

impl RequestQueue for Shared {
    fn submit(&mut self, token: Token, request: Request) -> Result<(), Request> {
        self.0.borrow_mut().arrives(token, request)
    }

    fn cancel(&mut self, token: Token) {
        let kernel = &mut *self.0.borrow_mut();
        for (_, Flight { token, request, .. }) in kernel.flights.extract_if(.., |_, flight| flight.token == token) {
            kernel.done.push_back(Completion { token, result: -ECANCELED, request });
        }
    }

    fn wait(&mut self, _: Option<time::Duration>) -> io::Result<()> {
        Ok(())
    }

    fn pop(&mut self) -> Option<Completion> {
        self.0.borrow_mut().done.pop_front()
    }

    fn in_flight(&self) -> usize {
        let kernel = self.0.borrow();
        kernel.flights.len() + kernel.done.len()
    }
}

/// The status of a file that is there, as far as anybody looks at it.
fn stat(is_directory: bool, size: usize) -> Stat {
    let mut stat = rustix::fs::fstat(fs::File::open("/dev/null").unwrap()).unwrap();
    stat.st_mode = if is_directory { 0o040_700 } else { 0o100_600 };
    (stat.st_size, stat.st_nlink) = (size as _, 1);
    stat
}

impl Files for Shared {
    fn mkdir(&self, path: &Path) -> rustix::io::Result<()> {
        let (kernel, name) = (&mut *self.0.borrow_mut(), path.file_name().unwrap().to_str().unwrap());
        kernel.call(None, CALLS)?;
        if kernel.tree.find(ROOT, name).is_some() {
            return Err(Errno::EXIST);
        }
        kernel.tree.make(ROOT, name, true);
        Ok(())
    }

    fn rmdir(&self, path: &Path) -> rustix::io::Result<()> {
        let (kernel, name) = (&mut *self.0.borrow_mut(), path.file_name().unwrap().to_str().unwrap());
        kernel.call(None, CALLS)?;
        kernel.tree.rename(ROOT, Some(name.into()), None);
        Ok(())
    }

    fn open(&self, path: &Path, _: OFlags) -> rustix::io::Result<OwnedFd> {
        let (kernel, name) = (&mut *self.0.borrow_mut(), path.file_name().unwrap().to_str().unwrap());
        kernel.call(None, OPENS)?;
        let node = kernel.tree.find(ROOT, name).ok_or(Errno::NOENT)?;
        Ok(kernel.opened(node))
    }

    fn stat(&self, path: &Path) -> rustix::io::Result<Stat> {
        let (kernel, name) = (&mut *self.0.borrow_mut(), path.file_name().unwrap().to_str().unwrap());
        let node = kernel.tree.find(ROOT, name).ok_or(Errno::NOENT)?;
        kernel.call(Some(node), CALLS)?;
        let file = kernel.tree.file(node);
        Ok(stat(file.is_none(), file.map_or(0, |file| file.now.len())))
    }

    fn statx(&self, file: BorrowedFd<'_>, wanted: StatxFlags) -> rustix::io::Result<Statx> {
        let mut stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
        if let Some((memory, offset)) = self.0.borrow().direct {
            stat.stx_mask |= StatxFlags::DIOALIGN.bits();
            (stat.stx_dio_mem_align, stat.stx_dio_offset_align) = (memory, offset);
        }
        Ok(stat)
    }

    fn size(&self, file: BorrowedFd<'_>) -> rustix::io::Result<u64> {
        Ok(self.fstat(file)?.st_size as u64)
    }

    fn fcntl_setfl(&self, file: BorrowedFd<'_>, _: OFlags) -> rustix::io::Result<()> {
        let kernel = &mut *self.0.borrow_mut();
        let node = kernel.node(&file);
        kernel.call(Some(node), CALLS)
    }

    fn openat(&self, dir: BorrowedFd<'_>, name: &str, flags: OFlags, _: Mode) -> rustix::io::Result<OwnedFd> {
        let kernel = &mut *self.0.borrow_mut();
        let directory = kernel.node(&dir);
        let found = kernel.tree.find(directory, name);
        kernel.call(found, OPENS)?;
        let node = match found {
            Some(_) if flags.contains(OFlags::EXCL) => return Err(Errno::EXIST),
            Some(node) => node,
            None if flags.contains(OFlags::CREATE) => kernel.tree.make(directory, name, false),
            None => return Err(Errno::NOENT),
        };
        kernel.find_zones();
        Ok(kernel.opened(node))
    }

    fn flock(&self, _: BorrowedFd<'_>, _: FlockOperation) -> rustix::io::Result<()> {
        self.0.borrow_mut().call(None, CALLS)
    }

    fn names(&self, directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<String>> {
        let kernel = &mut *self.0.borrow_mut();
        kernel.call(None, CALLS)?;
        let directory = kernel.tree.directory(kernel.node(&directory)).ok_or(Errno::NOTDIR)?;
        Ok(directory.now.keys().cloned().collect())
    }

    fn statat(&self, directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<Stat> {
        let kernel = &mut *self.0.borrow_mut();
        let node = kernel.tree.find(kernel.node(&directory), name).ok_or(Errno::NOENT)?;
        kernel.call(Some(node), CALLS)?;
        let file = kernel.tree.file(node);
        Ok(stat(file.is_none(), file.map_or(0, |file| file.now.len())))
    }

    fn accessat(&self, _: BorrowedFd<'_>, _: &str, _: Access) -> rustix::io::Result<()> {
        self.0.borrow_mut().call(None, CALLS)
    }

    fn fstat(&self, file: BorrowedFd<'_>) -> rustix::io::Result<Stat> {
        let kernel = &mut *self.0.borrow_mut();
        let node = kernel.node(&file);
        kernel.call(Some(node), CALLS)?;
        let size = kernel.tree.file(node).map_or(0, |file| file.now.len());
        let told = if kernel.bug == Bug::NoLearning { kernel.sizes.get(&node).copied() } else { None };
        Ok(stat(kernel.tree.file(node).is_none(), told.unwrap_or(size)))
    }

    fn cached_status(&self, file: BorrowedFd<'_>) -> rustix::io::Result<FileStatus> {
        let kernel = &mut *self.0.borrow_mut();
        let node = kernel.node(&file);
        kernel.call(Some(node), CALLS)?;
        Ok(kernel.status(node))
    }

    fn ftruncate(&self, file: BorrowedFd<'_>, len: u64) -> rustix::io::Result<()> {
        let kernel = &mut *self.0.borrow_mut();
        let node = kernel.node(&file);
        kernel.call(Some(node), CALLS)?;
        kernel.tree.resize(node, len as usize);
        Ok(())
    }

    fn fdatasync(&self, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.fsync(file)
    }

    fn fsync(&self, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let kernel = &mut *self.0.borrow_mut();
        let node = kernel.node(&file);
        kernel.call(Some(node), CALLS)?;
        let skipped = if kernel.tree.file(node).is_some() { Bug::NoGeometrySync } else { Bug::NoNameSync };
        if kernel.bug != skipped {
            kernel.tree.sync(node, u64::MAX);
        }
        Ok(())
    }

    fn syncfs(&self, _: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let kernel = &mut *self.0.borrow_mut();
        kernel.call(None, CALLS)?;
        if kernel.bug != Bug::NoNameSync {
            kernel.tree.sync_all();
        }
        Ok(())
    }

    fn renameat(&self, directory: BorrowedFd<'_>, from: &str, to: &str) -> rustix::io::Result<()> {
        let kernel = &mut *self.0.borrow_mut();
        kernel.call(None, CALLS)?;
        let directory = kernel.node(&directory);
        let node = kernel.tree.find(directory, from).ok_or(Errno::NOENT)?;
        kernel.tree.rename(directory, Some(from.into()), Some((to.into(), node)));
        Ok(())
    }

    fn unlinkat(&self, directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<()> {
        let kernel = &mut *self.0.borrow_mut();
        kernel.call(None, CALLS)?;
        let directory = kernel.node(&directory);
        kernel.tree.find(directory, name).ok_or(Errno::NOENT)?;
        kernel.tree.rename(directory, Some(name.into()), None);
        Ok(())
    }

    fn read(&self, file: BorrowedFd<'_>, most: usize) -> rustix::io::Result<Vec<u8>> {
        let kernel = &mut *self.0.borrow_mut();
        let node = kernel.node(&file);
        kernel.call(Some(node), CALLS)?;
        let bytes = &kernel.tree.file(node).ok_or(Errno::ISDIR)?.now;
        Ok(bytes[..bytes.len().min(most)].to_vec())
    }

    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<()> {
        let kernel = &mut *self.0.borrow_mut();
        let node = kernel.node(&file);
        kernel.call(Some(node), CALLS)?;
        kernel.tree.write(node, 0, bytes);
        Ok(())
    }
}
