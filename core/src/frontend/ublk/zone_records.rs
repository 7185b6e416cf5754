//! What was done to zones and perhaps not answered, where a killed process leaves it.
//!
//! The kernel sends requests again that a killed server has not answered. A write behind the pointer fails then, an append lands
//! twice, and a reset takes newer data with it. So each request that changes zones has a record, and each zone the place up to which
//! answers said it is written:
//!
//! ```text
//!  | header | a word for each zone: its end | a record for each tag | records that killed servers left: any, one of each zone |
//!  record: state, operation and length | sector | where an append went | sequence
//! ```
//!
//! The record of a request that may not be taken for another one goes when the kernel is told, by the kernel: a read of zeroes over
//! it is submitted with the answer, and a process that is killed has submitted both or neither. So what is done and has a record comes
//! again for certain. A write needs no such care, as none is sent twice to one place of a zone.
//!
//! The next server finds out with a zone's pointer what of a request that was sent is done: all of it, or a part. One write of a zone
//! is under way at a time, so that is at most its oldest; and one append, of which is noted before where it will go. A write that is done keeps its record when the kernel was told, since nobody knows that; the
//! newest of a zone is enough. All of it is memory of a machine that runs: after a power cut there is no request to come
//! again, and no record.

use alloc::sync::Arc;
use core::sync::atomic::Ordering::{Acquire, Release};

use super::guards::Guards;
use crate::block::{Data, Memory, Op};
use crate::prelude::*;

/// The first word; another one whenever a record means something else.
const MAGIC: u64 = u64::from_le_bytes(*b"shgublZ2");
const HEADER_WORDS: usize = 8;
const RECORD_WORDS: usize = 4;
/// Records that killed servers left and that are still to come again, for each tag: a scheduler holds twice as many requests as
/// there are tags, and may send new ones before those.
const LEFT_PER_TAG: usize = 4;

/// No device has had so many requests.
const MOST_SEQUENCE: u64 = u64::MAX / 2;

/// Zones and tags of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsShape {
    /// Number of zones.
    pub zones: u32,
    /// Zone size.
    pub zone_sectors: u32,
    /// Tags, of all queues together.
    pub tags: u32,
}

impl RecordsShape {
    /// Bytes of memory for the records.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let records = (1 + LEFT_PER_TAG) * self.tags as usize + self.zones as usize;
        (HEADER_WORDS + self.zones as usize + records * RECORD_WORDS) * 8
    }
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Progress {
    /// It went down; whether it is done is not known.
    Sent = 1,
    /// It is done, and the kernel does not know; or of a write, did not know when it was done.
    Done = 2,
}

/// What is remembered of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub progress: Progress,
    pub op: Op,
    pub sector: u64,
    pub sectors: u32,
    /// Where the data of an append is, or is to be; the end of its zone if that is not known.
    pub outcome: u64,
    pub sequence: u64,
    /// How many sectors of a write or an append that a killed server left are written. The pointer says so, no record does.
    pub written: u32,
}

impl Record {
    /// Whether this is what is remembered of such a request. While a write waits to come again, the kernel can merge the next one
    /// of its zone into it.
    fn is_of(&self, op: Op, sector: u64, sectors: u32) -> bool {
        let is_long = self.sectors == sectors || op == Op::Write && self.sectors < sectors;
        (self.op, self.sector) == (op, sector) && is_long
    }

    /// Whether it is an append that a killed server left half done.
    fn is_part(&self) -> bool {
        self.op == Op::ZoneAppend && self.progress == Progress::Sent
    }

    fn words(&self) -> [u64; RECORD_WORDS] {
        let head = self.progress as u64 | (self.op as u64) << 8 | u64::from(self.sectors) << 32;
        [head, self.sector, self.outcome, self.sequence]
    }

    fn from_words([head, sector, outcome, sequence]: [u64; RECORD_WORDS]) -> Option<Self> {
        let progress = match head as u8 {
            1 => Progress::Sent,
            2 => Progress::Done,
            _ => return None,
        };
        let op = Op::ALL.into_iter().find(|op| *op as u8 == (head >> 8) as u8)?;
        let sectors = (head >> 32) as u32;
        // The memory outlives the process, so anything may be in it.
        let fits = |start: u64| start.checked_add(sectors.into()).is_some();
        let is_one = is_recorded(op) && fits(sector) && fits(outcome) && sequence <= MOST_SEQUENCE;
        is_one.then_some(Self { progress, op, sector, sectors, outcome, sequence, written: 0 })
    }
}

