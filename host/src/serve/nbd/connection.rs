//! One client: a socket and its session.

use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::TrySendError;

use rustix::io::Errno;
use shingle_core::block::{Completion as Done, DeviceId, Payload, PortId};
use shingle_core::frontend::nbd::{Close, Exports, Receive, Segment, Session, SessionLimits, Transmit};
use shingle_core::time::{Duration, Instant};
use shingle_sys::{Completion, Fd, Part, Request};

use super::secured::Secured;
use super::{Handoff, HomeMessage, Nbd, NbdShard, Offer};
use crate::serve::listen::Address;
use crate::serve::{Client, Complaint, ConnectionSlots, Handshake, Permit, User, shorten_keepalive};
use crate::shard::{Pump, Source, SourceCx, SourceId};
use crate::tls::{TlsError, TlsServer};

const RECEIVE: u64 = 1;
const SEND: u64 = 2;
/// Bytes that one receive takes: many requests, or as many small writes as a socket holds.
const STAGING: usize = 128 << 10;
/// The same before there are requests.
const HANDSHAKE_STAGING: usize = 4 << 10;
/// When to try again what another home had no room for.
const RETRY: Duration = Duration::from_millis(10);

/// Where the bios of a connection go, once its client has chosen.
#[derive(Clone, Copy)]
struct Place {
    port: PortId,
    device: DeviceId,
}

/// How far a connection is on its way to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Not,
    /// The last replies go out.
    Lingering,
    /// Nothing goes out any more.
    Cut,
}

pub(super) struct Connection {
    address: Arc<Address>,
    label: String,
    socket: Fd,
    session: Session,
    /// Between both, once the client has asked for it.
    tls: Option<Box<Secured>>,
    home: Rc<NbdShard>,
    slots: Arc<ConnectionSlots>,
    /// Until the client has chosen an export.
    handshake: Option<Handshake>,
    /// From then on.
    permit: Option<Permit>,
    /// Until the client has chosen an export.
    offer: Option<Offer>,
    /// From then on, and where that export is.
    user: Option<(Nbd, User)>,
    place: Option<Place>,
    /// Received bytes, of which the session is still to take `rest`.
    staging: Vec<u8>,
    rest: Range<usize>,
    receiving: bool,
    /// The batch that is being sent. Its segments are in the ring.
    sending: Option<Transmit>,
    /// Lent to the ring with a batch.
    parts: Vec<Part>,
    ending: Ending,
    /// When patience ends with a client that has not chosen, or with one whose connection ends.
    deadline: Option<Instant>,
    /// When bytes last came or went, or the stack had done something.
    progress: Instant,
    /// True if the client has been idle for too long as of the last look. Its bytes may have come while the daemon stood still, so it is looked again.
    seems_idle: bool,
    /// What it is called among those that wait for memory, if it does.
    waits: Option<SourceId>,
    /// Whether it lives in another home now.
    moved: bool,
    /// Whether something happened since the last pump, other than in the stack.
    touched: bool,
}

impl Connection {
    /// A client that was just accepted.
    pub fn new(client: Client, handshake: Handshake, offer: Offer, home: Rc<NbdShard>, now: Instant) -> Self {
        let begin = if offer.tls.is_some() { Session::new_with_tls } else { Session::new };
        let session = begin(offer.exports(), home.options().session);
        let deadline = Some(now + home.options().handshake_timeout);
        let mut new = Self::with(client, session, home);
        (new.offer, new.deadline, new.progress) = (Some(offer), deadline, now);
        new.handshake = Some(handshake);
        new
    }

    /// A client that chose an export of this home elsewhere.
    pub fn adopt(handoff: Handoff, home: Rc<NbdShard>, now: Instant) -> Self {
        let Handoff { client, permit, session, tls, rest, user } = handoff;
        let here = home.me.clone();
        let mut new = Self::with(client, session, home);
        (new.user, new.permit, new.tls) = (Some((here, user)), Some(permit), tls);
        (new.rest, new.staging, new.progress) = (0..rest.len(), rest, now);
        new
    }

