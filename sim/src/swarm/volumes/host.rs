//! A host: keeps requests in flight, everywhere, in a hot place, in streams, and over whole chunks.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::super::base::{FLAGS, draw_flags, weighted};
use super::ledger::{Ledger, Shared};
use super::scenario::{Deed, Habits};
use crate::choices::Choices;
use crate::volume::{BLOCK_BYTES, BLOCK_SECTORS, VolumeRequest, stamp};
use crate::world::{Actor, Io};
use shingle_core::block::{Bio, Data, DeviceId, Flags, Op, Payload};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Duration;

/// The host.
pub(super) struct Host {
    shared: Shared,
    device: DeviceId,
    drafts: Drafts,
    choices: Choices,
    pending: BTreeMap<u64, VolumeRequest>,
    /// The recording that it follows has no further request.
    has_ended: bool,
}

/// Draws requests.
struct Drafts {
    habits: Habits,
    /// What it will do before anything else.
    planned: VecDeque<VolumeRequest>,
    /// Where its streams go on.
    streams: Vec<u32>,
    blocks: u32,
}

impl Host {
    pub fn new(shared: Shared, device: DeviceId, mut habits: Habits, mut choices: Choices) -> Self {
        let blocks = shared.borrow().volume.blocks();
        habits.chunk = habits.chunk.min(blocks);
        let rng = choices.rng();
        let streams = (0..habits.streams).map(|_| rng.below(blocks.into()) as u32).collect();
        let drafts = Drafts { habits, planned: VecDeque::new(), streams, blocks };
        Self { shared, device, drafts, choices, pending: BTreeMap::new(), has_ended: false }
    }

    /// Has it write all of the volume first.
    #[must_use]
    pub fn filling(mut self) -> Self {
        self.drafts.plan(0, self.drafts.blocks);
        self
    }
}

impl Actor for Host {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        while let Some(back) = io.completion() {
            if let Some(asked) = self.pending.remove(&back.tag) {
                if asked.op == Op::Flush && !back.status.is_ok() {
                    // As a file system does that is asked for fsync again.
                    self.drafts.planned.push_front(VolumeRequest::FLUSH);
                }
                ledger.complete(asked, &back, io.stack, io.now());
            }
        }
        ledger.log.collect_trace(io.stack);
        self.submit_some(ledger, io);
    }

    fn is_done(&self) -> bool {
        self.pending.is_empty() && (self.has_ended || self.shared.borrow().log.left == 0)
    }
}

impl Host {
    fn submit_some(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) {
        let depth = self.drafts.habits.depth;
        while (self.pending.len() as u32) < depth && ledger.log.left > 0 && !ledger.is_over() && !self.has_ended {
            if ledger.pause > io.now() {
                return io.wake_at(ledger.pause);
            }
            if self.choices.next_item("op").is_none() {
                self.has_ended = true;
                return ledger.log.host_has_ended();
            }
            let wait =
                self.choices.decide("wait-us", (None, &[]), |rng| rng.chance(1, 16).then(|| 1 + rng.below(2_000)));
            if let Some(wait) = wait {
                return io.wake_at(io.now() + Duration::from_micros(wait));
            }
            let drafts = &mut self.drafts;
            let request = self.choices.decide("request", (VolumeRequest::FLUSH, &[]), |rng| drafts.draft(ledger, rng));
            if let Some(request) = request.within(self.drafts.blocks) {
                self.submit(request, ledger, io);
            }
        }
    }

    fn submit(&mut self, request: VolumeRequest, ledger: &mut Ledger, io: &mut Io<'_>) {
        let number = ledger.submit(request, io.now());
        let payload = self.memory(request, number);
        self.pending.insert(number, request);
        io.submit(number, self.device, bio(request, payload));
    }

    /// Memory in one piece, or in two.
    fn memory(&mut self, request: VolumeRequest, number: u64) -> Payload {
        if !request.op.has_data() {
            return Payload::None;
        }
        let data = memory_of(request);
        if request.op == Op::Write {
            stamp(&data, number, request.block);
        }
        if request.blocks < 2 {
            return Payload::Data(data);
        }
        let front = self.choices.decide("front-blocks", (0, &[]), |rng| match rng.chance(3, 4) {
            true => 0,
            false => 1 + rng.below(u64::from(request.blocks) - 1),
        });
        let front = front as usize * BLOCK_BYTES;
        if front == 0 || front >= data.len() {
            return Payload::Data(data);
        }
        Payload::Segments(vec![data.slice(0, front), data.slice(front, data.len() - front)])
    }
}

