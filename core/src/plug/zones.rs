//! What the host knows of each zone: eight bytes.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::block::{Bio, Op, Reason, Why};
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::{Condition, Zone, ZoneError, ZoneFault, ZoneKind, ZoneNo};

/// A zone's record: the write pointer's offset, and bits.
///
/// The offset advances when a write is issued, not when it completes: it is the next position that may be written.
/// A full zone has it at its capacity, however it became full.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) wp: u32,
    bits: u32,
}

/// What kind of zone it is, as far as writes care. Read-only and offline are for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Conventional,
    Sequential,
    ReadOnly,
    Offline,
}

/// The single bits of a record.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Bit {
    /// A command that the zone's order depends on is in flight.
    Busy = 1 << 2,
    /// A write failed and nobody has told where the write pointer is.
    Lost = 1 << 3,
    /// The write in flight is an append.
    Append = 1 << 4,
    /// The write in flight carries others.
    Merged = 1 << 5,
}

const SLOT_SHIFT: u32 = 8;

/// The bits of a sequential zone in which nothing happens.
const IDLE: u32 = Class::Sequential as u32;

/// Zones with a slot at once, at most.
pub(super) const MAX_SLOTS: usize = (u32::MAX >> SLOT_SHIFT) as usize;

impl Record {
    fn new(class: Class, wp: u32) -> Self {
        Self { wp, bits: class as u32 }
    }

    #[inline]
    pub(super) fn class(self) -> Class {
        match self.bits & 3 {
            0 => Class::Conventional,
            1 => Class::Sequential,
            2 => Class::ReadOnly,
            _ => Class::Offline,
        }
    }

    #[inline]
    pub(super) fn is(self, bit: Bit) -> bool {
        self.bits & bit as u32 != 0
    }

    #[inline]
    pub(super) fn set(&mut self, bit: Bit, on: bool) {
        if on { self.bits |= bit as u32 } else { self.bits &= !(bit as u32) }
    }

    /// The zone's place among the slots.
    #[inline]
    pub(super) fn slot(self) -> Option<usize> {
        ((self.bits >> SLOT_SHIFT) as usize).checked_sub(1)
    }

    pub(super) fn set_slot(&mut self, slot: Option<usize>) {
        let number = slot.map_or(0, |slot| slot as u32 + 1);
        self.bits = self.bits & ((1 << SLOT_SHIFT) - 1) | number << SLOT_SHIFT;
    }
}

/// The records of a device's zones.
pub(super) struct Zones {
    records: Vec<Record>,
    shift: u32,
    capacity: u32,
    last_capacity: u32,
    /// Zones with a busy bit.
    pub(super) busy: u32,
    /// Of zones of which a write failed, the first failure: it means something only while nobody knows the write pointer.
    losses: BTreeMap<ZoneNo, Arc<Why>>,
}

impl Zones {
    /// Zones of which nothing is known yet.
    pub(super) fn unknown(zone_sectors: u32) -> Self {
        let shift = zone_sectors.trailing_zeros();
        let (records, losses) = (Vec::new(), BTreeMap::new());
        Self { records, shift, capacity: zone_sectors, last_capacity: zone_sectors, busy: 0, losses }
    }

    /// The zones of a full report of a device of `capacity` sectors (`block/blk-zoned.c:blk_revalidate_disk_zones`).
    pub(super) fn from_report(report: &[Zone], zone_sectors: u32, capacity: u64) -> Result<Self, String> {
        let mut zones = Self::unknown(zone_sectors);
        zones.records.reserve_exact(report.len());
        let expected = capacity.div_ceil(u64::from(zone_sectors));
        if report.len() as u64 != expected {
            return Err(format!("the device reports {} zones where its size needs {expected}", report.len()));
        }
        let mut common = None;
        for (index, zone) in report.iter().enumerate() {
            let last = index + 1 == report.len();
            check_shape(index, zone, zone_sectors, capacity, last)?;
            if zone.kind == ZoneKind::Sequential && !last && *common.get_or_insert(zone.capacity) != zone.capacity {
                return Err(format!("zone {index} has a capacity of {} sectors, others have another", zone.capacity));
            }
            zones.records.push(Record::new(class(zone), offset(zone)));
        }
        zones.last_capacity = report.last().map_or(zone_sectors, |zone| zone.capacity as u32);
        zones.capacity = common.unwrap_or(zones.last_capacity.into()) as u32;
        Ok(zones)
    }

    #[inline]
    pub(super) fn zone_of(&self, sector: Sector) -> ZoneNo {
        ZoneNo((sector.0 >> self.shift) as u32)
    }

