//! What is said to the model, and what it says.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::block::{Flags, Op};
use crate::sim::disk::CrashDisk;
use crate::time::Instant;
use crate::zone::{Condition, Zone, ZoneNo};

/// Sectors of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The zone, on the disk.
    pub zone: ZoneNo,
    /// First sector, from the start of the zone.
    pub offset: u32,
    /// How many; none for zone management.
    pub sectors: u32,
}

/// Whether a request is one that a disk has to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It has to succeed, unless something failed before or a limit of the disk is reached.
    Sound,
    /// It may be refused, and then alone: a misplaced write, closing a zone that is not open.
    Risky,
    /// It has to be refused.
    Hopeless,
}

/// What somebody asks of the disk.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// Where on the disk; of an append the zone and the length.
    pub extents: Vec<Extent>,
    /// What may become of it.
    pub intent: Intent,
    /// False for what is done in steps between which other requests can come.
    pub atomic: bool,
}

/// Who keeps writes of one zone in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The stack: requests of one zone take effect in the order in which they were submitted.
    Stack,
    /// The host: it has at most one request in flight in a zone.
    Host,
    /// Nobody: errors need no reason, and pointers are not compared.
    Nobody,
}

/// What a sector reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Zeroes.
    Zeroes,
    /// The data of a request: its number, and the sector in it.
    Data(u64, u32),
    /// Something that nobody has written.
    Garbage,
}

/// What was promised and is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A read gives what was written.
    Data,
    /// What was flushed survives a loss of power, and zones keep a prefix.
    Durability,
    /// A report gives the write pointer that follows from what was acknowledged.
    Pointer,
    /// A report gives a condition that follows from what was acknowledged.
    Condition,
    /// An append lands in its zone, where it says, and where nothing was.
    Append,
    /// Writes reach the disk one at a time in a zone, at the pointer, and not after a failed one.
    Order,
    /// Every error has a reason.
    Unexplained,
    /// A request that breaks the rules is refused.
    Accepted,
    /// Every bio ends in bounded time.
    Stuck,
    /// Every bio ends once, with its memory.
    Completion,
    /// A plug agrees with itself.
    Plug,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// When it was found, since the last start.
    pub at: Instant,
    /// What was expected and what was found.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (us, ns) = (self.at.0 / 1_000, self.at.0 % 1_000);
        write!(f, "{:?} at {us}.{ns:03} us: {}", self.rule, self.what)
    }
}

/// What may excuse an error.
#[derive(Clone, Copy)]
pub struct Grounds<'a> {
    /// The disk, for its faults.
    pub disk: &'a CrashDisk,
    /// The plug does not know its zones and refuses everything that needs an order.
    pub plug_failed: bool,
    /// Faults that a layer above the plug has injected so far.
    pub layer_faults: u64,
    /// Native appends do not exist, and nobody emulates them.
    pub no_append: bool,
    /// The time.
    pub now: Instant,
}

impl Grounds<'_> {
    pub(super) fn has_failed(&self, zone: ZoneNo) -> bool {
        matches!(self.disk.zones().state(zone).cond, Condition::ReadOnly | Condition::Offline)
    }
}

/// What came back with a completion.
pub enum Answer<'a> {
    /// Nothing but the status.
    Nothing,
    /// An append's place.
    Landed(Extent),
    /// What the sectors of a read hold, in order.
    Sectors(&'a [Seen]),
    /// Zones, as they are on the disk.
    Zones(&'a [(ZoneNo, Zone)]),
}
