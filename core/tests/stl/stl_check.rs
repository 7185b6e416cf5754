//! The tools of `stl`: what they make, and what a check finds of what was done to a volume.

use std::collections::BTreeSet;

use shingle_core::block::Status;
use shingle_core::device::NullConfig;
use shingle_core::dm::stl::format::{Checksum, Header, PieceKind, SetId, ZoneRow, ZoneUse, decode_leaf, encode_leaf};
use shingle_core::dm::stl::map::{Extent, LeafImage, LeafNo, LeafSize, Span};
use shingle_core::dm::stl::tools::{
    Depth, Disk, Finding, FormatOptions, Media, MemoryMedia, Report, Spot, Volume as Found, check, follow, format,
};
use shingle_core::dm::stl::{Lba, Options, Pba};
use shingle_core::random::Rng;

use crate::shingled;
use crate::shingled::shelf::{put_back, taken_out};
use crate::shingled::{Volume, ZONE, disk, small};

/// Disks of a volume that was used until it had cleaned and merged, put away cleanly or not.
fn used(disks: &[NullConfig], seed: u64, is_clean: bool) -> (MemoryMedia, Vec<u8>) {
    let (mut volume, mut rng) = (Volume::new(disks, 100, small()), Rng::new(seed));
    let mut model = vec![0; volume.blocks as usize];
    for _ in 0..1500 {
        let at = rng.below(volume.blocks);
        let len = (1 + rng.below(9)).min(volume.blocks - at);
        let byte = if rng.chance(1, 8) { 0 } else { 1 + rng.below(255) as u8 };
        match byte {
            0 => assert_eq!(volume.run(shingled::discard(at, len as u32)).1, Status::Ok),
            _ => volume.write(at, len as u32, byte),
        }
        model[at as usize..(at + len) as usize].fill(byte);
    }
    assert!(volume.work().0 > 0 && volume.work().1 > 0, "{:?}", volume.work());
    volume.flush();
    if is_clean {
        volume.stop();
    } else {
        volume.rig.settle();
        volume.write(0, 1, 7);
        model[0] = 7;
        volume.rig.settle();
    }
    (taken_out(&mut volume), model)
}

fn two() -> [NullConfig; 2] {
    [disk(24, Some(2)), disk(24, Some(0))]
}

fn checked(media: &mut MemoryMedia, with_data: bool) -> Report {
    let before = media.changes;
    let mut read = 0;
    let mut pace = |blocks| read += u64::from(blocks);
    let depth = Depth { pace: if with_data { Some(&mut pace) } else { None } };
    let report = check(media, depth, &mut |_, _| ());
    assert_eq!(media.changes, before, "a check changes nothing");
    assert_eq!(report.read_blocks, read);
    report
}

fn names(report: &Report) -> BTreeSet<&'static str> {
    report.findings.all().iter().map(Finding::name).collect()
}

#[track_caller]
fn finds(media: &mut MemoryMedia, name: &str) -> Report {
    let report = checked(media, true);
    assert!(names(&report).contains(name), "{name}: {:?}", report.findings.all());
    assert!(!report.findings.is_clean());
    report
}

#[test]
fn a_volume_that_was_used_is_in_order_however_it_ended() {
    for (seed, disks) in
        [vec![disk(40, Some(4))], vec![disk(30, Some(0))], two().into(), vec![disk(12, None), disk(30, Some(3))]]
            .into_iter()
            .enumerate()
    {
        for is_clean in [true, false] {
            let (mut media, model) = used(&disks, seed as u64, is_clean);
            let report = checked(&mut media, true);
            assert!(report.findings.is_clean(), "{seed} {is_clean}: {:?}", report.findings.all());
            let live = model.iter().filter(|byte| **byte > 0).count() as u64;
            assert_eq!((report.live_blocks(), report.read_blocks), (live, live));
            assert_eq!(report.volume.unwrap().replayed > 0, !is_clean);
        }
    }
}

fn options(disks: usize, reserve: u32) -> FormatOptions {
    FormatOptions { set: SetId([9; 16]), disks: (0..disks).map(|n| [n as u8 + 1; 16]).collect(), reserve }
}

