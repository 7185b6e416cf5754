//! Memory that outlives the process: a file that is mapped.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use shingle_core::block::Memory;

/// The memory of a file, which is there for the next process that opens it. In a file system in memory nobody else is asked for room
/// later, and it is gone with the machine.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and its words are atomic.
unsafe impl Send for SharedMemory {}
// SAFETY: the same.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// The memory of the file at `path`, with at least `bytes`. One of another length is made anew, of zeroes.
    ///
    /// # Errors
    /// If the file cannot be had, or has no room.
    pub fn open(path: &Path, bytes: usize) -> io::Result<Self> {
        let words = bytes.div_ceil(size_of::<AtomicU64>());
        let bytes = (words * size_of::<AtomicU64>()) as u64;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path)?;
        if file.metadata()?.len() != bytes {
            file.set_len(0)?;
            file.set_len(bytes)?;
        }
        // With all its blocks an access cannot find that there is no room.
        // SAFETY: the call takes no pointer, and the descriptor is open.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes as usize, protection, flags, file.as_raw_fd(), 0) };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => {
                let memory = Self { start: start.cast(), words };
                memory.populate()?;
                Ok(memory)
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Makes all pages resident, so that they are locked in a process that locks what it touches (`mlockall` with `MCL_ONFAULT`, which makes
    /// `MAP_POPULATE` do nothing). A page that is not locked may be swapped out to a device that this process serves, and could then not be had
    /// back.
    fn populate(&self) -> io::Result<()> {
        let bytes = self.words * size_of::<AtomicU64>();
        // SAFETY: the mapping is of this length, and its content stays.
        match unsafe { libc::madvise(self.start.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Memory for SharedMemory {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: they are mapped until this is dropped, and aligned to a page. Other processes may change them at any time, as
        // atomics may be.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: it is the mapping that `open` has made, and nobody has a reference into it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::testing::run_ignored_test_alone;

    /// Bytes of the mapping of a file that are locked in memory.
    fn locked(path: &Path) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let own = maps.split_once(path.to_str().unwrap()).expect("the mapping is listed").1;
        let line = own.lines().find(|line| line.starts_with("Locked:")).expect("its locked bytes are listed");
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn all_of_it_is_locked_in_a_process_that_locks_what_it_touches() {
        run_ignored_test_alone("shared_memory::tests::locks_what_it_touches");
    }

    #[test]
    #[ignore = "all_of_it_is_locked_in_a_process_that_locks_what_it_touches runs it"]
    fn locks_what_it_touches() {
        const BYTES: usize = 1 << 20;
        let path = std::env::temp_dir().join(format!("shingle-shared-locked-{}", std::process::id()));
        // SAFETY: the call takes no pointer.
        let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
        assert_eq!(result, 0, "mlockall: {}", io::Error::last_os_error());
        let memory = SharedMemory::open(&path, BYTES).unwrap();
        let locked = locked(&path);
        drop(memory);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(locked, BYTES);
    }

    #[test]
    fn what_is_stored_is_there_for_who_opens_the_file_again_and_another_length_is_made_anew() {
        let path = std::env::temp_dir().join(format!("shingle-shared-{}", std::process::id()));
        SharedMemory::open(&path, 8192).unwrap().words()[1000].store(7, Relaxed);
        let again = SharedMemory::open(&path, 8192).unwrap();
        let other =
            SharedMemory::open(&path, 4096).map(|memory| memory.words().iter().all(|word| word.load(Relaxed) == 0));
        std::fs::remove_file(&path).unwrap();
        assert_eq!((again.words().len(), other.unwrap()), (1024, true));
    }

    #[test]
    fn a_link_is_not_followed() {
        let path = std::env::temp_dir().join(format!("shingle-shared-link-{}", std::process::id()));
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        let opened = SharedMemory::open(&path, 4096).map(drop);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }
}
