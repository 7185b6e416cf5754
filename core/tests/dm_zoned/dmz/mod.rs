//! Sets of disks for the tests of dm-zoned: those that the kernel made, and small ones to format.

pub mod damage;
pub mod harm;

use std::path::Path;

use shingle_core::block::{Limits, ZonedLimits};
use shingle_core::dm::zoned::check::Salvage;
use shingle_core::dm::zoned::format::{FormatOptions, Label, MapEntry, Media, MemoryMedia, NO_ZONE, Volume, format};
use shingle_core::dm::zoned::{BLOCK_BYTES, ChunkNo, MemberNo, Number};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

/// A file of the fixtures.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dm-zoned").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The bytes of a `.runs` file.
pub fn runs(name: &str) -> Vec<u8> {
    let packed = fixture(name);
    let (mut bytes, mut count, mut shift, mut rest) = (Vec::new(), 0, 0, packed.iter());
    while let Some(byte) = rest.next() {
        count |= usize::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            bytes.resize(bytes.len() + count, *rest.next().unwrap());
            (count, shift) = (0, 0);
        }
    }
    bytes
}

/// The zones in the output of `blkzone report`.
pub fn zones(name: &str) -> Vec<Zone> {
    let text = String::from_utf8(fixture(name)).unwrap();
    let field = |line: &str, name: &str| {
        let rest = line.split(name).nth(1).unwrap().trim_start();
        let (radix, rest) = rest.strip_prefix("0x").map_or((10, rest), |rest| (16, rest));
        u64::from_str_radix(rest.split(|c: char| !c.is_digit(radix)).next().unwrap(), radix).unwrap()
    };
    let zone = |line: &str| {
        let (start, kind) = (Sector(field(line, "start:")), field(line, "[type:"));
        let cond = Condition::from_abi(field(line, "zcond:") as u8).unwrap();
        let kind = if kind == 1 { ZoneKind::Conventional } else { ZoneKind::Sequential };
        Zone {
            start,
            len: field(line, "len"),
            capacity: field(line, "cap"),
            wp: start + field(line, "wptr"),
            kind,
            cond,
        }
    };
    text.lines().map(zone).collect()
}

/// A zoned disk of `zones` zones of `zone_blocks`, the first ones conventional.
pub fn zoned(zones: u32, zone_blocks: u32, conventional: u32) -> Limits {
    let mut limits = Limits::new(u64::from(zones) * u64::from(zone_blocks) * 8);
    limits.zoned = Some(ZonedLimits::new(zone_blocks * 8).with_conventional(conventional));
    limits
}

/// A regular disk.
pub fn regular(blocks: u64) -> Limits {
    Limits::new(blocks * 8)
}

fn load(devices: &[(&str, Option<&str>)]) -> MemoryMedia {
    let reports: Vec<_> = devices.iter().map(|(_, report)| report.map(zones)).collect();
    let images: Vec<_> = devices.iter().map(|(image, _)| runs(image)).collect();
    let limits = reports.iter().zip(&images).map(|(report, image)| match report {
        None => Limits::new(image.len() as u64 / 512),
        Some(report) => {
            let conventional = report.iter().filter(|zone| zone.kind == ZoneKind::Conventional).count();
            zoned(report.len() as u32, report[0].len as u32 / 8, conventional as u32)
        }
    });
    let limits: Vec<_> = limits.collect();
    let mut media = MemoryMedia::new(&limits.iter().collect::<Vec<_>>()).unwrap();
    for (member, (report, image)) in reports.iter().zip(&images).enumerate() {
        let member = MemberNo::of(member);
        report.iter().for_each(|report| media.learn(member, report).unwrap());
        let first = media.space().start(media.space().members()[member].first_zone);
        media.put(first, image);
    }
    media
}

/// The kernel's single device.
pub fn fix1() -> MemoryMedia {
    load(&[("fix1_dev.runs", Some("fix1_zones.txt"))])
}

/// The kernel's set of a regular device and two zoned ones.
pub fn fix2() -> MemoryMedia {
    let devices = [("fix2_dev1.runs", None), ("fix2_dev2.runs", Some("fix2_zones2.txt"))];
    load(&[devices[0], devices[1], ("fix2_dev3.runs", Some("fix2_zones3.txt"))])
}

/// Empty disks.
pub fn blank(devices: &[Limits]) -> MemoryMedia {
    MemoryMedia::new(&devices.iter().collect::<Vec<_>>()).unwrap()
}

/// Options for a set of `devices` with version 2.
pub fn options(devices: usize) -> FormatOptions {
    FormatOptions {
        version: 2,
        label: Label::new("a set").unwrap(),
        set_uuid: [0x5a; 16],
        device_uuids: (1..=devices as u8).map(|n| [n; 16]).collect(),
        reserved: None,
    }
}

