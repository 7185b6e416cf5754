//! What can be seen of mapped devices, in the words of dmsetup.

use core::fmt::Write;
use core::ops::Range;

use super::mapped::{Loaded, Mapped, State};
use super::{Mapper, MapperError};
use crate::block::{DeviceHealth, DeviceId, Figure, Stack};
use crate::dm::{TableLine, View};
use crate::prelude::*;
use crate::time::Duration;
use crate::zone::ZoneNo;

/// How far a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateName {
    /// It takes bios.
    Active,
    /// Bios wait at its door until those inside are done.
    Suspending,
    /// Bios wait at its door.
    Suspended,
}

/// What `dmsetup info` shows of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Its UUID, or nothing.
    pub uuid: String,
    /// Its number among mapped devices.
    pub minor: u32,
    /// How far it is.
    pub state: StateName,
    /// Whether its live table takes no writes.
    pub is_read_only: bool,
    /// Whether it has a live table.
    pub has_live: bool,
    /// Whether it has an inactive table.
    pub has_inactive: bool,
    /// Whether it is removed when nobody uses it any more.
    pub is_deferred: bool,
    /// How many use it.
    pub opens: u32,
    /// Lines of its live table.
    pub targets: u32,
    /// Events so far.
    pub events: u64,
    /// Its size, in sectors.
    pub sectors: u64,
    /// Its place in the stack, if it ever had a live table.
    pub device: Option<DeviceId>,
    /// The longest time that bios waited at its door for a new table.
    pub longest_swap: Duration,
}

impl State {
    fn name(&self) -> StateName {
        match self {
            State::Running => StateName::Active,
            State::Draining { .. } => StateName::Suspending,
            State::Suspended => StateName::Suspended,
        }
    }
}

