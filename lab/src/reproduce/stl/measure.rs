//! One run: the load on a volume, and a look at both every ten seconds.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shingle_core::block::Op;
use shingle_core::dm::stl::{Options, Stl, StlCounters};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::time::Duration;
use shingle_host::profile::Model;
use shingle_sim::Stop;
use shingle_sim::workload::ext4::{Ending, Ext4, Ext4Options};

use super::load::{Deed, Load, Pattern, Task};
use super::outcome::{Cpu, Run, Sample};
use super::probe::Probe;
use super::volume::Volume;
use super::{Experiment, Row};

/// Time between two looks.
pub const INTERVAL_S: u32 = 10;

/// How long a run is, and what it is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Minutes of virtual time.
    pub minutes: u32,
    /// Seed of all choices.
    pub seed: u64,
}

/// Runs `experiment` on `disk`. `None` if `stop` was set.
pub fn run(experiment: Experiment, disk: &Model, extent: Extent, stop: &AtomicBool) -> Result<Option<Run>, String> {
    let cpu = Cpu::of_this_thread();
    let volume = Volume::stl(std::slice::from_ref(disk), Options::default())?;
    let mut scene = Scene { volume, stop, extent };
    let phase = match experiment.row {
        Row::Files => scene.files()?,
        Row::Random => scene.random()?,
    };
    let Some(phase) = phase else { return Ok(None) };
    Ok(Some(scene.run(experiment, phase, cpu)))
}

/// A world with the load in it.
struct Scene<'a> {
    volume: Volume,
    stop: &'a AtomicBool,
    extent: Extent,
}

/// What was seen of a phase.
#[derive(Default)]
struct Phase {
    samples: Vec<Sample>,
    counters: StlCounters,
}

/// Bytes that the drives were asked to move so far.
#[derive(Clone, Copy, Default)]
struct Moved {
    written: u64,
    read: u64,
}

/// So soon after mkfs the programs' time begins to be looked at.
const MOMENT: Duration = Duration::from_millis(10);
const MINUTE_NS: u64 = 60_000_000_000;

