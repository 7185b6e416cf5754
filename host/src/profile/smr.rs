//! The tables of an SMR disk.

use shingle_core::time::Duration;
use shingle_drives::SmrConfig;
use shingle_drives::smr::{Cache, Link, Media, Seek, ZoneTimes};

use super::values::{SECOND, Table, Values};

/// Reads what `[zones]`, `[media]`, `[seek]`, `[link]`, `[cache]` and `[manage]` say.
pub fn read(values: &mut Values<'_>) -> Option<SmrConfig> {
    let mut config = SmrConfig::new(1000);
    let zones = values.table("zones", |table| read_zones(table, &mut config));
    let media = values.table("media", |table| config.media = read_media(table));
    let seek = values.table("seek", |table| config.seek = read_seek(table));
    let link = values.table("link", |table| read_link(table, &mut config));
    let cache = values.table("cache", |table| config.cache = read_cache(table));
    let manage = values.table("manage", |table| config.manage = read_manage(table));
    let complete = [zones, media, seek, link, cache, manage].into_iter().all(|read| read.is_some());
    complete.then(|| values.check(config.validate()))?;
    Some(config)
}

fn read_zones(table: &mut Table<'_>, config: &mut SmrConfig) {
    let zones = table.count("count", 2..=16_000_000);
    config.zone_sectors = table.size("size", 1 << 20..=1 << 40) / 512;
    config.capacity = u64::from(zones) * config.zone_sectors;
    config.conventional = table.count("conventional", 0..=zones - 1);
    config.conventional_at = table.real("conventional-at", "of the stroke", 0.0..=1.0);
    config.max_open = table.has("max-open").then(|| table.count("max-open", 1..=16_000_000));
    config.logical_block_bytes = table.size("logical-block", 512..=4096) as u32;
    config.physical_block_bytes = table.size("physical-block", 512..=65536) as u32;
}

fn read_media(table: &mut Table<'_>) -> Media {
    let conventional = table.has("conventional-ratio");
    let conventional = conventional.then(|| table.real("conventional-ratio", "of the rate there", 0.1..=1.0));
    let rpm = table.real("rpm", "turns a minute", 1000.0..=20_000.0);
    Media {
        turn: Duration((60e9 / rpm) as u64),
        outer_rate: table.real("outer-rate", "MB/s", 1.0..=2000.0) * 1e6,
        inner_ratio: table.real("inner-ratio", "of the outer rate", 0.1..=1.0),
        conventional_ratio: conventional.unwrap_or(1.0),
    }
}

fn read_seek(table: &mut Table<'_>) -> Seek {
    let mut time = |key| table.time(key, Duration::ZERO..=SECOND);
    Seek { track: time("track"), average: time("average"), full: time("full") }
}

fn read_link(table: &mut Table<'_>, config: &mut SmrConfig) {
    config.link = Link {
        rate: table.real("rate", "MB/s", 1.0..=20_000.0) * 1e6,
        command: table.time("command", Duration::ZERO..=SECOND),
        depth: table.count("depth", 1..=1024),
    };
    config.max_sectors = (table.size("max-command", 4096..=1 << 30) / 512) as u32;
}

fn read_cache(table: &mut Table<'_>) -> Cache {
    Cache {
        write_back: table.flag("write-back"),
        non_volatile_bytes: table.has("non-volatile-cache").then(|| table.size("non-volatile-cache", 4096..=1 << 40)),
        bytes: table.size("bytes", 1 << 20..=1 << 40),
        segment_bytes: table.size("segment", 4096..=1 << 40),
        entries: table.count("entries", 1..=1 << 24),
        nearest: table.has("nearest") && table.flag("nearest"),
        turn_bytes: table.has("turn").then(|| table.size("turn", 4096..=1 << 40)),
        run_bytes: table.size("run", 4096..=1 << 40),
        look_ahead_bytes: table.size("look-ahead", 0..=1 << 40),
    }
}

fn read_manage(table: &mut Table<'_>) -> ZoneTimes {
    let mut time = |key| table.time(key, Duration::ZERO..=Duration(10 * SECOND.0));
    ZoneTimes { reset: time("reset"), finish: time("finish"), open_close: time("open-close") }
}
