//! Several paths to one disk, and which of them an I/O takes.

mod access;
mod by_hand;
mod failover;
mod groups;
mod guards;
mod head;
mod membership;
mod message;
mod options;
mod path;
mod policy;
mod power;
mod retry;
mod unsettled;

pub use by_hand::WithoutPath;
pub use groups::{Group, Groups};
#[cfg(feature = "sabotage")]
pub use guards::Sabotage;
pub use head::{Head, HeadCounters};
pub use membership::AddPathError;
pub use options::{HeadError, HeadOptions, MOST_PATHS};
pub use path::{PathConfig, PathCounters, PathHealth, PathReport};
pub use retry::{Disposition, Rules};

pub use crate::block::AnaState;
pub use policy::{
    Access, Adaptive, AdaptiveOptions, Done, ExpectedDelay, HistoricalServiceTime, HistoricalServiceTimeOptions,
    History, Io, IoClass, Latency, LatencyOptions, Node, Numa, PathView, PathWindow, Pending, Policy, PolicyKind,
    PolicyOptions, PolicyOptionsError, QueueDepth, QueueLength, RoundRobin, ServiceTime, TurnByTurn,
};
