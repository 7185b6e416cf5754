//! The ring of a whole shard: sockets with clients behind them beside the simulated kernel with its files, in one virtual time.
//!
//! ```text
//!   shard: acceptor, connections, file ── Request ──> Net ──> sockets <──> clients ──> model
//!                                                      └────> kernel: files
//! ```
//!
//! What comes and goes is cut anywhere, late, interrupted; requests are cancelled too late, and some peers never answer.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shingle_core::time::{Duration, Instant};
use shingle_sys::{Completion, Fd, Part, Request, RequestQueue, Token};

use super::client::{Client, End, World};
use super::kernel::{Shared, fill, taken};

/// Guards of a connection that are taken away, by what the ring does in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bug {
    #[default]
    None,
    /// A short send is taken for a whole one.
    ShortSend,
    /// What is left of a short send begins again at its start.
    RepeatedSend,
    /// A short receive of a payload is taken for a whole one.
    ShortReceive,
    /// A send that was interrupted is taken for one that was carried out.
    InterruptedSend,
    /// Nothing is cancelled.
    NoCancel,
    /// Clients are let in where nobody listens any more.
    NotLeft,
}

struct Flight {
    token: Token,
    request: Request,
    due: Instant,
    cancelled: bool,
}

/// Sockets, clients and files.
pub struct Net {
    clock: Rc<Cell<Instant>>,
    pub disk: Shared,
    pub clients: Vec<Client>,
    pub world: World,
    /// Clients by the server's ends.
    sockets: BTreeMap<RawFd, usize>,
    flights: BTreeMap<u64, Flight>,
    arrived: u64,
    done: VecDeque<Completion>,
    pub bug: Bug,
    /// Whether the ring refuses requests now and then, and no client can be taken in.
    pub troubled: bool,
    pub broken: Option<String>,
    /// When somebody has a turn who is no client.
    pub wakes_at: Option<Instant>,
}

/// The net, as those hold it who ask it.
#[derive(Clone)]
pub struct Line(pub Rc<RefCell<Net>>);

const EINTR: i32 = 4;
const EMFILE: i32 = 24;
const EPIPE: i32 = 32;
const ECONNRESET: i32 = 104;
const ECANCELED: i32 = 125;
/// Bytes that a client's side of a socket holds until they are read.
const WINDOW: usize = 48 << 10;

impl Net {
    pub fn new(clock: Rc<Cell<Instant>>, disk: Shared, clients: Vec<Client>, world: World) -> Self {
        Self {
            clock,
            disk,
            clients,
            world,
            sockets: BTreeMap::new(),
            flights: BTreeMap::new(),
            arrived: 0,
            done: VecDeque::new(),
            bug: Bug::None,
            troubled: false,
            broken: None,
            wakes_at: None,
        }
    }

    /// Whether all clients have done what they came for, or a promise is broken.
    pub fn is_over(&self) -> bool {
        self.broken.is_some() || self.clients.iter().all(Client::has_finished)
    }

    /// Whether somebody waits for clients.
    pub fn lets_in(&self) -> bool {
        self.flights.values().any(|flight| matches!(flight.request, Request::Accept { .. }) && !flight.cancelled)
    }

    /// What is in flight and belongs to a socket.
    pub fn left_over(&self) -> Vec<String> {
        let left = self.flights.values().filter(|flight| !matches!(flight.request, Request::Readable { .. }));
        left.map(|flight| format!("{:?}", flight.token)).collect()
    }

    fn client(&self, socket: &Fd) -> usize {
        self.sockets[&socket.as_fd().as_raw_fd()]
    }

