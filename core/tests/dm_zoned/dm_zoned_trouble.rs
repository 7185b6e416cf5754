//! Volumes in trouble: full, small, broken. There is an answer to everything, and what can be read is read.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Op, Payload, Status};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::parse_table;
use shingle_core::dm::zoned::format::{Media, Superblock};
use shingle_core::dm::zoned::{Sabotage, Zoned};
use shingle_core::mapper::Mapper;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::ZoneNo;

use crate::rig::Rig;
use crate::zoned::{self, Volume, ZONE, disk, first_bytes, fua, read, write};

fn flush() -> Bio {
    Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)
}

/// Sends bios one by one; how they ended.
fn all(volume: &mut Volume, bios: impl Iterator<Item = Bio>) -> Vec<Status> {
    bios.map(|bio| volume.run(bio).1).collect()
}

#[test]
fn a_full_volume_goes_on_taking_writes() {
    for (disks, reserved) in [
        (vec![disk(20, Some(5))], 1),
        (vec![disk(5, None), disk(12, Some(0))], 2),
        (vec![disk(6, None), disk(8, Some(2)), disk(8, Some(0))], 3),
    ] {
        for policy in ["shingle", "kernel"] {
            let mut volume = Volume::new(&disks, reserved);
            volume.message(&format!("set policy {policy}"));
            let blocks = volume.blocks;
            let mut model = vec![1; blocks as usize];
            let filled = all(&mut volume, (0..blocks / 16).map(|n| write(n * 16, 16, 1)));
            assert!(filled.iter().all(|status| status.is_ok()), "{policy}: {}", volume.status());
            let mut rng = Rng::new(5);
            for n in 0..300 {
                let (at, fill) = (rng.below(blocks), 2 + (n % 200) as u8);
                volume.write(at, 1, fill);
                model[at as usize] = fill;
            }
            for at in (0..blocks).step_by(16) {
                assert_eq!(volume.read(at, 16), model[at as usize..][..16], "{policy}, block {at}");
            }
        }
    }
}

#[test]
fn without_sequential_zones_the_volume_is_full_when_the_others_are() {
    let disks = [disk(20, Some(5))];
    let mut volume = Volume::new(&disks, 1);
    volume.stop();
    let leaf = volume.leaves[0];
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| {
        (5..20).for_each(|zone| disk.set_offline(ZoneNo(zone)).unwrap());
    });
    volume.load();
    let chunks = volume.blocks / u64::from(ZONE);
    let ended = all(&mut volume, (0..chunks).map(|chunk| write(chunk * u64::from(ZONE), 4, 7)));
    let good = ended.iter().take_while(|status| status.is_ok()).count();
    assert!(good > 0 && good <= 3, "{ended:?}");
    assert!(ended[good..].iter().all(|status| *status == Status::NoSpace), "{ended:?}");
    assert_eq!(volume.read(0, 4), [7; 4]);
    assert_eq!(volume.run(flush()).1, Status::Ok);
}

/// A volume with two free random zones and no free sequential one, of which one zone alone can be won: that of chunk 0, which
/// has a buffer. Returns where that zone begins.
fn one_zone_to_win() -> (Volume, Sector) {
    let mut volume = Volume::new(&[disk(20, Some(5))], 1);
    volume.write(0, 48, 1);
    volume.stop();
    let leaf = volume.leaves[0];
    let start = volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| {
        let is_empty = |zone: &u32| disk.zone(ZoneNo(*zone)).wp == disk.zone(ZoneNo(*zone)).start;
        let (empty, written): (Vec<u32>, Vec<u32>) = (5..20).partition(is_empty);
        empty.into_iter().for_each(|zone| disk.set_offline(ZoneNo(zone)).unwrap());
        disk.zone(ZoneNo(written[0])).start
    });
    volume.load();
    volume.write(0, 1, 2);
    (volume, start.unwrap())
}

fn chunk(number: u64) -> u64 {
    number * u64::from(ZONE)
}

