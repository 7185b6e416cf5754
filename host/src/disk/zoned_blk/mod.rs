//! A zoned block device of the kernel as a disk: `/dev/sda`, `/dev/nvme0n1`.
//!
//! ```text
//!   bios ── ZonedBlk ── io_uring, O_DIRECT ──> the kernel's own plug ──> the drive
//!              └── helper ── ioctls: zones ──────────────^
//! ```
//!
//! What is promised above is what every zoned disk promises. Below, the kernel orders writes as well, since Linux 6.10; the plug
//! above has one write in flight for each zone, so it never has to. What the kernel knows of the zones can be wrong: each of its
//! peculiarities is met at one place.
//!
//! - After a failed write it refuses the right one, too, until a report: [`verdict`] is always preceded by one.
//! - Its report from memory knows nothing of changes past it: only the shape of the disk is read there ([`open()`]).
//! - It cuts a write at the end of a zone and goes on in the next: no bio crosses one, and none is longer than it takes at once.
//! - A disk that is gone has no sectors: reads find the end there, and writes no space.
//!
//! [`Offline`] and [`report`] are for tools without a stack, [`attributes`] is what sysfs says, [`advice`] what an owner should know of it.

pub mod advice;
pub mod attributes;
mod calls;
mod device;
mod error;
mod find;
mod offline;
mod open;
mod users;
pub mod verdict;

pub use calls::Calls;
pub use device::{Parts, ZonedBlk};
pub use error::{ErrorKind, ZonedBlkError};
pub use find::{FoundDisk, find_disks};
pub use offline::{Offline, report};
pub use open::{Options, check, is_zoned, open};
pub(in crate::disk) use users::user_of;
