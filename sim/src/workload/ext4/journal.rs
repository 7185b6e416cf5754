//! The journal: metadata blocks are written twice, first one after the other into a ring, later in place.
//!
//! ```text
//!  dirty() ─> running ──(5 s, or sync)──> committing: data in place ─> descriptors + blocks ─> commit block, PREFLUSH|FUA
//!                                                                                                   │
//!  ring:  ..free.. | tail: logged, not in place yet ............................ head |  ..free.. <─┘ then dirty in place
//! ```
//!
//! A transaction's blocks may be written in place once it is committed; its room in the ring is free when all of them are in
//! place, or in a later transaction. The tail that is on the device moves when that frees a quarter of the ring
//! (`fs/jbd2/commit.c:jbd2_journal_commit_transaction`), by a write of the journal's superblock.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use super::layout::Extent;
use shingle_core::block::Flags;
use shingle_core::time::{Duration, Instant};

/// Tags of a block in a descriptor block: 16 bytes each with checksums, behind a header of 12.
const TAGS: u64 = (4096 - 12) / 16;

/// Blocks that one step of the file system may change: bitmaps, descriptors, inodes and directories.
const HANDLE: u64 = 64;

/// What a write of the journal's is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Descriptors and logged blocks.
    Log,
    /// The commit block.
    Commit,
    /// A block in its place.
    Place,
    /// The journal's superblock, with a new tail.
    Tail,
}

/// A write that the journal wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalWrite {
    /// What for.
    pub purpose: Purpose,
    /// Where.
    pub extent: Extent,
    /// How.
    pub flags: Flags,
}

/// How far the transaction is that is being committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// There is none.
    #[default]
    None,
    /// It waits for the data that it speaks of (`data=ordered`).
    Data,
    /// So many writes of its log are on their way.
    Log(u32),
    /// Its commit block is on its way.
    Commit,
}

/// A committed transaction that is not wholly in place.
struct Logged {
    /// Blocks in the ring.
    ring: u64,
    /// Blocks that are not in place yet.
    live: u32,
}

/// The journal of a file system.
#[derive(Default)]
pub struct Journal {
    area: Range<u64>,
    /// Longest write, in blocks.
    longest: u32,
    interval: Duration,
    running: BTreeSet<u64>,
    /// When the running transaction began.
    began: Option<Instant>,
    /// Number of the running transaction: what was changed until now is on the device when it is committed.
    pub number: u64,
    committing: BTreeSet<u64>,
    stage: Stage,
    /// Blocks of the ring that were ever written, and of them those that the device knows to be free again.
    head: u64,
    tail: u64,
    /// Those that are free, whether the device knows it or not.
    freed: u64,
    logged: VecDeque<Logged>,
    /// Number of the first of `logged`.
    oldest: u64,
    /// Blocks to be written in place, with the number of their transaction.
    due: BTreeMap<u64, u64>,
    /// Since when blocks wait to be written in place.
    pub due_since: Option<Instant>,
    /// Blocks on their way to their place.
    placing: BTreeMap<u64, u64>,
    /// The tail in the superblock that is on its way.
    moving_tail: Option<u64>,
    /// What it wants to be written.
    pub requests: VecDeque<JournalWrite>,
    /// Transactions that are committed.
    pub commits: u64,
}

impl Journal {
    /// An empty journal in the blocks of `area` that commits every `interval` and writes up to `longest` blocks at a time.
    pub fn new(area: Range<u64>, interval: Duration, longest: u32) -> Self {
        Self { area, longest: longest.max(1), interval, ..Self::default() }
    }

    /// `block` is changed by the running transaction.
    pub fn dirty(&mut self, block: u64, now: Instant) {
        self.began.get_or_insert(now);
        self.running.insert(block);
    }

    /// Whether transaction `number` is committed, or never was anything.
    pub fn is_committed(&self, number: u64) -> bool {
        match self.stage {
            _ if number == self.number => self.running.is_empty(),
            Stage::None => true,
            _ => number + 1 != self.number,
        }
    }

    /// When the running transaction is to be committed.
    pub fn deadline(&self) -> Option<Instant> {
        self.began.filter(|_| self.stage == Stage::None).map(|began| began + self.interval)
    }

    /// Whether the running transaction may change a few more blocks: it always has to fit into what is free of the ring
    /// (`fs/jbd2/checkpoint.c:__jbd2_log_wait_for_space`).
    pub fn has_room(&self) -> bool {
        let blocks = self.running.len() + self.committing.len();
        self.ring_of(blocks as u64 + HANDLE) <= self.size() - (self.head - self.tail)
    }

