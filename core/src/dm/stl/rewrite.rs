//! Ranges that somebody read in order and that lie scattered, written in order.

use super::copy::{Origin, copy};
use super::disks::data_of;
use super::log::checksums_of;
use super::map::{Extent, Found, Source};
use super::near::{Gaps, Group};
use super::read::Pinned;
use super::read_map;
use super::state::{Shared, State};
use super::victim::Block;
use super::{BLOCK_BYTES, Lba, Pba};
use crate::block::{Data, Payload, Reason};
use crate::prelude::*;

/// Groups of pieces that are read at one time, and blocks with the gaps between them: 16 MiB.
const MOST_READS: usize = 64;
const MOST_BLOCKS: u64 = 4096;
/// Most blocks of a gap that is read where there is a head: 1 MiB takes half the time that it takes to come to another place.
const MOST_GAP: u64 = 256;

/// A piece of the range, and where it lies.
type Piece = (Pba, Extent);

/// Writes what is in `start..end` in order. Whether it was done: not if a user came.
pub(super) async fn rewrite(shared: &Shared, start: Lba, end: Lba) -> Result<bool, Reason> {
    let end = end.min(Lba(shared.borrow().capacity));
    let mut pieces = pieces(shared, start, end).await?;
    pieces.sort_unstable_by_key(|(place, _)| *place);
    let groups = groups(&shared.borrow(), &pieces);
    let (mut left, mut blocks) = (&pieces[..], Vec::new());
    for groups in at_a_time(&groups) {
        if !shared.borrow().is_idle() {
            return Ok(false);
        }
        let begin = |group: &Group| Pinned::begin(&mut shared.borrow_mut(), group.start, group.blocks() as u32);
        let begun: Vec<Pinned> = groups.iter().map(begin).collect();
        for (group, reading) in groups.iter().zip(begun) {
            let inside;
            (inside, left) = left.split_at(left.partition_point(|(place, _)| *place < group.end));
            blocks.extend(blocks_of(shared, inside, group, reading).await?);
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

/// Pieces that are read at once.
fn groups(state: &State, pieces: &[Piece]) -> Vec<Group> {
    let disks = &state.disks;
    let most = |place: Pba| match disks.spot(place) {
        Ok((disk, _)) if disk.is_rotational => MOST_GAP,
        _ => 0,
    };
    let parts = pieces.iter().map(|(place, piece)| (*place, u64::from(piece.blocks))).collect();
    Gaps { most, all: u64::MAX, group: MOST_BLOCKS }.groups(parts, disks.set.zone_blocks())
}

/// As many of the groups as are read at one time, and those behind them.
fn at_a_time(mut groups: &[Group]) -> impl Iterator<Item = &[Group]> {
    core::iter::from_fn(move || {
        let ends = groups.iter().scan(0, |sum, group| {
            *sum += group.blocks();
            Some(*sum)
        });
        let count = ends.take(MOST_READS).take_while(|blocks| *blocks <= MOST_BLOCKS).count();
        let (now, rest) = groups.split_at(count.max(1).min(groups.len()));
        groups = rest;
        (!now.is_empty()).then_some(now)
    })
}

/// What has data in `start..end`, and where that is.
async fn pieces(shared: &Shared, start: Lba, end: Lba) -> Result<Vec<Piece>, Reason> {
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

/// The blocks of pieces that are read at once. If that fails each is read by itself: it may be a gap that cannot be read.
async fn blocks_of(
    shared: &Shared,
    pieces: &[Piece],
    group: &Group,
    reading: Pinned,
) -> Result<Vec<(Block, Data)>, Reason> {
    let whole = reading.data(shared).await;
    let mut blocks = Vec::new();
    for (place, piece) in pieces {
        let data = match &whole {
            Ok(whole) => {
                let (at, bytes) = ((*place - group.start) as usize * BLOCK_BYTES, piece.blocks as usize * BLOCK_BYTES);
                // A slice would keep all that was read with it.
                Ok(data_of(&whole.slice(at, bytes).to_vec())?)
            }
            Err(_) => {
                let reading = Pinned::begin(&mut shared.borrow_mut(), *place, piece.blocks);
                reading.data(shared).await
            }
        };
        blocks.extend(data.map(|data| blocks_of_piece(shared, piece, &data)).unwrap_or_default());
    }
    Ok(blocks)
}

/// The blocks of a piece. One that cannot be read, or is not what was written, stays where it is.
fn blocks_of_piece(shared: &Shared, piece: &Extent, data: &Data) -> Vec<(Block, Data)> {
    if checksums_of(piece.lba, &Payload::Data(data.clone())) != piece.span().checksums {
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
