//! Which run has a block: exactly, in two bytes of memory for each block that was written at random.

use core::ops::Range;

use super::leaf::{LeafNo, LeafSize};
use crate::prelude::*;

/// A run, among those that there are at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunNo(pub u8);

/// Numbers of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSet([u64; 4]);

impl RunSet {
    /// Whether this one is among them.
    #[must_use]
    pub fn has(&self, run: RunNo) -> bool {
        self.0[usize::from(run.0) / 64] >> (run.0 % 64) & 1 == 1
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

impl From<RunNo> for RunSet {
    fn from(run: RunNo) -> Self {
        let mut words = [0; 4];
        words[usize::from(run.0) / 64] = 1 << (run.0 % 64);
        Self(words)
    }
}

impl FromIterator<RunSet> for RunSet {
    fn from_iter<T: IntoIterator<Item = RunSet>>(sets: T) -> Self {
        let union = |one: Self, other: Self| Self(core::array::from_fn(|word| one.0[word] | other.0[word]));
        sets.into_iter().fold(Self::default(), union)
    }
}

/// Blocks of a leaf that one run has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The run: the newest that has them.
    pub run: RunNo,
    /// Where in the leaf.
    pub blocks: Range<u32>,
}

/// Of each leaf the blocks that runs have.
#[derive(Clone, Debug, Default)]
pub struct RunIndex {
    rows: Vec<Row>,
    bytes: usize,
    /// What it has given back since there is one.
    forgotten: usize,
    /// Memory for the next row that is written.
    spare: Writer,
}

/// Entries from one mark to the next.
const STRIDE: usize = 64;

/// A list of `gap`, `length` if it is more than one, and `run`, of which the first two are numbers of seven bits a byte; the lowest bit of the
/// gap says whether there is a length.
#[derive(Clone, Debug, Default)]
struct Row {
    bytes: Box<[u8]>,
    /// Where to begin to look, instead of at the front: one every [`STRIDE`] entries.
    marks: Box<[Mark]>,
}

/// An entry.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Behind the blocks of those before it, in the leaf.
    at: u16,
    /// Its first byte.
    byte: u16,
}

impl RunIndex {
    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Row>() + self.bytes
    }

    /// Memory that it would take had it never forgotten anything.
    #[must_use]
    pub fn grown(&self) -> usize {
        self.bytes + self.forgotten
    }

    /// The run that has a block, if one has; and up to where in the leaf that is so, which may be beyond its end if no run has any.
    #[must_use]
    pub fn find(&self, leaf: LeafNo, offset: u32) -> (Option<RunNo>, u32) {
        let Some(row) = self.rows.get(leaf.0 as usize) else { return (None, LeafSize::MAX_BLOCKS) };
        for held in row.near(offset) {
            if offset < held.blocks.start {
                return (None, held.blocks.start);
            }
            if offset < held.blocks.end {
                return (Some(held.run), held.blocks.end);
            }
        }
        (None, LeafSize::MAX_BLOCKS)
    }

    /// What runs have of a leaf, in order.
    pub fn held(&self, leaf: LeafNo) -> impl Iterator<Item = Held> {
        self.rows.get(leaf.0 as usize).map_or(Walk::default(), |row| row.walk(Mark::default()))
    }

    /// Notes that `run` has these blocks of a leaf, in order, whoever had them before.
    pub fn add(&mut self, leaf: LeafNo, run: RunNo, blocks: &[Range<u32>]) {
        let (mut to, mut new) = (self.writer(), blocks.iter().peekable());
        for Held { run: old, blocks: Range { mut start, end } } in self.held(leaf) {
            while let Some(next) = new.next_if(|next| next.end < end) {
                if start < next.start {
                    to.put(old, start..next.start);
                }
                to.put(run, next.clone());
                start = start.max(next.end);
            }
            // The next one reaches to its end, or begins behind it.
            let end = new.peek().map_or(end, |next| next.start.min(end));
            if start < end {
                to.put(old, start..end);
            }
        }
        new.for_each(|blocks| to.put(run, blocks.clone()));
        self.store(leaf, to);
    }

    /// Forgets what the runs have of a leaf that `is_merged` says.
    pub fn forget(&mut self, leaf: LeafNo, is_merged: impl Fn(RunNo) -> bool) {
        let (mut to, before) = (self.writer(), self.bytes);
        self.held(leaf).filter(|held| !is_merged(held.run)).for_each(|held| to.put(held.run, held.blocks));
        self.store(leaf, to);
        self.forgotten += before.saturating_sub(self.bytes);
    }

    fn writer(&mut self) -> Writer {
        let mut writer = core::mem::take(&mut self.spare);
        writer.bytes.clear();
        writer.marks.clear();
        (writer.at, writer.entries) = (0, 0);
        writer
    }

    fn store(&mut self, leaf: LeafNo, from: Writer) {
        let place = leaf.0 as usize;
        if place >= self.rows.len() && from.entries > 0 {
            self.rows.resize(place + 1, Row::default());
        }
        if let Some(row) = self.rows.get_mut(place) {
            let old = row.size();
            replace(&mut row.bytes, &from.bytes);
            replace(&mut row.marks, &from.marks);
            self.bytes = self.bytes - old + row.size();
        }
        self.spare = from;
    }
}

/// Puts these there, in the memory that is there if it is as long.
fn replace<T: Copy>(there: &mut Box<[T]>, new: &[T]) {
    if there.len() == new.len() {
        there.copy_from_slice(new);
    } else {
        *there = new.into();
    }
}

