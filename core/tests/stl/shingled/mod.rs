//! An `stl` volume in a stack: what its tests share.

pub mod cut;
pub mod image;
pub mod shelf;

use shingle_core::block::{Bio, Data, DeviceId, Event, Op, Payload, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::{CreateError, Options, Part, Sizing, Stl, StlCounters, create};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::Zone;

use crate::rig::Rig;

/// Blocks of a zone.
pub const ZONE: u32 = 64;

/// A volume and its disks.
pub struct Volume {
    pub rig: Rig,
    /// The disks: of zoned ones their plugs.
    pub disks: Vec<DeviceId>,
    pub blocks: u64,
    pub options: Options,
    /// Zones that were cleaned, and sweeps, in all lives before this one.
    pub before: (u64, u64),
}

/// A disk of `zones` zones, `conventional` of them conventional; `None`: a regular one of as many.
pub fn disk(zones: u32, conventional: Option<u32>) -> NullConfig {
    let sectors = u64::from(ZONE) * 8;
    let zoned = conventional.map(|conventional| NullZones { conventional, ..NullZones::new(sectors) });
    NullConfig {
        block_bytes: 4096,
        memory_backed: true,
        write_cache: true,
        completion: Duration::from_micros(50),
        zoned,
        ..NullConfig::new(u64::from(zones) * sectors)
    }
}

/// Little of everything, so that all of it happens often.
pub fn small() -> Options {
    Options {
        batch_blocks: 12,
        copy_blocks: 12,
        pending_bytes: 1710,
        replay_blocks: 100,
        named_zones: 1,
        index_bytes: 1 << 20,
        most_runs: 4,
        runs_of_tier: 2,
        cached_extents: 200,
        turn_blocks: 24,
        ..Options::default()
    }
}

impl Volume {
    /// A new volume on such disks.
    pub fn new(disks: &[NullConfig], reserve: u32, options: Options) -> Self {
        Self::over(disks, reserve, options, |_, leaf| leaf)
    }

    /// The same, with something between each disk and what uses it.
    pub fn over(
        disks: &[NullConfig],
        reserve: u32,
        options: Options,
        wrap: impl FnMut(&mut Stack, DeviceId) -> DeviceId,
    ) -> Self {
        Self::try_over(disks, reserve, options, wrap).unwrap()
    }

    /// A volume as [`Volume::over`] makes it, if there can be one.
    pub fn try_over(
        disks: &[NullConfig],
        reserve: u32,
        options: Options,
        mut wrap: impl FnMut(&mut Stack, DeviceId) -> DeviceId,
    ) -> Result<Self, CreateError> {
        let mut stack = Stack::new();
        let plugged = |config: &NullConfig| {
            let leaf = stack.add(Box::new(NullDevice::new(config).unwrap())).unwrap();
            let leaf = wrap(&mut stack, leaf);
            let limits = stack.limits(leaf).clone();
            match limits.zoned {
                Some(_) => stack.add(Box::new(ZonePlug::new(leaf, &limits, PlugOptions::default()).unwrap())).unwrap(),
                None => leaf,
            }
        };
        let disks: Vec<DeviceId> = disks.iter().map(plugged).collect();
        Self::try_on(stack, disks, reserve, options)
    }

    /// A new volume on these devices of a stack.
    pub fn on(stack: Stack, disks: Vec<DeviceId>, reserve: u32, options: Options) -> Self {
        Self::try_on(stack, disks, reserve, options).unwrap()
    }

    /// A new volume on these devices of a stack, if there can be one.
    pub fn try_on(stack: Stack, disks: Vec<DeviceId>, reserve: u32, options: Options) -> Result<Self, CreateError> {
        let mut volume = Self { rig: Rig::new(stack, DeviceId(0)), disks, blocks: 0, options, before: (0, 0) };
        volume.format(SetId([7; 16]), reserve)?;
        volume.load();
        Ok(volume)
    }

    /// A volume with another identity instead of the new one, on the same disks.
    pub fn renewed(mut self, set: SetId, reserve: u32) -> Self {
        self.stop();
        for disk in self.disks.clone() {
            self.rig.finish(disk, Bio::new(Op::ZoneResetAll, Sector::ZERO, 0, Payload::None));
        }
        self.disks.sort();
        self.format(set, reserve).unwrap();
        self.load();
        self
    }

    fn format(&mut self, set: SetId, reserve: u32) -> Result<(), CreateError> {
        let parts: Vec<Part> = (0..self.disks.len()).map(|number| self.part(number)).collect();
        let created = create(set, &parts, Sizing::with_reserve(reserve))?;
        for (disk, (sector, bytes)) in self.disks.clone().into_iter().zip(created.roots) {
            let data = Data::zeroed(bytes.len());
            data.write(0, &bytes);
            let bio = Bio::new(Op::Write, sector, (bytes.len() / 512) as u32, Payload::Data(data));
            assert_eq!(self.rig.finish(disk, bio).status, Status::Ok);
        }
        self.blocks = created.sectors / 8;
        Ok(())
    }

    fn part(&mut self, number: usize) -> Part {
        let disk = self.disks[number];
        let limits = self.rig.stack.limits(disk).clone();
        let room = Payload::Zones(Vec::with_capacity(limits.zones() as usize));
        let mut report = self.rig.finish(disk, Bio::new(Op::ReportZones, Sector::ZERO, 0, room));
        let zones: Vec<Zone> = match core::mem::take(&mut report.bio.payload) {
            Payload::Zones(zones) => zones,
            _ => vec![],
        };
        Part { id: [number as u8 + 1; 16], zones, sectors: limits.capacity, max_active: limits.max_active() }
    }

    /// Puts the target on the disks, in any order.
    pub fn load(&mut self) {
        self.disks.rotate_left(1);
        let limits: Vec<_> = self.disks.iter().map(|disk| self.rig.stack.limits(*disk).clone()).collect();
        let target = Stl::new(self.disks.clone(), &limits, self.blocks * 8, self.options);
        self.rig.top = self.rig.stack.add(Box::new(target)).unwrap();
    }

    /// Ends it as a clean stop does.
    pub fn stop(&mut self) {
        self.before = self.work();
        let top = self.rig.top;
        self.rig.stack.deliver(top, Event::Suspend { push_back: false });
        let patience = self.rig.now + Duration::from_millis(600_000);
        while !self.rig.stack.is_drained(top) || self.rig.stack.has_arrivals() {
            assert!(self.rig.now < patience, "no rest in ten minutes: {}", self.status());
            let next = self.rig.turn();
            if self.rig.stack.is_drained(top) {
                break;
            }
            self.rig.now = self.rig.now.max(next.unwrap_or_else(|| panic!("no rest: {}", self.status())));
        }
        self.rig.stack.remove(top).unwrap();
    }

    pub fn reload(&mut self) {
        self.stop();
        self.load();
    }

    pub fn counters(&self) -> StlCounters {
        self.rig.stack.device::<Stl>(self.rig.top).unwrap().counters()
    }

    /// Zones that were cleaned, and sweeps, in all its lives.
    pub fn work(&self) -> (u64, u64) {
        let counters = self.counters();
        (self.before.0 + counters.cleaned_zones, self.before.1 + counters.sweeps)
    }

    pub fn status(&self) -> String {
        let mut text = String::new();
        self.rig.stack.status(self.rig.top, &mut text).unwrap();
        text
    }

    pub fn message(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        self.rig.stack.message(self.rig.top, &words).unwrap()
    }

    pub fn run(&mut self, bio: Bio) -> (Bio, Status) {
        let done = self.rig.finish(self.rig.top, bio);
        (*done.bio, done.status)
    }

    pub fn write(&mut self, block: u64, blocks: u32, byte: u8) {
        assert_eq!(self.run(write(block, blocks, byte)).1, Status::Ok, "{}", self.status());
    }

    pub fn read(&mut self, block: u64, blocks: u32) -> Vec<u8> {
        let (bio, status) = self.run(read(block, blocks));
        assert_eq!(status, Status::Ok, "{:?} {}", bio.why().map(ToString::to_string), self.status());
        first_bytes(&bio)
    }

    pub fn flush(&mut self) {
        assert_eq!(self.run(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)).1, Status::Ok);
    }
}

/// A write of blocks all of whose bytes are one.
pub fn write(block: u64, blocks: u32, byte: u8) -> Bio {
    let data = Data::zeroed(blocks as usize * 4096);
    data.fill(byte);
    Bio::new(Op::Write, Sector(block * 8), blocks * 8, Payload::Data(data))
}

pub fn read(block: u64, blocks: u32) -> Bio {
    let data = Data::zeroed(blocks as usize * 4096);
    data.fill(0xee);
    Bio::new(Op::Read, Sector(block * 8), blocks * 8, Payload::Data(data))
}

pub fn discard(block: u64, blocks: u32) -> Bio {
    Bio::new(Op::Discard, Sector(block * 8), blocks * 8, Payload::None)
}

/// A byte of each block, all of which are the same.
pub fn first_bytes(bio: &Bio) -> Vec<u8> {
    let Payload::Data(data) = &bio.payload else { panic!("no data") };
    let bytes = data.to_vec();
    assert!(bytes.chunks(4096).all(|block| block.iter().all(|byte| *byte == block[0])), "a block of several");
    bytes.chunks(4096).map(|block| block[0]).collect()
}
