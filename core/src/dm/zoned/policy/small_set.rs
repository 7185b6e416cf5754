//! A set in small, for tests: zones are numbers, blocks are bits, and reclaim does what [`choose`] says.

use std::vec::Vec;

use super::{
    Action, Ahead, Candidate, EarlyWrite, Knobs, Place, Pool, Stock, Style, Urgency, choose, place_ahead, place_first,
    urgency,
};
use crate::dm::zoned::{Block, ChunkNo, Number};
use crate::random::Rng;
use crate::time::{Duration, Instant};

/// Blocks of a zone: one for each bit of a mask.
const ZONE_BLOCKS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cache,
    Random,
    Sequential,
}

/// The zones of a chunk: the valid blocks of each are the bits that are set.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    data: Option<(Kind, u32)>,
    buffer: Option<u32>,
    /// Kind of the buffer's zone.
    buffer_kind: Option<Kind>,
    wp: u32,
    written: Instant,
    lru: u64,
}

struct SmallSet {
    knobs: Knobs,
    stock: Stock,
    /// Size of the reserve when it is whole.
    reserve: u32,
    leaving: Vec<Kind>,
    chunks: Vec<Chunk>,
    urgency: Urgency,
    now: Instant,
    idle_since: Instant,
    uses: u64,
    /// What reclaim did.
    actions: Vec<Action>,
}

/// Bits `from` to `to`, the end excluded.
fn bits(from: u32, to: u32) -> u32 {
    let below = |n: u32| if n >= ZONE_BLOCKS { u32::MAX } else { (1 << n) - 1 };
    below(to) & !below(from)
}

fn end_of(blocks: u32) -> u32 {
    ZONE_BLOCKS - blocks.leading_zeros()
}

fn runs_of(blocks: u32) -> u32 {
    (blocks & !(blocks << 1)).count_ones()
}

impl Chunk {
    fn data_blocks(&self) -> u32 {
        self.data.map_or(0, |(_, blocks)| blocks)
    }

    fn valid(&self) -> u32 {
        self.data_blocks() | self.buffer.unwrap_or(0)
    }

    fn is_mapped(&self) -> bool {
        self.data.is_some()
    }

    fn candidate(&self, chunk: usize, now: Instant) -> Candidate {
        let (kind, data) = self.data.unwrap();
        let buffer = self.buffer.unwrap_or(0);
        assert_eq!(data & buffer, 0, "a block is valid twice");
        let copied = if buffer.trailing_zeros() >= self.wp { buffer } else { data | buffer };
        Candidate {
            chunk: ChunkNo::of(chunk),
            dzone_is_random: kind != Kind::Sequential,
            dzone_is_cache: kind == Kind::Cache,
            data_blocks: data.count_ones(),
            buffer_blocks: buffer.count_ones(),
            has_buffer: self.buffer.is_some(),
            runs: runs_of(if self.buffer.is_some() { copied } else { data }),
            wp: Block(self.wp),
            first_buffered: Block(if buffer == 0 { 0 } else { buffer.trailing_zeros() }),
            last_block: Block(end_of(data | buffer)),
            idle_for: now.since(self.written),
            lru: self.lru,
            is_open: false,
        }
    }
}

impl SmallSet {
    /// `slack` zones are there beyond what the chunks need; all of them sequential at first.
    fn new(knobs: Knobs, cache: u32, random: u32, sequential: u32, slack: u32) -> Self {
        let pool = |n| Pool { free: n, total: n };
        let (cache, random, sequential) = (pool(cache), pool(random), pool(sequential - slack));
        let chunks = cache.total + random.total + sequential.total;
        Self {
            stock: Stock {
                cache,
                random,
                sequential,
                reserve: slack,
                zone_blocks: ZONE_BLOCKS,
                leaving: 0,
                random_buffers: knobs.style == Style::Kernel2020,
            },
            knobs,
            reserve: slack,
            leaving: Vec::new(),
            chunks: std::vec![Chunk::default(); chunks as usize],
            urgency: Urgency::None,
            now: Instant::ZERO,
            idle_since: Instant::ZERO,
            uses: 0,
            actions: Vec::new(),
        }
    }

    /// The kind of zone that the next buffer or first write gets.
    fn buffer_kind(&self) -> Kind {
        let is_random = self.stock.random_buffers && self.stock.cache.free == 0;
        if self.stock.has_cache() && !is_random { Kind::Cache } else { Kind::Random }
    }

