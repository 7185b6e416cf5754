//! Which chunk reclaim works on next, and what it does with it.

use super::{Knobs, Stock, Style, Urgency};
use crate::dm::zoned::{Block, ChunkNo};
use crate::time::Duration;

/// A chunk that has zones. Counts are in blocks, places in blocks from the chunk's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub chunk: ChunkNo,
    /// Whether its data zone takes random writes: a cache zone or a conventional one.
    pub dzone_is_random: bool,
    /// Whether its data zone is a cache zone.
    pub dzone_is_cache: bool,
    /// Valid blocks in the data zone.
    pub data_blocks: u32,
    /// Valid blocks in the buffer.
    pub buffer_blocks: u32,
    /// Whether there is a buffer.
    pub has_buffer: bool,
    /// Contiguous pieces to copy.
    pub runs: u32,
    /// The write pointer of a sequential data zone.
    pub wp: Block,
    /// The first valid block of the buffer.
    pub first_buffered: Block,
    /// One past the last valid block of both zones.
    pub last_block: Block,
    /// Time since it was written last.
    pub idle_for: Duration,
    /// Rises with use: of two chunks, the one with less was used longer ago.
    pub lru: u64,
    /// Whether writes to it are under way. Those that wait for a free zone do not count.
    pub is_open: bool,
}

/// What reclaim does with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing in it is valid: its zones are freed.
    Free,
    /// The blocks of its random data zone go to a fresh sequential zone, which takes its place.
    Move,
    /// The blocks of its buffer, none of them behind the write pointer, are appended to its sequential zone; the buffer is
    /// freed.
    Append,
    /// Sequential zone and buffer go to a fresh sequential zone in one pass; both are freed.
    Merge,
    /// The sequential zone's blocks go into the buffer, which becomes the data zone; the sequential zone is freed.
    Fold,
    /// The blocks of its cache zone go to a conventional zone, where they stay.
    Settle,
}

/// The chunk that reclaim works on next, and what it does with it; `None` if nothing is worth it now.
///
/// The one that frees a zone for the least work is chosen: blocks to read and write, zeroes in holes and pieces included.
/// Unless it is an emergency, the time since its last write and the density of a random zone count as much: both tell that
/// the chunk will not need a random zone again at once. What was written less than `hot_ms` ago is left alone unless reclaim
/// is urgent; what is being written, unless it is an emergency and there is nothing else. A buffer without a valid block was
/// taken for a write that is on its way, and stays.
///
/// # Liveness
///
/// Take a set with at least one more zone than mapped chunks, none of them empty, in an emergency, no buffer free and nothing
/// leaving. Then there is an answer, and carrying it out, with the commit that it takes, brings a free buffer or one fewer
/// buffered chunk. For there is a sequential zone for reclaim, and then any chunk with a random zone can be moved or merged;
/// or there is none, so some chunk has two zones: it can be appended or folded, and the next answer has a sequential zone.
#[must_use]
pub fn choose(
    knobs: &Knobs,
    stock: &Stock,
    urgency: Urgency,
    candidates: &mut dyn Iterator<Item = Candidate>,
) -> Option<(ChunkNo, Action)> {
    let may_interrupt = |chunk: &Candidate| urgency == Urgency::Emergency && !chunk.is_empty();
    let candidates = &mut candidates.filter(|chunk| !chunk.is_open || may_interrupt(chunk));
    if knobs.style.is_kernel() {
        return choose_as_kernel(knobs.style, stock, urgency, candidates);
    }
    let mut best: Option<Bid> = None;
    for candidate in candidates {
        let Some(action) = action_for(knobs, stock, urgency, &candidate) else { continue };
        if action == Action::Free {
            return Some((candidate.chunk, action));
        }
        let bid = Bid::new(knobs, stock, urgency, &candidate, action);
        if best.as_ref().is_none_or(|best| bid.beats(best)) {
            best = Some(bid);
        }
    }
    best.map(|bid| (bid.chunk, bid.action))
}

