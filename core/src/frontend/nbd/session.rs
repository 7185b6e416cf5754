//! One connection, whole.

use alloc::sync::Arc;
use core::ops::Range;

use super::export::{Export, Exports};
use super::handshake::{Handshake, Outcome, Tls};
use super::transmission::Transmission;
use super::transmit::{Outbox, Transmit};
use crate::block::{Bio, Data, Extent, Status};
use crate::frontend::Pool;
use crate::prelude::*;

/// What one connection may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most requests that are not answered, counting an answer until it is sent.
    pub requests: usize,
    /// Most bytes of memory in those requests; a single larger request is let in alone.
    pub bytes: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { requests: 128, bytes: 64 << 20 }
    }
}

/// What a session wants to receive next.
#[derive(Debug)]
pub enum Receive {
    /// Some bytes, for [`Session::handle_bytes`].
    Bytes,
    /// The rest of a payload, directly into its memory: bytes `filled..` of `data`, which then go back through
    /// [`Session::handle_payload`].
    Payload {
        /// The memory of the request. It is the driver's until it hands it back.
        data: Data,
        /// Bytes that are there already.
        filled: usize,
    },
    /// Nothing: a bound is reached, or the connection ends.
    Nothing,
}

/// Cause of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The client said goodbye.
    Client,
    /// The client went away, or the connection broke.
    Gone,
    /// The server stops.
    Shutdown,
    /// The driver ran out of patience.
    Timeout,
    /// The client did nothing for as long as it may.
    Idle,
    /// The client set handshake flags that do not exist.
    ClientFlags(u32),
    /// An option did not begin with its magic number but with this.
    OptionMagic(u64),
    /// An option had this many bytes of data.
    OptionLength(u32),
    /// TLS could not be agreed on, or what came through it is not whole.
    Tls,
    /// A client without TLS, or one that may not be here, chose an export in the way that has no other answer.
    NotAllowed,
    /// The driver did not admit a client that chose an export in the way that has no other answer.
    NotAdmitted,
    /// More options than any client has reason to send.
    TooManyOptions,
    /// `EXPORT_NAME` with a name that no export has; the protocol has no other answer to it.
    UnknownExport,
    /// A request did not begin with its magic number but with this.
    RequestMagic(u32),
    /// A request had a payload of this many bytes.
    Payload(u64),
}

impl Close {
    /// Whether the client broke the protocol or went beyond a limit: worth a line in the log.
    #[must_use]
    pub const fn is_violation(&self) -> bool {
        // What is wrong with TLS is known where that is done, and why a client is not admitted, too.
        !matches!(self, Close::Client | Close::Gone | Close::Shutdown | Close::Tls | Close::NotAdmitted)
    }
}

impl_display!(Close, |self, f| match *self {
    Close::Client => write!(f, "the client disconnected"),
    Close::Gone => write!(f, "the client went away without a goodbye"),
    Close::Shutdown => write!(f, "the server stops"),
    Close::Timeout => write!(f, "the client kept the server waiting for too long"),
    Close::Idle => write!(f, "the client did nothing for as long as `idle-timeout` allows"),
    Close::ClientFlags(flags) => write!(f, "the client set unknown handshake flags {flags:#x}"),
    Close::OptionMagic(magic) => write!(f, "the client sent {magic:#018x} where an option should begin"),
    Close::OptionLength(length) => write!(f, "the client sent an option with {length} bytes of data"),
    Close::Tls => write!(f, "TLS failed"),
    Close::NotAllowed => write!(f, "the client may not choose an export, at least not without TLS"),
    Close::NotAdmitted => write!(f, "the client was not admitted to the export"),
    Close::TooManyOptions => write!(f, "the client sent options without end"),
    Close::UnknownExport => write!(f, "the client chose an export that does not exist"),
    Close::RequestMagic(magic) => write!(f, "the client sent {magic:#010x} where a request should begin"),
    Close::Payload(length) => write!(f, "the client sent a request with {length} bytes of payload"),
});

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Box<Transmission>),
}

