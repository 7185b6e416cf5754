//! What can be wrong with a disk in a directory: what was being done, to which file, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use shingle_core::zone::ZoneFault;
use shingle_core::{impl_display, impl_error};
use shingle_sys::RingError;

use super::geometry_file::{FILE_NAME, GeometryFileError};
use super::shape::ShapeError;
use crate::disk::Holder;

/// Error of creating, opening or changing a zoned directory.
#[derive(Debug)]
pub struct ZonedDirError {
    /// The directory, or the file in it.
    pub path: PathBuf,
    /// What is wrong with it.
    pub kind: ErrorKind,
}

/// What is wrong.
#[derive(Debug)]
pub enum ErrorKind {
    /// There is no such directory.
    Absent,
    /// It is a file or something else.
    NotADirectory,
    /// A new disk needs an empty directory; some of the names in it.
    NotEmpty(Vec<String>),
    /// Another process has the disk open: which one, if that can be seen.
    InUse(Option<Holder>),
    /// Nobody serves the disk, so none of its zones would stay open.
    NotServed,
    /// There is no geometry file, and the geometry was not given.
    NoGeometry,
    /// The geometry that was given is not that of the disk.
    OtherGeometry {
        /// The first field that differs.
        field: &'static str,
        /// Its value on the disk.
        here: String,
        /// Its value as it was given.
        given: String,
    },
    /// The geometry file does not tell a geometry.
    GeometryFile(GeometryFileError),
    /// The values for a new disk make none.
    Shape(ShapeError),
    /// The file is no part of a disk.
    Foreign,
    /// The name is that of another kind of zone, or of a zone past the last one; the right name, if there is one.
    Misnumbered(Option<String>),
    /// A zone's file is a directory, a link or a device.
    NotAFile,
    /// A zone's file has several names: other zones, or other disks, may have it as well.
    HardLinked {
        /// The number of its names.
        names: u64,
    },
    /// A zone's file is not there; how many others are missing, too.
    MissingZone {
        /// The number of zones without a file.
        missing: u64,
    },
    /// A conventional zone's file has another size than the zone.
    WrongSize {
        /// Its size in bytes.
        is: u64,
        /// The size of the zone in bytes.
        should_be: u64,
    },
    /// A sequential zone's file is larger than the zone's capacity.
    BeyondCapacity {
        /// Its size in bytes.
        is: u64,
        /// The capacity in bytes.
        at_most: u64,
    },
    /// The file cannot be read and written by this user.
    NoAccess(io::Error),
    /// A system call failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The zone does not do what it was asked.
    Zone(ZoneFault),
    /// Error of setting up io_uring.
    Ring(RingError),
}

impl ZonedDirError {
    /// The error `kind` of the disk in the directory `path`.
    #[must_use]
    pub fn new(path: &Path, kind: ErrorKind) -> Self {
        Self { path: path.into(), kind }
    }

    /// A failed system call, told apart where the next step differs.
    pub(super) fn io(path: &Path, doing: &'static str, error: impl Into<io::Error>) -> Self {
        let source = error.into();
        let kind = match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::NoAccess(source),
            _ => ErrorKind::Io { doing, source },
        };
        Self::new(path, kind)
    }
}

impl_error!(ZonedDirError, |self, f| write!(f, "{}: {}", self.path.display(), self.kind));

impl_display!(ErrorKind, |self, f| match self {
    Self::Absent => write!(f, "there is no such directory: make a disk with `shingle create`"),
    Self::NotADirectory => write!(f, "it is not a directory: a disk is a directory made by `shingle create`"),
    Self::NotEmpty(names) => write!(
        f,
        "a new disk needs an empty directory, but this one holds {}: choose another, or empty it",
        names.join(", ")
    ),
    Self::InUse(holder) => {
        match holder {
            Some(holder) => write!(f, "another process has this disk open, {holder}")?,
            None => write!(f, "another process has this disk open")?,
        }
        write!(f, ": stop it, or ask the daemon that serves it")
    }
    Self::NotServed => write!(
        f,
        "zones stay open as long as somebody has the disk open: serve it with `shingle up`, and open them there"
    ),
    Self::NoGeometry => write!(
        f,
        "there is no {FILE_NAME}: if zloop made this disk, `shingle create --adopt` with its sizes writes one; if \
         `shingle create` was interrupted here, remove the directory and create the disk again"
    ),
    Self::OtherGeometry { field, here, given } =>
        write!(f, "{field} is {here} on this disk, but {given} was given: leave the geometry out, {FILE_NAME} has it"),
    Self::GeometryFile(error) => write!(
        f,
        "{error}; restore it from a backup, or move it away and let `shingle create --adopt` write it anew from the \
         disk's sizes"
    ),
    Self::Shape(error) => error.fmt(f),
    Self::Foreign => write!(f, "it is no part of the disk in this directory: move it elsewhere"),
    Self::Misnumbered(Some(name)) => write!(
        f,
        "in this disk's geometry that zone's file is called {name}: check the geometry, or which disk the \
         file belongs to"
    ),
    Self::Misnumbered(None) => write!(
        f,
        "in this disk's geometry there is no zone with this number: check the geometry, or which disk the \
         file belongs to"
    ),
    Self::NotAFile => write!(
        f,
        "a zone has to be a regular file of its own, no link to one and no device: put the zone's file back in its \
         place"
    ),
    Self::HardLinked { names } => write!(
        f,
        "this file has {names} names (hard links), so another zone or another disk may use it, too: remove the \
         other names (`find -samefile` finds them), or replace this one by a copy"
    ),
    Self::MissingZone { missing } => {
        write!(f, "this zone's file is missing, ")?;
        match missing {
            1 => write!(f, "the only one")?,
            more => write!(f, "and {} others", more - 1)?,
        }
        write!(f, ": put the files back; an empty file is an empty sequential zone, if its data is lost")
    }
    Self::WrongSize { is, should_be } => write!(
        f,
        "this conventional zone has {should_be} bytes, but its file has {is}: check the geometry, or restore the \
         file; `truncate -s {should_be}` accepts what there is"
    ),
    Self::BeyondCapacity { is, at_most } =>
        write!(f, "this zone takes {at_most} bytes, but its file has {is}: check the geometry, or restore the file"),
    Self::NoAccess(error) => {
        write!(
            f,
            "no permission to use it ({error}): check owner and mode, and how it is mounted; `read-only = true` needs to read alone"
        )
    }
    Self::Io { doing, source } => write!(f, "{doing} failed: {source}; {}", next_step(source)),
    Self::Zone(fault) => fault.fmt(f),
    Self::Ring(error) => error.fmt(f),
});

fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space or inodes on this file system, or choose another"
        }
        io::ErrorKind::FileTooLarge => "raise the limit shown by `ulimit -f`, or use smaller zones",
        io::ErrorKind::NotFound => "check the path, and that the directory above exists",
        _ => match error.raw_os_error() {
            Some(23 | 24) => "raise the limit of open files shown by `ulimit -n`",
            _ => "check the file system and the kernel log",
        },
    }
}
