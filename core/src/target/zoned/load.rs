//! How the metadata is read, and how two sets that differ become the same again.
//!
//! Where the sets differ the newer one is copied over the older, superblock last, before anything else is written. The
//! kernel does not do that, and loses what the crashed commit had changed (`drivers/md/dm-zoned-metadata.c:dmz_load_sb`).

use alloc::format;
use alloc::string::String;

use super::commit::Sets;
use super::device::Shared;
use super::format::{self, BITS, ENTRIES, Entry, Superblock};
use super::state::{Phase, State};
use super::transfer::{Disks, data_of};
use super::volume::Volume;
use super::zones::{MemberState, Role, Zones};
use super::{BLOCK_BYTES, ZoneClass, ZoneHealth, ZoneSpace};
use crate::block::{DeviceId, Limits};
use crate::sector::Sector;
use crate::task::Io;

/// Blocks of metadata that are read at once.
const WINDOW: u32 = 2048;
/// Zones asked for in one report.
const REPORT: usize = 4096;

/// A volume whose metadata is not loaded yet.
pub(super) fn blank(space: &ZoneSpace, below: &[DeviceId], devices: &[Limits]) -> State {
    let member = |(device, limits): (&DeviceId, &Limits)| MemberState {
        device: *device,
        limits: limits.clone(),
        is_unflushed: false,
    };
    let members = below.iter().zip(devices).map(member).collect();
    State::new(Volume::new(Zones::new(space, members, 0), 0, 0, 0))
}

/// Loads the metadata when that is wanted, and lets in who waits.
pub(super) async fn run(shared: Shared, io: Io, space: ZoneSpace, chunks: u64) {
    let loaded = shared.borrow().signals.loaded.clone();
    loaded.until(|| (shared.borrow().phase != Phase::Unloaded).then_some(())).await;
    let members = shared.borrow().volume.zones.members.clone();
    let disks = Disks { io: io.clone(), space, members };
    let result = Loader { disks, chunks }.load().await;
    let mut state = shared.borrow_mut();
    match result {
        Ok((volume, sets, reason)) => {
            state.volume = volume;
            state.sets = Some(sets);
            state.phase = reason.map_or(Phase::Ready, Phase::ReadOnly);
        }
        Err(why) => state.phase = Phase::Failed(why),
    }
    if state.phase != Phase::Ready {
        state.events += 1;
    }
    state.last_io = io.now();
    let early = core::mem::take(&mut state.early);
    state.back.extend(early);
    state.stir(|signals| &signals.loaded);
    state.stir(|signals| &signals.commit);
    state.stir(|signals| &signals.clean);
    state.stir(|signals| &signals.reclaim);
}

struct Loader {
    disks: Disks,
    /// Chunks that the table exposes.
    chunks: u64,
}

/// Why a volume is read only, if it is.
type Reason = Option<String>;

impl Loader {
    async fn load(mut self) -> Result<(Volume, Sets, Reason), String> {
        self.learn_zones().await?;
        let (mut sets, other) = self.find_sets().await?;
        let superblock = sets.superblock;
        if self.chunks > u64::from(superblock.chunks) {
            let zone = u64::from(self.disks.space.zone_blocks()) * 8;
            let (table, volume) = (self.chunks * zone, u64::from(superblock.chunks) * zone);
            return Err(format!("the table has {table} sectors, the volume {volume}: load one of that length"));
        }
        let is_read_only = self.disks.members.iter().any(|member| member.limits.read_only);
        let zones = Zones::new(&self.disks.space, self.disks.members.clone(), superblock.reserved);
        let metadata = superblock.metadata_blocks;
        let mut volume = Volume::new(zones, superblock.chunks, superblock.map_blocks, metadata);
        let mut bad = 0;
        let mut differs = other.is_none_or(|other| other.generation != superblock.generation);
        let mut at = 1;
        while at < metadata {
            let len = WINDOW.min(metadata - at);
            let own = self.disks.read(sets.active + u64::from(at), len).await;
            let twin = self.disks.read(sets.log + u64::from(at), len).await;
            let own = match (own, &twin) {
                (Ok(own), _) => own,
                // The other set says the same, if it is not older.
                (Err(_), Ok(twin)) if !differs => twin.clone(),
                (Err(status), _) => return Err(format!("metadata cannot be read, from block {at} on: {status}")),
            };
            let is_same = twin.is_ok_and(|twin| twin == own);
            if !is_same && !is_read_only {
                differs = true;
                self.disks.write(sets.log + u64::from(at), &data_of(&own)).await.map_err(cannot_write)?;
            }
            bad += decode(&mut volume, &sets, (at, &own), &self.disks.space);
            at += len;
        }
        if !is_read_only && (differs || sets.is_swapped) {
            self.finish_resync(&mut sets).await?;
        }
        settle(&mut volume, &sets, &self.disks.space);
        let reason = if is_read_only {
            Some(String::from("one of its devices is"))
        } else {
            (bad > 0).then(|| format!("{bad} entries of the mapping are no good: run `shingle dmz repair`"))
        };
        Ok((volume, sets, reason))
    }

