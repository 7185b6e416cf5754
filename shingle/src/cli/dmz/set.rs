//! What all operations share: the disks of a set, and how they are told of.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use shingle_core::dm::zoned::format::{Media, MediaError, Sets, Superblock};
use shingle_core::dm::zoned::{BLOCK_BYTES, BLOCK_SECTORS, Block, Member, Number, ZoneClass, ZoneHealth, ZoneInfo};
use uuid::Uuid;

use super::CliError;
use crate::cli::waiting::WaitingArgs;
use shingle_host::dmz::{Access, Disks, other_content};

/// The disks of a set.
#[derive(Args)]
pub struct SetArgs {
    /// The disks, a regular one first if there is one
    #[arg(required = true, value_name = "DISK")]
    devices: Vec<PathBuf>,
    /// Say more: how many zones of which kind there are
    #[arg(long)]
    verbose: bool,
    /// Say even more: every zone
    #[arg(long)]
    vverbose: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Accepted for scripts: nothing is ever asked
    #[arg(short, long)]
    yes: bool,
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
        waiting.check(self.devices.iter().map(PathBuf::as_path))?;
        self.open(Access::Write)
    }

    /// How much is to be said: 0, 1 or 2.
    pub fn detail(&self) -> u8 {
        if self.vverbose { 2 } else { self.verbose.into() }
    }
}

/// Error of a tool that found no set: what the disks hold instead, if that is known, or `why`.
pub fn no_set(disks: &mut Disks, why: impl std::fmt::Display) -> CliError {
    other_content(disks).map_or_else(|| CliError::failed(why), CliError::Failed)
}

/// The disks as dmzadm shows them before it does something; with more `detail` also what zones there are.
pub fn geometry(disks: &Disks, detail: u8) -> String {
    let (space, mut text) = (disks.space(), String::new());
    let zone_sectors = u64::from(space.zone_blocks()) * u64::from(BLOCK_SECTORS);
    for ((place, member), name) in space.members().numbered().zip(disks.names()) {
        let sectors = disks.limits(place).capacity;
        let kind = if member.is_zoned { "Host-managed device" } else { "Regular block device" };
        let offset = space.start(member.first_zone);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{name}: {sectors} 512-byte sectors ({} GiB)\n  {kind}\n  {} zones, offset {offset}\n",
            sectors >> 21,
            member.zones,
        );
        let zones = || space.zones().numbered().skip(member.first_zone.index()).take(member.zones as usize);
        if detail > 0 {
            text += &kinds_of_zones(zones().map(|(_, info)| info));
        }
        if detail > 1 {
            zones().for_each(|(zone, info)| text += &format!("    zone {zone}: {}\n", describe(info)));
        }
    }
    let _ = write!(
        text,
        "  {} zones of {zone_sectors} 512-byte sectors ({} MiB)\n  {} 4KB data blocks per zone\n",
        space.zones().len(),
        zone_sectors >> 11,
        space.zone_blocks()
    );
    text
}

/// A line that counts zones.
fn kinds_of_zones<'a>(zones: impl Iterator<Item = &'a ZoneInfo> + Clone) -> String {
    let count = |is_it: fn(&ZoneInfo) -> bool| zones.clone().filter(|zone| is_it(zone)).count();
    format!(
        "  {} sequential zones, {} of them written; {} that take random writes; {} that cannot be written\n",
        count(|zone| zone.class == ZoneClass::Sequential),
        count(|zone| zone.class == ZoneClass::Sequential && zone.wp > Block::FIRST),
        count(|zone| zone.class != ZoneClass::Sequential),
        count(|zone| zone.health != ZoneHealth::Good),
    )
}

fn describe(zone: &ZoneInfo) -> String {
    let (class, condition) = (class_name(zone), condition_name(zone));
    match zone.class {
        ZoneClass::Sequential => format!("{class}, {condition}, {} blocks written", zone.wp),
        ZoneClass::Cache | ZoneClass::Random => format!("{class}, {condition}"),
    }
}

/// What a zone can be used for, in a word.
pub fn class_name(zone: &ZoneInfo) -> &'static str {
    match zone.class {
        ZoneClass::Cache => "cache",
        ZoneClass::Random => "random",
        ZoneClass::Sequential => "sequential",
    }
}

/// Whether a zone can be used, in a word.
pub fn condition_name(zone: &ZoneInfo) -> &'static str {
    match zone.health {
        _ if zone.is_runt => "runt",
        ZoneHealth::Good => "good",
        ZoneHealth::ReadOnly => "read-only",
        ZoneHealth::Offline => "offline",
    }
}

/// Which of two sets of metadata is in force.
pub fn in_force(sets: &Sets) -> &'static str {
    if sets.choice.set == 0 { "primary" } else { "secondary" }
}

/// A superblock as JSON.
pub fn superblock_json(superblock: &Superblock) -> Value {
    let named = superblock.version > 1;
    json!({
        "version": superblock.version,
        "generation": superblock.generation,
        "block": superblock.block,
        "label": named.then(|| superblock.label.text()),
        "uuid": named.then(|| Uuid::from_bytes(superblock.set_uuid).to_string()),
        "device_uuid": named.then(|| Uuid::from_bytes(superblock.device_uuid).to_string()),
        "chunks": superblock.chunks,
        "reserved": superblock.reserved,
        "metadata_blocks": superblock.metadata_blocks,
        "map_blocks": superblock.map_blocks,
        "bitmap_blocks": superblock.bitmap_blocks,
    })
}

/// The disks as JSON.
pub fn geometry_json(disks: &Disks) -> Value {
    let space = disks.space();
    let member = |(member, path): (&Member, &str)| {
        json!({
            "path": path,
            "zoned": member.is_zoned,
            "bytes": member.blocks * BLOCK_BYTES as u64,
            "first_zone": member.first_zone.0,
            "zones": member.zones,
        })
    };
    let devices: Vec<Value> = space.members().iter().zip(disks.names()).map(member).collect();
    json!({
        "devices": devices,
        "zones": space.zones().len(),
        "zone_bytes": u64::from(space.zone_blocks()) * BLOCK_BYTES as u64,
    })
}