#[test]
fn a_write_waits_for_the_zone_of_a_chunk_that_rests_since_a_user_ended_its_copy() {
    [false, true].into_iter().for_each(wait_for_one_that_rests);
}

/// `is_clean`: there is nothing to commit when the write comes that has to wait.
fn wait_for_one_that_rests(is_clean: bool) {
    let (mut volume, _) = one_zone_to_win();
    volume.message("set policy kernel");
    // The second random zone goes, so reclaim begins with the copy of chunk 0, which a read ends.
    let tags = [volume.submit(write(chunk(1), 8, 3)), volume.submit(read(0, 1))];
    for _ in tags {
        assert_eq!(volume.next().2, Status::Ok);
    }
    volume.write(chunk(2), 8, 4);
    if is_clean {
        volume.flush();
    }
    volume.write(chunk(3), 8, 5);
    assert!(
        volume.rig.now < Instant::ZERO + Duration::from_millis(1_000),
        "it waited for something else: {:?}",
        volume.rig.now
    );
    assert_eq!(volume.read(0, 2), [2, 1]);
    assert_eq!([1, 2, 3].map(|number| volume.read(chunk(number), 8)), [[3; 8], [4; 8], [5; 8]]);
}

#[test]
fn a_write_waits_for_the_zone_of_a_chunk_that_could_not_be_copied_once() {
    let (mut volume, start) = one_zone_to_win();
    let (leaf, bad) = (volume.leaves[0], start + 80..start + 88);
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.add_bad_blocks(bad.clone()));
    (1..3).for_each(|number| volume.write(chunk(number), 8, 3));
    let waits = volume.submit(write(chunk(3), 8, 5));
    volume.rig.pass(Duration::from_millis(50));
    assert!(volume.rig.stack.poll_completion(volume.rig.port).is_none(), "it has not waited");
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.remove_bad_blocks(bad));
    let (done, _, status) = volume.next();
    assert_eq!((done, status), (waits, Status::Ok), "{}", volume.status());
}

/// Reclaim rested in a suspend, and the suspend waited for a write that waited for a zone.
#[test]
fn a_suspend_ends_though_a_write_waits_for_a_zone() {
    let (mut volume, _) = one_zone_to_win();
    let tags = [1, 2, 3].map(|number| volume.submit(write(chunk(number), 8, number as u8)));
    volume.suspend();
    for _ in tags {
        assert_eq!(volume.next().2, Status::Ok, "{}", volume.status());
    }
    volume.remove();
    volume.load();
    assert_eq!([1, 2, 3].map(|number| volume.read(chunk(number), 8)[0]), [1, 2, 3]);
}

/// A suspend counted as done while the write waited, so no commit recorded what it changed then, and the next table did not find it.
#[test]
fn a_suspend_records_what_a_write_changes_that_had_to_wait() {
    assert_eq!(after_a_suspended_wait(Sabotage::default()), 5);
    assert_eq!(after_a_suspended_wait(Sabotage { rest_while_held: true, ..Sabotage::default() }), 0);
}

/// First byte of a block in the next table. It is written while the volume suspends, after a copy that failed at first has made room.
fn after_a_suspended_wait(sabotage: Sabotage) -> u8 {
    let (mut volume, start) = one_zone_to_win();
    let (leaf, bad) = (volume.leaves[0], start + 80..start + 88);
    volume.rig.stack.with_device(volume.target, |zoned: &mut Zoned, cx| zoned.sabotage(sabotage, cx));
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.add_bad_blocks(bad.clone()));
    (1..3).for_each(|number| volume.write(chunk(number), 8, 3));
    volume.submit(write(chunk(3), 8, 5));
    volume.rig.pass(Duration::from_millis(20));
    volume.suspend();
    volume.rig.pass(Duration::from_millis(20));
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.remove_bad_blocks(bad));
    assert_eq!(volume.next().2, Status::Ok, "{}", volume.status());
    volume.remove();
    volume.load();
    volume.read(chunk(3), 8)[0]
}

