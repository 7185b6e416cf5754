//! Device-mapper targets, one file each, and the tables that put them in a row.
//!
//! ```text
//!   0 1000 linear disk 2048     ──> [Linear] ──> disk
//!   1000 500 error              ──> [Failing]
//!   1500 500 faulty disk 0 ...  ──> [Faulty] ──> [Linear] ──> disk
//!          └── [Table] routes by sector, and only where there is more than one line
//! ```
//!
//! A target is a device like every other; its sectors count from 0. It passes bios on with their sector changed, and
//! takes back only those whose answer holds a sector: appends and reports. Nothing is ever cloned.

mod failing;
mod faulty;
mod linear;
mod reset_all;
mod spec;
mod table;

pub use failing::Failing;
pub use faulty::{Faulty, FaultyAction, FaultyRule, OpSet, Trigger, Window};
pub use linear::Linear;
pub use spec::{KNOWN_TARGETS, TableError, TableLine, TargetSpec, add_table, parse_table};
pub use table::Table;
