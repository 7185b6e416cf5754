//! Where targets are built: the devices that there are, and what else they need.

use super::args::{ArgError, DeviceArg};
use super::crypt::{Ciphers, KeySource, NoKeys, SoftwareCiphers};
use super::mapping::Mapping;
use super::table::Table;
use crate::block::{BlockDevice, DeviceId, Limits, Stack};
use crate::prelude::*;

/// What targets need to be built that is not in this layer.
pub trait Resolver {
    /// The device called `name`.
    ///
    /// # Errors
    /// For an unknown name, the names that there are.
    fn device(&self, name: &str) -> Result<DeviceId, Vec<String>>;

    /// A plug over `below`, which has `limits` and takes writes in order but no appends: it makes writes of appends. `None`
    /// leaves the device without appends.
    ///
    /// # Errors
    /// If there can be no plug over such a device.
    fn plug(&self, below: DeviceId, limits: &Limits) -> Option<Result<Box<dyn BlockDevice>, String>> {
        let _ = (below, limits);
        None
    }

    /// Where ciphers come from.
    fn ciphers(&self) -> &'static dyn Ciphers {
        &SoftwareCiphers
    }

    /// Where keys come from that lines refer to.
    fn keys(&self) -> &dyn KeySource {
        &NoKeys
    }
}

/// A resolver of devices alone.
impl<F: Fn(&str) -> Result<DeviceId, Vec<String>>> Resolver for F {
    fn device(&self, name: &str) -> Result<DeviceId, Vec<String>> {
        self(name)
    }
}

/// Where a line is built.
pub struct BuildContext<'a> {
    /// The devices that there are.
    pub stack: &'a mut Stack,
    /// What else there is.
    pub resolver: &'a dyn Resolver,
    /// Length of the line, in sectors.
    pub len: u64,
    /// The devices that were added for the table.
    pub(super) added: &'a mut Vec<DeviceId>,
    /// The device that speaks for the target: for status, messages and events.
    pub(super) target: Option<DeviceId>,
}

impl BuildContext<'_> {
    /// The device that a line names.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn device(&self, arg: &DeviceArg) -> Result<DeviceId, ArgError> {
        self.resolver.device(&arg.name).map_err(|known| {
            let known = if known.is_empty() { String::from("none") } else { known.join(", ") };
            ArgError::at(arg.word, format!("there is no device `{}`; known devices are: {known}", arg.name))
        })
    }

    /// As many sectors of a device as the line is long, from `start` on, which stands behind the device's name.
    ///
    /// # Errors
    /// If there are none, or they are no whole zones.
    pub fn part(&self, arg: &DeviceArg, start: u64) -> Result<Mapping, ArgError> {
        self.part_of(arg, start, self.len)
    }

    /// The same for `len` sectors.
    ///
    /// # Errors
    /// As [`BuildContext::part`].
    pub fn part_of(&self, arg: &DeviceArg, start: u64, len: u64) -> Result<Mapping, ArgError> {
        let device = self.device(arg)?;
        let part = Mapping::part(device, self.stack.limits(device), start, len);
        part.map_err(|message| ArgError::at(arg.word + 1, format!("`{}`: {message}", arg.name)))
    }

    /// A device that is exactly such a part: the device itself if that is all of it.
    ///
    /// # Errors
    /// As [`BuildContext::part`].
    pub fn part_device(&mut self, arg: &DeviceArg, start: u64) -> Result<DeviceId, ArgError> {
        let len = self.len;
        self.part_device_of(arg, start, len)
    }

    /// The same for `len` sectors.
    ///
    /// # Errors
    /// As [`BuildContext::part`].
    pub fn part_device_of(&mut self, arg: &DeviceArg, start: u64, len: u64) -> Result<DeviceId, ArgError> {
        let mapping = self.part_of(arg, start, len)?;
        if start == 0 && len == self.stack.limits(mapping.device).capacity {
            return Ok(mapping.device);
        }
        self.add(Box::new(Table::part(&mapping)))
    }

    /// Refuses a device with sequential zones, for targets that would break the order of zone writes or know nothing of
    /// zones.
    ///
    /// # Errors
    /// If `device`, which `arg` names, has some.
    pub fn refuse_zoned(&self, arg: &DeviceArg, device: DeviceId) -> Result<(), ArgError> {
        if !self.stack.limits(device).has_sequential_zones() {
            return Ok(());
        }
        let what =
            "is zoned, which this target does not support: name a regular device, or map conventional zones only";
        Err(ArgError::at(arg.word, format!("`{}` {what}", arg.name)))
    }

    /// Adds a device.
    ///
    /// # Errors
    /// If the stack does not take it.
    pub fn add(&mut self, device: Box<dyn BlockDevice>) -> Result<DeviceId, ArgError> {
        let id = self.stack.add(device).map_err(|error| ArgError::at(2, format!("{error}")))?;
        self.added.push(id);
        Ok(id)
    }

    /// Adds a device and maps the line to all of it. If it is zoned and takes no appends, a plug above it does.
    ///
    /// # Errors
    /// If the stack does not take them.
    pub fn map(&mut self, device: Box<dyn BlockDevice>) -> Result<Mapping, ArgError> {
        let mut id = self.add(device)?;
        self.target = Some(id);
        let limits = self.stack.limits(id).clone();
        let appends = limits.zoned.as_ref().is_some_and(|zoned| zoned.max_append.is_some());
        let needs_plug = limits.has_sequential_zones() && !appends;
        if let Some(plug) = needs_plug.then(|| self.resolver.plug(id, &limits)).flatten() {
            id = self.add(plug.map_err(|message| ArgError::at(2, message))?)?;
        }
        Ok(Mapping::whole(id, self.stack.limits(id)))
    }
}
