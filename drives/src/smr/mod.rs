//! A rotating disk with shingled zones, in virtual time.
//!
//! ```text
//!             rules of zones, data                one at a time                       one at a time
//!  bios ──> checked on arrival ──> NCQ ──> link ── writes ──> cache ── destage ──> head over the medium
//!                                   ^        └── acknowledged here                       │
//!                                   └───────────────────── reads <───────────────────────┘
//! ```
//!
//! A bio takes effect when it arrives, as on the null device: the write pointer moves and data can be read. From then on only
//! time passes, and the medium lags behind. [`SmrDisk::power_cut`] takes back what the medium did not get: of each
//! sequential zone an end, of conventional zones any blocks. What is in a non-volatile cache is not taken back.
//!
//! Two arms work side by side, each on one thing at a time. The link takes commands and data in and out. The head seeks,
//! waits for the sector to come round, and reads or writes. The cache is between them: an acknowledged write waits there
//! until the head has time, and the head goes on in a zone as long as data that follows is there.
//!
//! Not modelled: read look-ahead beyond the one stream that was read last, retries and defects, thermal recalibration, the
//! drive's own background work, priorities of commands.

mod cache;
mod config;
mod disk;
mod effect;
mod head;
mod jobs;
mod link;
mod mechanics;
mod power;

pub use config::{Cache, Link, Media, Seek, SmrConfig, ZoneTimes};
pub use disk::SmrDisk;
