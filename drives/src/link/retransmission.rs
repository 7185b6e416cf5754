//! Segments that get lost on the way and are sent again, as TCP does.
//!
//! Modelled: a segment is lost with the same probability each (RFC 5681 calls what follows "fast retransmit" and "retransmission timeout").
//! If three segments follow on the same connection, the third makes the third duplicate acknowledgement, and when that is back
//! the lost one is sent again (RFC 5681, 3.2): it is late by about a round trip. If fewer follow, it is sent again when the timeout is
//! over, and if it is lost again, after twice the time, and so on (RFC 6298, 5.4 and 5.5), up to 120 s as in Linux. The timeout is three round
//! trips, what RFC 6298, 2.2 says after the first measurement, and not less than a minimum: a second in RFC 6298, 2.4, and
//! 200 ms in Linux. After the 15th, Linux's bound (RFC 1122, 4.2.3.5: at least 100 s), the connection is lost, and the path is given up.
//!
//! Not modelled: congestion windows, so a loss costs time and no rate; tail loss probes (RFC 8985), which shorten timeouts; lost
//! acknowledgements, which the next one makes good. Of several segments of one message that get lost, all are repaired
//! together (selective acknowledgements, RFC 2018).

use crate::error::{Fault, check};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// How a link makes good what gets lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// Of a million segments, how many get lost on the way.
    pub lost_ppm: u32,
    /// Bytes of a segment (MSS).
    pub segment_bytes: u32,
    /// The shortest timeout.
    pub min_timeout: Duration,
}

/// Segments behind a lost one that make its sender send it again.
pub(super) const DUPLICATES: u64 = 3;
/// Timeouts after which a connection is lost.
pub(super) const MOST_TIMEOUTS: u32 = 15;
const LONGEST_TIMEOUT: Duration = Duration::from_millis(120_000);

impl Retransmission {
    /// Of Ethernet without jumbo frames and Linux.
    #[must_use]
    pub const fn new(lost_ppm: u32) -> Self {
        Self { lost_ppm, segment_bytes: 1460, min_timeout: Duration::from_millis(200) }
    }

    /// Segments of a message; one without data takes one.
    pub(super) fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.segment_bytes.into()).max(1)
    }

    /// Of a message of so many segments the first that gets lost, if one does.
    pub(super) fn first_lost(&self, segments: u64, rng: &mut Rng) -> Option<u64> {
        if self.lost_ppm == 0 {
            return None;
        }
        let kept = libm::log(1.0 - f64::from(self.lost_ppm) / 1e6);
        // How many arrive before the first that does not: geometric.
        let unit = ((rng.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let first = libm::floor(libm::log(unit) / kept);
        (first < segments as f64).then_some(first as u64)
    }

    pub(super) fn timeout(&self, round_trip: Duration) -> Duration {
        Duration(round_trip.0.saturating_mul(3)).clamp(self.min_timeout, LONGEST_TIMEOUT)
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        let least = self.min_timeout >= Duration::from_millis(1) && self.min_timeout <= LONGEST_TIMEOUT;
        check([
            (self.lost_ppm <= 500_000, "retransmission.lost_ppm", "is more than half of all: nothing would arrive"),
            (self.segment_bytes >= 64, "retransmission.segment_bytes", "is below 64"),
            (least, "retransmission.min_timeout", "is not from 1 ms to 120 s"),
        ])
    }
}

/// A message of which a segment is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    /// Segments that have followed; `None` once it was sent again: then only the timeout helps.
    pub followers: Option<u64>,
    /// Timeouts that were over.
    pub timeouts: u32,
    /// The timeout that is running.
    pub timeout: Duration,
    /// When it is over.
    pub due: Instant,
}

impl Gap {
    /// The timeout was over at `now`, or the segment was sent again then: a new one.
    pub fn again(self, now: Instant, doubled: bool) -> Self {
        let timeout = if doubled { Duration(self.timeout.0 * 2).min(LONGEST_TIMEOUT) } else { self.timeout };
        Self { followers: None, timeouts: self.timeouts + u32::from(doubled), timeout, due: now + timeout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_messages_lose_a_segment_as_their_length_makes_likely() {
        let mut rng = Rng::new(3);
        for (segments, expected) in [(1, 0.01), (10, 1.0 - libm::pow(0.99, 10.0)), (700, 1.0 - libm::pow(0.99, 700.0))]
        {
            let of = Retransmission::new(10_000);
            let lost = (0..100_000).filter_map(|_| of.first_lost(segments, &mut rng));
            let (count, all_inside) = lost.fold((0, true), |(n, inside), at| (n + 1, inside && at < segments));
            let share = f64::from(count) / 1e5;
            assert!(all_inside && (share / expected - 1.0).abs() < 0.07, "{segments}: {share}, {expected}");
        }
    }

    #[test]
    fn a_timeout_is_three_round_trips_but_not_below_the_minimum_and_doubles_up_to_a_bound() {
        let (of, ms) = (Retransmission::new(1), Duration::from_millis);
        assert_eq!((of.timeout(ms(10)), of.timeout(ms(100))), (ms(200), ms(300)));
        let mut gap = Gap { followers: Some(0), timeouts: 0, timeout: ms(200), due: Instant(200_000_000) };
        let mut waits = alloc::vec::Vec::new();
        for _ in 0..11 {
            waits.push(gap.timeout.0 / 1_000_000);
            gap = gap.again(gap.due, true);
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 120_000]);
    }
}
