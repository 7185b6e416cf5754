//! Which line owns these sectors.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt;

use super::fan::Fan;
use super::mapping::{Mapping, join};
use super::reset_all::{Part, ResetAll};
use crate::block::{Bio, BlockDevice, Cx, DeviceId, Flags, Limits, Op, Payload, Status};
use crate::sector::Sector;

/// Mappings in a row, each owning a range of sectors (`drivers/md/dm-table.c`).
///
/// A plain bio goes on for good in one hop, its sector shifted; it counts as in flight here until it is done, so that a
/// table can be drained and swapped. Only reports, flushes of several devices and resets of all zones come back.
pub struct Table {
    /// First sector of each line, and the end.
    starts: Vec<u64>,
    /// For each line what to add to a sector of ours to get the device's.
    shifts: Vec<u64>,
    devices: Vec<DeviceId>,
    /// The devices without repetition.
    below: Vec<DeviceId>,
    /// Those of them that can lose completed writes.
    flushed: Vec<DeviceId>,
    /// If the table is regular and a device is not: the zone size, at which bios are cut.
    chunk: Option<u64>,
    limits: Limits,
    fan: Fan,
    /// Of a zoned table: what waits until other devices were flushed for a write before it.
    behind_flush: VecDeque<Box<Bio>>,
    /// Writes that wait until the other devices are flushed.
    flushing: u32,
    reset_all: ResetAll,
}

impl Table {
    /// Mappings in a row, the first from sector 0 on.
    ///
    /// # Errors
    /// If they do not go together; the number is the place of the one to blame.
    pub fn new(mappings: &[Mapping]) -> Result<Self, (usize, String)> {
        let limits = join(mappings)?;
        let mut starts = vec![0];
        for mapping in mappings {
            starts.push(starts[starts.len() - 1] + mapping.limits.capacity);
        }
        let devices: Vec<DeviceId> = mappings.iter().map(|mapping| mapping.device).collect();
        let distinct = |devices: &mut dyn Iterator<Item = DeviceId>| {
            let mut distinct: Vec<DeviceId> = devices.collect();
            distinct.sort_unstable();
            distinct.dedup();
            distinct
        };
        let zone_of = |mapping: &Mapping| mapping.limits.zoned.as_ref().map(|zoned| u64::from(zoned.zone_sectors));
        let part = |mapping: &Mapping| Part {
            device: mapping.device,
            range: mapping.start..mapping.start + mapping.limits.capacity,
            has_all_zones: mapping.has_all_zones,
        };
        Ok(Self {
            shifts: starts.iter().zip(mappings).map(|(start, mapping)| mapping.start.wrapping_sub(*start)).collect(),
            starts,
            below: distinct(&mut devices.iter().copied()),
            flushed: distinct(&mut mappings.iter().filter(|m| m.limits.write_cache).map(|mapping| mapping.device)),
            devices,
            chunk: mappings.iter().find_map(zone_of).filter(|_| limits.zoned.is_none()),
            limits,
            fan: Fan::default(),
            behind_flush: VecDeque::new(),
            flushing: 0,
            reset_all: ResetAll::new(mappings.iter().map(part).collect()),
        })
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

    /// The line that owns `sector`, which is on the device.
    #[inline]
    fn owner(&self, sector: Sector) -> usize {
        match self.devices.len() {
            1 => 0,
            _ => self.starts.partition_point(|start| *start <= sector.0) - 1,
        }
    }

    #[inline]
    fn route(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let place = self.owner(bio.sector);
        let mut room = self.starts[place + 1] - bio.sector.0;
        if let Some(chunk) = self.chunk {
            room = room.min(chunk - bio.sector.0 % chunk);
        }
        if u64::from(bio.sectors) > room {
            return self.cut(bio, room as u32, cx);
        }
        let sector = Sector(bio.sector.0.wrapping_add(self.shifts[place]));
        cx.pass(self.devices[place], bio, sector);
    }

    #[cold]
    #[inline(never)]
    fn cut(&mut self, bio: Box<Bio>, room: u32, cx: &mut Cx<'_>) {
        if bio.flags.has(Flags::NOWAIT) {
            return cx.complete(bio, Status::Again);
        }
        let (front, rest) = cx.split(bio, room);
        self.route(front, cx);
        cx.again(rest);
    }

    /// Everything but plain data.
    #[inline(never)]
    fn submit_rare(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.flushing > 0 && self.limits.zoned.is_some() && bio.op.is_write() {
            // Zone writes keep their order, whatever some of them wait for.
            return self.behind_flush.push_back(bio);
        }
        match bio.op {
            Op::Flush => self.flush(bio, cx),
            Op::ReportZones => self.report(bio, cx),
            Op::ZoneResetAll => self.reset_all.begin(bio, cx),
            _ if bio.flags.has(Flags::PREFLUSH) && self.flushed.len() > 1 => self.flush_others(bio, cx),
            _ => self.route(bio, cx),
        }
    }

    /// A flush reaches each device once, however many lines lie on it.
    fn flush(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if let [only] = self.flushed[..] {
            return cx.pass(only, bio, Sector::ZERO);
        }
        let flush = |device: &DeviceId| (*device, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None));
        if let Some((bio, status)) = self.fan.spread(bio, self.flushed.iter().map(flush), cx) {
            cx.complete(bio, status);
        }
    }

