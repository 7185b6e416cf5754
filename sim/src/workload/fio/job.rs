//! One job: a thread that prepares I/O, and what it waits for.

use alloc::collections::VecDeque;
use core::ops::Range;

use shingle_core::random::Rng;
use shingle_core::time::Instant;

/// What comes after a job has waited for all of its own I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Lock(u32),
    Reset(u32),
    OtherZone(u32),
}

impl Then {
    pub(super) fn phase(self) -> Phase {
        match self {
            Then::Lock(zone) => Phase::Lock(zone),
            Then::Reset(zone) => Phase::Reset(zone),
            Then::OtherZone(zone) => Phase::OtherZone(zone),
        }
    }
}

/// What a job does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Chooses a zone, or takes finished I/Os back if its depth is reached.
    Pick,
    /// Waits for all of its own I/Os.
    Quiesce { then: Then },
    /// Waits for a zone that another job holds.
    Lock(u32),
    /// Looks for a zone to open.
    OtherZone(u32),
    /// Resets a zone that it holds.
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
    pub phase: Phase,
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
            phase: Phase::Pick,
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

/// What a bio of the run is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Report,
    Reset { job: u32, zone: u32 },
    Transfer { job: u32, zone: u32 },
}

const RESET: u64 = 1 << 63;

impl Tag {
    pub(super) fn word(self) -> u64 {
        match self {
            Tag::Report => u64::MAX,
            Tag::Reset { job, zone } => RESET | u64::from(job) << 32 | u64::from(zone),
            Tag::Transfer { job, zone } => u64::from(job) << 32 | u64::from(zone),
        }
    }

    pub(super) fn from_word(word: u64) -> Self {
        let (job, zone) = ((word >> 32) as u32 & !(1 << 31), word as u32);
        match word {
            u64::MAX => Tag::Report,
            _ if word & RESET != 0 => Tag::Reset { job, zone },
            _ => Tag::Transfer { job, zone },
        }
    }
}
