//! All a layer must do, and all it may do.

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::ops::Range;

use super::bio::{Bio, Owner};
use super::chunks::Chunks;
use super::content::Content;
use super::effects::{Effects, Hop};
use super::event::Event;
use super::figure::Figure;
use super::health::DeviceHealth;
use super::id::DeviceId;
use super::limits::Limits;
use super::meter::Meter;
use super::path::{AnaState, PathEvent, Silence};
use super::reason::Reason;
use super::status::Status;
use super::trace::Action;
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::Instant;
use crate::zone::ZoneNo;

/// A layer or a disk. One trait for both: they differ in what they do with a bio, not in how they are called.
///
/// Methods never block and never call another device: effects go through [`Cx`] and happen after the method returned.
pub trait BlockDevice: Any {
    /// What it accepts. May change only while the device is suspended.
    fn limits(&self) -> &Limits;

    /// Called once it has its place in a stack, before its first bio: the moment to ask the devices below something.
    fn attached(&mut self, cx: &mut Cx<'_>) {
        let _ = cx;
    }

    /// Where every plain bio goes if all that its `submit` does with one is [`Cx::pass`]: then the stack takes that hop without
    /// a call, unless somebody watches. May change when limits may.
    fn route(&self) -> Option<Route> {
        None
    }

    /// Takes a bio that keeps to [`BlockDevice::limits`]. It must end in exactly one `remap`, `submit` or `complete`, now
    /// or later.
    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>);

    /// Takes back a bio that it sent on with [`Cx::submit`] and `word`.
    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let _ = (status, word, cx);
        unreachable!("{bio:?} came back to a device that sent none on")
    }

    /// A timer that it set, or I/O that it started outside of the stack.
    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let _ = (event, cx);
    }

    /// What reads of the first of `sectors` would find if they came now, and of how many of them, at least one, that is known. They
    /// are in its capacity, and more than none.
    fn content(&self, sectors: Range<u64>) -> (Content, u64) {
        (Content::Data, sectors.end - sectors.start)
    }

    /// Shows every bio that waits in this device: for the stuck-I/O report and dashboards.
    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let _ = visit;
    }

    /// Number of requests in flight outside of the stack that the device has made for itself and not for a bio. It is not removed
    /// while it has some, since their results are delivered to its [`DeviceId`].
    fn requests(&self) -> u64 {
        0
    }

    /// What of its own survives the end of the process; what is below it is asked itself.
    fn survival(&self) -> Survival {
        Survival::All
    }

    /// When a command of its own can no longer take effect whose bio it gave back with a path error; `None`: it gives none up, and
    /// those below are asked. It does not change.
    fn silence(&self) -> Option<Silence> {
        None
    }

    /// Whether it stands above several paths and hears what they announce. It does not change.
    fn hears_paths(&self) -> bool {
        false
    }

    /// Whether it hears when a disk below has lost its power. It does not change.
    fn hears_losses(&self) -> bool {
        false
    }

    /// Whether bios to it may carry data that nobody here can look at ([`Payload::Remote`](super::Payload)), if all below it take that.
    /// It does not change.
    fn takes_remote(&self, below: bool) -> bool {
        let _ = below;
        false
    }

    /// The devices it sends bios to.
    fn below(&self) -> &[DeviceId] {
        &[]
    }

    /// Writes one line: the kind of device and its parameters.
    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result;

    /// Writes what it has to say at the moment: of a target what `dmsetup status` shows behind its name.
    fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let _ = out;
        Ok(())
    }

    /// Shows what it knows of itself in figures, each with its name.
    fn figures(&self, visit: &mut dyn FnMut(&'static str, Figure)) {
        let _ = visit;
    }

    /// Health of the device itself, without the devices below.
    fn health(&self) -> DeviceHealth {
        DeviceHealth::Works
    }

    /// What it uses a zone of a device below for, in a word; `None` if it does not know, or leaves that to those above.
    fn zone_use(&self, device: DeviceId, zone: ZoneNo) -> Option<&'static str> {
        let _ = (device, zone);
        None
    }

    /// Does what an operator says in words (`dmsetup message`), and answers with lines or nothing.
    ///
    /// # Errors
    /// If it does not understand, or cannot do it now.
    fn message(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<String, MessageError> {
        let _ = (words, cx);
        Err(MessageError(String::from("it takes no messages")))
    }

    /// How many events it has raised so far (`dmsetup wait`).
    fn events(&self) -> u64 {
        0
    }

    /// Whether it can take bios; asked before its mapped device is resumed.
    ///
    /// # Errors
    /// What is missing.
    fn is_ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// Asked before its table is replaced by another one.
    ///
    /// # Errors
    /// The reason if acknowledged changes would be lost.
    fn is_replaceable(&self) -> Result<(), String> {
        Ok(())
    }
}