    fn pool(&mut self, kind: Kind) -> &mut Pool {
        match kind {
            Kind::Cache => &mut self.stock.cache,
            Kind::Random => &mut self.stock.random,
            Kind::Sequential => &mut self.stock.sequential,
        }
    }

    fn take(&mut self, kind: Kind) -> bool {
        let pool = self.pool(kind);
        let has_one = pool.free > 0;
        pool.free -= u32::from(has_one);
        has_one
    }

    fn take_for_reclaim(&mut self) {
        if !self.take(Kind::Sequential) {
            self.stock.reserve = self.stock.reserve.checked_sub(1).expect("a zone that is not there was promised");
        }
    }

    fn leave(&mut self, kind: Kind) {
        self.leaving.push(kind);
        self.stock.leaving += 1;
    }

    /// What left can be taken again.
    fn commit(&mut self) {
        for kind in std::mem::take(&mut self.leaving) {
            if kind == Kind::Sequential && self.stock.reserve < self.reserve {
                self.stock.reserve += 1;
            } else {
                self.pool(kind).free += 1;
            }
        }
        self.stock.leaving = 0;
        self.check_counts();
    }

    /// Every zone is free, leaving, or has a chunk.
    fn check_counts(&self) {
        let used = |of: Kind| {
            let data = self.chunks.iter().filter(|chunk| chunk.data.is_some_and(|(kind, _)| kind == of)).count();
            let buffers = self.chunks.iter().filter(|chunk| chunk.buffer_kind == Some(of)).count();
            (data + buffers + self.leaving.iter().filter(|kind| **kind == of).count()) as u32
        };
        assert_eq!(self.stock.cache.free + used(Kind::Cache), self.stock.cache.total);
        assert_eq!(self.stock.random.free + used(Kind::Random), self.stock.random.total);
        let sequential = self.stock.sequential.free + self.stock.reserve + used(Kind::Sequential);
        assert_eq!(sequential, self.stock.sequential.total + self.reserve);
    }

    /// A user writes; false if he has to wait for a buffer.
    fn write(&mut self, at: usize, from: u32, to: u32) -> bool {
        (self.idle_since, self.uses) = (self.now, self.uses + 1);
        if !self.chunks[at].is_mapped() && !self.map(at, from, to - from) {
            return false;
        }
        let chunk = self.chunks[at];
        let is_done = match chunk.data.unwrap() {
            (Kind::Sequential, _) if from < chunk.wp => self.write_buffer(at, from, to),
            (Kind::Sequential, _) => self.write_at_or_ahead(at, from, to),
            _ => self.write_data(at, from, to),
        };
        (self.chunks[at].written, self.chunks[at].lru) = (self.now, self.uses);
        is_done
    }

    fn map(&mut self, at: usize, from: u32, len: u32) -> bool {
        let kind = match place_first(&self.knobs, &self.stock, Block(from), len) {
            Place::Sequential => Kind::Sequential,
            Place::Random => self.buffer_kind(),
        };
        let is_taken = self.take(kind);
        assert!(is_taken || kind != Kind::Sequential, "a zone that is not there was promised");
        if is_taken {
            self.chunks[at] = Chunk { data: Some((kind, 0)), ..Chunk::default() };
        }
        is_taken
    }

    fn write_at_or_ahead(&mut self, at: usize, from: u32, to: u32) -> bool {
        let (gap, has_buffer) = (from - self.chunks[at].wp, self.chunks[at].buffer.is_some());
        let ask = |has_waited| {
            place_ahead(&self.knobs, &self.stock, &EarlyWrite { gap, len: to - from, held: 0, has_waited, has_buffer })
        };
        let answer = if ask(false) == Ahead::Hold { ask(true) } else { ask(false) };
        match answer {
            _ if gap == 0 => self.write_data(at, from, to),
            Ahead::Fill => self.write_data(at, from, to),
            Ahead::Buffer => self.write_buffer(at, from, to),
            Ahead::Hold => panic!("held twice"),
        }
    }

    fn write_data(&mut self, at: usize, from: u32, to: u32) -> bool {
        let chunk = &mut self.chunks[at];
        let (kind, blocks) = chunk.data.unwrap();
        (chunk.data, chunk.wp) = (Some((kind, blocks | bits(from, to))), chunk.wp.max(to));
        self.unbuffer(at, bits(from, to));
        true
    }

