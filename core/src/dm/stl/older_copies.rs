//! Refuses members that are older copies before a start writes anything: `stale` has the rule, and the map says which blocks there have to be.

use alloc::collections::BTreeMap;
use core::ops::Range;

use super::format::{Batch, ZoneUse};
use super::load::read_pages;
use super::map::{Extent, LeafNo, Node, RunNo};
use super::roots::{FoundRoot, Seen, failed};
use super::stale::{self, HEADER_BLOCKS};
use super::state::{Shared, State};
use super::{BLOCK_SECTORS, ZoneIndex};
use crate::block::Reason;
use crate::prelude::*;
use crate::uuid::Uuid;
use crate::zone::Zone;

/// Members whose newest root of this volume is older than the newest of all: the UUID and the number of that root, 0 if a member has none.
fn with_older_root<'a>(newest: &'a FoundRoot, seen: &'a [Seen]) -> impl Iterator<Item = (&'a Seen, Uuid, u64)> {
    let Batch { set, number, .. } = newest.header.batch;
    let own = move |seen: &'a Seen| {
        let of_set = seen.roots.iter().filter(|found| found.header.batch.set == set);
        let own = of_set.map(|found| found.header.batch.number).max().unwrap_or(0);
        (seen, Uuid(newest.root.members[seen.member].id), own)
    };
    seen.iter().map(own).filter(move |(_, _, own)| *own < number)
}

/// A sentence for each member with an older root, for messages.
pub(super) fn older_roots(newest: &FoundRoot, seen: &[Seen]) -> String {
    let number = newest.header.batch.number;
    let line = |(_, id, own)| {
        format!("; the newest root of disk {id} is {own}, that of the volume {number}: it may be an older copy")
    };
    with_older_root(newest, seen).map(line).collect()
}

/// Refuses a member that is an older copy. Nothing was written until now.
pub(super) async fn refuse_older_copies(
    shared: &Shared,
    newest: &FoundRoot,
    seen: &[Seen],
    pointers: &BTreeMap<ZoneIndex, Zone>,
) -> Result<(), Reason> {
    if shared.borrow().guards.gone().older_copies {
        return Ok(());
    }
    let number = newest.header.batch.number;
    for (seen, id, own) in with_older_root(newest, seen) {
        let zones = shared.borrow().disks.set.zones(seen.member);
        let mut zone = zone_of_older_copy(shared, newest, zones.clone(), pointers).await;
        if zone.is_none() {
            zone = zone_short_of_runs(shared, &zones, pointers).await?;
        }
        if zone.is_none() {
            zone = zone_short_of_leaves(shared, &zones, pointers).await;
        }
        if let Some(zone) = zone {
            return Err(failed(format!(
                "disk {id} is an older copy: its newest root is {own}, that of the volume {number}, and zone {zone} has not what was \
                 written to it; nothing was changed: give the disk that was used last"
            )));
        }
    }
    Ok(())
}

/// The zone of a member at which there is enough evidence that it is an older copy, if there is.
async fn zone_of_older_copy(
    shared: &Shared,
    newest: &FoundRoot,
    zones: Range<ZoneIndex>,
    pointers: &BTreeMap<ZoneIndex, Zone>,
) -> Option<ZoneIndex> {
    let (set, rows) = {
        let state = shared.borrow();
        let rows = (zones.start.0..zones.end.0).map(|zone| (ZoneIndex(zone), state.zones.rows()[zone as usize]));
        (newest.header.batch.set, stale::witnesses((&state.disks.set, &newest.root), rows))
    };
    let mut evidence = 0;
    for (zone, row) in rows {
        let known = pointers.get(&zone);
        let (start, writable) = {
            let state = shared.borrow();
            (state.disks.set.start(zone), state.disks.zones[zone.0 as usize].writable())
        };
        let blocks = HEADER_BLOCKS.min(known.map_or(writable, blocks_written));
        if blocks == 0 || known.is_some_and(|known| known.cond.is_dead()) {
            continue;
        }
        let bytes = super::headers::read(shared, start, blocks).await;
        evidence += bytes.map_or(0, |bytes| stale::evidence(&row, set, known.is_some(), &bytes.to_vec()));
        if evidence >= stale::ENOUGH {
            return Some(zone);
        }
    }
    None
}

