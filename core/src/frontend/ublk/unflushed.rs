//! Writes that were acknowledged and are not flushed, where a killed process leaves them.
//!
//! Some devices keep in memory what becomes of a completed write until a flush: where dm-zoned has put it, for one. A killed server
//! loses that, but the kernel goes on, and would be right to expect its writes. So their data stays in memory that outlives the
//! process, and the next server writes it again before it serves: of each sector what was acknowledged last. That is harmless even
//! where it was durable already.
//!
//! ```text
//!  | header | entries: sequence, sector, sectors and operation, offset | data, a ring |
//! ```

use alloc::sync::Arc;
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::block::{Bio, Data, Memory, Op, Payload};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};

/// "shgublkU", the first word.
const MAGIC: u64 = u64::from_le_bytes(*b"shgublkU");
const HEADER_WORDS: usize = 8;
const ENTRY_WORDS: usize = 4;
/// Most writes that are remembered.
const ENTRIES: usize = 4096;
/// Where the data begins, and its unit: what direct I/O wants.
const PAGE: usize = 4096;
const DATA_START: usize = ((HEADER_WORDS + ENTRIES * ENTRY_WORDS) * 8).next_multiple_of(PAGE);
const ZEROES: u64 = 1 << 32;

/// Bytes of memory for a log that holds `bytes` of data.
#[must_use]
pub const fn log_bytes(bytes: usize) -> usize {
    DATA_START + bytes.next_multiple_of(PAGE)
}

/// A write that a killed server acknowledged and did not flush.
#[derive(Debug)]
pub struct Left {
    /// Number in the order of acknowledgement, from 1 on.
    pub sequence: u64,
    /// The write, whose data lies in the log.
    pub bio: Bio,
}

/// A write that has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Where its data is.
    start: usize,
    /// When it was acknowledged; 0 before.
    sequence: u64,
    is_over: bool,
}

/// The log of a device.
pub struct Unflushed {
    memory: Arc<dyn Memory>,
    /// Bytes of the ring.
    room: usize,
    slots: Box<[Slot]>,
    /// The oldest of the slots that are taken, and how many are: a ring as well.
    first: usize,
    taken: usize,
    /// Where the next data goes.
    head: usize,
    sequence: u64,
}

impl Unflushed {
    /// Opens the log in `memory`. Returns the acknowledged writes in it, the oldest first: they are written again, flushed, then forgotten. Memory of
    /// no log, or of another `owner`, has none.
    ///
    /// # Panics
    /// If the memory is shorter than [`log_bytes`] of one page.
    #[must_use]
    pub fn open(memory: Arc<dyn Memory>, owner: u64) -> (Self, Vec<Left>) {
        let room = (memory.words().len() * 8).saturating_sub(DATA_START) / PAGE * PAGE;
        assert!(room > 0, "a log holds at least a page");
        let slots = alloc::vec![Slot::default(); ENTRIES].into_boxed_slice();
        let log = Self { memory, room, slots, first: 0, taken: 0, head: 0, sequence: 0 };
        let is_ours = log.word(0) == MAGIC && log.word(1) == owner;
        let left = if is_ours { log.left() } else { Vec::new() };
        if left.is_empty() {
            log.set(0, 0);
            (0..ENTRIES).for_each(|place| log.set(Self::entry(place), 0));
            log.set(1, owner);
            log.set(0, MAGIC);
        }
        (log, left)
    }

    fn word(&self, index: usize) -> u64 {
        self.memory.words()[index].load(Acquire)
    }

    /// Who comes after a kill sees a store only with all that were before it.
    fn set(&self, index: usize, value: u64) {
        self.memory.words()[index].store(value, Release);
    }

    fn entry(place: usize) -> usize {
        HEADER_WORDS + place * ENTRY_WORDS
    }

    fn left(&self) -> Vec<Left> {
        let mut left: Vec<Left> = (0..ENTRIES).filter_map(|place| self.read(place)).collect();
        left.sort_by_key(|left| left.sequence);
        left
    }

    fn read(&self, place: usize) -> Option<Left> {
        let at = Self::entry(place);
        let [sequence, sector, what, start] = [0, 1, 2, 3].map(|word| self.word(at + word));
        let sectors = what as u32;
        // The memory outlives the process, so anything may be in it.
        if sequence == 0 || sectors == 0 || sector.checked_add(sectors.into()).is_none() {
            return None;
        }
        if what & ZEROES != 0 {
            let bio = Bio::new(Op::WriteZeroes, Sector(sector), sectors, Payload::None);
            return Some(Left { sequence, bio });
        }
        let bytes = sectors as usize * SECTOR_BYTES as usize;
        let start = usize::try_from(start).ok().filter(|start| start.is_multiple_of(PAGE))?;
        let fits = start.checked_add(bytes).is_some_and(|end| end <= self.room);
        let data = fits.then(|| Data::new(self.memory.clone(), DATA_START + start, bytes))?;
        Some(Left { sequence, bio: Bio::new(Op::Write, Sector(sector), sectors, Payload::Data(data)) })
    }

