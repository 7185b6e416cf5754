//! A disk of a set that is an older copy of itself is refused, and until the volume is written nothing is taken away that the
//! right disk leads to. No power cut leaves a set that is refused.

use shingle_core::block::{Bio, BlockDevice, Op, Payload, Status};
use shingle_core::dm::zoned::check::{Loss, Next, OnLoss, RepairError, Salvage, check, repair};
use shingle_core::dm::zoned::{Sabotage, Zoned};
use shingle_core::dm::{OpSet, Trigger};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::ZoneGeometry;
use shingle_sim::Choices;
use shingle_sim::disk::{CrashConfig, CrashDisk, Medium, Powered};
use shingle_sim::fault::{Fault, FaultPlan};

use crate::dmz::salvaged;
use crate::zoned::{Volume, ZONE, read, write};

/// The media of all disks.
type Media = Vec<Medium>;

const ZONE_SECTORS: u64 = ZONE as u64 * 8;
/// Most zones of a set whose disks are of the same time that do not fit its mapping: 8, and two for the copy of each of two
/// zoned disks.
const MOST: usize = 8 + 2 * 2;

/// A regular disk and two zoned ones.
fn configs() -> [CrashConfig; 3] {
    let zoned = || CrashConfig::new(ZoneGeometry::new(60 * ZONE_SECTORS, ZONE_SECTORS, ZONE_SECTORS, 0).unwrap());
    [CrashConfig::regular(20 * ZONE_SECTORS).unwrap(), zoned(), zoned()]
}

/// The disks, with new media if there are none. `plan` is what goes wrong with each zoned one.
fn disks(media: Option<&Media>, plan: &FaultPlan) -> Vec<Box<dyn BlockDevice>> {
    let disk = |(number, config): (usize, CrashConfig)| {
        let plan = if number == 0 { FaultPlan::none() } else { plan.clone() };
        let disk = match media {
            None => CrashDisk::new(config, plan, number as u64),
            Some(media) => CrashDisk::restart(config, plan, number as u64, media[number].clone()),
        };
        Box::new(disk.unwrap()) as Box<dyn BlockDevice>
    };
    configs().into_iter().enumerate().map(disk).collect()
}

/// A set in which more than half of the chunks are written, all of it durable.
fn filled() -> Volume {
    let mut volume = Volume::over(disks(None, &FaultPlan::none()), 4);
    let chunks = volume.blocks / u64::from(ZONE) * 6 / 10;
    (0..chunks).for_each(|chunk| volume.write(chunk * u64::from(ZONE), ZONE, 1));
    volume.flush();
    volume
}

/// The media after a power cut at this moment.
fn cut(volume: &Volume, rng: &mut Rng) -> Media {
    let disk = |leaf: &_| volume.rig.stack.device::<CrashDisk>(*leaf).unwrap().cut_power(&mut Choices::new(rng.fork()));
    volume.leaves.iter().map(disk).collect()
}

/// The volume of these disks, not loaded.
fn on(media: &Media, blocks: u64) -> Volume {
    with_faults(media, blocks, &FaultPlan::none())
}

/// The volume of these disks, not loaded. `plan` is what goes wrong with each zoned one.
fn with_faults(media: &Media, blocks: u64, plan: &FaultPlan) -> Volume {
    let mut volume = Volume::on(disks(Some(media), plan));
    volume.blocks = blocks;
    volume
}

/// Starts the volume, reads all of it, leaves it alone for a while and stops it. Returns what its status said.
fn start_and_stop(volume: &mut Volume) -> String {
    volume.load();
    (0..volume.blocks).step_by(ZONE as usize).for_each(|block| drop(volume.run(read(block, ZONE))));
    volume.rig.pass(Duration::from_millis(60_000));
    let status = volume.status();
    volume.stop();
    status
}

/// Overwrites so many random chunks.
fn overwrite(volume: &mut Volume, chunks: u64, rng: &mut Rng) {
    let written = volume.blocks / u64::from(ZONE) * 6 / 10;
    for _ in 0..chunks {
        volume.write(rng.below(written) * u64::from(ZONE), ZONE, 2);
    }
}

