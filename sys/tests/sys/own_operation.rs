//! Kinds of requests that the crate does not know, by somebody else.

use std::any::Any;
use std::ffi::CString;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use shingle_core::block::{Buffer, Data, Memory, Payload, Region, Remote, RemoteMemory, Status};
use shingle_sys::io_uring::{opcode, squeue, types};
use shingle_sys::{Entries, Fd, Operation, Request, Ring, Submission, Token};

/// Carries out `operation` on `ring`.
fn run<E: Entries, O: Operation>(ring: &mut Ring<E>, operation: O) -> (i32, Box<O>) {
    ring.submit(Token { owner: 0, word: 3 }, Request::Other(Box::new(operation))).unwrap();
    loop {
        ring.wait(None).unwrap();
        let Some(done) = ring.pop() else { continue };
        let Request::Other(operation) = done.request else { panic!("another request came back") };
        let operation: Box<dyn Any> = operation;
        return (done.result, operation.downcast().unwrap());
    }
}

/// `openat`, which nothing in the crate needs.
#[derive(Debug)]
struct Open {
    path: CString,
    opened: Option<OwnedFd>,
}

// SAFETY: The path is on the heap, and nobody changes it.
unsafe impl Operation for Open {
    fn entry(&mut self) -> Submission {
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), self.path.as_ptr());
        Submission::Short(open.flags(libc::O_CLOEXEC).build())
    }

    fn complete(&mut self, result: i32, _: [u64; 2]) {
        // SAFETY: The kernel has just opened it for this request.
        self.opened = (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) });
    }
}

#[test]
fn a_kind_of_request_that_the_ring_does_not_know_goes_there_and_comes_back() {
    let mut ring: Ring = Ring::new().unwrap();
    let mut open = |path: &str| run(&mut ring, Open { path: CString::new(path).unwrap(), opened: None });
    let (_, open_file) = open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let mut text = String::new();
    std::fs::File::from(open_file.opened.unwrap()).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("[package]\nname = \"shingle-sys\""), "{text}");
    let (result, nothing) = open("/nowhere");
    assert_eq!((result, nothing.opened.is_none()), (-libc::ENOENT, true));
}

/// How many bytes a socket has received (`SOCKET_URING_OP_SIOCINQ`), asked in an entry of 128 bytes.
#[derive(Debug)]
struct Received(Fd);

// SAFETY: The command names no memory.
unsafe impl Operation for Received {
    fn entry(&mut self) -> Submission {
        Submission::Long(Box::new(opcode::UringCmd80::new(types::Fd(self.0.as_fd().as_raw_fd()), 0).build()))
    }
}

#[test]
fn a_command_of_128_bytes_goes_to_a_ring_that_has_them_and_no_other_ring_takes_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.write_all(b"five!").unwrap();
    assert_eq!(server.peek(&mut [0; 5]).unwrap(), 5);
    let server = Fd::from(server);
    let mut wide = Ring::<squeue::Entry128>::new().unwrap();
    let (result, _) = run(&mut wide, Received(server.clone()));
    if result == -libc::EOPNOTSUPP {
        println!("skipped: this kernel has no uring_cmd for sockets (Linux 6.7)");
    } else {
        assert_eq!(result, 5);
    }
    let (result, _) = run(&mut Ring::<squeue::Entry>::new().unwrap(), Received(server));
    assert_eq!(result, -libc::EINVAL);
    let (_, opened) = run(&mut wide, Open { path: c"/".to_owned(), opened: None });
    assert!(opened.opened.is_some(), "what is short fits too");
}

/// A write from memory that the kernel knows by number.
#[derive(Debug)]
struct WriteFixed {
    file: Fd,
    data: Data,
}

// SAFETY: The data is owned, and its memory stays where it is.
unsafe impl Operation for WriteFixed {
    fn entry(&mut self) -> Submission {
        let (Region(number), _) = self.data.region().expect("it is registered");
        let (start, len) = (self.data.words().as_ptr().cast(), self.data.len() as u32);
        let file = types::Fd(self.file.as_fd().as_raw_fd());
        Submission::Short(opcode::WriteFixed::new(file, start, len, number as u16).build())
    }
}

