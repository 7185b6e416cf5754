//! One stack with a full RAM disk, and all layers that are compared over it.

use std::collections::BTreeMap;

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::device::null::{NullConfig, NullDevice};
use shingle_core::sector::Sector;
use shingle_core::target::{add_table, parse_table};
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
        let limits = self.stack.limits(below).clone();
        match way {
            Way::Mapped => self.table(target, below),
            Way::PerBioData => add(&mut self.stack, Box::new(PerBioLayer::new(below, &limits, 0))),
            Way::Cloned => add(&mut self.stack, Box::new(CloneLayer::new(below, &limits, 0))),
        }
    }

    /// A table of one line, from its text.
    fn table(&mut self, target: Target, below: DeviceId) -> Result<DeviceId, String> {
        let sectors = self.stack.limits(below).capacity;
        let text = match target {
            Target::Linear => format!("0 {sectors} linear ram 0"),
        };
        let lines = parse_table(&text).map_err(|error| format!("`{text}`: {error}"))?;
        add_table(&mut self.stack, &lines, &|_: &str| Ok(below)).map_err(|error| format!("`{text}`: {error}"))
    }
}

fn add(stack: &mut Stack, device: Box<dyn BlockDevice>) -> Result<DeviceId, String> {
    stack.add(device).map_err(|error| error.to_string())
}
