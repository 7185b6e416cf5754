//! The server.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use super::pace::Pace;
use super::places::{Place, Places};
use crate::priority::give_way;
use crate::serve::listen::{Address, Listener};

/// Most bytes of a request's head.
const LONGEST_HEAD: usize = 16 << 10;
/// How long a client may take for its request, and for all of it.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_TIME: Duration = Duration::from_secs(10);
/// How long to wait if there are no descriptors, or nobody makes room.
const PAUSE: Duration = Duration::from_millis(50);
/// How long before a client is let in that another one had to go for.
const TURN: Duration = Duration::from_millis(1);

/// A request, of which the body is not read.
pub type Seen = Request<Incoming>;
/// An answer.
pub type Answer = Response<Full<Bytes>>;
/// What answers requests.
pub type Handler = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// How a request is answered.
pub enum Reply {
    /// So.
    Now(Answer),
    /// By something that may wait.
    Later(Box<dyn FnOnce() -> Answer + Send>),
}

/// A text as an answer.
#[must_use]
pub fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    let mut answer = Response::new(Full::from(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// The server. It ends when this is dropped.
pub struct HttpServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Answers on `listeners`, on threads called `name`.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub fn start(name: &str, listeners: &[Listener], handler: Handler) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().max_blocking_threads(1).thread_name(name).build()?;
        let sockets = listeners.iter().map(|listener| socket(&runtime, listener)).collect::<io::Result<Vec<_>>>()?;
        let body = move || {
            give_way();
            let places = Arc::<Places>::default();
            for socket in sockets {
                runtime.spawn(accept_all(socket, places.clone(), handler.clone()));
            }
            // What it waits for is the end of the sender, whatever that says.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(PATIENCE);
        };
        let thread = thread::Builder::new().name(name.into()).spawn(body)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

enum Socket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

fn socket(runtime: &tokio::runtime::Runtime, listener: &Listener) -> io::Result<Socket> {
    let _inside = runtime.enter();
    let fd: OwnedFd = listener.as_fd().try_clone_to_owned()?;
    Ok(match listener.address() {
        Address::Tcp(_) => {
            let listener = TcpListener::from(fd);
            listener.set_nonblocking(true)?;
            Socket::Tcp(tokio::net::TcpListener::from_std(listener)?)
        }
        Address::Unix(_) => {
            let listener = UnixListener::from(fd);
            listener.set_nonblocking(true)?;
            Socket::Unix(tokio::net::UnixListener::from_std(listener)?)
        }
    })
}

/// A connection.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn accept_all(socket: Socket, places: Arc<Places>, handler: Handler) {
    let mut pace = Pace::new(Instant::now());
    loop {
        let accepted = match &socket {
            Socket::Tcp(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
            Socket::Unix(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
        };
        match accepted {
            Ok(stream) => {
                admit(stream, &places, &handler).await;
                let wait = pace.admit(Instant::now());
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
            }
            // Out of descriptors, or the client is gone again: others may come.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Serves a client as soon as it has a place.
async fn admit(stream: Box<dyn Stream>, places: &Arc<Places>, handler: &Handler) {
    let place = loop {
        match places.take() {
            Some(place) => break place,
            None => tokio::time::sleep(if places.make_room() { TURN } else { PAUSE }).await,
        }
    };
    let task = tokio::spawn(converse(stream, place.clone(), handler.clone()));
    place.ends_with(task.abort_handle());
}

/// Answers a client, which keeps its place until it goes or has had its time.
async fn converse(stream: Box<dyn Stream>, place: Arc<Place>, handler: Handler) {
    let answer = service_fn(move |request| answer(request, place.clone(), handler.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD).keep_alive(false);
    // Whether the client was content is its own affair.
    let _ = tokio::time::timeout(MOST_TIME, http.serve_connection(TokioIo::new(stream), answer)).await;
}

async fn answer(request: Seen, place: Arc<Place>, handler: Handler) -> Result<Answer, Infallible> {
    place.asked();
    let answer = match handler(&request) {
        Reply::Now(answer) => answer,
        Reply::Later(work) => {
            // The place is taken until it is done, even if the client goes: what waits to be done is bounded, too.
            let its_place = place.clone();
            let work = move || (work(), its_place).0;
            let done = tokio::task::spawn_blocking(work).await;
            done.unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made\n"))
        }
    };
    place.answered();
    Ok(answer)
}
