//! Requests become bios, completions become replies ("Transmission").

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::mem;
use core::ops::Range;

use slab::Slab;

use super::allocation::{ALLOCATED, Descriptor, describe, of_extents, of_zones};
use super::export::Export;
use super::handshake::{ALLOCATION_ID, Agreed};
use super::session::{Close, Receive, SessionLimits};
use super::transmit::Outbox;
use super::wire::{self, Headers, Request, chunk, command, command_flag as flag, error};
use crate::block::{Bio, Data, Extent, Flags, Op, Payload, Status};
use crate::frontend::pool::{Loan, Owner, Pool};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};
use crate::zone::Zone;

/// The longest payload that is read to its end in order to refuse it; more is taken for an attack.
const DRAIN_MAX: u64 = 64 << 20;
/// From here on the rest of a payload is worth a system call of its own.
const DIRECT_MIN: usize = 16 << 10;
/// Zones that one BLOCK_STATUS looks at. Clients ask again for what the reply leaves out.
const ZONES_PER_REPLY: usize = 128;
/// Extents of a device without zones that one BLOCK_STATUS tells of.
const EXTENTS_PER_REPLY: usize = 256;

/// A request that the stack works on.
#[derive(Debug)]
struct Pending {
    request: Request,
    /// Bytes that are done, for a request that is done piece by piece.
    done: u64,
    /// Bytes of the piece that is in flight.
    piece: u64,
}

/// What the next byte from the client belongs to.
#[derive(Debug)]
enum Incoming {
    Header,
    /// Nothing is read: this READ or WRITE waits for memory.
    Waiting(Request),
    /// The payload of a WRITE.
    Payload {
        request: Request,
        data: Data,
        filled: usize,
    },
    /// The payload of a WRITE, whose memory the driver has.
    Lent(Request),
    /// The payload of a request that is refused.
    Drain {
        request: Request,
        left: u64,
        refusal: Refusal,
    },
}

/// Why a request does not become a bio.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    error: u32,
    words: Words,
}

/// What the client is told of it.
#[derive(Clone, Copy, Debug)]
enum Words {
    Known(&'static str),
    /// That it sends parts of blocks.
    Unaligned,
}

fn refuse(error: u32, message: &'static str) -> Option<Refusal> {
    Some(Refusal { error, words: Words::Known(message) })
}

/// How a bio ended, and why if it failed, in words for the client.
pub(super) type Ended<'a> = (Status, &'a str);

/// The longest message of an error, in bytes; the specification allows 4096 ("Strings").
const MESSAGE_BYTES: usize = 512;

/// The front of a message that is sent of it.
fn bounded(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_BYTES)]
}

/// A connection in transmission.
#[derive(Debug)]
pub(super) struct Transmission {
    owner: Owner,
    export: Arc<Export>,
    headers: Headers,
    allocation: bool,
    limits: SessionLimits,
    pending: Slab<Pending>,
    incoming: Incoming,
    partial: [u8; wire::REQUEST_BYTES_MAX],
    partial_len: usize,
    bios: VecDeque<(u32, Box<Bio>)>,
    // The boxes are what is pooled: a bio moves through the stack without being copied.
    #[expect(clippy::vec_box)]
    spare_bios: Vec<Box<Bio>>,
    /// Requests that ask what lies in a device without zones.
    questions: VecDeque<u32>,
    spare_zones: Vec<Vec<Zone>>,
    spare_extents: Vec<Vec<Extent>>,
    descriptors: Vec<Descriptor>,
    /// Bytes of the pool in requests and in replies that are not sent yet.
    held_bytes: usize,
    complaint: Complaint,
}

/// What a log should know of the client.
#[derive(Debug)]
enum Complaint {
    None,
    New(String),
    Told,
}