/// What could be done with a chunk now.
fn action_for(knobs: &Knobs, stock: &Stock, urgency: Urgency, chunk: &Candidate) -> Option<Action> {
    if chunk.is_empty() {
        return Some(Action::Free);
    }
    let is_spared = urgency < Urgency::Urgent && chunk.is_hot(knobs);
    if urgency == Urgency::None || is_spared {
        None
    } else if chunk.has_buffer {
        unbuffer(stock, urgency, chunk)
    } else if chunk.dzone_is_random {
        vacate(knobs, stock, urgency, chunk)
    } else {
        None
    }
}

/// How a chunk gets rid of its buffer.
fn unbuffer(stock: &Stock, urgency: Urgency, chunk: &Candidate) -> Option<Action> {
    if chunk.buffer_blocks == 0 {
        None
    } else if chunk.can_append() {
        Some(Action::Append)
    } else if stock.for_reclaim() > 0 {
        Some(Action::Merge)
    } else {
        // It frees no buffer, but the sequential zone with which the next one is freed.
        (urgency == Urgency::Emergency && stock.leaving == 0).then_some(Action::Fold)
    }
}

/// How a chunk gets out of its random data zone.
fn vacate(knobs: &Knobs, stock: &Stock, urgency: Urgency, chunk: &Candidate) -> Option<Action> {
    let is_sparse = chunk.density_percent() < knobs.dense_percent;
    // Unlike merges, moves use up sequential zones. The last one is kept for merges while anything else can be done.
    let spare = stock.for_reclaim();
    let can_move = spare > 1 || (spare == 1 && stock.buffers().free == 0 && stock.leaving == 0);
    let is_plenty = stock.buffers_percent() >= knobs.stop_percent;
    if stock.has_cache() && !chunk.dzone_is_cache {
        // It wins no buffer, but room for chunks that settle.
        let is_full = stock.random.free_percent() < knobs.start_percent;
        return (urgency == Urgency::Idle && is_full && spare > 1 && !is_sparse).then_some(Action::Move);
    }
    let settles = is_sparse || chunk.is_hot(knobs) || !can_move;
    if stock.has_cache() && stock.random.free > 0 && settles {
        Some(Action::Settle)
    } else if urgency == Urgency::Idle && is_plenty && is_sparse {
        None
    } else {
        can_move.then_some(Action::Move)
    }
}

/// An action on a chunk, and what speaks for it.
struct Bid {
    chunk: ChunkNo,
    action: Action,
    /// From 0: what is done only if nothing of a lower rank can be.
    rank: u8,
    worth: u64,
    cost: u64,
    lru: u64,
}

impl Bid {
    fn new(knobs: &Knobs, stock: &Stock, urgency: Urgency, chunk: &Candidate, action: Action) -> Self {
        let takes_last = match action {
            Action::Move => stock.for_reclaim() < 2,
            Action::Fold => true,
            _ => false,
        };
        let rank = u8::from(takes_last) + 2 * u8::from(chunk.is_open);
        let density = if action == Action::Move { chunk.density_percent().max(1) } else { 100 };
        let worth = match urgency {
            Urgency::Emergency => 1,
            _ => chunk.age(knobs) * u64::from(density),
        };
        let cost = chunk.cost(knobs, action).max(1);
        Self { chunk: chunk.chunk, action, rank, worth, cost, lru: chunk.lru }
    }

    fn beats(&self, other: &Bid) -> bool {
        // worth / cost, without a division.
        let score = |bid: &Bid, by: &Bid| u128::from(bid.worth) * u128::from(by.cost);
        let (own, others) = (score(self, other), score(other, self));
        (other.rank, own, other.lru, other.chunk) > (self.rank, others, self.lru, self.chunk)
    }
}

/// Beyond so many times [`Knobs::hot_ms`], a chunk does not get any colder.
const COLD: u64 = 16;

impl Candidate {
    fn is_empty(&self) -> bool {
        self.data_blocks == 0 && self.buffer_blocks == 0
    }

    fn is_hot(&self, knobs: &Knobs) -> bool {
        self.idle_for < knobs.hot_time()
    }

