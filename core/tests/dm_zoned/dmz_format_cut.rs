//! A format that is cut off anywhere says clearly what is left, and is the same to all that look at it.

use shingle_core::dm::zoned::BLOCK_BYTES;
use shingle_core::dm::zoned::check::{Next, OnLoss, RepairError, check, repair};
use shingle_core::dm::zoned::format::{
    FormatOptions, LoadError, MapEntry, Media, Sets, Superblock, Volume, format, tertiaries,
};
use shingle_core::random::Rng;

use crate::dmz::{self, differing_sets, gone, options, options_v1, read, salvaged, zoned};

#[test]
fn a_format_that_is_cut_off_leaves_the_old_set_or_none_or_the_new_one_whole() {
    let old_sets = differing_sets();
    let new = |devices| FormatOptions { set_uuid: [7; 16], ..options(devices) };
    let cases = [(&old_sets[0], new(1)), (&old_sets[1], new(1)), (&old_sets[1], options_v1()), (&old_sets[2], new(3))];
    let mut seen = [0; 3];
    for (case, (old, options)) in cases.into_iter().enumerate() {
        let before = salvaged(&mut old.clone()).unwrap();
        let mut rng = Rng::new(case as u64);
        // What a disk keeps of that which was not flushed is chance: each cut is tried some times.
        for cut_after in (0..).flat_map(|step| [step; 4]) {
            let mut media = old.clone();
            (media.changes, media.cut_after) = (0, Some(cut_after));
            let is_done = format(&mut media, &options, &mut |_, _| ()).is_ok();
            let mut media = media.after_power_cut(&mut rng);
            let what = format!("case {case}, cut after {cut_after}");
            let next = check(&mut media, &mut |_, _| ()).next();
            let outcome = match repair(&mut media, OnLoss::Refuse, &mut |_, _| ()) {
                Ok(repaired) => {
                    assert!(repaired.after.is_clean(), "{what}: {}", repaired.after);
                    let now = salvaged(&mut media).unwrap();
                    let is_old = gone(&before, &now).is_none();
                    assert!(is_old || now.iter().all(Vec::is_empty), "{what}: neither the old set nor the new one");
                    if is_old { 0 } else { 2 }
                }
                Err(RepairError::Load(LoadError::NoSet(_), advice)) => {
                    assert_eq!(advice, next, "{what}");
                    assert!(matches!(next, Next::Salvage | Next::Format), "{what}: {next}");
                    1
                }
                Err(error) => panic!("{what}: {error}"),
            };
            seen[outcome] += 1;
            if is_done {
                assert_eq!(outcome, 2, "{what}");
                break;
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
}

#[test]
fn where_a_format_is_cut_off_there_is_no_set_that_the_kernel_would_not_start() {
    let new = |devices| FormatOptions { set_uuid: [7; 16], ..options(devices) };
    let mut seen = [0; 2];
    for (old, options) in differing_sets().into_iter().zip([new(1), new(1), new(3)]) {
        let (mut rng, mut sure, mut done) = (Rng::new(1), Rng::new(2), 0);
        for cut_after in (0..).flat_map(|step| [step; 8]) {
            let mut media = old.clone();
            (media.changes, media.cut_after) = (0, Some(cut_after));
            let is_done = format(&mut media, &options, &mut |_, _| ()).is_ok();
            // The process is killed, or the power fails as well.
            if !is_done && sure.below(2) == 0 {
                media.cut_after = None;
                media.flush().unwrap();
            }
            let mut media = media.after_power_cut(&mut rng);
            if let Ok(Sets { found, superblock, .. }) = Sets::find(&mut media) {
                seen[usize::from(superblock.set_uuid == options.set_uuid)] += 1;
                // It finds the second one alone in some sets only, and stops if the last third one is missing.
                assert!(found[0].is_ok(), "cut after {cut_after}: only the second superblock is there");
                assert!(!is_done || found[1].is_ok(), "the format was done, and is not durable");
                let space = media.space().clone();
                for (member, zone) in tertiaries(&space) {
                    let third = Superblock::decode(&read(&mut media, space.start(zone), 1));
                    let is_right = third.is_ok_and(|third| third.set_uuid == superblock.set_uuid);
                    assert!(is_right, "cut after {cut_after}: device {member} has no superblock of the set");
                }
            }
            done += u32::from(is_done);
            if done == 8 {
                break;
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 6), "{seen:?}");
}

#[test]
fn a_format_leaves_no_superblock_of_a_set_that_began_elsewhere() {
    let mut media = dmz::filled(&[zoned(100, 64, 24)], 2);
    let first = Superblock::decode(&read(&mut media, 0, 1)).unwrap();
    // One that would be found if the first superblock was lost.
    let stray = Superblock { block: 64, metadata_blocks: 40, ..first };
    media.put(5 * 64, &Superblock { block: 5 * 64, ..stray }.encode());
    let whole = format(&mut media, &options(1), &mut |_, _| ());
    whole.unwrap();
    assert_eq!(read(&mut media, 5 * 64, 1), [0; BLOCK_BYTES]);
    assert!(Volume::load(&mut media).unwrap().entries.iter().all(|entry| *entry == MapEntry::UNMAPPED));
}
