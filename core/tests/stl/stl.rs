//! The target `stl` as a disk: what is written is read, whatever it does below.

use shingle_core::block::{BlockDevice, DeviceId, Event, Figure, Op, Status};
use shingle_core::device::{NullConfig, NullZones};
use shingle_core::dm::stl::format::ZoneUse;
use shingle_core::dm::stl::tools::{Depth, check};
use shingle_core::dm::stl::{Options, Stl};
use shingle_core::random::Rng;

use crate::shingled;
use crate::shingled::shelf::taken_out;
use crate::shingled::{Volume, ZONE, discard, disk, small, write};

#[test]
fn what_was_never_written_reads_as_zeroes() {
    let mut volume = Volume::new(&[disk(40, Some(4))], 70, small());
    assert_eq!(volume.read(0, ZONE * 3), vec![0; ZONE as usize * 3]);
}

#[test]
fn what_was_written_is_read_before_and_after_a_start() {
    let mut volume = Volume::new(&[disk(40, Some(4))], 70, small());
    volume.write(3, 40, 1);
    volume.write(10, 2, 2);
    assert_eq!(volume.run(discard(20, 4)).1, Status::Ok);
    let expected = [vec![0; 3], vec![1; 7], vec![2; 2], vec![1; 8], vec![0; 4], vec![1; 19], vec![0; 7]].concat();
    assert_eq!(volume.read(0, 50), expected);
    volume.reload();
    assert_eq!(volume.read(0, 50), expected);
    volume.message("sweep");
    volume.reload();
    assert_eq!(volume.read(0, 50), expected);
}

/// A front end has its memory in the bio, and panicked when a write came back without.
#[test]
fn a_write_comes_back_with_the_memory_it_went_with() {
    let mut volume = Volume::new(&[disk(40, Some(4))], 70, small());
    let (bio, status) = volume.run(write(3, 40, 9));
    assert_eq!((shingled::first_bytes(&bio), status), (vec![9; 40], Status::Ok));
}

/// Random changes, one after the other, beside a model.
fn play(volume: &mut Volume, rng: &mut Rng, model: &mut [u8], ops: u32) {
    for _ in 0..ops {
        let at = rng.below(volume.blocks);
        let longest = if rng.chance(1, 6) { 40 } else { 5 };
        let len = (1 + rng.below(longest)).min(volume.blocks - at);
        let range = at as usize..(at + len) as usize;
        match rng.below(12) {
            0..7 => {
                let byte = 1 + rng.below(255) as u8;
                volume.write(at, len as u32, byte);
                model[range].fill(byte);
            }
            7 => {
                assert_eq!(volume.run(discard(at, len as u32)).1, Status::Ok);
                model[range].fill(0);
            }
            8 => volume.flush(),
            9 if rng.chance(1, 20) => volume.reload(),
            _ => assert_eq!(volume.read(at, len as u32), model[range], "{len} blocks at {at}"),
        }
    }
}

#[test]
fn what_was_written_is_read_for_as_long_as_it_is_used() {
    for (seed, disks) in [
        vec![disk(40, Some(4))],
        vec![disk(30, Some(0))],
        vec![disk(24, Some(2)), disk(24, Some(0))],
        vec![disk(10, None), disk(30, Some(3))],
    ]
    .into_iter()
    .enumerate()
    {
        let (mut volume, mut rng) = (Volume::new(&disks, 100, small()), Rng::new(seed as u64));
        let mut model = vec![0; volume.blocks as usize];
        play(&mut volume, &mut rng, &mut model, 6000);
        let all = volume.blocks as u32;
        assert_eq!(volume.read(0, all), model);
        let (cleaned, sweeps) = volume.work();
        assert!(cleaned > 10 && sweeps > 3, "{cleaned} zones were cleaned in {sweeps} sweeps");
    }
}

#[test]
fn many_writes_at_a_time_are_read_as_they_were_acknowledged() {
    let mut volume = Volume::new(&[disk(40, Some(4))], 70, small());
    for round in 0..50 {
        for block in 0..20 {
            volume.rig.queue(volume.rig.top, write(block * 7, 3, (round * 5 + block) as u8 | 1));
        }
        (0..20).for_each(|_| assert_eq!(volume.rig.next().status, Status::Ok));
    }
    for block in 0..20 {
        assert_eq!(volume.read(block * 7, 3), [(49 * 5 + block) as u8 | 1; 3]);
    }
}

