//! A zoned SSD in virtual time, used as code uses a device that blocks.

use shingle_core::block::{Bio, Completion, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::Zone;
use shingle_drives::{LiveDrive, ZnsConfig, ZnsSsd};

use crate::log::{BLOCK, Drive};

const BLOCK_SECTORS: u32 = BLOCK as u32 / 512;
const ZONES: u32 = 8;

/// The stack, and the time.
pub struct Machine {
    stack: Stack,
    port: PortId,
    /// The drive itself, whose power can be cut.
    drive: DeviceId,
    /// What it is used through: the zone write plug above it.
    disk: DeviceId,
    now: Instant,
    power_goes: Option<Instant>,
}

impl Machine {
    /// A drive of eight zones with a volatile buffer. `seed` decides what a loss of power leaves.
    ///
    /// # Panics
    /// Never: its parameters go together.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let us = Duration::from_micros;
        let times = ZnsConfig {
            write_command: us(10),
            completion: us(4),
            program: us(400),
            read: us(50),
            ..ZnsConfig::new(ZONES)
        };
        // 16 blocks are programmed at once: what is short of that waits in the buffer for more, or for a flush.
        let flash = ZnsConfig { program_unit_bytes: 16 * BLOCK as u32, page_bytes: 16 * BLOCK as u32, ..times };
        let config = ZnsConfig { write_cache: true, memory_backed: true, reset: us(1000), ..flash };
        let model = Box::new(ZnsSsd::new(config).expect("parameters that go together"));
        let mut stack = Stack::new();
        let drive = stack.add(Box::new(LiveDrive::new(model, None, seed).expect("a drive"))).expect("room");
        let plug = ZonePlug::new(drive, stack.limits(drive), PlugOptions::default()).expect("zones");
        let disk = stack.add(Box::new(plug)).expect("room");
        let port = stack.open_port();
        Self { stack, port, drive, disk, now: Instant::ZERO, power_goes: None }
    }

    /// The time, in nanoseconds since the beginning.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The power goes at this moment, whatever is under way then.
    pub fn cut_power_at(&mut self, at: Instant) {
        self.power_goes = Some(at);
    }

    /// The power is back, with what was durable. Cuts it first, if its time has not come.
    pub fn power_on(&mut self) {
        if self.power_goes.take().is_some() {
            self.cut();
        }
        self.stack.with_device(self.drive, LiveDrive::restore_power).expect("the drive");
    }

    fn cut(&mut self) {
        self.stack.with_device(self.drive, LiveDrive::cut_power).expect("the drive");
    }

    /// Goes on to what happens next, which may be the loss of power.
    fn pass_time(&mut self) {
        let next = self.stack.turn(self.now);
        match self.power_goes.filter(|at| next.is_none_or(|next| *at <= next)) {
            Some(at) => {
                (self.now, self.power_goes) = (at.max(self.now), None);
                self.stack.turn(self.now);
                self.cut();
            }
            None => self.now = self.now.max(next.unwrap_or(self.now)),
        }
    }

    /// Sends a request, and lets time pass until it ends.
    fn wait(&mut self, op: Op, sector: Sector, payload: Payload) -> Result<Payload, String> {
        let sectors = payload.bytes() as u32 / 512;
        self.stack.submit(self.port, 0, self.disk, Box::new(Bio::new(op, sector, sectors, payload)));
        loop {
            self.stack.turn(self.now);
            let Some(Completion { mut bio, status, .. }) = self.stack.poll_completion(self.port) else {
                self.pass_time();
                continue;
            };
            let payload = core::mem::take(&mut bio.payload);
            return if status.is_ok() { Ok(payload) } else { Err(bio.cause(status).to_string()) };
        }
    }
}

impl Drive for Machine {
    fn write(&mut self, block: u64, data: &[u8; BLOCK]) -> Result<(), String> {
        let memory = Data::zeroed(BLOCK);
        memory.write(0, data);
        self.wait(Op::Write, sector(block), Payload::Data(memory)).map(drop)
    }

    fn read(&mut self, block: u64) -> Result<[u8; BLOCK], String> {
        let read = self.wait(Op::Read, sector(block), Payload::Data(Data::zeroed(BLOCK)))?;
        let mut data = [0; BLOCK];
        read.segments()[0].read(0, &mut data);
        Ok(data)
    }

    fn flush(&mut self) -> Result<(), String> {
        self.wait(Op::Flush, Sector::ZERO, Payload::None).map(drop)
    }

    fn zones(&mut self) -> Result<Vec<(u64, u64, u64)>, String> {
        let room = Payload::Zones(Vec::with_capacity(ZONES as usize));
        let Payload::Zones(zones) = self.wait(Op::ReportZones, Sector::ZERO, room)? else { return Ok(Vec::new()) };
        let blocks = |sectors: u64| sectors / u64::from(BLOCK_SECTORS);
        let told = |zone: &Zone| (blocks(zone.start.0), blocks(zone.wp.0), blocks(zone.start.0 + zone.capacity));
        Ok(zones.iter().map(told).collect())
    }
}

fn sector(block: u64) -> Sector {
    Sector(block * u64::from(BLOCK_SECTORS))
}
