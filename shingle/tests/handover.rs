//! Sockets that a service manager has ready for a daemon, and keeps from one daemon to the next.
//!
//! These tests are a program of their own: while one starts a daemon, every process that is started at the same time inherits the sockets too.

mod program;

use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, process};

use program::nbd::Nbd;
use program::{Daemon, Scratch, own_address};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

const STACK: &str = "
[disk.a]
type = \"null\"
size = \"1MiB\"
[export.a]
device = \"a\"
[listen]
unix = \"nbd.sock\"
tcp = \"ADDRESS\"
[control]
socket = \"control.sock\"
[metrics]
unix = \"metrics.sock\"
";

/// Permits one daemon at a time to be started: another one would inherit its sockets.
fn start_alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A service manager: hears what it is told, and keeps the sockets that it is given.
struct Manager {
    scratch: Scratch,
    /// Where its daemons serve NBD over TCP.
    address: SocketAddr,
    socket: UnixDatagram,
    kept: Vec<(String, OwnedFd)>,
    told: Vec<String>,
}

impl Manager {
    fn new() -> Self {
        let address = own_address();
        let scratch = Scratch::with_stack(&STACK.replace("ADDRESS", &address.to_string()));
        let socket = UnixDatagram::bind(scratch.0.join("notify")).unwrap();
        Self { scratch, address, socket, kept: Vec::new(), told: Vec::new() }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.scratch.0.join(name)
    }

    /// Starts a daemon with these sockets, and hears it until it is ready.
    fn up(&mut self, sockets: &[(&str, BorrowedFd<'_>)]) -> Daemon {
        let one = start_alone();
        let high = |(_, fd): &(&str, BorrowedFd<'_>)| fcntl_dupfd_cloexec(fd, 100).unwrap();
        let high: Vec<OwnedFd> = sockets.iter().map(high).collect();
        let moved = |(place, fd): (usize, &OwnedFd)| format!("{}<&{fd} {fd}<&-", place + 3, fd = fd.as_raw_fd());
        let moves: Vec<String> = high.iter().enumerate().map(moved).collect();
        let names: Vec<&str> = sockets.iter().map(|(name, _)| *name).collect();
        let run = format!(
            "exec {}; export LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={}; exec {} up stack.toml",
            moves.join(" "),
            sockets.len(),
            names.join(":"),
            env!("CARGO_BIN_EXE_shingle")
        );
        high.iter().for_each(|fd| fcntl_setfd(fd, FdFlags::empty()).unwrap());
        let mut command = process::Command::new("bash");
        command.args(["-c", &run]).current_dir(&self.scratch.0).stderr(self.scratch.stderr_file());
        command.env("NOTIFY_SOCKET", self.file("notify")).env("FDSTORE", "16").env_remove("RUNTIME_DIRECTORY");
        let daemon = self.scratch.up_as(&mut command);
        drop((high, one));
        while !self.hear().starts_with("READY=1") {}
        daemon
    }

    /// The same with all that it keeps.
    fn up_again(&mut self) -> Daemon {
        let kept = std::mem::take(&mut self.kept);
        let sockets: Vec<_> = kept.iter().map(|(name, fd)| (name.as_str(), fd.as_fd())).collect();
        let daemon = self.up(&sockets);
        let is_let_go = |name: &str| self.told.iter().any(|told| *told == format!("FDSTOREREMOVE=1\nFDNAME={name}"));
        let stay = kept.into_iter().filter(|(name, _)| !is_let_go(name)).collect::<Vec<_>>();
        self.kept.extend(stay);
        daemon
    }

    /// One message, and the socket in it.
    fn hear(&mut self) -> String {
        let (mut text, mut space) = ([0; 256], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))]);
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut text)];
        let got = rustix::net::recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let text = std::str::from_utf8(&text[..got.bytes]).unwrap().to_owned();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(sockets) = message {
                let name = text.strip_prefix("FDSTORE=1\nFDNAME=").expect("a socket comes with its name");
                self.kept.extend(sockets.map(|socket| (name.to_owned(), socket)));
            }
        }
        self.told.push(text.clone());
        text
    }

    fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }
}

fn greets(mut client: impl Read) -> bool {
    let mut greeting = [0; 8];
    client.read_exact(&mut greeting).is_ok() && greeting == *b"NBDMAGIC"
}

#[test]
fn clients_that_come_between_two_daemons_wait_and_are_served() {
    let mut manager = Manager::new();
    let mut daemon = manager.up(&[]);
    assert_eq!(manager.kept.len(), 4, "NBD's two, metrics, control: {:?}", manager.told);
    for is_killed in [false, true, false] {
        if is_killed {
            daemon.kill()
        } else {
            daemon.stop()
        }
        let unix = UnixStream::connect(manager.file("nbd.sock")).expect("somebody listens");
        let (tcp, _metrics) = (manager.tcp(), UnixStream::connect(manager.file("metrics.sock")).unwrap());
        let _control = UnixStream::connect(manager.file("control.sock")).unwrap();
        daemon = manager.up_again();
        assert!(greets(unix) && greets(tcp));
        manager.scratch.ok("status");
        assert_eq!(manager.kept.len(), 4, "nothing is kept twice: {:?}", manager.told);
    }
    daemon.stop();
}

