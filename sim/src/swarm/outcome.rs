//! How a seed ended.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::model::Violation;
use crate::profile::Profile;
use shingle_core::time::Duration;

/// What a run without a violation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests.
    pub ops: u64,
    /// Losses of power.
    pub cuts: u64,
    /// Kills of the process, which the disks outlive.
    pub kills: u64,
    /// Faults that happened at the disk.
    pub faults: u64,
    /// Time that passed in the simulated world.
    pub virtual_time: Duration,
    /// Tables that were swapped while hosts went on.
    pub swaps: u64,
    /// The longest time that a device let nobody in because of that.
    pub longest_swap: Duration,
    /// What was done with tables, and how often; targets that were in them as well.
    pub noted: BTreeMap<&'static str, u64>,
    /// Trace events.
    pub events: u64,
    /// A sum over the trace: two runs that agree in it took the same steps.
    pub sum: u64,
    /// The whole trace, if it was asked for.
    pub trace: Option<String>,
}

/// A run that found a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The profile.
    pub profile: Profile,
    /// What is broken.
    pub violation: Violation,
    /// Starts of the disk up to there.
    pub life: u64,
    /// Requests up to there; with fewer the run may pass. `u64::MAX` if nobody counted them.
    pub ops: u64,
    /// The scenario, in words.
    pub scenario: String,
    /// The whole trace up to there, if it was asked for.
    pub trace: Option<String>,
}

shingle_core::impl_display!(Failure, |self, f| {
    let Self { seed, violation, life, ops, scenario, .. } = self;
    match *ops {
        u64::MAX => writeln!(f, "seed {seed}: {violation}")?,
        ops => writeln!(f, "seed {seed}, life {life}, after {ops} requests: {violation}")?,
    }
    writeln!(f, "  world: {scenario}")?;
    write!(f, "  replay: {}", self.replay())
});

impl Failure {
    /// The command that runs it again.
    #[must_use]
    pub fn replay(&self) -> String {
        let limit = if self.ops < u64::MAX { format!(" --ops {}", self.ops) } else { String::new() };
        format!("shingle sim --seed {} --profile {}{limit} --trace sim.trace", self.seed, self.profile.name())
    }
}
