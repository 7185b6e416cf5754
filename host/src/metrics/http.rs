//! Metrics over HTTP.
//!
//! One thread for all clients, and one that asks the shards, so two scrapes come one after the other. A client that is slow, or sends
//! anything but a short request, is cut off; clients beyond a bound wait until others have gone.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{Format, Snapshot};
use crate::daemon_state::DaemonState;
use crate::serve::listen::{Address, Listener};

/// Most clients at a time.
const MOST_CLIENTS: usize = 64;
/// Most bytes of a request's head.
const LONGEST_HEAD: usize = 16 << 10;
/// How long a client may take for its request, and for all of it.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_TIME: Duration = Duration::from_secs(10);
/// How long to wait if there are no descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The server. It ends when this is dropped.
pub struct MetricsServer {
    /// They close, and socket files go, behind the thread.
    _listeners: Vec<Listener>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Answers for `daemon` on `listeners`.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub fn start(listeners: Vec<Listener>, daemon: Arc<DaemonState>) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(1).build()?;
        let sockets = listeners.iter().map(|listener| socket(&runtime, listener)).collect::<io::Result<Vec<_>>>()?;
        let body = move || {
            let places = Arc::new(Semaphore::new(MOST_CLIENTS));
            for socket in sockets {
                runtime.spawn(accept_all(socket, places.clone(), daemon.clone()));
            }
            // What it waits for is the end of the sender, whatever that says.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(PATIENCE);
        };
        let thread = thread::Builder::new().name("metrics".into()).spawn(body)?;
        Ok(Self { _listeners: listeners, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MetricsServer {
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

async fn accept_all(socket: Socket, places: Arc<Semaphore>, daemon: Arc<DaemonState>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let daemon = daemon.clone();
        // Out of descriptors, or the client is gone again: others may come.
        let accepted = match &socket {
            Socket::Tcp(listener) => {
                listener.accept().await.map(|(stream, _)| tokio::spawn(converse(stream, place, daemon)))
            }
            Socket::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| tokio::spawn(converse(stream, place, daemon)))
            }
        };
        if accepted.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Answers a client, which keeps its place until it goes or has had its time.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    _place: OwnedSemaphorePermit,
    daemon: Arc<DaemonState>,
) {
    let answer = service_fn(move |request| answer(request, daemon.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD);
    // Whether the client was content is its own affair.
    let _ = tokio::time::timeout(MOST_TIME, http.serve_connection(TokioIo::new(stream), answer)).await;
}

type Answer = Response<Full<Bytes>>;

async fn answer(request: Request<Incoming>, daemon: Arc<DaemonState>) -> Result<Answer, Infallible> {
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
            let format =
                if accept.contains("application/openmetrics-text") { Format::OpenMetrics } else { Format::Prometheus };
            scrape(format, daemon).await
        }
        (&Method::GET | &Method::HEAD, "/") => plain(StatusCode::OK, "Shingle. Its metrics are at /metrics\n".into()),
        (&Method::GET | &Method::HEAD, _) => {
            plain(StatusCode::NOT_FOUND, "there is /metrics, and nothing else\n".into())
        }
        _ => {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "metrics are read with GET\n".into());
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            answer
        }
    })
}

async fn scrape(format: Format, daemon: Arc<DaemonState>) -> Answer {
    let taken = tokio::task::spawn_blocking(move || Snapshot::take(&daemon).map(|all| all.text(format))).await;
    match taken {
        Ok(Ok(text)) => {
            let mut answer = plain(StatusCode::OK, text);
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
            answer
        }
        Ok(Err(error)) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n".into()),
    }
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