    #[inline]
    pub(super) fn start(&self, zone: ZoneNo) -> Sector {
        Sector(u64::from(zone.0) << self.shift)
    }

    #[inline]
    pub(super) fn offset(&self, sector: Sector) -> u32 {
        (sector.0 & ((1 << self.shift) - 1)) as u32
    }

    #[inline]
    pub(super) fn capacity_of(&self, zone: ZoneNo) -> u32 {
        if zone.index() + 1 == self.records.len() { self.last_capacity } else { self.capacity }
    }

    #[inline]
    pub(super) fn at(&self, zone: ZoneNo) -> Record {
        self.records[zone.index()]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, zone: ZoneNo) -> &mut Record {
        &mut self.records[zone.index()]
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ZoneNo, Record)> {
        self.records.iter().enumerate().map(|(index, record)| (ZoneNo(index as u32), *record))
    }

    #[inline]
    pub(super) fn set_busy(&mut self, zone: ZoneNo, busy: bool) {
        let record = &mut self.records[zone.index()];
        debug_assert_ne!(record.is(Bit::Busy), busy, "zone {zone}: busy twice or free twice");
        record.set(Bit::Busy, busy);
        if busy { self.busy += 1 } else { self.busy -= 1 }
    }

    /// The common case in a few comparisons: takes the write if its zone is idle and it lines up.
    #[inline]
    pub(super) fn take_if_idle(&mut self, sector: Sector, sectors: u32) -> Option<(ZoneNo, u32)> {
        let (zone, offset) = (self.zone_of(sector), self.offset(sector));
        let capacity = self.capacity_of(zone);
        let record = self.records.get_mut(zone.index())?;
        if record.bits != IDLE || record.wp != offset || sectors > capacity.saturating_sub(offset) {
            return None;
        }
        record.wp += sectors;
        record.bits = IDLE | Bit::Busy as u32;
        self.busy += 1;
        Some((zone, offset))
    }

    /// The common case of a completion: sets the zone free if nothing waits, rides or is noted in it.
    #[inline]
    pub(super) fn free_if_alone(&mut self, zone: ZoneNo) -> bool {
        let record = &mut self.records[zone.index()];
        let alone = record.bits == IDLE | Bit::Busy as u32;
        if alone {
            record.bits = IDLE;
            self.busy -= 1;
        }
        alone
    }

    /// Where a write of `sectors` goes: it must start at the write pointer and end within the zone's capacity. An append
    /// starts there by definition. The device is not asked, so a refusal leaves the zone as it was.
    #[inline]
    pub(super) fn place(&self, zone: ZoneNo, op: Op, sector: Sector, sectors: u32) -> Result<u32, ZoneFault> {
        let record = self.at(zone);
        let lines_up = op == Op::ZoneAppend || self.offset(sector) == record.wp;
        let fits = sectors <= self.capacity_of(zone).saturating_sub(record.wp);
        if lines_up && fits && record.class() == Class::Sequential && !record.is(Bit::Lost) {
            Ok(record.wp)
        } else {
            Err(self.fault(zone, lines_up))
        }
    }

    /// Which rule the zone's next write breaks, which begins at the write pointer if it `lines_up`; `Lost` is not for here.
    #[cold]
    pub(super) fn fault(&self, zone: ZoneNo, lines_up: bool) -> ZoneFault {
        let record = self.at(zone);
        let left = self.capacity_of(zone).saturating_sub(record.wp);
        let (error, cond) = match record.class() {
            Class::Conventional => (ZoneError::Conventional, Some(Condition::NotWp)),
            Class::ReadOnly => (ZoneError::ReadOnly, Some(Condition::ReadOnly)),
            Class::Offline => (ZoneError::Offline, Some(Condition::Offline)),
            Class::Sequential if left == 0 => (ZoneError::Full, Some(Condition::Full)),
            Class::Sequential if !lines_up => (ZoneError::NotAtWritePointer, None),
            Class::Sequential => (ZoneError::BeyondCapacity, None),
        };
        ZoneFault { error, zone, cond, pointer: self.start(zone) + u64::from(record.wp), left, held: (0, 0) }
    }

    /// Why a write does not go down that the zone's record does not allow.
    #[cold]
    pub(super) fn refusal(&self, fault: ZoneFault) -> Reason {
        if !self.at(fault.zone).is(Bit::Lost) {
            return fault.into();
        }
        Reason::PointerUnknown { zone: fault.zone, since: self.losses.get(&fault.zone).cloned() }
    }

