//! Leaves in order, many at a time: those that lie near each other on the disk are read at once.

use super::disks::Reading;
use super::format::{LeafRow, decode_into};
use super::map::{LeafImage, LeafNo};
use super::near::Gaps;
use super::state::{Shared, State};
use super::{BLOCK_BYTES, Pba};
use crate::block::{Data, Reason};
use crate::prelude::*;

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

/// Leaves as they were read: what is in them takes several times the memory.
pub(super) struct Leaves {
    pub rows: Vec<(LeafNo, LeafRow)>,
    data: Vec<(Pba, Data)>,
}

impl State {
    /// Leaves of `most` blocks from `first` on, of which those matter that `concerns` says.
    pub fn window(&self, first: LeafNo, most: u32, concerns: impl Fn(&Self, LeafNo) -> bool) -> Window {
        let last = (first.0 + MOST_LEAVES).min(self.map.leaves.len() as u32);
        let (mut rows, mut blocks, mut end) = (Vec::new(), 0, first);
        while end.0 < last && blocks < most {
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

impl Window {
    /// Looks at half of it only; false if it cannot be less.
    pub fn halve(&mut self) -> bool {
        let half = self.rows.len() / 2;
        let Some((last, _)) = half.checked_sub(1).map(|last| self.rows[last]) else { return false };
        self.rows.truncate(half);
        self.end = LeafNo(last.0 + 1);
        true
    }
}

/// Reads the leaves of a window that matter, in the order in which they lie.
pub(super) async fn read_leaves(shared: &Shared, window: Window) -> Result<Leaves, Reason> {
    let rows = window.rows.iter().map(|(_, row)| (row.place, u64::from(row.blocks)));
    let rows: Vec<(Pba, u64)> = rows.filter(|(_, blocks)| *blocks > 0).collect();
    // No more is read of gaps than of leaves.
    let all = rows.iter().map(|(_, blocks)| blocks).sum();
    let gaps = Gaps { most: |_| MOST_GAP, all, group: u64::MAX };
    let groups = gaps.groups(rows, shared.borrow().disks.set.zone_blocks());
    let mut begun: Vec<Reading> = Vec::new();
    for group in &groups {
        let state = shared.borrow();
        begun.push(state.disks.read(&state.io, group.start, group.blocks() as u32)?);
    }
    let mut data = Vec::new();
    for (group, reading) in groups.iter().zip(begun) {
        data.push((group.start, reading.data().await?));
    }
    Ok(Leaves { rows: window.rows, data })
}

impl Leaves {
    /// Puts what is in one of them into its image.
    pub fn put(&self, (leaf, row): (LeafNo, LeafRow), image: &mut LeafImage) -> Result<(), Reason> {
        image.clear(leaf);
        if row.blocks == 0 {
            return Ok(());
        }
        let group = self.data.partition_point(|(start, _)| *start <= row.place) - 1;
        let (start, data) = &self.data[group];
        let bytes = data.slice((row.place - *start) as usize * BLOCK_BYTES, usize::from(row.blocks) * BLOCK_BYTES);
        let damaged = |error| Reason::VolumeFailed(format!("block {} of the map: {error}", row.place).into());
        decode_into(image, row.place, &bytes.to_vec()).map_err(damaged)
    }
}
