//! Which target owns these sectors.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt;

use crate::block::{Bio, BlockDevice, Cx, DeviceId, Flags, Limits, Op, Payload, Status};
use crate::sector::Sector;

/// The word of a bio that goes to every target in turn.
const EVERY: u64 = 1 << 63;

/// Targets in a row, each owning a range of sectors (`drivers/md/dm-table.c`).
pub struct Table {
    targets: Vec<DeviceId>,
    /// Which of them can lose completed writes.
    flushed: Vec<bool>,
    /// First sector of each target, and the end.
    starts: Vec<u64>,
    limits: Limits,
    /// Bios that go to every target, and where they are.
    tours: slab::Slab<Tour>,
}

/// A flush or a reset of all zones: one bio of our own for each target in turn.
struct Tour {
    bio: Box<Bio>,
    next: usize,
    status: Status,
}

impl Table {
    /// Targets in a row: each with its device and that device's limits. The first begins at sector 0.
    ///
    /// # Errors
    /// If limits do not stack; the number is the target's place.
    pub fn new(targets: &[(DeviceId, Limits)]) -> Result<Self, (usize, String)> {
        let (mut starts, mut end) = (vec![0], 0);
        let mut limits: Option<Limits> = None;
        for (place, (_, own)) in targets.iter().enumerate() {
            let zone = own.zoned.as_ref().map(|zoned| u64::from(zoned.zone_sectors));
            if zone.is_some_and(|zone| end % zone != 0) {
                return Err((
                    place,
                    format!("it begins at sector {end}, inside of a zone: only the last zone may be short"),
                ));
            }
            end += own.capacity;
            starts.push(end);
            let stacked = limits.map_or(Ok(own.clone()), |limits| limits.stack(own));
            limits = Some(stacked.map_err(|error| (place, format!("{error}")))?);
        }
        let limits = Limits { capacity: end, ..limits.ok_or((0, String::from("a table needs at least one line")))? };
        let flushed = targets.iter().map(|(_, own)| own.write_cache).collect();
        let targets = targets.iter().map(|(id, _)| *id).collect();
        Ok(Self { targets, flushed, starts, limits, tours: slab::Slab::new() })
    }

    /// The target that owns `sector`, which is on the device.
    fn owner(&self, sector: Sector) -> usize {
        self.starts.partition_point(|start| *start <= sector.0) - 1
    }

    fn route(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let place = self.owner(bio.sector);
        let room = self.starts[place + 1] - bio.sector.0;
        if u64::from(bio.sectors) <= room {
            return self.pass(bio, place, cx);
        }
        if bio.flags.has(Flags::NOWAIT) {
            return cx.complete(bio, Status::Again);
        }
        let (front, rest) = cx.split(bio, room as u32);
        self.pass(front, place, cx);
        cx.again(rest);
    }

    fn pass(&mut self, mut bio: Box<Bio>, place: usize, cx: &mut Cx<'_>) {
        bio.sector = Sector(bio.sector.0 - self.starts[place]);
        if bio.op == Op::ZoneAppend {
            return cx.submit(self.targets[place], bio, place as u64);
        }
        cx.remap(self.targets[place], bio);
    }

    /// Sends a report to the target that owns its sector. The word holds the place, and how many zones were there before.
    fn report(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.sector.0 >= self.limits.capacity {
            return cx.complete(bio, Status::Ok);
        }
        let place = self.owner(bio.sector);
        let known = if let Payload::Zones(zones) = &bio.payload { zones.len() } else { 0 };
        bio.sector = Sector(bio.sector.0 - self.starts[place]);
        cx.submit(self.targets[place], bio, (place as u64) << 32 | known as u64);
    }

    /// Puts the reported zones in their place, and asks the next target while there is room.
    fn reported(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let (place, known) = ((word >> 32) as usize, word as u32 as usize);
        let Payload::Zones(zones) = &mut bio.payload else { return cx.complete(bio, status) };
        for zone in &mut zones[known..] {
            zone.start += self.starts[place];
            zone.wp += self.starts[place];
        }
        let more = zones.len() < zones.capacity() && place + 1 < self.targets.len();
        if !status.is_ok() || !more {
            return cx.complete(bio, status);
        }
        bio.sector = Sector(self.starts[place + 1]);
        self.report(bio, cx);
    }

    fn tour(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let key = self.tours.insert(Tour { bio, next: 0, status: Status::Ok });
        self.visit_next(key, cx);
    }

    fn visit_next(&mut self, key: usize, cx: &mut Cx<'_>) {
        let Tour { bio, next, .. } = &mut self.tours[key];
        let concerned = |place: &usize| bio.op != Op::Flush || self.flushed[*place];
        let Some(place) = (*next..self.targets.len()).find(concerned) else {
            let Tour { bio, status, .. } = self.tours.remove(key);
            return cx.complete(bio, status);
        };
        *next = place + 1;
        let own = cx.own_bio(Bio::new(bio.op, Sector::ZERO, 0, Payload::None));
        cx.submit(self.targets[place], own, EVERY | key as u64);
    }
}

impl BlockDevice for Table {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.targets
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::Flush | Op::ZoneResetAll => self.tour(bio, cx),
            Op::ReportZones => self.report(bio, cx),
            _ => self.route(bio, cx),
        }
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if word & EVERY != 0 {
            let key = (word & !EVERY) as usize;
            self.tours[key].status = self.tours[key].status.and(status);
            cx.recycle(bio);
            return self.visit_next(key, cx);
        }
        if bio.op == Op::ReportZones {
            return self.reported(bio, status, word, cx);
        }
        bio.sector += self.starts[word as usize];
        cx.complete(bio, status);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.tours.iter().for_each(|(_, tour)| visit(&tour.bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "table of {} targets", self.targets.len())
    }
}
