//! dm-zoned's disks without a stack above them: what the tools read, write and mend.
//!
//! ```text
//!   format, check, ... ── Media: blocks of the set ──> Disks ── bios, one after the other ──> zoned-dir or file
//! ```
//!
//! The disks are those of the daemon, with the same locks: what a daemon serves is refused, and what a tool works on cannot be
//! served.

mod content;
mod disks;
mod uuid;

pub use content::content;
pub use disks::{Access, Disks};
pub use uuid::{Uuid, UuidError};
