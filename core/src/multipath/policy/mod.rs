//! Policies: which path an I/O takes.
//!
//! A policy decides and remembers, no more. The head that it serves counts what is under way on each path, so that policies can be
//! switched beside I/O; time is an argument. A path is its number in the slice that is handed over, which is the same until
//! [`Policy::changed`].
//!
//! All keep to one rule: while a path is optimized, none that is not gets anything. Where a policy of the kernel's does not, its page
//! says so.

mod adaptive;
mod expected_delay;
mod historical;
mod latency;
mod numa;
mod options;
mod queue_depth;
mod queue_length;
mod round_robin;
mod service_time;
mod turn_by_turn;
mod turns;

pub use adaptive::{Adaptive, AdaptiveOptions};
pub use expected_delay::ExpectedDelay;
pub use historical::{HistoricalServiceTime, HistoricalServiceTimeOptions, History};
pub use latency::{Latency, LatencyOptions};
pub use numa::Numa;
pub use options::{PolicyOptions, PolicyOptionsError};
pub use queue_depth::QueueDepth;
pub use queue_length::QueueLength;
pub use round_robin::RoundRobin;
pub use service_time::ServiceTime;
pub use turn_by_turn::TurnByTurn;

use crate::block::Op;
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// Whether a path takes I/O, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It leads to the controller that the disk belongs to.
    Optimized,
    /// It takes I/O, and that is slower or costs others something.
    NonOptimized,
    /// It takes none.
    Unusable,
}

/// A submitter, or the memory near to it: what the kernel takes a NUMA node for. Numbers from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u8);

/// What a policy sees of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathView {
    /// Whether it takes I/O.
    pub access: Access,
    /// I/Os under way on it.
    pub in_flight: u32,
    /// Bytes of those.
    pub bytes: u64,
    /// Those of each kind, and since when.
    pub pending: [Pending; IoClass::COUNT],
    /// The node that it is near to; `None`: it is equally near to all.
    pub node: Option<Node>,
    /// How much it carries compared with the others, of an operator's knowledge; up to 100.
    pub throughput: u32,
}

impl PathView {
    /// A path without I/O that is like the others.
    #[must_use]
    pub fn new(access: Access) -> Self {
        Self { access, in_flight: 0, bytes: 0, pending: [Pending::NONE; IoClass::COUNT], node: None, throughput: 1 }
    }

    /// An I/O is sent there.
    pub fn add(&mut self, io: &Io) {
        self.in_flight += 1;
        self.bytes += u64::from(io.bytes);
        self.pending[io.class as usize].add(io);
    }

    /// An I/O has ended there.
    pub fn remove(&mut self, io: &Io) {
        self.in_flight -= 1;
        self.bytes -= u64::from(io.bytes);
        self.pending[io.class as usize].remove(io);
    }
}

/// I/Os of one kind under way on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// How many.
    pub count: u32,
    /// Sum of the times at which they were sent, modulo 2^64: it tells how old they are on average.
    pub sent: u64,
    /// Bytes of these.
    pub bytes: u64,
}

impl Pending {
    /// None.
    pub const NONE: Self = Self { count: 0, sent: 0, bytes: 0 };

    /// One more is sent.
    pub fn add(&mut self, io: &Io) {
        self.count += 1;
        self.sent = self.sent.wrapping_add(io.at.0);
        self.bytes += u64::from(io.bytes);
    }

    /// One has ended.
    pub fn remove(&mut self, io: &Io) {
        self.count -= 1;
        self.sent = self.sent.wrapping_sub(io.at.0);
        self.bytes -= u64::from(io.bytes);
    }

    /// The sum of their ages.
    #[must_use]
    pub fn ages(&self, now: Instant) -> u64 {
        now.0.wrapping_mul(self.count.into()).wrapping_sub(self.sent)
    }
}

/// Kinds of I/O that may take times of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoClass {
    /// Reads.
    Read,
    /// Writes and appends.
    Write,
    /// All others.
    Other,
}

impl IoClass {
    /// Number of kinds.
    pub const COUNT: usize = 3;
    /// All kinds, by their numbers.
    pub const ALL: [Self; Self::COUNT] = [Self::Read, Self::Write, Self::Other];

    /// Name of the kind in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Other => "other",
        }
    }
}

impl From<Op> for IoClass {
    fn from(op: Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write | Op::ZoneAppend => Self::Write,
            _ => Self::Other,
        }
    }
}

