//! The NBD server, as a state machine.
//!
//! ```text
//!             bytes                                  bios, and questions about holes
//!  client ─── handle_bytes ──> handshake ─┐    ┌──── poll_bio, poll_question ─────────> stack
//!         <── poll_transmit ── replies <──┴ transmission <── handle_completion, handle_extents ──
//! ```
//!
//! [`Session`] is the whole of one connection; its documentation says in which order to feed and drain it. What it speaks:
//! fixed newstyle negotiation (`EXPORT_NAME`, `GO`, `INFO`, `LIST`, `ABORT`), simple replies, structured replies and
//! extended headers, block sizes, READ (with DF), WRITE, FLUSH, FUA, TRIM, WRITE_ZEROES (NO_HOLE, FAST_ZERO) and
//! BLOCK_STATUS for `base:allocation`: on a zoned device what lies behind a write pointer is a hole that reads as zeroes, on
//! others what the stack knows to be one. TLS is the driver's: the session says when it begins (`STARTTLS`), and lets nobody past before it where it is
//! required. What it does not speak: requests for parts of blocks, CACHE, RESIZE, payloads on
//! BLOCK_STATUS, metadata contexts of others.
//!
//! Numbers and rules are those of the protocol document, `nbd/doc/proto.md`; the comments name its sections.

mod allocation;
mod export;
mod guards;
mod handshake;
mod session;
#[cfg(test)]
mod tests;
mod transmission;
mod transmit;
mod wire;

pub use export::{Export, Exports, ExportsError, PAYLOAD_MAX_BYTES};
#[cfg(feature = "sabotage")]
pub use guards::Sabotage;
pub use session::{Close, Receive, Session, SessionLimits};
pub use transmit::{Segment, Transmit};
