//! Disks with a short last zone: what a format promises can be written, over and over.

use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::stl::tools::{Depth, check};
use shingle_core::random::Rng;

use crate::shingled::shelf::taken_out;
use crate::shingled::{Volume, disk, small};

/// A disk whose last zone has `blocks` blocks; none if that is 0.
pub(crate) fn short(zones: u32, conventional: u32, blocks: u64) -> NullConfig {
    let whole = disk(zones, Some(conventional));
    NullConfig { capacity: whole.capacity + blocks * 8, ..whole }
}

/// Fills the volume, overwrites blocks at random, and checks it.
fn is_filled_and_overwritten(mut volume: Volume, seed: u64, what: &str) {
    let (blocks, mut rng) = (volume.blocks, Rng::new(seed));
    let mut model = vec![0; blocks as usize];
    for at in (0..blocks).step_by(8) {
        let len = 8.min(blocks - at);
        volume.write(at, len as u32, 1);
        model[at as usize..(at + len) as usize].fill(1);
    }
    for round in 0..2 * blocks / 5 {
        let at = rng.below(blocks);
        let (len, byte) = ((1 + rng.below(9)).min(blocks - at), 2 + rng.below(200) as u8);
        volume.write(at, len as u32, byte);
        model[at as usize..(at + len) as usize].fill(byte);
        if round % 300 == 299 {
            volume.reload();
        }
    }
    volume.flush();
    assert!(volume.read(0, blocks as u32) == model, "{what}");
    volume.stop();
    let report = check(&mut taken_out(&mut volume), Depth { pace: Some(&mut |_| ()) }, &mut |_, _| ());
    assert!(report.findings.is_clean(), "{what}: {:?}", report.findings.all());
    assert_eq!(report.live_blocks(), blocks, "{what}");
}

#[test]
fn a_volume_on_a_disk_with_a_short_last_zone_can_be_filled() {
    for blocks in [0, 1, 2, 3, 4, 7, 8, 9, 12, 40, 63] {
        for conventional in [0, 3] {
            let what = format!("last zone of {blocks} blocks, {conventional} conventional zones");
            let volume = Volume::new(&[short(30, conventional, blocks)], 100, small());
            is_filled_and_overwritten(volume, blocks, &what);
        }
    }
}

#[test]
fn a_short_zone_of_one_disk_of_several_is_left_alone() {
    for blocks in [1, 5, 20] {
        let what = format!("last zone of {blocks} blocks");
        let volume = Volume::new(&[short(20, 0, blocks), short(16, 2, 0), short(14, 0, 2)], 100, small());
        is_filled_and_overwritten(volume, blocks, &what);
    }
}

/// Disks of one volume: up to three, of few or many zones with drawn lengths, limits and conventional zones.
fn drawn_disks(rng: &mut Rng) -> Vec<NullConfig> {
    let (zone, disks) = (8 << (1 + rng.below(7)), 1 + rng.below(3));
    let mut one = |_| {
        // Sectors of a logical block: with 512 bytes lengths need be no multiple of 4 KiB.
        let unit = if rng.chance(1, 2) { 1 } else { 8 };
        let part_of_zone = |rng: &mut Rng| rng.below(zone / unit) * unit;
        let zones = if rng.chance(1, 4) { 1 + rng.below(3) } else { 4 + rng.below(60) };
        let last = if rng.chance(1, 3) { part_of_zone(rng) } else { 0 };
        let max_active = rng.chance(1, 3).then(|| 1 + rng.below(14) as u32);
        let zoned = NullZones {
            conventional: if rng.chance(1, 2) { rng.below(zones.min(6)) as u32 } else { 0 },
            zone_capacity: (last == 0 && rng.chance(1, 4)).then(|| zone - part_of_zone(rng) / 2 / unit * unit),
            max_open: rng.chance(1, 3).then(|| 1 + rng.below(max_active.unwrap_or(14).into()) as u32),
            max_active,
            ..NullZones::new(zone)
        };
        let zoned = rng.chance(5, 6).then_some(zoned);
        NullConfig { capacity: zones * zone + last, block_bytes: unit as u32 * 512, zoned, ..disk(1, None) }
    };
    (0..disks).map(&mut one).collect()
}

#[test]
fn a_drawn_geometry_is_refused_by_the_format_or_works() {
    let (mut used, mut refused) = (0, 0);
    for seed in 0..400 {
        let disks = drawn_disks(&mut Rng::new(seed));
        if let Some(error) = disks.iter().find_map(|disk| NullDevice::new(disk).err()) {
            println!("seed {seed}: {error}");
            continue;
        }
        match Volume::try_over(&disks, 100, small(), |_, leaf| leaf) {
            Ok(volume) => {
                println!("seed {seed}: {disks:?}");
                used += 1;
                is_filled_and_overwritten(volume, seed, &format!("seed {seed}: {disks:?}"));
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(used > 100 && refused > 30, "{used} used, {refused} refused");
}
