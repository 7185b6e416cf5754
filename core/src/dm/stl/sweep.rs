//! Sweeps: over all blocks in order, runs are merged into leaves, and what is live in each zone is counted anew.

use alloc::collections::BTreeSet;

use super::format::{LeafRow, encode_leaf};
use super::log::Pool;
use super::map::{Extent, LEAF_BLOCKS, LeafNo, Node, Pending, Run, RunNo, Source};
use super::nodes::{Draft, write_all};
use super::read::load_node;
use super::state::{Readiness, Shared, State};
use super::{BLOCK_BYTES, ZoneIndex};
use crate::block::Reason;
use crate::prelude::*;

/// What a sweep is about.
struct Sweep {
    /// Runs that it merges.
    runs: BTreeSet<RunNo>,
    /// Zones out of which it moves the map.
    evicted: BTreeSet<ZoneIndex>,
    /// Live blocks by zone.
    live: Vec<u32>,
}

/// Makes sweeps when they are wanted.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        signals.progress.until(|| shared.borrow().is_sweep_due().then_some(())).await;
        let result = sweep(&shared).await;
        let mut state = shared.borrow_mut();
        state.is_sweep_wanted = false;
        match result {
            Ok(()) => state.is_checkpoint_wanted = true,
            Err(reason) => state.degrade(format!("the map could not be merged: {reason}")),
        }
        state.notify(|signals| &signals.progress);
    }
}

impl State {
    fn is_sweep_due(&self) -> bool {
        self.is_sweep_wanted && self.readiness == Readiness::Ready && !self.is_suspended
    }

    fn begin_sweep(&mut self) -> Sweep {
        let mut live = vec![0; self.zones.rows().len()];
        let levels = [Some(&self.map.pending), self.map.frozen.as_ref()].into_iter().flatten();
        levels.flat_map(Pending::iter).for_each(|extent| self.count_extent(extent, &mut live));
        self.zones.begin_recount();
        Sweep { runs: self.map.runs.iter().map(|run| run.number).collect(), evicted: self.sparse_map_zones(), live }
    }

    fn count_extent(&self, extent: &Extent, live: &mut [u32]) {
        if let Source::At(place, _) = extent.source {
            live[self.disks.set.zone_of(place).0.0 as usize] += extent.blocks;
        }
    }

    /// Zones of the map of which less than half is still needed.
    pub fn sparse_map_zones(&self) -> BTreeSet<ZoneIndex> {
        let zones = self.zones.full(&[Pool::Map]).map(|(zone, _)| zone);
        zones.filter(|zone| self.zones.map_blocks(*zone) * 2 < self.disks.shape(*zone).room).collect()
    }

    fn end_sweep(&mut self, sweep: Sweep) {
        let merged: Vec<Run> = self.map.runs.extract_if(.., |run| sweep.runs.contains(&run.number)).collect();
        for run in merged {
            run.pages.iter().for_each(|page| self.release(page.place, 1));
            self.release(run.piece.place, run.piece.blocks);
        }
        let moved = self.tables.pieces.iter().filter(|piece| {
            piece.kind == super::format::PieceKind::Leaves
                && sweep.evicted.contains(&self.disks.set.zone_of(piece.place).0)
        });
        let moved: Vec<u32> = moved.map(|piece| piece.number).collect();
        self.tables.dirty_leaves.extend(moved);
        self.zones.end_recount(&sweep.live);
        self.counters.sweeps += 1;
    }
}

async fn sweep(shared: &Shared) -> Result<(), Reason> {
    let mut sweep = shared.borrow_mut().begin_sweep();
    let leaves = shared.borrow().map.leaves.len() as u32;
    for leaf in (0..leaves).map(LeafNo) {
        merge(shared, leaf, &mut sweep).await?;
    }
    shared.borrow_mut().end_sweep(sweep);
    Ok(())
}

/// Merges what the runs have of a leaf into it.
async fn merge(shared: &Shared, leaf: LeafNo, sweep: &mut Sweep) -> Result<(), Reason> {
    let (row, held) = {
        let state = shared.borrow();
        let held: Vec<_> = state.map.index.held(leaf).filter(|held| sweep.runs.contains(&held.run)).collect();
        (state.map.leaves[leaf.0 as usize], held)
    };
    let mut merged = Pending::default();
    if row.blocks > 0 {
        let extents = extents_of(shared, Node::Leaf(leaf, row)).await?;
        extents.iter().for_each(|extent| merged.put(extent.clone()));
    }
    for held in &held {
        let (mut lba, end) = (leaf.start() + u64::from(held.blocks.start), leaf.start() + u64::from(held.blocks.end));
        while lba < end {
            let page = shared.borrow().map.runs.iter().find(|run| run.number == held.run).and_then(|run| run.page(lba));
            let extents = extents_of(shared, Node::Page(page.ok_or(Reason::Medium)?)).await?;
            let extent = extents.iter().find(|extent| extent.lba <= lba && extent.end() > lba).ok_or(Reason::Medium)?;
            let part = extent.part(lba, end);
            lba = part.end();
            merged.put(part);
        }
    }
    let extents: Vec<Extent> = merged.iter().filter(|extent| extent.source != Source::Zeroes).cloned().collect();
    let is_evicted = {
        let state = shared.borrow();
        extents.iter().for_each(|extent| state.count_extent(extent, &mut sweep.live));
        row.blocks > 0 && sweep.evicted.contains(&state.disks.set.zone_of(row.place).0)
    };
    if held.is_empty() && !is_evicted {
        return Ok(());
    }
    let row = write_leaf(shared, leaf, &extents).await?;
    let mut state = shared.borrow_mut();
    state.put_leaf(leaf, row);
    state.map.index.forget(leaf, |run| sweep.runs.contains(&run));
    if row.blocks > 0 {
        state.map.cache.put(Node::Leaf(leaf, row), extents.into());
    }
    Ok(())
}

/// The extents of a node.
async fn extents_of(shared: &Shared, node: Node) -> Result<alloc::rc::Rc<[Extent]>, Reason> {
    loop {
        if let Some(extents) = shared.borrow().map.cache.get(node) {
            return Ok(extents.clone());
        }
        load_node(shared, node).await?;
    }
}

/// Writes a leaf; one without extents takes no space.
async fn write_leaf(shared: &Shared, leaf: LeafNo, extents: &[Extent]) -> Result<LeafRow, Reason> {
    if extents.is_empty() {
        return Ok(LeafRow::default());
    }
    let encode = |place| encode_leaf(leaf, place, extents);
    let blocks = (encode(super::Pba(0)).len() / BLOCK_BYTES) as u32;
    let place = write_all(shared, &[Draft { blocks, encode: Box::new(encode) }]).await?[0];
    let _ = LEAF_BLOCKS;
    Ok(LeafRow { place, blocks: blocks as u8 })
}
