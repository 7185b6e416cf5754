//! A RAM disk: memory, and a number of servers that take their time.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::fmt;

use slab::Slab;

use super::error::{DriveError, Fault, check};
use super::live::Model;
use super::medium::Medium;
use super::service::{ServiceTime, queue_time};
use shingle_core::block::{Bio, BlockDevice, Cx, Event, Limits, Op, Reason, Status};
use shingle_core::random::Rng;
use shingle_core::time::Instant;

/// Parameters of a RAM disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RamConfig {
    /// Size of the device, in sectors.
    pub capacity: u64,
    /// Logical and physical block size, in bytes.
    pub block_bytes: u32,
    /// Whether it keeps what is written. If not, reads leave the memory of the bio as it is.
    pub memory_backed: bool,
    /// Bios that are served at once; the others wait in order of arrival.
    pub servers: u32,
    /// Time to serve a read.
    pub read: ServiceTime,
    /// Time to serve anything else.
    pub write: ServiceTime,
    /// Seed of the times.
    pub seed: u64,
}

impl RamConfig {
    /// A disk of `capacity` sectors with 512-byte blocks and one server that takes no time.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let (read, write) = (ServiceTime::NONE, ServiceTime::NONE);
        Self { capacity, block_bytes: 512, memory_backed: true, servers: 1, read, write, seed: 1 }
    }

    /// Time to serve.
    #[must_use]
    pub fn time(&self, is_read: bool) -> &ServiceTime {
        if is_read { &self.read } else { &self.write }
    }
}

/// The disk. It takes a bio's effect when its service ends, and keeps it without power: as memory with a battery.
pub struct RamDisk {
    limits: Limits,
    medium: Option<Medium>,
    config: RamConfig,
    rng: Rng,
    served: Slab<Box<Bio>>,
    /// Losses of power so far: a timer of before one is none.
    lifetime: u32,
    waiting: VecDeque<Box<Bio>>,
}

impl RamDisk {
    /// A disk of zeroes.
    ///
    /// # Errors
    /// If the parameters do not go together.
    pub fn new(config: &RamConfig) -> Result<Self, DriveError> {
        Self::build(config).map_err(DriveError::of("RAM disk"))
    }

    fn build(config: &RamConfig) -> Result<Self, Fault> {
        let limits = Limits {
            logical_block_bytes: config.block_bytes,
            physical_block_bytes: config.block_bytes,
            max_write_zeroes: Some(u32::MAX),
            max_discard: Some(u32::MAX),
            ..Limits::new(config.capacity)
        };
        limits.validate()?;
        config.read.check("read time")?;
        config.write.check("write time")?;
        check([(config.servers > 0, "servers", "is 0; it has to be at least 1")])?;
        Ok(Self {
            limits,
            medium: config.memory_backed.then(Medium::default),
            config: config.clone(),
            rng: Rng::new(config.seed),
            served: Slab::new(),
            lifetime: 0,
            waiting: VecDeque::new(),
        })
    }

    /// When a bio is done that comes at `at` behind what is here `now`, at mean times.
    #[must_use]
    pub fn foresee(&self, now: Instant, at: Instant, is_read: bool) -> Instant {
        let time = self.config.time(is_read).mean();
        let ahead = (self.waiting.len() + self.served.len() + 1) as u64;
        at.max(now + queue_time(time, ahead.saturating_sub(self.config.servers.into()), self.config.servers)) + time
    }

    fn serve(&mut self, cx: &mut Cx<'_>) {
        while self.served.len() < self.config.servers as usize
            && let Some(bio) = self.waiting.pop_front()
        {
            let at = cx.now() + self.config.time(bio.op == Op::Read).draw(&mut self.rng);
            let place = self.served.insert(bio);
            cx.wake_at(at, timer(self.lifetime, place));
        }
    }
}

/// The word of a timer: of a bio in this place, since the last loss of power.
pub(super) fn timer(lifetime: u32, place: usize) -> u64 {
    u64::from(lifetime) << 32 | place as u64
}

/// The place of the bio that this is the timer of; `None` if it was set before the last loss of power.
pub(super) fn place_of(word: u64, lifetime: u32) -> Option<usize> {
    (word >> 32 == u64::from(lifetime)).then_some(word as u32 as usize)
}

/// Of a write that the power caught, any blocks get through. No space for them is as good as no power.
pub(super) fn land_some(medium: &mut Medium, bio: &Bio, block: u32, rng: &mut Rng) {
    if bio.op != Op::Write {
        return;
    }
    for at in (0..bio.sectors).step_by(block as usize).filter(|_| rng.chance(1, 2)) {
        let _ = medium.write(bio.sector + u64::from(at), block, &bio.payload.slice(at, block));
    }
}

/// What a bio does to a disk without zones, at once; without a medium the disk keeps nothing.
pub(super) fn execute(medium: &mut Option<Medium>, bio: &mut Bio) -> Status {
    if !matches!(bio.op, Op::Read | Op::Write | Op::WriteZeroes | Op::Discard | Op::Flush) {
        return bio.blame(Reason::NotSupported);
    }
    let Some(medium) = medium else { return Status::Ok };
    medium.execute(bio).map_or_else(|reason| bio.blame(reason), |()| Status::Ok)
}

impl BlockDevice for RamDisk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.waiting.push_back(bio);
        self.serve(cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Event::Timer(word) = event else { return };
        let place = place_of(word, self.lifetime);
        let Some(mut bio) = place.and_then(|place| self.served.try_remove(place)) else { return };
        let status = execute(&mut self.medium, &mut bio);
        cx.complete(bio, status);
        self.serve(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.served.iter().for_each(|(_, bio)| visit(bio));
        self.waiting.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let RamConfig { capacity, servers, read, write, .. } = &self.config;
        write!(out, "ram: {capacity} sectors, {servers} servers, read {read}, write {write}")
    }
}

impl Model for RamDisk {
    fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    fn medium_mut(&mut self) -> Option<&mut Medium> {
        self.medium.as_mut()
    }

    fn lose_power(&mut self, rng: &mut Rng, cx: &mut Cx<'_>) {
        self.lifetime = self.lifetime.wrapping_add(1);
        for bio in self.served.drain() {
            let block = self.limits.block_sectors();
            self.medium.iter_mut().for_each(|medium| land_some(medium, &bio, block, rng));
            cx.fail(bio, Reason::NoPower);
        }
        self.waiting.drain(..).for_each(|bio| cx.fail(bio, Reason::NoPower));
    }
}
