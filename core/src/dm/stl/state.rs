//! What the device and its tasks share.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use core::cell::RefCell;

use slab::Slab;

use super::changes::Changes;
use super::disks::Disks;
use super::evacuate::Evacuation;
use super::format::{Life, Piece, SetId};
use super::guards::Guards;
use super::lanes::Lanes;
use super::log::{Checker, Order, Sealed, Zones};
use super::map::{LeafNo, Map, Node, RunNo, RunSet};
use super::options::Options;
use super::policy::Pace;
use super::{BatchNo, CopyNo, Epoch, Generation, Lba, Pba, ZoneIndex};
use crate::block::{Bio, Reason, Status};
pub(super) use crate::dm::readiness::Readiness;
use crate::prelude::*;
use crate::task::{Io, Signal};
use crate::time::Instant;

/// What the device and its tasks share. Nobody holds it across an await.
pub(super) type Shared = Rc<RefCell<State>>;

/// How tasks are told that there may be something to do.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The volume is wanted.
    pub wanted: Signal,
    /// Changes wait for a batch.
    pub changes: Signal,
    /// Reads wait for nodes of the map.
    pub nodes: Signal,
    /// Something is to be read ahead.
    pub ahead: Signal,
    /// The volume is used again.
    pub used: Signal,
    /// Flushes wait.
    pub flushes: Signal,
    /// Something went on that a task waits for.
    pub progress: Signal,
}

/// A place that a batch has got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub zone: ZoneIndex,
    pub place: Pba,
    pub generation: Generation,
}

/// A bio of a user that changes something.
#[derive(Debug)]
pub(super) struct Write {
    pub bio: Box<Bio>,
    /// Blocks of it that do not count yet.
    pub left: u64,
    /// The reason why a part of it failed, if one did.
    pub failure: Option<Reason>,
    /// When it came.
    pub came: Instant,
}

/// A batch of users that is done, but does not count yet.
#[derive(Debug)]
pub(super) struct Done {
    pub slot: Slot,
    pub sealed: Sealed,
    /// Whose changes are in it, and how many blocks.
    pub shares: Vec<(usize, u64)>,
}

/// A read that is under way below.
#[derive(Debug)]
pub(super) struct Reading {
    pub lba: Lba,
    pub zone: ZoneIndex,
    pub checksums: super::map::Checksums,
}

/// Where the roots of a member are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RootPlace {
    /// The two zones.
    pub zones: [Option<ZoneIndex>; 2],
    /// Which of them has the newest root that is whole.
    pub at: usize,
    /// The block behind that, in its zone.
    pub behind: u32,
    /// The next root may be written there.
    pub takes_more: bool,
}

/// What the volume has done since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StlCounters {
    /// Blocks that users wrote.
    pub user_blocks: u64,
    /// Blocks of headers.
    pub header_blocks: u64,
    /// Blocks that cleaning copied.
    pub copied_blocks: u64,
    /// Blocks of the map and its tables.
    pub map_blocks: u64,
    /// Blocks of roots.
    pub root_blocks: u64,
    /// Blocks that were left empty at ends of zones.
    pub filler_blocks: u64,
    /// Zones that were cleaned.
    pub cleaned_zones: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Sweeps over the map.
    pub sweeps: u64,
    /// Those that looked at every leaf.
    pub recounts: u64,
    /// Times that several runs became one.
    pub compactions: u64,
    /// Batches of users.
    pub batches: u64,
    /// Batches that had to be written again elsewhere.
    pub retries: u64,
    /// Blocks that were read and had another checksum than they should.
    pub wrong_checksums: u64,
    /// Blocks that readers in order got out of memory.
    pub ahead_blocks: u64,
    /// Blocks that were written in order, as they had been read so.
    pub rewritten_blocks: u64,
    /// The longest that a change waited until it counted, in microseconds.
    pub slowest_write_us: u64,
}

