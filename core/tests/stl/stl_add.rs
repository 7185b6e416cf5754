//! A device is added to a volume of `stl`: it is the old one or the new one, wherever that is cut off.

use shingle_core::block::Status;
use shingle_core::device::NullConfig;
use shingle_core::dm::stl::tools::{AddError, Depth, Disk, Finding, Media, MemoryMedia, Report, Spot, add, check};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use crate::shingled;
use crate::shingled::cut::Cut;
use crate::shingled::shelf::{assembled, put_back, taken_out};
use crate::shingled::{Volume, ZONE, disk, small};
use crate::stl_geometry::short;

const NEW: [u8; 16] = [99; 16];

/// Disks of a volume that was used and put away, and what it has.
fn used(disks: &[NullConfig], seed: u64) -> (MemoryMedia, Vec<u8>) {
    let (mut volume, mut rng) = (Volume::new(disks, 100, small()), Rng::new(seed));
    let mut model = vec![0; volume.blocks as usize];
    for _ in 0..800 {
        let (at, byte) = (rng.below(volume.blocks), 1 + rng.below(255) as u8);
        volume.write(at, 1, byte);
        model[at as usize] = byte;
    }
    volume.stop();
    (taken_out(&mut volume), model)
}

/// The disks and one more, with something on it that is to be lost.
fn with(media: &MemoryMedia, new: &NullConfig) -> MemoryMedia {
    let mut volume = Volume::new(&[disk(20, Some(3)), new.clone()], 100, small());
    (0..volume.blocks).step_by(3).for_each(|block| volume.write(block, 1, 0x77));
    volume.stop();
    joined(media, &taken_out(&mut volume), 1)
}

/// A disk with nothing on it, whose zones take so many blocks.
fn empty(blocks: u64) -> MemoryMedia {
    let zone = |number: u64| Zone {
        start: Sector(number * u64::from(ZONE) * 8),
        len: u64::from(ZONE) * 8,
        capacity: blocks * 8,
        wp: Sector(number * u64::from(ZONE) * 8),
        kind: ZoneKind::Sequential,
        cond: Condition::Empty,
    };
    MemoryMedia::new(vec![Disk {
        sectors: 20 * u64::from(ZONE) * 8,
        zones: (0..20).map(zone).collect(),
        max_active: None,
    }])
}

/// The first disks and disk `number` of the others.
fn joined(first: &MemoryMedia, others: &MemoryMedia, number: usize) -> MemoryMedia {
    let first = (0..first.disks().len()).map(|disk| (first, disk));
    assembled(&first.chain([(others, number)]).collect::<Vec<_>>())
}

/// All disks but the last one.
fn without_last(media: &MemoryMedia) -> MemoryMedia {
    assembled(&(0..media.disks().len() - 1).map(|disk| (media, disk)).collect::<Vec<_>>())
}

fn checked(media: &MemoryMedia) -> Report {
    let mut pace = |_| ();
    check(&mut media.clone(), Depth { pace: Some(&mut pace) }, &mut |_, _| ())
}

/// Whether these disks are a volume that can be used as it is. That a device has an older root than others a start mends.
fn is_whole(media: &MemoryMedia, live: u64) -> bool {
    let report = checked(media);
    let Some(volume) = &report.volume else { return false };
    let wrong: Vec<&Finding> =
        report.findings.all().iter().filter(|finding| !matches!(finding, Finding::OlderRoot { .. })).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!((volume.replayed, report.live_blocks()), (0, live));
    true
}

