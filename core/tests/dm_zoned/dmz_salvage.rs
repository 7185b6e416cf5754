//! What can be got out of damaged sets, and that what is lost is told.

use shingle_core::dm::zoned::check::{Loss, OnLoss, RepairError, Salvage, Source, check, repair};
use shingle_core::dm::zoned::format::{LoadError, MapEntry, Media, MemoryMedia, NO_ZONE, Sets, Superblock, Volume};
use shingle_core::dm::zoned::{BLOCK_BYTES, Block, ChunkNo, MemberNo, Number, SetZone};
use shingle_core::zone::Condition;

use crate::dmz::{self, blank, filled_sets, fix1, fix2, read, runs, zoned};

/// All chunks, and what was lost.
fn salvaged(media: &mut MemoryMedia) -> (Salvage, Vec<u8>, Vec<Loss>) {
    let salvage = Salvage::survey(media, &mut |_, _| ()).unwrap();
    let mut lost = salvage.losses.clone();
    let chunk_bytes = media.space().zone_blocks() as usize * BLOCK_BYTES;
    let mut bytes = vec![0xee; salvage.layout.chunks as usize * chunk_bytes];
    for (chunk, to) in ChunkNo(0).onwards().zip(bytes.chunks_mut(chunk_bytes)) {
        let is_written = salvage.read(media, chunk, to, &mut |loss| lost.push(loss));
        assert!(is_written || to.iter().all(|byte| *byte == 0));
    }
    assert_eq!(media.changes, 0, "a salvage changed something");
    (salvage, bytes, lost)
}

#[test]
fn of_a_sound_set_everything_is_there() {
    for (mut media, name) in [(fix1(), "fix1_logical.runs"), (fix2(), "fix2_logical.runs")] {
        let (salvage, bytes, lost) = salvaged(&mut media);
        assert_eq!((salvage.source, lost), (Source::Set(0), vec![]));
        assert!(bytes == runs(name));
    }
}

#[test]
fn without_superblocks_the_numbers_come_from_a_third_one_or_from_the_devices() {
    let sets =
        [(fix1(), "fix1_logical.runs", Source::Devices), (fix2(), "fix2_logical.runs", Source::Third(MemberNo(1)))];
    for (mut media, name, source) in sets {
        media.put(0, &[0x55; BLOCK_BYTES]);
        media.put(256, &[0x55; BLOCK_BYTES]);
        let (salvage, bytes, lost) = salvaged(&mut media);
        assert_eq!(salvage.source, source);
        assert!(matches!(lost[..], [Loss::Superblocks(LoadError::NoSet(_))]), "{lost:?}");
        let expected = runs(name);
        let (same, more) = bytes.split_at(expected.len());
        assert!(same == expected && more.iter().all(|byte| *byte == 0), "{name}");
    }
}

#[test]
fn a_disk_that_never_was_a_set_is_not_taken_for_one() {
    let mut media = blank(&[zoned(64, 256, 12)]);
    let error = Salvage::survey(&mut media, &mut |_, _| ()).unwrap_err();
    assert!(error.to_string().starts_with("no superblock"), "{error}");
    (0..600).for_each(|block| media.put(block, &[block as u8 | 1; BLOCK_BYTES]));
    assert!(Salvage::survey(&mut media, &mut |_, _| ()).is_err());
}

#[test]
fn metadata_that_cannot_be_read_in_one_set_is_read_in_the_other() {
    let mut media = fix1();
    // Mapping table and some bitmaps in the first set, other bitmaps in the second.
    media.bad.extend([1].into_iter().chain(2..40).chain(256 + 40..256 + 66));
    let (_, bytes, lost) = salvaged(&mut media);
    // Nothing is lost; that it may be of another time is told.
    assert!(lost.iter().all(|loss| matches!(loss, Loss::OtherBitmap { zone: SetZone(0..38), .. })), "{lost:?}");
    assert!(bytes == runs("fix1_logical.runs"));
}