/// A set that was stopped, and the older copy of each of its disks, between which so many chunks were overwritten.
fn with_copies(chunks: u64, seed: u64) -> (Media, Media, u64) {
    let (mut volume, rng) = (filled(), &mut Rng::new(seed));
    volume.stop();
    let older = cut(&volume, rng);
    volume.load();
    overwrite(&mut volume, chunks, rng);
    volume.stop();
    (cut(&volume, rng), older, volume.blocks)
}

fn misfits(volume: &mut Volume) -> usize {
    let report = volume.with_media(|media| check(media, &mut |_, _| ()));
    report.findings.iter().filter(|found| found.is_misfit()).count()
}

#[test]
fn an_older_copy_of_any_disk_is_refused_and_named_and_nothing_is_changed() {
    let (right, older, blocks) = with_copies(120, 1);
    let whole = on(&right, blocks).with_media(|media| salvaged(media).unwrap());
    for (member, suspect) in [(0, "device 0"), (1, "device 1 or device 0"), (2, "device 2 or device 0")] {
        let mut media = right.clone();
        media[member] = older[member].clone();
        let mut volume = on(&media, blocks);
        let before = volume.with_media(|media| (check(media, &mut |_, _| ()), salvaged(media)));
        assert_eq!(before.0.next(), Next::FindDisk, "{}", before.0);
        let status = start_and_stop(&mut volume);
        assert!(status.contains(&format!("failed: {suspect} is an older copy of itself")), "{status}");
        let repaired = volume.with_media(|media| repair(media, OnLoss::Refuse, &mut |_, _| ()));
        let Err(RepairError::Loss(lost)) = &repaired else { panic!("{repaired:?}") };
        assert!(lost.iter().any(|loss| matches!(loss, Loss::OlderCopy(_))), "{lost:?}");
        let salvage = volume.with_media(|media| Salvage::survey(media, &mut |_, _| ())).unwrap();
        assert!(matches!(salvage.losses[0], Loss::OlderCopy(_)), "{:?}", salvage.losses);
        let after = volume.with_media(|media| (check(media, &mut |_, _| ()), salvaged(media)));
        assert!(before == after, "device {member}: something was changed");
        // The others are as before: with the right disk back nothing is gone.
        let mut media = cut(&volume, &mut Rng::new(2));
        media[member] = right[member].clone();
        let found = on(&media, blocks).with_media(|media| salvaged(media).unwrap());
        assert!(found == whole, "device {member}: not all is there with the right disk");
    }
}

#[test]
fn a_repair_that_gives_up_what_was_written_since_makes_a_set_of_an_older_copy() {
    let (mut media, older, blocks) = with_copies(120, 1);
    media[0] = older[0].clone();
    let mut volume = on(&media, blocks);
    let repaired = volume.with_media(|media| repair(media, OnLoss::GiveUp, &mut |_, _| ())).unwrap();
    assert!(repaired.after.is_clean(), "{}", repaired.after);
    assert!(!start_and_stop(&mut volume).contains("failed"));
}

#[test]
fn while_nobody_writes_a_start_with_an_older_copy_that_is_not_noticed_takes_nothing_away() {
    for (chunks, member) in [1, 4].into_iter().flat_map(|chunks| [0, 1, 2].map(|member| (chunks, member))) {
        let (right, older, blocks) = with_copies(chunks, 3);
        let whole = on(&right, blocks).with_media(|media| salvaged(media).unwrap());
        let mut media = right.clone();
        media[member] = older[member].clone();
        let mut volume = on(&media, blocks);
        let status = start_and_stop(&mut volume);
        assert!(!status.contains("failed"), "more than a power cut leaves: {status}");
        let mut media = cut(&volume, &mut Rng::new(4));
        media[member] = right[member].clone();
        let mut volume = on(&media, blocks);
        start_and_stop(&mut volume);
        let found = volume.with_media(|media| salvaged(media).unwrap());
        assert!(found == whole, "device {member}, {chunks} chunks: not all is there with the right disk");
    }
}

