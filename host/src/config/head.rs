//! `[device.NAME]` with `paths`: several ways to one disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use shingle_core::block::{Limits, Stack};
use shingle_core::multipath::{
    AnaState, Groups, Head, HeadError, HeadOptions, MOST_PATHS, Node, PathConfig, PolicyKind, PolicyOptions,
};
use shingle_core::plug::PlugOptions;
use shingle_core::time::Duration;

use super::build::add_plug;
use super::plan::{DevicePlan, DiskPlan, MadeOf};
use super::spec::{DeviceKeys, DiskSpec, Spec};
use crate::backend::zoned_blk;
use crate::devices::{Devices, MULTIPATH, Named};
use crate::disk_identity::DiskIdentity;
use crate::extents::{Extents, OtherDisk, check_lines, check_paths};
use crate::fields::{At, Diagnostic, Fields, Item, MAX_MISTAKES, Source};

/// Several paths to one disk.
#[derive(Clone, Debug)]
pub struct HeadPlan {
    /// The paths.
    pub paths: Vec<PathPlan>,
    /// Policy of the stack file, if it has one.
    given_policy: Option<PolicyKind>,
    /// Options of the policy.
    pub policy_options: PolicyOptions,
    /// NUMA node from which it submits; that of its shard if left out.
    pub node: Option<Node>,
    /// How it works otherwise.
    pub options: HeadOptions,
    /// The place of the list.
    pub(super) place: Range<usize>,
}

/// A path.
#[derive(Clone, Debug)]
pub struct PathPlan {
    /// The disk or device that leads there.
    pub device: At<String>,
    /// What it is to the disk, to begin with.
    pub state: AnaState,
    /// NUMA node that it is near to; that of its disk if left out.
    pub node: Option<Node>,
}

/// Default policy: the best over drawn sets of paths, with nothing to be set.
const POLICY: PolicyKind = PolicyKind::ExpectedDelay;
/// Default policy over zoned block devices. The kernel keeps write pointers for each node, and refuses a write that follows one over another node.
const POLICY_OF_ZONED_BLOCK_DEVICES: PolicyKind = PolicyKind::Numa;
/// Bounds of times, in ms.
const HOUR: u64 = 3_600_000;

impl HeadPlan {
    /// Reads the keys of a device with `paths`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let paths = fields.items("paths", read_path);
        let policy = fields.word("policy", &PolicyKind::ALL.map(|kind| (kind.name(), kind)));
        let policy_options = read_policy_options(fields, policy.as_ref().map_or(POLICY, |at| at.value));
        let node = read_node(fields);
        let mut options = HeadOptions::default();
        time_or_never(fields, "no-path-timeout", (0, 24 * HOUR), &mut options.no_path_timeout);
        time_or_never(fields, "silence-timeout", (1_000, 24 * HOUR), &mut options.silence_timeout);
        set(&mut options.delayed_removal, time(fields, "delayed-removal", (0, 24 * HOUR)));
        set(&mut options.probe, time(fields, "probe", (50, HOUR)));
        set(&mut options.change_timeout, time(fields, "change-timeout", (1, HOUR)));
        if let Some(at) = fields.count("attempts") {
            let number = at.clone().map(u64::from);
            number.outside("attempts", 0..=255, "further ones").into_iter().for_each(|mistake| fields.error(mistake));
            options.attempts = u8::try_from(at.value).unwrap_or(options.attempts);
        }
        options.may_double_appends = fields.flag("double-appends").is_some_and(|at| at.value);
        let At { value: paths, span: place } = paths?;
        if !(1..=MOST_PATHS).contains(&paths.len()) {
            let title = format!("{} paths", paths.len());
            fields.error(Diagnostic::at(place, title).label(format!("a disk has 1 to {MOST_PATHS}")));
            return None;
        }
        Some(Self { paths, given_policy: policy.map(|at| at.value), policy_options, node, options, place })
    }

    /// Policy of the head, by the kind of each path. Warns of one that alternates between zoned block devices.
    pub fn policy(&self, kind_of: impl Fn(&str) -> Option<&'static str>) -> PolicyKind {
        let are_zoned_block_devices = self.names().any(|path| kind_of(path) == Some(zoned_blk::NAME));
        let usual = if are_zoned_block_devices { POLICY_OF_ZONED_BLOCK_DEVICES } else { POLICY };
        let policy = self.given_policy.unwrap_or(usual);
        if are_zoned_block_devices && policy != usual {
            let (names, policy, usual) = (self.names().collect::<Vec<_>>().join(", "), policy.name(), usual.name());
            tracing::warn!(
                "policy \"{policy}\" of the paths {names} alternates between zoned block devices, and writes may fail, as the kernel keeps write \
                 pointers for each of them: use policy = \"{usual}\""
            );
        }
        policy
    }

    /// The names of its paths.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|path| path.device.value.as_str())
    }

    /// Checks that the paths of device `name` lead to one disk.
    fn check(&self, name: &str, check: &dyn Fn(&[&str]) -> Result<(), OtherDisk>) -> Result<(), Box<Diagnostic>> {
        check(&self.names().collect::<Vec<_>>()).map_err(|other| {
            let place = self.paths[other.path].device.span.clone();
            let title = format!("the paths of device `{name}` do not lead to one disk");
            Box::new(Diagnostic::at(place, title).label(other.to_string()).help(other.advice))
        })
    }

    /// Why these paths cannot be one disk.
    fn blame(&self, name: &str, error: &HeadError) -> Diagnostic {
        let number = match error {
            HeadError::Count(_) => None,
            HeadError::OtherDisk(number, ..)
            | HeadError::OtherSize(number, ..)
            | HeadError::Limits(number, _)
            | HeadError::Serves(number, _)
            | HeadError::Twice(number)
            | HeadError::Removing(number) => self.paths.get(*number),
        };
        let place = number.map_or(&self.place, |path| &path.device.span);
        let title = format!("the paths of device `{name}` do not lead to one disk");
        Diagnostic::at(place.clone(), title).label(error.to_string())
    }
}

