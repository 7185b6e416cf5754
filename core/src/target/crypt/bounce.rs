//! Memory that ciphertext is written to on its way down: a fixed number of pages, in runs.
//!
//! A run is as long as its bio, so the bio below has one segment. The lowest run that fits is taken: what was given
//! back last is often still in the caches. Once all runs are back every length fits again, so waiting for memory ends.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::block::{Buffer, Data, Payload};

/// Bytes of a page: the least that a bio takes.
const PAGE: usize = 4096;
/// Pages in all: 4 MiB.
const PAGES: usize = 1024;
/// Pages of the longest bio, as many as the kernel gives one (`include/linux/bio.h:BIO_MAX_VECS`): 1 MiB.
pub(super) const MOST_PAGES: usize = 256;
/// Sectors of the longest bio.
pub(super) const MOST_SECTORS: u32 = (MOST_PAGES * PAGE / 512) as u32;

/// The memory, and the payloads of the bios that have some of it instead of their own.
pub(super) struct Bounce {
    used: [u64; PAGES / 64],
    /// By the first page of a run.
    slots: Vec<Slot>,
}

struct Slot {
    /// Memory from this page on; lent out with a run.
    memory: Option<Data>,
    /// What the bio that has the run carried.
    kept: Payload,
}

/// Pages that belong to one bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    first: u32,
    pages: u32,
}

impl Run {
    /// The run in a frame's word.
    pub fn word(self) -> u64 {
        u64::from(self.first) << 32 | u64::from(self.pages)
    }

    /// The run that [`Run::word`] made the word of.
    pub fn from_word(word: u64) -> Self {
        Self { first: (word >> 32) as u32, pages: word as u32 }
    }
}

impl Bounce {
    pub fn new() -> Self {
        let memory = Arc::new(Buffer::new(PAGES * PAGE));
        let slot = |page| Slot { memory: Some(Data::new(memory.clone(), page * PAGE, PAGE)), kept: Payload::None };
        Self { used: [0; PAGES / 64], slots: (0..PAGES).map(slot).collect() }
    }

    /// Takes memory of `bytes`, at most [`MOST_PAGES`] pages; `None` if no run is long enough at the moment.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Option<(Run, Data)> {
        let pages = bytes.div_ceil(PAGE);
        debug_assert!((1..=MOST_PAGES).contains(&pages), "{bytes} bytes in one bio");
        let first = self.find(pages)?;
        self.mark(first, pages);
        let memory = self.slots[first].memory.take().expect("memory of a free page");
        Some((Run { first: first as u32, pages: pages as u32 }, memory.with_len(bytes)))
    }

    /// Keeps the payload of the bio that the run was taken for.
    pub fn keep(&mut self, run: Run, payload: Payload) {
        self.slots[run.first as usize].kept = payload;
    }

    /// Takes the memory back and returns what was kept for the bio.
    pub fn give_back(&mut self, run: Run, payload: Payload) -> Payload {
        let Payload::Data(memory) = payload else {
            unreachable!("a bio came back without the memory that it went with")
        };
        self.mark(run.first as usize, run.pages as usize);
        let slot = &mut self.slots[run.first as usize];
        slot.memory = Some(memory);
        core::mem::take(&mut slot.kept)
    }

    /// The first of `pages` free pages in a row.
    fn find(&self, pages: usize) -> Option<usize> {
        let mut at = 0;
        loop {
            at += self.alike(at, u64::MAX);
            let free = self.alike(at, 0);
            if free >= pages {
                return Some(at);
            }
            if free == 0 {
                return None;
            }
            at += free;
        }
    }

    /// How many pages from `at` on are used (`kind` is all ones) or free (`kind` is 0).
    #[inline]
    fn alike(&self, at: usize, kind: u64) -> usize {
        let mut end = at;
        while let Some(word) = self.used.get(end / 64) {
            let left = 64 - end % 64;
            let run = (!(word ^ kind) >> (end % 64)).trailing_ones() as usize;
            end += run;
            if run < left {
                break;
            }
        }
        end - at
    }

    /// Turns free pages into used ones and used into free.
    fn mark(&mut self, first: usize, pages: usize) {
        let (mut at, end) = (first, first + pages);
        while at < end {
            let in_word = (64 - at % 64).min(end - at);
            self.used[at / 64] ^= (u64::MAX >> (64 - in_word)) << (at % 64);
            at += in_word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn runs_never_overlap_and_the_lowest_that_fits_is_taken() {
        let (mut bounce, mut rng) = (Bounce::new(), Rng::new(3));
        let mut lent: BTreeMap<u32, (Run, Data)> = BTreeMap::new();
        for _ in 0..20_000 {
            if rng.chance(1, 2) && !lent.is_empty() {
                let nth = rng.below(lent.len() as u64) as usize;
                let first = *lent.keys().nth(nth).unwrap();
                let (run, data) = lent.remove(&first).unwrap();
                bounce.give_back(run, Payload::Data(data));
                continue;
            }
            let most = if rng.chance(1, 9) { MOST_PAGES as u64 } else { 12 };
            let pages = 1 + rng.below(most) as u32;
            // The free runs, by looking at what is lent.
            let (mut at, mut fits) = (0, None);
            for (run, _) in lent.values() {
                fits = fits.or((run.first - at >= pages).then_some(at));
                at = run.first + run.pages;
            }
            fits = fits.or((PAGES as u32 - at >= pages).then_some(at));
            let taken = bounce.take(pages as usize * PAGE);
            assert_eq!(taken.as_ref().map(|(run, _)| run.first), fits);
            if let Some((run, data)) = taken {
                assert_eq!(Run::from_word(run.word()), run);
                assert_eq!(data.len(), pages as usize * PAGE);
                lent.insert(run.first, (run, data));
            }
        }
    }

    #[test]
    fn the_memory_of_a_run_is_its_own() {
        let mut bounce = Bounce::new();
        let lent: Vec<_> = (0..4).map(|n| (n, bounce.take(MOST_PAGES * PAGE).unwrap())).collect();
        assert!(bounce.take(1).is_none(), "there is nothing left");
        lent.iter().for_each(|(n, (_, data))| data.fill(*n));
        assert!(lent.iter().all(|(n, (_, data))| data.to_vec().iter().all(|byte| byte == n)));
        for (_, (run, data)) in lent {
            bounce.give_back(run, Payload::Data(data));
        }
        assert_eq!(bounce.used, [0; PAGES / 64]);
    }
}
