//! The tables of devices without a medium: RAM disks, links to them, null devices.

use shingle_core::device::{NullConfig, NullZones};
use shingle_core::time::Duration;
use shingle_drives::{LinkConfig, RamConfig, ServiceTime};

use super::values::{SECOND, Table, Values};

/// Reads what `[ram]` says.
pub fn read(values: &mut Values<'_>) -> Option<RamConfig> {
    let config = values.table("ram", read_ram)?;
    let times = [("read", &config.read), ("write", &config.write)];
    check_times(values, times);
    Some(config)
}

/// Reads what `[link]` says of the way, and `[ram]` of the disk at its end.
pub fn read_link(values: &mut Values<'_>) -> Option<(LinkConfig, RamConfig)> {
    let link = values.table("link", |table| LinkConfig {
        rate: table.has("rate").then(|| table.rate("rate")),
        depth: table.has("depth").then(|| table.count("depth", 1..=65_536)),
        there: read_time(table, ["there", "there-sd", "there-shape"]),
        back: read_time(table, ["back", "back-sd", "back-shape"]),
        ordered: table.flag("ordered"),
        lost_ppm: table.count("lost-ppm", 0..=500_000),
        failed_ppm: table.count("failed-ppm", 0..=500_000),
        ..LinkConfig::default()
    });
    let ram = read(values);
    let link = link?;
    check_times(values, [("there", &link.there), ("back", &link.back)]);
    Some((link, ram?))
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
        read: read_time(table, ["read", "read-sd", "read-shape"]),
        write: read_time(table, ["write", "write-sd", "write-shape"]),
        ..RamConfig::new(8)
    }
}

/// A time that is always the same, or has a shape and perhaps a deviation.
fn read_time(table: &mut Table<'_>, [mean, sd, shape]: [&'static str; 3]) -> ServiceTime {
    type Shape = fn(Duration, &mut dyn FnMut() -> Duration) -> ServiceTime;
    const SHAPES: [(&str, Shape); 3] = [
        ("exponential", |time, _| ServiceTime::Exponential(time)),
        ("log-normal", |time, deviation| ServiceTime::LogNormal(time, deviation())),
        ("gamma", |time, deviation| ServiceTime::Gamma(time, deviation())),
    ];
    let time = table.time(mean, Duration::ZERO..=SECOND);
    let shape = if table.has(shape) { table.word(shape, &SHAPES) } else { None };
    let mut deviation = || table.time(sd, Duration(1)..=Duration(10 * SECOND.0));
    shape.map_or(ServiceTime::Constant(time), |shape| shape(time, &mut deviation))
}

fn check_times(values: &mut Values<'_>, times: [(&str, &ServiceTime); 2]) {
    for (name, time) in times {
        values.check(time.validate().map_err(|error| format!("`{name}`: {error}")));
    }
}