impl Transmission {
    pub fn new(owner: Owner, export: Arc<Export>, agreed: Agreed, limits: SessionLimits) -> Self {
        Self {
            owner,
            export,
            headers: agreed.headers,
            allocation: agreed.allocation,
            limits,
            pending: Slab::with_capacity(limits.requests),
            incoming: Incoming::Header,
            partial: [0; wire::REQUEST_BYTES_MAX],
            partial_len: 0,
            bios: VecDeque::with_capacity(limits.requests),
            spare_bios: Vec::with_capacity(limits.requests),
            questions: VecDeque::new(),
            spare_zones: Vec::new(),
            spare_extents: Vec::new(),
            descriptors: Vec::new(),
            held_bytes: 0,
            complaint: Complaint::None,
        }
    }

    pub fn export(&self) -> &Arc<Export> {
        &self.export
    }

    /// Takes bytes off the front until they are used up, a bound is reached or the connection has to end.
    pub fn handle_bytes(&mut self, bytes: &mut &[u8], pool: &mut Pool, out: &mut Outbox) -> Option<Close> {
        loop {
            let goes_on = match self.incoming {
                Incoming::Header if self.pending.len() + out.unsent() >= self.limits.requests => false,
                Incoming::Header => match self.header(bytes)? {
                    Err(magic) => return Some(Close::RequestMagic(magic)),
                    Ok(request) => match self.handle_request(request, pool, out) {
                        None => true,
                        close => return close,
                    },
                },
                Incoming::Waiting(_) => self.resume(pool, out),
                Incoming::Payload { .. } => self.fill(bytes),
                Incoming::Lent(_) => false,
                Incoming::Drain { .. } => self.drain(bytes, out),
            };
            if !goes_on {
                return None;
            }
        }
    }

    /// Moves bytes into the memory of a WRITE. Whether it is full.
    fn fill(&mut self, bytes: &mut &[u8]) -> bool {
        let Incoming::Payload { data, filled, .. } = &mut self.incoming else { return false };
        let (front, rest) = bytes.split_at(bytes.len().min(data.len() - *filled));
        data.write(*filled, front);
        *filled += front.len();
        *bytes = rest;
        if *filled < data.len() {
            return false;
        }
        self.payload_complete();
        true
    }

    /// Reads over a payload, then refuses its request. Whether it came to its end.
    fn drain(&mut self, bytes: &mut &[u8], out: &mut Outbox) -> bool {
        let Incoming::Drain { request, left, refusal } = &mut self.incoming else { return false };
        let drained = (*left).min(bytes.len() as u64);
        *bytes = &bytes[drained as usize..];
        *left -= drained;
        if *left > 0 {
            return false;
        }
        let (request, refusal) = (*request, *refusal);
        self.turn_down(&request, refusal, out);
        self.incoming = Incoming::Header;
        true
    }

    /// The next header if all of it is there.
    #[inline]
    fn header(&mut self, bytes: &mut &[u8]) -> Option<Result<Request, u32>> {
        let whole = Request::bytes(self.headers);
        if self.partial_len == 0
            && let Some((header, rest)) = bytes.split_at_checked(whole)
        {
            *bytes = rest;
            return Some(Request::parse(header, self.headers));
        }
        let (front, rest) = bytes.split_at(bytes.len().min(whole - self.partial_len));
        self.partial[self.partial_len..][..front.len()].copy_from_slice(front);
        self.partial_len += front.len();
        *bytes = rest;
        if self.partial_len < whole {
            return None;
        }
        self.partial_len = 0;
        Some(Request::parse(&self.partial, self.headers))
    }

    fn handle_request(&mut self, request: Request, pool: &mut Pool, out: &mut Outbox) -> Option<Close> {
        if request.command == command::DISC {
            return Some(Close::Client);
        }
        // A WRITE has a payload even where a client forgets to say so: there is no other way to read on behind it.
        let announced = self.headers == Headers::Extended && request.has(flag::PAYLOAD_LEN);
        let payload = if announced || request.command == command::WRITE { request.length } else { 0 };
        if payload > DRAIN_MAX {
            return Some(Close::Payload(payload));
        }
        match self.refusal(&request) {
            Some(refusal) if payload > 0 => self.incoming = Incoming::Drain { request, left: payload, refusal },
            Some(refusal) => self.turn_down(&request, refusal, out),
            None => self.start(request, pool, out),
        }
        None
    }

