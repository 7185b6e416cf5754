//! Parts of the map on their way to the disk.

use super::append::{Tries, finish, room_for};
use super::disks::memory;
use super::format::{BatchKind, Checksum, Header, Life};
use super::lanes::Lanes;
use super::log::{Pool, Sealed};
use super::map::Run;
use super::refusal::until_let_in;
use super::state::{Shared, State};
use super::{BLOCK_BYTES, Pba};
use crate::block::Reason;
use crate::prelude::*;

/// Most blocks of a batch of nodes: 8 MiB. The head comes and goes once for each.
pub(super) const MOST_BLOCKS: u32 = 2048;

/// A part of the map that says of itself where it is.
pub(super) struct Draft<'a> {
    pub blocks: u32,
    /// Its bytes, if it lies there.
    pub encode: Box<dyn Fn(Pba) -> Vec<u8> + 'a>,
}

/// Writes these, and says where each is. They are no part of the map yet. `share`: whose share they take of the zones that may be opened now.
pub(super) async fn write_all(shared: &Shared, share: Pool, drafts: &[Draft<'_>]) -> Result<Vec<Pba>, Reason> {
    let mut places = Vec::with_capacity(drafts.len());
    let result = write_each(shared, share, drafts, &mut places).await;
    if result.is_err() {
        let written: Vec<(Pba, u32)> = places.iter().copied().zip(drafts.iter().map(|draft| draft.blocks)).collect();
        shared.borrow_mut().give_up(&written);
    }
    result.map(|()| places)
}

/// Writes as many as can be, in their order. `places`: where.
async fn write_each(shared: &Shared, share: Pool, drafts: &[Draft<'_>], places: &mut Vec<Pba>) -> Result<(), Reason> {
    while places.len() < drafts.len() {
        let next = &drafts[places.len()..];
        let least = shared.borrow().map_header(next[0].blocks) + next[0].blocks;
        until_let_in(shared, async || room_for(shared, Lanes::MAP, share, least).await).await?;
        let (sealed, sent, start, nodes, blocks) = {
            let mut state = shared.borrow_mut();
            let (start, count) = state.fit(next)?;
            let nodes = &next[..count];
            let blocks = blocks_of(nodes);
            let sealed = draw_up(nodes, start, &mut state)?;
            let sent = state.send(Lanes::MAP, &sealed, 0);
            // They count from now on: a zone that is full of what is on its way has nothing else of the map, and is not given back.
            let (zone, _) = state.disks.set.zone_of(start);
            state.zones.count_map(zone, blocks.into());
            (sealed, sent, start, nodes, blocks)
        };
        let result = finish(shared, Pool::Map, &sealed, sent, &mut Tries::default()).await;
        let mut state = shared.borrow_mut();
        let place = result.as_ref().ok().map(|slot| State::payload_place(slot, &sealed));
        if place != Some(start) {
            // It was written elsewhere, where its nodes do not belong, or nowhere.
            state.give_up(&[(start, blocks)]);
            result?;
            continue;
        }
        state.counters.map_blocks += u64::from(blocks);
        places.extend(offsets(nodes).map(|at| start + u64::from(at)));
    }
    Ok(())
}

/// Where each begins, if the first is at 0.
fn offsets(drafts: &[Draft<'_>]) -> impl Iterator<Item = u32> {
    drafts.iter().scan(0, |end, draft| {
        let at = *end;
        *end += draft.blocks;
        Some(at)
    })
}

/// How many there are in all.
fn blocks_of(drafts: &[Draft<'_>]) -> u32 {
    drafts.iter().map(|draft| draft.blocks).sum()
}

/// A batch of them whose payload begins at `start`.
fn draw_up(drafts: &[Draft<'_>], start: Pba, state: &mut State) -> Result<Sealed, Reason> {
    let all = blocks_of(drafts);
    let (payload, mut checksums) = (memory(all as usize)?, Vec::with_capacity(all as usize));
    for (draft, at) in drafts.iter().zip(offsets(drafts)) {
        let bytes = (draft.encode)(start + u64::from(at));
        payload.write(at as usize * BLOCK_BYTES, &bytes);
        checksums.extend(bytes.chunks(BLOCK_BYTES).map(Checksum::of));
    }
    state.map_batches += 1;
    Ok(Sealed {
        number: state.map_batches,
        kind: BatchKind::Map(state.lives.clone()),
        checksums,
        payload: vec![payload],
    })
}

impl State {
    /// Blocks of the header of a batch with so many blocks of nodes.
    fn map_header(&self, blocks: u32) -> u32 {
        Header::blocks_of(self.lives.len() * Life::BYTES, blocks as usize) as u32
    }

    /// How many of them go into the next batch, and where its payload begins.
    fn fit(&self, drafts: &[Draft<'_>]) -> Result<(Pba, usize), Reason> {
        let cursor = self.lanes[Lanes::MAP].cursor.expect("there is room");
        let room = (cursor.room - cursor.next).min(self.disks.least_room);
        let ends = offsets(drafts).zip(drafts).map(|(at, draft)| at + draft.blocks);
        let fits = |end: &u32| *end <= MOST_BLOCKS && self.map_header(*end) + end <= room;
        let fitting: Vec<u32> = ends.take_while(fits).collect();
        let Some(blocks) = fitting.last() else { return Err(Reason::VolumeFull) };
        let start = self.disks.set.start(cursor.zone) + u64::from(cursor.next + self.map_header(*blocks));
        Ok((start, fitting.len()))
    }

    /// The next root does without these blocks.
    pub fn release(&mut self, place: Pba, blocks: u32) {
        if self.guards.gone().free_map_at_once {
            return self.give_up(&[(place, blocks)]);
        }
        if blocks > 0 {
            self.tables.released.push((place, blocks));
        }
    }

    /// The next root does without a run.
    pub fn release_run(&mut self, run: &Run) {
        run.pages.iter().for_each(|page| self.release(page.place, 1));
        self.release(run.piece.place, run.piece.blocks);
    }

    /// Blocks that no root names any more.
    pub fn give_up(&mut self, released: &[(Pba, u32)]) {
        for (place, blocks) in released {
            let (zone, _) = self.disks.set.zone_of(*place);
            self.zones.count_map(zone, -i64::from(*blocks));
        }
    }
}
