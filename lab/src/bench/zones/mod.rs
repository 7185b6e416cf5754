//! Where the next zone write goes: fio's `zonemode=zbd` as a pure policy over what the generator knows of each zone.
//!
//! ```text
//!  free ── claim ──> [needs reset ── reset ──>] ready ── last write issued ──> retired ── writes done ──> free
//!                                                                                 └─ room left: finish ─┘
//! ```
//!
//! A single job, and jobs that verify, have zones of their own ([`ZoneWriter`]): so nothing disturbs their write pointers. Other
//! jobs share zones ([`SharedWriter`]). Jobs keep as many zones open as `--max_open_zones` says and never more than the device
//! has resources for: a zone gives its resource back when its last write is done, not when it is issued.

mod shared;

use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind, ZoneNo};

use self::shared::Locks;
pub use self::shared::SharedWriter;

/// What a job does with its next write slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write here.
    Write {
        /// The zone.
        zone: ZoneNo,
        /// The write pointer.
        at: Sector,
    },
    /// Reset this zone first; tell [`ZoneTable::reset_done`].
    Reset(ZoneNo),
    /// Nothing until something completes.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No job's.
    Free,
    /// Claimed; has to be reset when its last I/O is done.
    NeedsReset,
    /// The reset is on its way.
    Resetting,
    /// Takes writes.
    Ready,
    /// All its writes are issued.
    Retired,
    /// Not to be written: conventional, read-only or offline.
    Unusable,
}

/// 16 bytes, because random writes touch one after the other of all zones.
#[derive(Clone, Debug)]
struct ZoneSlot {
    /// Where the next write goes, from the zone's start.
    next: u32,
    /// What has been written for sure, from the zone's start.
    written: u32,
    capacity: u32,
    /// A zone belongs to one job, and a job has at most 65535 slots.
    in_flight: u16,
    state: State,
    /// Whether it was claimed in this pass.
    taken: bool,
}

/// The zones of one device as the generator knows them, shared by the jobs on that device.
pub struct ZoneTable {
    zones: Vec<ZoneSlot>,
    /// Zone sizes are powers of two.
    shift: u32,
    /// Most zones that the device has open or active at once.
    limit: Option<u32>,
    /// Zones that may still be opened before it is out of resources.
    budget: u32,
    /// Times that a zone became free: a job that found none looks again only when this moved.
    releases: u64,
    /// If jobs share the zones.
    locks: Option<Locks>,
}

impl ZoneTable {
    /// The zones of `report`, on a device with `limit` open or active zones.
    pub fn new(report: &[Zone], zone_sectors: u32, limit: Option<u32>) -> Self {
        let zones: Vec<ZoneSlot> = report.iter().map(ZoneSlot::new).collect();
        let active = report.iter().filter(|z| z.cond.is_active()).count() as u32;
        let budget = limit.map_or(u32::MAX, |limit| limit.saturating_sub(active));
        Self { zones, shift: zone_sectors.trailing_zeros(), limit, budget, releases: 0, locks: None }
    }

    /// The part of the device's resources that each of `jobs` may have.
    pub fn part(&self, jobs: u32) -> u32 {
        self.limit.map_or(u32::MAX, |limit| (limit / jobs).max(1))
    }

    /// The first sector of a zone.
    #[inline]
    pub fn start(&self, zone: ZoneNo) -> Sector {
        Sector(u64::from(zone.0) << self.shift)
    }

    /// Sectors of a zone that can be read.
    #[inline]
    pub fn written(&self, zone: ZoneNo) -> u32 {
        self.zones[zone.index()].written
    }

    /// A write to `zone` is done. `Some` if the zone is now to be finished, because its rest is too small for a write.
    #[inline]
    pub fn write_done(&mut self, zone: ZoneNo, sectors: u32) -> Option<ZoneNo> {
        let slot = &mut self.zones[zone.index()];
        slot.in_flight -= 1;
        // Completions of one zone come in order with a plug, so the sum of their lengths is what can be read.
        slot.written = (slot.written + sectors).min(slot.next);
        if slot.in_flight > 0 {
            return None;
        }
        let (retired, rest) = (slot.state == State::Retired, slot.next < slot.capacity);
        self.unlocked(zone);
        if retired && rest {
            return Some(zone);
        }
        if retired {
            self.release(zone);
        }
        None
    }

