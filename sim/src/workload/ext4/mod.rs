//! ext4 on an ordinary disk under buffered writers: what the disk sees of them.
//!
//! ```text
//!  programs ─> page cache ─> flusher ─> blocks from mballoc ─────────────────────> bios of data
//!     ^            │ dirty     │ oldest file first                                      │ before the commit block
//!     └─ throttle <┘           └─> inodes, bitmaps, descriptors ─> journal: ring, commit block, later in place
//! ```
//!
//! Programs write files of some MiB by 4 KiB into the page cache, each data point into a new directory; Orlov's rule puts
//! directories far apart ([`orlov`]), files follow their directory ([`mballoc`]). Metadata lies at the beginning of the device
//! ([`layout`]) and goes through the journal ([`journal`]). Programs wait when too much is dirty ([`throttle`]).
//!
//! Left out: reads, since nothing is read back and bitmaps of new groups need not be; deletes; the zeroing of inode tables
//! behind a new file system (`lazy_itable_init`), which sleeps ten times as long as it waits for the device.

mod cache;
mod flusher;
mod journal;
mod layout;
mod mballoc;
mod options;
mod orlov;
mod programs;
mod queue;
mod samples;
mod throttle;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use slab::Slab;

pub use options::{Ext4Options, Format, Load, Memory};
pub use samples::{Point, Sample};

use self::cache::Cache;
use self::flusher::Flusher;
use self::journal::{Journal, JournalWrite};
use self::layout::{Extent, Layout};
use self::mballoc::Allocator;
use self::options::BLOCK_BYTES;
use self::orlov::{Inode, Inodes};
use self::programs::Programs;
use self::queue::WriteQueue;
use self::samples::Samples;
use self::throttle::Throttle;
use crate::{Actor, Io};
use shingle_core::block::{Bio, Completion, Data, DeviceId, Flags, Op, Payload, Status};
use shingle_core::random::Rng;
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::Instant;

/// Sectors of a block.
const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES as u64;

/// How the load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its time was over.
    Time,
    /// The file system has no free block or inode.
    Full,
    /// The device is too small for the metadata of a file system.
    TooSmall,
    /// The device failed a write.
    Failed(Status),
}

/// The file system's own state: what is where, and what has changed.
struct Fs {
    layout: Layout,
    inodes: Inodes,
    allocator: Allocator,
    journal: Journal,
    /// The block of the root directory.
    root: u64,
}

/// The programs, the file system and the memory between them.
pub struct Ext4 {
    disk: DeviceId,
    options: Ext4Options,
    mkfs: WriteQueue,
    /// When the programs began.
    began: Option<Instant>,
    fs: Option<Fs>,
    cache: Cache,
    flusher: Flusher,
    throttle: Throttle,
    programs: Programs,
    samples: Samples,
    rng: Rng,
    memory: Data,
    /// Writes of the journal that are on their way.
    metadata: Slab<JournalWrite>,
    ending: Option<Ending>,
    /// It has ended, and nothing is on its way any more.
    is_over: bool,
}

/// A write of data is tagged with its transaction's number, modulo 2: no more than two can have data on the way.
const METADATA: u64 = 4;
/// A write of mkfs's, and the flush behind them.
const MKFS: u64 = 2;
const MADE: u64 = 3;

impl Ext4 {
    /// A new file system on `disk`, whatever its size, and its programs.
    #[must_use]
    pub fn new(disk: DeviceId, options: Ext4Options) -> Self {
        let options =
            Ext4Options { bio_blocks: options.bio_blocks.max(1), requests: options.requests.max(1), ..options };
        Self {
            disk,
            mkfs: WriteQueue::new(&options),
            began: None,
            fs: None,
            cache: Cache::default(),
            flusher: Flusher::new(&options),
            throttle: Throttle::new(options.memory.background(), options.memory.limit()),
            programs: Programs::new(&options.load),
            samples: Samples::new(options.sample),
            rng: Rng::new(options.seed),
            memory: Data::zeroed(options.bio_blocks as usize * BLOCK_BYTES as usize),
            metadata: Slab::new(),
            ending: None,
            is_over: false,
            options,
        }
    }

    /// How the load ended; `None` as long as it goes on.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// When the programs began: after mkfs.
    #[must_use]
    pub fn began(&self) -> Option<Instant> {
        self.began
    }

