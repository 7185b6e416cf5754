//! Options of `shingle reproduce latency`: a user's own sets of paths, and what is sent over them.

use clap::Args;
use shingle_core::multipath::{PolicyKind, PolicyOptions, PolicyOptionsError};
use shingle_host::config::{parse_duration, parse_size};
use shingle_lab::multipath::{Arrival, Load};
use shingle_lab::reproduce::OwnSets;

/// Most bytes of an I/O.
const MOST_BYTES: u64 = 1 << 20;

/// Sets and a load.
#[derive(Args)]
pub struct OwnPaths {
    /// Try multipath's policies over these paths instead: a file like profiles/paths-*.toml, or the name of a set that ships
    #[arg(long, value_name = "FILE|NAME", conflicts_with = "from")]
    paths: Vec<String>,
    /// With --paths: jobs of each submitter, each of which sends the next I/O when its last one is done [default: 16]
    #[arg(long, value_name = "N", requires = "paths", conflicts_with = "rate", value_parser = clap::value_parser!(u32).range(1..=4096))]
    jobs: Option<u32>,
    /// With --paths: I/Os a second of each submitter, whatever is under way, instead of jobs
    #[arg(long, value_name = "N", requires = "paths", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    /// With --paths: size of an I/O, to 1MiB [default: 4KiB]
    #[arg(long, value_name = "SIZE", requires = "paths", value_parser = io_size)]
    block: Option<u32>,
    /// With --paths: percentage of reads; the others are writes [default: 70]
    #[arg(long, value_name = "PERCENT", requires = "paths", value_parser = clap::value_parser!(u8).range(0..=100))]
    reads: Option<u8>,
    /// With --paths: heads on each host that do not see each other, as threads have them [default: 1]
    #[arg(long, value_name = "N", requires = "paths", value_parser = clap::value_parser!(u32).range(1..=8))]
    submitters: Option<u32>,
    /// With --paths: try latency and adaptive with this decay too, the percentage of an old latency that is kept, 0 to 100
    #[arg(long, value_name = "PERCENT", requires = "paths")]
    decay: Option<u32>,
    /// With --paths: try latency and adaptive with this window too, the time over which samples are gathered, 100us to 1h
    #[arg(long, value_name = "TIME", requires = "paths", value_parser = parse_duration)]
    window: Option<std::time::Duration>,
    /// With --paths: try latency and adaptive with this low-water mark too, the samples that a window must have to count, 1 to 1000000
    #[arg(long, value_name = "SAMPLES", requires = "paths")]
    low_water: Option<u32>,
    /// With --paths: virtual time [default: 30]
    #[arg(long, value_name = "N", requires = "paths", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
}

impl OwnPaths {
    /// Whether there are any.
    pub fn is_asked_for(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Options of `latency` and `adaptive`.
    ///
    /// # Errors
    /// If one is out of the range of `latency`, which takes all that `adaptive` takes.
    fn policy_options(&self) -> Result<PolicyOptions, PolicyOptionsError> {
        let window = self.window.map(Into::into);
        let options = PolicyOptions { decay: self.decay, window, low_water: self.low_water };
        options.check(PolicyKind::Latency).map(|()| options)
    }

    /// The sets with the load, if there are any.
    ///
    /// # Errors
    /// If an option of a policy is out of range.
    pub fn sets(&self) -> Result<Option<OwnSets>, PolicyOptionsError> {
        let arrival = self.rate.map_or(Arrival::Closed(self.jobs.unwrap_or(16)), Arrival::Open);
        let load = Load::closed(1, self.reads.unwrap_or(70), self.block.unwrap_or(4096));
        let load = Load { arrival, submitters: self.submitters.unwrap_or(1), ..load };
        let sets = OwnSets::new(self.paths.clone(), load, self.seconds.unwrap_or(30));
        let sets = OwnSets { policy_options: self.policy_options()?, ..sets };
        Ok(self.is_asked_for().then_some(sets))
    }
}

/// A size that an I/O can have.
fn io_size(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    if (512..=MOST_BYTES).contains(&bytes) && bytes.is_multiple_of(512) {
        Ok(bytes as u32)
    } else {
        Err("an I/O has 512 bytes to 1MiB, in multiples of 512".into())
    }
}
