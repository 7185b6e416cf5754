//! `[device.NAME]` with `paths`: several ways to one disk.

use std::ops::Range;

use shingle_core::block::{Limits, Stack};
use shingle_core::dm::{TableLine, View};
use shingle_core::multipath::{AnaState, Head, HeadError, HeadOptions, MOST_PATHS, PathConfig, PolicyKind};
use shingle_core::plug::PlugOptions;
use shingle_core::time::Duration;

use super::build::add_plug;
use super::plan::{DevicePlan, DiskPlan, MadeOf};
use super::spec::{DeviceKeys, Spec};
use crate::devices::{Devices, MULTIPATH, Named};
use crate::fields::{At, Diagnostic, Fields, Item};

/// Several paths to one disk.
#[derive(Clone, Debug)]
pub struct HeadPlan {
    /// The paths.
    pub paths: Vec<PathPlan>,
    /// How one of them is chosen.
    pub policy: PolicyKind,
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
}

/// What is chosen if nobody says otherwise: the best over drawn sets of paths, with nothing to be set.
const POLICY: PolicyKind = PolicyKind::ExpectedDelay;
/// Bounds of times, in ms.
const HOUR: u64 = 3_600_000;

impl HeadPlan {
    /// Reads the keys of a device with `paths`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let paths = fields.items("paths", read_path);
        let policy = fields.word("policy", &PolicyKind::ALL.map(|kind| (kind.name(), kind)));
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
        Some(Self { paths, policy: policy.map_or(POLICY, |at| at.value), options, place })
    }

    /// The names of its paths.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|path| path.device.value.as_str())
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

fn read_path(item: Item<'_>) -> Option<PathPlan> {
    let mut fields = match item {
        Item::Name(device) => return Some(PathPlan { device, state: AnaState::Optimized }),
        Item::Table(fields) => fields,
    };
    let device = fields.required("device", "\"NAME\"");
    let state = fields.word("state", &AnaState::ALL.map(|state| (state.name(), state)));
    fields.finish();
    Some(PathPlan { device: device?, state: state.map_or(AnaState::Optimized, |at| at.value) })
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
    let whole = at.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let ms = whole.clone().map(|ns| ns.div_ceil(1_000_000));
    let mistake = ms.outside(key, least..=most, "ms");
    let is_right = mistake.is_none();
    mistake.into_iter().for_each(|mistake| fields.error(mistake));
    is_right.then(|| Duration::from_nanos(whole.value))
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

/// What is wrong with paths that are all there: a path belongs to one device alone, and leads where the others lead.
pub(super) fn mistakes_of_heads(
    (disks, devices): (&[DiskPlan], &[DevicePlan]),
    spec: &Spec,
) -> impl Iterator<Item = Diagnostic> {
    let all: Vec<(&str, &PathPlan)> = paths(spec).collect();
    let twice = all.iter().enumerate().filter_map(|(number, (owner, path))| {
        let (first, earlier) = all[..number].iter().find(|(_, other)| other.device.value == path.device.value)?;
        let title = format!("`{}` is a path of `{owner}` and of `{first}`", path.device.value);
        let title =
            if first == owner { format!("`{}` is a path of `{owner}` twice", path.device.value) } else { title };
        let mistake = Diagnostic::at(path.device.span.clone(), title).label("named again here");
        Some(mistake.other(earlier.device.span.clone(), "first named here").help("name each path once"))
    });
    let heads = spec.devices.iter().filter(|device| matches!(device.made_of, DeviceKeys::Paths(_)));
    let heads: Vec<&str> = heads.map(|device| device.name.value.as_str()).collect();
    let nested = all.iter().filter(|(_, path)| heads.contains(&path.device.value.as_str())).map(|(owner, path)| {
        let title = format!("`{}` has paths itself, and is no path", path.device.value);
        let mistake = Diagnostic::at(path.device.span.clone(), title).label("has `paths`");
        mistake.help(format!("let `paths` of `{owner}` name what is below it"))
    });
    let shared = all.iter().filter_map(|(owner, path)| other_user(owner, path, devices, spec));
    let ordered = all.iter().filter_map(|(owner, path)| ordered_below(owner, path, spec));
    let strangers = devices.iter().filter_map(|device| stranger(device, disks, devices));
    let mistakes: Vec<Diagnostic> = twice.chain(nested).chain(shared).chain(ordered).chain(strangers).collect();
    mistakes.into_iter()
}

/// A table or an export that could write to a path beside the device that it belongs to.
fn other_user(owner: &str, path: &PathPlan, devices: &[DevicePlan], spec: &Spec) -> Option<Diagnostic> {
    let name = &path.device.value;
    let lies_on =
        |device: &&DevicePlan| matches!(device.made_of, MadeOf::Table(_)) && device.needs().contains(&name.as_str());
    let table = devices.iter().find(lies_on).map(|device| format!("the table of `{}`", device.name));
    let mut exports = spec.exports.iter().filter(|export| export.device.value == *name && !export.plan.read_only);
    let user = table.or_else(|| exports.next().map(|export| format!("export `{}`", export.name.value)))?;
    let title = format!("`{name}` is a path of `{owner}`, and {user} uses it too");
    let mistake = Diagnostic::at(path.device.span.clone(), title).label("has to be for this device alone");
    Some(mistake.help(format!("let {user} use `{owner}` instead; an export may be read-only")))
}

/// A disk that is a path and is to order zone writes.
fn ordered_below(owner: &str, path: &PathPlan, spec: &Spec) -> Option<Diagnostic> {
    let disk = spec.disks.iter().find(|disk| disk.name.value == path.device.value)?;
    let policy = disk.policy.as_ref().map(|at| &at.span);
    let place = policy.or(disk.append.as_ref().map(|at| &at.span)).or(disk.queue_depth.as_ref().map(|at| &at.span));
    let place = place.or(disk.elevator.place.as_ref())?;
    let title = format!("disk `{}` is a path of `{owner}`, where zone writes are ordered", disk.name.value);
    let help = "remove `policy`, `append` and what belongs to a policy; `shingle policy` changes that of the device";
    Some(Diagnostic::at(place.clone(), title).label("no effect").help(help))
}

/// A path that leads elsewhere than the first one, as far as the file tells.
fn stranger(device: &DevicePlan, disks: &[DiskPlan], devices: &[DevicePlan]) -> Option<Diagnostic> {
    let MadeOf::Paths(head) = &device.made_of else { return None };
    let disk = |name: &str| disks.iter().find(|disk| disk.name == name).map(DiskPlan::identity);
    let lines = |name: &str| match &devices.iter().find(|device| device.name == name)?.made_of {
        MadeOf::Table(table) => Some(table.lines.as_slice()),
        MadeOf::Paths(_) => None,
    };
    let end = |path: &'_ PathPlan| end_of(&path.device.value, &disk, &lines);
    let (first, there) = head.paths.iter().find_map(|path| Some((path, end(path)?)))?;
    let (other, elsewhere) = head.paths.iter().find_map(|path| Some((path, end(path).filter(|end| *end != there)?)))?;
    let title = format!("the paths of device `{}` do not lead to one disk", device.name);
    let (one, two) = (&first.device.value, &other.device.value);
    let label = format!("`{two}` leads to {elsewhere}, and `{one}` to {there}");
    Some(Diagnostic::at(other.device.span.clone(), title).label(label))
}

impl DiskPlan {
    /// What the disk is called by whichever way it is reached.
    pub(crate) fn identity(&self) -> String {
        self.back_end.identity().unwrap_or_else(|| format!("disk `{}`", self.name))
    }
}

/// What the parts of a device are: which disk, and where there, against where here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End(Vec<(String, i128)>);

shingle_core::impl_display!(End, |self, f| {
    let part = |(disk, shift): &(String, i128)| if *shift == 0 { disk.clone() } else { format!("{disk} {shift:+}") };
    f.write_str(&self.0.iter().map(part).collect::<Vec<_>>().join(", "))
});

/// Targets that change nothing of what they pass on.
const PLAIN: [&str; 5] = ["linear", "delay", "flakey", "faulty", "dust"];

/// Where a name leads, by what disks are and the tables that devices have; `None` if these do not tell.
pub(crate) fn end_of<'a>(
    name: &str,
    disk: &dyn Fn(&str) -> Option<String>,
    lines: &dyn Fn(&str) -> Option<&'a [TableLine]>,
) -> Option<End> {
    if let Some(identity) = disk(name) {
        return Some(End(vec![(identity, 0)]));
    }
    let mut all: Vec<(String, i128)> = Vec::new();
    for line in lines(name)? {
        let (below, start) = place_below(line)?;
        let End(end) = end_of(&below, disk, lines)?;
        let [(disk, shift)] = end.as_slice() else { return None };
        let part = (disk.clone(), shift + i128::from(start) - i128::from(line.start));
        if all.last() != Some(&part) {
            all.push(part);
        }
    }
    Some(End(all))
}

