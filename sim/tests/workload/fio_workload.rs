//! fio's zoned modes in virtual time: what a job may have in flight, and what it waits for.

use shingle_core::block::{Action, Op, Stack, TraceEvent};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::time::{Duration, Instant};
use shingle_sim::workload::fio::{Fio, FioOptions, Host, Pattern};
use shingle_sim::{Stop, World};

const ZONE: u64 = 128;

/// A plug over 16 zones of 64 KiB whose commands take 100 us, and one run on it; with the trace of what entered the plug.
fn run(options: FioOptions) -> (World, Vec<TraceEvent>) {
    let mut stack = Stack::new();
    let zones = NullZones { conventional: 2, ..NullZones::new(ZONE) };
    let config = NullConfig { completion: Duration::from_micros(100), ..NullConfig::zoned(16 * ZONE, zones) };
    let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
    let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
    let top = stack.add(Box::new(plug)).unwrap();
    stack.set_trace(Some(1 << 20));
    let mut world = World::new(stack);
    world.add(Box::new(Fio::new(top, options)));
    assert_eq!(world.run(Instant(u64::MAX)), Stop::Done);
    let trace = world.stack.trace().unwrap();
    let events: Vec<_> = core::iter::from_fn(|| trace.pop()).collect();
    assert_eq!(trace.lost(), 0);
    (world, events.into_iter().filter(|event| event.device == top).collect())
}

fn options() -> FioOptions {
    FioOptions { block_sectors: 8, runtime: Duration::from_millis(50), ..FioOptions::default() }
}

fn fio(world: &World) -> &Fio {
    let fio = world.actor::<Fio>(0).unwrap();
    assert_eq!(fio.first_error(), None);
    fio
}

/// The most bios that were in flight at once, in the whole and in one zone.
fn most_in_flight(events: &[TraceEvent]) -> (usize, usize) {
    let (mut zones, mut most) = ([0usize; 16], (0, 0));
    for event in events.iter().filter(|event| matches!(event.op, Op::Write | Op::Read)) {
        let zone = &mut zones[(event.sector.0 / ZONE) as usize];
        match event.action {
            Action::Queue => *zone += 1,
            Action::Complete => *zone -= 1,
            _ => (),
        }
        most = (most.0.max(zones.iter().sum()), most.1.max(*zones.iter().max().unwrap()));
    }
    most
}

fn submitted(events: &[TraceEvent], op: Op) -> Vec<u64> {
    events.iter().filter(|e| e.action == Action::Queue && e.op == op).map(|e| e.sector.0).collect()
}

#[test]
fn a_sequential_job_keeps_its_depth_and_goes_from_zone_to_zone() {
    let (world, events) = run(FioOptions { iodepth: 6, zones: Some(10), ..options() });
    assert_eq!(most_in_flight(&events), (6, 6));
    let starts = submitted(&events, Op::Write);
    let expected = (0..starts.len() as u64).map(|n| 2 * ZONE + n * 8 % (10 * ZONE));
    assert!(starts.iter().copied().eq(expected), "one after the other, around the region");
    assert!(fio(&world).writes().bytes > 0);
}

#[test]
fn a_region_that_is_full_is_reset_zone_by_zone_with_nothing_in_flight() {
    let (_, events) = run(FioOptions { iodepth: 4, zones: Some(2), ..options() });
    let mut in_flight = 0;
    for event in &events {
        match (event.action, event.op) {
            (Action::Queue, Op::ZoneReset) => assert_eq!(in_flight, 0, "a job waits for its own I/Os before a reset"),
            (Action::Queue, Op::Write) => in_flight += 1,
            (Action::Complete, Op::Write) => in_flight -= 1,
            _ => (),
        }
    }
    assert!(submitted(&events, Op::ZoneReset).len() > 2);
}

