//! Limit of the zone files that this process has open. All disks share it, and it leaves descriptors for clients.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are left to others are a quarter of all, within these bounds: sockets of clients, for the most part.
const CLIENTS: std::ops::RangeInclusive<usize> = 32..=512;
/// Descriptors of the process itself, and of files that are open for a moment only.
const OWN: usize = 64;
/// Fewest zone files that the disks share, whatever the limit of the process is.
const MIN_FILES: usize = 8;

/// A number of files that may be open, and how many are.
#[derive(Debug)]
pub struct FileBudget {
    open: AtomicUsize,
    most: usize,
}

impl FileBudget {
    /// A budget of `most` files.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { open: AtomicUsize::new(0), most }
    }

    /// The budget of this process, by the limit that it has when this is called first (`RLIMIT_NOFILE`).
    pub fn of_process() -> &'static Self {
        static BUDGET: OnceLock<FileBudget> = OnceLock::new();
        BUDGET.get_or_init(|| {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            Self::new(share_of(usize::try_from(limit).unwrap_or(usize::MAX)))
        })
    }

    /// True if as many files are open as may be.
    pub(super) fn is_used_up(&self) -> bool {
        self.open.load(Relaxed) >= self.most
    }

    /// Counts one more open file.
    pub(super) fn add(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    /// Counts `files` fewer open files.
    pub(super) fn subtract(&self, files: usize) {
        self.open.fetch_sub(files, Relaxed);
    }
}

/// Zone files that may be open where the process may have `limit` descriptors.
fn share_of(limit: usize) -> usize {
    let clients = (limit / 4).clamp(*CLIENTS.start(), *CLIENTS.end());
    limit.saturating_sub(clients + OWN).max(MIN_FILES)
}

/// Raises the limit of open files of this process as far as it may. A shell gives 1024, which a few zoned disks in directories use up.
pub fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // With a lower limit fewer zone files are open at a time.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_for_clients() {
        assert_eq!([64, 160, 1024, 1 << 20].map(share_of), [MIN_FILES, 56, 704, (1 << 20) - 576]);
    }
}
