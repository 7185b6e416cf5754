//! dm-multipath's `service-time`: the path on which the bytes under way are through first.

use core::cmp::Ordering;

use super::turns::Turns;
use super::{Io, PathView, Policy};

/// dm-multipath's (`drivers/md/dm-ps-service-time.c`): bytes under way and this one's, over the throughput that an operator has set. A
/// path of throughput 0 is taken only if there is no other one.
#[derive(Debug, Default)]
pub struct ServiceTime {
    turns: Turns,
}

impl Policy for ServiceTime {
    fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        let load = |path: &PathView| u128::from(path.bytes) + u128::from(io.bytes);
        self.turns.take(paths, |one, best| {
            let (one, best) = (&paths[one], &paths[best]);
            let times = (load(one) * u128::from(best.throughput)).cmp(&(load(best) * u128::from(one.throughput)));
            match (one.throughput, best.throughput) {
                (0, 0) => one.bytes < best.bytes,
                (0, _) => false,
                (_, 0) => true,
                // As much time: then the one that carries more.
                _ => times.then(best.throughput.cmp(&one.throughput)) == Ordering::Less,
            }
        })
    }
}
