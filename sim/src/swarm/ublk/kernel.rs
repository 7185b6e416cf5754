//! The kernel's side of a ublk device: requests of users, the tags that they get, and what comes again after a kill.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::pages::Pages;
use super::promises::Note;
use crate::choices::Choices;
use shingle_core::block::{Data, Op, Status};
use shingle_core::frontend::ublk::{Descriptor, UserCopy, ZONE_BYTES};

/// Words of a sector.
const SECTOR_WORDS: usize = 64;
/// Words of a zone in a report.
const ZONE_WORDS: usize = ZONE_BYTES / 8;
/// The memory of a request is not registered.
const UNREGISTERED: u32 = 1 << 17;

/// A request of a user.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// In the order of submission.
    pub id: u64,
    pub op: Op,
    pub is_fua: bool,
    pub sector: u64,
    /// Sectors, or zones of a report.
    pub count: u32,
    /// Of each block what is written, or was read. Of a report, its words.
    pub values: Vec<u64>,
    /// Blocks of a read that were not of one value.
    pub torn: usize,
    /// The zone in which its kind has one in flight.
    pub ordered_in: Option<u64>,
    /// Those that were merged into it.
    pub merged: Vec<Request>,
    /// Whether a killed server had it.
    pub is_again: bool,
    pub note: Note,
}

impl Request {
    /// Its sectors, with those of the ones that were merged into it.
    fn whole(&self) -> u32 {
        self.count + self.merged.iter().map(|other| other.count).sum::<u32>()
    }

    /// What it writes, of each block.
    fn brings(&self) -> Vec<u64> {
        if self.op == Op::Read || !self.op.has_data() {
            return Vec::new();
        }
        self.values.iter().chain(self.merged.iter().flat_map(|other| &other.values)).copied().collect()
    }

    /// Takes in what it was answered with, if that is data.
    fn find(&mut self, pages: &Pages, unit_words: usize) {
        match self.op {
            Op::Read => {
                let words = pages.words(self.count as usize * SECTOR_WORDS);
                let blocks = words.chunks(unit_words);
                self.torn = blocks.clone().filter(|block| block.iter().any(|word| *word != block[0])).count();
                self.values = blocks.map(|block| block[0]).collect();
            }
            Op::ReportZones => self.values = pages.words(self.count as usize * ZONE_WORDS),
            _ => {}
        }
    }

    fn descriptor(&self) -> Descriptor {
        let number = match self.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => 2,
            Op::Discard => 3,
            Op::WriteZeroes => 5,
            Op::ZoneOpen => 10,
            Op::ZoneClose => 11,
            Op::ZoneFinish => 12,
            Op::ZoneAppend => 13,
            Op::ZoneResetAll => 14,
            Op::ZoneReset => 15,
            Op::ReportZones => 18,
        };
        Descriptor { operation: number | u32::from(self.is_fua) << 13, count: self.whole(), sector: self.sector }
    }
}

/// The driver: what waits, and what the server has.
pub(super) struct Kernel {
    /// Words of a block.
    unit_words: usize,
    /// Of each tag the memory of its request.
    pages: Vec<Arc<Pages>>,
    /// Whether the server wants that registered.
    registers: bool,
    /// With the tag that it had before its server was killed, if it is to have that again.
    queue: Vec<(Option<usize>, Request)>,
    tags: Vec<Option<Request>>,
}

impl Kernel {
    pub fn new(unit: u32, pages: Vec<Arc<Pages>>, registers: bool) -> Self {
        let tags = pages.iter().map(|_| None).collect();
        Self { unit_words: unit as usize * SECTOR_WORDS, pages, registers, queue: Vec::new(), tags }
    }

    pub fn submit(&mut self, request: Request) {
        self.queue.push((None, request));
    }

    /// Requests that are not answered.
    pub fn pending(&self) -> impl Iterator<Item = &Request> {
        self.queue.iter().map(|(_, request)| request).chain(self.tags.iter().flatten())
    }

