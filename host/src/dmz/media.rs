//! The devices of a set as media.

use std::fmt::Display;

use shingle_core::block::{Bio, Data, DeviceId, Limits, Op, Payload};
use shingle_core::dm::zoned::format::{Media, MediaError, MemberFound, WrongMembers, too_few_active};
use shingle_core::dm::zoned::{BLOCK_BYTES, BLOCK_SECTORS, MemberNo, Rows, SetZone, SpaceError, ZoneClass, ZoneSpace};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::zone::Zone;

use super::Reach;

/// Devices of a shard in the order of a table line. What they are asked is done when the call returns, and durable after a
/// flush.
pub struct DeviceMedia<R> {
    reach: R,
    devices: Rows<MemberNo, SetDevice>,
    space: ZoneSpace,
    /// What is lent to the devices.
    buffer: Data,
}

/// A device of a set.
struct SetDevice {
    /// What people call it.
    name: String,
    device: DeviceId,
    limits: Limits,
}

/// Bytes that move at once.
const PIECE: usize = 4 << 20;

impl<R: Reach> DeviceMedia<R> {
    /// The set that these devices make. Takes a zone report of each.
    ///
    /// # Errors
    /// If they make none, or one does not report.
    pub fn new(mut reach: R, named: Vec<(String, DeviceId)>) -> Result<Self, MediaError> {
        let mut devices = Rows::default();
        for (name, device) in named {
            let limits = reach.limits(device).map_err(|error| about(&name, &error))?;
            check_blocks(&name, &limits)?;
            devices.push(SetDevice { name, device, limits });
        }
        let limits: Vec<&Limits> = devices.iter().map(|device| &device.limits).collect();
        let space = match ZoneSpace::new(&limits) {
            Ok(space) => space,
            Err(error) => {
                let error = no_set(&devices, &error);
                let found = members_found(&mut reach, &devices);
                return Err(found.map_or(error.clone(), |found| MediaError(format!("{error}\n{found}"))));
            }
        };
        let mut media = Self { reach, devices, space, buffer: Data::zeroed(PIECE) };
        for place in media.devices.numbers() {
            let zones = media.devices[place].limits.zones();
            if zones > 0 {
                let report = media.report((place, Sector::ZERO), zones)?;
                media.space.learn(place, &report).map_err(|error| no_set(&media.devices, &error))?;
            }
        }
        Ok(media)
    }

    /// What the devices are called.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|device| device.name.as_str())
    }

    /// What a device accepts.
    #[must_use]
    pub fn limits(&self, place: MemberNo) -> &Limits {
        &self.devices[place].limits
    }

    /// Says which device allows fewer active zones than a set needs, if one does.
    #[must_use]
    pub fn too_few_active_zones(&self) -> Option<String> {
        self.devices.numbered().find_map(|(member, SetDevice { name, limits, .. })| {
            Some(format!("{name} {}", too_few_active(&self.space, member, limits.max_active())?))
        })
    }

    /// Has a device do something, and waits for it.
    fn run(&mut self, place: MemberNo, bio: Bio) -> Result<Box<Bio>, MediaError> {
        let (op, sector, sectors) = (bio.op, bio.sector, bio.sectors);
        let SetDevice { name, device, .. } = &self.devices[place];
        let failed = |why: &dyn Display| about(name, &format_args!("{} {sector}+{sectors} failed: {why}", op.name()));
        match self.reach.run(*device, bio) {
            Ok((status, bio)) if status.is_ok() => Ok(bio),
            Ok((status, _)) => Err(failed(&status)),
            Err(error) => Err(failed(&error)),
        }
    }

    fn transfer(&mut self, op: Op, (place, sector): (MemberNo, Sector), data: &Data) -> Result<(), MediaError> {
        let sectors = (data.len() / SECTOR_BYTES as usize) as u32;
        self.run(place, Bio::new(op, sector, sectors, Payload::Data(data.clone()))).map(drop)
    }

    fn report(&mut self, (place, from): (MemberNo, Sector), zones: u32) -> Result<Vec<Zone>, MediaError> {
        let room = Payload::Zones(Vec::with_capacity(zones as usize));
        let mut bio = self.run(place, Bio::new(Op::ReportZones, from, 0, room))?;
        match std::mem::take(&mut bio.payload) {
            Payload::Zones(zones) => Ok(zones),
            _ => Ok(Vec::new()),
        }
    }

    /// Learns from its device where the pointer of `zone` is now.
    fn look_at(&mut self, zone: SetZone) -> Result<(), MediaError> {
        if self.space.zones()[zone].class != ZoneClass::Sequential {
            return Ok(());
        }
        let (place, start) = self.space.place(self.space.start(zone));
        let report = self.report((place, start), 1)?;
        self.space.learn(place, &report).map_err(|error| no_set(&self.devices, &error))
    }
}

