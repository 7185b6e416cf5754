//! What tables of mapped devices are built from: other mapped devices, what the shell has, and plugs.

use super::index::Index;
use super::mapped::Mapped;
use crate::block::{BlockDevice, DeviceId, Limits};
use crate::dm::Resolver;
use crate::dm::crypt::{Ciphers, KeySource};
use crate::plug::{Append, PlugOptions, ZonePlug};
use crate::prelude::*;

/// The names that a table of `loading` may use.
pub(super) struct Names<'a> {
    pub index: &'a Index,
    pub devices: &'a [Mapped],
    pub resolver: &'a dyn Resolver,
    pub loading: &'a Mapped,
}

impl Resolver for Names<'_> {
    fn device(&self, name: &str) -> Result<DeviceId, Vec<String>> {
        match self.index.place(name) {
            Some(place) => self.devices[place].device.ok_or_else(|| self.known()),
            None => self.resolver.device(name).map_err(|others| [self.known(), others].concat()),
        }
    }

    fn plug(&self, below: DeviceId, limits: &Limits) -> Option<Result<Box<dyn BlockDevice>, String>> {
        // Over disks that rotate one zone write at a time, as over such a disk alone.
        let options = PlugOptions { append: Append::Emulated, ..PlugOptions::for_device(limits) };
        let plug = ZonePlug::new(below, limits, options).map_err(|error| error.to_string());
        Some(plug.map(|plug| Box::new(plug) as Box<dyn BlockDevice>))
    }

    fn ciphers(&self) -> &'static dyn Ciphers {
        self.resolver.ciphers()
    }

    fn keys(&self) -> &dyn KeySource {
        self.resolver.keys()
    }
}

impl Names<'_> {
    /// Mapped devices that have a table, but for the one that is being loaded.
    fn known(&self) -> Vec<String> {
        let usable = |device: &&Mapped| device.device.is_some() && device.name != self.loading.name;
        self.devices.iter().filter(usable).map(|device| device.name.clone()).collect()
    }
}
