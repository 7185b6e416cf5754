//! The places of a stack: adding, suspending, replacing and removing devices while the others work.
//!
//! A place keeps its number for as long as something lies in it. What devices lie on what is asked of the devices
//! themselves, so the order of the numbers means nothing.

use alloc::collections::VecDeque;
use core::fmt;

use super::bio::{Bio, FRAMES};
use super::check::FastCheck;
use super::device::{BlockDevice, Cx};
use super::effects::PassState;
use super::fua::emulates_fua;
use super::id::DeviceId;
use super::limits::{Limits, LimitsError};
use super::meter::Meter;
use super::reason::Reason;
use super::scheduler::Dispatcher;
use super::stack::{Dispatch, Slot, Stack};
use crate::prelude::*;

/// What a device that is given up has been sent so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PriorUse {
    /// Nothing: what lies below it may change as if it were gone.
    Unused,
    /// Bios: it may have more to send, and what lies below it keeps its limits until it is gone.
    Used,
}

impl Stack {
    /// Adds a device above some of those that are there.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn add(&mut self, device: Box<dyn BlockDevice>) -> Result<DeviceId, StackError> {
        let free = self.slots.iter().position(|slot| slot.is_free && slot.meter.custody() == 0);
        let place = free.unwrap_or(self.slots.len());
        let id = DeviceId(u16::try_from(place).map_err(|_| StackError::TooManyDevices)?);
        let depth = self.admit(id, device.as_ref())?;
        let limits = device.limits().clone();
        let (fast_check, meter, deferred) = (FastCheck::new(&limits), Meter::default(), VecDeque::new());
        let slot = Slot {
            device,
            dispatch: Dispatch::Call,
            suspended: false,
            is_scheduled: false,
            emulates_fua: false,
            fast_check,
            meter,
            limits,
            deferred,
            depth,
            is_free: false,
            is_unused: false,
        };
        if free.is_some() {
            (self.slots[place], self.effects.doors[place]) = (slot, PassState::default());
            self.effects.dispatchers[place] = Dispatcher::default();
        } else {
            self.slots.push(slot);
            self.effects.doors.push(PassState::default());
            self.effects.dispatchers.push(Dispatcher::default());
        }
        self.adopt_limits(id);
        self.call_between_turns(id, |device, cx| device.attached(cx));
        Ok(id)
    }

    /// Stops bios at the door of `device`; those inside run on. See [`Stack::is_drained`].
    pub fn suspend(&mut self, device: DeviceId) {
        let slot = &mut self.slots[device.0 as usize];
        (slot.suspended, slot.dispatch) = (true, Dispatch::Watch);
        self.effects.doors[device.0 as usize].is_shut = true;
    }

    /// Whether nothing is left inside of `device`, nothing that it wants back, and nothing that it has passed on.
    #[must_use]
    pub fn is_drained(&self, device: DeviceId) -> bool {
        self.in_flight(device) == 0
    }

    fn in_flight(&self, device: DeviceId) -> u64 {
        let place = device.0 as usize;
        let slot = &self.slots[place];
        let waiting = self.effects.dispatchers[place].waiting();
        slot.meter.custody() + waiting - self.effects.doors[place].done + slot.device.requests()
    }

    /// Whether bios wait at the door of `device`.
    #[must_use]
    pub fn is_suspended(&self, device: DeviceId) -> bool {
        self.slots[device.0 as usize].suspended
    }

    /// Puts `new` in the place of a suspended and drained device.
    ///
    /// # Errors
    /// If it is not suspended and drained, or the new one does not fit; then the old one stays.
    pub fn replace(&mut self, device: DeviceId, new: Box<dyn BlockDevice>) -> Result<(), StackError> {
        let in_flight = self.in_flight(device);
        if !self.is_suspended(device) || in_flight != 0 {
            return Err(StackError::Busy { device, in_flight });
        }
        self.can_replace(device, new.as_ref())?;
        let depth = self.admit(device, new.as_ref())?;
        self.effects.forget_timers(device);
        let slot = &mut self.slots[device.0 as usize];
        (slot.device, slot.depth) = (new, depth);
        self.falls_silent(device);
        self.settle_depths();
        self.adopt_limits(device);
        self.call_between_turns(device, |device, cx| device.attached(cx));
        Ok(())
    }

    /// Whether `new` fits in the place of `device`, whatever that does at the moment.
    ///
    /// # Errors
    /// Why not.
    pub fn can_replace(&self, device: DeviceId, new: &dyn BlockDevice) -> Result<(), StackError> {
        let depth = self.admit(device, new)?;
        self.fits_above(device, depth, 0)?;
        let Some(above) = self.relied_on_by(device) else { return Ok(()) };
        let serves = new.limits().serves(&self.slots[device.0 as usize].limits);
        serves.map_err(|what| StackError::Serves { above, what })
    }

    /// Has the device in place `id`, as what it is, lie on `below` too: `change` does that, if `below` fits there. What it returns; `None` if it
    /// is another kind of device.
    ///
    /// # Errors
    /// If there is no such device below, it leads back here, or is too deep.
    pub fn lie_on<D: BlockDevice, R>(
        &mut self,
        id: DeviceId,
        below: DeviceId,
        change: impl FnOnce(&mut D, &mut Cx<'_>) -> R,
    ) -> Result<Option<R>, StackError> {
        let slot = self.slots.get(below.0 as usize).filter(|slot| !slot.is_free);
        let depth = slot.ok_or(StackError::Unknown(below))?.depth;
        if self.reaches(&[below], id) {
            return Err(StackError::Loop(id));
        }
        self.fits_above(id, depth + 1, 0)?;
        let result = self.with_device(id, change);
        self.settle_depths();
        Ok(result)
    }

    /// Lets bios in again, first those that waited, in their order; each is checked anew, as the device may have changed. They go
    /// before what comes from outside, but behind what waited at doors further down: that went through here before them.
    pub fn resume(&mut self, device: DeviceId) {
        self.slots[device.0 as usize].suspended = false;
        self.adopt_limits(device);
        let depth = self.slots[device.0 as usize].depth;
        let is_above = |(to, _): &(DeviceId, Box<Bio>)| self.slots[to.0 as usize].depth >= depth;
        let arrivals = &mut self.effects.arrivals;
        let older = arrivals.iter().position(is_above).unwrap_or(arrivals.len());
        arrivals.rotate_left(older);
        let slot = &mut self.slots[device.0 as usize];
        let door = &mut self.effects.doors[device.0 as usize];
        door.is_shut = false;
        // What came back to the door was there before what came to it later.
        for bio in slot.deferred.drain(..).rev().chain(door.pushed_back.drain(..).rev()) {
            arrivals.push_front((device, bio));
        }
        arrivals.rotate_right(older);
    }

    /// True if all that a device has in flight are requests that it has made for itself ([`BlockDevice::requests`]).
    #[must_use]
    pub fn has_own_requests_only(&self, device: DeviceId) -> bool {
        let own = self.slots[device.0 as usize].device.requests();
        own > 0 && self.in_flight(device) == own && self.above(device).is_none()
    }

    /// Empties the place of a device that nobody uses. Its number may be given to another device: nobody may keep it.
    ///
    /// # Errors
    /// If another device lies on it, or bios are in it or at its door.
    pub fn remove(&mut self, device: DeviceId) -> Result<Box<dyn BlockDevice>, StackError> {
        if let Some(above) = self.above(device) {
            return Err(StackError::InUse(above));
        }
        let slot = &self.slots[device.0 as usize];
        let on_the_way = self.effects.arrivals.iter().filter(|(to, _)| *to == device).count();
        let door = &self.effects.doors[device.0 as usize];
        let waiting = slot.deferred.len() + door.pushed_back.len() + on_the_way;
        let in_flight = self.in_flight(device) + waiting as u64;
        if in_flight != 0 {
            return Err(StackError::Busy { device, in_flight });
        }
        self.effects.forget_timers(device);
        self.effects.events.retain(|(to, _)| *to != device);
        self.effects.questions.retain(|question| question.by != device);
        self.falls_silent(device);
        self.effects.doors[device.0 as usize] = PassState::default();
        self.effects.dispatchers[device.0 as usize] = Dispatcher::default();
        let slot = &mut self.slots[device.0 as usize];
        (slot.is_free, slot.suspended, slot.depth, slot.meter) = (true, false, 1, Meter::default());
        (slot.is_unused, slot.is_scheduled) = (false, false);
        let old = core::mem::replace(&mut slot.device, Box::new(Nothing { limits: Limits::new(1) }));
        self.adopt_limits(device);
        Ok(old)
    }

    /// Gives up a device that nobody sends bios to any more. It goes at once, or, if it has something under way, at the end of the
    /// turn in which that is done.
    pub fn abandon(&mut self, device: DeviceId, prior_use: PriorUse) {
        if self.remove(device).is_err() {
            self.slots[device.0 as usize].is_unused = prior_use == PriorUse::Unused;
            self.abandoned.push(device);
        }
    }

    /// Whether a device that was given up still has something under way.
    #[must_use]
    pub fn has_abandoned(&self) -> bool {
        !self.abandoned.is_empty()
    }

    /// Devices that were given up and still have something under way.
    #[must_use]
    pub fn abandoned(&self) -> &[DeviceId] {
        &self.abandoned
    }

    #[cold]
    pub(super) fn remove_abandoned(&mut self) {
        let mut abandoned = core::mem::take(&mut self.abandoned);
        let mut count = usize::MAX;
        // What lies on another that goes, goes first.
        while abandoned.len() < count {
            count = abandoned.len();
            abandoned.retain(|device| self.remove(*device).is_err());
        }
        self.abandoned = abandoned;
    }

    /// A device that relies on the limits of `device`, if there is one: that sends bios there and was not given up unused.
    #[must_use]
    pub fn relied_on_by(&self, device: DeviceId) -> Option<DeviceId> {
        let relies = |slot: &Slot| !slot.is_unused && slot.device.below().contains(&device);
        self.slots.iter().position(relies).map(|place| DeviceId(place as u16))
    }

    /// A device that sends bios to `device`, if there is one.
    #[must_use]
    pub fn above(&self, device: DeviceId) -> Option<DeviceId> {
        let lies_on = |slot: &Slot| slot.device.below().contains(&device);
        self.slots.iter().position(lies_on).map(|place| DeviceId(place as u16))
    }

    /// Checks a device for its place and returns the frames that a bio needs from there down.
    fn admit(&self, id: DeviceId, device: &dyn BlockDevice) -> Result<usize, StackError> {
        device.limits().validate()?;
        let mut deepest = 0;
        for below in device.below() {
            let slot = self.slots.get(below.0 as usize).filter(|slot| !slot.is_free);
            deepest = deepest.max(slot.ok_or(StackError::Unknown(*below))?.depth);
        }
        if self.reaches(device.below(), id) {
            return Err(StackError::Loop(id));
        }
        fits(deepest + own_frames(device))
    }

    /// Whether a bio sent to one of `from` could come to `id`.
    fn reaches(&self, from: &[DeviceId], id: DeviceId) -> bool {
        let mut seen = alloc::vec![false; self.slots.len()];
        let mut next: Vec<DeviceId> = from.to_vec();
        while let Some(device) = next.pop() {
            if device == id {
                return true;
            }
            if !core::mem::replace(&mut seen[device.0 as usize], true) {
                next.extend(self.slots[device.0 as usize].device.below());
            }
        }
        false
    }

    /// Whether all that lies above `device` still fits if that has this depth.
    fn fits_above(&self, device: DeviceId, depth: usize, level: usize) -> Result<(), StackError> {
        fits(depth + level)?;
        let lies_on = |slot: &&Slot| slot.device.below().contains(&device);
        let above = self.slots.iter().enumerate().filter(|(_, slot)| lies_on(slot));
        above.map(|(place, _)| DeviceId(place as u16)).try_for_each(|above| self.fits_above(above, depth, level + 1))
    }

    /// Brings the depths of all devices up to date after one has changed.
    fn settle_depths(&mut self) {
        // Depths are at most `FRAMES`, so this ends after as many rounds.
        loop {
            let mut changed = false;
            for place in 0..self.slots.len() {
                let device = self.slots[place].device.as_ref();
                let deepest = device.below().iter().map(|id| self.slots[id.0 as usize].depth).max().unwrap_or(0);
                let depth = deepest + own_frames(device);
                changed |= core::mem::replace(&mut self.slots[place].depth, depth) != depth;
            }
            if !changed {
                return;
            }
        }
    }

    fn adopt_limits(&mut self, device: DeviceId) {
        let slot = &mut self.slots[device.0 as usize];
        slot.limits = slot.device.limits().clone();
        slot.emulates_fua = emulates_fua(slot.device.as_ref());
        slot.fast_check = FastCheck::new(&slot.limits);
        slot.find_way(self.effects.is_traced());
        let zone_sectors = slot.limits.zoned.as_ref().map_or(1, |zoned| zoned.zone_sectors);
        self.effects.doors[device.0 as usize].zone_mask = u64::from(zone_sectors) - 1;
    }
}

