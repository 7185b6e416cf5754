//! What a disk holds, and what each command does to it: without time, queues and faults.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use super::journal::{Content, Image, SECTOR_WORDS, ZoneStore};
use super::{CrashConfig, Left, Medium};
use crate::choices::Choices;
use shingle_core::block::{Bio, Limits, Op, Payload, Reason, Refusal};
use shingle_core::device::bad_blocks::BadBlocks;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, ZoneGeometry, ZoneKind, ZoneNo, ZoneState, ZonedDisk};

/// The zones of a disk, what they hold, and what of it a loss of power can undo.
#[derive(Clone)]
pub(super) struct Platter {
    pub geometry: ZoneGeometry,
    pub limits: Limits,
    pub zones: ZonedDisk,
    pub stores: Vec<ZoneStore>,
    /// Changes of the medium so far.
    pub changes: u64,
    /// Times that something was made different from what was written.
    pub damages: u64,
    /// Blocks of the volume whose data is different from what was written.
    pub damaged: BTreeSet<u32>,
    /// The word of which unwritten sectors are full.
    pub unwritten: u64,
    fua_alone: bool,
}

impl Platter {
    /// One whose zones hold this; those that were open are closed.
    pub fn new(config: &CrashConfig, limits: Limits, (left, damages): (Vec<(Image, Condition)>, u64)) -> Self {
        let geometry = config.geometry;
        let state = |zone: ZoneNo| {
            let (image, cond) = &left[zone.index()];
            match cond {
                Condition::ReadOnly | Condition::Offline => ZoneState { cond: *cond, wp: image.wp },
                _ => ZoneState::at_rest(image.wp, geometry.capacity_of(zone)),
            }
        };
        let zones = ZonedDisk::restore(geometry, config.resources, state).expect("zones at rest are in order");
        let sequential = |n: usize| geometry.kind(ZoneNo(n as u32)) == ZoneKind::Sequential;
        let images = left.into_iter().map(|(image, _)| image).enumerate();
        let stores = images.map(|(n, image)| ZoneStore::new(sequential(n), image)).collect();
        let (unwritten, fua_alone) = (config.unwritten, config.fua_alone);
        let damaged = BTreeSet::new();
        Self { geometry, limits, zones, stores, changes: 0, damages, damaged, unwritten, fua_alone }
    }

    /// What is left of it when the power goes now.
    pub fn survive(self, choices: &mut Choices) -> Medium {
        let block = self.limits.block_sectors();
        let stores = self.stores.into_iter().enumerate();
        let zones = stores.map(|(n, store)| {
            let cond = self.zones.state(ZoneNo(n as u32)).cond;
            (choices.scoped("zone", n as u64, |choices| store.survive(block, choices)), cond)
        });
        Medium(Left::Dark(zones.collect(), self.damages))
    }

    /// Makes durable what changed up to number `serial`.
    pub fn commit(&mut self, serial: u64) {
        self.stores.iter_mut().for_each(|store| store.commit(serial));
    }

    /// Makes durable what a command did, and what lies before it in its zone.
    pub fn commit_of(&mut self, bio: &Bio) {
        match self.zones.zone_at(bio.sector) {
            Ok(zone) if self.fua_alone && self.geometry.kind(zone) == ZoneKind::Conventional => {
                self.stores[zone.index()].commit_alone(self.changes);
            }
            Ok(zone) if bio.op != Op::ZoneResetAll => self.stores[zone.index()].commit(u64::MAX),
            _ => self.commit(u64::MAX),
        }
    }

