//! dm-zoned's disks read and written directly: what the tools make and mend, and how long a volume is.
//!
//! ```text
//!   format, check, ... ── Media: blocks of the set ──> DeviceMedia ── one bio after the other ──> Reach: a shard of this thread
//!   the length of a table line ── Media ──────────────────┘                                         or the mailbox of another
//! ```
//!
//! The disks of the tools are those of the daemon, with the same locks: what a daemon serves is refused, and what a tool works
//! on cannot be served.

pub(crate) mod content;
pub(crate) mod disks;
mod length;
mod media;
mod reach;

pub use content::{content, other_content};
pub use disks::{Access, Disks, is_same};
pub use length::{find_length, has_own_length};
pub use media::DeviceMedia;
pub use reach::Reach;
