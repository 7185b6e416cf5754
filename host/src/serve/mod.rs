//! Sockets to sessions: how clients reach the sessions of `shingle_core::frontend`.
//!
//! ```text
//!  listener ── accept ──> connection ── bytes ──> session ── bios ──> stack
//!                             ^───── replies ────────┘
//! ```
//!
//! A listener and every connection are sources of a shard. They own a descriptor and a session, and pass between ring,
//! session and stack what these want from each other; every decision about the protocol is the session's.
//!
//! - [`listen`]: addresses, and sockets that listen on them.
//! - [`acceptor`]: lets clients in, within a bound.
//! - [`nbd`]: connections of NBD clients.

pub mod acceptor;
pub mod listen;
pub mod nbd;
mod permit;

pub use permit::Permit;