    /// Whether its buffer can be appended to its sequential zone.
    fn can_append(&self) -> bool {
        self.first_buffered >= self.wp
    }

    /// Percent of the blocks up to the last valid one that are valid.
    fn density_percent(&self) -> u32 {
        let valid = u64::from(self.data_blocks) + u64::from(self.buffer_blocks);
        (valid * 100).checked_div(u64::from(self.last_block)).map_or(100, |percent| percent.min(100) as u32)
    }

    /// How long ago it was written, in ms. A stream that goes on needs a buffer again at once: what frees one is worth nothing,
    /// however little there is to copy yet.
    fn age(&self, knobs: &Knobs) -> u64 {
        let cold = COLD * u64::from(knobs.hot_ms).max(1);
        (self.idle_for.as_nanos() / 1_000_000).clamp(1, cold)
    }

    /// Blocks that are read and written, zeroes included, and pieces at what each costs.
    fn cost(&self, knobs: &Knobs, action: Action) -> u64 {
        let [data, buffer] = [self.data_blocks, self.buffer_blocks].map(u64::from);
        let [end, wp, first] = [self.last_block, self.wp, self.first_buffered].map(u64::from);
        let pieces = u64::from(self.runs) * u64::from(knobs.seek_blocks);
        // Pieces that lie so close that their zone is better read as a whole cost no more than that.
        let read = |blocks: u64, extent: u64| (blocks + pieces).min(extent.max(blocks));
        match action {
            Action::Free => 0,
            Action::Append => read(buffer, end.saturating_sub(first)) + end.saturating_sub(wp),
            Action::Move => read(data, end) + end,
            Action::Merge => read(data + buffer, 2 * end) + end,
            Action::Fold | Action::Settle => read(data, end) + data + pieces,
        }
    }
}

/// As `drivers/md/dm-zoned-metadata.c:dmz_get_zone_for_reclaim` and `dm-zoned-reclaim.c:dmz_do_reclaim` choose. Where the
/// kernel finds nothing it leaves users waiting; here what is left is tried in an emergency.
fn choose_as_kernel(
    style: Style,
    stock: &Stock,
    urgency: Urgency,
    candidates: &mut dyn Iterator<Item = Candidate>,
) -> Option<(ChunkNo, Action)> {
    let [mut closed, mut open] = [Oldest::default(); 2];
    for one in candidates {
        let kind = if one.is_open { &mut open } else { &mut closed };
        kind.note(stock, one);
    }
    let victim = |oldest: &Oldest| match style {
        Style::Kernel2020 => oldest.victim_of_2020(stock, urgency),
        _ => oldest.victim(stock, urgency),
    };
    let victim = victim(&closed).or_else(|| victim(&open))?;
    Some((victim.chunk, kernel_action(style, stock, &victim)?))
}

/// The chunks that come into question for the kernel.
#[derive(Clone, Copy, Default)]
struct Oldest {
    /// In a zone of the class that buffers.
    data: Option<Candidate>,
    /// In a conventional zone of a set with a cache.
    settled: Option<Candidate>,
    /// With a buffer.
    buffered: Option<Candidate>,
    /// With a buffer, and most blocks in the data zone.
    heaviest: Option<Candidate>,
}

impl Oldest {
    fn note(&mut self, stock: &Stock, one: Candidate) {
        let is_older = |best: &Option<Candidate>| best.is_none_or(|best| one.lru < best.lru);
        let of_its_kind = match one {
            Candidate { has_buffer: true, buffer_blocks: 0, .. } => return,
            Candidate { has_buffer: true, .. } => {
                if self.heaviest.is_none_or(|best| one.data_blocks > best.data_blocks) {
                    self.heaviest = Some(one);
                }
                &mut self.buffered
            }
            Candidate { dzone_is_random: false, .. } => return,
            Candidate { dzone_is_cache, .. } if dzone_is_cache == stock.has_cache() => &mut self.data,
            _ => &mut self.settled,
        };
        if is_older(of_its_kind) {
            *of_its_kind = Some(one);
        }
    }

