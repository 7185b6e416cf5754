//! The disks of a set, opened for a tool.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use shingle_core::block::BlockDevice;
use shingle_core::dm::zoned::format::MediaError;

use super::media::{DeviceMedia, about};
use crate::backend;
use crate::disk_identity::DiskIdentity;
use crate::shard::Shard;

/// What a tool is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look. Others may look as well.
    Read,
    /// Change it, alone.
    Write,
}

/// Open disks, on a shard of their own. They are called by their paths.
pub type Disks = DeviceMedia<Shard>;

impl Disks {
    /// Opens and locks the disks in `paths`: directories of zoned disks, the first may also be a regular file or block device.
    ///
    /// # Errors
    /// If one cannot be opened, or they are no set.
    pub fn open(paths: &[PathBuf], access: Access) -> Result<Self, MediaError> {
        let mut shard = Shard::new().map_err(|error| MediaError(error.to_string()))?;
        let mut devices = Vec::new();
        for (place, path) in paths.iter().enumerate() {
            let name = path.display().to_string();
            if paths[..place].iter().any(|other| is_same(other, path)) {
                return Err(about(&name, &"it is named twice: a disk is in a set once"));
            }
            let disk = open_one(path, access, &mut shard)?;
            let device = shard.stack.add(disk).map_err(|error| about(&name, &error))?;
            devices.push((name, device));
        }
        Self::new(shard, devices)
    }
}

/// True if two paths lead to one disk, or to a disk and a partition of it.
#[must_use]
pub fn is_same(one: &Path, other: &Path) -> bool {
    DiskIdentity::of(one).zip(DiskIdentity::of(other)).is_some_and(|(one, other)| one.overlaps(&other))
}

pub(crate) fn open_one(path: &Path, access: Access, shard: &mut Shard) -> Result<Box<dyn BlockDevice>, MediaError> {
    if path.metadata().is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)) {
        let what = match path.starts_with("/dev") {
            true => "there is no such device: `shingle disks` lists the zoned ones",
            false => {
                "there is no such file or directory: `shingle disks` lists zoned disks, `shingle create` makes one in a directory"
            }
        };
        return Err(about(&path.display().to_string(), &what));
    }
    let found = backend::at(path, access == Access::Read);
    let (_, disk) = found.ok_or_else(|| about(&path.display().to_string(), &"no kind of disk lies in such a path"))?;
    disk.open(shard).map_err(|error| MediaError(error.message))
}
