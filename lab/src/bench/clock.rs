//! The one clock that a generator reads.

use shingle_core::time::Instant;

/// Time since its start.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's, since then.
    Real(std::time::Instant),
    /// A simulated one: it moves between turns only.
    Virtual(Instant),
}

impl Clock {
    /// A clock of the machine that starts now.
    pub fn start() -> Self {
        Self::Real(std::time::Instant::now())
    }

    /// Time since the start; it ends after 584 years.
    #[inline]
    pub fn now(self) -> Instant {
        match self {
            Self::Real(start) => Instant(start.elapsed().as_nanos() as u64),
            Self::Virtual(now) => now,
        }
    }
}
