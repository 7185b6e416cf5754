//! What the user wrote: every table of the file, with the place of every value.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use shingle_core::plug::{Append, WritePolicy};
use toml::de::{DeTable, DeValue};

use super::elevator::ElevatorSpec;
use super::error::Diagnostic;
use super::fields::{At, Fields, unknown_key};
use super::null::NullSpec;
use crate::disk::{file, zoned_dir};

/// A stack file.
#[derive(Debug, Default)]
pub struct Spec {
    /// `[disk.*]`.
    pub disks: Vec<DiskSpec>,
    /// `[device.*]`.
    pub devices: Vec<DeviceSpec>,
    /// `[export.*]`.
    pub exports: Vec<ExportSpec>,
    /// `[listen]`.
    pub listen: ListenSpec,
    /// `[control]`, `socket`.
    pub control: Option<At<PathBuf>>,
}

/// `[disk.NAME]`.
#[derive(Debug)]
pub struct DiskSpec {
    /// Its name.
    pub name: At<String>,
    /// `type`, with what belongs to it.
    pub kind: DiskType,
    /// `policy`.
    pub policy: Option<At<WritePolicy>>,
    /// `append`.
    pub append: Option<At<Append>>,
    /// `queue-depth`, of the `zone-lock` policy.
    pub queue_depth: Option<At<u32>>,
    /// `max-wait` and so on, of the `elevator` policy.
    pub elevator: ElevatorSpec,
    /// `shard`.
    pub shard: Option<At<u32>>,
}

/// What a disk is made of.
#[derive(Debug)]
pub enum DiskType {
    /// Memory.
    Null(Box<NullSpec>),
    /// A regular file or a block device.
    File {
        /// `path`.
        path: At<PathBuf>,
        /// How it is opened: `read-only`, `direct`, `block-size`.
        options: file::Options,
    },
    /// A directory made by `shingle create`.
    ZonedDir {
        /// `path`.
        path: At<PathBuf>,
        /// How it is opened: `direct`, `read-only`, `open-files`.
        options: zoned_dir::Options,
    },
}

/// `[device.NAME]`.
#[derive(Debug)]
pub struct DeviceSpec {
    /// Its name.
    pub name: At<String>,
    /// `table`.
    pub table: At<String>,
    /// `knobs`, of a volume of dm-zoned: names and values.
    pub knobs: Option<At<Vec<(String, String)>>>,
}

/// `[export.NAME]`.
#[derive(Debug)]
pub struct ExportSpec {
    /// Its name.
    pub name: At<String>,
    /// `device`.
    pub device: At<String>,
    /// `read-only`.
    pub read_only: bool,
    /// `description`.
    pub description: Option<String>,
}

/// `[listen]`.
#[derive(Debug, Default)]
pub struct ListenSpec {
    /// `unix`.
    pub unix: Option<At<PathBuf>>,
    /// `tcp`.
    pub tcp: Option<At<String>>,
    /// `allow-remote`.
    pub allow_remote: bool,
    /// `connections`.
    pub connections: Option<At<u32>>,
    /// `memory`, in bytes.
    pub memory: Option<At<u64>>,
    /// `client-memory`, in bytes.
    pub client_memory: Option<At<u64>>,
    /// `idle-timeout`.
    pub idle_timeout: Option<At<Duration>>,
}

const SECTIONS: [&str; 5] = ["disk", "device", "export", "listen", "control"];

impl Spec {
    /// Reads a stack file; mistakes go to `errors` and what can be read is.
    pub fn read(text: &str, errors: &mut Vec<Diagnostic>) -> Self {
        let (document, mistakes) = DeTable::parse_recoverable(text);
        if !mistakes.is_empty() {
            errors.extend(mistakes.iter().take(8).map(|mistake| {
                let place = mistake.span().unwrap_or(0..0);
                Diagnostic::at(place, "this is not TOML").label(mistake.message().to_owned())
            }));
            return Self::default();
        }
        let mut spec = Self::default();
        for (key, value) in document.get_ref() {
            let DeValue::Table(table) = value.get_ref() else {
                errors.push(misplaced(key.get_ref(), key.span()));
                continue;
            };
            match key.get_ref().as_ref() {
                "disk" => each(table, "disk", errors, |fields, name| spec.disks.extend(read_disk(fields, name))),
                "device" => {
                    each(table, "device", errors, |fields, name| spec.devices.extend(read_device(fields, name)))
                }
                "export" => {
                    each(table, "export", errors, |fields, name| spec.exports.extend(read_export(fields, name)))
                }
                "listen" => {
                    let mut fields = Fields::new("[listen]".into(), key.span(), table, errors);
                    spec.listen = read_listen(&mut fields);
                    fields.finish();
                }
                "control" => {
                    let mut fields = Fields::new("[control]".into(), key.span(), table, errors);
                    spec.control = fields.required("socket", "\"control.sock\"").map(path);
                    fields.finish();
                }
                _ => errors.push(unknown_key(key, "the stack file", &SECTIONS)),
            }
        }
        spec
    }
}