/// First writes that waited for a buffer held as many unrecorded zones as there may be, so reclaim waited for a commit.
#[test]
fn reclaim_goes_on_when_waiting_writes_have_all_unrecorded_zones() {
    let mut volume = Volume::new(&[disk(20, Some(5))], 1);
    volume.read(0, 1);
    volume.message("set direct_blocks 2");
    volume.message("set unrecorded_zones 6");
    let to_random = [0, 1, 2].map(|number| write(chunk(number) + 40, 1, 1));
    let held = [3, 4, 5, 6, 7, 8].map(|number| write(chunk(number) + 8, 4, 1));
    let tags: Vec<u64> = to_random.into_iter().chain(held).map(|bio| volume.submit(bio)).collect();
    volume.rig.pass(Duration::from_micros(10));
    volume.message("set policy kernel");
    volume.rig.pass(Duration::from_millis(5_000));
    let ended = tags.iter().map_while(|_| Some(volume.rig.stack.poll_completion(volume.rig.port)?.status));
    assert_eq!(ended.collect::<Vec<_>>(), [Status::Ok; 9], "{}", volume.status());
}

/// A new table read older metadata, and what was acknowledged since was gone without an error.
#[test]
fn a_table_stays_while_acknowledged_writes_are_in_memory_only() {
    let mut volume = Volume::new(&[disk(20, Some(5))], 1);
    volume.write(0, 8, 1);
    assert_eq!(volume.rig.stack.is_replaceable(volume.target), Ok(()));
    let leaf = volume.leaves[0];
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| {
        disk.add_bad_blocks(Sector::ZERO..Sector(2 * u64::from(ZONE) * 8));
    });
    let failed = (0..4).map(|_| volume.run(flush()).1).filter(|status| !status.is_ok()).count();
    assert!(failed > 0 && volume.status().contains("read-only"), "{}", volume.status());
    assert_eq!(volume.read(0, 8), [1; 8]);
    let why = volume.rig.stack.is_replaceable(volume.target).unwrap_err();
    assert!(why.starts_with("acknowledged writes are in memory only, since "), "{why}");
}

/// The mapper refused a table of errors too, so that `wipe_table` and `remove --force` failed after a power loss.
#[test]
fn only_a_table_of_errors_replaces_one_with_acknowledged_writes_in_memory_only() {
    let mut volume = Volume::new(&[disk(20, Some(5))], 1);
    volume.stop();
    let Volume { rig, disks, leaves, blocks, .. } = &mut volume;
    let (mut mapper, disk) = (Mapper::new(), disks[0]);
    let resolver = move |name: &str| (name == "disk").then_some(disk).ok_or_else(Vec::new);
    let working = format!("0 {} zoned disk", *blocks * 8);
    mapper.create("volume", "").unwrap();
    let put = |text: &str, mapper: &mut Mapper, rig: &mut Rig| {
        mapper.load("volume", parse_table(text).unwrap(), false, (&mut rig.stack, &resolver)).unwrap();
        let ticket = mapper.resume("volume", true, &mut rig.stack).unwrap();
        loop {
            mapper.poll(rig.now, (&mut rig.stack, &resolver));
            if let Some(outcome) = mapper.outcome(ticket) {
                return outcome.map_err(|error| error.to_string());
            }
            rig.pass(Duration::from_millis(1));
        }
    };
    put(&working, &mut mapper, rig).unwrap();
    let device = mapper.device("volume").unwrap();
    assert_eq!(rig.finish(device, write(0, 8, 1)).status, Status::Ok);
    rig.stack.with_device(leaves[0], |disk: &mut NullDevice, _| {
        disk.add_bad_blocks(Sector::ZERO..Sector(2 * u64::from(ZONE) * 8));
    });
    while !mapper.status("volume", false, &rig.stack).unwrap().contains("read-only") {
        rig.finish(device, flush());
    }
    let why = put(&working, &mut mapper, rig).unwrap_err();
    assert!(why.contains("acknowledged writes are in memory only") && why.contains("wipe_table"), "{why}");
    let errors = format!("0 {} error", *blocks * 8);
    put(&errors, &mut mapper, rig).unwrap();
    assert_eq!(rig.finish(device, read(0, 1)).status, Status::Io);
}