/// Cuts the power at this moment, and returns the number of zones that do not fit the mapping then. Without sabotage, the
/// set has to start.
fn misfits_of_cut(volume: &Volume, rng: &mut Rng, sabotage: Sabotage) -> usize {
    let mut left = on(&cut(volume, rng), volume.blocks);
    let found = misfits(&mut left);
    if sabotage == Sabotage::default() {
        let status = start_and_stop(&mut left);
        assert!(!status.contains("failed"), "{status}");
    }
    found
}

/// Takes guards of a volume away.
fn set_sabotage(volume: &mut Volume, sabotage: Sabotage) {
    volume.rig.stack.with_device(volume.target, |zoned: &mut Zoned, cx| zoned.sabotage(sabotage, cx));
}

/// Sends these bios, so many at a time, and has a look whenever one is done.
fn send_all(volume: &mut Volume, bios: Vec<Bio>, depth: usize, mut look: impl FnMut(&Volume)) {
    let (mut bios, mut in_flight) = (bios.into_iter(), 0);
    loop {
        while in_flight < depth
            && let Some(bio) = bios.next()
        {
            volume.submit(bio);
            in_flight += 1;
        }
        if in_flight == 0 {
            return;
        }
        assert!(volume.next().2.is_ok(), "{}", volume.status());
        in_flight -= 1;
        look(volume);
    }
}

/// Runs what makes many zones change their owners, and looks at what a power cut leaves now and then: the most zones that do
/// not fit the mapping, and whether all of these sets start.
fn most_misfits(sabotage: Sabotage, knobs: Option<&str>) -> usize {
    let (mut most, mut rng) = (0, Rng::new(5));
    let mut volume = filled();
    volume.stop();
    volume.load();
    set_sabotage(&mut volume, sabotage);
    knobs.into_iter().for_each(|knobs| drop(volume.message(knobs)));
    volume.message("set commit_ms 600000");
    let chunks = volume.blocks / u64::from(ZONE);
    // Discards of everything, then streams into what is free, eight at a time, without a flush.
    let discard = |chunk: u64| Bio::new(Op::Discard, Sector(chunk * ZONE_SECTORS), ZONE * 8, Payload::None);
    let stream = |chunk: u64| write(chunk * u64::from(ZONE), ZONE, 3);
    for bios in [(0..chunks).map(discard).collect(), (0..chunks).map(stream).collect::<Vec<_>>()] {
        send_all(&mut volume, bios, 8, |volume| most = most.max(misfits_of_cut(volume, &mut rng, sabotage)));
    }
    most
}

#[test]
fn a_power_cut_leaves_no_more_zones_that_do_not_fit_the_mapping_than_are_told() {
    let most = most_misfits(Sabotage::default(), None);
    assert!((8..=MOST).contains(&most), "{most} zones");
    let most = most_misfits(Sabotage::default(), Some("set unrecorded_zones 2"));
    assert!(most <= MOST - 6, "{most} zones");
    let most = most_misfits(Sabotage { unrecorded_unbound: true, ..Sabotage::default() }, None);
    assert!(most > MOST, "{most} zones, though nothing bounds them");
}

/// Leaves one block of each of 16 chunks in its sequential zone, and overwrites all of these at once, so that nothing is
/// valid there. Returns the largest number of zones that do not fit the mapping after a power cut meanwhile.
fn most_misfits_of_overwrites(sabotage: Sabotage) -> usize {
    let (mut most, mut rng) = (0, Rng::new(7));
    let mut volume = filled();
    volume.stop();
    volume.load();
    let starts = (0..16).map(|chunk| chunk * u64::from(ZONE));
    starts.clone().for_each(|at| volume.discard(at + 1, ZONE - 1));
    volume.flush();
    set_sabotage(&mut volume, sabotage);
    volume.message("set unrecorded_zones 2 pace_percent 0");
    let tags: Vec<u64> = starts.map(|at| volume.submit(write(at, 1, 4))).collect();
    for _ in 0..60 {
        volume.rig.pass(Duration::from_micros(200));
        most = most.max(misfits_of_cut(&volume, &mut rng, sabotage));
    }
    tags.iter().for_each(|_| assert!(volume.next().2.is_ok(), "{}", volume.status()));
    // A stop resets all zones in which nothing is valid.
    volume.stop();
    assert_eq!(misfits(&mut on(&cut(&volume, &mut rng), volume.blocks)), 0);
    most
}

