//! Device-mapper targets, one file each, and the tables that put them in a row.
//!
//! ```text
//!   0 1000 linear disk 2048     ──────────────> disk
//!   1000 500 error              ──> [Failing]
//!   1500 500 faulty disk 0 ...  ──> [Faulty] ──> [Table] of one line ──> disk
//!          └── [Table] routes by sector and shifts: for a linear line there is nothing else to do, and for the plain
//!              bios of a striped one just as little
//! ```
//!
//! Text becomes [`TableLine`]s, each with a [`Target`] from the registry; [`build_table`] makes devices of them. A target's
//! device has the sectors of its line, from 0 on, and lies on a device that is exactly the range that it maps to. It passes
//! bios on with their memory or sector changed, and takes back only those that it has to see again. Nothing is ever cloned.

mod args;
mod build_context;
mod copies;
pub mod crypt;
mod delay;
mod dust;
mod error;
mod fan;
mod faulty;
mod flakey;
mod flusher;
mod line;
mod linear;
mod log_writes;
mod mapping;
mod multipath;
mod readiness;
mod registry;
mod reset_all;
pub mod stl;
mod striped;
mod table;
mod target;
mod zero;
pub mod zoned;

pub use args::{ArgError, Args, DeviceArg, quote, split_words};
pub use build_context::{BuildContext, Resolver};
pub use faulty::{Faulty, FaultyAction, FaultyRule, OpSet, Trigger, Window};
pub use line::{BuiltTable, MOST_LINES, TableError, TableLine, abandon_parts, add_table, build_table, parse_table};
pub use mapping::Mapping;
pub use registry::{TARGETS, find, known_targets};
pub use table::Table;
pub use target::{Target, TargetType, View};
