//! The loop of one thread: turn, pump, and now and then a look at the rest of the world.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use shingle_core::block::{Bio, DeviceId, Op, Payload, Stack};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::Zone;

use super::clock::Clock;
use super::job::{Job, MOST_OPEN, Target, Turn};
use super::options::JobOptions;
use super::stats::Direction;
use super::zones::ZoneTable;
use shingle_host::shard::Shard;

/// What runs a stack: a bare loop, or a shard with an io_uring.
pub trait Host {
    /// The stack.
    fn stack(&mut self) -> &mut Stack;
    /// Runs the stack once, and may wait for I/O if some is in flight. Returns the time of the turn.
    fn turn(&mut self, in_flight: bool) -> Result<Instant, String>;
    /// Asks for a turn at `at`, should nothing happen before: for a host whose clock jumps.
    fn alarm(&mut self, at: Instant) {
        let _ = at;
    }
    /// A clock for `--clock=bio`; it need not have the origin of the turns.
    fn clock(&self) -> Clock;
}

/// What a thread tells the others while it runs, and what they tell it.
#[derive(Default)]
pub struct Progress {
    /// Set to stop early, for instance at Ctrl-C.
    pub stop: Arc<AtomicBool>,
    /// I/Os so far, by direction.
    pub ios: [AtomicU64; 3],
    /// Bytes so far, by direction.
    pub bytes: [AtomicU64; 3],
    /// How much of the run is done, in millionths.
    pub done_ppm: AtomicU64,
    /// Time of the run, in ns: for rates, where time is virtual.
    pub ran: AtomicU64,
}

/// Jobs on the devices of one stack.
pub struct Load {
    targets: Vec<Target>,
    jobs: Vec<(usize, Job)>,
}

/// Equal jobs on some devices.
#[derive(Clone, Debug)]
pub struct Group {
    /// What each of them does.
    pub options: Arc<JobOptions>,
    /// `options.numjobs` of them run on each of these.
    pub devices: Vec<DeviceId>,
}

/// A device as the jobs of `groups` will use it.
fn target(host: &mut impl Host, device: DeviceId, groups: &[Group]) -> Result<Target, String> {
    let report = report_zones(host, device)?;
    let zoned = host.stack().limits(device).zoned.as_ref();
    let limit = zoned.and_then(|z| z.max_open.or(z.max_active));
    let mut zones = ZoneTable::new(&report, zoned.map_or(1, |z| z.zone_sectors), limit);
    let writing = || {
        let on_it = groups.iter().filter(|group| group.devices.contains(&device));
        on_it.map(|group| &group.options).filter(|options| options.rw.writes())
    };
    let writers = writing().map(|options| options.numjobs).sum();
    // Who verifies has to know what is in a zone.
    if writers > 1 && writing().all(|options| options.verify.is_none()) {
        zones.share(writing().filter_map(|options| options.max_open_zones).min().unwrap_or(MOST_OPEN));
    }
    Ok(Target { device, zones, writers })
}

/// Time between two samples of the rates.
const SAMPLE: Duration = Duration::from_millis(250);
/// Turns without anything in flight after which a job that issues nothing never will.
const IDLE_TURNS: u32 = 1000;
/// How long I/O in flight may take after the jobs were told to stop.
const PATIENCE: Duration = Duration::from_millis(10_000);

impl Load {
    /// `options.numjobs` jobs on each of `devices`; the number of the first one makes their random numbers differ from those
    /// of other threads.
    pub fn new(
        host: &mut impl Host,
        devices: &[DeviceId],
        options: &Arc<JobOptions>,
        first_job: u32,
    ) -> Result<Self, String> {
        Self::of_groups(host, &[Group { options: options.clone(), devices: devices.to_vec() }], first_job)
    }

    /// All jobs of several groups, which run together.
    pub fn of_groups(host: &mut impl Host, groups: &[Group], first_job: u32) -> Result<Self, String> {
        let mut load = Self { targets: Vec::new(), jobs: Vec::new() };
        for device in groups.iter().flat_map(|group| &group.devices) {
            if !load.targets.iter().any(|target| target.device == *device) {
                load.targets.push(target(host, *device, groups)?);
            }
        }
        for group in groups {
            for device in &group.devices {
                let place = load.targets.iter().position(|target| target.device == *device).unwrap_or(0);
                for of_group in 0..group.options.numjobs {
                    let number = first_job + load.jobs.len() as u32;
                    let options = group.options.of_job(of_group);
                    load.jobs.push((place, Job::new(&options, number, host.stack(), &mut load.targets[place])?));
                }
            }
        }
        Ok(load)
    }

