//! What of a volume can be chosen.

use super::policy::Choice;

/// How much a volume keeps in memory and does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most blocks of data of a batch.
    pub batch_blocks: u32,
    /// Pending extents, in bytes, after which a checkpoint is due.
    pub pending_bytes: usize,
    /// Blocks of users after which a checkpoint is due: that many may have to be replayed.
    pub replay_blocks: u64,
    /// The index of runs, in bytes, after which they are merged into leaves.
    pub index_bytes: usize,
    /// Runs after which they are merged.
    pub most_runs: usize,
    /// Extents of leaves and pages in memory.
    pub cached_extents: usize,
    /// Which zone is cleaned next.
    pub choice: Choice,
}

const MIB: usize = 1 << 20;

impl Default for Options {
    /// Those of 256 MiB of memory.
    fn default() -> Self {
        Self {
            batch_blocks: 256,
            pending_bytes: 32 * MIB,
            replay_blocks: 500 * 65_536,
            index_bytes: 128 * MIB,
            most_runs: 200,
            cached_extents: MIB,
            choice: Choice::Decline,
        }
    }
}
