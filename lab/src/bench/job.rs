//! One job: its slots, each with a bio and a buffer of its own that come back from the stack and go in again.
//!
//! ```text
//!  poll_completion ── account ──> choose ── submit ──> (turn)
//!         ^                         └─ nothing to do: idle          idle slots are tried again at every pump
//!         └──────────────────────────────────────────────┘
//! ```
//!
//! A job never waits and never allocates once it runs. It goes through phases: load, then with `--verify` reading back
//! what it wrote, then, if there is time left and `--time_based`, load again.

use std::sync::Arc;

use shingle_core::block::{Bio, Completion, Data, DeviceId, Op, Payload, PortId, Reason, Stack, Status, Why};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::ZoneNo;

use super::clock::Clock;
use super::options::{ClockMode, JobOptions, ZoneMode};
use super::region::{Region, mode};
use super::stats::{Direction, JobStats};
use super::verify::{Expected, Filling, Mismatch, Stamp};
use super::zones::{SharedWriter, Step, ZoneChoice, ZoneTable, ZoneWriter};

/// A device under load, shared by its jobs.
pub struct Target {
    /// The device.
    pub device: DeviceId,
    /// Its zones, if it has any.
    pub zones: ZoneTable,
    /// Jobs that write to it.
    pub writers: u32,
}

/// One turn of the loop, as a job sees it.
pub struct Turn<'a> {
    /// The stack that owns the device.
    pub stack: &'a mut Stack,
    /// The job's device.
    pub target: &'a mut Target,
    /// The time of this turn.
    pub now: Instant,
    /// Reads the clock, for `--clock=bio`.
    pub clock: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Trim,
    Check,
    Reset,
    Finish,
    Sync,
}

/// What a slot's bio is doing. Small enough to travel in two registers.
#[derive(Clone, Copy)]
struct Slot {
    at: Sector,
    zone: ZoneNo,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobPhase {
    Load,
    Verify { next: u64 },
    Done,
}

/// Where I/Os go.
enum Access {
    Random,
    Sequential { next: [u64; 3] },
    Zoned { writer: Option<Writer>, read_next: u64 },
}

/// How zones are chosen for writes.
enum Writer {
    Own(ZoneWriter),
    Shared(SharedWriter),
}

/// What was written where, for `--verify`.
struct Written {
    how: Filling,
    scratch: Vec<u8>,
    /// The number of the newest write of each block, 0 if this run has not written it.
    versions: Vec<u32>,
    sequence: u32,
    /// The number of the write in each slot.
    in_slot: Vec<u32>,
}

/// The version of a block with a write in flight: no second one may start, nobody could tell which of them wins.
const BUSY: u32 = u32::MAX;

/// Most blocks that a job verifies: what it keeps of them takes 1 GiB.
const MOST_VERSIONS: u64 = 1 << 28;

/// The first thing that went wrong in a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was asked.
    pub op: Op,
    /// Where.
    pub sector: Sector,
    /// How it ended.
    pub status: Status,
    /// Why, if the bio said so.
    pub why: Option<Reason>,
    /// How the data differs, if it does.
    pub mismatch: Option<Mismatch>,
}

/// One stream of I/O to one device.
pub struct Job {
    /// What it has done.
    pub stats: JobStats,
    /// Why it stopped early, if it did.
    pub failure: Option<Failure>,
    options: Arc<JobOptions>,
    port: PortId,
    region: Region,
    access: Access,
    written: Option<Written>,
    rng: Rng,
    /// Of 2^32 random choices, how many are reads.
    read_share: u64,
    write_op: Op,
    /// What an I/O is that is no read.
    other_kind: Kind,
    block_sectors: u32,
    /// Whether the clock is read for every bio.
    clock_per_bio: bool,
    left: u64,
    /// Writes until the next flush.
    until_sync: u64,
    /// I/Os until the next pause.
    until_pause: u64,
    /// The end of the pause, if there is one.
    pause: Option<Instant>,
    deadline: Option<Instant>,
    phase: JobPhase,
    stopping: bool,
    slots: Vec<Slot>,
    /// When each slot's bio was submitted, with `--clock=bio`.
    submitted: Vec<u64>,
    idle: Vec<(u32, Box<Bio>)>,
}

