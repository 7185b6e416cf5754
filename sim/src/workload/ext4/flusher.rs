//! Writing back: which file is next, and its data as bios.
//!
//! The oldest dirty file first, the whole of it (`fs/fs-writeback.c:writeback_sb_inodes` takes 4 MiB of a file at least): when
//! more is dirty than may be in the background, when it is old, or for a sync. Blocks of metadata that are committed are
//! dirty pages of the device itself, one more file in this order.

use super::cache::DirtyFile;
use super::layout::Extent;
use super::options::{Ext4Options, Memory};
use super::queue::WriteQueue;
use super::{Ending, Ext4};
use shingle_core::time::Instant;

/// The thread that writes back, and the queue of the drive.
pub struct Flusher {
    memory: Memory,
    /// Data that has blocks, tagged with the number of its transaction, modulo 2.
    pub queue: WriteQueue,
    /// Bios of each of two transactions that are not done.
    of: [u32; 2],
    /// When it looks for old files next, and what was old the last time.
    pub wake: Instant,
    old: Option<Instant>,
}

impl Flusher {
    pub fn new(options: &Ext4Options) -> Self {
        Self {
            memory: options.memory,
            queue: WriteQueue::new(options),
            of: [0; 2],
            wake: Instant::ZERO + options.memory.wake,
            old: None,
        }
    }

    /// Whether data of transaction `number` is not on the device yet.
    pub fn has_data_of(&self, number: u64) -> bool {
        self.of[(number % 2) as usize] > 0
    }

    /// Whether all that was to be written back is.
    pub fn is_empty(&self) -> bool {
        self.of == [0; 2]
    }

    /// A bio with this tag is done.
    pub fn done(&mut self, tag: u64) {
        self.queue.done();
        self.of[tag as usize] -= 1;
    }

    fn push(&mut self, extent: Extent, number: u64) {
        self.of[(number % 2) as usize] += self.queue.push(extent, number % 2);
    }

    fn look_for_old(&mut self, now: Instant) {
        if now >= self.wake {
            self.wake = now + self.memory.wake;
            self.old = (now.0 >= self.memory.expire.0).then(|| Instant(now.0 - self.memory.expire.0));
        }
    }

    fn is_old(&self, since: Instant) -> bool {
        self.old.is_some_and(|old| since <= old)
    }
}

impl Ext4 {
    /// Takes the next file, or the metadata, to write it back; false if nothing is to be done or can be.
    pub(super) fn write_back(&mut self, now: Instant) -> bool {
        self.flusher.look_for_old(now);
        let Some(fs) = &mut self.fs else { return false };
        if !self.flusher.queue.is_ready() || !fs.journal.has_room() {
            return false;
        }
        let oldest = self.cache.oldest().map(|file| file.since);
        let in_background = self.cache.dirty > self.flusher.memory.background();
        let wants = |since: Instant| in_background || self.flusher.is_old(since);
        if let Some(since) = fs.journal.due_since
            && wants(since)
            && oldest.is_none_or(|oldest| since <= oldest)
        {
            fs.journal.place_all();
            return true;
        }
        let for_sync = |since: Instant| self.programs.sync_until().is_some_and(|until| since <= until);
        if !oldest.is_some_and(|since| wants(since) || for_sync(since)) {
            return false;
        }
        self.cache.take().is_some_and(|file| self.allocate(file, now))
    }

    /// Gives a file its blocks and lines its data up.
    fn allocate(&mut self, file: DirtyFile, now: Instant) -> bool {
        let Some(fs) = &mut self.fs else { return false };
        let goal = fs.layout.goal_of_file(file.inode.group);
        let pieces = match file.open {
            true => fs.allocator.take_open(goal, file.blocks),
            false => fs.allocator.take(goal, file.blocks),
        };
        let Some(pieces) = pieces else {
            self.ending.get_or_insert(Ending::Full);
            return false;
        };
        let number = fs.journal.number;
        for extent in pieces {
            fs.allocated(extent, now);
            self.flusher.push(extent, number);
        }
        // Its length and its extents; up to four of them are in the inode itself.
        fs.journal.dirty(file.inode.block, now);
        true
    }
}
