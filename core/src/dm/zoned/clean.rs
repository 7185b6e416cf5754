//! Zones that were let go become empty, and zones in which a write failed are asked where their write pointer is.

use super::state::{Readiness, Shared, State};
use super::transfer::{finish, flush};
use super::zones::Role;
use super::{BLOCK_SECTORS, Block, ChunkNo, MemberNo, SetZone, ZoneHealth};
use crate::block::DeviceId;
use crate::prelude::*;
use crate::sector::Sector;
use crate::task::Io;
use crate::time::Duration;
use crate::zone::{Condition, Zone};

/// Resets under way at once.
const DEPTH: usize = 32;
/// Attempts to reset a zone, or to ask for its write pointer, after which it counts as one that can only be read.
const TRIES: u32 = 3;
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// Resets zones that are no longer used, and flushes their devices: until then a power cut may bring back the old data of a zone.
pub(super) async fn reset_zones(shared: Shared, io: Io) {
    let signal = shared.borrow().signals.clean.clone();
    loop {
        let zones = signal.until(|| shared.borrow_mut().begin_reset()).await;
        let results = reset(&shared, &io, &zones).await;
        let (members, flushes) = {
            let set = &shared.borrow().volume.zones;
            let is_reset = |member: &MemberNo| zones.iter().any(|zone| set.all[*zone].member == *member);
            let members: Vec<MemberNo> = set.members.numbers().filter(is_reset).collect();
            let flushes = flush(&io, &set.members, &members);
            (members, flushes)
        };
        let flushed = finish(flushes).await;
        if flushed.is_err() {
            io.sleep_until(io.now() + PAUSE).await;
        }
        let mut state = shared.borrow_mut();
        state.flushed(&members, flushed.is_ok());
        match flushed {
            Ok(()) => zones.iter().zip(results).for_each(|(zone, is_reset)| state.reset_done(*zone, is_reset)),
            Err(_) => state.volume.zones.to_reset.extend(zones),
        }
        state.jobs -= 1;
        state.space_freed();
        state.let_crowd_in();
        state.notify(|signals| &signals.progress);
        state.notify(|signals| &signals.commit);
    }
}

/// Resets zones. Returns of each whether the device has done so.
async fn reset(shared: &Shared, io: &Io, zones: &[SetZone]) -> Vec<bool> {
    let reset = |zone: SetZone| {
        let (device, sector) = shared.borrow().volume.zones.start(zone);
        io.reset(device, sector)
    };
    let resets: Vec<_> = zones.iter().map(|zone| reset(*zone)).collect();
    let mut results = Vec::new();
    for (zone, first) in zones.iter().zip(resets) {
        let mut result = first.ok().await;
        for _ in 1..TRIES {
            if result.is_ok() {
                break;
            }
            io.sleep_until(io.now() + PAUSE).await;
            result = reset(*zone).ok().await;
        }
        results.push(result.is_ok());
    }
    results
}

/// Asks zones for their write pointers.
pub(super) async fn recover_zones(shared: Shared, io: Io) {
    let signal = shared.borrow().signals.recover.clone();
    loop {
        let (chunk, zone) = signal.until(|| shared.borrow_mut().begin_recovery()).await;
        let (device, sector) = shared.borrow().volume.zones.start(zone);
        let found = ask(&io, device, sector).await;
        let mut state = shared.borrow_mut();
        state.learn(zone, found);
        state.jobs -= 1;
        if let Some(busy) = state.volume.busy.get_mut(&chunk) {
            busy.is_recovering = false;
        }
        state.wake_chunk(chunk);
        state.volume.settle(chunk);
        state.notify(|signals| &signals.progress);
    }
}

/// The zone at `sector`; `None` if the device does not say.
pub(super) async fn ask(io: &Io, device: DeviceId, sector: Sector) -> Option<Zone> {
    for _ in 0..TRIES {
        if let Ok(report) = io.report(device, sector, 1).await {
            return report.first().copied();
        }
        io.sleep_until(io.now() + PAUSE).await;
    }
    None
}

