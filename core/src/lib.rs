//! Everything that decides is here, and is deterministic.
//!
//! In the order a write meets them:
//!
//! - [`time`] and [`sector`]: the two units everything is measured in. There is no clock here.
//! - [`frontend`]: protocols without sockets. Bytes in, bios out; completions in, bytes out.
//! - [`block`]: the bio, the device, and the stack of devices that bios hop through.
//! - [`mapper`]: named devices made of tables, loaded and swapped while they are used.
//! - [`multipath`]: several paths to one disk, and which of them an I/O takes.
//! - [`dm`]: device-mapper targets, one file each, and the table that routes between them.
//! - [`plug`]: one write at a time per zone, in order; zone append emulation.
//! - [`scheduler`]: which bio a disk gets next, below the plug.
//! - [`zone`]: what a zone is, as a pure state machine.
//! - [`device`]: devices made of memory.
//! - [`random`]: numbers that are the same for the same seed.
//! - [`harness`]: one layer alone on a desk, for tests.
//!
//! Two writes to one zone, the second before the first is done, through a plug over a zoned disk in memory:
//!
//! ```
//! use shingle_core::block::{Bio, Data, Op, Payload, Stack, Status};
//! use shingle_core::device::{NullConfig, NullDevice, NullZones};
//! use shingle_core::plug::{PlugOptions, ZonePlug};
//! use shingle_core::sector::Sector;
//! use shingle_core::time::Instant;
//!
//! let zones = NullZones::new(2048);
//! let disk = NullDevice::new(&NullConfig { zoned: Some(zones), ..NullConfig::new(1 << 16) }).unwrap();
//! let mut stack = Stack::new();
//! let disk = stack.add(Box::new(disk)).unwrap();
//! let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
//! let plug = stack.add(Box::new(plug)).unwrap();
//!
//! let port = stack.open_port();
//! for tag in 0..2 {
//!     let payload = Payload::Data(Data::zeroed(4096));
//!     stack.submit(port, tag, plug, Box::new(Bio::new(Op::Write, Sector(tag * 8), 8, payload)));
//! }
//! stack.turn(Instant::ZERO);
//! for tag in 0..2 {
//!     let done = stack.poll_completion(port).unwrap();
//!     assert_eq!((done.tag, done.status), (tag, Status::Ok));
//! }
//! ```
#![no_std]
#![forbid(unsafe_code)]
#[macro_use]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod error;
mod guards;
mod prelude;

#[macro_use]
pub mod block;
pub mod device;
pub mod dm;
pub mod frontend;
pub mod harness;
pub mod mapper;
pub mod multipath;
pub mod plug;
pub mod random;
pub mod scheduler;
pub mod sector;
pub mod task;
pub mod time;
mod uuid;
pub mod zone;
