//! A device that does nothing, fast; or, backed by memory, exactly what a disk should do.
//!
//! It is the counterpart of the kernel's `null_blk`. A bio takes effect when it arrives, and completes after the
//! configured time, in order of arrival. So with a completion time:
//!
//! - a write is checked against the write pointer as the writes that arrived before it left it, whether those have
//!   completed or not, and moves it at once;
//! - data can be read from the moment of arrival on, and surely after completion;
//! - a zone that is reset while a write is in flight is empty at once. The write still completes as it would have, and its
//!   data is gone: as if it had completed first. Nothing lands in the zone afterwards.
//!
//! A bad block is found after the zone was opened for the write, so a failed first write leaves its zone open and empty.
//! Nothing here forgets data by itself: with a write cache, a flush finds everything durable already, and so do FUA and
//! PREFLUSH.

mod config;

use alloc::collections::VecDeque;
use core::fmt;
use core::ops::Range;

pub use config::{NullConfig, NullConfigError, NullZones};

use super::bad_blocks::BadBlocks;
use super::memory::SparseMemory;
use crate::block::{Bio, BlockDevice, Cx, Event, Limits, Op, Payload, Reason, Refusal, Status, Survival};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::{Duration, Instant};
use crate::zone::{Zone, ZoneError, ZoneGeometry, ZoneNo, ZoneState, ZonedDisk};

/// The device.
pub struct NullDevice {
    limits: Limits,
    zones: Option<ZonedDisk>,
    memory: Option<SparseMemory>,
    bad: BadBlocks,
    bad_once: bool,
    bad_partial: bool,
    completion: Duration,
    in_flight: VecDeque<InFlight>,
}

/// A bio that has taken effect and waits for its time.
struct InFlight {
    due: Instant,
    bio: Box<Bio>,
    status: Status,
}

impl NullDevice {
    /// A device with these parameters.
    pub fn new(config: &NullConfig) -> Result<Self, NullConfigError> {
        let limits = config.limits()?;
        let mut bad = BadBlocks::default();
        config.bad_blocks.iter().cloned().for_each(|range| bad.add(range));
        Ok(Self {
            zones: config.zoned.as_ref().map(|zones| new_zones(zones, limits.capacity)).transpose()?,
            memory: config.memory_backed.then(|| SparseMemory::new(config.unwritten)),
            limits,
            bad,
            bad_once: config.bad_blocks_once,
            bad_partial: config.bad_blocks_partial_io,
            completion: config.completion,
            in_flight: VecDeque::with_capacity(if config.completion == Duration::ZERO { 0 } else { 256 }),
        })
    }

    /// The zones, for inspection; `None` on a regular device.
    #[must_use]
    pub fn zones(&self) -> Option<&ZonedDisk> {
        self.zones.as_ref()
    }

    /// The state of a zone of a zoned device, for tests.
    ///
    /// # Panics
    /// If the device is regular or has no such zone.
    #[must_use]
    pub fn zone(&self, zone: ZoneNo) -> Zone {
        self.zones.as_ref().expect("a zoned device").zone(zone)
    }

    /// Writes, appends and zeroings of `zone` that have arrived and not completed, for tests.
    #[must_use]
    pub fn writes_in_flight(&self, zone: ZoneNo) -> usize {
        let lands_in = |bio: &Bio| self.zones.as_ref().is_some_and(|zones| zones.zone_at(bio.sector) == Ok(zone));
        self.in_flight.iter().filter(|waiting| waiting.bio.op.writes_data() && lands_in(&waiting.bio)).count()
    }

    /// Bytes of memory that the data takes; 0 if it is not kept.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, SparseMemory::bytes)
    }

    /// Makes a zone read-only: what was written stays readable.
    pub fn set_read_only(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.zones.as_mut().ok_or(ZoneError::NoSuchZone)?.set_read_only(zone)
    }

    /// Makes a zone offline: it cannot be accessed.
    pub fn set_offline(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.zones.as_mut().ok_or(ZoneError::NoSuchZone)?.set_offline(zone)
    }

    /// Makes a read-only or offline zone empty and usable again; its data is gone.
    pub fn revive(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        let zones = self.zones.as_mut().ok_or(ZoneError::NoSuchZone)?;
        zones.revive(zone)?;
        discard_zone(&mut self.memory, zones.geometry(), zone);
        Ok(())
    }

    /// Makes sectors bad, beside those of the parameters.
    pub fn add_bad_blocks(&mut self, range: Range<Sector>) {
        self.bad.add(range);
    }

    /// Makes sectors good.
    pub fn remove_bad_blocks(&mut self, range: Range<Sector>) {
        self.bad.remove(range);
    }
}

