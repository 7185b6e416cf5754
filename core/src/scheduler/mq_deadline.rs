//! The scheduler `mq-deadline`.
//!
//! Waiting bios are grouped by priority class and direction. Each group is kept twice: sorted by sector, and in the order of arrival.
//!
//! ```text
//!  class    rt ─ be ─ idle        highest class with a waiting bio; every second dispatch goes to a lower class
//!             │                   whose oldest bio has waited for `aging` or longer
//!  direction  read │ write        reads first, at most `writes_starved` batches in a row while writes wait
//!             │
//!  batch      `batch` bios by rising sector. A batch starts with the oldest bio if that has expired or no bio
//!             lies behind the last position; else with the next sector
//! ```
//!
//! Facts: `block/mq-deadline.c` of Linux 7.2. What is different, for bounds that hold under any load:
//!
//! - Each class has its own counters of batches. In Linux all classes share them.
//! - Of lower classes, the oldest bio that has waited for `aging` is dispatched, at most every second time. Linux serves such bios first
//!   as long as there are any, so that a disk that cannot keep up starves the highest class.
//! - Writes to a zone, and its management, are sorted by the start of the zone, and wait in the class in which a bio of the zone waits already.
//!   So they are dispatched in the order of their arrival.
//! - Bios are not merged. The plug has merged the writes of a zone.

use core::ops::Range;

use slab::Slab;

use super::fifo::{Fifo, Links};
use super::guards::Guards;
use super::sorted::Sorted;
use crate::block::{Bio, Limits, Priority, Scheduler};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::{Duration, Instant};

/// Options of `mq-deadline`, with the defaults of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineOptions {
    /// Time after which a waiting read starts the next batch of reads (`read_expire`).
    pub read_expire: Duration,
    /// Time after which a waiting write starts the next batch of writes (`write_expire`).
    pub write_expire: Duration,
    /// Bios of a batch (`fifo_batch`); 0 counts as 1.
    pub batch: u32,
    /// Batches of reads in a row while writes wait (`writes_starved`); 0 counts as 1, since writes would starve reads.
    pub writes_starved: u32,
    /// Time after which a waiting bio of a lower class is dispatched while bios of a higher one wait (`prio_aging_expire`).
    pub aging: Duration,
}

impl Default for DeadlineOptions {
    fn default() -> Self {
        Self {
            read_expire: Duration::from_millis(500),
            write_expire: Duration::from_millis(5_000),
            batch: 16,
            writes_starved: 2,
            aging: Duration::from_millis(10_000),
        }
    }
}

impl DeadlineOptions {
    /// Most dispatches of a class between two batches of the same direction, the batch included.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.batch as u64 * (self.writes_starved as u64 + 1)
    }

    /// Most dispatches before a bio of the highest class that has expired, if `older` bios of its class and direction were there before it
    /// and no bio of a higher class comes.
    #[must_use]
    pub const fn bound(&self, older: u64) -> u64 {
        // The batch at hand, then a round for each older bio and its own; every second dispatch may be that of a lower class.
        2 * (self.round() * (older + 2))
    }

    /// Most dispatches before a bio of a lower class that has waited for `aging`, if `older` bios of all lower classes were there before it.
    #[must_use]
    pub const fn aged_bound(&self, older: u64) -> u64 {
        2 * (older + 1)
    }
}

/// Direction of a bio: its place in arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read = 0,
    Write = 1,
}

/// A waiting bio.
pub(super) struct Request {
    bio: Box<Bio>,
    arrival: Instant,
    /// Position in the order of insertion.
    number: u64,
    /// Sector by which the bio is sorted.
    key: Sector,
    class: Priority,
    direction: Direction,
    /// Neighbours in the order of arrival.
    pub(super) links: Links,
}

/// Waiting bios of one class and direction.
struct Group {
    sorted: Sorted,
    fifo: Fifo,
    /// Key of the last one dispatched.
    position: Sector,
}

/// Waiting bios of a class.
struct Class {
    groups: [Group; 2],
    /// Direction of the batch at hand.
    direction: Direction,
    /// Bios of that batch dispatched so far.
    batched: u32,
    /// Batches of reads that went before waiting writes.
    starved: u32,
}

impl Class {
    fn new() -> Self {
        let group = || Group { sorted: Sorted::new(), fifo: Fifo::EMPTY, position: Sector::ZERO };
        Self { groups: [group(), group()], direction: Direction::Read, batched: 0, starved: 0 }
    }

    fn waits(&self, direction: Direction) -> bool {
        !self.groups[direction as usize].sorted.is_empty()
    }

