//! Setting up an io_uring with as much as this kernel offers of what makes one fast.

use std::fmt;
use std::io;

use io_uring::{Builder, IoUring, cqueue, squeue};

use crate::ring::{COMPLETIONS, ENTRIES};

/// Turns on a set of features.
type Choice<S, C> = fn(&mut Builder<S, C>) -> &mut Builder<S, C>;

/// Tries the sets of features that kernels have had, newest first.
pub(crate) fn build<S: squeue::EntryMarker, C: cqueue::EntryMarker>() -> io::Result<IoUring<S, C>> {
    let choices: [Choice<S, C>; 4] = [
        // Linux 6.6.
        |b| b.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all().setup_no_sqarray(),
        // Linux 6.1.
        |b| b.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all(),
        // Linux 5.19.
        |b| b.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all(),
        |b| b,
    ];
    let mut outcome = Err(io::Error::from_raw_os_error(libc::ENOSYS));
    for choose in choices {
        let mut builder = IoUring::<S, C>::builder();
        choose(builder.dontfork().setup_clamp().setup_cqsize(COMPLETIONS));
        outcome = builder.build(ENTRIES);
        if !outcome.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EINVAL)) {
            break;
        }
    }
    outcome
}

/// Error of setting up io_uring.
#[derive(Debug)]
pub struct RingError {
    source: io::Error,
}

impl RingError {
    pub(crate) fn setup(source: io::Error) -> Self {
        Self { source }
    }

    fn next_step(&self) -> &'static str {
        match self.source.raw_os_error() {
            Some(libc::ENOSYS) => {
                "this kernel or sandbox has no io_uring of Linux 5.11 or newer: use a newer kernel, or let the \
                 container's seccomp profile pass io_uring_setup, io_uring_enter and io_uring_register"
            }
            Some(libc::EPERM | libc::EACCES) => {
                "it is forbidden here: set the sysctl kernel.io_uring_disabled to 0, or let the container's seccomp \
                 profile pass io_uring_setup, io_uring_enter and io_uring_register"
            }
            Some(libc::ENOMEM) => {
                "memory for it may not be locked: raise the limit shown by `ulimit -l`, of a container with --ulimit \
                 memlock=-1"
            }
            Some(libc::EMFILE | libc::ENFILE) => "too many files are open: raise the limit shown by `ulimit -n`",
            _ => "check the kernel log",
        }
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot set up io_uring: {}; {}", self.source, self.next_step())
    }
}

impl std::error::Error for RingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_setup_names_the_cause_and_the_next_step() {
        for (errno, step) in
            [(libc::EPERM, "kernel.io_uring_disabled"), (libc::ENOSYS, "newer kernel"), (libc::ENOMEM, "memlock=-1")]
        {
            let message = RingError::setup(io::Error::from_raw_os_error(errno)).to_string();
            assert!(message.starts_with("cannot set up io_uring: ") && message.contains(step), "{message}");
        }
    }
}
