//! Protocols without sockets: bytes in, bios out; completions in, bytes out.
//!
//! A frontend is a session per connection, a deterministic state machine that its driver feeds and drains. It never waits,
//! never reads a clock and holds a bounded amount of memory whatever the other side sends.
//!
//! - [`nbd`]: the NBD server.
//! - [`ublk`]: the server of a block device of the machine's kernel.
//! - [`Pool`]: memory for requests, of whatever protocol.

pub mod nbd;
mod pool;
pub mod ublk;

pub use pool::Pool;
