//! HTTP to this machine: what metrics and the web page have in common.
//!
//! ```text
//!  a client ──> a place among few ──> one request ──> Handler ──> Now(answer) ───────────────────┐
//!      <── the answer, and the end <────────────────────────┴──> Later(work) ── another thread ──┘
//! ```
//!
//! One thread for all clients, and one for answers that have to be asked for, so two of these come one after the other. A connection is
//! for one request: what bounds its time bounds that of a slow reader. Who says nothing, or does not take an answer, makes room for others. A crowd
//! is let in one after the other, so that it does not take the processor of a shard.

mod names;
mod pace;
mod places;
mod server;

pub use names::names_this_machine;
pub use server::{Answer, Handler, HttpServer, Reply, Seen, text};
