//! A region: areas that are counted and printed together.

use core::ops::Range;

use super::area::{Area, Clock};
use super::bounds::{MAX_AREAS, MAX_PRINTED};
use super::error::StatsError;
use super::grid::Grid;
use super::message::{Create, Lines};
use super::print::Printout;
use crate::block::{Op, Span};
use crate::prelude::*;
use crate::time::Instant;

/// How long I/Os took, area by area.
pub(super) struct Histogram {
    /// Ascending, in ticks; the first bucket ends below the first of them, the last begins at the last.
    pub boundaries: Vec<u64>,
    counts: Vec<u64>,
}

impl Histogram {
    /// The buckets of area `index`.
    pub fn buckets(&self, index: usize) -> &[u64] {
        &self.counts[self.places(index)]
    }

    fn places(&self, index: usize) -> Range<usize> {
        let buckets = self.boundaries.len() + 1;
        index * buckets..(index + 1) * buckets
    }

    /// An I/O that took exactly a boundary belongs above it (`drivers/md/dm-stats.c:dm_stat_for_entry`).
    fn count(&mut self, index: usize, ticks: u64) {
        let bucket = self.boundaries.partition_point(|boundary| *boundary <= ticks);
        let place = self.places(index).start + bucket;
        self.counts[place] += 1;
    }

    fn clear(&mut self, index: usize) {
        let places = self.places(index);
        self.counts[places].fill(0);
    }
}

/// A region and its counters.
pub(super) struct Region {
    grid: Grid,
    pub clock: Clock,
    /// Bios that came in no later do not belong to it.
    created: Instant,
    areas: Vec<Area>,
    pub histogram: Option<Histogram>,
    pub id: u32,
    /// Whose it is.
    pub program: String,
    /// What its program keeps with it.
    pub aux: String,
}

impl Region {
    /// A region that takes at most `free` bytes.
    pub fn new(id: u32, create: &Create<'_>, free: u64, now: Instant) -> Result<Region, StatsError> {
        let grid = Grid::new(create.sectors.clone(), create.step);
        let areas = grid.areas();
        if areas > MAX_AREAS {
            return Err(StatsError::TooManyAreas { areas });
        }
        let buckets = buckets(&create.boundaries);
        let needed = bytes(areas, buckets);
        let memory = || StatsError::Memory { needed, free };
        if needed > free {
            return Err(memory());
        }
        let counts = zeroed(areas * buckets).ok_or_else(memory)?;
        let histogram = (buckets > 0).then(|| Histogram { boundaries: create.boundaries.clone(), counts });
        Ok(Region {
            grid,
            clock: create.clock,
            created: now,
            areas: zeroed(areas).ok_or_else(memory)?,
            histogram,
            id,
            program: create.program.to_string(),
            aux: create.aux.to_string(),
        })
    }

    /// Its sectors on the device.
    pub fn sectors(&self) -> Range<u64> {
        self.grid.sectors()
    }

    /// Sectors of an area.
    pub fn step(&self) -> u64 {
        self.grid.step
    }

    /// Memory of its counters.
    pub fn bytes(&self) -> u64 {
        bytes(self.areas.len() as u64, self.buckets())
    }

    fn buckets(&self) -> u64 {
        self.histogram.as_ref().map_or(0, |histogram| buckets(&histogram.boundaries))
    }

    /// Whether it may have to know of a bio.
    #[inline]
    pub fn touches(&self, bio: &Span) -> bool {
        self.grid.touches(bio)
    }

    /// A bio comes in. It counts in every area that it touches.
    #[inline]
    pub fn entered(&mut self, bio: &Span, now: Instant) {
        let is_simple = now > self.created;
        match self.only_area(bio, now).filter(|_| is_simple) {
            Some(area) => area.enter(is_write(bio)),
            None => self.entered_areas(bio, now),
        }
    }

