//! The disk: what a bio does on arrival, and the two arms that give it its time.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::cache::{DirtyCache, Entry};
use super::config::{SmrConfig, SmrConfigError};
use super::mechanics::{Head, Mechanics};
use crate::block::{Bio, BlockDevice, Cx, Data, Event, Flags, Limits, Op, Payload, Status};
use crate::device::memory::SparseMemory;
use crate::sector::Sector;
use crate::time::{Duration, Instant};
use crate::zone::{Condition, ZoneKind, ZoneNo, ZoneState, ZonedDisk};

/// Reads that may go before writes in a row while the cache has data.
const READS_IN_A_ROW: u32 = 16;

/// The device.
pub struct SmrDisk {
    pub(super) limits: Limits,
    pub(super) zones: ZonedDisk,
    pub(super) memory: Option<SparseMemory>,
    pub(super) config: SmrConfig,
    pub(super) mechanics: Mechanics,
    /// Reads and writes that found the queue full.
    pub(super) outside: VecDeque<Command>,
    /// Reads and writes in the queue.
    pub(super) queued: u32,
    /// Writes that have not come in yet, in order of arrival.
    pub(super) writes: VecDeque<Command>,
    /// Reads that wait for the head.
    pub(super) reads: Vec<Command>,
    /// What has only to be answered.
    pub(super) answers: VecDeque<Command>,
    /// Flushes that wait for the medium.
    pub(super) flushes: VecDeque<Command>,
    /// Zone management that the head has to do.
    pub(super) chores: VecDeque<Command>,
    pub(super) cache: DirtyCache,
    pub(super) link: Option<LinkJob>,
    /// Until then the controller takes no command.
    link_free: Instant,
    pub(super) media: Option<MediaJob>,
    pub(super) head: Head,
    last: Last,
    reads_in_a_row: u32,
    numbers: u64,
}

/// A bio that has taken effect.
pub(super) struct Command {
    pub bio: Box<Bio>,
    pub number: u64,
    /// Of a write: its zone was reset meanwhile.
    pub void: bool,
    /// Of a write to a conventional zone: what was there.
    pub before: Option<Data>,
    /// Of a read: the sectors that only the medium has.
    pub missing: u32,
    /// Of a write: the sectors that are in the cache, or beyond.
    pub taken: u32,
    /// Of those, the sectors that came in since its turn began.
    pub turn: u32,
}

impl Command {
    /// The sectors of a write that have not come in.
    pub fn rest(&self) -> Range<Sector> {
        self.bio.sector + u64::from(self.taken)..self.bio.end()
    }
}

/// What the link is busy with.
pub(super) enum LinkWork {
    /// The next so many sectors of a write come in.
    Write(Command, u32),
    /// An answer goes out.
    Answer(Command),
}

pub(super) struct LinkJob {
    pub done: Instant,
    pub work: LinkWork,
}

/// What the head is busy with.
pub(super) enum MediaWork {
    Read(Command),
    /// The first entry of a zone.
    Destage(ZoneNo),
    Chore(Command),
}

pub(super) struct MediaJob {
    pub done: Instant,
    pub work: MediaWork,
}

/// What the head did last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Other,
    /// It read, and goes on reading ahead.
    Read,
    /// It wrote in this zone, so many bytes in a row.
    Run(ZoneNo, u64),
}

impl SmrDisk {
    /// A disk with these parameters.
    pub fn new(config: &SmrConfig) -> Result<Self, SmrConfigError> {
        let limits = config.limits()?;
        let geometry = config.geometry()?;
        let resources = config.resources(&geometry)?;
        let full = |zone| ZoneState::full(geometry.capacity_of(zone));
        let zones = if config.zones_full {
            ZonedDisk::restore(geometry, resources, full).expect("full zones are within any limit")
        } else {
            ZonedDisk::new(geometry, resources)
        };
        Ok(Self {
            limits,
            zones,
            memory: config.keep_data.then(|| SparseMemory::new(0)),
            mechanics: Mechanics::new(config, geometry),
            outside: VecDeque::new(),
            queued: 0,
            writes: VecDeque::new(),
            reads: Vec::new(),
            answers: VecDeque::new(),
            flushes: VecDeque::new(),
            chores: VecDeque::new(),
            cache: DirtyCache::new(config.cache),
            link: None,
            link_free: Instant::ZERO,
            media: None,
            head: Head { next: Sector::ZERO, free_at: Instant::ZERO },
            last: Last::Other,
            reads_in_a_row: 0,
            numbers: 0,
            config: config.clone(),
        })
    }