    /// Nobody knows where the write pointer is, since `bio` failed.
    #[cold]
    pub(super) fn lose(&mut self, zone: ZoneNo, bio: &Bio) {
        let record = &mut self.records[zone.index()];
        if let Some(why) = bio.why().filter(|_| !record.is(Bit::Lost)) {
            match self.losses.get_mut(&zone).and_then(Arc::get_mut) {
                Some(known) => known.clone_from(why),
                None => drop(self.losses.insert(zone, Arc::new(why.clone()))),
            }
        }
        record.set(Bit::Lost, true);
    }

    /// The same of zone management, which can have met a zone without a pointer.
    #[cold]
    pub(super) fn doubt(&mut self, zone: ZoneNo, bio: &Bio) {
        if self.at(zone).class() == Class::Sequential {
            self.lose(zone, bio);
        }
    }

    /// Nobody knows where any write pointer is.
    #[cold]
    pub(super) fn lose_all(&mut self) {
        self.losses.clear();
        let sequential = self.records.iter_mut().filter(|record| record.class() == Class::Sequential);
        sequential.for_each(|record| record.set(Bit::Lost, true));
    }

    /// Applies a successful reset, finish or reset all.
    pub(super) fn manage(&mut self, op: Op, zone: ZoneNo) {
        let full = self.capacity_of(zone);
        let record = &mut self.records[zone.index()];
        if record.class() != Class::Sequential {
            return;
        }
        match op {
            Op::ZoneReset | Op::ZoneResetAll => record.wp = 0,
            Op::ZoneFinish => record.wp = full,
            _ => return,
        }
        record.set(Bit::Lost, false);
    }

    /// Learns a zone from a report that no change is newer than. Whatever the host believed, the device knows.
    pub(super) fn learn(&mut self, reported: &Zone) {
        let zone = self.zone_of(reported.start);
        let Some(record) = self.records.get_mut(zone.index()) else { return };
        if record.is(Bit::Busy) || class(reported) == Class::Conventional {
            return;
        }
        let slot = record.slot();
        *record = Record::new(class(reported), offset(reported));
        record.set_slot(slot);
    }

    /// The condition as the kernel's cached report would give it: what is open or closed only the device knows.
    pub(super) fn condition(&self, zone: ZoneNo) -> &'static str {
        let record = self.at(zone);
        match record.class() {
            Class::Conventional => Condition::NotWp.name(),
            Class::ReadOnly => Condition::ReadOnly.name(),
            Class::Offline => Condition::Offline.name(),
            Class::Sequential if record.wp == 0 => Condition::Empty.name(),
            Class::Sequential if record.wp >= self.capacity_of(zone) => Condition::Full.name(),
            Class::Sequential => "ACTIVE",
        }
    }
}

fn class(zone: &Zone) -> Class {
    match (zone.kind, zone.cond) {
        (ZoneKind::Conventional, _) => Class::Conventional,
        (_, Condition::ReadOnly) => Class::ReadOnly,
        (_, Condition::Offline) => Class::Offline,
        _ => Class::Sequential,
    }
}

/// The offset of the next write; a sequential zone that takes none has it at its capacity.
fn offset(zone: &Zone) -> u32 {
    if zone.kind == ZoneKind::Conventional {
        return 0;
    }
    let in_range = zone.wp.0.saturating_sub(zone.start.0).min(zone.capacity);
    if zone.cond.has_write_pointer() { in_range as u32 } else { zone.capacity as u32 }
}

fn check_shape(index: usize, zone: &Zone, zone_sectors: u32, capacity: u64, last: bool) -> Result<(), String> {
    let start = index as u64 * u64::from(zone_sectors);
    let len = if last { capacity - start } else { zone_sectors.into() };
    if zone.start.0 != start || zone.len != len {
        let (at, is) = (zone.start, zone.len);
        return Err(format!("zone {index} is reported as {is} sectors at {at}; expected are {len} at {start}"));
    }
    let whole = zone.kind == ZoneKind::Conventional;
    if zone.capacity == 0 || zone.capacity > len || whole && zone.capacity != len {
        return Err(format!("zone {index} of {len} sectors reports a capacity of {}", zone.capacity));
    }
    if whole != (zone.cond == Condition::NotWp) {
        return Err(format!("zone {index} reports the condition {} for a zone of its type", zone.cond.name()));
    }
    let offset = zone.wp.0.wrapping_sub(zone.start.0);
    if zone.cond.has_write_pointer() && offset > zone.capacity {
        return Err(format!("zone {index} reports its write pointer at {}, outside of the zone", zone.wp));
    }
    Ok(())
}