#[test]
fn what_is_unreadable_is_zeroes_and_told_and_the_rest_is_whole() {
    let expected = runs("fix1_logical.runs");
    let mut media = fix1();
    let volume = Volume::load(&mut media).unwrap();
    let mapped = volume.entries.iter().position(|entry| *entry != MapEntry::UNMAPPED).unwrap() as u32;
    let chunk = volume.chunk(&mut media, ChunkNo(mapped)).unwrap();
    let (block, place) = (0..256).find_map(|block| Some((block, chunk.locate(media.space(), Block(block))?))).unwrap();
    media.bad.insert(place);
    let (_, bytes, lost) = salvaged(&mut media);
    let first = u64::from(mapped) * 256 + u64::from(block);
    assert!(matches!(lost[..], [Loss::Blocks { first: lost, count: 1, .. }] if lost == first), "{lost:?}");
    let at = first as usize * BLOCK_BYTES;
    assert!(bytes[..at] == expected[..at] && bytes[at + BLOCK_BYTES..] == expected[at + BLOCK_BYTES..]);
    assert!(bytes[at..at + BLOCK_BYTES].iter().all(|byte| *byte == 0));
}

#[test]
fn without_a_bitmap_every_written_block_shows() {
    let mut media = fix1();
    let entries = Volume::load(&mut media).unwrap().entries;
    let chunk = entries.iter().position(|entry| entry.dzone != NO_ZONE && entry.bzone == NO_ZONE).unwrap();
    let zone = entries[ChunkNo::of(chunk)].dzone;
    media.bad.extend([2 + u64::from(zone), 258 + u64::from(zone)]);
    let (_, bytes, lost) = salvaged(&mut media);
    assert!(matches!(lost[..], [Loss::Bitmap { zone: lost, .. }] if lost == zone), "{lost:?}");
    let expected = runs("fix1_logical.runs");
    for (block, (found, expected)) in bytes.chunks(BLOCK_BYTES).zip(expected.chunks(BLOCK_BYTES)).enumerate() {
        let is_of_chunk = block / 256 == chunk;
        assert!(found == expected || (is_of_chunk && expected.iter().all(|byte| *byte == 0)), "block {block}");
    }
}

/// A chunk of `media` without a buffer, and its zone.
fn chunk_without_buffer(media: &mut MemoryMedia) -> (usize, SetZone) {
    let entries = Volume::load(media).unwrap().entries;
    let chunk = entries.iter().position(|entry| entry.dzone != NO_ZONE && entry.bzone == NO_ZONE).unwrap();
    (chunk, entries[ChunkNo::of(chunk)].dzone)
}

#[test]
fn a_bitmap_that_is_taken_from_the_other_set_is_told() {
    let mut media = fix1();
    let (_, zone) = chunk_without_buffer(&mut media);
    media.bad.insert(2 + u64::from(zone));
    let (_, bytes, lost) = salvaged(&mut media);
    assert!(matches!(lost[..], [Loss::OtherBitmap { zone: lost, .. }] if lost == zone), "{lost:?}");
    assert!(bytes == runs("fix1_logical.runs"));
    assert!(repair(&mut media, OnLoss::Refuse, &mut |_, _| ()).unwrap().after.is_clean());
}

#[test]
fn a_bitmap_of_the_other_set_that_is_of_another_time_does_not_make_zeroes_of_a_chunk() {
    // The commit that let the zone go began there; or the set is older, and the zone was free then, or that of another chunk.
    for (is_older, harm) in [(false, 0), (true, 0), (true, 1)] {
        let mut media = fix1();
        let (chunk, zone) = chunk_without_buffer(&mut media);
        media.bad.insert(2 + u64::from(zone));
        media.put(258 + u64::from(zone), &[harm; BLOCK_BYTES]);
        if is_older {
            let mut map = read(&mut media, 257, 1);
            map[chunk * 8..chunk * 8 + 8].fill(0xff);
            if harm == 1 {
                map[57 * 8..58 * 8].copy_from_slice(&MapEntry { dzone: zone, bzone: NO_ZONE }.encode());
            }
            media.put(257, &map);
            let superblock = Sets::find(&mut media).unwrap().superblock;
            media.put(256, &Superblock { block: 256, generation: superblock.generation - 1, ..superblock }.encode());
        }
        let (_, bytes, lost) = salvaged(&mut media);
        assert!(matches!(lost[..], [Loss::Bitmap { zone: lost, .. }] if lost == zone), "{is_older}: {lost:?}");
        let expected = runs("fix1_logical.runs");
        let blocks = bytes.chunks(BLOCK_BYTES).zip(expected.chunks(BLOCK_BYTES));
        assert!(blocks.clone().all(|(found, expected)| found == expected || expected.iter().all(|byte| *byte == 0)));
        media.changes = 0;
        let refused = repair(&mut media, OnLoss::Refuse, &mut |_, _| ());
        assert!(matches!(refused, Err(RepairError::Loss(_))) && media.changes == 0, "{is_older}: {refused:?}");
        assert!(repair(&mut media, OnLoss::GiveUp, &mut |_, _| ()).unwrap().after.is_clean());
        media.changes = 0;
        assert!(salvaged(&mut media).1 == bytes);
    }
}

