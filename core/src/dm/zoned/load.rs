//! How the metadata is read, and judged.
//!
//! Where the sets differ the newer one is copied over the older before anything else is written ([`resync`]). The kernel
//! does not do that, and loses what the crashed commit had changed (`drivers/md/dm-zoned-metadata.c:dmz_load_sb`).

use super::format::{
    CRC_AT, Held, Layout, MapEntry, MappingFault, NO_ZONE, Other, Superblock, SuperblockError, SuperblockProblem,
    choose, failed_metadata_zone, read_superblock, second_set_zones, tertiaries, too_few_active, validate_mapping,
};
use super::guards::Guards;
use super::resync::{Comparison, resync};
use super::sets::Sets;
use super::stale::Misfits;
use super::state::{Readiness, Shared, State};
use super::transfer::Disks;
use super::volume::Volume;
use super::zones::{MemberState, Role, Zones};
use super::{
    BLOCK_BYTES, BLOCK_SECTORS, Block, MemberNo, MetaBlock, Number, Rows, SetZone, ZoneClass, ZoneHealth, ZoneSpace,
};
use crate::block::{DeviceId, Limits, Reason};
use crate::prelude::*;
use crate::sector::Sector;
use crate::task::Io;
use crate::time::Duration;

/// Blocks of metadata that are read at once.
const WINDOW: u32 = 2048;
/// How often metadata is read until it is taken as lost, and the time between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(10);
/// Zones asked for in one report.
const REPORT: usize = 4096;
/// The advice for a set of which a disk is an older copy.
const OLDER_COPY_ADVICE: &str = "find the right disk, or see what `shingle dmz check` says";

/// A volume whose metadata is not loaded yet.
pub(super) fn blank(space: &ZoneSpace, below: &[DeviceId], devices: &[Limits]) -> Result<State, Reason> {
    let member = |(device, limits): (&DeviceId, &Limits)| MemberState {
        device: *device,
        limits: limits.clone(),
        // The host before may have been killed: the first flush covers what it has left in caches.
        is_unflushed: true,
    };
    let members = below.iter().zip(devices).map(member).collect();
    State::new(Volume::new(Zones::new(space, members, 0), 0, 0, 0))
}

/// Loads the metadata when that is wanted, and lets in who waits.
pub(super) async fn run(shared: Shared, io: Io, space: ZoneSpace, chunks: u64) {
    let loaded = shared.borrow().signals.loaded.clone();
    loaded.until(|| (shared.borrow().readiness != Readiness::Unloaded).then_some(())).await;
    let members = shared.borrow().volume.zones.members.clone();
    let disks = Disks { io: io.clone(), space, members };
    let guards = shared.borrow().guards;
    let result = Loader { disks, chunks, guards, unread: None, stranger: None }.load().await;
    let mut state = shared.borrow_mut();
    match result {
        Ok((mut volume, sets, reason)) => {
            volume.guards = guards;
            if guards.gone().trust_caches_at_load {
                volume.zones.members.iter_mut().for_each(|member| member.is_unflushed = false);
            }
            state.volume = volume;
            state.follow_style();
            state.sets = Some(sets);
            state.readiness = reason.map_or(Readiness::Ready, Readiness::ReadOnly);
        }
        Err(why) => state.readiness = Readiness::Failed(why),
    }
    if state.readiness != Readiness::Ready {
        state.events += 1;
    }
    state.last_io = io.now();
    let early = core::mem::take(&mut state.early);
    state.back.extend(early);
    state.notify(|signals| &signals.loaded);
    state.notify(|signals| &signals.commit);
    state.notify(|signals| &signals.clean);
    state.notify(|signals| &signals.reclaim);
}

struct Loader {
    disks: Disks,
    /// Chunks that the table exposes.
    chunks: u64,
    guards: Guards,
    /// The first or second superblock cannot be read: its set may be the one in force.
    unread: Damage,
    /// A third superblock cannot be read: its device may belong to another set.
    stranger: Damage,
}

/// Why a volume is read only, if it is.
type Damage = Option<String>;