impl Drafts {
    fn draft(&mut self, ledger: &mut Ledger, rng: &mut Rng) -> VolumeRequest {
        if let Some(request) = self.planned.pop_front() {
            return request;
        }
        let (deed, name) = weighted(rng, &Deed::ALL, &self.habits.weights);
        ledger.log.note(name);
        match deed {
            Deed::Write => self.anywhere(Op::Write, rng).flagged(self.draw_flags(rng)),
            Deed::Read => self.anywhere(Op::Read, rng),
            Deed::Zeroes => self.anywhere(Op::WriteZeroes, rng).flagged(self.draw_flags(rng)),
            Deed::Discard => self.anywhere(Op::Discard, rng),
            Deed::Drop => self.chunk(Op::Discard, rng),
            Deed::Flush => VolumeRequest::FLUSH,
            Deed::Stream => self.stream(rng),
            Deed::Fill => {
                let chunk = self.chunk(Op::Write, rng);
                self.plan(chunk.block, chunk.blocks);
                self.planned.pop_front().unwrap_or(chunk)
            }
        }
    }

    fn draw_flags(&self, rng: &mut Rng) -> Flags {
        draw_flags(rng, self.habits.flags, &FLAGS[..3])
    }

    /// So many blocks as a request takes, at most `room`.
    fn length(&self, room: u32, rng: &mut Rng) -> u32 {
        (1 + rng.below(self.habits.longest.into()) as u32).min(room)
    }

    fn anywhere(&self, op: Op, rng: &mut Rng) -> VolumeRequest {
        let hot = rng.chance(self.habits.hot, 10);
        let among = if hot { self.blocks.div_ceil(10) } else { self.blocks };
        let block = rng.below(among.into()) as u32;
        VolumeRequest::new(op, block, self.length(self.blocks - block, rng))
    }

    fn chunk(&self, op: Op, rng: &mut Rng) -> VolumeRequest {
        let chunk = self.habits.chunk;
        let number = rng.below((self.blocks / chunk).into()) as u32;
        VolumeRequest::new(op, number * chunk, chunk)
    }

    /// The next piece of a stream; now and then the one after it comes first.
    fn stream(&mut self, rng: &mut Rng) -> VolumeRequest {
        let which = rng.below(self.streams.len() as u64) as usize;
        let piece = self.next_piece(which, rng);
        if !rng.chance(self.habits.reorder, 100) {
            return piece;
        }
        let later = self.next_piece(which, rng);
        self.planned.push_front(piece);
        later
    }

    fn next_piece(&mut self, which: usize, rng: &mut Rng) -> VolumeRequest {
        if rng.chance(1, 40) {
            // A new one begins where a chunk does, or anywhere.
            let chunk = self.chunk(Op::Write, rng).block;
            self.streams[which] = if rng.chance(1, 2) { chunk } else { self.anywhere(Op::Write, rng).block };
        }
        let block = self.streams[which];
        let blocks = self.length(self.blocks - block, rng);
        self.streams[which] = (block + blocks) % self.blocks;
        VolumeRequest::new(Op::Write, block, blocks).flagged(self.draw_flags(rng))
    }

    /// Plans writes of all these blocks.
    fn plan(&mut self, from: u32, blocks: u32) {
        let mut at = from;
        while at < from + blocks {
            let piece = self.habits.longest.min(from + blocks - at);
            self.planned.push_back(VolumeRequest::new(Op::Write, at, piece));
            at += piece;
        }
    }
}

impl VolumeRequest {
    /// The request, or the part of it that a volume of so many blocks has.
    fn within(self, blocks: u32) -> Option<Self> {
        let has_range = self.op != Op::Flush;
        let left = self.blocks.min(blocks.saturating_sub(self.block));
        (!has_range || left > 0).then_some(Self { blocks: if has_range { left } else { 0 }, ..self })
    }

    fn flagged(self, flags: Flags) -> Self {
        Self { flags, ..self }
    }
}

/// Memory for the data of `request`, with something in it that a read has to replace.
pub(super) fn memory_of(request: VolumeRequest) -> Data {
    let data = Data::zeroed(request.blocks as usize * BLOCK_BYTES);
    data.fill(0xa5);
    data
}

/// The bio that asks for `request`.
pub(super) fn bio(request: VolumeRequest, payload: Payload) -> Box<Bio> {
    let sector = Sector(u64::from(request.block) * u64::from(BLOCK_SECTORS));
    Box::new(Bio::new(request.op, sector, request.blocks * BLOCK_SECTORS, payload).with_flags(request.flags))
}
