//! The zoned disks of this machine.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use shingle_core::sector::Sector;
use shingle_core::zone::ZoneKind;
use shingle_sys::zoned_block::recall_zones;

use super::attributes::{Attributes, Model};
use super::users::user_of;

/// A zoned block device that was found.
#[derive(Clone, Debug)]
pub struct FoundDisk {
    /// Its node.
    pub path: PathBuf,
    /// What sysfs says of it.
    pub attributes: Attributes,
    /// How many of its zones are conventional; `None` if this user may not ask it.
    pub conventional: Option<u32>,
    /// Who uses it, if somebody does and this user may see that.
    pub user: Option<String>,
}

/// The host-managed disks of this machine by name. Whoever uses them is not disturbed.
///
/// # Errors
/// If the block devices cannot be listed.
pub fn find_disks() -> io::Result<Vec<FoundDisk>> {
    let names = fs::read_dir("/sys/block")?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    // One that goes meanwhile is not there.
    let found = names.iter().filter_map(|folder| Attributes::read(folder).ok());
    let mut disks: Vec<_> = found.filter(|disk| disk.model == Model::HostManaged).map(look_at).collect();
    disks.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(disks)
}

fn look_at(attributes: Attributes) -> FoundDisk {
    // sysfs writes `!` for the slash that some names have.
    let path = Path::new("/dev").join(attributes.name.replace('!', "/"));
    let user = fs::metadata(&path).ok().and_then(|metadata| user_of(metadata.rdev()));
    FoundDisk { conventional: conventional(&path, &attributes), user, path, attributes }
}

fn conventional(path: &Path, attributes: &Attributes) -> Option<u32> {
    let mut zones = attributes.room_for_zones();
    recall_zones(&File::open(path).ok()?, Sector::ZERO, &mut zones).ok()?;
    Some(zones.iter().filter(|zone| zone.kind == ZoneKind::Conventional).count() as u32)
}
