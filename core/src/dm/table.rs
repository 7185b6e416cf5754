//! Which line owns these sectors.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use super::flusher::{Flusher, distinct};
use super::mapping::{Mapping, join};
use super::reset_all::{Part, ResetAll};
use super::striped::Stripes;
use crate::block::{
    Bio, BlockDevice, Content, Cx, DeviceId, Event, Flags, Limits, Op, Payload, Place, Reason, Route, Status, Survival,
};
use crate::prelude::*;
use crate::sector::Sector;

/// Mappings in a row, each owning a range of sectors (`drivers/md/dm-table.c`).
///
/// A plain bio goes on for good in one hop, its sector shifted or, in a striped line, its stripe found; it counts as in
/// flight here until it is done, so that a table can be drained and swapped. Only reports, flushes of several devices and
/// resets of all zones come back.
pub struct Table {
    /// First sector of each line, and the end.
    starts: Vec<u64>,
    lines: Vec<Line>,
    /// The devices without repetition.
    below: Vec<DeviceId>,
    /// If the table is regular and a device is not: the zone size, at which bios are cut.
    chunk: Option<u64>,
    limits: Limits,
    flusher: Flusher,
    reset_all: ResetAll,
}

/// Where the sectors of a line go.
struct Line {
    device: DeviceId,
    /// What to add to a sector of ours to get the device's.
    shift: u64,
    /// What plain bios go to instead.
    stripes: Option<Arc<Stripes>>,
}

impl Line {
    /// The devices that bios go to.
    fn devices(&self) -> impl Iterator<Item = DeviceId> {
        let stripes = self.stripes.iter().flat_map(|stripes| stripes.devices());
        core::iter::once(self.device).chain(stripes)
    }
}

impl Table {
    /// Mappings in a row, the first from sector 0 on.
    ///
    /// # Errors
    /// If they do not go together; the number is the place of the one to blame.
    pub fn new(mappings: &[Mapping]) -> Result<Self, (usize, String)> {
        Ok(Self::with_limits(mappings, join(mappings)?))
    }

    /// A part of a device for a target: it has its zones even if all of them are conventional, since other lines of the
    /// target's table may have sequential ones.
    pub(super) fn part(mapping: &Mapping) -> Self {
        Self::with_limits(core::slice::from_ref(mapping), mapping.limits.clone())
    }

    fn with_limits(mappings: &[Mapping], limits: Limits) -> Self {
        let mut starts = vec![0];
        for mapping in mappings {
            starts.push(starts[starts.len() - 1] + mapping.limits.capacity);
        }
        let line = |(start, mapping): (&u64, &Mapping)| Line {
            device: mapping.device,
            shift: mapping.start.wrapping_sub(*start),
            stripes: mapping.stripes.clone(),
        };
        let zone_of = |mapping: &Mapping| mapping.limits.zoned.as_ref().map(|zoned| u64::from(zoned.zone_sectors));
        let part = |mapping: &Mapping| Part {
            device: mapping.device,
            range: mapping.start..mapping.start + mapping.limits.capacity,
            has_all_zones: mapping.has_all_zones,
            is_flushed: false,
        };
        let lines: Vec<Line> = starts.iter().zip(mappings).map(line).collect();
        Self {
            starts,
            below: distinct(lines.iter().flat_map(Line::devices)),
            lines,
            chunk: mappings.iter().find_map(zone_of).filter(|_| limits.zoned.is_none()),
            flusher: Flusher::new(mappings.iter().flat_map(Mapping::flushed), limits.zoned.is_some()),
            limits,
            reset_all: ResetAll::new(mappings.iter().map(part).collect()),
        }
    }

    /// A table of one line: `len` sectors of `device`, which has `limits`, from `start` on.
    ///
    /// # Errors
    /// As [`Mapping::part`].
    pub fn linear(device: DeviceId, limits: &Limits, start: u64, len: u64) -> Result<Self, String> {
        Self::new(&[Mapping::part(device, limits, start, len)?]).map_err(|(_, message)| message)
    }

