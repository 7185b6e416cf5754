//! Zones, plugs and policies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shingle_core::plug::PlugDump;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind, ZoneNo};

/// Zones in order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Zones {
    /// The zones.
    pub zones: Vec<ZoneInfo>,
    /// The sector to go on from; `null` at the end.
    pub next: Option<u64>,
    /// How old that is, in milliseconds; none if the device was asked for this answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneInfo {
    /// Its first sector.
    pub start: u64,
    /// Its size in sectors.
    pub len: u64,
    /// How many of them can be written.
    pub capacity: u64,
    /// The sector of the write pointer; `null` where the condition has none.
    pub wp: Option<u64>,
    /// `conventional` or `seq-write-required`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `not-wp`, `empty`, `imp-open`, `exp-open`, `closed`, `read-only`, `full` or `offline`.
    pub cond: String,
    /// The type as the kernel counts (`enum blk_zone_type`).
    pub type_code: u8,
    /// The condition as the kernel counts (`enum blk_zone_cond`).
    pub cond_code: u8,
}

impl From<&Zone> for ZoneInfo {
    fn from(zone: &Zone) -> Self {
        let cond = match zone.cond {
            Condition::NotWp => "not-wp",
            Condition::Empty => "empty",
            Condition::ImplicitOpen => "imp-open",
            Condition::ExplicitOpen => "exp-open",
            Condition::Closed => "closed",
            Condition::ReadOnly => "read-only",
            Condition::Full => "full",
            Condition::Offline => "offline",
        };
        let kind = if zone.kind == ZoneKind::Sequential { "seq-write-required" } else { "conventional" };
        Self {
            start: zone.start.0,
            len: zone.len,
            capacity: zone.capacity,
            wp: zone.cond.has_write_pointer().then_some(zone.wp.0),
            kind: kind.into(),
            cond: cond.into(),
            type_code: zone.kind as u8,
            cond_code: zone.cond as u8,
        }
    }
}

impl ZoneInfo {
    /// The zone; `None` if it is in no condition that there is.
    #[must_use]
    pub fn zone(&self) -> Option<Zone> {
        let cond = Condition::from_abi(self.cond_code)?;
        let kind = if self.type_code == 1 { ZoneKind::Conventional } else { ZoneKind::Sequential };
        let (start, len) = (self.start, self.len);
        let without = if cond == Condition::Full { start.saturating_add(len) } else { start };
        let wp = Sector(self.wp.unwrap_or(without));
        Some(Zone { start: Sector(start), len, capacity: self.capacity, wp, kind, cond })
    }
}

/// How much was changed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Number of zones.
    pub zones: u64,
}

/// The zone write plugs of a disk, or of the lines of a mapped device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Plugs {
    /// How zone writes are ordered; `mixed` if lines differ.
    pub policy: String,
    /// Zones with a command in flight, or in line for the disk.
    pub active: u32,
    /// Of a write from submission to dispatch, since the policy was chosen.
    pub longest_wait_ns: u64,
    /// The plugs of zones.
    pub plugs: Vec<Plug>,
    /// The lines of the mapped device that have a plug; none for a disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LinePlugs>,
}

/// The plug of a table line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinePlugs {
    /// Number of the line, from 1.
    pub line: u32,
    /// The line's target.
    pub target: String,
    /// How zone writes are ordered.
    pub policy: String,
    /// Zones with a command in flight, or in line for the disk.
    pub active: u32,
    /// Of a write from submission to dispatch, since the policy was chosen.
    pub longest_wait_ns: u64,
}

/// A zone write plug, as debugfs shows it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Plug {
    /// Number of the table line, from 1; of a disk there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Number of the zone, counted within its line.
    pub zone: u32,
    /// 1: `PLUGGED`, 2: `NEED_WP_UPDATE`.
    pub flags: u32,
    /// Who holds it.
    pub refs: u32,
    /// `EMPTY`, `ACTIVE`, `FULL`, `READONLY` or `OFFLINE`.
    pub condition: String,
    /// Offset of the next write, in sectors.
    pub wp_offset: u32,
    /// Bios that wait.
    pub pending: u32,
}

impl From<&PlugDump> for Plug {
    fn from(plug: &PlugDump) -> Self {
        let (zone, flags, condition) = (plug.zone.0, plug.flags(), plug.condition.into());
        Self { line: None, zone, flags, refs: plug.refs, condition, wp_offset: plug.wp_offset, pending: plug.pending }
    }
}

impl From<&Plug> for PlugDump {
    fn from(plug: &Plug) -> Self {
        let known = ["EMPTY", "ACTIVE", "FULL", "READONLY", "OFFLINE"];
        PlugDump {
            zone: ZoneNo(plug.zone),
            plugged: plug.flags & 1 != 0,
            needs_wp_update: plug.flags & 2 != 0,
            refs: plug.refs,
            condition: known.into_iter().find(|name| plug.condition == *name).unwrap_or("UNKNOWN"),
            wp_offset: plug.wp_offset,
            pending: plug.pending,
        }
    }
}

/// How zone writes are ordered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Now; `mixed` if lines of a mapped device differ.
    pub policy: String,
    /// Before the request; `mixed` if lines of a mapped device differed.
    pub before: String,
    /// The lines of the mapped device that are meant, with the policy of each; none for a disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LinePolicy>,
}

/// How zone writes to a table line are ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinePolicy {
    /// Number of the line, from 1.
    pub line: u32,
    /// The line's target.
    pub target: String,
    /// Now.
    pub policy: String,
}

/// I/O scheduler of a disk.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Scheduler {
    /// The scheduler in force.
    pub scheduler: String,
    /// The scheduler before the request.
    pub before: String,
    /// Commands in flight at the disk under `mq-deadline`; `null` under `none`.
    pub queue_depth: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_survives_its_way_through_json() {
        for cond in Condition::ALL {
            let kind = if cond == Condition::NotWp { ZoneKind::Conventional } else { ZoneKind::Sequential };
            let wp = match cond {
                Condition::Full => 2048,
                cond if cond.has_write_pointer() => 1100,
                _ => 1024,
            };
            let zone = Zone { start: Sector(1024), len: 1024, capacity: 1000, wp: Sector(wp), kind, cond };
            let text = serde_json::to_string(&ZoneInfo::from(&zone)).unwrap();
            assert_eq!(serde_json::from_str::<ZoneInfo>(&text).unwrap().zone(), Some(zone), "{cond:?}");
        }
        assert!(serde_json::from_str::<ZoneInfo>("{\"start\": 1}").is_err());
    }
}