#[test]
fn a_zone_belongs_to_one_job_at_a_time_so_many_jobs_on_two_zones_have_little_in_flight() {
    let crowd = FioOptions { pattern: Pattern::RandomZones, iodepth: 32, jobs: 16, zones: Some(2), ..options() };
    let (_, events) = run(crowd);
    let (all, _) = most_in_flight(&events);
    assert!(all < 64, "{all} of 512 in flight: jobs that meet wait for all of their own I/Os");
    let alone = FioOptions { pattern: Pattern::RandomZones, iodepth: 32, zones: Some(8), ..options() };
    let (_, events) = run(alone);
    assert_eq!(most_in_flight(&events).0, 32, "a job alone never waits for a lock");
}

#[test]
fn no_more_zones_are_written_at_once_than_allowed() {
    let limited = FioOptions { pattern: Pattern::RandomZones, iodepth: 8, max_open_zones: Some(3), ..options() };
    let (_, events) = run(limited);
    let mut open = std::collections::BTreeMap::new();
    for start in submitted(&events, Op::Write) {
        let left = open.entry(start / ZONE).or_insert(ZONE);
        *left -= 8;
        if *left == 0 {
            open.remove(&(start / ZONE));
        }
        assert!(open.len() <= 3, "{open:?}");
    }
}

#[test]
fn reads_hit_only_what_was_written_and_come_in_the_share_asked_for() {
    let mixed = FioOptions { pattern: Pattern::RandomZones, iodepth: 4, read_percent: 70, ..options() };
    let (world, events) = run(mixed);
    let (reads, writes) = (fio(&world).reads().ios, fio(&world).writes().ios);
    assert!((60..80).contains(&(reads * 100 / (reads + writes))), "{reads} reads, {writes} writes");
    let mut written = std::collections::BTreeSet::new();
    for event in events.iter().filter(|event| event.action == Action::Queue) {
        match event.op {
            Op::Write => drop(written.insert(event.sector.0)),
            Op::Read => assert!(written.contains(&event.sector.0), "{event}"),
            Op::ZoneReset => written.retain(|at| at / ZONE != event.sector.0 / ZONE),
            _ => (),
        }
    }
}

#[test]
fn a_thread_that_needs_time_for_each_submission_bounds_the_rate() {
    let host = Host { submit: Duration::from_micros(300), complete: Duration::from_micros(200), ..Host::default() };
    let (world, _) = run(FioOptions { iodepth: 16, host, runtime: Duration::from_millis(1_000), ..options() });
    let iops = fio(&world).writes().iops(world.now());
    assert!((1_900.0..2_020.0).contains(&iops), "{iops}: 500 us of processor each make 2,000 a second");
}

#[test]
fn at_depth_one_the_thread_and_the_disk_take_turns() {
    let us = Duration::from_micros;
    let host = Host { submit: us(30), complete: us(20), rouse: us(50), ..Host::default() };
    let (world, _) = run(FioOptions { host, ..options() });
    // 16 of them in a zone, then a reset that takes 100 us: 50 ms are 247 writes.
    let ios = fio(&world).writes().ios;
    assert!((235..=250).contains(&ios), "{ios}: 30 us, 100 us in the disk, 50 us and 20 us each");
}

#[test]
fn a_thread_that_sends_what_waits_takes_the_processor_from_the_job() {
    let iops = |hop| {
        let host = Host { hop: Duration::from_micros(hop), ..Host::default() };
        let (world, _) = run(FioOptions { iodepth: 2, host, runtime: Duration::from_millis(1_000), ..options() });
        fio(&world).writes().iops(world.now())
    };
    // A write takes 100 us in the disk, one after the other. With the hop the job cannot go on for 400 us after each.
    assert!((9_000.0..10_010.0).contains(&iops(0)), "{}", iops(0));
    assert!((2_400.0..2_600.0).contains(&iops(400)), "{}", iops(400));
}

#[test]
fn appends_land_in_the_zones_of_the_run() {
    let (world, events) = run(FioOptions { append: true, iodepth: 4, zones: Some(4), ..options() });
    assert!(fio(&world).writes().ios > 100);
    assert!(submitted(&events, Op::ZoneAppend).iter().all(|at| at.is_multiple_of(ZONE)));
}
