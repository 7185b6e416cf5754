//! Sweeps: over all blocks in order, runs are merged into leaves. A full one looks at every leaf, counts what is live in each zone, and marks
//! the live blocks of zones that are worth cleaning.

use alloc::collections::BTreeSet;

use super::format::{LeafRow, PieceKind, ZoneUse, encode_leaf, place_leaf};
use super::log::Pool;
use super::map::{LeafImage, LeafNo, Live, Node, Pending, Run, RunSet, Span};
use super::nodes::{self, Draft, write_all};
use super::run_reader::{RunReader, read_up_to};
use super::state::{Readiness, Shared, State};
use super::sweep_turn::{Step, Turn};
use super::window::{Window, read_leaves};
use super::{BLOCK_BYTES, Generation, Pba, ZoneIndex};
use crate::block::Reason;
use crate::prelude::*;

/// What a sweep is about.
struct Sweep {
    /// Runs that it merges.
    runs: RunSet,
    /// Zones out of which it moves the map.
    evicted: BTreeSet<ZoneIndex>,
    /// What it counts, if it looks at every leaf.
    census: Option<Census>,
    /// The leaf that it looks at.
    image: LeafImage,
}

/// What is live.
struct Census {
    /// Live blocks by zone.
    blocks: Vec<u32>,
    /// Those of zones that are worth cleaning.
    live: Live,
    /// Zones of which all batches are in the leaves when the sweep is over.
    settled: Vec<(ZoneIndex, Generation)>,
}

/// A leaf that was merged and is not written yet.
struct Merged {
    leaf: LeafNo,
    /// Its blocks, for no place yet: as extents it would take several times the memory. None if it has no extents.
    bytes: Vec<u8>,
    /// What it does not name any more of zones whose live blocks are marked.
    replaced: Vec<Pba>,
}

/// Makes sweeps when they are wanted.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        signals.progress.until(|| shared.borrow().is_sweep_due().then_some(())).await;
        let result = sweep(&shared).await;
        let mut state = shared.borrow_mut();
        (state.is_sweep_wanted, state.is_sweeping, state.in_sweep) = (false, false, RunSet::default());
        match result {
            Ok(()) => state.is_checkpoint_wanted = true,
            Err(reason) => state.degrade(format!("the map could not be merged: {reason}")),
        }
        state.notify(|signals| &signals.progress);
    }
}

impl State {
    fn is_sweep_due(&self) -> bool {
        let is_due = self.is_sweep_wanted && !self.is_compacting;
        is_due && self.readiness == Readiness::Ready && !self.is_sweep_held()
    }

    fn begin_sweep(&mut self) -> Sweep {
        let census = self.wants_victims().then(|| self.begin_census());
        (self.is_sweeping, self.in_sweep, self.merged_before) = (true, self.map.numbers(), LeafNo(0));
        let image = LeafImage::new(self.map.leaf_size, LeafNo(0));
        Sweep { runs: self.in_sweep, evicted: self.map_zones_to_leave(), census, image }
    }

    fn begin_census(&mut self) -> Census {
        let mut blocks = vec![0; self.zones.rows().len()];
        let levels = [Some(&self.map.pending), self.map.frozen.as_deref()].into_iter().flatten();
        levels.flat_map(Pending::iter).for_each(|extent| self.count_extent(extent, &mut blocks));
        self.zones.begin_recount();
        self.swept = self.map_cut;
        let settled = self.settled_zones();
        let mut live = Live::default();
        for zone in self.worth_marking(&settled) {
            live.begin(zone, self.disks.set.zone_blocks());
        }
        Census { blocks, live, settled }
    }

    /// Full zones of data of which all batches are in runs and leaves.
    fn settled_zones(&self) -> Vec<(ZoneIndex, Generation)> {
        let is_loose = self.guards.gone().reset_uncovered;
        let (cut, copies) = if is_loose { (self.counted(), self.copies) } else { self.map_cut };
        let zones = self.zones.full(&[Pool::Users, Pool::Cleaning]);
        let zones = zones.chain(self.zones.stranded());
        let settled = zones.filter(|(zone, _)| self.zones.is_covered(*zone, cut, copies));
        settled.map(|(zone, row)| (zone, row.generation)).collect()
    }

    fn count_extent(&self, extent: Span<'_>, live: &mut [u32]) {
        if let Some(place) = extent.place {
            live[self.disks.set.zone_of(place).0.0 as usize] += extent.blocks;
        }
    }

    /// Zones of the map of which less than half is still needed.
    pub fn sparse_map_zones(&self) -> BTreeSet<ZoneIndex> {
        let zones = self.zones.full(&[Pool::Map]).map(|(zone, _)| zone);
        zones.filter(|zone| self.zones.map_blocks(*zone) * 2 < self.disks.shape(*zone).room).collect()
    }

