//! Starting a volume whose metadata is damaged takes nothing away that a repair could bring back.

use shingle_core::block::{Action, Op, Status};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::zoned::check::{Loss, OnLoss, RepairError, repair};
use shingle_core::dm::zoned::format::{Layout, MapEntry, Media as _, NO_ZONE, Sets, Superblock};
use shingle_core::dm::zoned::{BLOCK_BYTES, ChunkNo, Rows, Sabotage, SetZone, Zoned};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;

use crate::dmz::harm::{HARMS, Harm};
use crate::dmz::{gone, salvaged};
use crate::zoned::{Volume, ZONE, disk, read, write};

/// What the other set is when the volume starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    InStep,
    /// The first set is one generation older, and so the second one is in force.
    Behind,
}

fn small() -> Vec<NullConfig> {
    vec![disk(24, Some(6))]
}

fn with_cache() -> Vec<NullConfig> {
    vec![disk(6, None), disk(16, Some(0))]
}

/// A stopped volume with chunks in sequential zones, in random ones, and with buffers; and what is in it.
fn stopped(disks: &[NullConfig], other: Other) -> (Volume, Vec<Vec<u8>>) {
    let mut volume = Volume::new(disks, 2);
    let chunk = |number: u64| number * u64::from(ZONE);
    (0..4).for_each(|number| volume.write(chunk(number), 24, number as u8 + 1));
    // One block in a buffer each, and one chunk that starts in a random zone.
    (0..2).for_each(|number| volume.write(chunk(number) + 5, 2, 0x80 | number as u8));
    volume.write(chunk(5) + 9, 3, 0x70);
    volume.stop();
    if other == Other::Behind {
        volume.with_media(|media| {
            let Sets { superblock, .. } = Sets::find(media).unwrap();
            let older = Superblock { generation: superblock.generation - 1, ..superblock };
            media.write(superblock.block, &older.encode()).unwrap();
        });
    }
    let whole = volume.with_media(|media| salvaged(media).unwrap());
    assert!(whole.iter().filter(|block| !block.is_empty()).count() > 80);
    (volume, whole)
}

/// The numbers of the set, where the set in force starts, and the entries.
fn set_in_force(volume: &mut Volume) -> (Layout, u64, Rows<ChunkNo, MapEntry>) {
    volume.with_media(|media| {
        let sets = Sets::find(media).unwrap();
        let start = sets.layout.set_start(media.space(), sets.choice.set);
        let mut map = vec![0; BLOCK_BYTES];
        media.read(start + 1, &mut map).unwrap();
        let entries = map.as_chunks().0.iter().map(|bytes| MapEntry::decode(*bytes));
        (sets.layout, start, entries.take(sets.layout.chunks as usize).collect())
    })
}

/// Does harm to a block of the first device.
fn harm(volume: &mut Volume, block: u64, stale: u8, (harm, rng): (Harm, &mut Rng)) {
    volume.with_media(|media| {
        let mut bytes = vec![0; BLOCK_BYTES];
        media.read(block, &mut bytes).unwrap();
        // What cannot be read is zeroes once it is mended.
        if !harm.spoil(&mut bytes, stale, rng) {
            bytes.fill(0);
        }
        media.write(block, &bytes).unwrap();
        media.flush().unwrap();
    });
    if harm == Harm::Unreadable {
        let (leaf, bad) = (volume.leaves[0], Sector(block * 8)..Sector(block * 8 + 8));
        volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.add_bad_blocks(bad));
    }
}

/// Uses the volume for a moment: the status that it had, and whether it took a write.
fn use_it(volume: &mut Volume, sabotage: Sabotage) -> (String, bool) {
    volume.load();
    volume.rig.stack.with_device(volume.target, |zoned: &mut Zoned, cx| zoned.sabotage(sabotage, cx));
    let chunks = volume.blocks / u64::from(ZONE);
    let status = volume.run(write((chunks - 1) * u64::from(ZONE), 8, 0x66)).1;
    let told = volume.status();
    volume.run(read(0, 4));
    volume.stop();
    (told, status.is_ok())
}