/// What a device says of itself that keeps its limits and the devices below in fields of these names.
macro_rules! keeps_limits_and_below {
    () => {
        fn limits(&self) -> &$crate::block::Limits {
            &self.limits
        }

        fn below(&self) -> &[$crate::block::DeviceId] {
            &self.below
        }
    };
}

/// What a device still has of what it has acknowledged, when its process is killed and the machine runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survival {
    /// Nothing: it is made of the memory of the process.
    Nothing,
    /// What was acknowledged before the last flush.
    Flushed,
    /// All of it.
    All,
}

/// Where a device passes plain bios on to.
#[derive(Clone, Debug)]
pub enum Route {
    /// To one device.
    Shift {
        /// The device below.
        to: DeviceId,
        /// What to add to a sector, modulo 2^64.
        by: u64,
    },
    /// To several in turn, a chunk each. The device itself cuts what crosses the edge of one.
    Chunks(Arc<Chunks>),
}

impl Route {
    /// Where `bio` goes; `None` if the device has to cut it.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, bio: &Bio) -> Option<(DeviceId, Sector)> {
        match self {
            Route::Shift { to, by } => Some((*to, Sector(bio.sector.0.wrapping_add(*by)))),
            Route::Chunks(chunks) => chunks.place_whole(bio),
        }
    }
}

/// Error of a message to a device: what is wrong with it and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageError(pub String);

impl_error!(MessageError, |self, f| f.write_str(&self.0));

/// The per-call handle of a device: the effects it may have.
pub struct Cx<'a> {
    pub(super) effects: &'a mut Effects,
    pub(super) meter: &'a mut Meter,
    pub(super) me: DeviceId,
}

