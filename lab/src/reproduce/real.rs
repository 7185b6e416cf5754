//! The null device, for real: the load generator in this process, by this machine's clock.
//!
//! What counts is how policies compare, and a shared machine is faster in one second than in the next. So all policies of a
//! load run within every round, in an order that turns from round to round, and the comparison is the median over the rounds
//! of the ratio within a round.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use shingle_core::block::{DeviceId, Stack};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::plug::{Append, PlugOptions};

use super::outcome::Ours;
use super::plan::{Device, Load, Policy};
use super::published::Unit;
use super::rounds::{Sample, summarize};
use super::work::cores;
use crate::bench::{Bare, Direction, Failure, JobOptions, Load as Jobs, Progress, Rw};
use shingle_host::config::add_plug;

/// null_blk as published: 4096 zones of 256 MiB, no limit of open zones.
const ZONES: u64 = 4096;
const ZONE_SECTORS: u64 = (256 << 20) / 512;

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds.
    pub rounds: usize,
    /// Length of one run.
    pub run: Duration,
}

impl Effort {
    /// Figures to show.
    pub const FULL: Effort = Effort { rounds: 15, run: Duration::from_millis(60) };
    /// Figures that show that it runs.
    pub const QUICK: Effort = Effort { rounds: 2, run: Duration::from_millis(4) };
}

/// What every run has in common.
#[derive(Clone, Copy)]
struct Run<'a> {
    load: Load,
    unit: Unit,
    policy: Policy,
    time: Duration,
    stop: &'a Arc<AtomicBool>,
}

/// A rate in the unit asked for, and the longest wait of any write.
type Rate = Result<(f64, u64), String>;

/// Runs each load of `what` under its policy; the ratios are to the first of them. `tick` is called after every run. The
/// result is empty if `stop` was set.
pub fn run(
    what: &[(Policy, Load)],
    unit: Unit,
    effort: Effort,
    (stop, tick): (&Arc<AtomicBool>, &mut dyn FnMut()),
) -> Result<Vec<Ours>, String> {
    let cores = cores();
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); what.len()];
    for round in 0..effort.rounds {
        for turn in 0..what.len() {
            let place = (turn + round) % what.len();
            let (policy, load) = what[place];
            let run = Run { load, unit, policy, time: effort.run, stop };
            let (rate, longest_ns) = run.on(1)?;
            tick();
            let (all_cores, _) = run.on(cores)?;
            tick();
            if stop.load(Relaxed) {
                return Ok(Vec::new());
            }
            samples[place].push(Sample { rate, all_cores, longest_ns });
        }
    }
    let first = &samples[0];
    Ok(samples.iter().map(|samples| summarize(samples, first)).collect())
}

/// Runs that [`run`] makes.
pub fn runs(what: usize, effort: Effort) -> u64 {
    (2 * what * effort.rounds) as u64
}

impl Run<'_> {
    /// The sum of the rates of `threads` stacks that run at the same time.
    fn on(self, threads: usize) -> Rate {
        let start = Barrier::new(threads);
        let results: Vec<Rate> = thread::scope(|scope| {
            let start = &start;
            let one = |number| scope.spawn(move || self.thread(number as u32, start));
            let running: Vec<_> = (0..threads).map(one).collect();
            running.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
        });
        results.into_iter().try_fold((0.0, 0), |(sum, most), result| {
            let (rate, longest) = result?;
            Ok((sum + rate, most.max(longest)))
        })
    }

    fn thread(self, number: u32, start: &Barrier) -> Rate {
        let prepared = self.prepare(number);
        // Whatever became of the preparation: the others wait.
        start.wait();
        let (mut host, jobs) = prepared?;
        let progress = Progress { stop: self.stop.clone(), ..Progress::default() };
        let jobs = jobs.run(&mut host, &progress).map_err(|error| error.to_string())?;
        let (mut rate, mut longest) = (0.0, 0);
        for job in jobs {
            if let Some(Failure { op, sector, status, .. }) = &job.failure {
                let (op, policy) = (op.name(), self.policy.name());
                return Err(format!("{op} at sector {sector} of the null device failed under {policy}: {status}"));
            }
            let flow = job.stats.flow(Direction::Write);
            let ios_per_s = flow.ios() as f64 * 1e9 / flow.busy_ns.max(1) as f64;
            rate += self.unit.of(ios_per_s, job.options().block_bytes);
            longest = longest.max(flow.latency.summary(&[]).max);
        }
        Ok((rate, longest))
    }

    fn prepare(self, number: u32) -> Result<(Bare, Jobs), String> {
        let options = options_of(self.load, self.time)?;
        let (stack, top) = build(self.load, self.policy)?;
        let mut host = Bare::new(stack);
        let jobs = Jobs::new(&mut host, &[top], &Arc::new(options), number).map_err(|error| error.to_string())?;
        Ok((host, jobs))
    }
}

fn options_of(load: Load, time: Duration) -> Result<JobOptions, String> {
    let options = JobOptions { runtime: Some(time), time_based: true, ..JobOptions::default() };
    Ok(match load {
        Load::Sequential { block_bytes, depth } => JobOptions { rw: Rw::Write, block_bytes, iodepth: depth, ..options },
        Load::RandomZones { block_bytes, depth } => {
            JobOptions { rw: Rw::RandWrite, block_bytes, iodepth: depth, ..options }
        }
        // One file after the other, and each fills half a zone: appends to one zone after the other.
        Load::AppendFiles { .. } => {
            JobOptions { rw: Rw::Write, append: true, block_bytes: 128 << 10, iodepth: 16, ..options }
        }
        Load::SharedZones { .. } | Load::BufferedFiles { .. } => {
            return Err(format!("{load:?} is not published for the null device"));
        }
    })
}

fn build(load: Load, policy: Policy) -> Result<(Stack, DeviceId), String> {
    let emulated = load == Load::AppendFiles { emulated: true };
    let max_append = (!emulated).then_some(ZONE_SECTORS as u32);
    let zones = NullZones { max_append, ..NullZones::new(ZONE_SECTORS) };
    let null = NullDevice::new(&NullConfig::zoned(ZONES * ZONE_SECTORS, zones)).map_err(|error| error.to_string())?;
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(null)).map_err(|error| error.to_string())?;
    let append = if emulated { Append::Emulated } else { Append::Native };
    let options = PlugOptions { append, ..policy.options() };
    policy.scheduler(Device::Null).apply(&mut stack, disk);
    let plug = add_plug(&mut stack, disk, options)?;
    Ok((stack, plug.unwrap_or(disk)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_was_not_published_for_the_null_device_is_refused() {
        let stop = Arc::new(AtomicBool::new(false));
        let load = Load::SharedZones { zones: 4 };
        let error = run(&[(Policy::Plug, load)], Unit::Iops, Effort::QUICK, (&stop, &mut || ())).unwrap_err();
        assert!(error.contains("not published"), "{error}");
    }
}
