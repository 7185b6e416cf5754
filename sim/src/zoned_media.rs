//! The disks of a dm-zoned set that are devices of a stack, for those who may wait: time passes until each bio is done.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::dm::zoned::format::{Media, MediaError};
use shingle_core::dm::zoned::{BLOCK_BYTES, BLOCK_SECTORS, Block, MemberNo, Rows, SetZone, ZoneSpace};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::Zone;

/// Disks of a set as devices of a stack that nobody else turns in the meantime.
pub struct StackMedia<'a> {
    stack: &'a mut Stack,
    devices: Rows<MemberNo, DeviceId>,
    port: PortId,
    now: Instant,
    space: ZoneSpace,
}

impl<'a> StackMedia<'a> {
    /// The set of `devices`, in the order of the table, from `now` on. Takes a zone report of each.
    ///
    /// # Errors
    /// If they are no set, or if a report fails.
    pub fn new(stack: &'a mut Stack, devices: &[DeviceId], now: Instant) -> Result<Self, MediaError> {
        let limits: Vec<_> = devices.iter().map(|id| stack.limits(*id)).collect();
        let space = ZoneSpace::new(&limits).map_err(|error| MediaError(format!("{error}")))?;
        let port = stack.open_port();
        let mut media = Self { stack, devices: devices.to_vec().into(), port, now, space };
        media.devices.numbers().try_for_each(|member| media.learn(member))?;
        Ok(media)
    }

    /// The time at which the last bio was done.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    fn learn(&mut self, member: MemberNo) -> Result<(), MediaError> {
        if !self.space.members()[member].is_zoned {
            return Ok(());
        }
        let room: Vec<Zone> = Vec::with_capacity(self.space.members()[member].zones as usize);
        let bio = Bio::new(Op::ReportZones, Sector::ZERO, 0, Payload::Zones(room));
        let bio = self.run(member, bio)?;
        let Payload::Zones(zones) = &bio.payload else { return Ok(()) };
        self.space.learn(member, zones).map_err(|error| MediaError(format!("device {member}: {error}")))
    }

    /// Sends `bio` to device `member` and lets time pass until it is back.
    fn run(&mut self, member: MemberNo, bio: Bio) -> Result<Box<Bio>, MediaError> {
        let what = format!("device {member}: {bio:?}");
        self.stack.submit(self.port, 0, self.devices[member], Box::new(bio));
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

    fn transfer(&mut self, op: Op, block: u64, bytes: usize, data: Data) -> Result<(), MediaError> {
        let (member, sector) = self.space.place(block);
        let sectors = (bytes / BLOCK_BYTES) as u32 * BLOCK_SECTORS;
        self.run(member, Bio::new(op, sector, sectors, Payload::Data(data))).map(drop)
    }
}

impl Media for StackMedia<'_> {
    fn space(&self) -> &ZoneSpace {
        &self.space
    }

    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        let data = Data::zeroed(to.len());
        self.transfer(Op::Read, block, to.len(), data.clone())?;
        data.read(0, to);
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError> {
        let data = Data::zeroed(from.len());
        data.write(0, from);
        self.transfer(Op::Write, block, from.len(), data)?;
        let zone = self.space.zone_of(block);
        let end = block - self.space.start(zone) + (from.len() / BLOCK_BYTES) as u64;
        self.space.set_wp(zone, Block(end as u32));
        Ok(())
    }

    fn reset(&mut self, zone: SetZone) -> Result<(), MediaError> {
        let (member, sector) = self.space.place(self.space.start(zone));
        self.run(member, Bio::new(Op::ZoneReset, sector, 0, Payload::None))?;
        self.space.set_wp(zone, Block::FIRST);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        for member in self.devices.numbers() {
            self.run(member, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None))?;
        }
        Ok(())
    }
}
