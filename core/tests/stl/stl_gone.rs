//! Zones of `stl` that are gone when it starts, and were free when the newest root was made: users may have written to them, and what was flushed there
//! would be missing without a word.

use shingle_core::block::{DeviceId, Status};
use shingle_core::device::NullDevice;
use shingle_core::dm::stl::tools::{Depth, Finding, check};
use shingle_core::dm::stl::{Options, Sabotage, Stl, ZoneIndex};
use shingle_core::zone::{Condition, ZoneNo};

use crate::shingled;
use crate::shingled::shelf::taken_out;
use crate::shingled::{Volume, ZONE, disk, read, small};

/// The disk below its plug.
const LEAF: DeviceId = DeviceId(0);
const ZONES: u32 = 40;

fn on_disk<R>(volume: &mut Volume, what: impl FnOnce(&mut NullDevice) -> R) -> R {
    volume.rig.stack.with_device(LEAF, |disk: &mut NullDevice, _| what(disk)).expect("the disk is there")
}

fn empty(volume: &mut Volume) -> Vec<ZoneNo> {
    on_disk(volume, |disk| (2..ZONES).map(ZoneNo).filter(|zone| disk.zone(*zone).cond == Condition::Empty).collect())
}

/// A volume that has started and makes no root by itself, without this guard.
fn started(gone: Sabotage) -> Volume {
    let options = Options { replay_blocks: 100_000, pending_bytes: 1 << 20, ..small() };
    let mut volume = Volume::new(&[disk(ZONES, Some(0))], 200, options);
    volume.stop();
    volume.load();
    volume.rig.stack.with_device(volume.rig.top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    assert_eq!(volume.read(0, 1), [0]);
    volume
}

/// Writes this, a block after the other, and flushes it; the zones that were empty before and are not any more, in order.
fn flushed(volume: &mut Volume, blocks: u64) -> Vec<ZoneNo> {
    let mut last = empty(volume);
    let mut opened = Vec::new();
    for block in 0..blocks {
        volume.write(block, 1, 7);
        let now = empty(volume);
        opened.extend(last.iter().filter(|zone| !now.contains(zone)));
        last = now;
    }
    volume.flush();
    opened
}

fn found(volume: &mut Volume) -> Vec<Finding> {
    let mut media = taken_out(volume);
    check(&mut media, Depth { pace: None }, &mut |_, _| ()).findings.all().to_vec()
}

/// What a read of the first block after a start says, when the host has died and then these zones.
fn after(volume: &mut Volume, dead: &[ZoneNo], gone: Sabotage) -> Result<Vec<u8>, String> {
    volume.rig.settle();
    let top = volume.rig.top;
    volume.rig.stack.remove(top).unwrap();
    on_disk(volume, |disk| dead.iter().for_each(|zone| disk.set_offline(*zone).unwrap()));
    volume.load();
    volume.rig.stack.with_device(volume.rig.top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    let (bio, status) = volume.run(read(0, 1));
    match status {
        Status::Ok => Ok(shingled::first_bytes(&bio)),
        _ => Err(bio.why().map(ToString::to_string).unwrap_or_default()),
    }
}

/// Without the guard that refuses a volume, or with all.
fn each() -> [Sabotage; 2] {
    [Sabotage::default(), Sabotage { gone_is_empty: true, ..Sabotage::default() }]
}

#[test]
fn a_volume_is_refused_if_the_zone_is_gone_that_users_were_to_get_next() {
    let mut volume = started(Sabotage::default());
    let opened = flushed(&mut volume, 1);
    assert_eq!(opened.len(), 1);
    {
        let mut m = taken_out(&mut volume);
        let r = check(&mut m, Depth { pace: None }, &mut |_, _| ());
        let v = r.volume.unwrap();
        eprintln!("opened {opened:?} root {} {:?}", v.newest.header.batch.number, v.newest.root.open);
    }
    let why = after(&mut volume, &opened, Sabotage::default()).unwrap_err();
    assert!(why.contains(&format!("zone {} may have batches", opened[0])) && why.contains("salvage"), "{why}");
    assert!(found(&mut volume).contains(&Finding::Gone(ZoneIndex(opened[0].0))));
}

#[test]
fn a_volume_is_refused_if_a_zone_is_gone_and_those_that_users_had_before_are_full() {
    for gone in each() {
        let mut volume = started(gone);
        // Each takes two: one and a half zones.
        let opened = flushed(&mut volume, u64::from(ZONE) * 3 / 4);
        let [_, last] = opened[..] else { panic!("{opened:?}") };
        let found_by_check = |volume: &mut Volume| found(volume).contains(&Finding::Gone(ZoneIndex(last.0)));
        match after(&mut volume, &[last], gone) {
            Err(why) => {
                assert!(gone == Sabotage::default() && why.contains("is gone"), "{why}");
                assert!(found_by_check(&mut volume));
            }
            Ok(_) => assert!(gone.gone_is_empty, "what was flushed is missing without a word"),
        }
    }
}

#[test]
fn a_zone_that_is_gone_and_that_nobody_had_written_is_no_reason_to_refuse_a_volume() {
    for blocks in [0, 1, 20] {
        let mut volume = started(Sabotage::default());
        flushed(&mut volume, blocks);
        let others = empty(&mut volume);
        // The first is the one that users get next, or may be.
        let dead = &others[others.len() / 2..others.len() / 2 + 3];
        assert_eq!(after(&mut volume, dead, Sabotage::default()), Ok(vec![if blocks > 0 { 7 } else { 0 }]));
        assert!(found(&mut volume).iter().all(|finding| !matches!(finding, Finding::Gone(_))));
        volume.reload();
        volume.write(1, 1, 3);
        assert_eq!(volume.read(0, 2)[1], 3);
    }
}

#[test]
fn zones_that_were_gone_before_the_volume_was_made_do_not_keep_it_from_starting() {
    let mut volume = Volume::new(&[disk(ZONES, Some(0))], 200, small());
    on_disk(&mut volume, |disk| [5, 9].into_iter().for_each(|zone| disk.set_offline(ZoneNo(zone)).unwrap()));
    volume.write(0, 1, 7);
    volume.reload();
    assert_eq!(volume.read(0, 1), [7]);
}

#[test]
fn users_who_get_another_zone_than_the_root_names_would_lose_it_without_a_word() {
    let gone = Sabotage { next_is_any: true, ..Sabotage::default() };
    let mut volume = started(gone);
    let opened = flushed(&mut volume, 1);
    assert_eq!(after(&mut volume, &opened, gone), Ok(vec![0]), "the test does not show it");
}