impl Job {
    /// The `number`th job of `options` on `target`, whose limits the stack knows.
    pub fn new(options: &Arc<JobOptions>, number: u32, stack: &mut Stack, target: &mut Target) -> Result<Self, String> {
        let limits = stack.limits(target.device).clone();
        let region = Region::new(options, &limits)?;
        if options.rw.trims() && limits.max_discard.is_none() {
            return Err("the device does not discard: choose another --rw".into());
        }
        let access = match mode(options, &limits)? {
            ZoneMode::Zbd => zoned_access(options, &region, number, target)?,
            ZoneMode::None if options.append => {
                return Err("--write_zone_append needs a zoned device and --zonemode=zbd".into());
            }
            ZoneMode::None if options.rw.is_random() => Access::Random,
            ZoneMode::None => Access::Sequential { next: [0; 3] },
        };
        Ok(Self {
            stats: JobStats::default(),
            failure: None,
            port: stack.open_port(),
            access,
            written: options.filling()?.map(|how| Written::new(how, options, &region)).transpose()?,
            rng: Rng::new(options.randseed.wrapping_add(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            read_share: read_share(options),
            write_op: if options.append { Op::ZoneAppend } else { Op::Write },
            other_kind: if options.rw.trims() { Kind::Trim } else { Kind::Write },
            block_sectors: options.block_sectors(),
            clock_per_bio: options.clock == ClockMode::Bio,
            left: 0,
            until_sync: if options.fsync > 0 { options.fsync.into() } else { u64::MAX },
            until_pause: options.pause().map_or(u64::MAX, |_| options.thinktime_blocks.into()),
            pause: None,
            deadline: None,
            phase: JobPhase::Load,
            stopping: false,
            slots: vec![UNUSED; options.iodepth as usize],
            submitted: vec![0; options.iodepth as usize],
            idle: bios_of(options),
            region,
            options: options.clone(),
        })
    }

    /// The options it was made from.
    pub fn options(&self) -> &JobOptions {
        &self.options
    }

    /// Starts the load.
    pub fn start(&mut self, now: Instant) {
        self.deadline = self.options.runtime.map(|time| now + Duration(time.as_nanos() as u64));
        self.left = self.ios_per_pass();
        self.stats.begin(now);
    }

    /// Stops issuing I/O; what is in flight runs out.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether everything is done and has come back.
    pub fn is_done(&self) -> bool {
        self.phase == JobPhase::Done
    }

    /// When it goes on, if it pauses.
    pub fn pauses_until(&self) -> Option<Instant> {
        let until = self.pause?;
        Some(self.deadline.map_or(until, |deadline| until.min(deadline)))
    }

    /// Bios that have not come back.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.idle.len()
    }

    /// How much of the current pass is done, between 0 and 1; by time if the job is time based.
    pub fn progress(&self, now: Instant) -> f64 {
        let runtime = self.options.runtime.filter(|_| self.options.time_based);
        if let (Some(runtime), Some(deadline)) = (runtime, self.deadline) {
            return 1.0 - deadline.since(now).as_nanos() as f64 / runtime.as_nanos() as f64;
        }
        1.0 - self.left as f64 / self.ios_per_pass().max(1) as f64
    }

    fn ios_per_pass(&self) -> u64 {
        let block = u64::from(self.options.block_bytes);
        self.options.io_size.map_or(self.region.blocks(), |bytes| bytes / block)
    }

    /// Takes what has come back and sends the next I/Os; returns how many came back.
    pub fn pump(&mut self, turn: &mut Turn<'_>) -> usize {
        if self.phase == JobPhase::Load && self.deadline.is_some_and(|deadline| turn.now >= deadline) {
            self.left = 0;
        }
        // Before the fresh completions: a slot that waits must not starve behind slots that come back again and again.
        while let Some((tag, bio)) = self.idle.pop() {
            if !self.issue(tag, bio, turn) {
                break;
            }
        }
        let mut done = 0;
        while let Some(Completion { tag, bio, status }) = turn.stack.poll_completion(self.port) {
            done += 1;
            let at = if self.clock_per_bio { turn.clock.now() } else { turn.now };
            match self.account(tag as u32, &bio, status, at, turn.target) {
                Some(zone) => self.send(tag as u32, bio, Slot { kind: Kind::Finish, zone, ..UNUSED }, turn),
                None => {
                    self.issue(tag as u32, bio, turn);
                }
            }
        }
        if self.idle.len() == self.slots.len() {
            self.next_phase(turn.now, turn.target);
        }
        done
    }

    /// Counts a bio that came back; `Some` if its zone has to be finished next.
    #[inline(always)]
    fn account(&mut self, tag: u32, bio: &Bio, status: Status, now: Instant, target: &mut Target) -> Option<ZoneNo> {
        let slot = self.slots[tag as usize];
        if !status.is_ok() {
            self.fail(slot, (status, bio.why()), None);
            if matches!(slot.kind, Kind::Write | Kind::Reset) && matches!(self.access, Access::Zoned { .. }) {
                target.zones.give_up(slot.zone);
            }
            return None;
        }
        let since = if self.clock_per_bio { self.submitted[tag as usize] } else { bio.since.0 };
        let direction = match slot.kind {
            Kind::Read | Kind::Check => Direction::Read,
            Kind::Write => Direction::Write,
            Kind::Trim => Direction::Trim,
            Kind::Reset | Kind::Finish => return self.account_zone(slot, target),
            Kind::Sync => {
                self.stats.syncs.record(now.0.saturating_sub(since));
                return None;
            }
        };
        self.stats.flows[direction as usize].latency.record(now.0.saturating_sub(since));
        if self.written.is_some() {
            self.account_data(tag, bio);
        }
        match (slot.kind, &self.access) {
            (Kind::Write, Access::Zoned { .. }) => target.zones.write_done(slot.zone, self.block_sectors),
            _ => None,
        }
    }

    fn account_zone(&mut self, slot: Slot, target: &mut Target) -> Option<ZoneNo> {
        match slot.kind {
            Kind::Reset => {
                self.stats.zone_resets += 1;
                target.zones.reset_done(slot.zone);
                self.forget_zone(slot.zone);
            }
            _ => target.zones.release(slot.zone),
        }
        None
    }

    fn forget_zone(&mut self, zone: ZoneNo) {
        let per_zone = self.region.blocks_per_zone as usize;
        let first = (zone.0 - self.region.first_zone) as usize * per_zone;
        if let Some(written) = &mut self.written {
            written.versions[first..first + per_zone].fill(0);
        }
    }

    /// With `--verify`: remembers a write, checks a read.
    fn account_data(&mut self, tag: u32, bio: &Bio) {
        let slot = self.slots[tag as usize];
        let Some(written) = &mut self.written else { return };
        let at = if bio.op == Op::ZoneAppend { bio.sector } else { slot.at };
        let block = self.region.block(at);
        let checked = match slot.kind {
            Kind::Write => {
                written.versions[block as usize] = written.in_slot[tag as usize];
                return;
            }
            // While others write, a read may see either version.
            Kind::Read if self.options.rw.writes() => return,
            Kind::Read | Kind::Check => {
                let offset = if self.options.append { self.region.zone_start(block) } else { at }.bytes();
                let sequence = Some(written.versions[block as usize]).filter(|version| *version != 0);
                let [data] = bio.payload.segments() else { return };
                written.how.check(data, Expected { offset, sequence }, &mut written.scratch)
            }
            Kind::Trim | Kind::Reset | Kind::Finish | Kind::Sync => return,
        };
        self.stats.verified += 1;
        if let Err(mismatch) = checked {
            // fio reports a verification failure as EILSEQ, which is what "protection error" maps to.
            self.fail(slot, (Status::Protection, None), Some(mismatch));
        }
    }

    #[cold]
    fn fail(&mut self, slot: Slot, (status, why): (Status, Option<&Why>), mismatch: Option<Mismatch>) {
        let (op, sector) = (self.op_of(slot.kind), slot.at);
        let why = || why.map(|why| why.reason.clone());
        self.failure.get_or_insert_with(|| Failure { op, sector, status, why: why(), mismatch });
        self.stopping = true;
    }

    /// Gives a slot its next I/O, or lays it aside. Returns whether there was one.
    #[inline(always)]
    fn issue(&mut self, tag: u32, bio: Box<Bio>, turn: &mut Turn<'_>) -> bool {
        let Some(slot) = self.choose(turn) else {
            self.idle.push((tag, bio));
            return false;
        };
        self.send(tag, bio, slot, turn);
        true
    }

    #[inline(always)]
    fn send(&mut self, tag: u32, mut bio: Box<Bio>, mut slot: Slot, turn: &mut Turn<'_>) {
        bio.op = self.op_of(slot.kind);
        bio.sectors = self.block_sectors;
        if matches!(slot.kind, Kind::Reset | Kind::Finish) {
            slot.at = turn.target.zones.start(slot.zone);
            bio.sectors = 0;
        }
        if slot.kind == Kind::Sync {
            bio.sectors = 0;
        }
        bio.sector = slot.at;
        if slot.kind == Kind::Write && self.written.is_some() {
            self.stamp(tag, slot.at, &bio);
        }
        if self.clock_per_bio {
            self.submitted[tag as usize] = turn.clock.now().0;
        }
        self.slots[tag as usize] = slot;
        turn.stack.submit(self.port, u64::from(tag), turn.target.device, bio);
    }

    #[inline]
    fn op_of(&self, kind: Kind) -> Op {
        match kind {
            Kind::Read | Kind::Check => Op::Read,
            Kind::Write => self.write_op,
            Kind::Trim => Op::Discard,
            Kind::Reset => Op::ZoneReset,
            Kind::Finish => Op::ZoneFinish,
            Kind::Sync => Op::Flush,
        }
    }

    fn stamp(&mut self, tag: u32, at: Sector, bio: &Bio) {
        let (Some(written), [data]) = (&mut self.written, bio.payload.segments()) else { return };
        written.sequence = written.sequence.wrapping_add(1).clamp(1, BUSY - 1);
        written.in_slot[tag as usize] = written.sequence;
        let stamp = Stamp { offset: at.bytes(), sequence: written.sequence };
        written.how.fill(data, stamp, &mut written.scratch);
        if matches!(self.access, Access::Random | Access::Sequential { .. }) {
            written.versions[self.region.block(at) as usize] = BUSY;
        }
    }

    /// The next I/O of this phase, if there is one now.
    #[inline(always)]
    fn choose(&mut self, turn: &mut Turn<'_>) -> Option<Slot> {
        if self.stopping || (self.until_pause == 0 && self.pauses(turn.now)) {
            return None;
        }
        let target = &mut *turn.target;
        if let JobPhase::Verify { .. } = self.phase {
            return self.choose_check();
        }
        if self.until_sync == 0 {
            self.until_sync = self.options.fsync.into();
            return Some(Slot { kind: Kind::Sync, ..UNUSED });
        }
        if self.left == 0 {
            return None;
        }
        let kind = self.choose_kind();
        let slot = match &mut self.access {
            Access::Random => {
                let block = self.rng.below(self.region.blocks());
                self.place(kind, block)
            }
            Access::Sequential { next } => {
                let cursor = &mut next[kind as usize];
                let block = *cursor;
                *cursor = if block + 1 == self.region.blocks() { 0 } else { block + 1 };
                self.place(kind, block)
            }
            Access::Zoned { .. } if kind == Kind::Read => self.choose_zone_read(target),
            Access::Zoned { .. } => return self.choose_zone_write(target),
        }?;
        self.took(kind);
        Some(slot)
    }

    /// Counts an I/O that goes out.
    #[inline]
    fn took(&mut self, kind: Kind) {
        self.left -= 1;
        self.until_sync -= u64::from(kind == Kind::Write);
        self.until_pause -= 1;
    }

    /// Whether it is time to do nothing: until what is in flight is back, as in fio, and then for as long as was asked.
    fn pauses(&mut self, now: Instant) -> bool {
        let Some(time) = self.options.pause() else { return false };
        // The bio at hand is neither idle nor in flight.
        if self.in_flight() > 1 {
            return true;
        }
        let until = *self.pause.get_or_insert(now + Duration(time.as_nanos() as u64));
        if now < until {
            return true;
        }
        (self.pause, self.until_pause) = (None, self.options.thinktime_blocks.into());
        false
    }

    #[inline]
    fn choose_kind(&mut self) -> Kind {
        match self.read_share {
            ALL_READS => Kind::Read,
            0 => self.other_kind,
            share if self.rng.draw() >> 32 < share => Kind::Read,
            _ => Kind::Write,
        }
    }

    #[inline]
    fn place(&mut self, kind: Kind, block: u64) -> Option<Slot> {
        let block = match &self.written {
            Some(written) if kind == Kind::Write => written.next_quiet(block)?,
            _ => block,
        };
        Some(Slot { kind, at: self.region.sector_in_one_piece(block), ..UNUSED })
    }

    #[inline(always)]
    fn choose_zone_write(&mut self, target: &mut Target) -> Option<Slot> {
        let Access::Zoned { writer: Some(writer), .. } = &mut self.access else { return None };
        let step = match writer {
            Writer::Own(writer) => writer.next(&mut target.zones, &mut self.rng),
            Writer::Shared(writer) => writer.next(&mut target.zones, &mut self.rng),
        };
        match step {
            Step::Write { zone, at } => {
                self.took(Kind::Write);
                let at = if self.write_op == Op::ZoneAppend { target.zones.start(zone) } else { at };
                Some(Slot { kind: Kind::Write, zone, at })
            }
            Step::Reset(zone) => Some(Slot { kind: Kind::Reset, zone, ..UNUSED }),
            Step::Wait => None,
        }
    }

    /// A read below a write pointer: of a random zone, or the next block from the last one on.
    fn choose_zone_read(&mut self, target: &Target) -> Option<Slot> {
        let random = self.options.rw.is_random();
        let Access::Zoned { read_next, .. } = &mut self.access else { return None };
        let per_zone = self.region.blocks_per_zone;
        let zones = u64::from(self.region.zones);
        let first = if random { self.rng.below(zones) } else { *read_next / per_zone };
        for step in 0..=zones {
            let zone = (first + step) % zones;
            let written = target.zones.written(ZoneNo(self.region.first_zone + zone as u32));
            let blocks = u64::from(written / self.block_sectors);
            let block = match (random, step) {
                (true, _) => self.rng.below(blocks.max(1)),
                (false, 0) => *read_next % per_zone,
                (false, _) => 0,
            };
            if block < blocks {
                *read_next = zone * per_zone + (block + 1).min(per_zone - 1);
                if !random && block + 1 >= blocks {
                    *read_next = (zone + 1) % zones * per_zone;
                }
                return Some(Slot { kind: Kind::Read, at: self.region.sector(zone * per_zone + block), ..UNUSED });
            }
        }
        None
    }

    fn choose_check(&mut self) -> Option<Slot> {
        let (JobPhase::Verify { next }, Some(written)) = (&mut self.phase, &self.written) else { return None };
        let block = written.next_written(*next);
        *next = block.map_or(written.versions.len() as u64, |block| block + 1);
        Some(Slot { kind: Kind::Check, at: self.region.sector(block?), ..UNUSED })
    }

    /// All slots are idle: what comes next?
    fn next_phase(&mut self, now: Instant, target: &mut Target) {
        let in_time = self.deadline.is_none_or(|deadline| now < deadline);
        if let Access::Zoned { writer: Some(Writer::Own(writer)), .. } = &mut self.access
            && writer.is_exhausted(&target.zones)
        {
            self.left = 0;
            writer.start_pass(&mut target.zones);
        }
        self.phase = match self.phase {
            _ if self.stopping => self.finish_phase(now, JobPhase::Done),
            JobPhase::Load if self.left > 0 && in_time => JobPhase::Load,
            JobPhase::Load if self.written.is_some() && self.options.rw.writes() => {
                self.finish_phase(now, JobPhase::Verify { next: 0 })
            }
            JobPhase::Verify { next } if self.written.as_ref().is_some_and(|w| w.next_written(next).is_some()) => {
                JobPhase::Verify { next }
            }
            JobPhase::Load | JobPhase::Verify { .. } if self.options.time_based && in_time => {
                self.finish_phase(now, JobPhase::Load)
            }
            JobPhase::Load | JobPhase::Verify { .. } => self.finish_phase(now, JobPhase::Done),
            JobPhase::Done => JobPhase::Done,
        };
    }

    /// Ends a job that can issue nothing although nothing is in flight anywhere: nothing to read, or no zone to write.
    pub fn starve(&mut self, now: Instant) {
        if self.phase != JobPhase::Done {
            let op = if self.read_share > 0 { Op::Read } else { self.write_op };
            let sector = self.region.first;
            self.failure.get_or_insert(Failure { op, sector, status: Status::NoSpace, why: None, mismatch: None });
            self.phase = self.finish_phase(now, JobPhase::Done);
        }
    }

    fn finish_phase(&mut self, now: Instant, next: JobPhase) -> JobPhase {
        let rw = self.options.rw;
        let load = [(rw.reads(), Direction::Read), (rw.writes(), Direction::Write), (rw.trims(), Direction::Trim)];
        match self.phase {
            JobPhase::Load => {
                self.stats.end(now, load.into_iter().filter_map(|(does, direction)| does.then_some(direction)))
            }
            JobPhase::Verify { .. } => self.stats.end(now, [Direction::Read]),
            JobPhase::Done => return JobPhase::Done,
        }
        self.stats.begin(now);
        if next == JobPhase::Load {
            self.left = self.ios_per_pass();
        }
        next
    }
}

const UNUSED: Slot = Slot { at: Sector::ZERO, zone: ZoneNo(0), kind: Kind::Read };
const ALL_READS: u64 = 1 << 32;

fn read_share(options: &JobOptions) -> u64 {
    match (options.rw.reads(), options.rw.writes()) {
        (true, true) => ALL_READS * u64::from(options.rwmixread) / 100,
        (true, false) => ALL_READS,
        (false, _) => 0,
    }
}

fn bios_of(options: &JobOptions) -> Vec<(u32, Box<Bio>)> {
    let bytes = options.block_bytes as usize;
    let memories: Vec<Data> = (0..options.iodepth).map(|_| Data::zeroed(bytes)).collect();
    // Not zeroes: a device that drops writes must not look as if it kept them.
    memories.iter().for_each(|memory| memory.fill(0xa5));
    // The bios are allocated in one go, side by side: between page-aligned buffers they would share few cache sets.
    let bio = |memory| Box::new(Bio::new(Op::Read, Sector::ZERO, options.block_sectors(), Payload::Data(memory)));
    memories.into_iter().enumerate().map(|(tag, memory)| (tag as u32, bio(memory))).collect()
}

/// fio's own bound on zones that it writes to at once (`ZBD_MAX_WRITE_ZONES`).
pub const MOST_OPEN: u32 = 4096;

fn zoned_access(options: &JobOptions, region: &Region, number: u32, target: &mut Target) -> Result<Access, String> {
    if options.rw.trims() {
        return Err("trims mean nothing in zone mode zbd: zones are reset when they are written again".into());
    }
    if !options.rw.writes() {
        return Ok(Access::Zoned { writer: None, read_next: 0 });
    }
    let (zones, writers, random) = (&mut target.zones, target.writers.max(1), options.rw.is_random());
    let part = if random { (region.zones / writers).clamp(1, MOST_OPEN) } else { 1 };
    let wanted = options.max_open_zones.map_or(part, |most| (most / writers).max(1));
    let choice = ZoneChoice {
        first: region.first_zone,
        count: region.zones,
        max_open: wanted.min(zones.part(writers)),
        write_sectors: options.block_sectors(),
        random,
        from_empty: options.verify.is_some(),
    };
    let (writer, any) = if zones.is_shared() {
        let writer = SharedWriter::new(choice, number, zones);
        let any = writer.can_write(zones);
        (Writer::Shared(writer), any)
    } else {
        let writer = ZoneWriter::new(choice, zones);
        let any = writer.open() > 0;
        (Writer::Own(writer), any)
    };
    if !any {
        let why = "there is no sequential zone to write for this job: all are conventional, read-only or offline, or the device \
                   has no open or active zone left, or with --verify, for which each job needs a zone of its own, all are \
                   taken by other jobs; look elsewhere with --offset, reset zones or use fewer jobs";
        return Err(why.into());
    }
    Ok(Access::Zoned { writer: Some(writer), read_next: 0 })
}

impl Written {
    fn new(how: Filling, options: &JobOptions, region: &Region) -> Result<Self, String> {
        let blocks = region.blocks();
        if blocks > MOST_VERSIONS {
            return Err(format!(
                "--verify takes memory for each of the {blocks} blocks to work in, and there may be {MOST_VERSIONS}: use \
                 --size or a larger --bs"
            ));
        }
        let scratch = vec![0; options.block_bytes as usize];
        let (versions, in_slot) = (vec![0; blocks as usize], vec![0; options.iodepth as usize]);
        Ok(Self { how, scratch, versions, sequence: 0, in_slot })
    }

    /// The first block from `from` on that this run has written.
    fn next_written(&self, from: u64) -> Option<u64> {
        let block = self.versions[from as usize..].iter().position(|version| *version != 0 && *version != BUSY);
        block.map(|block| from + block as u64)
    }

    /// The first block from `block` on that has no write in flight.
    fn next_quiet(&self, block: u64) -> Option<u64> {
        let count = self.versions.len() as u64;
        (0..count.min(4096)).map(|step| (block + step) % count).find(|b| self.versions[*b as usize] != BUSY)
    }
}