#[test]
fn a_bitmap_with_bits_that_no_block_can_have_lets_nothing_show_that_was_given_up() {
    for (original, set) in filled_sets().into_iter().flat_map(|media| [(media.clone(), 0), (media, 1)]) {
        let mut media = original;
        media.changes = 0;
        let volume = Volume::load(&mut media).unwrap();
        let (_, before, _) = salvaged(&mut media);
        let layout = volume.sets.layout;
        for zone in volume.entries.iter().map(|entry| entry.dzone).filter(|zone| *zone != NO_ZONE) {
            let block = layout.set_start(media.space(), set) + u64::from(zone + 1 + layout.map_blocks);
            media.put(block, &[0xff; BLOCK_BYTES]);
        }
        media.changes = 0;
        assert!(salvaged(&mut media).1 == before, "ones in set {set}");
    }
}

#[test]
fn a_zone_that_the_newer_set_gives_to_another_chunk_stays_with_that() {
    let mut media = fix1();
    let (chunk, zone) = chunk_without_buffer(&mut media);
    let superblock = Sets::find(&mut media).unwrap().superblock;
    media.put(256, &Superblock { block: 256, generation: superblock.generation - 1, ..superblock }.encode());
    let mut map = read(&mut media, 1, 1);
    map[chunk * 8..chunk * 8 + 8].fill(0xff);
    map[57 * 8..58 * 8].copy_from_slice(&MapEntry { dzone: zone, bzone: NO_ZONE }.encode());
    media.put(1, &map);
    let (_, bytes, lost) = salvaged(&mut media);
    assert_eq!(lost, []);
    let (expected, chunk_bytes) = (runs("fix1_logical.runs"), 256 * BLOCK_BYTES);
    assert!(bytes[57 * chunk_bytes..] == expected[chunk * chunk_bytes..][..chunk_bytes]);
    assert!(bytes[chunk * chunk_bytes..][..chunk_bytes].iter().all(|byte| *byte == 0));
}

#[test]
fn a_zone_that_the_newer_set_gives_to_another_chunk_does_not_go_back_when_the_entry_of_the_former_owner_is_wrong() {
    let mut media = fix1();
    let (chunk, zone) = chunk_without_buffer(&mut media);
    let superblock = Sets::find(&mut media).unwrap().superblock;
    media.put(256, &Superblock { block: 256, generation: superblock.generation - 1, ..superblock }.encode());
    let mut map = read(&mut media, 1, 1);
    map[chunk * 8..chunk * 8 + 4].copy_from_slice(&[1, 2, 3, 4]);
    map[57 * 8..58 * 8].copy_from_slice(&MapEntry { dzone: zone, bzone: NO_ZONE }.encode());
    media.put(1, &map);
    let (_, bytes, _) = salvaged(&mut media);
    let (expected, chunk_bytes) = (runs("fix1_logical.runs"), 256 * BLOCK_BYTES);
    assert!(chunk < 57, "the former owner comes first");
    assert!(bytes[57 * chunk_bytes..] == expected[chunk * chunk_bytes..][..chunk_bytes]);
    assert!(bytes[chunk * chunk_bytes..][..chunk_bytes].iter().all(|byte| *byte == 0));
}

#[test]
fn a_second_set_of_another_uuid_says_nothing() {
    let mut original = fix1();
    let superblock = Sets::find(&mut original).unwrap().superblock;
    original.put(256, &Superblock { block: 256, set_uuid: [7; 16], ..superblock }.encode());
    let (chunk, zone) = chunk_without_buffer(&mut original);
    original.changes = 0;
    let harms: [fn(&mut MemoryMedia, usize, SetZone); 4] = [
        |media, chunk, _| {
            let mut map = read(media, 1, 1);
            map[chunk * 8..chunk * 8 + 4].copy_from_slice(&[1, 2, 3, 4]);
            media.put(1, &map);
        },
        |media, chunk, _| {
            let mut map = read(media, 1, 1);
            map[chunk * 8..chunk * 8 + 8].fill(0xff);
            media.put(1, &map);
        },
        |media, _, _| assert!(media.bad.insert(1)),
        |media, _, zone| assert!(media.bad.insert(2 + u64::from(zone))),
    ];
    for (at, harm) in harms.into_iter().enumerate() {
        let [mut full, mut empty] = [original.clone(), original.clone()];
        (257..257 + 1 + 64).for_each(|block| empty.put(block, &[if block == 257 { 0xff } else { 0 }; BLOCK_BYTES]));
        let [full, empty] = [&mut full, &mut empty].map(|media| {
            harm(media, chunk, zone);
            let (_, bytes, lost) = salvaged(media);
            let report = check(media, &mut |_, _| ()).to_string();
            let refused = repair(media, OnLoss::Refuse, &mut |_, _| ());
            (bytes, lost, refused.map_err(|error| error.to_string()).map(|_| ()), report)
        });
        assert!(full.0 == empty.0, "harm {at}");
        assert_eq!((&full.1, &full.2, &full.3), (&empty.1, &empty.2, &empty.3), "harm {at}");
        assert!(at == 1 || full.2.is_err(), "harm {at}: nothing was lost");
    }
}

