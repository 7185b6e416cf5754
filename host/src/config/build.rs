//! The one place that builds a stack from a plan.

use std::collections::BTreeMap;

use shingle_core::block::{BlockDevice, DeviceId, Stack};
use shingle_core::dm::TableLine;
use shingle_core::multipath::Node;
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::time::Instant;

use super::head::add_head;
use super::plan::{DevicePlan, DiskPlan, MadeOf, Plan, TablePlan};
use crate::backend::BackEndError;
use crate::devices::{Devices, MappedName, Named};
use crate::disk_identity::{DiskIdentity, DiskPlace};
use crate::dmz::{find_length, has_own_length};
use crate::fields::{ConfigError, Diagnostic, MAX_MISTAKES, has_room};
use crate::shard::Shard;

/// Builds shard number `shard` of `plan` in `home`: disks, then the mapped devices above them.
pub fn build_shard(plan: &Plan, number: u32, home: &mut Shard) -> Result<(), ConfigError> {
    let mut errors = Vec::new();
    for disk in plan.disks.iter().filter(|disk| disk.shard == number) {
        errors.extend(open_disk(disk, home).err());
    }
    if errors.is_empty() {
        for device in plan.devices.iter().filter(|device| device.shard == number) {
            errors.extend(add_device(plan, device, home).err());
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(plan.fail(errors.into_iter().map(|error| *error).collect())) }
}

/// Opens a disk on its shard.
pub(crate) fn open_disk(disk: &DiskPlan, home: &mut Shard) -> Result<(), Box<Diagnostic>> {
    let leaf = disk.back_end.open(home).map_err(|error| no_disk(disk, error))?;
    add_disk(disk, leaf, (&mut home.devices, &mut home.stack))
}

impl DiskPlan {
    /// Reads the identity of the disk; `None` if nothing is in its path.
    pub(super) fn identity(&self) -> Option<DiskIdentity> {
        let identity = match self.back_end.path() {
            Some(path) => DiskIdentity::of(path)?,
            None => DiskIdentity::in_memory(&self.name),
        };
        Some(identity.with_given(self.identity.clone()))
    }
}

/// Makes a device on its shard.
pub(crate) fn add_device(plan: &Plan, device: &DevicePlan, home: &mut Shard) -> Result<(), Box<Diagnostic>> {
    match &device.made_of {
        MadeOf::Table(table) => add_mapped(plan, table, home),
        MadeOf::Paths(head) => {
            let node = home.node();
            add_head((&device.name, node), head, (&mut home.devices, &mut home.stack))
        }
    }
}

/// Looks at the disks of `plan`. One that somebody has open may be a daemon's own: that is no mistake.
pub fn check_disks(plan: &Plan) -> Result<(), ConfigError> {
    let errors = plan.disks.iter().filter_map(|disk| check_disk(disk).err()).map(|error| *error);
    let errors: Vec<Diagnostic> = errors.take(MAX_MISTAKES).collect();
    if errors.is_empty() { Ok(()) } else { Err(plan.fail(errors)) }
}

/// Looks at a disk.
pub(crate) fn check_disk(disk: &DiskPlan) -> Result<(), Box<Diagnostic>> {
    disk.back_end.inspect().map_err(|error| no_disk(disk, error))
}

fn no_disk(disk: &DiskPlan, error: BackEndError) -> Box<Diagnostic> {
    let title = format!("disk `{}` cannot be opened", disk.name);
    let help = error.help;
    Box::new(Diagnostic { help, ..Diagnostic::at(disk.place.clone(), title).label(error.message) })
}

/// Builds what can be built without a machine, to find the mistakes that only limits show, and throws it away.
pub(super) fn rehearse(plan: &Plan, errors: &mut Vec<Diagnostic>) {
    let mut stacks: BTreeMap<u32, (Devices, Stack)> = BTreeMap::new();
    for disk in &plan.disks {
        if !has_room(errors) {
            return;
        }
        let Some(model) = disk.back_end.model() else { continue };
        let (devices, stack) = stacks.entry(disk.shard).or_default();
        let added = add_disk(disk, model, (devices, stack));
        errors.extend(added.err().map(|error| *error));
    }
    for device in &plan.devices {
        if !has_room(errors) {
            return;
        }
        let (devices, stack) = stacks.entry(device.shard).or_default();
        // What lies on a disk without a model can only be tried on the disk itself.
        if device.needs().into_iter().any(|name| devices.find(name).is_none()) {
            continue;
        }
        let made = match &device.made_of {
            MadeOf::Paths(head) => add_head((&device.name, Node(0)), head, (devices, stack)),
            MadeOf::Table(table) if has_own_length(&table.lines) => continue,
            MadeOf::Table(table) => make_device(plan, table, (table.lines.clone(), ""), (devices, stack)),
        };
        errors.extend(made.err().map(|error| *error));
    }
}

/// Puts a disk into the stack, with a plug above it if it is zoned and no path of a head.
fn add_disk(
    disk: &DiskPlan,
    leaf: Box<dyn BlockDevice>,
    (devices, stack): (&mut Devices, &mut Stack),
) -> Result<(), Box<Diagnostic>> {
    let fail = |error: &dyn std::fmt::Display| {
        let title = format!("disk `{}` cannot be used", disk.name);
        Box::new(Diagnostic::at(disk.place.clone(), title).label(error.to_string()))
    };
    let leaf = stack.add(leaf).map_err(|error| fail(&error))?;
    disk.scheduler.apply(stack, leaf);
    let policy = disk.policy.unwrap_or_else(|| WritePolicy::default_for(stack.limits(leaf)));
    let options = PlugOptions { policy, ..disk.plug };
    let plug = match &disk.path_of {
        Some(_) => None,
        None => add_plug(stack, leaf, options).map_err(|error| fail(&error))?,
    };
    let (name, kind) = (disk.name.clone(), disk.kind.name);
    // What opening it mended, for example.
    let notices = disk.kind.ask.map_or(Vec::new(), |ask| ask(stack, leaf));
    let advice = disk.back_end.advice(policy);
    notices.iter().chain(&advice).for_each(|notice| tracing::warn!(disk = name, "{notice}"));
    devices.add_disk(Named { name, kind, device: plug.unwrap_or(leaf), leaf, plug }, disk.kind.ask);
    if let Some(identity) = disk.identity() {
        let path = disk.back_end.path().map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        devices.set_place(DiskPlace { name: disk.name.clone(), path, identity });
    }
    Ok(())
}

/// A plug over `leaf`, if that is zoned.
pub fn add_plug(stack: &mut Stack, leaf: DeviceId, options: PlugOptions) -> Result<Option<DeviceId>, String> {
    if stack.limits(leaf).zoned.is_none() {
        return Ok(None);
    }
    let plug = ZonePlug::new(leaf, stack.limits(leaf), options).map_err(|error| error.to_string())?;
    stack.add(Box::new(plug)).map(Some).map_err(|error| error.to_string())
}

/// Makes a mapped device with its first table. A volume of dm-zoned is as long as its disks say, and has their UUID.
fn add_mapped(plan: &Plan, device: &TablePlan, home: &mut Shard) -> Result<(), Box<Diagnostic>> {
    let mut lines = device.lines.clone();
    let uuid = find_length(&mut lines, &mut *home);
    let uuid = uuid.map_err(|error| Box::new(device.blame_table(&plan.source, &error)))?;
    let uuid = uuid.unwrap_or_default();
    make_device(plan, device, (lines, &uuid), (&mut home.devices, &mut home.stack))
}

fn make_device(
    plan: &Plan,
    device: &TablePlan,
    (lines, uuid): (Vec<TableLine>, &str),
    (devices, stack): (&mut Devices, &mut Stack),
) -> Result<(), Box<Diagnostic>> {
    let made = devices.make(MappedName { name: &device.device, uuid }, lines, false, (stack, Instant::ZERO));
    made.map_err(|error| Box::new(device.blame(&plan.source, &error)))?;
    if device.knobs.is_empty() {
        return Ok(());
    }
    let pairs = device.knobs.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    let words: Vec<&str> = std::iter::once("set").chain(pairs).collect();
    let set = devices.mapper.message(&device.device, 0, &words, (stack, Instant::ZERO));
    set.map(drop).map_err(|error| Box::new(device.blame_knobs(&error)))
}