impl Loader {
    async fn load(mut self) -> Result<(Volume, Sets, Damage), String> {
        self.learn_zones().await?;
        let (mut sets, other) = self.find_sets().await?;
        let (superblock, layout) = (sets.superblock, sets.layout);
        if self.chunks > u64::from(layout.chunks) {
            let zone = u64::from(self.disks.space.zone_blocks()) * u64::from(BLOCK_SECTORS);
            let (table, volume) = (self.chunks * zone, u64::from(layout.chunks) * zone);
            return Err(format!("the table has {table} sectors, the volume {volume}: load one of that length"));
        }
        let zones = Zones::new(&self.disks.space, self.disks.members.clone(), superblock.reserved);
        let volume = Volume::new(zones, layout.chunks, layout.map_blocks, layout.metadata_blocks);
        let mut reading = Reading::new(volume, other);
        // Windows in which the sets differ.
        let mut stale = Vec::new();
        let (mut at, end) = (MetaBlock(1), MetaBlock(layout.metadata_blocks));
        while at < end {
            let len = WINDOW.min(end - at);
            // The other set is no help, though of the same generation: its next commit may have begun.
            let own = self.read_again(sets.active + u64::from(at), len).await.map_err(|reason| {
                format!("metadata cannot be read, from block {at} on: {reason}: run `shingle dmz repair`")
            })?;
            let (twin, is_whole) = self.read_twin(sets.log + u64::from(at), &own).await;
            if !is_whole || twin != own {
                if let Some(unread) = &self.unread {
                    return Err(format!(
                        "{unread}, and the sets of metadata differ, so which one counts is not known: load it again, and \
                         if that does not help, run `shingle dmz repair`"
                    ));
                }
                stale.push(at);
            }
            reading.take(at, [&own, &twin], (&self.disks.space, &layout));
            at = at + len;
        }
        let is_read_only = self.disks.members.iter().any(|member| member.limits.read_only);
        let (mut volume, trouble) = reading.judged();
        if trouble.is_none() && !self.guards.gone().older_copies {
            let misfits = misfits(&volume, &self.disks.space, &layout);
            misfits.older_copy().map_or(Ok(()), |copy| Err(format!("{copy}: {OLDER_COPY_ADVICE}")))?;
        }
        // Not before all of it is known to be good: the other set may be all that is left.
        let may_write = !is_read_only && self.stranger.is_none() && !self.guards.gone().no_resync;
        let resyncs = may_write && (trouble.is_none() || self.guards.gone().resync_unjudged);
        if may_write {
            // What a killed host left in the cache of its disk is read as if it were durable. Nothing is written on the strength of it
            // before it is.
            let flushed = self.disks.flush_metadata(sets.active).await;
            flushed.map_err(|why| {
                format!("the cache of the device with the metadata cannot be flushed: {why}: load it again")
            })?;
        }
        let mut unwritten = None;
        if resyncs && (!stale.is_empty() || other != Other::InStep || sets.is_swapped) {
            let done = resync(&self.disks, &mut sets, &stale, WINDOW).await;
            // What is in the sets is known to be right: it can be read at least.
            unwritten = match (done, &self.unread) {
                (Err(why), Some(unread)) => Some(format!("{unread}, and {why}")),
                (done, _) => done.map(|()| None)?,
            };
        }
        settle(&mut volume, &sets, (&self.disks.space, self.guards));
        let reason = is_read_only.then(|| String::from("one of its devices is"));
        let reason = reason.or_else(|| self.too_few_active_zones());
        Ok((volume, sets, trouble.or(reason).or(self.stranger).or(unwritten)))
    }

    /// Says which device allows fewer active zones than a volume may need. Writes fail on it sooner or later, and each that does leaves a zone behind.
    fn too_few_active_zones(&self) -> Damage {
        self.disks.members.numbered().find_map(|(member, MemberState { limits, .. })| {
            let why = too_few_active(&self.disks.space, member, limits.max_active())?;
            Some(format!("device {member} {why}"))
        })
    }

    /// Reads blocks, more than once if need be.
    async fn read_again(&self, from: u64, blocks: u32) -> Result<Vec<u8>, Reason> {
        let mut result = self.disks.read(from, blocks).await;
        for _ in 1..TRIES {
            if result.is_ok() {
                break;
            }
            self.disks.io.sleep_until(self.disks.io.now() + PAUSE).await;
            result = self.disks.read(from, blocks).await;
        }
        result
    }

