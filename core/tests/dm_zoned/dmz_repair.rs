//! Repair and relabel: what is mended, what stays, and that a power cut at any moment costs nothing.

use shingle_core::dm::zoned::check::{OnLoss, Repair, RepairError, check, relabel, repair};
use shingle_core::dm::zoned::format::{Label, MapEntry, Media, MemoryMedia, Sets, Superblock, Volume};
use shingle_core::dm::zoned::{BLOCK_BYTES, Block, ChunkNo, Number, SetZone};
use shingle_core::random::Rng;

use crate::dmz::damage::{DAMAGES, damaged};
use crate::dmz::{filled_sets, fix1, fix2, read};

/// What each exposed block reads as, without zeroes; `None` for those that are valid both in a data zone and in a buffer.
fn contents(media: &mut MemoryMedia) -> Vec<Option<Vec<u8>>> {
    let volume = Volume::load(media).unwrap();
    let chunk_blocks = media.space().zone_blocks();
    let mut blocks = Vec::new();
    for number in volume.entries.numbers() {
        let chunk = volume.chunk(media, number).unwrap();
        if volume.right_entries()[number] == MapEntry::UNMAPPED {
            blocks.extend((0..chunk_blocks).map(|_| Some(Vec::new())));
            continue;
        }
        let mut bytes = vec![0; chunk_blocks as usize * BLOCK_BYTES];
        chunk.read(media, Block::FIRST, &mut bytes).unwrap();
        let twice = chunk.twice();
        let blocks_of = Block::FIRST.onwards().zip(bytes.chunks(BLOCK_BYTES));
        let kept = |bytes: &[u8]| if bytes.iter().all(|byte| *byte == 0) { Vec::new() } else { bytes.to_vec() };
        blocks.extend(blocks_of.map(|(block, bytes)| (!twice.has(block)).then(|| kept(bytes))));
    }
    blocks
}

fn assert_same(before: &[Option<Vec<u8>>], media: &mut MemoryMedia, what: &str) {
    let after = contents(media);
    for (block, (before, after)) in before.iter().zip(&after).enumerate() {
        assert!(before.is_none() || after.is_none() || before == after, "{what}: block {block} is another");
    }
}

fn repaired(media: &mut MemoryMedia) -> Repair {
    let mut last = (0, 1);
    let result = repair(media, OnLoss::GiveUp, &mut |done, total| {
        assert!(done <= total && done * last.1 >= last.0 * total, "{last:?}, then {done} of {total}");
        last = (done, total);
    });
    result.unwrap()
}

#[test]
fn a_sound_set_is_left_alone() {
    for mut media in [filled_sets(), vec![fix1(), fix2()]].concat() {
        media.changes = 0;
        assert!(repaired(&mut media).is_idle());
        assert_eq!(media.changes, 0);
    }
}

#[test]
fn damage_of_every_kind_is_mended_and_nothing_else_is_lost() {
    let originals = [filled_sets(), vec![fix1(), fix2()]].concat();
    let mut rng = Rng::new(8);
    for (kind, (name, _)) in DAMAGES.iter().enumerate() {
        for round in 0..5 {
            let mut media = damaged(&originals[round % originals.len()], &mut rng, &[kind]);
            let before = contents(&mut media);
            let report = repaired(&mut media);
            assert!(report.after.is_clean(), "{name}, round {round}:\n{report}{}", report.after);
            assert_same(&before, &mut media, name);
            assert!(repaired(&mut media).is_idle());
        }
    }
}

#[test]
fn much_damage_is_mended_as_well() {
    let originals = [filled_sets(), vec![fix1(), fix2()]].concat();
    let mut mended = 0;
    for seed in 0..25 {
        let mut rng = Rng::new(seed);
        let damages: Vec<_> = (0..2 + rng.below(5)).map(|_| rng.below(DAMAGES.len() as u64) as usize).collect();
        let mut media = damaged(&originals[seed as usize % originals.len()], &mut rng, &damages);
        if Volume::load(&mut media).is_err() {
            let repaired = repair(&mut media, OnLoss::GiveUp, &mut |_, _| ());
            assert!(matches!(repaired, Err(RepairError::Load(..) | RepairError::Members(_))), "{repaired:?}");
            continue;
        }
        let before = contents(&mut media);
        let report = repaired(&mut media);
        assert!(report.after.is_clean(), "seed {seed}: {report}{}", report.after);
        assert_same(&before, &mut media, "much damage");
        mended += usize::from(!report.is_idle());
    }
    assert!(mended > 10, "{mended}");
}

