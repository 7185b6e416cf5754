//! The whole map: the first level that knows a block decides.

use core::ops::Range;

use super::node::{Node, NodeCache, extent_with};
use super::{Extent, LeafNo, LeafSize, Live, Pending, RunIndex, RunNo, RunSet, Span};
use crate::dm::stl::format::{LeafRow, PageRow, Piece};
use crate::dm::stl::{Lba, Pba};
use crate::prelude::*;
use alloc::rc::Rc;

/// A pending set that a checkpoint wrote, or several of them that became one.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its number.
    pub number: RunNo,
    /// Its numbers in the index: those of all runs of which it was made.
    pub known_as: RunSet,
    /// Its pages, in order.
    pub pages: Vec<PageRow>,
    /// Where that list is on the disk.
    pub piece: Piece,
}

/// Those of the pages of a run with something from a block on, and perhaps one before them.
#[must_use]
pub fn pages_from(pages: &[PageRow], lba: Lba) -> &[PageRow] {
    &pages[pages.partition_point(|page| page.first <= lba).saturating_sub(1)..]
}

impl Run {
    /// The page with what this run has of a block.
    #[must_use]
    pub fn page(&self, lba: Lba) -> Option<Pba> {
        self.pages.partition_point(|page| page.first <= lba).checked_sub(1).map(|at| self.pages[at].place)
    }
}

/// What the map says of a block, and of those behind it as far as that goes for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It has data.
    Data(Extent),
    /// Zeroes.
    Zeroes,
    /// That is in a part of the map that is not in memory.
    Missing(Node),
    /// No part of the map can say: it is damaged.
    Damaged,
}

/// Where the blocks of the exposed disk are.
#[derive(Clone, Debug)]
pub struct Map {
    /// What was written since the last checkpoint began.
    pub pending: Pending,
    /// What a checkpoint is writing.
    pub frozen: Option<Rc<Pending>>,
    /// Which run has a block.
    pub index: RunIndex,
    /// The runs, the oldest first.
    pub runs: Vec<Run>,
    /// Blocks of a leaf.
    pub leaf_size: LeafSize,
    /// Leaf by leaf.
    pub leaves: Vec<LeafRow>,
    /// Nodes in memory.
    pub cache: NodeCache,
    /// What leaves name of zones that may be cleaned.
    pub live: Live,
}

