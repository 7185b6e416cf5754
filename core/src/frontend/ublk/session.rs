//! The tags of a device, and what becomes of the request of each.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::mem;

use super::guards::Guards;
use super::replay::{Progress, Replay};
use super::takeover::Survey;
use super::unflushed::{Left, Place, Unflushed};
use super::wire::{Descriptor, ZONE_BYTES, zone_bytes};
use super::zone_records::{Record, ZoneRecords, is_recorded};
use crate::block::{Bio, Data, Flags, Op, Payload, Remote, RemoteMemory, Status};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};
use crate::zone::Zone;

/// How data comes out of requests and into them.
pub trait UserCopy {
    /// Fills `data` with what the write of `tag` brings.
    ///
    /// # Errors
    /// If the request is gone.
    fn take(&mut self, tag: u32, data: &Data) -> Result<(), Status>;

    /// Has the request of `tag` find `data`.
    ///
    /// # Errors
    /// If the request is gone.
    fn give(&mut self, tag: u32, data: &Data) -> Result<(), Status>;
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Bytes, or a negative errno.
    pub result: i32,
    /// Of an append that succeeded where its data is, in sectors; otherwise 0.
    pub sector: u64,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Next {
    /// Submit this bio, and hand over its completion under this word.
    Submit(u64, Box<Bio>),
    /// Tell the kernel, of the request of this tag. What there is to clear becomes 0 by the same submission: a read of zeroes just
    /// before the answer.
    Answer(u32, Answer, Option<Data>),
}

/// How many requests there can be, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionShape {
    /// Tags, of all queues together.
    pub tags: u32,
    /// Longest request, in bytes, whole sectors.
    pub io_bytes: u32,
}

/// The word of a flush of the session's own; those of requests are their tags, and those of what is written again lie above.
const OWN_FLUSH: u64 = 1 << 32;
pub(super) const REPLAYED: u64 = 1 << 33;

/// What a tag has for its next request, and of the one it has.
pub(super) struct Tag {
    /// Memory for the longest request, and a bio; both on their way with a request.
    pub data: Option<Data>,
    /// The memory of its request, for those who do not look at it.
    remote: Option<Arc<dyn RemoteMemory>>,
    bio: Option<Box<Bio>>,
    /// What its bio is for.
    pub step: Step,
    /// Bytes that its request moves.
    pub bytes: u32,
    /// Zones that its report asks for.
    asked: usize,
    /// Where its write is remembered until it is flushed.
    place: Option<Place>,
    /// What its flush makes durable.
    covers: u64,
    /// Whether there is a record of it.
    is_recorded: bool,
    /// Whether its append is none that a killed server had done, wholly or in part.
    pub is_another: bool,
}

/// What a bio of a tag is for.
#[derive(Default)]
pub(super) enum Step {
    /// It does what the request asks for.
    #[default]
    Serve,
    /// It makes durable what is written already; then this is the answer.
    Confirm(Answer),
    /// It writes what was left of this request, whose data begins at `start`.
    Rest { request: Descriptor, start: u64 },
    /// It reads what is in the first of these places, to see if it is the data of this append, or its beginning.
    Compare { request: Descriptor, data: Data, places: VecDeque<(usize, Record)> },
}

/// The requests of a device.
pub struct Session {
    pub(super) shape: SessionShape,
    pub(super) tags: Box<[Tag]>,
    busy: u32,
    pub(super) records: Option<ZoneRecords>,
    /// The question what of the records is done.
    survey: Option<Survey>,
    unflushed: Option<Unflushed>,
    /// What a killed server has left, until it is written again.
    replay: Option<Replay>,
    /// Writes that wait for room among the unflushed ones, and what waits for another append, reset or finish of its zone.
    pub(super) waiting: VecDeque<(u32, Descriptor)>,
    /// Zones with an append, reset or finish under way, `None` for all: one at a time, so that what is done of an append can be told
    /// from the pointer, and that what is known of it is not of before a reset.
    alone: Vec<(u32, Option<u64>)>,
    /// What the session's own flush makes durable, while it is on its way.
    flushing: Option<u64>,
    next: VecDeque<Next>,
    pub(super) guards: Guards,
}

