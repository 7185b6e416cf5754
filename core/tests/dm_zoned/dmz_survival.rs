//! A repair, whole or cut off anywhere, loses nothing that could be salvaged before it; and what one of the two copies of the
//! metadata has is not lost at all.

use shingle_core::dm::zoned::check::{Loss, Next, OnLoss, RepairError, check, repair};
use shingle_core::dm::zoned::format::{
    Layout, Media, MediaError, MemoryMedia, NO_ZONE, Sets, Superblock, Volume, tertiaries,
};
use shingle_core::dm::zoned::{BLOCK_BYTES, SetZone, ZoneSpace};
use shingle_core::random::Rng;

use crate::dmz::harm::{HARMS, Harm};
use crate::dmz::{differing_sets, fix1, fix2, gone, read, salvaged};

fn harm(media: &mut MemoryMedia, block: u64, stale: u8, (harm, rng): (Harm, &mut Rng)) {
    let mut bytes = media.block(block);
    if !harm.spoil(&mut bytes, stale, rng) {
        media.bad.insert(block);
    }
    media.put(block, &bytes);
}

/// A block of a set: its mapping table in one of three cases, else a bitmap of a zone that is not metadata.
fn some_block(layout: &Layout, rng: &mut Rng) -> (u64, u8) {
    let map = u64::from(layout.map_blocks);
    match rng.below(3) {
        0 => (1 + rng.below(map), 0xff),
        _ => (1 + map + rng.below(u64::from(layout.bitmap_blocks).min(40)), 0),
    }
}

/// Harms some blocks of set `set`, its superblock left out.
fn harm_set(media: &mut MemoryMedia, set: usize, rng: &mut Rng) {
    let layout = Sets::find(media).unwrap().layout;
    let start = layout.set_start(media.space(), set);
    for _ in 0..1 + rng.below(4) {
        let (block, stale) = some_block(&layout, rng);
        let kind = HARMS[rng.below(HARMS.len() as u64) as usize];
        harm(media, start + block, stale, (kind, rng));
    }
}

#[test]
fn a_mapping_block_that_is_wrong_in_one_set_is_repaired_from_the_other_one() {
    for media in [differing_sets(), vec![fix1(), fix2()]].concat() {
        let layout = Sets::find(&mut media.clone()).unwrap().layout;
        let whole = salvaged(&mut media.clone()).unwrap();
        for (set, kind) in [0, 1].into_iter().flat_map(|set| HARMS.map(|kind| (set, kind))) {
            let mut media = media.clone();
            let block = layout.set_start(media.space(), set) + 1;
            harm(&mut media, block, 0xff, (kind, &mut Rng::new(1)));
            let report = check(&mut media, &mut |_, _| ());
            assert_eq!(report.next(), Next::Repair, "{kind:?} in set {set}: {report}");
            assert!(salvaged(&mut media).unwrap() == whole, "{kind:?} in set {set}: not salvaged");
            let repaired = repair(&mut media, OnLoss::Refuse, &mut |_, _| ()).unwrap();
            assert!(repaired.after.is_clean(), "{kind:?} in set {set}: {}", repaired.after);
            assert!(salvaged(&mut media).unwrap() == whole, "{kind:?} in set {set}: not repaired");
        }
    }
}

#[test]
fn a_mapping_block_that_is_wrong_in_the_newer_set_is_repaired_from_the_older_one() {
    for media in [differing_sets(), vec![fix1(), fix2()]].concat() {
        let Sets { layout, superblock, .. } = Sets::find(&mut media.clone()).unwrap();
        let second = layout.set_start(media.space(), 1);
        let whole = salvaged(&mut media.clone()).unwrap();
        for kind in HARMS {
            let mut media = media.clone();
            media.put(
                second,
                &Superblock { generation: superblock.generation + 1, block: second, ..superblock }.encode(),
            );
            harm(&mut media, second + 1, 0xff, (kind, &mut Rng::new(1)));
            let repaired = repair(&mut media, OnLoss::Refuse, &mut |_, _| ());
            assert!(repaired.as_ref().is_ok_and(|repaired| repaired.after.is_clean()), "{kind:?}: {repaired:?}");
            assert!(salvaged(&mut media).unwrap() == whole, "{kind:?}: not repaired");
        }
    }
}

#[test]
fn a_bitmap_that_is_wrong_in_one_set_is_repaired_from_the_other_one() {
    for media in [differing_sets(), vec![fix1(), fix2()]].concat() {
        let volume = Volume::load(&mut media.clone()).unwrap();
        let layout = volume.sets.layout;
        let whole = salvaged(&mut media.clone()).unwrap();
        let entry = volume.entries.iter().find(|entry| entry.bzone != NO_ZONE).unwrap();
        for (set, kind) in [0, 1].into_iter().flat_map(|set| HARMS.map(|kind| (set, kind))) {
            for zone in [entry.dzone, entry.bzone] {
                let mut media = media.clone();
                let block = layout.set_start(media.space(), set) + u64::from(zone + 1 + layout.map_blocks);
                harm(&mut media, block, 0, (kind, &mut Rng::new(zone.into())));
                assert_eq!(check(&mut media, &mut |_, _| ()).next(), Next::Repair, "{kind:?} in set {set}");
                let repaired = repair(&mut media, OnLoss::Refuse, &mut |_, _| ()).unwrap();
                assert!(repaired.after.is_clean(), "{kind:?} in set {set}: {}", repaired.after);
                let lost = gone(&whole, &salvaged(&mut media).unwrap());
                assert_eq!(lost, None, "{kind:?} of zone {zone} in set {set}");
            }
        }
    }
}

