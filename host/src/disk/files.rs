//! The calls of disks that wait for the kernel: creating, opening, sizes, names. What an open disk asks of the file system goes through the
//! ring, but for [`Files::cached_status`], which never waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{Access, AtFlags, Dir, FlockOperation, Mode, OFlags, SeekFrom, Stat, Statx, StatxFlags};
use rustix::io::{Errno, Result};
use shingle_sys::FileStatus;

/// Where the files of a disk are, as the disk holds it.
pub type FilesHandle = Rc<dyn Files>;

/// The calls, named and defined as in POSIX; by default the machine's kernel carries them out. A simulation of one has its own,
/// together with its own [`shingle_sys::RequestQueue`] for the ring.
#[expect(missing_docs, reason = "each call is the system call of that name")]
pub trait Files {
    fn mkdir(&self, path: &Path) -> Result<()> {
        rustix::fs::mkdir(path, Mode::from_bits_truncate(0o777))
    }

    fn rmdir(&self, path: &Path) -> Result<()> {
        rustix::fs::rmdir(path)
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::open(path, flags, Mode::empty())
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        rustix::fs::stat(path)
    }

    fn statx(&self, file: BorrowedFd<'_>, wanted: StatxFlags) -> Result<Statx> {
        rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)
    }

    /// Where the file ends: of a block device, too.
    fn size(&self, file: BorrowedFd<'_>) -> Result<u64> {
        rustix::fs::seek(file, SeekFrom::End(0))
    }

    fn fcntl_setfl(&self, file: BorrowedFd<'_>, flags: OFlags) -> Result<()> {
        rustix::fs::fcntl_setfl(file, flags)
    }

    fn openat(&self, directory: BorrowedFd<'_>, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        rustix::fs::openat(directory, name, flags, mode)
    }

    fn flock(&self, file: BorrowedFd<'_>, operation: FlockOperation) -> Result<()> {
        rustix::fs::flock(file, operation)
    }

    /// The names in a directory, but for `.` and `..`; bytes that are no UTF-8 are replaced.
    fn names(&self, directory: BorrowedFd<'_>) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn statat(&self, directory: BorrowedFd<'_>, name: &str) -> Result<Stat> {
        rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn accessat(&self, directory: BorrowedFd<'_>, name: &str, access: Access) -> Result<()> {
        rustix::fs::accessat(directory, name, access, AtFlags::empty())
    }

    /// See [`shingle_sys::cached_status`].
    fn cached_status(&self, file: BorrowedFd<'_>) -> Result<FileStatus> {
        shingle_sys::cached_status(&file).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn fstat(&self, file: BorrowedFd<'_>) -> Result<Stat> {
        rustix::fs::fstat(file)
    }

    fn ftruncate(&self, file: BorrowedFd<'_>, len: u64) -> Result<()> {
        rustix::fs::ftruncate(file, len)
    }

    fn fdatasync(&self, file: BorrowedFd<'_>) -> Result<()> {
        rustix::fs::fdatasync(file)
    }

    fn fsync(&self, file: BorrowedFd<'_>) -> Result<()> {
        rustix::fs::fsync(file)
    }

    fn syncfs(&self, file: BorrowedFd<'_>) -> Result<()> {
        rustix::fs::syncfs(file)
    }

    fn renameat(&self, directory: BorrowedFd<'_>, from: &str, to: &str) -> Result<()> {
        rustix::fs::renameat(directory, from, directory, to)
    }

    fn unlinkat(&self, directory: BorrowedFd<'_>, name: &str) -> Result<()> {
        rustix::fs::unlinkat(directory, name, AtFlags::empty())
    }

    /// At most `most` bytes from the start of the file.
    fn read(&self, file: BorrowedFd<'_>, most: usize) -> Result<Vec<u8>> {
        let (mut bytes, mut done) = (vec![0; most], 0);
        while done < most {
            match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes[done..], done as u64))? {
                0 => break,
                more => done += more,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// All of `bytes`, at the start of the file.
    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += rustix::io::retry_on_intr(|| rustix::io::pwrite(file, &bytes[done..], done as u64))?;
        }
        Ok(())
    }
}

/// The machine's kernel.
struct Machine;

impl Files for Machine {}

/// The files of this machine.
#[must_use]
pub fn machine() -> FilesHandle {
    Rc::new(Machine)
}

/// Short for what every call begins with.
pub(super) fn fd(file: &impl AsFd) -> BorrowedFd<'_> {
    file.as_fd()
}
