//! What the user wrote: every table of the file, with the place of every value.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shingle_core::plug::{Append, WritePolicy};
use shingle_core::scheduler::SchedulerKind;
use toml::de::{DeTable, DeValue};

use super::elevator::ElevatorSpec;
use super::head::HeadPlan;
use super::metrics::MetricsPlan;
use super::web::WebPlan;
use crate::backend::{BACK_ENDS, BackEndType, Placed};
use crate::fields::{At, Diagnostic, Fields, Source, has_room, unknown_key};
use crate::serve::{ExportKeys, FRONT_ENDS, FrontEnd, FrontEndType};

/// A stack file.
#[derive(Debug, Default)]
pub struct Spec {
    /// `[disk.*]`.
    pub disks: Vec<DiskSpec>,
    /// `[device.*]`.
    pub devices: Vec<DeviceSpec>,
    /// `[export.*]`.
    pub exports: Vec<ExportSpec>,
    /// `[listen]`, as each front end reads it.
    pub front_ends: Vec<Arc<dyn FrontEnd>>,
    /// `[control]`, `socket`.
    pub control: Option<At<PathBuf>>,
    /// `[metrics]`.
    pub metrics: MetricsPlan,
    /// `[web]`.
    pub web: WebPlan,
}

/// `[disk.NAME]`.
#[derive(Debug)]
pub struct DiskSpec {
    /// Its name.
    pub name: At<String>,
    /// `type`.
    pub kind: &'static BackEndType,
    /// What belongs to that, and the place that says where the disk is.
    pub back_end: Placed,
    /// `policy`.
    pub policy: Option<At<WritePolicy>>,
    /// `append`.
    pub append: Option<At<Append>>,
    /// `scheduler`.
    pub scheduler: Option<At<SchedulerKind>>,
    /// `queue-depth`, of the scheduler or of the `zone-lock` policy.
    pub queue_depth: Option<At<u32>>,
    /// `max-wait` and so on, of the `elevator` policy.
    pub elevator: ElevatorSpec,
    /// `identity`.
    pub identity: Option<String>,
    /// `shard`.
    pub shard: Option<At<u32>>,
}

impl DiskSpec {
    /// True if `mq-deadline` is chosen.
    pub fn has_scheduler(&self) -> bool {
        self.scheduler.as_ref().is_some_and(|at| at.value != SchedulerKind::None)
    }

    /// The place of the first key that belongs to a write policy.
    pub fn policy_place(&self) -> Option<&Range<usize>> {
        let policy = self.policy.as_ref().map(|at| &at.span);
        let append = self.append.as_ref().map(|at| &at.span);
        let queue_depth = self.queue_depth.as_ref().map(|at| &at.span).filter(|_| !self.has_scheduler());
        policy.or(append).or(queue_depth).or(self.elevator.place.as_ref())
    }
}

/// `[device.NAME]`.
#[derive(Debug)]
pub struct DeviceSpec {
    /// Its name.
    pub name: At<String>,
    /// What it is made of.
    pub made_of: DeviceKeys,
}

/// What makes a device.
#[derive(Debug)]
pub enum DeviceKeys {
    /// `table`, and `knobs` of a volume of dm-zoned: names and values.
    Table(At<String>, Option<At<Vec<(String, String)>>>),
    /// `paths` and what belongs to them.
    Paths(HeadPlan),
}

impl DeviceSpec {
    /// The place of what it is made of.
    pub fn place(&self) -> Range<usize> {
        match &self.made_of {
            DeviceKeys::Table(table, _) => table.span.clone(),
            DeviceKeys::Paths(head) => head.place.clone(),
        }
    }
}

/// `[export.NAME]`.
#[derive(Debug)]
pub struct ExportSpec {
    /// Its name.
    pub name: At<String>,
    /// `device`.
    pub device: At<String>,
    /// What they and the others say.
    pub plan: ExportPlan,
}

/// An export.
#[derive(Clone, Debug)]
pub struct ExportPlan {
    /// Its name, as clients ask for it.
    pub name: String,
    /// The disk or mapped device.
    pub device: String,
    /// Whether clients may only read.
    pub read_only: bool,
    /// What a list of exports says about it.
    pub description: Option<String>,
    /// What front ends want to know of it.
    pub keys: ExportKeys,
}