    /// A leaf that was merged lies there now.
    fn put_merged(&mut self, merged: &Merged, row: LeafRow, runs: RunSet) {
        let Merged { leaf, replaced, .. } = merged;
        let old = Node::Leaf(*leaf, self.map.leaves[leaf.0 as usize]);
        let is_cached = old.blocks() > 0 && self.map.cache.get(old).is_some();
        self.put_leaf(*leaf, row);
        self.map.index.forget(*leaf, |run| runs.has(run));
        for place in replaced {
            let (zone, block) = self.disks.set.zone_of(*place);
            self.map.live.clear(zone, block);
        }
        if !is_cached || row.blocks == 0 {
            return;
        }
        let new = Node::Leaf(*leaf, row);
        if let Ok(extents) = new.decode(self.map.leaf_size, &placed(&merged.bytes, row.place)) {
            self.map.cache.put(new, extents.into());
        }
    }

    fn end_sweep(&mut self, sweep: Sweep) {
        let merged: Vec<Run> = self.map.runs.extract_if(.., |run| sweep.runs.has(run.number)).collect();
        merged.iter().for_each(|run| self.release_run(run));
        let moved = self.tables.pieces.iter().filter(|piece| {
            piece.kind == PieceKind::Leaves && sweep.evicted.contains(&self.disks.set.zone_of(piece.place).0)
        });
        let moved: Vec<u32> = moved.map(|piece| piece.number).collect();
        self.tables.dirty_leaves.extend(moved);
        if let Some(census) = sweep.census {
            self.end_census(census);
        }
        self.counters.sweeps += 1;
    }

    fn end_census(&mut self, census: Census) {
        self.zones.end_recount(&census.blocks);
        self.map.live.adopt(census.live);
        for (zone, generation) in census.settled {
            let row = &self.zones.rows()[zone.0 as usize];
            // Meanwhile it may have been cleaned, and be in use again.
            let is_stranded = row.used_for == ZoneUse::Dead && self.disks.set.is_leaving(zone);
            let is_the_same = (row.used_for == ZoneUse::Full || is_stranded) && row.generation == generation;
            if is_the_same && census.blocks[zone.0 as usize] == 0 {
                self.settle(zone);
            }
        }
        let settled = self.settled_zones();
        self.is_census_stale = self.has_unmarked_gain(&settled) && self.best_marked().is_none();
        self.counters.recounts += 1;
    }

    /// Nothing in a zone is live, and never will be.
    pub fn settle(&mut self, zone: ZoneIndex) {
        if !self.guards.gone().reset_unjudged {
            let (user, copy) = (self.counted(), self.copies);
            self.zones.note(zone, user, copy);
        }
        self.map.live.forget(zone);
        self.zones.be_done_with(zone);
    }
}

/// Over all leaves, in turns.
async fn sweep(shared: &Shared) -> Result<(), Reason> {
    let (mut sweep, mut runs, leaves) = {
        let mut state = shared.borrow_mut();
        let runs: Vec<RunReader> = state.map.runs.iter().map(|run| RunReader::new(run, state.map.leaf_size)).collect();
        (state.begin_sweep(), runs, state.map.leaves.len() as u32)
    };
    let (mut first, from) = (LeafNo(0), shared.borrow().map.index.grown());
    while first.0 < leaves {
        let turn = Turn::begin(&shared.borrow());
        let (window, pages) = shared.borrow().next_window(first, &sweep, &runs);
        first = window.end;
        read_up_to(shared, &mut runs, sweep.image.size().start(first), pages).await?;
        if shared.borrow().guards.gone().merged_early {
            shared.borrow_mut().merged_before = first;
        }
        merge_window(shared, window, &mut runs, &mut sweep).await?;
        shared.borrow_mut().merged_before = first;
        turn.rest(shared, Some(Step { from, done: f64::from(first.0) / f64::from(leaves) })).await;
    }
    shared.borrow_mut().end_sweep(sweep);
    Ok(())
}

impl State {
    /// Blocks of runs that may be in memory: half of what the index of runs does not need is lent. Each time that all runs are gone through costs
    /// as many ways of the head as there are runs.
    fn sweep_blocks(&self) -> u32 {
        let unused = self.options.index_bytes.saturating_sub(self.map.index.bytes());
        let own = self.options.sweep_blocks.min(self.options.turn_blocks);
        own.saturating_add(u32::try_from(unused / 2 / BLOCK_BYTES).unwrap_or(u32::MAX / 2))
    }

    /// The next leaves to be looked at: what is read of them and of runs has its bound. Also, how many pages of runs may be in memory.
    fn next_window(&self, first: LeafNo, sweep: &Sweep, runs: &[RunReader]) -> (Window, usize) {
        let most = self.sweep_blocks();
        let mut window = self.window(first, most / 2, |state, leaf| state.concerns(leaf, sweep));
        let pages = |window: &Window| {
            runs.iter().map(|run| run.pages_before(self.map.leaf_size.start(window.end))).sum::<usize>()
        };
        while pages(&window) > most as usize && window.halve() {}
        (window, most as usize)
    }

