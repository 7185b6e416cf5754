//! Parts of the map that lie on the disk, and those of them that are in memory.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;

use super::{Extent, LeafNo, LeafSize};
use crate::dm::stl::format::{LeafRow, PageError, decode_leaf, decode_page};
use crate::dm::stl::{Lba, Pba};
use crate::prelude::*;

/// A part of the map that lies on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A page of a run.
    Page(Pba),
    /// A leaf.
    Leaf(LeafNo, LeafRow),
}

impl Node {
    /// Its first block.
    #[must_use]
    pub fn place(self) -> Pba {
        match self {
            Self::Page(place) => place,
            Self::Leaf(_, row) => row.place,
        }
    }

    /// Its blocks.
    #[must_use]
    pub fn blocks(self) -> u32 {
        match self {
            Self::Page(_) => 1,
            Self::Leaf(_, row) => row.blocks.into(),
        }
    }

    /// Extents in the node, of a volume with leaves of this size.
    ///
    /// # Errors
    /// What is wrong with its bytes.
    pub fn decode(self, size: LeafSize, bytes: &[u8]) -> Result<Vec<Extent>, String> {
        match self {
            Self::Page(place) => decode_page(place, bytes).map_err(|error: PageError| error.to_string()),
            Self::Leaf(leaf, row) => decode_leaf((size, leaf), row.place, bytes).map_err(|error| error.to_string()),
        }
    }
}

/// Nodes in memory; the oldest goes first.
#[derive(Clone, Debug)]
pub struct NodeCache {
    nodes: BTreeMap<Pba, Rc<[Extent]>>,
    order: VecDeque<Pba>,
    /// Extents in all of them, and the most that there may be.
    extents: usize,
    most: usize,
}

impl NodeCache {
    /// A cache of so many extents.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { nodes: BTreeMap::new(), order: VecDeque::new(), extents: 0, most }
    }

    /// A node, if it is there.
    #[must_use]
    pub fn get(&self, node: Node) -> Option<&Rc<[Extent]>> {
        self.nodes.get(&node.place())
    }

    /// Takes a node in. The last one stays, however large it is.
    pub fn put(&mut self, node: Node, extents: Rc<[Extent]>) {
        self.extents += extents.len();
        if let Some(old) = self.nodes.insert(node.place(), extents) {
            self.extents -= old.len();
        } else {
            self.order.push_back(node.place());
        }
        self.shrink();
    }

    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.extents * size_of::<Extent>() + self.nodes.len() * size_of::<(Pba, Rc<[Extent]>)>()
    }

    /// From now on it has so many extents at most.
    pub fn resize(&mut self, most: usize) {
        self.most = most;
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.extents > self.most && self.order.len() > 1 {
            let oldest = self.order.pop_front();
            self.extents -= oldest.and_then(|place| self.nodes.remove(&place)).map_or(0, |node| node.len());
        }
    }

    /// Forgets what lies in `from..to`: it means something else from now on.
    pub fn forget(&mut self, from: Pba, to: Pba) {
        let gone: Vec<Pba> = self.nodes.range(from..to).map(|(place, _)| *place).collect();
        for place in gone {
            self.extents -= self.nodes.remove(&place).map_or(0, |node| node.len());
        }
        self.order.retain(|place| !(from..to).contains(place));
    }
}

/// The extent of a node that has a block.
pub(super) fn extent_with(extents: &[Extent], lba: Lba) -> Result<&Extent, Option<Lba>> {
    let next = extents.partition_point(|extent| extent.end() <= lba);
    match extents.get(next) {
        Some(extent) if extent.lba <= lba => Ok(extent),
        later => Err(later.map(|extent| extent.lba)),
    }
}
