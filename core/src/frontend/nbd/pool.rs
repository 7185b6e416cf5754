//! Memory for requests, shared by all sessions of one thread, bounded together.

use alloc::vec::Vec;

use crate::block::Data;

/// Smallest buffer: a page, which is also the most common request.
const SMALLEST: usize = 4096;
/// Sizes of buffers: powers of two, 4 KiB to 32 MiB.
const CLASSES: usize = 14;
/// A session that holds no memory gets a buffer of at most this size even when the pool is used up, so that nobody can
/// shut others out by holding on to everything.
const RESERVE: usize = 256 << 10;

/// Buffers by size. What is given back is taken again without an allocation.
///
/// At most `total` bytes are out at once, and 256 KiB for each session on top. A buffer keeps what was last in it: whoever
/// completes a read has filled all of it.
#[derive(Debug)]
pub struct Pool {
    free: [Vec<Data>; CLASSES],
    free_bytes: usize,
    used_bytes: usize,
    total: usize,
    keep: usize,
}

impl Pool {
    /// A pool that lends up to `total` bytes and keeps up to `keep` of them for the next request.
    #[must_use]
    pub fn new(total: usize, keep: usize) -> Self {
        Self { free: Default::default(), free_bytes: 0, used_bytes: 0, total, keep }
    }

    /// Bytes that are lent.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used_bytes
    }

    /// Bytes of memory that a buffer of `bytes` takes.
    pub(super) fn cost(bytes: usize) -> usize {
        bytes.max(SMALLEST).next_power_of_two()
    }

    /// Lends a buffer of `bytes` to a session that holds `held` bytes. `None`: not now.
    pub(super) fn take(&mut self, bytes: usize, held: usize) -> Option<Data> {
        let cost = Self::cost(bytes);
        let first_and_small = held == 0 && cost <= RESERVE;
        if self.used_bytes + cost > self.total && !first_and_small {
            return None;
        }
        self.used_bytes += cost;
        let data = match self.free[class(cost)].pop() {
            Some(data) => {
                self.free_bytes -= cost;
                data
            }
            None => Data::zeroed(cost),
        };
        Some(data.with_len(bytes))
    }

    /// Takes a buffer back.
    pub(super) fn give(&mut self, data: Data) {
        let cost = Self::cost(data.len());
        self.used_bytes -= cost;
        if self.free_bytes + cost <= self.keep {
            self.free_bytes += cost;
            self.free[class(cost)].push(data.with_len(cost));
        }
    }
}

fn class(cost: usize) -> usize {
    (cost.trailing_zeros() - SMALLEST.trailing_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_came_back_is_lent_again_at_any_length_of_its_class() {
        let mut pool = Pool::new(1 << 20, 1 << 20);
        let first = pool.take(512, 0).unwrap();
        let address = first.words().as_ptr();
        pool.give(first);
        let again = pool.take(4096, 0).unwrap();
        assert_eq!((again.words().as_ptr(), again.len()), (address, 4096));
        assert_ne!(pool.take(4608, 4096).unwrap().words().as_ptr(), address);
        assert_eq!(pool.used(), 4096 + 8192);
    }

    #[test]
    fn a_used_up_pool_still_serves_one_small_request_of_each_session() {
        let mut pool = Pool::new(1 << 20, 1 << 20);
        let all = pool.take(1 << 20, 0).unwrap();
        assert!(pool.take(512, 4096).is_none(), "this session has something already");
        assert!(pool.take(RESERVE + 1, 0).is_none(), "too large for the reserve");
        let small = pool.take(RESERVE, 0).unwrap();
        pool.give(all);
        pool.give(small);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn no_more_is_kept_than_wanted() {
        let mut pool = Pool::new(1 << 20, 8192);
        let lent: Vec<Data> = (0..4).map(|n| pool.take(4096, n).unwrap()).collect();
        lent.into_iter().for_each(|data| pool.give(data));
        assert_eq!((pool.free_bytes, pool.used()), (8192, 0));
    }
}