    /// Forgets writes of a killed server that are durable again, the oldest first: a kill in between leaves no older data without the newer data of its
    /// sectors.
    pub(super) fn forget_left(&mut self, sequences: &RangeInclusive<u64>) {
        let entry = |place| {
            Some((self.word(Self::entry(place)), place)).filter(|(found, _)| *found != 0 && sequences.contains(found))
        };
        let mut found: Vec<(u64, usize)> = (0..ENTRIES).filter_map(entry).collect();
        found.sort_unstable();
        found.into_iter().for_each(|(_, place)| self.set(Self::entry(place), 0));
    }

    /// Sectors of a batch of replay: a 16th of the room.
    pub(super) fn batch_sectors(&self) -> u64 {
        self.room as u64 / 16 / u64::from(SECTOR_BYTES)
    }

    /// Bytes of data that one write may have, so that it finds room once all is flushed.
    pub(super) fn longest(&self) -> usize {
        self.room / 2
    }

    /// A place for a write, and memory for its data; zeroes need none. `None`: there is no room until a flush.
    pub(super) fn allocate(&mut self, op: Op, sector: Sector, sectors: u32) -> Option<(Place, Payload)> {
        let bytes = if op == Op::WriteZeroes { 0 } else { sectors as usize * SECTOR_BYTES as usize };
        let padded = bytes.next_multiple_of(PAGE);
        let start = if self.taken < ENTRIES { self.room_for(padded) } else { None }?;
        let place = (self.first + self.taken) % ENTRIES;
        self.slots[place] = Slot { start, sequence: 0, is_over: false };
        (self.taken, self.head) = (self.taken + 1, start + padded);
        let at = Self::entry(place);
        self.set(at + 1, sector.0);
        self.set(at + 2, u64::from(sectors) | if op == Op::WriteZeroes { ZEROES } else { 0 });
        self.set(at + 3, start as u64);
        if bytes == 0 {
            return Some((Place(place as u32), Payload::None));
        }
        // The bio shares the memory with the log: an atomic count for each write.
        let data = Data::new(self.memory.clone(), DATA_START + start, bytes);
        Some((Place(place as u32), Payload::Data(data)))
    }

    /// Where so many bytes fit in one piece. The head never catches up with the oldest data from behind, so that the two are at
    /// one place only if there is none.
    fn room_for(&self, bytes: usize) -> Option<usize> {
        if self.taken == 0 {
            return (bytes <= self.room).then_some(0);
        }
        let (head, tail) = (self.head, self.slots[self.first].start);
        if head < tail {
            return (head + bytes < tail).then_some(head);
        }
        if head + bytes <= self.room { Some(head) } else { (bytes < tail).then_some(0) }
    }

    /// The write at `place` is acknowledged: from now on it is written again if the process is killed.
    pub(super) fn acknowledge(&mut self, place: Place) {
        self.sequence += 1;
        self.slots[place.0 as usize].sequence = self.sequence;
        self.set(Self::entry(place.0 as usize), self.sequence);
    }

    /// The write at `place` has failed.
    pub(super) fn forget(&mut self, place: Place) {
        self.end(place.0 as usize);
        self.give_back();
    }

    /// The newest write that was acknowledged: what a flush that is sent now makes durable.
    pub(super) fn newest(&self) -> u64 {
        self.sequence
    }

    /// What was acknowledged up to `sequence` is durable.
    pub(super) fn flushed(&mut self, sequence: u64) {
        for number in 0..self.taken {
            let place = (self.first + number) % ENTRIES;
            if (1..=sequence).contains(&self.slots[place].sequence) {
                self.end(place);
            }
        }
        self.give_back();
    }

    fn end(&mut self, place: usize) {
        self.slots[place].is_over = true;
        self.set(Self::entry(place), 0);
    }

    fn give_back(&mut self) {
        while self.taken > 0 && self.slots[self.first].is_over {
            self.first = (self.first + 1) % ENTRIES;
            self.taken -= 1;
        }
    }

    /// Whether a flush is due: half of the room is taken.
    pub(super) fn is_filling(&self) -> bool {
        let tail = if self.taken == 0 { self.head } else { self.slots[self.first].start };
        let used = if self.head < tail { self.head + self.room - tail } else { self.head - tail };
        self.taken > ENTRIES / 2 || used > self.room / 2
    }
}
