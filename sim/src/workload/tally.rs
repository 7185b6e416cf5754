//! What a workload got done.

use shingle_core::block::{Bio, Status};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::time::{Duration, Instant};

/// Counts of what ended within a span of time: a ramp in front of it and a tail behind it are left out.
#[derive(Clone, Debug)]
pub struct Tally {
    from: Instant,
    until: Instant,
    last: Instant,
    /// Bytes of I/O that ended well.
    pub bytes: u64,
    /// I/Os that ended well.
    pub ios: u64,
    /// I/Os that failed, at any time.
    pub errors: u64,
    /// The outcome of the first I/O that failed.
    pub first_error: Option<Status>,
    /// The longest time from submission to completion, at any time.
    pub longest: Duration,
}

impl Tally {
    /// Counts what ends in the `runtime` that follows a `ramp` at the start of the world.
    #[must_use]
    pub fn new(ramp: Duration, runtime: Duration) -> Self {
        let from = Instant::ZERO + ramp;
        let until = from + runtime;
        Self { from, until, last: from, bytes: 0, ios: 0, errors: 0, first_error: None, longest: Duration::ZERO }
    }

    /// Whether the time that is counted has passed.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Takes an I/O into account that ended at `now`.
    pub fn note(&mut self, now: Instant, bio: &Bio, status: Status) {
        self.longest = self.longest.max(now.since(bio.since));
        if !status.is_ok() {
            self.errors += 1;
            self.first_error.get_or_insert(status);
        } else if now >= self.from && now < self.until {
            self.ios += 1;
            self.bytes += u64::from(bio.sectors) * u64::from(SECTOR_BYTES);
            self.last = now;
        }
    }

    /// The span that was counted. It ends with the last I/O if `now`, the end of the run, came before the planned end.
    #[must_use]
    pub fn span(&self, now: Instant) -> Duration {
        (if now < self.until { self.last } else { self.until }).since(self.from)
    }

    /// Bytes per second in units of 10^6, as the kernel's tables have them.
    #[must_use]
    pub fn mb_per_s(&self, now: Instant) -> f64 {
        self.bytes as f64 * 1e3 / self.span(now).as_nanos().max(1) as f64
    }

    /// I/Os per second.
    #[must_use]
    pub fn iops(&self, now: Instant) -> f64 {
        self.ios as f64 * 1e9 / self.span(now).as_nanos().max(1) as f64
    }
}