    /// Commits the running transaction if it is time, or `now_anyway`, and nothing is being committed; goes on with what is.
    /// `data_in_flight`: whether there is some of this transaction.
    pub fn step(&mut self, now: Instant, now_anyway: bool, data_in_flight: impl Fn(u64) -> bool) {
        let is_tight = !self.has_room();
        if is_tight {
            self.place_all();
            self.move_tail();
        }
        let is_large = self.ring_of(self.running.len() as u64) >= self.size() / 4;
        let is_due = now_anyway || is_tight || is_large || self.deadline().is_some_and(|at| at <= now);
        if self.stage == Stage::None && is_due && !self.running.is_empty() {
            self.committing = core::mem::take(&mut self.running);
            self.began = None;
            self.number += 1;
            self.stage = Stage::Data;
        }
        if self.stage == Stage::Data && !data_in_flight(self.number - 1) {
            self.write_log();
        }
    }

    /// A write that it wanted is done.
    pub fn done(&mut self, JournalWrite { purpose, extent, .. }: JournalWrite, now: Instant) {
        match purpose {
            Purpose::Log => {
                let Stage::Log(left) = self.stage else { return };
                self.stage = Stage::Log(left - 1);
                if left == 1 {
                    self.write_commit();
                }
            }
            Purpose::Commit => self.committed(now),
            Purpose::Place => self.placed(extent),
            Purpose::Tail => self.tail = self.moving_tail.take().unwrap_or(self.tail),
        }
        self.move_tail();
    }

