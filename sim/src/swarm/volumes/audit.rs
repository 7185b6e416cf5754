//! The auditor: reads the volume back, after a loss of power and at the end.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::host::{bio, memory_of};
use super::ledger::{Ledger, Shared};
use crate::choices::Choices;
use crate::volume::{VolumeRequest, read_stamps};
use crate::world::{Actor, Io};
use shingle_core::block::{Completion, DeviceId, Op, Payload};

/// Reads that are in flight at once.
const DEPTH: usize = 4;

/// The auditor.
pub(super) struct Auditor {
    shared: Shared,
    device: DeviceId,
    /// Whether the power was gone, so that what is found is what was kept.
    after_cut: bool,
    steps: VecDeque<VolumeRequest>,
    pending: BTreeMap<u64, VolumeRequest>,
    is_done: bool,
}

impl Auditor {
    /// Reads everything in pieces of at most `piece` blocks, or with `sparing` one piece in four.
    pub fn new(shared: Shared, device: DeviceId, after_cut: bool, (piece, sparing): (u32, Option<Choices>)) -> Self {
        let blocks = shared.borrow().volume.blocks();
        let starts = (0..blocks).step_by(piece as usize);
        let mut steps: VecDeque<_> =
            starts.map(|at| VolumeRequest::new(Op::Read, at, piece.min(blocks - at))).collect();
        if let Some(mut choices) = sparing {
            steps.retain(|_| choices.usual("read", 1, 4));
        }
        Self { shared, device, after_cut, steps, pending: BTreeMap::new(), is_done: false }
    }
}

impl Actor for Auditor {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        while let Some(back) = io.completion() {
            self.take_back(ledger, &back, io);
        }
        ledger.log.collect_trace(io.stack);
        while self.pending.len() < DEPTH && !ledger.is_over() {
            let Some(request) = self.steps.pop_front() else { break };
            let number = ledger.volume.submit(request, io.now());
            self.pending.insert(number, request);
            io.submit(number, self.device, bio(request, Payload::Data(memory_of(request))));
        }
        if self.pending.is_empty() && self.steps.is_empty() {
            self.is_done = true;
            ledger.volume.recovered();
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Auditor {
    fn take_back(&mut self, ledger: &mut Ledger, back: &Completion, io: &Io<'_>) {
        let Some(asked) = self.pending.remove(&back.tag) else { return };
        ledger.complete(asked, back, io.stack, io.now());
        if ledger.is_over() {
            return;
        }
        if !back.status.is_ok() {
            // One block that cannot be read must not hide the others.
            let singles = asked.block..asked.block + if asked.blocks > 1 { asked.blocks } else { 0 };
            return self.steps.extend(singles.map(|block| VolumeRequest::new(Op::Read, block, 1)));
        }
        if self.after_cut {
            let seen: Vec<_> = read_stamps(&back.bio.payload).collect();
            (asked.block..).zip(seen).for_each(|(block, seen)| ledger.volume.pin(block, seen));
        }
    }
}
