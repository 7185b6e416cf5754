//! What others send over the same wire: seen only by the time for which it is not free.

use crate::error::{Fault, check};
use crate::service::ServiceTime;
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

use super::windows::Calendar;

/// Load of a wire that is not ours, in each direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Time from one transfer of others to the next.
    pub every: ServiceTime,
    /// How long one occupies the wire.
    pub busy: ServiceTime,
}

/// After a pause of more transfers than this, those before are taken to have left no queue.
const MEMORY: u64 = 1000;

impl Traffic {
    /// The part of the time in which they occupy the wire.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.busy.mean().0 as f64 / self.every.mean().0 as f64
    }

    /// How long one waits for them on average (Pollaczek and Khinchine, for lengths without memory).
    pub(super) fn wait(&self) -> Duration {
        let share = self.share();
        Duration((self.busy.mean().0 as f64 * share / (1.0 - share)) as u64)
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        self.every.check("traffic")?;
        self.busy.check("traffic")?;
        check([
            (self.every.mean() >= Duration(100), "traffic", "comes more often than every 100 ns: use a longer time"),
            (self.share() < 0.99, "traffic", "leaves less than a hundredth of the wire free"),
        ])
    }
}

/// The others as time goes by: drawn when we want to send, as far as they came before us.
pub(super) struct Others {
    traffic: Traffic,
    rng: Rng,
    next: Instant,
}

impl Others {
    pub fn new(traffic: &Traffic, mut rng: Rng) -> Self {
        let next = Instant::ZERO + traffic.every.draw(&mut rng);
        Self { traffic: traffic.clone(), rng, next }
    }

    /// When a wire that was `free` then is free for what comes at `now`.
    pub fn occupy(&mut self, mut free: Instant, now: Instant, stalls: &mut Calendar) -> Instant {
        let memory = Duration(self.traffic.every.mean().0.saturating_mul(MEMORY));
        let from = Instant(now.0.saturating_sub(memory.0));
        // What stands still in windows that are over is not known any more either.
        self.next = self.next.max(from);
        while self.next <= now {
            let busy = self.traffic.busy.draw(&mut self.rng);
            free = stalls.advance(free.max(self.next), busy);
            self.next = self.next + self.traffic.every.draw(&mut self.rng).max(Duration(1));
        }
        free
    }
}
