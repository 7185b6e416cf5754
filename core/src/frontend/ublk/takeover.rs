//! Requests that a killed server had, and that come again.

use alloc::collections::VecDeque;

use super::session::{Answer, Next, REPLAYED, Session, Step, UserCopy};
use super::wire::Descriptor;
use super::zone_records::{Progress, Record, ZoneRecords};
use crate::block::{Bio, Data, Flags, Op, Payload, Status};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};

/// The pointers of zones are asked for, before requests are.
pub(super) struct Survey {
    reports: usize,
    /// Reports that have come.
    pub completions: u64,
    pub failure: Option<Status>,
}

impl Survey {
    /// Asks for those of all zones in which something is not clear; `None`: there are none.
    pub fn new(records: &ZoneRecords, next: &mut VecDeque<Next>) -> Option<Self> {
        let zones = records.unclear();
        for (number, start) in zones.iter().enumerate() {
            let report = Bio::new(Op::ReportZones, Sector(*start), 0, Payload::Zones(Vec::with_capacity(1)));
            next.push_back(Next::Submit(REPLAYED + number as u64, Box::new(report)));
        }
        (!zones.is_empty()).then_some(Self { reports: zones.len(), completions: 0, failure: None })
    }

    /// Takes in a report. Whether that was the last, and all were good.
    pub fn handle_completion(&mut self, bio: &Bio, status: Status, records: &mut ZoneRecords) -> bool {
        self.reports -= 1;
        self.completions += 1;
        match &bio.payload {
            Payload::Zones(zones) if status.is_ok() && !zones.is_empty() => {
                records.resolve(zones[0].start.0, zones[0].written_up_to().0);
            }
            _ => self.failure = Some(if status.is_ok() { Status::Io } else { status }),
        }
        self.reports == 0 && self.failure.is_none()
    }
}

impl Session {
    /// A request like one that a killed server had. Whether it is taken care of: otherwise it is as new.
    pub(super) fn take_up(
        &mut self,
        tag: u32,
        (op, request): (Op, &Descriptor),
        copy: &mut impl UserCopy,
    ) -> Result<bool, Status> {
        let Some(records) = &mut self.records else { return Ok(false) };
        let mut found = records.find(op, request.sector, request.sectors());
        match op {
            Op::Write => {
                let Some((place, record)) = found.next() else {
                    drop(found);
                    records.passed(request.sector);
                    return Ok(false);
                };
                drop(found);
                let is_whole = record.written == request.count;
                let progress = if is_whole { Progress::Done } else { Progress::Sent };
                records.retake(place, (tag, request.count), progress);
                if is_whole {
                    self.confirm(tag, request, 0);
                } else {
                    let data = self.tags[tag as usize].lend(tag, (op, request), self.shape.io_bytes as usize, copy)?;
                    self.write_rest(tag, *request, (request.sector, record.written), data);
                }
                Ok(true)
            }
            Op::ZoneAppend => {
                let places: VecDeque<(usize, Record)> = found.collect();
                if places.is_empty() {
                    return Ok(false);
                }
                let data = self.tags[tag as usize].lend(tag, (op, request), self.shape.io_bytes as usize, copy)?;
                self.compare(tag, *request, (data, places));
                Ok(true)
            }
            _ => {
                let Some((place, _)) = found.next() else { return Ok(false) };
                drop(found);
                records.retake(place, (tag, request.sectors()), Progress::Done);
                self.answer(tag, Ok(Answer { result: 0, sector: 0 }));
                Ok(true)
            }
        }
    }

    /// Acknowledges what is written already; what was to be durable is flushed first, since it is not known how far that was.
    pub(super) fn confirm(&mut self, tag: u32, request: &Descriptor, sector: u64) {
        let answer = Answer { result: (request.count * SECTOR_BYTES) as i32, sector };
        if !request.flags().has(Flags::FUA) || self.guards.gone().durable_when_found {
            return self.answer(tag, Ok(answer));
        }
        self.tags[tag as usize].step = Step::Confirm(answer);
        self.submit(tag, Op::Flush, (0, 0), Payload::None, Flags::NONE);
    }

