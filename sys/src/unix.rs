//! The few system calls that neither the standard library nor `rustix` makes safe.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Sets the size of a file.
pub(crate) fn truncate(file: &impl AsFd, len: u64) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: the call takes no pointer, and the descriptor is open while `file` is borrowed.
    check(unsafe { libc::ftruncate(file.as_fd().as_raw_fd(), len) }).map(drop)
}

/// A request from outside to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT: control-C.
    Interrupt,
    /// SIGTERM: the service manager or `kill`.
    Terminate,
}

/// SIGINT and SIGTERM as a file to read instead of the end of the process.
#[derive(Debug)]
pub struct StopSignals(OwnedFd);

impl StopSignals {
    /// Blocks both signals in the calling thread and in all threads that it starts from now on. Call it before there are
    /// others: a thread that does not block them still ends the process.
    pub fn block() -> io::Result<Self> {
        // SAFETY: `sigset_t` is a plain C struct for which all zeroes is a valid value.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: all three take a pointer to `set`, which lives through the calls; the old mask is not asked for.
        let fd = unsafe {
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            let errno = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            if errno != 0 {
                return Err(io::Error::from_raw_os_error(errno));
            }
            check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC))?
        };
        // SAFETY: the descriptor was opened by the call above and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for the next one.
    pub fn wait(&self) -> io::Result<StopSignal> {
        // SAFETY: `signalfd_siginfo` is a plain C struct for which all zeroes is a valid value.
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        loop {
            // SAFETY: the kernel writes at most `size` bytes into `info`, which is that large and lives through the call.
            let got = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
            if got == size as isize {
                let interrupt = info.ssi_signo == libc::SIGINT as u32;
                return Ok(if interrupt { StopSignal::Interrupt } else { StopSignal::Terminate });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl AsFd for StopSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes a write past the file size limit (`ulimit -f`) an error of that write instead of the end of the process.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no handler, so no code runs at a bad moment.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_signal_is_something_to_read_and_not_the_end() {
        let signals = StopSignals::block().unwrap();
        for (number, signal) in [(libc::SIGTERM, StopSignal::Terminate), (libc::SIGINT, StopSignal::Interrupt)] {
            // SAFETY: the signal goes to this thread only, which blocks it.
            assert_eq!(unsafe { libc::raise(number) }, 0);
            assert_eq!(signals.wait().unwrap(), signal);
        }
    }
}
