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

mod acceptor;
mod directory;
mod error;
mod export;
pub mod listen;
pub mod nbd;
mod permit;

use std::fmt;
use std::sync::Arc;

use crate::fields::{Diagnostic, Fields};
use crate::shard::Shard;

pub use self::acceptor::{Acceptor, Client, Log};
pub use self::directory::Directory;
pub use self::error::ServeError;
pub use self::export::{Export, ExportKeys, Extra};
use self::listen::Address;
pub use self::permit::Permit;

/// A protocol.
#[derive(Debug)]
pub struct FrontEndType {
    /// Its name, for messages.
    pub name: &'static str,
    /// Reads its keys of `[listen]`, which may have none. Mistakes go to the fields. Touches nothing.
    pub read_listen: fn(&mut Fields<'_>) -> Arc<dyn FrontEnd>,
    /// Reads its own keys of `[export.NAME]`, if it has such. `None` is for an export that has none of them.
    pub read_export: Option<fn(&mut Fields<'_>) -> Option<Extra>>,
}

/// All of them.
pub const FRONT_ENDS: [&FrontEndType; 1] = [&nbd::TYPE];

/// A front end as it is written in a stack file.
pub trait FrontEnd: fmt::Debug + Send + Sync {
    /// Its kind.
    fn kind(&self) -> &'static FrontEndType;

    /// What is wrong with it although each value could be read.
    fn mistakes(&self) -> Vec<Diagnostic> {
        Vec::new()
    }

    /// Whether clients reach an export with these keys by it.
    fn offers(&self, keys: &ExportKeys) -> bool;

    /// Whether it can show all of these, which it offers, together.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn check(&self, exports: &[&Export]) -> Result<(), String> {
        let _ = exports;
        Ok(())
    }

    /// Makes what runs.
    fn service(&self) -> Box<dyn Service>;
}

/// A front end that runs.
pub trait Service: Send + Sync {
    /// Makes `shard` a home of its sessions. It is called once on each shard, in their order.
    fn install(&mut self, shard: &mut Shard);

    /// Has clients come, and choose from `directory`, once all shards are homes. Returns where it listens.
    ///
    /// # Errors
    /// If nobody can listen there.
    fn listen(&self, directory: &Directory) -> Result<Vec<Address>, ServeError>;

    /// Connections that live on shard number `shard` now.
    fn connections(&self, shard: usize) -> usize;
}