    /// `zone` is empty.
    pub fn reset_done(&mut self, zone: ZoneNo) {
        let slot = &mut self.zones[zone.index()];
        (slot.next, slot.written, slot.state) = (0, 0, State::Ready);
        slot.in_flight -= u16::from(self.locks.is_some());
        self.unlocked(zone);
    }

    /// `zone` is full or finished.
    pub fn release(&mut self, zone: ZoneNo) {
        self.zones[zone.index()].state = State::Free;
        self.budget = self.budget.saturating_add(1);
        self.releases += 1;
        self.closed(zone);
    }

    fn is_active(&self, zone: u32) -> bool {
        let slot = &self.zones[zone as usize];
        slot.state == State::Free && slot.next > 0 && slot.next < slot.capacity
    }
}

impl ZoneSlot {
    fn new(zone: &Zone) -> Self {
        let usable = zone.kind == ZoneKind::Sequential && zone.cond.has_write_pointer() || zone.cond == Condition::Full;
        let written = match zone.cond {
            Condition::Full | Condition::NotWp => zone.capacity as u32,
            cond if cond.has_write_pointer() => (zone.wp - zone.start) as u32,
            _ => 0,
        };
        let state = if usable { State::Free } else { State::Unusable };
        let capacity = zone.capacity as u32;
        Self { next: written, written, capacity, in_flight: 0, state, taken: false }
    }

    /// Counts a write as issued; returns where it goes, from the zone's start. The last one that fits retires the zone.
    #[inline]
    fn issue(&mut self, sectors: u32) -> u64 {
        let at = self.next;
        self.next += sectors;
        self.in_flight += 1;
        if self.capacity - self.next < sectors {
            self.state = State::Retired;
        }
        at.into()
    }
}

/// How one job chooses among the zones of its region.
#[derive(Clone, Debug)]
pub struct ZoneChoice {
    /// First zone of the region.
    pub first: u32,
    /// Zones in the region.
    pub count: u32,
    /// Most zones open at once.
    pub max_open: u32,
    /// Sectors of one write.
    pub write_sectors: u32,
    /// Whether each write goes to another open zone; otherwise a zone is filled before the next.
    pub random: bool,
    /// Whether every zone is reset before its first write and then written once a pass, as verification needs.
    pub from_empty: bool,
}

/// The zones that one job has open.
pub struct ZoneWriter {
    choice: ZoneChoice,
    open: Vec<u32>,
    /// The zone that is claimed next, from the region's start.
    cursor: u32,
    /// `ZoneTable::releases` when the last search for a free zone failed.
    seen: Option<u64>,
}

impl ZoneWriter {
    /// Claims the first zones: those that are partly written come first, as they hold a resource already.
    pub fn new(choice: ZoneChoice, table: &mut ZoneTable) -> Self {
        let mut writer = Self { open: Vec::with_capacity(choice.max_open as usize), cursor: 0, seen: None, choice };
        for zone in writer.choice.first..writer.choice.first + writer.choice.count {
            if writer.open.len() < writer.choice.max_open as usize && table.is_active(zone) {
                table.budget = table.budget.saturating_add(1);
                writer.claim(zone, table);
            }
        }
        writer.refill(table);
        writer
    }

    /// Starts another pass: every zone may be written again.
    pub fn start_pass(&mut self, table: &mut ZoneTable) {
        let ZoneChoice { first, count, .. } = self.choice;
        table.zones[first as usize..(first + count) as usize].iter_mut().for_each(|slot| slot.taken = false);
        self.seen = None;
    }

    /// Whether no zone of this pass is left to write.
    pub fn is_exhausted(&self, table: &ZoneTable) -> bool {
        self.choice.from_empty && self.open.is_empty() && self.next_free(table).is_none()
    }

    /// Zones open now.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Chooses the next write, and counts it as issued.
    #[inline(always)]
    pub fn next(&mut self, table: &mut ZoneTable, rng: &mut Rng) -> Step {
        if self.open.len() < self.choice.max_open as usize && self.seen != Some(table.releases) {
            self.refill(table);
        }
        if self.open.is_empty() {
            return Step::Wait;
        }
        let first = if self.choice.random { rng.below(self.open.len() as u64) as usize } else { 0 };
        match self.try_zone(first, table) {
            Step::Wait => self.try_others(first, table),
            step => step,
        }
    }