    fn with(client: Client, session: Session, home: Rc<NbdShard>) -> Self {
        let Client { address, label, socket, slots } = client;
        home.me.live.fetch_add(1, Relaxed);
        Self {
            address,
            label,
            socket: socket.into(),
            session,
            tls: None,
            home,
            slots,
            handshake: None,
            permit: None,
            offer: None,
            user: None,
            place: None,
            staging: Vec::new(),
            rest: 0..0,
            receiving: false,
            sending: None,
            parts: Vec::new(),
            ending: Ending::Not,
            deadline: None,
            progress: Instant::ZERO,
            seems_idle: false,
            waits: None,
            moved: false,
            touched: true,
        }
    }

    /// Does what the session's documentation asks of a driver.
    fn advance(&mut self, cx: &mut SourceCx<'_>) {
        if self.moved {
            return;
        }
        loop {
            self.answer_application();
            if self.place.is_none() && self.session.export().is_some() && !self.settle(cx) {
                return;
            }
            if let Some(place) = self.place {
                self.exchange_bios(place, cx);
            }
            self.secure(cx);
            self.send(cx);
            if self.rest.is_empty() {
                self.decrypt();
            }
            if self.rest.is_empty() || !self.take_rest() {
                break;
            }
        }
        if self.rest.is_empty() && !self.receiving {
            self.receive(cx);
        }
    }

    /// Whether bios came back.
    fn exchange_bios(&mut self, Place { port, device }: Place, cx: &mut SourceCx<'_>) -> bool {
        let mut pool = self.home.pool.borrow_mut();
        let mut any = false;
        while let Some(Done { tag, bio, status }) = cx.stack.poll_completion(port) {
            if let Some((_, user)) = &self.user {
                user.tally.record(&bio, status, cx.now().since(bio.since));
            }
            let why = if status.is_ok() { String::new() } else { cx.devices.tell(&bio, status) };
            self.session.handle_completion(tag as u32, bio, (status, &why), &mut pool);
            any = true;
        }
        if any {
            self.progress = cx.now();
        }
        while let Some((tag, bio)) = self.session.poll_bio() {
            cx.stack.submit(port, tag.into(), device, bio);
        }
        while let Some((tag, sectors, mut extents)) = self.session.poll_question() {
            cx.stack.extents(device, sectors, &mut extents);
            self.session.handle_extents(tag, extents, &mut pool);
        }
        any
    }

    /// Answers a client that has chosen an export with a limit.
    fn answer_application(&mut self) {
        let Some((export, offer)) = self.session.applied().zip(self.offer.as_ref()) else { return };
        let admitted = offer.claim(export, &self.label);
        if let Err(why) = &admitted {
            self.complain(&format!("refused: {why}"));
        } else if matches!(*self.address, Address::Tcp(_)) {
            shorten_keepalive(&self.socket);
        }
        let admitted = admitted.map(|user| self.user = Some(user)).map_err(|why| why.to_string());
        self.session.handle_admission(admitted, &mut self.home.pool.borrow_mut());
    }

    fn complain(&self, text: &str) {
        let export = self.session.export().map(|export| export.name.as_str());
        let complaint = Complaint { address: &self.address, client: Some(&self.label), export, text };
        (self.home.options().log)(&complaint);
    }

    /// Offers what was received. Whether the session took any of it.
    fn take_rest(&mut self) -> bool {
        let taken = self.session.handle_bytes(&self.staging[self.rest.clone()], &mut self.home.pool.borrow_mut());
        self.rest.start += taken;
        if let Some(complaint) = self.session.poll_complaint() {
            self.complain(&complaint.to_string());
        }
        taken > 0
    }

