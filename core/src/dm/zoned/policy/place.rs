//! Where a write goes.

use crate::dm::zoned::Block;

use super::{Knobs, Stock, Style};

/// The kind of zone that a chunk gets with its first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A sequential zone: the data is written once. If the write does not begin at the chunk's start it is ahead of the
    /// zone's write pointer, and [`place_ahead`] has the next word.
    Sequential,
    /// One of [`Stock::buffers`]; if none is free the write waits for one.
    Random,
}

/// What happens to a write that begins ahead of the write pointer of its chunk's sequential zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Zeroes are written up to it.
    Fill,
    /// It waits for what belongs before it, for [`Knobs::reorder_time`] at most.
    Hold,
    /// It goes to the chunk's buffer.
    Buffer,
}

/// Where the first write of a chunk goes, which begins at its block `at` and is `len` long.
///
/// What begins at or near the start may be a stream, and goes straight to a sequential zone; so does a single block, since a
/// stream that its writer cut small cannot be told from it. With a cache only what is long goes there, and only when the
/// cache has no more than `stream_percent` left: until then the cache takes it faster, and reclaim has the spindle for itself.
#[must_use]
pub fn place_first(knobs: &Knobs, stock: &Stock, at: Block, len: u32) -> Place {
    if knobs.style.is_kernel() || stock.sequential.free == 0 || at.0 > longest_fill(knobs, stock, len) {
        return Place::Random;
    }
    let is_direct = match stock.has_cache() {
        true => len >= knobs.stream_blocks && stock.cache.free_percent() <= knobs.stream_percent,
        false => len >= knobs.direct_blocks,
    };
    if is_direct { Place::Sequential } else { Place::Random }
}

/// A write that begins ahead of the write pointer of its chunk's sequential zone.
#[derive(Clone, Copy, Debug)]
pub struct EarlyWrite {
    /// Blocks between the write pointer and where it begins.
    pub gap: u32,
    /// Blocks that it writes.
    pub len: u32,
    /// Blocks that wait for their turn in its chunk.
    pub held: u32,
    /// Whether it was held before.
    pub has_waited: bool,
    /// Whether its chunk has a buffer.
    pub has_buffer: bool,
}

/// What happens to an early write.
///
/// A write that is held loses little, one that goes to the buffer costs a merge. The gap is not filled if there is a buffer:
/// the blocks of the gap may lie there, and behind the write pointer they could not be appended any more.
#[must_use]
pub fn place_ahead(knobs: &Knobs, stock: &Stock, write: &EarlyWrite) -> Ahead {
    let EarlyWrite { gap, len, held, has_waited, has_buffer } = *write;
    let fits = gap <= knobs.reorder_blocks && held.saturating_add(len) <= knobs.reorder_blocks;
    match knobs.style {
        Style::Kernel | Style::Kernel2020 => Ahead::Buffer,
        Style::Shingle if fits && !has_waited && knobs.reorder_ms > 0 => Ahead::Hold,
        Style::Shingle if !has_buffer && gap <= longest_fill(knobs, stock, len) => Ahead::Fill,
        Style::Shingle => Ahead::Buffer,
    }
}

/// The longest gap that is filled for a write of `len` blocks: more when buffers are scarce, and more for a long write, behind
/// which others will follow.
fn longest_fill(knobs: &Knobs, stock: &Stock, len: u32) -> u32 {
    let is_scarce = stock.buffers_percent() < knobs.urgent_percent;
    let least = if is_scarce { knobs.fill_blocks.max(knobs.fill_scarce_blocks) } else { knobs.fill_blocks };
    least.max(knobs.fill_share.saturating_mul(len))
}

#[cfg(test)]
mod tests {
    use super::super::Pool;
    use super::*;

    #[test]
    fn a_long_write_has_a_longer_gap_filled_and_a_short_one_does_not() {
        let knobs = Knobs::without_cache();
        assert_eq!(place_first(&knobs, &DISK, Block(32_768), 256), Place::Sequential);
        assert_eq!(place_first(&knobs, &DISK, Block(32_768), 1), Place::Random);
        assert_eq!(place_ahead(&knobs, &DISK, &EarlyWrite { has_waited: true, ..early(32_768, 256, 0) }), Ahead::Fill);
        assert_eq!(place_ahead(&knobs, &DISK, &EarlyWrite { has_waited: true, ..early(32_768, 1, 0) }), Ahead::Buffer);
    }

    fn early(gap: u32, len: u32, held: u32) -> EarlyWrite {
        EarlyWrite { gap, len, held, has_waited: false, has_buffer: false }
    }

    const DISK: Stock = Stock {
        cache: Pool { free: 0, total: 0 },
        random: Pool { free: 9, total: 10 },
        sequential: Pool { free: 50, total: 100 },
        reserve: 4,
        zone_blocks: 65_536,
        leaving: 0,
        random_buffers: false,
    };

    fn with_cache(free: u32) -> Stock {
        Stock { cache: Pool { free, total: 100 }, ..DISK }
    }

    fn scarce() -> Stock {
        Stock { random: Pool { free: 1, total: 10 }, ..DISK }
    }