/// What disks can be, of which the first of a name counts, and how exports are reached.
#[derive(Clone, Copy, Debug)]
pub struct Kinds<'a> {
    /// Kinds of disk.
    pub back_ends: &'a [&'static BackEndType],
    /// Protocols.
    pub front_ends: &'a [&'static FrontEndType],
}

impl Default for Kinds<'_> {
    /// Those that come with Shingle.
    fn default() -> Self {
        Self { back_ends: &BACK_ENDS, front_ends: &FRONT_ENDS }
    }
}

const SECTIONS: [&str; 7] = ["disk", "device", "export", "listen", "control", "metrics", "web"];

impl Spec {
    /// Reads a stack file; mistakes go to `errors` and what can be read is. `sockets`: what their paths are relative to, if not to the file's directory.
    pub fn read(source: &Source, kinds: Kinds<'_>, sockets: Option<&Path>, errors: &mut Vec<Diagnostic>) -> Self {
        let (document, mistakes) = DeTable::parse_recoverable(&source.text);
        if !mistakes.is_empty() {
            errors.extend(mistakes.iter().take(8).map(|mistake| {
                let place = mistake.span().unwrap_or(0..0);
                Diagnostic::at(place, "this is not TOML").label(mistake.message().to_owned())
            }));
            return Self::default();
        }
        let directory = source.path.parent().unwrap_or(Path::new(""));
        let mut spec = Self::default();
        let read_listen =
            |fields: &mut Fields<'_>| kinds.front_ends.iter().map(|kind| (kind.read_listen)(fields)).collect();
        for (key, value) in document.get_ref() {
            if !has_room(errors) {
                break;
            }
            let DeValue::Table(table) = value.get_ref() else {
                errors.push(misplaced(key.get_ref(), key.span()));
                continue;
            };
            let name = key.get_ref().as_ref();
            let has_sockets = matches!(name, "listen" | "control" | "metrics" | "web");
            let directory = sockets.filter(|_| has_sockets).unwrap_or(directory);
            let section = Section { name, table, directory };
            let whole = || format!("[{name}]");
            match name {
                "disk" => {
                    section.each(errors, |fields, name| spec.disks.extend(read_disk(fields, name, kinds.back_ends)))
                }
                "device" => section.each(errors, |fields, name| spec.devices.extend(read_device(fields, name))),
                "export" => section.each(errors, |fields, name| {
                    spec.exports.extend(read_export(fields, name, kinds.front_ends));
                }),
                "listen" => section.read((whole(), key.span()), errors, |fields| spec.front_ends = read_listen(fields)),
                "control" => section.read((whole(), key.span()), errors, |fields| {
                    spec.control = fields.required_path("socket", "\"control.sock\"");
                }),
                "metrics" => section.read((whole(), key.span()), errors, |fields| {
                    spec.metrics = MetricsPlan::read(fields);
                }),
                "web" => section.read((whole(), key.span()), errors, |fields| spec.web = WebPlan::read(fields)),
                _ => errors.push(unknown_key(key, "the stack file", &SECTIONS)),
            }
        }
        if spec.front_ends.is_empty() {
            // A front end may need none of these keys.
            let section = Section { name: "listen", table: &DeTable::new(), directory };
            section.read((section.name.into(), 0..0), errors, |fields| spec.front_ends = read_listen(fields));
        }
        spec
    }
}

fn misplaced(key: &str, place: Range<usize>) -> Diagnostic {
    let help = match key {
        "disk" | "device" | "export" => format!("write [{key}.NAME] above its keys"),
        "listen" | "control" | "metrics" | "web" => format!("write [{key}] above its keys"),
        _ => format!("keys belong to a section; sections are: {}", SECTIONS.map(|s| format!("[{s}]")).join(", ")),
    };
    Diagnostic::at(place, format!("`{key}` is not a section")).label("a stack file consists of sections").help(help)
}

/// A table at the top of the file.
struct Section<'a> {
    name: &'a str,
    table: &'a DeTable<'a>,
    /// What paths are relative to.
    directory: &'a Path,
}

