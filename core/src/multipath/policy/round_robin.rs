//! `round-robin`: one I/O on each path, in turn.

use super::{Access, Io, PathView, Policy};
use crate::prelude::*;

/// Linux's (`drivers/nvme/host/multipath.c`): the submitters of a node share a cursor. Of paths that are not optimized the last one found
/// is taken, so that those take turns as well.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// Of each node the path that was taken last.
    cursors: Vec<Option<usize>>,
}

impl Policy for RoundRobin {
    fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        let node = usize::from(io.node.0);
        if self.cursors.len() <= node {
            self.cursors.resize(node + 1, None);
        }
        let last = self.cursors[node].filter(|last| *last < paths.len());
        self.cursors[node] = next(paths, last);
        self.cursors[node]
    }

    fn failed(&mut self, path: usize) {
        self.cursors.iter_mut().for_each(|cursor| _ = cursor.take_if(|cursor| *cursor == path));
    }
}

/// The path behind the last one.
fn next(paths: &[PathView], last: Option<usize>) -> Option<usize> {
    let first = last.map_or(0, |last| last + 1);
    let round = (first..paths.len()).chain(0..first).map(|number| (number, paths[number].access));
    let of = |wanted: Access| round.clone().find(|(_, access)| *access == wanted).map(|(number, _)| number);
    of(Access::Optimized).or_else(|| of(Access::NonOptimized))
}