#[test]
fn a_write_does_not_wait_for_ever_for_the_zone_of_a_chunk_that_can_never_be_copied() {
    let (mut volume, start) = one_zone_to_win();
    let leaf = volume.leaves[0];
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.add_bad_blocks(start + 80..start + 88));
    (1..3).for_each(|number| volume.write(chunk(number), 8, 3));
    assert_eq!(volume.run(write(chunk(3), 8, 5)).1, Status::NoSpace);
    assert!(volume.rig.now < Instant::ZERO + Duration::from_millis(30_000), "{:?}", volume.rig.now);
    assert_eq!(volume.read(0, 2), [2, 1]);
}

#[test]
fn a_write_does_not_wait_for_ever_while_one_copy_that_fails_follows_another() {
    // Each command takes so long that one of the three chunks is always being copied.
    let slow = NullConfig { completion: Duration::from_millis(2_000), ..disk(20, Some(5)) };
    let mut volume = Volume::new(&[slow], 1);
    volume.message("set policy kernel");
    (0..3).for_each(|number| _ = volume.submit(write(chunk(number), 8, 3)));
    (0..3).for_each(|_| assert_eq!(volume.next().2, Status::Ok));
    spoil(&mut volume, &[chunk(2), chunk(3), chunk(4)]);
    volume.rig.pass(Duration::from_millis(60_000));
    volume.submit(write(chunk(3), 8, 5));
    volume.rig.pass(Duration::from_millis(600_000));
    let done = volume.rig.stack.poll_completion(volume.rig.port);
    assert_eq!(done.map(|done| done.status), Some(Status::NoSpace), "{}", volume.status());
    // They have their turns when nobody waits.
    let all = Sector::ZERO..Sector(chunk(5) * 8);
    volume.rig.stack.with_device(volume.leaves[0], |disk: &mut NullDevice, _| disk.remove_bad_blocks(all));
    volume.rig.pass(Duration::from_millis(60_000));
    volume.write(chunk(3), 8, 5);
}

#[test]
fn a_zone_that_is_discarded_while_it_is_overwritten_is_free_again() {
    let mut volume = Volume::new(&[disk(20, Some(5))], 1);
    volume.message("set policy kernel");
    volume.write(0, 8, 1);
    volume.submit(write(0, 8, 2));
    volume.submit(Bio::new(Op::Discard, Sector::ZERO, ZONE * 8, Payload::None));
    (0..2).for_each(|_| assert_eq!(volume.next().2, Status::Ok));
    volume.flush();
    assert!(volume.status().contains(" 3/3 random "), "{}", volume.status());
    assert_eq!(volume.read(0, 8), [0; 8]);
}

#[test]
fn a_zone_that_fails_loses_only_itself() {
    let mut volume = Volume::new(&[disk(24, Some(6))], 2);
    let zone_blocks = u64::from(ZONE);
    (0..6).for_each(|chunk| volume.write(chunk * zone_blocks, 32, chunk as u8 + 1));
    volume.flush();
    let leaf = volume.leaves[0];
    let open = |disk: &mut NullDevice, zone: u32| disk.zone(ZoneNo(zone)).wp > disk.zone(ZoneNo(zone)).start;
    let written: Vec<u32> = (6..24)
        .filter(|zone| volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| open(disk, *zone)).unwrap())
        .collect();
    assert_eq!(written.len(), 6, "each chunk has a sequential zone");
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.set_read_only(ZoneNo(written[0])).unwrap());
    // The write that finds out may fail; later ones go elsewhere.
    let _ = volume.run(write(32, 8, 9));
    volume.write(32, 8, 9);
    assert_eq!(volume.read(28, 12), [1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9]);
    (1..6).for_each(|chunk| volume.write(chunk * zone_blocks + 32, 8, 9));
    volume.message("reclaim");
    volume.rig.pass(Duration::from_millis(120_000));
    volume.reload();
    for chunk in 0..6 {
        let expected = [vec![chunk as u8 + 1; 4], vec![9; 8]].concat();
        assert_eq!(volume.read(chunk * zone_blocks + 28, 12), expected, "chunk {chunk}");
    }
}