impl Session {
    /// A session with memory for all its tags; `None` if there is not that much.
    #[must_use]
    pub fn new(shape: SessionShape) -> Option<Self> {
        let tag = |_| {
            let blank = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            let data = Data::try_zeroed(shape.io_bytes as usize)?;
            let bio = Some(Box::new(blank));
            let (step, data, remote, place) = (Step::Serve, Some(data), None, None);
            let (is_recorded, is_another) = (false, false);
            Some(Tag { data, remote, bio, step, bytes: 0, asked: 0, place, covers: 0, is_recorded, is_another })
        };
        let tags = (0..shape.tags).map(tag).collect::<Option<Box<[Tag]>>>()?;
        Some(Self {
            shape,
            tags,
            busy: 0,
            records: None,
            survey: None,
            unflushed: None,
            replay: None,
            waiting: VecDeque::with_capacity(shape.tags as usize),
            alone: Vec::with_capacity(shape.tags as usize),
            flushing: None,
            next: VecDeque::with_capacity(shape.tags as usize + 1),
            guards: Guards::default(),
        })
    }

    /// The same without these guards.
    #[cfg(feature = "sabotage")]
    #[must_use]
    pub fn without(self, gone: super::Sabotage) -> Self {
        Self { guards: Guards::without(gone), ..self }
    }

    /// The same for a device that forgets what is not flushed when the process is killed: it remembers, and first writes `left`,
    /// what was remembered before. `None` if the longest request has no room in the log.
    #[must_use]
    pub fn with_unflushed(mut self, (log, left): (Unflushed, Vec<Left>)) -> Option<Self> {
        if log.longest() < self.shape.io_bytes as usize {
            return None;
        }
        if !left.is_empty() && !self.guards.gone().no_replay {
            self.replay = Some(Replay::new((left, log.batch_sectors()), &mut self.next, self.guards));
        }
        self.unflushed = Some(log);
        Some(self)
    }

    /// The same for a device with zones.
    #[must_use]
    pub fn with_records(mut self, records: ZoneRecords) -> Self {
        self.survey = Survey::new(&records, &mut self.next);
        self.records = Some(records.guarded(self.guards));
        self
    }

    /// The same for a device that takes data without looking at it: `memories` are those of the requests of its tags.
    #[must_use]
    pub fn with_remote(mut self, memories: impl IntoIterator<Item = Arc<dyn RemoteMemory>>) -> Self {
        self.tags.iter_mut().zip(memories).for_each(|(tag, memory)| tag.remote = Some(memory));
        self
    }

    /// True if requests may be served: what a killed server has left is written, or known.
    ///
    /// # Errors
    /// If that failed: then the device must not be served.
    pub fn is_ready(&self) -> Result<bool, Status> {
        let replayed = self.replay.as_ref().map(Replay::failure);
        let surveyed = self.survey.as_ref().map(|survey| survey.failure);
        replayed.or(surveyed).map_or(Ok(true), |failure| failure.map_or(Ok(false), Err))
    }

    /// Progress towards [`Session::is_ready`].
    #[must_use]
    pub fn progress(&self) -> Progress {
        let surveyed =
            self.survey.as_ref().map(|survey| Progress { completions: survey.completions, ..Progress::default() });
        self.replay.as_ref().map(Replay::progress).or(surveyed).unwrap_or_default()
    }

    /// How many requests there can be, and how long.
    #[must_use]
    pub fn shape(&self) -> SessionShape {
        self.shape
    }

    /// Requests that are not answered.
    #[must_use]
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Next> {
        self.next.pop_front()
    }

    /// The kernel has a request for `tag`, which has none.
    pub fn handle_request(&mut self, tag: u32, request: Descriptor, copy: &mut impl UserCopy) {
        self.busy += 1;
        // Room in the log is given in turn.
        let has_line = self.unflushed.is_some()
            && !self.waiting.is_empty()
            && matches!(request.op(), Some(Op::Write | Op::WriteZeroes));
        if has_line || self.has_to_wait(tag, request) {
            self.waiting.push_back((tag, request));
        } else {
            self.begin(tag, request, copy);
        }
        self.flush_if_due();
    }

    /// Has an append wait after all that was alone in its zone.
    pub(super) fn hold(&mut self, tag: u32, request: Descriptor) {
        self.alone.retain(|(other, _)| *other != tag);
        self.waiting.push_back((tag, request));
    }

    /// Whether this is to be alone in its zone, and is not; from now on it is.
    fn has_to_wait(&mut self, tag: u32, request: Descriptor) -> bool {
        let zone = match request.op() {
            _ if self.records.is_none() => return false,
            Some(Op::ZoneAppend) if self.is_held(tag, &request) => return true,
            Some(Op::ZoneAppend | Op::ZoneReset | Op::ZoneFinish) => Some(request.sector),
            Some(Op::ZoneResetAll) => None,
            _ => return false,
        };
        // What waits for all zones is not overtaken for ever.
        let is_shut = zone.is_some() && self.waiting.iter().any(|(_, other)| other.op() == Some(Op::ZoneResetAll));
        let is_taken =
            is_shut || self.alone.iter().any(|(_, other)| *other == zone || other.is_none() || zone.is_none());
        if !is_taken {
            self.alone.push((tag, zone));
        }
        is_taken
    }