    /// Requests that the server has.
    pub fn sent(&self) -> impl Iterator<Item = &Request> {
        self.tags.iter().flatten()
    }

    /// Whether a request may go: of writes in a zone one does, in their order.
    fn may_go(&self, request: &Request) -> bool {
        let is_before = |other: &Request| other.ordered_in == request.ordered_in && other.id < request.id;
        request.ordered_in.is_none() || !self.pending().any(is_before)
    }

    pub fn can_dispatch(&self) -> bool {
        self.tags.iter().any(Option::is_none) && self.queue.iter().any(|(_, request)| self.may_go(request))
    }

    /// Gives any request that may go any tag that is free.
    pub fn dispatch(&mut self, choices: &mut Choices) -> Option<(u32, u64, Descriptor)> {
        let ready: Vec<usize> = (0..self.queue.len()).filter(|at| self.may_go(&self.queue[*at].1)).collect();
        let free: Vec<usize> = (0..self.tags.len()).filter(|tag| self.tags[*tag].is_none()).collect();
        if ready.is_empty() || free.is_empty() {
            return None;
        }
        let (wanted, request) = self.queue.remove(ready[choices.below("which", ready.len() as u64) as usize]);
        let tag = wanted.filter(|tag| free.contains(tag));
        let tag = tag.unwrap_or_else(|| free[choices.below("tag", free.len() as u64) as usize]);
        let (id, mut descriptor) = (request.id, request.descriptor());
        self.pages[tag].fill(&request.brings(), self.unit_words);
        let is_registered = self.registers && choices.usual("is-registered", 3, 4);
        self.pages[tag].register(is_registered);
        if self.registers && !is_registered {
            descriptor.operation |= UNREGISTERED;
        }
        self.tags[tag] = Some(request);
        Some((tag as u32, id, descriptor))
    }

    /// The request of a tag is answered, and with it those that were merged into it.
    pub fn commit(&mut self, tag: u32) -> Vec<Request> {
        let Some(mut request) = self.tags.get_mut(tag as usize).and_then(Option::take) else { return Vec::new() };
        self.pages[tag as usize].register(false);
        request.find(&self.pages[tag as usize], self.unit_words);
        let mut all = core::mem::take(&mut request.merged);
        all.insert(0, request);
        all
    }

    /// The server is gone: what it had comes again. While a write waits for a tag again, the scheduler can merge the next one of its
    /// zone into it, up to so many sectors.
    pub fn reissue(&mut self, keeps_tags: bool, merge: Option<u32>) {
        for tag in 0..self.tags.len() {
            let Some(mut request) = self.tags[tag].take() else { continue };
            let follows = |other: &Request| {
                other.ordered_in == request.ordered_in
                    && (other.op, other.is_fua) == (request.op, request.is_fua)
                    && other.sector == request.sector + u64::from(request.whole())
                    && merge.is_some_and(|most| request.whole() + other.whole() <= most)
            };
            let next = self.queue.iter().position(|(_, other)| request.ordered_in.is_some() && follows(other));
            if let Some(next) = next {
                request.merged.push(self.queue.remove(next).1);
            }
            request.is_again = true;
            self.queue.push((keeps_tags.then_some(tag), request));
        }
    }

    /// Appends that wait to come again.
    pub fn again(&self) -> impl Iterator<Item = &Request> {
        self.queue.iter().map(|(_, request)| request).filter(|request| request.is_again && request.op == Op::ZoneAppend)
    }
}

impl UserCopy for Kernel {
    fn take(&mut self, tag: u32, data: &Data) -> Result<(), Status> {
        self.pages[tag as usize].copy_out(0, data)
    }

    fn give(&mut self, tag: u32, data: &Data) -> Result<(), Status> {
        self.pages[tag as usize].copy_in(0, data)
    }
}
