//! Everything that touches the machine is here.
//!
//! - [`shard`]: one thread, one stack, one ring: wait, deliver, turn, pump.
//! - [`mailbox`]: how other threads ask a shard for something.
#![forbid(unsafe_code)]

pub mod mailbox;
pub mod shard;