impl Phase {
    fn transmission(&self) -> Option<&Transmission> {
        match self {
            Phase::Handshake(_) => None,
            Phase::Transmission(transmission) => Some(transmission),
        }
    }

    fn transmission_mut(&mut self) -> Option<&mut Transmission> {
        match self {
            Phase::Handshake(_) => None,
            Phase::Transmission(transmission) => Some(transmission),
        }
    }
}

/// One NBD connection, without its socket.
///
/// The driver feeds what happens with `handle_*` and drains what is to be done with `poll_*`. After any `handle_*`, drain
/// until all of these have nothing left, in this order:
///
/// 1. [`poll_bio`](Self::poll_bio): submit the bios. Each comes back through
///    [`handle_completion`](Self::handle_completion), exactly once, whatever becomes of the connection meanwhile.
/// 2. [`poll_question`](Self::poll_question): have the stack answer, and hand the answer to
///    [`handle_extents`](Self::handle_extents).
/// 3. [`poll_transmit`](Self::poll_transmit): send the batch. There is one at a time; it comes back through
///    [`handle_sent`](Self::handle_sent), sent or not.
/// 4. [`applied`](Self::applied): admit the client, or not, with [`handle_admission`](Self::handle_admission). Only if an export asks for it.
/// 5. Bytes received before of which [`handle_bytes`](Self::handle_bytes) took only a part: offer the rest again.
/// 6. [`poll_receive`](Self::poll_receive), once all of them are taken: receive. One at a time; the bytes return through
///    `handle_bytes` or [`handle_payload`](Self::handle_payload).
/// 7. [`is_done`](Self::is_done): close the socket and drop the session.
///
/// [`export`](Self::export) is `None` until the client has chosen one. `handle_bytes` stops taking at that moment, so that
/// the connection can move to where the export's device is: a session is `Send`, and until then it holds no memory of the
/// pool and no bios. From then on all bios go to the device of the export.
///
/// Memory is bounded: by [`SessionLimits`] and the [`Pool`] for requests, by some 100 KiB for the handshake. At a bound the
/// session takes no more bytes; it goes on when something comes back, to it or, if it
/// [waits for memory](Self::waits_for_memory), to the pool: see [`handle_memory`](Self::handle_memory).
#[derive(Debug)]
pub struct Session {
    exports: Arc<Exports>,
    limits: SessionLimits,
    phase: Phase,
    outbox: Outbox,
    close: Option<Close>,
    gone: bool,
}

impl Session {
    /// A new connection. The greeting is ready to be sent.
    #[must_use]
    pub fn new(exports: Arc<Exports>, limits: SessionLimits) -> Self {
        let mut outbox = Outbox::default();
        let phase = Phase::Handshake(Handshake::new(&mut outbox));
        Self { exports, limits, phase, outbox, close: None, gone: false }
    }

    /// The same for a connection on which nothing may be said before TLS.
    #[must_use]
    pub fn new_with_tls(exports: Arc<Exports>, limits: SessionLimits) -> Self {
        let mut new = Self::new(exports, limits);
        new.handshake_mut().into_iter().for_each(|handshake| handshake.tls = Tls::Required);
        new
    }

    /// The same without these guards.
    #[cfg(feature = "sabotage")]
    #[must_use]
    pub fn without(mut self, gone: super::Sabotage) -> Self {
        let handshake = self.handshake_mut();
        handshake.into_iter().for_each(|handshake| handshake.guards = super::guards::Guards::without(gone));
        self
    }

    fn handshake_mut(&mut self) -> Option<&mut Handshake> {
        match &mut self.phase {
            Phase::Handshake(handshake) => Some(handshake),
            Phase::Transmission(_) => None,
        }
    }

    /// Whether the client begins TLS: what it sends next is for that, and so are bytes that were not taken. The session goes on with
    /// [`handle_tls`](Self::handle_tls), and from then on with what comes out of TLS.
    #[must_use]
    pub fn begins_tls(&self) -> bool {
        self.close.is_none() && matches!(&self.phase, Phase::Handshake(handshake) if handshake.tls == Tls::Begins)
    }