    /// The same table, which takes no writes.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.limits.read_only = true;
        self
    }

    /// The same table with the limits of the one before it, whose place it can take ([`Limits::serves`]): it says that it
    /// accepts no more than that did, and no less.
    #[must_use]
    pub fn serving(mut self, old: &Limits) -> Self {
        self.limits = Limits { capacity: self.limits.capacity, ..old.clone() };
        self
    }

    /// The line that owns `sector`, which is on the device.
    #[inline]
    fn owner(&self, sector: Sector) -> usize {
        match self.lines.len() {
            1 => 0,
            _ => self.starts.partition_point(|start| *start <= sector.0) - 1,
        }
    }

    /// Where `bio` goes, and how much of it.
    #[inline]
    fn place(&self, bio: &Bio) -> Place {
        let owner = self.owner(bio.sector);
        let line = &self.lines[owner];
        if let (Some(stripes), Op::Read | Op::Write) = (&line.stripes, bio.op) {
            return stripes.place(bio.sector.0 - self.starts[owner]);
        }
        let mut room = self.starts[owner + 1] - bio.sector.0;
        if let Some(chunk) = self.chunk {
            room = room.min(chunk - bio.sector.0 % chunk);
        }
        Place { device: line.device, sector: Sector(bio.sector.0.wrapping_add(line.shift)), room }
    }

    #[inline]
    fn pass_on(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Place { device, sector, room } = self.place(&bio);
        if u64::from(bio.sectors) > room {
            return self.cut(bio, room as u32, cx);
        }
        cx.pass(device, bio, sector);
    }

    #[cold]
    #[inline(never)]
    fn cut(&mut self, bio: Box<Bio>, room: u32, cx: &mut Cx<'_>) {
        if bio.flags.has(Flags::NOWAIT) {
            return cx.fail(bio, Reason::WouldWait("it crosses the edge of a part"));
        }
        let (front, rest) = cx.split(bio, room);
        self.pass_on(front, cx);
        cx.again(rest);
    }

    /// Everything but plain data.
    #[inline(never)]
    fn submit_rare(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Some(bio) = self.flusher.hold_back(bio) else { return };
        match bio.op {
            Op::Flush => self.flusher.flush(bio, cx),
            Op::ReportZones => self.report(bio, cx),
            Op::ZoneResetAll => self.reset_all.begin(bio, cx),
            _ if bio.flags.has(Flags::PREFLUSH) => self.preflush(bio, cx),
            _ => self.pass_on(bio, cx),
        }
    }

    /// What a write promises to come after may lie on other devices than its data.
    fn preflush(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Place { device, room, .. } = self.place(&bio);
        let own = Some(device).filter(|_| u64::from(bio.sectors) <= room);
        if self.flusher.comes_before(&bio, own) {
            return self.flusher.flush_before(bio, own, cx);
        }
        self.pass_on(bio, cx);
    }

    /// The devices that had to be flushed are; what waited for that goes on.
    fn flushed(&mut self, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        if status.is_ok() {
            self.pass_on(bio, cx)
        } else {
            cx.complete(bio, status)
        }
        while let Some(next) = self.flusher.release() {
            self.submit(next, cx);
        }
    }

    /// Sends a report to the device of the line that owns its sector. The word holds the line, and how many zones were there
    /// before.
    fn report(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.sector.0 >= self.limits.capacity {
            return cx.complete(bio, Status::Ok);
        }
        let place = self.owner(bio.sector);
        let known = if let Payload::Zones(zones) = &bio.payload { zones.len() } else { 0 };
        let Line { device, shift, .. } = self.lines[place];
        bio.sector = Sector(bio.sector.0.wrapping_add(shift));
        cx.submit(device, bio, (place as u64) << 32 | known as u64);
    }

    /// Brings the zones that a report added into our numbers, drops those past the line's end, and asks for the next line
    /// while there is room.
    fn reported(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let (place, known) = ((word >> 32) as usize, word as u32 as usize);
        let Payload::Zones(zones) = &mut bio.payload else { return cx.complete(bio, status) };
        let shift = self.lines[place].shift;
        let end = self.starts[place + 1].wrapping_add(shift);
        let ours = zones[known..].iter().take_while(|zone| zone.start.0 < end).count();
        zones.truncate(known + ours);
        for zone in &mut zones[known..] {
            zone.start = Sector(zone.start.0.wrapping_sub(shift));
            zone.wp = Sector(zone.wp.0.wrapping_sub(shift));
        }
        let more = zones.len() < zones.capacity() && place + 1 < self.lines.len();
        if !status.is_ok() || !more {
            return cx.complete(bio, status);
        }
        bio.sector = Sector(self.starts[place + 1]);
        self.report(bio, cx);
    }
}

impl BlockDevice for Table {
    /// A table can be swapped for one with any target; those with zones keep nothing to themselves.
    fn survival(&self) -> Survival {
        if self.limits.zoned.is_some() { Survival::All } else { Survival::Flushed }
    }

    keeps_limits_and_below!();

    /// A single line has nowhere else to send a bio, and no other device to flush first.
    fn route(&self) -> Option<Route> {
        match (&self.lines[..], self.chunk) {
            ([Line { stripes: Some(stripes), .. }], None) => Some(Route::Chunks(stripes.chunks())),
            ([Line { device, shift, .. }], None) => Some(Route::Shift { to: *device, by: *shift }),
            _ => None,
        }
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.is_plain() && self.flusher.is_idle() { self.pass_on(bio, cx) } else { self.submit_rare(bio, cx) }
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if ResetAll::is_own(word) {
            return self.reset_all.end_io(bio, status, cx);
        }
        if !self.flusher.is_own(word) {
            return self.reported(bio, status, word, cx);
        }
        let device = self.flusher.device(word);
        self.lines.iter().filter_map(|line| line.stripes.as_ref()).for_each(|stripes| stripes.note(device, status));
        if let Some((bio, status)) = self.flusher.end_io(bio, status, word, cx) {
            self.flushed(bio, status, cx);
        }
    }

    fn on_event(&mut self, event: Event, _: &mut Cx<'_>) {
        let Event::Failed { op: Op::Read | Op::Write, sector, status } = event else { return };
        let owner = self.owner(sector);
        if let Some(stripes) = &self.lines[owner].stripes {
            stripes.note(stripes.place(sector.0 - self.starts[owner]).device, status);
        }
    }

    /// A striped line is not followed down: there would be an answer for each of its chunks.
    fn content(&self, sectors: Range<u64>) -> (Content, u64) {
        let owner = self.owner(Sector(sectors.start));
        let len = sectors.end.min(self.starts[owner + 1]) - sectors.start;
        let Line { device, shift, stripes } = &self.lines[owner];
        let content = match stripes {
            Some(_) => Content::Data,
            None => Content::Below(*device, Sector(sectors.start.wrapping_add(*shift))),
        };
        (content, len)
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.flusher.held(visit);
        self.reset_all.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match &self.lines[..] {
            [Line { device, shift, .. }] => {
                let len = self.limits.capacity;
                write!(out, "linear, {len} sectors from {shift} of device {}", device.0)
            }
            lines => out.write_str(&format!("table of {} lines", lines.len())),
        }
    }
}
