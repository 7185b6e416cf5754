//! Where sockets that listen come from: a service manager has them ready, or they are made.
//!
//! A socket that the service manager started this process for, or kept from the process before, is taken by its address. One that was made is
//! given to the service manager to keep, if it keeps some: clients that come while one daemon ends and the next one starts wait.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, PoisonError};

use rustix::net::{SocketAddrUnix, SocketType, sockopt};

use super::listen::{Address, ListenError, Listener, Owner, SocketFile};
use crate::service_manager;

/// What the names begin with of sockets that a daemon had the service manager keep.
const OURS: &str = "shingle-";

/// Where sockets that listen come from. Without any that were handed over all are made.
#[derive(Debug, Default)]
pub struct Sockets {
    handed: Mutex<Vec<Handed>>,
}

/// A socket that was handed over.
#[derive(Debug)]
struct Handed {
    name: String,
    address: Address,
    fd: OwnedFd,
}

impl Sockets {
    /// The sockets that the service manager has ready for this process. Only the first call gets any.
    #[must_use]
    pub fn handed_over() -> Self {
        let mut handed = Vec::new();
        for (name, fd) in service_manager::handed_over() {
            match address_of(&fd) {
                Ok(address) if is_replaced(&name, &address) => service_manager::let_go(&name),
                Ok(address) => handed.push(Handed { name, address, fd }),
                Err(why) => tracing::warn!("descriptor `{name}` of the service manager is not used: {why}"),
            }
        }
        Self { handed: Mutex::new(handed) }
    }

    /// A socket that listens on `address`: one that was handed over, or a new one.
    pub fn listen(&self, address: &Address) -> Result<Listener, ListenError> {
        if let Some(listener) = self.take(address) {
            return Ok(listener);
        }
        let mut listener = Listener::bind(address).inspect_err(|_| self.tell_unused())?;
        // A port that the system chose is another one the next time.
        let is_lasting = !matches!(address, Address::Tcp(address) if address.port() == 0);
        let name = name_of(address).ok().filter(|_| is_lasting);
        if let Some(name) = name.filter(|name| service_manager::keep(listener.as_fd(), name)) {
            listener.owner = Owner::Keeper(name);
            listener.file.iter_mut().for_each(|file| file.stays = true);
        }
        Ok(listener)
    }

    /// Has `listeners` be those of `wanted`: those that are there already, and new ones. Returns the others, which are to be retired.
    ///
    /// # Errors
    /// If a new one cannot be made; then all are as before.
    pub fn change(&self, listeners: &mut Vec<Listener>, wanted: &[Address]) -> Result<Vec<Listener>, ListenError> {
        let is_there = |address: &&Address| listeners.iter().any(|listener| listener.asked == **address);
        let mut new = Vec::new();
        for address in wanted.iter().filter(|address| !is_there(address)) {
            match self.listen(address) {
                Ok(listener) => new.push(listener),
                Err(error) => {
                    let ours = new.into_iter().filter(|listener: &Listener| listener.owner != Owner::SocketUnit);
                    ours.for_each(Listener::retire);
                    return Err(error);
                }
            }
        }
        listeners.extend(new);
        let place = |listener: &Listener| wanted.iter().position(|address| *address == listener.asked);
        let gone = listeners.extract_if(.., |listener| place(listener).is_none()).collect();
        listeners.sort_by_key(place);
        Ok(gone)
    }

    fn take(&self, address: &Address) -> Option<Listener> {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        let place = handed.iter().position(|socket| is_same(&socket.address, address))?;
        let Handed { name, fd, .. } = handed.swap_remove(place);
        // Whoever had it before may have wanted it otherwise; io_uring does not wait at a socket that does not block.
        let _ = rustix::io::ioctl_fionbio(&fd, false);
        if let Address::Unix(path) = address
            && !name.starts_with(OURS)
            && fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
        {
            tracing::warn!("{address}: others than its owner may connect: set SocketMode=0600 in its socket unit");
        }
        let mut listener =
            Listener { fd, address: address.clone(), asked: address.clone(), file: None, owner: Owner::SocketUnit };
        if name.starts_with(OURS) {
            listener.owner = Owner::Keeper(name);
            if let Address::Unix(path) = address {
                listener.file = SocketFile::of(path).ok();
                listener.file.iter_mut().for_each(|file| file.stays = true);
            }
        }
        Some(listener)
    }

    /// Closes what was handed over and nobody wants, and says so.
    pub fn finish(&self) {
        self.tell_unused();
        let rest = std::mem::take(&mut *self.handed.lock().unwrap_or_else(PoisonError::into_inner));
        for Handed { name, address, .. } in rest.into_iter().filter(|socket| socket.name.starts_with(OURS)) {
            service_manager::let_go(&name);
            if let Address::Unix(path) = address {
                // It is nobody's now. If it stays, the next server finds that nobody listens on it.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn tell_unused(&self) {
        let handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        for Handed { address, .. } in handed.iter().filter(|socket| !socket.name.starts_with(OURS)) {
            tracing::warn!("the service manager listens on {address}, which is no address of the stack file");
        }
    }
}

/// The name under which the service manager keeps it: of which socket file, as others may come to its path.
fn name_of(address: &Address) -> io::Result<String> {
    Ok(match address {
        // A name has no colons: they are between names where they are handed over.
        Address::Tcp(address) => format!("{OURS}tcp-{address}").replace(':', "-"),
        Address::Unix(path) => {
            let (device, inode) = SocketFile::identity(path)?;
            format!("{OURS}{device:x}-{inode:x}")
        }
    })
}

/// Whether its file is not there any more, or is another one: then nobody finds the socket.
fn is_replaced(name: &str, address: &Address) -> bool {
    name.starts_with(OURS) && name_of(address).map_or(true, |now| now != name)
}

fn is_same(one: &Address, other: &Address) -> bool {
    one == other
        || match (one, other) {
            // By another way to the same directory.
            (Address::Unix(one), Address::Unix(other)) => {
                SocketFile::identity(one).is_ok_and(|it| SocketFile::identity(other).is_ok_and(|other| other == it))
            }
            _ => false,
        }
}

/// Where it listens, if it does.
fn address_of(fd: &OwnedFd) -> Result<Address, String> {
    let said = |error: rustix::io::Errno| io::Error::from(error).to_string();
    if sockopt::socket_type(fd).map_err(said)? != SocketType::STREAM || !sockopt::socket_acceptconn(fd).map_err(said)? {
        return Err("it is no socket that listens for streams".into());
    }
    let address = rustix::net::getsockname(fd).map_err(said)?;
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        return Ok(Address::Tcp(address));
    }
    let address = SocketAddrUnix::try_from(address).map_err(said)?;
    let path = address.path().ok_or("it has neither a port nor a path")?;
    Ok(Address::Unix(OsStr::from_bytes(path.to_bytes()).into()))
}
