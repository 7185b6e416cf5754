//! Random writes to a volume of which most was written more than once.

use std::collections::BTreeMap;

use shingle_core::dm::stl::BLOCK_SECTORS;
use shingle_core::dm::stl::policy::amplification;
use shingle_core::time::Duration;

use super::blocks::LONG;
use super::load::{Deed, Pattern, Task};
use super::measure::{Found, Halt, Phase, Scene};
use super::plan::System;
use super::volume::RESERVE;

/// Percent of the exposed space that is used.
const USED: u64 = 80;
/// How often the space is written: what comes last is what counts.
const TIMES: u32 = 3;
const DEPTH: u32 = 32;
/// Minutes in which dm-zoned shows what it does: all of it would take it weeks.
const MINUTES_OF_OTHERS: u64 = 20;
/// Of a hundred writes, how many go to the hot tenth.
const HOT: u64 = 90;

/// All blocks alike.
pub fn uniform(scene: &mut Scene<'_>) -> Result<Found, Halt> {
    let used = fill(scene)?;
    write(scene, Pattern::Uniform(0..used), warm_up(scene))?;
    let phase = write(scene, Pattern::Uniform(0..used), 1)?;
    let u = f64::from(1000 - RESERVE) / 1000.0 * USED as f64 / 100.0;
    let mut figures = costs(&phase, "");
    figures.extend([("used".to_owned(), u), ("analysis".to_owned(), amplification(u))]);
    Ok(Found { phase, figures })
}

/// Most writes to a tenth, and then to another.
pub fn skewed(scene: &mut Scene<'_>) -> Result<Found, Halt> {
    let used = fill(scene)?;
    let tenth = |number: u64| number * used / 10..(number + 1) * used / 10;
    let hot = |number| Pattern::Skewed(HOT, tenth(number), 0..used);
    write(scene, hot(2), warm_up(scene))?;
    let before = write(scene, hot(2), 1)?;
    write(scene, hot(7), warm_up(scene))?;
    let phase = write(scene, hot(7), 1)?;
    let mut figures = costs(&before, "");
    figures.extend(costs(&phase, "_moved"));
    Ok(Found { phase, figures })
}

/// How often the space is written before it counts.
fn warm_up(scene: &Scene<'_>) -> u64 {
    u64::from(scene.extent.times.unwrap_or(TIMES)).saturating_sub(1)
}

/// Writes what is used, in order; its blocks.
fn fill(scene: &mut Scene<'_>) -> Result<u64, Halt> {
    let used = scene.volume.blocks() * USED / 100;
    let long = used * u64::from(BLOCK_SECTORS) / u64::from(LONG);
    let task = Task { sectors: LONG, depth: 4, ..Task::of_blocks(Deed::Write, Pattern::InOrder(0..long), long) };
    scene.work(task, Duration(u64::MAX >> 2))?;
    Ok(used)
}

/// Writes as many blocks as the exposed disk has, so many times.
fn write(scene: &mut Scene<'_>, pattern: Pattern, times: u64) -> Result<Phase, Halt> {
    let most = match scene.experiment.system {
        System::Kernel | System::Shingle => scene.time().min(Duration(MINUTES_OF_OTHERS * 60_000_000_000)),
        _ => scene.time(),
    };
    let count = scene.volume.blocks() * times;
    scene.work(Task::of_blocks(Deed::Write, pattern, count).at_depth(DEPTH), most)
}

/// What a phase cost.
fn costs(phase: &Phase, suffix: &str) -> BTreeMap<String, f64> {
    let user = phase.seconds.iter().map(|second| second.written).sum::<u64>();
    let count = |name| phase.counters.get(name).copied().unwrap_or(0) as f64;
    let counted = count("user_blocks").max(1.0);
    let all = [
        ("amplification", phase.moved.written as f64 / user.max(1) as f64),
        ("amplification_of_data", 1.0 + count("copied_blocks") / counted),
        ("map_share", count("map_blocks") / counted),
    ];
    all.into_iter().map(|(name, value)| (format!("{name}{suffix}"), value)).collect()
}