impl StlCounters {
    /// Each with its name.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("user_blocks", self.user_blocks),
            ("header_blocks", self.header_blocks),
            ("copied_blocks", self.copied_blocks),
            ("map_blocks", self.map_blocks),
            ("root_blocks", self.root_blocks),
            ("filler_blocks", self.filler_blocks),
            ("cleaned_zones", self.cleaned_zones),
            ("checkpoints", self.checkpoints),
            ("sweeps", self.sweeps),
            ("recounts", self.recounts),
            ("compactions", self.compactions),
            ("batches", self.batches),
            ("retries", self.retries),
            ("wrong_checksums", self.wrong_checksums),
            ("ahead_blocks", self.ahead_blocks),
            ("rewritten_blocks", self.rewritten_blocks),
        ]
        .into_iter()
    }

    /// Blocks written to the disks for each that users wrote; 1 before the first.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        let more = self.header_blocks + self.copied_blocks + self.map_blocks + self.root_blocks + self.filler_blocks;
        self.times(more)
    }

    /// The same of data alone: what users wrote, and copies of it.
    #[must_use]
    pub fn data_amplification(&self) -> f64 {
        self.times(self.copied_blocks)
    }

    fn times(&self, more: u64) -> f64 {
        if self.user_blocks == 0 { 1.0 } else { (self.user_blocks + more) as f64 / self.user_blocks as f64 }
    }
}

/// The volume, and the bios that wait in it.
pub(super) struct State {
    pub readiness: Readiness,
    pub options: Options,
    pub guards: Guards,
    pub io: Io,
    pub signals: Signals,
    /// Whether tasks were told something since they last ran.
    pub is_notified: bool,
    pub disks: Disks,
    pub id: SetId,
    pub epoch: Epoch,
    /// The last batch of users that counted when this life began.
    pub since: BatchNo,
    /// The lives that are remembered, as their batches that were lost may still be on the disks.
    pub lives: Vec<Life>,
    /// Blocks of the exposed disk, and the thousandths that are kept back.
    pub capacity: u64,
    pub reserve: u32,
    pub zones: Zones,
    pub map: Map,
    pub lanes: Lanes,
    /// Users who flush each write, and when that is done.
    pub turns: super::turns::Turns,
    /// Writes that hosts of disks refuse.
    pub refusals: super::refusal::Refusals,
    /// Batches that failed and are not sent again yet.
    pub retries_under_way: u32,
    pub order: Order<Done>,
    /// The first batch of users that could not be written at all: none behind it counts.
    pub gap: Option<BatchNo>,
    /// The blocks that this batch and those behind it change.
    pub doubts: super::doubts::Doubts,
    /// The last batch of copies, and how many are under way.
    pub copies: CopyNo,
    pub copies_under_way: u32,
    /// Zones that were cleaned since users began to wait for one.
    pub cleaned_in_vain: usize,
    /// What runs and leaves have: all batches up to these. And what they will have when the checkpoint under way is done.
    pub map_cut: (BatchNo, CopyNo),
    pub frozen_cut: (BatchNo, CopyNo),
    /// The same when all leaves were looked at last.
    pub swept: (BatchNo, CopyNo),
    /// The newest run when some were to become one last.
    pub compacted: Option<RunNo>,
    /// How cleaning keeps up with users.
    pub pace: Pace,
    /// Devices that leave.
    pub evacuation: Evacuation,
    /// The zone that is cleaned.
    pub victim: Option<ZoneIndex>,
    /// What was counted last makes other zones worth cleaning than those that were marked.
    pub is_census_stale: bool,
    pub map_batches: u64,
    /// Changes that are in no batch yet.
    pub changes: Changes,
    /// A batch begins when the turn is over in which the first of them came: those that came with it share its header.
    pub is_gathering: bool,
    pub writes: Slab<Write>,
    pub checker: Checker,
    pub readings: Slab<Reading>,
    /// Reads that wait for a node of the map, and the nodes that nobody reads yet.
    pub node_waiters: BTreeMap<Pba, VecDeque<Box<Bio>>>,
    pub wanted_nodes: VecDeque<Node>,
    /// Whether anybody uses it.
    pub idle: super::idle::Idle,
    /// What is worth writing in order.
    pub scattered: super::policy::Scattered,
    /// Where reads of the map ended: what is read there next is read in order.
    pub map_reads: super::policy::Readers<Pba>,
    /// What is read ahead of those who read in order.
    pub ahead: super::read_ahead::ReadAhead,
    /// Bios that wait until what came before them is durable.
    pub flushes: VecDeque<Box<Bio>>,
    /// Bios to be routed again.
    pub back: VecDeque<Box<Bio>>,
    /// Bios that came before the volume was loaded.
    pub early: VecDeque<Box<Bio>>,
    /// Bios that are done, and why they failed.
    pub done: Vec<(Box<Bio>, Result<(), Reason>)>,
    /// What the last durable root names, beside runs and leaves.
    pub tables: Tables,
    /// Blocks of users since the last checkpoint.
    pub since_checkpoint: u64,
    /// Blocks of users ever: the time that zones age by.
    pub clock: u64,
    pub is_checkpoint_wanted: bool,
    pub is_checkpointing: bool,
    /// It waits for copies that are under way, and no more may begin.
    pub is_freezing: bool,
    pub is_sweep_wanted: bool,
    /// Whether one is under way, and the runs that it merges.
    pub is_sweeping: bool,
    pub in_sweep: RunSet,
    /// The leaves before this one have all of them.
    pub merged_before: LeafNo,
    /// Whether some runs are to become one.
    pub is_compacting: bool,
    /// Keeps the device from being drained while it suspends.
    pub token: Option<Box<Bio>>,
    pub is_suspended: bool,
    pub counters: StlCounters,
    pub events: u64,
}