    /// Begins TLS if the client does, and goes on with its handshake.
    fn secure(&mut self, cx: &mut SourceCx<'_>) {
        if self.tls.is_none() && self.session.begins_tls() {
            // The answer to that goes out as it is.
            self.send(cx);
            if self.sending.is_some() {
                return;
            }
            match self.tls_server().map(|server| server.accept()) {
                Some(Ok(stream)) => self.tls = Some(Box::new(Secured::new(stream))),
                Some(Err(error)) => return self.give_up_tls(&error),
                None => return self.disconnect(),
            }
        }
        let Some(tls) = self.tls.as_mut().filter(|_| self.session.begins_tls()) else { return };
        // What came before belongs to TLS as well: nothing is taken for protected that was not.
        let before = mem::take(&mut self.rest);
        if !before.is_empty() {
            tls.stream.handle_bytes(&self.staging[before]);
        }
        match tls.stream.shake_hands() {
            Ok(()) if tls.stream.is_up() => self.greet(),
            Ok(()) => {}
            Err(error) => self.give_up_tls(&error),
        }
    }

    /// Who this server is to clients that have not chosen yet, if they come by TLS.
    fn tls_server(&self) -> Option<&TlsServer> {
        self.offer.as_ref()?.tls.as_deref()
    }

    /// TLS is there.
    fn greet(&mut self) {
        let Some((tls, server)) = self.tls.as_ref().zip(self.tls_server()) else { return };
        let names = tls.stream.names();
        let admitted = server.admit(&names);
        if let Some(name) = names.first() {
            self.label += &format!(" ({})", name.escape_debug());
        }
        if let Err(why) = &admitted {
            self.complain(&why.to_string());
        }
        self.session.handle_tls(admitted);
    }

    fn give_up_tls(&mut self, why: &TlsError) {
        self.complain(&format!("TLS failed: {why}; connection closed"));
        self.session.handle_close(Close::Tls, &mut self.home.pool.borrow_mut());
    }

    /// Has TLS make the next bytes for the session of what was received.
    fn decrypt(&mut self) {
        let room = self.staging_bytes();
        let Some(tls) = self.tls.as_mut().filter(|tls| tls.stream.is_up() && self.session.wants_bytes()) else {
            return;
        };
        self.staging.resize(room, 0);
        match tls.stream.read(&mut self.staging) {
            Ok(None) => {}
            Ok(Some(0)) => self.disconnect(),
            Ok(Some(count)) => self.rest = 0..count,
            Err(error) => self.give_up_tls(&error),
        }
    }

    fn staging_bytes(&self) -> usize {
        if self.place.is_some() { STAGING } else { HANDSHAKE_STAGING }
    }

    fn is_sending(&self) -> bool {
        self.sending.is_some() || self.tls.as_ref().is_some_and(|tls| tls.is_sending)
    }

    fn send(&mut self, cx: &mut SourceCx<'_>) {
        if self.is_sending() {
            return;
        }
        if self.tls.is_some() {
            return self.send_encrypted(cx);
        }
        if let Some(mut batch) = self.session.poll_transmit() {
            let mut parts = mem::take(&mut self.parts);
            parts.extend(batch.segments.drain(..).map(|segment| match segment {
                Segment::Bytes(bytes) => Part::Bytes(bytes),
                Segment::Data(data) => Part::Payload(Payload::Data(data)),
            }));
            self.sending = Some(batch);
            self.submit_send(parts, 0, cx);
        }
    }

    fn send_encrypted(&mut self, cx: &mut SourceCx<'_>) {
        let Some(tls) = self.tls.as_mut().filter(|_| self.ending != Ending::Cut) else { return };
        if tls.stream.is_up() && tls.is_free() {
            self.session.poll_transmit().into_iter().for_each(|batch| tls.put(batch));
        }
        if self.session.is_done() {
            tls.close();
        }
        match tls.next_bytes() {
            Ok(Some(bytes)) => {
                let mut parts = mem::take(&mut self.parts);
                parts.push(Part::Bytes(bytes));
                self.submit_send(parts, 0, cx);
            }
            Ok(None) => {}
            Err(error) => {
                self.give_up_tls(&error);
                self.disconnect();
            }
        }
    }

