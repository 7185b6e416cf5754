//! The socket: who may ask, how much, and how long.

use std::io::{ErrorKind as IoErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use serde_json::{Value, json};

use super::clients::{Client, Clients, MOST_CLIENTS};
use super::operations::{Operations, Session};
use super::protocol::Failure;
use super::{ControlError, ErrorKind, LONGEST_REQUEST, VERSION};
use crate::daemon_state::DaemonState;
use crate::priority::give_way;
use crate::serve::Sockets;
use crate::serve::listen::{Address, Listener};

/// How long before the next client is taken in while all places are taken: thousands that come at once do not take a whole processor.
const TURN: Duration = Duration::from_millis(2);

/// The control socket of a daemon. It closes when this is dropped.
pub struct ControlServer {
    shared: Arc<Shared>,
    door: Door,
}

/// Where clients come. The thread ends before the listener.
struct Door {
    acceptor: Acceptor,
    listener: Listener,
}

/// The thread that lets them in. It ends when this is dropped.
struct Acceptor {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    daemon: Arc<DaemonState>,
    operations: Operations,
    clients: Clients,
}

impl ControlServer {
    /// Listens on `path` and answers for `daemon`.
    pub fn start(path: &Path, sockets: &Sockets, daemon: Arc<DaemonState>) -> Result<Self, ControlError> {
        let shared = Arc::new(Shared { daemon, operations: Operations::default(), clients: Clients::default() });
        let door = Door::open(path, sockets, &shared)?;
        Ok(Self { shared, door })
    }

    /// Listens on `path` instead. Who is connected stays.
    ///
    /// # Errors
    /// If it cannot; then it listens where it did.
    pub fn move_to(&mut self, path: &Path, sockets: &Sockets) -> Result<(), ControlError> {
        let door = Door::open(path, sockets, &self.shared)?;
        let Door { acceptor, listener } = std::mem::replace(&mut self.door, door);
        drop(acceptor);
        listener.retire();
        Ok(())
    }
}

impl Door {
    fn open(path: &Path, sockets: &Sockets, shared: &Arc<Shared>) -> Result<Self, ControlError> {
        let failed = |why: String| ControlError::new(ErrorKind::Stopped, format!("the control socket: {why}"));
        let listener = sockets.listen(&Address::Unix(path.to_owned())).map_err(|error| failed(error.to_string()))?;
        let accepting = listener.share().map_err(|error| failed(error.to_string()))?;
        let stop = stop_signal(&listener).map_err(|error| failed(error.to_string()))?;
        let (stop, shared) = (Arc::new(stop), shared.clone());
        let stopped = stop.clone();
        let body = move || accept_all(&accepting, &stopped, &shared);
        let thread = thread::Builder::new().name("control".into()).spawn(body);
        let thread = thread.map_err(|error| failed(format!("cannot start its thread: {error}")))?;
        Ok(Self { acceptor: Acceptor { stop, thread: Some(thread) }, listener })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // It ends the wait of the thread, and with it the listener; the socket itself may be another's as well. Clients find their next request
        // unanswered.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What ends the wait for clients. A client that is gone before it is accepted must not hold that up.
fn stop_signal(listener: &Listener) -> rustix::io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(listener.as_fd(), true)?;
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
}

fn accept_all(listener: &Listener, stop: &OwnedFd, shared: &Arc<Shared>) {
    give_way();
    loop {
        let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        // Interrupted: nothing is ready.
        let _ = rustix::event::poll(&mut ready, None);
        if !ready[1].revents().is_empty() {
            return;
        }
        match rustix::net::accept_with(listener.as_fd(), SocketFlags::CLOEXEC) {
            Ok(fd) => {
                admit(UnixStream::from(fd), shared);
                if shared.clients.is_crowded() {
                    thread::sleep(TURN);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Out of descriptors, or the client is gone again: others may come.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn admit(stream: UnixStream, shared: &Arc<Shared>) {
    let client = match shared.clients.admit(stream, Instant::now()) {
        Ok(client) => client,
        Err((mut stream, why)) => {
            // A line has room in a new socket. Whether the client hears it is its own affair.
            let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&refusal(why)));
            return;
        }
    };
    let (mine, its) = (shared.clone(), client.clone());
    let body = move || {
        converse(&its, &mine);
        mine.clients.release(&its);
    };
    if thread::Builder::new().name("control-client".into()).spawn(body).is_err() {
        shared.clients.release(&client);
    }
}

/// The line that tells a client why it is not served.
fn refusal(message: String) -> Vec<u8> {
    let error = ControlError::new(ErrorKind::BadRequest, message);
    line(&json!({"v": VERSION, "id": null, "error": Failure::from(&error)}))
}

fn line(response: &Value) -> Vec<u8> {
    let mut line = response.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn make_room() -> String {
    format!("there are more than {MOST_CLIENTS} clients, and this one was silent for longest: connect again")
}

/// Answers one line after the other until the client goes or has to, is silent for too long, or sends too long a line.
fn converse(client: &Arc<Client>, shared: &Shared) {
    let (mut buffer, mut session, mut since) = (Vec::new(), Session::of(client.clone()), Instant::now());
    let mut chunk = [0; 4096];
    let refuse = |message: String| {
        let _ = client.send(&refusal(message));
    };
    loop {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let request: Vec<u8> = buffer.drain(..=end).collect();
            let response = shared.operations.respond(&shared.daemon, &mut session, &request);
            if client.send(&line(&response)).is_err() {
                return;
            }
            since = Instant::now();
            if client.has_to_go() {
                return refuse(make_room());
            }
        }
        if buffer.len() >= LONGEST_REQUEST {
            return refuse(format!("a request has at most {LONGEST_REQUEST} bytes"));
        }
        match client.read(since, &mut chunk) {
            Ok(0) if client.has_to_go() => return refuse(make_room()),
            Ok(0) => return,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
