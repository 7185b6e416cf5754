//! Why nobody is served.

use std::error::Error;

use shingle_core::impl_error;

use super::listen::ListenError;
use crate::tls::TlsError;

/// Error of serving exports.
#[derive(Debug)]
pub enum ServeError {
    /// A front end cannot show the exports together.
    Exports {
        /// The front end.
        over: &'static str,
        /// What is wrong with them.
        why: String,
    },
    /// Two exports have this name.
    Taken(String),
    /// Nobody can listen there.
    Listen(ListenError),
    /// Nobody can be shown who this server is, or let in.
    Tls(TlsError),
    /// A front end cannot show or withdraw an export.
    Device(Box<dyn Error + Send + Sync>),
    /// The shard on which this front end would listen is busy or stopped.
    Stopped(&'static str),
}

impl_error!(ServeError, Listen(ListenError), Tls(TlsError), |self, f| match self {
    Self::Exports { over, why } => write!(f, "cannot serve these exports over {over}: {why}"),
    Self::Taken(name) => write!(f, "two exports are named '{name}': rename one of them"),
    Self::Listen(error) => error.fmt(f),
    Self::Tls(error) => write!(f, "TLS of [listen]: {error}"),
    Self::Device(error) => error.fmt(f),
    Self::Stopped(over) => {
        write!(f, "cannot serve over {over}: the shard does not listen; start it again")
    }
});