    /// Wants every block written in place that is committed and not changed again since, in rising order.
    pub fn place_all(&mut self) {
        let is_free = |block: &u64| {
            !self.running.contains(block) && !self.committing.contains(block) && !self.placing.contains_key(block)
        };
        let ready: Vec<u64> = self.due.keys().copied().filter(is_free).collect();
        for block in &ready {
            let number = self.due.remove(block).unwrap_or_default();
            self.placing.insert(*block, number);
        }
        let runs = ready.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(self.longest as usize));
        for run in runs {
            let extent = Extent { start: run[0], blocks: run.len() as u32 };
            self.requests.push_back(JournalWrite { purpose: Purpose::Place, extent, flags: Flags::NONE });
        }
        // What is left is in a later transaction, whose commit makes it due anew.
        self.due_since = None;
    }

    fn size(&self) -> u64 {
        self.area.end - self.area.start - 1
    }

    /// Blocks of the ring that a transaction of `blocks` takes: descriptors, the blocks and the commit block.
    fn ring_of(&self, blocks: u64) -> u64 {
        blocks + blocks.div_ceil(TAGS) + 1
    }

    /// Takes the next of the ring, up to `blocks`.
    fn advance(&mut self, blocks: u64) -> Extent {
        let at = self.head % self.size();
        let blocks = blocks.min(self.size() - at).min(self.longest.into());
        self.head += blocks;
        Extent { start: self.area.start + 1 + at, blocks: blocks as u32 }
    }

    fn write_log(&mut self) {
        let mut blocks = self.ring_of(self.committing.len() as u64) - 1;
        let mut pieces = 0;
        while blocks > 0 {
            let extent = self.advance(blocks);
            self.requests.push_back(JournalWrite { purpose: Purpose::Log, extent, flags: Flags::NONE });
            blocks -= u64::from(extent.blocks);
            pieces += 1;
        }
        self.stage = Stage::Log(pieces);
    }

    /// Logged blocks are durable before the commit block is, and that one when its write ends.
    fn write_commit(&mut self) {
        let (extent, flags) = (self.advance(1), Flags::PREFLUSH.with(Flags::FUA));
        self.requests.push_back(JournalWrite { purpose: Purpose::Commit, extent, flags });
        self.stage = Stage::Commit;
    }

    fn committed(&mut self, now: Instant) {
        let number = self.number - 1;
        let blocks = core::mem::take(&mut self.committing);
        self.logged.push_back(Logged { ring: self.ring_of(blocks.len() as u64), live: blocks.len() as u32 });
        for block in blocks {
            if let Some(before) = self.due.insert(block, number) {
                self.forget(before);
            }
        }
        self.due_since.get_or_insert(now);
        self.stage = Stage::None;
        self.commits += 1;
    }

    fn placed(&mut self, extent: Extent) {
        for block in extent.start..extent.start + u64::from(extent.blocks) {
            if let Some(number) = self.placing.remove(&block) {
                self.forget(number);
            }
        }
    }

    /// A block of transaction `number` needs the log no more.
    fn forget(&mut self, number: u64) {
        let Some(logged) = self.logged.get_mut((number - self.oldest) as usize) else { return };
        logged.live -= 1;
        while let Some(logged) = self.logged.pop_front_if(|logged| logged.live == 0) {
            self.freed += logged.ring;
            self.oldest += 1;
        }
    }

    fn move_tail(&mut self) {
        let gain = self.freed - self.tail;
        let is_due = gain >= self.size() / 4 || gain > 0 && !self.has_room();
        if !is_due || self.moving_tail.is_some() {
            return;
        }
        self.moving_tail = Some(self.freed);
        let extent = Extent { start: self.area.start, blocks: 1 };
        let flags = Flags::PREFLUSH.with(Flags::FUA);
        self.requests.push_back(JournalWrite { purpose: Purpose::Tail, extent, flags });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(0);
    const LATER: Instant = Instant(6_000_000_000);

    fn journal(blocks: u64) -> Journal {
        Journal::new(1000..1000 + blocks, Duration::from_millis(5_000), 256)
    }

    /// Does everything it wants, in order; returns it.
    fn serve(journal: &mut Journal) -> Vec<JournalWrite> {
        let mut all = Vec::new();
        while let Some(request) = journal.requests.pop_front() {
            journal.done(request, LATER);
            all.push(request);
        }
        all
    }

    fn commit(journal: &mut Journal, blocks: Range<u64>) -> Vec<JournalWrite> {
        blocks.for_each(|block| journal.dirty(block, NOW));
        journal.step(LATER, true, |_| false);
        serve(journal)
    }

    #[test]
    fn commit_blocks_carry_preflush_and_fua_and_come_last() {
        let mut journal = journal(4096);
        let requests = commit(&mut journal, 10..40);
        let [log, commit] = requests[..] else { panic!("{requests:?}") };
        assert_eq!((log.purpose, log.extent), (Purpose::Log, Extent { start: 1001, blocks: 31 }), "with a descriptor");
        assert_eq!((commit.purpose, commit.extent), (Purpose::Commit, Extent { start: 1032, blocks: 1 }));
        assert_eq!(commit.flags, Flags::PREFLUSH.with(Flags::FUA));
        assert_eq!(log.flags, Flags::NONE);
    }

    #[test]
    fn a_transaction_is_committed_when_it_is_old_enough_and_its_data_is_written() {
        let mut journal = journal(4096);
        journal.dirty(5, NOW);
        journal.step(Instant(4_999_999_999), false, |_| false);
        assert!(journal.requests.is_empty(), "it is not old enough");
        journal.step(LATER, false, |number| number == 0);
        assert!(journal.requests.is_empty(), "its data is on the way");
        journal.step(LATER, false, |number| number == 1);
        assert_eq!(journal.requests.len(), 1);
        assert!(!journal.is_committed(0));
        serve(&mut journal);
        assert!(journal.is_committed(0) && journal.commits == 1);
    }

    #[test]
    fn blocks_are_written_in_place_after_the_commit_in_rising_runs_and_only_once() {
        let mut journal = journal(4096);
        [7, 9, 8, 20].into_iter().for_each(|block| journal.dirty(block, NOW));
        journal.place_all();
        assert!(journal.requests.is_empty(), "nothing is committed");
        commit(&mut journal, 0..0);
        journal.dirty(20, LATER);
        journal.place_all();
        let places = serve(&mut journal);
        assert_eq!(places.len(), 1, "20 is in the running transaction: {places:?}");
        assert_eq!(places[0].extent, Extent { start: 7, blocks: 3 });
        journal.place_all();
        assert!(journal.requests.is_empty());
    }

    #[test]
    fn the_ring_wraps_and_never_holds_more_than_it_has_room_for() {
        let mut journal = journal(1024);
        let mut wrapped = false;
        for round in 0..200 {
            let from = round * 7 % 50;
            let mut wanted = commit(&mut journal, from..from + 100);
            while !journal.has_room() {
                journal.step(LATER, false, |_| false);
                let more = serve(&mut journal);
                assert!(!more.is_empty(), "round {round}: the ring is full for ever");
                wanted.extend(more);
            }
            assert!(journal.head - journal.tail <= journal.size(), "round {round}");
            let in_ring = wanted.iter().filter(|r| matches!(r.purpose, Purpose::Log | Purpose::Commit));
            for JournalWrite { extent, .. } in in_ring {
                assert!(extent.start > 1000 && extent.start + u64::from(extent.blocks) <= 2024, "{extent:?}");
                wrapped |= extent.start == 1001 && round > 0;
            }
        }
        assert!(wrapped && journal.commits == 200);
    }
}
