//! The device of a striped line.

use alloc::sync::Arc;
use core::fmt;

use super::super::args::quote;
use super::super::fan::Fan;
use super::super::flusher::{Flusher, distinct};
use super::stripes::Stripes;
use super::zones::WideZones;
use crate::block::{Bio, BlockDevice, Cx, DeviceId, Event, Flags, Limits, Op, Place, Reason, Status};
use crate::prelude::*;
use crate::sector::Sector;

/// What does to stripes what a table does not do by itself: ranges that go to all of them, whatever concerns zones, and
/// telling how they fare.
pub(super) struct Striped {
    pub stripes: Arc<Stripes>,
    /// What the devices are called, one for each stripe.
    names: Vec<String>,
    /// The devices, each once.
    below: Vec<DeviceId>,
    limits: Limits,
    flusher: Flusher,
    pub fan: Fan,
    pub zones: Option<WideZones>,
}

impl Striped {
    pub fn new(stripes: Arc<Stripes>, names: Vec<String>, limits: Limits, zones: Option<WideZones>) -> Self {
        let below = distinct(stripes.devices());
        let flusher = Flusher::new(stripes.flushed(), zones.is_some());
        Self { stripes, names, below, limits, flusher, fan: Fan::default(), zones }
    }

    /// Takes a bio that has nothing more to wait for but a flush.
    pub fn start(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Some(bio) = self.flusher.hold_back(bio) else { return };
        if bio.op == Op::Flush {
            return self.flusher.flush(bio, cx);
        }
        let own = self.only_device(&bio);
        if self.flusher.comes_before(&bio, own) {
            return self.flusher.flush_before(bio, own, cx);
        }
        self.go_on(bio, cx);
    }

    /// Sends `bio` on, with nothing left to flush before.
    fn go_on(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::Write if self.zones.is_some() => self.write_zone(bio, cx),
            Op::Read | Op::Write => self.route(bio, cx),
            Op::Discard | Op::WriteZeroes => self.spread(bio, cx),
            _ => self.manage(bio, cx),
        }
    }

    /// Sends a read or write to its stripe, cut at the edge of a chunk.
    fn route(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Place { device, sector, room } = self.stripes.place(bio.sector.0);
        if u64::from(bio.sectors) <= room {
            return cx.pass(device, bio, sector);
        }
        if bio.flags.has(Flags::NOWAIT) {
            return cx.fail(bio, Reason::WouldWait("it crosses the edge of a part"));
        }
        let (front, rest) = cx.split(bio, room as u32);
        cx.pass(device, front, sector);
        cx.again(rest);
    }

    /// Sends each stripe what it has of a bio, in one.
    pub fn spread(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        // The memory of what several stripes have is put in order: that allocates, as each has other pieces of it.
        let part = |number: usize| {
            let range = self.stripes.range(&bio, number);
            let payload = self.stripes.gather(&bio, number);
            let sectors = (range.end - range.start) as u32;
            let part = Bio::new(bio.op, Sector(range.start), sectors, payload)
                .with_flags(bio.flags)
                .with_priority(bio.priority);
            (number as u16, self.stripes.parts()[number].device, part)
        };
        let parts: Vec<_> = (0..self.names.len()).map(part).filter(|(.., part)| part.sectors > 0).collect();
        if let Some((bio, status)) = self.fan.spread(bio, parts.into_iter(), cx) {
            self.end(bio, status, cx);
        }
    }

    /// The only device that a read or write goes to.
    fn only_device(&self, bio: &Bio) -> Option<DeviceId> {
        let Place { device, room, .. } = self.stripes.place(bio.sector.0);
        (bio.op.has_data() && u64::from(bio.sectors) <= room).then_some(device)
    }

    fn flushed(&mut self, own: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        self.stripes.note(self.flusher.device(word), status);
        match self.flusher.end_io(own, status, word, cx) {
            Some((bio, Status::Ok)) => self.go_on(bio, cx),
            Some((bio, status)) => self.end(bio, status, cx),
            None => return,
        }
        while let Some(next) = self.flusher.release() {
            self.start(next, cx);
        }
    }
}

impl BlockDevice for Striped {
    keeps_limits_and_below!();

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let admitted = match &mut self.zones {
            Some(zones) => zones.quiet.admit(bio),
            None => Some(bio),
        };
        if let Some(bio) = admitted {
            self.start(bio, cx);
        }
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if self.flusher.is_own(word) {
            return self.flushed(bio, status, word, cx);
        }
        if self.fan.is_own(word) {
            return self.part_ended(bio, status, word, cx);
        }
        self.zone_ended(bio, status, word, cx);
    }

    fn on_event(&mut self, event: Event, _: &mut Cx<'_>) {
        if let Event::Failed { op: Op::Read | Op::Write, sector, status } = event {
            self.stripes.note(self.stripes.place(sector.0).device, status);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.fan.held(visit);
        self.flusher.held(visit);
        if let Some(zones) = &self.zones {
            zones.held(visit);
        }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (count, chunk) = (self.names.len(), self.stripes.size());
        write!(out, "striped, {count} stripes in chunks of {chunk} sectors")
    }

    fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", self.names.len())?;
        self.names.iter().try_for_each(|name| write!(out, " {}", quote(name)))?;
        out.write_str(" 1 ")?;
        self.stripes.health().try_for_each(|is_good| out.write_char(if is_good { 'A' } else { 'D' }))
    }

    fn events(&self) -> u64 {
        self.stripes.events()
    }
}
