//! A zoned SSD in virtual time: an NVMe drive with zones, native append and open and active limits.
//!
//! ```text
//!              one at a time       shared            per zone        shared      side by side
//!   commands ──> front end ──┬──> host interface ──> write buffer ──> drain ──┬──> channel ──> die
//!                            │                          └─> acknowledged      │
//!                            ├──> die ──> channel ──> host interface (reads) <┘
//!                            │      └─ ahead of a stream ─> read buffer ──> host interface
//!                            └──> erase or fill (reset, finish)
//! ```
//!
//! Promised above: a command takes effect when the front end is done with it, in order of arrival, so that the device
//! decides where appends go; a write is acknowledged when its data is in the buffer of its zone, which waits for a place
//! in there. A zone's buffer drains as fast as its dies program; all zones together as fast as the drain.
//!
//! If the cache is volatile, a power cut leaves each zone a prefix: everything up to the last flush or FUA write that
//! ended, and a part of what came since. If not, capacitors save all that was acknowledged.

mod ahead;
mod buffer;
mod config;
mod flush;
mod nand;
mod power;
mod read;
mod timer;
mod write;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use slab::Slab;

pub use config::ZnsConfig;

use ahead::ReadAhead;
use buffer::Buffer;
use flush::Barrier;
use nand::{Begun, DieOperation, Nand, Reader};
use shingle_core::block::{Bio, BlockDevice, Cx, Event, Limits, Op, Payload, Reason, Refusal, Status};
use shingle_core::time::Duration;
use shingle_core::zone::{ZoneNo, ZoneState, ZonedDisk};
use timer::Timer;

use crate::error::{DriveError, Fault};
use crate::medium::{KeptZones, Medium};
use crate::service::time_of;

/// The drive.
pub struct ZnsSsd {
    config: ZnsConfig,
    limits: Limits,
    zones: KeptZones,
    medium: Option<Medium>,
    commands: Slab<Command>,
    work: Work,
    buffers: BTreeMap<ZoneNo, Buffer>,
    buffers_made: u64,
    units_made: u64,
    nand: Nand,
    ahead: ReadAhead,
    lifetime: u16,
    /// Bios that a power cut caught.
    #[expect(clippy::vec_box, reason = "they came boxed and leave boxed")]
    caught: Vec<Box<Bio>>,
}

/// What is under way, and is forgotten when the power goes.
#[derive(Default)]
struct Work {
    /// Commands that the front end has not read, the first of them being read.
    front: VecDeque<u32>,
    last_written: Option<ZoneNo>,
    /// Zones whose next data may come, and the one whose data comes now.
    line: VecDeque<ZoneNo>,
    inbound: Option<write::Inbound>,
    /// Units on their way from the buffers to the dies, the first of them moving.
    drain: VecDeque<write::Unit>,
    /// Commands whose data goes to the host, the first of them now.
    outbound: VecDeque<u32>,
    barriers: Vec<Barrier>,
}

/// A command that the drive has taken.
struct Command {
    bio: Box<Bio>,
    status: Status,
    /// Of a write, sectors that have not come; of a read, dies that have not read.
    left: u32,
    /// Of a write, its zone and where in it the data ends.
    zone: ZoneNo,
    end: u32,
    /// Whether its data has to wait for a flush.
    held: bool,
}

impl ZnsSsd {
    /// An empty drive.
    ///
    /// # Errors
    /// If its parameters do not go together.
    pub fn new(config: ZnsConfig) -> Result<Self, DriveError> {
        Self::build(config).map_err(DriveError::of("zoned SSD"))
    }

    fn build(config: ZnsConfig) -> Result<Self, Fault> {
        let limits = config.limits()?;
        let geometry = config.geometry()?;
        Ok(Self {
            zones: ZonedDisk::new(geometry, config.resources(&geometry)?).into(),
            medium: config.memory_backed.then(Medium::default),
            nand: Nand::new(&config),
            ahead: ReadAhead::new(config.read_ahead_bytes),
            limits,
            config,
            commands: Slab::with_capacity(256),
            work: Work::default(),
            buffers: BTreeMap::new(),
            buffers_made: 0,
            units_made: 0,
            lifetime: 0,
            caught: Vec::new(),
        })
    }

    /// The parameters.
    #[must_use]
    pub fn config(&self) -> &ZnsConfig {
        &self.config
    }

    /// The zones, for inspection.
    #[must_use]
    pub fn zones(&self) -> &ZonedDisk {
        &self.zones
    }

