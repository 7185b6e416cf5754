//! A listener as a source: takes in clients, within a bound.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use shingle_core::time::{Duration, Instant};
use shingle_sys::{Completion, Fd, Request};

use super::listen::{Address, Listener, SocketFile};
use super::permit::Permit;
use crate::shard::{Pump, Source, SourceCx};

const ACCEPT: u64 = 1;
/// How long to wait when no connection can be accepted: out of descriptors, or of memory.
const PAUSE: Duration = Duration::from_millis(100);
/// After how long without traffic the kernel asks whether a TCP client is still there, in seconds.
const KEEPALIVE_SECONDS: u64 = 60;

/// Takes one line for each trouble that clients make.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// A client that was let in.
pub struct Client {
    /// What the log calls it.
    pub label: String,
    /// Its connection.
    pub socket: OwnedFd,
    /// Its place among the clients of the listener.
    pub permit: Permit,
}

/// Makes a source of a client.
type Welcome = Box<dyn Fn(Client, Instant) -> Box<dyn Source>>;

/// A listener of a shard, with what becomes of its clients.
pub struct Acceptor {
    socket: Fd,
    address: Address,
    /// Goes when this does.
    _file: Option<SocketFile>,
    welcome: Welcome,
    /// Most clients at once.
    most: usize,
    log: Log,
    taken: Arc<AtomicUsize>,
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
        welcome: impl Fn(Client, Instant) -> S + 'static,
    ) -> Self {
        let Listener { fd, address, file } = listener;
        Self {
            socket: fd.into(),
            address,
            _file: file,
            welcome: Box::new(move |client, now| Box::new(welcome(client, now))),
            most,
            log,
            taken: Arc::default(),
            accepted: 0,
            accepting: false,
            not_before: Instant::ZERO,
            stopped: false,
            told: false,
        }
    }

    fn admit(&mut self, socket: OwnedFd, cx: &mut SourceCx<'_>) {
        let Some(permit) = Permit::take(&self.taken, self.most) else {
            let most = self.most;
            return self.tell(&format!("{}: refusing clients: {most} are connected already", self.address));
        };
        self.told = false;
        self.accepted += 1;
        if matches!(self.address, Address::Tcp(_)) {
            prepare_tcp(&socket);
        }
        let label = format!("{} client {}", self.address, self.accepted);
        cx.spawn((self.welcome)(Client { label, socket, permit }, cx.now()));
    }

    /// One line for each trouble, not for each client that has it.
    fn tell(&mut self, line: &str) {
        if !std::mem::replace(&mut self.told, true) {
            (self.log)(line);
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

impl Source for Acceptor {
    fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>) {
        self.accepting = false;
        match done.request {
            Request::Accept { accepted: Some(socket), .. } if !self.stopped => self.admit(socket, cx),
            _ if self.stopped => {}
            _ => {
                let error = io::Error::from_raw_os_error(-done.result);
                self.not_before = cx.now() + PAUSE;
                self.tell(&format!("{}: cannot accept a client: {error}; trying again", self.address));
            }
        }
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        if self.accepting {
            return Pump::Idle;
        }
        if self.stopped {
            return Pump::Done;
        }
        if cx.now() >= self.not_before {
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
