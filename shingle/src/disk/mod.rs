//! Real disks as devices of a stack.
//!
//! - [`file`]: a regular file or a block device.
//! - [`zoned_dir`]: a zoned disk in a directory.
//!
//! A disk starts its I/O on the ring of its shard and gets it back as an event of the stack; it never blocks for data.

pub mod file;
mod holder;
mod transfer;
pub mod zoned_dir;

pub use holder::Holder;
