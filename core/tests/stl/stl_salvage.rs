//! What `stl` gives back when all its roots are lost: every block that has data, by the headers of zones alone.

use shingle_core::block::Status;
use shingle_core::device::NullConfig;
use shingle_core::dm::stl::format::{Batch, BatchKind, Checksum, Header, Written};
use shingle_core::dm::stl::tools::{
    Depth, Findings, Loss, Lost, Media, MemoryMedia, RebuildError, RebuildOptions, RemoveError, Spot, Stream, Survey,
    Volume as Found, Window, check, finish_rebuild, follow, is_rebuilt, plan_removal, read_extents, rebuild,
};
use shingle_core::dm::stl::{Epoch, Generation, Lba, Sabotage, Stl, ZoneIndex};
use shingle_core::random::Rng;
use shingle_core::zone::Condition;

use crate::shingled;
use crate::shingled::cut::Cut;
use crate::shingled::shelf::{put_back, taken_out};
use crate::shingled::{Volume, ZONE, disk, small};

/// A volume that was used over several lives, and what it had: a byte of each block, and all bytes that each ever had.
pub(crate) struct Used {
    pub(crate) media: MemoryMedia,
    pub(crate) model: Vec<u8>,
    pub(crate) ever: Vec<Vec<u8>>,
}

fn used(disks: &[NullConfig], seed: u64, is_clean: bool) -> Used {
    used_volume(Volume::new(disks, 100, small()), seed, is_clean)
}

/// Uses a volume that has nothing yet.
pub(crate) fn used_volume(mut volume: Volume, seed: u64, is_clean: bool) -> Used {
    let mut rng = Rng::new(seed);
    let mut model = vec![0; volume.blocks as usize];
    let mut ever = vec![vec![0]; volume.blocks as usize];
    for round in 0..1500 {
        let at = rng.below(volume.blocks);
        let len = (1 + rng.below(9)).min(volume.blocks - at);
        let byte = if rng.chance(1, 8) { 0 } else { 1 + rng.below(255) as u8 };
        match byte {
            0 => assert_eq!(volume.run(shingled::discard(at, len as u32)).1, Status::Ok),
            _ => volume.write(at, len as u32, byte),
        }
        model[at as usize..(at + len) as usize].fill(byte);
        ever[at as usize..(at + len) as usize].iter_mut().for_each(|all| all.push(byte));
        if round % 400 == 399 {
            volume.reload();
        }
    }
    volume.flush();
    if is_clean {
        volume.stop();
    } else {
        volume.rig.settle();
    }
    Used { media: taken_out(&mut volume), model, ever }
}

/// Erases all roots.
pub(crate) fn without_roots(media: &MemoryMedia) -> MemoryMedia {
    let mut media = media.clone();
    for disk in 0..media.disks().len() {
        for block in 0..2 * u64::from(ZONE) {
            media.put(Spot { disk, block }, &[0; 4096]);
        }
    }
    let report = check(&mut media, Depth { pace: None }, &mut |_, _| ());
    assert!(report.volume.is_none(), "there is a root left");
    media
}

/// First byte of each block that the headers lead to, gathered `at_once` blocks at a time, and what is lost.
pub(crate) fn salvaged(media: &mut MemoryMedia, blocks: usize, at_once: usize) -> (Vec<u8>, Vec<Loss>) {
    let survey = Survey::take(media, &mut |_, _| ()).unwrap();
    let (mut all, mut lost) = (vec![], vec![]);
    for first in (0..blocks).step_by(at_once) {
        let end = blocks.min(first + at_once);
        let range = Lba(first as u64)..Lba(end as u64);
        let window = Window::gather(media, &survey, range.clone(), &mut |_, _| ());
        lost.extend(window.torn());
        let (mut bytes, extents) = (vec![0; (end - first) * 4096], window.extents(range.clone()));
        read_extents(media, &survey, (range.start, &extents), &mut bytes, &mut |loss| lost.push(loss));
        assert!(bytes.chunks(4096).all(|block| block.iter().all(|byte| *byte == block[0])));
        all.extend(bytes.chunks(4096).map(|block| block[0]));
    }
    (all, lost)
}

fn kinds() -> Vec<Vec<NullConfig>> {
    vec![
        vec![disk(40, Some(4))],
        vec![disk(30, Some(0))],
        vec![disk(24, Some(2)), disk(24, Some(0))],
        vec![disk(12, None), disk(30, Some(3))],
    ]
}