    /// Runs the jobs to their end, or until they are told to stop; returns them, device by device.
    pub fn run<H: Host>(mut self, host: &mut H, progress: &Progress) -> Result<Vec<Job>, String> {
        let start = host.turn(false)?;
        self.jobs.iter_mut().for_each(|(_, job)| job.start(start));
        let (mut sampled, mut idle_turns, mut stopped) = (start, 0, None);
        loop {
            let pause = self.jobs.iter().filter_map(|(_, job)| job.pauses_until()).min();
            if let Some(until) = pause {
                host.alarm(until);
            }
            let now = host.turn(self.in_flight() > 0)?;
            let done = self.pump(host, now);
            if self.jobs.iter().all(|(_, job)| job.is_done()) {
                break;
            }
            idle_turns = if done == 0 && self.in_flight() == 0 && pause.is_none() { idle_turns + 1 } else { 0 };
            if idle_turns > IDLE_TURNS {
                self.jobs.iter_mut().for_each(|(_, job)| job.starve(now));
            }
            if progress.stop.load(Relaxed) {
                self.jobs.iter_mut().for_each(|(_, job)| job.stop());
                if now.since(*stopped.get_or_insert(now)) > PATIENCE {
                    break;
                }
            }
            let span = now.since(sampled);
            if span >= SAMPLE {
                self.sample(now, span, progress);
                progress.ran.store(now.since(start).as_nanos(), Relaxed);
                sampled = now;
            }
        }
        self.sample(sampled, Duration::ZERO, progress);
        Ok(self.jobs.into_iter().map(|(_, job)| job).collect())
    }

    #[inline]
    fn pump<H: Host>(&mut self, host: &mut H, now: Instant) -> usize {
        let mut done = 0;
        let clock = host.clock();
        let stack = host.stack();
        self.targets.iter_mut().for_each(|target| target.zones.begin_turn());
        for (place, job) in &mut self.jobs {
            done += job.pump(&mut Turn { stack, target: &mut self.targets[*place], now, clock });
        }
        done
    }

    fn in_flight(&self) -> usize {
        self.jobs.iter().map(|(_, job)| job.in_flight()).sum()
    }

    fn sample(&mut self, now: Instant, span: Duration, progress: &Progress) {
        let mut ios = [0; 3];
        let mut bytes = [0; 3];
        for (_, job) in &mut self.jobs {
            let block = u64::from(job.options().block_bytes);
            for direction in Direction::ALL {
                let flow = &mut job.stats.flows[direction as usize];
                if span >= SAMPLE {
                    flow.sample(span.as_nanos());
                }
                ios[direction as usize] += flow.ios();
                bytes[direction as usize] += flow.ios() * block;
            }
        }
        for direction in 0..3 {
            progress.ios[direction].store(ios[direction], Relaxed);
            progress.bytes[direction].store(bytes[direction], Relaxed);
        }
        let least = self.jobs.iter().map(|(_, job)| job.progress(now)).fold(1.0, f64::min);
        progress.done_ppm.store((least.clamp(0.0, 1.0) * 1e6) as u64, Relaxed);
    }
}

/// Asks a zoned device for all its zones; a regular device has none.
pub fn report_zones(host: &mut impl Host, device: DeviceId) -> Result<Vec<Zone>, String> {
    let zones = host.stack().limits(device).zones() as usize;
    if zones == 0 {
        return Ok(Vec::new());
    }
    let port = host.stack().open_port();
    let report = Bio::new(Op::ReportZones, Sector::ZERO, 0, Payload::Zones(Vec::with_capacity(zones)));
    host.stack().submit(port, 0, device, Box::new(report));
    let mut start = None;
    loop {
        let now = host.turn(true)?;
        if let Some(mut completion) = host.stack().poll_completion(port) {
            return match std::mem::take(&mut completion.bio.payload) {
                Payload::Zones(zones) if completion.status.is_ok() => Ok(zones),
                _ => Err(format!("the device did not report its zones: {}", completion.status)),
            };
        }
        if now.since(*start.get_or_insert(now)) > PATIENCE {
            return Err("the device did not report its zones in time: look for stuck I/O below it".into());
        }
    }
}

/// A stack of memory devices, turned as fast as the thread goes.
pub struct Bare {
    stack: Stack,
    clock: Clock,
}

impl Bare {
    /// Runs `stack`.
    pub fn new(stack: Stack) -> Self {
        Self { stack, clock: Clock::start() }
    }
}

impl Host for Bare {
    fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    #[inline]
    fn turn(&mut self, _in_flight: bool) -> Result<Instant, String> {
        let now = self.clock.now();
        self.stack.turn(now);
        Ok(now)
    }

    fn clock(&self) -> Clock {
        self.clock
    }
}

/// A shard: the same loop with an io_uring, for real disks.
pub struct Sharded {
    /// The shard.
    pub shard: Shard,
    clock: Clock,
}

impl Sharded {
    /// Runs `shard`.
    pub fn new(shard: Shard) -> Self {
        Self { shard, clock: Clock::start() }
    }
}

impl Host for Sharded {
    fn stack(&mut self) -> &mut Stack {
        &mut self.shard.stack
    }

    fn turn(&mut self, in_flight: bool) -> Result<Instant, String> {
        if !in_flight {
            self.shard.hurry();
        }
        self.shard.round().map_err(|error| error.to_string())?;
        Ok(self.shard.now())
    }

    fn clock(&self) -> Clock {
        self.clock
    }
}
