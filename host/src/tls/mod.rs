//! TLS of servers, by OpenSSL: who this server is, whom it lets in, and streams without a socket.
//!
//! ```text
//!   TlsFiles ── load ──> TlsServer ── accept ──> TlsStream: bytes from and for the network on one side, bytes of the protocol on the other
//!      ^ are they others now?  │
//!      └──── a thread ─────────┘
//! ```
//!
//! Files have the names and forms that other NBD servers give them (`nbdkit-tls(1)`, QEMU's `tls-creds-x509`, `psktool(1)`).

mod files;
mod keys;
mod server;
mod stream;

pub use files::{TlsError, TlsFiles};
pub use server::TlsServer;
pub use stream::TlsStream;
