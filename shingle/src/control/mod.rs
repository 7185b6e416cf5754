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
mod exports;
mod fields;
mod mapped;
mod operations;
mod recording;
mod server;
mod users;
mod zones;

use std::fmt;

use serde_json::{Value, json};
use shingle_core::target::TableError;

pub use client::ControlClient;
pub use server::ControlServer;
pub use zones::{ZoneAction, ZoneRange, zone_from_json, zone_to_json};

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

/// Why a request failed; the words of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is none.
    BadRequest,
    /// It is of another version.
    UnsupportedVersion,
    /// There is no such operation.
    UnknownOp,
    /// There is no such device.
    UnknownDevice,
    /// The device has no zones.
    NotZoned,
    /// The range is not one of whole zones.
    Invalid,
    /// The device refused.
    Io,
    /// The device did not become idle, or is in use.
    Busy,
    /// The name or UUID is taken.
    Exists,
    /// The device has no table.
    NoTable,
    /// The table is wrong or does not fit.
    Table,
    /// A target cannot take bios yet.
    NotReady,
    /// The daemon is going down or does not answer.
    Stopped,
}

impl ErrorKind {
    const ALL: [(ErrorKind, &'static str); 13] = [
        (ErrorKind::BadRequest, "bad-request"),
        (ErrorKind::UnsupportedVersion, "unsupported-version"),
        (ErrorKind::UnknownOp, "unknown-op"),
        (ErrorKind::UnknownDevice, "unknown-device"),
        (ErrorKind::NotZoned, "not-zoned"),
        (ErrorKind::Invalid, "invalid"),
        (ErrorKind::Io, "io"),
        (ErrorKind::Busy, "busy"),
        (ErrorKind::Exists, "exists"),
        (ErrorKind::NoTable, "no-table"),
        (ErrorKind::Table, "table"),
        (ErrorKind::NotReady, "not-ready"),
        (ErrorKind::Stopped, "stopped"),
    ];

    /// The word of the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("io", |(_, name)| name)
    }

    /// The kind with this word; an unknown one is `io`, so that newer daemons can have more.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self::ALL.iter().find(|(_, known)| *known == name).map_or(Self::Io, |(kind, _)| *kind)
    }
}

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

    fn to_json(&self) -> Value {
        let mut object = json!({"kind": self.kind.name(), "message": self.message});
        if let Some((errno, sector)) = self.refusal {
            object["errno"] = json!(errno);
            object["sector"] = json!(sector);
        }
        if let Some(TableError { line, word, message }) = &self.table {
            object["table"] = json!({"line": line, "word": word, "message": message});
        }
        object
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ControlError {}