    /// The zones, for inspection.
    #[must_use]
    pub fn zones(&self) -> &ZonedDisk {
        &self.zones
    }

    /// Bytes that are acknowledged, or on their way in, and not on the medium.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Bytes of memory that the data takes; 0 if it is not kept.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, SparseMemory::bytes)
    }

    /// The sustained rate in `zone`, in bytes per second.
    #[must_use]
    pub fn rate(&self, zone: ZoneNo) -> f64 {
        self.mechanics.rate(zone)
    }

    /// Time that the head takes from one zone to another, without the wait for the sector.
    #[must_use]
    pub fn seek_time(&self, from: ZoneNo, to: ZoneNo) -> Duration {
        self.mechanics.seek(from, to)
    }
}

impl BlockDevice for SmrDisk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let mut bio = bio;
        match self.take_effect(&mut bio) {
            Ok(Effect { missing, before }) => {
                self.numbers += 1;
                self.enqueue(Command { bio, number: self.numbers, void: false, before, missing, taken: 0, turn: 0 });
                self.work(cx);
            }
            Err(status) => cx.complete(bio, status),
        }
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        self.work(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let lists = [&self.outside, &self.writes, &self.answers, &self.flushes, &self.chores];
        lists.into_iter().flatten().chain(&self.reads).for_each(|command| visit(&command.bio));
        if let Some(LinkJob { work: LinkWork::Write(command, _) | LinkWork::Answer(command), .. }) = &self.link {
            visit(&command.bio);
        }
        if let Some(MediaJob { work: MediaWork::Read(command) | MediaWork::Chore(command), .. }) = &self.media {
            visit(&command.bio);
        }
        let waiters = self.cache.all().filter_map(|entry| entry.waiter.as_ref());
        waiters.for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let geometry = self.zones.geometry();
        write!(out, "smr: {} zones of {} sectors", geometry.zones(), geometry.zone_sectors())?;
        write!(out, " ({} conventional), turns in {} ns", geometry.conventional(), self.config.media.turn.0)
    }
}

/// What came of a bio that took effect.
#[derive(Default)]
struct Effect {
    missing: u32,
    before: Option<Data>,
}

/// What a bio does, at once.
impl SmrDisk {
    fn take_effect(&mut self, bio: &mut Bio) -> Result<Effect, Status> {
        match bio.op {
            Op::Read => self.read(bio),
            Op::Write => self.write(bio),
            Op::Flush => Ok(Effect::default()),
            Op::ReportZones => {
                let Payload::Zones(report) = &mut bio.payload else { return Err(Status::Invalid) };
                let room = report.capacity() - report.len();
                report.extend(self.zones.zones(bio.sector).take(room));
                Ok(Effect::default())
            }
            Op::ZoneOpen | Op::ZoneClose | Op::ZoneFinish | Op::ZoneReset | Op::ZoneResetAll => self.manage(bio),
            Op::ZoneAppend | Op::WriteZeroes | Op::Discard => Err(Status::NotSupported),
        }
    }

    fn read(&mut self, bio: &Bio) -> Result<Effect, Status> {
        let zone = self.zones.check_read(bio.sector)?;
        if let Some(memory) = &self.memory {
            memory.read(bio.sector, bio.sectors, &bio.payload);
        }
        let missing = self.on_medium_before(zone, bio.sector, bio.end()).0.saturating_sub(bio.sector.0);
        Ok(Effect { missing: missing.min(bio.sectors.into()) as u32, before: None })
    }

    /// Where, in `start..end` of `zone`, that part begins which is answered without the medium: it is in the cache or on its
    /// way there, or was never written.
    fn on_medium_before(&self, zone: ZoneNo, start: Sector, end: Sector) -> Sector {
        let pending = self.pending_writes(zone).filter(|(_, void)| !void).map(|(range, _)| range);
        if self.zones.geometry().kind(zone) == ZoneKind::Conventional {
            let covered = pending.into_iter().any(|write| write.start <= start && end <= write.end);
            return if covered { start } else { end };
        }
        let written = self.zones.geometry().start(zone) + u64::from(self.zones.state(zone).wp);
        pending.map(|write| write.start).fold(written, Sector::min)
    }