/// Loads these disks, reads all of them, and goes on.
fn goes_on(disks: &[NullConfig], media: &MemoryMedia, model: &[u8], blocks: u64) {
    let mut volume = Volume::new(disks, 100, small());
    volume.stop();
    put_back(&mut volume, media);
    volume.blocks = blocks;
    volume.load();
    let mut model = model.to_vec();
    model.resize(blocks as usize, 0);
    assert!(volume.read(0, blocks as u32) == model);
    let mut rng = Rng::new(4);
    for _ in 0..2000 {
        let (at, byte) = (rng.below(blocks), 1 + rng.below(255) as u8);
        volume.write(at, 1, byte);
        model[at as usize] = byte;
    }
    volume.reload();
    assert!(volume.read(0, blocks as u32) == model);
    volume.stop();
    let report = checked(&taken_out(&mut volume));
    assert!(report.findings.is_clean(), "{:?}", report.findings.all());
}

fn cases() -> Vec<(Vec<NullConfig>, NullConfig)> {
    vec![
        (vec![disk(40, Some(4))], disk(30, Some(0))),
        (vec![disk(30, Some(0))], disk(24, Some(5))),
        (vec![disk(24, Some(2)), disk(24, Some(0))], disk(12, None)),
        (vec![disk(12, None), disk(30, Some(3))], disk(150, Some(3))),
    ]
}

#[test]
fn a_disk_with_a_short_last_zone_can_be_added_and_the_volume_goes_on() {
    for blocks in [1, 3, 12] {
        let (disks, new) = (vec![disk(40, Some(4))], short(30, 0, blocks));
        let (media, model) = used(&disks, blocks);
        let mut media = with(&media, &new);
        let added = add(&mut media, NEW, &mut |_, _| ()).unwrap();
        goes_on(&[disks, vec![new]].concat(), &media, &model, added.sectors / 8);
    }
}

#[test]
fn a_volume_with_another_device_is_larger_in_order_and_has_what_it_had() {
    for (seed, (disks, new)) in (0..).zip(cases()) {
        let (media, model) = used(&disks, seed);
        let live = model.iter().filter(|byte| **byte > 0).count() as u64;
        let mut all = with(&media, &new);
        let added = add(&mut all, NEW, &mut |_, _| ()).unwrap();
        assert_eq!(added.before, model.len() as u64 * 8);
        assert!(added.sectors > added.before);
        let report = checked(&all);
        assert!(report.findings.is_clean(), "{seed}: {:?}", report.findings.all());
        assert_eq!((report.live_blocks(), report.read_blocks), (live, live));
        let volume = report.volume.unwrap();
        let roots = volume.of_disks.iter().map(|found| found.as_ref().unwrap().root.members.len());
        assert!(roots.eq(vec![disks.len() + 1; disks.len() + 1]), "all roots name it");
        assert_eq!(volume.newest.root.members.last().unwrap().id, NEW);
        let all_disks = [disks, vec![new]].concat();
        goes_on(&all_disks, &all, &model, added.sectors / 8);
    }
}

#[test]
fn an_add_that_is_cut_off_anywhere_leaves_the_old_volume_or_the_new_one() {
    let (disks, new) = (vec![disk(14, Some(2)), disk(14, Some(0))], disk(10, Some(3)));
    let (media, model) = used(&disks, 9);
    let live = model.iter().filter(|byte| **byte > 0).count() as u64;
    let before = with(&media, &new);
    let all_disks = [disks.clone(), vec![new]].concat();
    let (mut seen, mut last) = ([0; 2], 0);
    for left in 0.. {
        let mut cut = Cut::after(left, &before);
        let result = add(&mut cut, NEW, &mut |_, _| ());
        for media in [&cut.media, &cut.flushed] {
            let old = without_last(media);
            let (is_old, is_new) = (is_whole(&old, live), is_whole(media, live));
            assert_ne!(is_old, is_new, "{left}: the one or the other");
            assert!(is_new || last == 0, "{left}: never back");
            seen[usize::from(is_new)] += 1;
        }
        let is_new = is_whole(&cut.flushed, live);
        // On both sides of the switch it is used.
        if usize::from(is_new) != last || result.is_ok() {
            last = usize::from(is_new);
            let blocks = checked(&cut.flushed).volume.unwrap().newest.root.capacity;
            goes_on(&all_disks, &cut.flushed, &model, blocks);
        }
        if !is_new {
            // It can be done again.
            let mut again = cut.flushed.clone();
            if left % 7 == 0 {
                add(&mut again, NEW, &mut |_, _| ()).unwrap();
                assert!(is_whole(&again, live));
                goes_on(&disks, &without_last(&cut.media), &model, model.len() as u64);
            }
        }
        if result.is_ok() {
            break;
        }
    }
    assert!(seen[0] > 10 && seen[1] > 2, "{seen:?}");
}

