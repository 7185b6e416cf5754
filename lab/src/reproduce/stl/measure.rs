//! One run: what is seen of a volume while a load is on it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shingle_core::block::Op;
use shingle_core::dm::stl::Stl;
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::time::{Duration, Instant};
use shingle_host::profile::Model;
use shingle_sim::Stop;

use super::keeper::Keeper;
use super::load::{Load, Sleeper, Task};
use super::outcome::{Cpu, Run, Sample};
use super::plan::{Experiment, Row, Size, System, options};
use super::probe::{Probe, Second};
use super::volume::{Volume, no_room};
use super::{aged, blocks, files, ram, reading, start};

/// How long a run is, and what it is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Minutes of virtual time, at most; `None`: as many as the row takes.
    pub minutes: Option<u32>,
    /// How often aged volumes are written; `None`: as often as the row says.
    pub times: Option<u32>,
    /// The size of aged volumes.
    pub size: Size,
    /// Seed of all choices.
    pub seed: u64,
}

/// Why a run has no result.
pub enum Halt {
    /// It was told to stop.
    Stopped,
    /// Something is wrong.
    Failed(String),
}

impl From<String> for Halt {
    fn from(why: String) -> Self {
        Halt::Failed(why)
    }
}

/// A volume with something to do.
pub struct Scene<'a> {
    pub experiment: Experiment,
    pub volume: Volume,
    pub extent: Extent,
    stop: &'a AtomicBool,
}

/// What a target counts, by name.
pub type Counters = BTreeMap<&'static str, u64>;

/// What was seen in a span of time.
#[derive(Clone, Default)]
pub struct Phase {
    /// Interval by interval.
    pub samples: Vec<Sample>,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// The time that 99.99 % of writes do not exceed, and the slowest.
    pub writes_ns: (u64, u64),
    /// What the target did.
    pub counters: Counters,
    /// What drives were written and read.
    pub moved: Moved,
}

/// What came of a row.
#[derive(Default)]
pub struct Found {
    /// What its figures are about.
    pub phase: Phase,
    /// Others.
    pub figures: BTreeMap<String, f64>,
}

/// Bytes that the drives were asked to move.
#[derive(Clone, Copy, Default)]
pub struct Moved {
    /// Written.
    pub written: u64,
    /// Read.
    pub read: u64,
}

impl Moved {
    fn since(self, before: Moved) -> Moved {
        Moved { written: self.written - before.written, read: self.read - before.read }
    }
}

/// Runs `experiment` on `drives`. `None` if `stop` was set.
///
/// # Errors
/// If there is no such volume.
pub fn run(experiment: Experiment, drives: &[Model], extent: Extent, stop: &AtomicBool) -> Result<Option<Run>, String> {
    let cpu = Cpu::of_this_thread();
    if experiment.row == Row::Ram {
        return ram::run(experiment, extent, stop);
    }
    let volume = match Volume::new(experiment.system, drives, options(experiment, extent.size)) {
        Ok(volume) => volume,
        Err(why) if experiment.system != System::Stl => return Ok(Some(Run::refused(experiment, why))),
        Err(why) => return Err(why),
    };
    let mut scene = Scene { experiment, volume, extent, stop };
    let found = match experiment.row {
        Row::Files | Row::FilesSsd | Row::FilesSsdLong => files::run(&mut scene),
        Row::Random | Row::ZnsRandom => blocks::random(&mut scene),
        Row::Sync | Row::SyncSsd => blocks::in_turns(&mut scene),
        Row::Uniform | Row::ZnsUniform => aged::uniform(&mut scene),
        Row::Skewed | Row::ZnsSkewed => aged::skewed(&mut scene),
        Row::Read => reading::run(&mut scene),
        Row::Start | Row::Ram => start::run(&mut scene),
    };
    match found {
        Ok(found) => Ok(Some(Run::new(experiment, found, cpu.until_now()))),
        Err(Halt::Stopped) => Ok(None),
        // That is a result too, and the others are shown beside it.
        Err(Halt::Failed(why)) => Ok(Some(Run::failed(experiment, scene.explained(&why)))),
    }
}

/// Seconds until I/O that does not come back counts as lost.
const PATIENCE_S: u64 = 600;