/// The tables on the disk, and where roots are.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub roots: Vec<RootPlace>,
    /// The number of the newest root.
    pub root: u64,
    pub root_place: Pba,
    /// Pieces of the tables of zones and leaves.
    pub pieces: Vec<Piece>,
    /// Parts of the map that the next root does without: they are given up when it is durable.
    pub released: Vec<(Pba, u32)>,
    /// Leaves changed since their piece was written: first leaf of each piece.
    pub dirty_leaves: alloc::collections::BTreeSet<u32>,
}

impl State {
    /// Tells the tasks that wait at a signal to look again.
    pub fn notify(&mut self, signal: impl FnOnce(&Signals) -> &Signal) {
        signal(&self.signals).notify();
        self.is_notified = true;
    }

    /// It takes no changes any more.
    pub fn degrade(&mut self, why: String) {
        if matches!(self.readiness, Readiness::Ready | Readiness::Loading) {
            self.readiness = Readiness::ReadOnly(why);
            self.events += 1;
            for change in core::mem::take(&mut self.changes) {
                self.fail_blocks(change.key, change.blocks.into());
            }
            for signal in [&self.signals.changes, &self.signals.flushes, &self.signals.progress] {
                signal.notify();
            }
            self.is_notified = true;
        }
    }

    /// So many blocks of a write will never count. It ends when all others do, or never will: what has failed is not found done later.
    pub fn fail_blocks(&mut self, key: usize, blocks: u64) {
        self.fail_blocks_for(key, blocks, &self.refusal());
    }

    /// Fails so many blocks of a write for `reason`.
    pub fn fail_blocks_for(&mut self, key: usize, blocks: u64, reason: &Reason) {
        let write = &mut self.writes[key];
        write.left -= blocks;
        let failure = write.failure.get_or_insert_with(|| reason.clone()).clone();
        if write.left == 0 {
            let write = self.writes.remove(key);
            self.end(write.bio, Err(failure));
        }
    }

    /// Why changes are refused.
    pub fn refusal(&self) -> Reason {
        match &self.readiness {
            Readiness::ReadOnly(why) => Reason::VolumeReadOnly(why.as_str().into()),
            Readiness::Failed(why) => Reason::VolumeFailed(why.as_str().into()),
            _ => Reason::VolumeFull,
        }
    }

    /// Ends a bio that this volume has made no request of.
    pub fn end(&mut self, bio: Box<Bio>, result: Result<(), Reason>) {
        self.done.push((bio, result));
        self.is_notified = true;
    }

    /// The newest batch of users that counts.
    pub fn counted(&self) -> BatchNo {
        self.order.counted()
    }

    /// Whether it has work that must be done before it is put away.
    pub fn is_at_rest(&self) -> bool {
        let is_clean = self.map.pending.is_empty() && self.map.frozen.is_none() && self.since_checkpoint == 0;
        let gave_up = self.readiness != Readiness::Ready;
        self.writes.is_empty() && self.flushes.is_empty() && !self.is_checkpointing && (is_clean || gave_up)
    }
}

/// The status of a bio and the reason.
pub(super) fn finish(bio: &mut Bio, result: Result<(), Reason>) -> Status {
    match result {
        Ok(()) => Status::Ok,
        Err(reason) => bio.blame(reason),
    }
}
