//! The target `stl` on a disk that fails: a zone, a block, a root. What was written elsewhere is read, and the volume goes on or says why not.

use core::ops::Range;

use shingle_core::block::{Bio, DeviceId, Op, Payload, Status};
use shingle_core::device::NullDevice;
use shingle_core::dm::stl::format::Header;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, ZoneKind, ZoneNo};

use crate::shingled::{Volume, ZONE, disk, first_bytes, read, small, write};

/// The disk below its plug.
const LEAF: DeviceId = DeviceId(0);
const SECTORS: u64 = ZONE as u64 * 8;
/// Sectors of a root.
const ROOT: u64 = 64;

fn on_disk<R>(volume: &mut Volume, what: impl FnOnce(&mut NullDevice) -> R) -> R {
    volume.rig.stack.with_device(LEAF, |disk: &mut NullDevice, _| what(disk)).expect("the disk is there")
}

/// Sequential zones in such a condition, but for those of roots.
fn zones(volume: &mut Volume, is: impl Fn(Condition) -> bool) -> Vec<ZoneNo> {
    on_disk(volume, |disk| {
        let all = (2..disk.zones().unwrap().geometry().zones()).map(ZoneNo);
        all.filter(|zone| disk.zone(*zone).kind == ZoneKind::Sequential && is(disk.zone(*zone).cond)).collect()
    })
}

/// A full zone most of which has data of users: blocks of one byte each.
fn full_of_data(volume: &mut Volume) -> ZoneNo {
    let data = |volume: &mut Volume, zone: ZoneNo| {
        let done = volume.rig.finish(LEAF, read(u64::from(zone.0 * ZONE), ZONE));
        let Payload::Data(data) = &done.bio.payload else { panic!("no data") };
        let is_of_one = |block: &&[u8]| block[0] != 0 && block.iter().all(|byte| *byte == block[0]);
        data.to_vec().chunks(4096).filter(is_of_one).count()
    };
    let full = zones(volume, |cond| cond == Condition::Full);
    full.into_iter().find(|zone| data(volume, *zone) > 40).expect("there is data")
}

/// The host dies: nothing is brought to rest.
fn die(volume: &mut Volume) {
    volume.rig.settle();
    volume.before = volume.work();
    let top = volume.rig.top;
    volume.rig.stack.remove(top).unwrap();
}

fn why(volume: &mut Volume, bio: Bio) -> String {
    let (bio, status) = volume.run(bio);
    assert_ne!(status, Status::Ok, "{}", volume.status());
    bio.why().map(ToString::to_string).unwrap_or_default()
}

/// A volume on which every block was written, and what it has.
fn filled(zones: u32) -> (Volume, Vec<u8>) {
    let mut volume = Volume::new(&[disk(zones, Some(0))], 200, small());
    let model: Vec<u8> = (0..volume.blocks).map(|block| 1 + (block % 200) as u8).collect();
    (0..volume.blocks).for_each(|block| volume.write(block, 1, model[block as usize]));
    (volume, model)
}

fn write_some(volume: &mut Volume, model: &mut [u8], rng: &mut Rng, writes: u32) {
    for _ in 0..writes {
        let (block, byte) = (rng.below(volume.blocks), 1 + rng.below(255) as u8);
        volume.write(block, 1, byte);
        model[block as usize] = byte;
    }
}

#[test]
fn zones_that_become_read_only_cost_no_block_and_the_volume_goes_on() {
    let (mut volume, mut model) = filled(60);
    let mut rng = Rng::new(1);
    for round in 0..4 {
        // That which users write, or any.
        let mut open = zones(&mut volume, Condition::is_active);
        let zone = open.pop().expect("somebody writes");
        on_disk(&mut volume, |disk| disk.set_read_only(zone).unwrap());
        write_some(&mut volume, &mut model, &mut rng, 400);
        assert!(volume.read(0, model.len() as u32) == model, "round {round}");
        die(&mut volume);
        volume.load();
        assert!(volume.read(0, model.len() as u32) == model, "after a start in round {round}");
    }
    assert_eq!(volume.counters().wrong_checksums, 0);
}

#[test]
fn blocks_of_a_zone_that_is_gone_read_as_errors_until_they_are_written_and_all_others_as_they_were() {
    let (mut volume, mut model) = filled(60);
    volume.reload();
    assert!(volume.read(0, model.len() as u32) == model);
    let zone = full_of_data(&mut volume);
    on_disk(&mut volume, |disk| disk.set_offline(zone).unwrap());
    for life in 0..2 {
        let mut lost = Vec::new();
        for block in 0..model.len() as u64 {
            let (bio, status) = volume.run(read(block, 1));
            match status {
                Status::Ok => assert_eq!(first_bytes(&bio), [model[block as usize]], "block {block} in life {life}"),
                _ => lost.push(block),
            }
        }
        assert!((1..=ZONE as usize).contains(&lost.len()), "{} blocks are lost in life {life}", lost.len());
        for block in lost.into_iter().step_by(2) {
            model[block as usize] = 77;
            volume.write(block, 1, 77);
        }
        volume.reload();
    }
}

