//! A listener as a source: takes in clients, within a bound.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use shingle_core::time::{Duration, Instant};
use shingle_sys::{Completion, Fd, Request};

use super::complaint::{Complaint, Log};
use super::handshakes::{Handshake, Handshakes, Room};
use super::listen::{Address, Listener, SocketFile};
use super::permit::ConnectionSlots;
use crate::shard::{Pump, Source, SourceCx, SourceId};

const ACCEPT: u64 = 1;
/// How long to wait when no connection can be accepted: out of descriptors, or of memory.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before the next try while all handshake slots are taken.
const FULL_PAUSE: Duration = Duration::from_millis(5);
/// Delay of the next TCP client for each protocol violation, and for all of them together.
const VIOLATION_PAUSE: Duration = Duration::from_millis(20);
const MAX_VIOLATION_PAUSE: Duration = Duration::from_millis(1000);
/// After how long without traffic the kernel asks whether a TCP client is still there, in seconds.
const KEEPALIVE_SECONDS: u64 = 60;
/// Time without traffic before the first keepalive probe to a client whose connection other clients wait for, and time that each probe has to be
/// answered.
const PROBE_INTERVAL: std::time::Duration = std::time::Duration::from_secs(7);
/// Probes without an answer after which the kernel ends such a connection.
const PROBES: u32 = 3;

/// A client that was let in.
pub struct Client {
    /// Where it has come.
    pub address: Arc<Address>,
    /// What complaints call it.
    pub label: String,
    /// Its connection.
    pub socket: OwnedFd,
    /// The slots of the listener: it takes one when it has chosen an export.
    pub slots: Arc<ConnectionSlots>,
}

/// What of an acceptor can change while it accepts.
#[derive(Debug, Default)]
pub struct Terms {
    slots: Arc<ConnectionSlots>,
    is_over: Cell<bool>,
    acceptor: Cell<Option<SourceId>>,
}

impl Terms {
    /// Lets `most` clients in at once. Who is there already stays.
    pub fn admit(&self, most: usize) {
        self.slots.set_most(most);
    }

    /// Lets nobody in any more but the client that is coming in.
    pub fn end(&self, cx: &mut SourceCx<'_>) {
        self.is_over.set(true);
        self.acceptor.get().into_iter().for_each(|acceptor| cx.notify(acceptor));
    }
}

/// Makes a source of a client.
type Welcome = Box<dyn Fn(Client, Handshake, Instant) -> Box<dyn Source>>;

/// A listener of a shard, with what becomes of its clients.
pub struct Acceptor {
    socket: Fd,
    address: Arc<Address>,
    /// Goes when this does.
    _file: Option<SocketFile>,
    welcome: Welcome,
    terms: Rc<Terms>,
    log: Log,
    handshakes: Rc<Handshakes>,
    accepted: u64,
    accepting: bool,
    not_before: Instant,
    stopped: bool,
    /// Whether the current trouble is in the log already.
    told: bool,
}

