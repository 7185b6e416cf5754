//! The disks of a volume, opened for a tool.

use std::path::PathBuf;

use shingle_core::dm::stl::tools::MediaError;

use super::media::{DeviceMedia, about};
use crate::dmz::Access;
use crate::dmz::disks::{is_same, open_one};
use crate::shard::Shard;

/// Open disks, on a shard of their own. They are called by their paths.
pub type Disks = DeviceMedia<Shard>;

impl Disks {
    /// Opens and locks the disks in `paths`, of any kind that a stack file has and in any order.
    ///
    /// # Errors
    /// If one cannot be opened, or they make no set.
    pub fn open(paths: &[PathBuf], access: Access) -> Result<Self, MediaError> {
        let mut shard = Shard::new().map_err(|error| MediaError(error.to_string()))?;
        let mut devices = Vec::new();
        for (place, path) in paths.iter().enumerate() {
            let name = path.display().to_string();
            if paths[..place].iter().any(|other| is_same(other, path)) {
                return Err(about(&name, &"it is named twice: a disk is in a set once"));
            }
            let disk = open_one(path, access, &mut shard).map_err(|error| MediaError(error.0))?;
            let device = shard.stack.add(disk).map_err(|error| about(&name, &error))?;
            devices.push((name, device));
        }
        Self::new(shard, devices)
    }
}
