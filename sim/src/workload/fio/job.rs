//! One job: a thread that prepares I/O, and what it waits for.

use alloc::collections::VecDeque;
use core::ops::Range;

use shingle_core::random::Rng;
use shingle_core::time::Instant;

/// What a job does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobState {
    /// Chooses a zone, or takes finished I/Os back if its depth is reached.
    Pick,
    /// Waits for all of its own I/Os, and then for a zone that another job holds.
    Lock(u32),
    /// Waits for all of its own I/Os, and then looks for a zone to open.
    OtherZone(u32),
    /// Waits for all of its own I/Os, and then resets a zone that it holds.
    Reset(u32),
    /// Waits for that reset.
    Resetting,
    /// Writes to a zone that it holds.
    Write(u32),
    /// Reads from a zone that it holds.
    Read(u32),
    /// Its time is over; I/Os may be in flight.
    Stopped,
}

/// An I/O that has ended and that the job has not looked at yet: the zone is still locked for it.
#[derive(Clone, Copy)]
pub(super) struct Finished {
    pub zone: u32,
    /// It was the write that filled its zone.
    pub filled: bool,
    /// When it ended.
    pub at: Instant,
}

pub(super) struct Job {
    pub state: JobState,
    /// Whether the I/O in preparation is a read.
    pub reading: bool,
    /// Whether its zone is one that was being written already, instead of the one it picked.
    pub converted: bool,
    /// I/Os submitted and not taken back.
    pub in_flight: u32,
    pub done: VecDeque<Finished>,
    /// Whether it sleeps until one of its I/Os is done.
    pub asleep: bool,
    /// Its processor is busy until then.
    pub busy_until: Instant,
    /// Its part of the region, in a sequential run.
    pub part: Range<u32>,
    /// The zone it writes in a sequential run.
    pub cursor: u32,
    pub rng: Rng,
}

impl Job {
    pub(super) fn new(number: u32, jobs: u32, zones: u32, rng: &mut Rng) -> Self {
        let at = |number: u32| (u64::from(zones) * u64::from(number) / u64::from(jobs)) as u32;
        let part = at(number)..at(number + 1).max(at(number) + 1);
        Self {
            state: JobState::Pick,
            reading: false,
            converted: false,
            in_flight: 0,
            done: VecDeque::new(),
            asleep: false,
            busy_until: Instant::ZERO,
            cursor: part.start,
            part,
            rng: rng.fork(),
        }
    }
}