/// Whatever has data is given back; what was zeroes may come back as it was before.
#[track_caller]
fn is_given_back(found: &[u8], used: &Used) {
    for (block, (found, had)) in found.iter().zip(&used.model).enumerate() {
        let fine = found == had || (*had == 0 && used.ever[block].contains(found));
        assert!(fine, "block {block} reads as {found} and had {had}");
    }
}

#[test]
fn every_block_with_data_is_given_back_when_all_roots_are_lost() {
    for (seed, disks) in kinds().into_iter().enumerate() {
        for is_clean in [true, false] {
            let used = used(&disks, seed as u64, is_clean);
            let mut media = without_roots(&used.media);
            let changes = media.changes;
            let (found, lost) = salvaged(&mut media, used.model.len(), used.model.len());
            assert_eq!((lost, media.changes), (vec![], changes));
            is_given_back(&found, &used);
            // With some roots left there is nothing else to see.
            let mut whole = used.media.clone();
            assert!(salvaged(&mut whole, used.model.len(), 500).0 == found);
        }
    }
}

fn options(blocks: usize) -> RebuildOptions {
    RebuildOptions { capacity: blocks as u64, reserve: 100, blocks_at_once: 8192 }
}

#[test]
fn a_volume_that_is_rebuilt_is_in_order_and_reads_what_was_salvaged_and_goes_on() {
    for (seed, disks) in kinds().into_iter().enumerate() {
        let used = used(&disks, seed as u64 + 10, seed % 2 == 0);
        let blocks = used.model.len();
        let mut media = without_roots(&used.media);
        let (found, _) = salvaged(&mut media, blocks, blocks);
        let survey = Survey::take(&mut media, &mut |_, _| ()).unwrap();
        let rebuilt = rebuild(&mut media, &survey, &options(blocks), &mut |_, _| ()).unwrap();
        let live = rebuilt.live;
        assert_eq!(rebuilt.lost, []);
        assert_eq!(live, found.iter().filter(|byte| **byte > 0).count() as u64);
        let mut pace = |_| ();
        let report = check(&mut media, Depth { pace: Some(&mut pace) }, &mut |_, _| ());
        assert!(report.findings.is_clean(), "{seed}: {:?}", report.findings.all());
        assert_eq!(report.live_blocks(), live);

        let mut volume = Volume::new(&disks, 100, small());
        volume.stop();
        put_back(&mut volume, &media);
        volume.blocks = blocks as u64;
        volume.load();
        assert_eq!(volume.read(0, blocks as u32), found);
        let mut rng = Rng::new(7);
        let mut model = found;
        for _ in 0..1500 {
            let (at, byte) = (rng.below(volume.blocks), rng.below(256) as u8);
            volume.write(at, 1, byte);
            model[at as usize] = byte;
        }
        volume.reload();
        assert_eq!(volume.read(0, blocks as u32), model);
    }
}

/// Rebuilds a volume if no root is left, or writes the roots that are missing if one is: as `salvage --in-place` without `--force`.
fn go_on(media: &mut MemoryMedia, blocks: usize) {
    let survey = Survey::take(media, &mut |_, _| ()).unwrap();
    match Found::find(media, &mut Findings::default()) {
        Ok(volume) => {
            assert!(is_rebuilt(&volume), "its root {} needs force", volume.newest.header.batch.number);
            finish_rebuild(media, (&volume, &survey), 1).unwrap();
        }
        Err(_) => drop(rebuild(media, &survey, &options(blocks), &mut |_, _| ()).unwrap()),
    }
}

/// With the root of the first disk the volume could be read, and all others were without one.
#[test]
fn a_rebuild_that_was_interrupted_goes_on_without_force() {
    for (seed, disks) in kinds().into_iter().enumerate() {
        let used = used(&disks, seed as u64 + 20, true);
        let blocks = used.model.len();
        let media = without_roots(&used.media);
        let (found, _) = salvaged(&mut media.clone(), blocks, blocks);
        let survey = Survey::take(&mut media.clone(), &mut |_, _| ()).unwrap();
        let (mut left, mut is_cut) = (0, true);
        while is_cut {
            let mut cut = Cut::after(left, &media);
            is_cut = rebuild(&mut cut, &survey, &options(blocks), &mut |_, _| ()).is_err();
            for mut media in [cut.media, cut.flushed] {
                go_on(&mut media, blocks);
                let report = check(&mut media, Depth { pace: None }, &mut |_, _| ());
                assert_eq!(report.findings.all(), [], "{seed}, cut after {left} changes");
                assert!(report.volume.is_some_and(|volume| volume.of_disks.iter().all(Option::is_some)));
                assert!(salvaged(&mut media, blocks, blocks).0 == found, "{seed}, cut after {left} changes");
            }
            left += 1;
        }
        assert!(left > 5, "{seed}: {left} changes");
    }
}

