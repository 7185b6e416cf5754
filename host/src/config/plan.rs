//! The validated plan of a stack: names resolved, order found, everything checked that needs no machine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shingle_core::block::FRAMES;
use shingle_core::dm::{TableError, TableLine, parse_table};
use shingle_core::mapper::MapperError;
use shingle_core::plug::{PlugOptions, WritePolicy};
use shingle_core::scheduler::{MAX_QUEUE_DEPTH, SchedulerOptions};

use super::build::rehearse;
use super::head::{HeadPlan, PathPlan, mistakes_of_heads, mistakes_of_identity, paths};
use super::metrics::MetricsPlan;
use super::spec::{DeviceKeys, DeviceSpec, DiskSpec, ExportPlan, ExportSpec, Kinds, Spec};
use super::web::WebPlan;
use super::written::Written;
use crate::backend::{BackEnd, BackEndType};
use crate::fields::{At, ConfigError, Diagnostic, Source, has_room, nearest, word_in_string};
use crate::serve::FrontEnd;

/// A stack that can be built.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file, for messages while it is built.
    pub source: Source,
    /// Number of shards.
    pub shards: u32,
    /// Disks, in the file's order.
    pub disks: Vec<DiskPlan>,
    /// Mapped devices; what one needs comes before it.
    pub devices: Vec<DevicePlan>,
    /// Exports, in the file's order.
    pub exports: Vec<ExportPlan>,
    /// How clients reach them.
    pub front_ends: Vec<Arc<dyn FrontEnd>>,
    /// The control socket.
    pub control: Option<PathBuf>,
    /// Where it tells what it has done.
    pub metrics: MetricsPlan,
    /// Where it shows its page.
    pub web: WebPlan,
    /// What the file says.
    pub written: Written,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct DiskPlan {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static BackEndType,
    /// What it is made of.
    pub back_end: Arc<dyn BackEnd>,
    /// The write policy, if one is named; else the device decides (`WritePolicy::default_for`).
    pub policy: Option<WritePolicy>,
    /// How its plug works otherwise, if it turns out to be zoned.
    pub plug: PlugOptions,
    /// The I/O scheduler.
    pub scheduler: SchedulerOptions,
    /// `identity`, if the file says it.
    pub identity: Option<String>,
    /// The shard that owns it.
    pub shard: u32,
    /// The place of the words that say where it is.
    pub place: Range<usize>,
    /// The device whose path it is, if it is one: zone writes are ordered above that.
    pub path_of: Option<String>,
}

/// A device above disks.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    /// Its name.
    pub name: String,
    /// The shard that owns it.
    pub shard: u32,
    /// What it is made of.
    pub made_of: MadeOf,
}

/// What a device is made of.
#[derive(Clone, Debug)]
pub enum MadeOf {
    /// A table.
    Table(TablePlan),
    /// Several paths to one disk.
    Paths(HeadPlan),
}

/// What a mapped device is made of.
#[derive(Clone, Debug)]
pub struct TablePlan {
    /// The device.
    pub device: String,
    /// Its table.
    pub lines: Vec<TableLine>,
    /// How the policy of a volume is set.
    pub knobs: Vec<(String, String)>,
    table: At<String>,
    knobs_place: Range<usize>,
}

/// Most shards of one daemon.
const MOST_SHARDS: u32 = 64;
/// Most names that a mistake lists.
const MAX_NAMES: usize = 32;
/// Longest name of a disk, device or export (`DM_NAME_LEN`).
const LONGEST_NAME: usize = 127;

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(fits)
}

fn name_rule() -> String {
    format!("use letters, digits and . _ - +, at most {LONGEST_NAME} of them")
}

/// Checks the name of an export: empty, which names the default export, or as all names of a stack file.
///
/// # Errors
/// If it is no name: what one is.
pub fn check_export_name(name: &str) -> Result<(), String> {
    if name.is_empty() || is_name(name) { Ok(()) } else { Err(format!("`{name}` is not a name: {}", name_rule())) }
}