/// What a policy is told of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// When it is sent.
    pub at: Instant,
    /// Who sends it.
    pub node: Node,
    /// What it is.
    pub class: IoClass,
    /// How much data it moves.
    pub bytes: u32,
    /// I/Os of its kind under way on its path when it was sent there; before that, 0.
    pub ahead: u32,
    /// Bytes of these.
    pub bytes_ahead: u64,
}

/// How an I/O ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// When.
    pub at: Instant,
    /// Whether it did what it was to do.
    pub is_ok: bool,
}

/// Measurements of a path over the last window of a policy that measures in windows, for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathWindow {
    /// Node of the submitters.
    pub node: Node,
    /// Kind of I/O; `None`: all kinds together.
    pub class: Option<IoClass>,
    /// Latency as it was at the end of the window, with what the policy has kept of earlier ones.
    pub latency: Duration,
    /// Samples of the window.
    pub samples: u64,
    /// I/Os in a row that the path gets from an `adaptive` policy; `None` of policies without weights.
    pub weight: Option<u32>,
}

/// A policy with its memory.
pub trait Policy {
    /// The path for an I/O, to be sent there at once; `None` if all are unusable.
    fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize>;

    /// An I/O on that path has ended; it is not counted there any more.
    fn ended(&mut self, path: usize, io: &Io, done: Done) {
        let _ = (path, io, done);
    }

    /// An I/O has failed on that path because of the path.
    fn failed(&mut self, path: usize) {
        let _ = path;
    }

    /// What it knows of the times of a path, if it keeps such a thing: for status lines.
    fn history(&self, path: usize) -> Option<History> {
        let _ = path;
        None
    }

    /// Visits the measurements of a path, if the policy measures in windows: for those who operate the device.
    fn windows(&self, path: usize, visit: &mut dyn FnMut(PathWindow)) {
        let _ = (path, visit);
    }

    /// Paths have come, gone or changed their access.
    fn changed(&mut self, paths: &[PathView]) {
        let _ = paths;
    }
}

crate::named_enum! {
    /// The policies that can be asked for by name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PolicyKind {
        /// Linux's default for NVMe: the nearest path.
        Numa => "numa",
        /// Linux's `round-robin` for NVMe.
        RoundRobin => "round-robin",
        /// Linux's `queue-depth` for NVMe.
        QueueDepth => "queue-depth",
        /// What was proposed for Linux in 2024, and not taken: the path with the least latency.
        Latency => "latency",
        /// What was proposed for Linux in 2025: shares by latency.
        Adaptive => "adaptive",
        /// dm-multipath's `round-robin`.
        TurnByTurn => "dm-round-robin",
        /// dm-multipath's `queue-length`.
        QueueLength => "queue-length",
        /// dm-multipath's `service-time`.
        ServiceTime => "service-time",
        /// dm-multipath's `historical-service-time`.
        HistoricalServiceTime => "historical-service-time",
        /// Ours: the path on which an I/O will be done first.
        ExpectedDelay => "expected-delay",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

impl PolicyKind {
    /// A policy of this kind that knows nothing yet, with what it does if nobody says otherwise.
    #[must_use]
    pub fn build(self) -> Box<dyn Policy> {
        self.build_with(&PolicyOptions::default())
    }

    /// The same with options, of which a policy that has none takes no notice: [`PolicyOptions::check`] refuses them.
    #[must_use]
    pub fn build_with(self, options: &PolicyOptions) -> Box<dyn Policy> {
        match self {
            Self::Numa => Box::new(Numa::default()),
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::QueueDepth => Box::new(QueueDepth),
            Self::Latency => Box::new(Latency::new(options.into())),
            Self::Adaptive => Box::new(Adaptive::new(options.into())),
            Self::TurnByTurn => Box::new(TurnByTurn::default()),
            Self::QueueLength => Box::new(QueueLength::default()),
            Self::ServiceTime => Box::new(ServiceTime::default()),
            Self::HistoricalServiceTime => {
                Box::new(HistoricalServiceTime::new(HistoricalServiceTimeOptions::default()))
            }
            Self::ExpectedDelay => Box::new(ExpectedDelay::default()),
        }
    }
}

/// The first path with the least cost among those of the best class that has one.
fn cheapest<C: Ord>(paths: &[PathView], mut cost: impl FnMut(usize, &PathView) -> C) -> Option<usize> {
    let usable = paths.iter().enumerate().filter(|(_, path)| path.access != Access::Unusable);
    usable.min_by_key(|(number, path)| (path.access, cost(*number, path))).map(|(number, _)| number)
}
