//! The disks of an `stl` volume read and written directly: what the tools make and check.
//!
//! ```text
//!   format, check, ... ── Media: blocks of disks ──> DeviceMedia ── one bio after the other ──> Reach: a shard of this thread
//!   remove ── the target itself, over the same disks ────────────────────────────────────────────┘
//! ```
//!
//! As with dm-zoned's, what a daemon serves is refused, and what a tool works on cannot be served.

mod content;
mod disks;
mod media;
mod remove;

pub use content::{content, other_content};
pub use disks::Disks;
pub use media::DeviceMedia;
