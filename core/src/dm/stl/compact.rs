//! Compaction: runs of about one size become one. A sweep, or a start, goes through all runs, and each costs it a way of the head time and again.
//!
//! The newest of a block is in the newest of them that has it. The index goes on to know the blocks by the numbers of the runs that it was told of:
//! all of those lead to the one that has taken their place. Roots name the old ones until it is whole.

use core::ops::Range;

use super::format::{PageRow, Piece};
use super::lanes::Lanes;
use super::log::Pool;
use super::map::{LeafNo, Run, RunNo};
use super::nodes::MOST_BLOCKS;
use super::pages::{Pages, write_list};
use super::policy::tier;
use super::run_reader::{RunReader, newest_in, read_up_to};
use super::state::{Readiness, Shared, State};
use super::sweep_turn::Turn;
use super::{BLOCK_BYTES, Lba};
use crate::block::Reason;
use crate::prelude::*;

/// Runs that are to become one: the first of them, and how many.
#[derive(Clone, Copy, Debug)]
struct Tier {
    first: RunNo,
    count: usize,
}

/// Keeps runs few.
pub(super) async fn run(shared: Shared) {
    let progress = shared.borrow().signals.progress.clone();
    loop {
        let tier = progress.until(|| shared.borrow_mut().choose_tier()).await;
        shared.borrow_mut().is_compacting = true;
        compact(&shared, tier).await;
        let mut state = shared.borrow_mut();
        state.is_compacting = false;
        state.notify(|signals| &signals.progress);
    }
}

impl State {
    /// Runs that should become one, of those that no sweep merges now. That takes zones, which nobody may need for something else; and it is tried once
    /// for each run that has come.
    fn choose_tier(&mut self) -> Option<Tier> {
        let newest = self.map.runs.last().map(|run| run.number);
        if newest == self.compacted || self.readiness != Readiness::Ready || self.does_sweep_wait() {
            return None;
        }
        // Those that a sweep has merged in part are right together only.
        let merged = self.map.runs.iter().rposition(|run| run.piece.first > LeafNo(0) || self.in_sweep.has(run.number));
        let runs = &self.map.runs[merged.map_or(0, |last| last + 1)..];
        let sizes: Vec<usize> = runs.iter().map(|run| run.pages.len()).collect();
        let Some(first) = tier(&sizes, self.options.runs_of_tier) else {
            self.compacted = newest;
            return None;
        };
        let has_room = self.zones.free(Pool::Users) >= self.zones_for(sizes[first..].iter().sum());
        has_room.then_some(Tier { first: runs[first].number, count: sizes.len() - first })
    }

    /// Whether a sweep waits until runs stay as they are.
    pub fn does_sweep_wait(&self) -> bool {
        self.is_sweep_wanted && !self.is_sweeping
    }

    /// Zones that so many pages may take, with the list of them.
    fn zones_for(&self, pages: usize) -> usize {
        let blocks = pages + pages * PageRow::BYTES / BLOCK_BYTES + 2;
        let open = self.lanes[Lanes::MAP].room() as usize;
        blocks.saturating_sub(open).div_ceil(self.disks.least_room.max(2) as usize / 2)
    }

    fn runs_of(&self, Tier { first, count }: Tier) -> Range<usize> {
        let first = self.map.runs.iter().position(|run| run.number == first).unwrap_or(self.map.runs.len());
        first..first + count
    }

    /// A run has taken the place of these.
    fn put_compacted(&mut self, tier: Tier, pages: Vec<PageRow>, piece: Piece) {
        let range = self.runs_of(tier);
        let known_as = self.map.runs[range.clone()].iter().map(|run| run.known_as).collect();
        let run = Run { number: tier.first, known_as, pages, piece };
        let old: Vec<Run> = self.map.runs.splice(range, [run]).collect();
        old.iter().for_each(|run| self.release_run(run));
        self.counters.compactions += 1;
        self.compacted = None;
    }
}

/// Makes one run of these, unless a sweep is to merge them, or it cannot be: then they stay as they are.
async fn compact(shared: &Shared, tier: Tier) {
    let mut runs: Vec<RunReader> = {
        let mut state = shared.borrow_mut();
        state.compacted = state.map.runs.last().map(|run| run.number);
        state.map.runs[state.runs_of(tier)].iter().map(|run| RunReader::new(run, state.map.leaf_size)).collect()
    };
    let mut pages = Vec::new();
    let is_all = write_newest(shared, &mut runs, &mut pages).await == Ok(true);
    let piece = if is_all { write_list(shared, Pool::Cleaning, tier.first, &pages).await.ok() } else { None };
    let mut state = shared.borrow_mut();
    match piece {
        Some(piece) => state.put_compacted(tier, pages, piece),
        // What is wrong with them the sweep will say that needs them.
        None => state.give_up(&pages.iter().map(|page| (page.place, 1)).collect::<Vec<_>>()),
    }
}

/// Writes the newest of all that runs have; whether it has come to the end, as a sweep does not wait for it. `pages`: where they are.
async fn write_newest(shared: &Shared, runs: &mut [RunReader], pages: &mut Vec<PageRow>) -> Result<bool, Reason> {
    let (mut full, mut end) = (Pages::default(), Lba(0));
    if shared.borrow().guards.gone().older_runs_win {
        runs.reverse();
    }
    while end < Lba::END {
        if shared.borrow().does_sweep_wait() {
            return Ok(false);
        }
        let turn = Turn::begin(&shared.borrow());
        // No turn takes longer than a batch of users can wait.
        let room = (shared.borrow().options.sweep_blocks).min(MOST_BLOCKS) as usize;
        // Of each run as many pages.
        let share = (room / runs.len()).max(1);
        let last = runs.iter().map(|run| run.first_behind(share)).min().unwrap_or(Lba::END);
        let mut at = end;
        end = last.max(end + 1);
        read_up_to(shared, runs, end, room).await?;
        while let Some(extent) = newest_in(runs, at..end)? {
            at = extent.end();
            full.put(extent.span());
            if full.full() >= MOST_BLOCKS as usize {
                pages.extend(full.write_full(shared, Pool::Cleaning).await?);
            }
        }
        turn.rest(shared, None).await;
    }
    pages.extend(full.write(shared, Pool::Cleaning).await?);
    Ok(true)
}
