//! A file as a disk on the simulated kernel, and one host that uses it and compares.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Completion, Cx, Data, DeviceId, Event, Flags, Limits, Op, Payload};
use shingle_core::block::{PortId, Stack, Status};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_host::disk::file::{self, FileDisk, Options};
use shingle_sim::volume::{BLOCK_BYTES, BLOCK_SECTORS, Volume, VolumeRequest, read_stamps, stamp};
use shingle_sys::RingHandle;

use super::kernel::{Bug, KERNEL, Kernel, Shared};
use super::tree::{ROOT, Tree};

const NAME: &str = "disk.img";
pub const BLOCKS: u32 = 64;
pub const PATH: &str = "/disk.img";
/// After this time a disk tells of a command without an answer.
const TIMEOUT: Duration = Duration::from_millis(30_000);
/// Memory as direct I/O wants it and nobody has it: everything is copied.
const NOWHERE: u32 = 1 << 31;

/// A file on which nothing was written, safe on the disk.
pub fn new_tree() -> Tree {
    let mut tree = Tree::new(BLOCK_BYTES);
    let node = tree.make(ROOT, NAME, false);
    tree.resize(node, BLOCKS as usize * BLOCK_BYTES);
    tree.sync_all();
    tree
}

/// The disk, driven by its kernel.
struct SimulatedFile {
    disk: FileDisk,
    kernel: Shared,
}

impl BlockDevice for SimulatedFile {
    fn limits(&self) -> &Limits {
        self.disk.limits()
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.kernel.0.borrow().bug == Bug::NoPreflush {
            bio.flags = bio.flags.without(Flags::PREFLUSH);
        }
        if self.kernel.0.borrow().bug == Bug::HastyFlush && bio.op == Op::Flush {
            self.kernel.0.borrow_mut().tree.sync_all();
            return cx.complete(bio, Status::Ok);
        }
        self.kernel.0.borrow_mut().now = cx.now();
        self.disk.submit(bio, cx);
        self.kernel.drive(&mut self.disk, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if !matches!(event, Event::Timer(KERNEL)) {
            self.disk.on_event(event, cx);
        }
        self.kernel.drive(&mut self.disk, cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.disk.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.disk.describe(out)
    }
}

/// One start of the disk, until the power goes.
struct Life<'a> {
    volume: &'a mut Volume,
    rng: &'a mut Rng,
    kernel: Shared,
    stack: Stack,
    port: PortId,
    disk: DeviceId,
    now: Instant,
    pending: BTreeMap<u64, VolumeRequest>,
}

/// What a run without a broken promise did.
#[derive(Debug, Default)]
pub struct Tally {
    pub cuts: u64,
    pub faults: u64,
    pub errors: u64,
    /// Moments at which the disk had something without an answer to tell of.
    pub overdue: u64,
}

/// Runs one seed.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64, bug: Bug) -> Result<Tally, String> {
    let (mut rng, mut volume, mut tree) = (Rng::new(seed), Volume::new(BLOCKS), new_tree());
    let mut tally = Tally::default();
    for _ in 0..=rng.below(4) {
        let kernel = kernel(tree, &mut rng, bug);
        let mut life = Life::start(&mut volume, &mut rng, kernel.clone())?;
        life.audit().and_then(|()| life.host(&mut tally)).map_err(|what| format!("seed {seed}: {what}"))?;
        drop(life);
        (tally.cuts, tally.faults) = (tally.cuts + 1, tally.faults + kernel.0.borrow().all_faults);
        tree = kernel.0.borrow().cut_power(&mut rng);
        volume.power_cut();
    }
    audit(&mut volume, &mut rng, tree).map_err(|what| format!("seed {seed}, at the end: {what}"))?;
    Ok(tally)
}

/// Starts a disk of what a loss of power has left, and reads all of it.
pub fn audit(volume: &mut Volume, rng: &mut Rng, left: Tree) -> Result<(), String> {
    let kernel = kernel(left, rng, Bug::None);
    Life::start(volume, rng, kernel)?.audit()
}

pub fn kernel(tree: Tree, rng: &mut Rng, bug: Bug) -> Shared {
    let mut kernel =
        Kernel::new(tree, Rng::new(rng.below(u64::MAX)), (Duration::from_micros(10), Duration::from_micros(500)));
    (kernel.sector, kernel.bug) = (BLOCK_BYTES, bug);
    kernel.direct = rng.chance(1, 2).then_some((NOWHERE, 512));
    Shared(Rc::new(RefCell::new(kernel)))
}

impl<'a> Life<'a> {
    fn start(volume: &'a mut Volume, rng: &'a mut Rng, kernel: Shared) -> Result<Self, String> {
        let ring = RingHandle::over(kernel.clone());
        let disk = file::open_on(Rc::new(kernel.clone()), Path::new(PATH), &Options::default(), ring);
        let disk = disk.map_err(|error| error.to_string())?;
        let mut stack = Stack::new();
        let (disk, kernel) = (SimulatedFile { disk, kernel: kernel.clone() }, kernel);
        let disk = stack.add(Box::new(disk)).map_err(|error| error.to_string())?;
        let port = stack.open_port();
        Ok(Self { volume, rng, kernel, stack, port, disk, now: Instant::ZERO, pending: BTreeMap::new() })
    }

    /// Reads everything, before anything is written.
    fn audit(&mut self) -> Result<(), String> {
        for block in (0..BLOCKS).step_by(16) {
            let mut left = None;
            self.submit(VolumeRequest::new(Op::Read, block, 16));
            while left.is_none() {
                self.pass_time()?;
                left = self.stack.poll_completion(self.port);
            }
            let done = left.expect("it came");
            let seen: Vec<_> = read_stamps(&done.bio.payload).collect();
            self.judge(done)?;
            seen.into_iter().zip(block..).for_each(|(seen, block)| self.volume.pin(block, seen));
        }
        self.volume.recovered();
        Ok(())
    }

