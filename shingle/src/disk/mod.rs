//! Real disks as devices of a stack.
//!
//! - [`zoned_dir`]: a zoned disk in a directory.
//!
//! A disk starts its I/O on the ring of its shard and gets it back as an event of the stack; it never blocks for data.

mod transfer;
pub mod zoned_dir;
