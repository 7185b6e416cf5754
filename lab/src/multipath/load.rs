//! What submitters ask for.

use serde::Serialize;
use shingle_core::random::Rng;
use shingle_core::time::Duration;
use shingle_drives::ServiceTime;

/// When a submitter sends its next I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// So many jobs, each of which sends the next when its last one is done.
    Closed(u32),
    /// So many a second, by chance (Poisson) and whatever is under way.
    Open(u32),
}

/// A load: what each submitter does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// When an I/O is sent.
    pub arrival: Arrival,
    /// Percentage of reads; the others are writes.
    pub reads: u8,
    /// Lengths in bytes, multiples of 512, each equally likely.
    pub bytes: Vec<u32>,
    /// Heads on each host, which do not see each other: threads with a stack each.
    pub submitters: u32,
    /// How long it runs before anything counts.
    pub ramp: Duration,
    /// How long it counts.
    pub length: Duration,
}

impl Load {
    /// Jobs that do one thing on one head.
    #[must_use]
    pub fn closed(jobs: u32, reads: u8, bytes: u32) -> Self {
        let (ramp, length) = (Duration::from_millis(200), Duration::from_millis(2_000));
        Self { arrival: Arrival::Closed(jobs), reads, bytes: vec![bytes], submitters: 1, ramp, length }
    }

    /// Whether the next I/O reads, and its length in bytes.
    pub(super) fn draw(&self, rng: &mut Rng) -> (bool, u32) {
        let is_read = rng.chance(self.reads.into(), 100);
        (is_read, self.bytes[rng.below(self.bytes.len() as u64) as usize])
    }

    /// Time until the next I/O of an open load.
    pub(super) fn pause(per_second: u32, rng: &mut Rng) -> Duration {
        ServiceTime::Exponential(Duration(1_000_000_000 / u64::from(per_second.max(1)))).draw(rng)
    }
}
