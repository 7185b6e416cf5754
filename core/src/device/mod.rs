//! Devices made of memory: the leaves of a stack that need no machine.
//!
//! [`null::NullDevice`] is the speed baseline, as a device that does nothing; and, backed by memory and zoned, the reference
//! that other disks and layers are compared with. [`memory`] holds its data and [`bad_blocks`] spoils it.
//!
//! [`smr::SmrDisk`] is a rotating disk in virtual time, [`zns::ZnsSsd`] a zoned SSD, [`ssd::Ssd`] an ordinary one,
//! [`ram::RamDisk`] memory behind servers that take a [`service::ServiceTime`]; [`link::Link`] leads to any of them over a fabric.

pub mod bad_blocks;
pub mod link;
pub mod memory;
pub mod null;
pub mod ram;
pub mod service;
pub mod smr;
pub mod ssd;
pub mod zns;

pub use link::{Link, LinkConfig, LinkError};
pub use null::{NullConfig, NullDevice, NullZones};
pub use ram::{RamConfig, RamConfigError, RamDisk};
pub use service::{ServiceTime, ServiceTimeError};
pub use smr::{SmrConfig, SmrDisk};
pub use ssd::{Ssd, SsdConfig, SsdConfigError};
pub use zns::{ZnsConfig, ZnsConfigError, ZnsSsd};