/// Memory that is registered as region 7.
struct Registered(Buffer);

impl Memory for Registered {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }

    fn region(&self) -> Option<Region> {
        Some(Region(7))
    }
}

/// A page below 4 GiB, for good. What a driver registers begins at 0, and what we register at its address, which a range of 4 GiB has.
struct Low(&'static [AtomicU64]);

impl Low {
    fn new() -> Self {
        let (protection, place) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::without_provenance_mut(256 << 20));
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping, which takes the place of no other.
        let start = unsafe { libc::mmap(place, 4096, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // SAFETY: it has 512 words, zeroed and aligned, and nobody unmaps it.
        Self(unsafe { std::slice::from_raw_parts(start.cast(), 512) })
    }
}

impl Memory for Low {
    fn words(&self) -> &[AtomicU64] {
        self.0
    }
}

impl RemoteMemory for Low {
    fn region(&self) -> Region {
        Region(7)
    }

    fn fetch(&self, _: usize, _: &Data) -> Result<(), Status> {
        panic!("the kernel finds it by its number")
    }

    fn store(&self, _: usize, _: &Data) -> Result<(), Status> {
        panic!("the kernel finds it by its number")
    }
}

#[test]
fn what_cannot_be_looked_at_is_written_and_read_by_its_number_and_goes_on_after_a_short_result() {
    let (mut ring, memory) = (Ring::<squeue::Entry>::new().unwrap(), Arc::new(Low::new()));
    let path = std::env::temp_dir().join(format!("shingle-remote-{}", std::process::id()));
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let (file, data) = (Fd::from(file), Data::new(memory.clone(), 0, 4096));
    ring.register(Region(7), memory.clone()).unwrap();
    let mut done = |request| {
        ring.submit(Token { owner: 0, word: 0 }, request).unwrap();
        loop {
            if let Some(done) = ring.pop() {
                return done.result;
            }
            ring.wait(None).unwrap();
        }
    };
    let sectors = (memory.0.as_ptr().addr() / 512) as u32;
    let all = Payload::Remote(Remote::new(memory, u32::MAX as usize));
    let payload = || all.slice(sectors, 4);
    data.fill(1);
    data.slice(1024, 1024).fill(2);
    assert_eq!(done(Request::Write { file: file.clone(), at: 512, payload: payload(), skip: 0, durable: true }), 2048);
    data.fill(0);
    assert_eq!(done(Request::Read { file: file.clone(), at: 512, payload: payload(), skip: 512 }), 1536);
    assert_eq!(data.to_vec(), [vec![0; 512], vec![1; 512], vec![2; 1024], vec![0; 2048]].concat());
    assert_eq!(done(Request::Write { file: file.clone(), at: 0, payload: payload(), skip: 1536, durable: false }), 512);
    assert_eq!(done(Request::Read { file, at: 1536, payload: payload(), skip: 0 }), 1024, "the file ends there");
    assert_eq!(data.slice(0, 1024).to_vec(), [2; 1024]);
}

#[test]
fn an_operation_names_registered_memory_by_its_region() {
    let (mut ring, memory) =
        (Ring::<squeue::Entry>::new().unwrap(), Arc::new(Registered(Buffer::try_new(8192).unwrap())));
    let path = std::env::temp_dir().join(format!("shingle-region-{}", std::process::id()));
    let mut file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let data = Data::new(memory.clone(), 4096, 512);
    data.fill(b'r');
    let write = || WriteFixed { file: file.try_clone().unwrap().into(), data: data.clone() };
    assert_eq!(run(&mut ring, write()).0, -libc::EFAULT, "nothing is registered yet");
    ring.register(Region(7), memory.clone()).unwrap();
    assert_eq!(run(&mut ring, write()).0, 512);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [b'r'; 512]);
    assert_eq!(ring.register(Region(4096), memory).unwrap_err().raw_os_error(), Some(libc::EINVAL));
}