    /// The wanted zone is being reset or drained: any other open one will do, if writes go everywhere anyway.
    #[cold]
    fn try_others(&mut self, first: usize, table: &mut ZoneTable) -> Step {
        let others = if self.choice.random { self.open.len() } else { 1 };
        (1..others)
            .map(|step| (first + step) % others)
            .map(|place| self.try_zone(place, table))
            .find(|step| *step != Step::Wait)
            .unwrap_or(Step::Wait)
    }

    #[inline(always)]
    fn try_zone(&mut self, place: usize, table: &mut ZoneTable) -> Step {
        let number = self.open[place];
        let zone = ZoneNo(number);
        let start = table.start(zone);
        let slot = &mut table.zones[number as usize];
        match slot.state {
            State::Ready => {
                let at = start + slot.issue(self.choice.write_sectors);
                if slot.state == State::Retired {
                    self.open.swap_remove(place);
                }
                Step::Write { zone, at }
            }
            State::NeedsReset if slot.in_flight == 0 => {
                slot.state = State::Resetting;
                Step::Reset(zone)
            }
            _ => Step::Wait,
        }
    }

    fn refill(&mut self, table: &mut ZoneTable) {
        while self.open.len() < self.choice.max_open as usize && table.budget > 0 {
            let Some(zone) = self.next_free(table) else {
                self.seen = Some(table.releases);
                return;
            };
            self.cursor = (zone + 1 - self.choice.first) % self.choice.count;
            self.claim(zone, table);
        }
    }

    fn next_free(&self, table: &ZoneTable) -> Option<u32> {
        let ZoneChoice { first, count, from_empty, .. } = self.choice;
        (0..count).map(|step| first + (self.cursor + step) % count).find(|zone| {
            let slot = &table.zones[*zone as usize];
            slot.state == State::Free && !(from_empty && slot.taken)
        })
    }