impl State {
    fn begin_reset(&mut self) -> Option<Vec<SetZone>> {
        if self.readiness != Readiness::Ready {
            return None;
        }
        if self.are_zones_needed() {
            self.settle_found();
        }
        (!self.volume.zones.to_reset.is_empty()).then(|| {
            self.jobs += 1;
            let from = self.volume.zones.to_reset.len().saturating_sub(DEPTH);
            self.volume.zones.to_reset.split_off(from)
        })
    }

    /// True if the zones that were found when the metadata was loaded have to become free: a write or a copy waits for a
    /// zone, or the volume was changed and comes to rest, and is to leave no written zones without an owner.
    fn are_zones_needed(&self) -> bool {
        let is_short = self.volume.zones.stock().sequential.free == 0;
        let is_put_away = self.is_suspended && self.counters.commits > 0;
        let is_awaited = self.is_starved() || !self.crowded.is_empty() || self.is_reclaim_crowded;
        self.is_changed && is_short || is_put_away || is_awaited || self.guards.gone().reset_unneeded
    }

    /// Has zones reset that had no owner when the metadata was loaded, and commits what does not hold of the chunks that did
    /// not fit their zones.
    fn settle_found(&mut self) {
        let zones = &mut self.volume.zones;
        zones.to_reset.append(&mut zones.found_written);
        for chunk in core::mem::take(&mut self.volume.to_settle) {
            self.volume.mark_all(chunk);
            self.volume.settle(chunk);
            self.notify(|signals| &signals.commit);
        }
    }

    /// True if no zone or chunk is left that [`Self::settle_found`] has to see to.
    pub fn has_settled_found(&self) -> bool {
        self.volume.zones.found_written.is_empty() && self.volume.to_settle.is_empty()
    }

    fn reset_done(&mut self, zone: SetZone, is_ok: bool) {
        let state = &mut self.volume.zones.all[zone];
        if is_ok {
            (state.wp, state.is_suspect) = (Block::FIRST, false);
            self.volume.zones.put_free(zone);
        } else {
            // It may be read only or offline: nobody needs it any more, so it is simply not used.
            state.health = ZoneHealth::ReadOnly;
            self.volume.zones.lose(zone);
            self.events += 1;
        }
    }

    fn begin_recovery(&mut self) -> Option<(ChunkNo, SetZone)> {
        let volume = &self.volume;
        let zone_of = |chunk: ChunkNo| volume.chunks[chunk].entry.dzone;
        let is_quiet = |chunk: &ChunkNo| volume.zones.all.get(zone_of(*chunk)).is_none_or(|zone| zone.writes == 0);
        let next = self.to_recover.iter().position(is_quiet)?;
        let chunk = self.to_recover.swap_remove(next);
        self.jobs += 1;
        Some((chunk, self.volume.chunks[chunk].entry.dzone))
    }

    /// Notes what a zone reported of itself after a write had failed there. One that does not answer is not written again.
    pub fn learn(&mut self, zone: SetZone, found: Option<Zone>) {
        let zone_end = Block(self.volume.zones.zone_blocks);
        let state = &mut self.volume.zones.all[zone];
        state.is_suspect = false;
        state.health = match found.map(|zone| zone.cond) {
            Some(Condition::Offline) => ZoneHealth::Offline,
            Some(Condition::ReadOnly) | None => ZoneHealth::ReadOnly,
            Some(_) => ZoneHealth::Good,
        };
        if state.health != ZoneHealth::Good {
            state.wp = zone_end;
            self.events += 1;
            return;
        }
        let written = found.map_or(0, |zone| match zone.cond {
            Condition::Full => zone.len,
            Condition::Empty => 0,
            _ => zone.wp.0.saturating_sub(zone.start.0),
        });
        // Half a block is lost to whoever wants to write whole ones.
        let wp = Block((written / u64::from(BLOCK_SECTORS)) as u32);
        let is_whole = written.is_multiple_of(u64::from(BLOCK_SECTORS));
        state.wp = if is_whole { wp } else { zone_end };
        let lost = state.wp.min(wp)..zone_end;
        if let Role::Data(chunk) = state.role
            && !self.guards.gone().trust_bits_after_failure
        {
            // A device may have lost what was in its cache. A write at the pointer to blocks that are valid would be taken as
            // one that changes nothing but data, and the pointer would not be known any more.
            self.volume.invalidate(chunk, zone, &lost);
        }
    }
}
