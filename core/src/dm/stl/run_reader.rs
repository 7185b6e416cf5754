//! Runs on their way into leaves: each is read once, from its first page to its last.

use core::ops::Range;

use alloc::collections::VecDeque;

use super::disks::Reading;
use super::format::{PageRow, decode_page};
use super::map::{Extent, LeafImage, LeafSize, Run, pages_from};
use super::state::{Shared, State};
use super::{BLOCK_BYTES, Lba, Pba};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// Pages that are read at once, however little memory is left.
const LEAST_PAGES: usize = 16;

/// A run that is read.
pub(super) struct RunReader {
    /// What it says of blocks before this one is in leaves.
    first: Lba,
    pages: VecDeque<PageRow>,
    /// Pages that were read and not taken apart yet, the first of those in `pages` behind them.
    raw: VecDeque<(Pba, Data)>,
    /// The extents of a page that are not used up.
    extents: VecDeque<Extent>,
}

impl RunReader {
    /// A reader of all that a run still tells.
    pub fn new(run: &Run, size: LeafSize) -> Self {
        let first = size.start(run.piece.first);
        let pages = pages_from(&run.pages, first).iter().copied().collect();
        Self { first, pages, raw: VecDeque::new(), extents: VecDeque::new() }
    }

    /// Pages that are in memory when everything before `end` is.
    pub fn pages_before(&self, end: Lba) -> usize {
        self.raw.len() + self.pages.partition_point(|page| page.first < end)
    }

    /// Whether it tells anything of blocks before `end`. An extent that reaches beyond leaves that have all of it may be older than what is in those.
    pub fn tells_before(&self, end: Lba) -> bool {
        self.first < end
    }

    /// Whether something before `end` is not in memory.
    fn lacks(&self, end: Lba) -> bool {
        self.pages.front().is_some_and(|page| page.first < end)
    }

    /// Begins to read its next pages, `most` at once.
    fn begin(&mut self, most: usize, state: &State) -> Result<(Vec<Pba>, Reading), Reason> {
        let first = self.pages.front().map_or(Pba::END, |page| page.place);
        let row = self.pages.iter().zip(0..most as u64).take_while(|(page, at)| page.place == first + *at);
        let places: Vec<Pba> = row.map(|(page, _)| page.place).collect();
        self.pages.drain(..places.len());
        let reading = state.disks.read(&state.io, first, places.len() as u32)?;
        Ok((places, reading))
    }

    /// The first block of a page that is so far behind the next.
    pub fn first_behind(&self, pages: usize) -> Lba {
        self.pages.get(pages).map_or(Lba::END, |page| page.first)
    }

    /// Its next extent from `at` on, of pages in memory.
    fn next_from(&mut self, at: Lba) -> Result<Option<&Extent>, Reason> {
        loop {
            while self.extents.front().is_some_and(|extent| extent.end() <= at) {
                self.extents.pop_front();
            }
            if !self.extents.is_empty() || !self.take_apart()? {
                break;
            }
        }
        if let Some(extent) = self.extents.front_mut().filter(|extent| extent.lba < at) {
            *extent = extent.part(at, extent.end());
        }
        Ok(self.extents.front())
    }

    /// Takes its next page apart, if there is one in memory.
    fn take_apart(&mut self) -> Result<bool, Reason> {
        let Some((place, data)) = self.raw.pop_front() else { return Ok(false) };
        let page = decode_page(place, &data.to_vec());
        self.extents = page.map_err(|error| damaged(place, &error))?.into();
        Ok(true)
    }

    /// Puts what it has before `end` into a leaf, over what is there.
    pub fn merge(&mut self, image: &mut LeafImage, end: Lba, replaced: &mut Vec<Pba>) -> Result<bool, Reason> {
        let mut is_changed = false;
        loop {
            // What leaves have that nobody looked at is in later runs.
            while self.extents.front().is_some_and(|extent| extent.end() <= image.start()) {
                self.extents.pop_front();
            }
            while let Some(extent) = self.extents.front().filter(|extent| extent.lba < end) {
                image.put(extent, |place| replaced.push(place));
                is_changed = true;
                if extent.end() > end {
                    // The rest of it is for the next leaf.
                    return Ok(true);
                }
                self.extents.pop_front();
            }
            if !self.extents.is_empty() {
                return Ok(is_changed);
            }
            if !self.take_apart()? {
                return Ok(is_changed);
            }
        }
    }
}

/// The next extent in `range` of what runs have there, the oldest of which come first: of a block that several have, that of the newest.
pub(super) fn newest_in(runs: &mut [RunReader], range: Range<Lba>) -> Result<Option<Extent>, Reason> {
    let (mut first, mut until): (Option<&Extent>, Lba) = (None, range.end);
    for run in runs {
        let Some(next) = run.next_from(range.start)?.filter(|next| next.lba < range.end) else { continue };
        if first.is_some_and(|older| older.lba < next.lba) {
            // It goes over that from where it begins.
            until = until.min(next.lba);
        } else {
            (first, until) = (Some(next), range.end);
        }
    }
    Ok(first.map(|extent| extent.part(extent.lba, until)))
}

fn damaged(place: Pba, error: &dyn core::fmt::Display) -> Reason {
    Reason::VolumeFailed(format!("block {place} of the map: {error}").into())
}

/// Brings all that these runs have before `end` into memory. Those that lack something share what is left of `room` pages and read that far
/// ahead: of many runs few have something in one place, and each read costs a way of the head.
pub(super) async fn read_up_to(shared: &Shared, runs: &mut [RunReader], end: Lba, room: usize) -> Result<(), Reason> {
    loop {
        let held: usize = runs.iter().map(|run| run.raw.len()).sum();
        let lacking = runs.iter().filter(|run| run.lacks(end)).count();
        if lacking == 0 {
            return Ok(());
        }
        let share = (room.saturating_sub(held) / lacking).max(LEAST_PAGES);
        let mut begun = Vec::new();
        for run in runs.iter_mut().filter(|run| run.lacks(end)) {
            let reading = run.begin(share, &shared.borrow())?;
            begun.push((run, reading));
        }
        for (run, (places, reading)) in begun {
            let data = reading.data().await?;
            let pages = places.into_iter().enumerate();
            run.raw.extend(pages.map(|(at, place)| (place, data.slice(at * BLOCK_BYTES, BLOCK_BYTES))));
        }
    }
}
