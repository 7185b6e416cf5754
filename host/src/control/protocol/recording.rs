//! Recordings of bios.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trace::RecordedDevice;

/// A recording that has begun.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// When, in ns since 1970.
    pub started_unix_ns: u64,
    /// The layers of the stack, in the order of their numbers in the entries.
    pub devices: Vec<RecordedDevice>,
}

/// What happened since the last time, or the first part of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Batch {
    /// Number of entries.
    pub entries: usize,
    /// The entries, as in the chunk `EVTS` of a file of a recording, in hexadecimal digits.
    pub data: String,
    /// Number of events that fell out of the rings since the last time.
    pub lost: u64,
    /// Whether there are more already.
    pub more: bool,
    /// Time since the start, in ns.
    pub at_ns: u64,
}
