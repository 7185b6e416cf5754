//! Memory that ciphertext is written to on its way down: a fixed number of pages, in runs.
//!
//! A run is as long as its bio, so the bio below has one segment. The lowest run that fits is taken: what was given
//! back last is often still in the caches. Once all runs are back every length fits again, so waiting for memory ends.

use alloc::sync::Arc;
use core::sync::atomic::AtomicU64;

use crate::block::{Buffer, Data, Memory, Payload};
use crate::prelude::*;

/// Bytes of a page: the least that a bio takes.
const PAGE: usize = 4096;
const PAGE_WORDS: usize = PAGE / size_of::<u64>();
/// Most pages: 4 MiB.
const PAGES: usize = 1024;
/// Least pages, a word of bits.
const LEAST_PAGES: usize = 64;
/// Pages of the longest bio, as many as the kernel gives one (`include/linux/bio.h:BIO_MAX_VECS`): 1 MiB.
pub(super) const MOST_PAGES: usize = 256;
/// Sectors of the longest bio.
pub(super) const MOST_SECTORS: u32 = (MOST_PAGES * PAGE / 512) as u32;

/// The memory, and the payloads of the bios that have some of it instead of their own.
pub(super) struct Bounce {
    memory: Arc<Buffer>,
    used: [u64; PAGES / 64],
    /// By the first page of a run: the memory from there on, and while a bio has that, what the bio carried.
    slots: Vec<Payload>,
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
    /// Memory for a line of `sectors`. A short one gets less, as much as it is long: a table may have thousands of them, and no
    /// bio is longer than its line. `None` if there is no memory for it.
    pub fn new(sectors: u64) -> Option<Self> {
        let length = sectors.div_ceil(PAGE as u64 / 512).min(PAGES as u64) as usize;
        let pages = length.next_multiple_of(LEAST_PAGES).max(LEAST_PAGES);
        let memory = Arc::new(Buffer::try_new(pages * PAGE)?);
        let slot = |page| Payload::Data(Data::new(memory.clone(), page * PAGE, PAGE));
        // Pages that there are not are never free.
        let mut used = [u64::MAX; PAGES / 64];
        used[..pages / 64].fill(0);
        let slots = (0..pages).map(slot).collect();
        Some(Self { memory, used, slots })
    }

    /// Takes memory of as many bytes as `payload` has, at most [`MOST_PAGES`] pages, and has the two change places;
    /// `None` if no run is long enough at the moment.
    #[inline]
    pub fn lend(&mut self, payload: &mut Payload) -> Option<Run> {
        let bytes = payload.bytes();
        let pages = bytes.div_ceil(PAGE);
        debug_assert!((1..=MOST_PAGES).contains(&pages), "{bytes} bytes in one bio");
        let first = self.find(pages)?;
        self.mark(first, pages);
        core::mem::swap(payload, &mut self.slots[first]);
        // The last bio that had it was often as long.
        if payload.bytes() != bytes
            && let Payload::Data(memory) = core::mem::take(payload)
        {
            *payload = Payload::Data(memory.with_len(bytes));
        }
        Some(Run { first: first as u32, pages: pages as u32 })
    }

    /// What the bio carried that has this run, and as many words of the run's memory.
    #[inline]
    pub fn both(&self, run: Run) -> (&Payload, &[AtomicU64]) {
        let kept = &self.slots[run.first as usize];
        let start = run.first as usize * PAGE_WORDS;
        (kept, &self.memory.words()[start..start + kept.bytes() / size_of::<u64>()])
    }

    /// Takes the memory back, which changes places with what was kept for it.
    #[inline]
    pub fn give_back(&mut self, run: Run, payload: &mut Payload) {
        assert!(matches!(payload, Payload::Data(_)), "a bio came back without the memory that it went with");
        self.mark(run.first as usize, run.pages as usize);
        core::mem::swap(payload, &mut self.slots[run.first as usize]);
    }

