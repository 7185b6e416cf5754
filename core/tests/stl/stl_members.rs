//! The tools find the members of a volume in any order, and say which are missing or foreign; what a salvage does not call lost is right.

use shingle_core::block::Status;
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::tools::{
    Absent, Depth, Finding, Findings, Foreign, Media, MemoryMedia, Report, Spot, Volume, WrongMembers, absent, check,
};
use shingle_core::dm::stl::{Sabotage, Stl};
use shingle_core::random::Rng;

use crate::shingled::shelf::{assembled, put_back, taken_out};
use crate::shingled::{self, Volume as Shingled, ZONE, disk, small};
use crate::stl_salvage::{Used, salvaged, used_volume, without_roots};

/// A volume of three disks.
fn three() -> Shingled {
    Shingled::new(&[disk(24, Some(2)), disk(20, Some(0)), disk(30, Some(3))], 100, small())
}

fn checked(media: &mut MemoryMedia) -> Report {
    check(media, Depth { pace: None }, &mut |_, _| ())
}

/// Returns the wrong members that a check finds, and asserts that it writes nothing.
fn wrong(media: &mut MemoryMedia, what: &str) -> WrongMembers {
    let changes = media.changes;
    let report = checked(media);
    assert_eq!((media.changes, report.findings.is_clean()), (changes, false), "{what}");
    match report.findings.all() {
        [Finding::Members(wrong)] => wrong.clone(),
        other => panic!("{what}: {other:?}"),
    }
}

/// Asserts that a check finds so many missing and foreign disks, and that an image is right but for blocks that are listed; returns what the check found.
fn is_named_and_listed(
    media: &mut MemoryMedia,
    used: &Used,
    (missing, foreign): (usize, usize),
    what: &str,
) -> WrongMembers {
    let wrong = wrong(media, what);
    assert_eq!((wrong.missing.len(), wrong.foreign.len()), (missing, foreign), "{what}: {wrong}");
    assert!(image_is_right(media, used, what) > 50, "{what}");
    wrong
}

/// Asserts that each block of an image is what was written, unless it is listed as absent; returns the number of blocks listed.
fn image_is_right(media: &mut MemoryMedia, used: &Used, what: &str) -> u64 {
    let (volume, _) = Volume::find_part(media, &mut Findings::default()).unwrap();
    let mut listed: Vec<Absent> = Vec::new();
    absent(media, &volume, &mut |next| listed.push(next));
    let (image, _) = salvaged(media, used.model.len(), 700);
    for (block, (found, had)) in image.iter().zip(&used.model).enumerate() {
        let is_listed = |it: &Absent| (it.first.0..it.first.0 + it.blocks).contains(&(block as u64));
        let is_zeroed = *had == 0;
        assert!(found == had || is_zeroed || listed.iter().any(is_listed), "{what}: block {block}: {found} for {had}");
    }
    listed.iter().map(|it| it.blocks).sum()
}

#[test]
fn members_are_found_in_every_order() {
    let used = used_volume(three(), 3, true);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut media = assembled(&order.map(|number| (&used.media, number)));
        let report = checked(&mut media);
        assert!(report.findings.is_clean(), "{order:?}: {:?}", report.findings.all());
        assert_eq!(image_is_right(&mut media, &used, &format!("{order:?}")), 0);
    }
}

#[test]
fn a_missing_member_is_named_and_its_blocks_are_listed() {
    let used = used_volume(three(), 5, true);
    for missing in 0..3 {
        let what = format!("without {missing}");
        let disks: Vec<_> = (0..3).filter(|number| *number != missing).map(|number| (&used.media, number)).collect();
        let mut media = assembled(&disks);
        let wrong = is_named_and_listed(&mut media, &used, (1, 0), &what);
        assert_eq!(wrong.missing[0].zones, [24, 20, 30][missing], "{what}");
    }
    let mut media = assembled(&[(&used.media, 1)]);
    assert_eq!(wrong(&mut media, "one alone").missing.len(), 2);
    image_is_right(&mut media, &used, "one alone");
}

#[test]
fn a_disk_of_another_volume_is_named_in_every_position() {
    let (own, other) = (used_volume(three(), 5, true), used_volume(three().renewed(SetId([9; 16]), 100), 6, true));
    for place in 0..3 {
        let disk = |number| if number == place { (&other.media, number) } else { (&own.media, number) };
        let mut media = assembled(&[disk(0), disk(1), disk(2)]);
        let what = format!("a foreign disk at {place}");
        let wrong = is_named_and_listed(&mut media, &own, (1, 1), &what);
        assert_eq!(wrong.foreign[0].0, format!("disk {place}"), "{what}");
        assert!(matches!(wrong.foreign[0].1, Foreign::Of(its) if its != wrong.set), "{what}");
    }
}

#[test]
fn a_blank_disk_is_no_member_that_has_data() {
    let used = used_volume(three(), 8, true);
    for place in 0..3 {
        let mut media = used.media.clone();
        for block in 0..media.disks()[place].sectors / 8 {
            media.put(Spot { disk: place, block }, &[0; 4096]);
        }
        let what = format!("a blank disk at {place}");
        is_named_and_listed(&mut media, &used, (1, 1), &what);
    }
}

