//! The disks of a set in memory, with the rules of zones and with power cuts: for tests and fuzzing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::{Media, MediaError};
use crate::block::Limits;
use crate::dm::zoned::{BLOCK_BYTES, Block, MemberNo, Rows, SetZone, SpaceError, ZoneClass, ZoneHealth, ZoneSpace};
use crate::prelude::*;
use crate::random::Rng;
use crate::zone::Zone;

/// Content of blocks; zeroes are not kept. Copies of a set share it.
type Blocks = BTreeMap<u64, Arc<[u8]>>;

/// A set of disks in memory. What was never written reads as zeroes. Writes and resets are volatile until a flush, which
/// matters if the power is cut.
#[derive(Clone, Debug)]
pub struct MemoryMedia {
    space: ZoneSpace,
    now: Blocks,
    durable: (ZoneSpace, Blocks),
    volatile: Vec<Change>,
    /// Global blocks that cannot be read, until they are written.
    pub bad: BTreeSet<u64>,
    /// Those of them that were written since the last flush.
    healed: BTreeSet<u64>,
    /// Changes and flushes so far.
    pub changes: u64,
    /// After how many of them the power fails.
    pub cut_after: Option<u64>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Arc<[u8]>),
    Reset(SetZone),
}

impl MemoryMedia {
    /// Disks with these limits, empty.
    ///
    /// # Errors
    /// If they are no set.
    pub fn new(devices: &[&Limits]) -> Result<Self, SpaceError> {
        let space = ZoneSpace::new(devices)?;
        let durable = (space.clone(), Blocks::new());
        Ok(Self {
            space,
            now: Blocks::new(),
            durable,
            volatile: Vec::new(),
            bad: BTreeSet::new(),
            healed: BTreeSet::new(),
            changes: 0,
            cut_after: None,
        })
    }

    /// Takes zones of device `member` to be as a report says.
    ///
    /// # Errors
    /// If a zone can hold less than its size.
    pub fn learn(&mut self, member: MemberNo, report: &[Zone]) -> Result<(), SpaceError> {
        self.space.learn(member, report)?;
        self.durable.0.learn(member, report)
    }

    /// Puts bytes at global block `block`, whatever zone that is in, at once durable and without moving a write pointer.
    pub fn put(&mut self, block: u64, bytes: &[u8]) {
        store(&mut self.now, block, bytes);
        store(&mut self.durable.1, block, bytes);
    }

    /// Moves a write pointer without a write.
    pub fn set_wp(&mut self, zone: SetZone, wp: Block) {
        self.space.set_wp(zone, wp);
        self.durable.0.set_wp(zone, wp);
    }

    /// The content of a block.
    #[must_use]
    pub fn block(&self, block: u64) -> Vec<u8> {
        self.now.get(&block).map_or_else(|| vec![0; BLOCK_BYTES], |bytes| bytes.to_vec())
    }

    /// The disks after a power cut: of what was not flushed some blocks are there, some are not; in a sequential zone the
    /// earliest changes are.
    #[must_use]
    pub fn after_power_cut(&self, rng: &mut Rng) -> Self {
        let (mut space, mut blocks) = self.durable.clone();
        let mut lost = Rows::filled(false, space.zones().len());
        let mut bad = &self.bad | &self.healed;
        for change in &self.volatile {
            let first = match change {
                Change::Write(block, _) => *block,
                Change::Reset(zone) => space.start(*zone),
            };
            let zone = space.zone_of(first);
            let is_sequential = space.zones()[zone].class == ZoneClass::Sequential;
            let is_lost = rng.below(2) == 0 || (is_sequential && lost[zone]);
            lost[zone] |= is_lost;
            if !is_lost {
                apply(&mut space, &mut blocks, change);
                bad = &bad - &written(change);
            }
        }
        let durable = (space.clone(), blocks.clone());
        let (volatile, healed) = (Vec::new(), BTreeSet::new());
        Self { space, now: blocks, durable, volatile, bad, healed, changes: 0, cut_after: None }
    }

    fn change(&mut self, change: Change) -> Result<(), MediaError> {
        self.count()?;
        apply(&mut self.space, &mut self.now, &change);
        let written = written(&change);
        self.healed.extend(self.bad.intersection(&written));
        self.bad = &self.bad - &written;
        self.volatile.push(change);
        Ok(())
    }