#[test]
fn a_write_that_fails_is_written_elsewhere_and_the_open_zone_moves_on() {
    let (mut volume, mut model) = filled(60);
    let mut rng = Rng::new(2);
    for _ in 0..5 {
        spoil_open(&mut volume);
        write_some(&mut volume, &mut model, &mut rng, 200);
        assert!(volume.read(0, model.len() as u32) == model);
    }
    assert!(volume.counters().retries > 0, "nothing failed");
    volume.rig.settle();
    // A root knows of what failed: a start without that could not know whether something counts behind blocks that it cannot read.
    volume.message("checkpoint");
    die(&mut volume);
    volume.load();
    assert!(volume.read(0, model.len() as u32) == model);
}

/// The next block but one of each open zone cannot be written.
fn spoil_open(volume: &mut Volume) {
    let open = zones(volume, Condition::is_active);
    on_disk(volume, |disk| {
        for zone in &open {
            let (pointer, end) = (disk.zone(*zone).wp, disk.zone(*zone).start + SECTORS);
            // What lies in the next one was written.
            disk.add_bad_blocks((pointer + 16).min(end)..(pointer + 24).min(end));
        }
    });
}

#[test]
fn zones_are_not_read_one_after_the_other_when_there_is_none_for_what_is_live_in_them() {
    let mut ends_at_cleaning = 0;
    // Of 200 these and some more come to the end of what is kept for cleaning, and not for users.
    for seed in [6, 17, 54] {
        let (mut volume, mut model) = filled(60);
        let mut rng = Rng::new(seed);
        let read = |volume: &Volume| volume.rig.stack.counters(volume.disks[0]).sectors[Op::Read as usize];
        let (mut before, mut failed) = (read(&volume), 0);
        // The zones that cleaning needs fail with the others, sooner or later.
        for writes in 0.. {
            if writes % 40 == 0 {
                spoil_open(&mut volume);
            }
            let (block, byte) = (rng.below(volume.blocks), 1 + rng.below(255) as u8);
            if volume.run(write(block, 1, byte)).1 != Status::Ok {
                failed = block as usize;
                break;
            }
            (model[block as usize], before) = (byte, read(&volume));
        }
        let zones = (read(&volume) - before) / SECTORS;
        assert!(zones < 6, "{zones} zones were read: {}", volume.status());
        ends_at_cleaning += u32::from(volume.status().contains("none for what is live in others"));
        assert!(volume.read(0, failed as u32) == model[..failed]);
        let behind = failed + 1;
        assert!(volume.read(behind as u64, (model.len() - behind) as u32) == model[behind..]);
    }
    assert!(ends_at_cleaning > 0, "it never came to that");
}

#[test]
fn a_volume_whose_zones_have_died_fails_writes_at_once_and_is_still_read() {
    let (mut volume, model) = filled(60);
    volume.reload();
    assert_eq!(volume.read(0, 1), [model[0]]);
    for zone in zones(&mut volume, |cond| cond != Condition::Full) {
        on_disk(&mut volume, |disk| disk.set_read_only(zone).unwrap());
    }
    let mut failed = 0;
    for block in 0..200 {
        // What hangs ends the test: nothing will ever happen again.
        failed += u32::from(volume.run(write(block, 1, model[block as usize])).1 != Status::Ok);
    }
    assert!(failed > 50, "{failed} writes failed: {}", volume.status());
    assert!(volume.status().contains("read-only"), "{}", volume.status());
    assert!(volume.read(0, model.len() as u32) == model);
}

#[test]
fn a_volume_that_is_too_full_for_the_zones_that_are_left_fails_writes_instead_of_cleaning_for_ever() {
    let (mut volume, mut model) = filled(60);
    let mut rng = Rng::new(3);
    let mut refused = None;
    for _ in 0..60 {
        let Some(zone) = zones(&mut volume, |cond| !cond.is_dead()).into_iter().next_back() else { break };
        on_disk(&mut volume, |disk| disk.set_read_only(zone).unwrap());
        for _ in 0..50 {
            let (block, byte) = (rng.below(volume.blocks), 1 + rng.below(255) as u8);
            match volume.run(write(block, 1, byte)).1 {
                Status::Ok => model[block as usize] = byte,
                _ => _ = refused.get_or_insert(volume.status()),
            }
        }
    }
    let status = refused.expect("some day it is full");
    assert!(status.contains("read-only"), "{status}");
    assert!(volume.read(0, model.len() as u32) == model);
}

