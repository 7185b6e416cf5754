//! A loss of the disk's power that its host survives.

use super::words::{DiskRequest, Rule, Verdict};
use super::zone::Mark;
use super::{Change, Model};
use shingle_core::block::{Flags, Op};
use shingle_core::time::Instant;
use shingle_core::zone::ZoneNo;

/// A loss of the cache, of which the stack has heard.
#[derive(Clone, Copy)]
pub(super) struct Outage {
    /// When it heard, by the model's count.
    at: u64,
    /// When completions were looked at first after that: some of these were on their way before.
    told: Option<Instant>,
    /// Whether nobody has said that it is known.
    is_open: bool,
}

impl Model {
    /// The stack has heard that the disk has lost its cache: what no flush has made durable may be undone.
    pub fn cache_lost(&mut self) {
        let at = self.tick();
        self.outage = Some(Outage { at, told: None, is_open: true });
        for change in core::mem::take(&mut self.unflushed) {
            if let Change::Marked(Mark::Reset) = change.change {
                change.extents.iter().for_each(|extent| {
                    self.zones[extent.zone.index()].resets.retain(|reset| *reset != change.from);
                });
            }
        }
        for zone in self.zones.iter_mut().filter(|zone| zone.write_cache) {
            zone.cells.iter_mut().for_each(|cell| cell.revive());
            zone.marks.revive();
            zone.strays.iter_mut().for_each(|stray| stray.revive());
            zone.last_change = at;
            zone.doubt = zone.sequential.then_some(at);
        }
    }

    /// The stack was told that the loss is known.
    pub fn accept_losses(&mut self) {
        if let Some(outage) = &mut self.outage {
            outage.is_open = false;
        }
    }

    /// Whether a change of `zone` that was submitted at `from` and is acknowledged at `now` may be undone already. What comes to a zone before
    /// the stack has heard fails, done or not; so what is acknowledged after that came from a queue of a plug, and was done afterwards, unless
    /// it was done in steps.
    pub(super) fn may_be_undone(&self, from: u64, request: &DiskRequest, zone: ZoneNo, now: Instant) -> bool {
        let zone = &self.zones[zone.index()];
        let is_weak = |outage: Outage| !zone.sequential || !request.atomic || outage.is_told(now);
        zone.write_cache && self.outage.is_some_and(|outage| from < outage.at && is_weak(outage))
    }

    /// Looks at a success at `now`: a flush that cannot do what it promises must be none.
    pub(super) fn check_outage(&mut self, request: &DiskRequest, now: Instant) -> Verdict {
        let Some(outage) = &mut self.outage else { return Ok(()) };
        outage.told.get_or_insert(now);
        let flushes = request.op == Op::Flush || request.flags.has(Flags::PREFLUSH);
        if flushes && outage.is_open && !outage.is_told(now) {
            return Err((Rule::Durability, "what came before it was lost with the power of the disk".into()));
        }
        Ok(())
    }
}

impl Outage {
    /// Whether what is looked at now may have ended before the stack has heard.
    fn is_told(&self, now: Instant) -> bool {
        self.told == Some(now)
    }
}
