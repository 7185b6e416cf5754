//! Leaves in order, many at a time: those that lie near each other on the disk are read at once.

use super::disks::Reading;
use super::format::LeafRow;
use super::map::{Extent, LeafNo, Node};
use super::state::{Shared, State};
use super::{BLOCK_BYTES, Pba};
use crate::block::Reason;
use crate::prelude::*;

/// Blocks of leaves that are read at once.
const MOST_BLOCKS: u32 = 1024;
/// Blocks between two leaves that are rather read than skipped.
const MOST_GAP: u64 = 64;
/// Leaves that are looked at before others get their turn.
const MOST_LEAVES: u32 = 4096;

/// Leaves in a row that are looked at together.
pub(super) struct Window {
    /// Behind the last.
    pub end: LeafNo,
    /// Those that matter.
    rows: Vec<(LeafNo, LeafRow)>,
}

/// Leaves that lie near each other.
struct Group {
    start: Pba,
    end: Pba,
}

impl State {
    /// As many leaves from `first` on as are read at once, of which those matter that `concerns` says.
    pub fn window(&self, first: LeafNo, concerns: impl Fn(&Self, LeafNo) -> bool) -> Window {
        let last = (first.0 + MOST_LEAVES).min(self.map.leaves.len() as u32);
        let (mut rows, mut blocks, mut end) = (Vec::new(), 0, first);
        while end.0 < last && blocks < MOST_BLOCKS {
            if concerns(self, end) {
                let row = self.map.leaves[end.0 as usize];
                // A leaf that is not there yet may become as long as any.
                blocks += u32::from(row.blocks).max(8);
                rows.push((end, row));
            }
            end = LeafNo(end.0 + 1);
        }
        Window { end, rows }
    }
}

/// Reads the leaves of a window that matter.
pub(super) async fn read_leaves(shared: &Shared, window: &Window) -> Result<Vec<(LeafNo, Vec<Extent>)>, Reason> {
    let groups = groups(&window.rows, shared.borrow().disks.set.zone_blocks());
    let mut begun: Vec<Reading> = Vec::new();
    for Group { start, end } in &groups {
        let state = shared.borrow();
        begun.push(state.disks.read(&state.io, *start, (*end - *start) as u32)?);
    }
    let mut data = Vec::new();
    for (group, reading) in groups.iter().zip(begun) {
        data.push((group.start, reading.data().await?));
    }
    let mut leaves = Vec::with_capacity(window.rows.len());
    for (leaf, row) in &window.rows {
        let extents = if row.blocks == 0 { Vec::new() } else { decode(*leaf, *row, &data)? };
        leaves.push((*leaf, extents));
    }
    Ok(leaves)
}

fn decode(leaf: LeafNo, row: LeafRow, data: &[(Pba, crate::block::Data)]) -> Result<Vec<Extent>, Reason> {
    let group = data.partition_point(|(start, _)| *start <= row.place) - 1;
    let (start, data) = &data[group];
    let bytes = data.slice((row.place - *start) as usize * BLOCK_BYTES, usize::from(row.blocks) * BLOCK_BYTES);
    let damaged = |error| Reason::VolumeFailed(format!("block {} of the map: {error}", row.place).into());
    Node::Leaf(leaf, row).decode(&bytes.to_vec()).map_err(damaged)
}

fn groups(rows: &[(LeafNo, LeafRow)], zone_blocks: u32) -> Vec<Group> {
    let zone = |place: Pba| place.0 / u64::from(zone_blocks);
    let mut rows: Vec<LeafRow> = rows.iter().map(|(_, row)| *row).filter(|row| row.blocks > 0).collect();
    rows.sort_unstable_by_key(|row| row.place);
    let mut groups: Vec<Group> = Vec::new();
    for row in rows {
        let end = row.place + u64::from(row.blocks);
        let joins = |group: &Group| {
            let is_near = row.place - group.end <= MOST_GAP && end - group.start <= u64::from(MOST_BLOCKS);
            is_near && zone(group.start) == zone(row.place)
        };
        match groups.last_mut() {
            Some(group) if joins(group) => group.end = end,
            _ => groups.push(Group { start: row.place, end }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_that_lie_near_each_other_in_one_zone_are_one_group() {
        let row = |place, blocks| (LeafNo(0), LeafRow { place: Pba(place), blocks });
        let rows = [row(500, 19), row(100, 2), row(0, 0), row(102, 3), row(160, 1), row(4990, 1), row(5000, 1)];
        let found: Vec<_> = groups(&rows, 1000).iter().map(|group| (group.start.0, group.end.0)).collect();
        assert_eq!(found, [(100, 161), (500, 519), (4990, 4991), (5000, 5001)]);
    }
}