    /// The blocks of the other set that are `own` in the one in force, and whether all can be read: the others are as there.
    async fn read_twin(&self, from: u64, own: &[u8]) -> (Vec<u8>, bool) {
        let blocks = (own.len() / BLOCK_BYTES) as u32;
        if let Ok(twin) = self.disks.read(from, blocks).await {
            return (twin, true);
        }
        let mut twin = Vec::new();
        for (at, own) in (from..).zip(own.chunks(BLOCK_BYTES)) {
            let block = self.disks.read(at, 1).await;
            twin.extend_from_slice(block.as_deref().unwrap_or(own));
        }
        (twin, false)
    }

    async fn learn_zones(&mut self) -> Result<(), String> {
        for member in self.disks.members.numbers() {
            let MemberState { device, limits, .. } = self.disks.members[member].clone();
            let mut at = Sector::ZERO;
            while limits.zoned.is_some() && at.0 < limits.capacity {
                let report = self.disks.io.report(device, at, REPORT).await;
                let report =
                    report.map_err(|reason| format!("the zones of device {member} are not known: {reason}"))?;
                let Some(last) = report.last() else {
                    return Err(format!("device {member} reports no zone at sector {at}"));
                };
                at = last.start + last.len;
                self.disks.space.learn(member, &report).map_err(|error| format!("{error}"))?;
            }
        }
        Ok(())
    }

    /// The two sets, and what that is which is not in force.
    async fn find_sets(&mut self) -> Result<(Sets, Other), String> {
        let space = self.disks.space.clone();
        let none = || String::from("no valid superblock was found");
        let advice = |why| format!("{why}: `shingle dmz check` tells whether anything of a volume is left");
        let first_zone = space.metadata_zone().ok_or_else(|| advice(none()))?;
        let first = self.superblock_at(space.start(first_zone)).await;
        let second = match &first {
            Ok(Some((_, layout))) => self.superblock_at(layout.set_start(&space, 1)).await,
            _ => self.search().await,
        };
        self.unread = first.as_ref().err().or(second.as_ref().err()).cloned();
        let [first, second] = [first, second].map(|set| set.ok().flatten());
        let choice = choose(first.as_ref().map(|set| &set.0), second.as_ref().map(|set| &set.0))
            .ok_or_else(|| advice(self.unread.clone().unwrap_or_else(none)))?;
        let is_alone = first.is_none() || second.is_none();
        if let Some(zone) = failed_metadata_zone(&space).filter(|_| is_alone) {
            // Which set it is cannot be told, and so not where the other one is either.
            return Err(format!(
                "one superblock alone was found, and zone {zone} has failed: run `shingle dmz salvage`"
            ));
        }
        let (superblock, layout) = if choice.set == 0 { first } else { second }.ok_or_else(none)?;
        self.stranger = self.check_members(&superblock).await?;
        if self.guards.gone().unread_is_none {
            (self.unread, self.stranger) = (None, None);
        }
        let [active, log] = [choice.set, 1 - choice.set].map(|set| layout.set_start(&space, set));
        let sets = Sets { superblock, layout, active, log, is_swapped: choice.set == 1 };
        Ok((sets, choice.other))
    }