/// Frames that a bio needs for `device` itself.
fn own_frames(device: &dyn BlockDevice) -> usize {
    1 + usize::from(emulates_fua(device))
}

/// Each layer may push one frame, and so may the emulation of FUA; the submitter and one split need one each.
fn fits(depth: usize) -> Result<usize, StackError> {
    if depth + 2 > FRAMES { Err(StackError::TooDeep) } else { Ok(depth) }
}

/// What lies in an empty place.
struct Nothing {
    limits: Limits,
}

impl BlockDevice for Nothing {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        cx.fail(bio, Reason::Removed);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("nothing: the device was removed")
    }
}

/// Error of adding, replacing or removing a device of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackError {
    /// Its limits make no sense.
    Limits(LimitsError),
    /// It names a device below that is not there.
    Unknown(DeviceId),
    /// It would be below itself.
    Loop(DeviceId),
    /// A bio could need more frames than it has.
    TooDeep,
    /// No more device numbers.
    TooManyDevices,
    /// Other devices send bios to it, and it would not take all that it takes now.
    Serves {
        /// One of them.
        above: DeviceId,
        /// What it would no longer take.
        what: LimitsError,
    },
    /// Another device sends bios to it.
    InUse(DeviceId),
    /// It is not suspended, or has bios in flight.
    Busy {
        /// The device.
        device: DeviceId,
        /// Bios inside.
        in_flight: u64,
    },
}

impl_error!(StackError, Limits(LimitsError), |self, f| match self {
    Self::Limits(error) => error.fmt(f),
    Self::Unknown(id) => write!(f, "device {} below does not exist: add it first", id.0),
    Self::Loop(id) => write!(f, "device {} would be below itself: a table cannot map to itself", id.0),
    Self::Serves { above, what } => {
        write!(f, "device {} above it relies on what would change: {what}", above.0)
    }
    Self::InUse(above) => write!(f, "device {} lies on it: remove that first", above.0),
    Self::TooDeep => write!(f, "more than {} layers on top of each other: use a flatter stack", FRAMES - 2),
    Self::TooManyDevices => write!(f, "more than {} devices in one stack: use a second stack", u16::MAX),
    Self::Busy { device, in_flight } => {
        write!(f, "device {} has {in_flight} requests in flight: suspend it and wait for them first", device.0)
    }
});