    /// Whether a sweep has to look at a leaf.
    fn concerns(&self, leaf: LeafNo, sweep: &Sweep) -> bool {
        let is_there = self.map.leaves[leaf.0 as usize].blocks > 0;
        let is_counted = is_there && sweep.census.is_some();
        is_counted || self.is_evicted(leaf, sweep) || self.map.index.held(leaf).next().is_some()
    }

    /// Whether it moves a leaf, whatever runs have of it.
    fn is_evicted(&self, leaf: LeafNo, sweep: &Sweep) -> bool {
        let row = self.map.leaves[leaf.0 as usize];
        row.blocks > 0 && sweep.evicted.contains(&self.disks.set.zone_of(row.place).0)
    }
}

/// Merges what runs have into the leaves of a window, and writes those that change, in long batches.
async fn merge_window(
    shared: &Shared,
    window: Window,
    runs: &mut [RunReader],
    sweep: &mut Sweep,
) -> Result<(), Reason> {
    let leaves = read_leaves(shared, window).await?;
    let (mut changed, mut blocks) = (Vec::new(), 0);
    for (leaf, row) in &leaves.rows {
        leaves.put((*leaf, *row), &mut sweep.image)?;
        let Some(merged) = shared.borrow().merge(*leaf, runs, sweep)? else { continue };
        if blocks + merged.blocks() > nodes::MOST_BLOCKS {
            write_merged(shared, core::mem::take(&mut changed), sweep).await?;
            blocks = 0;
        }
        blocks += merged.blocks();
        changed.push(merged);
    }
    write_merged(shared, changed, sweep).await
}

impl State {
    /// A leaf with what the runs have of it, if it has to be written.
    fn merge(&self, leaf: LeafNo, runs: &mut [RunReader], sweep: &mut Sweep) -> Result<Option<Merged>, Reason> {
        let is_evicted = self.is_evicted(leaf, sweep);
        let Sweep { census, image, .. } = sweep;
        let (mut replaced, mut is_changed) = (Vec::new(), false);
        let (end, is_unguarded) = (self.map.leaf_size.range(leaf).end, self.guards.gone().merged_again);
        for run in runs.iter_mut().filter(|run| run.tells_before(end) || is_unguarded) {
            is_changed |= run.merge(image, end, &mut replaced)?;
        }
        if let Some(census) = census {
            self.count(image, census);
        }
        if !is_changed && !is_evicted {
            return Ok(None);
        }
        // No other zones are marked before the sweep is over.
        let is_marked = |place: &Pba| self.map.live.of(self.disks.set.zone_of(*place).0).is_some();
        let replaced = replaced.into_iter().filter(is_marked).collect();
        let is_empty = image.rows().next().is_none();
        let bytes = if is_empty { Vec::new() } else { encode_leaf(image, Pba(0)) };
        Ok(Some(Merged { leaf, bytes, replaced }))
    }
}

impl Merged {
    fn blocks(&self) -> u32 {
        (self.bytes.len() / BLOCK_BYTES) as u32
    }

    fn draft(&self) -> Draft<'_> {
        Draft { blocks: self.blocks(), encode: Box::new(|place| placed(&self.bytes, place)) }
    }
}

/// A leaf that was encoded for no place, for this one.
fn placed(bytes: &[u8], place: Pba) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    place_leaf(&mut bytes, place);
    bytes
}

impl State {
    fn count(&self, image: &LeafImage, census: &mut Census) {
        for row in image.rows() {
            let ((zone, block), blocks) = (self.disks.set.zone_of(row.place()), row.blocks.len() as u32);
            census.blocks[zone.0 as usize] += blocks;
            if census.live.of(zone).is_some() {
                (block..block + blocks).for_each(|block| census.live.set(zone, block));
            }
        }
    }
}

/// Writes leaves; one without extents takes no space.
async fn write_merged(shared: &Shared, changed: Vec<Merged>, sweep: &Sweep) -> Result<(), Reason> {
    let there = changed.iter().filter(|merged| !merged.bytes.is_empty());
    let drafts: Vec<Draft<'_>> = there.map(Merged::draft).collect();
    // A checkpoint has to go on while a sweep waits for one.
    let mut places = write_all(shared, Pool::Cleaning, &drafts).await?.into_iter();
    let mut state = shared.borrow_mut();
    for merged in &changed {
        let next = if merged.bytes.is_empty() { None } else { places.next() };
        let row = next.map_or(LeafRow::default(), |place| LeafRow { place, blocks: merged.blocks() as u8 });
        state.put_merged(merged, row, sweep.runs);
    }
    Ok(())
}