/// Whether doing it twice would differ from doing it once.
pub(super) fn is_recorded(op: Op) -> bool {
    matches!(op, Op::Write | Op::ZoneAppend | Op::ZoneReset | Op::ZoneResetAll | Op::ZoneFinish)
}

/// The records of a device.
pub struct ZoneRecords {
    memory: Arc<dyn Memory>,
    shape: RecordsShape,
    sequence: u64,
    /// Records that a killed server left, of requests that are still to come again: in the memory as well, at these places.
    left: Vec<(usize, Record)>,
    guards: Guards,
}

impl ZoneRecords {
    /// The records in `memory`. In memory that has none, or those of another `owner` or shape, there is nothing.
    ///
    /// # Panics
    /// If the memory is shorter than the shape says.
    #[must_use]
    pub fn open(memory: Arc<dyn Memory>, owner: u64, shape: RecordsShape) -> Self {
        assert!(memory.words().len() * 8 >= shape.bytes(), "room for all records");
        let mut records = Self { memory, shape, sequence: 0, left: Vec::new(), guards: Guards::default() };
        let header = [MAGIC, owner, shape.zones.into(), shape.tags.into(), shape.zone_sectors.into()];
        if (0..header.len()).any(|word| records.word(word) != header[word]) {
            (0..shape.bytes() / 8).for_each(|word| records.set(word, 0));
            (0..header.len()).rev().for_each(|word| records.set(word, header[word]));
        }
        records.adopt();
        records
    }

    pub(super) fn guarded(self, guards: Guards) -> Self {
        Self { guards, ..self }
    }

    fn word(&self, index: usize) -> u64 {
        self.memory.words()[index].load(Acquire)
    }

    /// Who comes after a kill sees a store only with all that were before it.
    fn set(&self, index: usize, value: u64) {
        self.memory.words()[index].store(value, Release);
    }

    fn zone_of(&self, sector: u64) -> Option<usize> {
        let zone = sector / u64::from(self.shape.zone_sectors);
        (zone < self.shape.zones.into()).then_some(zone as usize)
    }

    fn tag_place(&self, tag: u32) -> usize {
        HEADER_WORDS + self.shape.zones as usize + tag as usize * RECORD_WORDS
    }

    /// The places for what killed servers left: first those for any record, then one of each zone.
    fn left_places(&self) -> impl Iterator<Item = usize> + use<> {
        let first = self.tag_place(self.shape.tags);
        let places = LEFT_PER_TAG * self.shape.tags as usize + self.shape.zones as usize;
        (0..places).map(move |number| first + number * RECORD_WORDS)
    }

    /// Where a record is to be kept that a killed server left; `None` if one that was left there is newer. When there is no room it
    /// is that of the oldest.
    fn place_for(&self, record: &Record) -> Option<usize> {
        let any = LEFT_PER_TAG * self.shape.tags as usize;
        let age = |place: &usize| self.read(*place).map_or(0, |record| record.sequence);
        if record.op != Op::Write || record.progress == Progress::Sent {
            return self.left_places().take(any).min_by_key(age);
        }
        let place = self.left_places().nth(any + self.zone_of(record.sector)?)?;
        (age(&place) < record.sequence).then_some(place)
    }

    fn read(&self, place: usize) -> Option<Record> {
        Record::from_words([0, 1, 2, 3].map(|word| self.word(place + word)))
    }

    /// The first word goes last: without it there is no record.
    fn write(&self, place: usize, record: &Record) {
        self.set(place, 0);
        let words = record.words();
        (0..RECORD_WORDS).rev().for_each(|word| self.set(place + word, words[word]));
    }

    /// Moves the records of tags to those that were left, so that the tags can have new ones. It can end anywhere and begin again.
    fn adopt(&mut self) {
        self.left = self.left_places().filter_map(|place| Some((place, self.read(place)?))).collect();
        for tag in 0..self.shape.tags {
            let place = self.tag_place(tag);
            let Some(record) = self.read(place) else { continue };
            let is_known = self.left.iter().any(|(_, other)| other.sequence == record.sequence);
            if !is_known && let Some(room) = self.place_for(&record) {
                self.write(room, &record);
                self.left.retain(|(place, _)| *place != room);
                self.left.push((room, record));
            }
            self.set(place, 0);
        }
        self.left.sort_by_key(|(_, record)| record.sequence);
        self.sequence = self.left.iter().map(|(_, record)| record.sequence).max().unwrap_or(0);
    }

