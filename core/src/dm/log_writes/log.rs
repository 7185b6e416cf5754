//! The log device: entries go there one behind the other, and the super block says how many there are.

use alloc::collections::VecDeque;
use core::fmt;

use super::super::copies::{Copies, copy};
use super::format::{self, FLUSH, FUA, Header, MARK, longest_mark};
use crate::block::{Bio, Cx, Data, DeviceId, Op, Payload, Status};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};

/// The word of frames of writes to the log device.
pub(super) const LOG: u64 = u64::MAX;

/// The mark at the end of a log.
const END: &str = "dm-log-writes-end";
/// Most writes that the log device has at once.
const MOST_IN_FLIGHT: u32 = 64;
/// Most memory that writes wait in until they are in the log, in bytes.
const MOST_BYTES: usize = 64 << 20;

/// What becomes of one entry of the log.
pub(super) struct Entry {
    /// Where it was written, in sectors of the mapped device.
    pub sector: u64,
    pub sectors: u32,
    pub flags: u64,
    /// Whether it is the mark at the end: what comes later takes its place.
    is_end: bool,
    /// Header and data, as they go to the log.
    memory: Data,
}

impl Entry {
    /// Whether both are about some sector.
    pub fn overlaps(&self, other: &Entry) -> bool {
        let end = |entry: &Entry| entry.sector + u64::from(entry.sectors);
        self.sector < end(other) && other.sector < end(self)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Logging,
    /// Out of space: what is there is complete.
    Full,
    /// The log is not what it should be.
    Failed,
}

/// The log.
pub(super) struct Log {
    device: DeviceId,
    /// Sectors of a block, the unit of the log.
    block: u32,
    /// Where the next entry goes, and the end of the device, in sectors.
    next: u64,
    end: u64,
    /// Entries on their way or there.
    entries: u64,
    state: State,
    /// Whether the last entry is the mark at the end.
    has_end: bool,
    queue: VecDeque<Entry>,
    in_flight: u32,
    /// Whether the super block has to be written before anything else.
    super_due: bool,
    copies: Copies,
    used_bytes: usize,
}

impl Log {
    /// A new log in blocks of `block` sectors on `device`, which has `end` sectors.
    pub fn new(device: DeviceId, block: u32, end: u64) -> Self {
        Self {
            device,
            block,
            next: block.into(),
            end,
            entries: 0,
            state: State::Logging,
            has_end: false,
            queue: VecDeque::new(),
            in_flight: 0,
            super_due: true,
            copies: Copies::default(),
            used_bytes: 0,
        }
    }

    /// Whether it is being written.
    pub fn is_on(&self) -> bool {
        self.state == State::Logging
    }

    /// Whether there is memory for an entry of so many bytes of data.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used_bytes + Copies::cost(self.block_bytes() + bytes) <= MOST_BYTES
    }

    /// An entry of what `bio` writes, in memory of its own; `None` if there is none.
    pub fn entry(&mut self, bio: &Bio, flags: u64) -> Option<Entry> {
        let Bio { sector, sectors, .. } = *bio;
        let unit = u64::from(self.block);
        let header = Header { block: sector.0 / unit, blocks: u64::from(sectors) / unit, flags, text: "" };
        let memory = self.take(self.block_bytes() + bio.payload.bytes())?;
        header.write(&memory, self.block_bytes());
        copy(&bio.payload, &memory, self.block_bytes());
        Some(Entry { sector: sector.0, sectors, flags, is_end: false, memory })
    }

    /// Adds a mark.
    ///
    /// # Errors
    /// If its text is too long, in bytes: how long it may be.
    pub fn mark(&mut self, text: &str) -> Result<(), usize> {
        let longest = longest_mark(self.block_bytes());
        if text.len() > longest {
            return Err(longest);
        }
        self.push_mark(text, false);
        Ok(())
    }

    /// Marks the end, if all else is on its way and it is not marked yet.
    pub fn mark_end(&mut self) {
        if self.queue.is_empty() && !self.has_end {
            self.push_mark(END, true);
        }
    }

