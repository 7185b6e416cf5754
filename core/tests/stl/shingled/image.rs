//! Images of volumes in files: what `fixtures/stl` has.

use std::path::{Path, PathBuf};

use shingle_core::dm::stl::tools::{Disk, Media, MemoryMedia, Spot};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

/// Where the images are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stl")
}

/// Bytes as runs: a length in LEB128 whose lowest bit tells whether one byte follows, which is repeated, or all of them.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let (mut packed, mut literal) = (Vec::new(), 0);
    let mut at = 0;
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|byte| **byte == bytes[at]).count();
        if run > 3 || at + run == bytes.len() {
            put(&mut packed, &bytes[literal..at], 1);
            put_len(&mut packed, run << 1);
            packed.push(bytes[at]);
            literal = at + run;
        }
        at += run;
    }
    packed
}

fn put(packed: &mut Vec<u8>, literal: &[u8], bit: usize) {
    if !literal.is_empty() {
        put_len(packed, literal.len() << 1 | bit);
        packed.extend(literal);
    }
}

fn put_len(packed: &mut Vec<u8>, mut len: usize) {
    while len > 127 {
        packed.push(len as u8 | 128);
        len >>= 7;
    }
    packed.push(len as u8);
}

/// What [`pack`] was given.
pub fn unpack(packed: &[u8]) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < packed.len() {
        let (mut len, mut shift) = (0, 0);
        loop {
            len |= usize::from(packed[at] & 127) << shift;
            (at, shift) = (at + 1, shift + 7);
            if packed[at - 1] & 128 == 0 {
                break;
            }
        }
        let (is_literal, len) = (len & 1 == 1, len >> 1);
        let taken = if is_literal { len } else { 1 };
        if is_literal {
            bytes.extend(&packed[at..at + len]);
        } else {
            bytes.resize(bytes.len() + len, packed[at]);
        }
        at += taken;
    }
    bytes
}

/// Writes the disks of a volume, and what it reads as.
pub fn save(to: &Path, name: &str, media: &MemoryMedia, model: &[u8]) {
    let mut disks = String::new();
    for (number, disk) in media.disks().iter().enumerate() {
        disks += &format!("disk {}\n", disk.sectors);
        disks.extend(disk.zones.iter().map(zone_line));
        let blocks = (0..disk.sectors / 8).flat_map(|block| media.block(Spot { disk: number, block }));
        std::fs::write(to.join(format!("{name}_disk{number}.packed")), pack(&blocks.collect::<Vec<u8>>())).unwrap();
    }
    std::fs::write(to.join(format!("{name}_zones.txt")), disks).unwrap();
    std::fs::write(to.join(format!("{name}_logical.packed")), pack(model)).unwrap();
}

fn zone_line(zone: &Zone) -> String {
    let kind = if zone.kind == ZoneKind::Conventional { "conventional" } else { "sequential" };
    let Zone { len, capacity, cond, .. } = zone;
    format!("{kind} {len} {capacity} {} {}\n", zone.wp.0 - zone.start.0, *cond as u8)
}

fn file(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The disks of an image, and a byte for each block of the exposed disk.
pub fn load(name: &str) -> (MemoryMedia, Vec<u8>) {
    let text = String::from_utf8(file(&format!("{name}_zones.txt"))).unwrap();
    let disks: Vec<Disk> = text.split("disk ").skip(1).map(disk).collect();
    let mut media = MemoryMedia::new(disks);
    for disk in 0..media.disks().len() {
        let bytes = unpack(&file(&format!("{name}_disk{disk}.packed")));
        assert_eq!(bytes.len() as u64, media.disks()[disk].sectors * 512);
        for (block, bytes) in (0..).zip(bytes.chunks(4096)).filter(|(_, bytes)| bytes.iter().any(|byte| *byte > 0)) {
            media.put(Spot { disk, block }, bytes);
        }
    }
    (media, unpack(&file(&format!("{name}_logical.packed"))))
}

fn disk(text: &str) -> Disk {
    let mut lines = text.lines();
    let sectors = lines.next().unwrap().parse().unwrap();
    let mut start = Sector(0);
    let zone = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u64>().unwrap();
        let kind = if words[0] == "conventional" { ZoneKind::Conventional } else { ZoneKind::Sequential };
        let cond = Condition::from_abi(number(4) as u8).unwrap();
        let zone = Zone { start, len: number(1), capacity: number(2), wp: start + number(3), kind, cond };
        start += zone.len;
        zone
    };
    Disk { sectors, zones: lines.map(zone).collect(), max_active: None }
}