    fn submit_send(&mut self, parts: Vec<Part>, skip: usize, cx: &mut SourceCx<'_>) {
        let request = Request::Send { socket: self.socket.clone(), parts, skip };
        if let Err(Request::Send { parts, .. }) = cx.submit(SEND, request) {
            // In this order: what comes back must not have the session begin anything else.
            self.disconnect();
            self.sent(parts);
        }
    }

    fn on_sent(&mut self, parts: Vec<Part>, skip: usize, result: i32, cx: &mut SourceCx<'_>) {
        let sent = skip + usize::try_from(result).unwrap_or(0);
        let interrupted = result == -Errno::INTR.raw_os_error();
        if (result > 0 && sent < parts.iter().map(Part::len).sum()) || interrupted {
            return self.submit_send(parts, sent, cx);
        }
        if result <= 0 {
            self.disconnect();
        }
        self.sent(parts);
    }

    /// The batch is back from the ring.
    fn sent(&mut self, mut parts: Vec<Part>) {
        if let Some(tls) = &mut self.tls {
            let Some(Part::Bytes(bytes)) = parts.pop() else { return };
            self.parts = parts;
            let batch = tls.sent(bytes, self.ending == Ending::Cut);
            batch.into_iter().for_each(|batch| self.session.handle_sent(batch, &mut self.home.pool.borrow_mut()));
            return;
        }
        let Some(mut batch) = self.sending.take() else { return };
        batch.segments.extend(parts.drain(..).filter_map(|part| match part {
            Part::Bytes(bytes) => Some(Segment::Bytes(bytes)),
            Part::Payload(Payload::Data(data)) => Some(Segment::Data(data)),
            Part::Payload(_) => None,
        }));
        self.parts = parts;
        self.session.handle_sent(batch, &mut self.home.pool.borrow_mut());
    }

    fn receive(&mut self, cx: &mut SourceCx<'_>) {
        let socket = self.socket.clone();
        let wanted = match &mut self.tls {
            // It cannot be decrypted into the memory of requests.
            Some(_) if self.session.begins_tls() || self.session.wants_bytes() => Receive::Bytes,
            Some(_) => Receive::Nothing,
            None => self.session.poll_receive(),
        };
        let request = match wanted {
            Receive::Nothing => return,
            Receive::Payload { data, filled } => {
                Request::ReceiveAll { socket, payload: Payload::Data(data), skip: filled }
            }
            Receive::Bytes => {
                let room = self.staging_bytes();
                let mut into = mem::take(self.tls.as_mut().map_or(&mut self.staging, |tls| &mut tls.received));
                into.resize(room, 0);
                Request::Receive { socket, into, at: 0 }
            }
        };
        self.receiving = true;
        if let Err(request) = cx.submit(RECEIVE, request) {
            self.on_received(request, 0);
        }
    }

    fn on_received(&mut self, request: Request, result: i32) {
        self.receiving = false;
        let got = usize::try_from(result).unwrap_or(0);
        match request {
            Request::Receive { into, .. } => match &mut self.tls {
                Some(tls) => {
                    tls.stream.handle_bytes(&into[..got]);
                    tls.received = into;
                }
                None => (self.staging, self.rest) = (into, 0..got),
            },
            Request::ReceiveAll { payload: Payload::Data(data), skip, .. } => {
                self.session.handle_payload(data, skip + got, &mut self.home.pool.borrow_mut());
            }
            _ => {}
        }
        let interrupted = result == -Errno::INTR.raw_os_error();
        // When the session has closed, receiving was given up for that reason, and replies may still go out.
        if got == 0 && !interrupted && self.session.close().is_none() {
            self.disconnect();
        }
    }

    /// Nothing is sent or received any more.
    fn disconnect(&mut self) {
        self.ending = Ending::Cut;
        let mut pool = self.home.pool.borrow_mut();
        self.session.handle_disconnect(&mut pool);
        if let Some(batch) = self.tls.as_mut().and_then(|tls| tls.give_up()) {
            self.session.handle_sent(batch, &mut pool);
        }
    }