    /// Writes of `zone` that the medium does not have, and whether they are void.
    pub(super) fn pending_writes(&self, zone: ZoneNo) -> impl Iterator<Item = (Range<Sector>, bool)> {
        let geometry = self.zones.geometry();
        let cached = self.cache.of(zone).map(|entry| (entry.start..entry.start + u64::from(entry.sectors), entry.void));
        let arriving = match &self.link {
            Some(LinkJob { work: LinkWork::Write(command, _), .. }) => Some(command),
            _ => None,
        };
        let commands = arriving.into_iter().chain(&self.writes).chain(&self.outside);
        let queued = commands.filter(move |command| command.bio.op == Op::Write);
        let queued = queued.filter(move |command| geometry.zone_of(command.bio.sector) == zone);
        cached.chain(queued.map(|command| (command.rest(), command.void)))
    }

    fn write(&mut self, bio: &Bio) -> Result<Effect, Status> {
        let zone = self.zones.begin_write(bio.sector, bio.sectors)?;
        self.zones.advance(zone, bio.sectors);
        let Some(memory) = &mut self.memory else { return Ok(Effect::default()) };
        let conventional = self.zones.geometry().kind(zone) == ZoneKind::Conventional;
        let before = conventional.then(|| {
            let before = Data::zeroed(bio.sectors as usize * 512);
            memory.read(bio.sector, bio.sectors, &Payload::Data(before.clone()));
            before
        });
        memory.write(bio.sector, bio.sectors, &bio.payload);
        Ok(Effect { missing: 0, before })
    }

    /// Zone management; `missing` tells whether the medium has to change.
    fn manage(&mut self, bio: &Bio) -> Result<Effect, Status> {
        let zone = self.zones.zone_at(bio.sector)?;
        let before = self.zones.state(zone).cond;
        let changes = match bio.op {
            Op::ZoneOpen => return Ok(self.zones.open(zone).map(|()| Effect::default())?),
            Op::ZoneClose => return Ok(self.zones.close(zone).map(|()| Effect::default())?),
            Op::ZoneFinish => {
                self.zones.finish(zone)?;
                before != Condition::Full
            }
            Op::ZoneReset => {
                self.zones.reset(zone)?;
                self.forget(zone);
                before != Condition::Empty
            }
            _ => self.reset_all(),
        };
        Ok(Effect { missing: changes.into(), before: None })
    }

    fn reset_all(&mut self) -> bool {
        let mut emptied = Vec::new();
        self.zones.reset_all(|zone| emptied.push(zone));
        emptied.iter().for_each(|zone| self.forget(*zone));
        !emptied.is_empty()
    }

    /// The zone was reset: its data is gone, and what is still on its way to it goes nowhere.
    fn forget(&mut self, zone: ZoneNo) {
        let geometry = *self.zones.geometry();
        if let Some(memory) = &mut self.memory {
            memory.discard(geometry.start(zone), geometry.len(zone));
        }
        self.cache.of_mut(zone).for_each(|entry| entry.void = true);
        let arriving = match &mut self.link {
            Some(LinkJob { work: LinkWork::Write(command, _), .. }) => Some(command),
            _ => None,
        };
        let commands = arriving.into_iter().chain(&mut self.writes).chain(&mut self.outside);
        commands.filter(|command| geometry.zone_of(command.bio.sector) == zone).for_each(|command| command.void = true);
    }

    fn enqueue(&mut self, command: Command) {
        match command.bio.op {
            Op::Read | Op::Write => {
                self.outside.push_back(command);
                self.admit();
            }
            Op::Flush => self.flushes.push_back(command),
            Op::ZoneFinish | Op::ZoneReset | Op::ZoneResetAll if command.missing > 0 => self.chores.push_back(command),
            _ => self.answers.push_back(command),
        }
    }

    /// Lets commands into the queue as long as it has room.
    fn admit(&mut self) {
        while self.queued < self.config.link.depth
            && let Some(command) = self.outside.pop_front()
        {
            self.queued += 1;
            match command.bio.op {
                Op::Write => self.writes.push_back(command),
                _ if command.missing == 0 => self.answers.push_back(command),
                _ => self.reads.push(command),
            }
        }
    }
}

/// The arms at work.
impl SmrDisk {
    /// Ends what is done, and starts what can be.
    fn work(&mut self, cx: &mut Cx<'_>) {
        loop {
            let link = self.link.take_if(|job| job.done <= cx.now());
            let media = self.media.take_if(|job| job.done <= cx.now());
            let idle = link.is_none() && media.is_none();
            if let Some(job) = link {
                self.end_link(job.work, cx);
            }
            if let Some(job) = media {
                self.end_media(job, cx);
            }
            self.start_media(cx);
            self.start_link(cx);
            if idle {
                return;
            }
        }
    }

