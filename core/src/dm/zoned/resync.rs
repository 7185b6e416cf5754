//! How two sets that differ become the same again, and when they must not.
//!
//! ```text
//!   set in force ──> read beside the other one ──> judged ──┬─ good ──> copied over the other one, superblock last
//!                                                           └─ in doubt: nothing is written, the volume is read only
//! ```
//!
//! A commit that was cut off leaves the other set torn, and then the one in force is whole. A set in force that is damaged
//! must not be copied: the other one may be all that is left, and `check::repair` merges both. Which of the two it is, what
//! the set in force says shows: a commit never writes a zone with valid blocks that no chunk has, nor one of a chunk that has
//! none, nor a block that is valid twice.

use alloc::collections::{BTreeMap, BTreeSet};

use super::format::{Bitmap, MapEntry, Other};
use super::sets::Sets;
use super::transfer::{Disks, data_of};
use super::volume::Volume;
use super::zones::Role;
use super::{Block, ChunkNo, MetaBlock, Number, SetZone, ZoneSpace};
use crate::block::Reason;
use crate::prelude::*;

/// What the other set says where that is not what the one in force says.
pub(super) struct Comparison {
    /// What the other set is good for.
    other: Other,
    /// Zones that it gives to chunks.
    claims: BTreeMap<SetZone, ChunkNo>,
    /// Zones of which it has other valid blocks, and whether it has any that can be.
    bitmaps: BTreeMap<SetZone, bool>,
    /// Chunks of which the set in force says what cannot be.
    doubtful: BTreeSet<ChunkNo>,
}

impl Comparison {
    pub fn with(other: Other) -> Self {
        Self { other, claims: BTreeMap::new(), bitmaps: BTreeMap::new(), doubtful: BTreeSet::new() }
    }

    /// Compares a block of entries, of which the first is that of chunk `first`.
    pub fn take_entries(&mut self, first: ChunkNo, [own, other]: [&[u8]; 2], zones: usize) {
        if self.other == Other::Foreign || own == other {
            return;
        }
        let pairs = own.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
        for (chunk, (_, other)) in first.onwards().zip(pairs).filter(|(_, (own, other))| own != other) {
            let MapEntry { dzone, bzone } = MapEntry::decode(*other);
            self.claims
                .extend([dzone, bzone].into_iter().filter(|zone| zone.index() < zones).map(|zone| (zone, chunk)));
        }
    }

    /// Compares a block of the bitmap of `zone`, from the bit of block `first` on.
    pub fn take_bitmap(
        &mut self,
        (zone, first): (SetZone, Block),
        both: [&[u8]; 2],
        (space, role): (&ZoneSpace, Role),
    ) {
        let [own, other] = both;
        let (Role::Data(chunk) | Role::Buffer(chunk)) = role else {
            // Its chunk is lost, unless the other set never had one either.
            let claim = self.claims.get(&zone).filter(|_| own.iter().any(|byte| *byte != 0));
            return self.doubtful.extend(claim);
        };
        // An older set says nothing of what is valid now.
        if self.other != Other::InStep || own == other {
            return;
        }
        let end = Block(space.written_end(zone).0.saturating_sub(first.0));
        let [own, other] = both.map(|bits| Bitmap::decode(bits.to_vec()));
        let [is_possible, other_is] = [&own, &other].map(|bits| bits.blocks(end).next().is_none());
        let has_blocks = other.blocks(Block::FIRST).next().is_some_and(|block| block < end);
        *self.bitmaps.entry(zone).or_default() |= has_blocks;
        if !is_possible && other_is && has_blocks {
            self.doubtful.insert(chunk);
        }
    }

    /// Chunks of which the set in force says what cannot be, or lacks what it had to say.
    pub fn doubtful(mut self, volume: &Volume) -> BTreeSet<ChunkNo> {
        for (zone, has_blocks) in self.bitmaps {
            let (Role::Data(chunk) | Role::Buffer(chunk)) = volume.zones.all[zone].role else { continue };
            let is_lost = has_blocks && volume.zones.all[zone].valid.is_empty();
            if is_lost || has_blocks_twice(volume, chunk) {
                self.doubtful.insert(chunk);
            }
        }
        self.doubtful
    }
}

fn has_blocks_twice(volume: &Volume, chunk: ChunkNo) -> bool {
    let MapEntry { dzone, bzone } = volume.chunks[chunk].entry;
    let [data, buffer] = [dzone, bzone].map(|zone| volume.zones.all.get(zone).map(|state| &state.valid));
    let (Some(data), Some(buffer)) = (data, buffer) else { return false };
    data.runs(Block::all(volume.zones.zone_blocks)).any(|run| buffer.weight_in(run) > 0)
}

/// Makes the other set the same as the one in force: those blocks that start at `stale`, `window` of them each, then its
/// superblock. From here on the first set is the active one again, so that of two sets of the same generation the first is
/// always the one to believe.
pub(super) async fn resync(disks: &Disks, sets: &mut Sets, stale: &[MetaBlock], window: u32) -> Result<(), String> {
    for at in stale {
        let len = window.min(sets.layout.metadata_blocks - at.0);
        let own = disks.read(sets.active + u64::from(*at), len).await.map_err(cannot_write)?;
        let own = data_of(&own).map_err(cannot_write)?;
        disks.write(sets.log + u64::from(*at), &own).await.map_err(cannot_write)?;
    }
    disks.flush_metadata(sets.log).await.map_err(cannot_write)?;
    let twin = sets.superblock_for(sets.log, sets.superblock.generation);
    let twin = data_of(&twin.encode()).map_err(cannot_write)?;
    disks.write_durable(sets.log, &twin).await.map_err(cannot_write)?;
    if sets.is_swapped {
        (sets.active, sets.log, sets.is_swapped) = (sets.log, sets.active, false);
    }
    Ok(())
}

fn cannot_write(reason: Reason) -> String {
    format!("the older set of metadata cannot be made equal to the other one: {reason}")
}