/// Each costs a sweep a way of the head wherever it looks: with 127 of them an aged disk wrote 8 MB/s.
#[test]
fn runs_become_few_and_what_several_have_is_read_as_it_was_written_last() {
    let options = Options { most_runs: 100, runs_of_tier: 4, ..small() };
    for (seed, disks) in [vec![disk(200, Some(0))], vec![disk(12, None), disk(200, Some(3))]].into_iter().enumerate() {
        let (mut volume, mut rng) = (Volume::new(&disks, 600, options), Rng::new(seed as u64));
        let mut model = vec![0; volume.blocks as usize];
        let mut most = 0;
        for life in 0..4 {
            play(&mut volume, &mut rng, &mut model, 800);
            most = most.max(volume.counters().compactions);
            let status = volume.status();
            let runs = status.split(" runs").next().and_then(|it| it.rsplit(' ').next()).map(str::parse::<u32>);
            assert!(runs.is_some_and(|runs| runs.is_ok_and(|runs| runs <= 12)), "{status}");
            volume.rig.settle();
            volume.load();
            assert_eq!(volume.read(0, volume.blocks as u32), model, "life {life}");
            volume.message("sweep");
            assert_eq!(volume.read(0, volume.blocks as u32), model, "life {life}, from leaves");
        }
        assert!(most > 2, "{most} times runs became one");
    }
}

/// A start looks only into those of them that a root names: data that goes to others would be lost.
#[test]
fn what_was_written_to_many_zones_without_a_pointer_is_found_by_a_start_after_a_crash() {
    for (seed, disks) in [vec![disk(60, None), disk(12, Some(0))], vec![disk(70, Some(62))]].into_iter().enumerate() {
        let (mut volume, mut rng) = (Volume::new(&disks, 100, small()), Rng::new(seed as u64));
        let mut model = vec![0; volume.blocks as usize];
        for life in 0..12 {
            play(&mut volume, &mut rng, &mut model, 100 + 40 * life);
            // Not stopped: what it was about to do is not done.
            volume.rig.settle();
            volume.load();
            assert_eq!(volume.read(0, volume.blocks as u32), model, "life {life}");
        }
    }
}

/// A header of more than four blocks is read in two steps: the first four say how long it is.
#[test]
fn a_batch_whose_header_is_longer_than_the_first_read_is_found_after_a_crash() {
    let blocks = 8192;
    let zoned = Some(NullZones::new(blocks * 8));
    let config = NullConfig { zoned, ..NullConfig { capacity: 20 * blocks * 8, ..disk(1, None) } };
    let mut volume = Volume::new(&[config], 100, Options { batch_blocks: 4096, ..Options::default() });
    volume.write(0, 1, 9);
    let (top, before) = (volume.rig.top, volume.counters());
    let block = |number: u64| number * 7 % 32 * 1024;
    (0..32).for_each(|number| _ = volume.rig.queue(top, write(block(number), 512, number as u8 | 1)));
    (0..32).for_each(|_| assert_eq!(volume.rig.next().status, Status::Ok));
    let after = volume.counters();
    let (batches, blocks) = (after.batches - before.batches, after.header_blocks - before.header_blocks);
    assert!(blocks > 4 * batches, "{batches} batches with {blocks} blocks of headers: none has a long one");
    volume.flush();
    volume.load();
    for number in 0..32 {
        assert_eq!(volume.read(block(number), 512), [number as u8 | 1; 512]);
    }
}