/// The old set went on after an add that was cut off, and then got another device: what is left on the first one is not of the set.
#[test]
fn a_device_that_was_never_added_is_not_taken_for_the_one_that_was() {
    let (media, _) = used(&[disk(30, Some(3))], 11);
    let mut first = with(&media, &disk(20, Some(0)));
    let left = (0..).find(|left| {
        let mut cut = Cut::after(*left, &first);
        let is_done = add(&mut cut, [1; 16], &mut |_, _| ()).is_ok();
        is_done || checked(&cut.flushed).volume.is_some()
    });
    let mut cut = Cut::after(left.unwrap() - 1, &first);
    add(&mut cut, [98; 16], &mut |_, _| ()).unwrap_err();
    let abandoned = cut.media;
    add(&mut first, NEW, &mut |_, _| ()).unwrap();
    let mistaken = joined(&without_last(&first), &abandoned, 1);
    let report = checked(&mistaken);
    assert!(report.volume.is_none(), "it is not the device that was added");
    assert!(report.findings.all()[0].to_string().contains("is missing"), "{:?}", report.findings.all());
    let mut volume = Volume::new(&[disk(30, Some(3)), disk(20, Some(0))], 100, small());
    volume.stop();
    put_back(&mut volume, &mistaken);
    volume.load();
    assert_ne!(volume.run(shingled::read(0, 1)).1, Status::Ok);
    assert!(volume.status().contains("is missing"), "{}", volume.status());
}

#[test]
fn a_device_that_cannot_be_added_is_refused_and_nothing_is_changed() {
    let (media, _) = used(&[disk(30, Some(3))], 12);
    let refused = |media: &mut MemoryMedia| {
        let before = media.changes;
        let error = add(media, NEW, &mut |_, _| ()).unwrap_err();
        assert_eq!(media.changes, before);
        error.to_string()
    };
    let mut short = with(&media, &disk(20, Some(0)));
    short.disk_mut(1).zones.iter_mut().for_each(|zone| zone.len /= 2);
    assert!(refused(&mut short).contains("have to be of one length"));
    let mut dead = with(&media, &disk(20, Some(0)));
    dead.disk_mut(1).zones[1].cond = Condition::Offline;
    assert!(refused(&mut dead).contains("first two zones"));
    let mut small = with(&media, &disk(20, Some(0)));
    small.disk_mut(1).zones.truncate(2);
    assert_eq!(refused(&mut small), AddError::TooSmall.to_string());
    assert_eq!(refused(&mut joined(&media, &empty(16), 0)), AddError::TooShort.to_string());
    add(&mut joined(&media, &empty(56), 0), NEW, &mut |_, _| ()).unwrap();
    let mut damaged = with(&media, &disk(20, Some(0)));
    (0..2 * u64::from(ZONE)).for_each(|block| damaged.put(Spot { disk: 0, block }, &[0; 4096]));
    assert!(refused(&mut damaged).contains("no root was found"));
}

#[test]
fn a_volume_that_was_not_put_away_is_refused() {
    let mut volume = Volume::new(&[disk(30, Some(3))], 100, small());
    volume.write(1, 1, 1);
    volume.flush();
    let mut media = with(&taken_out(&mut volume), &disk(20, Some(0)));
    let before = media.changes;
    assert_eq!(add(&mut media, NEW, &mut |_, _| ()), Err(AddError::NotAtRest));
    assert_eq!(media.changes, before);
}
