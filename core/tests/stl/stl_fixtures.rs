//! Images of version 1 of the format, as they were written when it was settled: whoever has such a volume can go on with it for ever.

use shingle_core::block::Status;
use shingle_core::device::{NullConfig, NullZones};
use shingle_core::dm::stl::format::{Checksum, Header};
use shingle_core::dm::stl::tools::{Depth, Media, MemoryMedia, Spot, Survey, Volume as Found, check};
use shingle_core::random::Rng;
use shingle_core::zone::Condition;

use crate::shingled;
use crate::shingled::shelf::{put_back, taken_out};
use crate::shingled::{Volume, ZONE, disk, image, small};

/// The images, and the disks that they are of.
fn images() -> [(&'static str, Vec<NullConfig>); 3] {
    let few_blocks = NullZones { zone_capacity: Some(56 * 8), ..NullZones::new(u64::from(ZONE) * 8) };
    let uneven = NullConfig { zoned: Some(few_blocks), ..disk(20, Some(0)) };
    [
        ("one", vec![disk(40, Some(4))]),
        ("several", vec![disk(9, None), disk(20, Some(3)), uneven]),
        ("cut", vec![disk(24, Some(2)), disk(24, Some(0))]),
    ]
}

/// Changes of all kinds, until it has cleaned and merged; a byte for each block is what it has.
fn used(volume: &mut Volume, seed: u64) -> Vec<u8> {
    let (mut rng, mut model) = (Rng::new(seed), vec![0; volume.blocks as usize]);
    for round in 0..1200 {
        let at = rng.below(volume.blocks);
        let longest = if rng.chance(1, 8) { 60 } else { 6 };
        let len = (1 + rng.below(longest)).min(volume.blocks - at);
        let byte = if rng.chance(1, 8) { 0 } else { 1 + rng.below(255) as u8 };
        match byte {
            0 => assert_eq!(volume.run(shingled::discard(at, len as u32)).1, Status::Ok),
            _ => volume.write(at, len as u32, byte),
        }
        model[at as usize..(at + len) as usize].fill(byte);
        if round % 500 == 499 {
            volume.reload();
        }
    }
    let (cleaned, sweeps) = volume.work();
    assert!(cleaned > 0 && sweeps > 0, "{cleaned} {sweeps}");
    model
}

/// Batches that no root covers, and at the end one of which the last block is missing.
fn cut_under_way(volume: &mut Volume, model: &mut [u8]) -> MemoryMedia {
    // With much free space nothing else goes on.
    assert_eq!(volume.run(shingled::discard(600, volume.blocks as u32 - 600)).1, Status::Ok);
    model[600..].fill(0);
    for words in ["checkpoint", "sweep", "checkpoint"] {
        volume.message(words);
        volume.rig.settle();
    }
    for (block, byte) in [(100, 0xa1), (200, 0xa2), (101, 0xa3)] {
        volume.write(block, 3, byte);
        model[block as usize..block as usize + 3].fill(byte);
    }
    assert_eq!(volume.run(shingled::discard(150, 9)).1, Status::Ok);
    model[150..159].fill(0);
    volume.flush();
    volume.rig.settle();
    let before = taken_out(volume);
    volume.write(100, 2, 0xee);
    let mut media = taken_out(volume);
    let grown = (0..2).flat_map(|disk| (0..24).map(move |zone| (disk, zone)));
    let wp = |media: &MemoryMedia, (disk, zone): (usize, usize)| media.disks()[disk].zones[zone].wp;
    let grown: Vec<_> = grown.filter(|at| wp(&media, *at) != wp(&before, *at)).collect();
    let [(disk, zone)] = grown[..] else { panic!("{grown:?}: there is more than that batch") };
    let zone = &mut media.disk_mut(disk).zones[zone];
    (zone.wp.0, zone.cond) = (zone.wp.0 - 8, Condition::Closed);
    let last = Spot { disk, block: zone.wp.0 / 8 };
    media.put(last, &[0; 4096]);
    media
}

/// Made once for each version of the format, and kept as it was: `STL_FIXTURES=core/tests/fixtures/stl cargo test -p shingle-core --test stl
/// stl_fixtures -- --ignored`.
#[test]
#[ignore = "it makes images, which are kept as they are"]
fn images_are_made() {
    let to = std::env::var_os("STL_FIXTURES").expect("STL_FIXTURES says where");
    for (seed, (name, disks)) in (0..).zip(images()) {
        let mut volume = Volume::new(&disks, 70, small());
        let mut model = used(&mut volume, seed);
        let media = if name == "cut" {
            cut_under_way(&mut volume, &mut model)
        } else {
            volume.stop();
            taken_out(&mut volume)
        };
        image::save(to.as_ref(), name, &media, &model);
    }
}

#[test]
fn an_image_of_version_1_is_in_order() {
    for (name, _) in images() {
        let (mut media, model) = image::load(name);
        let mut pace = |_| ();
        let report = check(&mut media, Depth { pace: Some(&mut pace) }, &mut |_, _| ());
        assert!(report.findings.is_clean(), "{name}: {:?}", report.findings.all());
        let live = model.iter().filter(|byte| **byte > 0).count() as u64;
        assert_eq!((report.live_blocks(), report.read_blocks), (live, live), "{name}");
        let found = report.volume.unwrap();
        assert_eq!(found.newest.root.members.len(), media.disks().len());
        assert_eq!(found.replayed > 0, name == "cut", "{name}: {} batches behind the root", found.replayed);
    }
}

/// A volume on these disks with what an image has.
fn served(disks: &[NullConfig], media: &MemoryMedia, blocks: usize) -> Volume {
    let mut volume = Volume::new(disks, 100, small());
    volume.stop();
    put_back(&mut volume, media);
    volume.blocks = blocks as u64;
    volume.load();
    volume
}

#[test]
fn an_image_of_version_1_is_loaded_has_what_was_written_and_takes_more() {
    for (name, disks) in images() {
        let (media, mut model) = image::load(name);
        let mut volume = served(&disks, &media, model.len());
        assert!(volume.read(0, model.len() as u32) == model, "{name}");
        let mut rng = Rng::new(5);
        for _ in 0..1500 {
            let (at, byte) = (rng.below(volume.blocks), 1 + rng.below(255) as u8);
            volume.write(at, 1, byte);
            model[at as usize] = byte;
        }
        volume.reload();
        assert!(volume.read(0, model.len() as u32) == model, "{name}");
        volume.stop();
        let report = check(&mut taken_out(&mut volume), Depth { pace: None }, &mut |_, _| ());
        assert!(report.findings.is_clean(), "{name}: {:?}", report.findings.all());
    }
}

#[test]
fn an_image_of_version_1_gives_its_data_back_without_its_roots() {
    for (name, _) in images() {
        let (mut media, model) = image::load(name);
        for disk in 0..media.disks().len() {
            (0..2 * u64::from(ZONE)).for_each(|block| media.put(Spot { disk, block }, &[0; 4096]));
        }
        let survey = Survey::take(&mut media, &mut |_, _| ()).unwrap();
        assert!(survey.batches > 20 && survey.end.0 <= model.len() as u64, "{name}: {survey:?}");
    }
}

/// Makes the newest root of every disk one of version 2.
fn of_version_2(media: &mut MemoryMedia) {
    let found = Found::find(media, &mut Default::default()).unwrap();
    for spot in found.of_disks.iter().flatten().map(|root| root.spot) {
        let mut header = media.block(spot);
        header[12..14].copy_from_slice(&2_u16.to_le_bytes());
        header[8..12].fill(0);
        let checksum = Checksum::of(&header);
        header[8..12].copy_from_slice(&checksum.0.to_le_bytes());
        assert_eq!(Header::unknown_version(&header), Some(2));
        media.put(spot, &header);
    }
}

/// Its older roots are of version 1. Who took one of them for the newest would destroy the volume.
#[test]
fn a_volume_of_a_version_that_is_not_known_is_refused_and_nothing_is_changed() {
    for (name, disks) in images() {
        let (mut media, model) = image::load(name);
        of_version_2(&mut media);
        let before = media.changes;
        let report = check(&mut media, Depth { pace: None }, &mut |_, _| ());
        let told = report.findings.all()[0].to_string();
        assert!(report.volume.is_none() && told.contains("version 2"), "{name}: {told}");
        assert!(Survey::take(&mut media, &mut |_, _| ()).unwrap_err().contains("version 2"));
        assert_eq!(media.changes, before);
        let mut volume = served(&disks, &media, model.len());
        assert_ne!(volume.run(shingled::write(0, 1, 1)).1, Status::Ok);
        assert!(volume.status().contains("version 2"), "{}", volume.status());
        assert_eq!(volume.counters().root_blocks, 0);
    }
}
