//! What fio keeps of each zone of its region: write pointer, lock, and whether it is among those being written.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::job::Job;
use super::options::{FioOptions, Pattern};
use shingle_core::block::Bio;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone, ZoneKind};

struct ZoneInfo {
    start: Sector,
    capacity: u32,
    /// Where the next write goes, as an offset. Moves when a write is submitted.
    wp: u32,
    owner: Option<u32>,
    /// I/Os for which the owner holds the lock.
    holds: u32,
    waiters: VecDeque<u32>,
    /// When the first waiter can run, once the lock is free.
    wakes_at: Option<Instant>,
    open: bool,
}

/// The zones of the region, by their place in it.
pub(super) struct ZoneTable {
    zones: Vec<ZoneInfo>,
    open: Vec<u32>,
    limit: Option<u32>,
}

/// What becomes of a write to a zone that its job holds.
pub(super) enum Admission {
    Write,
    ResetFirst,
    /// The zone may not be opened: as many as allowed are.
    LimitReached,
    /// The zone that was to be written instead has filled up.
    NoRoom,
}

impl ZoneTable {
    pub(super) fn new(report: &[Zone], options: &FioOptions) -> Self {
        let usable = |zone: &&Zone| {
            zone.kind == ZoneKind::Sequential && !matches!(zone.cond, Condition::ReadOnly | Condition::Offline)
        };
        let region = report.iter().filter(usable).skip(options.first_zone as usize);
        let most = options.zones.unwrap_or(u32::MAX) as usize;
        let zones = region.take(most).map(ZoneInfo::new).collect();
        Self { zones, open: Vec::new(), limit: options.max_open_zones }
    }

    pub(super) fn len(&self) -> u32 {
        self.zones.len() as u32
    }

    pub(super) fn start(&self, zone: u32) -> Sector {
        self.zones[zone as usize].start
    }

    pub(super) fn ends_at_capacity(&self, zone: u32, bio: &Bio) -> bool {
        let info = &self.zones[zone as usize];
        bio.end() == info.start + u64::from(info.capacity)
    }

    fn at(&mut self, zone: u32) -> &mut ZoneInfo {
        &mut self.zones[zone as usize]
    }
}

impl ZoneInfo {
    fn new(zone: &Zone) -> Self {
        let full = zone.cond == Condition::Full;
        let wp = if full { zone.capacity } else { zone.wp - zone.start };
        Self {
            start: zone.start,
            capacity: zone.capacity as u32,
            wp: wp as u32,
            owner: None,
            holds: 0,
            waiters: VecDeque::new(),
            wakes_at: None,
            open: false,
        }
    }

    fn is_full(&self) -> bool {
        self.wp >= self.capacity
    }
}

/// Locks.
impl ZoneTable {
    /// Takes the lock if it is free or `job` holds it already.
    pub(super) fn lock(&mut self, zone: u32, job: u32) -> bool {
        let info = self.at(zone);
        let free = *info.owner.get_or_insert(job) == job;
        info.holds += u32::from(free);
        free
    }

    /// Waits for the lock: the first in line gets it, `wake` after it became free, if nobody who was awake took it. The error is
    /// when that will be, if it is known.
    pub(super) fn wait(&mut self, zone: u32, job: u32, now: Instant, wake: Duration) -> Result<(), Option<Instant>> {
        let info = self.at(zone);
        if !info.waiters.contains(&job) {
            info.waiters.push_back(job);
        }
        if info.owner.is_some() {
            info.wakes_at = None;
            return Err(None);
        }
        if info.waiters.front() != Some(&job) {
            return Err(None);
        }
        let at = *info.wakes_at.get_or_insert(now + wake);
        if at > now {
            return Err(Some(at));
        }
        info.waiters.pop_front();
        info.wakes_at = None;
        (info.owner, info.holds) = (Some(job), 1);
        Ok(())
    }

    pub(super) fn unlock(&mut self, zone: u32) {
        let info = self.at(zone);
        info.holds -= 1;
        if info.holds == 0 {
            info.owner = None;
        }
    }
}

/// Choices.
impl ZoneTable {
    pub(super) fn pick(&self, job: &mut Job, pattern: Pattern) -> u32 {
        match pattern {
            Pattern::Sequential => job.cursor,
            Pattern::RandomZones => job.rng.below(self.len().into()) as u32,
        }
    }

    /// A zone with something to read: the first one from a random place on.
    pub(super) fn pick_written(&self, rng: &mut Rng) -> Option<u32> {
        let (len, from) = (self.len(), rng.below(self.len().into()) as u32);
        (0..len).map(|n| (from + n) % len).find(|zone| self.zones[*zone as usize].wp > 0)
    }

    pub(super) fn pick_open(&self, rng: &mut Rng) -> u32 {
        self.open[rng.below(self.open.len() as u64) as usize]
    }

    /// A zone behind `zone` that can be opened, or else an open one with room; and whether it is open.
    pub(super) fn find_other(&self, zone: u32) -> Option<(u32, bool)> {
        let (len, room) = (self.len(), self.limit.is_none_or(|limit| (self.open.len() as u32) < limit));
        let closed = |zone: &u32| !self.zones[*zone as usize].open && self.zones[*zone as usize].owner.is_none();
        let behind = if room { (1..=len).map(|n| (zone + n) % len).find(closed) } else { None };
        let with_room = || self.open.iter().copied().find(|zone| !self.zones[*zone as usize].is_full());
        behind.map(|zone| (zone, false)).or_else(|| with_room().map(|zone| (zone, true)))
    }

    pub(super) fn admit(&mut self, zone: u32, converted: bool) -> Admission {
        let limit_reached = self.limit.is_some_and(|limit| self.open.len() as u32 >= limit);
        let info = &self.zones[zone as usize];
        let (open, full) = (info.open, info.is_full());
        if converted {
            return if open && !full { Admission::Write } else { Admission::NoRoom };
        }
        if !open && limit_reached {
            return Admission::LimitReached;
        }
        self.open(zone);
        if full { Admission::ResetFirst } else { Admission::Write }
    }

    fn open(&mut self, zone: u32) {
        if !core::mem::replace(&mut self.at(zone).open, true) {
            self.open.push(zone);
        }
    }

    pub(super) fn close(&mut self, zone: u32) {
        self.at(zone).open = false;
        self.open.retain(|open| *open != zone);
    }

    /// The zone was reset by a job that is about to write it.
    pub(super) fn reset(&mut self, zone: u32) {
        self.at(zone).wp = 0;
        self.open(zone);
    }

    pub(super) fn place_write(&mut self, zone: u32, block: u32, job: &mut Job, pattern: Pattern) -> (Sector, u32) {
        let info = self.at(zone);
        let sectors = block.min(info.capacity - info.wp);
        let at = info.start + u64::from(info.wp);
        info.wp += sectors;
        if pattern == Pattern::Sequential && info.is_full() {
            job.cursor = if zone + 1 < job.part.end { zone + 1 } else { job.part.start };
        }
        (at, sectors)
    }

    pub(super) fn place_read(&self, zone: u32, block: u32, rng: &mut Rng) -> (Sector, u32) {
        let info = &self.zones[zone as usize];
        let sectors = block.min(info.wp);
        let places = u64::from(info.wp / sectors);
        (info.start + rng.below(places) * u64::from(sectors), sectors)
    }
}