/// A row that is written, entry by entry.
#[derive(Clone, Debug, Default)]
struct Writer {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    /// Behind the last blocks.
    at: u32,
    entries: usize,
}

impl Writer {
    fn put(&mut self, run: RunNo, blocks: Range<u32>) {
        if self.entries > 0 && self.entries.is_multiple_of(STRIDE) {
            self.marks.push(Mark { at: self.at as u16, byte: self.bytes.len() as u16 });
        }
        let is_long = blocks.len() > 1;
        self.put_number((blocks.start - self.at) << 1 | u32::from(is_long));
        if is_long {
            self.put_number(blocks.len() as u32);
        }
        self.bytes.push(run.0);
        (self.at, self.entries) = (blocks.end, self.entries + 1);
    }

    fn put_number(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

// All of them can be said in 16 bits: an entry of one block takes three bytes, and less for each block if it has more.
const _: () = assert!(LeafSize::MAX_BLOCKS * 3 <= u16::MAX as u32);

impl Row {
    /// Bytes of memory beside its own.
    fn size(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.marks)
    }

    /// What runs have from a mark on.
    fn walk(&self, from: Mark) -> Walk<'_> {
        Walk { bytes: &self.bytes[from.byte.into()..], at: from.at.into() }
    }

    /// What they have from a few entries before a block on.
    fn near(&self, offset: u32) -> Walk<'_> {
        let behind = self.marks.partition_point(|mark| u32::from(mark.at) <= offset);
        self.walk(behind.checked_sub(1).map_or(Mark::default(), |last| self.marks[last]))
    }
}

/// A row that is gone through.
#[derive(Default)]
struct Walk<'a> {
    bytes: &'a [u8],
    /// Behind the last blocks.
    at: u32,
}

impl Iterator for Walk<'_> {
    type Item = Held;

    fn next(&mut self) -> Option<Held> {
        if self.bytes.is_empty() {
            return None;
        }
        let gap = self.number();
        let length = if gap & 1 == 1 { self.number() } else { 1 };
        let start = self.at + (gap >> 1);
        self.at = start + length;
        Some(Held { run: RunNo(self.byte()), blocks: start..self.at })
    }
}

impl Walk<'_> {
    fn byte(&mut self) -> u8 {
        self.bytes.split_off_first().copied().unwrap_or_default()
    }

    fn number(&mut self) -> u32 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u32::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    /// Blocks in order that do not touch.
    fn drawn(rng: &mut Rng, most: u64) -> Vec<Range<u32>> {
        let (mut blocks, mut at) = (Vec::new(), 0);
        loop {
            let start = at + rng.below(most) as u32;
            let end = start + 1 + if rng.chance(1, 3) { rng.below(most) as u32 } else { 0 };
            if end > LeafSize::MAX_BLOCKS {
                return blocks;
            }
            blocks.push(start..end);
            at = end + 1;
        }
    }

    fn check(index: &RunIndex, leaf: LeafNo, plain: &[Option<RunNo>]) {
        let mut at = 0;
        while at < LeafSize::MAX_BLOCKS {
            let (found, until) = index.find(leaf, at);
            assert!(until > at && until <= LeafSize::MAX_BLOCKS);
            assert!(plain[at as usize..until as usize].iter().all(|run| *run == found), "blocks {at}..{until}");
            at = until;
        }
        assert_eq!(index.bytes, index.rows.iter().map(Row::size).sum::<usize>());
    }

    #[test]
    fn the_newest_run_that_has_a_block_is_found_and_merged_ones_are_forgotten() {
        for seed in 0..30 {
            let (mut rng, mut index) = (Rng::new(seed), RunIndex::default());
            let leaf = LeafNo(rng.below(5) as u32);
            let mut plain = vec![None; LeafSize::MAX_BLOCKS as usize];
            for run in (0..6).map(RunNo) {
                let most = 1 << (2 + rng.below(10));
                let blocks = drawn(&mut rng, most);
                blocks.iter().for_each(|blocks| plain[blocks.start as usize..blocks.end as usize].fill(Some(run)));
                index.add(leaf, run, &blocks);
                check(&index, leaf, &plain);
            }
            plain.iter_mut().for_each(|run| *run = run.filter(|run| run.0 >= 3));
            index.forget(leaf, |run| run.0 < 3);
            check(&index, leaf, &plain);
            index.forget(leaf, |_| true);
            check(&index, leaf, &vec![None; LeafSize::MAX_BLOCKS as usize]);
        }
    }

    #[test]
    fn a_block_written_at_random_takes_two_bytes() {
        let (mut rng, mut index) = (Rng::new(7), RunIndex::default());
        for run in (0..60).map(RunNo) {
            let mut blocks: Vec<u32> = (0..3).map(|_| rng.below(LeafSize::MAX_BLOCKS.into()) as u32).collect();
            blocks.sort_unstable();
            blocks.dedup();
            index.add(LeafNo(0), run, &blocks.iter().map(|at| *at..at + 1).collect::<Vec<_>>());
        }
        let held = index.held(LeafNo(0)).count();
        assert!(held > 170 && index.bytes * 10 < held * 23, "{} bytes for {held} blocks", index.bytes);
    }

    #[test]
    fn a_leaf_of_which_nobody_has_anything_takes_no_memory() {
        let mut index = RunIndex::default();
        index.forget(LeafNo(1000), |_| true);
        index.add(LeafNo(1000), RunNo(1), &[]);
        assert_eq!((index.bytes(), index.find(LeafNo(1000), 5)), (0, (None, LeafSize::MAX_BLOCKS)));
    }
}
