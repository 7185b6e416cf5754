//! Which zone writes next on a disk that turns: a pure choice.
//!
//! Moving to another zone costs the disk a seek and half a turn. So the choice is, in this order:
//!
//! 1. The zone at hand goes on while it has something to write, until its batch is used up.
//! 2. A zone whose oldest bio has waited for `max_wait` goes, the oldest such bio first.
//! 3. The zone with which the disk moves most bytes per second goes: what is queued there, over the time to get there and
//!    write it. Among zones with equally much that is the nearest one, so the head sweeps; among equally near ones the
//!    fullest one. What waits grows, so what is far becomes worth the way.
//!
//! # What is guaranteed
//!
//! Take a bio that has waited for `max_wait`. From then on nothing is sent before it but
//!
//! - the rest of the batch at hand, and
//! - batches of zones whose oldest bio was submitted before it: at most as many as such bios are left.
//!
//! A batch ends with the first command that uses up `batch_sectors` or that completes after `batch_time`. So if `n` older
//! bios are waiting then, it is sent after at most `max_wait + (n + 1) * (batch_time + c)`, where `c` is the longest service
//! time of a command, pauses for more writes included. Younger bios pass it only inside of those batches. Time in which
//! the bio waits for zone management in its own zone, or for a reset of all zones, is not the elevator's.

use crate::sector::Sector;
use crate::time::{Duration, Instant};

/// What the `elevator` policy can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElevatorOptions {
    /// Age from which a zone's oldest bio goes before all that is better for throughput. Shorter than the time in which the
    /// disk works off a full queue it makes the order that of arrival.
    pub max_wait: Duration,
    /// Sectors that a zone may write in a row before another zone that has waited too long is looked at.
    pub batch_sectors: u64,
    /// Time for which a zone may write in a row before another zone that has waited too long is looked at.
    pub batch_time: Duration,
    /// How long a zone's next command may wait for more writes to merge, when far fewer are queued than the last command
    /// carried. Zero: not at all.
    pub hold_back: Duration,
    /// On a disk that turns: how long it stays with a zone that has nothing more to write, in case that its writer goes on,
    /// while other zones wait. Zero: not at all.
    pub linger: Duration,
}

impl Default for ElevatorOptions {
    /// `max_wait` is what Linux's deadline scheduler gives a write (`block/mq-deadline.c:write_expire`); a batch of 64 MiB
    /// loses 2 to 5 % of its time to the way; a program on an idle core answers a completion within microseconds, and half
    /// a millisecond is a tenth of the shortest way to another zone.
    fn default() -> Self {
        Self {
            max_wait: Duration::from_millis(5_000),
            batch_sectors: 64 << 11,
            batch_time: Duration::from_millis(500),
            hold_back: Duration::from_micros(20),
            linger: Duration::from_micros(500),
        }
    }
}

/// A zone with writes that wait for the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Whether it wrote last.
    pub at_hand: bool,
    /// Where its next write begins.
    pub sector: Sector,
    /// What waits there.
    pub queued_sectors: u64,
    /// When its oldest bio was submitted.
    pub oldest: Instant,
}

/// Where the head is, and what the zone at hand has had of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The end of the last write.
    pub sector: Sector,
    /// Size of the disk, in sectors.
    pub capacity: u64,
    /// Sectors that the zone at hand has written in this batch.
    pub batch_sectors: u64,
    /// When this batch began.
    pub batch_since: Instant,
}

impl Head {
    /// Whether the zone at hand may go on whoever waits.
    pub(super) fn has_batch_left(&self, now: Instant, options: &ElevatorOptions) -> bool {
        self.batch_sectors < options.batch_sectors && now.since(self.batch_since) < options.batch_time
    }
}

/// The place of a zone among the candidates, and whether it goes on with its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub place: usize,
    pub goes_on: bool,
}