    fn begin(&mut self, tag: u32, request: Descriptor, copy: &mut impl UserCopy) {
        if self.records.as_ref().is_some_and(|records| !records.has_none_left())
            && !self.guards.gone().records_unread
            && let Some(op) = request.op().filter(|op| is_recorded(*op) && tag < self.shape.tags)
        {
            self.tags[tag as usize].is_recorded = true;
            match self.take_up(tag, (op, &request), copy) {
                Ok(true) => return,
                Ok(false) => {}
                Err(status) => return self.answer(tag, Err(status)),
            }
        }
        match self.prepare(tag, request, copy) {
            Ok(Some(bio)) => self.next.push_back(Next::Submit(tag.into(), bio)),
            Ok(None) => self.waiting.push_back((tag, request)),
            Err(status) => self.answer(tag, Err(status)),
        }
    }

    /// A bio of `word` is done.
    pub fn handle_completion(&mut self, word: u64, bio: Box<Bio>, status: Status, copy: &mut impl UserCopy) {
        if word >= REPLAYED {
            return self.taken_over(&bio, status);
        }
        if word == OWN_FLUSH {
            self.flushed(status);
            if !status.is_ok() {
                // The next request that wants room tries again, and not a loop without end.
                return;
            }
        } else {
            self.handle_tag(word as u32, bio, status, copy);
        }
        self.let_in(copy);
        self.flush_if_due();
    }

    fn handle_tag(&mut self, tag: u32, bio: Box<Bio>, status: Status, copy: &mut impl UserCopy) {
        match mem::take(&mut self.tags[tag as usize].step) {
            Step::Serve => {
                let sector = if bio.op == Op::ZoneAppend { bio.sector.0 } else { 0 };
                let answer = self.finish(tag, (bio, sector), status, copy);
                self.answer(tag, answer);
            }
            Step::Rest { request, start } => {
                let sector = if request.op() == Some(Op::ZoneAppend) { start } else { 0 };
                match self.finish(tag, (bio, sector), status, copy) {
                    Ok(_) => self.confirm(tag, &request, sector),
                    Err(status) => self.answer(tag, Err(status)),
                }
            }
            step => self.handle_step(tag, step, (bio, status)),
        }
    }

    pub(super) fn answer(&mut self, tag: u32, outcome: Result<Answer, Status>) {
        self.busy -= 1;
        self.alone.retain(|(other, _)| *other != tag);
        let answer = outcome.unwrap_or_else(|status| Answer { result: -status.errno(), sector: 0 });
        let is_recorded = self.tags.get_mut(tag as usize).is_some_and(|mine| {
            mine.is_another = false;
            mem::take(&mut mine.is_recorded)
        });
        let is_recorded = is_recorded && !self.guards.gone().told_records_stay;
        let clear = self.records.as_ref().filter(|_| is_recorded).and_then(|records| records.to_clear(tag));
        self.next.push_back(Next::Answer(tag, answer, clear));
    }

    /// The bio of a request; `None` if it has to wait for room.
    fn prepare(&mut self, tag: u32, request: Descriptor, copy: &mut impl UserCopy) -> Result<Option<Box<Bio>>, Status> {
        let op = request.op().ok_or(Status::NotSupported)?;
        let most = self.shape.io_bytes as usize;
        let mine = self.tags.get_mut(tag as usize).ok_or(Status::Invalid)?;
        let payload = match (op, &mut self.unflushed) {
            (Op::Write | Op::WriteZeroes, Some(log)) => match mine.remember(tag, (op, &request), log, copy)? {
                Some(payload) => payload,
                None => return Ok(None),
            },
            (Op::Read | Op::Write | Op::ZoneAppend, _) => match mine.remote(&request, most, self.guards) {
                Some(remote) => Payload::Remote(remote),
                None => Payload::Data(mine.lend(tag, (op, &request), most, copy)?),
            },
            (Op::ReportZones, _) => mine.room(request.count as usize, most)?,
            _ => Payload::None,
        };
        mine.covers = self.unflushed.as_ref().map_or(0, Unflushed::newest);
        if op == Op::Flush && self.guards.gone().flushed_when_sent {
            self.unflushed.iter_mut().for_each(|log| log.flushed(mine.covers));
        }
        Ok(Some(self.bio(tag, (op, &request), payload)))
    }

