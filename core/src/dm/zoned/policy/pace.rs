//! When a write may go to a buffer.

use super::{Knobs, Pool, Stock};
use crate::time::{Duration, Instant};

/// Slows writes to buffers down to what reclaim frees, the more the fewer are free: users meet a slope and not a wall.
///
/// With `pace_percent` of the buffers free nothing is paced. From there on the time that a block waits for rises evenly; half
/// way to `urgent_percent` as much is admitted as is freed, below that less. What reclaim frees and what a block takes of the
/// free space are measured over many zones, since no two of them are alike: what a single one took would make users run and
/// stand by turns. The write that takes a zone pays for what is likely to stay empty of it, so that blocks here and there do
/// not make streams dear.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    /// While writes are paced: since when, or since reclaim won something back.
    since: Option<Instant>,
    /// Time in which reclaim freed so many blocks, in ns.
    freeing: Ratio,
    /// Blocks of zones that were taken, for so many that were written there.
    taking: Ratio,
    /// Blocks of zones that were taken and nobody has paid for yet.
    owed: u64,
    /// When all that was admitted is paid for.
    paid: Instant,
}

/// So many zones are remembered when something is measured.
const MEMORY_ZONES: u64 = 16;
/// Reclaim that took so many times as long for a zone as before is slower than it was.
const OVERDUE: u64 = 8;
/// A pacer counts so many zones before it believes that writes take less than they are long.
const SAMPLE_ZONES: u64 = 4;
/// What is owed beyond such a part of the buffers is paid at once.
const CREDIT: u64 = 16;

/// A ratio of two sums, in which what is older counts less.
#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    of: u64,
    to: u64,
}

impl Ratio {
    /// Adds to both, and forgets half when one of them is more than it remembers at most.
    fn add(&mut self, (of, to): (u64, u64), (most_of, most_to): (u64, u64)) {
        (self.of, self.to) = (self.of.saturating_add(of), self.to.saturating_add(to));
        while self.of > most_of || self.to > most_to {
            (self.of, self.to) = (self.of / 2, self.to / 2);
        }
    }
}

impl Pacer {
    /// Reclaim has freed a zone of so many `blocks`.
    pub fn freed(&mut self, now: Instant, blocks: u64) {
        // While nobody is paced, reclaim may sleep, and how long it took says nothing.
        let Some(since) = self.since else { return };
        self.since = Some(now);
        self.freeing.add((now.since(since).as_nanos(), blocks), (u64::MAX / 4, MEMORY_ZONES.saturating_mul(blocks)));
    }

    /// A zone of so many `blocks` was taken for the next write.
    pub fn took(&mut self, blocks: u64) {
        let most = 2 * MEMORY_ZONES.saturating_mul(blocks);
        self.taking.add((blocks, 0), (most, most));
        // What a stream will write there it pays block by block.
        let spare = blocks.saturating_sub(mul_div(blocks, self.taking.to, self.taking.of));
        self.owed = self.owed.saturating_add(spare);
    }

    /// When a write of `blocks` to a buffer may go: `now`, or while buffers are few later, but not than `pace_most_ms` from
    /// now. While they are few the answers rise, so that writes can wait in line.
    pub fn admit(&mut self, knobs: &Knobs, stock: &Stock, now: Instant, blocks: u32) -> Instant {
        let zone = u64::from(stock.zone_blocks);
        let most = 2 * MEMORY_ZONES.saturating_mul(zone);
        self.taking.add((0, blocks.into()), (most, most));
        let Some(shortage) = shortage(knobs, stock) else {
            (self.since, self.paid, self.owed) = (None, now, 0);
            return now;
        };
        let due = self.take(stock, blocks.into());
        let price = mul_div(self.block_time(knobs, zone, now).saturating_mul(due), shortage, ONE);
        let latest = now + Duration::from_millis(knobs.pace_most_ms.into());
        let at = self.paid.clamp(now, latest);
        self.paid = (at + Duration(price)).min(latest);
        at
    }

    /// What a write of `blocks` has to pay for: itself, and a part of what is owed, so that whoever follows does not wait for all
    /// of that.
    fn take(&mut self, stock: &Stock, blocks: u64) -> u64 {
        let (zone, total) = (u64::from(stock.zone_blocks), u64::from(stock.buffers().total));
        let instalment = mul_div(self.owed, blocks, zone).max(self.owed.saturating_sub(total * zone / CREDIT));
        let instalment = instalment.min(self.owed);
        self.owed -= instalment;
        // Who writes over what is there takes less than he writes.
        let Ratio { of: taken, to: written } = self.taking;
        let takes_less = taken < written && written >= SAMPLE_ZONES * zone;
        instalment + if takes_less { mul_div(blocks, taken, written) } else { blocks }
    }

    /// Time in which reclaim frees a block, in ns.
    fn block_time(&mut self, knobs: &Knobs, zone: u64, now: Instant) -> u64 {
        let since = *self.since.get_or_insert(now);
        let guess = 1_000_000_000 / u64::from(knobs.pace_blocks.max(1));
        let Ratio { of: time, to: freed } = self.freeing;
        let known = time.checked_div(freed).unwrap_or(guess);
        // A zone that should have been freed long ago shows that reclaim is slower than it was.
        known.max(now.since(since).as_nanos() / OVERDUE.saturating_mul(zone).max(1))
    }
}

