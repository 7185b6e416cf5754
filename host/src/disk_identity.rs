//! Identity of a disk: tells whether two block devices, files or directories are one disk.
//!
//! | disk | identity |
//! | --- | --- |
//! | block device | WWID, with the serial number of a SCSI unit; its device number if it has no usable WWID |
//! | partition | that of its disk, and its sectors |
//! | file, directory | inode and file system, and the time of its creation |
//! | disk in memory | its name in the stack file |
//! | any with `identity` in the stack file | that |
//!
//! A copy of a disk has another identity. Why UUIDs in the data do not count: `docs/decisions/0020-disk-identity.md`.

use std::fs::{self, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};
use shingle_core::impl_display;

/// Folder with a link for each block device, by device number.
const BLOCK_DEVICES: &str = "/sys/dev/block";

/// Identity of a disk. [`Self::is_same`] and [`Self::overlaps`] compare two of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskIdentity {
    /// `identity` of the stack file.
    given: Option<String>,
    /// World-wide identifier of the disk, with its serial number.
    wwid: Option<String>,
    /// Device number of the disk, inode of the file, or name of the disk in memory. Unique while it exists.
    local: String,
    /// Sectors of the disk, if it is a partition.
    sectors: Option<Range<u64>>,
}

impl DiskIdentity {
    /// Reads the identity of the disk at `path`. Returns `None` if there is nothing.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let is_block_device = metadata.file_type().is_block_device();
        let of_device = || Self::of_block_device(&number(metadata.rdev()), Path::new(BLOCK_DEVICES));
        Some(if is_block_device { of_device() } else { Self::local(of_file(&metadata)) })
    }

    /// Identity of the disk called `name` that lies in memory.
    #[must_use]
    pub fn in_memory(name: &str) -> Self {
        Self::local(format!("memory of `{name}`"))
    }

    /// Adds `identity` of the stack file.
    #[must_use]
    pub fn with_given(self, given: Option<String>) -> Self {
        Self { given, ..self }
    }

    fn local(local: String) -> Self {
        Self { given: None, wwid: None, local, sectors: None }
    }

    /// Reads the identity of the block device with this number from `sysfs`. Without sysfs it is the number alone.
    fn of_block_device(number: &str, sysfs: &Path) -> Self {
        let folder = sysfs.join(number).canonicalize().unwrap_or_default();
        let sectors = sectors_of_partition(&folder);
        let disk = folder.parent().filter(|_| sectors.is_some()).unwrap_or(&folder);
        let number = read(&disk.join("dev")).unwrap_or_else(|| number.into());
        Self { wwid: read_wwid(disk), sectors, ..Self::local(format!("block device {number}")) }
    }

    /// True if both are one disk, or the same partition of one: I/O to either has the same effect. `identity` of the stack file decides if both
    /// have it, then the WWID if both have one.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.given, &other.given) {
            (Some(one), Some(other)) => one == other,
            _ => self.is_same_disk(other) && self.sectors == other.sectors,
        }
    }

    /// True if a write to one can change data of the other: as a disk and its partition. Ignores `identity` of the stack file.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let range = |of: &Self| of.sectors.clone().unwrap_or(0..u64::MAX);
        let (one, two) = (range(self), range(other));
        self.is_same_disk(other) && one.start < two.end && two.start < one.end
    }

    fn is_same_disk(&self, other: &Self) -> bool {
        match (&self.wwid, &other.wwid) {
            (Some(one), Some(other)) => one == other,
            _ => self.local == other.local,
        }
    }
}

impl_display!(DiskIdentity, |self, f| {
    if let Some(given) = &self.given {
        return write!(f, "identity \"{given}\"");
    }
    if let Some(sectors) = &self.sectors {
        write!(f, "sectors {} to {} of ", sectors.start, sectors.end - 1)?;
    }
    f.write_str(self.wwid.as_ref().unwrap_or(&self.local))
});

fn number(device: u64) -> String {
    format!("{}:{}", major(device), minor(device))
}

