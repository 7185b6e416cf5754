//! Which blocks of a zone are valid.
//!
//! Most zones are written front to back, and their valid blocks are a few runs. A set with many runs becomes a bitmap, so it
//! never takes more memory than the bitmap on the disk does.

use core::ops::Range;

use super::Block;
use crate::prelude::*;

/// A set of blocks of one zone.
#[derive(Clone, Debug)]
pub struct ValidBlocks {
    /// Blocks of the zone.
    blocks: u32,
    weight: u32,
    kept: Kept,
}

#[derive(Clone, Debug)]
enum Kept {
    /// Runs in rising order, none touching another.
    Runs(Vec<Range<u32>>),
    /// A bit for each block, the lowest first.
    Bits(Box<[u64]>),
}

impl ValidBlocks {
    /// The empty set of a zone of `blocks`.
    #[must_use]
    pub const fn new(blocks: u32) -> Self {
        Self { blocks, weight: 0, kept: Kept::Runs(Vec::new()) }
    }

    /// Number of blocks in the set.
    #[inline]
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Whether the set has no blocks.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weight == 0
    }

    /// Whether `block` is in the set, and up to which block, at most `end`, all are as it is.
    #[inline]
    #[must_use]
    pub fn run(&self, block: Block, end: Block) -> (bool, Block) {
        let (is_in, until) = self.run_at(block.0, end.0);
        (is_in, Block(until))
    }

    #[inline]
    fn run_at(&self, block: u32, end: u32) -> (bool, u32) {
        if self.weight == self.blocks {
            return (true, end);
        }
        match &self.kept {
            Kept::Runs(runs) => {
                let next = runs.partition_point(|run| run.end <= block);
                match runs.get(next) {
                    Some(run) if run.start <= block => (true, run.end.min(end)),
                    Some(run) => (false, run.start.min(end)),
                    None => (false, end),
                }
            }
            Kept::Bits(bits) => {
                let is_set = bits[block as usize / 64] >> (block % 64) & 1 == 1;
                (is_set, find(bits, block, end, !is_set))
            }
        }
    }

    /// Whether all of `range` is in the set.
    #[inline]
    #[must_use]
    pub fn has_all(&self, range: &Range<Block>) -> bool {
        self.run(range.start, range.end) == (true, range.end)
    }

    /// The runs of the set within `range`.
    pub fn runs(&self, range: Range<Block>) -> impl Iterator<Item = Range<Block>> + '_ {
        self.spans(range.start.0..range.end.0).map(|span| Block(span.start)..Block(span.end))
    }

    fn spans(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut at = range.start;
        core::iter::from_fn(move || {
            while at < range.end {
                let (is_set, end) = self.run_at(at, range.end);
                let found = at..end;
                at = end;
                if is_set {
                    return Some(found);
                }
            }
            None
        })
    }

    /// Number of runs.
    #[must_use]
    pub fn count_runs(&self) -> u32 {
        match &self.kept {
            Kept::Runs(runs) => runs.len() as u32,
            Kept::Bits(bits) => {
                let starts = |(n, word): (usize, &u64)| {
                    let before = if n == 0 { 0 } else { bits[n - 1] >> 63 };
                    (word & !(word << 1 | before)).count_ones()
                };
                bits.iter().enumerate().map(starts).sum()
            }
        }
    }

    /// The first block of the set.
    #[must_use]
    pub fn first(&self) -> Option<Block> {
        self.spans(0..self.blocks).next().map(|run| Block(run.start))
    }

    /// One past the last block of the set; 0 if it is empty.
    #[must_use]
    pub fn end(&self) -> Block {
        Block(match &self.kept {
            Kept::Runs(runs) => runs.last().map_or(0, |run| run.end),
            Kept::Bits(bits) => {
                let last = bits.iter().rposition(|word| *word != 0);
                last.map_or(0, |n| n as u32 * 64 + 64 - bits[n].leading_zeros())
            }
        })
    }

    /// Number of blocks of `range` that are in the set.
    #[must_use]
    pub fn weight_in(&self, range: Range<Block>) -> u32 {
        self.runs(range).map(|run| run.end - run.start).sum()
    }

    /// Puts `range` in; returns how many blocks were not in the set.
    pub fn insert(&mut self, range: Range<Block>) -> u32 {
        self.change(range.start.0..range.end.0, true)
    }

    /// Takes `range` out; returns how many blocks were in the set.
    pub fn remove(&mut self, range: Range<Block>) -> u32 {
        self.change(range.start.0..range.end.0, false)
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        *self = Self::new(self.blocks);
    }

    /// Takes out all that is in `other`.
    pub fn subtract(&mut self, other: &Self) {
        for run in other.spans(0..other.blocks) {
            self.change(run, false);
        }
    }

    /// Puts in all that is in `other`.
    pub fn unite(&mut self, other: &Self) {
        for run in other.spans(0..other.blocks) {
            self.change(run, true);
        }
    }

    fn change(&mut self, range: Range<u32>, put_in: bool) -> u32 {
        if range.is_empty() {
            return 0;
        }
        let before = self.weight;
        match &mut self.kept {
            Kept::Runs(runs) => {
                self.weight = splice(runs, range, put_in, before);
                if runs.len() > most_runs(self.blocks) {
                    self.make_bits();
                }
            }
            Kept::Bits(bits) => {
                let changed = change_bits(bits, range, put_in);
                self.weight = if put_in { before + changed } else { before - changed };
                if self.weight == 0 || self.weight == self.blocks {
                    self.make_runs();
                }
            }
        }
        self.weight.abs_diff(before)
    }

    fn make_bits(&mut self) {
        let mut bits = vec![0; self.blocks.div_ceil(64) as usize].into_boxed_slice();
        for run in self.spans(0..self.blocks) {
            change_bits(&mut bits, run, true);
        }
        self.kept = Kept::Bits(bits);
    }

    /// Keeps the set as runs again, if they are few.
    fn make_runs(&mut self) {
        if self.count_runs() as usize <= most_runs(self.blocks) / 2 {
            self.kept = Kept::Runs(self.spans(0..self.blocks).collect());
        }
    }

    /// Writes the bitmap from block `first` on as the disk has it: the lowest bit of the first byte is block `first`, a
    /// multiple of 64.
    pub fn to_bitmap(&self, Block(first): Block, bitmap: &mut [u8]) {
        bitmap.fill(0);
        let end = self.blocks.min(first + bitmap.len() as u32 * 8);
        for run in self.spans(first..end) {
            let (from, to) = (run.start - first, run.end - first);
            let mut bit = from;
            while bit < to {
                if bit.is_multiple_of(8) && to - bit >= 8 {
                    bitmap[bit as usize / 8] = 0xff;
                    bit += 8;
                } else {
                    bitmap[bit as usize / 8] |= 1 << (bit % 8);
                    bit += 1;
                }
            }
        }
    }

    /// Puts in what a bitmap from the disk says of the blocks from `first` on, a multiple of 64. Bits behind the zone's last
    /// block mean nothing.
    pub fn add_bitmap(&mut self, Block(first): Block, bitmap: &[u8]) {
        let words: Vec<u64> = bitmap.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let end = (self.blocks - first).min(words.len() as u32 * 64);
        let mut at = 0;
        while at < end {
            let from = find(&words, at, end, true);
            let to = find(&words, from, end, false);
            self.change(first + from..first + to, true);
            at = to;
        }
    }
}

