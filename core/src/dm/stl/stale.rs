//! Members that are older copies: a clone or a restored backup of a disk of the volume.
//!
//! A power loss leaves a member whose newest root is older than that of the others, as roots are written to one member after the other. It
//! never leaves a zone without the data that the newest root leads to: that was flushed before the root was written, and a zone is emptied only
//! when a durable root leads to nothing in it. So the first batches of zones are compared with the table of zones of that root.

use alloc::collections::BTreeSet;

use super::ZoneIndex;
use super::format::{Header, Root, SetId, ZoneRow, ZoneUse};
use super::log::Stream;
use super::set::Set;
use crate::prelude::*;

/// Most zones of a member whose first header is read.
const MAX_WITNESSES: usize = 16;
/// The weight of evidence at which a member counts as an older copy.
pub(super) const ENOUGH: u32 = 2;

/// Blocks to read of the start of a zone for the header of its first batch.
pub(super) const HEADER_BLOCKS: u32 = 4;

/// Zones of a member with data: open zones that the newest root names, then full zones, the last one filled first. `rows`: the rows of the zones of
/// the member in the table of this root.
pub(super) fn witnesses(
    (set, root): (&Set, &Root),
    rows: impl Iterator<Item = (ZoneIndex, ZoneRow)>,
) -> Vec<(ZoneIndex, ZoneRow)> {
    let open: BTreeSet<ZoneIndex> = root.open.iter().map(|open| set.zone_of(open.start).0).collect();
    let is_of_data = |row: &ZoneRow| Stream::of(row.stream).is_some_and(|stream| stream != Stream::Map);
    let is_witness =
        |row: &ZoneRow| row.live > 0 && is_of_data(row) && matches!(row.used_for, ZoneUse::Open | ZoneUse::Full);
    let mut found: Vec<(ZoneIndex, ZoneRow)> = rows.filter(|(_, row)| is_witness(row)).collect();
    found.sort_by_key(|(zone, row)| core::cmp::Reverse((open.contains(zone), row.closed_at)));
    found.truncate(MAX_WITNESSES);
    found
}

/// Returns how strongly a zone shows that its member is an older copy: 0, 1, or [`ENOUGH`]. `row`: of the zone, in the newest root. `start`: its first
/// blocks.
///
/// A write pointer goes back only for a new generation, so a batch of an earlier one in a zone with a pointer is enough. A zone without one may have
/// kept the batch that a failed write was to replace, which counts half. An empty zone does not count: live blocks of a row are an upper bound, and a
/// zone whose blocks are all superseded is emptied.
pub(super) fn evidence(row: &ZoneRow, set: SetId, is_sequential: bool, start: &[u8]) -> u32 {
    let is_older = Header::decode(start)
        .is_ok_and(|(header, _)| header.batch.set != set || header.batch.generation < row.generation);
    if is_older && is_sequential { ENOUGH } else { u32::from(is_older) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::format::{Batch, BatchKind};
    use crate::dm::stl::{BLOCK_BYTES, Generation};

    const SET: SetId = SetId([7; 16]);

    fn start_of(set: SetId, generation: u32) -> Vec<u8> {
        let batch = Batch { set, generation: Generation(generation), ..Batch::default() };
        Header { batch, kind: BatchKind::User(Vec::new()), checksums: Vec::new() }.encode()
    }

    #[test]
    fn an_earlier_generation_in_a_zone_with_a_write_pointer_is_enough() {
        let row = ZoneRow { used_for: ZoneUse::Full, generation: Generation(3), written: 16, ..ZoneRow::default() };
        let of = |is_sequential, start: &[u8]| evidence(&row, SET, is_sequential, start);
        let [older, own, later] = [2, 3, 4].map(|generation| start_of(SET, generation));
        let other = start_of(SetId([8; 16]), 3);
        assert_eq!([of(true, &older), of(true, &other)], [ENOUGH; 2]);
        assert_eq!([of(false, &older), of(false, &other)], [1; 2]);
        let empty = [0; BLOCK_BYTES];
        assert_eq!([of(true, &own), of(false, &own), of(true, &later), of(true, &empty), of(true, &[])], [0; 5]);
    }
}