/// Has a disk lose what it has of a sequential zone from block 8 on, as if that had been in its cache, while the volume is in
/// use or not. Then writes blocks from there on; returns whether each write is done and all blocks are there.
fn outlives_a_lost_tail(sabotage: Sabotage, is_in_use: bool) -> bool {
    let mut volume = Volume::new(&[disk(24, Some(6))], 2);
    volume.rig.stack.with_device(volume.target, |zoned: &mut Zoned, cx| zoned.sabotage(sabotage, cx));
    volume.write(0, 40, 1);
    if !is_in_use {
        volume.stop();
    }
    let start = volume.rig.stack.with_device(volume.leaves[0], |disk: &mut NullDevice, _| {
        let written = (6..24).map(|zone| disk.zone(ZoneNo(zone))).find(|zone| zone.wp > zone.start);
        written.unwrap().start
    });
    let start = start.unwrap();
    for bio in [Bio::new(Op::ZoneReset, start, 0, Payload::None), write(start.0 / 8, 8, 1)] {
        volume.rig.stack.submit(volume.rig.port, 0, volume.disks[0], Box::new(bio));
        assert_eq!(volume.next().2, Status::Ok);
    }
    if is_in_use {
        assert_eq!(volume.run(write(40, 1, 2)).1, Status::Io, "there is a hole before it");
    } else {
        volume.load();
        volume.rig.stack.with_device(volume.target, |zoned: &mut Zoned, cx| zoned.sabotage(sabotage, cx));
    }
    let mut writes = (8..24).step_by(4).map(|at| {
        volume.submit(write(at, 4, at as u8));
        volume.rig.pass(Duration::from_millis(60_000));
        volume.rig.stack.poll_completion(volume.rig.port).is_some_and(|done| done.status.is_ok())
    });
    if !writes.all(|is_done| is_done) {
        return false;
    }
    volume.reload();
    let expected = [[1; 8], [8, 8, 8, 8, 12, 12, 12, 12], [16, 16, 16, 16, 20, 20, 20, 20], [0; 8], [0; 8]].concat();
    volume.read(0, 40) == expected
}

#[test]
fn what_a_disk_has_lost_while_the_volume_was_away_is_not_valid_any_more_and_writes_go_on_there() {
    assert!(outlives_a_lost_tail(Sabotage::default(), false));
    let without = Sabotage { trust_bits_at_load: true, ..Sabotage::default() };
    assert!(!outlives_a_lost_tail(without, false), "nobody notices that the guard is gone");
}

#[test]
fn what_a_disk_has_lost_under_a_volume_in_use_is_not_valid_any_more_and_writes_go_on_there() {
    assert!(outlives_a_lost_tail(Sabotage::default(), true));
    let without = Sabotage { trust_bits_after_failure: true, ..Sabotage::default() };
    assert!(!outlives_a_lost_tail(without, true), "nobody notices that the guard is gone");
}

/// A disk that says of writes that they failed while it is told to, and does them all the same.
struct Liar {
    below: [DeviceId; 1],
    limits: Limits,
    lies: Rc<Cell<bool>>,
}

impl BlockDevice for Liar {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let word = u64::from(bio.op == Op::Write && self.lies.get());
        cx.submit(self.below[0], bio, word);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, is_lie: u64, cx: &mut Cx<'_>) {
        cx.complete(bio, if is_lie == 1 { Status::Io } else { status });
    }

    fn on_event(&mut self, _: Event, _: &mut Cx<'_>) {}

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("a liar")
    }
}

