//! Records of block devices: volume or disks of each. The next daemon compares them before it takes a device over; tools read from them which disks a
//! device waits for.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::keeps::FOLDER;
use crate::fresh_file;
use crate::serve::ExportIdentity;

/// The version that is written, and the only one that is read.
const VERSION: u32 = 2;

/// The record of a block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceRecord {
    version: u32,
    /// The export.
    pub export: String,
    /// The stack file of its daemon.
    pub stack: PathBuf,
    /// Identity of the export.
    pub identity: ExportIdentity,
}

/// In what an export is not the one of a record: parts that were recorded, and parts that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub expected: String,
    pub found: String,
}

impl DeviceRecord {
    pub fn new(export: &str, stack: &Path, identity: ExportIdentity) -> Self {
        Self { version: VERSION, export: export.into(), stack: stack.into(), identity }
    }

    /// Compares the parts of an export with the recorded ones. Their order has no meaning.
    pub fn difference(&self, found: &ExportIdentity) -> Option<Difference> {
        let without = |parts: &[String], others: &[String]| {
            let own: Vec<&str> = parts.iter().filter(|part| !others.contains(part)).map(String::as_str).collect();
            if own.is_empty() { "nothing else".to_owned() } else { own.join(" and ") }
        };
        let (before, now) = (&self.identity.parts, &found.parts);
        let is_same = before.iter().all(|part| now.contains(part)) && now.iter().all(|part| before.contains(part));
        (!is_same).then(|| Difference { expected: without(before, now), found: without(now, before) })
    }
}

/// Records in a directory, by the marks of their devices.
pub(super) struct Records(PathBuf);

impl Records {
    /// Records of this machine's daemons.
    pub fn of_machine() -> Self {
        Self(FOLDER.into())
    }

    pub fn path(&self, mark: u64) -> PathBuf {
        self.0.join(format!("{mark:016x}.toml"))
    }

    /// Writes a record in the place of another one, if there is one. A kill leaves the old one or the new one.
    pub fn write(&self, mark: u64, record: &DeviceRecord) -> io::Result<()> {
        let text = toml::to_string(record).map_err(io::Error::other)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let new = self.0.join(format!("{mark:016x}.new"));
        fresh_file::replace(&self.path(mark), &new, text.as_bytes(), 0o600)
    }

    /// Reads the record of a device; `None` if it has none.
    ///
    /// # Errors
    /// If the record cannot be read, or is of another version.
    pub fn read(&self, mark: u64) -> io::Result<Option<DeviceRecord>> {
        let text = match fs::read_to_string(self.path(mark)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let record: DeviceRecord =
            toml::from_str(&text).map_err(|error| io::Error::other(error.message().to_owned()))?;
        if record.version != VERSION {
            return Err(io::Error::other(format!("version {} is not known", record.version)));
        }
        Ok(Some(record))
    }

    /// Reads all records, with the marks of their devices. One that cannot be read is left out.
    pub fn all(&self) -> Vec<(u64, DeviceRecord)> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mark = |name: &str| u64::from_str_radix(name.strip_suffix(".toml")?, 16).ok();
        let marks = entries.filter_map(|entry| mark(entry.file_name().to_str()?));
        marks.filter_map(|mark| Some((mark, self.read(mark).ok()??))).collect()
    }

    /// Removes the record of a device that is gone.
    pub fn remove(&self, mark: u64) {
        // If it is not there, that is as well.
        let _ = fs::remove_file(self.path(mark));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk_identity::{DiskIdentity, DiskPlace};

    fn identity(parts: &[&str]) -> ExportIdentity {
        let identity = DiskIdentity::of(Path::new("/")).expect("the root has an identity");
        let disk = DiskPlace { name: "d".into(), path: Some("/".into()), identity };
        ExportIdentity { parts: parts.iter().map(|part| (*part).to_owned()).collect(), disks: vec![disk] }
    }

    fn record(parts: &[&str]) -> DeviceRecord {
        DeviceRecord::new("volume", Path::new("/etc/stack.toml"), identity(parts))
    }

    #[test]
    fn a_device_is_of_the_same_export_only_with_the_same_parts() {
        let before = record(&["stl volume 1"]);
        assert_eq!(before.difference(&identity(&["stl volume 1"])), None);
        let other = before.difference(&identity(&["stl volume 2"])).unwrap();
        assert_eq!((&*other.expected, &*other.found), ("stl volume 1", "stl volume 2"));
        let two = record(&["table 0 8 linear a 0", "file 1"]);
        assert_eq!(two.difference(&identity(&["file 1", "table 0 8 linear a 0"])), None, "the order has no meaning");
        let fewer = two.difference(&identity(&["file 1"])).unwrap();
        assert_eq!((&*fewer.expected, &*fewer.found), ("table 0 8 linear a 0", "nothing else"));
        assert!(before.difference(&identity(&[])).is_some());
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_one_that_cannot_be_is_an_error() {
        let records = Records(std::env::temp_dir().join(format!("shingle-records-{}", std::process::id())));
        assert_eq!(records.read(7).unwrap(), None);
        records.write(7, &record(&["a"])).unwrap();
        records.write(7, &record(&["b", "c"])).unwrap();
        assert_eq!(records.read(7).unwrap(), Some(record(&["b", "c"])));
        assert_eq!(records.all(), [(7, record(&["b", "c"]))]);
        for damaged in ["", "version = 1\n", "\u{0}"] {
            fs::write(records.path(7), damaged).unwrap();
            assert!(records.read(7).is_err(), "{damaged:?}");
        }
        records.write(7, &DeviceRecord { version: 3, ..record(&["a"]) }).unwrap();
        assert_eq!(records.read(7).unwrap_err().to_string(), "version 3 is not known");
        assert_eq!(records.all(), []);
        records.remove(7);
        assert_eq!(records.read(7).unwrap(), None);
        fs::remove_dir_all(&records.0).unwrap();
    }
}
