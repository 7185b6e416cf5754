//! A host: keeps requests in flight, everywhere, in a hot place, in streams, and over whole chunks.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::super::base::{FLAGS, draw_flags, weighted};
use super::ledger::{Ledger, Shared};
use super::scenario::{Deed, Habits};
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
    habits: Habits,
    rng: Rng,
    pending: BTreeMap<u64, VolumeRequest>,
    /// What it will do before anything else.
    planned: VecDeque<VolumeRequest>,
    /// Where its streams go on.
    streams: Vec<u32>,
    blocks: u32,
}

impl Host {
    pub fn new(shared: Shared, device: DeviceId, mut habits: Habits, mut rng: Rng) -> Self {
        let blocks = shared.borrow().volume.blocks();
        habits.chunk = habits.chunk.min(blocks);
        let streams = (0..habits.streams).map(|_| rng.below(blocks.into()) as u32).collect();
        Self { shared, device, habits, rng, pending: BTreeMap::new(), planned: VecDeque::new(), streams, blocks }
    }

    /// Has it write all of the volume first.
    #[must_use]
    pub fn filling(mut self) -> Self {
        self.plan(0, self.blocks);
        self
    }
}

impl Actor for Host {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        while let Some(back) = io.completion() {
            if let Some(asked) = self.pending.remove(&back.tag) {
                ledger.complete(asked, &back, io.stack, io.now());
            }
        }
        ledger.log.collect_trace(io.stack);
        self.submit_some(ledger, io);
    }

    fn is_done(&self) -> bool {
        self.pending.is_empty() && self.shared.borrow().log.left == 0
    }
}

impl Host {
    fn submit_some(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) {
        while (self.pending.len() as u32) < self.habits.depth && ledger.log.left > 0 && !ledger.is_over() {
            if ledger.pause > io.now() {
                return io.wake_at(ledger.pause);
            }
            if self.rng.chance(1, 16) {
                return io.wake_at(io.now() + Duration::from_micros(1 + self.rng.below(2_000)));
            }
            let request = self.draft(ledger);
            self.submit(request, ledger, io);
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
        if request.blocks < 2 || self.rng.chance(3, 4) {
            return Payload::Data(data);
        }
        let front = (1 + self.rng.below(u64::from(request.blocks) - 1)) as usize * BLOCK_BYTES;
        Payload::Segments(vec![data.slice(0, front), data.slice(front, data.len() - front)])
    }

    fn draft(&mut self, ledger: &mut Ledger) -> VolumeRequest {
        if let Some(request) = self.planned.pop_front() {
            return request;
        }
        let (deed, name) = weighted(&mut self.rng, &Deed::ALL, &self.habits.weights);
        ledger.log.note(name);
        match deed {
            Deed::Write => self.anywhere(Op::Write).flagged(self.draw_flags()),
            Deed::Read => self.anywhere(Op::Read),
            Deed::Zeroes => self.anywhere(Op::WriteZeroes).flagged(self.draw_flags()),
            Deed::Discard => self.anywhere(Op::Discard),
            Deed::Drop => self.chunk(Op::Discard),
            Deed::Flush => VolumeRequest::FLUSH,
            Deed::Stream => self.stream(),
            Deed::Fill => {
                let chunk = self.chunk(Op::Write);
                self.plan(chunk.block, chunk.blocks);
                self.planned.pop_front().unwrap_or(chunk)
            }
        }
    }

    fn draw_flags(&mut self) -> Flags {
        draw_flags(&mut self.rng, self.habits.flags, &FLAGS[..3])
    }

    /// So many blocks as a request takes, at most `room`.
    fn length(&mut self, room: u32) -> u32 {
        (1 + self.rng.below(self.habits.longest.into()) as u32).min(room)
    }

    fn anywhere(&mut self, op: Op) -> VolumeRequest {
        let hot = self.rng.chance(self.habits.hot, 10);
        let among = if hot { self.blocks.div_ceil(10) } else { self.blocks };
        let block = self.rng.below(among.into()) as u32;
        VolumeRequest::new(op, block, self.length(self.blocks - block))
    }

    fn chunk(&mut self, op: Op) -> VolumeRequest {
        let chunk = self.habits.chunk;
        let number = self.rng.below((self.blocks / chunk).into()) as u32;
        VolumeRequest::new(op, number * chunk, chunk)
    }

    /// The next piece of a stream; now and then the one after it comes first.
    fn stream(&mut self) -> VolumeRequest {
        let which = self.rng.below(self.streams.len() as u64) as usize;
        let piece = self.next_piece(which);
        if !self.rng.chance(self.habits.reorder, 100) {
            return piece;
        }
        let later = self.next_piece(which);
        self.planned.push_front(piece);
        later
    }

    fn next_piece(&mut self, which: usize) -> VolumeRequest {
        if self.rng.chance(1, 40) {
            // A new one begins where a chunk does, or anywhere.
            let chunk = self.chunk(Op::Write).block;
            self.streams[which] = if self.rng.chance(1, 2) { chunk } else { self.anywhere(Op::Write).block };
        }
        let block = self.streams[which];
        let blocks = self.length(self.blocks - block);
        self.streams[which] = (block + blocks) % self.blocks;
        VolumeRequest::new(Op::Write, block, blocks).flagged(self.draw_flags())
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
