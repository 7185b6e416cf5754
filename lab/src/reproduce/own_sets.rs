//! Paths of a user, in the place of those of a publication.

use shingle_core::multipath::PolicyOptions;
use shingle_core::time::Duration;

use crate::multipath::Load;

/// A user's own sets, and what is sent over them.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnSets {
    /// Names of sets that ship, or paths of files.
    pub sets: Vec<String>,
    /// The load.
    pub load: Load,
    /// Options with which `latency` and `adaptive` are tried beside their defaults.
    pub policy_options: PolicyOptions,
}

impl OwnSets {
    /// These sets under a load that counts from the first I/O on, so that what a file says of its beginning is seen.
    #[must_use]
    pub fn new(sets: Vec<String>, load: Load, seconds: u32) -> Self {
        let length = Duration::from_millis(u64::from(seconds) * 1000);
        let policy_options = PolicyOptions::default();
        Self { sets, load: Load { ramp: Duration::ZERO, length, ..load }, policy_options }
    }
}
