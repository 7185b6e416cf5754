//! The programs: each writes file after file, and all of them one data point after the other.
//!
//! ```text
//!  new directory ─> every program: create, write by steps, close, ... ─> all are done ─> [sync] ─> new directory
//! ```

use alloc::vec;
use alloc::vec::Vec;

use super::cache::DirtyFile;
use super::options::{BLOCK_BYTES, Load};
use super::orlov::Inode;
use super::samples::Point;
use super::throttle::MAX_PAUSE;
use super::{Ending, Ext4};
use shingle_core::time::{Duration, Instant};

/// Entries in a block of a directory: names of a dozen letters.
const ENTRIES: u32 = (BLOCK_BYTES / 24) as u32;

/// A program.
#[derive(Clone, Copy, Default)]
struct Program {
    /// When it goes on.
    at: Instant,
    /// Files that it has still to begin for this data point.
    files: u32,
    /// The file that it writes.
    file: Option<OpenFile>,
    /// Blocks that it made dirty and has not waited for yet.
    debt: f64,
}

/// A file that is being written.
#[derive(Clone, Copy)]
struct OpenFile {
    inode: Inode,
    /// Its length.
    bytes: u64,
    /// Blocks that are not written yet.
    left: u32,
    /// Its number among the dirty files.
    dirty: Option<u64>,
}

/// Where all of them are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PointState {
    /// A data point begins.
    #[default]
    Start,
    /// They write.
    Write,
    /// All that was dirty at this time has to be on the device.
    Data(Instant),
    /// This transaction has to be committed.
    Commit(u64),
}

/// The directory of a data point.
#[derive(Clone, Copy, Default)]
struct Directory {
    flex: u32,
    /// The block with its newest entries, and how many it has.
    block: u64,
    entries: u32,
}

/// All programs.
#[derive(Default)]
pub struct Programs {
    all: Vec<Program>,
    state: PointState,
    directory: Directory,
    /// When the data point began, and what was written for it.
    began: Instant,
    bytes: u64,
    /// Processor time for a block, when all of them write.
    block_time: Duration,
    /// Data points that came to their end.
    pub points: Vec<Point>,
}

impl Programs {
    pub fn new(load: &Load) -> Self {
        let crowd = load.writers.max(1).div_ceil(load.processors.max(1));
        Self {
            all: vec![Program::default(); load.writers.max(1) as usize],
            block_time: Duration(load.write_block.0 * u64::from(crowd)),
            ..Self::default()
        }
    }

    /// When programs go on by themselves.
    pub fn alarms(&self) -> impl Iterator<Item = Instant> {
        self.all.iter().filter(|program| !program.is_done()).map(|program| program.at)
    }

    /// A sync waits for what was dirty at this time.
    pub fn sync_until(&self) -> Option<Instant> {
        if let PointState::Data(until) = self.state { Some(until) } else { None }
    }

    /// Whether a sync waits for a commit.
    pub fn syncing(&self) -> bool {
        matches!(self.state, PointState::Commit(_))
    }

    fn busy(&self) -> u64 {
        self.all.iter().filter(|program| !program.is_done()).count() as u64
    }
}

impl Program {
    fn is_done(&self) -> bool {
        self.files == 0 && self.file.is_none() && self.debt <= 0.0
    }
}

impl Ext4 {
    /// Lets programs do what they can at `now`; false if none could do anything.
    pub(super) fn run_programs(&mut self, now: Instant) -> bool {
        match self.programs.state {
            PointState::Start => self.begin_point(now),
            PointState::Write => {
                let ready = |program: &Program| !program.is_done() && program.at <= now;
                let mut did = false;
                for place in 0..self.programs.all.len() {
                    did |= ready(&self.programs.all[place]) && self.run_program(place, now);
                }
                did | (self.programs.busy() == 0 && self.end_writing(now))
            }
            PointState::Data(until) => {
                let is_written = self.cache.oldest().is_none_or(|file| file.since > until) && self.flusher.is_empty();
                let number = self.fs.as_ref().map_or(0, |fs| fs.journal.number);
                if is_written {
                    self.programs.state = PointState::Commit(number);
                }
                is_written
            }
            PointState::Commit(number) => {
                let Some(fs) = self.fs.as_mut().filter(|fs| fs.journal.is_committed(number)) else { return false };
                // `sync(2)` has the device's own pages written, too.
                fs.journal.place_all();
                self.end_point(now)
            }
        }
    }

