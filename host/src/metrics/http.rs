//! Metrics over HTTP.

use std::io;
use std::sync::Arc;

use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};

use super::{Format, Snapshot};
use crate::daemon_state::DaemonState;
use crate::http::{Answer, HttpServer, Reply, Seen, names_this_machine, text};
use crate::serve::listen::Listener;

/// Answers for `daemon` on `listeners`, until what it returns is dropped.
///
/// # Errors
/// If there can be no thread for it.
pub fn serve_metrics(listeners: &[Listener], daemon: Arc<DaemonState>) -> io::Result<HttpServer> {
    HttpServer::start("metrics", listeners, Arc::new(move |request| answer(request, &daemon)))
}

fn answer(request: &Seen, daemon: &Arc<DaemonState>) -> Reply {
    if !names_this_machine(request) {
        // DNS rebinding: a page from elsewhere could read the metrics in the browser of a user of this machine.
        let why = "metrics are for http://127.0.0.1, http://localhost or http://[::1] alone\n";
        return Reply::Now(text(StatusCode::FORBIDDEN, why));
    }
    Reply::Now(match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
            let format =
                if accept.contains("application/openmetrics-text") { Format::OpenMetrics } else { Format::Prometheus };
            let daemon = daemon.clone();
            return Reply::Later(Box::new(move || scrape(format, &daemon)));
        }
        (&Method::GET | &Method::HEAD, "/") => text(StatusCode::OK, "Shingle. Its metrics are at /metrics\n"),
        (&Method::GET | &Method::HEAD, _) => text(StatusCode::NOT_FOUND, "there is /metrics, and nothing else\n"),
        _ => {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "metrics are read with GET\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            answer
        }
    })
}

fn scrape(format: Format, daemon: &DaemonState) -> Answer {
    match Snapshot::take(daemon) {
        Ok(all) => {
            let mut answer = text(StatusCode::OK, all.text(format));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
            answer
        }
        Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