/// Where piece number `piece` of what begins at `block` lies.
fn place_of(space: &ZoneSpace, block: u64, piece: usize) -> (MemberNo, Sector) {
    space.place(block + (piece * PIECE / BLOCK_BYTES) as u64)
}

impl<R: Reach> Media for DeviceMedia<R> {
    fn space(&self) -> &ZoneSpace {
        &self.space
    }

    fn name(&self, member: MemberNo) -> String {
        self.devices[member].name.clone()
    }

    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        for (piece, part) in to.chunks_mut(PIECE).enumerate() {
            let data = self.buffer.slice(0, part.len());
            self.transfer(Op::Read, place_of(&self.space, block, piece), &data)?;
            data.read(0, part);
        }
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError> {
        let mut pieces = from.chunks(PIECE).enumerate();
        let written = pieces.try_for_each(|(piece, part)| {
            let data = self.buffer.slice(0, part.len());
            data.write(0, part);
            self.transfer(Op::Write, place_of(&self.space, block, piece), &data)
        });
        // Of a write that failed only the device knows how far it came.
        self.look_at(self.space.zone_of(block)).and(written)
    }

    fn reset(&mut self, zone: SetZone) -> Result<(), MediaError> {
        let (place, start) = self.space.place(self.space.start(zone));
        self.run(place, Bio::new(Op::ZoneReset, start, 0, Payload::None))?;
        self.look_at(zone)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        let flush = || Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        self.devices.numbers().try_for_each(|place| self.run(place, flush()).map(drop))
    }
}

pub(super) fn about(name: &str, what: &dyn Display) -> MediaError {
    MediaError(format!("{name}: {what}"))
}

/// Reads the superblocks of devices that make no set together. Returns `None` if no device has one.
fn members_found(reach: &mut impl Reach, devices: &Rows<MemberNo, SetDevice>) -> Option<WrongMembers> {
    let zone_sectors = devices.iter().find_map(|device| Some(device.limits.zoned.as_ref()?.zone_sectors));
    let (mut first_zone, mut found) = (SetZone(0), Vec::new());
    for SetDevice { name, device, limits } in devices.iter() {
        let data = Data::zeroed(BLOCK_BYTES);
        let bio = Bio::new(Op::Read, Sector::ZERO, BLOCK_SECTORS, Payload::Data(data.clone()));
        let is_read = reach.run(*device, bio).is_ok_and(|(status, _)| status.is_ok());
        let zones = zone_sectors.map_or(0, |zone| limits.capacity.div_ceil(zone.into()) as u32);
        let start = is_read.then(|| data.to_vec());
        found.push(MemberFound::new(name.clone(), (first_zone, zones), start.as_deref()));
        first_zone = first_zone + zones;
    }
    WrongMembers::of_disks(found, zone_sectors.map(|zone| zone / BLOCK_SECTORS))
}

fn no_set(devices: &Rows<MemberNo, SetDevice>, error: &SpaceError) -> MediaError {
    error.member.map_or_else(|| MediaError(error.message.clone()), |place| about(&devices[place].name, error))
}

/// A block of dm-zoned has to be a whole number of the device's.
fn check_blocks(name: &str, limits: &Limits) -> Result<(), MediaError> {
    if BLOCK_SECTORS.is_multiple_of(limits.block_sectors()) {
        return Ok(());
    }
    let own = limits.logical_block_bytes;
    Err(about(name, &format_args!("its blocks of {own} bytes are larger than those of dm-zoned, which have 4096")))
}
