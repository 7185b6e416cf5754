//! What people do to disks, as actors of the simulated world.
//!
//! - [`ext4`]: what write-back makes of the files of many buffered writers on an ordinary disk.
//! - [`fio`]: the jobs of fio's `zonemode=zbd`, with its zone locks, and the time its threads take.
//! - [`files`]: a file system that writes files as zone appends.
//! - [`replay`]: what a device was asked once, again.
//! - [`xfs`]: what write-back makes of the files of many buffered writers.

pub mod ext4;
pub mod files;
pub mod fio;
pub mod replay;
mod tally;
pub mod xfs;

pub use tally::Tally;
