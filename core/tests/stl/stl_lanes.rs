//! To which open zones `stl` writes: on drives that take the time that real ones take.

use shingle_core::block::{DeviceId, Stack, Status};
use shingle_core::device::{NullConfig, NullZones};
use shingle_core::dm::stl::Options;
use shingle_core::dm::stl::log::Stream;
use shingle_core::dm::stl::tools::{self, Findings};
use shingle_core::random::Rng;
use shingle_core::time::Duration;
use shingle_drives::smr::{SmrConfig, SmrDisk};
use shingle_drives::ssd::{Ssd, SsdConfig};

use crate::shingled::shelf::taken_out;
use crate::shingled::{Volume, disk, small, write};

/// Sectors of a zone.
const ZONE: u64 = 1 << 16;

fn smr(stack: &mut Stack) -> DeviceId {
    let config = SmrConfig { capacity: 400 * ZONE, zone_sectors: ZONE, conventional: 0, ..SmrConfig::new(400) };
    stack.add(Box::new(SmrDisk::new(&config).unwrap())).unwrap()
}

fn ssd(stack: &mut Stack) -> DeviceId {
    let config = SsdConfig {
        capacity: 40 * ZONE,
        block_bytes: 4096,
        max_sectors: 1024,
        read_rate: 1_000_000_000,
        write_rate: 400_000_000,
        read: Duration::from_micros(90),
        write: Duration::from_micros(25),
        flush: Duration::from_micros(50),
        memory_backed: true,
    };
    stack.add(Box::new(Ssd::new(&config).unwrap())).unwrap()
}

fn volume(make: &[fn(&mut Stack) -> DeviceId], options: Options) -> Volume {
    let mut stack = Stack::new();
    let disks = make.iter().map(|make| make(&mut stack)).collect();
    Volume::on(stack, disks, 70, options)
}

/// Writes of a block, each with a flush, one after the other: how many a second.
fn flushed_writes(volume: &mut Volume, count: u64) -> f64 {
    let (began, mut rng) = (volume.rig.now, Rng::new(1));
    for _ in 0..count {
        let block = rng.below(volume.blocks);
        volume.write(block, 1, 1);
        volume.flush();
    }
    count as f64 * 1e9 / volume.rig.now.since(began).0 as f64
}

#[test]
fn writes_that_are_flushed_one_by_one_take_a_turn_each_until_there_are_zones_at_several_angles() {
    let mut one = volume(&[smr], Options { flushes_in_a_row: u32::MAX, ..Options::default() });
    let one = flushed_writes(&mut one, 300);
    assert!((110.0..125.0).contains(&one), "{one} a second");
    let mut several = volume(&[smr], Options::default());
    flushed_writes(&mut several, 300);
    let several = flushed_writes(&mut several, 600);
    assert!(several > 300.0, "{several} a second");
}

#[test]
fn writes_that_are_flushed_one_by_one_go_to_an_ssd_if_there_is_one() {
    for order in [[ssd as fn(&mut Stack) -> DeviceId, smr], [smr, ssd]] {
        let mut volume = volume(&order, Options::default());
        let found = flushed_writes(&mut volume, 1000);
        assert!(found > 4_000.0, "{found} a second");
    }
}

/// Long writes, so many at a time: MB a second.
fn long_writes(volume: &mut Volume, count: u64) -> f64 {
    let began = volume.rig.now;
    for number in 0..count {
        volume.rig.queue(volume.rig.top, write(number * 256, 256, 1));
        if number >= 16 {
            assert_eq!(volume.rig.next().status, Status::Ok);
        }
    }
    (0..16).for_each(|_| assert_eq!(volume.rig.next().status, Status::Ok));
    let bytes = count * 256 * 4096;
    bytes as f64 * 1e3 / volume.rig.now.since(began).0 as f64
}

