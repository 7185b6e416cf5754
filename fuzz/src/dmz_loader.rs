//! Damaged dm-zoned sets for everything that reads them: nothing panics, looking changes nothing, a repair leads to a set
//! that needs none, and everything that could be salvaged still can be.

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::Corpus;
use shingle_core::block::{Limits, ZonedLimits};
use shingle_core::dm::zoned::check::{OnLoss, Salvage, check, relabel, repair};
use shingle_core::dm::zoned::format::{
    FormatOptions, Label, MapEntry, Media, MemoryMedia, NO_ZONE, Sets, Superblock, format, tertiaries,
};
use shingle_core::dm::zoned::{BLOCK_BYTES, Block, ChunkNo, Number, SetZone};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use crate::of_value;

/// Devices, perhaps a set to begin with, then whatever was done to it.
#[derive(Arbitrary, Debug)]
struct Input {
    devices: Devices,
    version: Option<bool>,
    changes: Vec<Change>,
    cut: Option<(u16, u64)>,
    label: Option<String>,
}

#[derive(Arbitrary, Debug)]
struct Devices {
    regular: Option<u16>,
    zoned: Vec<(u8, u8)>,
    zone_shift: u8,
}

#[derive(Arbitrary, Debug)]
enum Change {
    /// A block becomes these bytes.
    Bytes(Place, Vec<u8>),
    /// A field of a superblock is another, and its checksum is right.
    Superblock(u8, u8, u64),
    /// A superblock of arbitrary numbers.
    Numbers(u8, [u32; 6], u64),
    /// An entry of the mapping table of one or both sets.
    Entry(Option<bool>, u8, u32, u32),
    /// A bit of a bitmap of one or both sets.
    Bit(Option<bool>, u8, u16),
    /// Data.
    Data(u8, u8, u8),
    Wp(u8, u16),
    Condition(u8, u8),
    Bad(Place),
}

#[derive(Arbitrary, Debug)]
enum Place {
    /// A block of a set.
    Metadata(bool, u8),
    Any(u16),
}

fn limits(devices: &Devices) -> Vec<Limits> {
    // Small, so that everything that is exposed can be compared, and often.
    let zone_blocks = 1 << (devices.zone_shift % 5);
    let zoned = devices.zoned.iter().take(3).map(|(zones, conventional)| {
        let zones = u64::from(*zones % 20).max(1);
        let mut limits = Limits::new(zones * zone_blocks * 8);
        let conventional = u64::from(*conventional % 10).min(zones) as u32;
        limits.zoned = Some(ZonedLimits::new(zone_blocks as u32 * 8).with_conventional(conventional));
        limits
    });
    let regular = devices.regular.map(|sectors| Limits::new(u64::from(sectors).max(1)));
    regular.into_iter().chain(zoned).collect()
}

/// What the changes are told in terms of.
struct Target {
    media: MemoryMedia,
    starts: [u64; 2],
    map_blocks: u64,
    zones: u32,
}

impl Target {
    fn edit(&mut self, block: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.media.block(block);
        change(&mut bytes);
        self.media.put(block, &bytes);
    }

    fn superblocks(&self) -> Vec<u64> {
        let space = self.media.space();
        self.starts.into_iter().chain(tertiaries(space).map(|(_, zone)| space.start(zone))).collect()
    }

    fn block(&self, place: &Place) -> u64 {
        match place {
            Place::Metadata(second, block) => self.starts[usize::from(*second)] + u64::from(*block),
            Place::Any(block) => u64::from(*block),
        }
    }

    fn each_set(&self, set: Option<bool>) -> Vec<u64> {
        set.map_or(self.starts.to_vec(), |second| vec![self.starts[usize::from(second)]])
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Bytes(place, bytes) => self.edit(self.block(place), |block| {
                block.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            }),
            Change::Superblock(which, field, value) => self.edit_superblock(*which, |it| match field % 10 {
                0 => it.version = *value as u32 % 4,
                1 => it.generation = *value,
                2 => it.block = *value,
                3 => it.metadata_blocks = *value as u32,
                4 => it.reserved = *value as u32,
                5 => it.chunks = *value as u32,
                6 => it.map_blocks = *value as u32,
                7 => it.bitmap_blocks = *value as u32,
                8 => it.set_uuid = [*value as u8; 16],
                _ => it.device_uuid = [*value as u8; 16],
            }),
            Change::Numbers(which, numbers, generation) => self.edit_superblock(*which, |it| {
                it.generation = *generation;
                [it.metadata_blocks, it.reserved, it.chunks, it.map_blocks, it.bitmap_blocks, _] = *numbers;
            }),
            Change::Entry(set, chunk, dzone, bzone) => {
                // One zone that is not there, and none.
                let zone =
                    |number: u32| Some(number % (self.zones + 2)).filter(|zone| *zone <= self.zones).map(SetZone);
                let entry = MapEntry { dzone: zone(*dzone).unwrap_or(NO_ZONE), bzone: zone(*bzone).unwrap_or(NO_ZONE) };
                for start in self.each_set(*set) {
                    self.edit(start + 1, |map| map[usize::from(*chunk) * 8..][..8].copy_from_slice(&entry.encode()));
                }
            }
            Change::Bit(set, zone, bit) => {
                for start in self.each_set(*set) {
                    self.edit(start + 1 + self.map_blocks + u64::from(*zone), |bits| {
                        bits[usize::from(bit / 8) % BLOCK_BYTES] ^= 1 << (bit % 8);
                    });
                }
            }
            Change::Data(zone, block, byte) => {
                let block = self.media.space().start(SetZone((*zone).into())) + u64::from(*block);
                self.media.put(block, &[*byte; BLOCK_BYTES]);
            }
            Change::Wp(zone, wp) if u32::from(*zone) < self.zones => {
                self.media.set_wp(SetZone((*zone).into()), Block((*wp).into()))
            }
            Change::Condition(zone, cond) if u32::from(*zone) < self.zones => {
                self.set_condition(SetZone((*zone).into()), *cond)
            }
            Change::Bad(place) => {
                let block = self.block(place);
                self.media.bad.insert(block);
            }
            Change::Wp(..) | Change::Condition(..) => {}
        }
    }

    fn edit_superblock(&mut self, which: u8, change: impl FnOnce(&mut Superblock)) {
        let places = self.superblocks();
        self.edit(places[usize::from(which) % places.len()], |bytes| {
            if let Ok(mut superblock) = Superblock::decode(bytes) {
                change(&mut superblock);
                *bytes = superblock.encode().to_vec();
            }
        });
    }

    fn set_condition(&mut self, zone: SetZone, cond: u8) {
        let space = self.media.space();
        let member = space.member_of(zone);
        let (sectors, first) = (u64::from(space.zone_blocks()) * 8, space.members()[member].first_zone);
        if !space.members()[member].is_zoned {
            return;
        }
        let sequential = space.zones()[zone].class == shingle_core::dm::zoned::ZoneClass::Sequential;
        let kind = if sequential { ZoneKind::Sequential } else { ZoneKind::Conventional };
        let start = Sector(u64::from(zone - first) * sectors);
        let cond = [Condition::Offline, Condition::ReadOnly, Condition::Full, Condition::Empty][usize::from(cond) % 4];
        let report = Zone { start, len: sectors, capacity: sectors, wp: start, kind, cond };
        self.media.learn(member, &[report]).unwrap();
    }
}