impl Section<'_> {
    /// Has `read` read its keys.
    fn read(
        &self,
        (name, place): (String, Range<usize>),
        errors: &mut Vec<Diagnostic>,
        read: impl FnOnce(&mut Fields<'_>),
    ) {
        let mut fields = Fields::new(name, place, self.table, errors).within(self.directory);
        read(&mut fields);
        fields.finish();
    }

    /// Has `read` read the keys of `[section.NAME]`, each.
    fn each(&self, errors: &mut Vec<Diagnostic>, mut read: impl FnMut(&mut Fields<'_>, At<String>)) {
        let section = self.name;
        for (key, value) in self.table {
            if !has_room(errors) {
                return;
            }
            let name = At { value: key.get_ref().to_string(), span: key.span() };
            let DeValue::Table(table) = value.get_ref() else {
                let title = format!("a {section} has no name here");
                let help = format!("write [{section}.NAME] above its keys");
                errors.push(Diagnostic::at(key.span(), title).label("not a section").help(help));
                continue;
            };
            let named = (format!("[{section}.{}]", name.value), name.span.clone());
            Section { table, ..*self }.read(named, errors, |fields| read(fields, name));
        }
    }
}

fn read_disk(fields: &mut Fields<'_>, name: At<String>, kinds: &[&'static BackEndType]) -> Option<DiskSpec> {
    let types: Vec<(&str, &'static BackEndType)> = kinds.iter().map(|kind| (kind.name, *kind)).collect();
    let present = fields.has("type");
    let kind = fields.word("type", &types);
    if !present {
        let others: Vec<String> = kinds.iter().skip(1).map(|kind| format!("or \"{}\"", kind.name)).collect();
        let first = kinds.first().map_or("", |kind| kind.name);
        fields.missing("type", &format!("\"{first}\"  ({})", others.join(", ")));
    }
    let policies = WritePolicy::ALL.map(|policy| (policy.name(), policy));
    let policy = fields.word("policy", &policies);
    let append = fields.word("append", &[("native", Append::Native), ("emulated", Append::Emulated)]);
    let schedulers = SchedulerKind::ALL.map(|kind| (kind.name(), kind));
    let scheduler = fields.word("scheduler", &schedulers);
    let queue_depth = fields.count("queue-depth");
    let elevator = ElevatorSpec::read(fields);
    let identity = fields.string("identity");
    if let Some(At { span, .. }) = identity.as_ref().filter(|at| at.value.is_empty()) {
        let help = "write any text that the other paths of the disk have as well, or leave it out";
        fields.error(Diagnostic::at(span.clone(), "`identity` is empty").label("names no disk").help(help));
    }
    let identity = identity.map(|at| at.value);
    let shard = fields.count("shard");
    let Some(At { value: kind, .. }) = kind else {
        // Which keys would be right depends on the type: one mistake is enough.
        fields.forgive();
        return None;
    };
    let back_end = (kind.read)(fields)?;
    Some(DiskSpec { name, kind, back_end, policy, append, scheduler, queue_depth, elevator, identity, shard })
}

fn read_device(fields: &mut Fields<'_>, name: At<String>) -> Option<DeviceSpec> {
    if let Some(place) = fields.place_of("paths") {
        if fields.has("table") {
            let title = format!("device `{}` has a table and paths", name.value);
            fields.error(Diagnostic::at(place, title).label("one of both").help("remove `table`, or `paths`"));
            fields.forgive();
            return None;
        }
        return Some(DeviceSpec { name, made_of: DeviceKeys::Paths(HeadPlan::read(fields)?) });
    }
    let table = fields.required("table", "\"0 2048 linear DISK 0\"")?;
    let knobs = fields.pairs("knobs");
    Some(DeviceSpec { name, made_of: DeviceKeys::Table(table, knobs) })
}

fn read_export(fields: &mut Fields<'_>, name: At<String>, front_ends: &[&'static FrontEndType]) -> Option<ExportSpec> {
    let read_only = fields.flag("read-only").is_some_and(|at| at.value);
    let description = fields.string("description").map(|at| at.value);
    let keys = ExportKeys::read(fields, front_ends);
    let device = fields.required("device", "\"NAME\"")?;
    let plan = ExportPlan { name: name.value.clone(), device: device.value.clone(), read_only, description, keys };
    Some(ExportSpec { name, device, plan })
}
