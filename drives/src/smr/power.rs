//! What is left when power fails.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::cache::CachedWrite;
use super::disk::SmrDisk;
use super::jobs::{LinkJob, LinkWork, MediaJob, MediaWork};
use crate::live::Model;
use crate::medium::{KeptZones, Medium};
use shingle_core::block::{Cx, Op, Payload, Reason};
use shingle_core::random::Rng;
use shingle_core::zone::{Condition, ZoneKind, ZoneNo, ZonedDisk};

impl SmrDisk {
    /// Power fails and comes back: the cache is lost, unless it is non-volatile.
    ///
    /// Each sequential zone keeps a prefix of what the medium did not surely have, ending at a physical block, and its
    /// write pointer is there; of the pending writes to conventional zones any blocks got through. What is in a non-volatile cache
    /// counts as on the medium, the part of a write that has come in as well. Bios in flight fail with [`Reason::NoPower`]. All zones are closed, full or empty afterwards.
    pub fn power_cut(&mut self, rng: &mut Rng, cx: &mut Cx<'_>) {
        let lost = self.lose_everything(cx);
        self.tear_conventional(&lost, rng);
        self.tear_sequential(&lost, rng);
        for zone in 0..self.zones.geometry().zones() {
            if self.zones.state(ZoneNo(zone)).cond.is_open() {
                self.zones.close(ZoneNo(zone)).expect("an open zone can be closed");
            }
        }
    }

    /// Empties queues, link, head and cache; returns the writes that neither the medium nor a non-volatile cache has, in the order
    /// in which the medium would have got those of a zone.
    fn lose_everything(&mut self, cx: &mut Cx<'_>) -> Vec<CachedWrite> {
        let mut lost = Vec::new();
        for mut cached in self.cache.drain().into_values().flatten() {
            cached.waiter.take().into_iter().for_each(|bio| cx.fail(bio, Reason::NoPower));
            if !self.config.cache.is_durable() {
                lost.push(cached);
            }
        }
        let link = self.link.take().map(|LinkJob { work, .. }| match work {
            LinkWork::Write(command, _) | LinkWork::Answer(command) => command,
        });
        let media = self.media.take().and_then(|MediaJob { work, .. }| match work {
            MediaWork::Read(command) | MediaWork::Chore(command) => Some(command),
            MediaWork::Destage(_) => None,
        });
        let lists = [&mut self.writes, &mut self.outside, &mut self.answers, &mut self.flushes, &mut self.chores];
        let waiting = lists.into_iter().flat_map(core::mem::take).chain(core::mem::take(&mut self.reads));
        for command in link.into_iter().chain(media).chain(waiting) {
            if command.bio.op == Op::Write {
                lost.push(CachedWrite::rest_of(&command));
            }
            cx.fail(command.bio, Reason::NoPower);
        }
        self.queued = 0;
        lost.retain(|write| !write.void);
        lost.sort_by_key(|write| write.number);
        lost
    }

    /// Puts back what was in the place of blocks that did not get through, the last write first.
    fn tear_conventional(&mut self, lost: &[CachedWrite], rng: &mut Rng) {
        let unit = self.limits.physical_block_bytes / 512;
        let Some(medium) = &mut self.medium else { return };
        for write in lost.iter().rev() {
            let Some(before) = &write.before else { continue };
            for block in (0..write.sectors).step_by(unit as usize).filter(|_| rng.chance(1, 2)) {
                let sectors = unit.min(write.sectors - block);
                let old = before.slice(block as usize * 512, sectors as usize * 512);
                // What cannot be put back got through.
                let _ = medium.write(write.start + u64::from(block), sectors, &Payload::Data(old));
            }
        }
    }

    fn tear_sequential(&mut self, lost: &[CachedWrite], rng: &mut Rng) {
        let geometry = *self.zones.geometry();
        let mut firsts = BTreeMap::new();
        for write in lost {
            let first = firsts.entry(geometry.zone_of(write.start)).or_insert(write.start);
            *first = (*first).min(write.start);
        }
        firsts.retain(|zone, _| geometry.kind(*zone) == ZoneKind::Sequential);
        let unit = u64::from(self.limits.physical_block_bytes / 512);
        for (zone, first) in firsts {
            let state = self.zones.state(zone);
            if matches!(state.cond, Condition::ReadOnly | Condition::Offline) {
                continue;
            }
            let durable = geometry.offset_in_zone(first);
            // A write that fills the zone, or a finish that did not come to its end, is taken back as well.
            let ends = lost.iter().filter(|write| geometry.zone_of(write.start) == zone).map(CachedWrite::end);
            let end = ends.max().unwrap_or(first);
            let blocks = (end - first) / unit;
            let kept = durable + (rng.below(blocks + 1) * unit) as u32;
            // A pointer that a store does not take stays where it is, and the data before it.
            if self.zones.set_write_pointer(zone, kept).is_ok()
                && let Some(medium) = &mut self.medium
            {
                let _ = medium.discard(geometry.start(zone) + u64::from(kept), geometry.len(zone) - kept);
            }
        }
    }
}

impl Model for SmrDisk {
    fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    fn medium_mut(&mut self) -> Option<&mut Medium> {
        self.medium.as_mut()
    }

    fn zones(&self) -> Option<&ZonedDisk> {
        Some(&self.zones)
    }

    fn zones_mut(&mut self) -> Option<&mut KeptZones> {
        Some(&mut self.zones)
    }

    fn lose_power(&mut self, rng: &mut Rng, cx: &mut Cx<'_>) {
        self.power_cut(rng, cx);
    }
}
