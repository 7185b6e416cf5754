//! One run: the load on a volume, and a look at both every ten seconds.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shingle_core::block::{DeviceId, Op};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::time::{Duration, Instant};
use shingle_sim::workload::ext4::{Ending, Ext4, Ext4Options};
use shingle_sim::{Stop, World};

use super::outcome::{Run, Sample};
use super::volume::{Drives, Volume};
use super::{Experiment, status};

/// Time between two looks.
pub const INTERVAL_S: u32 = 10;
const INTERVAL: Duration = Duration::from_millis(INTERVAL_S as u64 * 1000);
/// So soon after mkfs the programs' time begins to be looked at.
const MOMENT: Duration = Duration::from_millis(10);
/// Virtual time that formatting and mkfs may take.
const MAKING: Duration = Duration::from_millis(3_600_000);

/// How long a run is, and what it is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Minutes of virtual time.
    pub minutes: u32,
    /// Seed of file lengths and places.
    pub seed: u64,
}

/// A world with the load in it.
struct Scene {
    world: World,
    target: DeviceId,
    drives: Vec<DeviceId>,
    load: usize,
}

/// Bytes that the drives were asked to move so far.
#[derive(Clone, Copy, Default)]
struct Moved {
    written: u64,
    read: u64,
}

impl Moved {
    fn since(self, before: Moved) -> Moved {
        Moved { written: self.written - before.written, read: self.read - before.read }
    }
}

/// Runs `experiment` on `drives`, and calls `minute` for each that has passed. `None` if `stop` was set.
///
/// # Errors
/// If there is no such volume, or the load did not come to its end.
pub fn run(
    (experiment, drives): (Experiment, &Drives),
    extent: Extent,
    stop: &AtomicBool,
    minute: &dyn Fn(),
) -> Result<Option<Run>, String> {
    let mut scene = Scene::new(experiment, drives, extent)?;
    let Some(began) = scene.make(stop)? else { return Ok(None) };
    let mut samples = Vec::new();
    let mut before = scene.moved();
    for number in 1..=extent.minutes * 60 / INTERVAL_S {
        scene.world.run(began + Duration(INTERVAL.0 * u64::from(number)));
        if stop.load(Relaxed) {
            return Ok(None);
        }
        let now = scene.moved();
        samples.push(scene.sample(samples.len(), now.since(before))?);
        before = now;
        if number % (60 / INTERVAL_S) == 0 {
            minute();
        }
        if scene.load().ending().is_some() {
            break;
        }
    }
    let ending = scene.end()?;
    Ok(Some(Run { setup: experiment.setup, policy: experiment.policy, ending, interval_s: INTERVAL_S, samples }))
}

impl Scene {
    fn new(experiment: Experiment, drives: &Drives, extent: Extent) -> Result<Self, String> {
        let mut volume = Volume::new(drives)?;
        volume.set("policy", experiment.policy.name())?;
        let runtime = Duration::from_millis(u64::from(extent.minutes) * 60_000);
        let options = Ext4Options { runtime, sample: INTERVAL, seed: extent.seed, ..Ext4Options::default() };
        let Volume { stack, top, target, drives } = volume;
        let mut world = World::new(stack);
        let load = world.add(Box::new(Ext4::new(top, options)));
        Ok(Self { world, target, drives, load })
    }

    fn load(&self) -> &Ext4 {
        self.world.actor(self.load).expect("the load is the actor that was added")
    }

    /// Lets mkfs run; returns when the programs began.
    fn make(&mut self, stop: &AtomicBool) -> Result<Option<Instant>, String> {
        let mut until = Instant::ZERO;
        while self.load().began().is_none() {
            if stop.load(Relaxed) {
                return Ok(None);
            }
            until = until + MOMENT;
            let end = self.world.run(until);
            if end != Stop::Deadline || until.0 > MAKING.0 {
                return Err(format!("mkfs came to no end on the volume: {end:?}, {:?}", self.load().ending()));
            }
        }
        Ok(self.load().began())
    }

    fn moved(&self) -> Moved {
        let all = self.drives.iter().map(|id| self.world.stack.counters(*id));
        all.fold(Moved::default(), |moved, counters| {
            let bytes = |op: Op| counters.sectors[op as usize] * u64::from(SECTOR_BYTES);
            Moved { written: moved.written + bytes(Op::Write), read: moved.read + bytes(Op::Read) }
        })
    }

    fn sample(&self, place: usize, moved: Moved) -> Result<Sample, String> {
        let found = self.load().samples().get(place).copied().unwrap_or_default();
        let rate = |bytes: u64| (bytes as f64 / f64::from(INTERVAL_S) / 1e5).round() / 10.0;
        let mut line = String::new();
        // A string takes everything.
        let _ = self.world.stack.status(self.target, &mut line);
        Ok(Sample {
            mb_per_s: rate(found.closed),
            stored_mb_per_s: rate(found.data + found.metadata),
            written_mb_per_s: rate(moved.written),
            read_mb_per_s: rate(moved.read),
            zones: status::parse(&line)?,
        })
    }

    /// Lets what is on its way come to its end.
    fn end(&mut self) -> Result<String, String> {
        let stop = self.world.run(Instant(u64::MAX));
        match (stop, self.load().ending()) {
            (Stop::Done, Some(Ending::Time)) => Ok("time".to_owned()),
            (Stop::Done, Some(Ending::Full)) => Ok("full".to_owned()),
            (Stop::Done, Some(Ending::Failed(status))) => Err(format!("a write to the volume failed: {status}")),
            (stop, ending) => Err(format!("the load came to no end: {stop:?}, {ending:?}")),
        }
    }
}
