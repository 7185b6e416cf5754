//! Front ends: how clients reach exports, and sockets to the sessions of `shingle_core::frontend`.
//!
//! ```text
//!  [listen], [export.NAME] ── FrontEndType ──> FrontEnd: what was written, checked ── service ──> Service
//!                                                                                                   │ listen
//!  a client ── Acceptor ──> a source: socket and session ── claim ──> Directory: the exports <──────┘
//!                             └── bios ──> the stack of the export's shard
//! ```
//!
//! Each protocol is a folder here and a line in [`FRONT_ENDS`]; nothing else knows which there are. Whoever links this library
//! has more by handing the reader of stack files a longer list: `docs/adding-a-front-end.md`.
//!
//! A listener and every connection are sources of a shard. They own a descriptor and a session, and pass between ring,
//! session and stack what these want from each other; every decision about the protocol is the session's.
//!
//! - [`listen`]: addresses, and sockets that listen on them.
//! - [`nbd`]: connections of NBD clients.
//! - [`sockets`]: those that a service manager hands over and keeps.
//! - [`ublk`]: block devices of this machine.

mod acceptor;
mod complaint;
mod directory;
mod error;
mod export;
mod front_end;
mod handshakes;
pub mod listen;
pub mod nbd;
mod permit;
pub mod sockets;
pub mod ublk;

use self::acceptor::shorten_keepalive;
pub use self::acceptor::{Acceptor, Client, Terms};
pub use self::complaint::{Complaint, Log, rate_limited};
pub use self::directory::{ClaimError, Directory, User};
pub use self::error::ServeError;
pub use self::export::{Export, ExportIdentity, ExportKeys, Extra, Identify};
pub use self::front_end::{FrontEnd, FrontEndType, Service};
pub use self::handshakes::Handshake;
pub use self::permit::{ConnectionSlots, Permit};
pub use self::sockets::Sockets;

/// All of them.
pub const FRONT_ENDS: [&FrontEndType; 2] = [&nbd::TYPE, &ublk::TYPE];
