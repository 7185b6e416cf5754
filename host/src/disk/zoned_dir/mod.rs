//! A zoned disk in a directory: one file per zone, and the size of a sequential zone's file is its write pointer.
//!
//! ```text
//!  DIR/shingle-disk.toml     the shape: sizes, limits                       written once, by `create`
//!  DIR/cnv-000000 ...        conventional zones, each as large as its zone
//!  DIR/seq-000004 ...        sequential zones, each as large as what is written in it
//! ```
//!
//! The layout is that of the kernel's zloop driver, so either opens what the other made; every byte is described in
//! `docs/zoned-disk-format.md`. There is no journal because there is nothing to keep in step: data and write pointer are
//! one file, and the kernel does not lose what a dead process wrote. A flush is `fdatasync` of every file that changed.
//!
//! - [`create()`], [`open`]: make a disk, and turn one into a device of a stack.
//! - [`inspect`], [`Offline`]: look at a disk, and change its zones, without a daemon.

mod create;
mod device;
mod directory;
mod error;
mod fd_cache;
mod flush;
mod geometry_file;
mod load;
mod offline;
mod presence;
mod shape;

pub use create::{adopt, create, create_on};
pub use device::{Options, ZonedDir, open, open_on};
pub use error::{ErrorKind, ZonedDirError};
pub use geometry_file::{FILE_NAME, GeometryFileError};
pub use load::{Inspection, inspect};
pub use offline::Offline;
pub use shape::{Shape, ShapeError};