    fn push_mark(&mut self, text: &str, is_end: bool) {
        let Some(memory) = self.take(self.block_bytes()) else { return self.fail() };
        Header { block: 0, blocks: 0, flags: MARK, text }.write(&memory, self.block_bytes());
        self.push(Entry { sector: 0, sectors: 0, flags: MARK, is_end, memory });
    }

    /// Adds an entry, if the log goes on.
    pub fn push(&mut self, entry: Entry) {
        if self.is_on() { self.queue.push_back(entry) } else { self.discard(entry) }
    }

    /// Forgets an entry.
    pub fn discard(&mut self, entry: Entry) {
        self.give(entry.memory);
    }

    /// Writes what can be written.
    pub fn go_on(&mut self, cx: &mut Cx<'_>) {
        loop {
            if self.super_due && self.state != State::Failed {
                // It tells of complete entries only, and none of a device that nobody has used.
                if self.in_flight > 0 || (self.entries == 0 && self.queue.is_empty()) {
                    return;
                }
                self.send_super(cx);
            }
            if self.in_flight == MOST_IN_FLIGHT {
                return;
            }
            let Some(entry) = self.queue.pop_front() else { return };
            self.send(entry, cx);
        }
    }

    /// Takes back a bio that it has sent.
    pub fn end_io(&mut self, mut bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        self.in_flight -= 1;
        if let Payload::Data(memory) = core::mem::take(&mut bio.payload) {
            self.give(memory);
        }
        cx.recycle(bio);
        if !status.is_ok() {
            self.fail();
        }
    }

    /// Ends the log for good: it would not tell the truth.
    pub fn fail(&mut self) {
        self.stop(State::Failed);
    }

    /// Writes how many entries there are and the last sector that is used, as the kernel does.
    pub fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} {}{}", self.entries, self.next - 1, if self.is_on() { "" } else { " logging_disabled" })
    }

    fn send(&mut self, entry: Entry, cx: &mut Cx<'_>) {
        let sectors = (entry.memory.len() / SECTOR_BYTES as usize) as u32;
        if core::mem::take(&mut self.has_end) {
            self.next -= u64::from(self.block);
            self.entries -= 1;
        }
        if self.next + u64::from(sectors) > self.end {
            self.give(entry.memory);
            self.super_due = true;
            return self.stop(State::Full);
        }
        let write = Bio::new(Op::Write, Sector(self.next), sectors, Payload::Data(entry.memory));
        self.submit(write, cx);
        self.next += u64::from(sectors);
        self.entries += 1;
        self.has_end = entry.is_end;
        self.super_due |= entry.flags & (FLUSH | FUA | MARK) != 0;
    }

    fn send_super(&mut self, cx: &mut Cx<'_>) {
        self.super_due = false;
        let Some(memory) = self.take(self.block_bytes()) else { return self.fail() };
        format::write_super(&memory, self.entries);
        self.submit(Bio::new(Op::Write, Sector::ZERO, self.block, Payload::Data(memory)), cx);
    }

    fn submit(&mut self, write: Bio, cx: &mut Cx<'_>) {
        self.in_flight += 1;
        let bio = cx.own_bio(write);
        cx.submit(self.device, bio, LOG);
    }

    fn stop(&mut self, state: State) {
        if self.state != State::Failed {
            self.state = state;
        }
        while let Some(entry) = self.queue.pop_front() {
            self.give(entry.memory);
        }
    }

    fn block_bytes(&self) -> usize {
        (self.block * SECTOR_BYTES) as usize
    }

    fn take(&mut self, bytes: usize) -> Option<Data> {
        let data = self.copies.take(bytes)?;
        self.used_bytes += Copies::cost(bytes);
        Some(data)
    }

    fn give(&mut self, memory: Data) {
        self.used_bytes -= Copies::cost(memory.len());
        self.copies.give(memory);
    }
}