    fn is_empty(&self) -> bool {
        !self.waits(Direction::Read) && !self.waits(Direction::Write)
    }
}

/// The next bio, and the counters of its class after the dispatch.
struct Choice {
    id: u32,
    batched: u32,
    starved: u32,
}

/// A waiting bio, as checkers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingBio {
    /// Position in the order of insertion, from 0.
    pub number: u64,
    /// Time of arrival.
    pub arrival: Instant,
    /// Priority class that it waits in.
    pub class: Priority,
    /// True for everything but reads.
    pub is_write: bool,
    /// Start of the sequential zone that it writes or manages.
    pub zone: Option<Sector>,
}

/// The `mq-deadline` scheduler of one disk.
pub struct MqDeadline {
    options: DeadlineOptions,
    /// Sectors of a zone; `None` without zones.
    zone_sectors: Option<u32>,
    conventional: Vec<Range<u32>>,
    requests: Slab<Request>,
    classes: [Class; Priority::ALL.len()],
    /// Bios inserted so far.
    inserted: u64,
    /// True if the last dispatch was for the age of a bio.
    last_was_aged: bool,
    guards: Guards,
    longest_wait: Duration,
    dispatched: u64,
    last_dispatch: Instant,
}

impl MqDeadline {
    /// A scheduler for a disk with `limits`. It allocates later only to hold more bios than ever before.
    #[must_use]
    pub fn new(limits: &Limits, options: DeadlineOptions) -> Self {
        let zoned = limits.zoned.as_ref();
        let (batch, writes_starved) = (options.batch.max(1), options.writes_starved.max(1));
        let options = DeadlineOptions { batch, writes_starved, ..options };
        Self {
            options,
            zone_sectors: zoned.map(|zoned| zoned.zone_sectors),
            conventional: zoned.map_or(Vec::new(), |zoned| zoned.conventional.clone()),
            requests: Slab::with_capacity(256),
            classes: [Class::new(), Class::new(), Class::new()],
            inserted: 0,
            last_was_aged: false,
            guards: Guards::default(),
            longest_wait: Duration::ZERO,
            dispatched: 0,
            last_dispatch: Instant::ZERO,
        }
    }

    /// The scheduler without some of its guards.
    #[cfg(feature = "sabotage")]
    #[must_use]
    pub fn without(self, gone: super::Sabotage) -> Self {
        Self { guards: Guards::without(gone), ..self }
    }

    /// Options of the scheduler.
    #[must_use]
    pub fn options(&self) -> &DeadlineOptions {
        &self.options
    }