    /// First sectors of the zones of which the pointer has to be known, to know what of that is done.
    pub(super) fn unclear(&self) -> Vec<u64> {
        let is_unclear = |record: &Record| matches!(record.op, Op::Write | Op::ZoneAppend);
        let size = u64::from(self.shape.zone_sectors);
        let unclear = self.left.iter().filter(|(_, record)| is_unclear(record));
        let mut zones: Vec<u64> = unclear.map(|(_, record)| record.sector / size * size).collect();
        zones.sort_unstable();
        zones.dedup();
        zones
    }

    /// Up to where the zone that starts at `start` was written as far as answers said.
    fn end_of(&self, start: u64) -> Option<u64> {
        self.word(HEADER_WORDS + self.zone_of(start)?).checked_sub(1)
    }

    fn is_in(&self, start: u64, record: &Record) -> bool {
        (start..start + u64::from(self.shape.zone_sectors)).contains(&record.sector)
    }

    /// The zone that starts at `start` is written up to `pointer`: what of its records that means. Those that mean nothing go.
    pub(super) fn resolve(&mut self, start: u64, pointer: u64) {
        for (place, mut record) in self.left.clone() {
            if !self.is_in(start, &record) {
                continue;
            }
            let is_sent = record.progress == Progress::Sent;
            let first = match record.op {
                Op::Write => record.sector,
                Op::ZoneAppend => record.outcome,
                _ => continue,
            };
            let is_inside = (start..pointer).contains(&first);
            record.written = if is_inside { (pointer - first).min(record.sectors.into()) as u32 } else { 0 };
            let is_whole = record.written == record.sectors;
            let keep = match record.op {
                // What is done may have been answered; it was, if there is a further one.
                Op::Write => record.written > 0 && (is_sent || pointer <= first + u64::from(record.sectors)),
                // A reset of which the end was not noted can have taken one that was done.
                _ => is_whole || is_sent && record.written > 0 && !self.guards.gone().parts_unfinished,
            };
            if record.op == Op::ZoneAppend && is_whole {
                record.progress = Progress::Done;
            }
            if keep { self.replace(place, record) } else { self.forget(place) }
        }
        self.note_end(start, Some(pointer));
    }

    fn note_end(&self, start: u64, end: Option<u64>) {
        if let Some(zone) = self.zone_of(start) {
            self.set(HEADER_WORDS + zone, end.map_or(0, |end| end + 1));
        }
    }

    fn replace(&mut self, place: usize, record: Record) {
        self.write(place, &record);
        self.left.iter_mut().filter(|(other, _)| *other == place).for_each(|(_, old)| *old = record);
    }

    /// The request of that record has come again, or cannot come any more.
    pub(super) fn forget(&mut self, place: usize) {
        self.set(place, 0);
        self.left.retain(|(other, _)| *other != place);
    }

    /// What a killed server left of a request like this that was done, wholly or in part.
    pub(super) fn find(&self, op: Op, sector: u64, sectors: u32) -> impl Iterator<Item = (usize, Record)> {
        let is_it = move |record: &Record| {
            record.is_of(op, sector, sectors) && (record.written > 0 || record.progress == Progress::Done)
        };
        self.left.iter().copied().filter(move |(_, record)| is_it(record))
    }

    /// Sectors of the append of the zone at `start` that was done in part: nothing else may be appended before its rest is written.
    pub(super) fn part_in(&self, start: u64) -> Option<u32> {
        let mut parts = self.left.iter().map(|(_, record)| record).filter(|record| record.is_part());
        parts.find(|record| record.sector == start).map(|record| record.sectors)
    }

    /// Gives up what was done of appends in part: that stays in their zones.
    pub(super) fn give_up_parts(&mut self) {
        let parts: Vec<usize> = self.left.iter().filter(|(_, left)| left.is_part()).map(|(place, _)| *place).collect();
        parts.into_iter().for_each(|place| self.forget(place));
    }

    /// Whether nothing is left of a killed server.
    pub(super) fn has_none_left(&self) -> bool {
        self.left.is_empty()
    }