    /// Answers a request that does not become a bio.
    fn turn_down(&mut self, request: &Request, refusal: Refusal, out: &mut Outbox) {
        match refusal.words {
            Words::Known(message) => out.reply(self.headers, request, refusal.error, message),
            Words::Unaligned => {
                let message = self.export.unaligned(request.offset, request.length);
                out.reply(self.headers, request, refusal.error, &message);
                if matches!(self.complaint, Complaint::None) {
                    self.complaint = Complaint::New(message);
                }
            }
        }
    }

    /// What a log should be told of the client: once, whatever it goes on to do.
    pub fn poll_complaint(&mut self) -> Option<String> {
        let Complaint::New(message) = &mut self.complaint else { return None };
        let message = mem::take(message);
        self.complaint = Complaint::Told;
        Some(message)
    }

    /// What is wrong with a request, as far as the export alone can tell ("Error values").
    fn refusal(&self, request: &Request) -> Option<Refusal> {
        let writes = matches!(request.command, command::WRITE | command::TRIM | command::WRITE_ZEROES);
        if writes && self.export.read_only {
            return refuse(error::EPERM, "the export is read-only");
        }
        let Some(flags) = self.known_flags(request.command) else {
            return refuse(error::EINVAL, "the export does not offer this command");
        };
        if request.flags & !flags != 0 {
            return refuse(error::EINVAL, "a flag does not go with this command");
        }
        if request.command != command::FLUSH {
            return self.refusal_of_range(request);
        }
        let plain = request.offset == 0 && request.length == 0;
        if plain { None } else { refuse(error::EINVAL, "a flush has no offset and no length") }
    }

    fn refusal_of_range(&self, request: &Request) -> Option<Refusal> {
        let export = self.export.as_ref();
        if request.offset.checked_add(request.length).is_none_or(|end| end > export.size) {
            let grows = matches!(request.command, command::WRITE | command::WRITE_ZEROES);
            let error = if grows { error::ENOSPC } else { error::EINVAL };
            return refuse(error, "the request reaches beyond the end of the export");
        }
        if (request.offset | request.length) & u64::from(export.block - 1) != 0 {
            return Some(Refusal { error: error::EINVAL, words: Words::Unaligned });
        }
        let carries = matches!(request.command, command::READ | command::WRITE);
        if carries && request.length > export.payload_max.into() {
            let error = if request.has(flag::DF) { error::EOVERFLOW } else { error::EINVAL };
            return refuse(error, "the request is longer than the maximum block size");
        }
        if request.command == command::BLOCK_STATUS && request.length == 0 {
            return refuse(error::EINVAL, "there is no block status of nothing");
        }
        None
    }

    /// The flags that go with a command; `None` if the export does not offer it.
    fn known_flags(&self, which: u16) -> Option<u16> {
        let extended = self.headers == Headers::Extended;
        let own = match which {
            command::READ if self.headers == Headers::Simple => 0,
            command::READ => flag::DF,
            command::WRITE if extended => flag::PAYLOAD_LEN,
            command::WRITE | command::FLUSH => 0,
            command::TRIM => self.export.trim_piece.map(|_| 0)?,
            command::WRITE_ZEROES => self.export.zeroes_piece.map(|_| flag::NO_HOLE | flag::FAST_ZERO)?,
            command::BLOCK_STATUS if self.allocation => flag::REQ_ONE,
            _ => return None,
        };
        // "The server MUST accept all commands with this bit set."
        Some(own | flag::FUA)
    }

    /// A request in which nothing is wrong.
    fn start(&mut self, request: Request, pool: &mut Pool, out: &mut Outbox) {
        match request.command {
            command::FLUSH => self.submit(request, Op::Flush, Payload::None),
            command::BLOCK_STATUS => self.start_block_status(request),
            _ if request.length == 0 => out.reply(self.headers, &request, 0, ""),
            command::READ | command::WRITE => {
                self.incoming = Incoming::Waiting(request);
                self.admit(request, pool, out);
            }
            _ => {
                let tag = self.pending.insert(Pending { request, done: 0, piece: 0 }) as u32;
                self.next_piece(tag);
            }
        }
    }