    fn arm(&self, after: Duration, timer: Timer, cx: &mut Cx<'_>) {
        cx.wake_at(cx.now() + after, timer.word(self.lifetime));
    }

    /// Ends a command; the host sees it a little later.
    fn reply(&mut self, id: u32, status: Status, cx: &mut Cx<'_>) {
        self.commands[id as usize].status = status;
        let append = self.commands[id as usize].bio.op == Op::ZoneAppend;
        let more = if append { self.config.append_completion } else { Duration::ZERO };
        self.arm(Duration(self.config.completion.0 + more.0), Timer::Reply(id), cx);
    }

    /// Ends a command that is not done.
    #[cold]
    fn refuse(&mut self, id: u32, refusal: Refusal, cx: &mut Cx<'_>) {
        let bio = &mut self.commands[id as usize].bio;
        let status = bio.blame(refusal.explain(&self.zones, bio.sector));
        self.reply(id, status, cx);
    }
}

impl BlockDevice for ZnsSsd {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.release_caught(cx);
        let command = Command { bio, status: Status::Ok, left: 0, zone: ZoneNo(0), end: 0, held: false };
        let id = self.commands.insert(command) as u32;
        self.work.front.push_back(id);
        if self.work.front.len() == 1 {
            self.start_front(cx);
        }
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.release_caught(cx);
        let Event::Timer(word) = event else { return };
        match Timer::from_word(word) {
            Some((timer, lifetime)) if lifetime == self.lifetime => self.fired(timer, cx),
            // Of before a power cut.
            _ => {}
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.commands.iter().for_each(|(_, command)| visit(&command.bio));
        self.caught.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (geometry, dies) = (self.zones.geometry(), self.config.dies());
        let (zones, size, capacity) = (geometry.zones(), geometry.zone_sectors(), geometry.zone_capacity());
        write!(out, "zoned SSD: {zones} zones of {size} sectors ({capacity} writable), {dies} dies")?;
        out.write_str(if self.limits.write_cache { ", volatile cache" } else { "" })
    }
}

/// The front end.
impl ZnsSsd {
    fn start_front(&mut self, cx: &mut Cx<'_>) {
        let Some(id) = self.work.front.front() else { return };
        let bio = &self.commands[*id as usize].bio;
        let cost = match bio.op {
            Op::Read => self.config.read_command,
            Op::Write | Op::ZoneAppend => {
                let zone = Some(self.zones.geometry().zone_of(bio.sector));
                let same = core::mem::replace(&mut self.work.last_written, zone) == zone;
                let switch = if same { Duration::ZERO } else { self.config.zone_switch };
                let append = bio.op == Op::ZoneAppend;
                let command = if append { self.config.append_command } else { self.config.write_command };
                Duration(command.0 + switch.0)
            }
            _ => self.config.write_command,
        };
        self.arm(cost, Timer::Front, cx);
    }

    fn fired(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        match timer {
            Timer::Front => {
                let id = self.work.front.pop_front().expect("the front end was reading a command");
                self.start_front(cx);
                self.execute(id, cx).unwrap_or_else(|refusal| self.refuse(id, refusal, cx));
            }
            Timer::Inbound => self.arrived(cx),
            Timer::Outbound => self.sent(cx),
            Timer::Drain => self.drained(cx),
            Timer::Channel(die) => {
                let job = self.nand.carried(die);
                self.advance_nand(job, cx);
            }
            Timer::Die(die) => {
                let job = self.nand.worked(die);
                self.advance_nand(job, cx);
            }
            Timer::Reply(id) => {
                let Command { bio, status, .. } = self.commands.remove(id as usize);
                cx.complete(bio, status);
            }
            Timer::Manage(id) => self.managed(id, cx),
        }
    }

    /// What a command does, at once; how long the rest takes, later.
    fn execute(&mut self, id: u32, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        match self.commands[id as usize].bio.op {
            Op::Read => self.begin_read(id, cx),
            Op::Write | Op::ZoneAppend => self.begin_write(id, cx),
            Op::Flush => self.begin_flush(id, cx),
            _ => self.begin_management(id, cx),
        }
    }

