//! Back ends: what a disk of the stack file can be.
//!
//! ```text
//!  type = "file" ── BackEndType::read ──> BackEnd: what was written, checked ── open ──> a device of the shard's stack
//!                                            ├── inspect: `up --check`                          │
//!                                            └── model: tables are tried on it                  └── ask: the log
//! ```
//!
//! Each kind is a file here and a line in [`BACK_ENDS`]; nothing else knows which kinds there are. Whoever links this
//! library has more by handing the reader of stack files a longer list: `docs/adding-a-back-end.md`.

mod file;
mod null;
mod profile;
pub(crate) mod zoned_blk;
mod zoned_dir;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use shingle_core::block::BlockDevice;
use shingle_core::plug::WritePolicy;

use crate::devices::Ask;
use crate::fields::{At, Diagnostic, Fields};
use crate::shard::Shard;

pub use null::null_from_words;

/// A kind of disk.
#[derive(Debug)]
pub struct BackEndType {
    /// Its name, which stands behind `type =`.
    pub name: &'static str,
    /// Reads its keys, and says which place to blame if the disk cannot be opened. Mistakes go to the fields, and `None` is for
    /// those that leave no disk at all. Touches nothing.
    pub read: fn(&mut Fields<'_>) -> Option<Placed>,
    /// The disk of this kind in a path, which is perhaps only read: for tools that are told nothing else. `None` if what is
    /// there is of another kind, or such disks have no paths.
    pub at: fn(&Path, bool) -> Option<Arc<dyn BackEnd>>,
    /// Asks an open disk, when it was opened and every second, what there is to say since the last time; `None` if there never is anything.
    pub ask: Option<Ask>,
}

/// A disk as it is written, and the place of the words that say where it is.
pub type Placed = At<Arc<dyn BackEnd>>;

/// All of them, the one that a beginner wants first.
pub const BACK_ENDS: [&BackEndType; 5] = [&zoned_dir::TYPE, &zoned_blk::TYPE, &file::TYPE, &profile::TYPE, &null::TYPE];

/// The disk in `path`, with its kind.
#[must_use]
pub fn at(path: &Path, read_only: bool) -> Option<(&'static BackEndType, Arc<dyn BackEnd>)> {
    BACK_ENDS.into_iter().find_map(|kind| Some((kind, (kind.at)(path, read_only)?)))
}

/// A disk as it is written in a stack file.
pub trait BackEnd: fmt::Debug + Send + Sync {
    /// Whether it has zones, whose writes a policy can order.
    fn is_zoned(&self) -> bool;

    /// What is wrong with it, called `name`, although each value could be read.
    fn mistake(&self, name: &str) -> Option<Diagnostic> {
        let _ = name;
        None
    }

    /// Opens it as a device of `shard`.
    ///
    /// # Errors
    /// If it is not there, is in use or is not what it should be.
    fn open(&self, shard: &mut Shard) -> Result<Box<dyn BlockDevice>, BackEndError>;

    /// Looks whether it could be opened, without changing anything. That somebody has it open is no mistake.
    ///
    /// # Errors
    /// As [`BackEnd::open`].
    fn inspect(&self) -> Result<(), BackEndError> {
        Ok(())
    }

    /// A device with the same limits, on which tables are tried before anything is opened; `None` if only the disk itself
    /// knows its limits.
    fn model(&self) -> Option<Box<dyn BlockDevice>> {
        None
    }

    /// What its owner should know of it under `policy`, once it is open: what the machine does that works against that.
    fn advice(&self, policy: WritePolicy) -> Vec<String> {
        let _ = policy;
        Vec::new()
    }

    /// The lines of a stack file that make it, of this kind, where it is; empty if it has no path.
    fn lines(&self, kind: &BackEndType) -> String {
        self.path().map_or(String::new(), |path| format!("type = \"{}\"\npath = {:?}\n", kind.name, absolute(path)))
    }

    /// Where its data is, if that is a path.
    fn path(&self) -> Option<&Path> {
        None
    }
}

/// A path that means the same everywhere, as text.
fn absolute(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Error of opening a disk.
#[derive(Debug)]
pub struct BackEndError {
    /// What is wrong.
    pub message: String,
    /// What to do, if the message does not say it.
    pub help: Option<String>,
}

impl<E: std::error::Error> From<E> for BackEndError {
    fn from(error: E) -> Self {
        Self { message: error.to_string(), help: None }
    }
}
