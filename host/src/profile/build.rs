//! From a profile to a device: the one place that knows what each model is made of.

use std::fmt;

use shingle_core::block::{BlockDevice, DeviceId, Stack};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::impl_error;
use shingle_drives::{Link, LinkConfig, RamConfig, RamDisk, SmrConfig, SmrDisk, Ssd, SsdConfig, ZnsConfig, ZnsSsd};

use super::Model;

/// Error of building a drive, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError(pub String);

impl_error!(BuildError, |self, f| f.write_str(&self.0));

impl Model {
    /// Adds a new drive of this kind to `stack`; returns its top. `keep_data`: what is written is there when it is read, at
    /// the price of that much memory.
    pub fn add_to(&self, stack: &mut Stack, keep_data: bool) -> Result<DeviceId, BuildError> {
        match self {
            Self::Smr(config) => {
                let config = SmrConfig { keep_data, ..config.clone() };
                add(stack, SmrDisk::new(&config))
            }
            Self::Zns(config) => add(stack, ZnsSsd::new(ZnsConfig { memory_backed: keep_data, ..config.clone() })),
            Self::Ssd(config) => add(stack, Ssd::new(&SsdConfig { memory_backed: keep_data, ..config.clone() })),
            Self::Ram(config) => add(stack, RamDisk::new(&RamConfig { memory_backed: keep_data, ..config.clone() })),
            Self::Null(config) => {
                let memory_backed = config.memory_backed | keep_data;
                add(stack, NullDevice::new(&NullConfig { memory_backed, ..config.clone() }))
            }
            Self::Link(link, disk) => {
                let disk = Self::Ram(disk.clone()).add_to(stack, keep_data)?;
                let link = Link::new(disk, stack.limits(disk), LinkConfig::clone(link));
                add(stack, link)
            }
        }
    }
}

/// Adds a device, if it could be made.
pub(super) fn add<D: BlockDevice, E: fmt::Display>(
    stack: &mut Stack,
    device: Result<D, E>,
) -> Result<DeviceId, BuildError> {
    let device = device.map_err(|error| BuildError(error.to_string()))?;
    stack.add(Box::new(device)).map_err(|error| BuildError(error.to_string()))
}