    /// Requests at random, some of them at the same time, until the power is to go.
    fn host(&mut self, tally: &mut Tally) -> Result<(), String> {
        let (mut left, depth) = (50 + self.rng.below(150), 1 + self.rng.below(8) as usize);
        // Who waits for the last answer is sure of more than who does not.
        let waits = self.rng.chance(1, 2);
        {
            let kernel = &mut *self.kernel.0.borrow_mut();
            (kernel.troubled, kernel.stalls) = (self.rng.chance(1, 2), self.rng.chance(1, 4));
        }
        loop {
            while left > 0 && self.pending.len() < depth {
                let request = self.draft();
                self.submit(request);
                left -= 1;
            }
            if self.pending.is_empty() || left == 0 && !waits {
                return Ok(());
            }
            self.pass_time()?;
            while let Some(done) = self.stack.poll_completion(self.port) {
                tally.errors += u64::from(!done.status.is_ok());
                self.judge(done)?;
            }
            tally.overdue += u64::from(self.look_for_overdue()?);
        }
    }

    fn pass_time(&mut self) -> Result<(), String> {
        let next = self.stack.turn(self.now);
        if next.is_none() && !self.stack.has_completions(self.port) {
            return Err(format!("stuck: {:?}", self.volume.oldest()));
        }
        self.now = self.now.max(next.unwrap_or(self.now));
        self.stack.turn(self.now);
        Ok(())
    }

    /// Whether something has been without an answer for too long, and the disk tells of that and of nothing else.
    fn look_for_overdue(&self) -> Result<bool, String> {
        let oldest = self.volume.oldest().filter(|(since, _)| self.now.since(*since) >= TIMEOUT);
        let disk = self.stack.device::<SimulatedFile>(self.disk).ok_or("the disk is gone")?;
        let told = disk.disk.overdue(self.now);
        if told.is_some() != oldest.is_some() {
            return Err(format!("overdue: {oldest:?}, and the disk tells of {told:?}"));
        }
        Ok(told.is_some())
    }

    fn draft(&mut self) -> VolumeRequest {
        let block = self.rng.below(BLOCKS.into()) as u32;
        let blocks = 1 + self.rng.below(u64::from(BLOCKS - block).min(8)) as u32;
        let flags = [Flags::NONE, Flags::NONE, Flags::FUA, Flags::PREFLUSH, Flags::FUA.with(Flags::PREFLUSH)];
        let flags = flags[self.rng.below(5) as usize];
        match self.rng.below(12) {
            0 => VolumeRequest::FLUSH,
            1..4 => VolumeRequest::new(Op::Read, block, blocks),
            4 => VolumeRequest::new(Op::Discard, block, blocks),
            5 => VolumeRequest {
                flags: flags.with(Flags::NO_UNMAP),
                ..VolumeRequest::new(Op::WriteZeroes, block, blocks)
            },
            6 => VolumeRequest { flags, ..VolumeRequest::new(Op::WriteZeroes, block, blocks) },
            _ => VolumeRequest { flags, ..VolumeRequest::new(Op::Write, block, blocks) },
        }
    }

    fn submit(&mut self, request: VolumeRequest) {
        let number = self.volume.submit(request, self.now);
        let payload = if request.op.has_data() { self.memory(request, number) } else { Payload::None };
        let sector = Sector(u64::from(request.block) * u64::from(BLOCK_SECTORS));
        let bio = Bio::new(request.op, sector, request.blocks * BLOCK_SECTORS, payload).with_flags(request.flags);
        self.pending.insert(number, request);
        self.stack.submit(self.port, number, self.disk, Box::new(bio));
    }

    /// Memory in one piece, or in two.
    fn memory(&mut self, request: VolumeRequest, number: u64) -> Payload {
        let data = Data::zeroed(request.blocks as usize * BLOCK_BYTES);
        if request.op == Op::Write {
            stamp(&data, number, request.block);
        } else {
            data.fill(0xa5);
        }
        if request.blocks < 2 || self.rng.chance(3, 4) {
            return Payload::Data(data);
        }
        let front = (1 + self.rng.below(u64::from(request.blocks) - 1)) as usize * BLOCK_BYTES;
        Payload::Segments(vec![data.slice(0, front), data.slice(front, data.len() - front)])
    }

    fn judge(&mut self, Completion { tag, bio, status }: Completion) -> Result<(), String> {
        let request = self.pending.remove(&tag).ok_or("a bio ended twice")?;
        if request.op.has_data() && bio.payload.bytes() != request.blocks as usize * BLOCK_BYTES {
            return Err(format!("request {tag}: {request}: came back without its memory"));
        }
        if status.is_ok() {
            let flushes = request.op == Op::Flush || request.flags.has(Flags::PREFLUSH);
            let earlier = self.pending.range(..tag).find(|(_, earlier)| flushes && earlier.op.is_write());
            if let Some((number, earlier)) = earlier {
                return Err(format!("request {tag}: {request}: done before request {number}: {earlier}"));
            }
            let seen = self.volume.succeed(tag, read_stamps(&bio.payload));
            return seen.map_err(|(rule, what)| format!("{rule:?}: {what}"));
        }
        let refused = request.op == Op::Discard && status == Status::NotSupported;
        if self.kernel.0.borrow().all_faults == 0 && !refused {
            return Err(format!("request {tag}: {request}: {status} without a fault: {:?}", bio.cause(status)));
        }
        self.volume.fail(tag).map(drop).map_err(|(rule, what)| format!("{rule:?}: {what}"))
    }
}
