//! Writes of blocks to empty volumes.

use shingle_core::block::ZonedLimits;
use shingle_core::dm::stl::BLOCK_SECTORS;
use shingle_core::sector::Sector;

use super::load::{Deed, Pattern, Task};
use super::measure::{Found, Halt, Scene};
use super::plan::System;

/// Bytes that random writes go to.
const SPAN_BYTES: u64 = 4_000_000_000_000;
/// I/Os at a time.
const DEPTH: u32 = 32;
/// Sectors of a write in order.
pub const LONG: u32 = 2048;
/// How many of those at a time: more only wait for each other.
const LONG_ONES: u32 = 4;

/// Anywhere in the first 4 TB; a bare drive, which takes none of these, is asked what it writes in order.
pub fn random(scene: &mut Scene<'_>) -> Result<Found, Halt> {
    if scene.experiment.system == System::Drive {
        return in_order(scene);
    }
    let blocks = scene.volume.blocks().min(SPAN_BYTES / 4096);
    let task = Task::of_blocks(Deed::Write, Pattern::Uniform(0..blocks), u64::MAX);
    let phase = scene.work(task.at_depth(DEPTH), scene.time())?;
    Ok(Found { phase, ..Found::default() })
}

/// A write and a flush in turns.
pub fn in_turns(scene: &mut Scene<'_>) -> Result<Found, Halt> {
    let blocks = scene.volume.blocks().min(SPAN_BYTES / 4096);
    let task = match scene.experiment.system {
        System::Drive if is_zoned(scene) => zones(scene, Deed::WriteAndFlush, BLOCK_SECTORS),
        _ => Task::of_blocks(Deed::WriteAndFlush, Pattern::Uniform(0..blocks), u64::MAX),
    };
    let phase = scene.work(task, scene.time())?;
    let pairs: u64 = phase.seconds.iter().map(|second| second.flushes).sum();
    let per_s = pairs as f64 / phase.seconds.len().max(1) as f64;
    let flushes = scene.probe().flushes.summary(&[99.99]);
    let figures = [("pairs_per_s", per_s), ("flush_p9999_ns", flushes.percentiles[0].1 as f64)];
    let figures = figures.into_iter().chain([("slowest_flush_ns", flushes.max as f64)]);
    Ok(Found { phase, figures: figures.map(|(name, value)| (name.to_owned(), value)).collect() })
}

fn is_zoned(scene: &Scene<'_>) -> bool {
    scene.volume.world.stack.limits(scene.volume.top).zoned.is_some()
}

/// Long writes, zone after zone of a bare drive.
pub fn in_order(scene: &mut Scene<'_>) -> Result<Found, Halt> {
    let task = zones(scene, Deed::Write, LONG);
    let phase = scene.work(task.at_depth(LONG_ONES), scene.time())?;
    Ok(Found { phase, ..Found::default() })
}

/// Writes of so many sectors to the sequential zones of a bare drive.
pub fn zones(scene: &Scene<'_>, deed: Deed, sectors: u32) -> Task {
    let limits = scene.volume.world.stack.limits(scene.volume.top);
    let zoned = limits.zoned.clone().unwrap_or_else(|| ZonedLimits::new(LONG));
    let zone = u64::from(zoned.zone_sectors);
    let first = u64::from(zoned.conventional.first().map_or(0, |conventional| conventional.end));
    let room = scene.volume.room.unwrap_or(zone);
    let count = (limits.capacity / zone - first) * (room / u64::from(sectors));
    Task { sectors, ..Task::of_blocks(deed, Pattern::Zones(Sector(first * zone), zone, room), count) }
}
