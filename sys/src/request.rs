//! What the kernel can be asked to do, together with all the memory that it touches meanwhile.

use std::any::Any;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use io_uring::{cqueue, opcode, squeue, types};
use shingle_core::block::{Data, Payload, Remote};

use crate::file_status::{Answer, FileStatus, StatusBuffer};

/// An open file or socket that any number of requests share. The last owner closes it.
#[derive(Clone, Debug)]
pub struct Fd(Rc<OwnedFd>);

impl<T: Into<OwnedFd>> From<T> for Fd {
    fn from(file: T) -> Self {
        Fd(Rc::new(file.into()))
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Fd {
    /// Whether somebody else has it too: a request in flight, for one.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// The descriptor itself, if nobody else shares it.
    ///
    /// # Errors
    /// The shared descriptor.
    pub fn into_owned(self) -> Result<OwnedFd, Self> {
        Rc::try_unwrap(self.0).map_err(Self)
    }

    pub(crate) fn target(&self) -> types::Fd {
        types::Fd(self.0.as_raw_fd())
    }
}

/// How [`Request::Allocate`] changes a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Give the blocks back; the range reads as zeroes.
    PunchHole,
    /// Make the range read as zeroes and keep its blocks.
    ZeroRange,
    /// Have blocks for the range, which the file grows to hold. What was there stays; what was not reads as zeroes.
    Extend,
}

/// A piece of what [`Request::Send`] sends.
#[derive(Debug)]
pub enum Part {
    /// All of these bytes.
    Bytes(Vec<u8>),
    /// All segments of this memory.
    Payload(Payload),
}

impl Part {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Payload(payload) => payload.bytes(),
        }
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Work for the kernel. It comes back, with everything in it, when it is done.
///
/// `skip` is the number of bytes at the start of the memory that are done already: to continue after a short result, add
/// the result to it and submit the request again. The offset in the file moves along.
#[derive(Debug)]
pub enum Request {
    /// Reads from byte `at` of a file. The result is a number of bytes, 0 at the end of the file.
    Read {
        /// From where.
        file: Fd,
        /// The file offset of the payload's first byte.
        at: u64,
        /// Into where.
        payload: Payload,
        /// Bytes already read.
        skip: usize,
    },
    /// Writes to byte `at` of a file. The result is a number of bytes.
    Write {
        /// To where.
        file: Fd,
        /// The file offset of the payload's first byte.
        at: u64,
        /// From where.
        payload: Payload,
        /// Bytes already written.
        skip: usize,
        /// Whether the bytes, and the size if it grew, are durable on completion (`RWF_DSYNC`).
        durable: bool,
    },
    /// Makes what was written to a file before durable.
    Sync {
        /// Which file.
        file: Fd,
        /// Whether times and the like have to be durable too (`fsync` instead of `fdatasync`).
        metadata: bool,
    },
    /// Changes what a range of a file is made of (`fallocate`).
    Allocate {
        /// Which file.
        file: Fd,
        /// Into what.
        mode: Allocate,
        /// First byte.
        at: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Sets the size of a file; what is added reads as zeroes.
    Truncate {
        /// Which file.
        file: Fd,
        /// Its new size in bytes.
        len: u64,
    },
    /// Opens a file that exists, by its name in a directory (`openat`). On a network file system this can take as long as the server does.
    Open {
        /// The directory.
        directory: Fd,
        /// The name of the file there.
        name: CString,
        /// Flags of `open(2)`.
        flags: i32,
        /// The descriptor, on success.
        opened: Answer<OwnedFd>,
    },
    /// Asks the file system for the status of a file, by its name in a directory (`statx`); a symbolic link is not followed. An empty name
    /// stands for `directory` itself, which can then be any open file.
    Stat {
        /// The directory.
        directory: Fd,
        /// The name of the file there.
        name: CString,
        /// Where the kernel writes it.
        buffer: StatusBuffer,
        /// The status, on success.
        status: Answer<FileStatus>,
    },
    /// Closes a file. On FUSE and NFS this can take as long as the server does.
    Close {
        /// The file; `None` when it is closed.
        file: Option<OwnedFd>,
    },
    /// Takes one connection from a listening socket.
    Accept {
        /// Which one.
        listener: Fd,
        /// The connection, on success.
        accepted: Option<OwnedFd>,
    },
    /// Receives what is there, into the bytes of `into` from `at` on. The result is a number of bytes, 0 if the peer
    /// sends no more.
    Receive {
        /// From where.
        socket: Fd,
        /// Memory; its length is the room.
        into: Vec<u8>,
        /// The first byte to fill.
        at: usize,
    },
    /// Receives until the payload is full. The result is less only if the peer stopped or the connection failed.
    ReceiveAll {
        /// From where.
        socket: Fd,
        /// Into where.
        payload: Payload,
        /// Bytes already received.
        skip: usize,
    },
    /// Sends all parts, one after the other. The result is a number of bytes; it can be short.
    Send {
        /// To where.
        socket: Fd,
        /// What.
        parts: Vec<Part>,
        /// Bytes already sent.
        skip: usize,
    },
    /// Waits until a read would not block.
    Readable {
        /// On what.
        file: Fd,
    },
    /// What this crate does not know.
    Other(Box<dyn Operation>),
}

/// A kind of request of its own: a command of one driver (`uring_cmd`), or I/O with registered memory. [`Request::Other`] takes
/// it to the ring and back, where who knows its type finds it with `dyn Any`.
///
/// # Safety
/// What the entry points to, descriptors included, belongs to the operation, and stays where and as it is from
/// [`Operation::entry`] to the completion, wherever the operation itself is moved.
pub unsafe trait Operation: Any + fmt::Debug {
    /// The submission entry. Its user data is the ring's.
    fn entry(&mut self) -> Submission;