    /// TLS is there, with a client that may be here, or may not for a reason that it is told.
    pub fn handle_tls(&mut self, allowed: Result<(), String>) {
        if let Some(handshake) = self.handshake_mut() {
            handshake.tls = allowed.map_or_else(Tls::Refused, |()| Tls::On);
        }
    }

    /// The client sent `bytes`. Returns how many were taken: less than all if a bound is reached or an export was chosen.
    pub fn handle_bytes(&mut self, bytes: &[u8], pool: &mut Pool) -> usize {
        if self.close.is_some() {
            return bytes.len();
        }
        let mut rest = bytes;
        match &mut self.phase {
            Phase::Handshake(handshake) => {
                let outcome = handshake.handle_bytes(&mut rest, &self.exports, &mut self.outbox);
                self.conclude(outcome, pool);
            }
            Phase::Transmission(transmission) => {
                if let Some(close) = transmission.handle_bytes(&mut rest, pool, &mut self.outbox) {
                    self.end(close, pool);
                }
            }
        }
        bytes.len() - rest.len()
    }

    /// The handshake may be over.
    fn conclude(&mut self, outcome: Option<Outcome>, pool: &mut Pool) {
        match outcome {
            Some(Outcome::Agreed(agreed)) => {
                let export = self.exports.list()[agreed.export].clone();
                self.outbox.owner = pool.new_owner();
                let transmission = Transmission::new(self.outbox.owner, export, agreed, self.limits);
                self.phase = Phase::Transmission(Box::new(transmission));
            }
            Some(Outcome::Close(close)) => self.end(close, pool),
            None => {}
        }
    }

    /// The export that the client has chosen and for which the driver has to admit it, with
    /// [`handle_admission`](Self::handle_admission): until then no bytes are taken. Only of exports that are [`by_admission`](Export::by_admission).
    #[must_use]
    pub fn applied(&self) -> Option<&Arc<Export>> {
        let Phase::Handshake(handshake) = &self.phase else { return None };
        let place = handshake.applied().filter(|_| self.close.is_none())?;
        self.exports.list().get(place)
    }

