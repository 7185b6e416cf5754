//! `numa`: every node has its nearest path, and stays there.

use super::{Access, Io, Node, PathView, Policy, cheapest};
use crate::prelude::*;

/// Linux's default (`drivers/nvme/host/multipath.c`). A path without a node is as near as one can be, so over TCP the first path in the
/// list gets everything.
#[derive(Debug, Default)]
pub struct Numa {
    /// Of each node the path that was found last.
    nearest: Vec<Option<usize>>,
}

/// Distances of Linux: on the node, and anywhere else.
const LOCAL: u32 = 10;
const REMOTE: u32 = 20;

fn find(paths: &[PathView], node: Node) -> Option<usize> {
    cheapest(paths, |_, path| if path.node.is_none_or(|other| other == node) { LOCAL } else { REMOTE })
}

impl Policy for Numa {
    fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        let node = usize::from(io.node.0);
        if self.nearest.len() <= node {
            self.nearest.resize(node + 1, None);
        }
        let known = self.nearest[node].filter(|path| paths.get(*path).is_some_and(|it| it.access == Access::Optimized));
        if known.is_none() {
            self.nearest[node] = find(paths, io.node);
        }
        self.nearest[node]
    }

    fn failed(&mut self, path: usize) {
        self.nearest.iter_mut().for_each(|nearest| _ = nearest.take_if(|nearest| *nearest == path));
    }

    /// A nearer path that has come back is taken at once.
    fn changed(&mut self, paths: &[PathView]) {
        for (node, nearest) in self.nearest.iter_mut().enumerate() {
            *nearest = find(paths, Node(node as u8));
        }
    }
}