    /// The bio of a request, noted as what may be done from now on.
    fn bio(&mut self, tag: u32, (op, request): (Op, &Descriptor), payload: Payload) -> Box<Bio> {
        let sectors = request.sectors();
        let mine = &mut self.tags[tag as usize];
        mine.bytes = sectors.saturating_mul(SECTOR_BYTES);
        if let Some(records) = self.records.as_mut().filter(|_| is_recorded(op)) {
            mine.is_recorded = true;
            records.begin(tag, op, request.sector, sectors);
        }
        mine.fill((op, request.sector, sectors), payload, request.flags())
    }

    /// Sends a request on, with its payload.
    pub(super) fn send(&mut self, tag: u32, request: (Op, &Descriptor), payload: Payload) {
        let bio = self.bio(tag, request, payload);
        self.next.push_back(Next::Submit(tag.into(), bio));
    }

    /// Sends a bio for the sake of the request of `tag`.
    pub(super) fn submit(&mut self, tag: u32, op: Op, (sector, sectors): (u64, u32), payload: Payload, flags: Flags) {
        let bio = self.tags[tag as usize].fill((op, sector, sectors), payload, flags);
        self.next.push_back(Next::Submit(tag.into(), bio));
    }

    /// Takes the bio of a tag back, and gives its payload.
    pub(super) fn take_back(&mut self, tag: u32, mut bio: Box<Bio>) -> Payload {
        let payload = mem::take(&mut bio.payload);
        self.tags[tag as usize].bio = Some(bio);
        payload
    }

    /// Ends the bio of a request, of whose answer `sector` is a part.
    fn finish(
        &mut self,
        tag: u32,
        (bio, sector): (Box<Bio>, u64),
        status: Status,
        copy: &mut impl UserCopy,
    ) -> Result<Answer, Status> {
        let done = if status.is_ok() { Ok(()) } else { Err(status) };
        let op = bio.op;
        let most = self.shape.io_bytes as usize;
        let payload = self.take_back(tag, bio);
        let mine = &mut self.tags[tag as usize];
        if let Some(records) = self.records.as_mut().filter(|_| mine.is_recorded) {
            records.done(tag, done.is_ok().then_some(sector));
        }
        if let Some(log) = &mut self.unflushed {
            match mine.place.take() {
                // Also what is durable by itself: otherwise older data of its sectors would be written over it.
                Some(place) if done.is_ok() => log.acknowledge(place),
                Some(place) => log.forget(place),
                None if op == Op::Flush && done.is_ok() => log.flushed(mine.covers),
                None => {}
            }
        }
        match payload {
            Payload::Data(data) => {
                let bytes = mine.bytes;
                let given = done.and_then(|()| if op == Op::Read { copy.give(tag, &data) } else { Ok(()) });
                if mine.data.is_none() {
                    mine.data = Some(data.with_len(most));
                }
                given.map(|()| Answer { result: bytes as i32, sector })
            }
            Payload::Zones(zones) => {
                done.and_then(|()| mine.report(tag, &zones, copy))?;
                if let Some(records) = &mut self.records {
                    zones.iter().for_each(|zone| records.learn(zone.start.0, zone.written_up_to().0));
                }
                // With less than there is room for, the kernel would ask again.
                Ok(Answer { result: most as i32, sector: 0 })
            }
            Payload::Remote(_) => done.map(|()| Answer { result: mine.bytes as i32, sector }),
            _ => done.map(|()| Answer { result: 0, sector: 0 }),
        }
    }

    /// Sends a flush before there is no room for further writes.
    fn flush_if_due(&mut self) {
        let Some(log) = self.unflushed.as_ref().filter(|log| log.is_filling() || !self.waiting.is_empty()) else {
            return;
        };
        if self.flushing.is_none() {
            self.flushing = Some(log.newest());
            let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            self.next.push_back(Next::Submit(OWN_FLUSH, Box::new(flush)));
        }
    }

    fn flushed(&mut self, status: Status) {
        let Some(covers) = self.flushing.take() else { return };
        match &mut self.unflushed {
            Some(log) if status.is_ok() => log.flushed(covers),
            // There will be no room for them.
            _ => mem::take(&mut self.waiting).into_iter().for_each(|(tag, _)| self.answer(tag, Err(status))),
        }
    }

    /// Begins what waits, as far as there is room.
    fn let_in(&mut self, copy: &mut impl UserCopy) {
        let mut is_full = false;
        for _ in 0..self.waiting.len() {
            let Some((tag, request)) = self.waiting.pop_front() else { return };
            if is_full || self.has_to_wait(tag, request) {
                self.waiting.push_back((tag, request));
                continue;
            }
            let before = self.waiting.len();
            self.begin(tag, request, copy);
            // What is behind it, and smaller, does not overtake it.
            is_full = self.waiting.len() > before;
        }
    }