    /// Finds the place of a connection whose client has chosen. Whether it is in this home.
    fn settle(&mut self, cx: &mut SourceCx<'_>) -> bool {
        let Some(export) = self.session.export() else { return false };
        let device = export.device;
        if let Some(offer) = self.offer.take() {
            match self.slots.take() {
                Ok(permit) => (self.permit, self.handshake) = (Some(permit), None),
                Err(most) => {
                    self.complain(&format!("refusing clients: {most} are connected already"));
                    self.disconnect();
                    return false;
                }
            }
            if self.user.is_none() {
                match offer.claim(export, &self.label) {
                    Ok(user) => self.user = Some(user),
                    Err(why) => {
                        self.complain(&why.to_string());
                        self.disconnect();
                    }
                }
            }
        }
        let Some((home, _)) = &self.user else { return false };
        if !home.is(&self.home.me) {
            self.depart(cx);
            return false;
        }
        self.place = Some(Place { port: cx.open_port(), device });
        self.deadline = None;
        true
    }

    /// Moves to the home of its export, once nothing of it is in the ring.
    fn depart(&mut self, cx: &mut SourceCx<'_>) {
        if self.is_sending() || self.receiving || self.ending != Ending::Not || self.moved {
            return;
        }
        let Ok(socket) = self.socket.as_fd().try_clone_to_owned() else {
            self.complain("out of file descriptors; raise the limit of open files");
            return self.disconnect();
        };
        let (Some((home, user)), Some(permit)) = (self.user.take(), self.permit.take()) else { return };
        let nobody = Session::new(Arc::new(Exports::default()), SessionLimits::default());
        let handoff = Handoff {
            client: Client {
                address: self.address.clone(),
                label: self.label.clone(),
                socket,
                slots: self.slots.clone(),
            },
            permit,
            session: mem::replace(&mut self.session, nobody),
            tls: self.tls.take(),
            rest: self.staging[self.rest.clone()].to_vec(),
            user,
        };
        match home.send(HomeMessage::Adopt(Box::new(handoff))) {
            Err(TrySendError::Full(HomeMessage::Adopt(handoff))) => {
                (self.session, self.permit) = (handoff.session, Some(handoff.permit));
                self.tls = handoff.tls;
                self.user = Some((home, handoff.user));
                cx.wake_at(cx.now() + RETRY);
            }
            // A home that is gone takes the connection with it.
            _ => self.moved = true,
        }
    }

    /// Ends what has to end: in good order first, then without.
    fn watch(&mut self, cx: &mut SourceCx<'_>) {
        let now = cx.now();
        if self.session.close().is_some() && self.ending == Ending::Not {
            self.ending = Ending::Lingering;
            self.deadline = Some(now + self.home.options().linger);
            self.cancel(RECEIVE, cx);
        }
        if let Some((patience, close)) = self.patience() {
            if now >= patience && close == Close::Idle && !mem::replace(&mut self.seems_idle, true) {
                // Until then the ring completes a receive of bytes that wait in the socket.
                cx.wake_at(now + RETRY);
            } else if now >= patience {
                self.session.handle_close(close, &mut self.home.pool.borrow_mut());
                self.disconnect();
            } else {
                self.seems_idle = false;
                cx.wake_at(patience);
            }
        }
        if self.ending == Ending::Cut {
            self.deadline = None;
            self.cancel(RECEIVE, cx);
            self.cancel(SEND, cx);
        }
    }