    async fn learn_zones(&mut self) -> Result<(), String> {
        for member in 0..self.disks.members.len() {
            let MemberState { device, limits, .. } = self.disks.members[member].clone();
            let mut at = Sector::ZERO;
            while limits.zoned.is_some() && at.0 < limits.capacity {
                let report = self.disks.io.report(device, at, REPORT).await;
                let report =
                    report.map_err(|status| format!("the zones of device {member} are not known: {status}"))?;
                let Some(last) = report.last() else {
                    return Err(format!("device {member} reports no zone at sector {at}"));
                };
                at = last.start + last.len;
                self.disks.space.learn(member, &report).map_err(|error| format!("{error}"))?;
            }
        }
        Ok(())
    }

    /// The two sets, of which the newer one is the active one, and the superblock of the other if that is good.
    async fn find_sets(&mut self) -> Result<(Sets, Option<Superblock>), String> {
        let space = &self.disks.space;
        let none = || String::from("no valid superblock was found: run `shingle dmz format`, or `shingle dmz repair`");
        let first_zone = space.metadata_zone().ok_or_else(none)?;
        let first_block = space.start(first_zone);
        let first = self.superblock_at(first_block).await;
        let zone_blocks = space.zone_blocks();
        let second_of = |sb: &Superblock| {
            first_block + u64::from(sb.metadata_blocks.div_ceil(zone_blocks)) * u64::from(zone_blocks)
        };
        let (first, second) = match first {
            Ok(first) => (Some(first), self.superblock_at(second_of(&first)).await.ok()),
            Err(_) => (None, self.search(first_zone).await),
        };
        let second = second.filter(|second| first.is_none_or(|first| agrees(&first, second)));
        let (newer, is_swapped, other) = match (first, second) {
            (Some(first), Some(second)) if second.generation > first.generation => (second, true, Some(first)),
            (Some(first), second) => (first, false, second),
            (None, Some(second)) => (second, true, None),
            (None, None) => return Err(none()),
        };
        let (one, two) = (first_block, second_of(&newer));
        let (active, log) = if is_swapped { (two, one) } else { (one, two) };
        let zones = newer.metadata_blocks.div_ceil(zone_blocks);
        let sets = Sets { superblock: newer, active, log, is_swapped, first_zone, zones };
        Ok((sets, other))
    }

    async fn superblock_at(&self, block: u64) -> Result<Superblock, String> {
        let bytes = self.disks.read(block, 1).await.map_err(|status| format!("{status}"))?;
        let superblock = Superblock::decode(&bytes).map_err(|error| format!("{error}"))?;
        is_plausible(&superblock, &self.disks.space, block)
            .then_some(superblock)
            .ok_or_else(|| "it does not fit".into())
    }

    /// The second superblock of a volume whose first one is lost: it knows its own place.
    async fn search(&self, first_zone: u32) -> Option<Superblock> {
        let space = &self.disks.space;
        let zones = space.zones();
        for zone in first_zone + 1..space.members()[0].zones {
            if zones[zone as usize].class == ZoneClass::Sequential {
                break;
            }
            if let Ok(superblock) = self.superblock_at(space.start(zone)).await {
                return Some(superblock);
            }
        }
        None
    }

    /// The other set is the same now: its superblock says so. From here on the first set is the active one again, so that of
    /// two sets of the same generation the first is always the one to believe.
    async fn finish_resync(&self, sets: &mut Sets) -> Result<(), String> {
        self.disks.flush_metadata(sets.log).await.map_err(cannot_write)?;
        let twin = sets.superblock_for(sets.log, sets.superblock.generation);
        self.disks.write_durable(sets.log, &data_of(&twin.encode())).await.map_err(cannot_write)?;
        if sets.is_swapped {
            (sets.active, sets.log, sets.is_swapped) = (sets.log, sets.active, false);
        }
        Ok(())
    }
}

fn cannot_write(status: crate::block::Status) -> String {
    format!("the older set of metadata cannot be written: {status}")
}