/// One, in fractions with 8 bits behind the point.
const ONE: u64 = 256;

/// How many blocks have to be freed for one that is taken, in 1/256: from none at `pace_percent` to one half way to
/// `urgent_percent`, and on. `None` if writes are not paced.
fn shortage(knobs: &Knobs, stock: &Stock) -> Option<u64> {
    let Pool { free, total } = stock.buffers();
    let whole = |percent: u32| u64::from(percent) * u64::from(total);
    let free = u64::from(free.saturating_add(stock.leaving)) * 100;
    if knobs.style.is_kernel() || free >= whole(knobs.pace_percent) {
        return None;
    }
    let slope = (whole(knobs.pace_percent.saturating_sub(knobs.urgent_percent)) / 2).max(whole(1));
    Some((whole(knobs.pace_percent) - free) * ONE / slope)
}

/// `value * by / of`, or as much as fits; `value` if `of` is 0.
fn mul_div(value: u64, by: u64, of: u64) -> u64 {
    (u128::from(value) * u128::from(by)).checked_div(of.into()).map_or(value, |all| all.min(u64::MAX.into()) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::Style;
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
        // 256 blocks at 12800 a second, half way from 30 to 20 percent.
        assert_eq!(wait(25), SECOND / 50);
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

    /// What a user writes, in writes of `blocks` of which each `spread`th takes a zone.
    #[derive(Clone, Copy)]
    struct User {
        blocks: u32,
        spread: u64,
        /// Beside these, so many zones at once each 100 s, for a block each.
        scattered: u32,
    }

    const STREAM: User = User { blocks: 16, spread: 4_096, scattered: 0 };

    /// What came of it.
    struct Rush {
        /// Writes of each second.
        writes: Vec<u64>,
        /// How many buffers were free at least.
        least: u32,
    }

    /// A user who writes as fast as he may for so long, while reclaim frees zones that take it these times, in turn.
    fn rush(knobs: &Knobs, user: User, zone_times: &[u64], for_seconds: u64) -> Rush {
        let (mut pacer, mut now) = (Pacer::default(), Instant::ZERO);
        let mut times = zone_times.iter().cycle().map(|ms| Duration::from_millis(*ms));
        let mut next_zone = Instant::ZERO + times.next().unwrap();
        let (mut free, mut scattered, mut done) = (100u32, 0, 0u64);
        let mut rush = Rush { writes: std::vec![0; for_seconds as usize + 2], least: 100 };
        while now < Instant(for_seconds * SECOND) {
            while next_zone <= now {
                if free < 60 {
                    pacer.freed(next_zone, Z.into());
                    free += 1;
                }
                next_zone = next_zone + times.next().unwrap();
            }
            let is_scattered = scattered < u64::from(user.scattered) * (1 + now.0 / (100 * SECOND));
            scattered += u64::from(is_scattered);
            if is_scattered || done.is_multiple_of(user.spread) {
                pacer.took(Z.into());
                free = free.saturating_sub(1);
                rush.least = rush.least.min(free);
            }
            let blocks = if is_scattered { 1 } else { user.blocks };
            now = pacer.admit(knobs, &stock(free), now, blocks) + Duration::from_micros(20);
            done += u64::from(!is_scattered);
            rush.writes[(now.0 / SECOND) as usize] += u64::from(!is_scattered);
        }
        rush
    }

    #[test]
    fn who_writes_faster_than_reclaim_wins_back_is_slowed_to_its_pace_and_never_meets_an_empty_stock() {
        // Streams, and blocks here and there that take a sixteenth of a zone each.
        for (spread, zone_time) in [(4_096, 500), (4_096, 5_000), (256, 2_000)] {
            let Rush { writes, least } = rush(&Knobs::default(), User { spread, ..STREAM }, &[zone_time], 1_000);
            let zones = writes[500..1_000].iter().sum::<u64>() / spread;
            let won = 500_000 / zone_time;
            assert!(least > 0, "{spread} {zone_time}: ran out");
            assert!(zones.abs_diff(won) <= won / 10 + 5, "{spread} {zone_time}: {zones} of {won} zones");
        }
    }

    #[test]
    fn chunks_that_are_touched_here_and_there_do_not_stop_those_who_stream() {
        // A file system writes its inodes now and then; some zones are freed by half a copy, some by a merge.
        let user = User { blocks: 256, spread: 256, scattered: 5 };
        let Rush { writes, least } = rush(&Knobs::default(), user, &[400, 1_200, 1_200, 3_000], 2_000);
        let tens: Vec<u64> = writes[500..2_000].chunks(10).map(|ten| ten.iter().sum()).collect();
        let mean = tens.iter().sum::<u64>() / tens.len() as u64;
        assert!(least > 0 && tens.iter().all(|ten| *ten > mean / 3), "{mean} on average: {tens:?}");
    }

    #[test]
    fn without_pacing_the_same_user_runs_into_the_wall() {
        let knobs = Knobs { pace_percent: 0, ..Knobs::default() };
        assert_eq!(rush(&knobs, STREAM, &[500], 1_000).least, 0);
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
