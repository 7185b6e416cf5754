//! The power of simulated drives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Simulated drives.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Drives {
    /// In the order of the stack file, shard by shard.
    pub drives: Vec<DriveStatus>,
}

/// A simulated drive: a disk with `type = "profile"`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DriveStatus {
    /// Its name.
    pub device: String,
    /// `on` or `off`.
    pub power: String,
    /// How often it has lost its power.
    pub cuts: u64,
    /// I/O that it has now.
    pub in_flight: usize,
    /// I/O that it has answered, but for what a loss of power failed.
    pub answered: u64,
    /// How much later than its model would have, on average; `null` if it has answered nothing.
    pub mean_lateness_ns: Option<u64>,
    /// The same of the latest answer.
    pub max_lateness_ns: u64,
    /// Memory that its data takes.
    pub memory_bytes: u64,
    /// Most memory that it may take; `null` if there is none to be taken.
    pub memory_limit: Option<u64>,
    /// The directory that keeps its data; `null` if that is in memory, or none is kept.
    pub directory: Option<String>,
    /// Room that its data takes there.
    pub directory_bytes: Option<u64>,
}
