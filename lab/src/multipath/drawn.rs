//! Sets of paths and loads that are drawn: what a policy is measured with that nobody could fit to them.
//!
//! Committed before any policy of ours was. Each number has a range in which such things lie in practice, as far as is known; a range over
//! several powers of ten is drawn by its logarithm. Windows repeat within the time of a trial, so that chance evens out.

use shingle_core::random::Rng;
use shingle_core::time::Duration;
use shingle_drives::{ArrayConfig, LinkConfig, RamConfig, Refusals, ServiceTime, Step, Steps, Traffic, Windows};
use shingle_host::profile::{PathProfile, PathSet};

use super::load::{Arrival, Load};

/// A set with a load.
pub struct Drawn {
    /// The paths.
    pub set: PathSet,
    /// What is sent over them.
    pub load: Load,
}

/// The set and the load of this number.
#[must_use]
pub fn draw(number: u64) -> Drawn {
    let mut rng = Rng::new(number ^ 0x7061_7468);
    let (count, hosts) = (2 + rng.below(5) as usize, [1u32, 1, 1, 2][rng.below(4) as usize]);
    let disk = draw_disk(&mut rng);
    let array = rng.chance(1, 5).then(|| draw_array(count, &disk, &mut rng));
    let all = draw_link(&mut rng);
    let trouble = rng.below(KINDS);
    // On symmetric paths in one of three sets, and trouble on one of them or on all.
    let is_alike = rng.chance(1, 3);
    let troubled = rng.below(count as u64 + 1) as usize;
    let mut paths = Vec::new();
    for place in 0..count {
        let mut link = if is_alike { all.clone() } else { vary(&all, &mut rng) };
        if troubled == count || troubled == place {
            add_trouble(&mut link, trouble, &mut rng);
        }
        let controller = array.as_ref().map(|_| place);
        for host in 0..hosts {
            let (name, host) = (format!("path{place}-{host}"), format!("host{host}"));
            paths.push(PathProfile { name, host, controller, through: None, optimized: true, link: link.clone() });
        }
    }
    let servers = array.as_ref().map_or(disk.servers, |array| array.servers.min(disk.servers));
    let load = draw_load(&all, &RamConfig { servers, ..disk.clone() }, hosts, &mut rng);
    let (name, description) = (format!("drawn-{number}"), format!("drawn by number {number}"));
    Drawn { set: PathSet { name, description, disk, array, segments: Vec::new(), paths }, load }
}

/// Kinds of trouble, the first of which is none.
const KINDS: u64 = 8;

fn draw_disk(rng: &mut Rng) -> RamConfig {
    let (read, write) = (log(20, 2_000, rng), log(20, 500, rng));
    let time = |mean: u64, rng: &mut Rng| shape(us(mean), 20 + rng.below(80), rng);
    let (read, write) = (time(read, rng), time(write, rng));
    RamConfig { servers: log(8, 256, rng) as u32, read, write, memory_backed: false, ..RamConfig::new(1 << 25) }
}

/// Controllers of different weights, before a disk.
fn draw_array(count: usize, disk: &RamConfig, rng: &mut Rng) -> ArrayConfig {
    let weights = (0..count).map(|_| log(10, 300, rng) as u32).collect();
    let (read, write) = (disk.read.clone(), disk.write.clone());
    ArrayConfig { weights, servers: log(8, 64, rng) as u32, read, write, seed: 1 }
}

fn draw_link(rng: &mut Rng) -> LinkConfig {
    let way = log(5, 500, rng);
    let time = if rng.chance(1, 2) { ServiceTime::Constant(us(way)) } else { shape(us(way), 10 + rng.below(90), rng) };
    LinkConfig {
        rate: Some(log(110, 3_200, rng) * 1_000_000),
        depth: Some([32, 64, 128, 1024][rng.below(4) as usize]),
        there: time.clone(),
        back: time,
        ordered: rng.chance(1, 3),
        keep_data: false,
        ..LinkConfig::default()
    }
}

/// A link that is up to eight times as long and as slow as this one.
fn vary(of: &LinkConfig, rng: &mut Rng) -> LinkConfig {
    let (longer, slower) = (log(10, 80, rng), log(10, 80, rng));
    let time = |time: &ServiceTime| ServiceTime::Constant(Duration(time.mean().0 * longer / 10));
    LinkConfig {
        there: time(&of.there),
        back: time(&of.back),
        rate: of.rate.map(|rate| rate * 10 / slower),
        ..of.clone()
    }
}

