//! Devices that only one may write to: those on which a target keeps where its data is, and those that are paths to a disk.
//!
//! A volume of dm-zoned that shares a disk with another writer is lost, so who comes second is refused. Readers are not. The
//! kernel lets dm tables share their disks.

use alloc::collections::BTreeMap;

use super::mapped::Loaded;
use super::resolver::Names;
use super::{Mapper, MapperError, MapperErrorKind};
use crate::block::DeviceId;
use crate::dm::{DeviceArg, Resolver, TableError, TableLine};
use crate::prelude::*;

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

    /// Gives a device to `owner`, who is no mapped device, for as long as the stack lives: others may only read it.
    ///
    /// # Errors
    /// If somebody uses it already, with the name of that.
    pub fn reserve(&mut self, device: DeviceId, owner: &str) -> Result<(), MapperError> {
        let table = self.users_of(device).next().map(|name| format!("the table of `{name}`"));
        let other = self.reserved.get(&device).map(|name| format!("`{name}`"));
        let clients = || self.writers.contains_key(&device).then(|| "clients of an export".into());
        if let Some(user) = table.or(other).or_else(clients) {
            let what = format!("`{owner}` needs it for itself, and it is used by {user}: end that first");
            return Err(MapperError::new(MapperErrorKind::Busy, what));
        }
        self.reserved.insert(device, owner.to_string());
        Ok(())
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
        if let Some(owner) = self.reserved.get(&device) {
            return Some(owner);
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
        let owner = self.reserved.get(&device).map(|name| format!("`{name}`"));
        table.or(owner).or_else(|| self.writers.contains_key(&device).then(|| "clients of an export".into()))
    }

    fn others(&self, but: Option<usize>) -> impl Iterator<Item = (&str, &Loaded)> {
        let devices = self.devices.iter().enumerate().filter(move |(place, _)| but != Some(*place));
        devices.flat_map(|(_, device)| device.tables().map(|table| (device.name.as_str(), table)))
    }
}
