//! Limits of the control group of this process (cgroups(7), version 2).

use std::fs;
use std::path::Path;

/// Memory that this process may use, in bytes, by its control group and those above; `None` if nothing limits it, or that cannot be seen.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_below(Path::new("/sys/fs/cgroup"), groups.lines().find_map(|line| line.strip_prefix("0::/"))?)
}

/// The least `memory.max` of the control group `group` and those above, as they lie below `root`.
fn limit_below(root: &Path, group: &str) -> Option<u64> {
    let group = root.join(group);
    let all = group.ancestors().take_while(|path| path.starts_with(root));
    all.filter_map(|path| fs::read_to_string(path.join("memory.max")).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let root = std::env::temp_dir().join(format!("shingle-cgroup-{}", std::process::id()));
        let inner = root.join("system.slice/shingle.service");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(limit_below(&root, "system.slice/shingle.service"), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("system.slice/memory.max"), "268435456\n").unwrap();
        assert_eq!(limit_below(&root, "system.slice/shingle.service"), Some(256 << 20));
        fs::write(inner.join("memory.max"), "1048576\n").unwrap();
        assert_eq!(limit_below(&root, "system.slice/shingle.service"), Some(1 << 20));
        assert_eq!(limit_below(&root, ""), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