    /// The superblock at `block`, if there is a good one; an error if nobody knows.
    async fn superblock_at(&self, block: u64) -> Result<Option<(Superblock, Layout)>, String> {
        let bytes = self.read_again(block, 1).await;
        let mut bytes = bytes.map_err(|reason| format!("the superblock at block {block} cannot be read: {reason}"))?;
        let mut found = read_superblock(&bytes, &self.disks.space, block);
        if let Err(SuperblockProblem::NotOne(SuperblockError::Checksum(_, right))) = found
            && self.guards.gone().superblock_unchecked
        {
            bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&right.to_le_bytes());
            found = read_superblock(&bytes, &self.disks.space, block);
        }
        Ok(found.ok().map(|(superblock, layout, _)| (superblock, layout)))
    }

    /// The second superblock of a volume whose first one is lost: it knows its own place.
    async fn search(&self) -> Result<Option<(Superblock, Layout)>, String> {
        let mut result = Ok(None);
        for zone in second_set_zones(&self.disks.space) {
            match self.superblock_at(self.disks.space.start(zone)).await {
                Ok(Some(found)) => return Ok(Some(found)),
                found => result = result.and(found),
            }
        }
        result
    }

    /// Refuses zoned devices that say that they are others than those in their place of the table, and tells of one that does
    /// not say. The kernel starts without their superblocks, if need be (`drivers/md/dm-zoned-metadata.c:dmz_load_sb`).
    async fn check_members(&self, superblock: &Superblock) -> Result<Damage, String> {
        let (space, mut stranger) = (&self.disks.space, None);
        let is_there = |(_, zone): &(MemberNo, SetZone)| space.zones()[*zone].health != ZoneHealth::Offline;
        for (place, start) in tertiaries(space).filter(is_there).map(|(place, zone)| (place, space.start(zone))) {
            let bytes = match self.read_again(start, 1).await {
                Ok(bytes) => bytes,
                Err(reason) => {
                    let what = "belongs to the set is not known, as its superblock cannot be read";
                    stranger = Some(format!("whether device {place} {what}: {reason}: run `shingle dmz repair`"));
                    continue;
                }
            };
            let Ok(third) = Superblock::decode(&bytes) else { continue };
            if third.set_uuid != superblock.set_uuid || third.block != start {
                return Err(format!("device {place} belongs to another set, or to another place in this one"));
            }
        }
        Ok(stranger)
    }
}

/// What was read so far.
struct Reading {
    volume: Volume,
    entries: Vec<MapEntry>,
    /// Entries that are no good.
    bad: usize,
    comparison: Comparison,
}

impl Reading {
    fn new(volume: Volume, other: Other) -> Self {
        Self { volume, entries: Vec::new(), bad: 0, comparison: Comparison::with(other) }
    }

    /// Takes in blocks of metadata, beside those of the other set, the first of them block `first` of the set.
    fn take(&mut self, first: MetaBlock, both: [&[u8]; 2], (space, layout): (&ZoneSpace, &Layout)) {
        let [own, twin] = both.map(|bytes| bytes.as_chunks::<BLOCK_BYTES>().0);
        for (block, (own, twin)) in first.onwards().zip(own.iter().zip(twin)) {
            match self.volume.places.held(block) {
                Held::Bits(zone, bit) => self.take_bitmap(block, (zone, bit), [own, twin], space),
                Held::Entries(chunk) => {
                    self.comparison.take_entries(chunk, [own, twin], self.volume.zones.all.len());
                    self.entries.extend(own.as_chunks::<8>().0.iter().map(|bytes| MapEntry::decode(*bytes)));
                    if self.volume.places.ends_entries(block) {
                        self.adopt(space, layout);
                    }
                }
            }
        }
    }

    fn take_bitmap(&mut self, block: MetaBlock, (zone, first): (SetZone, Block), both: [&[u8]; 2], space: &ZoneSpace) {
        let Some(state) = self.volume.zones.all.get_mut(zone) else { return };
        self.comparison.take_bitmap((zone, first), both, (space, state.role));
        if matches!(state.role, Role::Data(_) | Role::Buffer(_)) {
            state.valid.add_bitmap(first, both[0]);
        } else if both[0].iter().any(|byte| *byte != 0) {
            // Bits of nobody: the next commit clears them.
            self.volume.dirty.mark(block);
        }
    }

    /// What was read, and why it must not be changed, if so. Chunks in doubt are not read either: they would be zeroes.
    fn judged(self) -> (Volume, Damage) {
        let Self { mut volume, bad, comparison, .. } = self;
        let mut doubtful = comparison.doubtful(&volume);
        doubtful.retain(|chunk| volume.chunks.get(*chunk).is_some_and(|chunk| !chunk.is_bad));
        doubtful.iter().for_each(|chunk| volume.chunks[*chunk].is_bad = true);
        let reason = match (bad, doubtful.len()) {
            (0, 0) => None,
            (0, doubtful) => Some(format!("metadata of {doubtful} chunks is damaged: run `shingle dmz repair`")),
            (bad, _) => Some(format!("{bad} entries of the mapping are no good: run `shingle dmz repair`")),
        };
        (volume, reason)
    }

