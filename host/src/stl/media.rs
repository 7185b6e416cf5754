//! The devices of a volume as media.

use std::fmt::Display;

use shingle_core::block::{Bio, Data, DeviceId, Limits, Op, Payload};
use shingle_core::dm::stl::tools::{Disk, Media, MediaError, Spot};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::zone::Zone;

use crate::dmz::Reach;

/// Devices of a shard. What they are asked is done when the call returns, and durable after a flush.
pub struct DeviceMedia<R> {
    reach: R,
    devices: Vec<Member>,
    disks: Vec<Disk>,
    /// What is lent to the devices.
    buffer: Data,
}

/// A device of a volume.
struct Member {
    /// What people call it.
    name: String,
    device: DeviceId,
    /// Bytes that move at once at most.
    piece: usize,
}

/// Bytes that move at once.
const PIECE: usize = 4 << 20;

impl<R: Reach> DeviceMedia<R> {
    /// Takes a zone report of each of these devices.
    ///
    /// # Errors
    /// If their blocks are too large, or one does not report.
    pub fn new(mut reach: R, named: Vec<(String, DeviceId)>) -> Result<Self, MediaError> {
        let mut devices = Vec::new();
        let mut all = Vec::new();
        for (name, device) in named {
            let limits = reach.limits(device).map_err(|error| about(&name, &error))?;
            check_blocks(&name, &limits)?;
            let most = limits.max_sectors.map_or(PIECE, |most| (most / BLOCK_SECTORS) as usize * BLOCK_BYTES);
            devices.push(Member { name, device, piece: most.clamp(BLOCK_BYTES, PIECE) });
            all.push(limits);
        }
        let mut media = Self { reach, devices, disks: Vec::new(), buffer: Data::zeroed(PIECE) };
        for (number, limits) in all.iter().enumerate() {
            let count = limits.zones();
            let zones = if count > 0 { media.report((number, Sector::ZERO), count)? } else { Vec::new() };
            media.disks.push(Disk { sectors: limits.capacity, zones, max_active: limits.max_active() });
        }
        Ok(media)
    }

    /// What the devices are called.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|device| device.name.as_str())
    }

    /// Where the devices are, for what uses them otherwise meanwhile.
    pub(super) fn below(&mut self) -> (&mut R, Vec<DeviceId>) {
        (&mut self.reach, self.devices.iter().map(|member| member.device).collect())
    }

    /// Learns where all pointers are now.
    pub(super) fn look_again(&mut self) -> Result<(), MediaError> {
        for number in 0..self.disks.len() {
            let count = self.disks[number].zones.len() as u32;
            if count > 0 {
                self.disks[number].zones = self.report((number, Sector::ZERO), count)?;
            }
        }
        Ok(())
    }

    /// Has a device do something, and waits for it.
    fn run(&mut self, number: usize, bio: Bio) -> Result<Box<Bio>, MediaError> {
        let (op, sector, sectors) = (bio.op, bio.sector, bio.sectors);
        let Member { name, device, .. } = &self.devices[number];
        let failed = |why: &dyn Display| about(name, &format_args!("{} {sector}+{sectors} failed: {why}", op.name()));
        match self.reach.run(*device, bio) {
            Ok((status, bio)) if status.is_ok() => Ok(bio),
            Ok((status, _)) => Err(failed(&status)),
            Err(error) => Err(failed(&error)),
        }
    }

    fn transfer(&mut self, op: Op, number: usize, sector: Sector, data: &Data) -> Result<(), MediaError> {
        let sectors = (data.len() / SECTOR_BYTES as usize) as u32;
        self.run(number, Bio::new(op, sector, sectors, Payload::Data(data.clone()))).map(drop)
    }

    fn report(&mut self, (number, from): (usize, Sector), zones: u32) -> Result<Vec<Zone>, MediaError> {
        let room = Payload::Zones(Vec::with_capacity(zones as usize));
        let mut bio = self.run(number, Bio::new(Op::ReportZones, from, 0, room))?;
        match std::mem::take(&mut bio.payload) {
            Payload::Zones(zones) => Ok(zones),
            _ => Ok(Vec::new()),
        }
    }

    /// Learns from its device where the pointer of a zone is now.
    fn look_at(&mut self, spot: Spot) -> Result<(), MediaError> {
        let Some(blocks) = self.disks[spot.disk].zone_blocks() else { return Ok(()) };
        let number = (spot.block / u64::from(blocks)) as usize;
        let start = self.disks[spot.disk].zones[number].start;
        let found = self.report((spot.disk, start), 1)?;
        found.first().into_iter().for_each(|zone| self.disks[spot.disk].zones[number] = *zone);
        Ok(())
    }

    /// The pieces of `bytes` that are moved at once: where each is, and where in the bytes.
    fn pieces(&self, spot: Spot, bytes: usize) -> Vec<(Sector, std::ops::Range<usize>)> {
        let piece = self.devices[spot.disk].piece;
        let sector = |at: usize| Sector((spot.block + (at / BLOCK_BYTES) as u64) * u64::from(BLOCK_SECTORS));
        (0..bytes).step_by(piece).map(|at| (sector(at), at..bytes.min(at + piece))).collect()
    }
}

impl<R: Reach> Media for DeviceMedia<R> {
    fn disks(&self) -> &[Disk] {
        &self.disks
    }

    fn name(&self, disk: usize) -> String {
        self.names().nth(disk).unwrap_or_default().to_owned()
    }

    fn read(&mut self, from: Spot, to: &mut [u8]) -> Result<(), MediaError> {
        for (sector, range) in self.pieces(from, to.len()) {
            let data = self.buffer.slice(0, range.len());
            self.transfer(Op::Read, from.disk, sector, &data)?;
            data.read(0, &mut to[range]);
        }
        Ok(())
    }

    fn write(&mut self, to: Spot, from: &[u8]) -> Result<(), MediaError> {
        let written = self.pieces(to, from.len()).into_iter().try_for_each(|(sector, range)| {
            let data = self.buffer.slice(0, range.len());
            data.write(0, &from[range]);
            self.transfer(Op::Write, to.disk, sector, &data)
        });
        // Of a write that failed only the device knows how far it came.
        self.look_at(to).and(written)
    }

    fn reset(&mut self, start: Spot) -> Result<(), MediaError> {
        let sector = Sector(start.block * u64::from(BLOCK_SECTORS));
        self.run(start.disk, Bio::new(Op::ZoneReset, sector, 0, Payload::None))?;
        self.look_at(start)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        let flush = || Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        (0..self.devices.len()).try_for_each(|number| self.run(number, flush()).map(drop))
    }
}

pub(super) fn about(name: &str, what: &dyn Display) -> MediaError {
    MediaError(format!("{name}: {what}"))
}

/// A block of a volume has to be a whole number of the device's.
fn check_blocks(name: &str, limits: &Limits) -> Result<(), MediaError> {
    if BLOCK_SECTORS.is_multiple_of(limits.block_sectors()) {
        return Ok(());
    }
    let own = limits.logical_block_bytes;
    Err(about(name, &format_args!("its blocks of {own} bytes are larger than those of a volume, which have 4096")))
}
