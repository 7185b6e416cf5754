//! What a front end is.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::complaint::Log;
use super::directory::Directory;
use super::error::ServeError;
use super::export::{Export, ExportKeys, Extra};
use super::listen::Listening;
use super::sockets::Sockets;
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
pub trait FrontEnd: Any + fmt::Debug + Send + Sync {
    /// Its kind.
    fn kind(&self) -> &'static FrontEndType;

    /// What is wrong with it although each value could be read.
    fn mistakes(&self) -> Vec<Diagnostic> {
        Vec::new()
    }

    /// Whether clients reach an export with these keys by it.
    fn offers(&self, keys: &ExportKeys) -> bool;

    /// This thread is about to start those that will serve exports with these keys, which it offers.
    fn prepare(&self, keys: &ExportKeys) {
        let _ = keys;
    }

    /// Whether it can show all of these, which it offers, together.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn check(&self, exports: &[&Export]) -> Result<(), String> {
        let _ = exports;
        Ok(())
    }

    /// Makes what runs, for the stack file at this path.
    fn service(&self, stack_file: &Path) -> Box<dyn Service>;
}

/// A front end that runs.
pub trait Service: Send + Sync {
    /// Complaints about clients go to `listener`, too. It is called before the first shard is a home.
    fn overhear(&mut self, listener: Log) {
        let _ = listener;
    }

    /// Makes `shard` a home of its sessions. It is called once on each shard, in their order.
    fn install(&mut self, shard: &mut Shard);

    /// A daemon is about to open the disks at these paths, and to show exports of these names here.
    ///
    /// # Errors
    /// If users of another daemon's export wait for one of them.
    fn admit(&self, disks: &[&Path], exports: &[&str]) -> Result<(), ServeError> {
        let _ = (disks, exports);
        Ok(())
    }

    /// Has clients come, and choose from `directory`, where and as `wanted` says, which is of the same kind: once all shards are homes, and again when
    /// `[listen]` has changed. What it listens on comes from `sockets`. Who is connected stays. Returns where that is.
    ///
    /// # Errors
    /// If nobody can listen there; then clients come as before.
    fn listen(
        &self,
        wanted: &dyn FrontEnd,
        directory: &Directory,
        sockets: &Sockets,
    ) -> Result<Vec<Listening>, ServeError> {
        let _ = (wanted, directory, sockets);
        Ok(Vec::new())
    }

    /// An export is there now: those of the stack file once all shards are homes, others when they are added.
    ///
    /// # Errors
    /// If it cannot be shown.
    fn show(&self, export: &Export, directory: &Directory) -> Result<(), ServeError> {
        let _ = (export, directory);
        Ok(())
    }

    /// The device of an export that is shown accepts something else now.
    fn refresh(&self, export: &Export) {
        let _ = export;
    }

    /// An export may consist of something else now: a mapped device below it has another table.
    fn recall(&self, export: &Export) {
        let _ = export;
    }

    /// The export of this name is to go.
    ///
    /// # Errors
    /// If it cannot: somebody uses it.
    fn withdraw(&self, export: &str) -> Result<(), ServeError> {
        let _ = export;
        Ok(())
    }

    /// Where users of this machine find an export, if it has a place of its own.
    fn path_of(&self, export: &str) -> Option<PathBuf> {
        let _ = export;
        None
    }

    /// The daemon ends, and its shards still run: what has users that do not go by themselves waits for them here if `wait`, and is
    /// left to the next daemon otherwise.
    fn stop(&self, wait: bool) {
        let _ = wait;
    }

    /// Connections that live on shard number `shard` now.
    fn connections(&self, shard: usize) -> usize;
}
