//! Devices made of memory: the leaves of a stack that need no machine.
//!
//! [`null::NullDevice`] is the speed baseline, as a device that does nothing; and, backed by memory and zoned, the reference
//! that other disks and layers are compared with. [`memory`] holds its data and [`bad_blocks`] spoils it.

pub mod bad_blocks;
pub mod memory;
pub mod null;

pub use null::{NullConfig, NullDevice, NullZones};
