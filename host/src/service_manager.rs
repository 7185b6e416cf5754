//! The service manager that runs this process, systemd or one that speaks its protocol: what it is told (`sd_notify(3)`), and the
//! descriptors it hands over and keeps (`sd_listen_fds(3)`, `FileDescriptorStoreMax=` of `systemd.service(5)`).

use std::env;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Tells the service manager a state, if there is one. It is not told twice if it does not listen.
pub fn notify(state: &str) {
    let _ = send(state, &[]);
}

/// Has the service manager keep `socket` under `name` for the process that it starts next. False if it keeps none.
#[must_use]
pub fn keep(socket: BorrowedFd<'_>, name: &str) -> bool {
    // Only a manager that keeps some says so (systemd from 254 on): elsewhere the socket would go with this process.
    let most = env::var("FDSTORE").ok().and_then(|most| most.parse::<u32>().ok());
    most.is_some_and(|most| most > 0) && send(&format!("FDSTORE=1\nFDNAME={name}"), &[socket]).is_ok()
}

/// Has the service manager close what it keeps under `name`.
pub fn let_go(name: &str) {
    notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
}

/// The descriptors that were handed to this process, with their names. Only the first call gets them.
#[must_use]
pub fn handed_over() -> Vec<(String, OwnedFd)> {
    let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Vec::new();
    }
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    names.zip(shingle_sys::inherited(number("LISTEN_FDS").unwrap_or(0))).collect()
}

/// Sends one message to the service manager; an error where there is none.
fn send(state: &str, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let address = env::var_os("NOTIFY_SOCKET").ok_or(io::ErrorKind::NotFound)?;
    let address = match address.to_str().and_then(|address| address.strip_prefix('@')) {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None => SocketAddrUnix::new(&address)?,
    };
    let from = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let text = [IoSlice::new(state.as_bytes())];
    rustix::net::sendmsg_addr(&from, &address, &text, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