    /// What a write promises to come after may lie on other devices than its data.
    fn flush_others(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let own = self.devices[self.owner(bio.sector)];
        let others = self.flushed.iter().filter(|device| **device != own);
        let flush = |device: &DeviceId| (*device, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None));
        self.flushing += 1;
        if let Some((bio, status)) = self.fan.spread(bio, others.map(flush), cx) {
            self.flushed(bio, status, cx);
        }
    }

    /// The devices that had to be flushed are; what waited for that goes on.
    fn flushed(&mut self, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        if bio.op == Op::Flush {
            return cx.complete(bio, status);
        }
        self.flushing -= 1;
        if status.is_ok() {
            self.route(bio, cx)
        } else {
            cx.complete(bio, status)
        }
        while self.flushing == 0
            && let Some(next) = self.behind_flush.pop_front()
        {
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
        bio.sector = Sector(bio.sector.0.wrapping_add(self.shifts[place]));
        cx.submit(self.devices[place], bio, (place as u64) << 32 | known as u64);
    }

    /// Brings the zones that a report added into our numbers, drops those past the line's end, and asks for the next line
    /// while there is room.
    fn reported(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let (place, known) = ((word >> 32) as usize, word as u32 as usize);
        let Payload::Zones(zones) = &mut bio.payload else { return cx.complete(bio, status) };
        let shift = self.shifts[place];
        let end = self.starts[place + 1].wrapping_add(shift);
        let ours = zones[known..].iter().take_while(|zone| zone.start.0 < end).count();
        zones.truncate(known + ours);
        for zone in &mut zones[known..] {
            zone.start = Sector(zone.start.0.wrapping_sub(shift));
            zone.wp = Sector(zone.wp.0.wrapping_sub(shift));
        }
        let more = zones.len() < zones.capacity() && place + 1 < self.devices.len();
        if !status.is_ok() || !more {
            return cx.complete(bio, status);
        }
        bio.sector = Sector(self.starts[place + 1]);
        self.report(bio, cx);
    }
}

impl BlockDevice for Table {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let is_plain = matches!(bio.op, Op::Read | Op::Write | Op::ZoneAppend) && !bio.flags.has(Flags::PREFLUSH);
        if is_plain && self.flushing == 0 { self.route(bio, cx) } else { self.submit_rare(bio, cx) }
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if ResetAll::is_own(word) {
            return self.reset_all.end_io(bio, status, cx);
        }
        if !Fan::is_own(word) {
            return self.reported(bio, status, word, cx);
        }
        if let Some((bio, status)) = self.fan.end_io(bio, status, word, cx) {
            self.flushed(bio, status, cx);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.fan.held(visit);
        self.reset_all.held(visit);
        self.behind_flush.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self.devices[..] {
            [only] => {
                let (start, len) = (self.shifts[0], self.limits.capacity);
                write!(out, "linear, {len} sectors from {start} of device {}", only.0)
            }
            _ => out.write_str(&format!("table of {} lines", self.devices.len())),
        }
    }
}
