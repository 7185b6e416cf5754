//! What is read from a set: the kernel's own, byte for byte, and what is left of damaged ones.

use shingle_core::dm::zoned::format::{
    Choice, LoadError, MapEntry, MappingFault, Media, MemoryMedia, NO_ZONE, Other, Part, Superblock, SuperblockProblem,
    Volume, choose, validate_mapping,
};
use shingle_core::dm::zoned::{BLOCK_BYTES, Block, ChunkNo, MemberNo, Number, Rows, SetZone, ZoneSpace};
use shingle_core::random::Rng;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use crate::dmz::{self, blank, filled_sets, fix1, fix2, fixture, read, runs, zoned};

fn contents(media: &mut MemoryMedia) -> Vec<u8> {
    let volume = Volume::load(media).unwrap();
    assert_eq!(volume.problems, []);
    let mut bytes = vec![0xee; volume.blocks(media.space()) as usize * BLOCK_BYTES];
    volume.read(media, 0, &mut bytes).unwrap();
    bytes
}

#[test]
fn the_kernels_sets_read_as_the_kernel_read_them() {
    for (mut media, name) in [(fix1(), "fix1_logical.runs"), (fix2(), "fix2_logical.runs")] {
        let (found, expected) = (contents(&mut media), runs(name));
        assert_eq!(found.len(), expected.len());
        let differ = |block: &usize| {
            found[block * BLOCK_BYTES..][..BLOCK_BYTES] != expected[block * BLOCK_BYTES..][..BLOCK_BYTES]
        };
        assert_eq!((0..found.len() / BLOCK_BYTES).find(differ), None, "{name}");
    }
}

#[test]
fn the_kernels_sets_hold_what_was_written_to_them() {
    let sets: [(MemoryMedia, &[&str]); 2] = [(fix1(), &["ops_7", "ops_99"]), (fix2(), &["ops_11", "ops_12"])];
    for (mut media, lists) in sets {
        let found = contents(&mut media);
        let mut expected = vec![0; found.len()];
        for list in lists {
            for line in String::from_utf8(fixture(list)).unwrap().lines() {
                let words: Vec<_> = line.split_whitespace().collect();
                let (block, count): (usize, usize) = (words[0].parse().unwrap(), words[1].parse().unwrap());
                let byte = u8::from_str_radix(words[2], 8).unwrap();
                expected[block * BLOCK_BYTES..][..count * BLOCK_BYTES].fill(byte);
            }
        }
        if lists[0] == "ops_7" {
            expected[4000 * BLOCK_BYTES..][..300 * BLOCK_BYTES].fill(0xff);
            expected[100 * BLOCK_BYTES..][..50 * BLOCK_BYTES].fill(0);
        }
        assert!(found == expected, "{lists:?}");
    }
}

#[test]
fn every_block_is_read_from_where_it_is() {
    for mut media in filled_sets() {
        let bytes = contents(&mut media);
        let chunk_blocks = media.space().zone_blocks() as usize;
        for (block, content) in bytes.chunks(BLOCK_BYTES).enumerate() {
            let (chunk, within) = (block / chunk_blocks, block % chunk_blocks);
            let expected = if chunk < 4 && (3..7).contains(&within) { chunk as u8 + 1 } else { 0 };
            assert!(content.iter().all(|byte| *byte == expected), "block {block}");
        }
    }
}

#[test]
fn either_set_is_enough_wherever_the_second_one_is() {
    for media in filled_sets() {
        let layout = Volume::load(&mut media.clone()).unwrap().sets.layout;
        let whole = contents(&mut media.clone());
        for lost in [0, 1] {
            let mut media = media.clone();
            let block = layout.set_start(media.space(), lost);
            media.put(block, &[0; BLOCK_BYTES]);
            let sets = Volume::load(&mut media).unwrap().sets;
            assert_eq!(sets.choice, Choice { set: 1 - lost, other: Other::Invalid });
            assert!(sets.found[lost].is_err() && sets.layout == layout);
            assert!(contents(&mut media) == whole);
        }
    }
}

