//! A file system that writes files as zone appends, as btrfs does on zoned disks.
//!
//! One program writes file after file with direct I/O. The file system sends each piece as an append to its current data
//! zone, goes to the next empty zone when that is full, and writes the trees for a finished file sequentially to a zone of
//! their own. When no empty zone is left, the files of the oldest zone are deleted and it is reset.
//!
//! ```text
//!  file: append append ... append | all are done | gap | next file
//!                                  └─> tree blocks: one after the other, beside the next file
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::Tally;
use super::fio::Host;
use crate::{Actor, Io};
use shingle_core::block::{Bio, Completion, Data, DeviceId, Op, Payload, Status};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone, ZoneKind};

/// What is written, and by which machine. Lengths are in sectors.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Length of a file.
    pub file_sectors: u64,
    /// Length of an append.
    pub block_sectors: u32,
    /// Appends in flight.
    pub depth: u32,
    /// Length of a tree block.
    pub metadata_sectors: u32,
    /// Tree blocks that are written for each file.
    pub metadata_writes: u32,
    /// Time between two files: closing, creating, and what the file system does then.
    pub gap: Duration,
    /// Present if the kernel emulates appends in the driver: only one is in flight in a zone, and this much passes before
    /// the driver tries the next.
    pub retry: Option<Duration>,
    /// Time before anything is counted.
    pub ramp: Duration,
    /// Time that is counted.
    pub runtime: Duration,
    /// The machine.
    pub host: Host,
}

impl Default for FileOptions {
    /// Files of 128 MB as appends of 128 KiB at depth 16: the load of the published table.
    ///
    /// A file of 128 MB has 31,250 checksums of 4 bytes and about a thousand extents of 53 bytes: 12 tree blocks of
    /// 16 KiB, and as many again for the nodes above them, inodes and directories as they are rewritten.
    fn default() -> Self {
        Self {
            file_sectors: 250_000,
            block_sectors: 256,
            depth: 16,
            metadata_sectors: 32,
            metadata_writes: 24,
            gap: Duration::ZERO,
            retry: None,
            ramp: Duration::ZERO,
            runtime: Duration::from_millis(10_000),
            host: Host::default(),
        }
    }
}

/// A zone that the file system fills.
#[derive(Clone, Copy)]
struct Space {
    start: Sector,
    capacity: u32,
    used: u32,
    /// Whether it has to be reset before it is used again.
    holds_old: bool,
}

impl Space {
    fn room(&self) -> u32 {
        self.capacity - self.used
    }
}

/// What the thread does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriterState {
    /// Waits for the zones.
    Mounting,
    /// Writes a file of which so much is left.
    File(u64),
    /// Waits until a file is on the disk.
    Closing,
    /// Waits for the reset of the current data zone, then goes on with the file.
    Resetting(u64),
}

const DATA: u64 = 0;
const METADATA: u64 = 1;
const RESET: u64 = 2;
const REPORT: u64 = 3;

/// The program and its file system.
pub struct FileWriter {
    disk: DeviceId,
    options: FileOptions,
    state: WriterState,
    data: Space,
    metadata: Space,
    /// The other zones, in the order in which they will be used.
    others: VecDeque<Space>,
    metadata_due: u32,
    metadata_in_flight: bool,
    in_flight: u32,
    done: u32,
    busy_until: Instant,
    memory: Data,
    stopped: bool,
    failed: bool,
    /// Files that were written.
    pub files: u64,
    /// The data of files.
    pub tally: Tally,
}

impl FileWriter {
    /// A writer on `disk`, which has at least three empty sequential zones. It asks for the zones first.
    #[must_use]
    pub fn new(disk: DeviceId, options: FileOptions) -> Self {
        let longest = options.block_sectors.max(options.metadata_sectors) * SECTOR_BYTES;
        let nowhere = Space { start: Sector::ZERO, capacity: 0, used: 0, holds_old: false };
        Self {
            disk,
            state: WriterState::Mounting,
            data: nowhere,
            metadata: nowhere,
            others: VecDeque::new(),
            metadata_due: 0,
            metadata_in_flight: false,
            in_flight: 0,
            done: 0,
            busy_until: Instant::ZERO,
            memory: Data::zeroed(longest as usize),
            stopped: false,
            failed: false,
            files: 0,
            tally: Tally::new(options.ramp, options.runtime),
            options,
        }
    }

    /// Whether any I/O failed: it then stops.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    fn stopping(&self, now: Instant) -> bool {
        self.failed || self.tally.is_over(now)
    }

    fn mount(&mut self, report: &[Zone]) {
        let empty = |zone: &&Zone| zone.kind == ZoneKind::Sequential && zone.cond == Condition::Empty;
        let space = |zone: &Zone| Space {
            start: zone.start,
            capacity: u32::try_from(zone.capacity).unwrap_or(u32::MAX),
            used: 0,
            holds_old: false,
        };
        self.others = report.iter().filter(empty).map(space).collect();
        self.failed |= self.others.len() < 3;
        if let (false, Some(metadata), Some(data)) = (self.failed, self.others.pop_front(), self.others.pop_front()) {
            (self.metadata, self.data) = (metadata, data);
            self.state = WriterState::File(self.options.file_sectors);
        }
    }

    fn take_in(&mut self, done: Completion, now: Instant) {
        self.failed |= !done.status.is_ok();
        match done.tag {
            DATA => {
                self.tally.note(now, &done.bio, done.status);
                self.done += 1;
            }
            METADATA => self.metadata_in_flight = false,
            RESET => {
                if let WriterState::Resetting(left) = self.state {
                    self.state = WriterState::File(left);
                }
            }
            _ => match &done.bio.payload {
                Payload::Zones(zones) if done.status == Status::Ok => self.mount(zones),
                _ => self.failed = true,
            },
        }
    }
}

