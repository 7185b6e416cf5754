//! A model of a regular block device with a volatile write cache: what each of its blocks may hold, after any history of
//! writes, zeroes, discards, flushes, failures and losses of power. Whatever is below knows nothing of it.
//!
//! ```text
//!   submitted ──────────── a read may see it, or not
//!   acknowledged ───────── reads see nothing that was surely before it
//!   read ───────────────── nothing else is seen from now on, unless something is written
//!   flushed ────────────── what was out of sight before the flush cannot come back after a loss of power
//!   failed ─────────────── done or not, block by block
//! ```
//!
//! Blocks are atomic: one of them holds one write or another, never parts of two. Writes in flight at the same time take
//! effect in any order. A discarded block reads as zeroes, as does one that was never written. After a loss of power nothing
//! is in a cache, so what is read then is durable.
//!
//! A volume may promise more: that a loss of power leaves a [prefix] of the writes.

mod prefix;
mod value;
mod words;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use prefix::Prefix;
use value::Value;
pub use words::VolumeRequest;

use super::history::{Candidate, History, NEVER};
pub use super::model::Broken;
use super::model::{Rule, Verdict};
pub use super::stamp::Seen;
use shingle_core::block::{Data, Flags, Op, Payload};
use shingle_core::time::Instant;

/// Bytes of a block of a volume.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors of a block of a volume.
pub const BLOCK_SECTORS: u32 = 8;

/// Fills `data`, of whole blocks, with what request `request` writes from block `first` on.
pub fn stamp(data: &Data, request: u64, first: u32) {
    super::stamp::stamp::<{ BLOCK_BYTES / 8 }>(data, request, first);
}

/// What each block of a payload holds.
pub fn read_stamps(payload: &Payload) -> impl Iterator<Item = Seen> + '_ {
    super::stamp::read_stamps::<{ BLOCK_BYTES / 8 }>(payload)
}

/// The model.
#[derive(Clone, Debug, Default)]
pub struct Volume {
    clock: u64,
    blocks: Vec<History<Value>>,
    /// Requests in flight, and since when.
    pending: BTreeMap<u64, (VolumeRequest, Instant)>,
    /// Blocks with more than one possible value.
    unsettled: BTreeSet<u32>,
    /// Reads are compared with what can be left after a loss of power.
    recovering: bool,
    /// What is found then may be lost with the power: a process was killed, and who came after it has promised nothing of what it found.
    is_volatile: bool,
    /// In which order changes may be left, if that is promised.
    order: Option<Prefix>,
    /// True if a block may hold every version that was ever written to it: see [`Volume::forgive`].
    is_forgiven: bool,
    /// Blocks whose data a disk has changed: they read as anything.
    damaged: BTreeSet<u32>,
}

