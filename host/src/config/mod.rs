//! The stack file: what the user wrote, checked, as one plan that builds the stack.
//!
//! ```text
//!  text ── spec ──> Spec (every value with its place) ── plan ──> Plan ── build ──> a shard's stack
//!                └──────────── all mistakes at once, each with its line ────────────┘
//! ```
//!
//! Everything that can be known without touching the machine is checked before anything is touched. The format is
//! described in `docs/stack-file.md`.

mod build;
mod elevator;
mod head;
#[cfg(test)]
mod linear_time;
mod metrics;
mod path;
mod plan;
mod spec;
mod web;
mod written;

pub use crate::fields::{
    ConfigError, Diagnostic, Source, format_bytes, nearest, parse_duration, parse_size, word_in_string,
};
pub(crate) use build::{add_device, check_disk, open_disk};
pub use build::{add_plug, build_shard, check_disks};
pub use elevator::ElevatorSpec;
pub use head::{HeadPlan, PathPlan};
pub use metrics::MetricsPlan;
pub(crate) use path::{add_path, remove_path};
pub use plan::{DevicePlan, DiskPlan, MadeOf, Plan, TablePlan, check_export_name};
pub use spec::{ExportPlan, Kinds};
pub use web::WebPlan;
pub use written::Written;