impl Plan {
    /// Reads and checks a stack file. Relative paths of sockets are relative to the directory that a service manager made for them
    /// (`RUNTIME_DIRECTORY`), if it did.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let given = std::env::var_os("RUNTIME_DIRECTORY").filter(|directories| !directories.is_empty());
        let first = given.as_ref().and_then(|directories| directories.as_bytes().split(|byte| *byte == b':').next());
        let sockets = first.map(|directory| Path::new(OsStr::from_bytes(directory)));
        Self::parse_for(Source::read(path)?, Kinds::default(), sockets)
    }

    /// Checks a stack file's text. Relative paths in it are relative to the file's directory.
    pub fn parse(source: Source) -> Result<Self, ConfigError> {
        Self::parse_with(source, Kinds::default())
    }

    /// The same with disks and front ends of these `kinds`.
    pub fn parse_with(source: Source, kinds: Kinds<'_>) -> Result<Self, ConfigError> {
        Self::parse_for(source, kinds, None)
    }

    /// The same with sockets relative to another directory.
    fn parse_for(source: Source, kinds: Kinds<'_>, sockets: Option<&Path>) -> Result<Self, ConfigError> {
        let mut errors = Vec::new();
        let spec = Spec::read(&source, kinds, sockets, &mut errors);
        let readable = errors.is_empty();
        let mut planner = Planner { source: &source, errors, disks: BTreeMap::new(), readable };
        let (disks, devices, exports) = planner.stack(&spec);
        spec.front_ends.iter().flat_map(|front_end| front_end.mistakes()).for_each(|mistake| planner.note(|| mistake));
        let control = spec.control.as_ref().map(|at| at.value.clone());
        planner.outlets(&spec);
        let (Planner { mut errors, .. }, front_ends, metrics) = (planner, spec.front_ends, spec.metrics);
        let web = spec.web;
        let shards = disks.iter().map(|disk| disk.shard + 1).max().unwrap_or(1);
        let written = Written::of(&source.text);
        let plan = Self { source, shards, disks, devices, exports, front_ends, control, metrics, web, written };
        if errors.is_empty() {
            rehearse(&plan, &mut errors);
        }
        if errors.is_empty() { Ok(plan) } else { Err(plan.fail(errors)) }
    }

    /// The disk called `name`.
    #[must_use]
    pub fn disk(&self, name: &str) -> Option<&DiskPlan> {
        self.disks.iter().find(|disk| disk.name == name)
    }

    /// The shard that owns the disk or device called `name`.
    #[must_use]
    pub fn shard_of(&self, name: &str) -> Option<u32> {
        let disk = self.disk(name).map(|disk| disk.shard);
        disk.or_else(|| self.devices.iter().find(|device| device.name == name).map(|device| device.shard))
    }

    /// An error that shows this plan's file.
    #[must_use]
    pub fn fail(&self, mut diagnostics: Vec<Diagnostic>) -> ConfigError {
        diagnostics.sort_by_key(|diagnostic| diagnostic.span.as_ref().map_or(usize::MAX, |span| span.start));
        ConfigError { source: self.source.clone(), diagnostics }
    }
}

impl DevicePlan {
    /// The names of what it lies on.
    #[must_use]
    pub fn needs(&self) -> Vec<&str> {
        match &self.made_of {
            MadeOf::Table(table) => needs(&table.lines).collect(),
            MadeOf::Paths(head) => head.names().collect(),
        }
    }
}

impl TablePlan {
    /// Its table, as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.table.value
    }

    /// Why it cannot be made, at the place in the table that is to blame.
    #[must_use]
    pub fn blame(&self, source: &Source, error: &MapperError) -> Diagnostic {
        match &error.table {
            Some(table) => self.blame_table(source, table),
            None => {
                let title = format!("device `{}` cannot be made", self.device);
                Diagnostic::at(self.table.span.clone(), title).label(error.message.clone())
            }
        }
    }

    /// Why its knobs cannot be set so.
    #[must_use]
    pub fn blame_knobs(&self, error: &MapperError) -> Diagnostic {
        let title = format!("`knobs` of device `{}` are wrong", self.device);
        Diagnostic::at(self.knobs_place.clone(), title).label(error.message.clone())
    }

    /// The place in the table that is wrong.
    #[must_use]
    pub fn blame_table(&self, source: &Source, error: &TableError) -> Diagnostic {
        blame_table(source, &self.device, &self.table, error)
    }
}

fn blame_table(source: &Source, device: &str, table: &At<String>, error: &TableError) -> Diagnostic {
    let place = word_in_string(&source.text, table.span.clone(), &table.value, error.line, error.word);
    let place = place.unwrap_or_else(|| table.span.clone());
    Diagnostic::at(place, format!("the table of device `{device}` is wrong in line {}", error.line))
        .label(error.message.clone())
}