/// Reads the number of a NUMA node.
fn read_node(fields: &mut Fields<'_>) -> Option<Node> {
    let at = fields.count("node")?.map(u64::from);
    at.outside("node", 0..=u64::from(u8::MAX), "(a NUMA node)").into_iter().for_each(|mistake| fields.error(mistake));
    u8::try_from(at.value).ok().map(Node)
}

/// Reads and checks the options of a policy.
fn read_policy_options(fields: &mut Fields<'_>, policy: PolicyKind) -> PolicyOptions {
    let decay = fields.count("decay").map(|at| at.value);
    let window = fields.duration("window").map(|at| at.value.into());
    let low_water = fields.count("low-water").map(|at| at.value);
    let options = PolicyOptions { decay, window, low_water };
    if let Err(error) = options.check(policy) {
        let key = error.option();
        let place = fields.place_of(key).unwrap_or_else(|| fields.place());
        fields.error(Diagnostic::at(place, format!("`{key}` of a policy of paths is wrong")).label(error.to_string()));
    }
    options
}

fn read_path(item: Item<'_>) -> Option<PathPlan> {
    let mut fields = match item {
        Item::Name(device) => return Some(PathPlan { device, state: AnaState::Optimized, node: None }),
        Item::Table(fields) => fields,
    };
    let device = fields.required("device", "\"NAME\"");
    let state = fields.word("state", &AnaState::ALL.map(|state| (state.name(), state)));
    let node = read_node(&mut fields);
    fields.finish();
    Some(PathPlan { device: device?, state: state.map_or(AnaState::Optimized, |at| at.value), node })
}

fn set<T>(place: &mut T, value: Option<T>) {
    value.into_iter().for_each(|value| *place = value);
}

fn time(fields: &mut Fields<'_>, key: &'static str, range: (u64, u64)) -> Option<Duration> {
    let at = fields.duration(key)?;
    bounded(fields, key, at, range)
}

fn time_or_never(fields: &mut Fields<'_>, key: &'static str, range: (u64, u64), place: &mut Option<Duration>) {
    if let Some(at) = fields.duration_or_never(key) {
        let time = at.value.map(|time| At { value: time, span: at.span.clone() });
        *place = time.and_then(|time| bounded(fields, key, time, range));
    }
}

/// A time in this range of ms.
fn bounded(
    fields: &mut Fields<'_>,
    key: &'static str,
    at: At<std::time::Duration>,
    (least, most): (u64, u64),
) -> Option<Duration> {
    let time = Duration::from(at.value);
    let ms = at.map(|_| time.as_nanos().div_ceil(1_000_000));
    let mistake = ms.outside(key, least..=most, "ms");
    let is_right = mistake.is_none();
    mistake.into_iter().for_each(|mistake| fields.error(mistake));
    is_right.then_some(time)
}

/// All paths, each with the name of its device.
pub(super) fn paths(spec: &Spec) -> impl Iterator<Item = (&str, &PathPlan)> {
    spec.devices.iter().flat_map(|device| {
        let head = match &device.made_of {
            DeviceKeys::Paths(head) => Some(head),
            DeviceKeys::Table(..) => None,
        };
        head.into_iter().flat_map(|head| &head.paths).map(|path| (device.name.value.as_str(), path))
    })
}

