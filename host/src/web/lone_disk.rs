//! A page of a disk without a stack.

use std::time::Instant;

use serde_json::{Value, json};
use shingle_core::block::DeviceHealth;
use shingle_core::zone::Zone;

use super::watched::{Watched, ZoneList};
use crate::control::protocol::{Counters, DeviceStatus, Status, Zoned};
use crate::events::Event;

/// What reads the zones of a disk.
type ReadZones = Box<dyn Fn() -> Result<Vec<Zone>, String> + Send + Sync>;

/// A disk that no stack of this process has.
pub struct LoneDisk {
    name: String,
    /// Its zones, sectors of one, and sectors of all.
    shape: (u32, u32, u64),
    read_zones: ReadZones,
    started: Instant,
}

impl LoneDisk {
    /// The disk of this name, which has `zones` now. They are read again and again.
    #[must_use]
    pub fn new(name: String, zones: &[Zone], read_zones: ReadZones) -> Self {
        let sectors = zones.last().map_or(0, |zone| (zone.start + zone.len).0);
        let shape = (zones.len() as u32, zones.first().map_or(0, |zone| zone.len as u32), sectors);
        Self { name, shape, read_zones, started: Instant::now() }
    }
}

impl Watched for LoneDisk {
    /// That of a stack without shards, with one disk.
    fn status(&self) -> Result<Value, String> {
        let (zones, zone_sectors, sectors) = self.shape;
        let zoned = Zoned {
            zones,
            zone_sectors,
            max_open: None,
            max_active: None,
            zone_append: String::new(),
            max_append_sectors: None,
            max_hw_append_sectors: None,
        };
        let disk = DeviceStatus {
            name: self.name.clone(),
            kind: "disk".into(),
            description: String::new(),
            bytes: sectors * 512,
            block_bytes: 512,
            read_only: true,
            write_cache: false,
            zoned: Some(zoned),
            suspended: false,
            health: DeviceHealth::Works.name().into(),
            fault: None,
            counters: Counters::default(),
            figures: Vec::new(),
            policy: None,
            scheduler: None,
            queue_depth: None,
            active_plugs: None,
            plug_failure: None,
            multipath: None,
            drive: None,
            shard: 0,
            path: Some(self.name.clone()),
        };
        Ok(json!(Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            shards: 0,
            listen: Vec::new(),
            protection: Vec::new(),
            metrics: Vec::new(),
            web: Vec::new(),
            devices: vec![disk],
            exports: Vec::new(),
            connections: Vec::new(),
            stuck: Vec::new(),
            stuck_bios: 0,
        }))
    }

    fn deps(&self) -> Result<Value, String> {
        Ok(json!({"devices": []}))
    }

    fn metrics(&self) -> Result<Value, String> {
        Ok(json!({"uptime_seconds": [[[], self.started.elapsed().as_secs_f64()]]}))
    }

    fn events(&self, _: u64) -> Vec<Event> {
        Vec::new()
    }

    fn zones(&self, device: &str, most: usize) -> Result<ZoneList, String> {
        if device != self.name {
            return Err(format!("there is no device `{device}`; there is {}", self.name));
        }
        let zones = (self.read_zones)()?;
        if zones.len() > most {
            return Err(format!("it has {} zones, and {most} are shown at most", zones.len()));
        }
        Ok(ZoneList { zones, ..ZoneList::default() })
    }
}
