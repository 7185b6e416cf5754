//! Which zone writes next on a rotational disk: a pure choice.
//!
//! Moving to another zone costs the disk a seek and half a turn. So the choice is, in this order:
//!
//! 1. The zone at hand goes on while it has something to write, until its batch is used up.
//! 2. A zone whose oldest bio has waited for `max_wait` goes, the oldest such bio first.
//! 3. The zone with which the disk moves most bytes per second goes: what is queued there, over the time to get there and
//!    write it. Among zones with equally much that is the nearest one, so the head sweeps; among equally near ones the
//!    fullest one. Bytes that have waited count for more, so that few zones ever have to be saved by rule 2.
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
    /// On a rotational disk: how long it stays with a zone that has nothing more to write, in case that its writer goes on,
    /// while other zones wait. Zero: not at all.
    pub linger: Duration,
    /// Longest command that is put together of several writes for a disk with a write cache, in sectors. Such a disk takes the
    /// next command in while it writes this one, so longer ones bring nothing, and reads wait behind them. Without a cache
    /// every command costs a turn: then they are as long as the disk takes.
    pub merge_sectors: u32,
}

impl Default for ElevatorOptions {
    /// `max_wait` is what Linux's deadline scheduler gives a write (`block/mq-deadline.c:write_expire`). A batch is what a
    /// zone of present disks holds, so that a writer who goes from zone to zone is not interrupted. A program on an idle
    /// core answers a completion within microseconds; half a millisecond is a tenth of the shortest way to another zone.
    /// After 1 MiB, what a command costs beside its data is lost in the noise.
    fn default() -> Self {
        Self {
            max_wait: Duration::from_millis(5_000),
            batch_sectors: 256 << 11,
            batch_time: Duration::from_millis(1_500),
            hold_back: Duration::from_micros(20),
            linger: Duration::from_micros(500),
            merge_sectors: 1 << 11,
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
        let yields = zones.map(|(place, zone)| (place, Yield::new(&zone, head, now, options)));
        yields.reduce(|best, next| if next.1.beats(&best.1) { next } else { best }).map(|(place, _)| place)
    };
    let place = oldest.map(|(place, _)| place).or_else(best)?;
    Some(Choice { place, goes_on: false })
}

/// What a batch of a zone brings, and what time it takes.
struct Yield {
    /// Its sectors, each worth more the longer the oldest has waited.
    weight: u128,
    ns: u64,
    sector: Sector,
}

impl Yield {
    fn new(zone: &Candidate, head: &Head, now: Instant, options: &ElevatorOptions) -> Self {
        let sectors = zone.queued_sectors.clamp(1, options.batch_sectors.clamp(1, MOST_SECTORS));
        // What has waited for a quarter of the longest time counts twice, for half of it three times.
        let worth = (options.max_wait.as_nanos() / 4).saturating_add(now.since(zone.oldest).as_nanos());
        let weight = u128::from(sectors) * u128::from(worth.clamp(1, MOST_WORTH_NS));
        let way = zone.sector.0.abs_diff(head.sector.0);
        let ns = positioning_ns(way, head.capacity) + sectors * NS_PER_SECTOR;
        Self { weight, ns, sector: zone.sector }
    }