/// Has a write fail that was done all the same, while its zone is being copied. Returns what the block is before and after the
/// copy takes the zone's place.
fn overtaken_by_its_copy(sabotage: Sabotage) -> [u8; 2] {
    let slow = NullConfig { completion: Duration::from_millis(20), ..disk(16, Some(0)) };
    let mut volume = Volume::on(zoned::nulls(&[disk(6, None), slow]));
    let (lies, below) = (Rc::new(Cell::new(false)), [volume.leaves[0]]);
    let limits = volume.rig.stack.limits(below[0]).clone();
    volume.disks[0] = volume.rig.stack.add(Box::new(Liar { below, limits, lies: lies.clone() })).unwrap();
    let mut volume = volume.formatted(2);
    volume.rig.stack.with_device(volume.target, |zoned: &mut Zoned, cx| zoned.sabotage(sabotage, cx));
    volume.write(8, 8, 1);
    volume.message("reclaim");
    // The zone is read, and its copy on the way to the slow disk.
    volume.rig.pass(Duration::from_millis(10));
    lies.set(true);
    assert_eq!(volume.run(write(8, 1, 2)).1, Status::Io);
    lies.set(false);
    assert_eq!((volume.counters().copied_blocks > 0, volume.counters().reclaimed_zones), (true, 0));
    let before = volume.read(8, 1)[0];
    volume.rig.pass(Duration::from_millis(60_000));
    assert_eq!(volume.read(9, 7), [1; 7]);
    [before, volume.read(8, 1)[0]]
}

#[test]
fn a_write_that_failed_and_was_done_is_not_undone_by_a_copy_that_was_made_before() {
    assert_eq!(overtaken_by_its_copy(Sabotage::default()), [2, 2]);
    let without = Sabotage { trust_copy_after_failure: true, ..Sabotage::default() };
    assert_eq!(overtaken_by_its_copy(without), [2, 1], "nobody notices that the guard is gone");
}

#[test]
fn what_was_in_a_zone_that_went_offline_is_an_error_and_never_zeroes() {
    let mut volume = Volume::new(&[disk(24, Some(6))], 2);
    volume.write(0, 16, 3);
    volume.stop();
    let leaf = volume.leaves[0];
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| {
        let written = (6..24).find(|zone| disk.zone(ZoneNo(*zone)).wp > disk.zone(ZoneNo(*zone)).start).unwrap();
        disk.set_offline(ZoneNo(written)).unwrap();
    });
    volume.load();
    assert_ne!(volume.run(read(0, 4)).1, Status::Ok);
    assert_eq!(volume.map(0..32), [(16, false), (16, true)]);
    volume.write(4, 4, 9);
    assert_eq!(volume.read(4, 4), [9; 4]);
    volume.reload();
    assert_ne!(volume.run(read(0, 4)).1, Status::Ok);
    assert_eq!(volume.read(4, 4), [9; 4]);
}

#[test]
fn a_set_without_its_superblock_is_made_anew_from_the_other() {
    let mut volume = Volume::new(&[disk(24, Some(6))], 2);
    volume.write(0, 40, 3);
    volume.stop();
    volume.with_media(|media| media.write(0, &[0; 4096]).unwrap());
    volume.load();
    assert_eq!(volume.read(0, 40), [3; 40]);
    volume.stop();
    let sets = volume.with_media(|media| {
        [0, u64::from(ZONE)].map(|at| {
            let mut block = vec![0; 4096];
            media.read(at + 1, &mut block).unwrap();
            block
        })
    });
    assert_eq!(sets[0], sets[1]);
}

