//! A server with certificates that may be replaced while it runs.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use openssl::ssl::SslContext;

use super::files::{Stamp, TlsError, TlsFiles};
use super::stream::TlsStream;

/// How often it is looked whether files are others.
const EVERY: Duration = Duration::from_secs(1);

/// What connections are made with, and whom they are for.
#[derive(Debug)]
pub struct TlsServer {
    files: TlsFiles,
    /// Who may connect of those who can. Empty: everybody.
    clients: Vec<String>,
    now: Mutex<SslContext>,
}

impl TlsServer {
    /// A server with these files, for those clients only if any are named. Files that are replaced are taken within seconds.
    ///
    /// # Errors
    /// If a file is not what it should be.
    pub fn open(files: TlsFiles, clients: Vec<String>) -> Result<Arc<Self>, TlsError> {
        let (stamp, now) = (files.stamp(), files.load()?);
        let server = Arc::new(Self { files, clients, now: Mutex::new(now) });
        let watched = Arc::downgrade(&server);
        let watch = thread::Builder::new().name("tls-files".into()).spawn(move || watch(&watched, stamp));
        watch.map_err(|error| TlsError(format!("cannot start a thread: {error}")))?;
        Ok(server)
    }

    /// A client comes.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn accept(&self) -> Result<TlsStream, TlsError> {
        TlsStream::new(&self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a client with these names may be here.
    ///
    /// # Errors
    /// Why not, for the client.
    pub fn admit(&self, names: &[String]) -> Result<(), String> {
        if self.clients.is_empty() || names.iter().any(|name| self.clients.contains(name)) {
            return Ok(());
        }
        Err(format!("`{}` is not among the clients that may connect (tls-clients)", names.join("`, `")))
    }

    /// What protects connections, in a few words.
    #[must_use]
    pub fn protection(&self) -> String {
        let mut ways = Vec::new();
        if self.files.verify_clients {
            ways.push("a certificate");
        }
        if self.files.shared_keys.is_some() {
            ways.push("a shared key");
        }
        let anybody = self.files.certificates.is_some() && !self.files.verify_clients;
        match (anybody, self.clients.len()) {
            (true, 0) => "TLS, for anybody".into(),
            (_, 0) => format!("TLS, for clients with {}", ways.join(" or ")),
            (_, count) => format!("TLS, for {count} clients with {}", ways.join(" or ")),
        }
    }
}

/// Takes files that were replaced, until the server is gone.
fn watch(server: &Weak<TlsServer>, mut known: Stamp) {
    let mut in_force = known.clone();
    while let Some(server) = server.upgrade() {
        let stamp = server.files.stamp();
        if stamp != known {
            let loaded = match server.files.lost_revocations(&in_force, &stamp) {
                // Without it every certificate that was revoked would be good again.
                Some(path) => {
                    Err(TlsError(format!("{} is gone: put it back; an empty list revokes nothing", path.display())))
                }
                None => server.files.load(),
            };
            if loaded.is_ok() {
                in_force.clone_from(&stamp);
            }
            match loaded {
                Ok(context) => *server.now.lock().unwrap_or_else(PoisonError::into_inner) = context,
                // Half of them may be there: they are looked at again when the others come.
                Err(error) => tracing::warn!("TLS keeps the certificates and keys in use: {error}"),
            }
            known = stamp;
        }
        drop(server);
        thread::sleep(EVERY);
    }
}