    /// Whether it brings more in the same time; the lower sector wins among equals.
    fn beats(&self, other: &Yield) -> bool {
        let (mine, theirs) = (self.weight * u128::from(other.ns), other.weight * u128::from(self.ns));
        mine > theirs || mine == theirs && self.sector < other.sector
    }
}

/// 128 GiB, and 13 days: bounds within which no product overflows.
const MOST_SECTORS: u64 = 1 << 28;
const MOST_WORTH_NS: u64 = 1 << 50;
/// 250 MB/s: the outer tracks of a present disk. Only its ratio to the time of a seek matters.
const NS_PER_SECTOR: u64 = 2_048;
/// Half a turn at 7200 rpm, and a seek to the next track.
const SETTLE_NS: u64 = 4_500_000;
/// What a seek over the whole disk takes beyond that, for an average seek of 8.2 ms (WD HC310 specification, p. 23).
const STROKE_NS: u64 = 13_600_000;

/// What a zone pays that has had its batch and wants to go on where the head is: nothing in truth. With it, a zone in which
/// little waits leaves the disk to one in which much does, instead of keeping it for a trickle.
const STAY_NS: u64 = SETTLE_NS / 4;

/// Time to get `way` sectors further: seeks grow with the square root of the way, as an arm that accelerates does.
fn positioning_ns(way: u64, capacity: u64) -> u64 {
    if way == 0 {
        return STAY_NS;
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
        merge_sectors: 1 << 11,
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
    fn without_anybody_overdue_the_zone_at_hand_goes_on_after_its_batch_unless_that_is_a_trickle() {
        let zones = |left| [zone(1 << 20, 100 * MIB, 0), at_hand(zone(64, left, 0))];
        assert_eq!(choose(&zones(2 * MIB), head(64), 99), Some(1), "there is no way to go");
        assert_eq!(choose(&zones(MIB / 2), head(64), 99), Some(0), "a sixteenth of a batch");
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
        let endless = ElevatorOptions { batch_sectors: u64::MAX, max_wait: Duration::from_nanos(u64::MAX), ..OPTIONS };
        let end = Instant(u64::MAX - 1);
        let chosen = choose_next_zone(zones(u64::MAX).into_iter(), &head(0), end, &endless);
        assert_eq!(chosen, Some(Choice { place: 1, goes_on: false }), "and nothing overflows");
    }

    #[test]
    fn equal_zones_are_chosen_by_sector_so_a_run_is_the_same_every_time() {
        assert_eq!(choose(&[zone(1200, MIB, 0), zone(800, MIB, 0)], head(1000), 0), Some(1));
        assert_eq!(choose(&[zone(800, MIB, 0), zone(1200, MIB, 0)], head(1000), 0), Some(0));
    }

    #[test]
    fn positioning_costs_what_the_specification_of_a_disk_says() {
        // In tenths of a millisecond.
        let ms = |way| positioning_ns(way, 3_000_000) / 100_000;
        assert_eq!([ms(0), ms(1), ms(3_000_000)], [11, 45, 181]);
        assert_eq!(ms(1_000_000), 123, "an average seek of 8.2 ms and half a turn of 4.17");
        assert_eq!(positioning_ns(u64::MAX, 0), SETTLE_NS + STROKE_NS);
    }

    /// A bio in the miniature disk below.
    #[derive(Clone, Copy)]
    struct Waiting {
        since: Instant,
        sectors: u64,
    }

    /// A disk in miniature that does as the elevator says, and notes who is passed over.
    struct Miniature {
        zones: Vec<Vec<Waiting>>,
        at_hand: usize,
        head: Head,
        now: Instant,
        /// When the oldest bio of the zone at hand had been submitted as its batch began.
        batch_oldest: Instant,
        longest_command: u64,
        /// Bios that waited for too long, and were served in time.
        overdue: u32,
    }

    const APART: u64 = 1 << 30;
    /// Most sectors of a command, and of a bio.
    const COMMAND: u64 = 2 * MIB;

    impl Miniature {
        fn new(zones: usize) -> Self {
            let (now, zones) = (Instant::ZERO, vec![vec![]; zones]);
            let (at_hand, batch_oldest) = (usize::MAX, now);
            Self { zones, at_hand, head: head(0), now, batch_oldest, longest_command: 0, overdue: 0 }
        }

        fn submit(&mut self, zone: usize, sectors: u64) {
            self.zones[zone].push(Waiting { since: self.now, sectors });
        }

        fn serve(&mut self) {
            let busy: Vec<usize> = (0..self.zones.len()).filter(|zone| !self.zones[*zone].is_empty()).collect();
            let candidates = busy.iter().map(|n| Candidate {
                at_hand: *n == self.at_hand,
                ..zone(*n as u64 * APART, self.zones[*n].iter().map(|bio| bio.sectors).sum(), 0)
            });
            let candidates = candidates.zip(&busy).map(|(c, n)| Candidate { oldest: self.zones[*n][0].since, ..c });
            let Some(choice) = choose_next_zone(candidates, &self.head, self.now, &OPTIONS) else { return };
            let chosen = busy[choice.place];
            let bio = self.zones[chosen][0];
            if choice.goes_on {
                assert!(self.now.since(self.head.batch_since) < OPTIONS.batch_time, "a batch without end");
                assert!(self.head.batch_sectors < OPTIONS.batch_sectors, "a batch without end");
            } else {
                self.batch_oldest = bio.since;
                (self.at_hand, self.head.batch_sectors, self.head.batch_since) = (chosen, 0, self.now);
            }
            self.judge(chosen);
            self.write(chosen);
        }

        /// The guarantee: past an overdue bio go only a batch that began before it was overdue, and batches of older bios.
        fn judge(&mut self, chosen: usize) {
            let since = self.head.batch_since;
            for zone in (0..self.zones.len()).filter(|zone| *zone != chosen) {
                let Some(bio) = self.zones[zone].first() else { continue };
                let overdue_at = bio.since + OPTIONS.max_wait;
                let passed_over = overdue_at <= self.now && overdue_at <= since && self.batch_oldest > bio.since;
                assert!(!passed_over, "zone {zone} since {:?} passed over by {chosen} at {:?}", bio.since, self.now);
            }
        }

        fn write(&mut self, chosen: usize) {
            let start = self.now;
            let mut sectors = 0;
            while let Some(bio) = self.zones[chosen].first().copied().filter(|bio| sectors + bio.sectors <= COMMAND) {
                self.overdue += u32::from(start.since(bio.since) >= OPTIONS.max_wait);
                sectors += bio.sectors;
                self.zones[chosen].remove(0);
            }
            let way = (chosen as u64 * APART).abs_diff(self.head.sector.0);
            let ns = positioning_ns(way, self.head.capacity) + sectors * NS_PER_SECTOR;
            self.longest_command = self.longest_command.max(ns);
            self.now = start + Duration::from_nanos(ns);
            (self.head.sector, self.head.batch_sectors) =
                (Sector(chosen as u64 * APART), self.head.batch_sectors + sectors);
        }
    }

    #[test]
    fn nobody_is_passed_over_beyond_the_guarantee_whatever_is_submitted() {
        for seed in 0..300 {
            let mut rng = crate::random::Rng::new(seed);
            let zones = 2 + rng.below(14) as usize;
            let mut disk = Miniature::new(zones);
            for _ in 0..400 {
                // Hogs near the head that are never empty, far zones that get little, and bursts.
                match rng.below(4) {
                    0 => disk.submit(rng.below(zones as u64) as usize, 1 + rng.below(COMMAND)),
                    1 => (0..rng.below(12)).for_each(|_| disk.submit(0, COMMAND)),
                    2 => (0..rng.below(8)).for_each(|_| disk.submit(disk.at_hand.min(zones - 1), COMMAND)),
                    _ => disk.submit(zones - 1, 1),
                }
                (0..rng.below(5)).for_each(|_| disk.serve());
            }
            while disk.zones.iter().any(|zone| !zone.is_empty()) {
                disk.serve();
            }
            assert!(disk.overdue > 0, "seed {seed} has put no pressure on anybody");
        }
    }

    #[test]
    fn a_lone_bio_among_hogs_waits_for_the_promised_time_at_most() {
        for hogs in 1..6 {
            let mut disk = Miniature::new(10);
            (0..hogs).for_each(|hog| (0..64).for_each(|_| disk.submit(hog, COMMAND)));
            disk.serve();
            let submitted = disk.now;
            disk.submit(9, 1);
            let older: u64 = disk.zones[..hogs].iter().map(|zone| zone.len() as u64).sum();
            while !disk.zones[9].is_empty() {
                disk.serve();
                // Hogs never run empty.
                for hog in 0..hogs {
                    while disk.zones[hog].len() < 64 {
                        disk.submit(hog, COMMAND);
                    }
                }
            }
            let waited = disk.now.since(submitted).as_nanos();
            let batch = OPTIONS.batch_time.as_nanos() + disk.longest_command;
            assert!(waited <= OPTIONS.max_wait.as_nanos() + (older + 1) * batch + disk.longest_command);
            // What is promised counts older bios; hogs have many in each batch, so it comes far sooner.
            let batches_ahead = 1 + older.div_ceil(OPTIONS.batch_sectors / COMMAND);
            assert!(waited <= OPTIONS.max_wait.as_nanos() + batches_ahead * batch, "{hogs} hogs: {waited} ns");
        }
    }
}