    /// Gives a READ or WRITE its memory, or refuses it if there is none. Whether it does not wait any more.
    fn admit(&mut self, request: Request, pool: &mut Pool, out: &mut Outbox) -> bool {
        let length = request.length as usize;
        let cost = Pool::cost(length);
        if self.held_bytes > 0 && self.held_bytes + cost > self.limits.bytes {
            return false;
        }
        let (data, before) = match pool.take(length, self.held_bytes) {
            Loan::Now(data, before) => (data, before),
            Loan::Later => return false,
            Loan::Never => {
                self.refuse_for_memory(request, out);
                return true;
            }
        };
        self.held_bytes += cost;
        if request.command == command::READ {
            if before.is_some_and(|owner| owner != self.owner) {
                data.fill(0);
            }
            self.incoming = Incoming::Header;
            self.submit(request, Op::Read, Payload::Data(data));
        } else {
            self.incoming = Incoming::Payload { request, data, filled: 0 };
        }
        true
    }

    /// Answers a READ or WRITE for which there is no memory; the payload of a WRITE is read over first.
    fn refuse_for_memory(&mut self, request: Request, out: &mut Outbox) {
        let words = Words::Known("the server has no memory for a request of this length");
        let refusal = Refusal { error: error::ENOMEM, words };
        if request.command == command::WRITE {
            self.incoming = Incoming::Drain { request, left: request.length, refusal };
        } else {
            self.incoming = Incoming::Header;
            self.turn_down(&request, refusal, out);
        }
    }

    /// Tries again to give a waiting request its memory. Whether none waits any more.
    pub fn resume(&mut self, pool: &mut Pool, out: &mut Outbox) -> bool {
        match self.incoming {
            Incoming::Waiting(request) => self.admit(request, pool, out),
            _ => true,
        }
    }

    fn payload_complete(&mut self) {
        if let Incoming::Payload { request, data, .. } = mem::replace(&mut self.incoming, Incoming::Header) {
            self.submit(request, Op::Write, Payload::Data(data));
        }
    }

    /// What the driver should receive next; it has handed over all that it received before.
    pub fn poll_receive(&mut self, out: &Outbox) -> Receive {
        match mem::replace(&mut self.incoming, Incoming::Header) {
            Incoming::Payload { request, data, filled } if data.len() - filled >= DIRECT_MIN => {
                self.incoming = Incoming::Lent(request);
                return Receive::Payload { data, filled };
            }
            unchanged => self.incoming = unchanged,
        }
        if self.wants_bytes(out) { Receive::Bytes } else { Receive::Nothing }
    }

    /// Whether no bound is reached.
    pub fn wants_bytes(&self, out: &Outbox) -> bool {
        match &self.incoming {
            Incoming::Header => self.pending.len() + out.unsent() < self.limits.requests,
            Incoming::Waiting(_) | Incoming::Lent(_) => false,
            Incoming::Payload { .. } | Incoming::Drain { .. } => true,
        }
    }

    /// Takes lent memory back, now filled up to `filled`.
    pub fn handle_payload(&mut self, data: Data, filled: usize) {
        let Incoming::Lent(request) = mem::replace(&mut self.incoming, Incoming::Header) else {
            unreachable!("memory came back that was not lent")
        };
        let complete = filled == data.len();
        self.incoming = Incoming::Payload { request, data, filled };
        if complete {
            self.payload_complete();
        }
    }

    /// Whether a request waits for memory.
    pub fn is_waiting(&self) -> bool {
        matches!(self.incoming, Incoming::Waiting(_))
    }

    /// Whether a payload is there in part.
    pub fn is_mid_request(&self) -> bool {
        !matches!(self.incoming, Incoming::Header | Incoming::Waiting(_))
    }

    /// Gives up what was received of an incomplete request. Lent memory is given up when it comes back.
    pub fn abandon(&mut self, pool: &mut Pool) {
        match mem::replace(&mut self.incoming, Incoming::Header) {
            Incoming::Payload { data, .. } => self.release(data, pool),
            lent @ Incoming::Lent(_) => self.incoming = lent,
            _ => {}
        }
    }