#[test]
fn a_volume_that_was_served_since_its_rebuild_is_rebuilt_with_force_only() {
    let disks = [disk(24, Some(2)), disk(24, Some(0))];
    for is_served in [false, true] {
        let used = used(&disks, 23, true);
        let mut media = without_roots(&used.media);
        go_on(&mut media, used.model.len());
        if is_served {
            let mut volume = Volume::new(&disks, 100, small());
            volume.stop();
            put_back(&mut volume, &media);
            volume.blocks = used.model.len() as u64;
            volume.load();
            volume.write(0, 1, 1);
            volume.stop();
            media = taken_out(&mut volume);
        }
        let found = Found::find(&mut media, &mut Findings::default()).unwrap();
        assert_eq!(is_rebuilt(&found), !is_served);
    }
}

/// What is found where no zone is empty.
fn without_empty_zones(media: &mut MemoryMedia) -> Survey {
    for disk in 0..media.disks().len() {
        let empty = media.disk_mut(disk).zones.iter_mut().filter(|zone| zone.cond == Condition::Empty);
        empty.for_each(|zone| zone.cond = Condition::Offline);
    }
    let mut survey = Survey::take(media, &mut |_, _| ()).unwrap();
    // Those without a pointer could be taken as well.
    survey.zones.iter_mut().filter(|zone| zone.generation.is_none()).for_each(|zone| zone.pointer = 1);
    survey
}

/// Zones without a pointer are never found empty again: where the map lay in such ones, few are.
#[test]
fn a_rebuild_takes_zones_of_the_lost_map_when_none_is_empty() {
    // In few worlds the map lay in as many zones as the new one needs.
    assert!((1..300).any(is_rebuilt_without_empty_zones), "none has room");
}

/// Whether the map of a volume that is used at random is made again, where no zone is empty, and right: it may have no room.
fn is_rebuilt_without_empty_zones(seed: u64) -> bool {
    let used = used(&[disk(12, None), disk(30, Some(3))], seed, true);
    let blocks = used.model.len();
    let mut media = without_roots(&used.media);
    let (before, _) = salvaged(&mut media, blocks, blocks);
    let survey = without_empty_zones(&mut media);
    match rebuild(&mut media, &survey, &options(blocks), &mut |_, _| ()) {
        Err(RebuildError::NoRoom) => return false,
        result => result.unwrap(),
    };
    let mut pace = |_| ();
    let report = check(&mut media, Depth { pace: Some(&mut pace) }, &mut |_, _| ());
    assert!(report.findings.is_clean(), "{:?}", report.findings.all());
    let volume = report.volume.unwrap();
    for leaf in volume.leaves.iter().flatten().filter(|leaf| leaf.blocks > 0) {
        let (chain, _) = follow(&mut media, &volume, volume.space.set.zone_of(leaf.place).0);
        assert!(chain.found.iter().any(|found| found.payload == leaf.place), "its zone has no such batch");
    }
    assert!(salvaged(&mut media, blocks, blocks).0 == before);
    true
}

#[test]
fn a_rebuild_without_room_loses_nothing() {
    let used = used(&[disk(40, Some(4))], 30, true);
    let blocks = used.model.len();
    let mut media = without_roots(&used.media);
    let (before, _) = salvaged(&mut media, blocks, blocks);
    let mut survey = without_empty_zones(&mut media);
    // Two zones are kept for the first checkpoint.
    survey.zones.iter_mut().filter(|zone| zone.stream == Stream::Map).skip(2).for_each(|zone| {
        zone.stream = Stream::Users;
    });
    let error = rebuild(&mut media, &survey, &options(blocks), &mut |_, _| ()).unwrap_err();
    assert_eq!(error, RebuildError::NoRoom);
    assert!(salvaged(&mut media, blocks, blocks).0 == before);
}