    fn count(&mut self) -> Result<(), MediaError> {
        if self.cut_after.is_some_and(|most| self.changes >= most) {
            return Err(MediaError(String::from("the power is cut")));
        }
        self.changes += 1;
        Ok(())
    }

    /// The zone that holds these blocks, if they are on a disk and in one zone that can be used.
    fn zone(&self, block: u64, bytes: usize) -> Result<SetZone, MediaError> {
        let error = |why: &str| Err(MediaError(format!("blocks {block}+{}: {why}", bytes / BLOCK_BYTES)));
        let (zone, blocks) = (block / u64::from(self.space.zone_blocks()), (bytes / BLOCK_BYTES) as u64);
        if zone >= self.space.zones().len() as u64 {
            return error("past the last zone");
        }
        let (zone, last) = (SetZone(zone as u32), block + blocks.max(1) - 1);
        let member = &self.space.members()[self.space.member_of(zone)];
        if self.space.zone_of(last) != zone || last - self.space.start(member.first_zone) >= member.blocks {
            return error("not in one zone");
        }
        match self.space.zones()[zone] {
            info if info.health == ZoneHealth::Offline && !info.is_runt => error("the zone is offline"),
            _ => Ok(zone),
        }
    }
}

/// The blocks that a change writes.
fn written(change: &Change) -> BTreeSet<u64> {
    match change {
        Change::Write(block, bytes) => (*block..block + (bytes.len() / BLOCK_BYTES) as u64).collect(),
        Change::Reset(_) => BTreeSet::new(),
    }
}

fn store(blocks: &mut Blocks, first: u64, bytes: &[u8]) {
    for (block, content) in (first..).zip(bytes.chunks(BLOCK_BYTES)) {
        if content.iter().all(|byte| *byte == 0) {
            blocks.remove(&block);
        } else {
            blocks.insert(block, content.into());
        }
    }
}

fn apply(space: &mut ZoneSpace, blocks: &mut Blocks, change: &Change) {
    match change {
        Change::Write(block, bytes) => {
            let zone = space.zone_of(*block);
            let end = block + (bytes.len() / BLOCK_BYTES) as u64 - space.start(zone);
            space.set_wp(zone, Block(end as u32));
            store(blocks, *block, bytes);
        }
        Change::Reset(zone) => {
            let (first, end) = (space.start(*zone), space.start(*zone) + u64::from(space.zone_blocks()));
            let gone: Vec<u64> = blocks.range(first..end).map(|(block, _)| *block).collect();
            gone.iter().for_each(|block| drop(blocks.remove(block)));
            space.set_wp(*zone, Block::FIRST);
        }
    }
}

impl Media for MemoryMedia {
    fn space(&self) -> &ZoneSpace {
        &self.space
    }

    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        self.zone(block, to.len())?;
        if let Some(bad) = self.bad.range(block..block + (to.len() / BLOCK_BYTES) as u64).next() {
            return Err(MediaError(format!("block {bad} cannot be read")));
        }
        for (block, to) in (block..).zip(to.chunks_mut(BLOCK_BYTES)) {
            match self.now.get(&block) {
                Some(bytes) => to.copy_from_slice(bytes),
                None => to.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError> {
        let zone = self.zone(block, from.len())?;
        let info = self.space.zones()[zone];
        let error = |why: String| Err(MediaError(format!("write of block {block}: {why}")));
        if info.health == ZoneHealth::ReadOnly {
            return error(format!("zone {zone} is read-only"));
        }
        let wp = self.space.start(zone) + u64::from(info.wp);
        if info.class == ZoneClass::Sequential && block != wp {
            return error(format!("the write pointer of zone {zone} is at block {wp}"));
        }
        self.change(Change::Write(block, from.into()))
    }

    fn reset(&mut self, zone: SetZone) -> Result<(), MediaError> {
        let info = self.space.zones().get(zone);
        if info.is_none_or(|info| info.class != ZoneClass::Sequential || info.health == ZoneHealth::ReadOnly) {
            return Err(MediaError(format!("zone {zone} cannot be reset")));
        }
        self.change(Change::Reset(zone))
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.count()?;
        let (space, blocks) = &mut self.durable;
        self.healed.clear();
        self.volatile.drain(..).for_each(|change| apply(space, blocks, &change));
        Ok(())
    }
}
