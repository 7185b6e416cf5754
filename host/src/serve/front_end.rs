//! What a front end is.

use std::fmt;
use std::sync::Arc;

use super::directory::Directory;
use super::error::ServeError;
use super::export::{Export, ExportKeys, Extra};
use super::listen::Address;
use crate::fields::{Diagnostic, Fields};
use crate::shard::Shard;

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
