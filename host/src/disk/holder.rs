//! Who has a disk that cannot be locked or opened.

use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use rustix::fs::{fstat, major, minor};
use shingle_core::impl_display;

/// Longest command line that is shown, in characters.
const MOST_SHOWN: usize = 80;

/// How often the list of locks is looked through before nobody is named.
const LOOKS: usize = 4;

/// The process that holds the lock of a file, or has a block device open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// How it was called; empty if that cannot be seen.
    pub command: String,
}

impl Holder {
    /// The process that has `file` locked as a whole; `None` if nobody has, or this process may not see who. The answer is
    /// as old as it is: use it for messages alone.
    pub fn of(file: &impl AsFd) -> Option<Self> {
        let stat = fstat(file).ok()?;
        let wanted = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
        let look = |_| locks().ok()?.lines().find_map(|line| flock_of(line, &wanted));
        (0..LOOKS).find_map(look).map(Self::process)
    }

    /// A process that has the block device with this number (`st_rdev`) open; `None` if nobody has, or this process may not see
    /// who.
    pub fn of_device(number: u64) -> Option<Self> {
        let is_it = |file: fs::DirEntry| {
            // Not through the name, which may be another's by now.
            let metadata = fs::metadata(file.path());
            metadata.is_ok_and(|metadata| metadata.file_type().is_block_device() && metadata.rdev() == number)
        };
        let has_it = |pid: &u32| {
            fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|mut files| files.any(|file| file.is_ok_and(is_it)))
        };
        let processes = fs::read_dir("/proc").ok()?.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok());
        processes.into_iter().find(has_it).map(Self::process)
    }

    fn process(pid: u32) -> Self {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        Self { pid, command: words.join(" ").trim_end().chars().take(MOST_SHOWN).collect() }
    }
}

/// The text of `/proc/locks`. The kernel counts lines from one read to the next, so a lock that goes meanwhile hides
/// another: few and large reads, and more than one look.
fn locks() -> io::Result<String> {
    let mut text = String::with_capacity(64 << 10);
    fs::File::open("/proc/locks")?.read_to_string(&mut text)?;
    Ok(text)
}

/// The process in a line of `/proc/locks` (proc_locks(5)), if it says that `file` is locked as by flock(2).
fn flock_of(line: &str, file: &str) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [_, "FLOCK", _, _, pid, locked, ..] if *locked == file => pid.parse().ok().filter(|pid| *pid > 0),
        _ => None,
    }
}

impl_display!(Holder, |self, f| {
    write!(f, "process {}", self.pid)?;
    if self.command.is_empty() { Ok(()) } else { write!(f, " ({})", self.command) }
});

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn only_a_lock_that_is_held_on_this_very_file_names_its_process() {
        let file = "fe:00:9977865";
        assert_eq!(flock_of("1: FLOCK  ADVISORY  WRITE 1160 fe:00:9977865 0 EOF", file), Some(1160));
        let others = [
            "1: -> FLOCK  ADVISORY  WRITE 1160 fe:00:9977865 0 EOF",
            "2: POSIX  ADVISORY  WRITE 1160 fe:00:9977865 0 EOF",
            "3: FLOCK  ADVISORY  WRITE 1160 fe:00:99778650 0 EOF",
            "4: FLOCK  ADVISORY  WRITE -1 fe:00:9977865 0 EOF",
            "",
        ];
        others.iter().for_each(|line| assert_eq!(flock_of(line, file), None, "{line}"));
    }

    #[test]
    fn a_lock_is_found_while_others_come_and_go() {
        let path = |name: &str| std::env::temp_dir().join(format!("shingle-holder-{name}-{}", std::process::id()));
        let other = |round: u32| {
            fs::File::create(path("other")).inspect(|file| {
                flock(file, FlockOperation::LockExclusive).unwrap();
                (0..round % 64).for_each(|_| std::hint::spin_loop());
            })
        };
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..).take_while(|_| !end.load(Relaxed)).for_each(|round| drop(other(round).unwrap())));
            let file = fs::File::create(path("ours")).unwrap();
            flock(&file, FlockOperation::LockExclusive).unwrap();
            let missed = (0..2000).filter(|_| Holder::of(&file).is_none()).count();
            end.store(true, Relaxed);
            assert_eq!(missed, 0);
        });
        ["other", "ours"].iter().for_each(|name| fs::remove_file(path(name)).unwrap());
    }

    #[test]
    fn a_lock_of_this_process_is_found() {
        let path = std::env::temp_dir().join(format!("shingle-holder-{}", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        assert_eq!(Holder::of(&file), None);
        flock(&file, FlockOperation::LockExclusive).unwrap();
        let holder = Holder::of(&fs::File::open(&path).unwrap());
        fs::remove_file(&path).unwrap();
        assert_eq!(holder.map(|holder| holder.pid), Some(std::process::id()));
    }
}
