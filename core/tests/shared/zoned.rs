//! A dm-zoned volume in a stack: what its tests share.
#![allow(dead_code, reason = "each program uses its part")]

use std::ops::Range;

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Event, Flags, Op, Payload, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::zoned::format::{FormatOptions, Label, Media, format};
use shingle_core::dm::zoned::{Zoned, ZonedCounters};
use shingle_core::dm::{build_table, parse_table};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_sim::StackMedia;

use crate::rig::Rig;

/// Blocks of a zone.
pub const ZONE: u32 = 64;

/// A formatted set and the volume on it, which is at the top.
pub struct Volume {
    pub rig: Rig,
    /// The disks: of zoned ones their plugs.
    pub disks: Vec<DeviceId>,
    /// The disks themselves.
    pub leaves: Vec<DeviceId>,
    /// The target's device.
    pub target: DeviceId,
    pub blocks: u64,
}

/// A disk of `zones` zones, `conventional` of them conventional; `None`: a regular one of as many.
pub fn disk(zones: u32, conventional: Option<u32>) -> NullConfig {
    let capacity = u64::from(zones) * u64::from(ZONE) * 8;
    let config = NullConfig::new(capacity);
    let config = NullConfig {
        block_bytes: 4096,
        memory_backed: true,
        write_cache: true,
        completion: Duration::from_micros(50),
        ..config
    };
    let zoned = conventional.map(|conventional| NullZones { conventional, ..NullZones::new(u64::from(ZONE) * 8) });
    NullConfig { zoned, ..config }
}

/// Null devices of these kinds.
pub fn nulls(disks: &[NullConfig]) -> Vec<Box<dyn BlockDevice>> {
    disks.iter().map(|config| Box::new(NullDevice::new(config).unwrap()) as Box<dyn BlockDevice>).collect()
}

impl Volume {
    /// A freshly formatted set of these disks.
    pub fn new(disks: &[NullConfig], reserved: u32) -> Self {
        Self::over(nulls(disks), reserved)
    }

    /// One of several sets, some with a kernel's policy.
    pub fn of_seed(seed: u64) -> Self {
        let mut volume = match seed % 3 {
            0 => Self::new(&[disk(40, Some(8))], 4),
            1 => Self::new(&[disk(9, None), disk(24, Some(0))], 3),
            _ => Self::new(&[disk(7, None), disk(16, Some(3)), disk(16, Some(0))], 4),
        };
        match seed % 4 {
            1 => _ = volume.message("set policy kernel"),
            3 => _ = volume.message("set policy kernel-2020"),
            _ => {}
        }
        volume
    }

    /// A freshly formatted set of any devices.
    pub fn over(disks: Vec<Box<dyn BlockDevice>>, reserved: u32) -> Self {
        Self::on(disks).formatted(reserved)
    }

    /// The same with a freshly formatted set on it, loaded.
    pub fn formatted(mut self, reserved: u32) -> Self {
        let options = FormatOptions {
            version: 2,
            label: Label::new("test").unwrap(),
            set_uuid: [7; 16],
            device_uuids: (1..=self.disks.len() as u8).map(|n| [n; 16]).collect(),
            reserved: Some(reserved),
        };
        let (layout, zone_blocks) = self.with_media(|media| {
            let layout = format(media, &options, &mut |_, _| {}).unwrap();
            (layout, media.space().zone_blocks())
        });
        self.blocks = u64::from(layout.chunks) * u64::from(zone_blocks);
        self.load();
        self
    }

    /// Disks without a volume.
    pub fn on(disks: Vec<Box<dyn BlockDevice>>) -> Self {
        let mut stack = Stack::new();
        let (mut tops, mut leaves) = (vec![], vec![]);
        for disk in disks {
            let leaf = stack.add(disk).unwrap();
            leaves.push(leaf);
            let limits = stack.limits(leaf).clone();
            tops.push(match limits.zoned {
                Some(_) => stack.add(Box::new(ZonePlug::new(leaf, &limits, PlugOptions::default()).unwrap())).unwrap(),
                None => leaf,
            });
        }
        Self { rig: Rig::new(stack, DeviceId(0)), disks: tops, leaves, target: DeviceId(0), blocks: 0 }
    }

