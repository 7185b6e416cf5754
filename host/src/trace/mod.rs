//! Recordings of bios: taken from a running daemon, shown, and done again.
//!
//! ```text
//!  Stack ── ring of hop events ──> control socket ── Writer ──> file ── read ──> Recording ── Summary: what was it?
//!  (one per shard, bounded: what                                                    └──────── Replay: what if?
//!   falls out is counted)
//! ```
//!
//! The file is described byte by byte in `docs/trace-format.md`. It says which sectors were read and written and when, not
//! what was in them.

mod columns;
mod device;
mod entry;
mod error;
mod file;
mod summary;
mod work;

pub use columns::{Columns, rwbs};
pub use device::RecordedDevice;
pub use entry::{ENTRY_BYTES, RecordedEntry, hex_from, to_hex};
pub use error::{Damage, ReadError};
pub use file::{End, EndReason, Recording, Writer, ZoneStart, read};
pub use summary::{OpSummary, PERCENTILES, Summary};
pub use work::{Asked, work_of};
