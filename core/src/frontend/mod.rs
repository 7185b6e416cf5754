//! Protocols without sockets: bytes in, bios out; completions in, bytes out.
//!
//! A frontend is a session per connection, a deterministic state machine that its driver feeds and drains. It never waits,
//! never reads a clock and holds a bounded amount of memory whatever the other side sends.
//!
//! - [`nbd`]: the NBD server.
//! - [`Pool`]: memory for requests, of whatever protocol.

pub mod nbd;
mod pool;

pub use pool::Pool;
