//! Statistics of a mapped device, as device-mapper keeps them: the `@stats_*` messages. How to use them is in
//! `docs/targets/statistics.md`.
//!
//! ```text
//!   @stats_create 0+1000 300        bio 250+100 comes back after 2 ms
//!   └─> region 0                         ┌───┴───┐
//!       ├─ area 0       0..300     one I/O, 50 sectors, 2 ms
//!       ├─ area 1     300..600             one I/O, 50 sectors, 2 ms
//!       ├─ area 2     600..900
//!       └─ area 3     900..1000    printed as 900+300: the kernel prints the step
//! ```
//!
//! A [`DmStats`] is a plain value: whoever owns the device shows it the bios and the messages, and asks it for nothing else.
//! While it has no region it need not be shown any bio.
//!
//! A region counts the bios that come in after it was created. The kernel stops all I/O for a moment, so that none is in
//! flight then (`drivers/md/dm-stats.c:dm_stats_create`); here a bio says when it came in, and one that came in no later than
//! the region does not belong to it, neither coming nor going. So what is in flight is exact without stopping anything.

mod area;
mod bounds;
mod error;
mod grid;
mod message;
mod print;
mod region;

pub use bounds::{MAX_AREAS, MAX_BOUNDARIES, MAX_BYTES, MAX_PRINTED, MAX_REGIONS, MAX_TEXT_BYTES};
pub use error::StatsError;

use self::message::{Create, Lines, Message};
use self::print::Listing;
use self::region::Region;
use crate::block::{Observer, Span};
use crate::prelude::*;
use crate::time::Instant;

/// The regions of a device, and what they have counted.
#[derive(Default)]
pub struct DmStats {
    /// Ordered by number.
    regions: Vec<Region>,
}

impl DmStats {
    /// Statistics without regions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no region: then nobody needs to show it bios.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Carries out a message, such as `["@stats_create", "-", "/100"]`, to a device of `capacity` sectors; returns the text
    /// that the kernel would.
    pub fn message(&mut self, argv: &[&str], capacity: u64, now: Instant) -> Result<String, StatsError> {
        match message::parse(argv, capacity)? {
            Message::Create(create) => return Ok(self.create(&create, now)?.to_string()),
            Message::Delete { region } => self.delete(region)?,
            Message::Clear { region } => self.region(region)?.clear(Lines::ALL, now),
            Message::List { program } => return Ok(Listing { regions: &self.regions, program }.to_string()),
            Message::Print { region, lines } => return self.region(region)?.print(lines, now),
            Message::PrintClear { region, lines } => {
                let region = self.region(region)?;
                let text = region.print(lines, now)?;
                region.clear(lines, now);
                return Ok(text);
            }
            Message::SetAux { region, aux } => self.region(region)?.aux = aux.to_string(),
        }
        Ok(String::new())
    }

    /// Adds a region and returns its number, the lowest that is free.
    fn create(&mut self, create: &Create<'_>, now: Instant) -> Result<u32, StatsError> {
        if self.regions.len() == MAX_REGIONS {
            return Err(StatsError::TooManyRegions);
        }
        let used: u64 = self.regions.iter().map(Region::bytes).sum();
        let free = self.regions.iter().zip(0..).find(|(region, id)| region.id != *id);
        let id = free.map_or(self.regions.len() as u32, |(_, id)| id);
        self.regions.insert(id as usize, Region::new(id, create, MAX_BYTES - used, now)?);
        Ok(id)
    }

    /// Forgets a region. Bios that it has seen come in are of no concern to anybody when they are done.
    fn delete(&mut self, id: u32) -> Result<(), StatsError> {
        let place = self.place(id)?;
        self.regions.remove(place);
        Ok(())
    }

    fn region(&mut self, id: u32) -> Result<&mut Region, StatsError> {
        let place = self.place(id)?;
        Ok(&mut self.regions[place])
    }

    fn place(&self, id: u32) -> Result<usize, StatsError> {
        self.regions.binary_search_by_key(&id, |region| region.id).map_err(|_| StatsError::NoRegion { id })
    }
}

impl Observer for DmStats {
    #[inline]
    fn entered(&mut self, bio: &Span, now: Instant) {
        match self.regions.as_mut_slice() {
            // Flushes and zone management are not counted (`drivers/md/dm-stats.c:dm_stats_account_io`).
            _ if bio.sectors == 0 => {}
            // Most devices that are counted have one region, and a loop costs as much as a third of the counting.
            [region] => region.entered(bio, now),
            regions => many_entered(regions, bio, now),
        }
    }

    #[inline]
    fn left(&mut self, bio: &Span, entered: Instant, now: Instant) {
        match self.regions.as_mut_slice() {
            _ if bio.sectors == 0 => {}
            [region] => region.left(bio, entered, now),
            regions => many_left(regions, bio, entered, now),
        }
    }
}

#[inline(never)]
fn many_entered(regions: &mut [Region], bio: &Span, now: Instant) {
    regions.iter_mut().filter(|region| region.touches(bio)).for_each(|region| region.entered(bio, now));
}

#[inline(never)]
fn many_left(regions: &mut [Region], bio: &Span, entered: Instant, now: Instant) {
    regions.iter_mut().filter(|region| region.touches(bio)).for_each(|region| region.left(bio, entered, now));
}