#[test]
fn the_newer_set_is_in_force_and_the_first_of_two_equal_ones() {
    let mut media = fix1();
    let first = Superblock::decode(&read(&mut media, 0, 1)).unwrap();
    let newer = Superblock { generation: first.generation + 1, block: 256, ..first };
    let stranger = Superblock { set_uuid: [9; 16], ..newer };
    let nameless = Superblock { set_uuid: [0; 16], ..newer };
    let choice = |set, other| Some(Choice { set, other });
    assert_eq!(choose(None, None), None);
    assert_eq!(choose(Some(&first), Some(&first)), choice(0, Other::InStep));
    assert_eq!(choose(Some(&first), Some(&newer)), choice(1, Other::Behind));
    assert_eq!(choose(Some(&newer), Some(&first)), choice(0, Other::Behind));
    assert_eq!(choose(Some(&first), Some(&stranger)), choice(0, Other::Foreign));
    assert_eq!(choose(Some(&first), Some(&nameless)), choice(1, Other::Behind));
    assert_eq!(choose(None, Some(&first)), choice(1, Other::Invalid));
    assert_eq!(choose(Some(&first), None), choice(0, Other::Invalid));
}

fn problem_of(media: &MemoryMedia, change: impl Fn(&mut Superblock)) -> SuperblockProblem {
    let mut media = media.clone();
    for block in [0, 256] {
        let mut superblock = Superblock::decode(&read(&mut media, block, 1)).unwrap();
        change(&mut superblock);
        media.put(block, &superblock.encode());
    }
    match Volume::load(&mut media).unwrap_err() {
        LoadError::NoSet(problems) => problems[0].clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn superblocks_that_do_not_fit_the_devices_are_refused_by_name() {
    let media = fix1();
    type Change = fn(&mut Superblock);
    let counts: [(&str, Change); 8] = [
        ("bitmap blocks", |it| it.bitmap_blocks += 1),
        ("bitmap blocks", |it| (it.bitmap_blocks, it.metadata_blocks) = (u32::MAX, u32::MAX)),
        ("blocks of mapping table", |it| it.map_blocks = u32::MAX),
        ("blocks of metadata", |it| it.metadata_blocks -= 1),
        ("blocks of mapping table", |it| it.chunks = u32::MAX),
        ("chunks", |it| it.chunks = 64),
        ("reserved zones", |it| it.reserved = 0),
        ("reserved zones", |it| it.reserved = u32::MAX),
    ];
    for (expected, change) in counts {
        let problem = problem_of(&media, change);
        assert!(
            matches!(problem, SuperblockProblem::Count { what, .. } if what == expected),
            "{problem}, not {expected}"
        );
    }
    let position = problem_of(&media, |it| it.block += 1);
    assert_eq!(position, SuperblockProblem::Position { found: 1, expected: 0 });
    let message = Volume::load(&mut blank(&[zoned(64, 256, 12)])).unwrap_err().to_string();
    assert!(message.starts_with("no valid superblock; first set: magic number is 0x00000000"), "{message}");
}

#[test]
fn a_lone_superblock_behind_a_zone_that_failed_is_not_guessed_at() {
    let mut media = fix1();
    let failed = Zone {
        start: shingle_core::sector::Sector(0),
        len: 2048,
        capacity: 2048,
        wp: shingle_core::sector::Sector(0),
        kind: ZoneKind::Conventional,
        cond: Condition::Offline,
    };
    media.learn(MemberNo(0), &[failed]).unwrap();
    let error = Volume::load(&mut media).unwrap_err();
    assert!(matches!(error, LoadError::Ambiguous { zone: SetZone(0), .. }), "{error}");
}

#[test]
fn every_bad_entry_is_named_and_its_right_part_kept() {
    // Zones 0 and 1 hold metadata, 2 to 11 take random writes, 12 to 62 are sequential, 63 is offline.
    let mut media = fix1();
    let mut last = dmz::zones("fix1_zones.txt")[63];
    last.cond = Condition::Offline;
    media.learn(MemberNo(0), &[last]).unwrap();
    (18..24).for_each(|zone| media.set_wp(SetZone(zone), Block(9)));
    let space: &ZoneSpace = media.space();
    let layout = Volume::load(&mut media.clone()).unwrap().sets.layout;
    let entry = |dzone: u32, bzone: u32| MapEntry { dzone: SetZone(dzone), bzone: SetZone(bzone) };
    const NONE: u32 = NO_ZONE.0;
    use MappingFault::*;
    let cases = [
        (entry(18, 2), None, entry(18, 2)),
        (entry(3, NONE), None, entry(3, NONE)),
        (entry(18, NONE), Some((Part::Data, Duplicate { chunk: ChunkNo(0) })), MapEntry::UNMAPPED),
        (entry(18, 4), Some((Part::Data, Duplicate { chunk: ChunkNo(0) })), entry(4, NONE)),
        (entry(19, 4), Some((Part::Buffer, Duplicate { chunk: ChunkNo(3) })), entry(19, NONE)),
        (entry(64, NONE), Some((Part::Data, OutOfRange)), MapEntry::UNMAPPED),
        (entry(20, 64), Some((Part::Buffer, OutOfRange)), entry(20, NONE)),
        (entry(0, 5), Some((Part::Data, Metadata)), entry(5, NONE)),
        (entry(21, 1), Some((Part::Buffer, Metadata)), entry(21, NONE)),
        (entry(63, NONE), Some((Part::Data, Offline)), entry(63, NONE)),
        (entry(NONE, 6), Some((Part::Buffer, NoData)), entry(6, NONE)),
        (entry(7, 8), Some((Part::Buffer, Unneeded)), entry(7, NONE)),
        (entry(22, 23), Some((Part::Buffer, NotRandom)), entry(22, NONE)),
        (entry(9, 9), Some((Part::Buffer, Unneeded)), entry(9, NONE)),
        (entry(12, NONE), Some((Part::Data, Empty)), MapEntry::UNMAPPED),
        (MapEntry::UNMAPPED, None, MapEntry::UNMAPPED),
    ];
    let entries: Rows<_, _> = cases.iter().map(|(entry, ..)| *entry).collect();
    let problems = validate_mapping(&entries, space, &layout);
    for (chunk, (entry, fault, repaired)) in ChunkNo(0).onwards().zip(cases) {
        let own: Vec<_> = problems.iter().filter(|problem| problem.chunk == chunk).collect();
        assert_eq!(own.first().map(|problem| (problem.part, problem.fault)), fault, "chunk {chunk}");
        assert!(own.len() <= 1 && own.iter().all(|own| (own.entry, own.repaired) == (entry, repaired)), "{own:?}");
    }
    let right: Rows<_, _> = cases.iter().map(|case| case.2).collect();
    let left = validate_mapping(&right, space, &layout);
    assert!(left.iter().all(|problem| problem.fault == Offline), "{left:?}");
}

#[test]
fn garbage_is_an_error_and_never_a_panic() {
    let mut rng = Rng::new(11);
    let originals = filled_sets();
    for round in 0..2000 {
        let mut media = originals[round % originals.len()].clone();
        let metadata = 2 * Volume::load(&mut media).unwrap().sets.layout.metadata_zones * media.space().zone_blocks();
        for _ in 0..rng.below(4) {
            let block = rng.below(u64::from(metadata).min(if round % 2 == 0 { 8 } else { u64::MAX }));
            let mut bytes = read(&mut media, block, 1);
            (0..rng.below(20)).for_each(|_| bytes[rng.below(200) as usize] = rng.draw() as u8);
            if let Some(superblock) = (bytes[0] == 0x44).then(|| Superblock::decode(&bytes).ok()).flatten() {
                let chunks = rng.draw() as u32;
                bytes = Superblock { chunks, map_blocks: chunks.div_ceil(512), ..superblock }.encode().to_vec();
            }
            media.put(block, &bytes);
        }
        let Ok(volume) = Volume::load(&mut media) else { continue };
        for chunk in volume.entries.numbers() {
            let chunk = volume.chunk(&mut media, chunk).unwrap();
            let blocks = media.space().zone_blocks();
            let _ = chunk.read(&mut media, Block::FIRST, &mut vec![0; blocks as usize * BLOCK_BYTES]);
        }
    }
}