/// Runs that take as much memory as the bitmap.
fn most_runs(blocks: u32) -> usize {
    (blocks as usize / 64).max(8)
}

/// The first block from `at` on, before `end`, whose bit is as `wanted`; `end` if there is none.
fn find(bits: &[u64], at: u32, end: u32, wanted: bool) -> u32 {
    let mut block = at;
    while block < end {
        let word = bits[block as usize / 64];
        let word = (if wanted { word } else { !word }) >> (block % 64);
        if word != 0 {
            return (block + word.trailing_zeros()).min(end);
        }
        block = (block / 64 + 1) * 64;
    }
    end
}

/// Changes the bits of `range`; returns how many were different.
fn change_bits(bits: &mut [u64], range: Range<u32>, put_in: bool) -> u32 {
    let (mut block, mut changed) = (range.start, 0);
    while block < range.end {
        let word = &mut bits[block as usize / 64];
        let len = (64 - block % 64).min(range.end - block);
        let mask = (u64::MAX >> (64 - len)) << (block % 64);
        let different = if put_in { !*word } else { *word } & mask;
        *word ^= different;
        changed += different.count_ones();
        block += len;
    }
    changed
}

/// Puts `range` into runs or takes it out; returns the new weight.
fn splice(runs: &mut Vec<Range<u32>>, range: Range<u32>, put_in: bool, weight: u32) -> u32 {
    // Runs that overlap; when putting in, also those that touch.
    let touch = u32::from(put_in);
    let first = runs.partition_point(|run| run.end + touch <= range.start);
    let past = first + runs[first..].partition_point(|run| run.start < range.end + touch);
    if put_in && past == first + 1 && runs[first].start <= range.start {
        // The common case: a run grows, or has it all.
        let run = &mut runs[first];
        let grown = range.end.saturating_sub(run.end);
        run.end += grown;
        return weight + grown;
    }
    let inside = |run: &Range<u32>| run.end.min(range.end).saturating_sub(run.start.max(range.start));
    let had: u32 = runs[first..past].iter().map(inside).sum();
    let low = runs[first..past].first().map_or(range.start, |run| run.start.min(range.start));
    let high = runs[first..past].last().map_or(range.end, |run| run.end.max(range.end));
    if put_in {
        runs.splice(first..past, core::iter::once(low..high));
        return weight + (range.end - range.start) - had;
    }
    let left = [low..range.start, range.end..high].into_iter().filter(|run| !run.is_empty());
    let left: Vec<Range<u32>> = if first == past { Vec::new() } else { left.collect() };
    runs.splice(first..past, left);
    weight - had
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    fn check(set: &ValidBlocks, model: &[bool]) {
        let blocks = model.len() as u32;
        assert_eq!(set.weight() as usize, model.iter().filter(|is_in| **is_in).count());
        let mut found = vec![false; model.len()];
        let mut runs = 0;
        for run in set.runs(Block::all(blocks)) {
            found[run.start.0 as usize..run.end.0 as usize].fill(true);
            runs += 1;
        }
        assert_eq!(found, model);
        assert_eq!(set.count_runs(), runs);
        assert_eq!(set.first(), model.iter().position(|is_in| *is_in).map(|block| Block(block as u32)));
        assert_eq!(set.end().0 as usize, model.iter().rposition(|is_in| *is_in).map_or(0, |block| block + 1));
    }

    #[test]
    fn it_is_a_set_whatever_goes_in_and_out() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let blocks = [8, 64, 100, 1024, 4096][rng.below(5) as usize];
            let longest = [1, 3, blocks / 4 + 1, blocks][rng.below(4) as usize];
            let (mut set, mut model) = (ValidBlocks::new(blocks as u32), vec![false; blocks as usize]);
            for _ in 0..400 {
                let from = rng.below(blocks);
                let to = (from + 1 + rng.below(longest)).min(blocks);
                let put_in = rng.chance(3, 5);
                let part = &mut model[from as usize..to as usize];
                let differ = part.iter().filter(|is_in| **is_in != put_in).count();
                part.fill(put_in);
                let range = Block(from as u32)..Block(to as u32);
                let changed = if put_in { set.insert(range.clone()) } else { set.remove(range.clone()) };
                assert_eq!(changed as usize, differ, "seed {seed}");
                assert_eq!(set.has_all(&range), put_in);
            }
            check(&set, &model);
        }
    }

    #[test]
    fn a_bitmap_comes_back_as_it_went_out() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let blocks = [8_u64, 64, 256, 32768, 65536][rng.below(5) as usize];
            let mut set = ValidBlocks::new(blocks as u32);
            for _ in 0..rng.below(3000) {
                let from = rng.below(blocks);
                set.insert(Block(from as u32)..Block((from + 1 + rng.below(5)).min(blocks) as u32));
            }
            let mut back = ValidBlocks::new(blocks as u32);
            for first in (0..blocks as u32).step_by(32768) {
                let mut bitmap = vec![0; 4096];
                set.to_bitmap(Block(first), &mut bitmap);
                for block in first..(first + 32768).min(blocks as u32) {
                    let bit = bitmap[(block - first) as usize / 8] >> (block % 8) & 1 == 1;
                    assert_eq!(bit, set.run(Block(block), Block(block + 1)).0, "the lowest bit comes first");
                }
                back.add_bitmap(Block(first), &bitmap);
            }
            assert_eq!(back.weight(), set.weight());
            assert!(back.runs(Block::all(blocks as u32)).eq(set.runs(Block::all(blocks as u32))));
        }
    }

    #[test]
    fn a_set_takes_no_more_memory_than_its_bitmap() {
        let mut set = ValidBlocks::new(65536);
        for block in (0..65536).step_by(2) {
            set.insert(Block(block)..Block(block + 1));
        }
        assert!(matches!(set.kept, Kept::Bits(_)), "32768 runs are kept one by one");
        set.insert(Block::all(65536));
        assert!(matches!(&set.kept, Kept::Runs(runs) if runs.len() == 1), "a full zone is one run");
    }
}
