//! ublk: block devices of the machine's kernel that a process serves.
//!
//! - [`Control`]: makes, starts, takes over, stops and removes devices (`/dev/ublk-control`).
//! - [`QueueCommand`]: asks for the next request of a queue, and answers the last (`/dev/ublkcN`).
//! - [`Descriptors`]: what the requests of a queue ask for; [`take`] and [`give`] move their data.
//!
//! [`layout`] is what a test compares with the header of the kernel.
//!
//! Source: `include/uapi/linux/ublk_cmd.h` and `drivers/block/ublk_drv.c` of Linux 6.12 and 7.2.

mod command;
mod control;
mod descriptors;
pub mod layout;
mod wire;

pub use self::command::QueueCommand;
pub use self::control::Control;
pub use self::descriptors::{Descriptors, RequestMemory, give, take};
pub use self::wire::{
    Attributes, Basic, DeviceInfo, Discard, Features, MOST_DEPTH, MOST_IO_BYTES, NewDevice, Parameters, State, Zoned,
};
