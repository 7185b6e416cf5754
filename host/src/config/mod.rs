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
mod error;
mod fields;
mod null;
mod plan;
mod size;
mod spec;
mod text;

pub use build::{add_plug, build_shard, check_disks};
pub use elevator::ElevatorSpec;
pub use error::{ConfigError, Diagnostic, Source};
pub(crate) use fields::{At, Fields};
pub use null::{NullSpec, null_from_words};
pub use plan::{DevicePlan, DiskKind, DiskPlan, ExportPlan, ListenPlan, Plan};
pub use size::{format_bytes, parse_duration, parse_size};
pub use text::{nearest, word_in_string};
