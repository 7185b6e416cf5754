//! The server of a ublk device: requests of the machine's kernel in, bios out; completions in, answers out.
//!
//! A driver feeds it a request by its tag and descriptor, and completions of bios by their word; then it does what
//! [`Session::poll`] says until that is nothing. The data of requests moves through the driver's [`UserCopy`]. Each tag has memory of
//! its own from the start, so that nothing is allocated, and nobody waits for memory, on the way of a write: those who write may be
//! those who would have to free it.
//!
//! A server that is killed leaves a device whose users wait for the next one, which has to know what was acknowledged:
//! - [`Unflushed`]: writes that a device below keeps only in its memory until a flush.
//! - [`ZoneRecords`]: requests that would not be the same twice.

mod guards;
mod replay;
mod session;
mod takeover;
mod unflushed;
mod wire;
mod zone_records;

#[cfg(feature = "sabotage")]
pub use self::guards::Sabotage;
pub use self::replay::Progress;
pub use self::session::{Answer, Next, Session, SessionShape, UserCopy};
pub use self::unflushed::{Left, Unflushed, log_bytes};
pub use self::wire::{Descriptor, ZONE_BYTES};
pub use self::zone_records::{RecordsShape, ZoneRecords};