    /// The first of `pages` free pages in a row.
    #[inline]
    fn find(&self, pages: usize) -> Option<usize> {
        if pages == 1 {
            let word = self.used.iter().position(|word| *word != u64::MAX)?;
            return Some(64 * word + self.used[word].trailing_ones() as usize);
        }
        let mut at = 0;
        loop {
            at += self.alike(at, u64::MAX, PAGES);
            let free = self.alike(at, 0, pages);
            if free >= pages {
                return Some(at);
            }
            if free == 0 {
                return None;
            }
            at += free;
        }
    }

    /// How many pages from `at` on are used (`kind` is all ones) or free (`kind` is 0), counted until they are
    /// `enough`.
    #[inline]
    fn alike(&self, at: usize, kind: u64, enough: usize) -> usize {
        let mut end = at;
        while let Some(word) = self.used.get(end / 64) {
            let left = 64 - end % 64;
            let run = (!(word ^ kind) >> (end % 64)).trailing_ones() as usize;
            end += run;
            if run < left || end - at >= enough {
                break;
            }
        }
        end - at
    }

    /// Turns free pages into used ones and used into free.
    #[inline]
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
        let (mut bounce, mut rng) = (Bounce::new(u64::MAX).unwrap(), Rng::new(3));
        let mut lent: BTreeMap<u32, (Run, Payload)> = BTreeMap::new();
        for _ in 0..20_000 {
            if rng.chance(1, 2) && !lent.is_empty() {
                let nth = rng.below(lent.len() as u64) as usize;
                let first = *lent.keys().nth(nth).unwrap();
                let (run, mut payload) = lent.remove(&first).unwrap();
                bounce.give_back(run, &mut payload);
                assert!(matches!(payload, Payload::Segments(_)), "what was kept comes back");
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
            let mut payload = carried(pages as usize * PAGE);
            let taken = bounce.lend(&mut payload);
            assert_eq!(taken.map(|run| run.first), fits);
            if let Some(run) = taken {
                assert_eq!(Run::from_word(run.word()), run);
                assert_eq!(payload.segments()[0].len(), pages as usize * PAGE);
                lent.insert(run.first, (run, payload));
            }
        }
    }

    /// What a bio carries that wants so much memory.
    fn carried(bytes: usize) -> Payload {
        Payload::Segments([Data::zeroed(bytes)].into())
    }

    #[test]
    fn the_memory_of_a_run_is_its_own() {
        let mut bounce = Bounce::new(u64::MAX).unwrap();
        let mut lend = |bytes| {
            let mut payload = carried(bytes);
            bounce.lend(&mut payload).map(|run| (run, payload))
        };
        let lent: Vec<_> = (0..4).map(|n| (n, lend(MOST_PAGES * PAGE).unwrap())).collect();
        assert!(lend(8).is_none(), "there is nothing left");
        lent.iter().for_each(|(n, (_, payload))| payload.segments()[0].fill(*n));
        assert!(lent.iter().all(|(n, (_, payload))| payload.segments()[0].to_vec().iter().all(|byte| byte == n)));
        for (_, (run, mut payload)) in lent {
            bounce.give_back(run, &mut payload);
        }
        assert_eq!(bounce.used, [0; PAGES / 64]);
    }

    #[test]
    fn a_short_line_has_no_more_memory_than_its_length_and_its_longest_bio_fits() {
        for sectors in [1, 8, 100, 512, 1_000, 2_048, 1 << 40] {
            let mut bounce = Bounce::new(sectors).unwrap();
            let bytes = sectors.min(u64::from(MOST_SECTORS)) as usize * 512;
            assert!(
                bounce.slots.len() * PAGE <= (sectors as usize * 512 + LEAST_PAGES * PAGE).min(PAGES * PAGE),
                "{sectors}"
            );
            let mut lent: Vec<_> = Vec::new();
            let mut payload = carried(bytes);
            while let Some(run) = bounce.lend(&mut payload) {
                lent.push((run, core::mem::replace(&mut payload, carried(bytes))));
            }
            assert!(
                !lent.is_empty() && lent.iter().all(|(run, _)| bounce.both(*run).1.len() * 8 == bytes),
                "{sectors}"
            );
            lent.into_iter().for_each(|(run, mut payload)| bounce.give_back(run, &mut payload));
            assert!(bounce.lend(&mut payload).is_some_and(|run| run.first == 0), "{sectors}");
        }
    }
}
