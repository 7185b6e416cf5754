//! Members that are older copies: a clone or a restored backup of a disk of the volume.
//!
//! A power loss leaves a member whose newest root is older than that of the others, as roots are written to one member after the other. It
//! never leaves a full zone without the data that the newest root covers: that was flushed before the root was written, and no zone is emptied
//! before the next root is durable. A full zone that may have other batches as well is among the zones that the root names as open.

use alloc::collections::BTreeSet;

use super::ZoneIndex;
use super::format::{Header, Root, SetId, ZoneRow, ZoneUse};
use super::log::Stream;
use super::set::Set;
use crate::prelude::*;

/// Most zones of a member whose first header is read.
const MAX_WITNESSES: usize = 16;
/// Zones of a copy that have other data, at least: one may have lost its data by a fault of the disk.
pub(super) const MIN_OLDER: usize = 2;

/// Blocks to read of the start of a zone for the header of its first batch.
pub(super) const HEADER_BLOCKS: u32 = 4;

/// Full zones of a member whose data is all covered by the newest root, from the zone that was filled last to earlier ones. `rows`: the rows of the
/// zones of the member in the table of this root.
pub(super) fn witnesses(
    (set, root): (&Set, &Root),
    rows: impl Iterator<Item = (ZoneIndex, ZoneRow)>,
) -> Vec<(ZoneIndex, ZoneRow)> {
    let open: BTreeSet<ZoneIndex> = root.open.iter().map(|open| set.zone_of(open.start).0).collect();
    let is_of_data = |row: &ZoneRow| [Stream::Users as u8, Stream::Copies as u8].contains(&row.stream);
    let is_witness =
        |row: &ZoneRow| row.used_for == ZoneUse::Full && row.live > 0 && row.written > 0 && is_of_data(row);
    let mut found: Vec<(ZoneIndex, ZoneRow)> =
        rows.filter(|(zone, row)| is_witness(row) && !open.contains(zone)).collect();
    found.sort_by_key(|(_, row)| core::cmp::Reverse(row.closed_at));
    found.truncate(MAX_WITNESSES);
    found
}

/// True if a zone begins with nothing, or with a batch of an earlier generation than that of `row`, the row of the zone in the newest root. A
/// damaged header returns false: a copy has whole ones.
pub(super) fn is_older(row: &ZoneRow, set: SetId, start: &[u8]) -> bool {
    match Header::decode(start) {
        Ok((header, _)) => header.batch.set != set || header.batch.generation < row.generation,
        Err(_) => start.iter().all(|byte| *byte == 0),
    }
}