    /// Does something with the disks while nobody else uses them.
    pub fn with_media<R>(&mut self, f: impl FnOnce(&mut StackMedia<'_>) -> R) -> R {
        let Rig { stack, now, .. } = &mut self.rig;
        let mut media = StackMedia::new(stack, &self.disks, *now).unwrap();
        let result = f(&mut media);
        *now = media.now();
        result
    }

    /// Ends the table as a clean stop does, and loads it anew.
    pub fn reload(&mut self) {
        self.stop();
        self.load();
    }

    /// Ends the table as a clean stop does.
    pub fn stop(&mut self) {
        self.suspend();
        self.remove();
    }

    /// Begins to end the table.
    pub fn suspend(&mut self) {
        self.rig.stack.deliver(self.target, Event::Suspend { push_back: false });
    }

    /// Removes the table as soon as it is drained.
    pub fn remove(&mut self) {
        while !self.rig.stack.is_drained(self.target) || self.rig.stack.has_arrivals() {
            let next = self.rig.turn();
            if self.rig.stack.is_drained(self.target) {
                break;
            }
            let next = next.unwrap_or_else(|| panic!("it does not come to rest: {}", self.status()));
            self.rig.now = self.rig.now.max(next);
        }
        self.rig.stack.remove(self.rig.top).unwrap();
        self.rig.stack.remove(self.target).unwrap();
    }

    /// Loads the table.
    pub fn load(&mut self) {
        let names: Vec<String> = (0..self.disks.len()).map(|n| format!("d{n}")).collect();
        let text = format!("0 {} zoned {}", self.blocks * 8, names.join(" "));
        let table = parse_table(&text).unwrap();
        let disks = self.disks.clone();
        let find = |name: &str| Ok::<_, Vec<String>>(disks[name[1..].parse::<usize>().unwrap()]);
        let built = build_table(&mut self.rig.stack, &table, &find).unwrap();
        self.target = built.targets[0].unwrap();
        self.rig.top = self.rig.stack.add(Box::new(built.table)).unwrap();
    }

    pub fn counters(&self) -> ZonedCounters {
        self.rig.stack.device::<Zoned>(self.target).unwrap().counters()
    }

    pub fn status(&self) -> String {
        let mut text = String::new();
        self.rig.stack.status(self.target, &mut text).unwrap();
        text
    }

    pub fn message(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        self.rig.stack.message(self.target, &words).unwrap()
    }

    /// Hands a bio in and does nothing yet.
    pub fn submit(&mut self, bio: Bio) -> u64 {
        self.rig.queue(self.rig.top, bio)
    }

    /// Lets time pass until something is done; returns what, and how.
    pub fn next(&mut self) -> (u64, Box<Bio>, Status) {
        let done = self.rig.next();
        (done.tag, done.bio, done.status)
    }

    pub fn run(&mut self, bio: Bio) -> (Box<Bio>, Status) {
        let tag = self.submit(bio);
        let (done, bio, status) = self.next();
        assert_eq!(done, tag);
        (bio, status)
    }

    pub fn write(&mut self, block: u64, blocks: u32, fill: u8) {
        let (_, status) = self.run(write(block, blocks, fill));
        assert_eq!(status, Status::Ok, "write of {blocks} at {block}: {}", self.status());
    }

    pub fn discard(&mut self, block: u64, blocks: u32) {
        let bio = Bio::new(Op::Discard, Sector(block * 8), blocks * 8, Payload::None);
        assert_eq!(self.run(bio).1, Status::Ok);
    }

    /// What is known of blocks without reading them: how many in a row are a hole, or not.
    pub fn map(&self, blocks: Range<u64>) -> Vec<(u64, bool)> {
        let mut found = Vec::with_capacity(1000);
        self.rig.stack.extents(self.rig.top, blocks.start * 8..blocks.end * 8, &mut found);
        found.iter().map(|extent| (extent.sectors / 8, extent.is_hole)).collect()
    }

    pub fn flush(&mut self) {
        let bio = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        assert_eq!(self.run(bio).1, Status::Ok);
    }

    /// The first byte of each block; a block is filled with one.
    pub fn read(&mut self, block: u64, blocks: u32) -> Vec<u8> {
        let (bio, status) = self.run(read(block, blocks));
        assert_eq!(status, Status::Ok, "read of {blocks} at {block}: {}", self.status());
        first_bytes(&bio)
    }
}

pub fn write(block: u64, blocks: u32, fill: u8) -> Bio {
    let data = Data::zeroed(blocks as usize * 4096);
    data.fill(fill);
    Bio::new(Op::Write, Sector(block * 8), blocks * 8, Payload::Data(data))
}

pub fn read(block: u64, blocks: u32) -> Bio {
    let data = Data::zeroed(blocks as usize * 4096);
    data.fill(0xee);
    Bio::new(Op::Read, Sector(block * 8), blocks * 8, Payload::Data(data))
}

pub fn fua(bio: Bio) -> Bio {
    bio.with_flags(Flags::FUA)
}

pub fn first_bytes(bio: &Bio) -> Vec<u8> {
    let bytes: Vec<u8> = bio.payload.segments().iter().flat_map(|data| data.to_vec()).collect();
    let blocks = bytes.chunks(4096);
    blocks.map(|block| if block.iter().all(|byte| *byte == block[0]) { block[0] } else { 0xff }).collect()
}
