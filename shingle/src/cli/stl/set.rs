//! What all operations share: the disks of a volume, and how they and it are told of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use shingle_core::dm::stl::format::MemberState;
use shingle_core::dm::stl::tools::{Disk, Media, MediaError, Volume};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS};
use shingle_core::zone::ZoneKind;
use shingle_host::backend;
use shingle_host::config::format_bytes;
use shingle_host::dmz::{Access, is_same};
use shingle_host::stl::{Disks, other_content};
use uuid::Uuid;

use super::CliError;
use crate::cli::dmz::next::{clean, free_name, name_of};
use crate::cli::waiting::WaitingArgs;

/// The disks of a volume.
#[derive(Args)]
pub struct SetArgs {
    /// The disks
    #[arg(required = true, value_name = "DISK")]
    devices: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl From<MediaError> for CliError {
    fn from(error: MediaError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl SetArgs {
    /// Opens the disks.
    pub fn open(&self, access: Access) -> Result<Disks, CliError> {
        Ok(Disks::open(&self.devices, access)?)
    }

    /// Opens the disks to change them.
    pub fn open_to_write(&self, waiting: &WaitingArgs) -> Result<Disks, CliError> {
        open_to_write(&self.devices, waiting)
    }

    /// Opens the disks to change them, with this one as the last, be it one of them or not.
    pub fn open_up_to(&self, last: &Path, waiting: &WaitingArgs) -> Result<Disks, CliError> {
        let others = self.devices.iter().filter(|path| !is_same(path, last)).cloned();
        open_to_write(&others.chain([last.to_owned()]).collect::<Vec<_>>(), waiting)
    }

    /// Opens the disks and one more behind them, to change them.
    pub fn open_with(&self, last: &Path, waiting: &WaitingArgs) -> Result<Disks, CliError> {
        let all: Vec<PathBuf> = self.devices.iter().cloned().chain([last.to_owned()]).collect();
        open_to_write(&all, waiting)
    }
}

fn open_to_write(disks: &[PathBuf], waiting: &WaitingArgs) -> Result<Disks, CliError> {
    waiting.check(disks.iter().map(PathBuf::as_path))?;
    Ok(Disks::open(disks, Access::Write)?)
}

/// Error of a tool that found no volume: what the disks hold instead, if that is known, or `why`.
pub fn no_volume(disks: &mut Disks, why: impl std::fmt::Display) -> CliError {
    other_content(disks).map_or_else(|| CliError::failed(why), CliError::Failed)
}

/// A line for each disk.
pub fn geometry(disks: &Disks) -> String {
    let line = |(number, (disk, name)): (usize, (&Disk, &str))| {
        let size = format_bytes(disk.sectors * 512);
        match disk.zones.first() {
            None => format!("disk {number}: {name}, {size}, regular\n"),
            Some(zone) => {
                let conventional = disk.zones.iter().filter(|zone| zone.kind == ZoneKind::Conventional).count();
                let (count, length) = (disk.zones.len(), format_bytes(zone.len * 512));
                format!(
                    "disk {number}: {name}, {size}, {count} zones of {length}, {conventional} of them conventional\n"
                )
            }
        }
    };
    disks.disks().iter().zip(disks.names()).enumerate().map(line).collect()
}

/// Message for disks that cannot form a volume because their zones differ in length.
pub fn other_zones(disks: &Disks) -> String {
    let lengths = disks.disks().iter().zip(disks.names()).filter_map(|(disk, name)| {
        let zone = disk.zones.first()?;
        Some(format!("{name} has zones of {}", format_bytes(zone.len * 512)))
    });
    format!("{}: choose disks with zones of one length", lengths.collect::<Vec<_>>().join(", "))
}

/// The disks as JSON.
pub fn geometry_json(disks: &Disks) -> Value {
    let one = |(disk, path): (&Disk, &str)| {
        json!({
            "path": path,
            "zoned": !disk.zones.is_empty(),
            "bytes": disk.sectors * 512,
            "zones": disk.zones.len(),
            "zone_bytes": disk.zones.first().map(|zone| zone.len * 512),
        })
    };
    let devices: Vec<Value> = disks.disks().iter().zip(disks.names()).map(one).collect();
    json!({"devices": devices})
}

/// What has become of a volume by a disk more or less.
pub struct Changed {
    /// The identity of the disk.
    pub id: [u8; 16],
    /// Sectors of the volume before.
    pub before: u64,
    /// And now.
    pub sectors: u64,
    /// As of [`serving`].
    pub serving: (String, String),
}

impl Changed {
    /// With what is known of the disks, as JSON.
    pub fn json(&self, mut disks: Value) -> Value {
        let (table, stack) = &self.serving;
        disks["device_uuid"] = json!(uuid(self.id));
        disks["sectors_before"] = json!(self.before);
        disks["sectors"] = json!(self.sectors);
        disks["table"] = json!(table);
        disks["stack"] = json!(stack);
        disks
    }

    /// The lines behind those about the disks.
    pub fn text(&self) -> String {
        let [before, now] = [self.before, self.sectors].map(|sectors| format_bytes(sectors * 512));
        let (_, stack) = &self.serving;
        format!("{before} before, {now} now\n\nDone.\n\nA stack file for `shingle up`:\n\n{stack}")
    }
}

/// The table line of a volume of so many sectors, and the lines of a stack file that serve it.
pub fn serving(disks: &Disks, sectors: u64) -> (String, String) {
    serving_these(&disks.names().collect::<Vec<_>>(), sectors, "")
}

/// The same of disks that are called so, with sockets whose names begin with `sockets`.
pub fn serving_these(disks: &[&str], sectors: u64, sockets: &str) -> (String, String) {
    let first = disks.first().map(|path| name_of(path.as_ref())).unwrap_or_default();
    let device = format!("stl-{}", clean(&first));
    let mut taken = BTreeSet::from([device.clone()]);
    let (mut names, mut stack, mut is_real) = (Vec::new(), String::new(), false);
    for path in disks.iter().map(Path::new) {
        let name = free_name(&name_of(path), &mut taken);
        let found = backend::at(path, true);
        let (kind, lines) = found.map_or(("", String::new()), |(kind, disk)| (kind.name, disk.lines(kind)));
        is_real |= kind == "zoned-blk";
        stack += &format!("[disk.{name}]\n{lines}\n");
        names.push(name);
    }
    let table = format!("0 {} stl {}", sectors, names.join(" "));
    stack += &format!("[device.{device}]\ntable = \"{table}\"\n\n[export.{device}]\ndevice = \"{device}\"\n");
    // Who may open a disk of the machine may make one of the volume.
    if is_real {
        stack += "ublk = true\n";
    } else {
        stack += &format!("\n[listen]\nunix = \"{sockets}nbd.sock\"\n");
    }
    stack += &format!("\n[control]\nsocket = \"{sockets}control.sock\"\n");
    (table, stack)
}

/// Directory of the stack files of `shingle@NAME` services. Each service has a directory of its own for sockets.
const SERVICES: &str = "/etc/shingle";

/// Prefix of the socket names in the stack file `path`, so that several stack files of one directory do not share sockets. It is empty for `stack.toml`, the name
/// that the documentation uses, for stack files of services, and without a file.
pub fn socket_prefix(path: Option<&Path>) -> String {
    let path = path.filter(|path| path.parent() != Some(Path::new(SERVICES)));
    let stem = path.and_then(Path::file_stem).map(|stem| clean(&stem.to_string_lossy()));
    stem.filter(|stem| stem != "stack").map_or(String::new(), |stem| format!("{stem}."))
}

/// Bytes of so many blocks, for people.
pub fn size_of(blocks: u64) -> String {
    format_bytes(blocks * BLOCK_BYTES as u64)
}

/// An identity as a UUID.
pub fn uuid(id: [u8; 16]) -> String {
    Uuid::from_bytes(id).to_string()
}

/// Thousandths as percent.
pub fn percent(thousandths: u32) -> String {
    match (thousandths / 10, thousandths % 10) {
        (whole, 0) => format!("{whole} %"),
        (whole, tenths) => format!("{whole}.{tenths} %"),
    }
}

/// The table line of a volume of these disks.
pub fn table_line(disks: &Disks, volume: &Volume) -> String {
    serving(disks, volume.newest.root.capacity * u64::from(BLOCK_SECTORS)).0
}

/// Describes a volume of these disks, in lines of text.
pub fn volume_text(disks: &Disks, volume: &Volume) -> String {
    let (batch, root) = (&volume.newest.header.batch, &volume.newest.root);
    let runs: usize = volume.runs.iter().map(|(_, pages)| pages.len()).sum();
    let others = root.members.iter().filter(|member| member.state != MemberState::Used);
    let others: String =
        others.map(|member| format!("disk {} is {}\n", uuid(member.id), member.state.name())).collect();
    format!(
        "volume {}: {}, {} kept back\ntable: {}\n\
         {others}root {} of life {}: batches up to {}, copies up to {}; {} leaves, {} runs of {runs} \
         pages\nbehind it: {} batches\n",
        uuid(volume.id().0),
        size_of(root.capacity),
        percent(root.reserve),
        table_line(disks, volume),
        batch.number,
        batch.epoch,
        root.cut,
        root.copies,
        volume.leaves.iter().flatten().filter(|leaf| leaf.blocks > 0).count(),
        volume.runs.len(),
        volume.replayed,
    )
}

/// The same as JSON.
pub fn volume_json(volume: &Volume) -> Value {
    let (batch, root) = (&volume.newest.header.batch, &volume.newest.root);
    let member = |member: &shingle_core::dm::stl::format::Member| {
        json!({
            "uuid": uuid(member.id),
            "first_block": member.first.0,
            "zones": member.zones,
            "kind": member.kind.name(),
            "state": member.state.name(),
        })
    };
    json!({
        "uuid": uuid(volume.id().0),
        "sectors": root.capacity * 8,
        "bytes": root.capacity * BLOCK_BYTES as u64,
        "reserve_per_mille": root.reserve,
        "zone_blocks": root.zone_blocks,
        "root": batch.number,
        "life": batch.epoch.0,
        "batches_up_to": root.cut.0,
        "copies_up_to": root.copies.0,
        "leaves": volume.leaves.iter().flatten().filter(|leaf| leaf.blocks > 0).count(),
        "runs": volume.runs.len(),
        "replayed_batches": volume.replayed,
        "members": root.members.iter().map(member).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_named_by_the_stack_file_but_for_services() {
        let of = |path: &str| socket_prefix(Some(Path::new(path)));
        assert_eq!(["a.toml", "dir/my volume.toml", "stack.toml"].map(of), ["a.", "my-volume.", ""]);
        assert_eq!((of("/etc/shingle/archive.toml"), socket_prefix(None)), (String::new(), String::new()));
    }
}
