//! Memory for requests, shared by all sessions of one thread, bounded together.

use crate::block::Data;
use crate::prelude::*;

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
    /// The least that was free since [`Pool::shrink`].
    spare_bytes: usize,
    used_bytes: usize,
    total: usize,
    keep: usize,
}

/// A session, as the pool knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner(u64);

/// What a session gets that asks for memory.
#[derive(Debug)]
pub(super) enum Loan {
    /// A buffer, and who had it before.
    Now(Data, Option<Owner>),
    /// Too much is lent: when something has come back.
    Later,
    /// The system has no such buffer, or the pool is smaller.
    Never,
}

impl Pool {
    /// A pool that lends up to `total` bytes and keeps up to `keep` of them for the next request.
    #[must_use]
    pub fn new(total: usize, keep: usize) -> Self {
        Self { free: Default::default(), owners: 0, free_bytes: 0, spare_bytes: 0, used_bytes: 0, total, keep }
    }

    /// Lends up to `total` bytes and keeps up to `keep` of them from now on. What is lent, and kept, above that comes back as it does otherwise.
    pub fn set_limits(&mut self, total: usize, keep: usize) {
        (self.total, self.keep) = (total, keep);
    }

    /// Bytes that are lent.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used_bytes
    }

    /// Bytes that are kept for the next requests.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.free_bytes
    }

    /// Gives back to the system what nobody has needed since it was last called, the largest buffers first. Returns how many
    /// bytes that was.
    pub fn shrink(&mut self) -> usize {
        let mut given = 0;
        for (number, buffers) in self.free.iter_mut().enumerate().rev() {
            let cost = SMALLEST << number;
            let most = (self.spare_bytes - given) / cost;
            let count = most.min(buffers.len());
            buffers.drain(..count);
            given += count * cost;
        }
        self.free_bytes -= given;
        self.spare_bytes = self.free_bytes;
        given
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

    /// Lends a buffer of `bytes` to a session that holds `held` bytes.
    pub(super) fn take(&mut self, bytes: usize, held: usize) -> Loan {
        let cost = Self::cost(bytes);
        let first_and_small = held == 0 && cost <= RESERVE;
        if self.used_bytes + cost > self.total && !first_and_small {
            return if cost > self.total { Loan::Never } else { Loan::Later };
        }
        if let Some((owner, data)) = self.free[class(cost)].pop() {
            self.free_bytes -= cost;
            self.spare_bytes = self.spare_bytes.min(self.free_bytes);
            self.used_bytes += cost;
            return Loan::Now(data.with_len(bytes), Some(owner));
        }
        let Some(data) = self.fresh(cost) else { return Loan::Never };
        self.used_bytes += cost;
        Loan::Now(data.with_len(bytes), None)
    }

    /// A new buffer. Those of other sizes are given up for it if there is no memory otherwise.
    fn fresh(&mut self, cost: usize) -> Option<Data> {
        Data::try_zeroed(cost).or_else(|| {
            self.free.iter_mut().for_each(|buffers| *buffers = Vec::new());
            (self.free_bytes, self.spare_bytes) = (0, 0);
            Data::try_zeroed(cost)
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

    fn take(pool: &mut Pool, bytes: usize, held: usize) -> (Option<Owner>, Data) {
        match pool.take(bytes, held) {
            Loan::Now(data, before) => (before, data),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_buffer_that_came_back_is_lent_again_at_any_length_of_its_class() {
        let mut pool = Pool::new(1 << 20, 1 << 20);
        let owner = pool.new_owner();
        let (before, first) = take(&mut pool, 512, 0);
        let address = first.words().as_ptr();
        pool.give(owner, first);
        let (again, second) = take(&mut pool, 4096, 0);
        assert_eq!((before, again), (None, Some(owner)));
        assert_eq!((second.words().as_ptr(), second.len()), (address, 4096));
        assert_ne!(take(&mut pool, 4608, 4096).1.words().as_ptr(), address);
        assert_eq!(pool.used(), 4096 + 8192);
    }

    #[test]
    fn a_used_up_pool_still_serves_one_small_request_of_each_session() {
        let mut pool = Pool::new(1 << 20, 1 << 20);
        let owner = pool.new_owner();
        let (_, all) = take(&mut pool, 1 << 20, 0);
        assert!(matches!(pool.take(512, 4096), Loan::Later), "this session has something already");
        assert!(matches!(pool.take(RESERVE + 1, 0), Loan::Later), "too large for the reserve");
        let (_, small) = take(&mut pool, RESERVE, 0);
        pool.give(owner, all);
        pool.give(owner, small);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn nobody_waits_for_more_than_the_pool_has() {
        assert!(matches!(Pool::new(1 << 20, 0).take((1 << 20) + 1, 0), Loan::Never));
    }

    #[test]
    fn no_more_is_kept_than_wanted() {
        let mut pool = Pool::new(1 << 20, 8192);
        let lent: Vec<Data> = (0..4).map(|n| take(&mut pool, 4096, n).1).collect();
        lent.into_iter().for_each(|data| pool.give(Owner::default(), data));
        assert_eq!((pool.kept(), pool.used()), (8192, 0));
    }

    #[test]
    fn what_nobody_needed_between_two_looks_is_given_back_and_the_rest_is_kept() {
        let mut pool = Pool::new(1 << 20, 1 << 20);
        let lent = [4096, 4096, 8192, 65536].map(|bytes| take(&mut pool, bytes, 1).1);
        lent.into_iter().for_each(|data| pool.give(Owner::default(), data));
        assert_eq!(pool.shrink(), 0, "it was all lent a moment ago");
        let used = [4096, 8192].map(|bytes| take(&mut pool, bytes, 1).1);
        used.into_iter().for_each(|data| pool.give(Owner::default(), data));
        assert_eq!((pool.shrink(), pool.kept()), (4096 + 65536, 4096 + 8192));
        assert_eq!((pool.shrink(), pool.kept()), (4096 + 8192, 0));
    }
}
