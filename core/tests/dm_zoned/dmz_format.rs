//! The numbers of a dm-zoned set and what a format writes: as the kernel's tools have them, to the byte.

use shingle_core::block::Stack;
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::zoned::format::{
    FormatError, FormatOptions, Label, Layout, Media, MemoryMedia, Superblock, format,
};
use shingle_core::dm::zoned::{BLOCK_BYTES, Block, SetZone, ZoneSpace};
use shingle_core::random::Rng;
use shingle_core::time::Instant;
use shingle_drives::ram::{RamConfig, RamDisk};
use shingle_sim::StackMedia;

use crate::dmz::{blank, fix1, fix2, options, options_v1, read, regular, zoned};

fn formatted(devices: &[shingle_core::block::Limits], options: &FormatOptions) -> (MemoryMedia, Layout) {
    let mut media = blank(devices);
    let layout = format(&mut media, options, &mut |_, _| ()).unwrap();
    (media, layout)
}

fn superblock(media: &mut MemoryMedia, block: u64) -> Superblock {
    Superblock::decode(&read(media, block, 1)).unwrap()
}

#[test]
fn the_numbers_are_those_that_dmzadm_wrote() {
    for (mut media, reserved, starts) in [(fix1(), 4, vec![0, 256]), (fix2(), 6, vec![0, 256, 5376, 17664])] {
        let layout = Layout::compute(media.space(), reserved).unwrap();
        for block in starts {
            let found = superblock(&mut media, block);
            assert_eq!(found.block, block);
            let numbers = [found.metadata_blocks, found.map_blocks, found.bitmap_blocks, found.reserved, found.chunks];
            let Layout { metadata_blocks, map_blocks, bitmap_blocks, reserved, chunks, .. } = layout;
            assert_eq!(numbers, [metadata_blocks, map_blocks, bitmap_blocks, reserved, chunks]);
        }
    }
}

#[test]
fn a_superblock_of_the_kernel_is_the_same_bytes_when_it_is_encoded_again() {
    for (mut media, blocks) in [(fix1(), vec![0, 256]), (fix2(), vec![0, 256, 5376, 17664])] {
        for block in blocks {
            let bytes = read(&mut media, block, 1);
            let decoded = Superblock::decode(&bytes).unwrap();
            assert_eq!(decoded.encode()[..], bytes);
            for flip in [0, 4, 8, 16, 47, 60, 111, 4095] {
                let mut bytes = bytes.clone();
                bytes[flip] ^= 1;
                assert!(Superblock::decode(&bytes).is_err(), "byte {flip} changed and nobody saw it");
            }
        }
    }
}

#[test]
fn a_14_tb_disk_has_the_numbers_of_the_kernels_documentation() {
    // Documentation/admin-guide/device-mapper/dm-zoned.rst: 55880 zones of 256 MiB, the second superblock at block 131072.
    let limits = zoned(55_880, 65_536, 524);
    let space = ZoneSpace::new(&[&limits]).unwrap();
    let layout = Layout::compute(&space, 16).unwrap();
    assert_eq!((layout.bitmap_blocks, layout.metadata_zones, layout.chunks), (111_760, 2, 55_860));
    assert_eq!(layout.set_start(&space, 1), 131_072);
    assert_eq!(layout.slack(&space), 16);
}

#[test]
fn a_set_of_three_devices_has_its_third_superblocks_where_dmzadm_puts_them() {
    // 70 MiB and 256 MiB twice in zones of 4 MiB: 18 zones of which one is a runt, then 64 and 64.
    let devices = [regular((70 << 20) / 4096), zoned(64, 1024, 0), zoned(64, 1024, 4)];
    let (mut media, layout) = formatted(&devices, &options(3));
    assert_eq!(media.space().zones().len(), 146);
    for (member, block) in [(1, 0x4800), (2, 0x14800)] {
        let third = superblock(&mut media, block);
        let first = superblock(&mut media, 0);
        let device_uuid = options(3).device_uuids[member];
        assert_eq!(third, Superblock { block, generation: 0, device_uuid, ..first });
    }
    assert_eq!(
        media.space().zones()[SetZone(18)].wp,
        Block(1),
        "the superblock of a sequential zone is written at its start"
    );
    // Two zones for third superblocks and the runt are counted as data.
    assert_eq!(layout.slack(media.space()), 16 - 3);
}

