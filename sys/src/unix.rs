//! The few system calls that neither the standard library nor `rustix` makes safe.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the size of a file.
pub(crate) fn truncate(file: &impl AsFd, len: u64) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: the call takes no pointer, and the descriptor is open while `file` is borrowed.
    check(unsafe { libc::ftruncate(file.as_fd().as_raw_fd(), len) }).map(drop)
}

/// Makes a write past the file size limit (`ulimit -f`) an error of that write instead of the end of the process.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no handler, so no code runs at a bad moment.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Gives memory that was freed back to the system. Does nothing where the allocator does that by itself.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes no pointer, and the allocator does it under its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Who is at the other end of a socket: the user, and the process, which is 0 if it is in another PID namespace. `rustix` has it as a number that
/// cannot be 0.
pub fn peer(socket: &impl AsFd) -> io::Result<(u32, i32)> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, into) = (socket.as_fd().as_raw_fd(), (&raw mut peer).cast());
    // SAFETY: `into` points to as many bytes as `len` says, of a structure of numbers, and the descriptor is open while `socket` is borrowed.
    check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &raw mut len) })?;
    Ok((peer.uid, peer.pid))
}

/// The descriptors from 3 up, `count` at most, with which this process was started (`sd_listen_fds(3)`). Processes that it starts do not get them.
/// Only the first call gets any; it has to come before this process opens descriptors of its own, and takes none that would be closed upon exec, as
/// those of the standard library and of this program are.
#[must_use]
pub fn inherited(count: u32) -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let last = RawFd::try_from(count).unwrap_or(RawFd::MAX - 3) + 3;
    (3..last).map_while(take).collect()
}

/// Takes a descriptor that came through an exec.
fn take(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call takes no pointer and fails for what is not open.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return None;
    }
    // SAFETY: as above.
    unsafe { libc::fcntl(fd, libc::F_SETFD, flags | libc::FD_CLOEXEC) };
    // SAFETY: it is open, and came through an exec, as it has no FD_CLOEXEC: nothing in this process owns it. It is taken once, as it has the flag now.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_peer_of_a_socket_of_ours_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer(&one).unwrap().1, std::process::id() as i32);
    }
}