    /// Whether appends wait for one that was done in part to come again.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.waiting.iter().any(|(tag, request)| self.is_held(*tag, request))
    }

    /// Lets appends go that wait for one that was done in part: it may need one of their tags, or is not known any more since its memory
    /// was written to meanwhile. What is done of it stays in its zone.
    pub fn give_up_parts(&mut self, copy: &mut impl UserCopy) {
        self.records.iter_mut().for_each(ZoneRecords::give_up_parts);
        self.let_in(copy);
    }

    /// A bio that was sent before requests were asked for is done.
    fn taken_over(&mut self, bio: &Bio, status: Status) {
        if let Some(replay) = &mut self.replay {
            let durable = replay.handle_completion(bio, status, &mut self.next);
            if let (Some(durable), Some(log)) = (durable, &mut self.unflushed) {
                log.forget_left(&durable);
            }
        }
        self.replay.take_if(|replay| replay.is_over());
        if let (Some(survey), Some(records)) = (&mut self.survey, &mut self.records)
            && survey.handle_completion(bio, status, records)
        {
            self.survey = None;
        }
    }
}

impl Tag {
    /// Memory of the log for a write, with what that brings; `None` if there is no room.
    fn remember(
        &mut self,
        tag: u32,
        (op, request): (Op, &Descriptor),
        log: &mut Unflushed,
        copy: &mut impl UserCopy,
    ) -> Result<Option<Payload>, Status> {
        if op == Op::Write && request.count as usize * SECTOR_BYTES as usize > log.longest() {
            return Err(Status::Invalid);
        }
        let Some((place, payload)) = log.allocate(op, Sector(request.sector), request.count) else { return Ok(None) };
        if let Payload::Data(data) = &payload
            && let Err(status) = copy.take(tag, data)
        {
            log.forget(place);
            return Err(status);
        }
        self.place = Some(place);
        Ok(Some(payload))
    }

    /// Its bio, made anew.
    fn fill(&mut self, (op, sector, sectors): (Op, u64, u32), payload: Payload, flags: Flags) -> Box<Bio> {
        let fresh = Bio::new(op, Sector(sector), sectors, payload).with_flags(flags);
        let Some(mut bio) = self.bio.take() else { return Box::new(fresh) };
        *bio = fresh;
        bio
    }

    /// The memory of its request, if nobody has to look at it.
    fn remote(&self, request: &Descriptor, most: usize, guards: Guards) -> Option<Remote> {
        let bytes = request.count as usize * SECTOR_BYTES as usize;
        let is_registered = request.is_registered() || guards.gone().registered_unasked;
        let memory = self.remote.as_ref().filter(|_| is_registered && bytes <= most)?;
        Some(Remote::new(memory.clone(), bytes))
    }

    /// Its memory, as long as the request, with what that brings.
    pub(super) fn lend(
        &mut self,
        tag: u32,
        (op, request): (Op, &Descriptor),
        most: usize,
        copy: &mut impl UserCopy,
    ) -> Result<Data, Status> {
        let bytes = request.count as usize * SECTOR_BYTES as usize;
        let data = self.data.take_if(|_| bytes <= most).ok_or(Status::Invalid)?.with_len(bytes);
        if op != Op::Read
            && let Err(status) = copy.take(tag, &data)
        {
            self.data = Some(data.with_len(most));
            return Err(status);
        }
        Ok(data)
    }

    /// Room for the zones of a report. That is made when a device starts, or somebody looks, and not to free memory: it may
    /// allocate.
    fn room(&mut self, count: usize, most: usize) -> Result<Payload, Status> {
        let mut zones = Vec::new();
        let fits = count.checked_mul(ZONE_BYTES).is_some_and(|bytes| bytes <= most);
        if !fits || zones.try_reserve_exact(count).is_err() {
            return Err(Status::Invalid);
        }
        self.asked = count;
        Ok(Payload::Zones(zones))
    }

    /// Puts zones into the request; what was asked for and is not there is an empty entry.
    fn report(&self, tag: u32, zones: &[Zone], copy: &mut impl UserCopy) -> Result<(), Status> {
        let data = self.data.as_ref().ok_or(Status::Resource)?.slice(0, self.asked * ZONE_BYTES);
        data.fill(0);
        for (place, zone) in zones.iter().take(self.asked).enumerate() {
            data.write(place * ZONE_BYTES, &zone_bytes(zone));
        }
        copy.give(tag, &data)
    }
}
