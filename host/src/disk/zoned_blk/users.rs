//! Who has a block device that cannot be had alone.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::attributes::folder_of;
use crate::disk::Holder;

/// Whoever uses the block device with this number (`st_rdev`), as far as this process may see that: a mapped device or an array,
/// a mount, a process.
pub fn user_of(number: u64) -> Option<String> {
    let process = || Holder::of_device(number).map(|holder| holder.to_string());
    above(&folder_of(number)).or_else(|| mount_of(number)).or_else(process)
}

/// The device of the kernel that lies on the one with this folder.
fn above(folder: &Path) -> Option<String> {
    let holder = fs::read_dir(folder.join("holders")).ok()?.find_map(Result::ok)?;
    let name = holder.file_name().to_string_lossy().into_owned();
    let mapped = fs::read_to_string(holder.path().join("dm/name"));
    Some(match mapped {
        Ok(mapped) => format!("the kernel's mapped device {} ({name})", mapped.trim_end()),
        Err(_) => format!("the device {name}"),
    })
}

fn mount_of(number: u64) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let is_it = |source: &str| fs::metadata(source).is_ok_and(|metadata| metadata.rdev() == number);
    mounts.lines().find_map(|line| mount_in(line, number, is_it)).map(|place| format!("the file system at {place}"))
}

/// The place of the mount in a line of mountinfo (proc_pid_mountinfo(5)), if it is one of this device. File systems of several
/// devices have a number of their own, and name one of them as their source.
fn mount_in(line: &str, number: u64, is_it: impl Fn(&str) -> bool) -> Option<String> {
    let (head, tail) = line.split_once(" - ")?;
    let mut words = head.split(' ').skip(2);
    let (device, place) = (words.next()?, words.nth(1)?);
    let wanted = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let source = tail.split(' ').nth(1)?;
    (device == wanted || source.starts_with('/') && is_it(source)).then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_number_or_its_source() {
        let number = rustix::fs::makedev(8, 16);
        let ours = "36 35 8:16 / /mnt rw,noatime master:1 - zonefs /dev/sdb rw,errors=continue";
        assert_eq!(mount_in(ours, number, |_| false).as_deref(), Some("/mnt"));
        let of_several = "37 35 0:52 /sub /data rw - btrfs /dev/sdb rw";
        assert_eq!(mount_in(of_several, number, |source| source == "/dev/sdb").as_deref(), Some("/data"));
        for other in [of_several, "38 35 0:53 / /proc rw - proc proc rw", "39 35 8:160 / /x rw - ext4 /dev/sdk rw", ""]
        {
            assert_eq!(mount_in(other, number, |_| false), None, "{other}");
        }
    }
}
