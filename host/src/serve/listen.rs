//! Addresses, and sockets that listen on them.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use shingle_core::{impl_display, impl_error};

use crate::patience::patiently;
use crate::service_manager;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket file. Only its owner may connect.
    Unix(PathBuf),
    /// An address and port. Nothing protects it but the network itself.
    Tcp(SocketAddr),
}

impl_display!(Address, |self, f| match self {
    Address::Unix(path) => write!(f, "unix:{}", path.display()),
    Address::Tcp(address) => write!(f, "tcp:{address}"),
});

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(bad()) } else { Ok(Address::Unix(path.into())) };
        }
        let address = text.strip_prefix("tcp:").ok_or_else(bad)?;
        // A port alone means this machine alone: to be reachable from others has to be said.
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let parsed = address.parse().or_else(|_| address.parse().map(loopback));
        parsed.map(Address::Tcp).map_err(|_| bad())
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(String);

impl_error!(AddressError, |self, f| write!(
    f,
    "'{}' is no address to listen on: write unix:PATH for a socket file, tcp:PORT for this machine alone, or \
     tcp:ADDRESS:PORT with a numeric address",
    self.0
));

/// Where a front end listens, and what keeps others out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Where.
    pub address: Address,
    /// In a few words.
    pub protection: String,
}

impl_display!(Listening, |self, f| write!(f, "{} ({})", self.address, self.protection));

impl Listening {
    /// The same without anything of the protocol.
    #[must_use]
    pub fn plain(address: Address) -> Self {
        let protection = match &address {
            Address::Unix(_) => "for who may use the socket file",
            Address::Tcp(address) if address.ip().is_loopback() => "for this machine, without TLS",
            Address::Tcp(_) => "for anybody, without TLS",
        };
        Self { address, protection: protection.into() }
    }
}

/// A socket that listens. A socket file goes when this is dropped, unless somebody replaced it, or the service manager keeps the socket.
#[derive(Debug)]
pub struct Listener {
    pub(super) fd: OwnedFd,
    pub(super) address: Address,
    /// Where it was to listen: with port 0 if the system was to choose one.
    pub(super) asked: Address,
    pub(super) file: Option<SocketFile>,
    /// Whose it is besides.
    pub(super) owner: Owner,
}

/// Whose a socket is besides this process's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    /// The service manager keeps it under this name for the next process.
    Keeper(String),
    /// The service manager's, who has it from a socket unit.
    SocketUnit,
}

/// A socket file of ours.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode, by which to know it.
    identity: (u64, u64),
    /// Whether somebody keeps the socket when we go.
    pub(super) stays: bool,
}

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 128;

impl Listener {
    /// Listens on `address`. A socket file that nobody listens on any more is replaced.
    pub fn bind(address: &Address) -> Result<Self, ListenError> {
        let bound = patiently(Why::is_taken, || match address {
            Address::Unix(path) => bind_unix(path),
            Address::Tcp(address) => bind_tcp(*address),
        });
        bound.map_err(|why| ListenError { address: address.clone(), why })
    }

    /// Where it listens: with the port that the system chose if it was to choose one.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The same socket once more, for somebody who accepts; its file is with this one.
    ///
    /// # Errors
    /// If there are no more descriptors.
    pub fn share(&self) -> Result<Self, ListenError> {
        let (address, asked) = (self.address.clone(), self.asked.clone());
        match self.fd.try_clone() {
            Ok(fd) => Ok(Self { fd, address, asked, file: None, owner: Owner::Nobody }),
            Err(why) => Err(ListenError { address, why: Why::System(why) }),
        }
    }

