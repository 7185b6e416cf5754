//! The disks of an `stl` volume that are devices of a stack, for those who may wait: time passes until each bio is done.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::dm::stl::tools::{Disk, Media, MediaError, Spot};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::Zone;

/// Disks of a volume as devices of a stack that nobody else turns in the meantime.
pub struct StlMedia<'a> {
    stack: &'a mut Stack,
    devices: Vec<DeviceId>,
    disks: Vec<Disk>,
    port: PortId,
    now: Instant,
}

impl<'a> StlMedia<'a> {
    /// These devices. Takes a zone report of each.
    ///
    /// # Errors
    /// If a report fails.
    pub fn new(stack: &'a mut Stack, devices: &[DeviceId]) -> Result<Self, MediaError> {
        let port = stack.open_port();
        let mut media = Self { stack, devices: devices.to_vec(), disks: Vec::new(), port, now: Instant::ZERO };
        for (number, device) in devices.iter().enumerate() {
            let limits = media.stack.limits(*device).clone();
            let zones = if limits.zoned.is_some() { media.report(number, limits.zones())? } else { Vec::new() };
            media.disks.push(Disk { sectors: limits.capacity, zones, max_active: limits.max_active() });
        }
        Ok(media)
    }

    fn report(&mut self, disk: usize, zones: u32) -> Result<Vec<Zone>, MediaError> {
        let room = Payload::Zones(Vec::with_capacity(zones as usize));
        let mut bio = self.run(disk, Bio::new(Op::ReportZones, Sector::ZERO, 0, room))?;
        match core::mem::take(&mut bio.payload) {
            Payload::Zones(zones) => Ok(zones),
            _ => Ok(Vec::new()),
        }
    }

    /// Learns where all pointers of a disk are now.
    fn look_at(&mut self, disk: usize) -> Result<(), MediaError> {
        let zones = self.disks[disk].zones.len() as u32;
        if zones > 0 {
            self.disks[disk].zones = self.report(disk, zones)?;
        }
        Ok(())
    }

    /// Sends `bio` to a disk and lets time pass until it is back.
    fn run(&mut self, disk: usize, bio: Bio) -> Result<Box<Bio>, MediaError> {
        let what = format!("disk {disk}: {bio:?}");
        self.stack.submit(self.port, 0, self.devices[disk], Box::new(bio));
        loop {
            let next = self.stack.turn(self.now);
            if let Some(done) = self.stack.poll_completion(self.port) {
                let is_ok = done.status.is_ok();
                return if is_ok { Ok(done.bio) } else { Err(MediaError(format!("{what}: {}", done.status))) };
            }
            let stuck = || MediaError(format!("{what}: no answer, and nothing will ever happen again"));
            self.now = self.now.max(next.ok_or_else(stuck)?);
        }
    }

    /// Moves whole blocks, no more at once than the disk takes.
    fn transfer(&mut self, op: Op, spot: Spot, data: &Data) -> Result<(), MediaError> {
        let most =
            self.stack.limits(self.devices[spot.disk]).max_sectors.map_or(data.len(), |most| most as usize * 512);
        for at in (0..data.len()).step_by(most) {
            let part = data.slice(at, most.min(data.len() - at));
            let sector = Sector(spot.block * u64::from(BLOCK_SECTORS) + (at / 512) as u64);
            self.run(spot.disk, Bio::new(op, sector, (part.len() / 512) as u32, Payload::Data(part)))?;
        }
        Ok(())
    }
}

impl Media for StlMedia<'_> {
    fn disks(&self) -> &[Disk] {
        &self.disks
    }

    fn read(&mut self, from: Spot, to: &mut [u8]) -> Result<(), MediaError> {
        let data = Data::zeroed(to.len());
        self.transfer(Op::Read, from, &data)?;
        data.read(0, to);
        Ok(())
    }

    fn write(&mut self, to: Spot, from: &[u8]) -> Result<(), MediaError> {
        debug_assert!(from.len().is_multiple_of(BLOCK_BYTES), "no whole blocks");
        let data = Data::zeroed(from.len());
        data.write(0, from);
        self.transfer(Op::Write, to, &data)?;
        self.look_at(to.disk)
    }

    fn reset(&mut self, start: Spot) -> Result<(), MediaError> {
        let sector = Sector(start.block * u64::from(BLOCK_SECTORS));
        self.run(start.disk, Bio::new(Op::ZoneReset, sector, 0, Payload::None))?;
        self.look_at(start.disk)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        let flush = || Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        (0..self.devices.len()).try_for_each(|disk| self.run(disk, flush()).map(drop))
    }
}
