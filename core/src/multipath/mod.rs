//! Several paths to one disk, and which of them an I/O takes.

mod access;
mod failover;
mod guards;
mod head;
mod membership;
mod message;
mod options;
mod path;
mod policy;
mod retry;
mod unsettled;

#[cfg(feature = "sabotage")]
pub use guards::Sabotage;
pub use head::{Head, HeadCounters};
pub use membership::AddPathError;
pub use options::{HeadError, HeadOptions, MOST_PATHS};
pub use path::{PathConfig, PathCounters, PathHealth, PathReport};
pub use retry::{Disposition, dispose};

pub use crate::block::AnaState;
pub use policy::{
    Access, Adaptive, Done, ExpectedDelay, HistoricalServiceTime, HistoricalServiceTimeOptions, Io, IoClass, Latency,
    LatencyOptions, Node, Numa, PathView, Pending, Policy, PolicyKind, QueueDepth, QueueLength, RoundRobin,
    ServiceTime, TurnByTurn,
};
