//! The control socket: how commands ask a running daemon.
//!
//! ```text
//!  shingle status ── a line of JSON ──> server (a thread per client) ── mailbox ──> shard
//!                 <── a line of JSON ──                              <── reply ──
//! ```
//!
//! The protocol is described in `docs/control-protocol.md`. No request runs longer on a shard than a batch of zones takes to be
//! submitted, or a table to be built, and a client that is slow keeps only its own thread waiting.

mod client;
mod clients;
mod deeds;
mod exports;
mod mapped;
mod names;
mod operations;
mod paths;
mod plugs;
mod power;
pub mod protocol;
mod record;
mod recording;
mod reload;
mod scheduler;
mod serve;
mod server;
mod status;
mod users;
mod zones;

use shingle_core::dm::TableError;
use shingle_core::impl_error;

pub use client::ControlClient;
pub(crate) use mapped::deps;
pub(crate) use operations::watched_zones;
pub use protocol::ErrorKind;
pub use record::{RecordError, Taken, Wanted, record};
pub use server::ControlServer;
pub(crate) use status::status;
pub use zones::{ZoneAction, ZoneRange};

/// The version of the protocol.
pub const VERSION: u64 = 1;
/// Most bytes of a request, its newline included.
pub const LONGEST_REQUEST: usize = 1 << 20;
/// Most zones in one response.
pub const MOST_ZONES: usize = 1024;

/// The major number that mapped devices are shown with: the one that Linux usually gives them.
pub const MAPPED_MAJOR: u32 = 253;
/// The major number that disks are shown with. Both are made up: nothing here has a device node.
pub const DISK_MAJOR: u32 = 252;

/// A failed request, or no way to make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError {
    /// For programs.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
    /// What the device said, if it was the device: errno and sector.
    pub refusal: Option<(i32, u64)>,
    /// The mistake in a table, if it is one.
    pub table: Option<TableError>,
}

impl ControlError {
    /// An error with a message.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), refusal: None, table: None }
    }
}

/// A request that is none.
fn bad(message: String) -> ControlError {
    ControlError::new(ErrorKind::BadRequest, message)
}

impl_error!(ControlError, |self, f| f.write_str(&self.message));