    fn begin_point(&mut self, now: Instant) -> bool {
        let Some(fs) = self.fs.as_mut().filter(|fs| fs.journal.has_room()) else { return false };
        let free = (|flex| fs.allocator.free_in(flex), fs.allocator.free);
        let made = fs.inodes.choose_flex(&mut self.rng, free).and_then(|flex| {
            fs.create(flex, true, now)?;
            fs.journal.dirty(fs.root, now);
            Some(Directory { flex, block: fs.directory_block(flex, now)?, entries: 0 })
        });
        let Some(directory) = made else {
            self.ending.get_or_insert(Ending::Full);
            return false;
        };
        let programs = &mut self.programs;
        (programs.directory, programs.state, programs.began, programs.bytes) = (directory, PointState::Write, now, 0);
        programs.all.iter_mut().for_each(|program| (program.at, program.files) = (now, self.options.load.files.max(1)));
        true
    }

    fn end_writing(&mut self, now: Instant) -> bool {
        if self.options.load.sync {
            self.programs.state = PointState::Data(now);
            return true;
        }
        self.end_point(now)
    }

    fn end_point(&mut self, now: Instant) -> bool {
        let programs = &mut self.programs;
        programs.points.push(Point { began: programs.began, ended: now, bytes: programs.bytes });
        programs.state = PointState::Start;
        true
    }

    /// One step of a program; false if it cannot do it now.
    fn run_program(&mut self, place: usize, now: Instant) -> bool {
        if self.programs.all[place].debt > 0.0 {
            self.pay(place, now);
            return true;
        }
        match self.programs.all[place].file {
            None => self.create_file(place, now),
            Some(file) => self.write_step(place, file, now),
        }
    }

    /// Waits for what it made dirty, if too much is (`balance_dirty_pages`).
    fn pay(&mut self, place: usize, now: Instant) {
        let busy = self.programs.busy();
        let rate = self.throttle.rate(self.cache.held(), busy);
        let program = &mut self.programs.all[place];
        let Some(rate) = rate else {
            program.debt = 0.0;
            return;
        };
        let wanted = program.debt * 1e9 / rate;
        if wanted <= MAX_PAUSE.0 as f64 {
            (program.debt, program.at) = (0.0, now + Duration(wanted as u64 + 1));
        } else {
            program.debt -= rate * MAX_PAUSE.0 as f64 / 1e9;
            program.at = now + MAX_PAUSE;
        }
    }

    fn create_file(&mut self, place: usize, now: Instant) -> bool {
        let Some(fs) = self.fs.as_mut().filter(|fs| fs.journal.has_room()) else { return false };
        let directory = &mut self.programs.directory;
        let made = fs.create(directory.flex, false, now).and_then(|inode| {
            if directory.entries == ENTRIES {
                (directory.block, directory.entries) = (fs.directory_block(directory.flex, now)?, 0);
            }
            fs.journal.dirty(directory.block, now);
            directory.entries += 1;
            Some(inode)
        });
        let Some(inode) = made else {
            self.ending.get_or_insert(Ending::Full);
            return false;
        };
        let (least, most) = (*self.options.load.file_bytes.start(), *self.options.load.file_bytes.end());
        let bytes = (least + self.rng.below(most.saturating_sub(least) + 1)).max(1);
        let left = bytes.div_ceil(BLOCK_BYTES) as u32;
        let program = &mut self.programs.all[place];
        program.files -= 1;
        program.file = Some(OpenFile { inode, bytes, left, dirty: None });
        true
    }

    fn write_step(&mut self, place: usize, mut file: OpenFile, now: Instant) -> bool {
        let blocks = file.left.min(self.options.load.step_blocks.max(1));
        let grown = file.dirty.is_some_and(|number| self.cache.grow(number, blocks));
        if !grown {
            file.dirty = Some(self.cache.add(DirtyFile { inode: file.inode, blocks, open: true, since: now }));
        }
        file.left -= blocks;
        if file.left == 0 {
            file.dirty.into_iter().for_each(|number| self.cache.close(number));
            self.samples.at(now).closed += file.bytes;
            self.programs.bytes += file.bytes;
        }
        let block_time = self.programs.block_time;
        let program = &mut self.programs.all[place];
        program.file = Some(file).filter(|file| file.left > 0);
        program.debt += f64::from(blocks);
        program.at = now + Duration((block_time.0 * u64::from(blocks)).max(1));
        true
    }
}
