//! dm-multipath's `queue-length`: the path with the fewest I/Os under way, in turns.

use super::turns::Turns;
use super::{Io, PathView, Policy};

/// dm-multipath's (`drivers/md/dm-ps-queue-length.c`).
#[derive(Debug, Default)]
pub struct QueueLength {
    turns: Turns,
}

impl Policy for QueueLength {
    fn choose(&mut self, paths: &[PathView], _: &Io) -> Option<usize> {
        self.turns.take(paths, |one, best| paths[one].in_flight < paths[best].in_flight)
    }
}
