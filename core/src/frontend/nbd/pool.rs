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
/// At most `total` bytes are out at once, and 256 KiB for each session on top. A buffer keeps what was last in it, so it is
/// wiped before a read of another session: a device that answers reads without filling them, as a null device does, must
/// not show one client what another one wrote.
#[derive(Debug)]
pub struct Pool {
    /// By size, with the last owner.
    free: [Vec<(Owner, Data)>; CLASSES],
    owners: u64,
    free_bytes: usize,
    used_bytes: usize,
    total: usize,
    keep: usize,
}

/// A session, as the pool knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner(u64);

impl Pool {
    /// A pool that lends up to `total` bytes and keeps up to `keep` of them for the next request.
    #[must_use]
    pub fn new(total: usize, keep: usize) -> Self {
        Self { free: Default::default(), owners: 0, free_bytes: 0, used_bytes: 0, total, keep }
    }

    /// Bytes that are lent.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used_bytes
    }

    /// A session that is not known yet.
    pub(super) fn new_owner(&mut self) -> Owner {
        self.owners += 1;
        Owner(self.owners)
    }

    /// Bytes of memory that a buffer of `bytes` takes.
    pub(super) fn cost(bytes: usize) -> usize {
        bytes.max(SMALLEST).next_power_of_two()
    }

    /// Lends a buffer of `bytes` to a session that holds `held` bytes, and says who had it before. `None`: not now.
    pub(super) fn take(&mut self, bytes: usize, held: usize) -> Option<(Option<Owner>, Data)> {
        let cost = Self::cost(bytes);
        let first_and_small = held == 0 && cost <= RESERVE;
        if self.used_bytes + cost > self.total && !first_and_small {
            return None;
        }
        self.used_bytes += cost;
        Some(match self.free[class(cost)].pop() {
            Some((owner, data)) => {
                self.free_bytes -= cost;
                (Some(owner), data.with_len(bytes))
            }
            None => (None, Data::zeroed(cost).with_len(bytes)),
        })
    }

    /// Takes a buffer back from its owner.
    pub(super) fn give(&mut self, owner: Owner, data: Data) {
        let cost = Self::cost(data.len());
        self.used_bytes -= cost;
        if self.free_bytes + cost <= self.keep {
            self.free_bytes += cost;
            self.free[class(cost)].push((owner, data.with_len(cost)));
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
        let owner = pool.new_owner();
        let (before, first) = pool.take(512, 0).unwrap();
        let address = first.words().as_ptr();
        pool.give(owner, first);
        let (again, second) = pool.take(4096, 0).unwrap();
        assert_eq!((before, again), (None, Some(owner)));
        assert_eq!((second.words().as_ptr(), second.len()), (address, 4096));
        assert_ne!(pool.take(4608, 4096).unwrap().1.words().as_ptr(), address);
        assert_eq!(pool.used(), 4096 + 8192);
    }

    #[test]
    fn a_used_up_pool_still_serves_one_small_request_of_each_session() {
        let mut pool = Pool::new(1 << 20, 1 << 20);
        let owner = pool.new_owner();
        let (_, all) = pool.take(1 << 20, 0).unwrap();
        assert!(pool.take(512, 4096).is_none(), "this session has something already");
        assert!(pool.take(RESERVE + 1, 0).is_none(), "too large for the reserve");
        let (_, small) = pool.take(RESERVE, 0).unwrap();
        pool.give(owner, all);
        pool.give(owner, small);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn no_more_is_kept_than_wanted() {
        let mut pool = Pool::new(1 << 20, 8192);
        let lent: Vec<Data> = (0..4).map(|n| pool.take(4096, n).unwrap().1).collect();
        lent.into_iter().for_each(|data| pool.give(Owner::default(), data));
        assert_eq!((pool.free_bytes, pool.used()), (8192, 0));
    }
}
