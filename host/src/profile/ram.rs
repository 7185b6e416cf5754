//! The tables of devices without a medium: RAM disks, links to them, null devices.

use shingle_core::device::{NullConfig, NullZones};
use shingle_core::time::Duration;
use shingle_drives::{LinkConfig, RamConfig, RamDisk};

use super::links::{read_link as read_one_link, read_time};
use super::values::{SECOND, Table, Values};

/// Reads what `[ram]` says.
pub fn read(values: &mut Values<'_>) -> Option<RamConfig> {
    let config = values.table("ram", read_ram)?;
    values.check(RamDisk::new(&config));
    Some(config)
}

/// Reads what `[link]` says of the way, and `[ram]` of the disk at its end.
pub fn read_link(values: &mut Values<'_>) -> Option<(LinkConfig, RamConfig)> {
    let link = values.table("link", read_one_link);
    let ram = read(values);
    Some((link?, ram?))
}

/// Reads what `[null]` and `[zones]` say.
pub fn read_null(values: &mut Values<'_>) -> Option<NullConfig> {
    let null = values.table("null", |table| NullConfig {
        block_bytes: table.size("block", 512..=65536) as u32,
        completion: table.time("completion", Duration::ZERO..=SECOND),
        memory_backed: table.flag("memory-backed"),
        ..NullConfig::new(1)
    });
    let zones = values.table("zones", |table| {
        let count = table.count("count", 1..=16_000_000);
        let zone_sectors = table.size("size", 1 << 16..=1 << 40) / 512;
        let zones = NullZones {
            zone_capacity: Some(table.size("capacity", 4096..=1 << 40) / 512),
            conventional: table.count("conventional", 0..=count - 1),
            max_open: table.has("max-open").then(|| table.count("max-open", 1..=16_000_000)),
            max_active: table.has("max-active").then(|| table.count("max-active", 1..=16_000_000)),
            max_append: table.has("max-append").then(|| (table.size("max-append", 4096..=1 << 30) / 512) as u32),
            ..NullZones::new(zone_sectors)
        };
        (u64::from(count) * zone_sectors, zones)
    });
    let (null, (capacity, zones)) = (null?, zones?);
    let config = NullConfig { capacity, zoned: Some(zones), ..null };
    values.check(shingle_core::device::NullDevice::new(&config));
    Some(config)
}

fn read_ram(table: &mut Table<'_>) -> RamConfig {
    RamConfig {
        capacity: table.size("size", 4096..=1 << 50) / 512,
        block_bytes: table.size("block", 512..=65536) as u32,
        servers: table.count("servers", 1..=65_536),
        read: read_time(table, ["read", "read-sd", "read-shape"], Duration::ZERO..=SECOND),
        write: read_time(table, ["write", "write-sd", "write-shape"], Duration::ZERO..=SECOND),
        ..RamConfig::new(8)
    }
}