#[test]
fn what_is_in_a_buffer_shows_though_the_bitmap_of_the_data_zone_is_lost() {
    let mut media = fix1();
    let entries = Volume::load(&mut media).unwrap().entries;
    let zone = entries.iter().find(|entry| entry.bzone != NO_ZONE).unwrap().dzone;
    media.bad.extend([2 + u64::from(zone), 258 + u64::from(zone)]);
    let (_, bytes, _) = salvaged(&mut media);
    let expected = runs("fix1_logical.runs");
    let blocks = bytes.chunks(BLOCK_BYTES).zip(expected.chunks(BLOCK_BYTES));
    assert_eq!(
        blocks.filter(|(found, expected)| found != expected && expected.iter().any(|byte| *byte != 0)).count(),
        0
    );
}

#[test]
fn without_a_mapping_table_the_chunks_are_told() {
    let mut media = fix1();
    media.bad.extend([1, 257]);
    let (_, bytes, lost) = salvaged(&mut media);
    assert!(matches!(lost[..], [Loss::Entries { first: ChunkNo(0), count: 58, .. }]), "{lost:?}");
    assert!(bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn an_entry_that_is_wrong_in_the_set_in_force_is_taken_from_the_other() {
    for damaged in [1, 257] {
        let mut media = fix1();
        let mut map = read(&mut media, damaged, 1);
        let chunk = Volume::load(&mut media).unwrap().entries.iter().position(|entry| entry.bzone != NO_ZONE).unwrap();
        map[chunk * 8..chunk * 8 + 4].copy_from_slice(&[1, 2, 3, 4]);
        media.put(damaged, &map);
        let (_, bytes, lost) = salvaged(&mut media);
        assert!(bytes == runs("fix1_logical.runs"));
        assert_eq!(lost.len(), usize::from(damaged == 1), "{lost:?}");
        assert!(lost.iter().all(|loss| matches!(loss, Loss::OlderEntry(_))));
    }
}

#[test]
fn a_set_whose_first_zone_failed_is_read_from_its_second_copy() {
    let mut media = fix1();
    let mut first = dmz::zones("fix1_zones.txt")[0];
    first.cond = Condition::Offline;
    media.learn(MemberNo(0), &[first]).unwrap();
    let (salvage, bytes, lost) = salvaged(&mut media);
    assert_eq!((salvage.source, salvage.layout.first_zone), (Source::Set(1), SetZone(0)));
    assert!(matches!(lost[..], [Loss::Superblocks(LoadError::Ambiguous { zone: SetZone(0), .. })]), "{lost:?}");
    assert!(bytes == runs("fix1_logical.runs"));
}

#[test]
fn sets_of_all_kinds_survive_the_loss_of_either_copy() {
    for media in filled_sets() {
        let whole = salvaged(&mut media.clone_unchanged()).1;
        let layout = Volume::load(&mut media.clone()).unwrap().sets.layout;
        for set in [0, 1] {
            let mut media = media.clone_unchanged();
            let start = layout.set_start(media.space(), set);
            media.bad.extend(start..start + u64::from(layout.metadata_blocks));
            let (salvage, bytes, lost) = salvaged(&mut media);
            assert_eq!((salvage.source, lost), (Source::Set(1 - set), vec![]));
            assert!(bytes == whole);
        }
    }
}

trait Unchanged {
    /// A copy to which nothing was done yet.
    fn clone_unchanged(&self) -> Self;
}

impl Unchanged for MemoryMedia {
    fn clone_unchanged(&self) -> Self {
        let mut copy = self.clone();
        copy.changes = 0;
        copy
    }
}
