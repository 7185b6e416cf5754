//! Whether the zones' files are still there, and still those that the disk was opened with.
//!
//! The disk is locked, but a lock binds only those who ask for it. Whoever removes, replaces or cuts a zone's file takes data
//! that a flush has promised, or is about to, and the open file shows nothing of it: writes and syncs go on to succeed.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use rustix::io::Errno;
use shingle_core::impl_display;
use shingle_sys::FileStatus;

/// File system and inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    file_system: u64,
    inode: u64,
}

impl FileId {
    pub fn of(status: &FileStatus) -> Self {
        Self { file_system: status.device, inode: status.inode }
    }

    /// The same from what `stat(2)` says.
    pub fn of_stat(stat: &Stat) -> Self {
        Self { file_system: stat.st_dev, inode: stat.st_ino }
    }
}

/// What happened to a zone's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// It has no name any more; another file may have it.
    Removed,
    /// Its name is that of another file.
    Replaced,
    /// It cannot be looked at.
    Unknown(Errno),
    /// It has another size than it was given.
    Resized {
        /// In bytes.
        is: u64,
        /// The least that it should have.
        should_be: u64,
    },
}

impl Loss {
    /// What a file with this status has lost, or one that has none. Its size in bytes may be anything in `sizes`, both ends included.
    pub fn find(status: rustix::io::Result<FileStatus>, identity: FileId, sizes: (u64, u64)) -> Option<Self> {
        match status {
            Err(Errno::NOENT) => Some(Self::Removed),
            Err(errno) => Some(Self::Unknown(errno)),
            Ok(status) if FileId::of(&status) != identity => Some(Self::Replaced),
            Ok(status) if status.links == 0 => Some(Self::Removed),
            Ok(status) if status.size < sizes.0 || status.size > sizes.1 => {
                Some(Self::Resized { is: status.size, should_be: sizes.0 })
            }
            Ok(_) => None,
        }
    }
}

impl_display!(Loss, |self, f| {
    match self {
        Self::Removed => {
            write!(f, "the file was removed, or another file was put in its place, while the disk is in use")?
        }
        Self::Replaced => write!(f, "another file was put in its place while the disk is in use")?,
        Self::Unknown(errno) => write!(f, "the file cannot be looked at ({errno})")?,
        Self::Resized { is, should_be } => {
            write!(f, "the file was changed while the disk is in use: it has {is} bytes instead of {should_be}")?;
        }
    }
    write!(
        f,
        "; the zone is read-only and no flush succeeds until the disk is opened again: copy what can still be read, \
         then stop the daemon and restore the file"
    )
});

/// What a directory's times say of the names in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// `None`: they cannot be looked at.
    times: Option<Times>,
    /// Whether they are so old that a change from now on would change them.
    is_settled: bool,
}

/// Whether names have changed between two looks at their directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    No,
    Perhaps,
    Yes,
}

/// Modification and change, each in seconds and nanoseconds.
type Times = [(i64, u32); 2];

/// The coarsest times that file systems keep, in seconds.
const COARSE: u64 = 2;

impl Names {
    /// Nothing is known of them: they differ from what they are at any time.
    pub const UNKNOWN: Self = Self { times: None, is_settled: false };

    /// What the status of the directory says of its names.
    pub fn of(directory: rustix::io::Result<FileStatus>) -> Self {
        let Ok(status) = directory else { return Self::UNKNOWN };
        let times = [status.modified, status.changed];
        // A change that comes right after this look may bear the same times: recent ones prove nothing.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
        let is_settled = times.iter().all(|(seconds, _)| seconds.abs_diff(now) > COARSE);
        Self { times: Some(times), is_settled }
    }

    /// Whether something has changed since it was `before`.
    pub fn change_since(self, before: Self) -> Change {
        match () {
            () if self.times.is_none() || self.times != before.times => Change::Yes,
            () if before.is_settled => Change::No,
            () => Change::Perhaps,
        }
    }
}
