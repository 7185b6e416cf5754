//! What can be wrong with the directory of a simulated drive.

use std::io;
use std::path::{Path, PathBuf};

use shingle_core::{impl_display, impl_error};

use super::DESCRIPTION;
use crate::disk::Holder;

/// Error of making or opening the directory of a simulated drive.
#[derive(Debug)]
pub struct DriveDirError {
    /// The directory, or the file in it.
    pub path: PathBuf,
    /// What is wrong with it.
    pub kind: ErrorKind,
}

/// What is wrong.
#[derive(Debug)]
pub enum ErrorKind {
    /// The directory that it would be in is not there.
    NoParent,
    /// It is a file or something else.
    NotADirectory,
    /// Names of files that are of no drive.
    Foreign(Vec<String>),
    /// Another process has it: which one, if that can be seen.
    InUse(Option<Holder>),
    /// There is data, and nothing says of which drive.
    NoDescription,
    /// The description is none; why.
    Unreadable(String),
    /// It is of another version of the format.
    OtherVersion(u64),
    /// It is another drive.
    OtherDrive {
        /// In what.
        what: &'static str,
        /// As the directory says.
        here: String,
        /// As the stack file says.
        wanted: String,
    },
    /// A file is not there.
    Missing,
    /// It is a directory, a link or a device.
    NotAFile,
    /// A file has another size than it should.
    WrongSize {
        /// Its size in bytes.
        is: u64,
        /// The right one.
        should_be: u64,
    },
    /// A system call failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ErrorKind {
    pub(super) fn of(self, path: &Path) -> DriveDirError {
        DriveDirError { path: path.into(), kind: self }
    }
}

impl DriveDirError {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        ErrorKind::Io { doing, source }.of(path)
    }
}

impl_error!(DriveDirError, |self, f| write!(f, "{}: {}", self.path.display(), self.kind));

impl_display!(ErrorKind, |self, f| match self {
    Self::NoParent => write!(f, "the directory that it would be in is not there: make that first"),
    Self::NotADirectory => write!(f, "it is not a directory: choose another path"),
    Self::Foreign(names) =>
        write!(f, "it holds {}, which is of no simulated drive: choose another directory", names.join(", ")),
    Self::InUse(holder) => {
        match holder {
            Some(holder) => write!(f, "another process has this drive, {holder}")?,
            None => write!(f, "another process or disk has this drive")?,
        }
        write!(f, ": stop it, or choose another directory")
    }
    Self::NoDescription => write!(f, "it holds data, but no {DESCRIPTION}: put that back, or choose another directory"),
    Self::Unreadable(why) =>
        write!(f, "it says not what drive this is: {why}; restore it, or choose another directory"),
    Self::OtherVersion(version) => write!(
        f,
        "it is of version {version} of the format, which this program does not know: use the one that made it"
    ),
    Self::OtherDrive { what, here, wanted } => write!(
        f,
        "it is another drive: its {what} is {here}, not {wanted}; write the disk as it was, or choose another directory"
    ),
    Self::Missing => write!(f, "this part of the drive is missing: restore it, or choose another directory"),
    Self::NotAFile => write!(f, "it has to be a regular file: restore it, or choose another directory"),
    Self::WrongSize { is, should_be } =>
        write!(f, "it has {is} bytes instead of {should_be}: restore it, or choose another directory"),
    Self::Io { doing, source } => write!(f, "{doing} failed: {source}; {}", next_step(source)),
});

fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space there, or choose another directory",
        io::ErrorKind::FileTooLarge => {
            "the file system or `ulimit -f` allows no such file: give the disk fewer `zones` or a smaller `size`"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "check owner and mode of the directory",
        io::ErrorKind::NotFound => "check the path, and that the directory above exists",
        _ => "check the file system and the kernel log",
    }
}
