//! The drives, in virtual time: one world for each experiment.
//!
//! ```text
//!  workload, with its host ──> plug with the policy ──> model of the drive, from its profile
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shingle_core::block::{DeviceId, Stack};
use shingle_core::plug::{Append, PlugOptions};
use shingle_core::time::{Duration, Instant};
use shingle_drives::{Link, LinkConfig, ServiceTime};
use shingle_sim::workload::Tally;
use shingle_sim::workload::files::{FileOptions, FileWriter};
use shingle_sim::workload::fio::{Fio, FioOptions, Pattern};
use shingle_sim::workload::xfs::{Xfs, XfsOptions};
use shingle_sim::{Actor, Stop, World};

use super::host::{files_host, host};
use super::outcome::{Ours, ProfileFacts};
use super::plan::{Device, Experiment, Load};
use super::published::Unit;
use shingle_host::config::add_plug;
use shingle_host::profile::{Model, Profile};

/// How long a workload runs, and how long before that counts.
struct Times {
    ramp: Duration,
    runtime: Duration,
}

/// What all simulated cells have in common.
pub struct Lab {
    profiles: BTreeMap<&'static str, Profile>,
    seed: u64,
    quick: bool,
}

/// The profile of a drive.
fn profile_of(device: Device) -> Option<&'static str> {
    match device {
        Device::Null => None,
        Device::Zns => Some("zns-1tb"),
        Device::Smr26 => Some("smr-26tb"),
        Device::Smr30 { .. } | Device::Smr30WriteThrough { .. } | Device::Smr30Remote => Some("smr-30tb"),
    }
}

/// Pages of a command that the kernel puts together of several writes (`BLK_MAX_SEGMENTS` in `include/linux/blkdev.h`). A
/// write is a page for each 4 KiB of it, so large ones are sent as they are.
const PAGES: u32 = 128;

/// How the plug of an experiment is told.
fn path_options(experiment: &Experiment) -> PlugOptions {
    let options = experiment.policy.options();
    let block_bytes = match experiment.load {
        Load::Sequential { block_bytes, .. } | Load::RandomZones { block_bytes, .. } => block_bytes,
        Load::AppendFiles { .. } => 128 << 10,
        Load::SharedZones { .. } | Load::BufferedFiles { .. } => 1 << 20,
    };
    let segments = (PAGES * 4096 / block_bytes).max(1);
    PlugOptions { max_segments: options.max_segments.min(segments), ..options }
}

/// What an adapter that takes 1 MiB takes, in sectors.
const ONE_MIB: u32 = (1 << 20) / 512;

/// fio's random writes came from several jobs: on null_blk they reached 2.3 million a second where one job reaches 0.7. The
/// jobs' region is as many zones as the drive may have open.
const RANDOM_JOBS: u32 = 8;

/// Time to the remote disk, and back from it.
const REMOTE_WAY: Duration = Duration::from_millis(5);

/// Virtual time between two looks at the stop flag.
const SLICE: Duration = Duration::from_millis(1_000);

impl Lab {
    /// A lab with the profiles of `devices`.
    pub fn new(devices: impl Iterator<Item = Device>, seed: u64, quick: bool) -> Result<Self, String> {
        let mut profiles = BTreeMap::new();
        for name in devices.filter_map(profile_of) {
            if let Entry::Vacant(place) = profiles.entry(name) {
                place.insert(Profile::find(name).map_err(|error| error.to_string())?);
            }
        }
        Ok(Self { profiles, seed, quick })
    }

    /// Lets `profile` stand for the drive of the same name: to try other parameters.
    pub fn replace(&mut self, profile: Profile) {
        let shipped = self.profiles.get_mut(profile.name.as_str());
        shipped.into_iter().for_each(|place| *place = profile.clone());
    }

    /// What the models are made from.
    pub fn facts(&self) -> Vec<ProfileFacts> {
        self.profiles.values().map(facts).collect()
    }