#[test]
fn a_format_writes_two_equal_empty_sets() {
    let (mut media, layout) = formatted(&[zoned(64, 256, 12)], &options(1));
    let (first, second) = (superblock(&mut media, 0), superblock(&mut media, 256));
    assert_eq!((first.generation, second), (1, Superblock { block: 256, ..first }));
    assert_eq!((first.label, first.set_uuid, first.device_uuid), (options(1).label, [0x5a; 16], [1; 16]));
    for start in [1, 257] {
        let (map, bitmaps) = (layout.map_blocks as usize, layout.bitmap_blocks as usize);
        assert!(read(&mut media, start, map).iter().all(|byte| *byte == 0xff));
        assert!(read(&mut media, start + map as u64, bitmaps).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn version_1_is_version_2_without_names() {
    let (mut named, _) = formatted(&[zoned(64, 256, 12)], &options(1));
    let (mut plain, _) = formatted(&[zoned(64, 256, 12)], &options_v1());
    let bytes = read(&mut plain, 0, 1);
    assert!(bytes[48..].iter().all(|byte| *byte == 0));
    let (old, new) = (superblock(&mut plain, 0), superblock(&mut named, 0));
    let nameless = Superblock { version: 1, label: Label::default(), set_uuid: [0; 16], device_uuid: [0; 16], ..new };
    assert_eq!(old, nameless);
    assert_eq!(read(&mut plain, 1, 255), read(&mut named, 1, 255));
}

#[test]
fn a_format_empties_sequential_zones_and_says_how_far_it_is() {
    let mut media = blank(&[zoned(64, 256, 12)]);
    media.write(20 * 256, &[7; BLOCK_BYTES]).unwrap();
    media.write(63 * 256, &[7; 256 * BLOCK_BYTES]).unwrap();
    let mut told = Vec::new();
    format(&mut media, &options(1), &mut |done, total| told.push((done, total))).unwrap();
    assert!(media.space().zones().iter().all(|zone| zone.wp == Block::FIRST));
    assert_eq!(told.last(), Some(&(2 * 66 + 2, 2 * 66 + 2)));
    assert!(told.is_sorted());
}

fn refusal(devices: &[shingle_core::block::Limits], options: &FormatOptions) -> String {
    let mut media = blank(devices);
    let error = format(&mut media, options, &mut |_, _| ()).unwrap_err();
    assert_eq!(media.changes, 0, "{error}: and yet something was written");
    error.to_string()
}

#[test]
fn a_set_that_could_not_be_filled_is_refused_and_the_message_says_what_would_do() {
    // dmzadm takes this one, and writers hang for ever when it is full.
    let devices = [regular(4 * 256 + 100), zoned(16, 256, 0)];
    let with = |reserved| FormatOptions { reserved: Some(reserved), ..options(2) };
    let space = blank(&devices).space().clone();
    let taken = Layout::compute(&space, 1).unwrap();
    assert_eq!((taken.chunks, taken.slack(&space)), (18, -1));
    assert!(refusal(&devices, &with(1)).contains("--seq=3"), "{}", refusal(&devices, &with(1)));
    assert!(refusal(&devices, &with(2)).contains("--seq=3"));
    assert!(refusal(&devices, &with(4)).contains("--seq=3"), "dmzadm --check --verbose would count wrong");
    let (media, layout) = formatted(&devices, &with(3));
    assert_eq!(layout.slack(media.space()), 1);
    let (_, chosen) = formatted(&devices, &options(2));
    assert_eq!(chosen, layout, "without a wish it takes what fits");
    assert!(refusal(&[regular(4 * 256), zoned(4, 256, 0), zoned(4, 256, 0)], &options(3)).contains("too small"));
}

#[test]
fn what_is_no_set_is_refused_before_anything_is_written() {
    let refused = [
        (vec![zoned(64, 256, 2)], options(1), "at least 3"),
        (vec![regular(2560), zoned(64, 256, 2)], options_v1(), "version 2"),
        (vec![zoned(64, 256, 12)], FormatOptions { version: 3, ..options(1) }, "version 3"),
        (vec![zoned(64, 256, 12)], FormatOptions { label: Label::default(), ..options(1) }, "label"),
        (vec![zoned(64, 256, 12)], FormatOptions { version: 1, ..options(1) }, "label"),
        (vec![zoned(64, 256, 12)], FormatOptions { set_uuid: [0; 16], ..options(1) }, "UUID"),
        (vec![zoned(64, 256, 12)], options(2), "UUID"),
        (vec![zoned(64, 256, 12)], FormatOptions { reserved: Some(0), ..options(1) }, "at least 1"),
        (vec![zoned(64, 256, 12)], FormatOptions { reserved: Some(11), ..options(1) }, "--seq=10"),
        (vec![zoned(4, 32, 3)], options(1), "room"),
    ];
    for (devices, options, words) in refused {
        let message = refusal(&devices, &options);
        assert!(message.contains(words), "{message:?} does not say {words:?}");
    }
}

#[test]
fn metadata_lies_in_zones_that_follow_each_other() {
    let mut limits = zoned(64, 256, 0);
    limits.zoned.as_mut().unwrap().conventional = vec![3..4, 10..20];
    let message = refusal(&[limits], &options(1));
    assert!(message.contains("zone 4 takes no random writes"), "{message}");
}

#[test]
fn a_power_cut_in_a_format_leaves_a_whole_set_or_none() {
    let devices = [regular(8 * 256), zoned(16, 256, 0)];
    let before = formatted(&devices, &FormatOptions { label: Label::new("old").unwrap(), ..options(2) }).0;
    let mut rng = Rng::new(3);
    let mut whole = 0;
    for cut_after in 0.. {
        let mut media = before.clone();
        media.put(1, &[0; BLOCK_BYTES]);
        media.changes = 0;
        media.cut_after = Some(cut_after);
        let result = format(&mut media, &options(2), &mut |_, _| ());
        let mut media = media.after_power_cut(&mut rng);
        for set in 0..2 {
            let Ok(found) = Superblock::decode(&read(&mut media, set * 256, 1)) else { continue };
            if found.label.text() == "old" {
                let map = read(&mut media, 1, 1);
                assert!(map.iter().all(|byte| *byte == 0), "an old superblock over a new set, cut after {cut_after}");
                continue;
            }
            whole += 1;
            assert!(read(&mut media, set * 256 + 1, 1).iter().all(|byte| *byte == 0xff), "cut after {cut_after}");
        }
        if result.is_ok() {
            break;
        }
    }
    assert!(whole > 1);
}

#[test]
fn a_format_of_a_disk_that_fails_says_which_blocks() {
    let mut media = blank(&[zoned(64, 256, 12)]);
    media.cut_after = Some(5);
    let error = format(&mut media, &options(1), &mut |_, _| ()).unwrap_err();
    assert!(matches!(error, FormatError::Media(_)), "{error}");
}

#[test]
fn the_devices_of_a_stack_are_formatted_like_disks_in_memory() {
    let devices = [regular(8 * 256), zoned(16, 256, 0)];
    let mut memory = formatted(&devices, &options(2)).0;
    let mut stack = Stack::new();
    let ram = stack.add(Box::new(RamDisk::new(&RamConfig::new(8 * 2048)).unwrap())).unwrap();
    let config = NullConfig { zoned: Some(NullZones::new(2048)), memory_backed: true, ..NullConfig::new(16 * 2048) };
    let null = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
    let mut media = StackMedia::new(&mut stack, &[ram, null], Instant::ZERO).unwrap();
    media.write(20 * 256, &[9; BLOCK_BYTES]).unwrap();
    format(&mut media, &options(2), &mut |_, _| ()).unwrap();
    assert_eq!(media.space(), memory.space());
    for zone in 0..24 {
        let mut found = vec![0; 256 * BLOCK_BYTES];
        media.read(zone * 256, &mut found).unwrap();
        assert!(found == read(&mut memory, zone * 256, 256), "zone {zone}");
    }
    let now = media.now();
    let again = StackMedia::new(&mut stack, &[ram, null], now).unwrap();
    assert_eq!(again.space(), memory.space(), "the disks report what was noted on the way");
}
