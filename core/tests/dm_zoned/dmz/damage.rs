//! Damage of every kind.

use super::read;
use shingle_core::dm::zoned::format::{Media as _, MemoryMedia, Sets};
use shingle_core::dm::zoned::{Block, SetZone};
use shingle_core::random::Rng;

/// Damage of one kind, as `rng` has it.
pub type Damage = fn(&mut Planted<'_>, &mut Rng);

/// A set to do damage to.
pub struct Planted<'a> {
    media: &'a mut MemoryMedia,
    /// Where both sets start, and blocks of mapping table.
    starts: [u64; 2],
    map: u64,
    bitmap: u64,
}

impl Planted<'_> {
    fn edit(&mut self, block: u64, change: impl Fn(&mut [u8])) {
        let mut bytes = read(self.media, block, 1);
        change(&mut bytes);
        self.media.put(block, &bytes);
    }

    /// The same change in both sets.
    fn edit_both(&mut self, block: u64, change: impl Fn(&mut [u8])) {
        self.starts.into_iter().for_each(|start| self.edit(start + block, &change));
    }

    /// A change of a superblock, with a checksum that is right again.
    fn edit_super(&mut self, block: u64, change: impl Fn(&mut [u8])) {
        self.edit(block, |bytes| {
            change(bytes);
            bytes[44..48].fill(0);
            let seed = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
            let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            let sum = bytes.iter().fold(seed, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)));
            bytes[44..48].copy_from_slice(&sum.to_le_bytes());
        });
    }

    fn set_word(&mut self, chunk: u64, word: u64, zone: u32) {
        let at = (chunk * 8 + word * 4) as usize;
        self.edit_both(1, |bytes| bytes[at..at + 4].copy_from_slice(&zone.to_le_bytes()));
    }

    fn zones(&self) -> u64 {
        self.media.space().zones().len() as u64
    }

    fn flip(&mut self, zone: u64, bit: u64) {
        let block = 1 + self.map + zone * self.bitmap;
        self.edit_both(block, |bytes| bytes[bit as usize / 8] ^= 1 << (bit % 8));
    }
}

/// Every kind of damage.
pub const DAMAGES: [(&str, Damage); 16] = [
    ("a superblock is overwritten", |it, rng| {
        let start = it.starts[rng.below(2) as usize];
        it.edit(start, |bytes| bytes[..512].fill(0x77));
    }),
    ("a byte of a superblock is another", |it, rng| {
        let (start, at) = (it.starts[rng.below(2) as usize], rng.below(120) as usize);
        it.edit(start, |bytes| bytes[at] ^= 0x10);
    }),
    ("a number of a superblock is another", |it, rng| {
        let (start, at) = (it.starts[rng.below(2) as usize], 24 + 4 * rng.below(5) as usize);
        let value = rng.below(70) as u8;
        it.edit_super(start, |bytes| bytes[at] = value);
    }),
    ("a name of a superblock is another", |it, rng| {
        let (start, field) = (it.starts[rng.below(2) as usize], rng.below(3) as usize);
        let (at, len) = [(48, 32), (80, 16), (96, 16)][field];
        let value = if rng.below(2) == 0 { 0 } else { 0x41 };
        it.edit_super(start, |bytes| bytes[at..at + len].fill(value));
    }),
    ("a superblock says that it is elsewhere", |it, rng| {
        let start = it.starts[rng.below(2) as usize];
        it.edit_super(start, |bytes| bytes[16] ^= 1);
    }),
    ("a set is of another generation", |it, rng| {
        let (start, by) = (it.starts[rng.below(2) as usize], rng.below(5) as u8);
        it.edit_super(start, |bytes| bytes[8] = by);
    }),
    ("a third superblock is damaged", |it, rng| {
        let space = it.media.space();
        let third = space.members().iter().skip(1).map(|member| space.start(member.first_zone));
        let third: Vec<_> = third.collect();
        let (at, value) = ([4, 16, 28, 48, 80, 96][rng.below(6) as usize], rng.below(256) as u8);
        if !third.is_empty() {
            it.edit_super(third[rng.below(third.len() as u64) as usize], |bytes| bytes[at..at + 4].fill(value));
        }
    }),
    ("a chunk has a zone that is not there", |it, rng| {
        let zone = it.zones() as u32 + [0, 1, 1000][rng.below(3) as usize];
        it.set_word(rng.below(10), rng.below(2), zone);
    }),
    ("a chunk has any zone", |it, rng| {
        let zone = rng.below(it.zones()) as u32;
        it.set_word(rng.below(10), rng.below(2), zone);
    }),
    ("a chunk has a zone of the first few", |it, rng| {
        let zone = rng.below(12) as u32;
        it.set_word(rng.below(6), rng.below(2), zone);
    }),
    ("a chunk lost a zone", |it, rng| it.set_word(rng.below(4), rng.below(2), u32::MAX)),
    ("a bit of any zone is another", |it, rng| {
        let blocks = u64::from(it.media.space().zone_blocks());
        it.flip(rng.below(it.zones()), rng.below(blocks));
    }),
    ("a bit past the end of a zone is set", |it, rng| {
        let blocks = u64::from(it.media.space().zone_blocks());
        it.flip(rng.below(it.zones()), blocks + rng.below(100));
    }),
    ("a write pointer is elsewhere", |it, rng| {
        let (zone, wp) = (rng.below(it.zones()) as u32, rng.below(8) as u32);
        it.media.set_wp(SetZone(zone), Block(wp));
    }),
    ("a block of one set is another", |it, rng| {
        let (start, block) = (it.starts[rng.below(2) as usize], 1 + rng.below(20));
        it.edit(start + block, |bytes| bytes[4000] ^= 1);
    }),
    ("bits of a chunk are in both its zones", |it, rng| {
        let zone = rng.below(it.zones());
        (0..8).for_each(|bit| it.flip(zone, bit));
    }),
];

/// A copy of a sound set with these kinds of damage.
pub fn damaged(media: &MemoryMedia, rng: &mut Rng, damages: &[usize]) -> MemoryMedia {
    let mut damaged = media.clone();
    let layout = Sets::find(&mut damaged).unwrap().layout;
    let starts = [0, 1].map(|set| layout.set_start(damaged.space(), set));
    let zones = damaged.space().zones().len() as u64;
    let (map, bitmap) = (layout.map_blocks.into(), u64::from(layout.bitmap_blocks) / zones);
    for damage in damages {
        DAMAGES[*damage].1(&mut Planted { media: &mut damaged, starts, map, bitmap }, rng);
    }
    damaged
}