    /// Runs `experiment`; `None` if `stop` was set.
    pub fn run(&self, experiment: &Experiment, unit: Unit, stop: &AtomicBool) -> Result<Option<Ours>, String> {
        let mut stack = Stack::new();
        let drive = self.add_drive(experiment, &mut stack)?;
        let emulated = experiment.load == Load::AppendFiles { emulated: true };
        let append = if emulated { Append::Emulated } else { Append::Native };
        let options = PlugOptions { append, ..path_options(experiment) };
        experiment.policy.scheduler(experiment.device).apply(&mut stack, drive);
        let top = add_plug(&mut stack, drive, options)?.unwrap_or(drive);
        let mut world = World::new(stack);
        let tally = match experiment.load {
            Load::AppendFiles { .. } => {
                let writer = FileWriter::new(top, self.files(experiment));
                run_to_end(&mut world, writer, stop)?.map(|writer| writer.tally.clone())
            }
            Load::BufferedFiles { least_mib, most_mib } => {
                let xfs = Xfs::new(top, self.buffered(experiment, least_mib.into()..=most_mib.into()));
                run_to_end(&mut world, xfs, stop)?.map(|xfs| xfs.tally.clone())
            }
            _ => run_to_end(&mut world, Fio::new(top, self.fio(experiment)?), stop)?.map(|fio| fio.writes().clone()),
        };
        tally.map(|tally| figures(&tally, unit, world.now())).transpose()
    }

    fn add_drive(&self, experiment: &Experiment, stack: &mut Stack) -> Result<DeviceId, String> {
        let (device, load) = (experiment.device, experiment.load);
        let name = profile_of(device).ok_or("this device is no model")?;
        let mut model = self.profiles.get(name).ok_or_else(|| format!("profile `{name}` was not read"))?.model.clone();
        if let (Model::Smr(config), Device::Smr30 { one_mib: true }) = (&mut model, device) {
            config.max_sectors = config.max_sectors.min(ONE_MIB);
        }
        if let (Model::Smr(config), Device::Smr30WriteThrough { non_volatile_cache }) = (&mut model, device) {
            config.cache.write_back = false;
            config.cache.non_volatile_bytes = config.cache.non_volatile_bytes.filter(|_| non_volatile_cache);
        }
        if let (Model::Smr(config), Load::SharedZones { .. }) = (&mut model, load) {
            // fio writes anywhere on the disk; that a single zone costs resets says that all were written before.
            config.zones_full = true;
        }
        // Hours of writing: only their times are wanted.
        let drive = model.add_to(stack, false).map_err(|error| format!("profile `{name}`: {error}"))?;
        if device != Device::Smr30Remote {
            return Ok(drive);
        }
        let (there, back) = (ServiceTime::Constant(REMOTE_WAY), ServiceTime::Constant(REMOTE_WAY));
        let link = Link::new(
            drive,
            stack.limits(drive),
            LinkConfig { there, back, keep_data: false, ..LinkConfig::default() },
        );
        stack.add(Box::new(link.map_err(|error| error.to_string())?)).map_err(|error| error.to_string())
    }

    fn files(&self, experiment: &Experiment) -> FileOptions {
        let Times { ramp, runtime } = self.times(experiment);
        let emulated = experiment.load == Load::AppendFiles { emulated: true };
        FileOptions { ramp, runtime, ..files_host(experiment.host, emulated) }
    }

    fn buffered(&self, experiment: &Experiment, file_mib: RangeInclusive<u64>) -> XfsOptions {
        const MIB: u64 = (1 << 20) / 512;
        let Times { ramp, runtime } = self.times(experiment);
        let file_sectors = file_mib.start() * MIB..=file_mib.end() * MIB;
        XfsOptions { file_sectors, ramp, runtime, seed: self.seed, ..XfsOptions::default() }
    }