/// The figures of a target, each with its name.
pub type Figures = Vec<(&'static str, Figure)>;

/// Figures, behind the name of the target.
pub type TargetFigures = (&'static str, Figures);

impl Mapped {
    fn info(&self, opens: u32, stack: &Stack) -> Info {
        Info {
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            minor: self.minor,
            state: self.state.name(),
            is_read_only: self.live.as_ref().is_some_and(|live| live.read_only),
            has_live: self.live.is_some(),
            has_inactive: self.inactive.is_some(),
            is_deferred: self.is_deferred,
            opens,
            targets: self.live.as_ref().map_or(0, |live| live.lines.len() as u32),
            events: self.events(stack),
            sectors: self.live.as_ref().map_or(0, Loaded::sectors),
            device: self.device,
            longest_swap: self.longest_swap,
        }
    }
}

impl Mapper {
    /// The lines of the table of a device: the live one, or else the inactive one.
    #[must_use]
    pub fn lines(&self, name: &str) -> Option<&[TableLine]> {
        let device = &self.devices[self.index.place(name)?];
        device.tables().next().map(|table| table.lines.as_slice())
    }

    /// Lines of the inactive table of a device.
    #[must_use]
    pub fn inactive_lines(&self, name: &str) -> Option<&[TableLine]> {
        let device = &self.devices[self.index.place(name)?];
        device.inactive.as_ref().map(|table| table.lines.as_slice())
    }

    /// The names of all devices, in the order in which they were made.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|device| device.name.as_str())
    }

    /// What is known of a device.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn info(&self, name: &str, stack: &Stack) -> Result<Info, MapperError> {
        self.find(name).map(|place| self.devices[place].info(self.opens(place), stack))
    }

    /// The same of all devices, in the order in which they were made.
    #[must_use]
    pub fn infos(&self, stack: &Stack) -> Vec<Info> {
        let uses = self.uses();
        let opens = |device: &Mapped| device.opened + device.device.and_then(|id| uses.get(&id)).copied().unwrap_or(0);
        self.devices.iter().map(|device| device.info(opens(device), stack)).collect()
    }

    /// What is known of the device with this name or UUID, if there is one.
    #[must_use]
    pub fn info_if_any(&self, name: &str, stack: &Stack) -> Option<Info> {
        self.index.place(name).map(|place| self.devices[place].info(self.opens(place), stack))
    }

    /// How far each device is.
    pub fn states(&self) -> impl Iterator<Item = (&str, StateName)> {
        self.devices.iter().map(|device| (device.name.as_str(), device.state.name()))
    }

    /// The live or the inactive table, a line for each target, so that it can be loaded again; nothing if there is none.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn table(&self, name: &str, inactive: bool, shows_keys: bool, stack: &Stack) -> Result<String, MapperError> {
        let mut text = String::new();
        let Some(loaded) = self.slot(name, inactive)? else { return Ok(text) };
        for (line, target) in loaded.lines.iter().zip(&loaded.targets) {
            let view = View { shows_keys, device: target.map(|id| stack.any_device(id)) };
            // A string takes everything.
            let _ = line.write(&view, &mut text);
            text.push('\n');
        }
        Ok(text)
    }

    /// What the targets of the live or the inactive table have to say, a line for each.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn status(&self, name: &str, inactive: bool, stack: &Stack) -> Result<String, MapperError> {
        let mut text = String::new();
        let Some(loaded) = self.slot(name, inactive)? else { return Ok(text) };
        for (line, target) in loaded.lines.iter().zip(&loaded.targets) {
            let mut status = String::new();
            if let Some(target) = target {
                let _ = stack.status(*target, &mut status);
            }
            // As dmsetup does, a target without a status ends in a space; one whose status ends in a space keeps it.
            let _ = writeln!(text, "{} {} {} {status}", line.start, line.len, line.kind.name);
        }
        Ok(text)
    }

    /// What the targets of the live or the inactive table know of themselves in figures, a list for each.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn figures(&self, name: &str, inactive: bool, stack: &Stack) -> Result<Vec<TargetFigures>, MapperError> {
        let figures = |(line, target): (&TableLine, &Option<DeviceId>)| {
            let mut figures = Vec::new();
            if let Some(target) = target {
                stack.any_device(*target).figures(&mut |name, figure| figures.push((name, figure)));
            }
            (line.kind.name, figures)
        };
        let all = |loaded: &Loaded| loaded.lines.iter().zip(&loaded.targets).map(figures).collect();
        Ok(self.slot(name, inactive)?.map_or(Vec::new(), all))
    }

    /// Worst health of the targets of a mapped device's live table, without that of the devices below.
    #[must_use]
    pub fn health(&self, name: &str, stack: &Stack) -> DeviceHealth {
        let live = self.slot(name, false).ok().flatten();
        let targets = live.into_iter().flat_map(|live| live.targets.iter().flatten());
        targets.map(|target| stack.any_device(*target).health()).max().unwrap_or_default()
    }

    /// Mapped devices that are read-only or cannot be used, by name, and the reason: a predicate ([`DeviceHealth::fault`]).
    pub fn faults<'a>(&'a self, stack: &'a Stack) -> impl Iterator<Item = (&'a str, String)> {
        self.names().filter_map(|name| Some((name, self.health(name, stack).fault()?)))
    }

    /// What targets of live tables use zones of a device for, for each of these zones; none if no target knows of any.
    #[must_use]
    pub fn zone_uses(&self, device: DeviceId, zones: Range<u32>, stack: &Stack) -> Vec<Option<&'static str>> {
        let targets = self.devices.iter().filter_map(|mapped| mapped.live.as_ref()).flat_map(|live| &live.targets);
        let above: Vec<DeviceId> = targets.flatten().copied().filter(|id| stack.below(*id).contains(&device)).collect();
        let use_of = |zone| above.iter().find_map(|target| stack.any_device(*target).zone_use(device, ZoneNo(zone)));
        let uses: Vec<_> = zones.map(use_of).collect();
        if uses.iter().all(Option::is_none) { Vec::new() } else { uses }
    }

    /// The devices that the live table maps to; those that the mapper knows by name.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn deps(&self, name: &str) -> Result<Vec<(DeviceId, Option<String>)>, MapperError> {
        let Some(live) = self.slot(name, false)? else { return Ok(Vec::new()) };
        Ok(live.below().map(|id| (id, self.name_of(id).map(ToString::to_string))).collect())
    }

    /// The name of the mapped device in a place of the stack.
    #[must_use]
    pub fn name_of(&self, id: DeviceId) -> Option<&str> {
        self.devices.iter().find(|device| device.device == Some(id)).map(|device| device.name.as_str())
    }

    /// The mapped devices with a table, live or inactive, that maps to the device in a place of the stack.
    pub fn users_of(&self, id: DeviceId) -> impl Iterator<Item = &str> {
        let users = self.devices.iter().filter(move |device| device.tables().any(|table| table.uses(id)));
        users.map(|device| device.name.as_str())
    }

    /// Whether the device in a place of the stack was built for a table, live or not.
    #[must_use]
    pub fn is_part(&self, id: DeviceId) -> bool {
        self.devices.iter().flat_map(Mapped::tables).any(|table| table.parts.contains(&id))
    }

    /// The mapped device whose live table the device in a place of the stack was built for, and its number among those that
    /// were.
    #[must_use]
    pub fn owner_of(&self, id: DeviceId) -> Option<(&str, usize)> {
        self.devices.iter().find_map(|device| {
            let number = device.live.as_ref()?.parts.iter().position(|part| *part == id)?;
            Some((device.name.as_str(), number))
        })
    }

    /// The number of events of a device (`dmsetup wait`).
    ///
    /// # Errors
    /// If there is no such device.
    pub fn events(&self, name: &str, stack: &Stack) -> Result<u64, MapperError> {
        Ok(self.devices[self.find(name)?].events(stack))
    }

    /// The place of a device in the stack.
    ///
    /// # Errors
    /// If there is no such device, or it has no table yet.
    pub fn device(&self, name: &str) -> Result<DeviceId, MapperError> {
        let device = &self.devices[self.find(name)?];
        device.device.ok_or_else(|| device.no_table())
    }

    fn slot(&self, name: &str, inactive: bool) -> Result<Option<&Loaded>, MapperError> {
        let device = &self.devices[self.find(name)?];
        Ok(if inactive { device.inactive.as_ref() } else { device.live.as_ref() })
    }
}
