//! Who uses a block device.

use std::fs;
use std::iter;
use std::path::Path;

/// Most users that are named.
const MOST_NAMED: usize = 4;

/// Who uses the block device called `name` (`ublkb0`) or its partitions, as far as this process may see: mounts, devices above, swap, and processes
/// that have it open.
pub(super) fn users(name: &str) -> Vec<String> {
    let partitions = fs::read_dir(format!("/sys/class/block/{name}")).into_iter().flatten().flatten();
    let partitions = partitions.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = iter::once(name.to_owned()).chain(partitions.filter(|partition| partition.starts_with(name)));
    names.flat_map(|name| users_of_node(&name)).take(MOST_NAMED).collect()
}

fn users_of_node(name: &str) -> Vec<String> {
    let node = format!("/dev/{name}");
    let number = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap_or_default();
    let mut users = mounts(number.trim());
    users.extend(holders(name));
    users.extend(swaps(&node));
    users.extend(processes(&node));
    users
}

fn mounts(number: &str) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words.get(2) == Some(&number)).then(|| format!("the mount at {}", words.get(4).unwrap_or(&"?")))
    };
    text.lines().filter_map(mounted).collect()
}

fn holders(name: &str) -> Vec<String> {
    let entries = fs::read_dir(format!("/sys/class/block/{name}/holders")).into_iter().flatten().flatten();
    entries.map(|entry| format!("/dev/{}", entry.file_name().to_string_lossy())).collect()
}

fn swaps(node: &str) -> Vec<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    text.lines().filter(|line| line.split_whitespace().next() == Some(node)).map(|_| "swap".into()).collect()
}

fn processes(node: &str) -> Vec<String> {
    let is_process = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let has_it = |path: &Path| {
        let files = fs::read_dir(path.join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target == Path::new(node))
    };
    let mine = std::process::id().to_string();
    let tell = |path: &Path| {
        let command = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let pid = path.file_name()?.to_str()?;
        (pid != mine).then(|| format!("process {pid} ({})", command.trim_end()))
    };
    entries.filter(|path| is_process(path) && has_it(path)).filter_map(|path| tell(&path)).collect()
}
