//! NBD over unix sockets and TCP.
//!
//! [`Nbd::install`] makes a shard a home for connections: it gets a pool of memory that they share. [`Nbd::listen`] has a
//! home accept clients, until [`Nbd::leave`]. A connection is accepted and negotiates where its listener is; when its client has chosen an
//! export it moves to the home of that export, once, and stays.
//!
//! What a client cannot do to others: hold more memory than its session's share, while small requests of everybody are
//! served from a reserve; keep a place without finishing its handshake in time; keep a stop of the server waiting for
//! more than a few seconds; sit on memory that others wait for; use up the connections before it has authenticated. What is beyond that is the operating
//! system's: a client that may choose an export may also use up the connections.

mod connection;
mod door;
mod front_end;
mod keys;
mod offer;
mod secured;
mod tls_keys;

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

use shingle_core::frontend::Pool;
use shingle_core::frontend::nbd::{PAYLOAD_MAX_BYTES, Session, SessionLimits};
use shingle_core::time::{Duration, Instant};
use shingle_sys::Completion;

use self::connection::Connection;
use self::door::Door;
pub use self::front_end::TYPE;
pub(crate) use self::keys::most_connections;
use self::offer::Offer;
use self::secured::Secured;
use super::listen::{Address, Listener};
use super::{Client, Complaint, Directory, Log, Permit, ServeError, User, rate_limited};
use crate::control_group::memory_limit;
use crate::shard::{Mailbox, Pump, Shard, Source, SourceCx, SourceId};
use crate::tls::TlsServer;

/// How a home treats its connections.
#[derive(Clone)]
pub struct NbdOptions {
    /// What one connection may hold at once.
    pub session: SessionLimits,
    /// What all connections of one home may hold together, in bytes, and not less than the longest request; each may have
    /// 256 KiB more.
    pub memory_bytes: usize,
    /// How much of that is kept for the next requests when there are none.
    pub keep_bytes: usize,
    /// Most connections that one listener has at once, of clients that have chosen an export; further ones are closed when they choose.
    pub connections: usize,
    /// How long a client may do nothing while nothing of it is under way, and leave replies lying; `None`: for ever.
    pub idle_timeout: Option<Duration>,
    /// How long a client may take to choose an export.
    pub handshake_timeout: Duration,
    /// How long a client may leave replies or half a request lying while others wait for the memory.
    pub stall_timeout: Duration,
    /// How long the last replies of a connection that ends may take.
    pub linger: Duration,
    /// Takes one line for each connection that ended against the rules, and for each trouble with accepting.
    pub log: Log,
}

/// Memory for requests if the stack file does not say: 512 MiB, or a quarter of what the control group leaves the process, if that is less; but enough for
/// the longest request.
fn default_memory(limit: Option<u64>) -> usize {
    let quarter = limit.map_or(usize::MAX, |limit| usize::try_from(limit / 4).unwrap_or(usize::MAX));
    quarter.clamp(PAYLOAD_MAX_BYTES as usize, 512 << 20)
}

impl Default for NbdOptions {
    fn default() -> Self {
        let memory_bytes = default_memory(memory_limit());
        Self {
            session: SessionLimits::default(),
            memory_bytes,
            keep_bytes: memory_bytes / 4,
            connections: 256,
            idle_timeout: None,
            handshake_timeout: Duration::from_millis(10_000),
            stall_timeout: Duration::from_millis(30_000),
            linger: Duration::from_millis(5_000),
            log: rate_limited(Arc::new(warn)),
        }
    }
}

fn warn(complaint: &Complaint<'_>) {
    let Complaint { address, client, export, .. } = complaint;
    tracing::warn!(listen = %address, client, export, "{complaint}");
}

/// What a shard has for NBD connections, as anybody may hold it.
#[derive(Clone)]
pub struct Nbd {
    mailbox: Mailbox,
    messages: SyncSender<HomeMessage>,
    /// Connections that live here.
    live: Arc<AtomicUsize>,
}

/// Something to be put on the home of connections.
enum HomeMessage {
    Listen(Box<(Listener, Offer)>),
    Leave(Address),
    Treat(Box<NbdOptions>),
    /// Tells when all before it is done.
    Tell(SyncSender<()>),
    Adopt(Box<Handoff>),
}

/// After how long memory that no request has needed goes back to the system.
const KEEP_TIME: Duration = Duration::from_millis(5_000);

/// How long a home may take to do what it is told.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Most messages on their way to one shard.
const MOST_MESSAGES: usize = 256;

/// A connection on its way to another shard.
struct Handoff {
    client: Client,
    permit: Permit,
    session: Session,
    tls: Option<Box<Secured>>,
    /// Bytes that the session has not taken yet.
    rest: Vec<u8>,
    user: User,
}

/// What the NBD connections of one shard share.
struct NbdShard {
    me: Nbd,
    options: RefCell<NbdOptions>,
    doors: RefCell<Vec<Door>>,
    pool: RefCell<Pool>,
    /// Connections that wait for memory.
    waiting: RefCell<Vec<SourceId>>,
    /// Who gives back what is kept in the pool, and whether he is going to look at it.
    porter: Cell<Option<SourceId>>,
    porter_looks: Cell<bool>,
}

