//! The power goes at full load: how long until the volume answers again.

use shingle_core::block::{Bio, Data, Op, Payload};
use shingle_core::dm::stl::BLOCK_BYTES;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

use super::door::Door;
use super::load::{Deed, Load, Pattern, Task};
use super::measure::{Found, Halt, Scene};
use super::plan::options;
use super::volume::{ask, attach};

/// Random writes until the end, and then another target on the same disks.
pub fn run(scene: &mut Scene<'_>) -> Result<Found, Halt> {
    let blocks = scene.volume.blocks();
    let task = Task::of_blocks(Deed::Write, Pattern::Uniform(0..blocks), u64::MAX).at_depth(32);
    let load = Load::new(scene.volume.top, task, scene.extent.seed);
    scene.volume.world.add(Box::new(load));
    let phase = scene.watch(scene.time())?;
    let since = scene.counters();
    // What is sent from now on never gets there.
    let doors = scene.volume.doors.clone();
    for door in doors {
        scene.volume.world.stack.with_device(door, |door: &mut Door, _| door.shut());
    }
    scene.volume.world.run(Instant(u64::MAX));
    let (world, keepers) = (&mut scene.volume.world, scene.volume.keepers.clone());
    let sectors = world.stack.limits(scene.volume.top).capacity;
    let (target, _) = attach(world, &keepers, sectors, options(scene.experiment, scene.extent.size))?;
    let began = world.now();
    let read = Bio::new(Op::Read, Sector::ZERO, 8, Payload::Data(Data::zeroed(BLOCK_BYTES)));
    ask(world, target, read)?;
    let seconds = world.now().since(began).0 as f64 / 1e9;
    scene.volume.target = target;
    let figures = [("start_s", seconds), ("checkpoints_before", since.get("checkpoints").copied().unwrap_or(0) as f64)];
    Ok(Found { phase, figures: figures.map(|(name, value)| (name.to_owned(), value)).into() })
}