/// The zone that writes next; `None` when there are no candidates.
pub(super) fn choose_next_zone(
    candidates: impl Iterator<Item = Candidate> + Clone,
    head: &Head,
    now: Instant,
    options: &ElevatorOptions,
) -> Option<Choice> {
    if head.has_batch_left(now, options)
        && let Some(place) = candidates.clone().position(|zone| zone.at_hand)
    {
        return Some(Choice { place, goes_on: true });
    }
    let overdue = |zone: &Candidate| now.since(zone.oldest) >= options.max_wait;
    let zones = candidates.enumerate();
    let oldest = zones.clone().filter(|(_, zone)| overdue(zone)).min_by_key(|(_, zone)| (zone.oldest, zone.sector));
    let best = || {
        let yields = zones.map(|(place, zone)| (place, Yield::new(&zone, head, options.batch_sectors)));
        yields.reduce(|best, next| if next.1.beats(&best.1) { next } else { best }).map(|(place, _)| place)
    };
    let place = oldest.map(|(place, _)| place).or_else(best)?;
    Some(Choice { place, goes_on: false })
}

/// What a batch of a zone brings, and what time it takes.
struct Yield {
    sectors: u64,
    ns: u64,
    sector: Sector,
}

impl Yield {
    fn new(zone: &Candidate, head: &Head, most: u64) -> Self {
        let sectors = zone.queued_sectors.clamp(1, most.max(1));
        let way = zone.sector.0.abs_diff(head.sector.0);
        Self { sectors, ns: positioning_ns(way, head.capacity) + sectors * NS_PER_SECTOR, sector: zone.sector }
    }

    /// Whether it brings more in the same time; the lower sector decides between equals.
    fn beats(&self, other: &Yield) -> bool {
        let (mine, theirs) =
            (u128::from(self.sectors) * u128::from(other.ns), u128::from(other.sectors) * u128::from(self.ns));
        mine > theirs || mine == theirs && self.sector < other.sector
    }
}

/// 250 MB/s: the outer tracks of a present disk. Only its ratio to the time of a seek matters.
const NS_PER_SECTOR: u64 = 2_048;
/// Half a turn at 7200 rpm, and a seek to the next track.
const SETTLE_NS: u64 = 4_500_000;
/// What a seek over the whole disk takes beyond that, for an average seek of 8.2 ms (WD HC310 specification, p. 23).
const STROKE_NS: u64 = 13_600_000;

