//! Memory for private copies of what bios carry.

use crate::block::{Data, Payload};
use crate::prelude::*;

/// Smallest buffer: a page.
const SMALLEST: usize = 4096;
/// Sizes of buffers: powers of two, 4 KiB to 8 MiB.
const CLASSES: usize = 12;
/// Longest copy, in bytes.
pub(super) const LONGEST: usize = SMALLEST << (CLASSES - 1);

/// Buffers by size. What is given back is taken again without an allocation. Whoever takes sees to it that what is out
/// has a bound.
#[derive(Default)]
pub(super) struct Copies {
    free: [Vec<Data>; CLASSES],
    free_bytes: usize,
}

impl Copies {
    /// Most bytes that are kept for the next copy.
    const KEPT: usize = 32 << 20;

    /// Bytes of memory that a copy of `bytes` takes.
    pub fn cost(bytes: usize) -> usize {
        bytes.max(SMALLEST).next_power_of_two()
    }

    /// A buffer of `bytes`, with anything in it; `None` if there is no memory.
    pub fn take(&mut self, bytes: usize) -> Option<Data> {
        let cost = Self::cost(bytes);
        let kept = self.free[class(cost)].pop();
        self.free_bytes -= if kept.is_some() { cost } else { 0 };
        Some(kept.or_else(|| Data::try_zeroed(cost))?.with_len(bytes))
    }

    /// Takes a buffer back.
    pub fn give(&mut self, data: Data) {
        let cost = Self::cost(data.len());
        if self.free_bytes + cost <= Self::KEPT {
            self.free_bytes += cost;
            self.free[class(cost)].push(data);
        }
    }
}

fn class(cost: usize) -> usize {
    (cost.trailing_zeros() - SMALLEST.trailing_zeros()) as usize
}

/// Copies what `from` carries to byte `at` of `to`, a multiple of 8.
pub(super) fn copy(from: &Payload, to: &Data, at: usize) {
    let mut words = &to.words()[at / 8..];
    for data in from.segments() {
        let (part, rest) = words.split_at(data.words().len());
        shingle_mem::copy(part, data.words());
        words = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_came_back_is_taken_again_and_no_more_are_kept_than_wanted() {
        let mut copies = Copies::default();
        let first = copies.take(512).unwrap();
        let address = first.words().as_ptr();
        copies.give(first);
        let second = copies.take(4096).unwrap();
        assert_eq!((second.words().as_ptr(), second.len()), (address, 4096));
        let lent: Vec<Data> = (0..5).map(|_| copies.take(LONGEST).unwrap()).collect();
        lent.into_iter().for_each(|data| copies.give(data));
        assert_eq!(copies.free_bytes, Copies::KEPT);
    }

    #[test]
    fn a_copy_gathers_all_segments() {
        let parts = [1u8, 2].map(|byte| {
            let data = Data::zeroed(512);
            data.fill(byte);
            data
        });
        let to = Data::zeroed(2048);
        copy(&Payload::Segments(parts.to_vec()), &to, 512);
        let bytes: Vec<u8> = to.to_vec().chunks(512).map(|sector| sector[511]).collect();
        assert_eq!(bytes, [0, 1, 2, 0]);
    }
}