impl Acceptor {
    /// Lets in `most` clients of `listener` at once; `welcome` makes a source of each.
    pub fn new<S: Source + 'static>(
        listener: Listener,
        (most, log): (usize, Log),
        welcome: impl Fn(Client, Handshake, Instant) -> S + 'static,
    ) -> Self {
        let Listener { fd, address, file, .. } = listener;
        Self {
            socket: fd.into(),
            address: Arc::new(address),
            _file: file,
            welcome: Box::new(move |client, slot, now| Box::new(welcome(client, slot, now))),
            terms: Rc::new(Terms { slots: Arc::new(ConnectionSlots::new(most)), ..Terms::default() }),
            log,
            handshakes: Rc::default(),
            accepted: 0,
            accepting: false,
            not_before: Instant::ZERO,
            stopped: false,
            told: false,
        }
    }

    /// What of it can change.
    #[must_use]
    pub fn terms(&self) -> Rc<Terms> {
        self.terms.clone()
    }

    fn admit(&mut self, socket: OwnedFd, cx: &mut SourceCx<'_>) {
        self.told = false;
        self.accepted += 1;
        let mut label = format!("{} client {}", self.address, self.accepted);
        if matches!(*self.address, Address::Tcp(_)) {
            prepare_tcp(&socket);
            let peer =
                rustix::net::getpeername(&socket).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
            peer.into_iter().for_each(|peer| label += &format!(" from {peer}"));
        }
        let client = Client { address: self.address.clone(), label, socket, slots: self.terms.slots.clone() };
        let handshake = self.handshakes.begin(self.accepted, cx.now());
        cx.spawn((self.welcome)(client, handshake, cx.now()));
    }

    /// Delays the next TCP client after protocol violations of others. Clients of unix sockets are not delayed: file permissions admitted them, and many of them
    /// may reconnect at once after a restart.
    fn delay_for_violations(&mut self, now: Instant) {
        let violations = self.terms.slots.take_violations();
        if matches!(*self.address, Address::Tcp(_)) && violations > 0 {
            let later = self.not_before.max(now) + Duration(VIOLATION_PAUSE.0 * u64::from(violations));
            self.not_before = later.min(now + MAX_VIOLATION_PAUSE);
        }
    }

    /// Makes room for the next client. False: there will be some later.
    fn has_room(&mut self, cx: &mut SourceCx<'_>) -> bool {
        match self.handshakes.make_room(cx.now()) {
            Room::Free => {}
            Room::Evicted(connection) => connection.into_iter().for_each(|connection| cx.notify(connection)),
            Room::At(time) => {
                // A client that is done makes room earlier.
                self.not_before = time.min(cx.now() + FULL_PAUSE);
                return false;
            }
        }
        true
    }

    /// One line for each trouble, not for each client that has it.
    fn tell(&mut self, text: &str) {
        if !std::mem::replace(&mut self.told, true) {
            (self.log)(&Complaint { address: &self.address, client: None, export: None, text });
        }
    }
}

/// Small replies go out at once, and a client that is gone without a word is noticed.
fn prepare_tcp(socket: &OwnedFd) {
    use rustix::net::sockopt;
    // Without these the connection works all the same.
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, std::time::Duration::from_secs(KEEPALIVE_SECONDS));
}

/// Has the kernel end the connection of a TCP client that has disappeared within half a minute, since other clients wait for it.
pub(super) fn shorten_keepalive(socket: impl AsFd) {
    use rustix::net::sockopt;
    // Without these it is noticed later.
    let _ = sockopt::set_tcp_keepidle(&socket, PROBE_INTERVAL);
    let _ = sockopt::set_tcp_keepintvl(&socket, PROBE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(&socket, PROBES);
    let _ = sockopt::set_tcp_user_timeout(&socket, (PROBES + 1) * PROBE_INTERVAL.as_millis() as u32);
}

impl Source for Acceptor {
    fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>) {
        self.accepting = false;
        match done.request {
            Request::Accept { accepted: Some(socket), .. } if !self.stopped => self.admit(socket, cx),
            _ if self.stopped || self.terms.is_over.get() => {}
            _ => {
                let error = io::Error::from_raw_os_error(-done.result);
                self.not_before = cx.now() + PAUSE;
                self.tell(&format!("cannot accept a client: {error}; trying again"));
            }
        }
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        self.terms.acceptor.set(Some(cx.id()));
        let is_over = self.terms.is_over.get();
        if self.accepting {
            if is_over {
                cx.cancel(ACCEPT);
            }
            return Pump::Idle;
        }
        if self.stopped || is_over {
            return Pump::Done;
        }
        self.delay_for_violations(cx.now());
        if cx.now() >= self.not_before && self.has_room(cx) {
            let request = Request::Accept { listener: self.socket.clone(), accepted: None };
            self.accepting = cx.submit(ACCEPT, request).is_ok();
        }
        if !self.accepting {
            cx.wake_at(self.not_before.max(cx.now() + PAUSE));
        }
        Pump::Idle
    }

    fn stop(&mut self, cx: &mut SourceCx<'_>) {
        self.stopped = true;
        if self.accepting {
            cx.cancel(ACCEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::net::sockopt;

    use super::*;

    #[test]
    fn tcp_client_for_whose_connection_others_wait_is_gone_within_half_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        shorten_keepalive(&client);
        let probes = sockopt::tcp_keepcnt(&client).unwrap();
        let silent = sockopt::tcp_keepidle(&client).unwrap() + probes * sockopt::tcp_keepintvl(&client).unwrap();
        assert_eq!((silent.as_secs(), sockopt::tcp_user_timeout(&client).unwrap()), (28, 28_000));
    }
}
