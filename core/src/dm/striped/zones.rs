//! What a striped device does with zones: writes in the order of each stripe, changes that go to all stripes, reports.

use core::ops::Range;

use super::super::fan::Fan;
use super::super::mapping::Mapping;
use super::super::reset_all::{Part, ResetAll};
use super::device::Striped;
use super::gather::{Gather, Gathered};
use super::quiet::Quiet;
use super::wide::{depth, widen};
use crate::block::{Bio, Cx, DeviceId, Flags, Op, Payload, Place, Reason, Status};
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::{Action, Condition, Zone, ZoneFault, ZoneKind, ZoneNo, ZoneState};

/// Zones that are asked for at once.
const REPORT: usize = 1024;

/// The zones of zoned stripes.
pub(super) struct WideZones {
    /// Sectors of a zone of the stripes.
    zone: u64,
    /// Sectors of a wide zone.
    wide: u64,
    /// Wide zones.
    count: u64,
    /// Numbers of those that are conventional.
    conventional: Vec<Range<u32>>,
    /// Sectors of each stripe's zones that take part, as the last report said.
    depth: u64,
    /// For each stripe whether its zones can take more than that.
    has_more: Vec<bool>,
    gather: Gather,
    pub quiet: Quiet,
    reset_all: ResetAll,
}

impl WideZones {
    /// The wide zones over `parts`, which have zones of `zone` sectors, some of them `conventional`.
    pub fn new(zone: u32, conventional: Vec<Range<u32>>, parts: &[Mapping]) -> Self {
        let part = |part: &Mapping| Part {
            device: part.device,
            range: part.start..part.start + part.limits.capacity,
            has_all_zones: part.has_all_zones,
            // As a reset of one zone.
            is_flushed: parts.len() > 1 && part.limits.write_cache,
        };
        let zone = u64::from(zone);
        Self {
            zone,
            wide: zone * parts.len() as u64,
            count: parts[0].limits.capacity / zone,
            conventional,
            depth: zone,
            has_more: vec![false; parts.len()],
            gather: Gather::new(parts.len()),
            quiet: Quiet::default(),
            reset_all: ResetAll::new(parts.iter().map(part).collect()),
        }
    }

    /// Learns from the zones with one number how much of them takes part. All sequential zones of a disk are alike.
    fn learn(&mut self, depth: u64, parts: &[Zone]) {
        if parts[0].kind == ZoneKind::Sequential {
            self.depth = depth;
            self.has_more.iter_mut().zip(parts).for_each(|(has_more, zone)| *has_more = zone.capacity > depth);
        }
    }

    pub fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.gather.held(visit);
        self.quiet.held(visit);
        self.reset_all.held(visit);
    }

    fn is_conventional(&self, sector: Sector) -> bool {
        let number = (sector.0 / self.wide) as u32;
        self.conventional.iter().any(|run| run.contains(&number))
    }
}

/// Whether of `count` stripes this one is changed by `op` before the others are. A finish begins with the last stripe and a
/// reset with the first: if it goes no further the parts are out of line. Any other way a part that is full, and was
/// finished, could be taken for one that is written.
fn leads(op: Op, number: usize, count: usize) -> bool {
    match op {
        Op::ZoneFinish => number + 1 == count,
        Op::ZoneReset => number == 0,
        _ => false,
    }
}

impl Striped {
    /// Ends a bio of zoned stripes, and lets those go on that waited for it.
    pub(super) fn end(&mut self, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        if let Some(zones) = &mut self.zones
            && bio.op.is_write()
        {
            zones.quiet.changed();
        }
        cx.complete(bio, status);
        self.let_in(cx);
    }

    /// Starts what waited until others were done.
    pub(super) fn let_in(&mut self, cx: &mut Cx<'_>) {
        while let Some(next) = self.zones.as_mut().and_then(|zones| zones.quiet.next()) {
            self.start(next, cx);
        }
    }

    /// Sends on a write to zones: to each stripe one bio and no more, since its zone is written in order.
    pub(super) fn write_zone(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Place { device, sector, room } = self.stripes.place(bio.sector.0);
        let fits = u64::from(bio.sectors) <= room;
        if !fits && bio.flags.has(Flags::NOWAIT) {
            let status = bio.blame(Reason::WouldWait("it crosses the edge of a chunk"));
            return self.end(bio, status, cx);
        }
        if !fits || self.zones.as_ref().is_some_and(|zones| zones.has_more.contains(&true)) {
            return self.spread(bio, cx);
        }
        let number = self.stripes.owner(bio.sector.0);
        bio.sector = sector;
        cx.submit(device, bio, number as u64);
    }

