//! dm-multipath's `round-robin`: the path that was not taken for longest.

use super::turns::Turns;
use super::{Io, PathView, Policy};

/// dm-multipath's (`drivers/md/dm-ps-round-robin.c`), one I/O a turn.
#[derive(Debug, Default)]
pub struct TurnByTurn {
    turns: Turns,
}

impl Policy for TurnByTurn {
    fn choose(&mut self, paths: &[PathView], _: &Io) -> Option<usize> {
        self.turns.take(paths, |_, _| false)
    }
}