    fn claim(&mut self, zone: u32, table: &mut ZoneTable) {
        let slot = &mut table.zones[zone as usize];
        let room = slot.capacity - slot.next >= self.choice.write_sectors;
        let as_it_is = room && (slot.next == 0 || !self.choice.from_empty);
        slot.state = if as_it_is { State::Ready } else { State::NeedsReset };
        slot.taken = true;
        table.budget -= u32::from(table.budget != u32::MAX);
        self.open.push(zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub const ZONE: u64 = 64;

    fn zone(number: u64, written: u64) -> Zone {
        let start = Sector(number * ZONE);
        let cond = match written {
            0 => Condition::Empty,
            ZONE => Condition::Full,
            _ => Condition::Closed,
        };
        Zone { start, len: ZONE, capacity: ZONE, wp: start + written, kind: ZoneKind::Sequential, cond }
    }

    pub fn choice(count: u32, max_open: u32) -> ZoneChoice {
        ZoneChoice { first: 0, count, max_open, write_sectors: 16, random: false, from_empty: false }
    }

    pub fn table(written: &[u64], limit: Option<u32>) -> ZoneTable {
        let zones: Vec<Zone> = written.iter().enumerate().map(|(n, w)| zone(n as u64, *w)).collect();
        ZoneTable::new(&zones, ZONE as u32, limit)
    }

    #[test]
    fn sequential_writes_fill_one_zone_after_the_other_at_any_depth() {
        let mut table = table(&[0, 0], None);
        let mut writer = ZoneWriter::new(choice(2, 1), &mut table);
        let mut rng = Rng::new(1);
        let places: Vec<u64> = (0..8)
            .map(|_| match writer.next(&mut table, &mut rng) {
                Step::Write { at, .. } => at.0,
                step => panic!("{step:?}"),
            })
            .collect();
        assert_eq!(places, [0, 16, 32, 48, 64, 80, 96, 112]);
        assert_eq!(writer.next(&mut table, &mut rng), Step::Wait, "all zones wait for their writes");
    }

    #[test]
    fn a_full_zone_is_reset_before_it_is_written_again() {
        let mut table = table(&[ZONE], None);
        let mut writer = ZoneWriter::new(choice(1, 1), &mut table);
        let mut rng = Rng::new(1);
        assert_eq!(writer.next(&mut table, &mut rng), Step::Reset(ZoneNo(0)));
        assert_eq!(writer.next(&mut table, &mut rng), Step::Wait, "the reset is on its way");
        table.reset_done(ZoneNo(0));
        assert!(matches!(writer.next(&mut table, &mut rng), Step::Write { at: Sector(0), .. }));
    }

    #[test]
    fn the_next_zone_opens_only_when_the_device_has_a_resource_for_it() {
        let mut table = table(&[0, 0, 0], Some(1));
        let mut writer = ZoneWriter::new(choice(3, 3), &mut table);
        let mut rng = Rng::new(1);
        assert_eq!(writer.open(), 1);
        for _ in 0..4 {
            assert!(matches!(writer.next(&mut table, &mut rng), Step::Write { zone: ZoneNo(0), .. }));
        }
        assert_eq!(writer.next(&mut table, &mut rng), Step::Wait, "four writes of zone 0 are in flight");
        for _ in 0..4 {
            assert_eq!(table.write_done(ZoneNo(0), 16), None);
        }
        assert!(matches!(writer.next(&mut table, &mut rng), Step::Write { zone: ZoneNo(1), .. }));
    }

    #[test]
    fn a_zone_with_a_rest_too_small_for_a_write_is_finished() {
        let mut zones = [zone(0, 0)];
        zones[0].capacity = 40;
        let mut table = ZoneTable::new(&zones, ZONE as u32, Some(1));
        let mut writer = ZoneWriter::new(choice(1, 1), &mut table);
        let mut rng = Rng::new(1);
        writer.next(&mut table, &mut rng);
        writer.next(&mut table, &mut rng);
        assert_eq!(table.write_done(ZoneNo(0), 16), None);
        assert_eq!(table.write_done(ZoneNo(0), 16), Some(ZoneNo(0)));
        assert_eq!(writer.next(&mut table, &mut rng), Step::Wait, "the finish is on its way");
        table.release(ZoneNo(0));
        assert_eq!(writer.next(&mut table, &mut rng), Step::Reset(ZoneNo(0)));
    }

    #[test]
    fn partly_written_zones_are_continued_first_unless_everything_has_to_start_empty() {
        let mut fresh = table(&[0, 32, 0], Some(1));
        let mut writer = ZoneWriter::new(choice(3, 1), &mut fresh);
        assert!(matches!(writer.next(&mut fresh, &mut Rng::new(1)), Step::Write { at: Sector(96), .. }));
        let mut fresh = table(&[0, 32, 0], Some(1));
        let mut writer = ZoneWriter::new(ZoneChoice { from_empty: true, ..choice(3, 1) }, &mut fresh);
        assert_eq!(writer.next(&mut fresh, &mut Rng::new(1)), Step::Reset(ZoneNo(1)));
    }

    #[test]
    fn two_jobs_with_zones_of_their_own_never_write_the_same_zone() {
        let mut table = table(&[0; 8], None);
        let random = |first| ZoneChoice { first, random: true, ..choice(8 - first, 4) };
        let mut writers = [ZoneWriter::new(random(0), &mut table), ZoneWriter::new(random(0), &mut table)];
        let mut rng = Rng::new(3);
        let mut owner = [None; 8];
        for turn in 0..32 {
            let job = turn % 2;
            if let Step::Write { zone, .. } = writers[job].next(&mut table, &mut rng) {
                assert_eq!(*owner[zone.index()].get_or_insert(job), job, "zone {zone}");
            }
        }
    }

    #[test]
    fn random_writes_go_on_in_other_zones_while_one_is_reset() {
        let mut table = table(&[ZONE, 0], None);
        let mut writer = ZoneWriter::new(ZoneChoice { random: true, ..choice(2, 2) }, &mut table);
        let mut rng = Rng::new(1);
        let steps: Vec<Step> = (0..5).map(|_| writer.next(&mut table, &mut rng)).collect();
        assert_eq!(steps.iter().filter(|s| matches!(s, Step::Reset(ZoneNo(0)))).count(), 1, "{steps:?}");
        assert_eq!(steps.iter().filter(|s| matches!(s, Step::Write { zone: ZoneNo(1), .. })).count(), 4, "{steps:?}");
    }

    #[test]
    fn only_writable_sequential_zones_are_written() {
        let mut zones = [zone(0, 0), zone(1, 0), zone(2, 0)];
        (zones[0].kind, zones[0].cond) = (ZoneKind::Conventional, Condition::NotWp);
        zones[1].cond = Condition::ReadOnly;
        let mut table = ZoneTable::new(&zones, ZONE as u32, None);
        let mut writer = ZoneWriter::new(choice(3, 3), &mut table);
        assert!(matches!(writer.next(&mut table, &mut Rng::new(1)), Step::Write { zone: ZoneNo(2), .. }));
        assert_eq!(table.written(ZoneNo(0)), ZONE as u32, "a conventional zone can be read everywhere");
    }
}