/// Writes a batch of one block, block 9, to the first zone that is empty.
fn forge_batch(media: &mut MemoryMedia, survey: &Survey, epoch: Epoch, number: u64) {
    let records = vec![Written { lba: Lba(9), blocks: 1, has_data: true }];
    forge(media, survey, Batch { epoch, number, ..Batch::default() }, (records, &[0xab], &[0xab]));
}

/// Writes a batch with these records, whose blocks are to have some bytes and have others, to the first zone that is empty.
fn forge(
    media: &mut MemoryMedia,
    survey: &Survey,
    batch: Batch,
    (records, promised, had): (Vec<Written>, &[u8], &[u8]),
) {
    let is_empty = |zone: &ZoneIndex| {
        let is_unwritten = survey.space.pointer(*zone) == 0 && survey.space.is_sequential(*zone);
        is_unwritten && media.block(survey.space.spot(survey.space.set.start(*zone)).unwrap()) == [0; 4096]
    };
    // The first two are for roots.
    let zone = survey.space.zones().skip(2).find(is_empty).unwrap();
    let place = survey.space.set.start(zone);
    let batch = Batch { set: survey.set, place, generation: Generation(999), ..batch };
    let lbas = records.iter().filter(|record| record.has_data).map(|record| record.lba);
    let checksums = lbas.zip(promised).map(|(lba, byte)| Checksum::of_block(lba, &[*byte; 4096])).collect();
    let header = Header { batch, kind: BatchKind::User(records), checksums };
    let data: Vec<u8> = had.iter().flat_map(|byte| [*byte; 4096]).collect();
    media.write(survey.space.spot(place).unwrap(), &[header.encode(), data].concat()).unwrap();
}

/// Block 9 is made zeroes and then written, or written twice, in one batch.
#[test]
fn of_a_batch_that_was_written_again_and_torn_the_attempt_before_it_counts() {
    let used = used(&[disk(40, Some(0))], 40, true);
    let media = without_roots(&used.media);
    let survey = Survey::take(&mut media.clone(), &mut |_, _| ()).unwrap();
    let last = Written { lba: Lba(9), blocks: 1, has_data: true };
    let (zeroes, two) = (Written { has_data: false, ..last }, [0xcd, 0xab]);
    for (first, promised, torn) in [(zeroes, &two[1..], &[0x77][..]), (last, &two, &[0xcd, 0x77])] {
        let mut media = media.clone();
        for (attempt, had) in [(0, promised), (1, torn)] {
            let batch = Batch { epoch: survey.epoch, number: survey.user.0 + 7, attempt, ..Batch::default() };
            forge(&mut media, &survey, batch, (vec![first, last], promised, had));
        }
        let (found, lost) = salvaged(&mut media, used.model.len(), used.model.len());
        assert_eq!((found[9], lost), (0xab, vec![]), "{first:?}");
    }
}

#[test]
fn a_batch_of_a_life_that_ended_counts_for_nothing_when_another_began_before_it() {
    let used = used(&[disk(40, Some(0))], 40, true);
    let media = without_roots(&used.media);
    let survey = Survey::take(&mut media.clone(), &mut |_, _| ()).unwrap();
    assert!(survey.epoch.0 > 3 && survey.batches > 100, "{:?} {}", survey.epoch, survey.batches);
    let blocks = used.model.len();
    let before = salvaged(&mut media.clone(), blocks, blocks).0[9];
    let number = survey.user.0 + 7;
    for (epoch, expected) in [(Epoch(survey.epoch.0 - 1), before), (survey.epoch, 0xab), (survey.epoch + 1, 0xab)] {
        let mut media = media.clone();
        forge_batch(&mut media, &survey, epoch, number);
        assert_eq!(salvaged(&mut media, blocks, blocks).0[9], expected, "{epoch:?}");
    }
}

