//! `[web]`: where a stack shows its page.

use super::metrics::read_loopback;
use crate::fields::{Diagnostic, Fields};
use crate::serve::listen::Address;

/// Where the page is, and who may see it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WebPlan {
    /// On this machine alone.
    pub addresses: Vec<Address>,
    /// What who asks has to know; one is made at each start if there is none.
    pub token: Option<String>,
}

impl std::fmt::Debug for WebPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebPlan").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Characters that a token has: nobody guesses the shortest, and the longest goes in a head.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

impl WebPlan {
    /// Reads the keys of `[web]`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let place = fields.place();
        let unix = fields.path("unix").map(|at| Address::Unix(at.value));
        let tcp = read_loopback(fields, "tcp", "127.0.0.1:9470", "the page is for this machine alone");
        if unix.is_none() && tcp.is_none() && !fields.has("tcp") {
            let help = "add one, such as:\ntcp = \"127.0.0.1:9470\"";
            let error = Diagnostic::at(place, "[web] does not say where to listen").label("no `tcp` or `unix`");
            fields.error(error.help(help));
        }
        let token = fields.string("token");
        if let Some(at) = &token {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
            if !LENGTHS.contains(&at.value.len()) || !at.value.chars().all(fits) {
                let label = format!("{} to {} letters, digits, `-`, `_`, `.` or `~`", LENGTHS.start(), LENGTHS.end());
                let help = "leave it out to have one made at each start, or take what `uuidgen` prints";
                fields.error(Diagnostic::at(at.span.clone(), "`token` is no token").label(label).help(help));
            }
        }
        Self { addresses: unix.into_iter().chain(tcp).collect(), token: token.map(|at| at.value) }
    }
}