    /// What a command does to the disk, at once; of one that writes at most `most` sectors. Of one that meets a bad block, which is
    /// [`Reason::Medium`], what lies before that was done. Returns its first sector, which
    /// the disk chooses for an append.
    pub fn carry_out(&mut self, bio: &Bio, most: u32, bad: &BadBlocks) -> Result<Sector, Refusal> {
        match bio.op {
            Op::Read => self.read(bio, bad)?,
            Op::Write | Op::WriteZeroes | Op::ZoneAppend => return self.write(bio, most, bad),
            Op::Flush | Op::ReportZones => {}
            Op::Discard => return Err(Reason::NotSupported.into()),
            Op::ZoneResetAll => {
                let (stores, changes) = (&mut self.stores, &mut self.changes);
                *changes += 1;
                self.zones.reset_all(|zone| stores[zone.index()].reset(*changes));
            }
            Op::ZoneOpen => self.zones.open(self.zones.zone_at(bio.sector)?)?,
            Op::ZoneClose => self.zones.close(self.zones.zone_at(bio.sector)?)?,
            Op::ZoneFinish => {
                let zone = self.zones.zone_at(bio.sector)?;
                self.zones.finish(zone)?;
                self.changes += 1;
                self.stores[zone.index()].finish(self.changes, self.geometry.capacity_of(zone));
            }
            Op::ZoneReset => {
                let zone = self.zones.zone_at(bio.sector)?;
                self.zones.reset(zone)?;
                self.changes += 1;
                self.stores[zone.index()].reset(self.changes);
            }
        }
        Ok(bio.sector)
    }

    pub fn report(&self, bio: &mut Bio) -> Result<(), Refusal> {
        let Payload::Zones(report) = &mut bio.payload else { return Err(Reason::NoRoom.into()) };
        let room = report.capacity() - report.len();
        report.extend(self.zones.zones(bio.sector).take(room));
        Ok(())
    }

    fn read(&mut self, bio: &Bio, bad: &BadBlocks) -> Result<(), Refusal> {
        let zone = self.zones.check_read(bio.sector)?;
        let good = self.good_part(bio.sector, bio.sectors, bad);
        let first = self.geometry.offset_in_zone(bio.sector);
        let store = &self.stores[zone.index()];
        for (offset, words) in (first..first + good).zip(sectors_of(bio)) {
            match store.at(offset) {
                Some(content) => shingle_mem::store(words, &content[..]),
                None => shingle_mem::fill(words, self.unwritten),
            }
        }
        if good < bio.sectors { Err(Reason::Medium.into()) } else { Ok(()) }
    }

    fn write(&mut self, bio: &Bio, most: u32, bad: &BadBlocks) -> Result<Sector, Refusal> {
        let (zone, sector) = match bio.op {
            Op::ZoneAppend => {
                self.limits.zoned.as_ref().and_then(|zoned| zoned.max_append).ok_or(Reason::NotSupported)?;
                let zone = self.zones.zone_at(bio.sector)?;
                (zone, self.zones.begin_append(zone, bio.sectors)?)
            }
            _ => (self.zones.begin_write(bio.sector, bio.sectors)?, bio.sector),
        };
        let good = self.good_part(sector, bio.sectors, bad);
        let lands = good.min(most);
        if lands > 0 {
            self.changes += 1;
            let offset = self.geometry.offset_in_zone(sector);
            self.stores[zone.index()].write(self.changes, offset, contents(bio, lands));
        }
        self.zones.advance(zone, lands);
        if good < bio.sectors { Err(Reason::Medium.into()) } else { Ok(sector) }
    }

    /// How many of these sectors lie before the first bad one, in whole blocks.
    fn good_part(&self, sector: Sector, sectors: u32, bad: &BadBlocks) -> u32 {
        let Some(bad) = bad.first_in(sector, sectors) else { return sectors };
        let before = bad.start.0.saturating_sub(sector.0) as u32;
        before - before % self.limits.block_sectors()
    }
}

/// The first `sectors` that `bio` writes.
fn contents(bio: &Bio, sectors: u32) -> Vec<Content> {
    if bio.op == Op::WriteZeroes {
        let zeroes = Arc::new([0; SECTOR_WORDS]);
        return vec![zeroes; sectors as usize];
    }
    let content = |words: &[AtomicU64; SECTOR_WORDS]| {
        let mut content = [0; SECTOR_WORDS];
        shingle_mem::load(&mut content, words);
        Arc::new(content)
    };
    sectors_of(bio).take(sectors as usize).map(content).collect()
}

/// The memory of `bio`, a sector at a time.
fn sectors_of(bio: &Bio) -> impl Iterator<Item = &[AtomicU64; SECTOR_WORDS]> {
    bio.payload.segments().iter().flat_map(|data| data.words().as_chunks().0)
}
