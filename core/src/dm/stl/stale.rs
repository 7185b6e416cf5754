//! Members that are older copies: a clone or a restored backup of a disk of the volume.
//!
//! A power loss leaves a member whose newest root is older than that of the others, as roots are written to one member after the other. It
//! never leaves a zone without the data that the newest root names there: that was flushed before the root was written, and no zone is emptied
//! before the next root is durable. The table of zones has more than that, though: a zone that is full may have got its last batches while the
//! root was made, and these may be gone. They are few, as few batches are in flight at a time. So of a member whose newest root is older, the
//! zones that were filled last but for [`MAX_IN_FLIGHT`] are compared with the table.

use super::ZoneIndex;
use super::format::{Header, SetId, ZoneRow, ZoneUse};
use super::log::Stream;
use crate::prelude::*;

/// Zones of a member that may have been filled while the root was made, at most: a batch is in flight for each writer of each stream, and one that
/// fails is written again elsewhere.
const MAX_IN_FLIGHT: usize = 12;
/// Most zones of a member that are compared.
const MAX_WITNESSES: usize = 16;
/// Compared zones that differ in a copy, at least: one may have lost its data by a fault of the disk.
pub(super) const MIN_OLDER: usize = 2;

/// Blocks to read of the start of a zone for the header of its first batch.
pub(super) const HEADER_BLOCKS: u32 = 4;

/// Full zones of a member with data that the newest root names, from the zone that was filled last to earlier ones. Zones that may have been filled
/// while the root was made are left out.
pub(super) fn witnesses(rows: impl Iterator<Item = (ZoneIndex, ZoneRow)>) -> Vec<(ZoneIndex, ZoneRow)> {
    let is_of_data = |row: &ZoneRow| [Stream::Users as u8, Stream::Copies as u8].contains(&row.stream);
    let is_witness =
        |row: &ZoneRow| row.used_for == ZoneUse::Full && row.live > 0 && row.written > 0 && is_of_data(row);
    let mut found: Vec<(ZoneIndex, ZoneRow)> = rows.filter(|(_, row)| is_witness(row)).collect();
    found.sort_by_key(|(_, row)| core::cmp::Reverse(row.closed_at));
    found.into_iter().skip(MAX_IN_FLIGHT).take(MAX_WITNESSES).collect()
}

/// True if a zone begins with nothing, or with a batch of an earlier generation than that of `row`, the row of the zone in the newest root. A
/// damaged header returns false: a copy has whole ones.
pub(super) fn is_older(row: &ZoneRow, set: SetId, start: &[u8]) -> bool {
    match Header::decode(start) {
        Ok((header, _)) => header.batch.set != set || header.batch.generation < row.generation,
        Err(_) => start.iter().all(|byte| *byte == 0),
    }
}