    fn victim(&self, stock: &Stock, urgency: Urgency) -> Option<Candidate> {
        match urgency {
            Urgency::None => None,
            _ if stock.reserve == 0 => self.buffered.or(self.data),
            Urgency::Idle => self.data.or(self.heaviest).or(self.settled),
            _ => self.data.or(self.heaviest),
        }
    }

    /// The random zone used longest ago, whether it holds data or buffers, and on whatever device: neither the class of a zone nor
    /// the weight of its data zone counted in 2020.
    fn victim_of_2020(&self, stock: &Stock, urgency: Urgency) -> Option<Candidate> {
        let all = [self.data, self.settled, self.buffered];
        let oldest = all.into_iter().flatten().min_by_key(|one| one.lru);
        match urgency {
            Urgency::None => None,
            _ if stock.reserve == 0 => self.buffered.or(oldest),
            _ => oldest,
        }
    }
}

/// As `drivers/md/dm-zoned-reclaim.c:dmz_do_reclaim` and `dm-zoned-metadata.c:dmz_alloc_zone` do. In 2020 a copy went to sequential
/// zones only.
fn kernel_action(style: Style, stock: &Stock, victim: &Candidate) -> Option<Action> {
    match victim {
        Candidate { has_buffer: true, .. } if victim.can_append() => Some(Action::Append),
        Candidate { has_buffer: true, .. } => Some(Action::Fold),
        Candidate { data_blocks: 0, .. } => Some(Action::Free),
        _ if stock.for_reclaim() > 0 => Some(Action::Move),
        _ if style == Style::Kernel2020 => None,
        _ => (victim.dzone_is_cache && stock.random.free > 0).then_some(Action::Settle),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pool;
    use super::*;
    use std::vec::Vec;

    const Z: u32 = 65_536;
    const LONG_AGO: Duration = Duration::from_millis(3_600_000);
    const JUST_NOW: Duration = Duration::from_millis(1);

    /// A disk without a cache that has half of everything left.
    const DISK: Stock = Stock {
        cache: Pool { free: 0, total: 0 },
        random: Pool { free: 5, total: 10 },
        sequential: Pool { free: 50, total: 100 },
        reserve: 4,
        zone_blocks: Z,
        leaving: 0,
        random_buffers: false,
    };
    /// The same when there is no zone left but `n` of the reserve.
    const fn full(n: u32) -> Stock {
        Stock { random: Pool { free: 0, total: 10 }, sequential: Pool { free: 0, total: 100 }, reserve: n, ..DISK }
    }
    /// A set with a cache.
    const SET: Stock = Stock { cache: Pool { free: 5, total: 10 }, ..DISK };

    const COLD: Candidate = Candidate {
        chunk: ChunkNo(0),
        dzone_is_random: true,
        dzone_is_cache: false,
        data_blocks: Z,
        buffer_blocks: 0,
        has_buffer: false,
        runs: 1,
        wp: Block::FIRST,
        first_buffered: Block::FIRST,
        last_block: Block(Z),
        idle_for: LONG_AGO,
        lru: 0,
        is_open: false,
    };

    /// A chunk with a full random zone.
    fn random(chunk: u32) -> Candidate {
        Candidate { chunk: ChunkNo(chunk), ..COLD }
    }

    fn cached(chunk: u32) -> Candidate {
        Candidate { dzone_is_cache: true, ..random(chunk) }
    }

    /// A chunk with a full sequential zone, of which `blocks` were rewritten.
    fn buffered(chunk: u32, blocks: u32) -> Candidate {
        let data_blocks = Z - blocks;
        Candidate {
            chunk: ChunkNo(chunk),
            dzone_is_random: false,
            has_buffer: true,
            data_blocks,
            buffer_blocks: blocks,
            wp: Block(Z),
            runs: 2,
            ..COLD
        }
    }

    /// A chunk with a half full sequential zone, and `blocks` that came too early in its buffer.
    fn appendable(chunk: u32, blocks: u32) -> Candidate {
        let half = Z / 2;
        let (data_blocks, last_block) = (half, Block(half + 64 + blocks));
        Candidate {
            data_blocks,
            wp: Block(half),
            first_buffered: Block(half + 64),
            last_block,
            ..buffered(chunk, blocks)
        }
    }

    fn choice(stock: &Stock, urgency: Urgency, candidates: &[Candidate]) -> Option<(u32, Action)> {
        let answer = choose(&Knobs::default(), stock, urgency, &mut candidates.iter().copied());
        let backwards = choose(&Knobs::default(), stock, urgency, &mut candidates.iter().rev().copied());
        assert_eq!(answer, backwards, "the order of the candidates does not matter");
        answer.map(|(chunk, action)| (chunk.0, action))
    }

    #[test]
    fn a_chunk_without_valid_blocks_is_freed_at_once_whatever_the_urgency() {
        let empty = Candidate {
            data_blocks: 0,
            last_block: Block::FIRST,
            idle_for: JUST_NOW,
            dzone_is_random: false,
            ..random(3)
        };
        for urgency in [Urgency::None, Urgency::Idle, Urgency::Emergency] {
            assert_eq!(choice(&DISK, urgency, &[random(1), empty, buffered(2, 9)]), Some((3, Action::Free)));
        }
    }

    #[test]
    fn nothing_is_copied_when_nothing_is_needed() {
        assert_eq!(choice(&DISK, Urgency::None, &[random(1), buffered(2, 9), appendable(3, 9)]), None);
        let unbuffered = Candidate { has_buffer: false, buffer_blocks: 0, ..buffered(1, 0) };
        assert_eq!(choice(&DISK, Urgency::Emergency, &[unbuffered]), None);
    }

    #[test]
    fn a_chunk_that_is_being_written_is_taken_only_in_an_emergency_without_another() {
        let open = Candidate { is_open: true, ..appendable(1, 9) };
        assert_eq!(choice(&DISK, Urgency::Urgent, &[open]), None);
        assert_eq!(choice(&DISK, Urgency::Emergency, &[open]), Some((1, Action::Append)));
        assert_eq!(choice(&DISK, Urgency::Emergency, &[open, buffered(2, 9)]), Some((2, Action::Merge)));
        assert_eq!(kernel(&DISK, Urgency::Emergency, &[open, buffered(2, 9)]), Some((2, Action::Fold)));
        assert_eq!(kernel(&DISK, Urgency::Emergency, &[open]), Some((1, Action::Append)));
        assert_eq!(kernel(&DISK, Urgency::Urgent, &[open]), None);
    }

    #[test]
    fn zones_that_were_taken_for_a_write_on_its_way_are_left_to_it() {
        let taken = Candidate { is_open: true, data_blocks: 0, last_block: Block::FIRST, ..random(1) };
        let buffer = Candidate { data_blocks: Z, ..buffered(2, 0) };
        for urgency in [Urgency::Idle, Urgency::Emergency] {
            assert_eq!(choice(&DISK, urgency, &[taken, buffer]), None);
            assert_eq!(kernel(&DISK, urgency, &[taken, buffer]), None);
        }
    }

    #[test]
    fn what_was_written_a_moment_ago_is_spared_unless_it_is_urgent() {
        let hot = Candidate { idle_for: JUST_NOW, ..appendable(1, 9) };
        for spared in [Urgency::Idle, Urgency::Normal] {
            assert_eq!(choice(&DISK, spared, &[hot]), None);
            assert_eq!(choice(&DISK, spared, &[hot, random(2)]), Some((2, Action::Move)));
        }
        assert_eq!(choice(&DISK, Urgency::Urgent, &[hot]), Some((1, Action::Append)));
    }

    /// A stream with little in its zones costs least to copy. It was copied from its start each second, in ever longer merges.
    #[test]
    fn a_stream_that_goes_on_is_not_copied_piece_by_piece_while_there_is_a_cold_chunk() {
        let begun = Candidate { data_blocks: 128, last_block: Block(640), idle_for: JUST_NOW, ..buffered(1, 512) };
        let arrived = Candidate { data_blocks: 640, last_block: Block(640), idle_for: JUST_NOW, ..cached(2) };
        let set = Stock { random: Pool { free: 0, total: 10 }, ..SET };
        assert_eq!(choice(&set, Urgency::Urgent, &[begun, arrived, buffered(3, 9)]), Some((3, Action::Merge)));
        assert_eq!(choice(&set, Urgency::Urgent, &[begun, arrived, cached(4)]), Some((4, Action::Move)));
    }

    #[test]
    fn an_append_goes_before_a_move_and_a_move_before_a_merge() {
        let [append, moved, merge] = [appendable(1, 512), random(2), buffered(3, 9)];
        for urgency in [Urgency::Idle, Urgency::Normal, Urgency::Urgent, Urgency::Emergency] {
            assert_eq!(choice(&DISK, urgency, &[merge, moved, append]), Some((1, Action::Append)));
            assert_eq!(choice(&DISK, urgency, &[merge, moved]), Some((2, Action::Move)));
            assert_eq!(choice(&DISK, urgency, &[merge]), Some((3, Action::Merge)));
        }
    }

    #[test]
    fn a_buffer_behind_the_write_pointer_is_merged_and_never_appended() {
        let behind = |first_buffered| Candidate { first_buffered: Block(first_buffered), ..appendable(1, 9) };
        assert_eq!(choice(&DISK, Urgency::Normal, &[behind(Z / 2)]), Some((1, Action::Append)));
        assert_eq!(choice(&DISK, Urgency::Normal, &[behind(Z / 2 - 1)]), Some((1, Action::Merge)));
    }

    #[test]
    fn dense_chunks_go_before_sparse_ones_and_whole_ones_before_pieces() {
        let sparse = Candidate { data_blocks: Z / 4, ..random(1) };
        let in_pieces = Candidate { runs: 200, data_blocks: Z - 200, ..random(2) };
        assert_eq!(choice(&DISK, Urgency::Normal, &[sparse, in_pieces]), Some((2, Action::Move)));
        assert_eq!(choice(&DISK, Urgency::Normal, &[sparse, in_pieces, random(3)]), Some((3, Action::Move)));
    }

    #[test]
    fn in_an_emergency_only_the_work_counts() {
        let old_and_dense = random(1);
        let young_and_sparse = Candidate { data_blocks: Z / 4, idle_for: JUST_NOW, ..random(2) };
        assert_eq!(choice(&DISK, Urgency::Urgent, &[old_and_dense, young_and_sparse]), Some((1, Action::Move)));
        assert_eq!(choice(&DISK, Urgency::Emergency, &[old_and_dense, young_and_sparse]), Some((2, Action::Move)));
    }

    #[test]
    fn of_equals_the_one_used_longest_ago_goes_first() {
        let by_time = |chunk, idle_ms| Candidate { idle_for: Duration::from_millis(idle_ms), ..random(chunk) };
        let older = [by_time(1, 100_000), by_time(2, 100_001)];
        assert_eq!(choice(&DISK, Urgency::Normal, &older), Some((2, Action::Move)));
        let by_use = [Candidate { lru: 7, ..random(1) }, Candidate { lru: 6, ..random(2) }, random(3)];
        assert_eq!(choice(&DISK, Urgency::Normal, &by_use), Some((3, Action::Move)));
        assert_eq!(choice(&DISK, Urgency::Normal, &[random(5), random(4)]), Some((4, Action::Move)));
    }

    #[test]
    fn a_merge_may_take_the_last_sequential_zone_and_a_move_has_to_leave_one() {
        let one = Stock { random: Pool { free: 1, total: 20 }, ..full(1) };
        assert_eq!(choice(&one, Urgency::Emergency, &[random(1)]), None);
        assert_eq!(choice(&one, Urgency::Emergency, &[random(1), buffered(2, 9)]), Some((2, Action::Merge)));
        assert_eq!(choice(&Stock { reserve: 2, ..one }, Urgency::Emergency, &[random(1)]), Some((1, Action::Move)));
    }

    #[test]
    fn a_move_takes_the_last_sequential_zone_when_no_buffer_is_left_to_be_won_otherwise() {
        assert_eq!(choice(&full(1), Urgency::Emergency, &[random(1)]), Some((1, Action::Move)));
        assert_eq!(choice(&full(1), Urgency::Emergency, &[random(1), buffered(2, 9)]), Some((2, Action::Merge)));
        let leaving = Stock { leaving: 1, ..full(1) };
        assert_eq!(choice(&leaving, Urgency::Emergency, &[random(1)]), None, "the commit brings one");
    }

    #[test]
    fn a_fold_is_for_emergencies_without_any_sequential_zone() {
        let chunks = [random(1), buffered(2, 9), buffered(3, 40_000)];
        assert_eq!(choice(&full(0), Urgency::Emergency, &chunks), Some((3, Action::Fold)));
        assert_eq!(choice(&full(0), Urgency::Urgent, &chunks), None);
        assert_eq!(choice(&Stock { leaving: 1, ..full(0) }, Urgency::Emergency, &chunks), None);
        assert_eq!(choice(&full(0), Urgency::Emergency, &[chunks[1], appendable(4, 9)]), Some((4, Action::Append)));
    }

    #[test]
    fn sparse_and_hot_chunks_of_a_cache_settle_in_conventional_zones() {
        let sparse = Candidate { data_blocks: Z / 4, ..cached(1) };
        let hot = Candidate { idle_for: JUST_NOW, ..cached(2) };
        assert_eq!(choice(&SET, Urgency::Normal, &[sparse]), Some((1, Action::Settle)));
        assert_eq!(choice(&SET, Urgency::Urgent, &[hot]), Some((2, Action::Settle)));
        assert_eq!(choice(&SET, Urgency::Normal, &[cached(3)]), Some((3, Action::Move)));
        let no_room = Stock { random: Pool { free: 0, total: 10 }, ..SET };
        assert_eq!(choice(&no_room, Urgency::Urgent, &[hot]), Some((2, Action::Move)));
        let no_sequential = Stock { sequential: Pool::default(), reserve: 0, ..SET };
        assert_eq!(choice(&no_sequential, Urgency::Normal, &[cached(3)]), Some((3, Action::Settle)));
    }

    #[test]
    fn settled_chunks_move_on_only_when_idle_and_their_zones_are_few() {
        let few = Stock { random: Pool { free: 3, total: 10 }, ..SET };
        assert_eq!(choice(&few, Urgency::Idle, &[random(1)]), Some((1, Action::Move)));
        assert_eq!(choice(&SET, Urgency::Idle, &[random(1)]), None);
        assert_eq!(choice(&few, Urgency::Emergency, &[random(1)]), None);
        assert_eq!(choice(&few, Urgency::Idle, &[Candidate { data_blocks: 9, ..random(1) }]), None);
    }

    #[test]
    fn an_idle_disk_with_plenty_of_buffers_leaves_sparse_chunks_where_they_are() {
        let plenty = Stock { random: Pool { free: 6, total: 10 }, ..DISK };
        let sparse = Candidate { data_blocks: 9, ..random(1) };
        assert_eq!(choice(&plenty, Urgency::Idle, &[sparse]), None);
        assert_eq!(choice(&plenty, Urgency::Idle, &[random(2)]), Some((2, Action::Move)));
        assert_eq!(choice(&DISK, Urgency::Idle, &[sparse]), Some((1, Action::Move)));
    }

    fn kernel(stock: &Stock, urgency: Urgency, candidates: &[Candidate]) -> Option<(u32, Action)> {
        choice_of(Style::Kernel, stock, urgency, candidates)
    }

    fn choice_of(style: Style, stock: &Stock, urgency: Urgency, candidates: &[Candidate]) -> Option<(u32, Action)> {
        let knobs = Knobs { style, ..Knobs::default() };
        let answer = choose(&knobs, stock, urgency, &mut candidates.iter().copied());
        answer.map(|(chunk, action)| (chunk.0, action))
    }

    #[test]
    fn the_kernel_takes_the_data_zone_used_longest_ago_whatever_it_costs() {
        let used = |lru, candidate| Candidate { lru, idle_for: JUST_NOW, ..candidate };
        let chunks =
            [used(3, random(1)), used(2, Candidate { data_blocks: 1, ..random(2) }), used(1, appendable(3, 9))];
        assert_eq!(kernel(&DISK, Urgency::Normal, &chunks), Some((2, Action::Move)));
        assert_eq!(kernel(&DISK, Urgency::None, &chunks), None);
        let empty = used(1, Candidate { data_blocks: 0, ..random(4) });
        assert_eq!(kernel(&DISK, Urgency::Normal, &[chunks[0], empty]), Some((4, Action::Free)));
    }

    #[test]
    fn the_kernel_takes_buffers_by_the_weight_of_the_data_zone_and_folds_them() {
        let chunks = [buffered(1, 9), buffered(2, 8), appendable(3, 9)];
        assert_eq!(kernel(&DISK, Urgency::Normal, &chunks), Some((2, Action::Fold)));
        assert_eq!(kernel(&DISK, Urgency::Normal, &chunks[2..]), Some((3, Action::Append)));
    }

    #[test]
    fn without_a_reserve_the_kernel_takes_the_buffered_chunk_used_longest_ago() {
        let used = |lru, candidate| Candidate { lru, ..candidate };
        let chunks: Vec<_> = [used(3, buffered(1, 8)), used(2, buffered(2, 9)), used(1, random(3))].into();
        assert_eq!(kernel(&full(0), Urgency::Normal, &chunks), Some((2, Action::Fold)));
        assert_eq!(kernel(&full(0), Urgency::Normal, &chunks[2..]), None);
    }

    fn kernel_2020(stock: &Stock, urgency: Urgency, candidates: &[Candidate]) -> Option<(u32, Action)> {
        choice_of(Style::Kernel2020, stock, urgency, candidates)
    }

    #[test]
    fn the_kernel_of_2020_takes_the_random_zone_used_longest_ago_of_any_kind() {
        let set = Stock { random_buffers: true, ..SET };
        let used = |lru, candidate| Candidate { lru, ..candidate };
        let chunks = [used(3, cached(1)), used(2, random(2)), used(1, buffered(3, 9))];
        assert_eq!(kernel_2020(&set, Urgency::Normal, &chunks), Some((3, Action::Fold)));
        assert_eq!(
            kernel_2020(&set, Urgency::Normal, &chunks[..2]),
            Some((2, Action::Move)),
            "a conventional zone, and not idle"
        );
        assert_eq!(kernel_2020(&set, Urgency::None, &chunks), None);
        let lighter = used(0, buffered(4, 40_000));
        assert_eq!(kernel_2020(&set, Urgency::Normal, &[chunks[2], lighter]), Some((4, Action::Fold)));
        assert_eq!(
            kernel(&SET, Urgency::Normal, &[chunks[2], lighter]),
            Some((3, Action::Fold)),
            "today the heavier one"
        );
    }

    #[test]
    fn the_kernel_of_2020_copies_to_sequential_zones_only() {
        let set = Stock { cache: SET.cache, random_buffers: true, random: DISK.random, ..full(0) };
        assert_eq!(kernel_2020(&set, Urgency::Emergency, &[cached(1)]), None);
        assert_eq!(kernel(&set, Urgency::Emergency, &[cached(1)]), Some((1, Action::Settle)));
        assert_eq!(kernel_2020(&set, Urgency::Emergency, &[cached(1), buffered(2, 9)]), Some((2, Action::Fold)));
    }

    #[test]
    fn the_kernel_empties_conventional_zones_of_a_set_only_when_idle_and_the_cache_is_empty() {
        assert_eq!(kernel(&SET, Urgency::Idle, &[random(1), cached(2)]), Some((2, Action::Move)));
        assert_eq!(kernel(&SET, Urgency::Idle, &[random(1)]), Some((1, Action::Move)));
        assert_eq!(kernel(&SET, Urgency::Normal, &[random(1)]), None);
    }
}
