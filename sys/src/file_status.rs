//! The status of a file, and answers of requests that are not just a number.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;

/// What a request brings back besides its result. The one who asked keeps a clone and takes the value out at the completion.
pub struct Answer<T>(Rc<Cell<Option<T>>>);

impl<T> Answer<T> {
    /// An answer that has not come.
    #[must_use]
    pub fn new() -> Self {
        Self(Rc::new(Cell::new(None)))
    }

    /// Sets the value. A simulation of the kernel does that in the kernel's place.
    pub fn give(&self, value: T) {
        self.0.set(Some(value));
    }

    /// Takes the value out; `None` if the request failed.
    #[must_use]
    pub fn take(&self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// The status of a file, as `statx(2)` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The device number of its file system, as in `st_dev`.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// Names that lead to it.
    pub links: u32,
    /// Its size in bytes.
    pub size: u64,
    /// When its data, or the names in a directory, changed last: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// When anything of it changed last, in the same units.
    pub changed: (i64, u32),
}

/// Memory into which the kernel writes the status of a file.
pub struct StatusBuffer(Box<MaybeUninit<libc::statx>>);

impl StatusBuffer {
    /// Memory in which all is zero.
    #[must_use]
    pub fn new() -> Self {
        Self(Box::new(MaybeUninit::zeroed()))
    }

    pub(crate) fn as_mut_ptr<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }

    pub(crate) fn status(&self) -> FileStatus {
        // SAFETY: the memory was all zeroes before the kernel wrote to it.
        unsafe { status(&self.0) }
    }
}

/// The status in a buffer.
///
/// # Safety
/// The kernel has written it, or it is all zeroes.
unsafe fn status(buffer: &MaybeUninit<libc::statx>) -> FileStatus {
    // SAFETY: `statx` is a plain C struct of integers, all of which the caller promises to be there.
    let stat = unsafe { buffer.assume_init_ref() };
    let time = |time: &libc::statx_timestamp| (time.tv_sec, time.tv_nsec);
    FileStatus {
        device: libc::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        links: stat.stx_nlink,
        size: stat.stx_size,
        modified: time(&stat.stx_mtime),
        changed: time(&stat.stx_ctime),
    }
}

impl Default for StatusBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StatusBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusBuffer")
    }
}

/// The status of an open file as this machine knows it (`AT_STATX_DONT_SYNC`): never waits for the server of a network file system, and for
/// files of other file systems is as exact as `fstat`.
///
/// # Errors
/// The kernel's.
pub fn cached_status(file: &impl AsFd) -> io::Result<FileStatus> {
    let mut buffer = MaybeUninit::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the kernel reads an empty name and writes to the buffer, which is as large as it takes it to be.
    let result = unsafe { libc::statx(fd, c"".as_ptr(), flags, libc::STATX_BASIC_STATS, buffer.as_mut_ptr()) };
    // SAFETY: the buffer was all zeroes before.
    if result == 0 { Ok(unsafe { status(&buffer) }) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::linux::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_cached_status_is_that_of_fstat() {
        let path = std::env::temp_dir().join(format!("shingle-file-status-{}", std::process::id()));
        std::fs::write(&path, [7; 300]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let (status, metadata) = (cached_status(&file).unwrap(), file.metadata().unwrap());
        assert_eq!((status.device, status.inode), (metadata.st_dev(), metadata.st_ino()));
        assert_eq!((status.size, status.links), (300, 1));
        assert_eq!(status.modified, (metadata.st_mtime(), metadata.st_mtime_nsec() as u32));
        assert_eq!(status.changed, (metadata.st_ctime(), metadata.st_ctime_nsec() as u32));
        std::fs::remove_file(path).unwrap();
        assert_eq!(cached_status(&file).unwrap().links, 0);
    }
}
