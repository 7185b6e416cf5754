//! Options of the multipath policies `latency` and `adaptive` on a command line.

use std::time::Duration;

use clap::Args;
use shingle_host::config::parse_duration;

/// Options of a policy; whoever runs the policy checks their ranges.
#[derive(Args, Clone, Copy)]
pub struct PolicyOptionArgs {
    /// Percentage of an old latency that is kept: by latency over a window with too few samples (0 to 100) [default: 50], by adaptive at the end of each
    /// window (0 to 99) [default: 87.5]
    #[arg(long, value_name = "PERCENT")]
    pub decay: Option<u32>,
    /// Time over which latency and adaptive gather samples, 100us to 1h [default: 2ms for latency, 15s for adaptive]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub window: Option<Duration>,
    /// Samples that a window must have to count, 1 to 1000000 [default: 2 for latency, 1 for adaptive]
    #[arg(long, value_name = "SAMPLES")]
    pub low_water: Option<u32>,
}