    /// Whether it waits for something that may never come, and nothing can cancel it: the ring does not wait for it at its end.
    fn ends_with_ring(&self) -> bool {
        false
    }

    /// Takes in what a result means: a new descriptor, for one. Each entry has one. `more` is what entries of 128 bytes bring back
    /// besides, and zeroes otherwise.
    fn complete(&mut self, _result: i32, _more: [u64; 2]) {}
}

/// The submission entry of an [`Operation`].
#[derive(Clone, Debug)]
pub enum Submission {
    /// For any ring.
    Short(squeue::Entry),
    /// For one with entries of 128 bytes; on others it fails with `EINVAL`.
    Long(Box<squeue::Entry128>),
}

/// What the entries of a ring hold: 64 bytes, or 128 for the commands of some drivers.
pub trait Entries: squeue::EntryMarker {
    /// Those of the completion queue.
    type Completed: cqueue::EntryMarker;

    /// `submission` in this form, if it fits.
    fn fit(submission: Submission) -> Option<Self>;

    /// The result, and what came besides.
    fn outcome(completed: &Self::Completed) -> (i32, [u64; 2]);
}

impl Entries for squeue::Entry {
    type Completed = cqueue::Entry;

    fn fit(submission: Submission) -> Option<Self> {
        if let Submission::Short(entry) = submission { Some(entry) } else { None }
    }

    fn outcome(completed: &cqueue::Entry) -> (i32, [u64; 2]) {
        (completed.result(), [0; 2])
    }
}

impl Entries for squeue::Entry128 {
    type Completed = cqueue::Entry32;

    fn fit(submission: Submission) -> Option<Self> {
        Some(match submission {
            Submission::Short(entry) => entry.into(),
            Submission::Long(entry) => *entry,
        })
    }

    fn outcome(completed: &cqueue::Entry32) -> (i32, [u64; 2]) {
        (completed.result(), *completed.big_cqe())
    }
}

/// Headers that the kernel reads for a request of several segments. Pooled: they are as large as they ever were.
#[derive(Default)]
pub(crate) struct Headers {
    vectors: Vec<libc::iovec>,
    message: Option<Box<libc::msghdr>>,
}

/// Most segments that one system call takes (`UIO_MAXIOV`). With more, the result is short.
const MOST_VECTORS: usize = 1024;

impl Headers {
    /// Headers that hold 64 vectors without growing, which is more than most requests need.
    pub(crate) fn with_room() -> Self {
        Self { vectors: Vec::with_capacity(64), message: None }
    }

