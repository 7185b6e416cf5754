//! What a session wants sent, without copying the data it sends.

use core::mem;

use super::wire::{self, Headers, Request};
use crate::block::Data;
use crate::frontend::pool::{Owner, Pool};
use crate::prelude::*;

/// Bytes that a segment of headers begins with. It takes headers until it is full, so it grows only for what is longer.
const SEGMENT_BYTES: usize = 1024;
/// Bytes for which there is always room: the longest header and message of an answer to a request.
const REPLY_BYTES: usize = 128;
/// A segment that grew beyond this is not kept.
const KEPT_BYTES: usize = 16 << 10;

/// A piece of a [`Transmit`].
#[derive(Debug)]
pub enum Segment {
    /// Headers and messages.
    Bytes(Vec<u8>),
    /// What was read, whole, in the memory of its request.
    Data(Data),
}

/// A batch of replies: its segments are to be sent in order, all of them, and the batch then goes back to the session.
#[derive(Debug, Default)]
pub struct Transmit {
    /// What to send. The driver may move the segments out, but puts all of them back before it returns the batch.
    pub segments: Vec<Segment>,
    replies: usize,
    handshake_bytes: usize,
}

/// Replies that wait to be sent, and what they are made of.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Whose memory it sends, once there is any.
    pub owner: Owner,
    queued: Transmit,
    /// The last batch that came back, to be filled again.
    spare: Transmit,
    spare_bytes: Vec<Vec<u8>>,
    sending: bool,
    /// Replies in `queued` and in the batch that is being sent.
    unsent: usize,
    /// Bytes of the handshake in both.
    handshake_bytes: usize,
}

impl Outbox {
    /// The bytes to which small things are added.
    fn bytes(&mut self) -> &mut Vec<u8> {
        let has_room = |bytes: &Vec<u8>| bytes.capacity() - bytes.len() >= REPLY_BYTES;
        if !matches!(self.queued.segments.last(), Some(Segment::Bytes(bytes)) if has_room(bytes)) {
            let bytes = self.spare_bytes.pop().unwrap_or_else(|| Vec::with_capacity(SEGMENT_BYTES));
            self.queued.segments.push(Segment::Bytes(bytes));
        }
        match self.queued.segments.last_mut() {
            Some(Segment::Bytes(bytes)) => bytes,
            _ => unreachable!("bytes were just put last"),
        }
    }

    /// Adds a message of the handshake.
    pub fn handshake(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let bytes = self.bytes();
        let before = bytes.len();
        put(bytes);
        let added = bytes.len() - before;
        self.queued.handshake_bytes += added;
        self.handshake_bytes += added;
    }

    /// Bytes of the handshake that are not known to be sent.
    pub fn handshake_bytes(&self) -> usize {
        self.handshake_bytes
    }

    /// Adds a reply without data: success, or an error with a message for people.
    pub fn reply(&mut self, headers: Headers, request: &Request, error: u32, message: &str) {
        self.count();
        let bytes = self.bytes();
        match (headers, error) {
            (Headers::Simple, error) => wire::put_simple_reply(bytes, request.cookie, error),
            (_, 0) => wire::put_chunk(bytes, headers, request, wire::chunk::NONE, 0),
            (_, error) => {
                wire::put_chunk(bytes, headers, request, wire::chunk::ERROR, 6 + message.len());
                bytes.extend_from_slice(&error.to_be_bytes());
                bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
                bytes.extend_from_slice(message.as_bytes());
            }
        }
    }

    /// Adds the reply to a READ that succeeded.
    pub fn reply_data(&mut self, headers: Headers, request: &Request, data: Data) {
        self.count();
        let bytes = self.bytes();
        if headers == Headers::Simple {
            wire::put_simple_reply(bytes, request.cookie, 0);
        } else {
            wire::put_chunk(bytes, headers, request, wire::chunk::OFFSET_DATA, 8 + data.len());
            bytes.extend_from_slice(&request.offset.to_be_bytes());
        }
        self.queued.segments.push(Segment::Data(data));
    }

    /// Adds a reply whose payload `put` writes; it is `length` bytes long.
    pub fn reply_chunk(
        &mut self,
        headers: Headers,
        request: &Request,
        kind: u16,
        length: usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) {
        self.count();
        let bytes = self.bytes();
        wire::put_chunk(bytes, headers, request, kind, length);
        let payload = bytes.len();
        put(bytes);
        debug_assert_eq!(bytes.len() - payload, length, "the chunk is as long as its header says");
    }

    fn count(&mut self) {
        self.queued.replies += 1;
        self.unsent += 1;
    }

    /// Replies that are not sent yet.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// Whether nothing is left to send and nothing is being sent.
    pub fn is_idle(&self) -> bool {
        !self.sending && self.queued.segments.is_empty()
    }

    /// Takes all that waits; `None` while a batch is being sent.
    pub fn poll(&mut self) -> Option<Transmit> {
        if self.sending || self.queued.segments.is_empty() {
            return None;
        }
        self.sending = true;
        Some(mem::replace(&mut self.queued, mem::take(&mut self.spare)))
    }

    /// Takes a batch back, sent or not. Returns the bytes of the pool that it held.
    pub fn sent(&mut self, mut batch: Transmit, pool: &mut Pool) -> usize {
        debug_assert!(self.sending, "a batch comes back once");
        self.sending = false;
        let released = self.recycle(&mut batch, pool);
        self.spare = batch;
        released
    }

    /// Forgets what waits. Returns the bytes of the pool that it held.
    pub fn discard(&mut self, pool: &mut Pool) -> usize {
        let mut queued = mem::take(&mut self.queued);
        self.recycle(&mut queued, pool)
    }

    fn recycle(&mut self, batch: &mut Transmit, pool: &mut Pool) -> usize {
        self.unsent -= mem::take(&mut batch.replies);
        self.handshake_bytes -= mem::take(&mut batch.handshake_bytes);
        let mut released = 0;
        for segment in batch.segments.drain(..) {
            match segment {
                Segment::Bytes(mut bytes) if bytes.capacity() <= KEPT_BYTES => {
                    bytes.clear();
                    self.spare_bytes.push(bytes);
                }
                Segment::Bytes(_) => {}
                Segment::Data(data) => {
                    released += Pool::cost(data.len());
                    pool.give(self.owner, data);
                }
            }
        }
        released
    }
}