fn new_zones(config: &NullZones, capacity: u64) -> Result<ZonedDisk, NullConfigError> {
    let geometry = config.geometry(capacity)?;
    let limits = config.resources(&geometry)?;
    let full = |zone| ZoneState::full(geometry.capacity_of(zone));
    let mut zones = if config.zone_full {
        ZonedDisk::restore(geometry, limits, full).expect("full zones can be at any limit")
    } else {
        ZonedDisk::new(geometry, limits)
    };
    config.read_only.iter().for_each(|zone| zones.set_read_only(*zone).expect("checked with the parameters"));
    config.offline.iter().for_each(|zone| zones.set_offline(*zone).expect("checked with the parameters"));
    Ok(zones)
}

fn discard_zone(memory: &mut Option<SparseMemory>, geometry: &ZoneGeometry, zone: ZoneNo) {
    if let Some(memory) = memory {
        memory.discard(geometry.start(zone), geometry.len(zone));
    }
}

impl BlockDevice for NullDevice {
    fn survival(&self) -> Survival {
        Survival::Nothing
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline]
    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        let status = match self.execute(&mut bio) {
            Ok(()) => Status::Ok,
            Err(refusal) => self.refuse(&mut bio, refusal),
        };
        if self.completion == Duration::ZERO {
            cx.complete(bio, status);
        } else {
            self.complete_later(bio, status, cx);
        }
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        while let Some(InFlight { bio, status, .. }) = self.in_flight.pop_front_if(|next| next.due <= cx.now()) {
            cx.complete(bio, status);
        }
        if let Some(next) = self.in_flight.front() {
            cx.wake_at(next.due, 0);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.in_flight.iter().for_each(|waiting| visit(&waiting.bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Limits { capacity, logical_block_bytes, .. } = self.limits;
        write!(out, "null: {capacity} sectors, {logical_block_bytes}-byte blocks")?;
        if let Some(geometry) = self.zones.as_ref().map(ZonedDisk::geometry) {
            let (zones, conventional) = (geometry.zones(), geometry.conventional());
            write!(out, ", {zones} zones of {} sectors ({conventional} conventional)", geometry.zone_sectors())?;
        }
        if self.memory.is_some() {
            out.write_str(", memory-backed")?;
        }
        if self.completion != Duration::ZERO {
            write!(out, ", completes after {} ns", self.completion.as_nanos())?;
        }
        Ok(())
    }
}

/// What a bio does to the device, at once. What a device that keeps nothing never needs stays out of line, so that the
/// rest is as short as a speed baseline should be.
impl NullDevice {
    #[inline(never)]
    fn complete_later(&mut self, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        let due = cx.now() + self.completion;
        if self.in_flight.is_empty() {
            cx.wake_at(due, 0);
        }
        self.in_flight.push_back(InFlight { due, bio, status });
    }

    /// Notes why a bio is not done, and returns its status.
    #[cold]
    #[inline(never)]
    fn refuse(&self, bio: &mut Bio, refusal: Refusal) -> Status {
        let (zones, at) = (self.zones.as_ref(), bio.sector);
        bio.blame(match refusal {
            Refusal::Zone(error) => zones.map_or(Reason::NotZoned, |zones| zones.fault(at, error).into()),
            Refusal::Other(reason) => *reason,
        })
    }

    #[inline]
    fn execute(&mut self, bio: &mut Bio) -> Result<(), Refusal> {
        match bio.op {
            Op::Read => self.read(bio),
            Op::Write | Op::ZoneAppend | Op::WriteZeroes => self.write(bio),
            Op::Flush => Ok(()),
            _ => self.execute_rare(bio),
        }
    }

    #[inline]
    fn read(&mut self, bio: &Bio) -> Result<(), Refusal> {
        if let Some(zones) = &self.zones {
            zones.check_read(bio.sector)?;
        }
        if self.keeps_nothing() { Ok(()) } else { self.fetch(bio) }
    }

    #[inline]
    fn write(&mut self, bio: &mut Bio) -> Result<(), Refusal> {
        let Some(zones) = &mut self.zones else { return if self.keeps_nothing() { Ok(()) } else { self.store(bio).1 } };
        let nothing_kept = self.bad.is_empty() && self.memory.is_none();
        if nothing_kept && bio.op == Op::Write && zones.extend(bio.sector, bio.sectors) {
            return Ok(());
        }
        let zone = match bio.op {
            Op::ZoneAppend => begin_append(zones, &self.limits, bio)?,
            _ => zones.begin_write(bio.sector, bio.sectors)?,
        };
        if nothing_kept {
            zones.advance(zone, bio.sectors);
            return Ok(());
        }
        let (good, outcome) = self.store(bio);
        if let Some(zones) = &mut self.zones {
            zones.advance(zone, good);
        }
        outcome
    }

    /// Whether data just disappears: the device is there for its speed.
    #[inline]
    fn keeps_nothing(&self) -> bool {
        self.memory.is_none() && self.bad.is_empty()
    }

    /// Takes data from the medium.
    #[inline(never)]
    fn fetch(&mut self, bio: &Bio) -> Result<(), Refusal> {
        let (good, outcome) = self.find_good_part(bio);
        if let Some(memory) = &self.memory {
            memory.read(bio.sector, good, &bio.payload);
        }
        outcome
    }

    /// Puts data on the medium; returns how many sectors arrived there, and what becomes of the bio.
    #[inline(never)]
    fn store(&mut self, bio: &Bio) -> (u32, Result<(), Refusal>) {
        let (good, outcome) = self.find_good_part(bio);
        let Some(memory) = &mut self.memory else { return (good, outcome) };
        let stored = match bio.op {
            Op::WriteZeroes => memory.zero(bio.sector, good),
            _ => memory.try_write(bio.sector, good, &bio.payload),
        };
        match stored {
            Ok(()) => (good, outcome),
            Err(reason) => (0, Err(reason.into())),
        }
    }

    /// How many sectors of `bio` the medium takes or gives, and what becomes of the bio.
    fn find_good_part(&mut self, bio: &Bio) -> (u32, Result<(), Refusal>) {
        let Some(bad) = self.bad.first_in(bio.sector, bio.sectors) else { return (bio.sectors, Ok(())) };
        if self.bad_once {
            self.bad.remove(bad.clone());
        }
        if !self.bad_partial {
            return (0, Err(Reason::BadSector(bad.start).into()));
        }
        let before = bad.start.0.saturating_sub(bio.sector.0) as u32;
        (before - before % self.limits.block_sectors(), Err(Reason::BadSector(bad.start).into()))
    }

    #[inline(never)]
    fn execute_rare(&mut self, bio: &mut Bio) -> Result<(), Refusal> {
        let memory = &mut self.memory;
        if bio.op == Op::Discard {
            memory.iter_mut().for_each(|memory| memory.discard(bio.sector, bio.sectors));
            return Ok(());
        }
        let zones = self.zones.as_mut().ok_or(Reason::NotSupported)?;
        match bio.op {
            Op::ReportZones => return report(zones, bio),
            Op::ZoneOpen => zones.open(zones.zone_at(bio.sector)?)?,
            Op::ZoneClose => zones.close(zones.zone_at(bio.sector)?)?,
            Op::ZoneFinish => zones.finish(zones.zone_at(bio.sector)?)?,
            Op::ZoneReset => {
                let zone = zones.zone_at(bio.sector)?;
                zones.reset(zone)?;
                discard_zone(memory, zones.geometry(), zone);
            }
            _ => {
                let geometry = *zones.geometry();
                zones.reset_all(|zone| discard_zone(memory, &geometry, zone));
            }
        }
        Ok(())
    }
}

/// Opens the zone for an append and tells the bio where it goes, if the device appends at all.
#[inline]
fn begin_append(zones: &mut ZonedDisk, limits: &Limits, bio: &mut Bio) -> Result<ZoneNo, Refusal> {
    limits.zoned.as_ref().and_then(|zoned| zoned.max_append).ok_or(Reason::NotSupported)?;
    let zone = zones.zone_at(bio.sector)?;
    bio.sector = zones.begin_append(zone, bio.sectors)?;
    Ok(zone)
}

fn report(zones: &ZonedDisk, bio: &mut Bio) -> Result<(), Refusal> {
    let Payload::Zones(report) = &mut bio.payload else { return Err(Reason::NoRoom.into()) };
    let room = report.capacity() - report.len();
    report.extend(zones.zones(bio.sector).take(room));
    Ok(())
}
