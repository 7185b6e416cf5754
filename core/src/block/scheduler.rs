//! I/O schedulers: the order in which waiting bios go to a device that is sent a limited number at a time.
//!
//! ```text
//!  bios ──> fewer in flight than the depth and none waits? ── yes ──> device
//!                     │                                                 │
//!                     └── no: Scheduler::insert ── Scheduler::next <────┘ a bio completes
//! ```
//!
//! A scheduler belongs to the place of a device in the stack, as in Linux to the request queue: the way to a device without one costs
//! nothing more. A dispatched bio carries one frame more while it is in flight, by which its completion finds the scheduler.

use core::any::Any;

use super::bio::{Bio, Owner};
use super::effects::{Effects, Hop};
use super::id::DeviceId;
use super::op::Op;
use super::stack::Stack;
use super::status::Status;
use crate::prelude::*;
use crate::time::Instant;

/// An I/O scheduler: holds bios that wait for a device, and chooses which one is dispatched next.
///
/// It never holds a bio back: [`Scheduler::next`] returns one whenever one waits. It keeps no timers; time is an argument.
pub trait Scheduler: Any {
    /// Name of the scheduler, as in `/sys/block/*/queue/scheduler`.
    fn name(&self) -> &'static str;

    /// Takes a bio that waits since `arrival`.
    fn insert(&mut self, bio: Box<Bio>, arrival: Instant);

    /// Removes the bio that is dispatched next; `None` if none waits.
    fn next(&mut self, now: Instant) -> Option<Box<Bio>>;

    /// Removes the bio that has waited longest, with the time of its arrival; `None` if none waits. Used when another scheduler is chosen.
    fn remove_oldest(&mut self) -> Option<(Box<Bio>, Instant)>;

    /// Number of waiting bios.
    fn waiting(&self) -> usize;

    /// Shows every waiting bio.
    fn held(&self, visit: &mut dyn FnMut(&Bio));
}

/// The scheduler of a device and its dispatch limit. One for each place of a stack.
#[derive(Default)]
pub(super) struct Dispatcher {
    scheduler: Option<Box<dyn Scheduler>>,
    /// Most bios in flight while a scheduler is set.
    depth: u32,
    /// Bios in flight that a scheduler has dispatched, also an earlier one.
    in_flight: u32,
}

impl Dispatcher {
    pub fn waiting(&self) -> u64 {
        self.scheduler.as_ref().map_or(0, |scheduler| scheduler.waiting() as u64)
    }

    pub fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.scheduler.iter().for_each(|scheduler| scheduler.held(visit));
    }

    /// The next bio to dispatch, counted as in flight and with the frame that says so; `None` if none waits or the depth is used up.
    fn dispatch(&mut self, device: DeviceId, now: Instant) -> Option<Box<Bio>> {
        let scheduler = self.scheduler.as_mut().filter(|_| self.in_flight < self.depth)?;
        let mut bio = scheduler.next(now)?;
        self.count(device, &mut bio);
        Some(bio)
    }

    fn count(&mut self, device: DeviceId, bio: &mut Bio) {
        bio.push(Owner::Scheduled(device), 0);
        self.in_flight += 1;
    }
}

/// True for bios that are not sorted: they go to the device at once and do not count towards the depth.
fn bypasses(bio: &Bio) -> bool {
    matches!(bio.op, Op::Flush | Op::ReportZones | Op::ZoneResetAll)
}

impl Effects {
    /// True if a scheduler of device `to` has dispatched `bio`.
    pub(super) fn was_dispatched(bio: &Bio, to: DeviceId) -> bool {
        !bio.is_idle() && bio.top().owner == Owner::Scheduled(to)
    }

    /// Sends to `device` what its scheduler has next, as far as the depth allows.
    fn dispatch_scheduled(&mut self, device: DeviceId) {
        while let Some(bio) = self.dispatchers[device.0 as usize].dispatch(device, self.now) {
            self.send(Hop::Down { to: device, bio });
        }
    }