/// The blocks that are not zeroes, by chunk and place.
type Contents = BTreeMap<(ChunkNo, usize), Vec<u8>>;

/// What can be salvaged, if a superblock says that there is a set.
fn contents(media: &mut MemoryMedia) -> Option<Contents> {
    Sets::find(media).ok()?;
    let salvage = Salvage::survey(media, &mut |_, _| ()).ok()?;
    Some(salvaged(media, &salvage))
}

fn salvaged(media: &mut MemoryMedia, salvage: &Salvage) -> Contents {
    let mut chunk_bytes = vec![0; media.space().zone_blocks() as usize * BLOCK_BYTES];
    let mut contents = Contents::new();
    for chunk in ChunkNo(0).onwards().take(salvage.layout.chunks as usize) {
        if salvage.read(media, chunk, &mut chunk_bytes, &mut |loss| drop(loss.to_string())) {
            let blocks = chunk_bytes.chunks(BLOCK_BYTES).enumerate();
            let written = blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0));
            contents.extend(written.map(|(at, block)| ((chunk, at), block.to_vec())));
        }
    }
    contents
}

fn assert_kept(before: &Option<Contents>, media: &mut MemoryMedia) {
    let (Some(before), Some(after)) = (before, contents(media)) else { return };
    for (place, block) in before {
        assert!(after.get(place) == Some(block), "block {} of chunk {} is another", place.1, place.0);
    }
}

fn look(media: &mut MemoryMedia) {
    media.changes = 0;
    let _ = check(media, &mut |_, _| ()).to_string();
    if let Ok(salvage) = Salvage::survey(media, &mut |_, _| ()) {
        salvaged(media, &salvage);
    }
    assert_eq!(media.changes, 0, "looking changed something");
}

fn mend(media: &mut MemoryMedia, cut: Option<(u16, u64)>) {
    let before = contents(media);
    if let Some((after, seed)) = cut {
        (media.changes, media.cut_after) = (0, Some(u64::from(after % 64)));
        let _ = repair(media, OnLoss::GiveUp, &mut |_, _| ());
        *media = media.after_power_cut(&mut Rng::new(seed));
        assert!(before.is_none() || Sets::find(media).is_ok(), "a power cut left no set");
        assert_kept(&before, media);
    }
    let Ok(first) = repair(media, OnLoss::GiveUp, &mut |_, _| ()) else { return };
    assert_kept(&before, media);
    if first.after.is_clean() {
        assert!(repair(media, OnLoss::GiveUp, &mut |_, _| ()).unwrap().is_idle(), "{first}");
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) -> Corpus {
    of_value(bytes, fuzz)
}

fn fuzz(input: Input) {
    let limits = limits(&input.devices);
    let Ok(mut media) = MemoryMedia::new(&limits.iter().collect::<Vec<_>>()) else { return };
    let options = FormatOptions {
        version: 1 + u32::from(input.version != Some(false)),
        label: Label::new(if input.version == Some(false) { "" } else { "set" }).unwrap(),
        set_uuid: [1; 16],
        device_uuids: vec![[2; 16]; limits.len()],
        reserved: None,
    };
    let layout = input.version.and_then(|_| format(&mut media, &options, &mut |_, _| ()).ok());
    let starts = [0, 1].map(|set| layout.map_or(256 * set as u64, |layout| layout.set_start(media.space(), set)));
    let zones = media.space().zones().len() as u32;
    let map_blocks = layout.map_or(1, |layout| layout.map_blocks.into());
    let mut target = Target { media, starts, map_blocks, zones };
    input.changes.iter().take(64).for_each(|change| target.apply(change));
    let mut media = target.media;
    look(&mut media);
    mend(&mut media, input.cut);
    look(&mut media);
    if let Some(label) = input.label.and_then(|label| Label::new(&label).ok()) {
        let _ = relabel(&mut media, label);
    }
}