    /// What is left at `place` is now of the request of `tag`, which has so many sectors.
    pub(super) fn retake(&mut self, place: usize, (tag, sectors): (u32, u32), progress: Progress) {
        if let Some(record) = self.read(place) {
            self.write(self.tag_place(tag), &Record { progress, sectors, ..record });
        }
        self.forget(place);
    }

    /// The kernel goes on behind `sector` of a zone: it knows of all writes before.
    pub(super) fn passed(&mut self, sector: u64) {
        let size = u64::from(self.shape.zone_sectors);
        let is_before =
            |record: &Record| record.op == Op::Write && record.sector / size == sector / size && record.sector < sector;
        let over: Vec<usize> = self.left.iter().filter(|(_, left)| is_before(left)).map(|(place, _)| *place).collect();
        over.into_iter().for_each(|place| self.forget(place));
    }

    /// A request of `tag` goes down.
    pub(super) fn begin(&mut self, tag: u32, op: Op, sector: u64, sectors: u32) {
        self.sequence += 1;
        let zone_end = || sector.saturating_add(self.shape.zone_sectors.into());
        let outcome = if op == Op::ZoneAppend { self.end_of(sector).unwrap_or_else(zone_end) } else { 0 };
        let (progress, sequence) = (Progress::Sent, self.sequence);
        let record = Record { progress, op, sector, sectors, outcome, sequence, written: 0 };
        self.write(self.tag_place(tag), &record);
    }

    /// What is known of a zone, or of all, means nothing any more.
    fn forget_zone(&mut self, start: Option<u64>, but: u32) {
        if self.guards.gone().resets_forget_nothing {
            return;
        }
        let is_of = |record: &Record, records: &Self| start.is_none_or(|start| records.is_in(start, record));
        for (place, record) in self.left.clone() {
            if is_of(&record, self) {
                self.forget(place);
            }
        }
        for place in (0..self.shape.tags).filter(|tag| *tag != but).map(|tag| self.tag_place(tag)) {
            if self.read(place).is_some_and(|record| record.progress == Progress::Done && is_of(&record, self)) {
                self.set(place, 0);
            }
        }
    }

    /// The request of `tag` is done, an append at `outcome`; or it failed.
    pub(super) fn done(&mut self, tag: u32, outcome: Option<u64>) {
        let place = self.tag_place(tag);
        let Some(record) = self.read(place) else { return };
        let Some(outcome) = outcome else {
            self.note_end(record.sector, None);
            return self.set(place, 0);
        };
        let sectors = u64::from(record.sectors);
        if record.op != Op::Write && record.op != Op::ZoneAppend {
            self.forget_zone((record.op != Op::ZoneResetAll).then_some(record.sector), tag);
        }
        match record.op {
            // A zone that was emptied has an end before its reset is done: in between, the reset is only sent, and may come twice.
            Op::ZoneReset => self.note_end(record.sector, Some(record.sector)),
            Op::ZoneFinish => self.note_end(record.sector, None),
            Op::ZoneResetAll => (0..self.shape.zones).for_each(|zone| {
                let start = u64::from(zone) * u64::from(self.shape.zone_sectors);
                self.note_end(start, Some(start));
            }),
            _ => {}
        }
        self.set(place + 2, outcome);
        self.set(place, record.words()[0] & !0xff | Progress::Done as u64);
        match record.op {
            Op::Write => self.note_end(record.sector, Some(record.sector + sectors)),
            Op::ZoneAppend => self.note_end(record.sector, Some(outcome + sectors)),
            _ => {}
        }
    }

    /// The word of the record of `tag` that is to become 0 when the kernel is told of it, if that matters.
    pub(super) fn to_clear(&self, tag: u32) -> Option<Data> {
        let place = self.tag_place(tag);
        let record = self.read(place).filter(|record| record.op != Op::Write)?;
        (record.progress == Progress::Done).then(|| Data::new(self.memory.clone(), place * 8, 8))
    }

    /// A report says where the pointer of a zone is: that counts if nothing is known.
    pub(super) fn learn(&mut self, start: u64, pointer: u64) {
        if let Some(zone) = self.zone_of(start).filter(|zone| self.word(HEADER_WORDS + zone) == 0) {
            self.set(HEADER_WORDS + zone, pointer + 1);
        }
    }
}
