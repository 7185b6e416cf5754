//! The directory itself: names, locks and files.

use std::fmt::Write as _;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{ZoneGeometry, ZoneKind, ZoneNo};
use shingle_sys::{Fd, FileStatus};

use super::error::{ErrorKind, ZonedDirError};
use crate::disk::Holder;
use crate::disk::files::{FilesHandle, fd};
use crate::patience::patiently;

/// An open directory.
pub(super) struct Directory {
    pub files: FilesHandle,
    pub path: PathBuf,
    pub fd: Fd,
}

/// How a disk is locked against other processes. The lock is on the directory and ends with the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// To look at it.
    Shared,
    /// To change it.
    Exclusive,
}

/// The name of `zone`'s file, the kernel's (`drivers/block/zloop.c`): the number is the index among all zones.
pub(super) fn zone_name(geometry: &ZoneGeometry, zone: ZoneNo) -> String {
    let mut name = String::new();
    write_zone_name(&mut name, geometry, zone);
    name
}

/// Makes `name` that of a zone's file.
pub(super) fn write_zone_name(name: &mut String, geometry: &ZoneGeometry, zone: ZoneNo) {
    let prefix = match geometry.kind(zone) {
        ZoneKind::Conventional => CONVENTIONAL,
        ZoneKind::Sequential => SEQUENTIAL,
    };
    name.clear();
    // Writing to a string does not fail.
    let _ = write!(name, "{prefix}{:06}", zone.0);
}

/// Names that file systems put into directories by themselves: ext4 into its root, and storage servers where snapshots can be found.
const OF_FILE_SYSTEMS: [&str; 2] = ["lost+found", ".snapshot"];

/// Flags with which every file of a disk is opened: a symbolic link is refused.
pub(super) const OPEN_FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NOCTTY);

const CONVENTIONAL: &str = "cnv-";
const SEQUENTIAL: &str = "seq-";

/// The kind and number of the zone whose file is called `name`; `None` if it is no zone's name.
pub(super) fn parse_zone_name(name: &str) -> Option<(ZoneKind, ZoneNo)> {
    let named = |prefix, kind| name.strip_prefix(prefix).map(|digits| (kind, digits));
    let (kind, digits) =
        named(CONVENTIONAL, ZoneKind::Conventional).or_else(|| named(SEQUENTIAL, ZoneKind::Sequential))?;
    let number = digits.parse().ok()?;
    (digits == format!("{number:06}")).then_some((kind, ZoneNo(number)))
}

/// Bytes in `sectors`.
pub(super) fn bytes(sectors: u32) -> u64 {
    u64::from(sectors) * u64::from(SECTOR_BYTES)
}

impl Directory {
    /// Opens an existing directory.
    pub fn open(files: FilesHandle, path: &Path) -> Result<Self, ZonedDirError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = files.open(path, flags).map_err(|errno| match errno {
            rustix::io::Errno::NOENT => ZonedDirError::new(path, ErrorKind::Absent),
            rustix::io::Errno::NOTDIR => ZonedDirError::new(path, ErrorKind::NotADirectory),
            errno => ZonedDirError::io(path, "opening the directory", errno),
        })?;
        Ok(Self { files, path: path.into(), fd: fd.into() })
    }

    /// Locks it until it is dropped.
    pub fn lock(&self, lock: Lock) -> Result<(), ZonedDirError> {
        let operation = match lock {
            Lock::Shared => FlockOperation::NonBlockingLockShared,
            Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        let taken = |errno: &rustix::io::Errno| *errno == rustix::io::Errno::WOULDBLOCK;
        patiently(taken, || self.files.flock(fd(&self.fd), operation)).map_err(|errno| match errno {
            rustix::io::Errno::WOULDBLOCK => ZonedDirError::new(&self.path, ErrorKind::InUse(Holder::of(&self.fd))),
            errno => ZonedDirError::io(&self.path, "locking the directory", errno),
        })
    }

    /// The names in it, but for `.`, `..` and [`OF_FILE_SYSTEMS`]; bytes that are no UTF-8 are replaced, which no file name of a zoned disk has.
    pub fn names(&self) -> Result<Vec<String>, ZonedDirError> {
        let names = self.files.names(fd(&self.fd));
        let ours =
            |names: Vec<String>| names.into_iter().filter(|name| !OF_FILE_SYSTEMS.contains(&name.as_str())).collect();
        names.map(ours).map_err(|errno| ZonedDirError::io(&self.path, "reading the directory", errno))
    }

    /// The path of a file in it, for messages.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn error(&self, name: &str, kind: ErrorKind) -> ZonedDirError {
        ZonedDirError::new(&self.path_of(name), kind)
    }

    pub fn io_error(&self, name: &str, doing: &'static str, error: impl Into<io::Error>) -> ZonedDirError {
        ZonedDirError::io(&self.path_of(name), doing, error)
    }

    /// Makes all that its files have durable, in one call: a hundred thousand `fsync`s would take minutes.
    pub fn sync(&self) -> Result<(), ZonedDirError> {
        let synced = self.files.syncfs(fd(&self.fd));
        synced.map_err(|errno| ZonedDirError::io(&self.path, "syncing the file system", errno))
    }

    /// The metadata of `name`, which may be a link: it is not followed.
    pub fn stat(&self, name: &str) -> rustix::io::Result<Stat> {
        self.files.statat(fd(&self.fd), name)
    }

    /// The status of the directory itself, as this machine knows it.
    pub fn cached_status(&self) -> rustix::io::Result<FileStatus> {
        self.files.cached_status(fd(&self.fd))
    }

    /// Opens a file that is there; a link is refused.
    pub fn open_file(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        self.files.openat(fd(&self.fd), name, flags | OPEN_FLAGS, Mode::empty())
    }

    /// Makes a new file; one that is there is an error.
    pub fn create_file(&self, name: &str) -> Result<OwnedFd, ZonedDirError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = self.files.openat(fd(&self.fd), name, flags, Mode::RUSR | Mode::WUSR);
        made.map_err(|errno| self.io_error(name, "creating the file", errno))
    }
}

/// Whether a file is a regular one.
pub(super) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernel_and_nothing_else_is_a_zone() {
        let geometry = ZoneGeometry::new(1 << 20, 64, 64, 8).unwrap();
        assert_eq!(zone_name(&geometry, ZoneNo(0)), "cnv-000000");
        assert_eq!(zone_name(&geometry, ZoneNo(7)), "cnv-000007");
        assert_eq!(zone_name(&geometry, ZoneNo(8)), "seq-000008");
        for zone in [0, 7, 8, 999_999, 1_000_000, u32::MAX] {
            let name = format!("seq-{zone:06}");
            assert_eq!(parse_zone_name(&name), Some((ZoneKind::Sequential, ZoneNo(zone))), "{name}");
        }
        let foreign = ["seq-8", "seq-0000008", "seq-+00008", "seq-", "SEQ-000008", "seq-00000x", "seq-4294967296", "x"];
        foreign.iter().for_each(|name| assert_eq!(parse_zone_name(name), None, "{name}"));
    }
}