/// The options of version 1.
pub fn options_v1() -> FormatOptions {
    FormatOptions { version: 1, label: Label::default(), set_uuid: [0; 16], device_uuids: Vec::new(), reserved: None }
}

/// `count` blocks from `block` on.
pub fn read(media: &mut MemoryMedia, block: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count * BLOCK_BYTES];
    bytes.chunks_mut(BLOCK_BYTES).zip(block..).for_each(|(to, block)| media.read(block, to).unwrap());
    bytes
}

/// A set in which every chunk has a byte of its own in blocks 3 to 6: each in a random zone, or in a sequential one with a
/// buffer for block 5.
pub fn filled(devices: &[Limits], version: u32) -> MemoryMedia {
    let mut media = blank(devices);
    let options = if version == 1 { options_v1() } else { options(devices.len()) };
    let layout = format(&mut media, &options, &mut |_, _| ()).unwrap();
    let zones = || media.space().zones().numbers().skip(layout.metadata().end.index());
    let is_data = |zone: &_| !layout.is_metadata(media.space(), *zone);
    let (random, sequential): (Vec<_>, Vec<_>) =
        zones().filter(is_data).partition(|zone| media.space().is_random(*zone));
    let pairs =
        [(sequential[0], random[1]), (random[0], NO_ZONE), (sequential[2], NO_ZONE), (sequential[1], random[2])];
    for (chunk, (dzone, bzone)) in (0..).zip(pairs) {
        let first = media.space().start(dzone);
        (0..7).for_each(|n| media.write(first + n, &[chunk + 1; BLOCK_BYTES]).unwrap());
        let mut bits = 0b111_1000;
        if bzone != NO_ZONE {
            let block = media.space().start(bzone) + 5;
            media.write(block, &[chunk + 1; BLOCK_BYTES]).unwrap();
            bits = 0b101_1000;
        }
        for set in [0, 1] {
            let start = layout.set_start(media.space(), set);
            let mut map = read(&mut media, start + 1, 1);
            map[usize::from(chunk) * 8..][..8].copy_from_slice(&MapEntry { dzone, bzone }.encode());
            media.put(start + 1, &map);
            let bitmaps = start + 1 + u64::from(layout.map_blocks);
            let mut block = vec![0; BLOCK_BYTES];
            block[0] = bits;
            media.put(bitmaps + u64::from(dzone), &block);
            if bzone != NO_ZONE {
                block[0] = 0b10_0000;
                media.put(bitmaps + u64::from(bzone), &block);
            }
        }
    }
    media.flush().unwrap();
    media
}

/// Three kinds of sets with something in them.
pub fn filled_sets() -> Vec<MemoryMedia> {
    // Small zones, so that a set of metadata takes two of them; then one in which it takes one; then three devices.
    let three = [regular(9 * 64), zoned(24, 64, 0), zoned(25, 64, 4)];
    vec![filled(&[zoned(100, 64, 24)], 2), filled(&[zoned(64, 256, 12)], 1), filled(&three, 2)]
}

/// What a salvage reads, block by block; empty where it is zeroes.
pub fn salvaged(media: &mut dyn Media) -> Option<Vec<Vec<u8>>> {
    let salvage = Salvage::survey(media, &mut |_, _| ()).ok()?;
    let zone_blocks = media.space().zone_blocks() as usize;
    let mut blocks = Vec::new();
    let mut chunk_bytes = vec![0; zone_blocks * BLOCK_BYTES];
    for chunk in ChunkNo(0).onwards().take(salvage.layout.chunks as usize) {
        if salvage.read(media, chunk, &mut chunk_bytes, &mut |_| ()) {
            let kept = |bytes: &[u8]| if bytes.iter().all(|byte| *byte == 0) { Vec::new() } else { bytes.to_vec() };
            blocks.extend(chunk_bytes.chunks(BLOCK_BYTES).map(kept));
        } else {
            blocks.resize(blocks.len() + zone_blocks, Vec::new());
        }
    }
    Some(blocks)
}

/// The first block that was there before and is not the same after.
pub fn gone(before: &[Vec<u8>], after: &[Vec<u8>]) -> Option<usize> {
    (0..before.len()).find(|block| !before[*block].is_empty() && after.get(*block) != Some(&before[*block]))
}

/// Sets in which a block that is in a buffer is another than what it was in the data zone.
pub fn differing_sets() -> Vec<MemoryMedia> {
    let mut sets = filled_sets();
    for media in &mut sets {
        let entries = Volume::load(media).unwrap().entries;
        for (chunk, entry) in (0..).zip(entries.iter()).filter(|(_, entry)| entry.bzone != NO_ZONE) {
            let block = media.space().start(entry.bzone) + 5;
            media.put(block, &[0x80 | chunk; BLOCK_BYTES]);
        }
    }
    sets
}
