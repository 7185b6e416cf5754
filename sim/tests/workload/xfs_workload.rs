//! The buffered writers of XFS: every file's data goes to its writer's zone, in order, within the window.

use shingle_core::block::Stack;
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::Condition;
use shingle_sim::workload::xfs::{Xfs, XfsOptions};
use shingle_sim::{Stop, World};

const ZONE: u64 = 2048;

/// A null device of `zones` zones of 1 MiB under a plug, each write of which takes 10 us.
fn run(zones: u64, options: XfsOptions) -> World {
    let mut config = NullConfig::zoned(zones * ZONE, NullZones::new(ZONE));
    config.completion = Duration::from_micros(10);
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
    let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
    let plug = stack.add(Box::new(plug)).unwrap();
    let mut world = World::new(stack);
    world.add(Box::new(Xfs::new(plug, options)));
    assert_eq!(world.run(Instant(u64::MAX)), Stop::Done);
    world
}

fn options() -> XfsOptions {
    XfsOptions {
        writers: 4,
        file_sectors: 8..=300,
        append_sectors: 64,
        chunk_sectors: 256,
        window_sectors: 128,
        runtime: Duration::from_millis(5),
        ..XfsOptions::default()
    }
}

#[test]
fn each_writer_fills_a_zone_of_its_own_and_then_the_next_empty_one() {
    let world = run(200, options());
    let xfs: &Xfs = world.actor(0).unwrap();
    assert!(!xfs.has_failed() && !xfs.full && xfs.tally.bytes > 0);
    let disk: &NullDevice = world.stack.device(shingle_core::block::DeviceId(0)).unwrap();
    let report: Vec<_> = disk.zones().unwrap().zones(shingle_core::sector::Sector(0)).collect();
    let partly = report.iter().filter(|zone| zone.cond == Condition::ImplicitOpen).count();
    assert!(partly <= 4, "{partly} zones are partly written by 4 writers");
    let written: u64 = report.iter().filter(|zone| zone.cond == Condition::Full).count() as u64 * ZONE
        + report
            .iter()
            .filter(|zone| zone.cond == Condition::ImplicitOpen)
            .map(|zone| zone.wp - zone.start)
            .sum::<u64>();
    // The tally leaves out what ended after the planned time: at most the window.
    assert!(written * 512 >= xfs.tally.bytes && written * 512 <= xfs.tally.bytes + (128 + 64) * 512);
    assert!(report.iter().skip_while(|zone| zone.cond != Condition::Empty).all(|zone| zone.cond == Condition::Empty));
}

#[test]
fn a_disk_without_an_empty_zone_ends_the_run() {
    let world = run(6, XfsOptions { runtime: Duration::from_millis(60_000), ..options() });
    let xfs: &Xfs = world.actor(0).unwrap();
    assert!(xfs.full && !xfs.has_failed());
}

#[test]
fn a_larger_window_keeps_more_zones_busy() {
    let rate = |window_sectors| {
        let world = run(4000, XfsOptions { window_sectors, chunk_sectors: 64, ..options() });
        world.actor::<Xfs>(0).unwrap().tally.bytes
    };
    assert!(rate(256) > 2 * rate(64), "{} against {}", rate(256), rate(64));
}
