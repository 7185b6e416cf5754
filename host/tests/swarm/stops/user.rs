//! Who uses the top of a tower, with several requests in flight, and compares what comes back with a model.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_core::block::{Bio, Completion, Data, DeviceId, Flags, Limits, Op, Payload, PortId};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_host::shard::{Pump, Source, SourceCx};
use shingle_sim::volume::{BLOCK_BYTES, BLOCK_SECTORS, Volume, VolumeRequest, read_stamps, stamp};
use shingle_sys::Completion as Done;

use super::disk::Health;

/// What is known of the volume through all lives.
pub struct Ledger {
    pub volume: Volume,
    /// Whether what is discarded reads as zeroes.
    pub forgets: bool,
    pub requests: u64,
    /// Health of each disk: requests may fail when one is ill.
    pub health: Vec<Rc<Cell<Health>>>,
    /// The first broken promise.
    pub broken: Option<String>,
}

impl Ledger {
    pub fn new(volume: Volume, forgets: bool) -> Self {
        Self { volume, forgets, requests: 0, health: Vec::new(), broken: None }
    }

    /// True if a disk was ill at `now` or before.
    pub fn excuses(&self, now: Instant) -> bool {
        self.health.iter().any(|health| health.get().excuses(now))
    }
}

/// The user.
pub struct User {
    ledger: Rc<RefCell<Ledger>>,
    device: DeviceId,
    port: Option<PortId>,
    rng: Rng,
    /// The next block to look at, before anything is written.
    look_at: Option<u32>,
    pending: BTreeMap<u64, VolumeRequest>,
    left: u64,
    depth: usize,
    is_stopping: bool,
    is_hasty: bool,
}

/// Blocks that a look takes at a time.
const LOOK: u32 = 16;

impl User {
    pub fn new(ledger: Rc<RefCell<Ledger>>, device: DeviceId, looks: bool, mut rng: Rng) -> Self {
        let (left, depth) = (rng.below(120), 1 + rng.below(12) as usize);
        let look_at = (looks && rng.chance(5, 6)).then_some(0);
        let pending = BTreeMap::new();
        Self { ledger, device, port: None, rng, look_at, pending, left, depth, is_stopping: false, is_hasty: false }
    }

    /// Has it leave its requests behind when it is to stop.
    #[must_use]
    pub fn hasty(self) -> Self {
        Self { is_hasty: true, ..self }
    }

    fn judge(&mut self, done: Completion, ledger: &mut Ledger, now: Instant) -> Result<(), String> {
        let Completion { tag, bio, status } = done;
        let request = self.pending.remove(&tag).ok_or_else(|| format!("request {tag} ended twice"))?;
        if !status.is_ok() && ledger.excuses(now) {
            return ledger.volume.fail(tag).map(drop).map_err(|(rule, what)| format!("{rule:?}: {what}"));
        }
        if !status.is_ok() {
            return Err(format!("request {tag}: {request}: {status} without a reason: {:?}", bio.why()));
        }
        let seen: Vec<_> = read_stamps(&bio.payload).collect();
        let told = ledger.volume.succeed(tag, seen.iter().copied().filter(|_| request.op == Op::Read));
        told.map_err(|(rule, what)| format!("{rule:?}: {what}"))?;
        if self.look_at.is_some() {
            seen.into_iter().zip(request.block..).for_each(|(seen, block)| ledger.volume.pin(block, seen));
        }
        Ok(())
    }

    fn submit_some(&mut self, ledger: &mut Ledger, cx: &mut SourceCx<'_>) {
        if let Some(at) = self.look_at {
            if !self.pending.is_empty() {
                return;
            }
            let room = ledger.volume.blocks() - at;
            if room > 0 {
                self.look_at = Some(at + LOOK.min(room));
                return self.submit(VolumeRequest::new(Op::Read, at, LOOK.min(room)), ledger, cx);
            }
            self.look_at = None;
        }
        ledger.volume.recovered();
        while self.left > 0 && self.pending.len() < self.depth {
            if self.rng.chance(1, 8) {
                return cx.wake_at(cx.now() + Duration::from_micros(1 + self.rng.below(3_000)));
            }
            self.left -= 1;
            let request = self.draft(ledger, cx.stack.limits(self.device));
            self.submit(request, ledger, cx);
        }
    }

    fn submit(&mut self, request: VolumeRequest, ledger: &mut Ledger, cx: &mut SourceCx<'_>) {
        let number = ledger.volume.submit(request, cx.now());
        ledger.requests += 1;
        let payload = if request.op.has_data() {
            let data = Data::zeroed(request.blocks as usize * BLOCK_BYTES);
            data.fill(0xa5);
            if request.op == Op::Write {
                stamp(&data, number, request.block);
            }
            Payload::Data(data)
        } else {
            Payload::None
        };
        let sector = Sector(u64::from(request.block) * u64::from(BLOCK_SECTORS));
        let bio = Bio::new(request.op, sector, request.blocks * BLOCK_SECTORS, payload).with_flags(request.flags);
        let port = *self.port.get_or_insert_with(|| cx.open_port());
        cx.stack.submit(port, number, self.device, Box::new(bio));
        self.pending.insert(number, request);
    }

    fn draft(&mut self, ledger: &Ledger, limits: &Limits) -> VolumeRequest {
        let blocks = ledger.volume.blocks();
        let block = self.rng.below(blocks.into()) as u32;
        let length = (1 + self.rng.below(8) as u32).min(blocks - block);
        let op = match self.rng.below(20) {
            0 => return VolumeRequest::FLUSH,
            1 if limits.max_write_zeroes.is_some() => Op::WriteZeroes,
            2 if ledger.forgets => Op::Discard,
            3..7 => Op::Read,
            _ => Op::Write,
        };
        let flags = match self.rng.below(12) {
            0 if op == Op::Write => Flags::FUA,
            1 if op == Op::Write => Flags::PREFLUSH,
            _ => Flags::NONE,
        };
        VolumeRequest { flags, ..VolumeRequest::new(op, block, length) }
    }
}

impl Source for User {
    fn on_completion(&mut self, _: Done, _: &mut SourceCx<'_>) {}

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        let ledger = self.ledger.clone();
        let ledger = &mut *ledger.borrow_mut();
        while let Some(done) = self.port.and_then(|port| cx.stack.poll_completion(port)) {
            if let Err(what) = self.judge(done, ledger, cx.now()) {
                ledger.broken.get_or_insert(what);
            }
        }
        if self.is_stopping {
            return if self.pending.is_empty() || self.is_hasty { Pump::Done } else { Pump::Idle };
        }
        self.submit_some(ledger, cx);
        Pump::Idle
    }

    fn stop(&mut self, _: &mut SourceCx<'_>) {
        self.is_stopping = true;
    }
}
