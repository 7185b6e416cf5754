//! Everything that touches the machine is here.
//!
//! - [`disk`]: real disks as devices of a stack.
//! - [`shard`]: one thread, one stack, one ring: wait, deliver, turn, pump.
//! - [`serve`]: sockets and the sessions behind them.
//! - [`mailbox`]: how other threads ask a shard for something.
#![forbid(unsafe_code)]

pub mod disk;
pub mod mailbox;
pub mod serve;
pub mod shard;