#[test]
fn a_power_cut_at_any_step_of_a_repair_loses_nothing() {
    // Two zones a set, then three devices with third superblocks to mend and a zone to empty.
    let originals = filled_sets();
    for seed in 0..3 {
        let mut rng = Rng::new(seed);
        let damages: Vec<_> = (0..6).map(|_| 6 + rng.below(DAMAGES.len() as u64 - 6) as usize).collect();
        let media = damaged(&originals[seed as usize % originals.len()], &mut rng, &damages);
        let before = contents(&mut media.clone());
        let mut cuts = 0;
        loop {
            let mut media = media.clone();
            (media.changes, media.cut_after) = (0, Some(cuts));
            if repair(&mut media, OnLoss::GiveUp, &mut |_, _| ()).is_ok() {
                break;
            }
            let mut media = media.after_power_cut(&mut rng);
            assert_same(&before, &mut media, "after the cut");
            let report = repaired(&mut media);
            assert!(report.after.is_clean(), "cut after {cuts} changes: {}", report.after);
            assert_same(&before, &mut media, "repaired again");
            cuts += 1;
        }
        assert!(cuts > 6, "{cuts}");
    }
}

fn superblocks(media: &mut MemoryMedia, blocks: &[u64]) -> Vec<Superblock> {
    blocks.iter().map(|block| Superblock::decode(&read(media, *block, 1)).unwrap()).collect()
}

#[test]
fn a_set_of_version_1_stays_one_even_if_another_tool_made_half_of_it_version_2() {
    let original = filled_sets()[1].clone();
    for touched in [vec![0u64], vec![256], vec![0, 256]] {
        let mut media = original.clone();
        for block in &touched {
            // What dmzadm --repair and the next start of a kernel leave.
            let old = superblocks(&mut media, &[*block])[0];
            media.put(*block, &Superblock { version: 2, ..old }.encode());
        }
        let before = contents(&mut media);
        let report = repaired(&mut media);
        assert!(!report.is_idle() && report.after.is_clean(), "{touched:?}: {}", report.after);
        assert!(superblocks(&mut media, &[0, 256]).iter().all(|it| it.version == 1), "{touched:?}");
        assert_same(&before, &mut media, "version 1");
    }
}

#[test]
fn a_set_whose_last_commit_was_cut_off_is_brought_in_step() {
    let mut media = fix1();
    let [first, second] = superblocks(&mut media, &[0, 256])[..] else { unreachable!() };
    media.put(256, &Superblock { generation: second.generation + 1, ..second }.encode());
    // Only the newer set knows of chunk 57.
    let mut map = read(&mut media, 257, 1);
    map[57 * 8..57 * 8 + 4].copy_from_slice(&11u32.to_le_bytes());
    media.put(257, &map);
    assert!(repaired(&mut media).after.is_clean());
    let now = superblocks(&mut media, &[0, 256]);
    assert!(now.iter().all(|it| it.generation == first.generation + 3));
    assert_eq!(Volume::load(&mut media).unwrap().entries[ChunkNo(57)].dzone, SetZone(11));
    assert_eq!(read(&mut media, 1, 65), read(&mut media, 257, 65));
}

#[test]
fn a_set_without_superblocks_is_not_repaired() {
    let mut media = fix1();
    media.put(0, &[0; BLOCK_BYTES]);
    media.put(256, &[0; BLOCK_BYTES]);
    let error = repair(&mut media, OnLoss::GiveUp, &mut |_, _| ()).unwrap_err();
    assert!(error.to_string().ends_with("run `shingle dmz salvage` before anything is written"), "{error}");
    assert_eq!(media.changes, 0);
}

#[test]
fn a_new_label_is_in_every_superblock_and_nothing_else_changes() {
    let label = Label::new("another").unwrap();
    for (mut media, blocks) in [(fix1(), vec![0, 256]), (fix2(), vec![0, 256, 5376, 17664])] {
        let before = superblocks(&mut media, &blocks);
        relabel(&mut media, label).unwrap();
        let expected: Vec<_> = before.iter().map(|superblock| Superblock { label, ..*superblock }).collect();
        assert_eq!(superblocks(&mut media, &blocks), expected);
        assert!(check(&mut media, &mut |_, _| ()).is_clean());
    }
    let mut media = filled_sets()[1].clone();
    media.changes = 0;
    assert!(matches!(relabel(&mut media, label), Err(RepairError::Label(_))));
    assert!(matches!(relabel(&mut fix1(), Label::default()), Err(RepairError::Label(_))));
    assert_eq!(media.changes, 0);
}

#[test]
fn a_power_cut_while_a_set_gets_a_label_leaves_a_set() {
    let (label, mut rng) = (Label::new("another").unwrap(), Rng::new(1));
    for cut_after in 0..9 {
        let mut media = fix2();
        media.cut_after = Some(cut_after);
        let _ = relabel(&mut media, label);
        let mut media = media.after_power_cut(&mut rng);
        let found = Sets::find(&mut media).unwrap().superblock.label;
        assert!(["fix2", "another"].contains(&found.text()));
        assert!(repaired(&mut media).after.is_clean());
    }
}
