//! Opening: alone, past the page cache, with the shape that the kernel tells.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time;

use rustix::fs::{FileType, FlockOperation, OFlags, Stat};
use rustix::io::Errno;
use shingle_core::block::Limits;
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_sys::zoned_block::recall_zones;

use super::attributes::{Attributes, Model, folder_of};
use super::calls::Machine;
use super::device::{Parts, ZonedBlk};
use super::error::{ErrorKind, ZonedBlkError};
use super::users::user_of;
use crate::disk::Holder;
use crate::disk::files::{Files, fd, machine};
use crate::disk::overdue::TIMEOUT;
use crate::disk::transfer::Alignment;
use crate::helper::Helper;
use crate::patience::patiently;
use crate::shard::Shard;

/// How to open a zoned block device as a disk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether everything that changes it is refused. Several programs may have it open so.
    pub read_only: bool,
    /// After this time a command that the kernel has not answered is told of.
    pub timeout: time::Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { read_only: false, timeout: TIMEOUT }
    }
}

/// Whether there is a zoned block device at `path`.
#[must_use]
pub fn is_zoned(path: &Path) -> bool {
    let stat = machine().stat(path);
    stat.is_ok_and(|stat| check_kind(&stat).is_ok())
}

/// Whether the device at `path` can be a disk, as far as that is seen without opening it.
///
/// # Errors
/// What is against it.
pub fn check(path: &Path) -> Result<(), ZonedBlkError> {
    look(&*machine(), path).map(drop).map_err(|kind| ZonedBlkError { path: path.into(), kind })
}

/// Opens the device at `path` for `shard`. Nobody else can have it alone until the disk is dropped.
///
/// # Errors
/// If it is none, is in use, or is not what a stack can work with.
pub fn open(path: &Path, options: &Options, shard: &Shard) -> Result<ZonedBlk, ZonedBlkError> {
    let parts = parts(&*machine(), path, options).map_err(|kind| ZonedBlkError { path: path.into(), kind })?;
    let helper = Helper::start("zoned-blk", shard.mailbox());
    let helper = helper.map_err(|error| ZonedBlkError {
        path: path.into(),
        kind: ErrorKind::io("starting a thread for its calls", error),
    })?;
    Ok(ZonedBlk::new(parts, shard.ring(), helper))
}

/// Its attributes, and its number.
pub(super) fn look(files: &dyn Files, path: &Path) -> Result<(Attributes, u64), ErrorKind> {
    let stat = files.stat(path).map_err(ErrorKind::at_open)?;
    Ok((check_kind(&stat)?, stat.st_rdev))
}

fn check_kind(stat: &Stat) -> Result<Attributes, ErrorKind> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return Err(ErrorKind::NotABlockDevice);
    }
    let attributes =
        Attributes::read(&folder_of(stat.st_rdev)).map_err(|error| ErrorKind::io("reading sysfs", error))?;
    if attributes.model == Model::HostManaged { Ok(attributes) } else { Err(ErrorKind::NotZoned) }
}

fn parts(files: &dyn Files, path: &Path, options: &Options) -> Result<Parts, ErrorKind> {
    let (attributes, number) = look(files, path)?;
    let file = claim(files, path, options).map_err(|kind| kind.or_user(|| user_of(number)))?;
    let bytes = files.size(fd(&file)).map_err(|errno| ErrorKind::io("asking for its size", errno))?;
    if bytes == 0 {
        return Err(ErrorKind::Gone);
    }
    let mut zones = attributes.room_for_zones();
    recall_zones(&file, Sector::ZERO, &mut zones).map_err(|error| ErrorKind::io("reporting its zones", error))?;
    let limits = attributes.limits(bytes / u64::from(SECTOR_BYTES), &zones).map_err(ErrorKind::Shape)?;
    // Until Linux 6.1 nobody tells; a logical block was enough for all then.
    let block = attributes.logical_block_bytes;
    let alignment = Alignment::of(files, &file).map_or((block as usize, block), |found| (found.memory, found.offset));
    let for_calls = file.try_clone().map_err(|error| ErrorKind::io("opening it twice", error))?;
    Ok(Parts {
        path: path.into(),
        file: file.into(),
        calls: Arc::new(Machine(for_calls)),
        limits: Limits { read_only: options.read_only, ..limits },
        fua: attributes.fua,
        alignment,
        timeout: options.timeout,
    })
}

/// Opens the device and keeps others out: exclusive does so for mounts, mapped devices and careful programs, and a lock for other
/// daemons that only read.
pub(super) fn claim(files: &dyn Files, path: &Path, options: &Options) -> Result<OwnedFd, ErrorKind> {
    let (access, lock) = match options.read_only {
        true => (OFlags::RDONLY, FlockOperation::NonBlockingLockShared),
        false => (OFlags::RDWR | OFlags::EXCL, FlockOperation::NonBlockingLockExclusive),
    };
    let flags = access | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = patiently(|errno| *errno == Errno::BUSY, || files.open(path, flags)).map_err(ErrorKind::at_open)?;
    patiently(|errno| *errno == Errno::WOULDBLOCK, || files.flock(fd(&file), lock)).map_err(|errno| match errno {
        Errno::WOULDBLOCK => ErrorKind::InUse(Holder::of(&file).map(|holder| holder.to_string())),
        errno => ErrorKind::io("locking it", errno),
    })?;
    Ok(file)
}
