//! When a write may go to a buffer.

use super::{Knobs, Pool, Stock, Style};
use crate::time::{Duration, Instant};

/// Slows writes to buffers down to what reclaim wins back, the more the fewer are free: users meet a slope and not a wall.
///
/// With `pace_percent` of the buffers free nothing is paced. From there on the time that a block waits for rises evenly; at
/// `emergency_percent` as much is admitted as is won back, below that less. What a block takes of the free space is measured,
/// too: the first one of a chunk takes a whole zone, one that is written over takes nothing.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    /// While writes are paced: since when, or since reclaim won something back.
    since: Option<Instant>,
    /// Time in which reclaim wins a block back, once that was measured.
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
    /// Blocks won back since then.
    freed: u64,
    /// Blocks of the zones that were in use then.
    used: Option<u64>,
}

impl Pacer {
    /// A pacer that has measured nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reclaim has won back a zone of so many `blocks`.
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
        // A zone that should have been won back long ago shows that reclaim is slower than it was.
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

/// How many blocks have to be won back for one that is taken, in 1/256: from none at `pace_percent` to one at
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
