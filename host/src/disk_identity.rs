//! Identity of a disk: tells it from another disk in the same path.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};
use shingle_core::impl_display;

/// Identity of a disk, as text: of a block device its number, of a file or directory its inode and, where the file system keeps it, the time of its
/// creation, as inodes are used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskIdentity(String);

impl DiskIdentity {
    /// Reads the identity of the disk at `path`. Returns `None` if there is nothing.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let number = |device: u64| format!("{}:{}", major(device), minor(device));
        if metadata.file_type().is_block_device() {
            return Some(Self(format!("block device {}", number(metadata.rdev()))));
        }
        let created = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created = created.map(|time| format!(", created at {}.{:09}", time.as_secs(), time.subsec_nanos()));
        let kind = if metadata.is_dir() { "directory" } else { "file" };
        let created = created.unwrap_or_default();
        Some(Self(format!("{kind} {} of file system {}{created}", metadata.ino(), number(metadata.dev()))))
    }
}

impl_display!(DiskIdentity, |self, f| f.write_str(&self.0));

/// A disk of a stack that lies in a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskPlace {
    /// Name in the stack file.
    pub name: String,
    /// Absolute path.
    pub path: PathBuf,
    /// Identity at the time of the open.
    pub identity: DiskIdentity,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_place_of_another_has_another_identity() {
        let path = std::env::temp_dir().join(format!("shingle-identity-{}", std::process::id()));
        let of = |text: &str| fs::write(&path, text).map(|()| DiskIdentity::of(&path)).unwrap().unwrap();
        let (first, written) = (of("a"), of("b"));
        fs::remove_file(&path).unwrap();
        let other = of("a");
        fs::remove_file(&path).unwrap();
        assert!(first == written && first != other, "{first}; {written}; {other}");
        assert_eq!(DiskIdentity::of(&path), None);
    }
}
