//! One stack with a full RAM disk, and all layers that are compared over it.

use std::collections::BTreeMap;

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::device::null::{NullConfig, NullDevice};
use shingle_core::dm::crypt::Ciphers;
use shingle_core::dm::{Resolver, add_table, parse_table};
use shingle_core::mapper::stats::DmStats;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

use super::clone_layer::CloneLayer;
use super::per_bio_layer::PerBioLayer;
use super::{Layers, Target, Way};

/// Sectors that are written at a time when the disk is filled.
const FILL: u32 = (1 << 20) / 512;

/// A stack with its disk, and the top of each way down.
pub struct Stacks {
    pub stack: Stack,
    pub port: PortId,
    disk: DeviceId,
    tops: BTreeMap<Layers, DeviceId>,
}

impl Stacks {
    /// A RAM disk of `sectors`, a multiple of 1 MiB, all of which has been written: reads touch memory.
    pub fn new(sectors: u64) -> Result<Self, String> {
        let config = NullConfig { memory_backed: true, block_bytes: 512, ..NullConfig::new(sectors) };
        let disk = NullDevice::new(&config).map_err(|error| error.to_string())?;
        let mut stack = Stack::new();
        let disk = add(&mut stack, Box::new(disk))?;
        let port = stack.open_port();
        let mut stacks = Self { stack, port, disk, tops: BTreeMap::new() };
        stacks.fill(sectors)?;
        Ok(stacks)
    }

    fn fill(&mut self, sectors: u64) -> Result<(), String> {
        let data = Data::zeroed(FILL as usize * 512);
        data.fill(0xa5);
        let mut bio = Box::new(Bio::new(Op::Write, Sector::ZERO, FILL, Payload::Data(data)));
        for at in (0..sectors).step_by(FILL as usize) {
            bio.sector = Sector(at);
            bio = self.run(self.disk, bio, Instant::ZERO)?;
        }
        Ok(())
    }

    /// Sends `bio` to `top` and lets the stack turn until it is back.
    #[inline]
    pub fn run(&mut self, top: DeviceId, bio: Box<Bio>, now: Instant) -> Result<Box<Bio>, String> {
        let (op, sector) = (bio.op, bio.sector);
        self.stack.submit(self.port, 0, top, bio);
        self.stack.turn(now);
        match self.stack.poll_completion(self.port) {
            Some(done) if done.status.is_ok() => Ok(done.bio),
            Some(done) => Err(format!("{} at sector {sector} of the RAM disk failed: {}", op.name(), done.status)),
            None => Err(format!("{} at sector {sector} of the RAM disk did not complete at once", op.name())),
        }
    }

    /// The device at which bios for `layers` go in; what is missing is built.
    pub fn top(&mut self, layers: Option<Layers>) -> Result<DeviceId, String> {
        let Some(layers) = layers else { return Ok(self.disk) };
        if let Some(top) = self.tops.get(&layers) {
            return Ok(*top);
        }
        let deeper = Layers { depth: layers.depth - 1, ..layers };
        let below = self.top(Some(deeper).filter(|layers| layers.depth > 0))?;
        let top = self.layer(layers, below)?;
        self.tops.insert(layers, top);
        Ok(top)
    }

    fn layer(&mut self, Layers { target, way, .. }: Layers, below: DeviceId) -> Result<DeviceId, String> {
        match way {
            Way::Mapped => self.table(target, below),
            Way::Counted => {
                let table = self.table(target, below)?;
                self.count(table)?;
                Ok(table)
            }
            Way::PerBioData => {
                let layer = PerBioLayer::new(below, self.stack.limits(below), 0);
                add(&mut self.stack, Box::new(layer))
            }
            Way::Cloned => {
                // What linear does to a clone is done by the layer itself; other targets get it from there.
                let below = if target == Target::Linear { below } else { self.table(target, below)? };
                let layer = CloneLayer::new(below, self.stack.limits(below), 0);
                add(&mut self.stack, Box::new(layer))
            }
        }
    }

    /// Switches statistics on: one region with one area.
    fn count(&mut self, device: DeviceId) -> Result<(), String> {
        let mut stats = DmStats::new();
        let sectors = self.stack.limits(device).capacity;
        stats.message(&["@stats_create", "-", "/1"], sectors, Instant::ZERO).map_err(|error| error.to_string())?;
        self.stack.observe(device, Some(Box::new(stats)));
        Ok(())
    }

    /// A table of one line, from its text.
    fn table(&mut self, target: Target, below: DeviceId) -> Result<DeviceId, String> {
        let sectors = self.stack.limits(below).capacity;
        let text = match target {
            Target::Linear => format!("0 {sectors} linear ram 0"),
            Target::Striped => format!("0 {sectors} striped 2 128 ram 0 ram {}", sectors / 2),
            Target::Zero => format!("0 {sectors} zero"),
            Target::Crypt => format!("0 {sectors} crypt aes-xts-plain64 {} 0 ram 0", key()),
        };
        let lines = parse_table(&text).map_err(|error| format!("`{text}`: {error}"))?;
        add_table(&mut self.stack, &lines, &Ram(below)).map_err(|error| format!("`{text}`: {error}"))
    }
}

/// A key of 64 bytes, in hexadecimal.
fn key() -> String {
    (0..64).map(|byte| format!("{byte:02x}")).collect()
}

/// What a table is told: the one device that there is, whatever it is called, and the ciphers of this machine.
struct Ram(DeviceId);

impl Resolver for Ram {
    fn device(&self, _: &str) -> Result<DeviceId, Vec<String>> {
        Ok(self.0)
    }

    fn ciphers(&self) -> &'static dyn Ciphers {
        shingle_sys::crypto::ciphers()
    }
}

fn add(stack: &mut Stack, device: Box<dyn BlockDevice>) -> Result<DeviceId, String> {
    stack.add(device).map_err(|error| error.to_string())
}
