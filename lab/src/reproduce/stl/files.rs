//! Programs that write files through a file system.

use shingle_core::time::Duration;
use shingle_sim::Stop;
use shingle_sim::workload::ext4::{Ending, Ext4, Ext4Options};

use super::blocks;
use super::measure::{Found, Halt, Scene};
use super::plan::System;

/// So soon after mkfs the programs' time begins to be looked at.
const MOMENT: Duration = Duration::from_millis(10);

/// The load of `shingle reproduce dmzoned`; on a bare drive, which has no file system, writes in order.
pub fn run(scene: &mut Scene<'_>) -> Result<Found, Halt> {
    if scene.experiment.system == System::Drive {
        return blocks::in_order(scene);
    }
    let interval = Duration(u64::from(scene.experiment.row.interval_s()) * 1_000_000_000);
    let (runtime, seed) = (scene.time(), scene.extent.seed);
    let options = Ext4Options { runtime, sample: interval, seed, ..Ext4Options::default() };
    let load = scene.volume.world.add(Box::new(Ext4::new(scene.volume.top, options)));
    make(scene, load)?;
    let mut phase = scene.watch(scene.time())?;
    let ext4: &Ext4 = scene.volume.world.actor(load).ok_or_else(|| "the load is gone".to_owned())?;
    for (sample, found) in phase.samples.iter_mut().zip(ext4.samples()) {
        sample.mb_per_s = (found.closed as f64 * 1e9 / interval.0 as f64 / 1e5).round() / 10.0;
    }
    match ext4.ending() {
        Some(Ending::Failed(status)) => Err(Halt::Failed(format!("a write to the volume failed: {status}"))),
        _ => Ok(Found { phase, ..Found::default() }),
    }
}

/// Lets mkfs run.
fn make(scene: &mut Scene<'_>, load: usize) -> Result<(), Halt> {
    let mut until = scene.now();
    while scene.volume.world.actor::<Ext4>(load).and_then(Ext4::began).is_none() {
        scene.check()?;
        until = until + MOMENT;
        if scene.volume.world.run(until) != Stop::Deadline {
            return Err(Halt::Failed("mkfs came to no end on the volume".into()));
        }
    }
    Ok(())
}