    /// Whether the stack works on a request.
    pub fn is_working(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether nothing is in the stack and nothing lent.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && !matches!(self.incoming, Incoming::Lent(_))
    }

    pub fn poll_bio(&mut self) -> Option<(u32, Box<Bio>)> {
        self.bios.pop_front()
    }

    /// The whole request as one bio.
    fn submit(&mut self, request: Request, op: Op, payload: Payload) {
        let tag = self.pending.insert(Pending { request, done: 0, piece: request.length }) as u32;
        let fua = if op == Op::Write && request.has(flag::FUA) { Flags::FUA } else { Flags::NONE };
        self.queue(tag, op, request.offset, request.length, fua, payload);
    }

    fn queue(&mut self, tag: u32, op: Op, offset: u64, bytes: u64, flags: Flags, payload: Payload) {
        let mut bio = self.spare_bios.pop().unwrap_or_else(|| Box::new(Bio::new(op, Sector::ZERO, 0, Payload::None)));
        bio.op = op;
        bio.flags = flags;
        bio.sector = Sector::from_bytes(offset);
        bio.sectors = (bytes / u64::from(SECTOR_BYTES)) as u32;
        bio.payload = payload;
        self.bios.push_back((tag, bio));
    }

    /// The next piece of a TRIM or WRITE_ZEROES. They may be as long as the disk; a bio may not.
    fn next_piece(&mut self, tag: u32) {
        let zeroes = self.pending[tag as usize].request.command == command::WRITE_ZEROES;
        let longest = if zeroes { self.export.zeroes_piece } else { self.export.trim_piece };
        let longest = longest.map_or(0, |sectors| u64::from(sectors) * u64::from(SECTOR_BYTES));
        let Pending { request, done, piece } = &mut self.pending[tag as usize];
        *piece = (request.length - *done).min(longest);
        let (offset, bytes) = (request.offset + *done, *piece);
        let flags = [(flag::FAST_ZERO, Flags::FAST), (flag::NO_HOLE, Flags::NO_UNMAP)]
            .into_iter()
            .filter(|(wire, _)| request.has(*wire))
            .fold(Flags::NONE, |flags, (_, flag)| flags.with(flag));
        self.queue(tag, if zeroes { Op::WriteZeroes } else { Op::Discard }, offset, bytes, flags, Payload::None);
    }

    pub fn handle_completion(&mut self, tag: u32, bio: Box<Bio>, ended: Ended<'_>, pool: &mut Pool, out: &mut Outbox) {
        let (mut bio, (status, why)) = (bio, ended);
        let payload = mem::take(&mut bio.payload);
        let request = self.pending[tag as usize].request;
        let carries = matches!(request.command, command::READ | command::WRITE);
        assert_eq!(carries, matches!(payload, Payload::Data(_)), "a bio comes back with the memory it went with");
        match payload {
            Payload::Data(data) if request.command == command::READ && status.is_ok() => {
                self.pending.remove(tag as usize);
                out.reply_data(self.headers, &request, data);
            }
            Payload::Data(data) => {
                self.release(data, pool);
                self.finish(tag, (status, why), out);
            }
            Payload::Zones(zones) => self.report_done(tag, zones, (status, why), out),
            _ => self.piece_done(tag, (status, why), out),
        }
        self.spare_bios.push(bio);
    }

    /// A bio without memory is done.
    fn piece_done(&mut self, tag: u32, (status, why): Ended<'_>, out: &mut Outbox) {
        let Pending { request, done, piece } = &mut self.pending[tag as usize];
        if !status.is_ok() || *done == request.length {
            return self.finish(tag, (status, why), out);
        }
        *done += *piece;
        if *done < request.length {
            self.next_piece(tag);
        } else if request.has(flag::FUA) {
            // No device promises FUA for what writes no data; a flush holds everywhere.
            self.queue(tag, Op::Flush, 0, 0, Flags::NONE, Payload::None);
        } else {
            self.finish(tag, (status, why), out);
        }
    }

