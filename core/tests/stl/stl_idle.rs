//! What `stl` does while nobody uses it.

use std::collections::BTreeMap;

use shingle_core::block::{Bio, Op, Payload, Stack, Status};
use shingle_core::dm::stl::{Options, Sabotage, Stl};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_drives::smr::{SmrConfig, SmrDisk};

use crate::shingled::{Volume, disk, small};

/// Sectors of a zone of the disk with a head: 16 MiB.
const ZONE: u64 = 1 << 15;
/// Blocks that are written at random.
const BLOCKS: u64 = 4096;

const SECOND: Duration = Duration::from_millis(1_000);

fn pass(volume: &mut Volume, seconds: u64) {
    volume.rig.pass(Duration::from_millis(seconds * 1_000));
}

fn options() -> Options {
    Options { range_blocks: 1024, ..Options::default() }
}

/// A volume on a disk with a head, on which blocks were written in no order.
fn scattered(options: Options) -> Volume {
    let mut stack = Stack::new();
    let config = SmrConfig { capacity: 200 * ZONE, zone_sectors: ZONE, conventional: 0, ..SmrConfig::new(200) };
    let disk = stack.add(Box::new(SmrDisk::new(&config).unwrap())).unwrap();
    let mut volume = Volume::on(stack, vec![disk], 70, options);
    let mut blocks: Vec<u64> = (0..BLOCKS).collect();
    let mut rng = Rng::new(3);
    (1..blocks.len()).for_each(|at| blocks.swap(at, rng.below(at as u64 + 1) as usize));
    for block in blocks {
        volume.write(block, 1, byte(block));
    }
    volume
}

fn byte(block: u64) -> u8 {
    1 + (block * 7 % 251) as u8
}

/// Reads all in order: how long that takes.
fn read_all(volume: &mut Volume) -> Duration {
    let began = volume.rig.now;
    assert!(are_all(volume, byte));
    volume.rig.now.since(began)
}

/// Reads all in order: whether that is what each block has to be.
fn are_all(volume: &mut Volume, expected: impl Fn(u64) -> u8) -> bool {
    let mut blocks = (0..BLOCKS / 64).map(|number| number * 64);
    blocks.all(|block| volume.read(block, 64) == (block..block + 64).map(&expected).collect::<Vec<u8>>())
}

#[test]
fn what_is_read_in_order_is_written_in_order_while_nobody_uses_the_volume() {
    let mut volume = scattered(options());
    pass(&mut volume, 20);
    assert_eq!(volume.counters().rewritten_blocks, 0, "nobody has read it");
    let before = read_all(&mut volume);
    pass(&mut volume, 100);
    assert_eq!(volume.counters().rewritten_blocks, BLOCKS);
    let after = read_all(&mut volume);
    assert!(after.0 * 20 < before.0, "{after:?} after {before:?}");
    pass(&mut volume, 100);
    assert_eq!(volume.counters().rewritten_blocks, BLOCKS, "it lies in order");
    volume.reload();
    read_all(&mut volume);
}

#[test]
fn who_comes_while_a_range_is_written_in_order_does_not_wait_for_it_and_what_he_writes_counts() {
    let mut volume = scattered(options());
    read_all(&mut volume);
    pass(&mut volume, 11);
    for number in 0..40 {
        let began = volume.rig.now;
        volume.write(number * 100, 1, 255);
        assert!(volume.rig.now.since(began) < SECOND, "write {number} took {:?}", volume.rig.now.since(began));
        volume.rig.pass(Duration::from_millis(20_050));
    }
    let rewritten = volume.counters().rewritten_blocks;
    assert!(rewritten > 1000, "{rewritten}");
    for reload in [false, true] {
        if reload {
            volume.reload();
        }
        assert!((0..40).all(|number| volume.read(number * 100, 1) == [255]));
        assert_eq!(volume.read(101, 1), [byte(101)]);
    }
}

/// Whether all is as it was written, though blocks are written and a checkpoint is made while a range is read that holds them, and the volume is idle
/// again before that is over.
fn survives_writes_while_a_range_is_read(gone: Sabotage) -> bool {
    let mut volume = scattered(Options { idle_after: Duration::from_millis(5), ..options() });
    let top = volume.rig.top;
    volume.rig.stack.with_device(top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    let mut written = BTreeMap::new();
    for round in 0..20 {
        if !are_all(&mut volume, |block| written.get(&block).copied().unwrap_or(byte(block))) {
            return false;
        }
        volume.rig.pass(Duration::from_millis(30));
        for block in (0..8).map(|number| number * 500 + round * 17) {
            volume.write(block, 1, 252 + (round % 3) as u8);
            written.insert(block, 252 + (round % 3) as u8);
        }
        volume.message("checkpoint");
        pass(&mut volume, 60);
    }
    assert!(volume.counters().rewritten_blocks > BLOCKS);
    true
}

#[test]
fn of_a_range_that_is_written_in_order_what_was_written_meanwhile_stays() {
    assert!(survives_writes_while_a_range_is_read(Sabotage::default()));
    let unasked = Sabotage { ranges_unasked: true, ..Sabotage::default() };
    assert!(!survives_writes_while_a_range_is_read(unasked), "the test does not show it");
}

/// A volume of which much was written over.
fn worn() -> (Volume, Vec<u8>) {
    let mut volume = Volume::new(&[disk(300, Some(0))], 100, small());
    let mut model: Vec<u8> = (0..volume.blocks).map(|block| 1 + (block % 200) as u8).collect();
    (0..volume.blocks).for_each(|block| volume.write(block, 1, model[block as usize]));
    let mut rng = Rng::new(1);
    for _ in 0..volume.blocks / 2 {
        let (block, byte) = (rng.below(volume.blocks), 1 + rng.below(255) as u8);
        volume.write(block, 1, byte);
        model[block as usize] = byte;
    }
    (volume, model)
}

#[test]
fn zones_that_are_cheap_to_clean_are_cleaned_while_nobody_uses_the_volume_and_then_the_disk_sleeps() {
    let (mut volume, model) = worn();
    let free = |volume: &mut Volume| figure(volume, "free_zones");
    // Most of what was written last is dead: a file that is gone.
    let gone = volume.blocks / 4;
    let bio = Bio::new(Op::Discard, Sector(0), gone as u32 * 8, Payload::None);
    assert_eq!(volume.run(bio).1, Status::Ok);
    let before = free(&mut volume);
    pass(&mut volume, 60);
    let after = free(&mut volume);
    assert!(after > before, "{before} free zones before, {after} after");
    let requests = volume.rig.stack.counters(volume.disks[0]).ios;
    pass(&mut volume, 1_000);
    assert_eq!(volume.rig.stack.counters(volume.disks[0]).ios, requests, "it does not sleep");
    assert_eq!(volume.read(gone, (volume.blocks - gone) as u32), model[gone as usize..]);
}

fn figure(volume: &mut Volume, name: &str) -> u64 {
    let counters = volume.message("counters");
    let value = counters.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {counters}"))
}