#[test]
fn what_one_whole_copy_has_no_damage_of_the_other_one_loses() {
    let originals = [differing_sets(), vec![fix1(), fix2()]].concat();
    let whole: Vec<_> = originals.iter().map(|media| salvaged(&mut media.clone()).unwrap()).collect();
    for seed in 0..200 {
        let (mut rng, which) = (Rng::new(seed), seed as usize % if seed % 10 == 0 { 5 } else { 3 });
        let mut media = originals[which].clone();
        let set = rng.below(2) as usize;
        harm_set(&mut media, set, &mut rng);
        let repaired = repair(&mut media, OnLoss::Refuse, &mut |_, _| ());
        let repaired = repaired.unwrap_or_else(|error| panic!("seed {seed}, set {set}: {error}"));
        assert!(repaired.after.is_clean(), "seed {seed}, set {set}: {}", repaired.after);
        let lost = gone(&whole[which], &salvaged(&mut media).unwrap());
        assert_eq!(lost, None, "seed {seed}, set {set}: a block is gone");
    }
}

/// Harms anything: superblocks of all three kinds, and blocks of either set.
fn harm_anything(media: &mut MemoryMedia, rng: &mut Rng) {
    let Sets { layout, found, .. } = Sets::find(media).unwrap();
    let starts = [0, 1].map(|set| layout.set_start(media.space(), set));
    let thirds: Vec<u64> = tertiaries(media.space()).map(|(_, zone)| media.space().start(zone)).collect();
    for _ in 0..1 + rng.below(6) {
        let kind = HARMS[rng.below(HARMS.len() as u64) as usize];
        let start = starts[rng.below(2) as usize];
        match rng.below(10) {
            0 => harm(media, start, 0, (kind, rng)),
            1 => {
                // A commit that was cut off, or one set that is another's.
                let set = rng.below(2) as usize;
                let Ok(superblock) = &found[set] else { continue };
                let generation = superblock.generation - rng.below(2) + rng.below(3);
                media.put(starts[set], &Superblock { generation, ..*superblock }.encode());
            }
            2 if !thirds.is_empty() => harm(media, thirds[rng.below(thirds.len() as u64) as usize], 0, (kind, rng)),
            3 => {
                let (block, stale) = some_block(&layout, rng);
                starts.iter().for_each(|start| harm(media, start + block, stale, (kind, rng)));
            }
            _ => {
                let (block, stale) = some_block(&layout, rng);
                harm(media, start + block, stale, (kind, rng));
            }
        }
    }
}

fn assert_kept(before: &[Vec<u8>], media: &mut MemoryMedia, what: &str) {
    let after = salvaged(media).unwrap_or_else(|| panic!("{what}: there is nothing to salvage any more"));
    assert_eq!(gone(before, &after), None, "{what}: a block is gone");
}

