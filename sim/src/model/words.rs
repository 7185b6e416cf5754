//! What is said to the model, and what it says.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use crate::disk::{Leaf, Powered};
use crate::stamp::Seen;
use shingle_core::block::{DeviceId, Flags, Op, Stack};
use shingle_core::time::Instant;
use shingle_core::zone::{Zone, ZoneNo};

/// A zone, as the model is told of it.
#[derive(Clone, Debug)]
pub struct ZoneShape {
    /// Whether it is written at a pointer.
    pub sequential: bool,
    /// Its length, in sectors.
    pub len: u32,
    /// How many of them can be written.
    pub capacity: u32,
    /// Whether acknowledged changes are volatile.
    pub write_cache: bool,
    /// The disks that it lies on, one bit each. One of several can be torn, by a failure or a loss of power, and is then
    /// reported as full.
    pub disks: u32,
}

/// Sectors of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The zone, by the model's number.
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
pub struct DiskRequest {
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

/// The names of these flags, as they stand behind a request.
pub(crate) fn flag_names(flags: Flags) -> impl Iterator<Item = &'static str> {
    let named = [(Flags::FUA, " fua"), (Flags::PREFLUSH, " preflush"), (Flags::NOWAIT, " nowait")];
    named.into_iter().filter(move |(flag, _)| flags.has(*flag)).map(|(_, name)| name)
}

/// Who keeps writes of one zone in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The stack: requests of one zone take effect in the order in which they were submitted.
    #[default]
    Stack,
    /// The host: it has at most one request in flight in a zone.
    Host,
    /// Nobody: errors need no reason, and pointers are not compared.
    Nobody,
}

/// What was promised and is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A read gives what was written.
    Data,
    /// What was flushed survives a loss of power, and zones keep a prefix.
    Durability,
    /// What a loss of power leaves of a volume that promises so is a prefix of the writes.
    Prefix,
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
    /// Every bio that fails says why, and its status follows from that.
    Reason,
    /// A request that breaks the rules is refused.
    Accepted,
    /// Every bio ends in bounded time.
    Stuck,
    /// Every bio ends once, with its memory.
    Completion,
    /// A block never holds what was written to another one.
    Foreign,
    /// What a volume leaves on its disks is what an independent checker wants to see.
    Metadata,
    /// A plug agrees with itself.
    Plug,
    /// Nothing panics.
    Panic,
    /// A head leaves alone what has failed or does not lead to the disk, and finds a path where there is one.
    Path,
    /// A table is swapped, or refused, as asked for, and nothing goes through a suspended device.
    Table,
}

/// A broken promise: which, and what was found.
pub type Broken = (Rule, String);

/// Whether promises were kept.
pub(crate) type Verdict = Result<(), Broken>;

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

impl Violation {
    /// A violation that was found while no world ran: on disks without a host, or before the first request.
    pub(crate) fn at_rest(rule: Rule, what: String) -> Self {
        Self { rule, at: Instant::ZERO, what }
    }
}

shingle_core::impl_display!(Violation, |self, f| {
    let (us, ns) = (self.at.0 / 1_000, self.at.0 % 1_000);
    write!(f, "{:?} at {us}.{ns:03} us: {}", self.rule, self.what)
});

/// What may excuse an error.
#[derive(Clone)]
pub struct Grounds<'a> {
    /// The disks, for their faults.
    pub disks: Disks<'a>,
    /// The plug does not know its zones and refuses everything that needs an order.
    pub plug_failed: bool,
    /// Faults that a layer above the plug has injected so far.
    pub layer_faults: u64,
    /// Native appends do not exist, and nobody emulates them.
    pub no_append: bool,
    /// Completions may be told in another order than that in which things happened.
    pub is_late: bool,
    /// Appends that were done again so far although they may have been done.
    pub doubled: u64,
    /// The request went where failing is allowed.
    pub excused: bool,
    /// The disks that a flush, as the request is or asks for, has surely reached, one bit each.
    pub reach: u32,
    /// The time.
    pub now: Instant,
}

/// A zone of a report.
pub struct ZoneLine {
    /// The model's number of it.
    pub number: ZoneNo,
    /// What is said of it; it begins at sector 0.
    pub zone: Zone,
    /// Whether all plugs on the way of its writes have heard it, too. One above an encryption hears nothing of what is asked below.
    pub is_heard: bool,
}

/// The disks behind the model's zones.
#[derive(Clone)]
pub struct Disks<'a> {
    /// Where they are.
    pub stack: &'a Stack,
    /// All of them.
    pub all: Rc<[DeviceId]>,
    /// For each of the model's zones what it is made of: disks, by their place in `all`, and zones there.
    pub parts: Rc<[Vec<(usize, ZoneNo)>]>,
}

impl<'a> Disks<'a> {
    fn disk(&self, place: usize) -> &'a dyn Powered {
        let leaf: &Leaf = self.stack.device(self.all[place]).expect("the disk is where it was put");
        leaf.0.as_ref()
    }

    /// All faults that happened.
    #[must_use]
    pub fn faults(&self) -> u64 {
        (0..self.all.len()).map(|disk| self.disk(disk).faults()).sum()
    }

    /// Faults that happened to commands of `zone`.
    #[must_use]
    pub fn faults_in(&self, zone: ZoneNo) -> u64 {
        self.parts[zone.index()].iter().map(|(disk, zone)| self.disk(*disk).faults_in(*zone)).sum()
    }

    /// Whether `zone` is read-only or offline.
    #[must_use]
    pub fn has_failed(&self, zone: ZoneNo) -> bool {
        self.parts[zone.index()].iter().any(|(disk, zone)| self.disk(*disk).has_failed(*zone))
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
    /// Zones, by the model's numbers; they begin at sector 0 each.
    Zones(&'a [ZoneLine]),
}
