//! The tables of a zoned SSD.

use shingle_core::time::Duration;
use shingle_drives::{ZnsConfig, ZnsSsd};

use super::values::{SECOND, Table, Values};

/// Reads what `[zones]`, `[front]`, `[link]`, `[buffer]`, `[flash]` and `[manage]` say.
pub fn read(values: &mut Values<'_>) -> Option<ZnsConfig> {
    let mut config = ZnsConfig::new(1);
    let zones = values.table("zones", |table| read_zones(table, &mut config));
    let front = values.table("front", |table| read_front(table, &mut config));
    let link = values.table("link", |table| read_link(table, &mut config));
    let buffer = values.table("buffer", |table| read_buffer(table, &mut config));
    let flash = values.table("flash", |table| read_flash(table, &mut config));
    let manage = values.table("manage", |table| read_manage(table, &mut config));
    let complete = [zones, front, link, buffer, flash, manage].into_iter().all(|read| read.is_some());
    complete.then(|| values.check(ZnsSsd::new(config.clone())))?;
    Some(config)
}

fn read_zones(table: &mut Table<'_>, config: &mut ZnsConfig) {
    let zones = table.count("count", 2..=16_000_000);
    config.zone_sectors = table.size("size", 1 << 20..=1 << 40) / 512;
    config.zone_capacity = table.size("capacity", 4096..=1 << 40) / 512;
    config.capacity = u64::from(zones) * config.zone_sectors;
    config.max_open = table.has("max-open").then(|| table.count("max-open", 1..=16_000_000));
    config.max_active = table.has("max-active").then(|| table.count("max-active", 1..=16_000_000));
    config.block_bytes = table.size("logical-block", 512..=65536) as u32;
}

fn read_front(table: &mut Table<'_>, config: &mut ZnsConfig) {
    config.read_command = time(table, "read-command");
    config.write_command = time(table, "write-command");
    config.append_command = time_or(table, "append-command", config.write_command);
    config.zone_switch = time(table, "zone-switch");
    config.completion = time(table, "completion");
    config.append_completion = time_or(table, "append-completion", Duration::ZERO);
}

fn read_link(table: &mut Table<'_>, config: &mut ZnsConfig) {
    config.link_rate = table.rate("rate");
    let mut sectors = |key| (table.size(key, 4096..=1 << 30) / 512) as u32;
    config.max_sectors = Some(sectors("max-command"));
    config.max_append = Some(sectors("max-append"));
}

fn read_buffer(table: &mut Table<'_>, config: &mut ZnsConfig) {
    config.write_cache = table.flag("volatile");
    config.buffer_units = table.count("units", 1..=1024);
    config.drain_rate = table.rate("drain-rate");
}

fn read_flash(table: &mut Table<'_>, config: &mut ZnsConfig) {
    config.channels = table.count("channels", 1..=1024);
    config.dies_per_channel = table.count("dies-per-channel", 1..=1024);
    config.dies_per_zone = table.count("dies-per-zone", 1..=1024);
    config.channel_rate = table.rate("channel-rate");
    config.program_unit_bytes = table.size("program-unit", 512..=1 << 30) as u32;
    config.program = time(table, "program");
    config.page_bytes = table.size("page", 512..=1 << 30) as u32;
    config.read = time(table, "read");
    config.read_ahead_bytes = if table.has("read-ahead") { table.size("read-ahead", 0..=1 << 30) as u32 } else { 0 };
}

fn read_manage(table: &mut Table<'_>, config: &mut ZnsConfig) {
    config.reset = time_or(table, "reset", Duration::ZERO);
    config.erase = time(table, "erase");
    config.erase_block_bytes = table.size("erase-block", 4096..=1 << 40);
    config.finish_rate = table.rate("finish-rate");
}

fn time(table: &mut Table<'_>, key: &'static str) -> Duration {
    table.time(key, Duration::ZERO..=SECOND)
}

/// A time that may be left out.
fn time_or(table: &mut Table<'_>, key: &'static str, otherwise: Duration) -> Duration {
    if table.has(key) { time(table, key) } else { otherwise }
}