    fn fio(&self, experiment: &Experiment) -> Result<FioOptions, String> {
        let Times { ramp, runtime } = self.times(experiment);
        let options = |pattern, block_bytes: u32, depth| FioOptions {
            pattern,
            block_sectors: block_bytes / 512,
            iodepth: depth,
            // fio does not open more zones than the drive may have open.
            max_open_zones: self.max_open(experiment.device),
            ramp,
            runtime,
            host: host(experiment.host, block_bytes),
            seed: self.seed,
            ..FioOptions::default()
        };
        Ok(match experiment.load {
            Load::Sequential { block_bytes, depth } => options(Pattern::Sequential, block_bytes, depth),
            Load::RandomZones { block_bytes, depth } => {
                let zones = self.max_open(experiment.device);
                FioOptions { jobs: RANDOM_JOBS, zones, ..options(Pattern::RandomZones, block_bytes, depth) }
            }
            Load::SharedZones { zones } => {
                FioOptions { jobs: 16, max_open_zones: Some(zones), ..options(Pattern::RandomZones, 1 << 20, 32) }
            }
            load => return Err(format!("nothing runs {load:?}")),
        })
    }

    fn max_open(&self, device: Device) -> Option<u32> {
        match &self.profiles.get(profile_of(device)?)?.model {
            Model::Smr(config) => config.max_open,
            Model::Zns(config) => config.max_open,
            _ => None,
        }
    }

    /// A ramp and a run that is long against what a drive remembers: its cache, a zone that is full, a turn around the zones.
    fn times(&self, experiment: &Experiment) -> Times {
        let small = matches!(experiment.load, Load::Sequential { block_bytes, .. } | Load::RandomZones { block_bytes, .. }
            if block_bytes < 1 << 20);
        let (ramp_ms, run_ms) = match (experiment.device, small) {
            (Device::Zns | Device::Null, _) => (500, 5_000),
            (_, true) => (5_000, 30_000),
            (_, false) => (30_000, 600_000),
        };
        let share = if self.quick { 50 } else { 1 };
        Times { ramp: Duration::from_millis(ramp_ms / share), runtime: Duration::from_millis(run_ms / share) }
    }
}

/// Lets `actor` act in `world` until it is done; `None` if `stop` was set.
fn run_to_end<'a, A: Actor>(world: &'a mut World, actor: A, stop: &AtomicBool) -> Result<Option<&'a A>, String> {
    let number = world.add(Box::new(actor));
    let mut until = Instant::ZERO + SLICE;
    loop {
        match world.run(until) {
            Stop::Done => return world.actor(number).map(Some).ok_or_else(|| "the workload is gone".into()),
            Stop::Stuck => return Err("a write never came back: the model or the plug lost it".into()),
            Stop::Deadline if stop.load(Relaxed) => return Ok(None),
            Stop::Deadline => until = until + SLICE,
        }
    }
}

fn figures(tally: &Tally, unit: Unit, now: Instant) -> Result<Ours, String> {
    if let Some(error) = tally.first_error {
        return Err(format!("a write failed: {error}"));
    }
    let value = match unit {
        Unit::MegabytesPerSecond => tally.mb_per_s(now),
        Unit::Iops => tally.iops(now),
        other => return Err(format!("models count no {other}")),
    };
    let (longest_wait_ns, virtual_ns) = (tally.longest.as_nanos(), Some(now.0));
    Ok(Ours { value, longest_wait_ns, virtual_ns, ..Ours::default() }.rounded())
}

/// What a model is made from.
pub(super) fn facts(profile: &Profile) -> ProfileFacts {
    ProfileFacts {
        name: profile.name.clone(),
        hash: format!("{:016x}", fnv1a(format!("{:?}", profile.model).as_bytes())),
        media_mb_per_s: match &profile.model {
            Model::Smr(config) => Some(config.media.outer_rate / 1e6),
            _ => None,
        },
    }
}

/// A hash of so many bytes.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