    /// All that happens at this moment.
    fn happen(&mut self) -> Result<(), String> {
        self.world.now = self.clock.get();
        for place in 0..self.clients.len() {
            let client = &mut self.clients[place];
            client.look(&mut self.world).map_err(|what| format!("client {place}: {what}"))?;
            if client.act_at.is_some_and(|at| at <= self.world.now) {
                client.act(&mut self.world).map_err(|what| format!("client {place}: {what}"))?;
            }
        }
        let due = self.flights.iter().filter(|(_, flight)| flight.due <= self.world.now);
        for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            let mut flight = self.flights.remove(&number).expect("it is there");
            match self.attempt(&mut flight) {
                Some(result) => self.complete(flight, result),
                None => drop(self.flights.insert(number, flight)),
            }
        }
        let mut kernel = self.disk.0.borrow_mut();
        kernel.advance(self.world.now);
        self.world.flawless = kernel.all_faults == 0;
        drop(kernel);
        self.done.extend(std::iter::from_fn(|| self.disk.pop()));
        Ok(())
    }

    /// Completions come in any order.
    fn complete(&mut self, flight: Flight, result: i32) {
        let Flight { token, request, .. } = flight;
        let place = self.world.rng.below(self.done.len() as u64 + 1) as usize;
        self.done.insert(place, Completion { token, result, request });
    }

    /// When something happens next.
    fn next_event(&self) -> Option<Instant> {
        let clients = self.clients.iter().filter_map(|client| client.act_at);
        let flights = self.flights.values().map(|flight| flight.due).filter(|due| *due > self.world.now);
        let turn = self.wakes_at.filter(|at| *at > self.world.now);
        clients.chain(flights).chain(self.disk.0.borrow().next_due()).chain(turn).min()
    }

    /// The result of a request, if it has one by now.
    fn attempt(&mut self, flight: &mut Flight) -> Option<i32> {
        let given_up = flight.cancelled.then_some(-ECANCELED);
        match &mut flight.request {
            Request::Readable { file } => {
                let mut polled = [PollFd::new(file, PollFlags::IN)];
                poll(&mut polled, Some(&Timespec::default())).ok()?;
                (!polled[0].revents().is_empty()).then_some(1)
            }
            Request::Accept { accepted, .. } => {
                let Some(place) = self.clients.iter().position(|client| client.knocks) else { return given_up };
                if self.troubled && self.world.rng.chance(1, 4) {
                    return Some(-EMFILE);
                }
                let (ours, far) = UnixStream::pair().expect("a pair of sockets");
                self.sockets.insert(ours.as_raw_fd(), place);
                self.clients[place].connected(far, &mut self.world);
                *accepted = Some(ours.into());
                Some(0)
            }
            Request::Receive { socket, into, at } => {
                let place = self.client(socket);
                let bytes = self.receive(place, into.len() - *at, 1, given_up);
                Some(bytes?.map_or_else(
                    |errno| errno,
                    |bytes| {
                        into[*at..][..bytes.len()].copy_from_slice(&bytes);
                        bytes.len() as i32
                    },
                ))
            }
            Request::ReceiveAll { socket, payload, skip } => {
                let (place, wanted) = (self.client(socket), payload.bytes() - *skip);
                let least = if self.world.rng.chance(1, 4) { 1 } else { wanted };
                let bytes = match self.receive(place, wanted, least, given_up)? {
                    Err(errno) => return Some(errno),
                    Ok(bytes) => bytes,
                };
                fill(payload, *skip, &bytes);
                let is_short = !bytes.is_empty() && self.bug == Bug::ShortReceive;
                Some(if is_short { wanted } else { bytes.len() } as i32)
            }
            Request::Send { socket, parts, skip } => {
                let place = self.client(socket);
                let skipped = if self.bug == Bug::RepeatedSend { 0 } else { *skip };
                let bytes = parts.iter().flat_map(bytes_of).skip(skipped).collect::<Vec<u8>>();
                let result = self.send(place, &bytes, given_up)?;
                let whole = (bytes.len() + skipped - *skip) as i32;
                Some(match self.bug {
                    Bug::ShortSend if result > 0 => whole,
                    Bug::InterruptedSend if result == -EINTR => whole,
                    _ => result.min(whole),
                })
            }
            other => panic!("not a request of a socket: {other:?}"),
        }
    }

    /// What a client has sent: at most `most` bytes, and at least so many unless it ends; or an error.
    fn receive(
        &mut self,
        place: usize,
        most: usize,
        least: usize,
        given_up: Option<i32>,
    ) -> Option<Result<Vec<u8>, i32>> {
        let (client, rng) = (&mut self.clients[place], &mut self.world.rng);
        let there = client.outbound.len();
        if client.end == End::Reset {
            return Some(Err(-ECONNRESET));
        }
        if there < least && client.end == End::Open {
            let some = there > 0 && given_up.is_some();
            return if some { Some(Ok(client.outbound.drain(..).collect())) } else { given_up.map(Err) };
        }
        if rng.chance(1, 30) {
            return Some(Err(-EINTR));
        }
        let whole = there.min(most);
        let cut = if whole > least && rng.chance(1, 3) { 1 + rng.below(whole as u64) as usize } else { whole };
        Some(Ok(client.outbound.drain(..cut).collect()))
    }

    fn send(&mut self, place: usize, bytes: &[u8], given_up: Option<i32>) -> Option<i32> {
        let (client, world) = (&mut self.clients[place], &mut self.world);
        if client.end != End::Open {
            return Some(if world.rng.chance(1, 2) { -EPIPE } else { -ECONNRESET });
        }
        let room = WINDOW.saturating_sub(client.inbound.len()).min(bytes.len());
        if room == 0 {
            return given_up;
        }
        if world.rng.chance(1, 30) {
            return Some(-EINTR);
        }
        let cut = if world.rng.chance(1, 3) { 1 + world.rng.below(room as u64) as usize } else { room };
        client.inbound.extend(&bytes[..cut]);
        client.wake(world);
        Some(cut as i32)
    }

    fn arrives(&mut self, token: Token, request: Request) -> Result<(), Request> {
        let rng = &mut self.world.rng;
        if !matches!(request, Request::Readable { .. }) && self.troubled && rng.chance(1, 200) {
            if let Some(socket) = socket_of(&request) {
                let place = self.client(socket);
                self.clients[place].harmed = true;
            }
            return Err(request);
        }
        let due = self.clock.get() + Duration::from_micros(rng.below(100));
        self.flights.insert(self.arrived, Flight { token, request, due, cancelled: false });
        self.arrived += 1;
        Ok(())
    }
}