    #[inline(never)]
    fn entered_areas(&mut self, bio: &Span, now: Instant) {
        if now <= self.created {
            return;
        }
        for (index, _) in self.grid.parts(bio) {
            self.areas[index].advance(now, self.clock);
            self.areas[index].enter(is_write(bio));
        }
    }

    /// It is done. Every area that it touches counts one I/O and all of its time, but only the sectors that lie there.
    #[inline]
    pub fn left(&mut self, bio: &Span, entered: Instant, now: Instant) {
        let (clock, is_simple) = (self.clock, self.histogram.is_none() && entered > self.created);
        match self.only_area(bio, now).filter(|_| is_simple) {
            Some(area) => area.leave(is_write(bio), bio.sectors.into(), area.ticks_since(entered, clock)),
            None => self.left_areas(bio, entered, now),
        }
    }

    #[inline(never)]
    fn left_areas(&mut self, bio: &Span, entered: Instant, now: Instant) {
        if entered <= self.created {
            return;
        }
        for (index, sectors) in self.grid.parts(bio) {
            let area = &mut self.areas[index];
            area.advance(now, self.clock);
            let ticks = area.ticks_since(entered, self.clock);
            area.leave(is_write(bio), sectors, ticks);
            if let Some(histogram) = &mut self.histogram {
                histogram.count(index, ticks);
            }
        }
    }

    /// The area that all of a bio lies in, if there is one and no tick has begun since something was counted there: then
    /// there is little to do.
    #[inline]
    fn only_area(&mut self, bio: &Span, now: Instant) -> Option<&mut Area> {
        let area = self.areas.get_mut(self.grid.around(bio)?)?;
        area.is_at(now, self.clock).then_some(area)
    }

    /// Forgets what the areas named by `lines` have counted, but not what is in flight there.
    pub fn clear(&mut self, lines: Lines, now: Instant) {
        for index in self.named(lines) {
            self.areas[index].advance(now, self.clock);
            self.areas[index].clear();
            self.histogram.iter_mut().for_each(|histogram| histogram.clear(index));
        }
    }

    /// The counters of the areas named by `lines` as text, a line each.
    pub fn print(&mut self, lines: Lines, now: Instant) -> Result<String, StatsError> {
        let areas = self.named(lines);
        let (asked, most) = (areas.len() as u64, MAX_PRINTED / (Printout::NUMBERS + self.buckets()));
        if asked > most {
            return Err(StatsError::TooManyLines { region: self.id, asked, most });
        }
        self.areas[areas.clone()].iter_mut().for_each(|area| area.advance(now, self.clock));
        Ok(Printout { region: self, areas }.to_string())
    }

    /// The counters of an area.
    pub fn area(&self, index: usize) -> &Area {
        &self.areas[index]
    }

    /// The areas among `lines` that exist (`drivers/md/dm-stats.c:dm_stats_print`).
    fn named(&self, lines: Lines) -> Range<usize> {
        let end = lines.first.saturating_add(lines.count).min(self.areas.len());
        lines.first.min(end)..end
    }
}

/// Which way a bio counts: all but reads are writes (`include/linux/bio.h:bio_data_dir`).
#[inline]
fn is_write(bio: &Span) -> bool {
    bio.op != Op::Read
}

/// Buckets of an area: none if there are no boundaries.
fn buckets(boundaries: &[u64]) -> u64 {
    if boundaries.is_empty() { 0 } else { boundaries.len() as u64 + 1 }
}

/// Memory of so many areas, each with so many buckets.
fn bytes(areas: u64, buckets: u64) -> u64 {
    areas * (size_of::<Area>() as u64 + buckets * size_of::<u64>() as u64)
}

/// Counters that have counted nothing; `None` if there is no memory for them.
fn zeroed<T: Clone + Default>(counters: u64) -> Option<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(counters as usize).ok()?;
    all.resize(counters as usize, T::default());
    Some(all)
}