    /// Throughput over time: one sample for each [`Ext4Options::sample`] from the start on.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples.all
    }

    /// All data points that came to their end.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.programs.points
    }

    /// Transactions that were committed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.fs.as_ref().map_or(0, |fs| fs.journal.commits)
    }

    /// Bytes that are dirty, or on their way to the device.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.cache.held() * BLOCK_BYTES
    }

    /// Makes the file system; the programs begin when that is done.
    fn make(&mut self, io: &mut Io<'_>) {
        let blocks = io.limits(self.disk).capacity / BLOCK_SECTORS;
        let made = Layout::new(blocks, &self.options.format).and_then(|layout| Fs::new(layout, &self.options));
        match &made {
            None => self.ending = Some(Ending::TooSmall),
            Some(fs) if self.options.format.make => {
                fs.layout.of_mkfs().for_each(|extent| _ = self.mkfs.push(extent, MKFS));
            }
            Some(_) => self.begin(io.now()),
        }
        self.fs = made;
    }

    fn begin(&mut self, now: Instant) {
        self.began = Some(now);
        self.samples.began = now;
    }

    fn take_in(&mut self, done: &Completion, io: &mut Io<'_>) {
        let now = io.now();
        if !done.status.is_ok() {
            self.ending.get_or_insert(Ending::Failed(done.status));
        }
        let blocks = u64::from(done.bio.sectors) / BLOCK_SECTORS;
        match done.tag {
            MKFS if self.mkfs.done() => {
                io.submit(MADE, self.disk, Box::new(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)));
            }
            MKFS => {}
            MADE => self.begin(now),
            tag @ ..METADATA => {
                self.samples.at(now).data += blocks * BLOCK_BYTES;
                self.cache.writing -= blocks;
                self.throttle.written += blocks;
                self.flusher.done(tag);
            }
            tag => {
                self.samples.at(now).metadata += blocks * BLOCK_BYTES;
                let request = self.metadata.remove((tag - METADATA) as usize);
                self.fs.iter_mut().for_each(|fs| fs.journal.done(request, now));
            }
        }
    }

    /// Does all that can be done at `now`.
    fn work(&mut self, io: &mut Io<'_>) {
        let now = io.now();
        self.throttle.look(now, self.cache.writing > 0);
        loop {
            let did = self.run_programs(now) | self.write_back(now);
            self.send_data(io);
            let sync = self.programs.syncing();
            let Some(fs) = &mut self.fs else { return };
            fs.journal.step(now, sync, |number| self.flusher.has_data_of(number));
            let did = did | !fs.journal.requests.is_empty();
            self.send_metadata(io);
            if !did || self.ending.is_some() {
                return;
            }
        }
    }

    fn send_data(&mut self, io: &mut Io<'_>) {
        while let Some((extent, tag)) = self.flusher.queue.next() {
            self.send(tag, extent, Flags::NONE, io);
        }
    }

    fn send_metadata(&mut self, io: &mut Io<'_>) {
        while let Some(request) = self.fs.as_mut().and_then(|fs| fs.journal.requests.pop_front()) {
            let tag = METADATA + self.metadata.insert(request) as u64;
            self.send(tag, request.extent, request.flags, io);
        }
    }

    fn send(&self, tag: u64, extent: Extent, flags: Flags, io: &mut Io<'_>) {
        let payload = Payload::Data(self.memory.slice(0, extent.blocks as usize * BLOCK_BYTES as usize));
        let (sector, sectors) = (Sector(extent.start * BLOCK_SECTORS), extent.blocks * BLOCK_SECTORS as u32);
        io.submit(tag, self.disk, Box::new(Bio::new(Op::Write, sector, sectors, payload).with_flags(flags)));
    }

    fn set_alarm(&self, io: &mut Io<'_>) {
        let now = io.now();
        let commit = self.fs.as_ref().and_then(|fs| fs.journal.deadline());
        let fixed = [Some(self.throttle.next_look()), Some(self.flusher.wake), commit];
        let all = fixed.into_iter().flatten().chain(self.programs.alarms());
        // What is due already waits for a write to end.
        if let Some(next) = all.filter(|at| *at > now).min() {
            io.wake_at(next);
        }
    }
}

impl Fs {
    fn new(layout: Layout, options: &Ext4Options) -> Option<Self> {
        let mut allocator = Allocator::new(&layout);
        let mut inodes = Inodes::new(&layout);
        inodes.take(0, true, &layout)?;
        let root = allocator.take(0, 1)?.first()?.start;
        let journal = Journal::new(layout.journal.clone(), options.commit_interval, options.bio_blocks);
        Some(Self { inodes, allocator, journal, root, layout })
    }

    /// A new inode in `flex`, or near to it.
    fn create(&mut self, flex: u32, is_directory: bool, now: Instant) -> Option<Inode> {
        let inode = self.inodes.take(flex, is_directory, &self.layout)?;
        let changed = [self.layout.inode_bitmap(inode.group), self.layout.descriptor(inode.group), inode.block];
        changed.into_iter().for_each(|block| self.journal.dirty(block, now));
        Some(inode)
    }

    /// The journal hears of the bitmaps and descriptors of what was allocated.
    fn allocated(&mut self, extent: Extent, now: Instant) {
        let group = (extent.start / layout::GROUP_BLOCKS) as u32;
        self.journal.dirty(self.layout.block_bitmap(group), now);
        self.journal.dirty(self.layout.descriptor(group), now);
    }

    /// A block for the entries of a directory in `flex`.
    fn directory_block(&mut self, flex: u32, now: Instant) -> Option<u64> {
        let extent = *self.allocator.take(self.layout.groups_of(flex).start, 1)?.first()?;
        self.allocated(extent, now);
        self.journal.dirty(extent.start, now);
        Some(extent.start)
    }
}

impl Actor for Ext4 {
    fn act(&mut self, io: &mut Io<'_>) {
        if self.fs.is_none() && self.ending.is_none() {
            self.make(io);
        }
        while let Some(done) = io.completion() {
            self.take_in(&done, io);
        }
        if self.began.is_some_and(|began| io.now() >= began + self.options.runtime) {
            self.ending.get_or_insert(Ending::Time);
        }
        match (self.ending, self.began) {
            (None, Some(_)) => {
                self.work(io);
                self.set_alarm(io);
                self.is_over = self.ending.is_some() && io.outstanding() == 0;
            }
            (None, None) => {
                while let Some((extent, tag)) = self.mkfs.next() {
                    self.send(tag, extent, Flags::NONE, io);
                }
            }
            _ => self.is_over = io.outstanding() == 0,
        }
    }

    fn is_done(&self) -> bool {
        self.is_over
    }
}
