//! What a power cut leaves.

use alloc::vec::Vec;

use super::{Work, ZnsSsd};
use crate::live::Model;
use crate::medium::{KeptZones, Medium};
use shingle_core::block::{Cx, Reason, Refusal};
use shingle_core::random::Rng;
use shingle_core::zone::{ZoneNo, ZonedDisk};

impl ZnsSsd {
    /// Cuts the power and restores it. Each zone keeps a prefix: what was on the dies, and of what was only in its buffer
    /// a part that `rng` chooses, or all of it if the cache is not volatile. Open zones are closed. Commands in flight
    /// fail with [`Reason::Interrupted`] at the drive's next event.
    pub fn power_cut(&mut self, rng: &mut Rng) {
        for (zone, buffer) in core::mem::take(&mut self.buffers) {
            let block = self.limits.block_sectors();
            let at_stake = u64::from((buffer.filled - buffer.durable) / block);
            let saved = if self.limits.write_cache { rng.below(at_stake + 1) } else { at_stake };
            self.truncate(zone, buffer.durable + saved as u32 * block);
        }
        let all = (0..self.zones.geometry().zones()).map(ZoneNo);
        let open: Vec<ZoneNo> = all.filter(|zone| self.zones.state(*zone).cond.is_open()).collect();
        open.into_iter().for_each(|zone| self.zones.close(zone).expect("an open zone can be closed"));
        self.caught.extend(self.commands.drain().map(|command| command.bio));
        self.work = Work::default();
        self.nand.stop();
        self.ahead.stop();
        self.lifetime = self.lifetime.wrapping_add(1);
    }

    fn truncate(&mut self, zone: ZoneNo, offset: u32) {
        // A zone that failed keeps its state: its pointer means nothing. One that a store does not take stays where it is.
        let set = self.zones.set_write_pointer(zone, offset);
        let geometry = *self.zones.geometry();
        if let Some(medium) = self.medium.as_mut().filter(|_| !matches!(set, Err(Refusal::Other(_)))) {
            let _ = medium.discard(geometry.start(zone) + u64::from(offset), geometry.len(zone) - offset);
        }
    }

    /// Fails what a power cut caught.
    pub(super) fn release_caught(&mut self, cx: &mut Cx<'_>) {
        self.caught.drain(..).for_each(|bio| cx.fail(bio, Reason::Interrupted));
    }
}

impl Model for ZnsSsd {
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
        self.power_cut(rng);
        self.release_caught(cx);
    }
}
