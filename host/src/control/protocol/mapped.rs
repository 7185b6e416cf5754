//! Mapped devices: dmsetup's verbs. A device is named by its name or its UUID.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figures;

/// Creates a device; with a table it takes I/O at once.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// Its name.
    pub name: String,
    /// Its UUID; of a dm-zoned volume that of its set, if left out.
    pub uuid: Option<String>,
    /// The text of its table, if it gets one now.
    pub table: Option<String>,
    /// Whether it refuses writes.
    #[serde(default)]
    pub read_only: bool,
}

/// Loads a table into the inactive slot.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The device.
    pub device: String,
    /// The text of the table.
    pub table: String,
    /// Whether it refuses writes once it is live.
    #[serde(default)]
    pub read_only: bool,
}

/// Drops the table in the inactive slot.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// The device.
    pub device: String,
}

/// A device, and how to wait for its I/O in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// The device.
    pub device: String,
    /// Have targets push back what they hold instead of finishing it first.
    #[serde(default)]
    pub noflush: bool,
    /// After so long the device goes on as before: 5,000 if left out, at most 20,000.
    pub timeout_ms: Option<u64>,
}

/// Lets no more I/O in, and finishes what is inside.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Suspend(pub Drain);

/// Lets I/O in again; if a table is loaded, through that.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Resume(pub Drain);

/// Replaces the table with one on which everything fails.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WipeTable(pub Drain);

/// Removes a device that nobody uses.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    /// The device.
    pub device: String,
    /// If it is in use: when that ends.
    #[serde(default)]
    pub deferred: bool,
    /// Replace the table with one on which everything fails first.
    #[serde(default)]
    pub force: bool,
    /// How long that may take, as in `dm.suspend`.
    pub timeout_ms: Option<u64>,
}

/// Gives a device another name, or a UUID if it has none: one of both.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The device.
    pub device: String,
    /// The new name.
    pub name: Option<String>,
    /// The UUID.
    pub uuid: Option<String>,
}

/// Tells a target something.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The device.
    pub device: String,
    /// A sector of the target; 0 if the message is for the device.
    #[serde(default)]
    pub sector: u64,
    /// The words.
    pub message: String,
}

/// What a target says to a message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// Lines, or nothing.
    pub answer: String,
}

/// Waits for an event.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The device.
    pub device: String,
    /// The number of events that were seen already.
    #[serde(default)]
    pub event_nr: u64,
    /// For so long, at most 5,000: ask again.
    pub timeout_ms: Option<u64>,
}

/// The events of a device.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Their number.
    pub events: u64,
    /// Whether they are more than those that were seen.
    pub passed: bool,
}

/// Shows the state of a device, or of all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetInfo {
    /// The device; all if left out.
    pub device: Option<String>,
}

/// Shows the table of a device, or those of all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTable {
    /// The device; all if left out.
    pub device: Option<String>,
    /// That in the inactive slot.
    #[serde(default)]
    pub inactive: bool,
    /// Keys too, which are otherwise shown as zeroes.
    #[serde(default)]
    pub show_keys: bool,
}

/// Shows what the targets of a device have to say, or those of all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTargetStatus {
    /// The device; all if left out.
    pub device: Option<String>,
    /// Of the table in the inactive slot.
    #[serde(default)]
    pub inactive: bool,
}

/// Shows what the live table of a device lies on, or those of all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetDeps {
    /// The device; all if left out.
    pub device: Option<String>,
}

/// Lists devices.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Only those with a target of this kind.
    pub target: Option<String>,
}

/// Lists the kinds of targets that tables can have.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTargets {}

/// Devices by name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Devices<T> {
    /// The devices.
    pub devices: Vec<T>,
}

/// Whether I/O may go in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It may.
    Active,
    /// What is inside is being finished.
    Suspending,
    /// It waits at the door.
    Suspended,
}

/// A mapped device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MappedDevice {
    /// Its name.
    pub name: String,
    /// Its UUID, or nothing.
    pub uuid: String,
    /// Its numbers, which are made up: it has no node.
    pub major: u32,
    /// The second one.
    pub minor: usize,
    /// Whether I/O may go in.
    pub state: State,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether it has a live table.
    pub live: bool,
    /// Whether it has one in the inactive slot.
    pub inactive: bool,
    /// Whether it goes when nobody uses it any more.
    pub deferred_remove: bool,
    /// Who uses it.
    pub open: u32,
    /// Number of targets of the live table.
    pub targets: u32,
    /// Number of events so far.
    pub events: u64,
    /// Size of the live table.
    pub sectors: u64,
    /// The thread that owns it.
    pub shard: usize,
    /// The longest time that a swap of tables kept I/O waiting.
    pub longest_swap_ns: u64,
    /// A line for each target, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<TargetLine>>,
}

impl MappedDevice {
    /// Whether I/O waits at its door.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.state != State::Active
    }

    /// Its lines.
    #[must_use]
    pub fn lines(&self) -> &[TargetLine] {
        self.lines.as_deref().unwrap_or_default()
    }
}

/// A target in a table.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TargetLine {
    /// Its first sector.
    pub start: u64,
    /// Its size in sectors.
    pub length: u64,
    /// Its kind.
    pub target: String,
    /// Its arguments, or what it has to say.
    pub arguments: String,
    /// What it knows of itself, if the status was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
}

/// What a device lies on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Deps {
    /// The device.
    pub name: String,
    /// What it lies on.
    pub deps: Vec<Dep>,
}

/// A device that another lies on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dep {
    /// Its name.
    pub name: String,
    /// Its numbers; `null` if it was removed meanwhile.
    pub major: Option<u32>,
    /// The second one.
    pub minor: Option<usize>,
}

/// A device in a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its numbers.
    pub major: u32,
    /// The second one.
    pub minor: usize,
}

impl From<&Listed> for Dep {
    fn from(Listed { name, major, minor }: &Listed) -> Self {
        Self { name: name.clone(), major: Some(*major), minor: Some(*minor) }
    }
}

/// The kinds of targets.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Targets {
    /// The kinds.
    pub targets: Vec<Target>,
}

/// A kind of target.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: [u32; 3],
    /// Its arguments.
    pub usage: String,
}
