//! What is answered to what.

use std::io;
use std::sync::Arc;

use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde_json::json;

use super::assets::asset;
use super::guard::{refusal, sealed, stranger};
use super::recent::Recent;
use super::token::Token;
use super::watched::Watched;
use super::zone_map::Maps;
use crate::http::{Answer, HttpServer, Reply, Seen, text};
use crate::serve::listen::Listener;

struct Page {
    watched: Arc<dyn Watched>,
    token: Token,
    recent: Recent,
    maps: Maps,
}

/// Shows `watched` on `listeners` to those who know the token, until what it returns is dropped.
///
/// # Errors
/// If there can be no thread for it.
pub fn serve_page(listeners: &[Listener], token: Token, watched: Arc<dyn Watched>) -> io::Result<HttpServer> {
    let page = Arc::new(Page { watched, token, recent: Recent::default(), maps: Maps::default() });
    HttpServer::start("web", listeners, Arc::new(move |request| answer(request, &page)))
}

/// What is asked for below `/api`.
enum Question {
    Status,
    Deps,
    Metrics,
    Events { since: u64 },
    Zones { device: String, since: u32 },
}

fn answer(request: &Seen, page: &Arc<Page>) -> Reply {
    let now = |answer| Reply::Now(sealed(answer));
    if let Some(refusal) = refusal(request) {
        return now(refusal);
    }
    let path = request.uri().path();
    let Some(what) = path.strip_prefix("/api/") else {
        return now(asset(path).unwrap_or_else(|| text(StatusCode::NOT_FOUND, "there is no such file\n")));
    };
    if let Some(stranger) = stranger(request, &page.token) {
        return now(stranger);
    }
    let Some(question) = question(what, request.uri().query().unwrap_or_default()) else {
        return now(text(
            StatusCode::NOT_FOUND,
            "there is nothing to ask for by that name: `man shingle-web` or docs/web.md has what there is\n",
        ));
    };
    let page = page.clone();
    Reply::Later(Box::new(move || sealed(page.ask(&question))))
}

fn question(what: &str, query: &str) -> Option<Question> {
    let value = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(of, _)| *of == name).map(|(_, value)| value)
    };
    let number = |name| value(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    match what {
        "status" => Some(Question::Status),
        "deps" => Some(Question::Deps),
        "metrics" => Some(Question::Metrics),
        "events" => Some(Question::Events { since: number("since") }),
        "zones" => Some(Question::Zones {
            device: decode(value("device")?)?,
            since: u32::try_from(number("since")).unwrap_or(0),
        }),
        _ => None,
    }
}

/// A value of a query; `None` if it is none.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

impl Page {
    fn ask(&self, question: &Question) -> Answer {
        let watched = &*self.watched;
        let told = match question {
            Question::Status => self.recent.answer("status", || watched.status()),
            Question::Deps => self.recent.answer("deps", || watched.deps()),
            Question::Metrics => self.recent.answer("metrics", || watched.metrics()),
            Question::Events { since } => Ok(json!({"events": watched.events(*since)}).to_string().into()),
            Question::Zones { device, since } => {
                let zones = self.maps.since(watched, device, *since);
                return zones.map_or_else(trouble, |zones| content("application/octet-stream", zones));
            }
        };
        told.map_or_else(trouble, |told| content("application/json", told))
    }
}

fn content(kind: &'static str, bytes: Bytes) -> Answer {
    let mut answer = Answer::new(Full::new(bytes));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// The stack is there, and does not say.
fn trouble(why: String) -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_queries_are_those_that_were_meant() {
        assert_eq!(decode("a%2Fb+%C3%A9%26").as_deref(), Some("a/b \u{e9}&"));
        assert!([decode("%"), decode("%4"), decode("%zz"), decode("%ff")].iter().all(Option::is_none));
    }
}
