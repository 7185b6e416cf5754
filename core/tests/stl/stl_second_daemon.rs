//! Two daemons that serve one volume, on disks whose locks do not work.

use shingle_core::block::{Bio, DeviceId, Op, Payload, Status};
use shingle_core::device::NullConfig;
use shingle_core::dm::stl::Options;
use shingle_core::dm::stl::format::{ROOT_BLOCKS, SetId};
use shingle_core::dm::stl::tools::{FormatOptions, Media, MemoryMedia, Spot, Volume as Found, format};
use shingle_core::sector::Sector;

use crate::shingled;
use crate::shingled::shelf::{put_back, taken_out};
use crate::shingled::{Volume, ZONE, disk, small};

/// Disks with root zones of all kinds: with write pointers, without them, and of a disk without zones.
fn all_kinds() -> [Vec<NullConfig>; 4] {
    [vec![disk(40, Some(0))], vec![disk(40, Some(4))], vec![disk(30, Some(0)), disk(9, None)], vec![disk(40, Some(1))]]
}

/// Has a second instance load the volume from the same disks; returns its device.
fn second(volume: &mut Volume) -> DeviceId {
    let first = volume.rig.top;
    volume.load();
    let second = std::mem::replace(&mut volume.rig.top, first);
    in_second(volume, second, |volume| volume.flush());
    second
}

/// Does something with the second instance.
fn in_second<T>(volume: &mut Volume, second: DeviceId, does: impl FnOnce(&mut Volume) -> T) -> T {
    let first = std::mem::replace(&mut volume.rig.top, second);
    let result = does(volume);
    volume.rig.top = first;
    result
}

fn checkpoint(volume: &mut Volume) {
    volume.message("checkpoint");
    volume.rig.settle();
}

/// All that the root zones of the disks hold.
fn roots(volume: &mut Volume) -> Vec<Vec<u8>> {
    let disks = volume.disks.clone();
    let mut read = |disk, zone: u32| {
        let bio = shingled::read(u64::from(zone * ZONE), ZONE);
        let done = volume.rig.finish(disk, bio);
        let Payload::Data(data) = &done.bio.payload else { panic!("no data") };
        data.to_vec()
    };
    disks.into_iter().flat_map(|disk| [(disk, 0), (disk, 1)]).map(|(disk, zone)| read(disk, zone)).collect()
}

/// Write pointers of all zones.
fn pointers(volume: &mut Volume) -> Vec<Sector> {
    taken_out(volume).disks().iter().flat_map(|disk| &disk.zones).map(|zone| zone.wp).collect()
}

fn is_refused(volume: &mut Volume) -> bool {
    let (bio, status) = volume.run(shingled::write(0, 1, 9));
    let why = bio.why().map(ToString::to_string).unwrap_or_default();
    assert!(status.is_ok() || why.contains("another daemon has opened this volume (its root "), "{status}: {why}");
    !status.is_ok()
}

#[test]
fn a_checkpoint_finds_the_root_of_a_second_daemon() {
    for (kind, disks) in all_kinds().into_iter().enumerate() {
        // The newest root is everywhere in its zone, also at its end.
        for checkpoints in 0..=ZONE / ROOT_BLOCKS as u32 {
            let mut volume = Volume::new(&disks, 200, small());
            volume.write(3, 1, 1);
            (0..checkpoints).for_each(|_| checkpoint(&mut volume));
            let second = second(&mut volume);
            let before = roots(&mut volume);
            checkpoint(&mut volume);
            assert!(is_refused(&mut volume), "disks {kind}, {checkpoints} checkpoints: {}", volume.status());
            assert!(roots(&mut volume) == before, "disks {kind}, {checkpoints} checkpoints: a root was written");
            in_second(&mut volume, second, |volume| {
                volume.write(4, 1, 2);
                checkpoint(volume);
                assert_eq!((volume.read(3, 1), volume.read(4, 1)), (vec![1], vec![2]));
            });
        }
    }
}

/// Roots of the second daemon fill both root zones several times.
#[test]
fn a_second_daemon_is_found_however_many_roots_it_has_written() {
    for disks in all_kinds() {
        for its in 1..3 * ZONE / ROOT_BLOCKS as u32 {
            let mut volume = Volume::new(&disks, 200, small());
            volume.write(3, 1, 1);
            (0..3).for_each(|_| checkpoint(&mut volume));
            let second = second(&mut volume);
            in_second(&mut volume, second, |volume| (0..its).for_each(|_| checkpoint(volume)));
            checkpoint(&mut volume);
            assert!(is_refused(&mut volume), "{its} roots: {}", volume.status());
        }
    }
}

