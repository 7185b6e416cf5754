//! Zones that several jobs write, under fio's locks.
//!
//! ```text
//!  pick ──> lock ──> [limit reached: an open zone instead] ──> [full: reset] ──> write ──> done, unlocked
//!             └─ another job's: wait, and with it all I/O of this job
//! ```
//!
//! A job locks the zone of a write until the write is done; it may have many in one zone. A job that finds a zone locked sends
//! nothing more until it has the lock. So jobs on few zones take turns, and a zone that one job has filled is reset by the next
//! one that comes there (fio 3.x, `zbd.c`: `zone_lock`, `zbd_adjust_block`, `zbd_put_io`). Who waits for a lock gets it before
//! who gives it up takes it again.

use std::ops::Range;

use shingle_core::random::Rng;
use shingle_core::zone::ZoneNo;

use super::{State, Step, ZoneChoice, ZoneTable};

/// What jobs have to agree upon: who holds which zone, and which zones are open.
pub(super) struct Locks {
    zones: Vec<Lock>,
    /// Zones that are written, or will be as soon as they are reset.
    open: Vec<u32>,
    /// Most of them.
    most: usize,
    /// Counts the turns of the loop.
    turn: u64,
}

/// Held while I/O of its job is in flight in the zone.
#[derive(Clone, Copy, Default)]
struct Lock {
    job: u32,
    /// The turn in which the last I/O was done.
    released: u64,
    /// Whether another job wanted it meanwhile.
    wanted: bool,
}

/// The zones of the region as one of several jobs chooses among them.
pub struct SharedWriter {
    choice: ZoneChoice,
    job: u32,
    /// Where a job that writes in order is.
    at: u32,
    /// The zone that the job waits for.
    wanted: Option<u32>,
}

impl ZoneTable {
    /// Lets jobs share the zones, at most `most` of which they write at once. To be called before the first job is made.
    pub fn share(&mut self, most: u32) {
        let zones = vec![Lock::default(); self.zones.len()];
        self.locks = Some(Locks { zones, open: Vec::new(), most: most as usize, turn: 1 });
    }

    /// Whether jobs share the zones.
    pub fn is_shared(&self) -> bool {
        self.locks.is_some()
    }

    /// A turn of the loop begins.
    #[inline]
    pub fn begin_turn(&mut self) {
        if let Some(locks) = &mut self.locks {
            locks.turn += 1;
        }
    }

    /// A write to `zone` or its reset has failed: nobody knows its write pointer, and nobody is to wait for it.
    #[cold]
    pub fn give_up(&mut self, zone: ZoneNo) {
        let Some(locks) = &mut self.locks else { return };
        let slot = &mut self.zones[zone.index()];
        (slot.in_flight, slot.state) = (slot.in_flight.saturating_sub(1), State::Unusable);
        locks.open.retain(|open| *open != zone.0);
    }

    /// The last I/O in `zone` is done.
    pub(super) fn unlocked(&mut self, zone: ZoneNo) {
        if let Some(locks) = &mut self.locks {
            locks.zones[zone.index()].released = locks.turn;
        }
    }

    /// `zone` takes no more writes.
    pub(super) fn closed(&mut self, zone: ZoneNo) {
        if let Some(locks) = &mut self.locks {
            locks.open.retain(|open| *open != zone.0);
        }
    }

    fn lock(&mut self, zone: u32, job: u32) -> bool {
        let Some(locks) = &mut self.locks else { return true };
        let (lock, held) = (&mut locks.zones[zone as usize], self.zones[zone as usize].in_flight > 0);
        let others_first =
            lock.job != job && held || lock.job == job && !held && lock.wanted && lock.released == locks.turn;
        if others_first {
            lock.wanted |= lock.job != job;
            return false;
        }
        if !held {
            (lock.job, lock.wanted) = (job, false);
        }
        true
    }