#[test]
fn a_format_leaves_a_volume_that_is_empty_and_in_order_whatever_was_there() {
    for disks in [vec![disk(40, Some(4))], two().into(), vec![disk(12, None), disk(30, Some(3))]] {
        let (mut media, _) = used(&disks, 3, true);
        let made = format(&mut media, &options(disks.len(), 100), &mut |_, _| ()).unwrap();
        let report = checked(&mut media, true);
        assert_eq!((report.findings.all(), report.live_blocks()), (&[][..], 0));
        let found = report.volume.unwrap();
        assert_eq!((found.id(), found.newest.root.capacity * 8), (SetId([9; 16]), made.sectors));
        let mut volume = Volume::new(&disks, 100, small());
        volume.stop();
        put_back(&mut volume, &media);
        volume.blocks = made.sectors / 8;
        volume.load();
        assert_eq!(volume.read(0, ZONE), [0; ZONE as usize]);
        volume.write(0, 1, 1);
    }
}

#[test]
fn a_format_that_cannot_be_changes_nothing() {
    let (mut media, _) = used(&[disk(40, Some(4))], 4, true);
    let before = media.changes;
    for (reserve, says) in [(29, "29 thousandths"), (901, "901 thousandths")] {
        let error = format(&mut media, &options(1, reserve), &mut |_, _| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let mut few =
        MemoryMedia::new(vec![Disk { zones: media.disks()[0].zones[..6].into(), sectors: 6 * 512, max_active: None }]);
    let error = format(&mut few, &options(1, 100), &mut |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("6 zones can be written"), "{error}");
    assert_eq!((media.changes, few.changes), (before, 0));
}

#[test]
fn disks_without_a_volume_are_told_from_a_volume_without_its_disks() {
    let disks = [disk(24, Some(0)), disk(24, Some(0))];
    let (media, _) = used(&disks, 5, true);
    let mut blank = MemoryMedia::new(vec![media.disks()[0].clone()]);
    let report = finds(&mut blank, "no-volume");
    assert!(report.findings.all()[0].to_string().contains("no root was found"));
    let mut one = media.clone();
    for block in 0..2 * u64::from(ZONE) {
        one.put(Spot { disk: 1, block }, &[0; 4096]);
    }
    let report = finds(&mut one, "no-root");
    assert_eq!(report.findings.all(), [Finding::NoRoot(1)], "the other one has all there is to know");
    let mut alone = MemoryMedia::new(vec![media.disks()[0].clone()]);
    (0..24 * u64::from(ZONE)).for_each(|block| {
        let spot = Spot { disk: 0, block };
        alone.put(spot, &media.block(spot));
    });
    let report = finds(&mut alone, "members");
    assert!(report.findings.all()[0].to_string().contains("is missing"));
}

/// A volume without damage, and what its root says.
fn sound() -> (MemoryMedia, Found) {
    let (mut media, _) = used(&two(), 6, true);
    let found = Found::find(&mut media, &mut Default::default()).unwrap();
    (media, found)
}

#[test]
fn a_table_that_is_damaged_is_found_by_kind() {
    let (media, found) = sound();
    for kind in PieceKind::ALL {
        let Some(piece) = found.newest.root.pieces.iter().find(|piece| piece.kind == kind) else {
            panic!("no {}", kind.name())
        };
        let mut media = media.clone();
        media.harm(found.space.spot(piece.place).unwrap(), 77);
        let report = finds(&mut media, "table");
        let told = report.findings.all().iter().find(|finding| finding.name() == "table").unwrap().to_string();
        assert!(told.contains(kind.name()) && told.contains("checksum"), "{told}");
    }
}

#[test]
fn a_leaf_or_page_that_is_damaged_is_found() {
    let (media, found) = sound();
    let leaf = found.leaves.iter().flatten().find(|row| row.blocks > 0).unwrap().place;
    let page = found.runs.iter().flat_map(|(_, pages)| pages).next().unwrap().place;
    for (name, place) in [("leaf", leaf), ("page", page)] {
        let (mut harmed, mut unread) = (media.clone(), media.clone());
        harmed.harm(found.space.spot(place).unwrap(), 500);
        finds(&mut harmed, name);
        unread.bad.insert(found.space.spot(place).unwrap());
        finds(&mut unread, name);
    }
}

/// Zones with live blocks of users, with the place of the first of these and its block.
fn live_blocks(media: &mut MemoryMedia, found: &Found) -> Vec<(Lba, Pba)> {
    let mut live = vec![];
    for (number, row) in found.leaves.iter().flatten().enumerate().filter(|(_, row)| row.blocks > 0) {
        let (first, mut bytes) = (found.space.spot(row.place).unwrap(), vec![0; usize::from(row.blocks) * 4096]);
        media.read(first, &mut bytes).unwrap();
        for extent in decode_leaf((LeafSize::default(), LeafNo(number as u32)), row.place, &bytes).unwrap() {
            let held = |run: Span<'_>| run.lba < extent.end() && run.end() > extent.lba;
            if !found.pending.iter().any(held) {
                live.push((extent.lba, extent.place(0).unwrap().0));
            }
        }
    }
    live
}

#[test]
fn headers_and_data_that_are_damaged_are_found_and_data_only_if_it_is_read() {
    let (mut media, found) = sound();
    let report = checked(&mut media, false);
    assert!(report.findings.is_clean());
    let zone = (0..).zip(&report.live).filter(|(_, live)| **live > 2).map(|(zone, _)| zone).last().unwrap();
    let zone = shingle_core::dm::stl::ZoneIndex(zone);
    let (batches, _) = follow(&mut media, &found, zone);
    let start = found.space.set.start(zone);
    let mut harmed = media.clone();
    harmed.harm(found.space.spot(start).unwrap(), 60);
    let report = finds(&mut harmed, "header");
    assert!(names(&report).contains("elsewhere"), "the map leads to blocks of which no header tells");
    // Discards have none.
    let with_data = batches.found.iter().filter(|found| !found.header.checksums.is_empty());
    let all: Vec<Pba> = with_data.map(|found| found.payload).collect();
    let mut harmed = media.clone();
    all.iter().for_each(|place| harmed.harm(found.space.spot(*place).unwrap(), 9));
    assert!(checked(&mut harmed, false).findings.is_clean());
    (0..u64::from(ZONE)).for_each(|block| harmed.harm(found.space.spot(start + block).unwrap(), 4000));
    finds(&mut harmed, "header");
    let mut unread = media.clone();
    live_blocks(&mut media, &found).iter().for_each(|(_, place)| unread.bad.extend(found.space.spot(*place)));
    let report = finds(&mut unread, "unreadable");
    assert!(!names(&report).contains("checksum"));
}

#[test]
fn data_that_is_not_what_was_written_is_found_block_by_block() {
    let (mut media, found) = sound();
    let (lba, place) = live_blocks(&mut media, &found)[3];
    let runs = found.runs.len();
    media.harm(found.space.spot(place).unwrap(), 9);
    let report = checked(&mut media, true);
    // A run may have the block elsewhere by now, and then nobody reads this one.
    match report.findings.all() {
        [] => assert!(runs > 0),
        [Finding::Checksum { lba: its, place: there }] => assert_eq!((*its, *there), (lba, place)),
        more => panic!("{more:?}"),
    }
}

/// A volume that was stopped cleanly, with two batches in its zone of users: block 13 is damaged, in the second.
fn damaged_in_the_last_batch() -> MemoryMedia {
    let mut volume = Volume::new(&two(), 100, Options { batch_blocks: 64, ..small() });
    volume.write(20, 10, 7);
    volume.write(0, 20, 7);
    volume.stop();
    let mut media = taken_out(&mut volume);
    let found = Found::find(&mut media, &mut Default::default()).unwrap();
    let users = found.space.zones().map(|zone| (zone, follow(&mut media, &found, zone).0));
    let (zone, chain) = users.filter(|(zone, _)| zone.0 % 24 > 1).find(|(_, chain)| !chain.found.is_empty()).unwrap();
    let [_, last] = &chain.found[..] else { panic!("{:?}", chain.found) };
    let at = last.header.lbas().iter().position(|lba| *lba == Lba(13)).unwrap();
    media.harm(found.space.spot(last.payload + at as u64).unwrap(), 9);
    let found = Found::find(&mut media, &mut Default::default()).unwrap();
    assert!(found.beyond.contains(&(zone, last.end)), "its batches end at {}: {:?}", last.end, found.beyond);
    media
}

/// A start took the damaged batch for torn and its zone for shorter, and a check all blocks of that batch for misplaced.
#[test]
fn a_damaged_block_in_the_last_batch_of_a_zone_is_one_error() {
    let mut media = damaged_in_the_last_batch();
    for starts in 0..3 {
        let report = checked(&mut media, true);
        let [Finding::Checksum { lba: Lba(13), .. }] = report.findings.all() else {
            panic!("{starts} starts: {:?}", report.findings.all())
        };
        let mut volume = Volume::new(&two(), 100, Options { batch_blocks: 64, ..small() });
        volume.stop();
        put_back(&mut volume, &media);
        volume.load();
        volume.write(40, 1, 1);
        volume.stop();
        media = taken_out(&mut volume);
    }
}

/// Writes a leaf anew with other extents.
fn forge_leaf(media: &mut MemoryMedia, found: &Found, change: impl FnOnce(&mut Vec<Extent>)) {
    let (number, row) = (0..)
        .zip(&found.leaves)
        .filter_map(|(number, row)| Some((number, (*row)?)))
        .find(|(_, row)| row.blocks > 0)
        .unwrap();
    let (first, mut bytes) = (found.space.spot(row.place).unwrap(), vec![0; usize::from(row.blocks) * 4096]);
    media.read(first, &mut bytes).unwrap();
    let mut extents = decode_leaf((LeafSize::default(), LeafNo(number)), row.place, &bytes).unwrap();
    change(&mut extents);
    let forged = encode_leaf(&LeafImage::of(LeafSize::default(), LeafNo(number), &extents), row.place);
    assert_eq!(forged.len(), bytes.len());
    media.put(first, &forged);
}

/// A volume all of whose map is in its leaves.
fn swept() -> (MemoryMedia, Found) {
    let mut volume = Volume::new(&two(), 100, small());
    (0..40).for_each(|n| volume.write(n * 7, 3, n as u8 + 1));
    volume.message("sweep");
    volume.rig.settle();
    volume.stop();
    let mut media = taken_out(&mut volume);
    let report = checked(&mut media, true);
    assert_eq!(report.findings.all(), []);
    (media, report.volume.unwrap())
}

#[test]
fn a_map_that_leads_elsewhere_is_found_block_by_block() {
    let (media, found) = swept();
    let moved = |extent: &Extent, place| Extent::at(extent.lba, place, extent.span().checksums);
    let place = |extent: &Extent| extent.place(0).unwrap().0;
    type Change<'a> = &'a dyn Fn(&mut Vec<Extent>);
    let swap: Change<'_> = &|extents| {
        let (one, other) = (extents[2].clone(), extents[5].clone());
        (extents[2], extents[5]) = (moved(&one, place(&other)), moved(&other, place(&one)));
    };
    let twice: Change<'_> = &|extents| extents[2] = moved(&extents[2], place(&extents[5]));
    let nowhere: Change<'_> = &|extents| extents[2] = moved(&extents[2], Pba(1 << 30));
    let sum: Change<'_> = &|extents| {
        let mut sums = extents[2].span().checksums.to_vec();
        sums[1] = Checksum(sums[1].0 ^ 1);
        extents[2] = Extent::at(extents[2].lba, place(&extents[2]), &sums);
    };
    for (change, name, count) in
        [(swap, "elsewhere", 6), (twice, "twice", 3), (nowhere, "nowhere", 3), (sum, "elsewhere", 1)]
    {
        let mut media = media.clone();
        forge_leaf(&mut media, &found, change);
        let report = finds(&mut media, name);
        let those = report.findings.all().iter().filter(|finding| finding.name() == name).count();
        assert_eq!(those, count, "{:?}", report.findings.all());
    }
}

