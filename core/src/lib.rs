//! Everything that decides is here, and is deterministic.
//!
//! In the order a write meets them:
//!
//! - [`time`] and [`sector`]: the two units everything is measured in. There is no clock here.
//! - [`frontend`]: protocols without sockets. Bytes in, bios out; completions in, bytes out.
//! - [`block`]: the bio, the device, and the stack of devices that bios hop through.
//! - [`mapper`]: named devices made of tables, loaded and swapped while they are used.
//! - [`dm`]: device-mapper targets, one file each, and the table that routes between them.
//! - [`plug`]: one write at a time per zone, in order; zone append emulation.
//! - [`zone`]: what a zone is, as a pure state machine.
//! - [`device`]: devices made of memory.
//! - [`random`]: numbers that are the same for the same seed.
//! - [`harness`]: one layer alone on a desk, for tests.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod block;
pub mod device;
pub mod dm;
pub mod frontend;
pub mod harness;
pub mod mapper;
pub mod plug;
pub mod random;
pub mod sector;
pub mod task;
pub mod time;
pub mod zone;
