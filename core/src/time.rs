//! Time as a number: nanoseconds since an origin that the caller of [`crate::block::Stack::turn`] chose.

use core::ops::{Add, Sub};

/// A point in time, in ns since the stack's origin. Core never reads a clock: an instant is always an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// A span of time, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub u64);

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);

    /// Time passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// A span of whole ns.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Duration(ns)
    }

    /// A span of whole us.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Duration(us * 1_000)
    }

    /// A span of whole ms.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Duration(ms * 1_000_000)
    }

    /// The span in ns.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl From<core::time::Duration> for Duration {
    /// The same span; 584 years, the longest, for one that is longer.
    fn from(span: core::time::Duration) -> Self {
        Duration(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}