#[test]
fn sockets_of_socket_units_are_taken_by_their_address() {
    let mut manager = Manager::new();
    let [nbd, control, foreign] =
        ["nbd.sock", "control.sock", "foreign.sock"].map(|name| UnixListener::bind(manager.file(name)).unwrap());
    let stream = UnixStream::pair().unwrap().0;
    control.set_nonblocking(true).unwrap();
    nbd.set_nonblocking(true).unwrap();
    // A name may be anything; the order is the manager's.
    let sockets =
        [("", control.as_fd()), ("x", foreign.as_fd()), ("pair", stream.as_fd()), ("nbd.socket", nbd.as_fd())];
    let daemon = manager.up(&sockets);
    assert_eq!(manager.kept.len(), 2, "TCP and metrics are its own: {:?}", manager.told);
    Nbd::connect(&manager.scratch, "a").read(0);
    manager.scratch.ok("status");
    daemon.stop();
    assert!(manager.file("nbd.sock").exists(), "the file is the manager's");
    let said = manager.scratch.stderr();
    for words in [
        "foreign.sock, which is no address of the stack file",
        "descriptor `pair` of the service manager is not used: it is no socket that listens",
        "control.sock: others than its owner may connect: set SocketMode=0600",
    ] {
        assert!(said.contains(words), "{words} is missing in {said}");
    }
}

#[test]
fn a_socket_whose_file_is_gone_or_another_is_made_anew() {
    let mut manager = Manager::new();
    manager.up(&[]).kill();
    fs::remove_file(manager.file("nbd.sock")).unwrap();
    fs::remove_file(manager.file("metrics.sock")).unwrap();
    let _other = UnixListener::bind(manager.file("metrics.sock")).unwrap();
    drop(_other);
    let daemon = manager.up_again();
    assert_eq!(manager.kept.len(), 4, "{:?}", manager.told);
    assert_eq!(manager.told.iter().filter(|told| told.starts_with("FDSTOREREMOVE=1")).count(), 2);
    assert!(greets(UnixStream::connect(manager.file("nbd.sock")).unwrap()));
    daemon.stop();
}

#[test]
fn a_socket_that_the_stack_file_names_no_more_is_closed() {
    let mut manager = Manager::new();
    manager.up(&[]).stop();
    let stack = fs::read_to_string(manager.file("stack.toml")).unwrap();
    manager.scratch.file("stack.toml", &stack.replace("unix = \"nbd.sock\"\n", ""));
    let daemon = manager.up_again();
    assert_eq!(manager.kept.len(), 3, "{:?}", manager.told);
    assert!(!manager.file("nbd.sock").exists(), "nobody would answer there");
    assert!(greets(manager.tcp()));
    daemon.stop();
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let manager = Manager::new();
    let mut command = manager.scratch.shingle();
    command.args(["up", "stack.toml"]).env("LISTEN_PID", "1").env("LISTEN_FDS", "3");
    let one = start_alone();
    let daemon = manager.scratch.up_as(&mut command);
    drop(one);
    assert!(greets(UnixStream::connect(manager.file("nbd.sock")).unwrap()));
    daemon.stop();
    assert!(!Path::new(&manager.file("nbd.sock")).exists(), "nobody keeps it");
}

#[test]
fn a_socket_that_a_reload_gives_up_is_not_kept_for_the_next_daemon() {
    let mut manager = Manager::new();
    let daemon = manager.up(&[]);
    let stack = fs::read_to_string(manager.file("stack.toml")).unwrap();
    let moved = stack
        .replace("\"nbd.sock\"", "\"other.sock\"")
        .replace(&format!("tcp = \"{}\"", manager.address), "")
        .replace("[metrics]\nunix = \"metrics.sock\"\n", "");
    manager.scratch.file("stack.toml", &moved);
    manager.scratch.ok("reload");
    while !manager.told.last().is_some_and(|told| told.starts_with("FDSTOREREMOVE")) || manager.told.len() < 9 {
        manager.hear();
    }
    let gone: Vec<&String> = manager.told.iter().filter(|told| told.starts_with("FDSTOREREMOVE")).collect();
    assert_eq!(gone.len(), 3, "NBD's two, and metrics: {:?}", manager.told);
    let names: std::collections::BTreeSet<&String> = manager.kept.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 5, "each has a name of its own: {:?}", manager.told);
    let is_gone = |name: &str| gone.contains(&&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
    manager.kept.retain(|(name, _)| !is_gone(name));
    let address = manager.address;
    // What was waiting for the next client there has to end first.
    let patience = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < patience, "somebody listens at {address}");
    }
    assert!(!manager.file("nbd.sock").exists() && !manager.file("metrics.sock").exists());
    daemon.kill();
    let other = UnixStream::connect(manager.file("other.sock")).expect("somebody keeps it");
    let _daemon = manager.up_again();
    assert!(greets(other));
    manager.scratch.ok("status");
}
