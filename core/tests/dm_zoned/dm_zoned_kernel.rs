//! Sets that the kernel made, used by the target; and sets that the target used, as the kernel would find them.

use shingle_core::device::NullConfig;
use shingle_core::dm::zoned::check::check;
use shingle_core::dm::zoned::format::{self, Media, MemoryMedia};
use shingle_core::dm::zoned::{BLOCK_BYTES, Block, ZoneClass};
use shingle_core::time::Duration;

use crate::dmz::{fix1, fix2, runs};
use crate::zoned::{Volume, disk, nulls, read};

/// Copies everything that the zones of a set hold.
fn copy(from: &mut dyn Media, to: &mut dyn Media) {
    let zone_blocks = from.space().zone_blocks();
    for (zone, info) in from.space().clone().zones().numbered() {
        let start = from.space().start(zone);
        let member = &from.space().members()[from.space().member_of(zone)];
        let of_member = from.space().start(member.first_zone) + member.blocks - start;
        let whole = u64::from(zone_blocks).min(of_member) as u32;
        let blocks = if info.class == ZoneClass::Sequential { info.wp } else { Block(whole) };
        let mut bytes = vec![0; BLOCK_BYTES];
        for block in start..start + u64::from(blocks) {
            from.read(block, &mut bytes).unwrap();
            to.write(block, &bytes).unwrap();
        }
    }
}

/// Disks that hold what `media` does, and the volume on them.
fn volume(media: &mut MemoryMedia, zone_blocks: u32) -> Volume {
    let configs: Vec<NullConfig> = media
        .space()
        .members()
        .numbered()
        .map(|(number, member)| {
            let random =
                media.space().zones_of(number).iter().filter(|zone| zone.class == ZoneClass::Random).count() as u32;
            let mut config = disk(member.zones, member.is_zoned.then_some(random));
            config.capacity = member.blocks * 8;
            if let Some(zones) = &mut config.zoned {
                zones.zone_sectors = u64::from(zone_blocks) * 8;
            }
            config
        })
        .collect();
    let mut volume = Volume::on(nulls(&configs));
    volume.with_media(|disks| copy(media, disks));
    volume.blocks = format::Volume::load(media).unwrap().blocks(media.space());
    volume.load();
    volume
}

#[test]
fn the_kernels_sets_read_as_the_kernel_read_them_and_stay_clean() {
    for (mut media, logical) in [(fix1(), "fix1_logical.runs"), (fix2(), "fix2_logical.runs")] {
        let zone_blocks = media.space().zone_blocks();
        let mut volume = volume(&mut media, zone_blocks);
        let expected = runs(logical);
        assert_eq!(expected.len() as u64, volume.blocks * 4096, "{logical}");
        for at in (0..volume.blocks).step_by(64) {
            let blocks = 64.min(volume.blocks - at) as u32;
            let (bio, status) = volume.run(read(at, blocks));
            assert!(status.is_ok(), "{logical}, block {at}: {}", volume.status());
            let found: Vec<u8> = bio.payload.segments().iter().flat_map(|data| data.to_vec()).collect();
            assert!(found == expected[at as usize * 4096..][..blocks as usize * 4096], "{logical}, block {at}");
        }
        volume.write(7, 3, 0x77);
        volume.message("reclaim");
        volume.rig.pass(Duration::from_millis(60_000));
        volume.stop();
        let report = volume.with_media(|media| check(media, &mut |_, _| {}));
        assert!(report.is_clean(), "{logical}: {:?}", report.findings);
    }
}