    /// Whether `zone` is open now, and could be opened if not.
    fn open_shared(&mut self, zone: u32, room: bool) -> bool {
        let active = self.is_active(zone) && room;
        let Some(locks) = &mut self.locks else { return false };
        let slot = &mut self.zones[zone as usize];
        if slot.state != State::Free {
            return slot.state != State::Unusable;
        }
        if locks.open.len() >= locks.most || (!active && self.budget == 0) {
            return false;
        }
        if !active {
            self.budget -= u32::from(self.budget != u32::MAX);
        }
        slot.state = State::Ready;
        locks.open.push(zone);
        true
    }

    /// One of the open zones among `ours`, if there is one.
    fn any_open(&self, ours: Range<u32>, rng: &mut Rng) -> Option<u32> {
        let open = || self.locks.iter().flat_map(|locks| &locks.open).copied().filter(|zone| ours.contains(zone));
        let count = open().count() as u64;
        if count == 0 { None } else { open().nth(rng.below(count) as usize) }
    }
}

impl SharedWriter {
    /// A writer for job number `job` of those on the device. Zones that are partly written hold a resource of the device
    /// already: they are open from the start, as in fio.
    pub fn new(choice: ZoneChoice, job: u32, table: &mut ZoneTable) -> Self {
        for zone in choice.first..choice.first + choice.count {
            if table.is_active(zone) {
                table.open_shared(zone, true);
            }
        }
        Self { at: choice.first, choice, job, wanted: None }
    }

    /// Whether there is a zone that it may write now or later.
    pub fn can_write(&self, table: &ZoneTable) -> bool {
        let free = |zone: u32| table.zones[zone as usize].state == State::Free && table.budget > 0;
        self.ours().any(|zone| free(zone) || table.is_open(zone))
    }

    /// The zones of its region.
    fn ours(&self) -> Range<u32> {
        self.choice.first..self.choice.first + self.choice.count
    }

    /// Chooses the next write, and counts it as issued.
    pub fn next(&mut self, table: &mut ZoneTable, rng: &mut Rng) -> Step {
        let Some(zone) = self.wanted.filter(|zone| table.is_usable(*zone)).or_else(|| self.pick(table, rng)) else {
            return Step::Wait;
        };
        self.wanted = Some(zone);
        if !table.lock(zone, self.job) {
            return Step::Wait;
        }
        if table.open_shared(zone, table.has_room(zone, &self.choice)) {
            return self.enter(zone, table);
        }
        // As many zones are written as may be.
        let Some(other) = table.any_open(self.ours(), rng) else { return Step::Wait };
        self.wanted = Some(other);
        if table.lock(other, self.job) { self.enter(other, table) } else { Step::Wait }
    }

    /// The zone that a job comes to: the next one in order, or any.
    fn pick(&self, table: &ZoneTable, rng: &mut Rng) -> Option<u32> {
        let ZoneChoice { first, count, random, .. } = self.choice;
        let from = if random { rng.below(count.into()) as u32 } else { self.at - first };
        (0..count).map(|step| first + (from + step) % count).find(|zone| table.is_usable(*zone))
    }

    /// The job holds the lock of an open zone.
    fn enter(&mut self, number: u32, table: &mut ZoneTable) -> Step {
        let (zone, start, room) = (ZoneNo(number), table.start(ZoneNo(number)), table.has_room(number, &self.choice));
        let slot = &mut table.zones[number as usize];
        match slot.state {
            State::Ready if room => {
                let at = start + slot.issue(self.choice.write_sectors);
                self.wanted = None;
                self.at = number;
                if slot.state == State::Retired {
                    self.at = self.choice.first + (number + 1 - self.choice.first) % self.choice.count;
                }
                Step::Write { zone, at }
            }
            State::Ready if slot.in_flight == 0 => {
                (slot.state, slot.in_flight) = (State::Resetting, 1);
                Step::Reset(zone)
            }
            _ => Step::Wait,
        }
    }
}

impl ZoneTable {
    fn is_usable(&self, zone: u32) -> bool {
        self.zones[zone as usize].state != State::Unusable
    }

    fn is_open(&self, zone: u32) -> bool {
        !matches!(self.zones[zone as usize].state, State::Free | State::Unusable)
    }

    fn has_room(&self, zone: u32, choice: &ZoneChoice) -> bool {
        let slot = &self.zones[zone as usize];
        slot.capacity - slot.next >= choice.write_sectors
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ZONE, choice, table};
    use super::*;