/// Whether a superblock at global block `block` fits the disks.
fn is_plausible(superblock: &Superblock, space: &ZoneSpace, block: u64) -> bool {
    let Superblock { metadata_blocks, map_blocks, bitmap_blocks, chunks, .. } = *superblock;
    let bitmaps = space.zones().len() as u64 * u64::from(format::bitmap_blocks(space.zone_blocks()));
    let needed = 1 + u64::from(map_blocks) + u64::from(bitmap_blocks);
    superblock.block == block
        && chunks > 0
        && chunks as usize <= space.zones().len()
        && u64::from(map_blocks) * ENTRIES as u64 >= u64::from(chunks)
        && u64::from(bitmap_blocks) >= bitmaps
        && u64::from(metadata_blocks) == needed
}

/// Whether two superblocks are of one volume.
fn agrees(first: &Superblock, second: &Superblock) -> bool {
    let same = |of: fn(&Superblock) -> u32| of(first) == of(second);
    same(|sb| sb.metadata_blocks)
        && same(|sb| sb.chunks)
        && same(|sb| sb.map_blocks)
        && first.set_uuid == second.set_uuid
}

/// Takes in blocks of metadata; returns how many entries were no good.
fn decode(volume: &mut Volume, sets: &Sets, (first, bytes): (u32, &[u8]), space: &ZoneSpace) -> u32 {
    let mut bad = 0;
    let bitmap_blocks = format::bitmap_blocks(space.zone_blocks());
    for (block, bytes) in (first..).zip(bytes.as_chunks::<BLOCK_BYTES>().0) {
        let Some(bitmap) = block.checked_sub(1 + volume.map_blocks) else {
            let entries = (block - 1) * ENTRIES as u32..volume.chunks.len().min(block as usize * ENTRIES) as u32;
            for (chunk, bytes) in entries.zip(bytes.as_chunks::<8>().0) {
                bad += u32::from(!adopt(volume, sets, (chunk, Entry::decode(*bytes)), space));
            }
            continue;
        };
        let (zone, part) = (bitmap / bitmap_blocks, bitmap % bitmap_blocks);
        let Some(state) = volume.zones.all.get_mut(zone as usize) else { continue };
        if matches!(state.role, Role::Data(_) | Role::Buffer(_)) {
            state.valid.add_bitmap(part * BITS, bytes);
        } else if bytes.iter().any(|byte| *byte != 0) {
            // Bits of nobody: the next commit clears them.
            volume.dirty.mark(block);
        }
    }
    bad
}

/// Takes in the entry of a chunk; false if that names zones that it cannot have.
fn adopt(volume: &mut Volume, sets: &Sets, (chunk, entry): (u32, Entry), space: &ZoneSpace) -> bool {
    if entry == Entry::UNMAPPED {
        return true;
    }
    let can_hold = |zone: u32| {
        volume.zones.all.get(zone as usize).is_some_and(|state| state.role == Role::None)
            && !sets.has_metadata(zone, space)
            && !space.zones()[zone as usize].is_runt
            && space.zones()[zone as usize].health != ZoneHealth::Offline
    };
    let Entry { dzone, bzone } = entry;
    let has_buffer = bzone != format::NO_ZONE;
    let fits_buffer =
        || dzone != bzone && can_hold(bzone) && !volume.zones.is_sequential(bzone) && volume.zones.is_sequential(dzone);
    if !can_hold(dzone) || has_buffer && !fits_buffer() {
        volume.chunks[chunk as usize].is_bad = true;
        return false;
    }
    volume.chunks[chunk as usize].entry = entry;
    volume.zones.all[dzone as usize].role = Role::Data(chunk);
    if has_buffer {
        volume.zones.all[bzone as usize].role = Role::Buffer(chunk);
    }
    true
}

/// Makes what was read fit what the disks report, and finds the free zones.
fn settle(volume: &mut Volume, sets: &Sets, space: &ZoneSpace) {
    for zone in 0..volume.zones.all.len() as u32 {
        let state = &volume.zones.all[zone as usize];
        let is_usable = state.health == ZoneHealth::Good && !sets.has_metadata(zone, space);
        let (role, wp, is_sequential) = (state.role, state.wp, state.class == ZoneClass::Sequential);
        if is_usable {
            volume.zones.count(zone);
        }
        match role {
            Role::Data(chunk) if is_sequential => {
                // What lies behind the write pointer is gone, whatever the bits say.
                volume.invalidate(chunk, zone, &(wp..space.zone_blocks()));
            }
            Role::None if is_usable => {
                volume.zones.leave(zone);
            }
            _ => {}
        }
    }
    for chunk in 0..volume.chunks.len() as u32 {
        let Entry { dzone, bzone } = volume.chunks[chunk as usize].entry;
        if dzone != format::NO_ZONE && bzone != format::NO_ZONE {
            // The kernel reads such a block from the data zone.
            let in_data = volume.zones.all[dzone as usize].valid.clone();
            in_data.runs(0..space.zone_blocks()).for_each(|run| volume.invalidate(chunk, bzone, &run));
        }
        volume.settle(chunk);
    }
}