    fn finish(&mut self, tag: u32, (status, why): Ended<'_>, out: &mut Outbox) {
        let Pending { request, .. } = self.pending.remove(tag as usize);
        let error = match status.nbd() {
            // "The server SHOULD NOT return NBD_ENOTSUP except [...] when NBD_CMD_FLAG_FAST_ZERO is supported."
            error::ENOTSUP if !request.has(flag::FAST_ZERO) => error::EINVAL,
            error => error,
        };
        let message = if why.is_empty() { status.name() } else { bounded(why) };
        out.reply(self.headers, &request, error, message);
    }

    fn release(&mut self, data: Data, pool: &mut Pool) {
        self.held_bytes -= Pool::cost(data.len());
        pool.give(self.owner, data);
    }

    /// Memory of replies went back to the pool.
    pub fn released(&mut self, bytes: usize) {
        self.held_bytes -= bytes;
    }

    fn start_block_status(&mut self, request: Request) {
        let tag = self.pending.insert(Pending { request, done: 0, piece: 0 }) as u32;
        if !self.export.zoned {
            return self.questions.push_back(tag);
        }
        let zones = self.spare_zones.pop().unwrap_or_else(|| Vec::with_capacity(ZONES_PER_REPLY));
        self.queue(tag, Op::ReportZones, request.offset, 0, Flags::NONE, Payload::Zones(zones));
    }

    /// The sectors of a question, and a list for the answer.
    pub fn poll_question(&mut self) -> Option<(u32, Range<u64>, Vec<Extent>)> {
        let tag = self.questions.pop_front()?;
        let Request { offset, length, .. } = self.pending[tag as usize].request;
        let (unit, extents) = (u64::from(SECTOR_BYTES), self.spare_extents.pop());
        let sectors = offset / unit..(offset + length).div_ceil(unit);
        Some((tag, sectors, extents.unwrap_or_else(|| Vec::with_capacity(EXTENTS_PER_REPLY))))
    }

    pub fn handle_extents(&mut self, tag: u32, mut extents: Vec<Extent>, out: &mut Outbox) {
        let Request { offset, .. } = self.pending[tag as usize].request;
        self.reply_descriptors(tag, of_extents(offset, &extents), out);
        extents.clear();
        self.spare_extents.push(extents);
    }

    fn report_done(&mut self, tag: u32, mut zones: Vec<Zone>, (status, why): Ended<'_>, out: &mut Outbox) {
        if status.is_ok() {
            self.reply_descriptors(tag, of_zones(&zones), out);
        } else {
            self.finish(tag, (status, why), out);
        }
        zones.clear();
        self.spare_zones.push(zones);
    }

    /// "NBD_REPLY_TYPE_BLOCK_STATUS" or, where lengths are wide, "NBD_REPLY_TYPE_BLOCK_STATUS_EXT".
    fn reply_descriptors(&mut self, tag: u32, runs: impl Iterator<Item = (Sector, bool)>, out: &mut Outbox) {
        let Pending { request, .. } = self.pending.remove(tag as usize);
        let all = &mut self.descriptors;
        all.clear();
        describe(runs, request.offset..request.offset + request.length, all);
        if all.is_empty() {
            // "The server MUST return at least one status descriptor."
            all.push(Descriptor { length: request.length, state: ALLOCATED });
        }
        let count = if request.has(flag::REQ_ONE) { 1 } else { all.len() };
        let descriptors = &all[..count];
        if self.headers == Headers::Extended {
            out.reply_chunk(self.headers, &request, chunk::BLOCK_STATUS_EXT, 8 + 16 * count, |bytes| {
                bytes.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
                bytes.extend_from_slice(&(count as u32).to_be_bytes());
                for Descriptor { length, state } in descriptors {
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(&u64::from(*state).to_be_bytes());
                }
            });
        } else {
            out.reply_chunk(self.headers, &request, chunk::BLOCK_STATUS, 4 + 8 * count, |bytes| {
                bytes.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
                for Descriptor { length, state } in descriptors {
                    // A request without extended headers is no longer than this, so no extent is.
                    bytes.extend_from_slice(&(*length as u32).to_be_bytes());
                    bytes.extend_from_slice(&state.to_be_bytes());
                }
            });
        }
    }
}
