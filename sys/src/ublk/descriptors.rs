//! What requests ask for, in memory that the driver writes; and their data, which is copied from and to `/dev/ublkcN`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use shingle_core::block::{Data, Region, RemoteMemory, Status};
use shingle_core::frontend::ublk::Descriptor;

use super::wire::{DATA_START, MOST_DEPTH, QUEUE_SHIFT, TAG_SHIFT};

/// `struct ublksrv_io_desc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawDescriptor {
    pub operation: u32,
    pub count: u32,
    pub sector: u64,
    address: u64,
}

const _: () = assert!(size_of::<RawDescriptor>() == 24);

/// The descriptors of one queue, as the driver shows them.
#[derive(Debug)]
pub struct Descriptors {
    start: NonNull<RawDescriptor>,
    depth: u16,
}

impl Descriptors {
    /// Those of `queue` of the device behind `file`, which has this depth.
    ///
    /// # Errors
    /// If the driver does not show them: only the process that serves the device sees them.
    pub fn map(file: &impl AsFd, queue: u16, depth: u16) -> io::Result<Self> {
        let stride = (usize::from(MOST_DEPTH) * size_of::<RawDescriptor>()).next_multiple_of(page_bytes());
        let offset = (usize::from(queue) * stride) as libc::off_t;
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), map_bytes(depth), protection, flags, file.as_fd().as_raw_fd(), offset)
        };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(Self { start: start.cast(), depth }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// That of `tag`, whose request has come.
    ///
    /// # Panics
    /// If the queue has no such tag.
    #[must_use]
    pub fn of(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "the queue has {} tags, and no {tag}", self.depth);
        // SAFETY: it lies in the mapping. The driver writes it before it says that the request is there, and not again before the
        // request is answered; what another process could do to the bits is harmless, as each of them means something.
        let raw = unsafe { self.start.add(usize::from(tag)).read_volatile() };
        let RawDescriptor { operation, count, sector, .. } = raw;
        Descriptor { operation, count, sector }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: it is the mapping that `map` has made, and nobody has a pointer into it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), map_bytes(self.depth)) };
    }
}

/// The length that the driver expects, exactly.
fn map_bytes(depth: u16) -> usize {
    (usize::from(depth) * size_of::<RawDescriptor>()).next_multiple_of(page_bytes())
}

fn page_bytes() -> usize {
    // SAFETY: the call takes no pointer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Copies the data of a write, as long as `data`, out of the request of `tag` of `queue`.
///
/// # Errors
/// If the request is not there, or does not have that much.
pub fn take(file: &impl AsFd, request: (u16, u16), data: &Data) -> io::Result<()> {
    take_from(file, place(request), data)
}

/// Copies `data` into the request of `tag` of `queue`: what was read, or a report.
///
/// # Errors
/// If the request is not there, or has less room.
pub fn give(file: &impl AsFd, request: (u16, u16), data: &Data) -> io::Result<()> {
    give_to(file, place(request), data)
}

/// The memory of the requests of one tag, which the driver registers with the ring of their server.
#[derive(Debug)]
pub struct RequestMemory {
    file: Arc<OwnedFd>,
    start: u64,
    region: Region,
}

impl RequestMemory {
    /// That of `tag` of `queue` of the device behind `file`, registered as `region`
    /// ([`QueueCommand::registering`](super::QueueCommand::registering)).
    #[must_use]
    pub fn new(file: Arc<OwnedFd>, (queue, tag): (u16, u16), region: Region) -> Self {
        Self { file, start: place((queue, tag)), region }
    }
}

impl RemoteMemory for RequestMemory {
    fn region(&self) -> Region {
        self.region
    }

    fn fetch(&self, at: usize, data: &Data) -> Result<(), Status> {
        take_from(&*self.file, self.start + at as u64, data).map_err(|_| Status::Io)
    }

    fn store(&self, at: usize, data: &Data) -> Result<(), Status> {
        give_to(&*self.file, self.start + at as u64, data).map_err(|_| Status::Io)
    }
}

fn take_from(file: &impl AsFd, place: u64, data: &Data) -> io::Result<()> {
    // SAFETY: the words are written by the kernel while the call lasts; as atomics, others may look at them meanwhile.
    let copied =
        unsafe { libc::pread(file.as_fd().as_raw_fd(), start_of(data).cast(), data.len(), place as libc::off_t) };
    whole(copied, data)
}

fn give_to(file: &impl AsFd, place: u64, data: &Data) -> io::Result<()> {
    // SAFETY: the kernel reads the words while the call lasts.
    let copied =
        unsafe { libc::pwrite(file.as_fd().as_raw_fd(), start_of(data).cast(), data.len(), place as libc::off_t) };
    whole(copied, data)
}

fn start_of(data: &Data) -> *mut u64 {
    data.words().as_ptr().cast_mut().cast()
}

fn place((queue, tag): (u16, u16)) -> u64 {
    DATA_START + (u64::from(queue) << QUEUE_SHIFT | u64::from(tag) << TAG_SHIFT)
}

fn whole(copied: isize, data: &Data) -> io::Result<()> {
    match usize::try_from(copied) {
        Ok(copied) if copied == data.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
