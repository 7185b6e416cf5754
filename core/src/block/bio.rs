//! A request, and the frames of the layers that want it back.
//!
//! A `Box<Bio>` has exactly one owner at a time: a layer, the hop queue or its submitter. It is never cloned. A layer that
//! must see the bio again pushes a frame, itself and one word; a layer that only remaps pushes nothing.

use alloc::sync::Arc;
use core::fmt;
#[cfg(debug_assertions)]
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::id::{DeviceId, PortId};
use super::op::{Flags, Op, Priority};
use super::payload::Payload;
use super::reason::{Reason, Why};
use super::status::Status;
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::{Duration, Instant};

/// Who gets a bio back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A layer, at `end_io`.
    Device(DeviceId),
    /// Nobody: it went through this device, which counts it until it is done.
    Passed(DeviceId),
    /// The scheduler of this device has dispatched it.
    Scheduled(DeviceId),
    /// A split, which counts its pieces.
    Split,
    /// The stack, which makes a write and a flush of a FUA write.
    EmulatedFua,
    /// The submitter.
    Port(PortId),
}

/// One layer's claim on a bio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub owner: Owner,
    /// Of a bio that was passed on: how long after its submission, see [`ArrivalDelay`].
    pub delay: ArrivalDelay,
    pub word: u64,
}

/// A time from the submission of a bio until it came to a device, in 32 bits beside the owner: exact up to 2.1 s, then in
/// steps of 4 us, and never more than 2.4 hours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArrivalDelay(u32);

impl ArrivalDelay {
    const COARSE: u32 = 1 << 31;

    pub fn new(time: Duration) -> Self {
        match u32::try_from(time.0) {
            Ok(ns) if ns < Self::COARSE => Self(ns),
            _ => Self(Self::COARSE | (time.0 >> 12).min(u64::from(Self::COARSE - 1)) as u32),
        }
    }

    pub fn time(self) -> Duration {
        let value = u64::from(self.0 & !Self::COARSE);
        Duration(if self.0 & Self::COARSE == 0 { value } else { value << 12 })
    }
}

/// Most layers that may want one bio back, the submitter and one split included. Checked when a stack is built.
pub const FRAMES: usize = 16;

/// A request on its way through a stack.
pub struct Bio {
    /// What it asks for.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// I/O priority class, for schedulers.
    pub priority: Priority,
    /// Length, in sectors; 0 where the operation has none.
    pub sectors: u32,
    /// First sector, on the device it is addressed to. After completion it means nothing, but for an append.
    pub sector: Sector,
    /// Memory or zones.
    pub payload: Payload,
    /// When it was submitted.
    pub since: Instant,
    /// Why it failed, if it has one.
    why: Option<Box<Why>>,
    /// Its number in traces, which its pieces share; 0 if none has seen it.
    pub(super) number: u32,
    depth: u8,
    has_why: bool,
    /// The stack that it is in, or was last.
    stack: StackMark,
    frames: [Frame; FRAMES],
}

impl Bio {
    /// A bio without flags.
    #[must_use]
    pub fn new(op: Op, sector: Sector, sectors: u32, payload: Payload) -> Self {
        const UNUSED: Frame = Frame { owner: Owner::Split, delay: ArrivalDelay(0), word: 0 };
        Self {
            op,
            flags: Flags::NONE,
            priority: Priority::BestEffort,
            sectors,
            sector,
            payload,
            since: Instant::ZERO,
            why: None,
            number: 0,
            depth: 0,
            has_why: false,
            stack: StackMark::default(),
            frames: [UNUSED; FRAMES],
        }
    }

    /// The same bio with `flags`.
    #[must_use]
    pub fn with_flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// Sets the I/O priority class.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// The sector after the last one.
    #[must_use]
    pub fn end(&self) -> Sector {
        self.sector + u64::from(self.sectors)
    }