/// Has a commit be cut off in its first half, or in its second one, and the superblock be unreadable of the set that counts
/// then. The other set is torn. Returns whether the volume says so, and is whole when the superblock can be read again.
fn keeps_the_set_that_counts(sabotage: Sabotage, in_force: usize) -> bool {
    let mut volume = Volume::new(&[disk(24, Some(6))], 2);
    volume.write(0, 40, 3);
    volume.stop();
    let starts = [0, u64::from(ZONE)];
    volume.with_media(|media| {
        let mut block = vec![0; 4096];
        media.read(starts[in_force], &mut block).unwrap();
        let superblock = Superblock::decode(&block).unwrap();
        let generation = superblock.generation + in_force as u64;
        media.write(starts[in_force], &Superblock { generation, ..superblock }.encode()).unwrap();
        let torn = starts[1 - in_force];
        (1 + superblock.map_blocks..superblock.metadata_blocks)
            .for_each(|bitmap| media.write(torn + u64::from(bitmap), &[0; 4096]).unwrap());
    });
    spoil(&mut volume, &[starts[in_force]]);
    volume.load();
    volume.rig.stack.with_device(volume.target, |zoned: &mut Zoned, cx| zoned.sabotage(sabotage, cx));
    if volume.run(read(0, 40)).1.is_ok() {
        return false;
    }
    let status = volume.status();
    unspoil(&mut volume);
    volume.reload();
    let why = format!("failed: the superblock at block {} cannot be read: ", starts[in_force]);
    let advice = "which one counts is not known: load it again, and if that does not help, run `shingle dmz repair`";
    println!("{status}");
    volume.read(0, 40) == [3; 40] && status.contains(&why) && status.ends_with(advice)
}

#[test]
fn a_set_is_not_believed_while_the_superblock_of_the_other_one_cannot_be_read_and_they_differ() {
    for in_force in 0..2 {
        assert!(keeps_the_set_that_counts(Sabotage::default(), in_force));
        let without = Sabotage { unread_is_none: true, ..Sabotage::default() };
        assert!(!keeps_the_set_that_counts(without, in_force), "nobody notices that the guard is gone");
    }
}

#[test]
fn equal_sets_are_used_though_a_superblock_cannot_be_read() {
    for superblock in [0, u64::from(ZONE)] {
        for heals in [false, true] {
            let mut volume = Volume::new(&[disk(24, Some(6))], 2);
            volume.write(0, 40, 3);
            volume.stop();
            spoil(&mut volume, &[superblock]);
            volume.load();
            let first = volume.submit(read(0, 40));
            // All three tries fail, or the last one does not.
            volume.rig.pass(Duration::from_millis(if heals { 15 } else { 1_000 }));
            if heals {
                unspoil(&mut volume);
                assert_eq!(volume.next().0, first);
                volume.write(0, 1, 4);
                continue;
            }
            let done = volume.rig.stack.poll_completion(volume.rig.port).unwrap();
            assert_eq!((done.tag, done.status, first_bytes(&done.bio)), (first, Status::Ok, vec![3; 40]));
            assert_eq!(volume.run(write(0, 1, 4)).1, Status::ReadOnly);
            let why = format!("read-only: the superblock at block {superblock} cannot be read: ");
            assert!(volume.status().contains(&why), "{}", volume.status());
            unspoil(&mut volume);
            volume.reload();
            volume.write(0, 1, 4);
        }
    }
}

#[test]
fn a_device_that_may_belong_to_another_set_is_not_written() {
    let mut volume = Volume::new(&[disk(6, None), disk(16, Some(0))], 2);
    volume.write(0, 40, 3);
    volume.stop();
    let (leaf, third) = (volume.leaves[1], Sector::ZERO..Sector(8));
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.add_bad_blocks(third.clone()));
    volume.load();
    assert_eq!(volume.read(0, 40), [3; 40]);
    assert_eq!(volume.run(write(0, 1, 4)).1, Status::ReadOnly);
    let why = "read-only: whether device 1 belongs to the set is not known, as its superblock cannot be read: ";
    assert!(volume.status().contains(why), "{}", volume.status());
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.remove_bad_blocks(third));
    volume.reload();
    volume.write(0, 1, 4);
}

#[test]
fn metadata_that_cannot_be_read_is_an_error_that_says_so_since_the_other_set_may_be_torn() {
    let mut volume = Volume::new(&[disk(24, Some(6))], 2);
    volume.write(0, 40, 3);
    volume.stop();
    spoil(&mut volume, &[1]);
    volume.load();
    assert_eq!(volume.run(read(0, 1)).1, Status::Io);
    assert_eq!(volume.run(write(0, 1, 1)).1, Status::Io);
    assert!(volume.status().contains("failed: metadata cannot be read, from block 1 on"), "{}", volume.status());
}