impl Scene<'_> {
    /// Its time.
    pub fn time(&self) -> Duration {
        if self.extent.size == Size::Tiny {
            return Duration::from_millis(300);
        }
        let minutes = self.extent.minutes.unwrap_or(self.experiment.row.minutes(self.extent.size));
        Duration(u64::from(minutes) * 60_000_000_000)
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.volume.world.now()
    }

    /// Whether it was told to stop.
    pub fn check(&self) -> Result<(), Halt> {
        if self.stop.load(Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
    }

    /// Does `task`, for so long at most, and looks at it.
    pub fn work(&mut self, task: Task, most: Duration) -> Result<Phase, Halt> {
        let until = task.until.min(self.now() + most);
        let task = Task { until, ..task };
        let load = self.volume.world.add(Box::new(Load::new(self.volume.top, task, self.extent.seed)));
        let phase = self.watch(most)?;
        self.drain()?;
        match self.volume.world.actor::<Load>(load).and_then(|load| load.failure) {
            Some(status) => Err(Halt::Failed(format!("an I/O of the load failed: {status}"))),
            None => Ok(phase),
        }
    }

    /// Lets come back what is on its way.
    fn drain(&mut self) -> Result<(), Halt> {
        let began = self.now();
        for seconds in 1..=PATIENCE_S {
            if self.volume.world.run(began + Duration(seconds * 1_000_000_000)) == Stop::Done {
                return Ok(());
            }
            self.check()?;
        }
        Err(Halt::Failed(format!("I/Os were not answered in {PATIENCE_S} s")))
    }

    /// Nothing is asked of the volume for so long.
    pub fn sleep(&mut self, span: Duration) -> Result<(), Halt> {
        let until = self.now() + span;
        self.volume.world.add(Box::new(Sleeper::new(until)));
        self.watch(span).map(drop)
    }

    /// Lets time pass until all programs are done, for so long at most.
    pub fn watch(&mut self, most: Duration) -> Result<Phase, Halt> {
        let interval_ns = u64::from(self.experiment.row.interval_s()) * 1_000_000_000;
        let (began, counters, first) = (self.now(), self.counters(), self.moved());
        self.volume.world.stack.with_device(self.volume.top, |probe: &mut Probe, _| probe.begin(began));
        let (mut samples, mut before) = (Vec::new(), first);
        for number in 1..=most.0.div_ceil(interval_ns) {
            let stop = self.volume.world.run(began + Duration(number * interval_ns));
            self.check()?;
            let now = self.moved();
            if stop == Stop::Stuck {
                return Err(Halt::Failed("an I/O never came back".into()));
            }
            if stop == Stop::Deadline || samples.is_empty() {
                samples.push(self.sample(number as usize - 1, now.since(before)));
            }
            before = now;
            if stop == Stop::Done {
                break;
            }
        }
        Ok(self.seen(samples, &counters, first))
    }

    fn seen(&self, samples: Vec<Sample>, counters: &Counters, first: Moved) -> Phase {
        let probe = self.probe();
        let writes = probe.writes.summary(&[99.99]);
        let whole = samples.len() * self.experiment.row.interval_s() as usize;
        Phase {
            seconds: probe.seconds.iter().take(whole).copied().collect(),
            samples,
            writes_ns: (writes.percentiles[0].1, writes.max),
            counters: less(self.counters(), counters),
            moved: self.moved().since(first),
        }
    }

    /// Why, with what the target says of itself and what is wrong with the file for its drives.
    fn explained(&self, why: &str) -> String {
        let stack = &self.volume.world.stack;
        let keepers = self.volume.keepers.iter().filter_map(|id| stack.device::<Keeper>(*id));
        let files = keepers.filter_map(|keeper| keeper.failure.as_ref()).map(no_room);
        files.chain([format!("{why}; {}", self.status())]).collect::<Vec<_>>().join("; ")
    }

    /// What the target says of itself.
    pub fn status(&self) -> String {
        let mut line = String::new();
        // A string takes everything.
        let _ = self.volume.world.stack.status(self.volume.target, &mut line);
        line
    }

    /// What the target has counted so far; nothing if it is not `stl`.
    pub fn counters(&self) -> Counters {
        let target = self.volume.world.stack.device::<Stl>(self.volume.target);
        target.map(|target| target.counters().list().collect()).unwrap_or_default()
    }

    fn moved(&self) -> Moved {
        let all = self.volume.drives.iter().map(|id| self.volume.world.stack.counters(*id));
        all.fold(Moved::default(), |moved, counters| {
            let bytes = |op: Op| counters.sectors[op as usize] * u64::from(SECTOR_BYTES);
            Moved { written: moved.written + bytes(Op::Write), read: moved.read + bytes(Op::Read) }
        })
    }

    pub fn probe(&self) -> &Probe {
        self.volume.world.stack.device(self.volume.top).expect("the probe is on top")
    }

    fn sample(&self, place: usize, moved: Moved) -> Sample {
        let width = self.experiment.row.interval_s() as usize;
        let rate = |bytes: u64| (bytes as f64 / width as f64 / 1e4).round() / 100.0;
        let seconds = self.probe().seconds.iter().skip(place * width).take(width);
        let (bytes, ios) = seconds.fold((0, 0), |(bytes, ios), second| {
            (bytes + second.written + second.read, ios + second.writes.max(second.reads))
        });
        Sample {
            mb_per_s: rate(bytes),
            ios_per_s: ios as f64 / width as f64,
            written_mb_per_s: rate(moved.written),
            read_mb_per_s: rate(moved.read),
        }
    }
}

/// What was counted in between.
fn less(now: Counters, before: &Counters) -> Counters {
    now.into_iter().map(|(name, count)| (name, count - before.get(name).copied().unwrap_or(0))).collect()
}