/// What is named in a stack file beside the paths, by name, so that each path is looked up once.
struct Uses<'a> {
    /// The first table that lies on a device.
    tables: BTreeMap<&'a str, &'a str>,
    /// The first export through which clients write to a device.
    exports: BTreeMap<&'a str, &'a str>,
    disks: BTreeMap<&'a str, &'a DiskSpec>,
    heads: BTreeSet<&'a str>,
}

impl<'a> Uses<'a> {
    fn of(devices: &'a [DevicePlan], spec: &'a Spec) -> Self {
        let mut tables = BTreeMap::new();
        for device in devices.iter().filter(|device| matches!(device.made_of, MadeOf::Table(_))) {
            device.needs().into_iter().for_each(|name| _ = tables.entry(name).or_insert(device.name.as_str()));
        }
        let mut exports = BTreeMap::new();
        for export in spec.exports.iter().filter(|export| !export.plan.read_only) {
            exports.entry(export.device.value.as_str()).or_insert(export.name.value.as_str());
        }
        let heads = spec.devices.iter().filter(|device| matches!(device.made_of, DeviceKeys::Paths(_)));
        Self {
            tables,
            exports,
            disks: spec.disks.iter().map(|disk| (disk.name.value.as_str(), disk)).collect(),
            heads: heads.map(|device| device.name.value.as_str()).collect(),
        }
    }
}

/// Finds paths that belong to more than one device, or that something else uses: at most [`MAX_MISTAKES`] of each kind.
pub(super) fn mistakes_of_heads(devices: &[DevicePlan], spec: &Spec) -> Vec<Diagnostic> {
    let uses = Uses::of(devices, spec);
    let mut first_named: BTreeMap<&str, (&str, &PathPlan)> = BTreeMap::new();
    let twice = paths(spec).filter_map(|(owner, path)| {
        let name = path.device.value.as_str();
        let Some((first, earlier)) = first_named.get(name) else {
            first_named.insert(name, (owner, path));
            return None;
        };
        let title = if *first == owner {
            format!("`{name}` is a path of `{owner}` twice")
        } else {
            format!("`{name}` is a path of `{owner}` and of `{first}`")
        };
        let mistake = Diagnostic::at(path.device.span.clone(), title).label("named again here");
        Some(mistake.other(earlier.device.span.clone(), "first named here").help("name each path once"))
    });
    let twice: Vec<Diagnostic> = twice.take(MAX_MISTAKES).collect();
    let is_head = |(_, path): &(&str, &PathPlan)| uses.heads.contains(path.device.value.as_str());
    let nested = paths(spec).filter(is_head).map(|(owner, path)| {
        let title = format!("`{}` has paths itself, and is no path", path.device.value);
        let mistake = Diagnostic::at(path.device.span.clone(), title).label("has `paths`");
        mistake.help(format!("let `paths` of `{owner}` name what is below it"))
    });
    let shared = paths(spec).filter_map(|(owner, path)| other_user(owner, path, &uses));
    let ordered = paths(spec).filter_map(|(owner, path)| ordered_below(owner, path, &uses));
    let others = nested.take(MAX_MISTAKES).chain(shared.take(MAX_MISTAKES)).chain(ordered.take(MAX_MISTAKES));
    twice.into_iter().chain(others).collect()
}

/// A table or an export that could write to a path beside the device that it belongs to.
fn other_user(owner: &str, path: &PathPlan, uses: &Uses<'_>) -> Option<Diagnostic> {
    let name = path.device.value.as_str();
    let table = uses.tables.get(name).map(|table| format!("the table of `{table}`"));
    let user = table.or_else(|| uses.exports.get(name).map(|export| format!("export `{export}`")))?;
    let title = format!("`{name}` is a path of `{owner}`, and {user} uses it too");
    let mistake = Diagnostic::at(path.device.span.clone(), title).label("has to be for this device alone");
    Some(mistake.help(format!("let {user} use `{owner}` instead; an export may be read-only")))
}

/// A disk that is a path and is to order zone writes.
fn ordered_below(owner: &str, path: &PathPlan, uses: &Uses<'_>) -> Option<Diagnostic> {
    let disk = uses.disks.get(path.device.value.as_str())?;
    let place = disk.policy_place()?;
    let title = format!("disk `{}` is a path of `{owner}`, where zone writes are ordered", disk.name.value);
    let help = "remove `policy`, `append` and what belongs to a policy; `shingle policy` changes that of the device";
    Some(Diagnostic::at(place.clone(), title).label("no effect").help(help))
}