    /// Goes on with the dies, and with what `job` was done for.
    fn advance_nand(&mut self, job: Option<DieOperation>, cx: &mut Cx<'_>) {
        while let Some(begun) = self.nand.begun.pop_front() {
            match begun {
                Begun::Channel(die, takes) => self.arm(takes, Timer::Channel(die), cx),
                Begun::Die(die, takes) => self.arm(takes, Timer::Die(die), cx),
            }
        }
        match job {
            Some(DieOperation::Program { zone, unit }) => self.programmed(zone, unit, cx),
            Some(DieOperation::Read { reader: Reader::Command(command), .. }) => self.page_read(command, cx),
            Some(DieOperation::Read { reader: Reader::Ahead { stream, start }, .. }) => {
                self.page_ahead(stream as usize, start, cx)
            }
            None => {}
        }
    }
}

/// Reports, and management of zones.
impl ZnsSsd {
    fn begin_management(&mut self, id: u32, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let bio = &mut self.commands[id as usize].bio;
        let (op, sector) = (bio.op, bio.sector);
        if op == Op::ReportZones {
            let Payload::Zones(report) = &mut bio.payload else { return Err(Reason::NoRoom.into()) };
            let room = report.capacity() - report.len();
            report.extend(self.zones.zones(sector).take(room));
            self.reply(id, Status::Ok, cx);
            return Ok(());
        }
        let zone = self.zones.zone_at(sector)?;
        let before = self.zones.state(zone);
        let takes = match op {
            Op::ZoneOpen => self.zones.open(zone).map(|()| Duration::ZERO)?,
            Op::ZoneClose => self.zones.close(zone).map(|()| Duration::ZERO)?,
            Op::ZoneFinish => self.finish(zone, before)?,
            Op::ZoneReset => {
                self.zones.reset(zone)?;
                self.erase(zone, before, cx)?
            }
            Op::ZoneResetAll => self.reset_all(cx)?,
            _ => return Err(Reason::NotSupported.into()),
        };
        self.arm(takes, Timer::Manage(id), cx);
        Ok(())
    }

    fn managed(&mut self, id: u32, cx: &mut Cx<'_>) {
        let bio = &self.commands[id as usize].bio;
        if bio.op != Op::ZoneFinish {
            return self.reply(id, Status::Ok, cx);
        }
        // A finished zone has no buffer: what it held has to be on the dies too.
        let zone = self.zones.geometry().zone_of(bio.sector);
        self.begin_barrier(id, |of| of == zone, cx);
    }

    fn finish(&mut self, zone: ZoneNo, before: ZoneState) -> Result<Duration, Refusal> {
        self.zones.finish(zone)?;
        let unwritten = self.zones.geometry().capacity_of(zone).saturating_sub(before.wp);
        Ok(time_of(u64::from(unwritten) * 512, self.config.finish_rate))
    }

    fn reset_all(&mut self, cx: &mut Cx<'_>) -> Result<Duration, Refusal> {
        let mut written = Vec::new();
        let before: Vec<ZoneState> =
            (0..self.zones.geometry().zones()).map(|zone| self.zones.state(ZoneNo(zone))).collect();
        let done = self.zones.reset_all(|zone| written.push(zone));
        let erased: Vec<_> = written.into_iter().map(|zone| self.erase(zone, before[zone.index()], cx)).collect();
        done?;
        let times: Vec<Duration> = erased.into_iter().collect::<Result<_, _>>()?;
        Ok(Duration(times.iter().map(|time| time.0).sum()))
    }

    /// Forgets what a zone held; returns how long a reset takes: longer the more blocks were written, all dies side by side.
    fn erase(&mut self, zone: ZoneNo, before: ZoneState, cx: &mut Cx<'_>) -> Result<Duration, Reason> {
        if let Some(buffer) = self.buffers.remove(&zone) {
            self.work.barriers.retain(|barrier| !buffer.waiting.contains(&barrier.command));
            let reset = || Refusal::from(Reason::Failing("its zone was reset before its data had come"));
            buffer.waiting.iter().for_each(|id| self.refuse(*id, reset(), cx));
            self.settle_barriers(cx);
        }
        self.ahead.forget(zone);
        let geometry = self.zones.geometry();
        if let Some(medium) = &mut self.medium {
            medium.discard(geometry.start(zone), geometry.len(zone))?;
        }
        if before.wp == 0 {
            return Ok(Duration::ZERO);
        }
        let side_by_side = self.config.erase_block_bytes * u64::from(self.config.dies_per_zone);
        Ok(Duration(self.config.reset.0 + self.config.erase.0 * (u64::from(before.wp) * 512).div_ceil(side_by_side)))
    }
}