/// Repairs the set; the first block that is gone, if any is.
fn repaired(volume: &mut Volume, whole: &[Vec<u8>]) -> Option<usize> {
    let (leaf, all) = (volume.leaves[0], Sector::ZERO..Sector(u64::from(ZONE) * 8 * 6));
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.remove_bad_blocks(all));
    volume.with_media(|media| {
        match repair(media, OnLoss::Refuse, &mut |_, _| ()) {
            Ok(repaired) => assert!(repaired.after.is_clean(), "{}", repaired.after),
            Err(RepairError::Loss(lost)) => {
                assert!(matches!(lost[..], [Loss::Orphan { .. } | Loss::Bitmap { .. } | Loss::Entry(_), ..]))
            }
            Err(error) => panic!("{error}"),
        }
        gone(whole, &salvaged(media).unwrap())
    })
}

/// Does harm to blocks of the set in force, starts the volume, uses and stops it, and repairs it: what is gone then, and
/// what it had said.
fn after_a_start(
    case: (&[NullConfig], Other),
    harms: &[(u64, u8, Harm)],
    sabotage: Sabotage,
) -> (Option<usize>, String) {
    let (mut volume, whole) = stopped(case.0, case.1);
    let (_, start, _) = set_in_force(&mut volume);
    let mut rng = Rng::new(harms[0].0);
    harms.iter().for_each(|(block, stale, kind)| harm(&mut volume, start + block, *stale, (*kind, &mut rng)));
    let (told, took) = use_it(&mut volume, sabotage);
    assert!(took != told.contains("`shingle dmz repair`"), "{told}");
    (repaired(&mut volume, &whole), told)
}

#[test]
fn a_start_on_a_mapping_table_that_is_damaged_takes_nothing_away_that_the_other_set_has() {
    for disks in [small(), with_cache()] {
        for (other, kind) in
            [Other::InStep, Other::Behind].into_iter().flat_map(|other| HARMS.map(|kind| (other, kind)))
        {
            let (lost, told) = after_a_start((&disks, other), &[(1, 0xff, kind)], Sabotage::default());
            assert!(told.contains("`shingle dmz repair`"), "{kind:?}, {other:?}: {told}");
            assert_eq!(lost, None, "{kind:?}, {other:?}: a block is gone");
        }
    }
}

#[test]
fn a_start_on_a_bitmap_that_is_damaged_takes_nothing_away_that_the_other_set_has() {
    for disks in [small(), with_cache()] {
        let (mut volume, _) = stopped(&disks, Other::InStep);
        let (layout, _, entries) = set_in_force(&mut volume);
        let zones: Vec<SetZone> =
            entries.iter().flat_map(|entry| [entry.dzone, entry.bzone]).filter(|zone| *zone != NO_ZONE).collect();
        assert!(zones.len() > 5, "{zones:?}");
        // One bit that is another cannot be told from a commit that was cut off.
        for (zone, kind) in
            zones.iter().flat_map(|zone| HARMS.map(|kind| (zone, kind))).filter(|(_, kind)| *kind != Harm::Flipped)
        {
            let block = u64::from(*zone + 1 + layout.map_blocks);
            let (lost, told) = after_a_start((&disks, Other::InStep), &[(block, 0, kind)], Sabotage::default());
            assert!(told.contains("`shingle dmz repair`"), "{kind:?} of zone {zone}: {told}");
            assert_eq!(lost, None, "{kind:?} of zone {zone}: a block is gone");
        }
    }
}

#[test]
fn without_judging_the_set_in_force_a_start_takes_the_other_one_away() {
    let sabotage = Sabotage { resync_unjudged: true, ..Sabotage::default() };
    let (disks, mut losses) = (small(), 0);
    for kind in [Harm::Zeroed, Harm::Ones, Harm::Garbage, Harm::Stale] {
        losses += usize::from(loses(&disks, kind, sabotage));
        assert!(!loses(&disks, kind, Sabotage::default()));
    }
    assert_eq!(losses, 4, "nobody notices that the guard is gone");
}

fn loses(disks: &[NullConfig], kind: Harm, sabotage: Sabotage) -> bool {
    let (mut volume, whole) = stopped(disks, Other::InStep);
    let (_, start, _) = set_in_force(&mut volume);
    harm(&mut volume, start + 1, 0xff, (kind, &mut Rng::new(3)));
    use_it(&mut volume, sabotage);
    repaired(&mut volume, &whole).is_some()
}

