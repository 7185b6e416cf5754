//! A stronger promise than that of a disk with a cache: what a loss of power leaves is a prefix of the writes.
//!
//! ```text
//!   a ──── acknowledged ── b submitted          found after the loss: b      ==> a is there, or what came beside or after it
//!   a ──── acknowledged ── flush ─ acknowledged  ──────────────────────────  ==> the same
//! ```
//!
//! A change precedes another one if it was acknowledged before the other was submitted, wherever both of them went; zeroes and
//! discards are changes as well. Each block of a request is a change for itself, so what is in flight may be torn at any
//! of them. A change that failed need not be there, precedes nothing, and does not happen after it has failed.
//!
//! What is found is fixed: it comes before everything that the next life does, and no later loss takes it back. It is learned
//! block by block, in any order, perhaps lives later, or never where somebody writes before anybody looks. So of each life
//! it is known how far its prefix reaches at least, and what was found is judged again whenever one is found to reach further.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::value::Value;
use super::words::VolumeRequest;
use crate::history::{ALWAYS, NEVER};
use crate::stamp::Seen;

/// A change of one block.
#[derive(Clone, Copy, Debug)]
struct Change {
    value: Value,
    /// When it was submitted: the number of its request.
    from: u64,
    /// When it ended, however it did.
    until: u64,
    /// When it was acknowledged.
    acknowledged: u64,
    /// Whether it was acknowledged with FUA.
    durable: bool,
    /// In which life of the disks.
    life: usize,
}

impl Change {
    /// What was there before everything that counts.
    fn base(value: Value) -> Self {
        Self { value, from: ALWAYS, until: ALWAYS, acknowledged: ALWAYS, durable: true, life: 0 }
    }

    /// Whether it is in the prefix of its life, if those reach so far.
    fn is_kept(&self, reach: &[u64]) -> bool {
        self.durable || self.acknowledged < reach[self.life]
    }
}

/// When the last of these changes was submitted that has to be there: whatever ended before that is gone.
fn newest_kept(changes: &[Change], reach: &[u64]) -> u64 {
    changes.iter().filter(|change| change.is_kept(reach)).map(|change| change.from).max().unwrap_or(ALWAYS)
}

/// What a block was found to hold, and what could have been found.
#[derive(Clone, Debug)]
struct Find {
    block: u32,
    seen: Seen,
    changes: Vec<Change>,
}

impl Find {
    /// The first change that can have made it so, and whether that is surely of its life.
    fn origin(&self, reach: &[u64]) -> Result<(Change, bool), String> {
        let newest = newest_kept(&self.changes, reach);
        let fits = |change: &&Change| change.value.looks(self.block) == self.seen && change.until >= newest;
        let mut origins = self.changes.iter().filter(fits);
        match origins.next() {
            Some(first) => Ok((*first, origins.all(|change| change.life == first.life))),
            None => Err(self.complain(newest, reach)),
        }
    }

    fn complain(&self, newest: u64, reach: &[u64]) -> String {
        let Self { block, seen, changes } = self;
        let mut kept = changes.iter().filter(|change| change.from == newest);
        let last = kept.next().map_or(ALWAYS, |change| reach[change.life]);
        format!(
            "block {block} is left as {seen:?}, without request {newest}, which came later and has to be there, as {last} has"
        )
    }
}

/// The changes of all blocks, in order, as far as they matter.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    /// In the order in which they were submitted.
    blocks: Vec<Vec<Change>>,
    /// Of each life: a request that is in its prefix, or that made all before it durable. What was acknowledged before that was
    /// submitted is in the prefix.
    reach: Vec<u64>,
    found: Vec<Find>,
}

impl Prefix {
    /// So many blocks, all zeroes.
    pub fn new(blocks: u32) -> Self {
        Self { blocks: vec![vec![Change::base(Value::Zeroes)]; blocks as usize], reach: vec![0, 0], found: Vec::new() }
    }

    fn life(&self) -> usize {
        self.reach.len() - 1
    }

    /// A request goes out that is to give its blocks this value.
    pub fn submit(&mut self, request: &VolumeRequest, value: Value, from: u64) {
        let life = self.life();
        let change = Change { value, from, until: NEVER, acknowledged: NEVER, durable: false, life };
        self.blocks[request.range()].iter_mut().for_each(|changes| changes.push(change));
    }

    /// A change was acknowledged at `now`; or with `durable` as well as all that precedes it.
    pub fn acknowledge(&mut self, request: &VolumeRequest, from: u64, (now, durable): (u64, bool)) {
        for change in self.changes_of(request, from) {
            (change.until, change.acknowledged, change.durable) = (now, now, durable);
        }
        if durable {
            self.flushed(from);
        }
    }

    /// A change has failed at `now`: it is there, or not.
    pub fn fail(&mut self, request: &VolumeRequest, from: u64, now: u64) {
        self.changes_of(request, from).for_each(|change| change.until = now);
    }

    fn changes_of(&mut self, request: &VolumeRequest, from: u64) -> impl Iterator<Item = &mut Change> {
        self.blocks[request.range()].iter_mut().flatten().filter(move |change| change.from == from)
    }

    /// What was acknowledged before `from` is durable, and what that surely replaced is forgotten.
    pub fn flushed(&mut self, from: u64) {
        let life = self.life();
        self.reach[life] = self.reach[life].max(from);
        for changes in self.blocks.iter_mut().filter(|changes| changes.len() > 1) {
            let newest = newest_kept(changes, &self.reach);
            changes.retain(|change| change.until >= newest);
        }
    }

    /// The power is gone at `now`, and with it everything that has not ended.
    pub fn power_cut(&mut self, now: u64) {
        let life = self.life();
        let is_known = |change: &Change| change.life == 0 || change.life == life;
        if self.blocks.iter().flatten().all(is_known) {
            // Nothing that will be found tells anything more of former lives.
            self.found.clear();
        }
        self.blocks.iter_mut().flatten().for_each(|change| change.until = change.until.min(now));
        self.reach.push(0);
    }

    /// A block was read. [`Prefix::judge`] tells what follows.
    pub fn saw(&mut self, block: u32, seen: Seen) {
        let life = self.life();
        let changes = &mut self.blocks[block as usize];
        let old = changes.partition_point(|change| change.life < life);
        let (before, since) = changes.split_at(old);
        if before.is_empty() || since.iter().any(|change| change.value.looks(block) == seen) {
            // It tells of this life, about which nothing is to be said before it is over.
            return;
        }
        if let [Change { life: 0, value, .. }] = before
            && value.looks(block) == seen
        {
            return;
        }
        let left = match seen {
            Seen::Data(request, _) => Value::Data(request),
            Seen::Zeroes | Seen::Garbage => Value::Zeroes,
        };
        let changes = changes.splice(..old, [Change::base(left)]).collect();
        self.found.push(Find { block, seen, changes });
    }

    /// Whether what was found is a prefix of each life.
    ///
    /// # Errors
    /// What is missing.
    pub fn judge(&mut self) -> Result<(), String> {
        loop {
            let mut is_further = false;
            for find in &self.found {
                let (first, is_sure) = find.origin(&self.reach)?;
                if is_sure && first.from > self.reach[first.life] {
                    self.reach[first.life] = first.from;
                    is_further = true;
                }
            }
            if !is_further {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