#[test]
fn a_start_that_cannot_read_what_may_count_fails_and_says_so_and_the_next_one_finds_all() {
    let (mut volume, mut model) = filled(60);
    volume.reload();
    assert_eq!(volume.read(0, 1), [model[0]]);
    let before = zones(&mut volume, Condition::is_active);
    write_some(&mut volume, &mut model, &mut Rng::new(4), 2);
    die(&mut volume);
    let open: Vec<ZoneNo> =
        zones(&mut volume, Condition::is_active).into_iter().filter(|zone| !before.contains(zone)).collect();
    assert!(!open.is_empty());
    let start = |zone: ZoneNo| Sector(u64::from(zone.0) * SECTORS);
    let all = |zone: &ZoneNo| start(*zone)..start(*zone) + SECTORS;
    on_disk(&mut volume, |disk| open.iter().for_each(|zone| disk.add_bad_blocks(all(zone))));
    volume.load();
    let reason = why(&mut volume, read(0, 1));
    assert!(reason.contains("cannot be read"), "{reason}");
    assert!(why(&mut volume, write(0, 1, 1)).contains("cannot be read"));
    die(&mut volume);
    on_disk(&mut volume, |disk| open.iter().for_each(|zone| disk.remove_bad_blocks(all(zone))));
    volume.load();
    assert!(volume.read(0, model.len() as u32) == model);
}

/// Where the newest root is: it is the last in one of the two zones of roots.
fn newest_root(volume: &mut Volume) -> Range<Sector> {
    let last = [0, 1].map(|zone| {
        let end = on_disk(volume, |disk| disk.zone(ZoneNo(zone)).wp);
        let root = Sector(end.0 - ROOT)..end;
        let done = volume.rig.finish(LEAF, read(root.start.0 / 8, ROOT as u32 / 8));
        let Payload::Data(data) = &done.bio.payload else { panic!("no data") };
        let (header, _) = Header::decode(&data.to_vec()).unwrap();
        (header.batch.number, root)
    });
    last.into_iter().max_by_key(|(number, _)| *number).unwrap().1
}

#[test]
fn a_start_does_not_take_an_older_root_for_one_that_cannot_be_read() {
    let (mut volume, model) = filled(60);
    volume.reload();
    die(&mut volume);
    let newest = newest_root(&mut volume);
    on_disk(&mut volume, |disk| disk.add_bad_blocks(newest.clone()));
    volume.load();
    let reason = why(&mut volume, read(0, 1));
    assert!(reason.contains("cannot be read, and may be the newest"), "{reason}");
    die(&mut volume);
    on_disk(&mut volume, |disk| disk.remove_bad_blocks(newest));
    volume.load();
    assert!(volume.read(0, model.len() as u32) == model);
}

#[test]
fn an_older_root_that_cannot_be_read_is_no_concern() {
    let (mut volume, model) = filled(60);
    let are_there_others = |disk: &mut NullDevice| {
        let written = |zone: u32| disk.zone(ZoneNo(zone)).wp.0 - u64::from(zone) * SECTORS;
        (0..2).all(|zone| written(zone) > ROOT)
    };
    die(&mut volume);
    while !on_disk(&mut volume, are_there_others) {
        volume.load();
        assert!(volume.read(0, model.len() as u32) == model);
        die(&mut volume);
    }
    on_disk(&mut volume, |disk| disk.add_bad_blocks(Sector(0)..Sector(8)));
    on_disk(&mut volume, |disk| disk.add_bad_blocks(Sector(SECTORS)..Sector(SECTORS + 8)));
    volume.load();
    assert!(volume.read(0, model.len() as u32) == model);
}

#[test]
fn with_one_zone_of_roots_left_a_volume_goes_on_until_that_is_full_and_then_it_is_read_before_and_after_a_start() {
    for (zone, is_offline) in [(0, false), (1, false), (0, true), (1, true)] {
        let (mut volume, mut model) = filled(60);
        on_disk(&mut volume, |disk| match is_offline {
            true => disk.set_offline(ZoneNo(zone)).unwrap(),
            false => disk.set_read_only(ZoneNo(zone)).unwrap(),
        });
        let (mut rng, mut written) = (Rng::new(5), 0);
        let failed = loop {
            let (block, byte) = (rng.below(volume.blocks), 1 + rng.below(255) as u8);
            if volume.run(write(block, 1, byte)).1 != Status::Ok {
                break block;
            }
            model[block as usize] = byte;
            written += 1;
        };
        assert!(written < 100_000 && volume.status().contains("read-only"), "{written} {}", volume.status());
        for life in 0..2 {
            let mut found = volume.read(0, model.len() as u32);
            // Done, or not.
            found[failed as usize] = model[failed as usize];
            assert!(found == model, "life {life}");
            die(&mut volume);
            volume.load();
        }
        assert!(why(&mut volume, write(0, 1, 1)).contains("read-only"), "{}", volume.status());
    }
}
