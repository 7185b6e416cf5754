//! The keys of `[listen]` for TLS.

use std::path::PathBuf;
use std::sync::Arc;

use crate::fields::{At, Diagnostic, Fields};
use crate::serve::listen::Address;
use crate::tls::{TlsError, TlsFiles, TlsServer};

/// Those keys, as written.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsKeys {
    certificates: Option<At<PathBuf>>,
    verify_clients: Option<At<bool>>,
    shared_keys: Option<At<PathBuf>>,
    clients: Option<At<Vec<String>>>,
    unix: Option<At<bool>>,
}

fn is_set(flag: &Option<At<bool>>) -> bool {
    flag.as_ref().is_some_and(|at| at.value)
}

impl TlsKeys {
    pub fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            certificates: fields.path("tls-certificates"),
            verify_clients: fields.flag("tls-verify-clients"),
            shared_keys: fields.path("tls-psk"),
            clients: fields.strings("tls-clients"),
            unix: fields.flag("tls-unix"),
        }
    }

    fn is_on(&self) -> bool {
        self.certificates.is_some() || self.shared_keys.is_some()
    }

    /// Whether nobody is let in who has shown nothing.
    pub fn knows_clients(&self) -> bool {
        self.is_on() && (self.certificates.is_none() || is_set(&self.verify_clients))
    }

    /// Whether clients that come there need TLS.
    pub fn covers(&self, address: &Address) -> bool {
        self.is_on() && (matches!(address, Address::Tcp(_)) || is_set(&self.unix))
    }

    pub fn mistake(&self, unix: bool, tcp: bool) -> Option<Diagnostic> {
        let error = |span: &std::ops::Range<usize>, title: &str, label: &str| {
            Some(Diagnostic::at(span.clone(), title.to_owned()).label(label.to_owned()))
        };
        let place = self.certificates.as_ref().or(self.shared_keys.as_ref()).map(|at| &at.span);
        if let (Some(at), None) = (&self.verify_clients, &self.certificates) {
            return error(
                &at.span,
                "`tls-verify-clients` is for certificates",
                "say where they are: tls-certificates = \"DIRECTORY\"",
            );
        }
        if let Some(at) = self.clients.as_ref().filter(|_| !self.knows_clients() && self.shared_keys.is_none()) {
            return error(
                &at.span,
                "clients have no names without certificates or shared keys",
                "add tls-verify-clients = true, or tls-psk",
            );
        }
        if let Some(at) = self.clients.as_ref().filter(|at| at.value.is_empty()) {
            return error(&at.span, "`tls-clients` lets nobody in", "name them, or leave it out");
        }
        if let (Some(at), false) = (&self.unix, unix && self.is_on()) {
            return error(
                &at.span,
                "`tls-unix` has TLS on `unix`, too",
                "there is no `unix`, or neither certificates nor shared keys",
            );
        }
        match place {
            Some(span) if !tcp && !is_set(&self.unix) => {
                error(span, "TLS protects nothing here", "it is for `tcp`, and for `unix` with tls-unix = true")
            }
            _ => None,
        }
    }

    /// Who the server is, if it does TLS.
    pub fn server(&self) -> Result<Option<Arc<TlsServer>>, TlsError> {
        if !self.is_on() {
            return Ok(None);
        }
        let files = TlsFiles {
            certificates: self.certificates.as_ref().map(|at| at.value.clone()),
            verify_clients: is_set(&self.verify_clients),
            shared_keys: self.shared_keys.as_ref().map(|at| at.value.clone()),
        };
        let clients = self.clients.as_ref().map_or(Vec::new(), |at| at.value.clone());
        TlsServer::open(files, clients).map(Some)
    }
}