#[test]
fn a_chunk_in_doubt_is_an_error_and_not_zeroes_and_the_others_can_be_read() {
    let (mut volume, _) = stopped(&small(), Other::InStep);
    let (layout, start, entries) = set_in_force(&mut volume);
    let zone = entries[ChunkNo(2)].dzone;
    harm(&mut volume, start + u64::from(zone + 1 + layout.map_blocks), 0, (Harm::Zeroed, &mut Rng::new(1)));
    volume.load();
    assert_eq!(volume.read(u64::from(ZONE), 5), [2; 5]);
    assert_eq!(volume.run(read(2 * u64::from(ZONE), 4)).1, Status::Io);
    assert!(volume.status().contains("read-only: metadata of 1 chunks is damaged"), "{}", volume.status());
}

/// Changes the block of the bitmap of `zone` in the set that starts at `start`.
fn edit_bitmap(volume: &mut Volume, start: u64, zone: SetZone, change: impl Fn(&mut [u8])) {
    let (layout, ..) = set_in_force(volume);
    volume.with_media(|media| {
        let (block, mut bytes) = (start + u64::from(zone + 1 + layout.map_blocks), vec![0; BLOCK_BYTES]);
        media.read(block, &mut bytes).unwrap();
        change(&mut bytes);
        media.write(block, &bytes).unwrap();
        media.flush().unwrap();
    });
}

#[test]
fn a_start_takes_no_block_from_a_buffer_since_the_set_in_force_has_it_in_the_data_zone_as_well() {
    let (mut volume, whole) = stopped(&small(), Other::InStep);
    let (_, start, entries) = set_in_force(&mut volume);
    let entry = entries.iter().find(|entry| entry.bzone != NO_ZONE).unwrap();
    edit_bitmap(&mut volume, start, entry.dzone, |bits| bits[0] |= 1 << 5);
    let (told, took) = use_it(&mut volume, Sabotage::default());
    assert!(!took && told.contains("metadata of 1 chunks is damaged"), "{told}");
    assert_eq!(repaired(&mut volume, &whole), None);
}

#[test]
fn one_block_of_the_other_set_that_cannot_be_read_does_not_hide_the_rest_of_it() {
    let (mut volume, whole) = stopped(&small(), Other::InStep);
    let (layout, start, entries) = set_in_force(&mut volume);
    let spoilt = volume.with_media(|media| layout.set_start(media.space(), 1)) + 1;
    edit_bitmap(&mut volume, start, entries[ChunkNo(2)].dzone, |bits| bits.fill(0));
    let (leaf, bad) = (volume.leaves[0], Sector(spoilt * 8)..Sector(spoilt * 8 + 8));
    volume.rig.stack.with_device(leaf, |disk: &mut NullDevice, _| disk.add_bad_blocks(bad));
    let (told, took) = use_it(&mut volume, Sabotage::default());
    assert!(!took && told.contains("metadata of 1 chunks is damaged"), "{told}");
    assert_eq!(repaired(&mut volume, &whole), None);
}

#[test]
fn an_older_set_says_nothing_of_what_is_valid_now() {
    // A kernel leaves a chunk its zone when all of it was discarded.
    let (mut volume, _) = stopped(&small(), Other::Behind);
    let (_, start, entries) = set_in_force(&mut volume);
    edit_bitmap(&mut volume, start, entries[ChunkNo(2)].dzone, |bits| bits.fill(0));
    let (told, took) = use_it(&mut volume, Sabotage::default());
    assert!(took, "{told}");
}

#[test]
fn what_a_killed_host_left_in_the_cache_of_its_disk_is_durable_before_anything_is_written() {
    let disks: Vec<NullConfig> = small().into_iter().map(|disk| NullConfig { write_cache: true, ..disk }).collect();
    for other in [Other::InStep, Other::Behind] {
        let (mut volume, _) = stopped(&disks, other);
        volume.rig.stack.set_trace(Some(1 << 16));
        volume.load();
        volume.write(0, 8, 1);
        let leaf = volume.leaves[0];
        let events: Vec<_> = std::iter::from_fn(|| volume.rig.stack.trace().unwrap().pop()).collect();
        let sent = events.iter().filter(|event| event.device == leaf && event.action == Action::Dispatch);
        let changes = sent.map(|event| event.op).find(|op| *op == Op::Flush || op.is_write());
        assert_eq!(changes, Some(Op::Flush), "{other:?}");
    }
}
