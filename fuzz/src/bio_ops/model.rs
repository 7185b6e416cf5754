//! A disk kept the slow and obvious way, written from the specification of zoned devices and from no other code: one word
//! of content and one bad flag per sector, conditions recounted whenever they matter.

use shingle_core::block::{Op, Status};
use shingle_core::device::null::NullConfig;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

/// A bio in numbers.
#[derive(Clone, Copy, Debug)]
pub struct PlainBio {
    pub op: Op,
    pub sector: u64,
    pub sectors: u64,
    pub nowait: bool,
    /// Whether the payload is what the operation needs.
    pub payload_fits: bool,
    /// What the first sector is filled with; the next ones count up.
    pub content: u64,
}

/// What has to come back.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: Status,
    /// The content of the sectors that were read.
    pub read: Vec<u64>,
    /// Where appended data went.
    pub at: u64,
}

struct ModelZone {
    cond: Condition,
    wp: u64,
    used: u64,
}

pub struct Model {
    config: NullConfig,
    block: u64,
    zone_sectors: u64,
    conventional: u64,
    max_open: usize,
    max_active: usize,
    zones: Vec<ModelZone>,
    content: Vec<u64>,
    bad: Vec<bool>,
    clock: u64,
}

impl Model {
    pub fn new(config: &NullConfig) -> Self {
        let zoned = config.zoned.clone();
        let zone_sectors = zoned.as_ref().map_or(u64::MAX, |z| z.zone_sectors);
        let conventional = zoned.as_ref().map_or(0, |z| u64::from(z.conventional));
        let count = zoned.as_ref().map_or(0, |z| config.capacity.div_ceil(z.zone_sectors));
        let limit = |limit: Option<u32>| limit.map_or(usize::MAX, |n| n as usize);
        let mut model = Self {
            block: u64::from(config.block_bytes / 512),
            zone_sectors,
            conventional,
            max_open: limit(zoned.as_ref().and_then(|z| z.max_open)),
            max_active: limit(zoned.as_ref().and_then(|z| z.max_active)),
            zones: (0..count).map(|_| ModelZone { cond: Condition::Empty, wp: 0, used: 0 }).collect(),
            content: vec![u64::from_ne_bytes([config.unwritten; 8]); config.capacity as usize],
            bad: vec![false; config.capacity as usize],
            clock: 0,
            config: config.clone(),
        };
        for zone in 0..model.zones.len() {
            if (zone as u64) < conventional {
                model.zones[zone].cond = Condition::NotWp;
            } else if zoned.as_ref().is_some_and(|z| z.zone_full) {
                (model.zones[zone].cond, model.zones[zone].wp) = (Condition::Full, model.capacity_of(zone));
            }
        }
        model
    }

    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// The sector at the write pointer of a zone.
    pub fn pointer(&self, zone: usize) -> u64 {
        zone as u64 * self.zone_sectors + self.zones[zone].wp
    }

    pub fn report(&self, zone: usize) -> Zone {
        let (start, len) = (zone as u64 * self.zone_sectors, self.len_of(zone));
        let cond = self.zones[zone].cond;
        let wp = match cond {
            Condition::Full => start + len,
            Condition::NotWp | Condition::ReadOnly | Condition::Offline => start,
            _ => start + self.zones[zone].wp,
        };
        let kind = if (zone as u64) < self.conventional { ZoneKind::Conventional } else { ZoneKind::Sequential };
        Zone { start: Sector(start), len, capacity: self.capacity_of(zone), wp: Sector(wp), kind, cond }
    }

    pub fn set_bad(&mut self, from: u64, count: u64, bad: bool) {
        let end = self.config.capacity.min(from + count);
        (from..end).for_each(|sector| self.bad[sector as usize] = bad);
    }

    /// A zone fails, or with `Condition::Empty` is revived; false if it cannot.
    pub fn fail(&mut self, zone: usize, cond: Condition) -> bool {
        let now = self.zones[zone].cond;
        let failed = matches!(now, Condition::ReadOnly | Condition::Offline);
        if now == Condition::NotWp || (cond == Condition::Empty && !failed) {
            return false;
        }
        if cond == Condition::Empty {
            self.empty(zone);
        } else {
            self.zones[zone].cond = cond;
        }
        true
    }

