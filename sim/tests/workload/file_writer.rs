//! The file system that appends: what it sends to a disk, and in which order.

use shingle_core::block::{Action, Op, Stack, TraceEvent};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::time::{Duration, Instant};
use shingle_sim::workload::files::{FileOptions, FileWriter};
use shingle_sim::workload::fio::Host;
use shingle_sim::{Stop, World};

const ZONE: u64 = 2048;

fn run(options: FileOptions, native: bool, policy: WritePolicy) -> (World, Vec<TraceEvent>) {
    let mut stack = Stack::new();
    let zones =
        NullZones { conventional: 1, max_append: native.then_some(256), max_active: Some(3), ..NullZones::new(ZONE) };
    let zones = NullZones { zone_capacity: Some(1800), ..zones };
    let config = NullConfig { completion: Duration::from_micros(100), ..NullConfig::zoned(9 * ZONE, zones) };
    let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
    let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions { policy, ..PlugOptions::default() }).unwrap();
    let top = stack.add(Box::new(plug)).unwrap();
    stack.set_trace(Some(1 << 20));
    let mut world = World::new(stack);
    world.add(Box::new(FileWriter::new(top, options)));
    assert_eq!(world.run(Instant(u64::MAX)), Stop::Done);
    assert!(!writer(&world).has_failed());
    let trace = world.stack.trace().unwrap();
    let events: Vec<_> = core::iter::from_fn(|| trace.pop()).collect();
    (world, events.into_iter().filter(|event| event.device == top && event.action == Action::Queue).collect())
}

fn writer(world: &World) -> &FileWriter {
    world.actor(0).unwrap()
}

fn options() -> FileOptions {
    FileOptions { file_sectors: 1000, block_sectors: 256, runtime: Duration::from_millis(50), ..FileOptions::default() }
}

fn count(events: &[TraceEvent], op: Op) -> u64 {
    events.iter().filter(|event| event.op == op).count() as u64
}

#[test]
fn files_fill_zone_after_zone_and_full_zones_are_reset_when_none_is_left() {
    for policy in [WritePolicy::Plug, WritePolicy::ZoneLock] {
        for native in [true, false] {
            let (world, events) = run(options(), native, policy);
            let writer = writer(&world);
            let bytes = writer.tally.bytes;
            assert!(bytes > 6 * 1800 * 512, "{bytes} bytes are more than the zones there are");
            assert!(count(&events, Op::ZoneReset) > 0);
            // What is full is full: nothing was left out at the end of a zone.
            let appended: u64 =
                events.iter().filter(|event| event.op == Op::ZoneAppend).map(|event| u64::from(event.sectors)).sum();
            assert!(appended * 512 >= bytes && appended * 512 < bytes + 17 * 256 * 512);
        }
    }
}

#[test]
fn every_finished_file_brings_its_tree_blocks_in_a_zone_of_their_own() {
    let (world, events) = run(options(), true, WritePolicy::Plug);
    let files = writer(&world).files;
    let trees = count(&events, Op::Write);
    assert!(files > 10 && trees <= files * 24 && trees + 48 >= files * 24, "{files} files, {trees} tree blocks");
    let mut at = None;
    for event in events.iter().filter(|event| event.op == Op::Write) {
        let continues = at == Some(event.sector.0);
        assert!(continues || event.sector.0.is_multiple_of(ZONE), "tree blocks follow each other: {event}");
        at = Some(event.sector.0 + u64::from(event.sectors));
    }
}

#[test]
fn a_driver_that_retries_keeps_one_append_in_flight_and_waits_in_between() {
    let retry = Duration::from_micros(300);
    let (world, _) =
        run(FileOptions { retry: Some(retry), metadata_writes: 0, ..options() }, false, WritePolicy::ZoneLock);
    // 100 us in the disk, 300 us until the next try.
    let ios = writer(&world).tally.ios;
    assert!((120..=126).contains(&ios), "{ios}");
}

#[test]
fn the_gap_between_files_and_the_time_of_the_thread_count() {
    let host = Host { submit: Duration::from_micros(40), complete: Duration::from_micros(10), ..Host::default() };
    let gap = Duration::from_micros(650);
    let (world, _) = run(FileOptions { host, gap, metadata_writes: 0, ..options() }, true, WritePolicy::Plug);
    // Four appends (and a fifth if a zone ends in between) of 50 us, 100 us for the last one, and the gap.
    let files = writer(&world).files;
    assert!((50_000 / 1000..=50_000 / 850).contains(&files), "{files}");
}
