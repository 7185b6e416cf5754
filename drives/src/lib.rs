//! Drives in virtual time, as devices of a stack: they know how long things take.
//!
//! [`smr::SmrDisk`] is a rotational disk, [`zns::ZnsSsd`] a zoned SSD, [`ssd::Ssd`] an ordinary one, [`ram::RamDisk`] memory behind
//! servers that take a [`service::ServiceTime`]; [`link::Link`] leads to any of them over a fabric, and [`array::Array`] gives one several
//! controllers. [`live::LiveDrive`] runs one in real time.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod array;
mod error;
pub mod link;
pub mod live;
pub mod medium;
pub mod ram;
pub mod service;
pub mod smr;
pub mod ssd;
pub mod zns;

pub use array::{Array, ArrayConfig, Controller};
pub use error::{DriveError, Fault, WrongParameter};
pub use link::{Link, LinkConfig, Refusals, Retransmission, Step, Steps, Traffic, Window, Windows};
pub use live::LiveDrive;
pub use ram::{RamConfig, RamDisk};
pub use service::{ServiceTime, ServiceTimeError};
pub use smr::{SmrConfig, SmrDisk};
pub use ssd::{Ssd, SsdConfig};
pub use zns::{ZnsConfig, ZnsSsd};
