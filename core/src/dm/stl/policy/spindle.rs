//! The turn of a rotating disk, learned from when writes were on the medium: so it is known when the next block of an open zone passes the head.

use crate::time::{Duration, Instant};

/// What is known of a spindle and its head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spindle {
    /// The time of a turn, in ns; 0 if it is not known yet.
    turn: f64,
    /// Spans that were seen before it was.
    seen: u32,
    /// From when a write is sent until the head has settled, in ns.
    settle: f64,
}

/// Spans of which the shortest is the first guess.
const FIRST: u32 = 8;
/// Turns that a disk may have, in ns: 15,000 to 4,000 a minute.
const TURNS: core::ops::Range<f64> = 4.0e6..15.0e6;
/// Bounds of the time to settle, in ns, and where it begins.
const LEAST_SETTLE: f64 = 2.0e5;
const FIRST_SETTLE: f64 = 1.0e6;

impl Default for Spindle {
    fn default() -> Self {
        Self { turn: 0.0, seen: 0, settle: FIRST_SETTLE }
    }
}

impl Spindle {
    /// The time of a turn, if it is known.
    #[must_use]
    pub fn turn(&self) -> Option<Duration> {
        (self.seen >= FIRST && TURNS.contains(&self.turn)).then_some(Duration(self.turn as u64))
    }

    /// A block passed the head so long after the one before it. From the first spans, each of which is of one turn, the shortest is taken.
    pub fn learn(&mut self, span: Duration) {
        let span = span.0 as f64;
        if self.seen < FIRST {
            self.seen += u32::from(TURNS.contains(&span));
            self.turn = if self.turn == 0.0 { span } else { self.turn.min(span) };
            return;
        }
        let turns = libm::round(span / self.turn).max(1.0);
        let off = span / turns - self.turn;
        if libm::fabs(off) * 16.0 < self.turn {
            self.turn += off / 16.0;
        }
    }

    /// When a block that has passed the head at `passed` does so again for a write that is sent now, if that can be told.
    #[must_use]
    pub fn next(&self, passed: Instant, now: Instant) -> Option<Instant> {
        self.turn()?;
        let reached = now.since(passed).0 as f64 + self.settle;
        Some(Instant(passed.0 + (libm::ceil(reached / self.turn) * self.turn) as u64))
    }

    /// A block that was to pass at `expected` was there at `at`: if it came a turn late the head had not settled.
    pub fn came(&mut self, expected: Instant, at: Instant) {
        let is_missed = at.0 as f64 - expected.0 as f64 > self.turn / 2.0;
        let next = if is_missed { self.settle * 1.1 } else { self.settle * 0.998 };
        self.settle = next.clamp(LEAST_SETTLE, self.turn.max(LEAST_SETTLE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    /// A disk: its turn, the time that a head needs to settle, and where the next block of each zone is, all in ns.
    struct Disk {
        turn: u64,
        settle: u64,
        angles: Vec<u64>,
    }

    impl Disk {
        /// When a write to a zone that is sent now is on the medium.
        fn write(&mut self, zone: usize, now: u64) -> u64 {
            let settled = now + self.settle;
            let start = settled + (self.angles[zone] + self.turn - settled % self.turn) % self.turn;
            let end = start + 30_000;
            self.angles[zone] = end % self.turn;
            end
        }
    }

    /// Writes a second, one after the other, with zones at so many angles.
    fn rate(turn: u64, settle: u64, zones: usize) -> f64 {
        let angles = (0..zones as u64).map(|zone| zone * 5_234_567 % turn).collect();
        let (mut disk, mut spindle, mut now) = (Disk { turn, settle, angles }, Spindle::default(), 0);
        let mut passed: Vec<Option<u64>> = vec![None; zones];
        let (mut count, first) = (0, 200);
        let mut began = 0;
        while count < first + 2_000 {
            now += 50_000;
            let next = |zone: usize| passed[zone].and_then(|passed| spindle.next(Instant(passed), Instant(now)));
            let known = (0..zones).filter_map(|zone| Some((next(zone)?, zone))).min();
            let is_new = spindle.turn().is_some() && count % 8 == 0;
            let fresh = passed.iter().position(Option::is_none).filter(|_| is_new);
            let zone = fresh.unwrap_or(known.map_or(0, |(_, zone)| zone));
            let expected = next(zone);
            let done = disk.write(zone, now);
            if let Some(before) = passed[zone] {
                spindle.learn(Duration(done - before));
            }
            expected.into_iter().for_each(|expected| spindle.came(expected, Instant(done)));
            (passed[zone], now) = (Some(done), done);
            count += 1;
            began = if count == first { now } else { began };
        }
        2_000.0 / ((now - began) as f64 / 1e9)
    }

    #[test]
    fn with_one_zone_each_write_takes_a_turn_and_with_several_the_next_angle_is_found() {
        for turn in [8_333_333, 11_111_111, 5_555_555] {
            let (one, six) = (rate(turn, 850_000, 1), rate(turn, 850_000, 6));
            assert!((one * turn as f64 / 1e9 - 1.0).abs() < 0.01, "{turn}: {one} a second");
            assert!(six > 2.5 * one, "{turn}: {six} against {one}");
        }
    }

    #[test]
    fn a_head_that_needs_longer_is_given_longer() {
        let (quick, slow) = (rate(8_333_333, 400_000, 6), rate(8_333_333, 3_000_000, 6));
        assert!(quick > slow && slow > 150.0, "{quick} and {slow}");
    }

    #[test]
    fn spans_that_are_no_turns_teach_nothing() {
        let mut spindle = Spindle::default();
        (0..100).for_each(|_| spindle.learn(Duration(100_000)));
        assert_eq!((spindle.turn(), spindle.next(Instant(0), Instant(5))), (None, None));
        assert_eq!(Spindle::default().turn(), None);
    }
}