    fn start_link(&mut self, cx: &mut Cx<'_>) {
        if self.link.is_some() || self.link_free > cx.now() {
            return;
        }
        let Some(work) = self.answers.pop_front().map(LinkWork::Answer).or_else(|| self.next_segment()) else { return };
        let done = cx.now() + self.link_time(&work);
        cx.wake_at(done, 0);
        self.link = Some(LinkJob { done, work });
    }

    /// Each command costs the controller its time once, each byte the link its own.
    fn link_time(&self, work: &LinkWork) -> Duration {
        let (command, sectors) = match work {
            LinkWork::Write(command, sectors) => (command, *sectors),
            LinkWork::Answer(command) => (command, if command.bio.op == Op::Read { command.bio.sectors } else { 0 }),
        };
        let overhead = if command.taken == 0 { self.config.link.command } else { Duration::ZERO };
        Duration(overhead.0 + (f64::from(sectors) * 512.0 / self.config.link.rate * 1e9) as u64)
    }

    /// The next segment of a write, if the cache has room for it.
    fn next_segment(&mut self) -> Option<LinkWork> {
        let next = self.choose_write()?;
        let rest = self.writes[next].rest();
        let sectors = ((rest.end - rest.start) as u32).min(self.config.cache.segment_sectors());
        if !self.cache.reserve(sectors) {
            return None;
        }
        self.writes.remove(next).map(|command| LinkWork::Write(command, sectors))
    }

    /// The next write in turn.
    fn choose_write(&self) -> Option<usize> {
        (0..self.writes.len()).find(|index| self.may_come_in(&self.writes[*index]))
    }

    /// The zones that are being written share the cache: a long command among many comes in by turns with the others.
    fn share(&self) -> u32 {
        let arriving = self.writes.iter().map(|command| self.zones.geometry().zone_of(command.bio.sector));
        self.config.cache.share(self.cache.zones_with(arriving))
    }

    /// Not before an older write to the same zone; and one that needs a flush first has to find the cache clean, and lets
    /// nothing younger pass meanwhile.
    fn may_come_in(&self, command: &Command) -> bool {
        let zone = |command: &Command| self.zones.geometry().zone_of(command.bio.sector);
        let flushes = |command: &Command| command.taken == 0 && command.bio.flags.has(Flags::PREFLUSH);
        let mut older = self.writes.iter().filter(|other| other.number < command.number);
        if flushes(command) {
            return self.cache.is_clean() && older.next().is_none();
        }
        older.all(|older| zone(older) != zone(command) && !flushes(older))
    }

    fn end_link(&mut self, work: LinkWork, cx: &mut Cx<'_>) {
        match work {
            LinkWork::Answer(command) => {
                self.recover(cx);
                if matches!(command.bio.op, Op::Read | Op::Write) {
                    self.leave_queue();
                }
                cx.complete(command.bio, Status::Ok);
            }
            LinkWork::Write(command, sectors) => self.cache_segment(command, sectors, cx),
        }
    }

    /// A write of which more is to come in goes on, or back to the end of the line if its turn is over.
    fn take_turns(&mut self, mut command: Command) {
        if command.turn < self.share() {
            return self.writes.push_front(command);
        }
        command.turn = 0;
        self.writes.push_back(command);
    }

    fn recover(&mut self, cx: &mut Cx<'_>) {
        self.link_free = cx.now() + self.config.link.recovery;
        cx.wake_at(self.link_free, 0);
    }

    fn leave_queue(&mut self) {
        self.queued -= 1;
        self.admit();
    }

    fn cache_segment(&mut self, mut command: Command, sectors: u32, cx: &mut Cx<'_>) {
        let start = command.rest().start;
        let zone = self.zones.geometry().zone_of(start);
        let part = |before: &Data| before.slice(command.taken as usize * 512, sectors as usize * 512);
        let before = command.before.as_ref().map(part);
        command.taken += sectors;
        command.turn += sectors;
        if command.taken == command.bio.sectors {
            self.recover(cx);
        }
        let (number, void) = (command.number, command.void);
        let mut waiter = None;
        if command.taken < command.bio.sectors {
            self.take_turns(command);
        } else if command.bio.flags.has(Flags::FUA) || !self.config.cache.write_back {
            waiter = Some(command.bio);
        } else {
            self.leave_queue();
            cx.complete(command.bio, Status::Ok);
        }
        self.cache.push(zone, Entry { start, sectors, number, void, before, waiter });
    }

    fn start_media(&mut self, cx: &mut Cx<'_>) {
        if self.media.is_some() {
            return;
        }
        self.answer_flushes();
        let Some(job) = self.next_media(cx.now()) else { return };
        cx.wake_at(job.done, 0);
        self.media = Some(job);
    }