    pub fn run(&mut self, request: PlainBio) -> Answer {
        let failed = |status| Answer { status, ..Answer::default() };
        let zoned = self.config.zoned.is_some();
        let writes = !matches!(request.op, Op::Read | Op::Flush | Op::ReportZones);
        if self.config.read_only && writes {
            return failed(Status::ReadOnly);
        }
        match request.op {
            Op::Flush => Answer::default(),
            Op::WriteZeroes if !self.config.write_zeroes => failed(Status::NotSupported),
            Op::Discard if !self.config.discard => failed(Status::NotSupported),
            Op::Read | Op::Write | Op::WriteZeroes | Op::Discard => self.run_range(request),
            _ if !zoned => failed(Status::NotSupported),
            Op::ZoneAppend => self.run_append(request),
            Op::ReportZones => failed(if request.payload_fits { Status::Ok } else { Status::Invalid }),
            Op::ZoneResetAll => {
                self.reset_all();
                Answer::default()
            }
            _ => failed(self.manage(request)),
        }
    }

    fn extent_error(&self, request: &PlainBio) -> Option<Status> {
        let PlainBio { op, sector, sectors, payload_fits, .. } = *request;
        if sectors == 0 || sector.checked_add(sectors).is_none_or(|end| end > self.config.capacity) {
            return Some(Status::Io);
        }
        if sector % self.block != 0 || sectors % self.block != 0 {
            return Some(Status::Io);
        }
        let needs_memory = matches!(op, Op::Read | Op::Write | Op::ZoneAppend);
        if needs_memory && !payload_fits { Some(Status::Invalid) } else { None }
    }

    fn run_range(&mut self, request: PlainBio) -> Answer {
        if let Some(status) = self.extent_error(&request) {
            return Answer { status, ..Answer::default() };
        }
        let has_length_limit = matches!(request.op, Op::Read | Op::Write);
        let longest = self.config.max_sectors.filter(|_| has_length_limit).map_or(u64::MAX, u64::from);
        let longest = longest - longest % self.block;
        let mut answer = Answer::default();
        let mut done = 0;
        while done < request.sectors {
            let sector = request.sector + done;
            let to_zone_end = self.zone_sectors - sector % self.zone_sectors;
            let sectors = (request.sectors - done).min(to_zone_end).min(longest);
            if sectors < request.sectors && request.nowait {
                return Answer { status: Status::Again, ..Answer::default() };
            }
            let piece = PlainBio { sector, sectors, content: request.content + done, ..request };
            let status = self.run_piece(piece, &mut answer.read);
            if answer.status.is_ok() {
                answer.status = status;
            }
            done += sectors;
        }
        answer
    }

    fn run_append(&mut self, request: PlainBio) -> Answer {
        let failed = |status| Answer { status, ..Answer::default() };
        if let Some(status) = self.extent_error(&request) {
            return failed(status);
        }
        let native = self.config.zoned.as_ref().and_then(|z| z.max_append);
        let longest = native.or(self.config.max_sectors).map_or(u64::MAX, u64::from);
        if !request.sector.is_multiple_of(self.zone_sectors) || request.sectors > longest.min(self.zone_sectors) {
            return failed(Status::Io);
        }
        if native.is_none() {
            return failed(Status::NotSupported);
        }
        let zone = (request.sector / self.zone_sectors) as usize;
        if self.zones[zone].cond == Condition::NotWp {
            return failed(Status::Io);
        }
        let at = self.pointer(zone);
        let status = self.write_sequential(PlainBio { sector: at, ..request }, zone);
        Answer { status, at, ..Answer::default() }
    }

    fn run_piece(&mut self, request: PlainBio, read: &mut Vec<u64>) -> Status {
        let zone = if self.zones.is_empty() { usize::MAX } else { (request.sector / self.zone_sectors) as usize };
        let cond = self.zones.get(zone).map_or(Condition::NotWp, |zone| zone.cond);
        match request.op {
            Op::Read if cond == Condition::Offline => Status::Io,
            Op::Read => {
                let (_, status) = self.spoil(&request);
                let from = request.sector as usize;
                read.extend(&self.content[from..from + request.sectors as usize]);
                status
            }
            Op::Discard => {
                let unwritten = u64::from_ne_bytes([self.config.unwritten; 8]);
                let from = request.sector as usize;
                self.content[from..from + request.sectors as usize].fill(unwritten);
                Status::Ok
            }
            _ if cond == Condition::NotWp => {
                let (good, status) = self.spoil(&request);
                self.store(&request, good);
                status
            }
            _ => self.write_sequential(request, zone),
        }
    }

    fn write_sequential(&mut self, request: PlainBio, zone: usize) -> Status {
        let cond = self.zones[zone].cond;
        if matches!(cond, Condition::ReadOnly | Condition::Offline | Condition::Full) {
            return Status::Io;
        }
        let offset = request.sector - zone as u64 * self.zone_sectors;
        if offset != self.zones[zone].wp || offset + request.sectors > self.capacity_of(zone) {
            return Status::Io;
        }
        if !matches!(cond, Condition::ImplicitOpen | Condition::ExplicitOpen) {
            if let Err(status) = self.make_room(zone) {
                return status;
            }
            self.zones[zone].cond = Condition::ImplicitOpen;
        }
        self.clock += 1;
        self.zones[zone].used = self.clock;
        let (good, status) = self.spoil(&request);
        self.store(&request, good);
        self.zones[zone].wp += good;
        if self.zones[zone].wp == self.capacity_of(zone) {
            self.zones[zone].cond = Condition::Full;
        }
        status
    }

