//! When a write may go to a buffer.

use super::{Knobs, Pool, Stock, Style};
use crate::time::{Duration, Instant};

/// Slows writes to buffers down to what reclaim frees, the more the fewer are free: users meet a slope and not a wall.
///
/// With `pace_percent` of the buffers free nothing is paced. From there on the time that a block waits for rises evenly; at
/// `emergency_percent` as much is admitted as is freed, below that less. What a block takes of the free space is measured,
/// too: the first one of a chunk takes a whole zone, one that is written over takes nothing.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    /// While writes are paced: since when, or since reclaim won something back.
    since: Option<Instant>,
    /// Time in which reclaim frees a block, once that was measured.
    block_time: Option<Duration>,
    /// When all that was admitted is paid for.
    paid: Instant,
    take: Take,
}

/// One, in fractions with 8 bits behind the point.
const ONE: u64 = 256;

/// A pacer counts so many zones before it believes what a block takes.
const SAMPLE_ZONES: u64 = 4;

/// What an admitted block takes of the free space.
#[derive(Clone, Debug, Default)]
struct Take {
    /// In 1/256, once that was measured.
    share: Option<u64>,
    /// Blocks admitted since the last measurement.
    admitted: u64,
    /// Blocks freed since then.
    freed: u64,
    /// Blocks of the zones that were in use then.
    used: Option<u64>,
}

impl Pacer {
    /// Reclaim has freed a zone of so many `blocks`.
    pub fn freed(&mut self, now: Instant, blocks: u64) {
        self.take.freed = self.take.freed.saturating_add(blocks);
        // While nobody is paced, reclaim may sleep, and how long it took says nothing.
        let Some(since) = self.since else { return };
        let Some(sample) = now.since(since).as_nanos().checked_div(blocks) else { return };
        self.since = Some(now);
        self.block_time = Some(Duration(smoothed(self.block_time.map(Duration::as_nanos), sample)));
    }

    /// When a write of `blocks` to a buffer may go: `now`, or while buffers are few later, but not than `pace_most_ms` from
    /// now. While they are few the answers rise, so that writes can wait in line.
    pub fn admit(&mut self, knobs: &Knobs, stock: &Stock, now: Instant, blocks: u32) -> Instant {
        self.take.admit(stock, blocks);
        let Some(shortage) = shortage(knobs, stock) else {
            (self.since, self.paid) = (None, now);
            return now;
        };
        let since = *self.since.get_or_insert(now);
        // A zone that should have been freed long ago shows that reclaim is slower than it was.
        let overdue = now.since(since).as_nanos() / (2 * u64::from(stock.zone_blocks)).max(1);
        let guess = 1_000_000_000 / u64::from(knobs.pace_blocks.max(1));
        let block_time = self.block_time.map_or(guess, Duration::as_nanos).max(overdue);
        let price = [u64::from(blocks), block_time, self.take.share.unwrap_or(ONE), shortage];
        let price = price.into_iter().fold(1, |product: u128, factor| product.saturating_mul(factor.into()));
        let price = Duration((price / u128::from(ONE * ONE)).min(u64::MAX.into()) as u64);
        let latest = now + Duration::from_millis(knobs.pace_most_ms.into());
        let at = self.paid.clamp(now, latest);
        self.paid = (at + price).min(latest);
        at
    }
}

/// How many blocks have to be freed for one that is taken, in 1/256: from none at `pace_percent` to one at
/// `emergency_percent`. `None` if writes are not paced.
fn shortage(knobs: &Knobs, stock: &Stock) -> Option<u64> {
    let Pool { free, total } = stock.buffers();
    let whole = |percent: u32| u64::from(percent) * u64::from(total);
    let free = u64::from(free.saturating_add(stock.leaving)) * 100;
    if knobs.style == Style::Kernel || free >= whole(knobs.pace_percent) {
        return None;
    }
    let slope = whole(knobs.pace_percent.saturating_sub(knobs.emergency_percent)).max(whole(1));
    Some((whole(knobs.pace_percent) - free) * ONE / slope)
}

impl Take {
    /// Counts a write, and measures when enough has been counted.
    fn admit(&mut self, stock: &Stock, blocks: u32) {
        let Pool { free, total } = stock.buffers();
        let zone = u64::from(stock.zone_blocks);
        let used = u64::from(total.saturating_sub(free).saturating_sub(stock.leaving)) * zone;
        let before = *self.used.get_or_insert(used);
        let taken = used.saturating_add(self.freed).saturating_sub(before);
        if self.admitted > 0 && taken.max(self.admitted) >= SAMPLE_ZONES * zone {
            let sample = taken.saturating_mul(ONE) / self.admitted;
            self.share = Some(smoothed(self.share, sample));
            (self.admitted, self.freed, self.used) = (0, 0, Some(used));
        }
        self.admitted += u64::from(blocks);
    }
}

