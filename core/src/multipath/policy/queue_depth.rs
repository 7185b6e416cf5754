//! `queue-depth`: the path with the fewest I/Os under way.

use super::{Io, PathView, Policy, cheapest};

/// Linux's (`drivers/nvme/host/multipath.c`, since 6.11). Of equal paths it takes the first in the list, so under a light load that gets
/// everything. Linux counts I/Os of a controller, those of other disks behind it too; here they are those of the path.
#[derive(Debug, Default)]
pub struct QueueDepth;

impl Policy for QueueDepth {
    fn choose(&mut self, paths: &[PathView], _: &Io) -> Option<usize> {
        cheapest(paths, |_, path| path.in_flight)
    }
}