/// Inodes are used again, so the time of creation counts where the file system keeps it.
fn of_file(metadata: &Metadata) -> String {
    let created = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let created = created.map(|time| format!(", created at {}.{:09}", time.as_secs(), time.subsec_nanos()));
    let kind = if metadata.is_dir() { "directory" } else { "file" };
    let created = created.unwrap_or_default();
    format!("{kind} {} of file system {}{created}", metadata.ino(), number(metadata.dev()))
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Sectors of the partition with this folder in sysfs; `None` if it is a whole disk.
fn sectors_of_partition(folder: &Path) -> Option<Range<u64>> {
    let number = |name: &str| read(&folder.join(name))?.parse::<u64>().ok();
    number("partition")?;
    let (start, length) = (number("start")?, number("size")?);
    Some(start..start.checked_add(length)?)
}

/// Reads the WWID of the disk with this folder in sysfs: of an NVMe namespace its UUID, NGUID, EUI-64, or serial number and NSID
/// (`drivers/nvme/host/sysfs.c:wwid_show`), of a SCSI unit a designator of VPD page 83h (`drivers/scsi/scsi_lib.c:scsi_vpd_lun_id`) with the serial
/// number of page 80h.
fn read_wwid(disk: &Path) -> Option<String> {
    let wwid = read(&disk.join("wwid")).or_else(|| read(&disk.join("device/wwid"))).filter(|wwid| is_unique(wwid))?;
    let serial = fs::read(disk.join("device/vpd_pg80")).unwrap_or_default();
    let serial = String::from_utf8_lossy(serial.get(4..).unwrap_or_default());
    let serial = serial.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    Some(if serial.is_empty() { wwid } else { format!("{wwid}, serial number {serial}") })
}

/// True if no other disk should have this WWID. Vendors make up those of type T10 as they like, as of USB bridges with a serial number of zeroes;
/// multipath-tools ignore them as well. Identifiers of which all digits are the same were never assigned.
fn is_unique(wwid: &str) -> bool {
    let is_assigned = |id: &str| {
        let mut digits = id.chars().filter(char::is_ascii_alphanumeric);
        let first = digits.next();
        digits.any(|digit| Some(digit) != first)
    };
    match wwid.split_once('.') {
        Some(("t10", _)) | None => false,
        // nvme.VENDOR-SERIAL-MODEL-NSID, with the serial number and the model in hexadecimal
        Some(("nvme", id)) => {
            let serial = id.split('-').nth(1).unwrap_or_default().as_bytes();
            serial.chunks(2).any(|byte| !matches!(byte, b"00" | b"20" | b"30"))
        }
        // The first digit of a NAA identifier is its format.
        Some(("naa", id)) => is_assigned(id.get(1..).unwrap_or_default()),
        Some((_, id)) => is_assigned(id),
    }
}

/// A disk of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskPlace {
    /// Name in the stack file.
    pub name: String,
    /// Absolute path; `None` if the disk lies in memory.
    pub path: Option<PathBuf>,
    /// Identity at the time of the open.
    pub identity: DiskIdentity,
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder like `/sys/dev/block`, removed when dropped.
    struct Sysfs(PathBuf);

    impl Sysfs {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("shingle-identity-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        /// Adds a block device with attributes; its name may lie in that of a disk.
        fn add(&self, number: &str, name: &str, attributes: &[(&str, &str)]) {
            let folder = self.0.join("devices").join(name);
            for (attribute, text) in attributes.iter().chain(&[("dev", number)]) {
                let file = folder.join(attribute);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            symlink(folder, self.0.join(number)).unwrap();
        }

        fn identity(&self, number: &str) -> DiskIdentity {
            DiskIdentity::of_block_device(number, &self.0)
        }
    }

    impl Drop for Sysfs {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const NAA: &str = "naa.5000c500a1b2c3d4\n";

    #[test]
    fn a_file_in_the_place_of_another_has_another_identity() {
        let path = std::env::temp_dir().join(format!("shingle-identity-{}", std::process::id()));
        let of = |text: &str| fs::write(&path, text).map(|()| DiskIdentity::of(&path)).unwrap().unwrap();
        let (first, written) = (of("a"), of("b"));
        fs::remove_file(&path).unwrap();
        let other = of("a");
        fs::remove_file(&path).unwrap();
        assert!(first.is_same(&written) && !first.is_same(&other), "{first}; {written}; {other}");
        assert_eq!(DiskIdentity::of(&path), None);
    }

    #[test]
    fn nodes_with_one_wwid_and_serial_number_are_one_disk() {
        let sysfs = Sysfs::new("wwid");
        let serial = "\0\u{0}\0\u{8}ZL2 \0\0";
        sysfs.add("8:0", "sda", &[("device/wwid", NAA), ("device/vpd_pg80", serial)]);
        sysfs.add("8:16", "sdb", &[("device/wwid", NAA), ("device/vpd_pg80", serial)]);
        sysfs.add("8:32", "sdc", &[("device/wwid", NAA), ("device/vpd_pg80", "\0\u{0}\0\u{3}ZL3")]);
        sysfs.add("8:48", "sdd", &[("device/wwid", "naa.5000c500a1b2c3d5"), ("device/vpd_pg80", serial)]);
        let one = sysfs.identity("8:0");
        assert_eq!(one.to_string(), "naa.5000c500a1b2c3d4, serial number ZL2");
        assert!(one.is_same(&sysfs.identity("8:16")));
        assert!(!one.is_same(&sysfs.identity("8:32")), "a WWID that a vendor gave to two disks");
        assert!(!one.is_same(&sysfs.identity("8:48")));
    }

    #[test]
    fn an_nvme_namespace_has_its_wwid_beside_its_controller() {
        let sysfs = Sysfs::new("nvme");
        let wwid = "nvme.1b36-6e766d6531-51454d55-00000001\n";
        sysfs.add("259:0", "nvme0n1", &[("wwid", wwid), ("device/serial", "nvme1")]);
        sysfs.add("259:1", "nvme1n1", &[("wwid", wwid), ("device/serial", "nvme1")]);
        let one = sysfs.identity("259:0");
        assert!(one.is_same(&sysfs.identity("259:1")));
        assert_eq!(one.to_string(), wwid.trim());
    }

    #[test]
    fn disks_with_a_wwid_that_is_not_unique_differ_by_number() {
        let sysfs = Sysfs::new("not-unique");
        let wwids = [
            "",
            "t10.JMicron Generic         0123456789ABCDEF",
            "naa.5000000000000000",
            "naa.ffffffffffffffff",
            "eui.0000000000000000",
            "uuid.00000000-0000-0000-0000-000000000000",
            "nvme.1234--51454d55-00000001",
            "nvme.1234-30303030-51454d55-00000001",
            "nvme.1234-2020-51454d55-00000001",
        ];
        for (disk, wwid) in wwids.into_iter().enumerate() {
            let nodes = ["a", "b"].map(|node| {
                let number = format!("{disk}:{node}");
                sysfs.add(&number, &number, &[("device/wwid", wwid)]);
                sysfs.identity(&number)
            });
            assert!(!nodes[0].is_same(&nodes[1]) && nodes[0].is_same(&nodes[0]), "{wwid}");
            assert_eq!(nodes[0].to_string(), format!("block device {disk}:a"));
        }
    }

    #[test]
    fn a_number_that_another_disk_got_is_another_disk() {
        let sysfs = Sysfs::new("number");
        sysfs.add("8:0", "sda", &[("device/wwid", NAA)]);
        let before = sysfs.identity("8:0");
        fs::write(sysfs.0.join("8:0/device/wwid"), "naa.5000c500a1b2c3d5").unwrap();
        assert!(!before.is_same(&sysfs.identity("8:0")) && !before.overlaps(&sysfs.identity("8:0")));
        fs::remove_file(sysfs.0.join("8:0/device/wwid")).unwrap();
        assert!(before.is_same(&sysfs.identity("8:0")), "the number counts if one has no WWID");
    }

    #[test]
    fn a_partition_is_its_sectors_of_its_disk_over_any_path() {
        let sysfs = Sysfs::new("partition");
        for (number, disk) in [("8:0", "sda"), ("8:16", "sdb"), ("8:32", "sdc")] {
            sysfs.add(number, disk, if disk == "sdc" { &[] } else { &[("device/wwid", NAA)] });
        }
        let part = |start| [("partition", "1"), ("start", start), ("size", "1024\n")];
        sysfs.add("8:1", "sda/sda1", &part("2048"));
        sysfs.add("8:17", "sdb/sdb1", &part("2048"));
        sysfs.add("8:2", "sda/sda2", &part("3072"));
        sysfs.add("8:33", "sdc/sdc1", &part("2048"));
        let [disk, one, same, next] = ["8:0", "8:1", "8:17", "8:2"].map(|number| sysfs.identity(number));
        assert_eq!(one.to_string(), "sectors 2048 to 3071 of naa.5000c500a1b2c3d4");
        assert!(one.is_same(&same) && !one.is_same(&next) && !one.is_same(&disk));
        assert!(one.overlaps(&disk) && disk.overlaps(&one) && one.overlaps(&same) && !one.overlaps(&next));
        assert!(sysfs.identity("8:33").overlaps(&sysfs.identity("8:32")), "also without a WWID");
        assert!(!sysfs.identity("8:33").overlaps(&disk));
    }

    #[test]
    fn an_identity_of_the_stack_file_decides_if_both_have_one() {
        let disk = |name: &str, given: Option<&str>| DiskIdentity::in_memory(name).with_given(given.map(str::to_owned));
        assert!(disk("a", Some("x")).is_same(&disk("b", Some("x"))));
        assert!(!disk("a", Some("x")).is_same(&disk("a", Some("y"))));
        assert!(!disk("a", Some("x")).is_same(&disk("b", None)) && disk("a", Some("x")).is_same(&disk("a", None)));
        assert!(!disk("a", Some("x")).overlaps(&disk("b", Some("x"))), "a tool sees the disk alone");
        assert_eq!(disk("a", Some("x")).to_string(), "identity \"x\"");
    }

    #[test]
    fn without_sysfs_a_block_device_is_its_number() {
        let identity = DiskIdentity::of_block_device("8:0", Path::new("/nonexistent"));
        assert_eq!(identity, DiskIdentity::local("block device 8:0".into()));
    }
}