#[test]
fn long_writes_go_to_all_devices_side_by_side() {
    let of = |make: &[fn(&mut Stack) -> DeviceId]| long_writes(&mut volume(make, Options::default()), 600);
    let (alone, with_ssd, pair) = (of(&[smr]), of(&[ssd, smr]), of(&[smr, smr]));
    assert!(with_ssd > 1.8 * alone, "{with_ssd} MB/s with an SSD, {alone} without");
    assert!(pair > 1.7 * alone, "{pair} MB/s on two disks, {alone} on one");
}

#[test]
fn an_ssd_keeps_room_for_the_map_and_for_short_writes_when_long_ones_go_on_for_hours() {
    let mut volume = volume(&[ssd, smr], Options::default());
    long_writes(&mut volume, 2_000);
    let found = flushed_writes(&mut volume, 200);
    assert!(found > 3_000.0, "{found} a second when long writes have taken their share");
}

#[test]
fn what_was_written_side_by_side_is_there_after_a_start() {
    for make in [[ssd as fn(&mut Stack) -> DeviceId, smr], [smr, smr]] {
        let mut volume = volume(&make, Options::default());
        for (number, byte) in (0..200).zip(1..) {
            volume.rig.queue(volume.rig.top, write(number * 256, 256, byte));
        }
        (0..200).for_each(|_| assert_eq!(volume.rig.next().status, Status::Ok));
        // Not stopped: what it was about to do is not done.
        volume.rig.settle();
        volume.load();
        for (number, byte) in (0..200).zip(1..) {
            assert_eq!(volume.read(number * 256, 256), [byte; 256]);
        }
    }
}

/// The open zones that users have written to side by side on the second of two devices, which allows `most` active zones.
fn zones_beside(most: Option<u32>) -> usize {
    let free = disk(60, Some(0));
    let zoned = free.zoned.clone().map(|zones| NullZones { max_active: most, ..zones });
    let mut volume = Volume::new(&[free.clone(), NullConfig { zoned, ..free }], 100, small());
    for number in 0..volume.blocks / 32 {
        volume.rig.queue(volume.rig.top, write(number * 16, 16, 1));
    }
    (0..volume.blocks / 32).for_each(|_| assert_eq!(volume.rig.next().status, Status::Ok));
    volume.stop();
    let found = tools::Volume::find(&mut taken_out(&mut volume), &mut Findings::default()).unwrap();
    let rows = found.zones[60..].iter().flatten();
    rows.filter(|row| row.stream == Stream::Side as u8).count()
}

/// The base lanes of a volume need seven active zones of a device; side zones are opened only if the device allows more.
#[test]
fn a_device_gets_zones_beside_the_others_if_it_allows_more_active_zones() {
    let counts = [Some(7), Some(8), None].map(zones_beside);
    assert!(counts[0] == 0 && counts[1] > 0 && counts[2] > 0, "{counts:?}");
}

/// Blocks that were copied for a hundred that users wrote: half of these in order, over four fifths of the blocks, and
/// half at random over the others.
fn copied_percent(disk: NullConfig) -> u64 {
    let mut volume = Volume::new(&[disk], 100, Options { replay_blocks: 500, pending_bytes: 32_768, ..small() });
    let (mut rng, blocks, mut next, mut before) = (Rng::new(1), volume.blocks * 8 / 10, 0, volume.counters());
    let in_order = blocks * 4 / 5 / 8 * 8;
    for turn in 0..6 * blocks / 16 {
        if turn == 3 * blocks / 16 {
            before = volume.counters();
        }
        volume.write(next, 8, turn as u8);
        next = (next + 8) % in_order;
        for _ in 0..8 {
            let block = in_order + rng.below(blocks - in_order);
            volume.write(block, 1, turn as u8);
        }
    }
    let after = volume.counters();
    (after.copied_blocks - before.copied_blocks) * 100 / (after.user_blocks - before.user_blocks)
}

/// It dies together. Without such zones 69 % are copied.
#[test]
fn what_is_written_in_order_goes_to_zones_of_its_own_on_a_device_without_a_head() {
    let percent = copied_percent(disk(700, Some(0)));
    assert!(percent < 60, "{percent} % were copied");
}