    fn write_buffer(&mut self, at: usize, from: u32, to: u32) -> bool {
        let buffer_kind = self.buffer_kind();
        if self.chunks[at].buffer.is_none() && !self.take(buffer_kind) {
            return false;
        }
        let chunk = &mut self.chunks[at];
        chunk.buffer_kind = chunk.buffer_kind.or(Some(buffer_kind));
        let (kind, blocks) = chunk.data.unwrap();
        chunk.buffer = Some(chunk.buffer.unwrap_or(0) | bits(from, to));
        chunk.data = Some((kind, blocks & !bits(from, to)));
        true
    }

    /// Blocks are not valid in the buffer any more; an empty one leaves.
    fn unbuffer(&mut self, at: usize, blocks: u32) {
        let Some(buffer) = self.chunks[at].buffer.as_mut() else { return };
        *buffer &= !blocks;
        if *buffer == 0 {
            self.chunks[at].buffer = None;
            self.chunks[at].buffer_kind.take().into_iter().for_each(|kind| self.leave(kind));
        }
    }

    fn discard(&mut self, at: usize, from: u32, to: u32) {
        let Some((kind, blocks)) = self.chunks[at].data else { return };
        self.chunks[at].data = Some((kind, blocks & !bits(from, to)));
        self.unbuffer(at, bits(from, to));
    }

    /// One step of reclaim; false if there was nothing to do.
    fn reclaim(&mut self) -> bool {
        self.urgency = urgency(&self.knobs, &self.stock, self.now.since(self.idle_since), self.urgency);
        let mapped = self.chunks.iter().enumerate().filter(|(_, chunk)| chunk.is_mapped());
        let now = self.now;
        let mut candidates = mapped.map(|(at, chunk)| chunk.candidate(at, now));
        let Some((at, action)) = choose(&self.knobs, &self.stock, self.urgency, &mut candidates) else { return false };
        self.apply(at.index(), action);
        true
    }

    fn apply(&mut self, at: usize, action: Action) {
        let chunk = self.chunks[at];
        let (kind, blocks) = chunk.data.unwrap();
        let buffer = chunk.buffer.unwrap_or(0);
        let fresh = |kind, blocks| Chunk {
            data: Some((kind, blocks)),
            buffer: None,
            buffer_kind: None,
            wp: end_of(blocks),
            ..chunk
        };
        let is_plain = kind != Kind::Sequential && chunk.buffer.is_none();
        self.chunks[at] = match action {
            Action::Free => {
                assert_eq!(chunk.valid(), 0, "valid blocks are freed");
                Chunk::default()
            }
            Action::Move => {
                assert!(is_plain, "only a random data zone can be moved");
                self.take_for_reclaim();
                fresh(Kind::Sequential, blocks)
            }
            Action::Settle => {
                assert!(kind == Kind::Cache && self.take(Kind::Random), "only what is in the cache can settle");
                fresh(Kind::Random, blocks)
            }
            Action::Append => {
                assert!(chunk.buffer.is_some() && (buffer == 0 || buffer.trailing_zeros() >= chunk.wp));
                Chunk { wp: chunk.wp.max(end_of(buffer)), ..fresh(kind, blocks | buffer) }
            }
            Action::Merge => {
                assert!(chunk.buffer.is_some(), "there is nothing to merge with");
                self.take_for_reclaim();
                fresh(Kind::Sequential, blocks | buffer)
            }
            Action::Fold => {
                assert!(chunk.buffer.is_some(), "there is nothing to fold into");
                fresh(chunk.buffer_kind.expect("a buffer has a zone"), blocks | buffer)
            }
        };
        assert_eq!(self.chunks[at].valid(), chunk.valid(), "{action:?} loses blocks");
        self.actions.push(action);
        if action != Action::Append {
            self.leave(kind);
        }
        if action != Action::Fold {
            chunk.buffer_kind.into_iter().for_each(|kind| self.leave(kind));
        }
        self.check_counts();
    }