/// The device that a line passes bios on to as they are, and the sector there.
fn place_below(line: &TableLine) -> Option<(String, u64)> {
    let mut text = String::new();
    line.write(&View { shows_keys: false, device: None }, &mut text).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let places =
        line.target.devices().into_iter().map(|arg| Some((arg.name.clone(), words.get(arg.word + 1)?.parse().ok()?)));
    let mut places: Vec<(String, u64)> = places.collect::<Option<_>>()?;
    places.dedup();
    let is_plain = PLAIN.contains(&line.kind.name) && places.len() == 1;
    places.pop().filter(|_| is_plain)
}

/// Puts a head above its paths, with a plug above it if they are zoned: a path that a write has failed over to knows nothing of those before it.
pub(super) fn add_head(
    name: &str,
    plan: &HeadPlan,
    (devices, stack): (&mut Devices, &mut Stack),
) -> Result<(), Box<Diagnostic>> {
    let fail = |error: &dyn std::fmt::Display| {
        let title = format!("device `{name}` cannot be made");
        Box::new(Diagnostic::at(plan.place.clone(), title).label(error.to_string()))
    };
    let mut paths: Vec<(PathConfig, Limits)> = Vec::new();
    for PathPlan { device, state } in &plan.paths {
        let missing = || fail(&format!("there is no `{}`", device.value));
        let id = devices.open(&device.value).ok_or_else(missing)?;
        devices.mapper.reserve(id, name, stack).map_err(|error| fail(&format!("`{}`: {error}", device.value)))?;
        let config = PathConfig { silence: stack.silence(id), state: *state, ..PathConfig::new(id) };
        paths.push((config, stack.limits(id).clone()));
    }
    let paths: Vec<(PathConfig, &Limits)> = paths.iter().map(|(config, limits)| (config.clone(), limits)).collect();
    let head = Head::new(&paths, plan.policy, plan.options.clone());
    let head = head.map_err(|error| Box::new(plan.blame(name, &error)))?;
    let head = stack.add(Box::new(head)).map_err(|error| fail(&error))?;
    let plug = add_plug(stack, head, PlugOptions::for_device(stack.limits(head))).map_err(|error| fail(&error))?;
    devices
        .add_disk(Named { name: name.into(), kind: MULTIPATH, device: plug.unwrap_or(head), leaf: head, plug }, None);
    Ok(())
}