/// What block 9 is given back as, which had 1: a batch of it is there that the second life had lost when it began, of which no header is left.
fn block_of_a_lost_batch(gone: Sabotage) -> u8 {
    let mut volume = Volume::new(&[disk(40, Some(0))], 100, small());
    (0..100).for_each(|block| volume.write(block, 1, 1));
    volume.flush();
    volume.rig.settle();
    let mut media = taken_out(&mut volume);
    let survey = Survey::take(&mut media, &mut |_, _| ()).unwrap();
    let (epoch, number) = (survey.epoch, survey.user.0 + 7);
    forge_batch(&mut media, &survey, epoch, number);
    let mut volume = Volume::new(&[disk(40, Some(0))], 100, small());
    volume.stop();
    put_back(&mut volume, &media);
    for writes in [20, 300] {
        volume.load();
        volume.rig.stack.with_device(volume.rig.top, |target: &mut Stl, _| target.sabotage(gone));
        (0..writes).for_each(|number| volume.write(10 + number % 90, 1, 2));
        volume.read(9, 1);
        volume.stop();
    }
    let mut media = taken_out(&mut volume);
    let survey = Survey::take(&mut media, &mut |_, _| ()).unwrap();
    assert!(survey.epoch == epoch + 2 && survey.user.0 > number + 300);
    for zone in survey.space.zones() {
        let spot = survey.space.spot(survey.space.set.start(zone)).unwrap();
        if Header::decode(&media.block(spot)).is_ok_and(|(header, _)| header.batch.epoch == epoch + 1) {
            media.reset(spot).unwrap();
        }
    }
    forge_batch(&mut media, &survey, epoch, number);
    let blocks = volume.blocks as usize;
    salvaged(&mut without_roots(&media), blocks, blocks).0[9]
}

/// Each header says when its life began. When none of a life is left others have to remember what it had lost.
#[test]
fn a_batch_that_was_lost_counts_for_nothing_when_no_header_of_the_life_that_lost_it_is_left() {
    assert_eq!(block_of_a_lost_batch(Sabotage::default()), 1);
    let gone = Sabotage { lives_forgotten: true, ..Sabotage::default() };
    assert_eq!(block_of_a_lost_batch(gone), 0xab, "the test does not show it");
}

/// A root of a tool would begin a life that does not remember what it lost.
#[test]
fn a_volume_with_batches_behind_one_that_is_missing_is_for_a_start_before_a_tool() {
    let used = used(&[disk(24, Some(2)), disk(40, Some(0))], 3, true);
    let mut media = used.media;
    assert!(plan_removal(&mut media, None, &mut |_, _| ()) != Err(RemoveError::NotAtRest));
    let survey = Survey::take(&mut media, &mut |_, _| ()).unwrap();
    forge_batch(&mut media, &survey, survey.epoch, survey.user.0 + 7);
    assert_eq!(plan_removal(&mut media, None, &mut |_, _| ()), Err(RemoveError::NotAtRest));
}

#[test]
fn what_is_damaged_is_told_and_what_lies_beside_it_is_given_back() {
    let used = used(&[disk(40, Some(4))], 50, true);
    let blocks = used.model.len();
    let mut media = without_roots(&used.media);
    let survey = Survey::take(&mut media, &mut |_, _| ()).unwrap();
    let window = Window::gather(&mut media, &survey, Lba(0)..Lba(blocks as u64), &mut |_, _| ());
    let extents = window.extents(Lba(0)..Lba(blocks as u64));
    let extent = extents.iter().find(|extent| extent.blocks > 2).unwrap();
    let place = extent.place(1).unwrap().0;
    let spot = survey.space.spot(place).unwrap();
    for is_read in [true, false] {
        let mut media = media.clone();
        if is_read {
            media.harm(spot, 5);
        } else {
            media.bad.insert(spot);
        }
        let (found, lost) = salvaged(&mut media, blocks, blocks);
        let [loss] = &lost[..] else { panic!("{lost:?}") };
        assert_eq!((loss.lba, loss.place), (extent.lba + 1, place));
        assert!(loss.why == Lost::Torn || (loss.why == Lost::Checksum) == is_read, "{loss}");
        for (block, (found, had)) in found.iter().zip(&used.model).enumerate() {
            let is_lost = block as u64 == loss.lba.0 && used.ever[block].contains(found) && found != had;
            assert!(found == had || used.model[block] == 0 || is_lost, "block {block}");
        }
    }
}

#[test]
fn disks_in_which_nothing_of_a_volume_is_left_are_refused() {
    let used = used(&[disk(40, Some(4))], 60, true);
    let mut media = MemoryMedia::new(used.media.disks().to_vec());
    let error = Survey::take(&mut media, &mut |_, _| ()).unwrap_err();
    assert!(error.contains("hold no volume"), "{error}");
}
