//! What a daemon serves and does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{DriveStatus, HeadStatus};
use crate::events::Event;

/// A daemon.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// For how long it has been running.
    pub uptime_s: u64,
    /// Number of its shards.
    pub shards: usize,
    /// Where it listens for NBD clients.
    pub listen: Vec<String>,
    /// What protects each of those, in a few words.
    #[serde(default)]
    pub protection: Vec<String>,
    /// Where it tells its metrics over HTTP.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Where it shows its page, with what who opens it has to know.
    #[serde(default)]
    pub web: Vec<String>,
    /// Disks and mapped devices: those of the stack file first.
    pub devices: Vec<DeviceStatus>,
    /// Its exports.
    pub exports: Vec<ExportStatus>,
    /// Number of NBD connections of each shard.
    pub connections: Vec<usize>,
    /// Bios that have waited for a second or longer, the oldest of each shard.
    pub stuck: Vec<Stuck>,
    /// Number of all that have.
    pub stuck_bios: usize,
}

/// A disk or a mapped device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStatus {
    /// Its name.
    pub name: String,
    /// `null`, `file`, `profile`, `zoned-dir`, `zoned-blk`, `table` or `multipath`.
    pub kind: String,
    /// What it is; of a mapped device its table.
    pub description: String,
    /// Its size.
    pub bytes: u64,
    /// Smallest unit of I/O.
    pub block_bytes: u32,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether completed writes can be lost until a flush.
    pub write_cache: bool,
    /// Its zones, if it has any.
    pub zoned: Option<Zoned>,
    /// Whether I/O waits at its door.
    pub suspended: bool,
    /// Health of the device without that of the devices below: `ok`, `loading`, `read-only` or `failed`.
    #[serde(default = "ok")]
    pub health: String,
    /// Reason for which the device is read-only or cannot be used, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// What went through it.
    pub counters: Counters,
    /// What its targets know of themselves: an object for each that does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figures>,
    /// How zone writes are ordered, on a device with plugs; `mixed` if lines of its table differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// I/O scheduler of a disk: `none` or `mq-deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Commands in flight at the disk under `mq-deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Zones with a command in flight, or in line for the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_plugs: Option<u32>,
    /// Why the plug refuses writes, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plug_failure: Option<String>,
    /// Its paths, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<HeadStatus>,
    /// Its power and how late it is, if it is a simulated drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveStatus>,
    /// The thread that owns it.
    pub shard: usize,
    /// Its file or directory, if it has one.
    pub path: Option<String>,
}

/// Health of what an older daemon says nothing of.
fn ok() -> String {
    "ok".into()
}

/// What a stack has done.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// All of it: `docs/metrics.md`.
    pub text: String,
}

/// The newest of what has happened.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventList {
    /// In order.
    pub events: Vec<Event>,
}

/// Figures of a target by their names; its page says what they are.
pub type Figures = Map<String, Value>;

/// The zones of a device; sectors have 512 bytes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Zoned {
    /// Number of zones.
    pub zones: u32,
    /// Size of a zone.
    pub zone_sectors: u32,
    /// Most open zones; `null`: no limit.
    pub max_open: Option<u32>,
    /// Most active zones.
    pub max_active: Option<u32>,
    /// `native` if the hardware executes zone appends; `emulated` if a plug makes writes of them.
    #[serde(default)]
    pub zone_append: String,
    /// Longest zone append that the device takes, native or emulated (the kernel's `zone_append_max_bytes`, in sectors).
    pub max_append_sectors: Option<u32>,
    /// Longest zone append of the hardware; `null` if it has none (the kernel's `max_hw_zone_append_sectors` of 0).
    #[serde(default)]
    pub max_hw_append_sectors: Option<u32>,
}

/// Bios that went through a device, by operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Number of bios.
    pub ios: BTreeMap<String, u64>,
    /// Number of sectors.
    pub sectors: BTreeMap<String, u64>,
    /// Number of those that failed.
    pub errors: u64,
    /// Number of those that went as part of another.
    pub merges: u64,
    /// Number of those that are under way.
    pub in_flight: u64,
}

/// An export.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExportStatus {
    /// Its name.
    pub name: String,
    /// The disk or mapped device; `null` if that was just removed.
    pub device: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Connections that have chosen it; its block device counts as one.
    #[serde(default)]
    pub connections: usize,
    /// Most connections at a time (`max-connections`); `null` without a limit.
    #[serde(default)]
    pub max_connections: Option<usize>,
    /// Where users of this machine find it, if it is a block device.
    #[serde(default)]
    pub path: Option<String>,
    /// Worst health of its device and of all devices below: `ok`, `loading`, `read-only` or `failed`.
    #[serde(default = "ok")]
    pub health: String,
    /// Reason for which the export is read-only or cannot be used, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A bio that has waited for long.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Stuck {
    /// Where it waits.
    pub device: String,
    /// For how long.
    pub age_ms: u64,
    /// What it is.
    pub bio: String,
    /// The shard of the device.
    pub shard: usize,
}

/// An export that was added.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Added {
    /// Its name.
    pub name: String,
    /// The disk or mapped device.
    pub device: String,
    /// Its size.
    pub bytes: u64,
    /// Where users of this machine find it, if it is a block device.
    #[serde(default)]
    pub path: Option<String>,
}