    /// Closes it for good: the next server is not to have it.
    pub fn retire(mut self) {
        self.file.iter_mut().for_each(|file| file.stays = false);
        match &self.owner {
            Owner::Nobody => {}
            Owner::Keeper(name) => service_manager::let_go(name),
            Owner::SocketUnit => tracing::warn!(
                "{}: clients that come wait for nobody, as the service manager goes on to listen: take it out of its socket unit",
                self.address
            ),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl SocketFile {
    /// The socket file at `path`.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: Self::identity(path)?, stays: false })
    }

    pub(super) fn identity(path: &Path) -> io::Result<(u64, u64)> {
        fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.stays && Self::identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // If it stays, the next server finds that nobody listens on it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind_tcp(address: SocketAddr) -> Result<Listener, Why> {
    let listener = TcpListener::bind(address).map_err(Why::System)?;
    let (asked, address) = (Address::Tcp(address), listener.local_addr().map_err(Why::System)?);
    Ok(Listener { fd: listener.into(), address: Address::Tcp(address), asked, file: None, owner: Owner::Nobody })
}

fn bind_unix(path: &Path) -> Result<Listener, Why> {
    if let Some(long) = LongSocketPath::of(path) {
        return Err(Why::LongPath(long));
    }
    let name = SocketAddrUnix::new(path).map_err(|errno| Why::System(errno.into()))?;
    let socket = || -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The file gets the mode of the socket: set before it exists, there is no moment in which others may connect.
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
        Ok(fd)
    };
    let fd = socket().map_err(Why::System)?;
    match rustix::net::bind(&fd, &name) {
        Err(rustix::io::Errno::ADDRINUSE) => {
            remove_stale(path)?;
            rustix::net::bind(&fd, &name)
        }
        bound => bound,
    }
    .map_err(|errno| Why::System(errno.into()))?;
    rustix::net::listen(&fd, BACKLOG).map_err(|errno| Why::System(errno.into()))?;
    let (file, address) = (SocketFile::of(path).map_err(Why::System)?, Address::Unix(path.to_owned()));
    Ok(Listener { fd, asked: address.clone(), address, file: Some(file), owner: Owner::Nobody })
}

/// Removes the socket file of a server that is gone, and nothing else.
fn remove_stale(path: &Path) -> Result<(), Why> {
    let file = fs::symlink_metadata(path).map_err(Why::System)?;
    if !file.file_type().is_socket() {
        return Err(Why::NoSocket);
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(Why::System),
        Err(error) => Err(Why::System(error)),
        Ok(_) => Err(Why::InUse),
    }
}

/// Longest path of a unix socket, in bytes: `sun_path` has room for 108, the last of which is zero (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// A path that is too long for a unix socket.
#[derive(Clone, Copy, Debug)]
pub struct LongSocketPath {
    bytes: usize,
}

impl LongSocketPath {
    /// The error that any use of a socket at `path` ends with; `None` if the path is short enough.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let bytes = path.as_os_str().len();
        (bytes > MAX_SOCKET_PATH).then_some(Self { bytes })
    }
}

impl_display!(LongSocketPath, |self, f| write!(
    f,
    "the path has {} bytes, and that of a unix socket at most {MAX_SOCKET_PATH}",
    self.bytes
));

/// Error of listening on an address.
#[derive(Debug)]
pub struct ListenError {
    address: Address,
    why: Why,
}

#[derive(Debug)]
enum Why {
    LongPath(LongSocketPath),
    NoSocket,
    InUse,
    System(io::Error),
}

impl Why {
    fn is_taken(&self) -> bool {
        match self {
            Why::InUse => true,
            Why::System(error) => error.kind() == io::ErrorKind::AddrInUse,
            Why::LongPath(_) | Why::NoSocket => false,
        }
    }
}

impl ListenError {
    fn next_step(&self) -> &'static str {
        match &self.why {
            Why::LongPath(_) => {
                "use a shorter path, or a relative one and start `shingle up` in the directory of the stack file"
            }
            Why::NoSocket => "choose another path, or move the file away",
            Why::InUse => "stop that server first, or choose another path",
            Why::System(error) => match error.kind() {
                io::ErrorKind::NotFound => "create its directory first",
                io::ErrorKind::PermissionDenied => "choose a directory, or a port from 1024 up, that you may use",
                io::ErrorKind::AddrInUse => "choose another port, or stop the server that has it",
                io::ErrorKind::AddrNotAvailable => "choose an address of this machine",
                _ => "choose another address",
            },
        }
    }
}

