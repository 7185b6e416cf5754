//! A device as a recording knows it.

use serde_json::{Value, json};
use shingle_core::block::Limits;

/// A layer of the stack that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDevice {
    /// Its name; for a layer that the stack file does not name, that of the one above it with a suffix, as in `smr/disk`.
    pub name: String,
    /// The shard that it lives on.
    pub shard: u16,
    /// Whether its events are in the recording. Of the others only completions are.
    pub recorded: bool,
    /// Size in sectors.
    pub capacity: u64,
    /// Smallest unit of I/O in bytes.
    pub block_bytes: u32,
    /// Whether the medium turns.
    pub rotational: bool,
    /// Whether completed writes can be lost until a flush.
    pub write_cache: bool,
    /// Zone size in sectors; `None` for a regular device.
    pub zone_sectors: Option<u32>,
    /// Most open zones.
    pub max_open: Option<u32>,
    /// Most active zones.
    pub max_active: Option<u32>,
    /// Longest native append in sectors.
    pub max_append: Option<u32>,
}

impl RecordedDevice {
    /// A device with these limits.
    #[must_use]
    pub fn new(name: String, shard: u16, recorded: bool, limits: &Limits) -> Self {
        let zoned = limits.zoned.as_ref();
        Self {
            name,
            shard,
            recorded,
            capacity: limits.capacity,
            block_bytes: limits.logical_block_bytes,
            rotational: limits.rotational,
            write_cache: limits.write_cache,
            zone_sectors: zoned.map(|zoned| zoned.zone_sectors),
            max_open: zoned.and_then(|zoned| zoned.max_open),
            max_active: zoned.and_then(|zoned| zoned.max_active),
            max_append: zoned.and_then(|zoned| zoned.max_append),
        }
    }

    /// The zone that holds `sector`, if there are zones.
    #[must_use]
    pub fn zone_of(&self, sector: u64) -> Option<u32> {
        u32::try_from(sector / u64::from(self.zone_sectors?)).ok()
    }

    /// The device as JSON, for the control socket and for `shingle trace show --json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "shard": self.shard,
            "recorded": self.recorded,
            "sectors": self.capacity,
            "block_bytes": self.block_bytes,
            "rotational": self.rotational,
            "write_cache": self.write_cache,
            "zone_sectors": self.zone_sectors,
            "max_open": self.max_open,
            "max_active": self.max_active,
            "max_append_sectors": self.max_append,
        })
    }

    /// A device from JSON; `None` if it is not one.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |key: &str| value.get(key)?.as_u64();
        let small = |key: &str| u32::try_from(number(key)?).ok();
        let flag = |key: &str| value.get(key)?.as_bool();
        Some(Self {
            name: value.get("name")?.as_str()?.to_owned(),
            shard: u16::try_from(number("shard")?).ok()?,
            recorded: flag("recorded")?,
            capacity: number("sectors")?,
            block_bytes: small("block_bytes")?,
            rotational: flag("rotational")?,
            write_cache: flag("write_cache")?,
            zone_sectors: small("zone_sectors").filter(|sectors| *sectors > 0),
            max_open: small("max_open"),
            max_active: small("max_active"),
            max_append: small("max_append_sectors"),
        })
    }
}