#[test]
fn no_repair_of_anything_loses_what_could_be_salvaged() {
    let originals = [differing_sets(), vec![fix1(), fix2()]].concat();
    let (mut refused, mut mended, mut hopeless) = (0, 0, 0);
    for seed in 0..250 {
        let (mut rng, which) = (Rng::new(seed), seed as usize % if seed % 20 == 0 { 5 } else { 3 });
        let mut media = originals[which].clone();
        harm_anything(&mut media, &mut rng);
        media.changes = 0;
        let before = salvaged(&mut media);
        let next = check(&mut media, &mut |_, _| ()).next();
        match repair(&mut media, OnLoss::Refuse, &mut |_, _| ()) {
            Ok(_) => {
                assert!(matches!(next, Next::Repair | Next::Nothing), "seed {seed}: {next}");
                mended += 1;
            }
            Err(RepairError::Load(_, advice)) => {
                assert_eq!((media.changes, advice), (0, next), "seed {seed}");
                assert_eq!(before.is_some(), next == Next::Salvage, "seed {seed}: {next}");
                hopeless += 1;
                continue;
            }
            Err(RepairError::Loss(lost)) => {
                assert_eq!((media.changes, next), (0, Next::GiveUp), "seed {seed}");
                assert!(!lost.is_empty());
                refused += 1;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
        let repaired = repair(&mut media, OnLoss::GiveUp, &mut |_, _| ()).unwrap();
        assert!(repaired.after.is_clean(), "seed {seed}: {}", repaired.after);
        assert_kept(&before.unwrap(), &mut media, &format!("seed {seed}"));
    }
    assert!(refused > 20 && mended > 80 && hopeless > 2, "{refused} {mended} {hopeless}");
}

#[test]
fn a_power_cut_at_any_step_of_any_repair_loses_nothing_that_could_be_salvaged() {
    let originals = differing_sets();
    let mut cuts = 0;
    for seed in 0..30 {
        let mut rng = Rng::new(1000 + seed);
        let mut media = originals[seed as usize % 3].clone();
        harm_anything(&mut media, &mut rng);
        let Some(before) = salvaged(&mut media) else { continue };
        if Sets::find(&mut media).is_err() {
            continue;
        }
        for cut_after in 0.. {
            let mut media = media.clone();
            (media.changes, media.cut_after) = (0, Some(cut_after));
            if repair(&mut media, OnLoss::GiveUp, &mut |_, _| ()).is_ok() {
                break;
            }
            let mut media = media.after_power_cut(&mut rng);
            let what = format!("seed {seed}, cut after {cut_after}");
            assert_kept(&before, &mut media, &what);
            let again = repair(&mut media, OnLoss::GiveUp, &mut |_, _| ());
            let again = again.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(again.after.is_clean(), "{what}: {}", again.after);
            assert_kept(&before, &mut media, &what);
            cuts += 1;
        }
    }
    assert!(cuts > 300, "{cuts}");
}

#[test]
fn what_is_in_neither_set_is_named_and_nothing_is_changed_until_it_is_given_up() {
    let mut media = fix1();
    let zone = Volume::load(&mut media).unwrap().entries.iter().find(|entry| entry.dzone != NO_ZONE).unwrap().dzone;
    for block in [1, 257] {
        let mut map = read(&mut media, block, 1);
        let at = map.as_chunks::<4>().0.iter().position(|word| *word == zone.0.to_le_bytes()).unwrap() * 4;
        map[at..at + 8].fill(0xff);
        media.put(block, &map);
    }
    media.changes = 0;
    let report = check(&mut media, &mut |_, _| ());
    assert!(report.to_string().contains("salvage"), "{report}");
    assert!(matches!(report.lost[..], [Loss::Orphan { .. }, ..]), "{:?}", report.lost);
    let error = repair(&mut media, OnLoss::Refuse, &mut |_, _| ()).unwrap_err();
    let words = [format!("zone {zone}: "), "`shingle dmz salvage`".into(), "`--lossy`".into()];
    assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    assert_eq!(media.changes, 0);
    assert!(repair(&mut media, OnLoss::GiveUp, &mut |_, _| ()).unwrap().after.is_clean());
}

/// Disks of which one block cannot be read, whatever is written to it.
struct Worn(MemoryMedia, u64);

impl Media for Worn {
    fn space(&self) -> &ZoneSpace {
        self.0.space()
    }

    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        let blocks = block..block + (to.len() / BLOCK_BYTES) as u64;
        if blocks.contains(&self.1) { Err(MediaError("worn out".into())) } else { self.0.read(block, to) }
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError> {
        self.0.write(block, from)
    }

    fn reset(&mut self, zone: SetZone) -> Result<(), MediaError> {
        self.0.reset(zone)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.0.flush()
    }
}

#[test]
fn a_set_with_a_block_that_cannot_be_read_does_not_come_into_force() {
    let whole = salvaged(&mut fix1()).unwrap();
    let mut worn = Worn(fix1(), 258);
    let error = repair(&mut worn, OnLoss::Refuse, &mut |_, _| ()).unwrap_err();
    assert!(matches!(error, RepairError::Media(_)), "{error}");
    let sets = Sets::find(&mut worn).unwrap();
    assert_eq!(sets.choice.set, 0, "the set that can be read counts");
    assert_kept(&whole, &mut worn.0, "after the repair that failed");
}

/// Disks whose flushes do nothing.
struct Careless(MemoryMedia);

impl Media for Careless {
    fn space(&self) -> &ZoneSpace {
        self.0.space()
    }

    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        self.0.read(block, to)
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError> {
        self.0.write(block, from)
    }

    fn reset(&mut self, zone: SetZone) -> Result<(), MediaError> {
        self.0.reset(zone)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}

#[test]
fn a_repair_whose_flushes_do_nothing_is_found_to_lose_something() {
    let before = salvaged(&mut fix1()).unwrap();
    let loses = |seed: &u64| {
        let (mut rng, mut media) = (Rng::new(*seed), Careless(fix1()));
        // The second set is as a format made it, without a superblock: its new one must not be there before the rest of it.
        harm(&mut media.0, 256, 0, (Harm::Zeroed, &mut rng));
        harm(&mut media.0, 257, 0xff, (Harm::Stale, &mut rng));
        (258..300).for_each(|block| harm(&mut media.0, block, 0, (Harm::Stale, &mut rng)));
        repair(&mut media, OnLoss::Refuse, &mut |_, _| ()).unwrap();
        let after = salvaged(&mut media.0.after_power_cut(&mut rng));
        after.is_none_or(|after| gone(&before, &after).is_some())
    };
    assert!((0..20).any(|seed| loses(&seed)));
}