impl Cx<'_> {
    /// The place of the called device: what it puts on I/O that it starts outside of the stack.
    #[must_use]
    pub fn me(&self) -> DeviceId {
        self.me
    }

    /// The time of this turn.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.effects.now
    }

    /// Passes `bio` on for good: it will not come back (`DM_MAPIO_REMAPPED`).
    #[inline]
    pub fn remap(&mut self, to: DeviceId, bio: Box<Bio>) {
        self.meter.left += 1;
        self.send_down(to, bio);
    }

    #[inline]
    fn send_down(&mut self, to: DeviceId, bio: Box<Bio>) {
        if self.effects.is_plain() {
            self.effects.send_first(Hop::Down { to, bio });
        } else {
            self.send_down_traced(to, bio);
        }
    }

    #[cold]
    #[inline(never)]
    fn send_down_traced(&mut self, to: DeviceId, bio: Box<Bio>) {
        self.effects.trace(Action::Remap, to, &bio, Status::Ok);
        self.effects.send(Hop::Down { to, bio });
    }

    /// Passes `bio` on for good, to `sector` there, as [`Cx::remap`] does; but it counts as in flight here until it is done,
    /// observers see it leave, and then it has its own sector again, of an append with the offset in the zone from below.
    #[inline]
    pub fn pass(&mut self, to: DeviceId, mut bio: Box<Bio>, sector: Sector) {
        self.effects.pass(self.me, &mut bio, sector);
        self.send_down(to, bio);
    }

    /// Puts a bio that this device was just passed, and has not sent on, back to the door that it came through, where it
    /// waits until that device is resumed.
    ///
    /// # Errors
    /// The bio, if that door is open or somebody in between wants it back: then send it on.
    pub fn push_back(&mut self, bio: Box<Bio>) -> Result<(), Box<Bio>> {
        self.effects.push_back(bio)?;
        self.meter.left += 1;
        Ok(())
    }

    /// Passes `bio` on; it comes back to `end_io` with `word` (`DM_MAPIO_SUBMITTED`).
    #[inline(always)]
    pub fn submit(&mut self, to: DeviceId, mut bio: Box<Bio>, word: u64) {
        bio.enter(&self.effects.mark);
        bio.push(Owner::Device(self.me), word);
        self.effects.send(Hop::Down { to, bio });
    }

    /// Ends `bio` here; it goes back to whoever sent it. If it fails, it says why: the device below has noted it, or
    /// [`Bio::blame`] has.
    #[inline(always)]
    pub fn complete(&mut self, mut bio: Box<Bio>, status: Status) {
        if !status.is_ok() {
            self.explain(&mut bio, status);
        }
        self.meter.left += 1;
        self.effects.complete(self.me, bio, status);
    }

    #[cold]
    #[inline(never)]
    fn explain(&mut self, bio: &mut Bio, status: Status) {
        self.meter.errors[status as usize] += 1;
        bio.explain(self.me, status);
    }

    /// Ends `bio` here because of `reason`.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, mut bio: Box<Bio>, reason: impl Into<Reason>) {
        let status = bio.blame(reason);
        self.complete(bio, status);
    }

    /// Cuts `bio` into its first `front` sectors and the rest. The original completes, with the first failure of any
    /// piece, when all pieces have. Send the front on first: the rest stays first in line behind it.
    pub fn split(&mut self, bio: Box<Bio>, front: u32) -> (Box<Bio>, Box<Bio>) {
        self.meter.made += 1;
        self.effects.trace(Action::Split, self.me, &bio, Status::Ok);
        self.effects.split(bio, front)
    }

    /// Sends `bio` to this device's own `submit` again, behind what this call has sent so far and before anything else.
    pub fn again(&mut self, bio: Box<Bio>) {
        self.meter.left += 1;
        self.effects.send(Hop::Down { to: self.me, bio });
    }

    /// A bio of this device's own, from the pool, submitted now. It is in this device's custody: give it back with
    /// [`Cx::recycle`] after it came back from below.
    pub fn own_bio(&mut self, blank: Bio) -> Box<Bio> {
        self.meter.made += 1;
        let mut bio = self.effects.pool.take(blank);
        bio.since = self.effects.now;
        bio
    }

    /// Returns one of this device's own bios to the pool.
    pub fn recycle(&mut self, bio: Box<Bio>) {
        self.meter.left += 1;
        self.effects.pool.give(bio);
    }

    /// Has `on_event` called with `Event::Timer(word)` at `at`, or right after this turn's work if that is past.
    pub fn wake_at(&mut self, at: Instant, word: u64) {
        self.effects.wake_at(at, self.me, word);
    }

    /// Tells a path below, or the device above a path that asked, something; they hear it in this turn, after all hops.
    #[cold]
    pub fn tell_path(&mut self, to: DeviceId, event: PathEvent) {
        self.effects.events.push_back((to, Event::Path(event)));
    }

    /// Lets whoever stands above several paths, of which this device is one or lies below one alone, know what it is to the disk from
    /// now on. They hear it in this turn, after all hops. It is one path's state: where a device in between lies on several, it ends.
    #[cold]
    pub fn announce(&mut self, state: AnaState) {
        let path = self.me;
        self.tell_path(path, PathEvent::State { path, state });
    }

    /// Lets those above know that the disk has lost its power, `losses` times so far, or that one of several disks has: what it had
    /// acknowledged and not made durable may be gone. They hear it in this turn, after all hops.
    #[cold]
    pub fn announce_losses(&mut self, losses: Option<u64>) {
        let path = self.me;
        self.tell_path(path, PathEvent::Losses { path, losses });
    }

    /// Counts a bio that was merged into another, and traces it.
    pub fn merged(&mut self, bio: &Bio) {
        self.meter.merges += 1;
        self.effects.trace(Action::Merge, self.me, bio, Status::Ok);
    }
}
