//! `[metrics]`: where a stack tells what it has done.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::fields::{Diagnostic, Fields};
use crate::serve::listen::Address;

/// Where metrics are told, but for the control socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsPlan {
    /// Over HTTP, to this machine alone.
    pub addresses: Vec<Address>,
    /// In a file, which is replaced as often.
    pub file: Option<(PathBuf, Duration)>,
}

/// How often a file is replaced, and can be.
const INTERVAL: Duration = Duration::from_secs(15);
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

impl MetricsPlan {
    /// Reads the keys of `[metrics]`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let place = fields.place();
        let unix = fields.path("unix").map(|at| Address::Unix(at.value));
        let tcp = read_loopback(fields, "tcp", "127.0.0.1:9469", "metrics go to this machine alone");
        let (file, interval) = (fields.path("file"), fields.duration("interval"));
        if unix.is_none() && tcp.is_none() && file.is_none() && !fields.has("tcp") {
            let help = "add one, such as:\ntcp = \"127.0.0.1:9469\"";
            let title = "[metrics] says neither where to listen nor what to write";
            fields.error(Diagnostic::at(place, title).label("no `tcp`, `unix` or `file`").help(help));
        }
        if let Some(at) = &interval
            && at.value < LEAST_INTERVAL
        {
            let error = Diagnostic::at(at.span.clone(), "`interval` is too short");
            fields.error(error.label("at least 1 s: whoever reads the file does so less often"));
        }
        if let (Some(at), None) = (&interval, &file) {
            let error = Diagnostic::at(at.span.clone(), "`interval` is that of a `file`, and there is none");
            fields.error(error.label("no effect"));
        }
        let interval = interval.map_or(INTERVAL, |at| at.value);
        Self { addresses: unix.into_iter().chain(tcp).collect(), file: file.map(|at| (at.value, interval)) }
    }
}

/// An address that only this machine reaches, with an example; and why others must not.
pub(super) fn read_loopback(fields: &mut Fields<'_>, key: &'static str, example: &str, why: &str) -> Option<Address> {
    let at = fields.string(key)?;
    match at.value.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Some(Address::Tcp(address)),
        Ok(_) => {
            let help = format!("write 127.0.0.1 or [::1]: {why}. Have something with TLS in front to let others ask");
            let error = Diagnostic::at(at.span, format!("`{key}` is an address that others reach"));
            fields.error(error.label("not an address of this machine alone").help(help));
            None
        }
        Err(_) => {
            let error = Diagnostic::at(at.span, format!("`{key}` is not an address"));
            fields.error(error.label(format!("write it as \"{example}\"")));
            None
        }
    }
}