    /// Whether the kernel reads nothing here.
    pub(crate) fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }

    fn clear(&mut self) {
        self.vectors.clear();
    }

    /// Adds bytes `skip..` of one segment, or takes it off `skip`.
    fn push(&mut self, start: *mut u8, len: usize, skip: &mut usize) {
        let over = (*skip).min(len);
        *skip -= over;
        if len > over && self.vectors.len() < MOST_VECTORS {
            self.vectors.push(libc::iovec { iov_base: start.wrapping_add(over).cast(), iov_len: len - over });
        }
    }

    fn push_payload(&mut self, payload: &Payload, skip: &mut usize) {
        for data in payload.segments() {
            self.push(start_of(data), data.len(), skip);
        }
    }

    /// A message header over the vectors. Its address is stable as it is boxed; that of the vectors as nobody adds any.
    fn message(&mut self) -> *mut libc::msghdr {
        // SAFETY: `msghdr` is a plain C struct of integers and pointers: all zeroes is a valid value.
        let message = self.message.get_or_insert_with(|| Box::new(unsafe { std::mem::zeroed() }));
        message.msg_iov = self.vectors.as_mut_ptr();
        message.msg_iovlen = self.vectors.len() as _;
        ptr::from_mut(message.as_mut())
    }
}

/// The memory is atomics, so writing through a shared pointer is what it is for.
fn start_of(data: &Data) -> *mut u8 {
    data.words().as_ptr().cast_mut().cast()
}

impl Request {
    /// The memory that was lent for file I/O, if any.
    #[must_use]
    pub fn into_payload(self) -> Payload {
        match self {
            Request::Read { payload, .. } | Request::Write { payload, .. } | Request::ReceiveAll { payload, .. } => {
                payload
            }
            _ => Payload::None,
        }
    }

    /// The submission entry for this request; `None` if the ring's are too short for it. It points into memory that `self` owns on the heap and into `headers`: both
    /// have to stay as they are until the completion. Moving them is fine, changing or dropping them is not.
    ///
    /// # Panics
    /// If `skip` or `at` lies past the end of the memory: the caller made both.
    pub(crate) fn entry<E: Entries>(&mut self, headers: &mut Headers) -> Option<E> {
        headers.clear();
        let entry = match self {
            Request::Read { file, at, payload, skip } => read(file, *at, payload, *skip, headers),
            Request::Write { file, at, payload, skip, durable } => {
                let flags = if *durable { libc::RWF_DSYNC } else { 0 };
                write(file, *at, payload, *skip, headers, flags)
            }
            Request::Sync { file, metadata } => {
                let flags = if *metadata { types::FsyncFlags::empty() } else { types::FsyncFlags::DATASYNC };
                opcode::Fsync::new(file.target()).flags(flags).build()
            }
            Request::Allocate { file, mode, at, len } => {
                let mode = match mode {
                    Allocate::PunchHole => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                    Allocate::ZeroRange => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
                    Allocate::Extend => 0,
                };
                opcode::Fallocate::new(file.target(), *len).offset(*at).mode(mode).build()
            }
            Request::Truncate { file, len } => opcode::Ftruncate::new(file.target(), *len).build(),
            Request::Open { directory, name, flags, .. } => {
                // The kernel would try it at once where it knows the name, and FUSE and NFS ask their server even then.
                let open = opcode::OpenAt::new(directory.target(), name.as_ptr()).flags(*flags | libc::O_CLOEXEC);
                open.build().flags(squeue::Flags::ASYNC)
            }
            Request::Stat { directory, name, buffer, .. } => {
                let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
                let statx = opcode::Statx::new(directory.target(), name.as_ptr(), buffer.as_mut_ptr());
                statx.flags(flags).mask(libc::STATX_BASIC_STATS).build()
            }
            Request::Close { file } => {
                let file = file.as_ref().expect("a file is closed once");
                opcode::Close::new(types::Fd(file.as_raw_fd())).build()
            }
            Request::Accept { listener, .. } => {
                let accept = opcode::Accept::new(listener.target(), ptr::null_mut(), ptr::null_mut());
                accept.flags(libc::SOCK_CLOEXEC).build()
            }
            Request::Receive { socket, into, at } => {
                let room = &mut into[*at..];
                opcode::Recv::new(socket.target(), room.as_mut_ptr(), length(room.len())).build()
            }
            Request::ReceiveAll { socket, payload, skip } => receive_all(socket, payload, *skip, headers),
            Request::Send { socket, parts, skip } => send(socket, parts, *skip, headers),
            Request::Readable { file } => opcode::PollAdd::new(file.target(), libc::POLLIN as u32).build(),
            Request::Other(operation) => return E::fit(operation.entry()),
        };
        Some(entry.into())
    }