    /// Writes what a killed server has not of a request whose data begins at `start`: it can be cut in pieces below.
    fn write_rest(&mut self, tag: u32, request: Descriptor, (start, written): (u64, u32), data: Data) {
        let mine = &mut self.tags[tag as usize];
        let (skip, bytes) = ((written * SECTOR_BYTES) as usize, data.len());
        let rest = data.slice(skip, bytes - skip);
        mine.data = Some(data.with_len(self.shape.io_bytes as usize));
        (mine.bytes, mine.step) = (bytes as u32, Step::Rest { request, start });
        let range = (start + u64::from(written), request.count - written);
        self.submit(tag, Op::Write, range, Payload::Data(rest), Flags::NONE);
    }

    /// Reads what is where the append may be that came again.
    fn compare(&mut self, tag: u32, request: Descriptor, (data, places): (Data, VecDeque<(usize, Record)>)) {
        let bytes = |record: &Record| (record.written * SECTOR_BYTES) as usize;
        let there = places.front().and_then(|(_, record)| Some((*record, Data::try_zeroed(bytes(record))?)));
        if let Some((record, memory)) = there {
            self.tags[tag as usize].step = Step::Compare { request, data, places };
            return self.submit(tag, Op::Read, (record.outcome, record.written), Payload::Data(memory), Flags::NONE);
        }
        // It is nowhere: then it is as new.
        self.tags[tag as usize].is_another = true;
        if self.is_held(tag, &request) {
            self.tags[tag as usize].data = Some(data.with_len(self.shape.io_bytes as usize));
            return self.hold(tag, request);
        }
        self.send(tag, (Op::ZoneAppend, &request), Payload::Data(data));
    }

    /// Whether an append may not go before another one that was done in part comes again: it would lie behind that part, and the zone
    /// have less room than its users know.
    pub(super) fn is_held(&self, tag: u32, request: &Descriptor) -> bool {
        let is_another = self.tags.get(tag as usize).is_some_and(|mine| mine.is_another);
        let is_append = request.op() == Some(Op::ZoneAppend);
        let records = self.records.as_ref().filter(|records| is_append && !records.has_none_left());
        let part = records.and_then(|records| records.part_in(request.sector));
        part.is_some_and(|sectors| is_another || sectors != request.count) && !self.guards.gone().parts_overtaken
    }

    /// A step of `tag` before its request is taken care of is done.
    pub(super) fn handle_step(&mut self, tag: u32, step: Step, (bio, status): (Box<Bio>, Status)) {
        let there = self.take_back(tag, bio);
        match step {
            Step::Serve | Step::Rest { .. } => {}
            Step::Confirm(answer) => {
                let outcome = if status.is_ok() { Ok(answer) } else { Err(status) };
                self.answer(tag, outcome);
            }
            Step::Compare { request, data, mut places } => {
                let found = places.pop_front();
                let is_any = self.guards.gone().appends_uncompared;
                let begins = |there: &Data| is_any || is_equal(there, &data.slice(0, there.len()));
                let is_it = status.is_ok() && matches!(&there, Payload::Data(there) if begins(there));
                let Some((place, record)) = found.filter(|_| is_it) else {
                    return self.compare(tag, request, (data, places));
                };
                let mine = (tag, request.count);
                self.records.iter_mut().for_each(|records| records.retake(place, mine, record.progress));
                if record.progress == Progress::Sent {
                    return self.write_rest(tag, request, (record.outcome, record.written), data);
                }
                self.tags[tag as usize].data = Some(data.with_len(self.shape.io_bytes as usize));
                self.confirm(tag, &request, record.outcome);
            }
        }
    }
}

fn is_equal(one: &Data, other: &Data) -> bool {
    use core::sync::atomic::Ordering::Relaxed;
    one.words().iter().map(|word| word.load(Relaxed)).eq(other.words().iter().map(|word| word.load(Relaxed)))
}
