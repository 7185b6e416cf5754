//! Disks that block devices of killed daemons wait for. Users of a device would see what others write to its disks.

use std::fs;
use std::path::{Path, PathBuf};

use shingle_core::impl_display;
use shingle_sys::ublk::{Control, DeviceInfo, State};

use super::device::find;
use super::record::{DeviceRecord, Records};
use super::users::users;
use crate::disk_identity::DiskIdentity;

/// A block device without a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingDevice {
    /// The number of `/dev/ublkbN`.
    pub number: u32,
    /// The export that it was.
    pub export: String,
    /// The stack file whose daemon takes it over.
    pub stack: PathBuf,
    /// Mounts and other users, as far as this process may see.
    pub users: Vec<String>,
}

impl_display!(WaitingDevice, |self, f| {
    let Self { number, export, stack, users } = self;
    write!(f, "/dev/ublkb{number}, export `{export}` of a daemon that was killed, waits for it")?;
    if !users.is_empty() {
        write!(f, ", in use by {}", users.join(", "))?;
    }
    write!(
        f,
        "; take it over with `shingle up {}`, or give it up with `shingle ublk remove {number} --force`",
        stack.display()
    )
});

/// Finds the block device that waits for the disk at `path`.
#[must_use]
pub fn waiting_for(path: &Path) -> Option<WaitingDevice> {
    waiting_of_others(path, &[])
}

/// Finds the block device that waits for the disk at `path`. Devices with these marks are ignored.
pub(super) fn waiting_of_others(path: &Path, own: &[u64]) -> Option<WaitingDevice> {
    let identity = DiskIdentity::of(path)?;
    let mut records = of_disk(Records::of_machine().all(), &identity);
    records.retain(|(mark, _)| !own.contains(mark));
    if records.is_empty() {
        return None;
    }
    let mut control = Control::open().ok()?;
    records.into_iter().find_map(|(mark, record)| {
        let info = find(&mut control, mark).filter(is_waiting)?;
        let users = users(&format!("ublkb{}", info.number));
        Some(WaitingDevice { number: info.number, export: record.export, stack: record.stack, users })
    })
}

/// The records of devices that lie on this disk.
fn of_disk(mut records: Vec<(u64, DeviceRecord)>, identity: &DiskIdentity) -> Vec<(u64, DeviceRecord)> {
    records.retain(|(_, record)| record.identity.disks.iter().any(|disk| disk.identity.overlaps(identity)));
    records
}

/// True if a device has no server. The driver notices the end of a process a moment later.
fn is_waiting(info: &DeviceInfo) -> bool {
    match info.state() {
        State::Quiesced | State::FailIo => true,
        State::Live => !is_running(info.server),
        State::Dead => false,
    }
}

/// True if the process with this number has not ended.
pub(super) fn is_running(pid: i32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk_identity::DiskPlace;
    use crate::serve::ExportIdentity;

    #[test]
    fn a_disk_is_found_in_the_records_by_its_identity_and_not_by_its_path() {
        let identity = |path: &str| DiskIdentity::of(Path::new(path)).expect("it is there");
        let disk = DiskPlace { name: "d".into(), path: Some("/moved".into()), identity: identity("/proc") };
        let of = ExportIdentity { parts: Vec::new(), disks: vec![disk] };
        let record = (7, DeviceRecord::new("x", Path::new("/stack"), of));
        assert_eq!(of_disk(vec![record.clone()], &identity("/proc")), std::slice::from_ref(&record));
        assert_eq!(of_disk(vec![record], &identity("/sys")), []);
    }

    #[test]
    fn a_waiting_device_names_its_mount_and_the_next_step() {
        let users = vec!["the mount at /mnt".to_owned()];
        let text = WaitingDevice { number: 3, export: "x".into(), stack: "/etc/s.toml".into(), users }.to_string();
        let expected = "/dev/ublkb3, export `x` of a daemon that was killed, waits for it, in use by the mount at /mnt; take it over with `shingle up \
                        /etc/s.toml`, or give it up with `shingle ublk remove 3 --force`";
        assert_eq!(text, expected);
    }
}