/// Without a turn for cleaning users would use up all free zones, and then wait for whole zones to be cleaned.
#[test]
fn users_wait_until_cleaning_has_had_the_turn_that_they_owe() {
    let (mut volume, mut rng) = (Volume::new(&[disk(80, Some(4))], 100, small()), Rng::new(5));
    for block in 0..volume.blocks {
        volume.write(block, 1, 1);
    }
    let (top, mut most) = (volume.rig.top, 0);
    for number in 0..6 * volume.blocks {
        volume.rig.queue(top, write(rng.below(volume.blocks), 1, 2));
        if number >= 16 {
            assert_eq!(volume.rig.next().status, Status::Ok);
            let mut owed = 0;
            volume.rig.stack.device::<Stl>(top).unwrap().figures(&mut |name, figure| {
                if let ("owed_blocks", Figure::Count(blocks)) = (name, figure) {
                    owed = blocks;
                }
            });
            most = most.max(owed);
        }
    }
    println!("{most} blocks were owed at most");
    assert!(most < 200, "{most} blocks were owed at most");
}

/// A mapped device whose table was swapped waited for ever: nothing was cleaned any more for the writes inside.
#[test]
fn a_suspended_volume_ends_writes_that_wait_for_zones() {
    let (mut volume, mut rng) = (Volume::new(&[disk(40, Some(4))], 100, small()), Rng::new(3));
    for _ in 0..20 {
        volume.flush();
        for byte in 0..200 {
            let at = rng.below(volume.blocks - 3);
            volume.rig.queue(volume.rig.top, write(at, 3, byte | 1));
        }
        volume.reload();
        (0..200).for_each(|_| assert_eq!(volume.rig.next().status, Status::Ok));
    }
}

/// Zones that the first root of a life gives back are free by its next one, which there was not before nearly all were gone: then a loss of
/// power left a volume with no zone for a root.
#[test]
fn starts_of_a_volume_that_nobody_writes_to_use_up_no_zones() {
    let mut volume = Volume::new(&[disk(24, Some(2))], 100, small());
    (0..volume.blocks / 4).for_each(|at| volume.write(at * 4, 4, 1));
    for start in 0..40 {
        volume.rig.stack.deliver(volume.rig.top, Event::Resume);
        volume.rig.turn();
        volume.stop();
        let media = taken_out(&mut volume);
        let found = check(&mut media.clone(), Depth { pace: None }, &mut |_, _| ()).volume.expect("a volume");
        let free = found.zones.iter().flatten().filter(|row| row.used_for == ZoneUse::Free).count();
        assert!(free > 3, "start {start}: {free} zones are free");
        volume.load();
    }
}

#[test]
fn a_full_volume_can_be_written_over_however_short_its_batches_are() {
    for batch_blocks in [1, 2, 5] {
        let mut volume = Volume::new(&[disk(60, Some(0))], 100, Options { batch_blocks, ..small() });
        let mut rng = Rng::new(7);
        let blocks = volume.blocks;
        (0..blocks).for_each(|block| volume.write(block, 1, 1));
        let mut model = vec![1; blocks as usize];
        for _ in 0..2 * blocks {
            let (block, byte) = (rng.below(blocks), 1 + rng.below(255) as u8);
            volume.write(block, 1, byte);
            model[block as usize] = byte;
        }
        assert!((0..blocks).all(|block| volume.read(block, 1) == [model[block as usize]]), "batches of {batch_blocks}");
    }
}

/// A head that loses a turn for each of them took a minute for a zone of 8,192.
#[test]
fn a_start_finds_the_newest_of_many_roots_in_few_reads() {
    let zone = 4096;
    for conventional in [0, 3] {
        let zones = NullZones { conventional, ..NullZones::new(zone * 8) };
        let config = NullConfig { capacity: 16 * zone * 8, zoned: Some(zones), ..disk(1, None) };
        let mut volume = Volume::new(&[config], 600, small());
        // Past the end of a zone with 512 of them, and of the other one.
        for checkpoints in [3, 100, 300, 300, 250, 200] {
            for byte in 0..checkpoints {
                volume.write(7, 1, byte as u8);
                volume.message("checkpoint");
                volume.rig.settle();
            }
            let reads = |volume: &Volume| volume.rig.stack.counters(DeviceId(0)).ios[Op::Read as usize];
            let before = reads(&volume);
            volume.load();
            assert_eq!(volume.read(7, 1), [(checkpoints - 1) as u8]);
            let found = reads(&volume) - before;
            assert!(found < 60, "{found} reads after {checkpoints} checkpoints");
        }
    }
}