#[test]
fn an_unformatted_disk_is_an_error_that_names_the_next_step() {
    let mut volume = Volume::on(zoned::nulls(&[disk(24, Some(6))]));
    volume.blocks = 10 * u64::from(ZONE);
    volume.load();
    assert_eq!(volume.run(read(0, 1)).1, Status::Io);
    let status = volume.status();
    assert!(status.contains("no valid superblock was found: `shingle dmz check` tells"), "{status}");
}

#[test]
fn a_table_longer_than_the_volume_is_refused_with_the_right_length() {
    let mut volume = Volume::new(&[disk(24, Some(6))], 2);
    let right = volume.blocks * 8;
    volume.stop();
    volume.blocks += u64::from(ZONE);
    volume.load();
    assert_eq!(volume.run(read(0, 1)).1, Status::Io);
    assert!(volume.status().contains(&format!("the volume {right}: load one of that length")), "{}", volume.status());
}

#[test]
fn an_entry_that_names_a_zone_twice_makes_the_volume_read_only_and_spares_the_rest() {
    let mut volume = Volume::new(&[disk(24, Some(6))], 2);
    (0..3).for_each(|chunk| volume.write(chunk * u64::from(ZONE), 8, chunk as u8 + 1));
    volume.stop();
    volume.with_media(|media| {
        for set in [0, u64::from(ZONE)] {
            let mut map = vec![0; 4096];
            media.read(set + 1, &mut map).unwrap();
            map.copy_within(0..8, 8);
            media.write(set + 1, &map).unwrap();
        }
    });
    volume.load();
    assert_eq!(volume.read(0, 8), [1; 8]);
    assert_eq!(volume.read(2 * u64::from(ZONE), 8), [3; 8]);
    assert_eq!(volume.run(read(u64::from(ZONE), 8)).1, Status::Io);
    let zone = u64::from(ZONE);
    let expected = [(8, false), (zone - 8, true), (zone + 8, false), (zone - 8, true)];
    assert_eq!(volume.map(0..3 * zone), expected, "a chunk that cannot be read is no hole");
    assert_eq!(volume.run(write(0, 1, 9)).1, Status::ReadOnly);
    assert_eq!(volume.run(flush()).1, Status::Ok);
    assert!(volume.status().contains("read-only: 1 entries of the mapping"), "{}", volume.status());
}

#[test]
fn a_cache_device_that_is_gone_ends_in_errors_and_not_in_waiting() {
    let mut volume = Volume::new(&[disk(6, None), disk(16, Some(0))], 2);
    volume.write(0, 4, 1);
    volume.flush();
    let (leaf, all_of_it) = (volume.leaves[0], 6 * u64::from(ZONE) * 8);
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.add_bad_blocks(Sector::ZERO..Sector(all_of_it)));
    assert_ne!(volume.run(write(1, 1, 2)).1, Status::Ok);
    assert_ne!(volume.run(fua(write(u64::from(ZONE) * 3, 1, 2))).1, Status::Ok);
    assert_ne!(volume.run(read(0, 4)).1, Status::Ok);
    // Its metadata cannot be written either: after some tries it says so once and for all.
    for n in 0..5 {
        volume.run(write(u64::from(ZONE) * 4 + n, 1, 2));
        volume.run(flush());
        volume.rig.pass(Duration::from_millis(11_000));
    }
}

/// Makes blocks of the first device unreadable.
fn spoil(volume: &mut Volume, blocks: &[u64]) {
    let leaf = volume.leaves[0];
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| {
        blocks.iter().for_each(|block| disk.add_bad_blocks(Sector(block * 8)..Sector(block * 8 + 8)));
    });
}

/// Makes all blocks of the first device readable again.
fn unspoil(volume: &mut Volume) {
    let (leaf, all) = (volume.leaves[0], Sector::ZERO..Sector(24 * u64::from(ZONE) * 8));
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.remove_bad_blocks(all));
}
