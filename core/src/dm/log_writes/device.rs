//! Which bios are logged, and when each of them has become durable.

use alloc::collections::VecDeque;
use core::fmt;

use slab::Slab;

use super::format::{DISCARD, FLUSH, FUA};
use super::log::{Entry, LOG, Log};
use crate::block::{Bio, BlockDevice, Cx, DeviceId, Event, Flags, Limits, MessageError, Op, Payload, Reason, Status};
use crate::prelude::*;
use crate::sector::Sector;

/// The word of frames of flushes that nobody asked for.
const OWN_FLUSH: u64 = u64::MAX - 1;

/// A device that logs what is written to it.
pub(super) struct LogWrites {
    /// The data device and the log device.
    below: [DeviceId; 2],
    limits: Limits,
    /// Whether the data device can lose completed writes.
    has_cache: bool,
    /// Whether it takes discards; if not they are logged all the same.
    discards: bool,
    log: Log,
    /// What is at the data device.
    sent: Slab<Sent>,
    /// What was done and may not be durable yet, in order of completion.
    unflushed: VecDeque<Entry>,
    /// How many have left `unflushed` so far.
    flushed: u64,
    /// Writes that wait for memory.
    waiting: VecDeque<Box<Bio>>,
    /// While a flush that nobody asked for is under way: what it covers.
    own_flush: Option<u64>,
    /// Whether the mapped device is suspended: then the log is brought to an end.
    ends: bool,
    was_disabled: bool,
}

/// A bio at the data device.
struct Sent {
    entry: Entry,
    /// How many writes were done before it was sent: these a flush covers.
    covers: u64,
}

impl LogWrites {
    /// A log of what is written to the first of `below`, in the second; writes are cut at `longest` sectors.
    pub fn new(below: [DeviceId; 2], data: &Limits, log: &Limits, longest: u32) -> Self {
        let limits = Limits {
            max_sectors: Some(longest),
            // It would be logged as nothing: there is no flag for it.
            max_write_zeroes: None,
            max_discard: data.max_discard.or(Some(u32::MAX)),
            write_cache: true,
            ..data.clone()
        };
        Self {
            below,
            limits,
            has_cache: data.write_cache,
            discards: data.max_discard.is_some(),
            log: Log::new(below[1], data.block_sectors(), log.capacity),
            sent: Slab::new(),
            unflushed: VecDeque::new(),
            flushed: 0,
            waiting: VecDeque::new(),
            own_flush: None,
            ends: false,
            was_disabled: false,
        }
    }

    /// How many writes are done.
    fn done(&self) -> u64 {
        self.flushed + self.unflushed.len() as u64
    }

    /// Sends a bio to the data device, with what is to be logged of it kept. True if it is done at once, as the device
    /// has nothing to do for it.
    fn send(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) -> bool {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(bio.op == Op::Flush || bio.flags.has(Flags::PREFLUSH), FLUSH)
            | flag(bio.flags.has(Flags::FUA), FUA)
            | flag(bio.op == Op::Discard, DISCARD);
        let Some(entry) = self.log.entry(&bio, flags) else {
            // Not written, and so rightly not in the log.
            cx.fail(bio, Reason::NoMemory);
            return false;
        };
        let sent = Sent { entry, covers: self.done() };
        if self.is_for_nobody(&bio) {
            self.note(sent, Status::Ok);
            cx.complete(bio, Status::Ok);
            return true;
        }
        self.strip(&mut bio);
        let key = self.sent.insert(sent);
        cx.submit(self.below[0], bio, key as u64);
        false
    }

    /// Passes on what is not logged.
    fn pass(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.is_for_nobody(&bio) {
            return cx.complete(bio, Status::Ok);
        }
        self.strip(&mut bio);
        cx.remap(self.below[0], bio);
    }

    /// Whether the data device does nothing of the kind.
    fn is_for_nobody(&self, bio: &Bio) -> bool {
        match bio.op {
            Op::Flush => !self.has_cache,
            Op::Discard => !self.discards,
            _ => false,
        }
    }

    /// Takes off what means nothing to a device without a cache.
    fn strip(&self, bio: &mut Bio) {
        if !self.has_cache {
            bio.flags = bio.flags.without(Flags::FUA).without(Flags::PREFLUSH);
        }
    }

