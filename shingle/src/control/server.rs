//! The socket: who may ask, how much, and how long.

use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use super::operations::{Operations, Session};
use super::{ControlError, ErrorKind, LONGEST_REQUEST, VERSION};
use crate::daemon::Census;
use crate::serve::listen::{Address, Listener};

/// Most clients at a time.
const MOST_CLIENTS: usize = 16;
/// How long a client may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a client may take to read a response.
const SLOWNESS: Duration = Duration::from_secs(10);

/// The control socket of a daemon. It closes when this is dropped.
pub struct ControlServer {
    listener: Arc<Listener>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    census: Arc<Census>,
    operations: Operations,
    clients: AtomicUsize,
}

impl ControlServer {
    /// Listens on `path` and answers for `census`.
    pub fn start(path: &Path, census: Arc<Census>) -> Result<Self, ControlError> {
        let failed = |message: String| ControlError::new(ErrorKind::Stopped, message);
        let listener = Listener::bind(&Address::Unix(path.to_owned()))
            .map_err(|error| failed(format!("the control socket: {error}")))?;
        let listener = Arc::new(listener);
        let shared = Arc::new(Shared { census, operations: Operations::new(), clients: AtomicUsize::new(0) });
        let accepting = listener.clone();
        let body = move || accept_all(&accepting, &shared);
        let thread = thread::Builder::new().name("control".into()).spawn(body);
        let thread =
            thread.map_err(|error| failed(format!("cannot start the thread of the control socket: {error}")))?;
        Ok(Self { listener, path: path.to_owned(), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // It ends the wait in `accept`, and with it the thread: then the socket file can go. Clients find their next
        // request unanswered.
        let _ = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept_all(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        match rustix::net::accept(listener.as_fd()) {
            Ok(fd) => admit(UnixStream::from(fd), shared),
            Err(rustix::io::Errno::INVAL) => return,
            // Out of descriptors, or the client is gone again: others may come.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn admit(mut stream: UnixStream, shared: &Arc<Shared>) {
    let timeouts = stream.set_read_timeout(Some(SILENCE)).and_then(|()| stream.set_write_timeout(Some(SLOWNESS)));
    if timeouts.is_err() {
        return;
    }
    if shared.clients.fetch_add(1, Relaxed) >= MOST_CLIENTS {
        shared.clients.fetch_sub(1, Relaxed);
        refuse(&mut stream, format!("{MOST_CLIENTS} clients are connected already: try again later"));
        return;
    }
    let mine = shared.clone();
    let body = move || {
        converse(&mut stream, &mine);
        mine.clients.fetch_sub(1, Relaxed);
    };
    if thread::Builder::new().name("control-client".into()).spawn(body).is_err() {
        shared.clients.fetch_sub(1, Relaxed);
    }
}

/// Tells a client why it is not served; whether it hears it is its own affair.
fn refuse(stream: &mut UnixStream, message: String) {
    let error = ControlError::new(ErrorKind::BadRequest, message);
    let _ = send(stream, &json!({"v": VERSION, "id": null, "error": error.to_json()}));
}

fn send(stream: &mut UnixStream, response: &Value) -> std::io::Result<()> {
    let mut line = response.to_string().into_bytes();
    line.push(b'\n');
    stream.write_all(&line)
}

/// Answers one line after the other until the client goes, is silent for too long, or sends too long a line.
fn converse(stream: &mut UnixStream, shared: &Shared) {
    let (mut buffer, mut session) = (Vec::new(), Session::default());
    let mut chunk = [0; 4096];
    loop {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let response = shared.operations.respond(&shared.census, &mut session, &line);
            if send(stream, &response).is_err() {
                return;
            }
        }
        if buffer.len() >= LONGEST_REQUEST {
            return refuse(stream, format!("a request has at most {LONGEST_REQUEST} bytes"));
        }
        match stream.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