impl_error!(ListenError, |self, f| {
    write!(f, "cannot listen on {}: ", self.address)?;
    match &self.why {
        Why::LongPath(long) => write!(f, "{long}")?,
        Why::NoSocket => write!(f, "there is a file that is no socket")?,
        Why::InUse => write!(f, "another server listens there")?,
        Why::System(error) => write!(f, "{error}")?,
    }
    write!(f, "; {}", self.next_step())
});

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A directory that is gone afterwards.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("shingle-listen-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn socket(&self) -> Address {
            Address::Unix(self.path())
        }

        fn path(&self) -> PathBuf {
            self.0.join("s")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_address_is_a_socket_file_or_a_port_of_this_machine_unless_said_otherwise() {
        let parse = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(parse("unix:/run/x"), Ok("unix:/run/x".into()));
        assert_eq!(parse("tcp:10809"), Ok("tcp:127.0.0.1:10809".into()));
        assert_eq!(parse("tcp:0.0.0.0:1"), Ok("tcp:0.0.0.0:1".into()));
        assert_eq!(parse("tcp:[::1]:1"), Ok("tcp:[::1]:1".into()));
        for bad in ["", "unix:", "/run/x", "tcp:", "tcp:host:1", "tcp:70000"] {
            let message = parse(bad).unwrap_err().to_string();
            assert!(message.starts_with(&format!("'{bad}' is no address")) && message.contains("unix:PATH"));
        }
    }

    #[test]
    fn a_socket_file_is_its_owners_alone_and_goes_with_its_listener() {
        let scratch = Scratch::new("mode");
        let listener = Listener::bind(&scratch.socket()).unwrap();
        assert_eq!(fs::metadata(scratch.path()).unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(scratch.path()).unwrap();
        drop(listener);
        assert!(!scratch.path().exists());
    }

    #[test]
    fn a_stale_socket_file_is_replaced_but_a_live_one_or_another_file_is_not() {
        let scratch = Scratch::new("stale");
        drop(UnixListener::bind(scratch.path()).unwrap());
        assert!(scratch.path().exists(), "the standard library leaves it");
        let listener = Listener::bind(&scratch.socket()).unwrap();
        let error = Listener::bind(&scratch.socket()).unwrap_err().to_string();
        assert!(
            error.ends_with("another server listens there; stop that server first, or choose another path"),
            "{error}"
        );
        drop(listener);
        fs::write(scratch.path(), "precious").unwrap();
        let error = Listener::bind(&scratch.socket()).unwrap_err().to_string();
        assert!(error.contains("there is a file that is no socket; choose another path"), "{error}");
        assert_eq!(fs::read(scratch.path()).unwrap(), b"precious");
    }

    #[test]
    fn a_listener_leaves_the_socket_file_of_its_successor_alone() {
        let scratch = Scratch::new("successor");
        let first = Listener::bind(&scratch.socket()).unwrap();
        fs::remove_file(scratch.path()).unwrap();
        let _second = Listener::bind(&scratch.socket()).unwrap();
        drop(first);
        assert!(scratch.path().exists());
    }

    #[test]
    fn the_error_names_the_address_the_reason_and_the_next_step() {
        let missing = Address::Unix("/nonexistent/dir/s".into());
        let error = Listener::bind(&missing).unwrap_err().to_string();
        assert!(error.starts_with("cannot listen on unix:/nonexistent/dir/s: "), "{error}");
        assert!(error.ends_with("create its directory first"), "{error}");
        let long = |bytes: usize| Address::Unix(format!("/nonexistent/{}", "x".repeat(bytes - 13)).into());
        let error = Listener::bind(&long(108)).unwrap_err().to_string();
        assert!(
            error.contains("xxx: the path has 108 bytes, and that of a unix socket at most 107; use a shorter"),
            "{error}"
        );
        let error = Listener::bind(&long(107)).unwrap_err().to_string();
        assert!(error.ends_with("create its directory first"), "{error}");
        let listener = Listener::bind(&"tcp:0".parse().unwrap()).unwrap();
        let error = Listener::bind(listener.address()).unwrap_err().to_string();
        assert!(error.ends_with("choose another port, or stop the server that has it"), "{error}");
    }
}