impl Map {
    /// An empty map of `blocks`, with at most `cached` extents of nodes in memory.
    #[must_use]
    pub fn new(blocks: u64, leaf_size: LeafSize, cached: usize) -> Self {
        Self {
            leaf_size,
            pending: Pending::default(),
            frozen: None,
            index: RunIndex::default(),
            runs: Vec::new(),
            leaves: vec![LeafRow::default(); leaf_size.leaves(blocks)],
            cache: NodeCache::new(cached),
            live: Live::default(),
        }
    }

    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let pages: usize = self.runs.iter().map(|run| run.pages.len() * size_of::<PageRow>()).sum();
        let pending = self.pending.bytes() + self.frozen.as_deref().map_or(0, Pending::bytes);
        let leaves = self.leaves.len() * size_of::<LeafRow>();
        pending + self.index.bytes() + pages + leaves + self.cache.bytes() + self.live.bytes()
    }

    /// Numbers that runs have in the index.
    #[must_use]
    pub fn numbers(&self) -> RunSet {
        self.runs.iter().map(|run| run.known_as).collect()
    }

    /// A number that no run has.
    #[must_use]
    pub fn free_run(&self) -> Option<RunNo> {
        let taken = self.numbers();
        (0..=u8::MAX).map(RunNo).find(|number| !taken.has(*number))
    }

    /// The run that the index knows by a number.
    fn run(&self, number: RunNo) -> Option<&Run> {
        self.runs.iter().rev().find(|run| run.known_as.has(number))
    }

    /// Whether a level above the leaves knows a block.
    #[must_use]
    pub fn is_above_leaves(&self, lba: Lba) -> bool {
        self.is_above_runs(lba) || self.run_of(lba).is_some()
    }

    /// Number by which the index knows the newest run that has a block.
    #[must_use]
    pub fn run_of(&self, lba: Lba) -> Option<RunNo> {
        let (leaf, offset) = self.leaf_size.leaf_of(lba);
        self.index.find(leaf, offset).0
    }

    /// Whether the pending set knows a block, or what a checkpoint is writing.
    #[must_use]
    pub fn is_above_runs(&self, lba: Lba) -> bool {
        let mut levels = [Some(&self.pending), self.frozen.as_deref()].into_iter().flatten();
        levels.any(|level| level.find(lba).is_some())
    }

    /// What is at `lba`, and up to where before `end` that is so.
    #[must_use]
    pub fn find(&self, lba: Lba, end: Lba) -> (Found, Lba) {
        let mut end = end;
        for level in [Some(&self.pending), self.frozen.as_deref()].into_iter().flatten() {
            match level.first(lba, end) {
                Some(extent) if extent.lba <= lba => return found(extent, lba, end),
                Some(extent) => end = extent.lba,
                None => {}
            }
        }
        self.find_on_disk(lba, end)
    }

    /// A node with a block, and those of its kind that lie behind it in a row, `most` at most: what they say follows what it says.
    #[must_use]
    pub fn row(&self, node: Node, lba: Lba, most: usize) -> Vec<Node> {
        let (leaf, offset) = self.leaf_size.leaf_of(lba);
        let behind: Vec<Node> = match node {
            Node::Page(place) => {
                let run = self.index.find(leaf, offset).0.and_then(|number| self.run(number));
                let pages = run.map_or(&[][..], |run| &run.pages);
                let first = pages.iter().position(|page| page.place == place).map_or(pages.len(), |at| at + 1);
                pages[first..].iter().take(most).map(|page| Node::Page(page.place)).collect()
            }
            Node::Leaf(leaf, _) => {
                let leaves = (leaf.0 + 1..).map(LeafNo).zip(&self.leaves[leaf.0 as usize + 1..]);
                let leaves = leaves.filter(|(_, row)| row.blocks > 0).take(most);
                leaves.map(|(leaf, row)| Node::Leaf(leaf, *row)).collect()
            }
        };
        let mut row = vec![node];
        for next in behind {
            let last = row[row.len() - 1];
            if row.len() >= most || next.place() != last.place() + u64::from(last.blocks()) {
                break;
            }
            row.push(next);
        }
        row
    }

    /// What is at `lba`, of what lies on the disk: runs and leaves.
    fn find_on_disk(&self, lba: Lba, end: Lba) -> (Found, Lba) {
        let (leaf, offset) = self.leaf_size.leaf_of(lba);
        let (run, up_to) = self.index.find(leaf, offset);
        let Range { start, end: end_of_leaf } = self.leaf_size.range(leaf);
        let end = end.min(end_of_leaf).min(start + u64::from(up_to));
        let node = match run {
            Some(number) => self.run(number).and_then(|run| run.page(lba)).map(Node::Page),
            None => match self.leaves[leaf.0 as usize] {
                LeafRow { blocks: 0, .. } => return (Found::Zeroes, end),
                row => Some(Node::Leaf(leaf, row)),
            },
        };
        let Some(node) = node else { return (Found::Damaged, end) };
        let Some(extents) = self.cache.get(node) else { return (Found::Missing(node), end) };
        match (extent_with(extents, lba), node) {
            (Ok(extent), _) => found(extent.span(), lba, end),
            (Err(next), Node::Leaf(..)) => (Found::Zeroes, next.map_or(end, |next| next.min(end))),
            (Err(_), Node::Page(_)) => (Found::Damaged, end),
        }
    }
}

fn found(extent: Span<'_>, lba: Lba, end: Lba) -> (Found, Lba) {
    let end = end.min(extent.end());
    match extent.place {
        None => (Found::Zeroes, end),
        Some(_) => (Found::Data(extent.part(lba, end).to_extent()), end),
    }
}