    /// Gives the chunks their zones, where the entries are any good. What is in a zone that went offline is lost, but the
    /// entry is right.
    fn adopt(&mut self, space: &ZoneSpace, layout: &Layout) {
        self.entries.truncate(self.volume.chunks.len());
        let entries = Rows::from(core::mem::take(&mut self.entries));
        for problem in validate_mapping(&entries, space, layout) {
            let is_bad = problem.fault.is_error() && problem.fault != MappingFault::Offline;
            let chunk = &mut self.volume.chunks[problem.chunk];
            self.bad += usize::from(is_bad && !chunk.is_bad);
            chunk.is_bad |= is_bad;
        }
        for (chunk, entry) in entries.numbered().map(|(chunk, entry)| (chunk, *entry)) {
            let known = &mut self.volume.chunks[chunk];
            if known.is_bad || entry == MapEntry::UNMAPPED {
                continue;
            }
            known.entry = entry;
            self.volume.zones.all[entry.dzone].role = Role::Data(chunk);
            if entry.bzone != NO_ZONE {
                self.volume.zones.all[entry.bzone].role = Role::Buffer(chunk);
            }
        }
    }
}

/// Zones whose write pointers do not fit the mapping.
fn misfits(volume: &Volume, space: &ZoneSpace, layout: &Layout) -> Misfits {
    let mut misfits = Misfits::none(space);
    for (zone, state) in volume.zones.all.numbered() {
        misfits.look_at((space, layout), zone, state.role != Role::None, |wp| state.valid.end() > wp);
    }
    misfits
}

/// Makes what was read fit what the disks report, and finds the free zones.
///
/// This changes nothing on the disks, and does not call for a commit, as one of the disks can be an older copy which is not
/// told by [`super::stale`]: until the volume is written, all that the right disk leads to has to stay.
fn settle(volume: &mut Volume, sets: &Sets, (space, guards): (&ZoneSpace, Guards)) {
    for zone in volume.zones.all.numbers() {
        let state = &volume.zones.all[zone];
        let is_usable = state.health == ZoneHealth::Good && !sets.layout.is_metadata(space, zone);
        let is_written = state.class == ZoneClass::Sequential && state.wp > Block::FIRST;
        let is_free = state.role == Role::None;
        if is_usable {
            volume.zones.count(zone);
        }
        match (is_usable && is_free, is_written) {
            (true, true) => volume.zones.keep_written(zone),
            (true, false) => volume.zones.put_free(zone),
            (false, _) => {}
        }
    }
    for chunk in volume.chunks.numbers() {
        let MapEntry { dzone, bzone } = volume.chunks[chunk].entry;
        let mut removed = 0;
        if dzone != NO_ZONE && !guards.gone().trust_bits_at_load {
            let data = &mut volume.zones.all[dzone];
            // What is in a zone that went offline is lost, and reading it has to fail: it stays valid. What lies behind a write
            // pointer is gone, whatever the bits say: a kernel that lost power may have committed them before the data was durable.
            if data.class == ZoneClass::Sequential && data.health != ZoneHealth::Offline {
                removed += data.valid.remove(data.wp..Block(space.zone_blocks()));
            }
        }
        if dzone != NO_ZONE && bzone != NO_ZONE {
            // The kernel reads such a block from the data zone.
            let in_data = volume.zones.all[dzone].valid.clone();
            let in_buffer = &mut volume.zones.all[bzone].valid;
            removed += in_data.runs(Block::all(space.zone_blocks())).map(|run| in_buffer.remove(run)).sum::<u32>();
        }
        if removed > 0 || volume.has_spent(chunk) {
            volume.to_settle.push(chunk);
            // The next commit of its entry does not name an empty zone.
            if dzone != NO_ZONE && volume.zones.all[dzone].valid.is_empty() {
                volume.zones.set_unrecorded(dzone, true);
            }
        }
    }
}
