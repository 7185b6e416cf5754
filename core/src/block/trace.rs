//! What happened at each hop, as blktrace tells it. Off unless asked for; then a bounded ring of the newest events.

use alloc::collections::VecDeque;

use super::bio::{Bio, Owner};
use super::id::DeviceId;
use super::op::{Flags, Op};
use super::status::Status;
use crate::sector::Sector;
use crate::time::Instant;

named_enum! {
    /// What happened to a bio. The letters are blktrace's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// A submitter handed it to the stack.
        Queue => 'Q',
        /// It reached a device.
        Dispatch => 'D',
        /// A device passed it on for good.
        Remap => 'A',
        /// It was merged into another.
        Merge => 'M',
        /// It was split in two.
        Split => 'X',
        /// It ended in a device.
        Complete => 'C',
    }

    /// blktrace's letter.
    fn letter(self) -> char;
}

/// One hop event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When: the time of the turn.
    pub at: Instant,
    /// What.
    pub action: Action,
    /// Where: the device it is addressed to, for a remap the new one.
    pub device: DeviceId,
    /// The bio. Pieces of it have the same number; it is 0 for a bio that was on its way before the trace.
    pub number: u32,
    /// Frames on the bio: one that came into a layer with this many leaves it when it completes with as many.
    pub depth: u8,
    /// For `Complete`: whether its submitter has it back now.
    pub returned: bool,
    /// The bio's operation at that moment.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// Its first sector at that moment.
    pub sector: Sector,
    /// Its length.
    pub sectors: u32,
    /// Its outcome, for `Complete`.
    pub status: Status,
}

impl_display!(TraceEvent, |self, f| {
    let Self { at, action, device, op, sector, sectors, status, .. } = self;
    let (s, ns) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
    write!(f, "{s:5}.{ns:09} {} {} {sector}+{sectors} {}", device.0, action.letter(), op.name())?;
    if *action == Action::Complete { write!(f, " [{status}]") } else { Ok(()) }
});

/// The newest hop events, up to a bound.
#[derive(Debug)]
pub struct Trace {
    events: VecDeque<TraceEvent>,
    bound: usize,
    lost: u64,
    only: Option<DeviceId>,
}

impl Trace {
    /// An empty trace that keeps the newest `bound` events.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self { events: VecDeque::with_capacity(bound), bound, lost: 0, only: None }
    }

    /// The same, of what happens at `device`. Completions are kept of all devices: a bio that only passed through one
    /// ends elsewhere.
    #[must_use]
    pub fn only(mut self, device: Option<DeviceId>) -> Self {
        self.only = device;
        self
    }

    /// Takes the oldest event out.
    pub fn pop(&mut self) -> Option<TraceEvent> {
        self.events.pop_front()
    }

    /// Events that fell out of the ring unread.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    #[cold]
    #[inline(never)]
    pub(super) fn record(&mut self, at: Instant, action: Action, device: DeviceId, bio: &Bio, status: Status) {
        if self.only.is_some_and(|only| only != device) && action != Action::Complete {
            return;
        }
        if self.events.len() == self.bound {
            self.events.pop_front();
            self.lost += 1;
        }
        let Bio { op, flags, sector, sectors, number, .. } = *bio;
        let returned = action == Action::Complete && matches!(bio.top().owner, Owner::Port(_));
        let depth = bio.depth();
        let event = TraceEvent { at, action, device, number, depth, returned, op, flags, sector, sectors, status };
        self.events.push_back(event);
    }
}