/// Changes the row of a zone, and makes the table and the root say that all is right.
fn forge_row(media: &mut MemoryMedia, found: &Found, zone: u32, change: impl FnOnce(&mut ZoneRow)) {
    let mut root = found.newest.root.clone();
    let piece = root.pieces.iter_mut().find(|piece| piece.kind == PieceKind::Zones).unwrap();
    let mut rows: Vec<ZoneRow> = found.zones.iter().map(|row| row.unwrap()).collect();
    change(&mut rows[zone as usize]);
    let mut bytes = vec![];
    rows.iter().for_each(|row| row.encode(&mut bytes));
    bytes.resize(piece.blocks as usize * 4096, 0);
    piece.checksum = Checksum::of(&bytes);
    media.put(found.space.spot(piece.place).unwrap(), &bytes);
    let payload = root.encode();
    let checksums = payload.chunks(4096).map(Checksum::of).collect();
    let header = Header { checksums, ..found.newest.header.clone() };
    media.put(found.newest.spot, &[header.encode(), payload].concat());
}

#[test]
fn live_blocks_where_none_should_be_are_found() {
    let (mut media, found) = swept();
    let report = checked(&mut media, false);
    let zone = (0..).zip(&report.live).find(|(zone, live)| **live > 2 && *zone > 3).unwrap().0;
    let mut forged = media.clone();
    forge_row(&mut forged, &found, zone, |row| row.used_for = ZoneUse::Free);
    finds(&mut forged, "live-in-zone");
    let mut forged = media.clone();
    forge_row(&mut forged, &found, zone, |row| row.written = 1);
    finds(&mut forged, "elsewhere");
    let mut forged = media.clone();
    forge_row(&mut forged, &found, zone, |row| row.generation = row.generation + 1);
    finds(&mut forged, "header");
    let on_disk = &mut media.disk_mut(zone as usize / 24).zones[zone as usize % 24];
    on_disk.wp = on_disk.start + 16;
    on_disk.cond = shingle_core::zone::Condition::Closed;
    finds(&mut media, "behind-pointer");
}
