//! fio's `psync` with one I/O in flight, in the process of the stack: jobs take turns, and each waits for its read.

use std::time::Duration;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;

use super::stacks::Stacks;
use super::{Pattern, Reads};
use crate::bench::Clock;
use shingle_host::latency::Histogram;

/// Jobs, on all cores together.
pub const JOBS: usize = 12;

/// One thread's disk, its layers and its jobs.
pub struct Shard {
    stacks: Stacks,
    /// What is compared, and where it goes in.
    what: Vec<(Pattern, DeviceId)>,
    jobs: Vec<ReadJob>,
    sectors: u64,
    clock: Clock,
    latencies: Histogram,
}

/// One job: its memory, and where it reads next.
struct ReadJob {
    bio: Option<Box<Bio>>,
    next: u64,
    rng: Rng,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Reads that completed.
    pub ios: u64,
    /// From the first to the last of them.
    pub busy_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
}

impl Tally {
    /// Reads a second.
    pub fn ios_per_s(&self) -> f64 {
        self.ios as f64 * 1e9 / self.busy_ns.max(1) as f64
    }
}

impl ReadJob {
    /// Job `number` on a disk of `sectors`. Jobs begin at equal distances: they read no sector that is still in the cache for
    /// the one before.
    fn new(number: usize, sectors: u64) -> Self {
        let bio = Bio::new(Op::Read, Sector::ZERO, 1, Payload::Data(Data::zeroed(512)));
        let next = sectors / JOBS as u64 * number as u64;
        Self { bio: Some(Box::new(bio)), next, rng: Rng::new(number as u64) }
    }

    #[inline]
    fn sector(&mut self, pattern: Pattern, sectors: u64) -> Sector {
        if pattern == Pattern::Random {
            return Sector(self.rng.below(sectors));
        }
        let sector = self.next;
        self.next = if sector + 1 < sectors { sector + 1 } else { 0 };
        Sector(sector)
    }
}

impl Shard {
    /// A disk of `sectors` with everything over it that `what` reads through.
    pub fn new(what: &[Reads], sectors: u64) -> Result<Self, String> {
        let mut stacks = Stacks::new(sectors)?;
        let what = what.iter().map(|reads| Ok((reads.pattern, stacks.top(reads.layers)?)));
        let what = what.collect::<Result<_, String>>()?;
        let jobs = (0..JOBS).map(|number| ReadJob::new(number, sectors)).collect();
        Ok(Self { stacks, what, jobs, sectors, clock: Clock::start(), latencies: Histogram::new() })
    }

    /// The first `jobs` of the jobs read for `time`, as the `place`th of what is compared says.
    pub fn run(&mut self, place: usize, jobs: usize, time: Duration) -> Result<Tally, String> {
        let (pattern, top) = self.what[place];
        self.latencies = Histogram::new();
        let begun = self.clock.now();
        let end = begun.0 + time.as_nanos() as u64;
        let mut now = begun;
        while now.0 < end {
            for job in &mut self.jobs[..jobs] {
                let Some(mut bio) = job.bio.take() else { return Err("a job has lost its read".into()) };
                bio.sector = job.sector(pattern, self.sectors);
                // As fio with psync does: when a read is issued, and when it is back.
                let issued = self.clock.now();
                job.bio = Some(self.stacks.run(top, bio, issued)?);
                now = self.clock.now();
                self.latencies.record(now.0 - issued.0);
            }
        }
        let summary = self.latencies.summary(&[]);
        Ok(Tally { ios: summary.count, busy_ns: now.0 - begun.0, longest_ns: summary.max })
    }
}