/// Paths that lead to different disks, and members of a volume that are one disk, as far as the file and the disks tell.
pub(super) fn mistakes_of_identity(source: &Source, disks: &[DiskPlan], devices: &[DevicePlan]) -> Vec<Diagnostic> {
    let identities: BTreeMap<&str, DiskIdentity> =
        disks.iter().filter_map(|disk| Some((disk.name.as_str(), disk.identity()?))).collect();
    let disk = |name: &str| identities.get(name).cloned();
    let by_name: BTreeMap<&str, &DevicePlan> = devices.iter().map(|device| (device.name.as_str(), device)).collect();
    let lines = |name: &str| match &by_name.get(name)?.made_of {
        MadeOf::Table(table) => Some(table.lines.as_slice()),
        MadeOf::Paths(_) => None,
    };
    let extents = |name: &str| Extents::of(name, &disk, &lines);
    let mistake = |device: &DevicePlan| match &device.made_of {
        MadeOf::Table(table) => {
            let error = check_lines(&table.lines, &extents).err()?;
            Some(table.blame_table(source, &error))
        }
        MadeOf::Paths(head) => {
            let mistake = head.check(&device.name, &|paths| check_paths(paths, &extents)).err()?;
            Some(*mistake)
        }
    };
    devices.iter().filter_map(mistake).take(MAX_MISTAKES).collect()
}

/// Puts a head above its paths, on a shard of this NUMA node, with a plug above it if they are zoned: a path that a write has failed over to knows nothing of those before it.
pub(super) fn add_head(
    (name, shard_node): (&str, Node),
    plan: &HeadPlan,
    (devices, stack): (&mut Devices, &mut Stack),
) -> Result<(), Box<Diagnostic>> {
    let fail = |error: &dyn std::fmt::Display| {
        let title = format!("device `{name}` cannot be made");
        Box::new(Diagnostic::at(plan.place.clone(), title).label(error.to_string()))
    };
    plan.check(name, &|paths| devices.check_paths(paths))?;
    let mut paths: Vec<(PathConfig, Limits)> = Vec::new();
    for PathPlan { device, state, node } in &plan.paths {
        let missing = || fail(&format!("there is no `{}`", device.value));
        let id = devices.open(&device.value).ok_or_else(missing)?;
        devices.mapper.reserve(id, name, stack).map_err(|error| fail(&format!("`{}`: {error}", device.value)))?;
        let node = node.or_else(|| devices.node_of(id, stack));
        let config = PathConfig { silence: stack.silence(id), state: *state, node, ..PathConfig::new(id) };
        paths.push((config, stack.limits(id).clone()));
    }
    let paths: Vec<(PathConfig, &Limits)> = paths.iter().map(|(config, limits)| (config.clone(), limits)).collect();
    let groups = Groups::one_with(plan.policy(|path| devices.kind_of(path)), plan.policy_options);
    let options = HeadOptions { node: plan.node.unwrap_or(shard_node), ..plan.options.clone() };
    let head = Head::grouped(&paths, groups, options);
    let head = head.map_err(|error| Box::new(plan.blame(name, &error)))?;
    let head = stack.add(Box::new(head)).map_err(|error| fail(&error))?;
    let plug = add_plug(stack, head, PlugOptions::for_device(stack.limits(head))).map_err(|error| fail(&error))?;
    devices
        .add_disk(Named { name: name.into(), kind: MULTIPATH, device: plug.unwrap_or(head), leaf: head, plug }, None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zoned_block_devices_stay_with_one_path_by_default() {
        let path = |name: &str| PathPlan {
            device: At { value: name.into(), span: 0..0 },
            state: AnaState::Optimized,
            node: None,
        };
        let paths = ["left", "right"].map(path).into();
        let (options, policy_options) = (HeadOptions::default(), PolicyOptions::default());
        let plan = HeadPlan { paths, given_policy: None, policy_options, node: None, options, place: 0..0 };
        assert_eq!(plan.policy(|_| Some("file")), PolicyKind::ExpectedDelay);
        assert_eq!(plan.policy(|_| Some("zoned-blk")), PolicyKind::Numa);
        let plan = HeadPlan { given_policy: Some(PolicyKind::RoundRobin), ..plan };
        assert_eq!(plan.policy(|_| Some("zoned-blk")), PolicyKind::RoundRobin, "with a warning in the log");
    }
}