fn add_trouble(link: &mut LinkConfig, kind: u64, rng: &mut Rng) {
    let round_trip = link.there.mean().0 + link.back.mean().0;
    let windows = |every: (u64, u64), length: (u64, u64), rng: &mut Rng| Windows::Drawn {
        every: ServiceTime::Exponential(us(log(every.0, every.1, rng))),
        length: ServiceTime::Exponential(us(log(length.0, length.1, rng))),
    };
    match kind {
        1 => link.there = shape(link.there.mean(), 150, rng),
        2 => link.stalls = windows((50_000, 500_000), (1_000, 50_000), rng),
        3 => link.write_stalls = windows((5_000, 50_000), (500, 5_000), rng),
        4 => link.steps = draw_steps(round_trip, rng),
        5 => {
            let busy = us(log(50, 500, rng));
            let every = ServiceTime::Exponential(Duration(busy.0 * 100 / (10 + rng.below(60))));
            link.traffic = Some(Traffic { every, busy: ServiceTime::Exponential(busy) });
        }
        6 => {
            let windows = windows((100_000, 500_000), (2_000, 20_000), rng);
            link.refusals = Refusals { windows, ppm: 1_000_000, after: us(log(1, 50, rng)) };
        }
        7 => {
            link.steps = Steps {
                steps: [Step { at: Duration::ZERO, there: us(log(1_000, 30_000, rng)), back: Duration::ZERO }].into(),
                period: None,
            }
        }
        _ => {}
    }
}

/// A latency that changes twice within a period.
fn draw_steps(round_trip: u64, rng: &mut Rng) -> Steps {
    let period = Duration::from_micros(log(50_000, 1_000_000, rng));
    let from = Duration(period.0 / 4 + rng.below(period.0 / 4));
    let there = Duration(round_trip * (1 + rng.below(20)));
    let none = Step { at: Duration::ZERO, there: Duration::ZERO, back: Duration::ZERO };
    Steps { steps: [none, Step { at: from, there, ..none }].into(), period: Some(period) }
}

fn draw_load(link: &LinkConfig, disk: &RamConfig, hosts: u32, rng: &mut Rng) -> Load {
    let jobs = log(1, 128, rng) as u32;
    let reads = [0, 50, 70, 100, 100][rng.below(5) as usize];
    let bytes = [vec![512], vec![4096], vec![32 << 10], vec![4096, 4096, 64 << 10]][rng.below(4) as usize].clone();
    let longest = u64::from(bytes.iter().copied().max().unwrap_or(512));
    // Open loads are below what the least of the parts carries.
    let disk_rate = u64::from(disk.servers) * 1_000_000_000 / disk.read.mean().0.max(disk.write.mean().0).max(1);
    let carried = disk_rate.min(link.rate.unwrap_or(u64::MAX) / longest / 8).clamp(100, 100_000);
    let submitters = [1, 1, 2, 4][rng.below(4) as usize];
    let arrival = match rng.chance(1, 3) {
        true => Arrival::Open((carried * (10 + rng.below(70)) / 100 / u64::from(submitters * hosts)).max(50) as u32),
        false => Arrival::Closed(jobs),
    };
    let (ramp, length) = (Duration::from_millis(300), Duration::from_millis(2_000));
    Load { arrival, reads, bytes, submitters, ramp, length }
}

/// A time of this mean, with a deviation of so many percent of it.
fn shape(mean: Duration, percent: u64, rng: &mut Rng) -> ServiceTime {
    let deviation = Duration((mean.0 * percent / 100).max(1));
    match rng.below(3) {
        0 => ServiceTime::LogNormal(mean, deviation),
        1 => ServiceTime::Gamma(mean, deviation),
        _ => ServiceTime::Exponential(mean),
    }
}

/// A number from `from` to `to`; each power of ten is equally likely.
fn log(from: u64, to: u64, rng: &mut Rng) -> u64 {
    let part = rng.below(1 << 20) as f64 / f64::from(1 << 20);
    ((from as f64).ln() + part * ((to as f64).ln() - (from as f64).ln())).exp().round() as u64
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}