/// A device as it was written, and its table as it was read.
struct Parsed<'a> {
    spec: &'a DeviceSpec,
    lines: Vec<TableLine>,
}

impl<'a> Parsed<'a> {
    fn name(&self) -> &'a str {
        &self.spec.name.value
    }

    fn needs(&self) -> impl Iterator<Item = &str> {
        let head = match &self.spec.made_of {
            DeviceKeys::Paths(head) => Some(head),
            DeviceKeys::Table(..) => None,
        };
        needs(&self.lines).chain(head.into_iter().flat_map(HeadPlan::names))
    }
}

struct Planner<'a> {
    source: &'a Source,
    errors: Vec<Diagnostic>,
    /// Shard by name of a disk or device.
    disks: BTreeMap<String, u32>,
    /// Whether the file could be read: if not, a missing name may be one that could not.
    readable: bool,
}

impl Planner<'_> {
    fn stack(&mut self, spec: &Spec) -> (Vec<DiskPlan>, Vec<DevicePlan>, Vec<ExportPlan>) {
        let mut names: BTreeMap<&str, Range<usize>> = BTreeMap::new();
        for name in spec.disks.iter().map(|d| &d.name).chain(spec.devices.iter().map(|d| &d.name)) {
            self.check_name(name);
            if let Some(first) = names.insert(&name.value, name.span.clone()) {
                self.note(|| {
                    let title = format!("`{}` is a disk and a device", name.value);
                    let error = Diagnostic::at(name.span.clone(), title).label("used again here");
                    let help = "give one of them another name: tables and exports name both alike";
                    error.other(first, "first used here").help(help)
                });
            }
        }
        let mut disks: Vec<DiskPlan> = spec.disks.iter().map(|disk| self.disk(disk)).collect();
        let owners: BTreeMap<&str, &str> =
            paths(spec).map(|(owner, path)| (path.device.value.as_str(), owner)).collect();
        for disk in &mut disks {
            disk.path_of = owners.get(disk.name.as_str()).map(|owner| (*owner).to_owned());
        }
        self.disks.extend(disks.iter().map(|disk| (disk.name.clone(), disk.shard)));
        let devices = self.devices(&spec.devices, &names);
        // Where something else is wrong, what a device consists of may be without a bound.
        let is_right_so_far = self.errors.is_empty();
        mistakes_of_heads(&devices, spec).into_iter().for_each(|mistake| self.note(|| mistake));
        if is_right_so_far {
            self.errors.extend(mistakes_of_identity(self.source, &disks, &devices));
        }
        let exports = spec.exports.iter().filter_map(|export| self.export(export, &names)).collect();
        (disks, devices, exports)
    }

    /// Notes a mistake, if there is room for it: to make one can take as long as the file is.
    fn note(&mut self, mistake: impl FnOnce() -> Diagnostic) {
        if has_room(&self.errors) {
            self.errors.push(mistake());
        }
    }

    fn check_name(&mut self, name: &At<String>) {
        if !is_name(&name.value) {
            self.note(|| {
                let title = format!("`{}` is not a name", name.value);
                Diagnostic::at(name.span.clone(), title).label("not a name").help(name_rule())
            });
        }
    }

    fn disk(&mut self, disk: &DiskSpec) -> DiskPlan {
        if has_room(&self.errors) {
            self.errors.extend(disk.back_end.value.mistake(&disk.name.value));
            self.check_policy(disk);
        }
        let defaults = PlugOptions::default();
        let plug = PlugOptions {
            append: disk.append.as_ref().map_or(defaults.append, |at| at.value),
            queue_depth: disk.queue_depth.as_ref().map_or(defaults.queue_depth, |at| at.value),
            elevator: disk.elevator.options,
            ..defaults
        };
        let defaults = SchedulerOptions::default();
        let scheduler = SchedulerOptions {
            kind: disk.scheduler.as_ref().map_or(defaults.kind, |at| at.value),
            queue_depth: disk.queue_depth.as_ref().map_or(defaults.queue_depth, |at| at.value),
            ..defaults
        };
        let policy = disk.policy.as_ref().map(|at| at.value);
        let At { value: back_end, span: place } = disk.back_end.clone();
        let (name, kind, shard) = (disk.name.value.clone(), disk.kind, self.shard(disk));
        let identity = disk.identity.clone();
        DiskPlan { name, kind, back_end, policy, plug, scheduler, identity, shard, place, path_of: None }
    }

    fn check_policy(&mut self, disk: &DiskSpec) {
        let zoned = disk.back_end.value.is_zoned();
        if let Some(place) = disk.policy_place().filter(|_| !zoned) {
            let title = format!("disk `{}` has no zones, so there are no zone writes to order", disk.name.value);
            let help = "remove `policy`, `append` and what belongs to a policy, or give the disk zones";
            self.errors.push(Diagnostic::at(place.clone(), title).label("only for zoned disks").help(help));
        }
        let locks = disk.policy.as_ref().is_some_and(|at| at.value == WritePolicy::ZoneLock);
        if let Some(depth) = &disk.queue_depth {
            let has_use = locks || disk.has_scheduler();
            let in_range = (1..=MAX_QUEUE_DEPTH).contains(&depth.value);
            if !has_use && zoned {
                let title = "`queue-depth` belongs to scheduler \"mq-deadline\" or policy \"zone-lock\"";
                let help = "write scheduler = \"mq-deadline\", or leave `queue-depth` out";
                self.errors.push(Diagnostic::at(depth.span.clone(), title).label("no effect").help(help));
            } else if has_use && !in_range {
                let title = format!("`queue-depth` is {}", depth.value);
                let help = format!("write a depth of 1 to {MAX_QUEUE_DEPTH}, or leave `queue-depth` out");
                self.errors.push(Diagnostic::at(depth.span.clone(), title).label("out of range").help(help));
            }
        }
        let sweeps = disk.policy.as_ref().is_some_and(|at| at.value == WritePolicy::Elevator);
        if let Some(place) = disk.elevator.place.clone().filter(|_| zoned && !sweeps) {
            let title = "`max-wait`, `batch-size`, `batch-time`, `hold-back`, `linger` and `merge-size` belong to policy \"elevator\"";
            let help = "write policy = \"elevator\", or leave them out";
            self.errors.push(Diagnostic::at(place, title).label("no effect").help(help));
        }
    }

    fn shard(&mut self, disk: &DiskSpec) -> u32 {
        let Some(shard) = &disk.shard else { return 0 };
        if shard.value >= MOST_SHARDS {
            let title = format!("there is no shard {}", shard.value);
            let label = format!("shards are 0 to {}", MOST_SHARDS - 1);
            self.note(|| Diagnostic::at(shard.span.clone(), title).label(label));
            return 0;
        }
        shard.value
    }

    fn devices(&mut self, specs: &[DeviceSpec], names: &BTreeMap<&str, Range<usize>>) -> Vec<DevicePlan> {
        let mut parsed: Vec<Parsed<'_>> = Vec::new();
        for spec in specs {
            match &spec.made_of {
                DeviceKeys::Table(table, _) => {
                    let Some(lines) = self.parse(spec, table) else { continue };
                    lines.iter().for_each(|line| self.check_reference(spec, (table, line), names));
                    parsed.push(Parsed { spec, lines });
                }
                DeviceKeys::Paths(head) => {
                    head.paths.iter().for_each(|path| self.check_path(spec, path, names));
                    parsed.push(Parsed { spec, lines: Vec::new() });
                }
            }
        }
        self.in_order(parsed)
    }

    fn parse(&mut self, spec: &DeviceSpec, table: &At<String>) -> Option<Vec<TableLine>> {
        let error = match parse_table(&table.value) {
            Ok(lines) => return Some(lines),
            Err(error) => error,
        };
        if !has_room(&self.errors) {
            return None;
        }
        let mut blamed = blame_table(self.source, &spec.name.value, table, &error);
        if error.message.contains("unknown target") {
            blamed = blamed.help("`shingle dm targets` lists the targets that there are");
        }
        self.errors.push(blamed);
        None
    }

    fn check_path(&mut self, spec: &DeviceSpec, path: &PathPlan, names: &BTreeMap<&str, Range<usize>>) {
        if names.contains_key(path.device.value.as_str()) || !self.readable || !has_room(&self.errors) {
            return;
        }
        let title = format!("device `{}` has a path that is not there", spec.name.value);
        let error = Diagnostic::at(path.device.span.clone(), title).label(undefined(&path.device.value, names));
        self.errors.push(error.help("define it as [disk.NAME] or [device.NAME]"));
    }

    fn check_reference(
        &mut self,
        spec: &DeviceSpec,
        (table, line): (&At<String>, &TableLine),
        names: &BTreeMap<&str, Range<usize>>,
    ) {
        for device in line.target.devices() {
            if names.contains_key(device.name.as_str()) || !self.readable || !has_room(&self.errors) {
                continue;
            }
            let message = undefined(&device.name, names);
            let error = TableError { line: line.number, word: Some(device.word), message };
            let blamed = blame_table(self.source, &spec.name.value, table, &error);
            self.errors.push(blamed.help("define it as [disk.NAME] or [device.NAME]"));
        }
    }

    /// Devices behind those they need, layer by layer; what is left over needs itself. Each device and each name in a table is looked
    /// at once.
    fn in_order(&mut self, parsed: Vec<Parsed<'_>>) -> Vec<DevicePlan> {
        let places: BTreeMap<&str, usize> = parsed.iter().enumerate().map(|(at, device)| (device.name(), at)).collect();
        let mut above: Vec<Vec<usize>> = vec![Vec::new(); parsed.len()];
        let mut missing = vec![0; parsed.len()];
        for (at, device) in parsed.iter().enumerate() {
            for below in device.needs().filter_map(|name| places.get(name)) {
                #[cfg(test)]
                crate::fields::work::add(1);
                above[*below].push(at);
                missing[at] += 1;
            }
        }
        let mut layers: Vec<Vec<usize>> = Vec::new();
        let mut layer: Vec<usize> = (0..parsed.len()).filter(|at| missing[*at] == 0).collect();
        while !layer.is_empty() {
            let mut next = Vec::new();
            for user in layer.iter().flat_map(|at| &above[*at]) {
                #[cfg(test)]
                crate::fields::work::add(1);
                missing[*user] -= 1;
                next.extend(Some(*user).filter(|user| missing[*user] == 0));
            }
            // As they stand in the file.
            next.sort_unstable();
            layers.push(std::mem::replace(&mut layer, next));
        }
        let left: Vec<&Parsed<'_>> =
            parsed.iter().zip(&missing).filter(|(_, missing)| **missing > 0).map(|(it, _)| it).collect();
        if !left.is_empty() && has_room(&self.errors) {
            self.loops(&left);
        }
        // A disk and its plug lie below, and what a target adds.
        if let Some(device) = layers.get(FRAMES).and_then(|layer| layer.first()).map(|at| &parsed[*at]) {
            self.note(|| {
                let title =
                    format!("device `{}` lies on more than {FRAMES} others, one on top of the other", device.name());
                Diagnostic::at(device.spec.name.span.clone(), title)
                    .label("too many layers")
                    .help("use a flatter stack")
            });
        }
        let mut parsed: Vec<Option<Parsed<'_>>> = parsed.into_iter().map(Some).collect();
        let ordered: Vec<Parsed<'_>> = layers.into_iter().flatten().filter_map(|at| parsed[at].take()).collect();
        ordered.into_iter().map(|device| self.device(device)).collect()
    }

    fn loops(&mut self, waiting: &[&Parsed<'_>]) {
        let places: BTreeMap<&str, &Parsed<'_>> = waiting.iter().map(|parsed| (parsed.name(), *parsed)).collect();
        // Walk down until a device comes up for the second time: that walk is the loop.
        let (mut walk, mut seen) = (Vec::new(), BTreeMap::new());
        let mut next = waiting[0].name();
        while !seen.contains_key(next) {
            #[cfg(test)]
            crate::fields::work::add(1);
            seen.insert(next, walk.len());
            walk.push(next);
            let below = places.get(next).and_then(|parsed| parsed.needs().find(|name| places.contains_key(name)));
            next = below.unwrap_or(next);
        }
        let mut shown: Vec<&str> = walk[seen[next]..].to_vec();
        shown.push(next);
        let place = places.get(next).map_or(0..0, |parsed| parsed.spec.name.span.clone());
        let title = format!("device `{next}` is below itself");
        let error = Diagnostic::at(place, title).label(format!("loop: {}", shown.join(" -> ")));
        self.errors.push(error.help("let one of these name a disk instead"));
    }

    fn device(&mut self, parsed: Parsed<'_>) -> DevicePlan {
        let spec = parsed.spec;
        let mut shards = parsed.needs().filter_map(|name| Some((name.to_owned(), *self.disks.get(name)?)));
        let first = shards.next();
        let shard = first.as_ref().map_or(0, |(_, shard)| *shard);
        let stranger = shards.find(|(_, other)| *other != shard);
        if let (Some((a, _)), Some((b, other))) = (&first, &stranger)
            && has_room(&self.errors)
        {
            let title = format!("device `{}` lies on two shards", spec.name.value);
            let label = format!("`{a}` is on shard {shard}, `{b}` on shard {other}");
            let error = Diagnostic::at(spec.place(), title).label(label);
            self.errors.push(error.help("give their disks the same `shard`"));
        }
        drop(shards);
        let (name, lines) = (spec.name.value.clone(), parsed.lines);
        self.disks.insert(name.clone(), shard);
        let made_of = match &spec.made_of {
            DeviceKeys::Paths(head) => MadeOf::Paths(head.clone()),
            DeviceKeys::Table(table, knobs) => {
                let (knobs, knobs_place) = self.knobs(&spec.name, knobs.clone(), &lines);
                MadeOf::Table(TablePlan { device: name.clone(), lines, knobs, table: table.clone(), knobs_place })
            }
        };
        DevicePlan { name, shard, made_of }
    }

    fn knobs(
        &mut self,
        name: &At<String>,
        knobs: Option<At<Vec<(String, String)>>>,
        lines: &[TableLine],
    ) -> (Vec<(String, String)>, Range<usize>) {
        let Some(At { value: knobs, span }) = knobs else { return (Vec::new(), name.span.clone()) };
        let pairs: Vec<(&str, &str)> = knobs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let checked = match lines {
            [line] => line.target.check_knobs(&pairs),
            _ => Err("only a volume has knobs: its table is one line with the target `zoned` or `stl`".into()),
        };
        if let Err(message) = checked {
            let title = format!("`knobs` of device `{}` are wrong", name.value);
            self.note(|| Diagnostic::at(span.clone(), title).label(message));
        }
        (knobs, span)
    }

    fn export(&mut self, export: &ExportSpec, names: &BTreeMap<&str, Range<usize>>) -> Option<ExportPlan> {
        if !export.name.value.is_empty() {
            self.check_name(&export.name);
        }
        let device = &export.device;
        if !names.contains_key(device.value.as_str()) {
            if self.readable && has_room(&self.errors) {
                let title = format!("export `{}` has no device", export.name.value);
                self.errors.push(Diagnostic::at(device.span.clone(), title).label(undefined(&device.value, names)));
            }
            return None;
        }
        Some(export.plan.clone())
    }

    /// A stack that nobody can reach, or exports that nobody can connect to, are mistakes.
    fn outlets(&mut self, spec: &Spec) {
        if !self.readable {
            return;
        }
        if spec.disks.is_empty() {
            let error = Diagnostic::general("the stack file defines no disk");
            self.errors.push(error.help("add one, such as:\n[disk.d]\ntype = \"zoned-dir\"\npath = \"disk0\""));
        }
        let is_offered =
            |export: &ExportSpec| spec.front_ends.iter().any(|front_end| front_end.offers(&export.plan.keys));
        if let Some(export) = spec.exports.iter().find(|export| !is_offered(export)) {
            let title = "there are exports but nowhere to connect to";
            let error = Diagnostic::at(export.name.span.clone(), title).label("nobody can reach this export");
            self.errors.push(error.help("add:\n[listen]\nunix = \"shingle.sock\""));
        }
    }
}

fn needs(lines: &[TableLine]) -> impl Iterator<Item = &str> {
    lines.iter().flat_map(TableLine::needs)
}

fn undefined(name: &str, names: &BTreeMap<&str, Range<usize>>) -> String {
    let hint = nearest(name, names.keys().copied()).map_or(String::new(), |near| format!("did you mean `{near}`? "));
    let all: Vec<&str> = names.keys().copied().take(MAX_NAMES).collect();
    let more = names.len() - all.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("there is no `{name}`; {hint}defined are: {}{more}", all.join(", "))
}
