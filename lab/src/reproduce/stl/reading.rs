//! Sequential reads, of what was written in order and of what was not.

use std::collections::BTreeMap;

use shingle_core::dm::stl::BLOCK_SECTORS;
use shingle_core::time::Duration;

use super::blocks::{LONG, zones};
use super::load::{Deed, Pattern, Task};
use super::measure::{Found, Halt, Phase, Scene};
use super::plan::{Size, System};

/// Blocks that are written in order, and others that are not.
fn lengths(size: Size) -> (u64, u64) {
    match size {
        Size::Full => (5_000_000, 1_000_000),
        Size::Quick => (1_000_000, 100_000),
        Size::Tiny => (10_000, 1_000),
    }
}

/// How long the volume has nothing to do.
const IDLE: Duration = Duration(3_600_000_000_000);

/// Writes, reads, waits and reads again.
pub fn run(scene: &mut Scene<'_>) -> Result<Found, Halt> {
    let (in_order, at_random) = lengths(scene.extent.size);
    let long = in_order * u64::from(BLOCK_SECTORS) / u64::from(LONG);
    if scene.experiment.system == System::Drive {
        return of_drive(scene, long);
    }
    let whole = in_long_ones(Deed::Write, 0, long);
    scene.work(whole.at_depth(4), Duration(u64::MAX >> 2))?;
    let blocks = long * u64::from(LONG / BLOCK_SECTORS);
    let shuffled = Task::of_blocks(Deed::Write, Pattern::Shuffled(blocks..blocks + at_random), at_random);
    let written = scene.work(shuffled.at_depth(32), IDLE)?;
    let mut figures = BTreeMap::new();
    let phase = read(scene, 0, long)?;
    figures.insert("in_order".to_owned(), mb_per_s(&phase));
    let end = long + at_random * u64::from(BLOCK_SECTORS) / u64::from(LONG);
    figures.insert("at_random".to_owned(), mb_per_s(&read(scene, long, end)?));
    scene.sleep(IDLE)?;
    figures.insert("after_idle".to_owned(), mb_per_s(&read(scene, long, end)?));
    Ok(Found { phase: Phase { writes_ns: written.writes_ns, ..phase }, figures })
}

fn of_drive(scene: &mut Scene<'_>, long: u64) -> Result<Found, Halt> {
    let task = zones(scene, Deed::Write, LONG);
    scene.work(Task { count: long, ..task.clone() }.at_depth(32), Duration(u64::MAX >> 2))?;
    let phase = scene.work(Task { deed: Deed::Read, count: long, ..task }.at_depth(4), scene.time())?;
    let figures = [("in_order".to_owned(), mb_per_s(&phase))].into();
    Ok(Found { phase, figures })
}

fn in_long_ones(deed: Deed, from: u64, to: u64) -> Task {
    Task { sectors: LONG, ..Task::of_blocks(deed, Pattern::InOrder(from..to), to - from) }
}

fn read(scene: &mut Scene<'_>, from: u64, to: u64) -> Result<Phase, Halt> {
    scene.work(in_long_ones(Deed::Read, from, to).at_depth(4), Duration(u64::MAX >> 2))
}

fn mb_per_s(phase: &Phase) -> f64 {
    let bytes: u64 = phase.seconds.iter().map(|second| second.read).sum();
    bytes as f64 / 1e6 / phase.seconds.len().max(1) as f64
}