    /// What the head does next: zone management, then reads, then the cache; but reads do not keep writes waiting for ever.
    fn next_media(&mut self, now: Instant) -> Option<MediaJob> {
        if let Some(chore) = self.chores.front() {
            let zone = self.zones.geometry().zone_of(chore.bio.sector);
            if chore.bio.op == Op::ZoneFinish && self.cache.front(zone).is_some() {
                return self.destage(zone, now);
            }
            return self.start_chore(now);
        }
        let writes_first = self.reads_in_a_row >= READS_IN_A_ROW && !self.cache.is_clean();
        if !self.reads.is_empty() && !writes_first {
            self.reads_in_a_row += 1;
            return self.start_read(now);
        }
        self.reads_in_a_row = 0;
        let zone = self.choose_zone()?;
        self.destage(zone, now)
    }

    fn start_chore(&mut self, now: Instant) -> Option<MediaJob> {
        let command = self.chores.pop_front()?;
        let times = &self.config.manage;
        let time = if command.bio.op == Op::ZoneFinish { times.finish } else { times.reset };
        self.last = Last::Other;
        Some(MediaJob { done: now + time, work: MediaWork::Chore(command) })
    }

    /// The read that the head can begin first.
    fn start_read(&mut self, now: Instant) -> Option<MediaJob> {
        let begins =
            |command: &Command| self.mechanics.reach(&self.head, command.bio.sector, self.read_from(command, now));
        let nearest = self.reads.iter().enumerate().min_by_key(|(_, command)| (begins(command), command.number))?.0;
        let command = self.reads.swap_remove(nearest);
        let start = self.mechanics.reach(&self.head, command.bio.sector, self.read_from(&command, now));
        let end = start + self.mechanics.transfer(command.bio.sector, command.missing);
        self.head = Head { next: command.bio.sector + u64::from(command.missing), free_at: end };
        self.last = Last::Read;
        Some(MediaJob { done: end.max(now), work: MediaWork::Read(command) })
    }

    /// When the head can set out for a read: at once; or, where it has read ahead since the last one, back then.
    fn read_from(&self, command: &Command, now: Instant) -> Instant {
        let follows = self.last == Last::Read && command.bio.sector == self.head.next;
        if follows && self.config.cache.look_ahead_covers(now.since(self.head.free_at), self.config.media.outer_rate) {
            self.head.free_at
        } else {
            now
        }
    }

    /// The zone whose data goes to the medium next: the current one as long as its data goes on and its run is not too long
    /// for the others, else the one that has waited longest.
    fn choose_zone(&self) -> Option<ZoneNo> {
        let oldest = || self.cache.fronts().min_by_key(|(_, entry)| entry.number).map(|(zone, _)| zone);
        if let Last::Run(zone, bytes) = self.last {
            let goes_on = self.cache.front(zone).is_some_and(|entry| entry.start == self.head.next);
            if goes_on && bytes < self.config.cache.run_bytes {
                return Some(zone);
            }
        }
        oldest()
    }

    fn destage(&mut self, zone: ZoneNo, now: Instant) -> Option<MediaJob> {
        let entry = self.cache.front(zone)?;
        let (sector, sectors) = (entry.start, entry.sectors);
        let start = self.mechanics.reach(&self.head, sector, now);
        let done = start + self.mechanics.transfer(sector, sectors);
        let run = match self.last {
            Last::Run(last, bytes) if last == zone && self.head.next == sector => bytes,
            _ => 0,
        };
        self.last = Last::Run(zone, run + u64::from(sectors) * 512);
        self.head = Head { next: sector + u64::from(sectors), free_at: done };
        Some(MediaJob { done, work: MediaWork::Destage(zone) })
    }

    fn end_media(&mut self, job: MediaJob, cx: &mut Cx<'_>) {
        match job.work {
            MediaWork::Read(command) | MediaWork::Chore(command) => self.answers.push_back(command),
            MediaWork::Destage(zone) => {
                let entry = self.cache.pop(zone).expect("what the head has written was in the cache");
                if let Some(bio) = entry.waiter {
                    self.leave_queue();
                    cx.complete(bio, Status::Ok);
                }
            }
        }
    }

    /// Flushes for which everything older is on the medium.
    fn answer_flushes(&mut self) {
        while let Some(flush) = self.flushes.front() {
            if self.cache.all().any(|entry| entry.number < flush.number) {
                return;
            }
            self.answers.extend(self.flushes.pop_front());
        }
    }
}