    /// The longest time from arrival to dispatch of any bio so far.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        self.longest_wait
    }

    /// Number of bios inserted so far.
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Number of bios dispatched so far.
    #[must_use]
    pub fn dispatched(&self) -> u64 {
        self.dispatched
    }

    /// Time of the last dispatch.
    #[must_use]
    pub fn last_dispatch(&self) -> Instant {
        self.last_dispatch
    }

    /// The waiting bios, in no particular order.
    pub fn waiting_bios(&self) -> impl Iterator<Item = WaitingBio> {
        self.requests.iter().map(|(_, Request { bio, arrival, number, class, direction, .. })| WaitingBio {
            number: *number,
            arrival: *arrival,
            class: *class,
            is_write: *direction == Direction::Write,
            zone: self.zone_of(bio),
        })
    }

    /// Start of the sequential zone that `bio` changes; `None` if it reads, or may be dispatched in any order.
    fn zone_of(&self, bio: &Bio) -> Option<Sector> {
        let zone_sectors = u64::from(self.zone_sectors.filter(|_| bio.op.is_write())?);
        let zone = bio.sector.0 / zone_sectors;
        let is_conventional = self.conventional.iter().any(|run| (run.start.into()..run.end.into()).contains(&zone));
        (!is_conventional).then_some(Sector(zone * zone_sectors))
    }

    /// Sector by which `bio` is sorted, and the class in which it waits.
    fn rank(&self, bio: &Bio) -> (Sector, Priority) {
        let own = (bio.sector, bio.priority);
        let Some(zone) = self.zone_of(bio).filter(|_| !self.guards.gone().zones_unordered) else { return own };
        let has_zone =
            |class: &Priority| self.classes[*class as usize].groups[Direction::Write as usize].sorted.has(zone);
        (zone, Priority::ALL.into_iter().find(has_zone).unwrap_or(bio.priority))
    }

    /// The bio of a lower class than `highest` that has waited longest, if that is too long.
    fn choose_aged(&self, highest: usize, now: Instant) -> Option<u32> {
        let gone = self.guards.gone();
        if self.last_was_aged && !gone.aging_unbounded || gone.aging_ignored {
            return None;
        }
        let lower = self.classes[highest + 1..].iter().flat_map(|class| &class.groups);
        let oldest = lower.filter_map(|group| group.fifo.oldest());
        let waits_since = |id: &u32| self.requests[*id as usize].arrival;
        oldest
            .filter(|id| now.since(waits_since(id)) >= self.options.aging)
            .min_by_key(|id| self.requests[*id as usize].number)
    }

    fn choose(&self, class: &Class, now: Instant) -> Choice {
        let DeadlineOptions { batch, writes_starved, .. } = self.options;
        let (batched, starved) = (class.batched, class.starved);
        if batched < batch
            && let Some(id) = next_by_sector(class, class.direction)
        {
            return Choice { id, batched: batched + 1, starved };
        }
        let writes = class.waits(Direction::Write);
        let reads_first = !writes || starved < writes_starved || self.guards.gone().writes_starved;
        if class.waits(Direction::Read) && reads_first {
            let starved = starved.saturating_add(writes.into());
            return Choice { id: self.first_of(class, Direction::Read, now), batched: 1, starved };
        }
        Choice { id: self.first_of(class, Direction::Write, now), batched: 1, starved: 0 }
    }

    /// The bio with which a batch starts.
    fn first_of(&self, class: &Class, direction: Direction, now: Instant) -> u32 {
        let DeadlineOptions { read_expire, write_expire, .. } = self.options;
        let expire = if direction == Direction::Read { read_expire } else { write_expire };
        let oldest = class.groups[direction as usize].fifo.oldest().expect("a bio of this direction waits");
        let has_expired = now.since(self.requests[oldest as usize].arrival) >= expire;
        let next = next_by_sector(class, direction).filter(|_| !has_expired || self.guards.gone().expiry_ignored);
        next.unwrap_or(oldest)
    }

    fn remove(&mut self, id: u32) -> Request {
        let Request { class, direction, key, .. } = self.requests[id as usize];
        let group = &mut self.classes[class as usize].groups[direction as usize];
        group.fifo.remove(id, &mut self.requests);
        group.sorted.remove(key, id);
        self.requests.remove(id as usize)
    }
}

/// The next bio upwards from the last one dispatched.
fn next_by_sector(class: &Class, direction: Direction) -> Option<u32> {
    let Group { sorted, position, .. } = &class.groups[direction as usize];
    sorted.next_from(*position)
}

impl Scheduler for MqDeadline {
    fn name(&self) -> &'static str {
        super::SchedulerKind::MqDeadline.name()
    }

    fn insert(&mut self, bio: Box<Bio>, arrival: Instant) {
        let direction = if bio.op.is_write() { Direction::Write } else { Direction::Read };
        let (key, class) = self.rank(&bio);
        let (number, links) = (self.inserted, Links::NONE);
        self.inserted += 1;
        let id = self.requests.insert(Request { bio, arrival, number, key, class, direction, links }) as u32;
        let group = &mut self.classes[class as usize].groups[direction as usize];
        group.fifo.push(id, &mut self.requests);
        group.sorted.insert(key, id);
    }

    fn next(&mut self, now: Instant) -> Option<Box<Bio>> {
        let highest = self.classes.iter().position(|class| !class.is_empty())?;
        let aged = self.choose_aged(highest, now);
        self.last_was_aged = aged.is_some();
        let id = aged.unwrap_or_else(|| {
            let Choice { id, batched, starved } = self.choose(&self.classes[highest], now);
            let direction = self.requests[id as usize].direction;
            let class = &mut self.classes[highest];
            (class.direction, class.batched, class.starved) = (direction, batched, starved);
            id
        });
        let Request { bio, arrival, key, class, direction, .. } = self.remove(id);
        self.classes[class as usize].groups[direction as usize].position = key;
        self.longest_wait = self.longest_wait.max(now.since(arrival));
        self.dispatched += 1;
        self.last_dispatch = now;
        Some(bio)
    }

    fn remove_oldest(&mut self) -> Option<(Box<Bio>, Instant)> {
        let groups = self.classes.iter().flat_map(|class| &class.groups);
        let oldest = groups.filter_map(|group| group.fifo.oldest());
        let id = oldest.min_by_key(|id| self.requests[*id as usize].number)?;
        let Request { bio, arrival, .. } = self.remove(id);
        Some((bio, arrival))
    }

    fn waiting(&self) -> usize {
        self.requests.len()
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.requests.iter().for_each(|(_, request)| visit(&request.bio));
    }
}