/// The mean of what was known and a new measurement, which counts for a quarter.
fn smoothed(known: Option<u64>, sample: u64) -> u64 {
    known.map_or(sample, |known| known - known / 4 + sample / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const Z: u32 = 65_536;
    const SECOND: u64 = 1_000_000_000;

    fn stock(free: u32) -> Stock {
        Stock { random: Pool { free, total: 100 }, zone_blocks: Z, ..Stock::default() }
    }

    #[test]
    fn writes_go_at_once_while_buffers_are_plenty() {
        let (mut pacer, knobs) = (Pacer::default(), Knobs::default());
        for ms in 0..1_000 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            assert_eq!(pacer.admit(&knobs, &stock(30), now, 256), now);
        }
        pacer.admit(&knobs, &stock(0), Instant(5 * SECOND), Z);
        assert_eq!(pacer.admit(&knobs, &stock(30), Instant(5 * SECOND), 1), Instant(5 * SECOND));
    }

    #[test]
    fn the_fewer_buffers_are_free_the_longer_a_write_waits() {
        let wait = |free| {
            let (mut pacer, knobs) = (Pacer::default(), Knobs::default());
            pacer.admit(&knobs, &stock(free), Instant::ZERO, 256);
            pacer.admit(&knobs, &stock(free), Instant::ZERO, 1).0
        };
        let waits: Vec<_> = (0..30).rev().map(wait).collect();
        assert!(waits[0] > 0 && waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
        // 256 blocks at 12800 a second.
        assert_eq!(wait(10), SECOND / 50);
    }

    #[test]
    fn no_write_waits_longer_than_the_bound_and_answers_never_go_back() {
        let (mut pacer, knobs) = (Pacer::default(), Knobs { pace_most_ms: 70, ..Knobs::default() });
        let mut last = Instant::ZERO;
        for n in 0..10_000 {
            let now = Instant(n * 100_000);
            let at = pacer.admit(&knobs, &stock(5), now, u32::MAX);
            assert!(at >= last && now <= at && at <= now + Duration::from_millis(70));
            last = at;
        }
        assert!(pacer.admit(&knobs, &stock(5), Instant(u64::MAX), u32::MAX) == Instant(u64::MAX));
    }

    #[test]
    fn the_kernel_paces_nothing() {
        let (mut pacer, knobs) = (Pacer::default(), Knobs { style: Style::Kernel, ..Knobs::default() });
        assert!((0..9).all(|_| pacer.admit(&knobs, &stock(0), Instant(1), Z) == Instant(1)));
    }

    /// A user who writes as fast as he may for so long, in writes of 16 blocks of which one in `spread` takes a zone, while
    /// reclaim frees a zone each `zone_time`: what he wrote, and how many buffers were free at least.
    fn rush(knobs: &Knobs, spread: u64, zone_time: Duration, for_seconds: u64) -> (u64, u32) {
        let (mut pacer, mut now, mut next_zone) = (Pacer::default(), Instant::ZERO, Instant::ZERO + zone_time);
        let (mut free, mut least, mut writes) = (100u32, 100u32, 0u64);
        while now < Instant(for_seconds * SECOND) {
            while next_zone <= now {
                if free < 60 {
                    pacer.freed(next_zone, Z.into());
                    free += 1;
                }
                next_zone = next_zone + zone_time;
            }
            now = pacer.admit(knobs, &stock(free), now, 16) + Duration::from_micros(20);
            writes += 1;
            if writes.is_multiple_of(spread) {
                free = free.saturating_sub(1);
                least = least.min(free);
            }
        }
        (writes, least)
    }

    #[test]
    fn who_writes_faster_than_reclaim_wins_back_is_slowed_to_its_pace_and_never_meets_an_empty_stock() {
        // Streams, and blocks here and there that take a sixteenth of a zone each.
        for (writes_to_a_zone, zone_time) in [(4_096, 500), (4_096, 5_000), (256, 2_000)] {
            let knobs = Knobs::default();
            let zone_time = Duration::from_millis(zone_time);
            let (early, _) = rush(&knobs, writes_to_a_zone, zone_time, 500);
            let (late, least) = rush(&knobs, writes_to_a_zone, zone_time, 1_000);
            let zones = (late - early) / writes_to_a_zone;
            let won = 500 * SECOND / zone_time.0;
            assert!(least > 0, "{writes_to_a_zone} {zone_time:?}: ran out");
            assert!(zones.abs_diff(won) <= won / 10 + 5, "{writes_to_a_zone} {zone_time:?}: {zones} of {won} zones");
        }
    }

    #[test]
    fn without_pacing_the_same_user_runs_into_the_wall() {
        let knobs = Knobs { pace_percent: 0, ..Knobs::default() };
        assert_eq!(rush(&knobs, 4_096, Duration::from_millis(500), 1_000).1, 0);
    }

    #[test]
    fn who_writes_over_what_is_there_is_hardly_slowed() {
        let (mut pacer, knobs, mut now) = (Pacer::default(), Knobs::default(), Instant::ZERO);
        for _ in 0..100_000 {
            now = pacer.admit(&knobs, &stock(15), now, 256) + Duration::from_micros(1_000);
        }
        assert!(now < Instant(200 * SECOND), "{now:?}: twice the time that the disk takes");
    }
}
