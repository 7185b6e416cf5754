//! XFS on a zoned disk under buffered writers: what write-back makes of files, as zone appends.
//!
//! Programs write files faster than the disk takes them, so every writer always has dirty data. One flusher visits them in
//! turn and writes a chunk of each, over as many files as that is. A file's data goes to the open zone of its writer; when
//! that is full the writer takes the next empty one. A piece ends with its file, and is as long as a command may be; pieces
//! leave as appends, which are neither merged nor split (`fs/xfs/xfs_zone_alloc.c`, `fs/fs-writeback.c`).
//!
//! ```text
//!  writer 0: file file file ┐
//!  writer 1: file file file ├─ flusher: a chunk of each in turn ─> appends, up to a window of bytes in flight
//!  ...                      ┘                                       each writer's to a zone of its own
//! ```
//!
//! Left out: the log and other metadata, which go to the conventional zones; garbage collection: the disk is new.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::Tally;
use crate::{Actor, Io};
use shingle_core::block::{Bio, Completion, Data, DeviceId, Op, Payload};
use shingle_core::random::Rng;
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone, ZoneKind};

/// What is written. Lengths are in sectors.
#[derive(Clone, Debug)]
pub struct XfsOptions {
    /// Programs, each with one file at a time.
    pub writers: u32,
    /// Length of a file; drawn anew for each.
    pub file_sectors: RangeInclusive<u64>,
    /// Longest append, within what the disk takes.
    pub append_sectors: u32,
    /// What the flusher writes of a writer's files before it goes on to the next writer.
    pub chunk_sectors: u64,
    /// Most that is in flight.
    pub window_sectors: u64,
    /// Time before anything is counted.
    pub ramp: Duration,
    /// Time that is counted.
    pub runtime: Duration,
    /// Seed of the lengths.
    pub seed: u64,
}

impl Default for XfsOptions {
    /// Eight writers of files of 256 MiB, as in the published table.
    ///
    /// The flusher takes half a second's worth of the disk's bandwidth of a file at a time
    /// (`fs/fs-writeback.c:writeback_chunk_size`): 116 MiB at 245 MB/s, in whole units of 4 MiB. What is in flight is
    /// calibrated on the table's baseline columns.
    fn default() -> Self {
        const MIB: u64 = (1 << 20) / SECTOR_BYTES as u64;
        Self {
            writers: 8,
            file_sectors: 256 * MIB..=256 * MIB,
            append_sectors: (4 * MIB) as u32,
            chunk_sectors: 116 * MIB,
            window_sectors: 16 * MIB,
            ramp: Duration::ZERO,
            runtime: Duration::from_millis(60_000),
            seed: 1,
        }
    }
}

/// A zone, as far as it is allocated.
#[derive(Clone, Copy)]
struct Space {
    start: Sector,
    room: u64,
}

struct Writer {
    /// What is left of its file.
    file: u64,
    zone: Option<Space>,
}

/// The writers, the flusher and the file system's allocator.
pub struct Xfs {
    disk: DeviceId,
    options: XfsOptions,
    writers: Vec<Writer>,
    /// Zones that were never written.
    empty: VecDeque<Space>,
    /// Whose file the flusher is at, and what is left of its chunk.
    at: usize,
    chunk: u64,
    in_flight: u64,
    memory: Data,
    rng: Rng,
    started: bool,
    failed: bool,
    /// Whether the disk has no empty zone left: then the run is over, whatever its planned time.
    pub full: bool,
    /// What was written.
    pub tally: Tally,
}

impl Xfs {
    /// A file system on `disk`. It asks for the zones first.
    #[must_use]
    pub fn new(disk: DeviceId, options: XfsOptions) -> Self {
        Self {
            disk,
            writers: Vec::new(),
            empty: VecDeque::new(),
            at: 0,
            chunk: options.chunk_sectors,
            in_flight: 0,
            memory: Data::zeroed(options.append_sectors as usize * SECTOR_BYTES as usize),
            rng: Rng::new(options.seed),
            started: false,
            failed: false,
            full: false,
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
        self.failed || self.full || self.tally.is_over(now)
    }

    fn take_in(&mut self, done: Completion, now: Instant) {
        self.failed |= !done.status.is_ok();
        match &done.bio.payload {
            Payload::Zones(zones) => self.mount(zones),
            _ => {
                self.in_flight -= u64::from(done.bio.sectors);
                self.tally.note(now, &done.bio, done.status);
            }
        }
    }

    fn mount(&mut self, report: &[Zone]) {
        let empty = |zone: &&Zone| zone.kind == ZoneKind::Sequential && zone.cond == Condition::Empty;
        self.empty = report.iter().filter(empty).map(|zone| Space { start: zone.start, room: zone.capacity }).collect();
        for _ in 0..self.options.writers.max(1) {
            let file = self.draw_file();
            self.writers.push(Writer { file, zone: None });
        }
    }

    fn draw_file(&mut self) -> u64 {
        let (least, most) = (*self.options.file_sectors.start(), *self.options.file_sectors.end());
        // Whole blocks of 4 KiB.
        (least + self.rng.below(most.saturating_sub(least) + 1)).next_multiple_of(8).max(8)
    }

    /// Writes the next piece of what the flusher is at.
    fn flush_piece(&mut self, io: &mut Io<'_>) {
        let Some(Space { start, room }) = self.zone() else {
            self.full = true;
            return;
        };
        let longest = u64::from(self.options.append_sectors);
        let left = self.writers[self.at].file;
        let sectors = left.min(self.chunk).min(room).min(longest);
        let payload = Payload::Data(self.memory.slice(0, sectors as usize * SECTOR_BYTES as usize));
        io.submit(0, self.disk, Box::new(Bio::new(Op::ZoneAppend, start, sectors as u32, payload)));
        self.in_flight += sectors;
        self.account(sectors);
    }

    /// The zone of the current writer, with room.
    fn zone(&mut self) -> Option<Space> {
        let has_room = self.writers[self.at].zone.filter(|zone| zone.room > 0);
        let zone = has_room.or_else(|| self.empty.pop_front());
        self.writers[self.at].zone = zone;
        zone
    }

    /// `sectors` of the current file are on their way: goes on to the writer's next file or the next writer, if it is time.
    fn account(&mut self, sectors: u64) {
        let writer = &mut self.writers[self.at];
        writer.zone.iter_mut().for_each(|zone| zone.room -= sectors);
        writer.file -= sectors;
        self.chunk -= sectors;
        if writer.file == 0 {
            self.writers[self.at].file = self.draw_file();
        }
        if self.chunk == 0 {
            self.at = (self.at + 1) % self.writers.len();
            self.chunk = self.options.chunk_sectors;
        }
    }
}

impl Actor for Xfs {
    fn act(&mut self, io: &mut Io<'_>) {
        if !self.started {
            self.started = true;
            let longest = io.limits(self.disk).zoned.as_ref().and_then(|zoned| zoned.max_append);
            self.options.append_sectors = self.options.append_sectors.min(longest.unwrap_or(u32::MAX));
            return io.report_zones(0, self.disk);
        }
        while let Some(done) = io.completion() {
            self.take_in(done, io.now());
        }
        while !self.writers.is_empty() && !self.stopping(io.now()) && self.in_flight < self.options.window_sectors {
            self.flush_piece(io);
        }
    }

    fn is_done(&self) -> bool {
        self.failed || self.full && self.in_flight == 0 || self.in_flight == 0 && !self.writers.is_empty()
    }
}