fn misplaced(key: &str, place: Range<usize>) -> Diagnostic {
    let help = match key {
        "disk" | "device" | "export" => format!("write [{key}.NAME] above its keys"),
        "listen" | "control" => format!("write [{key}] above its keys"),
        _ => format!("keys belong to a section; sections are: {}", SECTIONS.map(|s| format!("[{s}]")).join(", ")),
    };
    Diagnostic::at(place, format!("`{key}` is not a section")).label("a stack file consists of sections").help(help)
}

/// Calls `read` for `[section.NAME]`, each.
fn each(
    table: &DeTable<'_>,
    section: &str,
    errors: &mut Vec<Diagnostic>,
    mut read: impl FnMut(&mut Fields<'_>, At<String>),
) {
    for (key, value) in table {
        let name = At { value: key.get_ref().to_string(), span: key.span() };
        let DeValue::Table(table) = value.get_ref() else {
            let help = format!("write [{section}.NAME] above its keys");
            errors.push(
                Diagnostic::at(key.span(), format!("a {section} has no name here")).label("not a section").help(help),
            );
            continue;
        };
        let mut fields = Fields::new(format!("[{section}.{}]", name.value), name.span.clone(), table, errors);
        read(&mut fields, name);
        fields.finish();
    }
}

#[derive(Clone, Copy)]
enum TypeName {
    Null,
    File,
    ZonedDir,
}

fn read_disk(fields: &mut Fields<'_>, name: At<String>) -> Option<DiskSpec> {
    let types = [("zoned-dir", TypeName::ZonedDir), ("file", TypeName::File), ("null", TypeName::Null)];
    let present = fields.has("type");
    let kind = fields.word("type", &types);
    if !present {
        fields.missing("type", "\"zoned-dir\"  (or \"file\", or \"null\")");
    }
    let policies = WritePolicy::ALL.map(|policy| (policy.name(), policy));
    let policy = fields.word("policy", &policies);
    let append = fields.word("append", &[("native", Append::Native), ("emulated", Append::Emulated)]);
    let queue_depth = fields.count("queue-depth");
    let elevator = ElevatorSpec::read(fields);
    let shard = fields.count("shard");
    let kind = match kind.map(|at| at.value) {
        Some(TypeName::Null) => DiskType::Null(Box::new(NullSpec::read(fields))),
        Some(TypeName::File) => read_file(fields)?,
        Some(TypeName::ZonedDir) => read_zoned_dir(fields)?,
        None => {
            // Which keys would be right depends on the type: one mistake is enough.
            fields.forgive();
            return None;
        }
    };
    Some(DiskSpec { name, kind, policy, append, queue_depth, elevator, shard })
}

fn read_file(fields: &mut Fields<'_>) -> Option<DiskType> {
    let defaults = file::Options::default();
    let options = file::Options {
        direct: fields.flag("direct").map_or(defaults.direct, |at| at.value),
        read_only: fields.flag("read-only").map_or(defaults.read_only, |at| at.value),
        block_bytes: fields.size("block-size").map(|at| u32::try_from(at.value).unwrap_or(u32::MAX)),
        timeout: fields.duration("timeout").map_or(defaults.timeout, |at| at.value),
    };
    Some(DiskType::File { path: fields.required("path", "\"disk.img\"").map(path)?, options })
}

fn read_zoned_dir(fields: &mut Fields<'_>) -> Option<DiskType> {
    let defaults = zoned_dir::Options::default();
    let options = zoned_dir::Options {
        direct: fields.flag("direct").map_or(defaults.direct, |at| at.value),
        read_only: fields.flag("read-only").map_or(defaults.read_only, |at| at.value),
        most_files: fields.count("open-files").map_or(defaults.most_files, |at| at.value.max(1) as usize),
        timeout: fields.duration("timeout").map_or(defaults.timeout, |at| at.value),
        ..defaults
    };
    Some(DiskType::ZonedDir { path: fields.required("path", "\"disk0\"").map(path)?, options })
}

fn read_device(fields: &mut Fields<'_>, name: At<String>) -> Option<DeviceSpec> {
    let table = fields.required("table", "\"0 2048 linear DISK 0\"")?;
    let knobs = fields.pairs("knobs");
    Some(DeviceSpec { name, table, knobs })
}

fn read_export(fields: &mut Fields<'_>, name: At<String>) -> Option<ExportSpec> {
    let read_only = fields.flag("read-only").is_some_and(|at| at.value);
    let description = fields.string("description").map(|at| at.value);
    let device = fields.required("device", "\"NAME\"")?;
    Some(ExportSpec { name, device, read_only, description })
}

fn read_listen(fields: &mut Fields<'_>) -> ListenSpec {
    ListenSpec {
        unix: fields.string("unix").map(path),
        tcp: fields.string("tcp"),
        allow_remote: fields.flag("allow-remote").is_some_and(|at| at.value),
        connections: fields.count("connections"),
        memory: fields.size("memory"),
        client_memory: fields.size("client-memory"),
        idle_timeout: fields.duration("idle-timeout"),
    }
}

fn path(at: At<String>) -> At<PathBuf> {
    at.map(PathBuf::from)
}