/// Time to get `way` sectors further: seeks grow with the square root of the way, as an arm that accelerates does.
fn positioning_ns(way: u64, capacity: u64) -> u64 {
    if way == 0 {
        return 0;
    }
    // The part of the whole way in units of 2^-20, and its root in units of 2^-10.
    let part = (u128::from(way) << 20) / u128::from(capacity.max(1));
    SETTLE_NS + STROKE_NS * (part.min(1 << 20) as u64).isqrt() / 1_024
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const MIB: u64 = 2048;
    const OPTIONS: ElevatorOptions = ElevatorOptions {
        max_wait: Duration::from_millis(100),
        batch_sectors: 8 * MIB,
        batch_time: Duration::from_millis(50),
        hold_back: Duration::ZERO,
        linger: Duration::ZERO,
    };

    fn zone(sector: u64, queued_sectors: u64, oldest_ms: u64) -> Candidate {
        let oldest = Instant::ZERO + Duration::from_millis(oldest_ms);
        Candidate { at_hand: false, sector: Sector(sector), queued_sectors, oldest }
    }

    fn at_hand(zone: Candidate) -> Candidate {
        Candidate { at_hand: true, ..zone }
    }

    /// The head stands at `sector` and its batch is used up.
    fn head(sector: u64) -> Head {
        let batch_sectors = OPTIONS.batch_sectors;
        Head { sector: Sector(sector), capacity: 1 << 36, batch_sectors, batch_since: Instant::ZERO }
    }

    fn choose(zones: &[Candidate], head: Head, now_ms: u64) -> Option<usize> {
        let now = Instant::ZERO + Duration::from_millis(now_ms);
        choose_next_zone(zones.iter().copied(), &head, now, &OPTIONS).map(|choice| choice.place)
    }

    #[test]
    fn nobody_is_chosen_from_nobody() {
        assert_eq!(choose(&[], head(0), 0), None);
    }

    #[test]
    fn the_zone_at_hand_goes_on_until_its_batch_is_used_up() {
        let zones = [zone(1 << 30, 100 * MIB, 0), at_hand(zone(64, 1, 150))];
        let mut head = head(64);
        head.batch_sectors = 8 * MIB - 1;
        head.batch_since = Instant::ZERO + Duration::from_millis(160);
        assert_eq!(choose(&zones, head, 200), Some(1), "although the other has waited too long");
        assert_eq!(choose(&zones, head, 210), Some(0), "its time is used up");
        head.batch_sectors = 8 * MIB;
        assert_eq!(choose(&zones, head, 200), Some(0), "its bytes are used up");
    }

    #[test]
    fn without_anybody_overdue_the_zone_at_hand_goes_on_after_its_batch_too() {
        let zones = [zone(1 << 30, 100 * MIB, 0), at_hand(zone(64, 1, 0))];
        assert_eq!(choose(&zones, head(64), 99), Some(1), "there is no way to go");
    }

    #[test]
    fn the_zone_whose_oldest_bio_is_oldest_goes_first_when_overdue() {
        let zones = [zone(64, 100 * MIB, 40), zone(1 << 35, 1, 20), zone(1 << 34, 1, 30)];
        assert_eq!(choose(&zones, head(64), 119), Some(0), "nobody is overdue");
        assert_eq!(choose(&zones, head(64), 120), Some(1));
        assert_eq!(choose(&zones, head(64), 500), Some(1), "all are");
    }

    #[test]
    fn of_equally_full_zones_the_nearest_goes_and_of_equally_near_ones_the_fullest() {
        let near = [zone(1 << 30, MIB, 0), zone(1 << 20, MIB, 0), zone(1 << 32, MIB, 0)];
        assert_eq!(choose(&near, head(0), 0), Some(1));
        let full = [zone(900, MIB, 0), zone(1100, 3 * MIB, 0), zone(900, 2 * MIB, 0)];
        assert_eq!(choose(&full, head(1000), 0), Some(1));
    }

    #[test]
    fn equally_full_zones_are_swept_from_one_end_to_the_other() {
        let mut left: Vec<Candidate> = [7, 2, 9, 4, 1, 8, 3, 5, 6].map(|n| zone(n << 28, 4 * MIB, 0)).to_vec();
        let (mut position, mut order) = (0, vec![]);
        while let Some(place) = choose(&left, head(position), 0) {
            let zone = left.remove(place);
            order.push(zone.sector.0 >> 28);
            position = zone.sector.0 + zone.queued_sectors;
        }
        assert_eq!(order, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_far_zone_is_worth_the_way_when_much_waits_there() {
        let zones = |far| [zone(1 << 20, MIB, 0), zone(1 << 35, far, 0)];
        assert_eq!(choose(&zones(2 * MIB), head(0), 0), Some(0));
        assert_eq!(choose(&zones(8 * MIB), head(0), 0), Some(1));
        assert_eq!(choose(&zones(u64::MAX), head(0), 0), Some(1), "whatever is queued, nothing overflows");
    }

    #[test]
    fn equal_zones_are_chosen_by_sector_so_a_run_is_the_same_every_time() {
        assert_eq!(choose(&[zone(1200, MIB, 0), zone(800, MIB, 0)], head(1000), 0), Some(1));
        assert_eq!(choose(&[zone(800, MIB, 0), zone(1200, MIB, 0)], head(1000), 0), Some(0));
    }

    #[test]
    fn positioning_costs_what_the_specification_of_a_disk_says() {
        let ms = |way| positioning_ns(way, 3_000_000) / 100_000;
        assert_eq!([ms(0), ms(1), ms(3_000_000)], [0, 45, 181]);
        assert_eq!(ms(1_000_000), 123, "an average seek of 8.2 ms and half a turn of 4.17");
        assert_eq!(positioning_ns(u64::MAX, 0), SETTLE_NS + STROKE_NS);
    }
}
