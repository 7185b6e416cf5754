//! NUMA nodes of disks and of the calling thread, as sysfs has them. A machine without NUMA has node 0 alone.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};
use shingle_core::multipath::Node;

/// Folder with a link for each block device, by device number.
const BLOCK_DEVICES: &str = "/sys/dev/block";
/// Folder with a folder for each CPU.
const CPUS: &str = "/sys/devices/system/cpu";

/// Reads the node of the block device at `path`, or of the disk that holds the file there. `None` if the kernel states none, as of disks over
/// a network and of files in memory.
#[must_use]
pub fn node_of_disk(path: &Path) -> Option<Node> {
    let metadata = fs::metadata(path).ok()?;
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    node_of_block_device(&format!("{}:{}", major(number), minor(number)), Path::new(BLOCK_DEVICES))
}

/// Reads the node of the CPU on which the calling thread runs at the moment; 0 if the kernel does not say.
#[must_use]
pub fn node_of_this_thread() -> Node {
    node_of_cpu(rustix::thread::sched_getcpu(), Path::new(CPUS)).unwrap_or_default()
}

/// The node of the nearest device above a block device that has one: its controller, or what that is plugged into.
fn node_of_block_device(number: &str, sysfs: &Path) -> Option<Node> {
    let folder = sysfs.join(number).canonicalize().ok()?;
    let mut files = folder.ancestors().flat_map(|above| [above.join("numa_node"), above.join("device/numa_node")]);
    let text = files.find_map(|file| fs::read_to_string(file).ok())?;
    // -1 if the firmware does not say.
    text.trim().parse().ok().map(Node)
}

fn node_of_cpu(cpu: usize, sysfs: &Path) -> Option<Node> {
    let entries = fs::read_dir(sysfs.join(format!("cpu{cpu}"))).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).map(Node).next()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("shingle-numa-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_block_device_has_the_node_of_its_controller() {
        let sysfs = Folder::new("disk");
        let link = |number: &str, to: &str| symlink(sysfs.0.join(to), sysfs.0.join(number)).unwrap();
        sysfs.file("pci/0/numa_node", "1\n");
        sysfs.file("pci/0/nvme/nvme0/nvme0n1/nvme0n1p1/partition", "1\n");
        sysfs.file("pci/1/numa_node", "-1\n");
        sysfs.file("pci/1/ata1/block/sda/size", "8\n");
        sysfs.file("virtual/block/ram0/size", "8\n");
        link("259:0", "pci/0/nvme/nvme0/nvme0n1");
        link("259:1", "pci/0/nvme/nvme0/nvme0n1/nvme0n1p1");
        link("8:0", "pci/1/ata1/block/sda");
        link("1:0", "virtual/block/ram0");
        let node = |number| node_of_block_device(number, &sysfs.0);
        assert_eq!((node("259:0"), node("259:1")), (Some(Node(1)), Some(Node(1))), "a partition, too");
        assert_eq!((node("8:0"), node("1:0"), node("7:7")), (None, None, None));
    }

    #[test]
    fn a_cpu_has_the_node_that_its_folder_names() {
        let sysfs = Folder::new("cpu");
        sysfs.file("cpu3/topology/core_id", "3");
        sysfs.file("cpu3/node1/cpulist", "2-3");
        sysfs.file("cpu4/topology/core_id", "4");
        assert_eq!((node_of_cpu(3, &sysfs.0), node_of_cpu(4, &sysfs.0)), (Some(Node(1)), None));
    }
}