    /// Lets one more zone be open, and active if it is not.
    fn make_room(&mut self, zone: usize) -> Result<(), Status> {
        let open = |c: Condition| matches!(c, Condition::ImplicitOpen | Condition::ExplicitOpen);
        let active = |c: Condition| open(c) || c == Condition::Closed;
        let count = |holds: &dyn Fn(Condition) -> bool| self.zones.iter().filter(|z| holds(z.cond)).count();
        if self.zones[zone].cond == Condition::Empty && count(&active) >= self.max_active {
            return Err(Status::ZoneActiveResource);
        }
        if count(&open) < self.max_open {
            return Ok(());
        }
        let implicit = self.zones.iter_mut().filter(|z| z.cond == Condition::ImplicitOpen);
        let victim = implicit.min_by_key(|z| z.used).ok_or(Status::ZoneOpenResource)?;
        victim.cond = if victim.wp == 0 { Condition::Empty } else { Condition::Closed };
        Ok(())
    }

    fn manage(&mut self, request: PlainBio) -> Status {
        if !request.sector.is_multiple_of(self.zone_sectors) || request.sector >= self.config.capacity {
            return Status::Invalid;
        }
        let zone = (request.sector / self.zone_sectors) as usize;
        use Condition as C;
        match (request.op, self.zones[zone].cond) {
            (_, C::NotWp | C::ReadOnly | C::Offline) => return Status::Io,
            (Op::ZoneOpen | Op::ZoneClose, C::Full) | (Op::ZoneClose, C::Empty) => return Status::Io,
            (Op::ZoneOpen, cond) => {
                if matches!(cond, C::Empty | C::Closed)
                    && let Err(status) = self.make_room(zone)
                {
                    return status;
                }
                self.zones[zone].cond = C::ExplicitOpen;
            }
            (Op::ZoneClose, _) => self.zones[zone].cond = if self.zones[zone].wp == 0 { C::Empty } else { C::Closed },
            (Op::ZoneFinish, _) => {
                (self.zones[zone].cond, self.zones[zone].wp) = (C::Full, self.capacity_of(zone));
            }
            (Op::ZoneReset, _) => self.empty(zone),
            (op, _) => panic!("{op:?} manages no zone"),
        }
        Status::Ok
    }

    fn reset_all(&mut self) {
        for zone in 0..self.zones.len() {
            if !matches!(self.zones[zone].cond, Condition::NotWp | Condition::ReadOnly | Condition::Offline) {
                self.empty(zone);
            }
        }
    }

    fn empty(&mut self, zone: usize) {
        (self.zones[zone].cond, self.zones[zone].wp) = (Condition::Empty, 0);
        let start = (zone as u64 * self.zone_sectors) as usize;
        let end = start + self.len_of(zone) as usize;
        self.content[start..end].fill(u64::from_ne_bytes([self.config.unwritten; 8]));
    }

    /// How many sectors come before the first bad one, in whole blocks, if any are done at all then.
    fn spoil(&mut self, request: &PlainBio) -> (u64, Status) {
        let mut range = request.sector..request.sector + request.sectors;
        let Some(first) = range.find(|sector| self.bad[*sector as usize]) else { return (request.sectors, Status::Ok) };
        if self.config.bad_blocks_once {
            let (before, after) = self.bad.split_at_mut(first as usize);
            before.iter_mut().rev().take_while(|bad| **bad).for_each(|bad| *bad = false);
            after.iter_mut().take_while(|bad| **bad).for_each(|bad| *bad = false);
        }
        let good = (first - request.sector) / self.block * self.block;
        (if self.config.bad_blocks_partial_io { good } else { 0 }, Status::Io)
    }

    fn store(&mut self, request: &PlainBio, sectors: u64) {
        for n in 0..sectors {
            let content = if request.op == Op::WriteZeroes { 0 } else { request.content + n };
            self.content[(request.sector + n) as usize] = content;
        }
    }

    fn len_of(&self, zone: usize) -> u64 {
        self.zone_sectors.min(self.config.capacity - zone as u64 * self.zone_sectors)
    }

    fn capacity_of(&self, zone: usize) -> u64 {
        let sequential = zone as u64 >= self.conventional;
        let capacity = self.config.zoned.as_ref().and_then(|z| z.zone_capacity).filter(|_| sequential);
        self.len_of(zone).min(capacity.unwrap_or(u64::MAX))
    }
}
