//! Runs on their way into leaves: each is read once, from its first page to its last, in slices.

use alloc::collections::VecDeque;

use super::disks::Reading;
use super::format::{PageRow, decode_page};
use super::map::{Extent, LeafImage, Run};
use super::state::{Shared, State};
use super::{BLOCK_BYTES, Lba, Pba};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// A run that is read.
pub(super) struct RunReader {
    pages: VecDeque<PageRow>,
    /// Most pages of a slice.
    slice: usize,
    /// Pages that were read and not taken apart yet, the first of those in `pages` behind them.
    raw: VecDeque<(Pba, Data)>,
    /// The extents of a page that are not used up.
    extents: VecDeque<Extent>,
}

impl RunReader {
    /// A reader of all pages of a run, so many at once.
    pub fn new(run: &Run, slice: usize) -> Self {
        let pages = run.pages.iter().copied().collect();
        Self { pages, slice, raw: VecDeque::new(), extents: VecDeque::new() }
    }

    /// Begins to read the next slice, if something before `end` is not in memory.
    fn begin(&mut self, end: Lba, state: &State) -> Option<Result<(Vec<Pba>, Reading), Reason>> {
        let first = self.pages.front().filter(|page| page.first < end)?.place;
        let row = self.pages.iter().zip(0..self.slice as u64).take_while(|(page, at)| page.place == first + *at);
        let places: Vec<Pba> = row.map(|(page, _)| page.place).collect();
        self.pages.drain(..places.len());
        let reading = state.disks.read(&state.io, first, places.len() as u32);
        Some(reading.map(|reading| (places, reading)))
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
            let Some((place, data)) = self.raw.pop_front() else { return Ok(is_changed) };
            let page = decode_page(place, &data.to_vec());
            self.extents = page.map_err(|error| damaged(place, &error))?.into();
        }
    }
}

fn damaged(place: Pba, error: &dyn core::fmt::Display) -> Reason {
    Reason::VolumeFailed(format!("block {place} of the map: {error}").into())
}

/// Brings all that these runs have before `end` into memory.
pub(super) async fn read_up_to(shared: &Shared, runs: &mut [RunReader], end: Lba) -> Result<(), Reason> {
    loop {
        let mut begun = Vec::new();
        for (number, run) in runs.iter_mut().enumerate() {
            if let Some(reading) = run.begin(end, &shared.borrow()) {
                begun.push((number, reading?));
            }
        }
        if begun.is_empty() {
            return Ok(());
        }
        for (number, (places, reading)) in begun {
            let data = reading.data().await?;
            let pages = places.into_iter().enumerate();
            runs[number].raw.extend(pages.map(|(at, place)| (place, data.slice(at * BLOCK_BYTES, BLOCK_BYTES))));
        }
    }
}
