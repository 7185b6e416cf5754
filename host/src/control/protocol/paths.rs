//! Devices with several paths to one disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Devices with several paths.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Heads {
    /// In the order of the stack file.
    pub devices: Vec<HeadStatus>,
}

/// A device with several paths.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeadStatus {
    /// Its name.
    pub device: String,
    /// How one of the paths is chosen.
    pub policy: String,
    /// Options of the policy; `null` if it has none.
    pub options: Option<PathPolicyOptions>,
    /// Mean time between two readings of the clock: I/O sent and done in between counts as 0 ns, and took less. `null` before the first I/O.
    pub latency_resolution_ns: Option<u64>,
    /// NUMA node from which it submits: that of its shard, or of the stack file.
    pub node: u8,
    /// I/O that is on no path now: it waits for one, or until it is safe to send it again.
    pub waiting: usize,
    /// I/O that has had to wait for a path.
    pub waited: u64,
    /// I/O that has failed because there was none.
    pub without_path: u64,
    /// Appends that have failed since nobody knows whether they are done.
    pub uncertain_appends: u64,
    /// Appends that were sent again although they may have been done.
    pub doubled_appends: u64,
    /// Changes that have failed since their path never said that it could carry them out no more.
    pub unsettled: u64,
    /// Its paths.
    pub paths: Vec<PathStatus>,
}

/// Options of the policies `latency` and `adaptive`, as they are in use.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathPolicyOptions {
    /// Percentage of an old latency that `latency` keeps over a window with too few samples, and `adaptive` at the end of each.
    pub decay_percent: f64,
    /// Time over which samples are gathered.
    pub window_ns: u64,
    /// Samples that a window must have to count.
    pub low_water: u64,
}

/// A path.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathStatus {
    /// The disk or device that it is.
    pub path: String,
    /// What it is to the disk: `optimized`, `non-optimized`, `inaccessible`, `persistent-loss` or `change`.
    pub state: String,
    /// NUMA node that it is near to; `null`: it is equally near to all.
    pub node: Option<u8>,
    /// `live`, `failed`, `offline` or `leaving`.
    pub health: String,
    /// Whether it takes I/O.
    pub usable: bool,
    /// I/O that is under way on it.
    pub in_flight: u32,
    /// What it has got of all I/O so far.
    pub share_percent: f64,
    /// How long I/O that it did has taken, on average; `null` if it did none. Below `latency_resolution_ns` of the device: less than that.
    pub mean_latency_ns: Option<u64>,
    /// I/O that was sent on it.
    pub sent: u64,
    /// I/O that it has failed, and another one has got.
    pub failovers: u64,
    /// I/O that it has got again.
    pub retries: u64,
    /// Errors of the disk that came over it.
    pub errors: u64,
    /// How often it has failed.
    pub failures: u64,
    /// Probes that were sent on it.
    pub probes: u64,
    /// Measurements of the policies `latency` and `adaptive` over their last window, by node and kind of I/O; empty of other policies.
    pub windows: Vec<PathWindowStatus>,
}

/// Measurements of a path over the last window of its policy, for the submitters of one NUMA node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathWindowStatus {
    /// NUMA node of the shard that submits.
    pub node: u8,
    /// Kind of I/O: `read`, `write`, `other`, or `all`, by which `latency` chooses.
    pub kind: String,
    /// Latency at the end of the window, with what the policy has kept of earlier ones.
    pub latency_ns: u64,
    /// Samples of the window.
    pub samples: u64,
    /// I/Os in a row that `adaptive` gives to the path; `null` of `latency`.
    pub weight: Option<u32>,
}