    /// Does it at once if it is one that this kernel's ring cannot do; the result then.
    pub(crate) fn without_ring(&self, can_truncate: bool) -> Option<i32> {
        let Request::Truncate { file, len } = self else { return None };
        let errno = |error: io::Error| -error.raw_os_error().unwrap_or(libc::EIO);
        (!can_truncate).then(|| crate::unix::truncate(file, *len).map_or_else(errno, |()| 0))
    }

    /// See [`Operation::ends_with_ring`].
    pub(crate) fn ends_with_ring(&self) -> bool {
        matches!(self, Request::Other(operation) if operation.ends_with_ring())
    }

    /// Takes in the result of its entry.
    pub(crate) fn complete(&mut self, result: i32, more: [u64; 2]) {
        match self {
            Request::Accept { accepted, .. } if result >= 0 => {
                // SAFETY: the kernel has just opened this descriptor for us and nobody else knows it.
                *accepted = Some(unsafe { OwnedFd::from_raw_fd(result) });
            }
            Request::Open { opened, .. } if result >= 0 => {
                // SAFETY: the kernel has just opened this descriptor for us and nobody else knows it.
                opened.give(unsafe { OwnedFd::from_raw_fd(result) });
            }
            Request::Stat { buffer, status, .. } if result >= 0 => status.give(buffer.status()),
            // A request that was cancelled before it began has closed nothing. After any other result the descriptor is free, and may
            // already be another file's.
            Request::Close { file } if result != -libc::ECANCELED => {
                file.take().map(IntoRawFd::into_raw_fd);
            }
            Request::Other(operation) => operation.complete(result, more),
            _ => {}
        }
    }
}

fn read(file: &Fd, at: u64, payload: &Payload, skip: usize, headers: &mut Headers) -> squeue::Entry {
    let at = at + skip as u64;
    if let Payload::Data(data) = payload {
        let (start, len) = rest_of(data, skip);
        return opcode::Read::new(file.target(), start, len).offset(at).build();
    }
    if let Payload::Remote(remote) = payload {
        let (start, len, number) = rest_of_region(remote, skip);
        return opcode::ReadFixed::new(file.target(), start, len, number).offset(at).build();
    }
    headers.push_payload(payload, &mut { skip });
    let vectors = &headers.vectors;
    opcode::Readv::new(file.target(), vectors.as_ptr(), vectors.len() as u32).offset(at).build()
}

fn write(file: &Fd, at: u64, payload: &Payload, skip: usize, headers: &mut Headers, flags: i32) -> squeue::Entry {
    let at = at + skip as u64;
    if let Payload::Data(data) = payload {
        let (start, len) = rest_of(data, skip);
        return opcode::Write::new(file.target(), start, len).offset(at).rw_flags(flags).build();
    }
    if let Payload::Remote(remote) = payload {
        let (start, len, number) = rest_of_region(remote, skip);
        return opcode::WriteFixed::new(file.target(), start, len, number).offset(at).rw_flags(flags).build();
    }
    headers.push_payload(payload, &mut { skip });
    let vectors = &headers.vectors;
    opcode::Writev::new(file.target(), vectors.as_ptr(), vectors.len() as u32).offset(at).rw_flags(flags).build()
}

/// Writes all of `payload` but its first `skip` bytes at once, for a thread that may wait: as [`Request::Write`] says, with the number of
/// bytes that were written.
///
/// # Errors
/// The kernel's.
pub fn write_at(file: &impl AsFd, at: u64, (payload, skip): (&Payload, usize), durable: bool) -> io::Result<usize> {
    let mut headers = Headers::default();
    headers.push_payload(payload, &mut { skip });
    let (vectors, count) = (headers.vectors.as_ptr(), headers.vectors.len() as libc::c_int);
    let (at, flags) = ((at + skip as u64) as libc::off_t, if durable { libc::RWF_DSYNC } else { 0 });
    // SAFETY: The vectors and the memory that they point to are borrowed until the call is done; the kernel only reads them.
    let written = unsafe { libc::pwritev2(file.as_fd().as_raw_fd(), vectors, count, at, flags) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Reads into all of `payload` but its first `skip` bytes at once, for a thread that may wait; returns the number of bytes that were read.
///
/// # Errors
/// The kernel's.
pub fn read_at(file: &impl AsFd, at: u64, (payload, skip): (&Payload, usize)) -> io::Result<usize> {
    let mut headers = Headers::default();
    headers.push_payload(payload, &mut { skip });
    let (vectors, count) = (headers.vectors.as_ptr(), headers.vectors.len() as libc::c_int);
    let at = (at + skip as u64) as libc::off_t;
    // SAFETY: The vectors and the memory that they point to are borrowed until the call is done. The kernel writes to words that
    // are atomic: others may look at them meanwhile.
    let read = unsafe { libc::preadv(file.as_fd().as_raw_fd(), vectors, count, at) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

fn receive_all(socket: &Fd, payload: &Payload, skip: usize, headers: &mut Headers) -> squeue::Entry {
    let flags = libc::MSG_WAITALL;
    if let Payload::Data(data) = payload {
        let (start, len) = rest_of(data, skip);
        return opcode::Recv::new(socket.target(), start, len).flags(flags).build();
    }
    headers.push_payload(payload, &mut { skip });
    opcode::RecvMsg::new(socket.target(), headers.message()).flags(flags as u32).build()
}

fn send(socket: &Fd, parts: &mut [Part], mut skip: usize, headers: &mut Headers) -> squeue::Entry {
    for part in parts {
        match part {
            Part::Bytes(bytes) => headers.push(bytes.as_mut_ptr(), bytes.len(), &mut skip),
            Part::Payload(payload) => headers.push_payload(payload, &mut skip),
        }
    }
    // A peer that is gone is an error of this request, not a signal for the process.
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    if let [only] = headers.vectors.as_slice() {
        return opcode::Send::new(socket.target(), only.iov_base.cast(), length(only.iov_len)).flags(flags).build();
    }
    opcode::SendMsg::new(socket.target(), headers.message()).flags(flags as u32).build()
}

/// What is left of one segment after its first `skip` bytes.
fn rest_of(data: &Data, skip: usize) -> (*mut u8, u32) {
    assert!(skip <= data.len(), "skip of {skip} bytes in {}", data.len());
    (start_of(data).wrapping_add(skip), length(data.len() - skip))
}

/// What is left of registered memory after its first `skip` bytes: its place in the region in the stead of an address, and the number
/// of the region.
fn rest_of_region(remote: &Remote, skip: usize) -> (*mut u8, u32, u16) {
    assert!(skip <= remote.len(), "skip of {skip} bytes in {}", remote.len());
    let (region, start) = remote.region();
    let number = u16::try_from(region.0).expect("a ring has fewer regions");
    (ptr::without_provenance_mut(start + skip), length(remote.len() - skip), number)
}

/// The kernel moves at most this much in one call anyway (`MAX_RW_COUNT`).
fn length(bytes: usize) -> u32 {
    bytes.min(0x7fff_f000) as u32
}
