//! The disks of a set as tools see them, which wait for each command: to format them, and to check what is on them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::disk::{CrashDisk, Medium};
use crate::world::World;
use shingle_core::block::{Bio, Completion, Data, DeviceId, Limits, Op, Payload, PortId, Stack};
use shingle_core::dm::zoned::check::check;
use shingle_core::dm::zoned::format::{FormatOptions, Label, Layout, Media, MediaError, format};
use shingle_core::dm::zoned::{BLOCK_BYTES, BLOCK_SECTORS, Block, MemberNo, Rows, SetZone, ZoneClass, ZoneSpace};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;

/// Disks, alone in a world.
pub(super) struct Drives {
    world: World,
    port: PortId,
    disks: Rows<MemberNo, DeviceId>,
    space: ZoneSpace,
}

impl Drives {
    /// Asks the disks for their zones.
    pub fn new(mut stack: Stack, disks: Vec<DeviceId>) -> Result<Self, String> {
        let port = stack.open_port();
        let limits: Vec<&Limits> = disks.iter().map(|disk| stack.limits(*disk)).collect();
        let space = ZoneSpace::new(&limits).map_err(|error| format!("{error}"))?;
        let mut drives = Self { world: World::new(stack), port, disks: disks.into(), space };
        for place in drives.disks.numbers() {
            if drives.space.members()[place].is_zoned {
                drives.learn(place)?;
            }
        }
        Ok(drives)
    }

    fn learn(&mut self, place: MemberNo) -> Result<(), String> {
        let zones = self.space.members()[place].zones as usize;
        let report = Payload::Zones(Vec::with_capacity(zones));
        let back = self.ask(place, Bio::new(Op::ReportZones, Sector::ZERO, 0, report));
        let Payload::Zones(zones) = &back.map_err(|error| error.0)?.bio.payload else { return Ok(()) };
        self.space.learn(place, zones).map_err(|error| format!("{error}"))
    }

    fn ask(&mut self, place: MemberNo, bio: Bio) -> Result<Completion, MediaError> {
        let asked = format!("disk {place}: {bio:?}");
        self.world.stack.submit(self.port, 0, self.disks[place], Box::new(bio));
        loop {
            let moves = self.world.pass_time();
            match self.world.stack.poll_completion(self.port) {
                Some(back) if back.status.is_ok() => return Ok(back),
                Some(back) => return Err(MediaError(format!("{asked}: {}", back.status))),
                None if !moves => return Err(MediaError(format!("{asked} does not end"))),
                None => {}
            }
        }
    }

    /// A bio for blocks of a set: the disk, and the bio.
    fn bio(&self, op: Op, block: u64, data: &Data) -> (MemberNo, Bio) {
        let (place, sector) = self.space.place(block);
        let sectors = (data.len() / BLOCK_BYTES) as u32 * BLOCK_SECTORS;
        (place, Bio::new(op, sector, sectors, Payload::Data(data.clone())))
    }

    /// Makes a set of the disks. Returns the blocks of its volume.
    pub fn format(&mut self, rng: &mut Rng) -> Result<u32, String> {
        let chosen = Layout::choose(&self.space, None).map_err(|error| format!("{error}"))?;
        let (least, most) = (chosen.least_reserved(&self.space), chosen.most_reserved(&self.space));
        let reserved = least + rng.below(u64::from(most.saturating_sub(least)).min(3) + 1) as u32;
        let uuid = |n: usize| [n as u8 + 1; 16];
        let version = if self.disks.len() == 1 && rng.chance(1, 4) { 1 } else { 2 };
        let mut options = FormatOptions {
            version,
            label: if version == 1 {
                Label::default()
            } else {
                Label::new("swarm").map_err(|error| format!("{error}"))?
            },
            set_uuid: [0xaa; 16],
            device_uuids: (0..self.disks.len()).map(uuid).collect(),
            reserved: Some(reserved),
        };
        let first = format(self, &options, &mut |_, _| ());
        let layout = first.or_else(|_| {
            // The bounds move with the size of the metadata.
            options.reserved = None;
            format(self, &options, &mut |_, _| ())
        });
        let layout = layout.map_err(|error| format!("{error}"))?;
        Ok(layout.chunks * self.space.zone_blocks())
    }

    /// Checks the metadata of a volume that was stopped.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&mut self) -> Result<(), String> {
        let report = check(self, &mut |_, _| ());
        let errors: Vec<String> =
            report.findings.iter().filter(|found| found.is_error()).map(|e| format!("{e}")).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// What the disks hold.
    pub fn take(&self, rng: &mut Rng) -> Vec<Medium> {
        let disk = |id: &DeviceId| self.world.stack.device::<CrashDisk>(*id);
        self.disks.iter().filter_map(disk).map(|disk| disk.cut_power(rng)).collect()
    }
}

impl Media for Drives {
    fn space(&self) -> &ZoneSpace {
        &self.space
    }

    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        let data = Data::zeroed(to.len());
        let (place, bio) = self.bio(Op::Read, block, &data);
        self.ask(place, bio)?;
        data.read(0, to);
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError> {
        let data = Data::zeroed(from.len());
        data.write(0, from);
        let (place, bio) = self.bio(Op::Write, block, &data);
        self.ask(place, bio)?;
        let (zone, blocks) = (self.space.zone_of(block), (from.len() / BLOCK_BYTES) as u64);
        if self.space.zones()[zone].class == ZoneClass::Sequential {
            self.space.set_wp(zone, Block((block + blocks - self.space.start(zone)) as u32));
        }
        Ok(())
    }

    fn reset(&mut self, zone: SetZone) -> Result<(), MediaError> {
        let (place, sector) = self.space.place(self.space.start(zone));
        self.ask(place, Bio::new(Op::ZoneReset, sector, 0, Payload::None))?;
        self.space.set_wp(zone, Block::FIRST);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        let flush = || Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        self.disks.numbers().try_for_each(|place| self.ask(place, flush()).map(|_| ()))
    }
}