    /// Two writers of 16 of 64 sectors on zones that they share.
    fn writers(table: &mut ZoneTable, random: bool) -> [SharedWriter; 2] {
        let choice = ZoneChoice { random, ..choice(table.zones.len() as u32, 1) };
        [0, 1].map(|job| SharedWriter::new(choice.clone(), job, table))
    }

    #[test]
    fn a_zone_is_locked_until_its_writes_are_done_and_goes_to_who_waits_for_it() {
        let mut table = table(&[0, 0], None);
        table.share(u32::MAX);
        let ([mut a, mut b], mut rng) = (writers(&mut table, false), Rng::new(1));
        let at = |zone, sector| Step::Write { zone: ZoneNo(zone), at: shingle_core::sector::Sector(sector) };
        assert_eq!(a.next(&mut table, &mut rng), at(0, 0));
        assert_eq!(a.next(&mut table, &mut rng), at(0, 16), "its own lock");
        assert_eq!(b.next(&mut table, &mut rng), Step::Wait);
        table.begin_turn();
        table.write_done(ZoneNo(0), 16);
        assert_eq!(b.next(&mut table, &mut rng), Step::Wait, "one more is in flight");
        table.write_done(ZoneNo(0), 16);
        assert_eq!(a.next(&mut table, &mut rng), Step::Wait, "another one waits for the lock");
        assert_eq!(b.next(&mut table, &mut rng), at(0, 32));
        table.begin_turn();
        table.write_done(ZoneNo(0), 16);
        table.begin_turn();
        assert_eq!(
            b.next(&mut table, &mut rng),
            at(0, 48),
            "who waited did not come for it in the turn of the release"
        );
    }

    #[test]
    fn a_zone_that_another_job_has_filled_is_reset_once_it_is_done() {
        let mut table = table(&[ZONE - 16, 0], None);
        table.share(u32::MAX);
        let ([mut a, mut b], mut rng) = (writers(&mut table, false), Rng::new(1));
        assert!(matches!(a.next(&mut table, &mut rng), Step::Write { zone: ZoneNo(0), .. }));
        assert!(matches!(a.next(&mut table, &mut rng), Step::Write { zone: ZoneNo(1), .. }), "it goes on");
        assert_eq!(b.next(&mut table, &mut rng), Step::Wait);
        table.write_done(ZoneNo(0), 16);
        assert_eq!(b.next(&mut table, &mut rng), Step::Reset(ZoneNo(0)));
        assert_eq!(b.next(&mut table, &mut rng), Step::Wait, "the reset is on its way");
        table.reset_done(ZoneNo(0));
        assert!(matches!(b.next(&mut table, &mut rng), Step::Write { zone: ZoneNo(0), .. }));
    }

    #[test]
    fn jobs_take_zones_that_are_open_when_no_more_may_be() {
        for (limit, most) in [(None, 1), (Some(1), u32::MAX)] {
            let mut table = table(&[0; 4], limit);
            table.share(most);
            let ([mut a, mut b], mut rng) = (writers(&mut table, true), Rng::new(7));
            let Step::Write { zone, .. } = a.next(&mut table, &mut rng) else { panic!("the first zone opens") };
            assert_eq!(b.next(&mut table, &mut rng), Step::Wait, "the only open zone is the other job's");
            table.write_done(zone, 16);
            assert!(matches!(b.next(&mut table, &mut rng), Step::Write { zone: other, .. } if other == zone));
        }
    }

    #[test]
    fn nobody_waits_for_a_zone_whose_write_has_failed() {
        let mut table = table(&[0, 0], None);
        table.share(u32::MAX);
        let ([mut a, mut b], mut rng) = (writers(&mut table, false), Rng::new(1));
        a.next(&mut table, &mut rng);
        assert_eq!(b.next(&mut table, &mut rng), Step::Wait);
        table.give_up(ZoneNo(0));
        assert!(matches!(b.next(&mut table, &mut rng), Step::Write { zone: ZoneNo(1), .. }));
    }
}
