//! The tags of a device, and what becomes of the request of each.

use core::mem;

use super::wire::{Descriptor, ZONE_BYTES, zone_bytes};
use crate::block::{Bio, Data, Op, Payload, Status};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Bytes, or a negative errno.
    pub result: i32,
    /// Of an append that succeeded where its data is, in sectors; otherwise 0.
    pub sector: u64,
}

/// What is to be done about a request.
#[derive(Debug)]
pub enum Next {
    /// Submit this, and hand over its completion.
    Submit(Box<Bio>),
    /// Tell the kernel.
    Answer(Answer),
}

/// How many requests there can be, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionShape {
    /// Tags, of all queues together.
    pub tags: u32,
    /// Longest request, in bytes, whole sectors.
    pub io_bytes: u32,
}

/// What a tag has for its next request.
struct Tag {
    /// Memory for the longest request, and a bio; both on their way with a request.
    data: Option<Data>,
    bio: Option<Box<Bio>>,
    /// Zones that its report asks for.
    asked: usize,
}

/// The requests of a device.
pub struct Session {
    shape: SessionShape,
    tags: Box<[Tag]>,
    busy: u32,
}

impl Session {
    /// A session with memory for all its tags; `None` if there is not that much.
    #[must_use]
    pub fn new(shape: SessionShape) -> Option<Self> {
        let tag = |_| {
            let blank = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            let data = Data::try_zeroed(shape.io_bytes as usize)?;
            Some(Tag { data: Some(data), bio: Some(Box::new(blank)), asked: 0 })
        };
        let tags = (0..shape.tags).map(tag).collect::<Option<Box<[Tag]>>>()?;
        Some(Self { shape, tags, busy: 0 })
    }

    /// Requests that are not answered.
    #[must_use]
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// The kernel has a request for `tag`, which has none.
    pub fn request(&mut self, tag: u32, descriptor: Descriptor, copy: &mut impl UserCopy) -> Next {
        self.busy += 1;
        match self.prepare(tag, descriptor, copy) {
            Ok(bio) => Next::Submit(bio),
            Err(status) => self.answer(Err(status)),
        }
    }

    /// The bio of `tag` is done.
    pub fn completed(&mut self, tag: u32, bio: Box<Bio>, status: Status, copy: &mut impl UserCopy) -> Next {
        let done = if status.is_ok() { Ok(()) } else { Err(status) };
        let outcome = self.finish(tag, bio, done, copy);
        self.answer(outcome)
    }

    fn answer(&mut self, outcome: Result<Answer, Status>) -> Next {
        self.busy -= 1;
        Next::Answer(outcome.unwrap_or_else(|status| Answer { result: -status.errno(), sector: 0 }))
    }

    fn prepare(&mut self, tag: u32, request: Descriptor, copy: &mut impl UserCopy) -> Result<Box<Bio>, Status> {
        let op = request.op().ok_or(Status::NotSupported)?;
        let most = self.shape.io_bytes as usize;
        let mine = self.tags.get_mut(tag as usize).ok_or(Status::Invalid)?;
        let payload = match op {
            Op::Read | Op::Write | Op::ZoneAppend => Payload::Data(mine.lend(tag, (op, &request), most, copy)?),
            Op::ReportZones => mine.room(request.count as usize, most)?,
            _ => Payload::None,
        };
        let mut bio = mine.bio.take().ok_or(Status::Invalid)?;
        let sectors = if op.has_range() { request.count } else { 0 };
        *bio = Bio::new(op, Sector(request.sector), sectors, payload).with_flags(request.flags());
        Ok(bio)
    }

    fn finish(
        &mut self,
        tag: u32,
        mut bio: Box<Bio>,
        done: Result<(), Status>,
        copy: &mut impl UserCopy,
    ) -> Result<Answer, Status> {
        let payload = mem::take(&mut bio.payload);
        let (op, sector) = (bio.op, if bio.op == Op::ZoneAppend { bio.sector.0 } else { 0 });
        let most = self.shape.io_bytes as usize;
        let mine = &mut self.tags[tag as usize];
        mine.bio = Some(bio);
        match payload {
            Payload::Data(data) => {
                let bytes = data.len();
                let given = done.and_then(|()| if op == Op::Read { copy.give(tag, &data) } else { Ok(()) });
                mine.data = Some(data.with_len(most));
                given.map(|()| Answer { result: bytes as i32, sector })
            }
            Payload::Zones(zones) => {
                done.and_then(|()| mine.report(tag, &zones, copy))?;
                // With less than there is room for, the kernel would ask again.
                Ok(Answer { result: most as i32, sector: 0 })
            }
            _ => done.map(|()| Answer { result: 0, sector: 0 }),
        }
    }
}

impl Tag {
    /// Its memory, as long as the request, with what that brings.
    fn lend(
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
