//! How often clients are let in: some at once, and then one after the other.

use std::time::{Duration, Instant};

/// Clients that are let in at once when none has come for a while: all that a page has loaded by a few browsers.
const AT_ONCE: u32 = 64;
/// From one to the next when more have come: 250 a second. The system does as much for a connection as some requests of an export take, and nothing
/// comes between, so what thousands of connections a second take is the processor of a shard (`cargo bench -p shingle-host --bench abuse`).
const APART: Duration = Duration::from_millis(4);

/// When the next client is let in.
pub(super) struct Pace {
    /// When all would have come if each had come [`APART`] from the one before.
    due: Instant,
}

impl Pace {
    pub fn new(now: Instant) -> Self {
        Self { due: now }
    }

    /// A client comes. How long it has to wait.
    pub fn admit(&mut self, now: Instant) -> Duration {
        self.due = self.due.max(now) + APART;
        self.due.saturating_duration_since(now + APART * AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_let_in_one_after_the_other_and_a_few_at_once() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert!((0..AT_ONCE).all(|_| pace.admit(start) == Duration::ZERO));
        assert_eq!([pace.admit(start), pace.admit(start)], [APART, 2 * APART]);
        // Who has waited has paid for it.
        let later = start + 2 * APART;
        assert_eq!([pace.admit(later), pace.admit(later)], [APART, 2 * APART]);
        let silence = later + APART * (AT_ONCE + 4);
        assert!((0..AT_ONCE).all(|_| pace.admit(silence) == Duration::ZERO));
    }
}