    /// The driver admits the client that has [`applied`](Self::applied), or not for a reason that the client is told; it may choose again then.
    pub fn handle_admission(&mut self, admitted: Result<(), String>, pool: &mut Pool) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            let outcome = handshake.handle_admission(admitted, &self.exports, &mut self.outbox);
            self.conclude(outcome, pool);
        }
    }

    /// The memory of a [`Receive::Payload`] comes back, filled up to `filled`: to its end, or less if the connection broke.
    pub fn handle_payload(&mut self, data: Data, filled: usize, pool: &mut Pool) {
        if let Some(transmission) = self.phase.transmission_mut() {
            transmission.handle_payload(data, filled);
            if self.close.is_some() {
                transmission.abandon(pool);
            }
        }
    }

    /// A bio of [`Session::poll_bio`] is done, or has failed for a reason that the client is told.
    pub fn handle_completion(&mut self, tag: u32, bio: Box<Bio>, ended: (Status, &str), pool: &mut Pool) {
        if let Some(transmission) = self.phase.transmission_mut() {
            transmission.handle_completion(tag, bio, ended, pool, &mut self.outbox);
            if self.gone {
                transmission.released(self.outbox.discard(pool));
            }
        }
        self.handle_memory(pool);
    }

    /// A question of [`Session::poll_question`] is answered; an empty answer says that nothing is known.
    pub fn handle_extents(&mut self, tag: u32, extents: Vec<Extent>, pool: &mut Pool) {
        if let Some(transmission) = self.phase.transmission_mut() {
            transmission.handle_extents(tag, extents, &mut self.outbox);
            if self.gone {
                transmission.released(self.outbox.discard(pool));
            }
        }
    }

    /// A batch of [`Session::poll_transmit`] is sent, or cannot be.
    pub fn handle_sent(&mut self, batch: Transmit, pool: &mut Pool) {
        let released = self.outbox.sent(batch, pool);
        if let Some(transmission) = self.phase.transmission_mut() {
            transmission.released(released);
        }
        self.handle_memory(pool);
    }

    /// Another session gave memory back, which this one may be [waiting for](Self::waits_for_memory).
    pub fn handle_memory(&mut self, pool: &mut Pool) {
        if let Some(transmission) = self.phase.transmission_mut()
            && self.close.is_none()
        {
            transmission.resume(pool, &mut self.outbox);
        }
    }

    /// The connection is of no more use: the client closed it, or sending or receiving failed.
    pub fn handle_disconnect(&mut self, pool: &mut Pool) {
        self.gone = true;
        let released = self.outbox.discard(pool);
        if let Some(transmission) = self.phase.transmission_mut() {
            transmission.released(released);
        }
        self.end(Close::Gone, pool);
    }

    /// No more requests are wanted, for a reason of the driver's. Those that are complete are still served and answered.
    pub fn handle_close(&mut self, reason: Close, pool: &mut Pool) {
        self.end(reason, pool);
    }

    fn end(&mut self, reason: Close, pool: &mut Pool) {
        self.close.get_or_insert(reason);
        if let Some(transmission) = self.phase.transmission_mut() {
            transmission.abandon(pool);
        }
    }

    /// The next bio for the device of the export, and what to call it.
    pub fn poll_bio(&mut self) -> Option<(u32, Box<Bio>)> {
        self.phase.transmission_mut()?.poll_bio()
    }

    /// The next question of what lies in sectors of the export's device, which [`Stack::extents`](crate::block::Stack::extents)
    /// answers into the list. It comes back through [`handle_extents`](Self::handle_extents), exactly once.
    pub fn poll_question(&mut self) -> Option<(u32, Range<u64>, Vec<Extent>)> {
        self.phase.transmission_mut()?.poll_question()
    }

    /// What a log should be told of what the client does wrong, though it can go on: once for each connection.
    pub fn poll_complaint(&mut self) -> Option<String> {
        self.phase.transmission_mut()?.poll_complaint()
    }

    /// All that waits to be sent; `None` while a batch is out.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outbox.poll()
    }

    /// Whether it takes bytes now: for drivers that cannot receive into the memory of requests, instead of
    /// [`poll_receive`](Self::poll_receive).
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        match &self.phase {
            _ if self.close.is_some() => false,
            Phase::Handshake(handshake) => handshake.applied().is_none() && !handshake.is_full(&self.outbox),
            Phase::Transmission(transmission) => transmission.wants_bytes(&self.outbox),
        }
    }

    /// What to receive next. To be called only while nothing is being received and no received bytes are left.
    pub fn poll_receive(&mut self) -> Receive {
        match &mut self.phase {
            Phase::Transmission(transmission) if self.close.is_none() => {
                return transmission.poll_receive(&self.outbox);
            }
            _ => {}
        }
        if self.wants_bytes() { Receive::Bytes } else { Receive::Nothing }
    }

    /// Whether a request waits for memory of the pool.
    #[must_use]
    pub fn waits_for_memory(&self) -> bool {
        self.close.is_none() && self.phase.transmission().is_some_and(Transmission::is_waiting)
    }

    /// Whether the client has begun a request and not sent all of its payload.
    #[must_use]
    pub fn is_mid_request(&self) -> bool {
        self.phase.transmission().is_some_and(Transmission::is_mid_request)
    }

    /// Whether the client waits for the stack, so that it is not its turn to do something.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.phase.transmission().is_some_and(Transmission::is_working)
    }

    /// The export that the client chose.
    #[must_use]
    pub fn export(&self) -> Option<&Arc<Export>> {
        self.phase.transmission().map(Transmission::export)
    }

    /// Why the connection ends; `None` while it goes on.
    #[must_use]
    pub fn close(&self) -> Option<Close> {
        self.close
    }

    /// Whether the connection ended and everything came back: bios, batches and lent memory.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let is_idle = self.phase.transmission().is_none_or(Transmission::is_idle);
        self.close.is_some() && is_idle && self.outbox.is_idle()
    }
}