    /// Whether it reads or writes data, and promises nothing about other bios.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.op.has_data() && !self.flags.has(Flags::PREFLUSH)
    }

    /// Whether nobody waits for it: it is not on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.depth == 0
    }

    /// Why it failed. It means something only while it fails: with a status that is not ok.
    #[must_use]
    pub fn why(&self) -> Option<&Why> {
        self.why.as_deref().filter(|_| self.has_why)
    }

    /// The same, as the reason of what fails because of that.
    #[cold]
    #[must_use]
    pub fn cause(&self, status: Status) -> Reason {
        self.why().map_or(Reason::Unexplained(status), |why| Reason::Below(Arc::new(why.clone())))
    }

    /// Notes why it fails, as it is now, and returns the status that it is to be completed with.
    #[cold]
    #[inline(never)]
    pub fn blame(&mut self, reason: impl Into<Reason>) -> Status {
        let why = Why { device: None, op: self.op, sector: self.sector, sectors: self.sectors, reason: reason.into() };
        let status = why.status();
        self.note(why);
        status
    }

    /// Notes that it fails because `other` has, which was sent for its sake. Of several the first that failed counts.
    #[cold]
    pub fn inherit(&mut self, other: &mut Bio) {
        self.forget_why();
        core::mem::swap(&mut self.why, &mut other.why);
        self.has_why = core::mem::take(&mut other.has_why);
    }

    /// The same for one of several that fail because of `other`.
    #[cold]
    pub fn share(&mut self, other: &Bio) {
        self.forget_why();
        other.why().into_iter().for_each(|why| self.note(why.clone()));
    }

    /// Device `by` fails it with `status`: whoever has not said why is found out.
    #[cold]
    #[inline(never)]
    pub(super) fn explain(&mut self, by: DeviceId, status: Status) {
        if self.why().is_none_or(|why| why.status() != status) {
            self.blame(Reason::Unexplained(status));
        }
        self.why.iter_mut().for_each(|why| _ = why.device.get_or_insert(by));
    }

    /// It is on a new way. The memory for its reason stays with it, so that what fails again and again allocates once.
    #[inline]
    pub(super) fn forget_why(&mut self) {
        if self.has_why {
            self.empty_why();
        }
    }

    /// What a reason refers to does not stay, or a plug could not use its memory again.
    #[cold]
    #[inline(never)]
    fn empty_why(&mut self) {
        self.has_why = false;
        self.why.iter_mut().for_each(|why| why.reason = Reason::Empty);
    }

    /// Takes over the memory for a reason from a bio in whose place it is put.
    #[inline]
    pub(super) fn keep_memory_of(&mut self, old: &mut Bio) {
        old.forget_why();
        self.why = old.why.take();
    }

    fn note(&mut self, why: Why) {
        self.has_why = true;
        match &mut self.why {
            Some(known) => **known = why,
            None => self.why = Some(Box::new(why)),
        }
    }

    /// Notes whose it is, if that is new.
    #[inline]
    pub(super) fn enter(&mut self, stack: &StackMark) {
        if cfg!(debug_assertions) && self.is_idle() {
            self.stack = stack.clone();
        }
    }

    pub(super) fn push(&mut self, owner: Owner, word: u64) {
        self.push_frame(Frame { owner, delay: ArrivalDelay(0), word });
    }

    pub(super) fn push_frame(&mut self, frame: Frame) {
        self.frames[self.depth as usize] = frame;
        self.depth += 1;
    }

    pub(super) fn pop(&mut self) -> Frame {
        self.depth -= 1;
        self.frames[self.depth as usize]
    }

    /// Frames on it.
    pub(super) fn depth(&self) -> u8 {
        self.depth
    }

    pub(super) fn top(&self) -> Frame {
        self.frames[self.depth as usize - 1]
    }

    /// The split this bio is an untouched piece of.
    pub(super) fn piece_of(&self) -> Option<u64> {
        match (self.depth, self.frames[0]) {
            (1, Frame { owner: Owner::Split, word, .. }) => Some(word),
            _ => None,
        }
    }
}

impl fmt::Debug for Bio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}+{}", self.op.name(), self.sector, self.sectors)?;
        let named = [
            (Flags::FUA, " fua"),
            (Flags::PREFLUSH, " preflush"),
            (Flags::NOWAIT, " nowait"),
            (Flags::FAST, " fast"),
            (Flags::NO_UNMAP, " no-unmap"),
        ];
        named.iter().filter(|(flag, _)| self.flags.has(*flag)).try_for_each(|(_, name)| f.write_str(name))
    }
}

/// Which stack a bio is in, and whether that is being dropped: then bios in flight are dropped with it, which is what a crash
/// is. Nothing at all but in debug builds.
#[derive(Clone, Default)]
pub(super) struct StackMark(#[cfg(debug_assertions)] Option<Arc<AtomicBool>>);

impl StackMark {
    /// That of a new stack.
    pub fn new() -> Self {
        Self(
            #[cfg(debug_assertions)]
            Some(Arc::new(AtomicBool::new(false))),
        )
    }
}

#[cfg(debug_assertions)]
impl StackMark {
    /// The stack is being dropped from now on.
    pub fn end(&self) {
        self.0.iter().for_each(|is_over| is_over.store(true, Relaxed));
    }

    fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|is_over| is_over.load(Relaxed))
    }
}

#[cfg(debug_assertions)]
impl Drop for Bio {
    fn drop(&mut self) {
        assert!(self.is_idle() || self.stack.is_over(), "dropped uncompleted: {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_is_exact_for_two_seconds_and_near_for_two_hours() {
        for ns in [0, 1, 4095, (1 << 31) - 1] {
            assert_eq!(ArrivalDelay::new(Duration(ns)).time(), Duration(ns));
        }
        for ns in [1 << 31, 5_000_000_001, 7_200_000_000_000] {
            let found = ArrivalDelay::new(Duration(ns)).time().0;
            assert!(found <= ns && ns - found < 4096, "{ns}: {found}");
        }
        assert!(ArrivalDelay::new(Duration(u64::MAX)).time().0 > 8_000_000_000_000);
    }
}
