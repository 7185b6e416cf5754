//! Whom the page is for, and what browsers may do with it.

use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};

use super::token::Token;
use crate::http::{Answer, Seen, names_this_machine, text};

/// Scripts, styles and data of this very server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// An answer with what browsers have to keep to.
pub(super) fn sealed(mut answer: Answer) -> Answer {
    let heads = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    heads.into_iter().for_each(|(name, value)| _ = answer.headers_mut().insert(name, HeaderValue::from_static(value)));
    answer
}

/// Why nobody gets an answer to such a request, whatever it asks for.
pub(super) fn refusal(request: &Seen) -> Option<Answer> {
    if !names_this_machine(request) {
        // A name that somebody else has lead here: a page of his would count as ours.
        let why = "this page is for http://127.0.0.1, http://localhost or http://[::1] alone\n";
        return Some(text(StatusCode::FORBIDDEN, why));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "there is nothing to change here\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(answer);
    }
    None
}

/// Why somebody does not get what only those get who know the token.
pub(super) fn stranger(request: &Seen, token: &Token) -> Option<Answer> {
    let said = request.headers().get(AUTHORIZATION).and_then(|said| said.as_bytes().strip_prefix(b"Bearer "));
    if said.is_some_and(|said| token.is(said)) {
        return None;
    }
    let mut answer = text(StatusCode::UNAUTHORIZED, "this takes the token: `shingle status` shows it\n");
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Some(answer)
}