fn socket_of(request: &Request) -> Option<&Fd> {
    match request {
        Request::Receive { socket, .. } | Request::ReceiveAll { socket, .. } | Request::Send { socket, .. } => {
            Some(socket)
        }
        _ => None,
    }
}

fn bytes_of(part: &Part) -> Vec<u8> {
    match part {
        Part::Bytes(bytes) => bytes.clone(),
        Part::Payload(payload) => taken(payload, 0),
    }
}

fn is_of_the_disk(request: &Request) -> bool {
    use Request::{Allocate, Read, Sync, Truncate, Write};
    matches!(request, Read { .. } | Write { .. } | Sync { .. } | Truncate { .. } | Allocate { .. })
}

impl RequestQueue for Line {
    fn submit(&mut self, token: Token, request: Request) -> Result<(), Request> {
        let net = &mut *self.0.borrow_mut();
        if is_of_the_disk(&request) {
            net.disk.0.borrow_mut().now = net.clock.get();
            return net.disk.submit(token, request);
        }
        net.arrives(token, request)
    }

    /// The request may be done before it is given up.
    fn cancel(&mut self, token: Token) {
        let net = &mut *self.0.borrow_mut();
        if net.bug == Bug::NoCancel {
            return;
        }
        let (now, rng) = (net.clock.get(), &mut net.world.rng);
        for flight in net.flights.values_mut().filter(|flight| flight.token == token && !flight.cancelled) {
            flight.cancelled = true;
            flight.due = now + Duration::from_micros(rng.below(500));
        }
    }

    fn wait(&mut self, timeout: Option<time::Duration>) -> io::Result<()> {
        let net = &mut *self.0.borrow_mut();
        // Time passes also for who is busy.
        let least = Duration::from_micros(1);
        let start = net.clock.get() + least;
        let until = timeout.map(|timeout| start + Duration::from_nanos(timeout.as_nanos() as u64));
        net.clock.set(start);
        loop {
            if let Err(what) = net.happen() {
                net.broken = Some(what);
                return Err(io::Error::other("a promise is broken"));
            }
            let now = net.clock.get();
            let is_time = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            if !net.done.is_empty() || is_time(until) || is_time(net.wakes_at) {
                return Ok(());
            }
            let Some(next) = net.next_event().into_iter().chain(until).min() else {
                if net.is_over() && !net.world.stopping {
                    return Ok(());
                }
                net.broken = Some("stuck: nothing will ever happen again".into());
                return Err(io::Error::other("stuck"));
            };
            net.clock.set(next.max(now));
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        self.0.borrow_mut().done.pop_front()
    }

    fn in_flight(&self) -> usize {
        let net = self.0.borrow();
        net.flights.len() + net.done.len() + net.disk.in_flight()
    }
}
