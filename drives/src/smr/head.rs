//! The head: it does one thing after the other, and chooses what is next.

use super::cache::CachedWrite;
use super::disk::SmrDisk;
use super::jobs::{Command, Last, MediaJob, MediaWork};
use super::mechanics::Head;
use shingle_core::block::{Cx, Op, Status};
use shingle_core::time::Instant;
use shingle_core::zone::ZoneNo;

/// Reads that may go before writes in a row while the cache has data.
const READS_IN_A_ROW: u32 = 16;

/// Zones that are written because they are near before the one that has waited longest.
const NEAREST_IN_A_ROW: u32 = 256;

impl SmrDisk {
    pub(super) fn start_media(&mut self, cx: &mut Cx<'_>) {
        if self.media.is_some() {
            return;
        }
        self.answer_flushes();
        let Some(job) = self.next_media(cx.now()) else { return };
        cx.wake_at(job.done, 0);
        self.media = Some(job);
    }

    /// What the head does next: zone management, then reads, then the cache; but reads do not keep writes waiting for ever.
    fn next_media(&mut self, now: Instant) -> Option<MediaJob> {
        if let Some(chore) = self.chores.front() {
            let zone = self.zones.geometry().zone_of(chore.bio.sector);
            // A finished zone is full for good: its data goes first.
            let waits = chore.bio.op == Op::ZoneFinish && self.pending_writes(zone).next().is_some();
            if !waits {
                return self.start_chore(now);
            }
            if self.cache.front(zone).is_some() {
                return self.destage(zone, now);
            }
        }
        let writes_first = self.reads_in_a_row >= READS_IN_A_ROW && !self.cache.is_clean();
        if !self.reads.is_empty() && !writes_first {
            self.reads_in_a_row += 1;
            return self.start_read(now);
        }
        self.reads_in_a_row = 0;
        let zone = self.choose_zone(now)?;
        self.destage(zone, now)
    }

    fn start_chore(&mut self, now: Instant) -> Option<MediaJob> {
        let command = self.chores.pop_front()?;
        let times = &self.config.manage;
        let time = if command.bio.op == Op::ZoneFinish { times.finish } else { times.reset };
        self.last = Last::Other;
        Some(MediaJob { done: now + time, work: MediaWork::Chore(command) })
    }

    /// The read that the head can begin first.
    fn start_read(&mut self, now: Instant) -> Option<MediaJob> {
        let begins =
            |command: &Command| self.mechanics.reach(&self.head, command.bio.sector, self.read_from(command, now));
        let nearest = self.reads.iter().enumerate().min_by_key(|(_, command)| (begins(command), command.number))?.0;
        let command = self.reads.swap_remove(nearest);
        let start = self.mechanics.reach(&self.head, command.bio.sector, self.read_from(&command, now));
        let end = start + self.mechanics.transfer(command.bio.sector, command.missing);
        self.head = Head { next: command.bio.sector + u64::from(command.missing), free_at: end };
        self.last = Last::Read;
        Some(MediaJob { done: end.max(now), work: MediaWork::Read(command) })
    }

    /// When the head can set out for a read: at once; or, where it has read ahead since the last one, back then.
    fn read_from(&self, command: &Command, now: Instant) -> Instant {
        let follows = self.last == Last::Read && command.bio.sector == self.head.next;
        if follows && self.config.cache.look_ahead_covers(now.since(self.head.free_at), self.config.media.outer_rate) {
            self.head.free_at
        } else {
            now
        }
    }

    /// The zone whose data goes to the medium next: the current one as long as its data goes on and its run is not too long
    /// for the others, else another one: that which has waited longest, or which the head reaches first.
    fn choose_zone(&mut self, now: Instant) -> Option<ZoneNo> {
        let run = if let Last::Run(zone, bytes) = self.last { Some((zone, bytes)) } else { None };
        if let Some((zone, bytes)) = run {
            let goes_on = self.cache.front(zone).is_some_and(|entry| entry.start == self.head.next);
            if goes_on && bytes < self.config.cache.run_bytes {
                return Some(zone);
            }
        }
        self.nearest_in_a_row += 1;
        let oldest = self.cache.fronts().min_by_key(|(_, entry)| entry.number)?.0;
        if !self.config.cache.nearest || self.nearest_in_a_row > NEAREST_IN_A_ROW {
            self.nearest_in_a_row = 0;
            return Some(oldest);
        }
        let over = |(zone, bytes)| bytes >= self.config.cache.run_bytes && zone != oldest;
        let left = run.filter(|run| over(*run)).map(|(zone, _)| zone);
        let begins = |entry: &CachedWrite| self.mechanics.reach(&self.head, entry.start, now);
        let first = |(zone, entry): &(ZoneNo, &CachedWrite)| (left == Some(*zone), begins(entry), entry.number);
        self.cache.fronts().min_by_key(first).map(|(zone, _)| zone)
    }

    fn destage(&mut self, zone: ZoneNo, now: Instant) -> Option<MediaJob> {
        let entry = self.cache.front(zone)?;
        let (sector, sectors) = (entry.start, entry.sectors);
        let start = self.mechanics.reach(&self.head, sector, now);
        let done = start + self.mechanics.transfer(sector, sectors);
        let run = match self.last {
            Last::Run(last, bytes) if last == zone && self.head.next == sector => bytes,
            _ => 0,
        };
        self.last = Last::Run(zone, run + u64::from(sectors) * 512);
        self.head = Head { next: sector + u64::from(sectors), free_at: done };
        Some(MediaJob { done, work: MediaWork::Destage(zone) })
    }

    pub(super) fn end_media(&mut self, job: MediaJob, cx: &mut Cx<'_>) {
        match job.work {
            MediaWork::Read(command) | MediaWork::Chore(command) => self.answers.push_back(command),
            MediaWork::Destage(zone) => {
                let entry = self.cache.pop(zone).expect("what the head has written was in the cache");
                if let Some(bio) = entry.waiter {
                    self.leave_queue();
                    cx.complete(bio, Status::Ok);
                }
            }
        }
    }

    /// Flushes for which everything older is on the medium, or in a cache that is non-volatile.
    fn answer_flushes(&mut self) {
        while let Some(flush) = self.flushes.front() {
            if !self.config.cache.is_durable() && self.cache.all().any(|entry| entry.number < flush.number) {
                return;
            }
            self.answers.extend(self.flushes.pop_front());
        }
    }
}
