//! The disks of a set, opened for a tool.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use shingle_core::block::BlockDevice;
use shingle_core::dm::zoned::format::MediaError;

use super::media::{DeviceMedia, about};
use crate::disk::{file, zoned_dir};
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
            let device = shard.stack.add(open_one(path, access, &shard)?).map_err(|error| about(&name, &error))?;
            devices.push((name, device));
        }
        Self::new(shard, devices)
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn open_one(path: &Path, access: Access, shard: &Shard) -> Result<Box<dyn BlockDevice>, MediaError> {
    let failed = |error: &dyn Display| MediaError(error.to_string());
    let read_only = access == Access::Read;
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
        let options = file::Options { read_only, direct: false, ..file::Options::default() };
        return Ok(Box::new(file::open(path, &options, shard.ring()).map_err(|error| failed(&error))?));
    }
    let options = zoned_dir::Options { read_only, ..zoned_dir::Options::default() };
    Ok(Box::new(zoned_dir::open(path, &options, shard.ring()).map_err(|error| failed(&error))?))
}