    /// When it is too much, and of what.
    fn patience(&self) -> Option<(Instant, Close)> {
        let others_wait = self.home.waiting.borrow().len() > usize::from(self.waits.is_some());
        let it_is_the_clients_turn = self.is_sending() || self.session.is_mid_request();
        let stalled = (others_wait && it_is_the_clients_turn && self.ending == Ending::Not)
            .then(|| (self.progress + self.home.options().stall_timeout, Close::Timeout));
        let can_be_idle = self.place.is_some() && !self.session.is_working() && self.ending == Ending::Not;
        let idle = self.home.options().idle_timeout.filter(|_| can_be_idle);
        let idle = idle.map(|timeout| (self.progress + timeout, Close::Idle));
        let deadline = self.deadline.map(|deadline| (deadline, Close::Timeout));
        [deadline, stalled, idle].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn cancel(&self, word: u64, cx: &mut SourceCx<'_>) {
        let in_ring = if word == RECEIVE { self.receiving } else { self.is_sending() };
        if in_ring {
            cx.cancel(word);
        }
    }

    /// Gets in line for memory, or out of it.
    fn queue_for_memory(&mut self, cx: &mut SourceCx<'_>) {
        match (self.session.waits_for_memory(), self.waits) {
            (true, None) => {
                self.waits = Some(cx.id());
                let mut waiting = self.home.waiting.borrow_mut();
                waiting.push(cx.id());
                if waiting.len() <= 2 {
                    // From now on patience with all others is short: with the second one, also with the first.
                    cx.notify_all();
                }
            }
            (false, Some(_)) => self.leave_queue(),
            _ => {}
        }
    }

    fn leave_queue(&mut self) {
        let me = self.waits.take();
        self.home.waiting.borrow_mut().retain(|id| Some(*id) != me);
    }

    /// Does `work`; if that gives memory back, those who wait for it have a turn.
    fn giving_back<R>(&mut self, cx: &mut SourceCx<'_>, work: impl FnOnce(&mut Self, &mut SourceCx<'_>) -> R) -> R {
        let used = self.home.pool.borrow().used();
        let result = work(self, cx);
        if self.home.pool.borrow().used() < used {
            self.home.waiting.borrow().iter().for_each(|waiter| cx.notify(*waiter));
        }
        self.home.watch_kept(cx);
        result
    }

    /// A turn, when something happened to it.
    fn turn(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        let answered = self.place.is_some_and(|place| self.exchange_bios(place, cx));
        if let Some(handshake) = &self.handshake {
            handshake.register(cx.id());
            if handshake.is_evicted() && self.ending == Ending::Not {
                self.session.handle_close(Close::Timeout, &mut self.home.pool.borrow_mut());
                self.disconnect();
                self.touched = true;
            }
        }
        let has_time_limit = self.deadline.is_some() || self.home.options().idle_timeout.is_some();
        let watched = has_time_limit || !self.home.waiting.borrow().is_empty();
        if !mem::take(&mut self.touched) && !answered && !watched {
            return Pump::Idle;
        }
        if self.waits.is_some() {
            self.session.handle_memory(&mut self.home.pool.borrow_mut());
        }
        self.advance(cx);
        self.queue_for_memory(cx);
        self.watch(cx);
        if self.moved || (self.session.is_done() && !self.receiving && !self.is_sending()) {
            let is_last = self.home.me.live.load(Relaxed) == 1;
            debug_assert!(!is_last || self.home.pool.borrow().used() == 0, "the last connection gives all memory back");
            return Pump::Done;
        }
        Pump::Idle
    }
}

impl Source for Connection {
    fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>) {
        if done.result > 0 {
            self.progress = cx.now();
        }
        self.touched = true;
        self.giving_back(cx, |it, cx| {
            match done.request {
                Request::Send { parts, skip, .. } => it.on_sent(parts, skip, done.result, cx),
                received => it.on_received(received, done.result),
            }
            // Bios that are submitted now are done in the turn before the pump.
            it.advance(cx);
        });
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        self.giving_back(cx, Self::turn)
    }

    fn stop(&mut self, _: &mut SourceCx<'_>) {
        self.touched = true;
        self.session.handle_close(Close::Shutdown, &mut self.home.pool.borrow_mut());
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave_queue();
        self.home.me.live.fetch_sub(1, Relaxed);
        if let Some(close) = self.session.close().filter(Close::is_violation) {
            if !matches!(close, Close::Idle | Close::Timeout) {
                self.slots.note_violation();
            }
            self.complain(&format!("{close}; connection closed"));
        }
    }
}
