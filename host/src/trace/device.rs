//! A device as a recording knows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shingle_core::block::Limits;

/// A layer of the stack that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedDevice {
    /// Its name; for a layer that the stack file does not name, that of the one above it with a suffix, as in `smr/disk`.
    pub name: String,
    /// The shard that it lives on.
    pub shard: u16,
    /// Whether its events are in the recording. Of the others only completions are.
    pub recorded: bool,
    /// Size in sectors.
    #[serde(rename = "sectors")]
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
    #[serde(rename = "max_append_sectors")]
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
        u32::try_from(sector.checked_div(self.zone_sectors?.into())?).ok()
    }
}
