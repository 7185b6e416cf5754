//! How fast programs may make memory dirty: as much as the device takes, with a correction that keeps the amount of dirty
//! memory in the middle between where waiting begins and the limit.
//!
//! ```text
//!   rate of all programs = bandwidth x position       position 2 |.
//!                                                              1 |  ' - . _ _ . . .
//!                                                              0 |                    ' .
//!                                                                 free run    setpoint    limit    dirty memory
//! ```
//!
//! `mm/page-writeback.c`: `balance_dirty_pages`, `wb_position_ratio`, `wb_update_write_bandwidth`. The kernel finds a program's share of
//! the bandwidth by feedback; here it is known how many there are.

use shingle_core::time::{Duration, Instant};

/// Over so much time the bandwidth is averaged (`wb_update_write_bandwidth`: 3 s, rounded up to a power of two of ticks).
const PERIOD: f64 = 4e9;
/// How often (`BANDWIDTH_INTERVAL`).
const INTERVAL: Duration = Duration::from_millis(200);
/// The first guess, in blocks per second: 100 MB/s (`INIT_BW`).
const FIRST: f64 = 25_600.0;
/// Longest wait of a program before it looks again (`MAX_PAUSE`).
pub const MAX_PAUSE: Duration = Duration::from_millis(200);

/// What is known about the device and the dirty memory.
pub struct Throttle {
    free_run: f64,
    limit: f64,
    /// Blocks per second.
    bandwidth: f64,
    /// Blocks written back since the bandwidth was looked at.
    pub written: u64,
    looked: Instant,
}

impl Throttle {
    /// Writing back begins at `background` dirty blocks, and there may be `limit`.
    pub fn new(background: u64, limit: u64) -> Self {
        let (background, limit) = (background as f64, limit.max(2) as f64);
        Self { free_run: (background + limit) / 2.0, limit, bandwidth: FIRST, written: 0, looked: Instant::ZERO }
    }

    /// Looks at the bandwidth, if it is time; `busy`: whether something was to be written.
    pub fn look(&mut self, now: Instant, busy: bool) {
        let passed = now.since(self.looked);
        if passed < INTERVAL {
            return;
        }
        // A device that had nothing to do says nothing about its bandwidth.
        if busy || self.written > 0 {
            let share = (passed.0 as f64 / PERIOD).min(1.0);
            let found = self.written as f64 * 1e9 / passed.0 as f64;
            self.bandwidth += (found - self.bandwidth) * share;
        }
        (self.looked, self.written) = (now, 0);
    }

    /// When to look next.
    pub fn next_look(&self) -> Instant {
        self.looked + INTERVAL
    }

    /// Blocks per second that each of `writers` may make dirty while `dirty` are; `None`: as many as it can.
    pub fn rate(&self, dirty: u64, writers: u64) -> Option<f64> {
        let dirty = dirty as f64;
        (dirty > self.free_run).then(|| self.bandwidth * self.position(dirty) / writers.max(1) as f64)
    }

    fn position(&self, dirty: f64) -> f64 {
        let setpoint = f64::midpoint(self.free_run, self.limit);
        let off = (setpoint - dirty) / (self.limit - setpoint);
        (1.0 + off * off * off).clamp(0.0, 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle() -> Throttle {
        Throttle::new(1000, 3000)
    }

    #[test]
    fn programs_run_free_until_the_middle_between_background_and_limit_and_stand_at_the_limit() {
        assert_eq!(throttle().rate(2000, 20), None);
        assert_eq!(throttle().rate(3000, 20), Some(0.0));
        assert_eq!(throttle().rate(9000, 20), Some(0.0));
    }

    #[test]
    fn at_the_setpoint_programs_share_what_the_device_takes() {
        assert_eq!(throttle().rate(2500, 20), Some(FIRST / 20.0));
        assert!(throttle().rate(2400, 20) > throttle().rate(2500, 20));
        assert!(throttle().rate(2600, 20) < throttle().rate(2500, 20));
    }

    #[test]
    fn the_bandwidth_follows_what_is_written_and_not_idleness() {
        let mut throttle = throttle();
        for tick in 1..200 {
            throttle.written += 2_000;
            throttle.look(Instant(tick * INTERVAL.0), true);
        }
        assert!((throttle.bandwidth - 10_000.0).abs() < 10.0, "{}", throttle.bandwidth);
        throttle.look(Instant(300 * INTERVAL.0), false);
        assert!((throttle.bandwidth - 10_000.0).abs() < 10.0, "{}", throttle.bandwidth);
    }
}