    /// If `original` has written stripe `number` as far as its zone takes part, and the zone could take more: the zone. It
    /// has to be finished, as the wide zone is full and holds no resource.
    fn to_finish(&self, original: &Bio, number: usize) -> Option<Sector> {
        let zones = self.zones.as_ref()?;
        let writes = original.op.writes_data() && zones.has_more[number] && !zones.is_conventional(original.sector);
        let written = self.stripes.range(original, number);
        let stripe = &self.stripes.parts()[number];
        let is_full = (written.end - stripe.start) % zones.zone == zones.depth;
        (writes && !written.is_empty() && is_full).then(|| Sector(written.end - zones.depth))
    }

    /// Takes back a bio that concerns zones: of a report, of a reset of all zones, or a write of one stripe.
    pub(super) fn zone_ended(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let Some(zones) = &mut self.zones else { return cx.complete(bio, status) };
        if zones.gather.is_own(word) {
            let gathered = zones.gather.end_io(bio, status, word, cx);
            return gathered.into_iter().for_each(|gathered| self.gathered(gathered, cx));
        }
        if ResetAll::is_own(word) {
            let before = zones.reset_all.pending();
            zones.reset_all.end_io(bio, status, cx);
            (zones.reset_all.pending()..before).for_each(|_| zones.quiet.changed());
            return self.let_in(cx);
        }
        self.stripes.note(self.stripes.parts()[word as usize].device, status);
        self.end(bio, status, cx);
    }

    /// Takes back a part of a bio that went to several stripes.
    pub(super) fn part_ended(&mut self, mut own: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let number = usize::from(Fan::part(word));
        let device = self.stripes.parts()[number].device;
        self.stripes.note(device, status);
        if status.is_ok()
            && own.op.writes_data()
            && let Some(zone) = self.to_finish(self.fan.original(word), number)
        {
            *own = Bio::new(Op::ZoneFinish, zone, 0, Payload::None);
            return cx.submit(device, own, word);
        }
        if status.is_ok() && own.op != Op::Flush && self.must_last(self.fan.original(word).op, number) {
            *own = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            return cx.submit(device, own, word);
        }
        match self.fan.end_io(own, status, word, cx) {
            Some((bio, Status::Ok)) if leads(bio.op, number, self.stripes.parts().len()) => {
                self.manage_parts(bio, |other| other != number, cx);
            }
            Some((bio, status)) => self.end(bio, status, cx),
            None => {}
        }
    }

    /// Whether what `op` has done to stripe `number` must survive a loss of power before anything else is done.
    fn must_last(&self, op: Op, number: usize) -> bool {
        let count = self.stripes.parts().len();
        let device = self.stripes.parts()[number].device;
        let matters = op == Op::ZoneReset || op == Op::ZoneFinish && leads(op, number, count);
        count > 1 && matters && self.stripes.flushed().any(|flushed| flushed == device)
    }

    /// Reports, and changes of whole zones.
    pub(super) fn manage(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Some(zones) = &mut self.zones else { return cx.fail(bio, Reason::NotZoned) };
        match bio.op {
            Op::ReportZones => self.report(bio, cx),
            Op::ZoneOpen | Op::ZoneClose => self.ask(bio, 1, cx),
            Op::ZoneResetAll => {
                let before = zones.reset_all.pending();
                zones.reset_all.begin(bio, cx);
                // The only stripe has it if it is not here.
                (zones.reset_all.pending() == before).then(|| zones.quiet.changed());
            }
            op => {
                let count = self.stripes.parts().len();
                self.manage_parts(bio, |number| leads(op, number, count), cx);
            }
        }
    }

    /// Sends a change of a zone to the stripes with the numbers that `wants` picks.
    fn manage_parts(&mut self, bio: Box<Bio>, wants: impl Fn(usize) -> bool, cx: &mut Cx<'_>) {
        let op = bio.op;
        let parts = self.starts(bio.sector).enumerate().filter(|(number, _)| wants(*number));
        let parts: Vec<_> = parts
            .map(|(number, (device, sector))| (number as u16, device, Bio::new(op, sector, 0, Payload::None)))
            .collect();
        if let Some((bio, status)) = self.fan.spread(bio, parts.into_iter(), cx) {
            self.end(bio, status, cx);
        }
    }

