//! Several paths to one disk, and which of them an I/O takes.

mod policy;

pub use policy::{
    Access, Adaptive, Done, HistoricalServiceTime, HistoricalServiceTimeOptions, Io, IoClass, Latency, LatencyOptions,
    Node, Numa, PathView, Policy, PolicyKind, QueueDepth, QueueLength, RoundRobin, ServiceTime, TurnByTurn,
};
