//! The load generator behind `shingle bench`: fio's words, in the process of the stack it measures.
//!
//! ```text
//!  options ──> Job (slots, access pattern) ──> Stack
//!                └─ zones: where zone writes go   └─ completions ──> histogram, verify ──> report
//! ```
//!
//! One thread owns a stack, the devices under load ([`Target`]) and the jobs on them. A turn of its loop reads the clock
//! once, lets the stack work, and lets every job take what came back and send the next: a latency is right to the length
//! of one turn. `--clock=bio` reads the clock twice per I/O instead, which costs about 45 ns each.

mod builtin;
mod clock;
mod job;
mod options;
mod region;
mod report;
mod run;
mod simulated;
mod stats;
mod verify;
mod zones;

pub use builtin::{BuiltinStack, Layer};
pub use clock::Clock;
pub use job::{Failure, Job, Target, Turn};
pub use options::{ClockMode, JobOptions, Rw, Verify, ZoneMode};
pub use report::{Outcome, format_rate, json_report, text_report};
pub use run::{Bare, Group, Host, Load, Progress, Sharded, report_zones};
pub use simulated::{Drive, DriveSpec, MOST_KEPT, NULL_COMPLETION, Simulated};
pub use stats::{Direction, Flow, JobStats};
pub use verify::{Filling, Mismatch};