#[test]
fn a_batch_that_fails_finds_a_second_daemon() {
    let mut volume = Volume::new(&[disk(40, Some(0))], 200, small());
    volume.write(3, 1, 1);
    let second = second(&mut volume);
    in_second(&mut volume, second, |volume| volume.write(4, 1, 2));
    let before = pointers(&mut volume);
    assert!(is_refused(&mut volume), "{}", volume.status());
    assert_eq!(pointers(&mut volume), before, "something was written or reset");
}

/// Writes to zones without a pointer do not fail, so only the look before them finds it.
#[test]
fn the_first_write_after_idle_time_finds_a_second_daemon() {
    let mut volume = Volume::new(&[disk(40, Some(39))], 200, small());
    volume.write(3, 1, 1);
    volume.rig.settle();
    let second = second(&mut volume);
    in_second(&mut volume, second, |volume| volume.write(4, 1, 2));
    let batches = volume.counters().batches;
    assert!(is_refused(&mut volume), "{}", volume.status());
    assert_eq!(volume.counters().batches, batches, "a batch was sent");
}

#[test]
fn a_volume_that_is_formatted_meanwhile_is_found() {
    for disks in all_kinds() {
        for checkpoints in 0..=ZONE / ROOT_BLOCKS as u32 {
            let mut volume = Volume::new(&disks, 200, small());
            volume.write(3, 1, 1);
            (0..checkpoints).for_each(|_| checkpoint(&mut volume));
            let mut media: MemoryMedia = taken_out(&mut volume);
            let ids = (0..disks.len()).map(|number| [number as u8 + 9; 16]).collect();
            let options = FormatOptions { set: SetId([8; 16]), disks: ids, reserve: 200 };
            format(&mut media, &options, &mut |_, _| ()).unwrap();
            put_back(&mut volume, &media);
            let before = roots(&mut volume);
            checkpoint(&mut volume);
            let (bio, status) = volume.run(shingled::write(0, 1, 9));
            let why = bio.why().map(ToString::to_string).unwrap_or_default();
            assert_ne!(status, Status::Ok, "{checkpoints} checkpoints: {}", volume.status());
            assert!(why.contains("was formatted while this daemon used it"), "{why}");
            assert!(roots(&mut volume) == before, "a root was written");
        }
    }
}

/// True if a checkpoint overwrites the roots of a second daemon.
fn does_write_over(finds_second_daemon: bool, disks: &[NullConfig]) -> bool {
    let mut volume = Volume::new(disks, 200, Options { finds_second_daemon, ..small() });
    volume.write(3, 1, 1);
    (0..2).for_each(|_| checkpoint(&mut volume));
    second(&mut volume);
    let before = roots(&mut volume);
    checkpoint(&mut volume);
    roots(&mut volume) != before
}

#[test]
fn without_the_look_roots_of_a_second_daemon_are_destroyed() {
    for disks in all_kinds() {
        assert!(!does_write_over(true, &disks));
        assert!(does_write_over(false, &disks), "the test does not show it");
    }
}

/// Roots that failed, or were torn, lie behind the newest one that is whole.
#[test]
fn torn_roots_of_this_daemon_are_not_those_of_another() {
    for (kind, disks) in all_kinds().into_iter().enumerate() {
        let mut volume = Volume::new(&disks, 200, small());
        volume.write(3, 1, 1);
        checkpoint(&mut volume);
        let mut media = taken_out(&mut volume);
        // The newest root loses its last block.
        let newest = Found::find(&mut media, &mut Default::default()).unwrap();
        for root in newest.of_disks.iter().flatten() {
            let last = Spot { block: root.spot.block + ROOT_BLOCKS as u64 - 1, ..root.spot };
            media.put(last, &[7; 4096]);
        }
        volume.stop();
        put_back(&mut volume, &media);
        volume.load();
        for block in 0..20 {
            volume.write(block, 1, 5);
            checkpoint(&mut volume);
        }
        assert_eq!(volume.read(3, 1), [5], "disks {kind}: {}", volume.status());
        let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        assert_eq!(volume.run(flush).1, Status::Ok);
    }
}
