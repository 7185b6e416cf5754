//! Reading ahead on disks with a head, over the model of one.

use shingle_core::block::{Bio, DeviceId, Payload, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::stl::Options;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_drives::smr::{SmrConfig, SmrDisk};

use crate::shingled::{Volume, ZONE as ZONE_BLOCKS, disk, read, small, write};

/// The disk below its plug.
const LEAF: DeviceId = DeviceId(0);
/// Sectors of a zone: 64 MiB.
const ZONE: u64 = 1 << 17;
/// Blocks of a read: 1 MiB.
const LONG: u64 = 256;
/// Reads of each kind.
const COUNT: u64 = 300;

fn volume() -> Volume {
    let mut stack = Stack::new();
    let config = SmrConfig { capacity: 400 * ZONE, zone_sectors: ZONE, conventional: 0, ..SmrConfig::new(400) };
    let disk = stack.add(Box::new(SmrDisk::new(&config).unwrap())).unwrap();
    Volume::on(stack, vec![disk], 70, Options::default())
}

/// Runs these, `depth` at a time: MB a second.
fn rate(volume: &mut Volume, to: DeviceId, bios: impl Iterator<Item = Bio>, depth: usize) -> f64 {
    let (began, mut bytes, mut under_way) = (volume.rig.now, 0, 0);
    let mut end = |volume: &mut Volume| {
        let done = volume.rig.next();
        assert_eq!(done.status, Status::Ok);
        bytes += done.bio.payload.bytes();
    };
    for bio in bios {
        if under_way == depth {
            end(volume);
            under_way -= 1;
        }
        volume.rig.queue(to, bio);
        under_way += 1;
    }
    (0..under_way).for_each(|_| end(volume));
    bytes as f64 * 1e3 / volume.rig.now.since(began).0 as f64
}

fn long_reads(volume: &mut Volume, depth: usize) -> f64 {
    let top = volume.rig.top;
    rate(volume, top, (0..COUNT).map(|number| read(number * LONG, LONG as u32)), depth)
}

#[test]
fn what_was_written_in_order_is_read_at_nine_tenths_of_the_rate_of_the_disk() {
    let mut volume = volume();
    let top = volume.rig.top;
    rate(&mut volume, top, (0..COUNT).map(|number| write(number * LONG, LONG as u32, number as u8)), 4);
    volume.reload();
    volume.read(0, 1);
    let disk = SmrConfig::new(400).media.outer_rate / 1e6;
    for depth in [1, 4] {
        let found = long_reads(&mut volume, depth);
        assert!(found > 0.9 * disk, "{found} MB/s at depth {depth}, {disk} of the disk");
    }
}

/// A volume on a small disk with a head, and what it has: every block has another byte than those beside it.
fn small_volume() -> (Volume, Vec<u8>) {
    let rotational = NullConfig { rotational: true, ..disk(60, Some(0)) };
    let mut volume = Volume::new(&[rotational], 200, Options { ahead_blocks: 16, ..small() });
    let model: Vec<u8> = (0..volume.blocks / 8 * 8).map(|block| 1 + (block % 200) as u8).collect();
    let bytes = |block: u64| {
        let bio = write(block, 8, 0);
        let Payload::Data(data) = &bio.payload else { panic!("no data") };
        (0..8).for_each(|at| data.slice(at * 4096, 4096).fill(model[block as usize + at]));
        bio
    };
    for block in (0..volume.blocks / 8).map(|number| number * 8) {
        assert_eq!(volume.run(bytes(block)).1, Status::Ok);
    }
    volume.reload();
    (volume, model)
}

/// Reads blocks in order, some at a time: those that cannot be read.
fn read_in_order(volume: &mut Volume, model: &[u8]) -> Vec<u64> {
    let mut refused = Vec::new();
    for block in (0..model.len() as u64 / 4).map(|number| number * 4) {
        let (bio, status) = volume.run(read(block, 4));
        match status {
            Status::Ok => {
                let Payload::Data(data) = &bio.payload else { panic!("no data") };
                let found: Vec<u8> = data.to_vec().chunks(4096).map(|block| block[7]).collect();
                assert_eq!(found, model[block as usize..][..4], "from block {block} on");
            }
            _ => refused.push(block),
        }
    }
    refused
}

#[test]
fn what_is_read_ahead_is_what_was_written_also_after_it_was_written_again_and_cleaned() {
    let (mut volume, mut model) = small_volume();
    let mut rng = Rng::new(5);
    for round in 0..6 {
        assert_eq!(read_in_order(&mut volume, &model), []);
        for _ in 0..400 {
            let (block, byte) = (rng.below(model.len() as u64), 1 + rng.below(255) as u8);
            volume.write(block, 1, byte);
            model[block as usize] = byte;
        }
        let length = 64 * (1 + round);
        (0..length).for_each(|block| volume.write(block, 1, model[block as usize]));
    }
    let counters = volume.counters();
    assert!(counters.cleaned_zones > 20 && counters.ahead_blocks > 1_000, "{counters:?}");
}

/// Where on the disk something of this byte is.
fn place_of(volume: &mut Volume, byte: u8) -> Sector {
    let has = |volume: &mut Volume, block: u64| {
        let done = volume.rig.finish(LEAF, read(block, 1));
        let Payload::Data(data) = &done.bio.payload else { panic!("no data") };
        data.to_vec().iter().all(|found| *found == byte)
    };
    let block = (2 * u64::from(ZONE_BLOCKS)..).find(|block| has(volume, *block)).unwrap();
    Sector(block * 8)
}

#[test]
fn a_block_that_cannot_be_read_fails_reads_of_it_alone_though_it_is_read_ahead_with_others() {
    let (mut volume, model) = small_volume();
    let place = place_of(&mut volume, 102);
    volume.rig.stack.with_device(LEAF, |disk: &mut NullDevice, _| disk.add_bad_blocks(place..Sector(place.0 + 8)));
    for _ in 0..2 {
        let refused = read_in_order(&mut volume, &model);
        assert!(volume.counters().ahead_blocks > 200, "{:?}", volume.counters());
        assert!(matches!(refused[..], [block] if model[block as usize..][..4].contains(&102)), "{refused:?}");
    }
}
