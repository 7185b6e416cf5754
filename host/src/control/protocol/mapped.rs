//! Mapped devices, their tables and their events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figures;

/// What a target says to a message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// Lines, or nothing.
    pub answer: String,
}

/// The events of a device.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Their number.
    pub events: u64,
    /// Whether they are more than those that were seen.
    pub passed: bool,
}

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