#[test]
fn a_member_that_lost_its_roots_is_found_by_its_headers() {
    let used = used_volume(three(), 9, true);
    for place in 0..3 {
        let mut media = used.media.clone();
        let bare = without_roots(&used.media);
        for block in 0..2 * u64::from(ZONE) {
            media.put(Spot { disk: place, block }, &bare.block(Spot { disk: place, block }));
        }
        let report = checked(&mut media);
        assert!(
            report.findings.all().iter().all(|it| matches!(it, Finding::NoRoot(disk) if *disk == place)),
            "{place}"
        );
        assert!(report.volume.is_some(), "{place}: {:?}", report.findings.all());
        assert_eq!(image_is_right(&mut media, &used, "no roots"), 0);
    }
}

/// A volume of three disks, what it held at several moments, and what it holds in the end.
fn clones(seed: u64, is_clean: bool) -> (Vec<MemoryMedia>, Used) {
    let (mut volume, mut rng) = (three(), Rng::new(seed));
    let mut model = vec![0; volume.blocks as usize];
    let mut moments = Vec::new();
    for round in 0..1600 {
        if round % 100 == 99 {
            volume.flush();
            moments.push(taken_out(&mut volume));
        }
        let at = rng.below(volume.blocks);
        let (len, byte) = ((1 + rng.below(9)).min(volume.blocks - at), 1 + rng.below(255) as u8);
        volume.write(at, len as u32, byte);
        model[at as usize..(at + len) as usize].fill(byte);
    }
    volume.flush();
    if is_clean {
        volume.stop();
    } else {
        volume.rig.settle();
    }
    (moments, Used { media: taken_out(&mut volume), model, ever: Vec::new() })
}

/// A volume that is not loaded yet, of so many blocks, on these disks.
fn on_disks(media: &MemoryMedia, blocks: usize) -> Shingled {
    let mut volume = three();
    volume.stop();
    put_back(&mut volume, media);
    volume.blocks = blocks as u64;
    volume
}

/// Starts a volume on these disks. Returns the content of each block, `None` for an error; or `None` if the volume is refused. Asserts that nothing is
/// written if it is refused.
fn started(media: &MemoryMedia, blocks: usize) -> Option<Vec<Option<u8>>> {
    let mut volume = on_disks(media, blocks);
    let before = taken_out(&mut volume);
    volume.load();
    let mut found = Vec::new();
    for block in 0..blocks as u64 {
        let (bio, status) = volume.run(shingled::read(block, 1));
        found.push((status == Status::Ok).then(|| shingled::first_bytes(&bio)[0]));
    }
    if found.iter().any(Option::is_some) {
        return Some(found);
    }
    assert!(same(&before, &taken_out(&mut volume)), "it was refused, and something was written");
    None
}

fn same(one: &MemoryMedia, other: &MemoryMedia) -> bool {
    let zones = |media: &MemoryMedia| media.disks().iter().map(|disk| disk.zones.clone()).collect::<Vec<_>>();
    let blocks = one
        .disks()
        .iter()
        .enumerate()
        .flat_map(|(disk, it)| (0..it.sectors / 8).map(move |block| Spot { disk, block }));
    zones(one) == zones(other) && blocks.into_iter().all(|spot| one.block(spot) == other.block(spot))
}

#[test]
fn an_older_copy_of_a_member_is_refused_or_does_no_harm() {
    let (mut refused, mut harmless, mut unnoticed) = (0, 0, 0);
    for (seed, is_clean) in [(11, true), (12, false)] {
        let (moments, used) = clones(seed, is_clean);
        let right: Vec<Option<u8>> = used.model.iter().copied().map(Some).collect();
        assert!(started(&used.media, used.model.len()) == Some(right.clone()), "the right disks");
        for (moment, older) in moments.iter().enumerate() {
            for place in 0..3 {
                let what = format!("seed {seed}, disk {place} as of moment {moment}");
                let disk = |number| if number == place { (older, number) } else { (&used.media, number) };
                let mut media = assembled(&[disk(0), disk(1), disk(2)]);
                let report = checked(&mut media.clone());
                match started(&media, used.model.len()) {
                    None => {
                        refused += 1;
                        assert!(!report.findings.is_clean(), "{what}: the check finds nothing");
                        image_is_right(&mut media, &used, &what);
                    }
                    Some(found) if found == right => harmless += 1,
                    // The copy lacks fewer zones than a power loss can leave without their last batches.
                    Some(_) => {
                        println!(
                            "{what}: not noticed by a start; a check finds {} errors",
                            report.findings.all().len()
                        );
                        assert!(!report.findings.is_clean(), "{what}: the check finds nothing");
                        unnoticed += 1;
                    }
                }
            }
        }
    }
    println!("{refused} older copies refused, {harmless} harmless, {unnoticed} not noticed");
    assert!(refused >= 80 && unnoticed <= 8, "{refused} refused, {harmless} harmless, {unnoticed} not noticed");
}

#[test]
fn an_older_copy_is_taken_where_its_guard_is_gone() {
    let (moments, used) = clones(11, true);
    let media = assembled(&[(&used.media, 0), (&moments[2], 1), (&used.media, 2)]);
    assert_eq!(started(&media, used.model.len()), None);
    let mut volume = on_disks(&media, used.model.len());
    volume.load();
    let top = volume.rig.top;
    let gone = Sabotage { older_copies: true, ..Sabotage::default() };
    volume.rig.stack.with_device(top, |stl: &mut Stl, _| stl.sabotage(gone));
    let reads = (0..volume.blocks).map(|block| volume.run(shingled::read(block, 1)).1);
    assert!(reads.into_iter().any(|status| status == Status::Ok), "it starts, and is written to");
}