impl Volume {
    /// A volume of so many blocks that was never written.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        Self { blocks: vec![History::certain(Value::Zeroes); blocks as usize], ..Self::default() }
    }

    /// The same, of which a loss of power leaves a prefix of the writes.
    #[must_use]
    pub fn in_order(blocks: u32) -> Self {
        Self { order: Some(Prefix::new(blocks)), ..Self::new(blocks) }
    }

    /// Its size.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Requests in flight.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// What is in flight longest: since when, and what it is.
    #[must_use]
    pub fn oldest(&self) -> Option<(Instant, String)> {
        let since = self.pending.iter().min_by_key(|(_, (_, since))| *since);
        since.map(|(number, (request, since))| (*since, format!("request {number}: {request}")))
    }

    /// Whether the request that is in flight longest has been so since before `then`.
    #[must_use]
    pub fn waits_since_before(&self, then: Instant) -> bool {
        // Numbers are given in the order of time.
        self.pending.first_key_value().is_some_and(|(_, (_, since))| *since < then)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Takes note of a request that goes out at `now`; returns its number, which its data must carry.
    pub fn submit(&mut self, request: VolumeRequest, now: Instant) -> u64 {
        let from = self.tick();
        if request.op.is_write() {
            let value = if request.op == Op::Write { Value::Data(from) } else { Value::Zeroes };
            self.unsettled.extend(request.block..request.block + request.blocks);
            for block in &mut self.blocks[request.range()] {
                block.add(Candidate::in_flight(value, from));
            }
            if let Some(order) = &mut self.order {
                order.submit(&request, value, from);
            }
        }
        self.pending.insert(from, (request, now));
        from
    }

    /// A request has succeeded; `seen` is what it has read.
    ///
    /// # Errors
    /// The promise that this breaks.
    pub fn succeed(&mut self, number: u64, seen: impl Iterator<Item = Seen>) -> Verdict {
        let request = self.end(number)?;
        if request.flushes() {
            self.flushed(number);
        }
        match request.op {
            Op::Read => {
                let compared = self.compare(number, &request, seen);
                compared.map_err(|(rule, what)| (rule, format!("request {number}: {request}: {what}")))
            }
            Op::Flush => Ok(()),
            _ => {
                self.acknowledge(number, &request);
                Ok(())
            }
        }
    }

    /// A request has failed: each of its blocks holds what it held before, or what it was to hold.
    ///
    /// # Errors
    /// If it was not in flight.
    pub fn fail(&mut self, number: u64) -> Result<VolumeRequest, Broken> {
        let request = self.end(number)?;
        let now = self.tick();
        if request.op.is_write() {
            self.blocks[request.range()].iter_mut().for_each(|block| block.end(number, now));
            if let Some(order) = &mut self.order {
                order.fail(&request, number, now);
            }
        }
        Ok(request)
    }

    fn end(&mut self, number: u64) -> Result<VolumeRequest, Broken> {
        let pending = self.pending.remove(&number).map(|(request, _)| request);
        pending.ok_or_else(|| (Rule::Completion, format!("request {number} ended twice, or never began")))
    }

    /// When the oldest request in flight was submitted.
    fn oldest_reader(&self) -> u64 {
        self.pending.first_key_value().map_or(NEVER, |(number, _)| *number)
    }

    fn acknowledge(&mut self, from: u64, request: &VolumeRequest) {
        let (now, oldest) = (self.tick(), self.oldest_reader());
        for block in &mut self.blocks[request.range()] {
            block.end(from, now);
            block.acknowledge(from, false, (now, oldest));
            if request.flags.has(Flags::FUA) {
                block.make_durable(from, false);
            }
        }
        if let Some(order) = &mut self.order {
            order.acknowledge(request, from, (now, request.flags.has(Flags::FUA)));
        }
    }

    /// A flush that was submitted at `from` is done: what nobody could see any more then is gone for good.
    fn flushed(&mut self, from: u64) {
        let (oldest, blocks) = (self.oldest_reader(), &mut self.blocks);
        self.unsettled.retain(|block| !blocks[*block as usize].bury_hidden(from, oldest));
        if let Some(order) = &mut self.order {
            order.flushed(from);
        }
    }

    fn compare(&mut self, from: u64, request: &VolumeRequest, mut seen: impl Iterator<Item = Seen>) -> Verdict {
        let now = self.tick();
        for block in request.block..request.block + request.blocks {
            let seen = seen.next();
            let seen = seen.ok_or_else(|| (Rule::Completion, String::from("it came back with less than it had")))?;
            if self.damaged.contains(&block) {
                continue;
            }
            self.compare_block(from, block, seen)?;
            // Nothing was under way: it stays what was seen.
            let history = &mut self.blocks[block as usize];
            if history.is_quiet_since(from) {
                history.hide_all_but(|value| value.looks(block) == seen, now);
            }
            if let Some(order) = &mut self.order {
                order.saw(block, seen);
            }
        }
        self.order.as_mut().map_or(Ok(()), Prefix::judge).map_err(|what| (Rule::Prefix, what))
    }

    /// Accepts older versions of all blocks from now on: the disks were damaged, and a start may have taken the damage for torn writes. Data of
    /// another block, and data that no host has written, stay violations.
    pub fn forgive(&mut self) {
        (self.is_forgiven, self.order) = (true, None);
    }

    /// Accepts any data of `block` from now on: a disk has damaged it, and no checksum tells.
    pub fn damage(&mut self, block: u32) {
        self.damaged.insert(block);
    }

    fn compare_block(&self, from: u64, block: u32, seen: Seen) -> Verdict {
        let history = &self.blocks[block as usize];
        let is_own = match seen {
            Seen::Zeroes => true,
            Seen::Data(_, place) => place == block,
            Seen::Garbage => false,
        };
        if is_own && self.is_forgiven {
            return Ok(());
        }
        if history.possible(from).any(|value| value.looks(block) == seen) {
            return Ok(());
        }
        let rule = match seen {
            Seen::Data(_, other) if other != block => Rule::Foreign,
            _ if self.recovering => Rule::Durability,
            _ => Rule::Data,
        };
        let possible: Vec<Value> = history.possible(from).collect();
        Err((rule, format!("block {block} reads as {seen:?}, and may be {possible:?}")))
    }

    /// The power is gone. Until [`Volume::recovered`], what is read is compared with what may be left.
    pub fn power_cut(&mut self) {
        let now = self.tick();
        self.blocks.iter_mut().for_each(|block| block.crash(now));
        self.end_life(now);
    }

    /// Its process was killed, and the disks go on. Where writes count in order, nothing was acknowledged that a start does not find, and what it finds is
    /// durable before anybody is let in; elsewhere what the process alone knew is lost as with the power.
    pub fn kill(&mut self) {
        if self.order.is_none() {
            self.power_cut();
            self.is_volatile = true;
            return;
        }
        let now = self.tick();
        self.blocks.iter_mut().for_each(|block| block.stop(now));
        self.end_life(now);
    }

    fn end_life(&mut self, now: u64) {
        self.pending.clear();
        if let Some(order) = &mut self.order {
            order.power_cut(now);
        }
        (self.recovering, self.is_volatile) = (true, false);
    }

    /// A block was read after a loss of power, before anything was written: that is what it holds, durably if nothing is in a cache.
    pub fn pin(&mut self, block: u32, seen: Seen) {
        if self.is_volatile {
            return;
        }
        let history = &mut self.blocks[block as usize];
        let found = history.possible(self.clock).find(|value| value.looks(block) == seen);
        if let Some(value) = found {
            *history = History::certain(value);
            self.unsettled.remove(&block);
        }
    }

    /// What was kept is known as far as it ever will be.
    pub fn recovered(&mut self) {
        self.recovering = false;
    }
}

#[cfg(test)]
mod tests;
