//! Devices that only one may write to: those on which a target keeps where its data is, and those that are paths to a disk.
//!
//! A volume of dm-zoned that shares a disk with another writer is lost, so who comes second is refused. Readers are not. The
//! kernel lets dm tables share their disks.

use alloc::collections::BTreeMap;

use super::mapped::Loaded;
use super::resolver::Names;
use super::{Mapper, MapperError, MapperErrorKind};
use crate::block::{DeviceId, Silence, Stack};
use crate::dm::{DeviceArg, Resolver, Table, TableError, TableLine};
use crate::prelude::*;

/// What somebody outside of all tables has for itself.
pub(super) struct Reserved {
    owner: String,
    /// What the device said of its silence.
    silence: Silence,
}

impl Mapper {
    /// Notes that somebody outside of the stack may write to a device, until [`Mapper::end_writing`].
    ///
    /// # Errors
    /// If a mapped device alone may.
    pub fn begin_writing(&mut self, device: DeviceId) -> Result<(), MapperError> {
        if let Some(owner) = self.sole_writer(device, None) {
            let what = format!("`{owner}` alone may write to it: use `{owner}` instead, or open it read-only");
            return Err(MapperError::new(MapperErrorKind::Busy, what));
        }
        *self.writers.entry(device).or_default() += 1;
        Ok(())
    }

    /// Gives a device to `owner`, who is no mapped device, until [`Mapper::release`]: others may only read it. What it says of its silence
    /// ([`Stack::silence`]) stays true whatever tables come: `owner` counts on it.
    ///
    /// # Errors
    /// If somebody uses it already, with the name of that.
    pub fn reserve(&mut self, device: DeviceId, owner: &str, stack: &Stack) -> Result<(), MapperError> {
        let table = self.users_of(device).next().map(|name| format!("the table of `{name}`"));
        let other = self.reserved.get(&device).map(|it| format!("`{}`", it.owner));
        let clients = || self.writers.contains_key(&device).then(|| "clients of an export".into());
        if let Some(user) = table.or(other).or_else(clients) {
            let what = format!("`{owner}` needs it for itself, and it is used by {user}: end that first");
            return Err(MapperError::new(MapperErrorKind::Busy, what));
        }
        let silence = stack.silence(device);
        self.reserved.insert(device, Reserved { owner: owner.to_string(), silence });
        Ok(())
    }

    /// Whether `owner` has a device for itself.
    #[must_use]
    pub fn is_reserved(&self, device: DeviceId, owner: &str) -> bool {
        self.reserved.get(&device).is_some_and(|it| it.owner == owner)
    }

    /// Takes a [`Mapper::reserve`] back.
    pub fn release(&mut self, device: DeviceId) {
        self.reserved.remove(&device);
    }

    /// Whether those who have devices for themselves can still count on when these are silent, with `table` in the place of `device`.
    pub(super) fn check_silence(&self, device: DeviceId, table: &Table, stack: &Stack) -> Result<(), String> {
        let silence = stack.silence_of(table);
        let broken = |(id, it): &(&DeviceId, &Reserved)| {
            silence > it.silence && super::all_below(Vec::from([**id]), stack).contains(&device)
        };
        let broken = self.reserved.iter().find(broken).map(|(_, it)| &it.owner);
        broken.map_or(Ok(()), |owner| {
            let what = "commands that it gives up may land later than those of what it leads to now";
            Err(format!("{what}, and `{owner}` counts on that: remove the path and add it again"))
        })
    }

    /// Takes a [`Mapper::begin_writing`] back.
    pub fn end_writing(&mut self, device: DeviceId) {
        let Some(writers) = self.writers.get_mut(&device) else { return };
        *writers -= 1;
        if *writers == 0 {
            self.writers.remove(&device);
        }
    }

    /// Whether `lines`, as a table of the device in `place`, leave every other device alone with what it needs for itself,
    /// and are left alone with theirs. Names that nobody has are a matter of the build.
    pub(super) fn check_claims(
        &self,
        place: usize,
        (lines, read_only): (&[TableLine], bool),
        names: &Names<'_>,
    ) -> Result<(), TableError> {
        let named = lines.iter().flat_map(|line| line.target.devices().into_iter().map(move |arg| (line, arg)));
        let named = named.filter_map(|(line, arg)| Some((line, arg, names.device(&arg.name).ok()?)));
        let named: Vec<(&TableLine, &DeviceArg, DeviceId)> = named.collect();
        let claims = named.iter().filter(|(line, ..)| line.target.is_sole_writer());
        let claims: BTreeMap<DeviceId, usize> = claims.map(|(line, _, id)| (*id, line.number)).collect();
        for (line, arg, id) in named {
            let name = &arg.name;
            let refused = if let Some(other) = claims.get(&id).filter(|claim| **claim != line.number) {
                Some(format!("line {other} alone may write to `{name}`: map to another device"))
            } else if line.target.is_sole_writer() {
                self.writer(id, place).map(|who| format!("`{name}` is written to by {who}: end that first"))
            } else {
                let owner = self.sole_writer(id, Some(place)).filter(|_| !read_only);
                let advice = "map to that instead, or load the table read-only";
                owner.map(|owner| format!("`{owner}` alone may write to `{name}`: {advice}"))
            };
            if let Some(message) = refused {
                return Err(TableError { line: line.number, word: Some(arg.word), message });
            }
        }
        Ok(())
    }

    /// The mapped device that alone may write to `device`, but for the one in place `but`.
    fn sole_writer(&self, device: DeviceId, but: Option<usize>) -> Option<&str> {
        if let Some(it) = self.reserved.get(&device) {
            return Some(&it.owner);
        }
        let mut others = self.claimed.contains(&device).then(|| self.others(but))?;
        others.find(|(_, table)| table.sole_writer_of.contains(&device)).map(|(name, _)| name)
    }

    /// Who may write to `device` beside the mapped device in place `but`.
    fn writer(&self, device: DeviceId, but: usize) -> Option<String> {
        let mut tables = self.others(Some(but));
        let is_writer =
            |table: &Loaded| table.uses(device) && (!table.read_only || table.sole_writer_of.contains(&device));
        let table = tables.find(|(_, table)| is_writer(table)).map(|(name, _)| format!("the table of `{name}`"));
        let owner = self.reserved.get(&device).map(|it| format!("`{}`", it.owner));
        table.or(owner).or_else(|| self.writers.contains_key(&device).then(|| "clients of an export".into()))
    }

    fn others(&self, but: Option<usize>) -> impl Iterator<Item = (&str, &Loaded)> {
        let devices = self.devices.iter().enumerate().filter(move |(place, _)| but != Some(*place));
        devices.flat_map(|(_, device)| device.tables().map(|table| (device.name.as_str(), table)))
    }
}