impl Scene<'_> {
    /// Programs that write files.
    fn files(&mut self) -> Result<Option<Phase>, String> {
        let runtime = Duration(u64::from(self.extent.minutes) * MINUTE_NS);
        let sample = Duration(u64::from(INTERVAL_S) * 1_000_000_000);
        let options = Ext4Options { runtime, sample, seed: self.extent.seed, ..Ext4Options::default() };
        let load = self.volume.world.add(Box::new(Ext4::new(self.volume.top, options)));
        let began = |scene: &Self| scene.volume.world.actor::<Ext4>(load).and_then(Ext4::began);
        let mut until = self.volume.world.now();
        while began(self).is_none() {
            until = until + MOMENT;
            if self.stop.load(Relaxed) {
                return Ok(None);
            }
            if self.volume.world.run(until) != Stop::Deadline {
                return Err(format!("mkfs came to no end on the volume: {}", self.status()));
            }
        }
        let phase = self.watch(self.extent.minutes * 60 / INTERVAL_S)?;
        let Some(mut phase) = phase else { return Ok(None) };
        let ext4: &Ext4 = self.volume.world.actor(load).ok_or("the load is gone")?;
        for (sample, found) in phase.samples.iter_mut().zip(ext4.samples()) {
            sample.mb_per_s = found.closed as f64 / f64::from(INTERVAL_S) / 1e6;
        }
        match ext4.ending() {
            Some(Ending::Failed(status)) => Err(format!("a write to the volume failed: {status}; {}", self.status())),
            _ => Ok(Some(phase)),
        }
    }

    /// Blocks written anywhere in the first 4 TB.
    fn random(&mut self) -> Result<Option<Phase>, String> {
        let blocks = self.volume.blocks().min(4_000_000_000_000 / 4096);
        let until = self.volume.world.now() + Duration(u64::from(self.extent.minutes) * MINUTE_NS);
        let task = Task {
            deed: Deed::Write,
            pattern: Pattern::Uniform(0..blocks),
            sectors: 8,
            depth: 32,
            count: u64::MAX,
            until,
        };
        self.volume.world.add(Box::new(Load::new(self.volume.top, task, self.extent.seed)));
        self.watch(self.extent.minutes * 60 / INTERVAL_S)
    }

    /// Lets time pass, in so many intervals.
    fn watch(&mut self, intervals: u32) -> Result<Option<Phase>, String> {
        let (began, counters) = (self.volume.world.now(), self.counters());
        self.volume.world.stack.with_device(self.volume.top, |probe: &mut Probe, cx| probe.begin(cx.now().max(began)));
        let (mut samples, mut before) = (Vec::new(), self.moved());
        for number in 1..=u64::from(intervals) {
            let until = began + Duration(number * u64::from(INTERVAL_S) * 1_000_000_000);
            let stop = self.volume.world.run(until);
            if self.stop.load(Relaxed) {
                return Ok(None);
            }
            if stop == Stop::Stuck {
                return Err("a write never came back".into());
            }
            let now = self.moved();
            samples.push(self.sample(number as usize - 1, (before, now)));
            before = now;
            if stop == Stop::Done {
                break;
            }
        }
        Ok(Some(Phase { samples, counters }))
    }

    /// What the target says of itself.
    fn status(&self) -> String {
        let mut line = String::new();
        // A string takes everything.
        let _ = self.volume.world.stack.status(self.volume.target, &mut line);
        line
    }

    fn counters(&self) -> StlCounters {
        self.volume.world.stack.device::<Stl>(self.volume.target).map(Stl::counters).unwrap_or_default()
    }

    fn moved(&self) -> Moved {
        let all = self.volume.drives.iter().map(|id| self.volume.world.stack.counters(*id));
        all.fold(Moved::default(), |moved, counters| {
            let bytes = |op: Op| counters.sectors[op as usize] * u64::from(SECTOR_BYTES);
            Moved { written: moved.written + bytes(Op::Write), read: moved.read + bytes(Op::Read) }
        })
    }

    fn probe(&self) -> &Probe {
        self.volume.world.stack.device(self.volume.top).expect("the probe is on top")
    }

    fn sample(&self, place: usize, (before, now): (Moved, Moved)) -> Sample {
        let rate = |bytes: u64| (bytes as f64 / f64::from(INTERVAL_S) / 1e5).round() / 10.0;
        let width = INTERVAL_S as usize;
        let seconds = self.probe().seconds.iter().skip(place * width).take(width);
        let (bytes, ios) = seconds.fold((0, 0), |(b, n), second| (b + second.written + second.read, n + second.writes));
        Sample {
            mb_per_s: rate(bytes),
            ios_per_s: ios as f64 / f64::from(INTERVAL_S),
            written_mb_per_s: rate(now.written - before.written),
            read_mb_per_s: rate(now.read - before.read),
        }
    }

    fn run(&self, experiment: Experiment, phase: Phase, cpu: Cpu) -> Run {
        let Experiment { row, system } = experiment;
        let writes = self.probe().writes.summary(&[99.99]);
        let seconds = phase.samples.len() * INTERVAL_S as usize;
        let slowest = self.probe().seconds.iter().take(seconds).map(|second| second.written).min();
        let counters = self.counters().list().map(|(name, count)| (name.to_owned(), count)).collect();
        let _ = phase.counters;
        Run {
            row,
            system,
            interval_s: INTERVAL_S,
            samples: phase.samples,
            p9999_ns: writes.percentiles[0].1,
            slowest_ns: writes.max,
            slowest_second_mb: slowest.unwrap_or(0) as f64 / 1e6,
            counters,
            cpu: cpu.until_now(),
        }
    }
}
