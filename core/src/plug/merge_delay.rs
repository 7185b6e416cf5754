//! A moment's wait for the writes that answer a completion.
//!
//! When a command that carried many writes is done, their submitter is about to send as many again, but only what was queued
//! meanwhile is there. Sent at once, that leaves as a small command; the next one is large, and so on: small commands, which
//! cost the device almost as much, are half of all. So when less is queued than half of what the zone had under way, the
//! next command waits until half is there. From then on there is as much queued as in flight, and nobody waits any more.
//!
//! On a rotational disk there is a second reason: a zone that has nothing more to write would lose the disk to another zone,
//! at the cost of two seeks if its writer goes on.
//!
//! Waiting is lost time if nobody answers: somebody who submits the next batch when all of the last one is done, or who has
//! written all. Each hold that ends by its timer makes twice as many chances go by before the next one, up to 64.

use super::merge::is_mergeable;
use super::queue::WaitsFor;
use super::zone_plug::ZonePlug;
use crate::block::Cx;
use crate::time::Duration;
use crate::zone::ZoneNo;

/// Queued sectors from which a command is large enough: 128 KiB.
const ENOUGH_SECTORS: u64 = 256;
/// Most holds in a row that are believed to be in vain: the 2^6 chances after it are passed over.
const MOST_FAILURES: u32 = 6;

/// Which holds there are, and whether they have been worth it.
pub(super) struct MergeDelay {
    /// Whether zones are held at all; if not, nothing else here is used.
    pub(super) wanted: bool,
    /// Holds so far: the name of each, so that its timer ends no other.
    count: u32,
    failures: u32,
    passed_over: u32,
}

impl MergeDelay {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, count: 0, failures: 0, passed_over: 0 }
    }

    /// Whether the last holds make this one worth a try.
    fn are_worth_it(&mut self) -> bool {
        let tries = self.passed_over == 0;
        self.passed_over = self.passed_over.saturating_sub(1);
        tries
    }

    fn was_worth_it(&mut self) {
        (self.failures, self.passed_over) = (0, 0);
    }

    fn was_in_vain(&mut self) {
        self.failures = (self.failures + 1).min(MOST_FAILURES);
        self.passed_over = (1 << self.failures) - 1;
    }
}

/// A zone whose write is done.
#[derive(Clone, Copy)]
struct Done {
    /// Bios that the write carried.
    carried: u32,
    /// Bios that wait.
    queued: u32,
    queued_sectors: u64,
    /// Whether other zones wait for the disk.
    contended: bool,
}

/// The number of waiting bios to hold the zone for.
fn choose_target(done: Done) -> Option<u32> {
    let target = ((done.carried + done.queued) / 2).max(1);
    let small = done.queued < target && done.queued_sectors < ENOUGH_SECTORS;
    (small && (done.queued > 0 || done.contended)).then_some(target)
}

impl ZonePlug {
    /// The bios that the write in flight in `zone` carries.
    pub(super) fn carried(&self, zone: ZoneNo) -> u32 {
        let slot = self.zones.at(zone).slot();
        slot.map_or(1, |slot| self.slots[slot].riding.len().max(1))
    }

    /// Holds a zone whose write is done, if that promises more than it costs.
    pub(super) fn hold(&mut self, zone: ZoneNo, carried: u32, cx: &mut Cx<'_>) -> bool {
        let slot = self.zones.at(zone).slot().map(|slot| &self.slots[slot]);
        let queued = slot.map_or(0, |slot| slot.waiting.len());
        let queued_sectors = slot.map_or(0, |slot| slot.sectors);
        let merges = slot.and_then(|slot| self.nodes.front(&slot.waiting)).is_none_or(is_mergeable);
        let done = Done { carried, queued, queued_sectors, contended: !self.disk_queue.line.is_empty() };
        let time = if queued == 0 { self.options.elevator.linger } else { self.options.elevator.hold_back };
        if time == Duration::ZERO || !merges || !self.is_ready() || !self.may_go_on(cx.now()) {
            return false;
        }
        let Some(target) = choose_target(done).filter(|_| self.merge_delay.are_worth_it()) else { return false };
        let Some(slot) = self.slot(zone) else { return false };
        self.merge_delay.count = self.merge_delay.count.wrapping_add(1);
        let number = self.merge_delay.count;
        self.slots[slot].waits_for = WaitsFor::Held { number, target };
        self.disk_queue.reserved = self.disk_queue.wanted;
        cx.wake_at(cx.now() + time, u64::from(zone.0) << 32 | u64::from(number));
        true
    }

    /// A bio has joined a zone that is held: ends the hold if that was all it waited for.
    pub(super) fn joined(&mut self, zone: ZoneNo, slot: usize, cx: &mut Cx<'_>) {
        let WaitsFor::Held { target, .. } = self.slots[slot].waits_for else { return };
        let slot = &self.slots[slot];
        let mergeable = self.nodes.back(&slot.waiting).is_some_and(is_mergeable);
        if slot.waiting.len() >= target || slot.sectors >= ENOUGH_SECTORS || !mergeable {
            self.merge_delay.was_worth_it();
            self.end_hold(zone, cx);
        }
    }

    /// The timer of a hold, which may have ended before.
    pub(super) fn hold_expired(&mut self, word: u64, cx: &mut Cx<'_>) {
        let (zone, expired) = (ZoneNo((word >> 32) as u32), word as u32);
        let waits_for = self.zones.at(zone).slot().map(|slot| self.slots[slot].waits_for);
        if let Some(WaitsFor::Held { number, .. }) = waits_for
            && number == expired
        {
            self.merge_delay.was_in_vain();
            self.end_hold(zone, cx);
        }
    }

    fn end_hold(&mut self, zone: ZoneNo, cx: &mut Cx<'_>) {
        let slot = self.zones.at(zone).slot().expect("a zone that is held has a slot");
        self.slots[slot].waits_for = WaitsFor::InFlight;
        self.disk_queue.reserved = false;
        self.release(zone, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(carried: u32, queued: u32, contended: bool) -> Option<u32> {
        choose_target(Done { carried, queued, queued_sectors: u64::from(queued) * 8, contended })
    }

    #[test]
    fn a_command_waits_until_half_of_what_was_under_way_is_queued() {
        assert_eq!(target(15, 1, false), Some(8));
        assert_eq!(target(10, 6, false), Some(8));
        assert_eq!([target(8, 8, false), target(1, 1, false), target(2, 1, false)], [None; 3]);
    }

    #[test]
    fn a_zone_that_ran_empty_is_held_only_against_others() {
        assert_eq!([target(4, 0, false), target(4, 0, true), target(1, 0, true)], [None, Some(2), Some(1)]);
    }

    #[test]
    fn what_is_large_does_not_wait_for_more() {
        let done = Done { carried: 100, queued: 1, queued_sectors: ENOUGH_SECTORS, contended: true };
        assert_eq!(choose_target(done), None);
    }

    #[test]
    fn holds_in_vain_become_rare_and_one_that_paid_brings_them_back() {
        let mut holds = MergeDelay::new(true);
        let mut held = 0;
        for _ in 0..1_000 {
            if holds.are_worth_it() {
                held += 1;
                holds.was_in_vain();
            }
        }
        assert!((15..=25).contains(&held), "{held} of 1000");
        while !holds.are_worth_it() {}
        holds.was_worth_it();
        assert!(holds.are_worth_it() && holds.are_worth_it());
    }
}
