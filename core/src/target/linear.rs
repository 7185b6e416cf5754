//! `linear`: a range of a device as a device.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;

use super::reset_all::ResetAll;
use crate::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Op, Payload, Status};
use crate::sector::Sector;

/// Sectors `start..start + len` of a device (`drivers/md/dm-linear.c`).
pub struct Linear {
    below: [DeviceId; 1],
    start: u64,
    limits: Limits,
    whole: bool,
    reset_all: ResetAll,
}

impl Linear {
    /// `len` sectors of device `below` from `start` on. On a zoned device the range must consist of whole zones.
    pub fn new(below: DeviceId, below_limits: &Limits, start: u64, len: u64) -> Result<Self, String> {
        let capacity = below_limits.capacity;
        let end = start.checked_add(len).filter(|end| *end <= capacity);
        let end = end.ok_or_else(|| {
            format!("sectors {start}+{len} lie past the end of the device, which has {capacity} sectors")
        })?;
        if let Some(zoned) = &below_limits.zoned {
            let zone = u64::from(zoned.zone_sectors);
            let whole_zones = start.is_multiple_of(zone) && (end % zone == 0 || end == capacity);
            if len == 0 || !whole_zones {
                return Err(format!("sectors {start}+{len} are not whole zones of {zone} sectors: align both numbers"));
            }
        }
        let limits = Limits { capacity: len, ..below_limits.clone() };
        limits.validate().map_err(|error| format!("{error}"))?;
        let whole = start == 0 && len == capacity;
        Ok(Self { below: [below], start, limits, whole, reset_all: ResetAll::default() })
    }

    /// Sends on what it has to see again.
    #[inline(never)]
    fn submit_returning(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match (bio.op, &bio.payload) {
            (Op::ReportZones, Payload::Zones(zones)) => {
                let known = zones.len() as u64;
                cx.submit(self.below[0], bio, known);
            }
            (Op::ZoneResetAll, _) if !self.whole => {
                self.reset_all.begin(bio, self.below[0], self.start..self.start + self.limits.capacity, cx);
            }
            (Op::ZoneResetAll, _) => cx.remap(self.below[0], bio),
            _ => cx.submit(self.below[0], bio, 0),
        }
    }

    /// Brings the zones that a report added behind the first `known` into our numbers, and drops what lies past our end.
    fn localise(&self, bio: &mut Bio, known: usize) {
        let Payload::Zones(zones) = &mut bio.payload else { return };
        let end = self.start + self.limits.capacity;
        let ours = zones[known..].iter().take_while(|zone| zone.start.0 < end).count();
        zones.truncate(known + ours);
        for zone in &mut zones[known..] {
            zone.start = Sector(zone.start.0 - self.start);
            zone.wp = Sector(zone.wp.0.saturating_sub(self.start));
        }
    }
}

impl BlockDevice for Linear {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        bio.sector += self.start;
        match bio.op {
            Op::ZoneAppend | Op::ReportZones | Op::ZoneResetAll => self.submit_returning(bio, cx),
            _ => cx.remap(self.below[0], bio),
        }
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if self.reset_all.is_own(word) {
            return self.reset_all.end_io(bio, status, self.below[0], cx);
        }
        match bio.op {
            Op::ReportZones => self.localise(&mut bio, word as usize),
            _ => bio.sector = Sector(bio.sector.0 - self.start),
        }
        cx.complete(bio, status);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.reset_all.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "linear, {} sectors from {} of device {}", self.limits.capacity, self.start, self.below[0].0)
    }
}
