//! The one clock that a generator reads.

use shingle_core::time::Instant;

/// Time since its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Time since the start; it ends after 584 years.
    #[inline]
    #[must_use]
    pub fn now(self) -> Instant {
        Instant(self.0.elapsed().as_nanos() as u64)
    }
}