    /// Completes a bio that a scheduler has dispatched to `device`, and sends the next one there: after the completion, so that a layer above hears
    /// of it before.
    #[inline(never)]
    pub(super) fn complete_scheduled(&mut self, device: DeviceId, mut bio: Box<Bio>, status: Status) {
        bio.pop();
        self.dispatchers[device.0 as usize].in_flight -= 1;
        self.complete(device, bio, status);
        self.dispatch_scheduled(device);
    }
}

impl Stack {
    /// A bio for a device that has a scheduler; gives it back if it goes to the device now.
    pub(super) fn schedule(&mut self, to: DeviceId, bio: Box<Bio>) -> Option<Box<Bio>> {
        let now = self.effects.now;
        let dispatcher = &mut self.effects.dispatchers[to.0 as usize];
        match &mut dispatcher.scheduler {
            Some(scheduler) if !bypasses(&bio) => scheduler.insert(bio, now),
            _ => return Some(bio),
        }
        let mark = self.effects.queued();
        self.effects.dispatch_scheduled(to);
        self.effects.line_up(mark);
        None
    }

    /// Sets the scheduler of `device` and the number of bios that it keeps in flight there; `None`: bios go to the device as they come.
    ///
    /// Takes effect at once, whatever is in flight. Bios that wait in the scheduler so far keep the order of their arrival: they move to the
    /// new one, or go to the device at once without one.
    ///
    /// # Panics
    /// If other devices lie below `device`: only a disk has a scheduler, as the frame of one is part of what its place may use.
    pub fn set_scheduler(&mut self, device: DeviceId, scheduler: Option<(Box<dyn Scheduler>, u32)>) {
        let place = device.0 as usize;
        assert!(scheduler.is_none() || self.below(device).is_empty(), "a scheduler for a device that lies on others");
        let (new, depth) = scheduler.map_or((None, 0), |(scheduler, depth)| (Some(scheduler), depth.max(1)));
        let dispatcher = &mut self.effects.dispatchers[place];
        let old = core::mem::replace(&mut dispatcher.scheduler, new);
        dispatcher.depth = depth;
        let slot = &mut self.slots[place];
        slot.is_scheduled = dispatcher.scheduler.is_some();
        slot.find_way(self.effects.is_traced());
        let Some(mut old) = old else { return };
        while let Some((mut bio, arrival)) = old.remove_oldest() {
            let dispatcher = &mut self.effects.dispatchers[place];
            match &mut dispatcher.scheduler {
                Some(new) => new.insert(bio, arrival),
                None => {
                    dispatcher.count(device, &mut bio);
                    self.issue_between_turns(device, bio);
                }
            }
        }
        let now = self.effects.now;
        while let Some(bio) = self.effects.dispatchers[place].dispatch(device, now) {
            self.issue_between_turns(device, bio);
        }
    }

    fn issue_between_turns(&mut self, device: DeviceId, bio: Box<Bio>) {
        let bio = self.slots[device.0 as usize].without_emulated_fua(bio);
        self.call_between_turns(device, |device, cx| {
            cx.meter.arrive(&bio);
            device.submit(bio, cx);
        });
    }

    /// The scheduler of `device`; `None` if bios go there as they come.
    #[must_use]
    pub fn scheduler(&self, device: DeviceId) -> Option<&dyn Scheduler> {
        self.effects.dispatchers.get(device.0 as usize)?.scheduler.as_deref()
    }

    /// Most bios that the scheduler of `device` keeps in flight there; `None` without one.
    #[must_use]
    pub fn scheduler_depth(&self, device: DeviceId) -> Option<u32> {
        let dispatcher = self.effects.dispatchers.get(device.0 as usize)?;
        dispatcher.scheduler.as_ref().map(|_| dispatcher.depth)
    }

    /// The scheduler of `device`, as what it is; `None` if it has none or another one.
    #[must_use]
    pub fn scheduler_as<S: Scheduler>(&self, device: DeviceId) -> Option<&S> {
        let scheduler: &dyn Any = self.scheduler(device)?;
        scheduler.downcast_ref()
    }
}