#[test]
fn overwrites_that_leave_nothing_in_many_zones_at_once_keep_to_the_bound() {
    let most = most_misfits_of_overwrites(Sabotage::default());
    assert!((2..=MOST - 6).contains(&most), "{most} zones");
    let most = most_misfits_of_overwrites(Sabotage { unrecorded_unbound: true, ..Sabotage::default() });
    assert!(most > MOST - 6, "{most} zones, though nothing bounds them");
}

/// A zone whose reset failed was not used any more. It stayed a written zone without an owner, and no bound held for such zones.
#[test]
fn zones_whose_resets_fail_twice_are_reset_all_the_same() {
    let (mut volume, mut rng) = (filled(), Rng::new(8));
    volume.stop();
    let trigger = Trigger { ops: OpSet::of(&[Op::ZoneReset]), count: Some(2), ..Trigger::default() };
    let plan = FaultPlan::none().with(trigger, Fault::Fail(Status::Io));
    let mut volume = with_faults(&cut(&volume, &mut rng), volume.blocks, &plan);
    volume.load();
    (0..8).for_each(|chunk| volume.discard(chunk * u64::from(ZONE), ZONE));
    volume.stop();
    let faults = volume.leaves.iter().map(|leaf| volume.rig.stack.device::<CrashDisk>(*leaf).unwrap().faults());
    assert_eq!(faults.sum::<u64>(), 4);
    assert_eq!(misfits(&mut on(&cut(&volume, &mut rng), volume.blocks)), 0);
}

/// Only a reset was to be flushed, and no commit failed for it: the suspend waited for ever.
#[test]
fn a_suspend_ends_when_a_device_fails_all_flushes_after_resets() {
    let (mut volume, mut rng) = (filled(), Rng::new(9));
    volume.stop();
    let trigger = Trigger { ops: OpSet::of(&[Op::Flush]), skip: 1, ..Trigger::default() };
    let plan = FaultPlan::none().with(trigger, Fault::Fail(Status::Io));
    let mut volume = with_faults(&cut(&volume, &mut rng), volume.blocks, &plan);
    volume.load();
    volume.discard(0, ZONE);
    volume.suspend();
    volume.rig.pass(Duration::from_millis(60_000));
    assert!(volume.rig.stack.is_drained(volume.target), "{}", volume.status());
}

#[test]
fn without_its_guards_an_older_copy_takes_away_what_the_right_disk_leads_to() {
    let (right, older, blocks) = with_copies(120, 1);
    let whole = on(&right, blocks).with_media(|media| salvaged(media).unwrap());
    let guards = [
        (
            "the set is not refused, and zones are reset",
            Sabotage { older_copies: true, reset_unneeded: true, ..Sabotage::default() },
            false,
        ),
        ("the set is not refused, and nothing is reset", Sabotage { older_copies: true, ..Sabotage::default() }, true),
    ];
    for (what, gone, is_whole) in guards {
        let mut media = right.clone();
        media[0] = older[0].clone();
        let mut volume = on(&media, blocks);
        volume.load();
        set_sabotage(&mut volume, gone);
        volume.run(read(0, 1));
        volume.rig.pass(Duration::from_millis(60_000));
        volume.stop();
        let mut media = cut(&volume, &mut Rng::new(6));
        media[0] = right[0].clone();
        let found = on(&media, blocks).with_media(|media| salvaged(media).unwrap());
        assert_eq!(found == whole, is_whole, "{what}");
    }
}

#[test]
fn every_copy_is_refused_between_which_and_the_right_disk_a_third_of_the_chunks_were_overwritten() {
    for (chunks, seed) in [30, 60].into_iter().flat_map(|chunks| (10..15).map(move |seed| (chunks, seed))) {
        let (right, older, blocks) = with_copies(chunks, seed);
        for member in 0..3 {
            let mut media = right.clone();
            media[member] = older[member].clone();
            let count = misfits(&mut on(&media, blocks));
            assert!(count > MOST, "device {member}, {chunks} chunks, seed {seed}: {count} zones");
        }
    }
}