    #[test]
    fn a_stream_that_begins_a_chunk_is_written_once() {
        let knobs = Knobs::default();
        assert_eq!(place_first(&knobs, &DISK, Block(0), 256), Place::Sequential);
        assert_eq!(place_first(&knobs, &DISK, Block(0), 1), Place::Sequential);
        assert_eq!(place_first(&knobs, &DISK, Block(knobs.fill_blocks), 1), Place::Sequential);
    }

    #[test]
    fn a_write_into_the_middle_of_a_chunk_goes_to_a_random_zone() {
        let knobs = Knobs::default();
        assert_eq!(place_first(&knobs, &DISK, Block(knobs.fill_blocks + 1), 256), Place::Random);
        assert_eq!(place_first(&knobs, &scarce(), Block(knobs.fill_scarce_blocks + 1), 256), Place::Random);
    }

    #[test]
    fn a_write_shorter_than_asked_for_is_no_stream() {
        let mut knobs = Knobs::default();
        knobs.set("direct_blocks", "16").unwrap();
        assert_eq!(place_first(&knobs, &DISK, Block(0), 15), Place::Random);
        assert_eq!(place_first(&knobs, &DISK, Block(0), 16), Place::Sequential);
    }

    #[test]
    fn the_reserve_is_not_for_users() {
        let stock = Stock { sequential: Pool { free: 0, total: 100 }, ..DISK };
        assert_eq!(place_first(&Knobs::default(), &stock, Block(0), 256), Place::Random);
    }

    #[test]
    fn a_cache_takes_everything_while_it_has_room_and_then_leaves_streams_to_the_disk() {
        let knobs = Knobs::default();
        assert_eq!(place_first(&knobs, &with_cache(1), Block(0), 256), Place::Random);
        assert_eq!(place_first(&knobs, &with_cache(0), Block(0), 256), Place::Sequential);
        assert_eq!(place_first(&knobs, &with_cache(0), Block(0), 63), Place::Random);
        let early = Knobs { stream_percent: 50, ..knobs.clone() };
        assert_eq!(place_first(&early, &with_cache(51), Block(0), 256), Place::Random);
        assert_eq!(place_first(&early, &with_cache(50), Block(0), 256), Place::Sequential);
        let always = Knobs { stream_percent: 100, ..knobs };
        assert_eq!(place_first(&always, &with_cache(100), Block(0), 256), Place::Sequential);
    }

    #[test]
    fn a_write_ahead_is_held_once_and_then_the_gap_is_filled() {
        let knobs = Knobs::default();
        assert_eq!(place_ahead(&knobs, &DISK, &early(256, 256, 0)), Ahead::Hold);
        assert_eq!(place_ahead(&knobs, &DISK, &EarlyWrite { has_waited: true, ..early(256, 256, 0) }), Ahead::Fill);
        assert_eq!(place_ahead(&knobs, &DISK, &EarlyWrite { has_waited: true, ..early(257, 256, 0) }), Ahead::Buffer);
    }

    #[test]
    fn the_reorder_window_bounds_how_far_ahead_and_how_much_is_held() {
        let knobs = Knobs::default();
        assert_eq!(place_ahead(&knobs, &DISK, &early(1_024, 1_024, 0)), Ahead::Hold);
        assert_eq!(place_ahead(&knobs, &DISK, &early(1_025, 1, 0)), Ahead::Buffer);
        assert_eq!(place_ahead(&knobs, &DISK, &early(1_024, 2, 1_023)), Ahead::Buffer);
        assert_eq!(place_ahead(&knobs, &DISK, &early(1, u32::MAX, u32::MAX)), Ahead::Fill);
        assert_eq!(place_ahead(&Knobs { reorder_ms: 0, ..knobs }, &DISK, &early(1, 1, 0)), Ahead::Fill);
    }

    #[test]
    fn a_gap_that_may_lie_in_the_buffer_is_never_filled() {
        let knobs = Knobs::default();
        assert_eq!(place_ahead(&knobs, &DISK, &EarlyWrite { has_buffer: true, ..early(1, 1, 0) }), Ahead::Hold);
        assert_eq!(
            place_ahead(&knobs, &DISK, &EarlyWrite { has_waited: true, has_buffer: true, ..early(1, 1, 0) }),
            Ahead::Buffer
        );
    }

    #[test]
    fn longer_gaps_are_filled_when_buffers_are_scarce() {
        let knobs = Knobs::default();
        let write = EarlyWrite { has_waited: true, ..early(4_096, 1, 0) };
        assert_eq!(place_ahead(&knobs, &DISK, &write), Ahead::Buffer);
        assert_eq!(place_ahead(&knobs, &scarce(), &write), Ahead::Fill);
        assert_eq!(place_first(&knobs, &scarce(), Block(4_096), 1), Place::Sequential);
    }

    #[test]
    fn the_kernel_never_writes_straight_to_a_sequential_zone_but_at_its_write_pointer() {
        for style in [Style::Kernel, Style::Kernel2020] {
            let knobs = Knobs { style, ..Knobs::default() };
            assert_eq!(place_first(&knobs, &DISK, Block(0), 65_536), Place::Random);
            assert_eq!(place_ahead(&knobs, &DISK, &early(1, 1, 0)), Ahead::Buffer);
        }
    }
}