    /// Reclaims until a buffer is free; the number of steps that it took. Commits when there is nothing else to do, as the
    /// device has to.
    fn win_a_buffer(&mut self) -> Result<usize, &'static str> {
        for step in 0.. {
            if self.stock.buffers().free > 0 {
                return Ok(step);
            }
            if step > 4 * self.chunks.len() {
                return Err("reclaim runs in circles");
            }
            if !self.reclaim() {
                if self.leaving.is_empty() {
                    return Err("reclaim gives up");
                }
                self.commit();
            }
        }
        unreachable!()
    }

    /// Reclaims until there is nothing to do.
    fn settle(&mut self) -> usize {
        let most = 4 * self.chunks.len();
        (0..=most)
            .find(|_| {
                !self.reclaim() && {
                    self.commit();
                    !self.reclaim()
                }
            })
            .expect("reclaim never sleeps")
    }

    /// A user does something at random; waits if he has to.
    fn use_somehow(&mut self, rng: &mut Rng) -> Result<(), &'static str> {
        let at = rng.below(self.chunks.len() as u64) as usize;
        let from =
            if rng.chance(1, 3) { self.chunks[at].wp % ZONE_BLOCKS } else { rng.below(ZONE_BLOCKS.into()) as u32 };
        let to = from + 1 + rng.below(u64::from(ZONE_BLOCKS - from)) as u32;
        self.now = self.now + Duration::from_millis(rng.below(20_000));
        if rng.chance(1, 12) {
            self.discard(at, from, to);
            return Ok(());
        }
        while !self.write(at, from, to) {
            self.win_a_buffer()?;
        }
        Ok(())
    }
}

/// Sets of all kinds, with so much slack, used for a while; `each` looks at them after each use.
fn for_all_sets(style: Style, slack: u32, mut each: impl FnMut(&mut SmallSet, &mut Rng)) {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut up_to = |n| 1 + rng.below(n) as u32;
        let knobs = Knobs {
            style,
            fill_blocks: up_to(9) - 1,
            fill_scarce_blocks: up_to(33) - 1,
            reorder_ms: up_to(2) - 1,
            dense_percent: up_to(101) - 1,
            stream_blocks: up_to(32),
            ..Knobs::default()
        };
        let cache = if up_to(2) == 1 { 0 } else { up_to(12) };
        let random = if cache == 0 { up_to(12) } else { up_to(4) - 1 };
        let mut set = SmallSet::new(knobs, cache, random, slack + up_to(20), slack);
        for _ in 0..400 {
            if let Err(stuck) = set.use_somehow(&mut rng) {
                panic!("seed {seed}: {stuck} with {:?} at {:?}", set.stock, set.urgency);
            }
            each(&mut set, &mut rng);
        }
    }
}

#[test]
fn with_one_zone_of_slack_a_write_never_waits_for_ever() {
    let mut actions = Vec::new();
    for_all_sets(Style::Shingle, 1, |set, _| actions.append(&mut set.actions));
    for action in [Action::Free, Action::Move, Action::Append, Action::Merge, Action::Fold, Action::Settle] {
        let count = actions.iter().filter(|done| **done == action).count();
        assert!(count > 100, "{action:?} was done {count} times: the sets were not full");
    }
}
#[test]
fn the_policy_of_the_kernel_keeps_no_write_waiting_for_ever_either() {
    for style in [Style::Kernel, Style::Kernel2020] {
        (1..5).for_each(|slack| for_all_sets(style, slack, |_, _| ()));
    }
}

#[test]
fn with_more_slack_and_reclaim_and_commits_at_any_time_it_does_not_either() {
    for slack in 1..5 {
        for_all_sets(Style::Shingle, slack, |set, rng| {
            if rng.chance(1, 2) {
                set.reclaim();
            }
            if rng.chance(1, 3) {
                set.commit();
            }
        });
    }
}

#[test]
fn a_set_that_nobody_uses_comes_to_rest() {
    for_all_sets(Style::Shingle, 2, |set, rng| {
        if rng.chance(1, 20) {
            set.now = set.now + Duration::from_millis(3_600_000);
            set.settle();
        }
    });
}

#[test]
fn an_idle_set_with_dense_chunks_wins_all_its_buffers_back() {
    let mut set = SmallSet::new(Knobs::default(), 0, 8, 24, 4);
    let last = set.chunks.len() - 8;
    for at in 0..last {
        // From the back, so that nothing goes straight to a sequential zone.
        for from in [16, 0] {
            while !set.write(at, from, from + 16) {
                set.win_a_buffer().unwrap();
            }
        }
    }
    set.now = set.now + Duration::from_millis(3_600_000);
    set.settle();
    assert_eq!((set.stock.random.free, set.stock.leaving), (8, 0));
}