    /// Where the zones of the stripes are that hold the wide zone at `sector`.
    fn starts(&self, sector: Sector) -> impl Iterator<Item = (DeviceId, Sector)> {
        let offset = self.zones.as_ref().map_or(0, |zones| sector.0 / zones.wide * zones.zone);
        self.stripes.parts().iter().map(move |stripe| (stripe.device, Sector(stripe.start + offset)))
    }

    fn ask(&mut self, bio: Box<Bio>, room: usize, cx: &mut Cx<'_>) {
        let starts: Vec<_> = self.starts(bio.sector).collect();
        if let Some(zones) = &mut self.zones {
            zones.gather.ask(bio, room, starts.into_iter(), cx);
        }
    }

    /// Asks for as many zones as there is room for, a bounded number at a time.
    fn report(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let room = self.room(&bio);
        if room > 0 {
            return self.ask(bio, room, cx);
        }
        self.end_report(bio, Status::Ok, cx);
    }

    fn end_report(&mut self, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        if let Some(zones) = &mut self.zones {
            zones.quiet.seen(bio.op);
        }
        self.end(bio, status, cx);
    }

    /// Zones that a report can still take, at most [`REPORT`].
    fn room(&self, bio: &Bio) -> usize {
        let (Some(zones), Payload::Zones(known)) = (&self.zones, &bio.payload) else { return 0 };
        let left = zones.count.saturating_sub(bio.sector.0 / zones.wide);
        (known.capacity() - known.len()).min(REPORT).min(left.try_into().unwrap_or(REPORT))
    }

    /// Goes on with what was waiting for a report.
    pub(super) fn gathered(&mut self, Gathered { bio, status, zones }: Gathered, cx: &mut Cx<'_>) {
        match bio.op {
            _ if !status.is_ok() => self.end_report(bio, status, cx),
            Op::ReportZones => self.reported(bio, &zones, cx),
            _ => self.change(bio, &zones, cx),
        }
    }

    /// Joins the zones of all stripes, and asks for more of them while there is room.
    fn reported(&mut self, mut bio: Box<Bio>, found: &[Vec<Zone>], cx: &mut Cx<'_>) {
        let count = found.iter().map(Vec::len).min().unwrap_or(0).min(self.room(&bio));
        let (Some(zones), Payload::Zones(known)) = (&mut self.zones, &mut bio.payload) else { return };
        let mut parts = Vec::with_capacity(found.len());
        let first = bio.sector.0 / zones.wide;
        for number in 0..count {
            parts.clear();
            parts.extend(found.iter().map(|zones| zones[number]));
            zones.learn(depth(&self.stripes, &parts), &parts);
            known.push(widen(&self.stripes, Sector((first + number as u64) * zones.wide), &parts));
        }
        bio.sector = Sector((first + count as u64) * zones.wide);
        // A report that brings nothing ends it.
        if count == 0 { self.end_report(bio, Status::Ok, cx) } else { self.report(bio, cx) }
    }

    /// Opens or closes a zone, now that its parts are known: neither is for parts that are full or empty already.
    fn change(&mut self, mut bio: Box<Bio>, found: &[Vec<Zone>], cx: &mut Cx<'_>) {
        let parts: Vec<Zone> = found.iter().filter_map(|zones| zones.first().copied()).collect();
        if parts.len() < found.len() {
            let status = bio.blame(Reason::ZonesUnknown("a stripe reports too few of them".into()));
            return self.end_report(bio, status, cx);
        }
        let wide = widen(&self.stripes, bio.sector, &parts);
        let state = ZoneState { cond: wide.cond, wp: (wide.wp - wide.start) as u32 };
        let (action, wants): (_, fn(Condition) -> bool) = match bio.op {
            Op::ZoneOpen => (Action::Open, |cond| cond != Condition::Full),
            _ => (Action::Close, Condition::is_open),
        };
        let zones_wide = self.zones.as_ref().map_or(1, |zones| zones.wide);
        if let Err(error) = state.apply(wide.capacity as u32, action) {
            let (zone, left) =
                (ZoneNo((bio.sector.0 / zones_wide) as u32), (wide.capacity as u32).saturating_sub(state.wp));
            let cond = Some(state.cond);
            let status = bio.blame(ZoneFault { error, zone, cond, pointer: wide.wp, left, held: (0, 0) });
            return self.end_report(bio, status, cx);
        }
        if let Some(zones) = &mut self.zones {
            zones.quiet.seen(bio.op);
        }
        self.manage_parts(bio, |number| wants(parts[number].cond), cx);
    }
}