/// A zone of a member that ends before a block which a run has there, if one does.
async fn zone_short_of_runs(
    shared: &Shared,
    zones: &Range<ZoneIndex>,
    pointers: &BTreeMap<ZoneIndex, Zone>,
) -> Result<Option<ZoneIndex>, Reason> {
    let runs = shared.borrow().map.runs.len();
    for run in 0..runs {
        let (number, pages) = {
            let run = &shared.borrow().map.runs[run];
            (run.number, run.pages.clone())
        };
        let mut short = None;
        read_pages(shared, &pages, |extents| {
            short = short.or_else(|| zone_short_of(&shared.borrow(), Some(number), extents, (zones, pointers)));
        })
        .await?;
        if short.is_some() {
            return Ok(short);
        }
    }
    Ok(None)
}

/// Leaves that a start reads at most to compare them with write pointers.
const MAX_LEAVES_READ: usize = 4096;

/// A zone of a member that ends before a block which a leaf has there, if one does. Leaves are read only if a zone has fewer blocks than its row says,
/// and then [`MAX_LEAVES_READ`] of them, at most.
async fn zone_short_of_leaves(
    shared: &Shared,
    zones: &Range<ZoneIndex>,
    pointers: &BTreeMap<ZoneIndex, Zone>,
) -> Option<ZoneIndex> {
    let leaves: Vec<Node> = {
        let state = shared.borrow();
        let is_short = |(zone, known): (&ZoneIndex, &Zone)| {
            let row = &state.zones.rows()[zone.0 as usize];
            row.live > 0 && row.used_for == ZoneUse::Full && blocks_written(known) < row.written.max(1)
        };
        let rows = if pointers.range(zones.clone()).any(is_short) { &state.map.leaves[..] } else { &[] };
        let leaves = (0..).map(LeafNo).zip(rows).filter(|(_, row)| row.blocks > 0);
        leaves.map(|(leaf, row)| Node::Leaf(leaf, *row)).take(MAX_LEAVES_READ).collect()
    };
    for leaf in leaves {
        // What cannot be read is an error when a user reads it.
        let Ok(bytes) = super::headers::read(shared, leaf.place(), leaf.blocks()).await else { continue };
        let state = shared.borrow();
        let extents = leaf.decode(state.map.leaf_size, &bytes.to_vec()).unwrap_or_default();
        let short = zone_short_of(&state, None, &extents, (zones, pointers));
        if short.is_some() {
            return short;
        }
    }
    None
}

/// A zone that ends before a block which one of `extents` has there, if one does. `level`: the run that has them, `None` for a leaf; what a newer run
/// has of them does not count.
fn zone_short_of(
    state: &State,
    level: Option<RunNo>,
    extents: &[Extent],
    (zones, pointers): (&Range<ZoneIndex>, &BTreeMap<ZoneIndex, Zone>),
) -> Option<ZoneIndex> {
    let short = |extent: &Extent| {
        let (zone, offset) = state.disks.set.zone_of(extent.place(0)?.0);
        let known = pointers.get(&zone).filter(|known| zones.contains(&zone) && !known.cond.is_dead())?;
        let mut behind = blocks_written(known).saturating_sub(offset)..extent.blocks;
        behind.any(|block| state.map.run_of(extent.lba + u64::from(block)) == level).then_some(zone)
    };
    extents.iter().find_map(short)
}

/// Blocks of a zone before its write pointer.
pub(super) fn blocks_written(zone: &Zone) -> u32 {
    ((zone.written_up_to() - zone.start) / u64::from(BLOCK_SECTORS)) as u32
}