impl Actor for FileWriter {
    fn act(&mut self, io: &mut Io<'_>) {
        if self.state == WriterState::Mounting && io.outstanding() == 0 {
            return io.report_zones(REPORT, self.disk);
        }
        while let Some(done) = io.completion() {
            self.take_in(done, io.now());
        }
        self.write_metadata(io);
        while self.busy_until <= io.now() && self.step(io) {}
        if self.busy_until > io.now() {
            io.wake_at(self.busy_until);
        }
    }

    fn is_done(&self) -> bool {
        self.failed || self.stopped && !self.metadata_in_flight
    }
}

/// The thread, and the file system under it.
impl FileWriter {
    /// One thing that the thread does; false if it has to wait.
    fn step(&mut self, io: &mut Io<'_>) -> bool {
        let now = io.now();
        match self.state {
            WriterState::Mounting | WriterState::Resetting(_) => return false,
            _ if self.stopping(now) => {
                self.stopped = self.in_flight == 0;
                return self.reap(now);
            }
            WriterState::File(0) => self.state = WriterState::Closing,
            WriterState::File(left) if self.in_flight < self.most_in_flight() => return self.append(left, io),
            WriterState::File(_) => return self.reap(now),
            WriterState::Closing if self.in_flight > 0 => return self.reap(now),
            // The trees of the file before: a file system does not let them pile up.
            WriterState::Closing if self.metadata_due > 0 => return false,
            WriterState::Closing => {
                self.files += 1;
                self.metadata_due += self.options.metadata_writes;
                self.write_metadata(io);
                self.busy_until = now + self.options.gap;
                self.state = WriterState::File(self.options.file_sectors);
            }
        }
        true
    }

    fn most_in_flight(&self) -> u32 {
        if self.options.retry.is_some() { 1 } else { self.options.depth.max(1) }
    }

    /// Takes back all appends that are done; false if there is none.
    fn reap(&mut self, now: Instant) -> bool {
        let reaped = core::mem::take(&mut self.done);
        self.in_flight -= reaped;
        let retry = self.options.retry.unwrap_or_default();
        self.busy_until = now + Duration((self.options.host.complete.0 + retry.0) * u64::from(reaped));
        reaped > 0
    }

    fn append(&mut self, left: u64, io: &mut Io<'_>) -> bool {
        if self.data.room() == 0 {
            return self.open_next_zone(left, io);
        }
        let sectors = u64::from(self.options.block_sectors.min(self.data.room())).min(left) as u32;
        self.data.used += sectors;
        self.in_flight += 1;
        self.state = WriterState::File(left - u64::from(sectors));
        self.busy_until = io.now() + self.options.host.submit;
        self.send(DATA, (Op::ZoneAppend, self.data.start, sectors), io);
        true
    }

    /// The data zone is full: the next one takes its place, after a reset if it holds old files.
    fn open_next_zone(&mut self, left: u64, io: &mut Io<'_>) -> bool {
        let Some(next) = self.others.front().copied() else {
            self.failed = true;
            return false;
        };
        if next.holds_old && self.in_flight > 0 {
            return self.reap(io.now());
        }
        self.others.pop_front();
        self.others.push_back(Space { holds_old: true, ..self.data });
        self.data = Space { used: 0, ..next };
        if next.holds_old {
            self.state = WriterState::Resetting(left);
            self.send(RESET, (Op::ZoneReset, next.start, 0), io);
        }
        true
    }

    /// Sends the next tree block, if one is due and none is on its way.
    fn write_metadata(&mut self, io: &mut Io<'_>) {
        if self.metadata_due == 0 || self.metadata_in_flight || self.stopping(io.now()) {
            return;
        }
        if self.metadata.room() < self.options.metadata_sectors {
            return self.open_next_metadata_zone(io);
        }
        let (sectors, at) = (self.options.metadata_sectors, self.metadata.start + u64::from(self.metadata.used));
        self.metadata.used += sectors;
        self.metadata_due -= 1;
        self.metadata_in_flight = true;
        self.send(METADATA, (Op::Write, at, sectors), io);
    }

    /// The trees' zone is full: all that lives in it has been rewritten since, or will be when it is reset.
    fn open_next_metadata_zone(&mut self, io: &mut Io<'_>) {
        if self.metadata.room() > 0 {
            // Too small a rest for a tree block: finished, the zone gives its resources back.
            self.metadata.used = self.metadata.capacity;
            self.metadata_in_flight = true;
            return self.send(METADATA, (Op::ZoneFinish, self.metadata.start, 0), io);
        }
        let Some(next) = self.others.pop_front() else { return };
        self.others.push_back(Space { holds_old: true, ..self.metadata });
        self.metadata = Space { used: 0, ..next };
        if next.holds_old {
            self.metadata_in_flight = true;
            self.send(METADATA, (Op::ZoneReset, next.start, 0), io);
        } else {
            self.write_metadata(io);
        }
    }

    fn send(&self, tag: u64, (op, sector, sectors): (Op, Sector, u32), io: &mut Io<'_>) {
        let payload = match sectors {
            0 => Payload::None,
            _ => Payload::Data(self.memory.slice(0, sectors as usize * SECTOR_BYTES as usize)),
        };
        io.submit(tag, self.disk, Box::new(Bio::new(op, sector, sectors, payload)));
    }
}
