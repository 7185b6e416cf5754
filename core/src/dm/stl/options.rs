//! What of a volume can be chosen.

use super::policy::Choice;
use crate::time::Duration;

/// How much a volume keeps in memory and does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most blocks of data of a batch.
    pub batch_blocks: u32,
    /// The same of copies, if it is more: headers of short ones would take space that is promised to data.
    pub copy_blocks: u32,
    /// Pending extents, in bytes, after which a checkpoint is due.
    pub pending_bytes: usize,
    /// Blocks of users after which a checkpoint is due: that many may have to be replayed.
    pub replay_blocks: u64,
    /// Free zones without a pointer that a root names, so that they can be opened: into that many a start has to look.
    pub named_zones: usize,
    /// Free zones of a device that a root names, so that users can write to several at a time.
    pub promised_zones: usize,
    /// Blocks in a row from which somebody writes in order: where no head has to come and go that gets zones of its own.
    pub in_order_blocks: u32,
    /// Flushes in a row, each of one batch, after which a rotating disk is written at several angles.
    pub flushes_in_a_row: u32,
    /// The index of runs, in bytes, after which they are merged into leaves.
    pub index_bytes: usize,
    /// Runs after which they are merged, those that have become one counted each.
    pub most_runs: usize,
    /// Runs of about one size after which they become one.
    pub runs_of_tier: usize,
    /// Blocks of runs that a sweep has in memory.
    pub sweep_blocks: u32,
    /// Blocks that are read ahead at a time on a disk with a head.
    pub ahead_blocks: u32,
    /// Blocks of a range that is written in order if it is read so.
    pub range_blocks: u32,
    /// Time without users after which cleaning may be ahead of what they owe.
    pub lull: Duration,
    /// Time without a user after which a volume is idle.
    pub idle_after: Duration,
    /// Zones whose live blocks are known one by one, so that they can be cleaned.
    pub marked_zones: usize,
    /// Blocks that cleaning reads before it writes what of them is live, and before users have their turn; and that a sweep does.
    pub turn_blocks: u32,
    /// Which zone is cleaned next while users do not wait for it.
    pub choice: Choice,
    /// Copies go where users write, as in a log that does not tell what lives long: to compare with.
    pub one_stream: bool,
    /// Extents of leaves and pages in memory.
    pub cached_extents: usize,
    /// True if roots of another daemon are looked for before a root is written. False only in simulations of a single daemon, to leave out the reads.
    pub finds_second_daemon: bool,
}

impl Options {
    /// Most blocks of a batch of copies.
    #[must_use]
    pub fn most_copies(&self) -> u32 {
        self.copy_blocks.max(self.batch_blocks)
    }
}

const MIB: usize = 1 << 20;

impl Default for Options {
    /// Those of 256 MiB of memory.
    fn default() -> Self {
        Self {
            batch_blocks: 256,
            copy_blocks: 256,
            pending_bytes: 32 * MIB,
            // 768 MiB: a start reads all of it, at the rate of the medium.
            replay_blocks: 3 * 65_536,
            named_zones: 16,
            promised_zones: 8,
            // 1 MiB.
            in_order_blocks: 256,
            flushes_in_a_row: 16,
            index_bytes: 128 * MIB,
            most_runs: 200,
            runs_of_tier: 8,
            sweep_blocks: 8192,
            // 2 MiB: a track.
            ahead_blocks: 512,
            range_blocks: 8192,
            // Some turns of a disk.
            lull: Duration::from_millis(50),
            idle_after: Duration::from_millis(10_000),
            marked_zones: 2048,
            // 16 MiB: a fifth of a second of a disk. Twice as much is 5 % faster, and has users wait for a second now and then.
            turn_blocks: 4096,
            choice: Choice::Decline,
            one_stream: false,
            cached_extents: MIB,
            finds_second_daemon: true,
        }
    }
}