impl NbdShard {
    fn options(&self) -> Ref<'_, NbdOptions> {
        self.options.borrow()
    }

    /// Has clients treated otherwise, those that are connected as well; a session keeps the memory that it may have.
    fn treat(&self, options: NbdOptions) {
        self.pool.borrow_mut().set_limits(options.memory_bytes, options.keep_bytes);
        self.doors.borrow().iter().for_each(|door| door.admit(options.connections));
        *self.options.borrow_mut() = options;
    }

    /// Has the porter look at the pool in time, if something is kept there.
    fn watch_kept(&self, cx: &mut SourceCx<'_>) {
        if !self.porter_looks.get() && self.pool.borrow().kept() > 0 {
            self.porter.get().into_iter().for_each(|porter| cx.notify(porter));
        }
    }
}

impl Nbd {
    /// Makes `shard` a home.
    pub fn install(shard: &mut Shard, options: NbdOptions) -> Self {
        let (messages, inbox) = mpsc::sync_channel(MOST_MESSAGES);
        let me = Self { mailbox: shard.mailbox(), messages, live: Arc::default() };
        let pool = RefCell::new(Pool::new(options.memory_bytes, options.keep_bytes));
        let home = Rc::new(NbdShard {
            me: me.clone(),
            options: RefCell::new(options),
            doors: RefCell::default(),
            pool,
            waiting: RefCell::default(),
            porter: Cell::new(None),
            porter_looks: Cell::new(false),
        });
        let porter =
            shard.spawn(Box::new(Porter { home: home.clone(), inbox, next_look: Instant::ZERO, stopped: false }));
        shard.notify_of_mail(porter);
        home.porter.set(Some(porter));
        me
    }

    /// Accepts clients of `listener` here and offers them what is in `directory` when they come. They move to the one of
    /// `homes`, one of each shard, that has what they choose. With `tls` they say nothing before it. Where clients are accepted already those that
    /// come are offered this from now on.
    pub fn listen(
        &self,
        listener: Listener,
        directory: &Directory,
        homes: &[Nbd],
        tls: Option<Arc<TlsServer>>,
    ) -> Result<(), ServeError> {
        let offer = Offer { directory: directory.clone(), homes: homes.into(), tls };
        self.tell(HomeMessage::Listen(Box::new((listener, offer))))
    }

    /// Accepts no more clients at `address`. Those that are there stay.
    pub fn leave(&self, address: &Address) -> Result<(), ServeError> {
        self.tell(HomeMessage::Leave(address.clone()))
    }

    /// Treats clients otherwise from now on.
    pub fn treat(&self, options: NbdOptions) -> Result<(), ServeError> {
        self.tell(HomeMessage::Treat(Box::new(options)))
    }

    /// Waits until all that was sent is done.
    pub fn settle(&self) -> Result<(), ServeError> {
        let (done, told) = mpsc::sync_channel(1);
        self.tell(HomeMessage::Tell(done))?;
        told.recv_timeout(PATIENCE).map_err(|_| ServeError::Stopped(TYPE.name))
    }

    /// Connections that live here now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Whether these are the same home.
    fn is(&self, other: &Nbd) -> bool {
        Arc::ptr_eq(&self.live, &other.live)
    }

    /// Sends what a front end wants of a home.
    fn tell(&self, message: HomeMessage) -> Result<(), ServeError> {
        self.send(message).map_err(|_| ServeError::Stopped(TYPE.name))
    }

    fn send(&self, message: HomeMessage) -> Result<(), TrySendError<HomeMessage>> {
        self.messages.try_send(message)?;
        // The message does nothing: what matters is that there is mail, for then the porter has its turn. A full mailbox is as good.
        let _ = self.mailbox.post(|_| ());
        Ok(())
    }
}

/// Takes in what is sent to a home, and gives back memory that the home does not need any more.
struct Porter {
    home: Rc<NbdShard>,
    inbox: Receiver<HomeMessage>,
    /// When to look again at what is kept for the next requests.
    next_look: Instant,
    stopped: bool,
}

impl Porter {
    fn give_back(&mut self, cx: &mut SourceCx<'_>) {
        if cx.now() >= self.next_look {
            if self.home.pool.borrow_mut().shrink() > 0 {
                shingle_sys::give_back_memory();
            }
            self.next_look = cx.now() + KEEP_TIME;
        }
        let looks = self.home.pool.borrow().kept() > 0;
        self.home.porter_looks.set(looks);
        if looks {
            cx.wake_at(self.next_look);
        }
    }
}

impl Source for Porter {
    fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {}

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        if self.stopped {
            return Pump::Done;
        }
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                HomeMessage::Listen(comers) => Door::open(&self.home, *comers, cx),
                HomeMessage::Leave(address) => Door::close(&self.home, &address, cx),
                HomeMessage::Treat(options) => self.home.treat(*options),
                // Who does not wait any more need not hear it.
                HomeMessage::Tell(done) => _ = done.try_send(()),
                HomeMessage::Adopt(handoff) => {
                    cx.spawn(Box::new(Connection::adopt(*handoff, self.home.clone(), cx.now())));
                }
            }
        }
        self.give_back(cx);
        Pump::Idle
    }

    fn stop(&mut self, _: &mut SourceCx<'_>) {
        self.stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_requests_keeps_to_the_control_group() {
        let of = |limit| default_memory(limit) >> 20;
        assert_eq!([None, Some(8 << 30), Some(1 << 30), Some(64 << 20)].map(of), [512, 512, 256, 32]);
    }
}
