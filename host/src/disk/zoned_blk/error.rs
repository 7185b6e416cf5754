//! Why a zoned block device cannot be a disk.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use shingle_core::block::LimitsError;
use shingle_core::sector::Sector;
use shingle_core::{impl_display, impl_error};

/// Error of opening a zoned block device.
#[derive(Debug)]
pub struct ZonedBlkError {
    /// Where it was looked for.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// What is wrong with a zoned block device.
#[derive(Debug)]
pub enum ErrorKind {
    /// There is nothing.
    Absent,
    /// It is something else than a block device.
    NotABlockDevice,
    /// It is a block device without zones.
    NotZoned,
    /// Somebody else has it: who, if that can be seen.
    InUse(Option<String>),
    /// This user may not open it.
    NoAccess(io::Error),
    /// The kernel has the device but not the disk.
    Gone,
    /// It is nothing that a stack can work with.
    Shape(LimitsError),
    /// Something could not be done to a zone.
    Zone {
        /// Where it begins.
        zone: Sector,
        /// What was to be done.
        command: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A call failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ErrorKind {
    pub(super) fn io(doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { doing, source: source.into() }
    }

    /// With who uses it, if it is in use and that is not known yet.
    pub(super) fn or_user(self, user: impl FnOnce() -> Option<String>) -> Self {
        if let Self::InUse(None) = self { Self::InUse(user()) } else { self }
    }

    pub(super) fn at_open(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Absent,
            Errno::BUSY => Self::InUse(None),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::NoAccess(errno.into()),
            Errno::NXIO | Errno::NODEV => Self::Gone,
            errno => Self::io("opening it", errno),
        }
    }
}

impl_error!(ZonedBlkError, |self, f| write!(f, "{}: {}", self.path.display(), self.kind));

impl_display!(ErrorKind, |self, f| match self {
    Self::Absent => write!(f, "there is no such device"),
    Self::NotABlockDevice =>
        write!(f, "it is no block device: a directory is a disk of type `zoned-dir`, a file one of `file`"),
    Self::NotZoned => write!(f, "it is a block device without zones: use it with type `file`"),
    Self::InUse(None) => write!(f, "it is in use: stop the other program, or unmount it"),
    Self::InUse(Some(user)) => write!(f, "it is in use by {user}: stop or unmount that"),
    Self::NoAccess(error) => {
        write!(f, "no permission to open it ({error}): block devices are root's; or open it read-only")
    }
    Self::Gone => write!(f, "there is no disk behind it any more: plug it in again, and see the kernel log"),
    Self::Shape(error) => write!(f, "{error}; the kernel says so of it, see `shingle disks`"),
    Self::Zone { zone, command, source } => {
        write!(
            f,
            "cannot {command} the zone at sector {zone}: {source}; look at its condition with `shingle zones report`"
        )
    }
    Self::Io { doing, source } => write!(f, "{doing} failed: {source}; check the kernel log"),
});