    /// Notes what is done.
    fn note(&mut self, Sent { entry, covers }: Sent, status: Status) {
        if !status.is_ok() {
            // What it left on the disk nobody knows, and nobody may rely on.
            self.log.discard(entry);
        } else if entry.flags & FLUSH != 0 {
            self.log_until(covers);
            self.log.push(entry);
        } else if entry.flags & FUA != 0 {
            // What it was written over came first. The kernel logs it behind, so a replay ends with the older data.
            let covered = self.unflushed.iter().rposition(|older| older.overlaps(&entry));
            self.log_until(self.flushed + covered.map_or(0, |place| place as u64 + 1));
            self.log.push(entry);
        } else {
            self.unflushed.push_back(entry);
        }
    }

    /// Logs the first so many of all writes that were done.
    fn log_until(&mut self, end: u64) {
        while self.flushed < end
            && let Some(entry) = self.unflushed.pop_front()
        {
            self.log.push(entry);
            self.flushed += 1;
        }
    }

    /// Does what can be done now.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        if self.log.is_on() {
            self.send_waiting(cx);
            self.end_if_wanted(cx);
        }
        self.log.go_on(cx);
        if !self.log.is_on() {
            self.give_up(cx);
        }
    }

    fn send_waiting(&mut self, cx: &mut Cx<'_>) {
        while let Some(bio) = self.waiting.pop_front_if(|bio| self.log.has_room(bio.payload.bytes())) {
            self.send(bio, cx);
        }
        if !self.waiting.is_empty() {
            self.flush(cx);
        }
    }

    /// While the mapped device is suspended: what was done is made durable and logged, and then the end is marked.
    fn end_if_wanted(&mut self, cx: &mut Cx<'_>) {
        if !self.ends || !self.sent.is_empty() {
            return;
        }
        self.flush(cx);
        if self.unflushed.is_empty() && self.waiting.is_empty() {
            self.log.mark_end();
        }
    }

    /// Makes durable what is done, so that it can be logged.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        if self.own_flush.is_some() || self.unflushed.is_empty() {
            return;
        }
        if !self.has_cache {
            return self.log_until(self.done());
        }
        self.own_flush = Some(self.done());
        let flush = cx.own_bio(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None));
        cx.submit(self.below[0], flush, OWN_FLUSH);
    }

    /// Goes on without a log.
    fn give_up(&mut self, cx: &mut Cx<'_>) {
        self.was_disabled = true;
        while let Some(entry) = self.unflushed.pop_front() {
            self.log.discard(entry);
            self.flushed += 1;
        }
        while let Some(bio) = self.waiting.pop_front() {
            self.pass(bio, cx);
        }
    }
}

impl BlockDevice for LogWrites {
    keeps_limits_and_below!();

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let is_logged = matches!(bio.op, Op::Write | Op::Discard | Op::Flush) && self.log.is_on();
        if !is_logged {
            return self.pass(bio, cx);
        }
        // A flush needs no memory to speak of, and is what frees it.
        let may_go = self.waiting.is_empty() && self.log.has_room(bio.payload.bytes());
        if may_go || bio.op == Op::Flush {
            if self.send(bio, cx) {
                self.go_on(cx);
            }
            return;
        }
        if bio.flags.has(Flags::NOWAIT) {
            return cx.fail(bio, Reason::WouldWait("the log has no room yet"));
        }
        self.waiting.push_back(bio);
        self.go_on(cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        match word {
            LOG => self.log.end_io(bio, status, cx),
            OWN_FLUSH => {
                cx.recycle(bio);
                let covers = self.own_flush.take().unwrap_or(0);
                if status.is_ok() { self.log_until(covers) } else { self.log.fail() }
            }
            key => {
                let sent = self.sent.remove(key as usize);
                self.note(sent, status);
                cx.complete(bio, status);
            }
        }
        self.go_on(cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Suspend { .. } => {
                self.ends = true;
                self.go_on(cx);
            }
            Event::Resume => self.ends = false,
            _ => {}
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.waiting.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "log-writes, device {} to log device {}", self.below[0].0, self.below[1].0)
    }

    fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.log.status(out)
    }

    fn message(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<String, MessageError> {
        let text = match words {
            [name, text] if name.eq_ignore_ascii_case("mark") => text,
            _ => {
                return Err(MessageError(format!("log-writes does not know `{}`: write mark <word>", words.join(" "))));
            }
        };
        if !self.log.is_on() {
            return Err(MessageError(String::from("logging has ended: load the table again with a log that has room")));
        }
        if !self.log.has_room(0) {
            return Err(MessageError(String::from("the log device is behind: mark again when it has caught up")));
        }
        let marked = self.log.mark(text);
        marked.map_err(|most| MessageError(format!("the mark has {} bytes: write at most {most}", text.len())))?;
        self.go_on(cx);
        Ok(String::new())
    }

    fn events(&self) -> u64 {
        self.was_disabled.into()
    }
}
