//! Ranges that somebody read in order and that lie scattered, written in order.

use super::copy::{Origin, copy};
use super::log::checksums_of;
use super::map::{Extent, Found, Source};
use super::read::Pinned;
use super::read_map;
use super::state::Shared;
use super::victim::Block;
use super::{BLOCK_BYTES, Lba, Pba};
use crate::block::{Data, Payload, Reason};
use crate::prelude::*;

/// Pieces that are read at one time.
const MOST_READS: usize = 64;

/// Writes what is in `start..end` in order. Whether it was done: not if a user came.
pub(super) async fn rewrite(shared: &Shared, start: Lba, end: Lba) -> Result<bool, Reason> {
    let end = end.min(Lba(shared.borrow().capacity));
    let mut pieces = pieces(shared, start, end).await?;
    pieces.sort_unstable_by_key(|(place, _)| *place);
    let mut blocks = Vec::new();
    for pieces in pieces.chunks(MOST_READS) {
        if !shared.borrow().is_idle() {
            return Ok(false);
        }
        let begin = |(place, piece): &(Pba, Extent)| Pinned::begin(&mut shared.borrow_mut(), *place, piece.blocks);
        let begun: Vec<Pinned> = pieces.iter().map(begin).collect();
        for ((_, piece), reading) in pieces.iter().zip(begun) {
            blocks.extend(blocks_of(shared, piece, reading).await);
        }
    }
    blocks.sort_unstable_by_key(|(block, _): &(Block, Data)| block.lba);
    while !blocks.is_empty() && shared.borrow().is_idle() {
        let copied = copy(shared, Origin::Range, &blocks).await?;
        blocks.drain(..copied);
        shared.borrow_mut().counters.rewritten_blocks += copied as u64;
    }
    Ok(blocks.is_empty())
}

/// What has data in `start..end`, and where that is.
async fn pieces(shared: &Shared, start: Lba, end: Lba) -> Result<Vec<(Pba, Extent)>, Reason> {
    let (mut pieces, mut at) = (Vec::new(), start);
    while at < end && shared.borrow().is_idle() {
        let (found, until) = shared.borrow().map.find(at, end);
        match found {
            Found::Missing(node) => {
                let row = shared.borrow().map.row(node, at, read_map::ROW);
                read_map::load(shared, &row).await?;
                continue;
            }
            Found::Data(extent) => {
                if let Source::At(place, _) = extent.source {
                    pieces.push((place, extent));
                }
            }
            Found::Zeroes | Found::Damaged => {}
        }
        at = until;
    }
    Ok(pieces)
}

/// The blocks of a piece. One that cannot be read, or is not what was written, stays where it is.
async fn blocks_of(shared: &Shared, piece: &Extent, reading: Pinned) -> Vec<(Block, Data)> {
    let Ok(data) = reading.data(shared).await else { return Vec::new() };
    if checksums_of(piece.lba, &Payload::Data(data.clone())) != piece.checksums() {
        return Vec::new();
    }
    let written = shared.borrow().map_cut.0;
    let blocks = (0..piece.blocks).filter_map(|number| Some((number, piece.place(number)?)));
    let block = |(number, (place, checksum)): (u32, _)| {
        let lba = piece.lba + u64::from(number);
        (Block { lba, place, checksum, written }, data.slice(number as usize * BLOCK_BYTES, BLOCK_BYTES))
    };
    blocks.map(block).collect()
}
