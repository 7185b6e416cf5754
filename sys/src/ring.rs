//! A single-threaded io_uring that owns its requests until they are done.
//!
//! A [`Request`] is moved in and moved out again; between the two the kernel reads and writes memory that only the ring
//! can drop. Nothing is given up early: a ring that is dropped cancels what is in flight, waits for it, and leaks what
//! does not end in time.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::cqueue::EntryMarker as _;
use io_uring::{IoUring, opcode, register::Probe, squeue, types};
use shingle_core::block::{Memory, Region};
use slab::Slab;

use crate::request::{Entries, Headers, Request};
use crate::ring_setup::{RingError, build};

/// Whose a request is. The ring hands it back and makes nothing of it, except to find requests to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Who asked.
    pub owner: u64,
    /// What the owner calls it.
    pub word: u64,
}

/// A request that is done.
#[derive(Debug)]
pub struct Completion {
    /// What it was submitted under.
    pub token: Token,
    /// The result of the system call: bytes or 0, or a negative errno.
    pub result: i32,
    /// The request, with its memory.
    pub request: Request,
}

struct Slot {
    token: Token,
    request: Request,
    /// Read by the kernel until the completion; empty, without memory, if the request needs none.
    headers: Headers,
}

/// Requests in flight, an io_uring, and what waits for room in it.
///
/// It belongs to the thread that made it: requests hold `Rc`s, so it cannot be sent to another. With entries of 128 bytes
/// (`Ring<squeue::Entry128>`, Linux 5.19) it takes the commands of drivers that need them, and each request moves twice the bytes.
pub struct Ring<E: Entries = squeue::Entry> {
    uring: IoUring<E, E::Completed>,
    slots: Slab<Slot>,
    spare_headers: Vec<Headers>,
    /// Entries for which the queues have no room yet.
    backlog: VecDeque<E>,
    /// Completions that need no kernel: slot and result.
    ready: VecDeque<(usize, i32)>,
    /// Entries pushed and not completed. At most the completion queue's size, so it never overflows.
    in_kernel: usize,
    can_truncate: bool,
    /// Memory that the kernel knows by number; empty until the first is registered.
    regions: Vec<Option<Arc<dyn Memory>>>,
}

/// Entries of the submission queue.
pub(crate) const ENTRIES: u32 = 256;
/// Entries of the completion queue, and so the most requests that the kernel works on at once.
pub(crate) const COMPLETIONS: u32 = 4096;
/// Regions of memory of ours that a ring can have; those that drivers register have the numbers behind them.
const MOST_REGIONS: u32 = 4096;
/// Regions that drivers can register with a ring.
pub const MOST_DRIVER_REGIONS: u32 = 4096;
/// Most requests in flight, those in the backlog included.
const MOST_REQUESTS: usize = 1 << 16;
/// Most threads of the kernel that carry out what cannot be done without waiting: one for each request that it works on. By default there
/// are four for each processor, and as many requests for a file system that does not answer would keep those for others waiting.
const MOST_WORKERS: u32 = COMPLETIONS;
/// How long a dropped ring waits for the kernel.
const PATIENCE: Duration = Duration::from_secs(10);
/// The completion of a cancellation: nobody waits for it.
const NOBODY: u64 = u64::MAX;

impl<E: Entries> Ring<E> {
    /// A new ring, with as much as this kernel offers of what makes one fast.
    pub fn new() -> Result<Self, RingError> {
        let uring = build().map_err(RingError::setup)?;
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(RingError::setup(io::Error::from_raw_os_error(libc::ENOSYS)));
        }
        // Linux 5.15. An older kernel keeps its default.
        let _ = uring.submitter().register_iowq_max_workers(&mut [MOST_WORKERS, 0]);
        let mut probe = Probe::new();
        let probed = uring.submitter().register_probe(&mut probe).is_ok();
        Ok(Self {
            can_truncate: probed && probe.is_supported(opcode::Ftruncate::CODE),
            uring,
            slots: Slab::with_capacity(ENTRIES as usize),
            spare_headers: (0..ENTRIES / 4).map(|_| Headers::with_room()).collect(),
            backlog: VecDeque::with_capacity(ENTRIES as usize),
            ready: VecDeque::with_capacity(16),
            in_kernel: 0,
            regions: Vec::new(),
        })
    }

    /// Takes a request. Its completion appears, never before the next [`Ring::wait`], under `token`. A request beyond the
    /// bound of 65,536 in flight comes straight back.
    pub fn submit(&mut self, token: Token, mut request: Request) -> Result<(), Request> {
        if self.slots.len() == MOST_REQUESTS {
            return Err(request);
        }
        let index = self.slots.vacant_key();
        if let Some(result) = request.without_ring(self.can_truncate) {
            self.ready.push_back((index, result));
            self.slots.insert(Slot { token, request, headers: Headers::default() });
        } else {
            let mut headers = self.spare_headers.pop().unwrap_or_else(Headers::with_room);
            let entry = request.entry::<E>(&mut headers);
            if headers.is_empty() {
                self.spare_headers.push(mem::take(&mut headers));
            }
            self.slots.insert(Slot { token, request, headers });
            match entry {
                Some(entry) => self.enqueue(entry, index as u64),
                None => self.ready.push_back((index, -libc::EINVAL)),
            }
        }
        Ok(())
    }

    /// Asks the kernel to give up all requests under `token`. Each still completes, as cancelled or as done.
    pub fn cancel(&mut self, token: Token) {
        let indices: Vec<usize> = self.slots.iter().filter(|(_, s)| s.token == token).map(|(i, _)| i).collect();
        for index in indices {
            self.cancel_slot(index);
        }
    }

    fn cancel_slot(&mut self, index: usize) {
        let waiting = self.backlog.iter().position(|entry| entry.get_user_data() == index as u64);
        if let Some(position) = waiting {
            self.backlog.remove(position);
            self.ready.push_back((index, -libc::ECANCELED));
        } else if !self.ready.iter().any(|(ready, _)| *ready == index) {
            self.enqueue(opcode::AsyncCancel::new(index as u64).build().into(), NOBODY);
        }
    }

    /// Hands everything over to the kernel and waits until something is done or the time is up; `None` waits for ever.
    /// A signal ends it early.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.refill();
        let something = !self.ready.is_empty() || !self.uring.completion().is_empty();
        let entered = match timeout {
            _ if something => self.poke(),
            Some(Duration::ZERO) => self.poke(),
            Some(timeout) => {
                let timeout = types::Timespec::from(timeout);
                self.uring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&timeout))
            }
            None => self.uring.submit_and_wait(1),
        };
        match entered {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Submits without waiting, and lets the kernel post what is done; no system call if there is neither.
    fn poke(&mut self) -> io::Result<usize> {
        let queue = self.uring.submission();
        let nothing = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
        drop(queue);
        if nothing { Ok(0) } else { self.uring.submit() }
    }

    /// Takes the next completion that is there.
    pub fn pop(&mut self) -> Option<Completion> {
        if let Some((index, result)) = self.ready.pop_front() {
            return Some(self.finish(index, result, [0; 2]));
        }
        loop {
            let entry = self.uring.completion().next()?;
            self.in_kernel -= 1;
            if entry.user_data() != NOBODY {
                let (result, more) = E::outcome(&entry);
                return Some(self.finish(entry.user_data() as usize, result, more));
            }
        }
    }

    /// Requests that are not popped yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Makes `memory` known to the kernel, which keeps its pages in place: an [`Operation`](crate::Operation) that owns a part of
    /// it may name it by the number of `region` (`READ_FIXED`). What was registered under that number before is forgotten.
    ///
    /// # Errors
    /// If there is no such number (the bound is 4,096), or that much memory may not be locked.
    pub fn register(&mut self, region: Region, memory: Arc<dyn Memory>) -> io::Result<()> {
        if region.0 >= MOST_REGIONS {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.reserve_regions()?;
        let words = memory.words();
        let iov_base = words.as_ptr().cast_mut().cast();
        let vector = libc::iovec { iov_base, iov_len: mem::size_of_val(words) };
        // SAFETY: The memory stays where it is while the ring's `Arc` shares it, and the kernel reads and writes there only for
        // operations, which own what they name.
        unsafe { self.uring.submitter().register_buffers_update(region.0, &[vector], None) }?;
        self.regions[region.0 as usize] = Some(memory);
        Ok(())
    }

    /// Has the kernel keep numbers for regions. Those that drivers register themselves begin at [`driver_region`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn reserve_regions(&mut self) -> io::Result<()> {
        if self.regions.is_empty() {
            self.uring.submitter().register_buffers_sparse(MOST_REGIONS + MOST_DRIVER_REGIONS)?;
            self.regions.resize_with(MOST_REGIONS as usize, || None);
        }
        Ok(())
    }

    fn finish(&mut self, index: usize, result: i32, more: [u64; 2]) -> Completion {
        let Slot { token, mut request, headers } = self.slots.remove(index);
        if !headers.is_empty() {
            self.spare_headers.push(headers);
        }
        request.complete(result, more);
        Completion { token, result, request }
    }

    fn enqueue(&mut self, mut entry: E, user_data: u64) {
        entry.set_user_data(user_data);
        if !self.backlog.is_empty() || !self.push(&entry) {
            self.backlog.push_back(entry);
        }
    }

    /// Moves what waits for room into the submission queue, as far as there is room.
    fn refill(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.push(&entry) {
                self.backlog.push_front(entry);
                return;
            }
        }
    }

    fn push(&mut self, entry: &E) -> bool {
        if self.in_kernel >= COMPLETIONS as usize {
            return false;
        }
        // A full queue is handed over now; if the kernel is short of memory, the entry waits.
        if self.uring.submission().is_full() && self.uring.submit().is_err() {
            return false;
        }
        // SAFETY: what the entry points to is owned by the slot that its user data names, or it points to nothing. A slot
        // is removed only when its completion was taken out, or leaked. Descriptors are kept open by the slot as well.
        // Memory behind an `Arc<dyn Memory>` stays where it is while the slot's `Arc` shares it.
        let pushed = unsafe { self.uring.submission().push(entry) }.is_ok();
        self.in_kernel += usize::from(pushed);
        pushed
    }
}

/// The region of this number among those that drivers register.
///
/// # Panics
/// If there are fewer: [`MOST_DRIVER_REGIONS`].
#[must_use]
pub fn driver_region(number: u32) -> Region {
    assert!(number < MOST_DRIVER_REGIONS, "drivers can register {MOST_DRIVER_REGIONS} regions");
    Region(MOST_REGIONS + number)
}

impl<E: Entries> Drop for Ring<E> {
    fn drop(&mut self) {
        // What the kernel has not seen can simply go.
        for entry in mem::take(&mut self.backlog) {
            if entry.get_user_data() != NOBODY {
                self.slots.remove(entry.get_user_data() as usize);
            }
        }
        let indices: Vec<usize> = self.slots.iter().map(|(index, _)| index).collect();
        indices.into_iter().for_each(|index| self.cancel_slot(index));
        let give_up = Instant::now() + PATIENCE;
        loop {
            while self.pop().is_some() {}
            let left = give_up.saturating_duration_since(Instant::now());
            if self.slots.iter().all(|(_, slot)| slot.request.ends_with_ring())
                || left.is_zero()
                || self.wait(Some(left)).is_err()
            {
                break;
            }
        }
        // The kernel may still write to what is left, even after the ring is closed: it must stay where it is.
        mem::forget(mem::take(&mut self.slots));
    }
}

/// Errors that the next call may not have.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
    error.raw_os_error().is_some_and(|errno| passing.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd as _};
    use std::os::unix::net::UnixStream;

    use shingle_core::block::{Data, Payload};

    use super::*;
    use crate::file_status::{Answer, StatusBuffer, cached_status};
    use crate::request::{Allocate, Fd, Part};

    fn token(word: u64) -> Token {
        Token { owner: 7, word }
    }

    /// A file that is gone when it is closed.
    fn scratch_file() -> Fd {
        let path =
            std::env::temp_dir().join(format!("shingle-ring-{}-{:?}", std::process::id(), std::thread::current().id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.into()
    }

    fn next(ring: &mut Ring) -> Completion {
        loop {
            if let Some(done) = ring.pop() {
                return done;
            }
            ring.wait(None).unwrap();
        }
    }

    fn one(ring: &mut Ring, request: Request) -> (i32, Request) {
        ring.submit(token(1), request).unwrap();
        let done = next(ring);
        assert_eq!(done.token, token(1));
        (done.result, done.request)
    }

    fn segments(sizes: &[usize]) -> Payload {
        Payload::Segments(sizes.iter().map(|n| Data::zeroed(*n)).collect())
    }

    fn bytes(payload: &Payload) -> Vec<u8> {
        payload.segments().iter().flat_map(Data::to_vec).collect()
    }

    #[test]
    fn what_is_written_in_segments_is_read_back_in_one_and_a_short_read_continues() {
        let (mut ring, file) = (Ring::<squeue::Entry>::new().unwrap(), scratch_file());
        let payload = segments(&[512, 1024, 512]);
        payload.segments().iter().zip([1, 2, 3]).for_each(|(data, n)| data.fill(n));
        let expected = bytes(&payload);
        let write = Request::Write { file: file.clone(), at: 4096, payload, skip: 0, durable: true };
        assert_eq!(one(&mut ring, write).0, 2048);
        let payload = Payload::Data(Data::zeroed(4096));
        let (got, request) = one(&mut ring, Request::Read { file: file.clone(), at: 4096, payload, skip: 0 });
        let Request::Read { payload, .. } = request else { panic!("another request came back") };
        assert_eq!((got, &bytes(&payload)[..2048]), (2048, &expected[..]));
        let (got, _) = one(&mut ring, Request::Read { file, at: 4096, payload, skip: 2048 });
        assert_eq!(got, 0, "the file ends here");
    }

    #[test]
    fn a_file_is_opened_looked_at_and_closed_through_the_ring() {
        let mut ring = Ring::<squeue::Entry>::new().unwrap();
        let directory = std::env::temp_dir().join(format!("shingle-ring-open-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), [1; 700]).unwrap();
        let in_directory = Fd::from(File::open(&directory).unwrap());
        let opens = |ring: &mut Ring, name: &CStr| {
            let (opened, directory) = (Answer::new(), in_directory.clone());
            let open = Request::Open { directory, name: name.into(), flags: libc::O_RDONLY, opened: opened.clone() };
            (one(ring, open).0, opened.take())
        };
        let looks = |ring: &mut Ring, directory: &Fd, name: &CStr| {
            let (status, buffer) = (Answer::new(), StatusBuffer::new());
            let stat =
                Request::Stat { directory: directory.clone(), name: name.into(), buffer, status: status.clone() };
            (one(ring, stat).0, status.take())
        };
        let (result, opened) = opens(&mut ring, c"file");
        let file = opened.expect("it was opened");
        assert!(result >= 0);
        assert_eq!(looks(&mut ring, &in_directory, c"file"), (0, Some(cached_status(&file).unwrap())));
        let file = Fd::from(file);
        assert_eq!(
            looks(&mut ring, &file, c"").1.map(|status| status.size),
            Some(700),
            "an empty name is the file itself"
        );
        let file = file.into_owned().unwrap();
        let number = file.as_raw_fd();
        let (result, request) = one(&mut ring, Request::Close { file: Some(file) });
        assert!(result == 0 && matches!(request, Request::Close { file: None }));
        // Another thread's file may have the number already.
        let still = std::fs::read_link(format!("/proc/self/fd/{number}"));
        assert_ne!(still.ok(), Some(directory.join("file")));
        let (result, opened) = opens(&mut ring, c"nothing");
        assert!(result == -libc::ENOENT && opened.is_none());
        assert_eq!(looks(&mut ring, &in_directory, c"nothing"), (-libc::ENOENT, None));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn skipping_starts_inside_of_a_later_segment() {
        let (mut ring, file) = (Ring::<squeue::Entry>::new().unwrap(), scratch_file());
        let payload = segments(&[512, 512, 512]);
        payload.segments().iter().zip([1, 2, 3]).for_each(|(data, n)| data.fill(n));
        assert_eq!(
            one(&mut ring, Request::Write { file: file.clone(), at: 0, payload, skip: 768, durable: false }).0,
            768
        );
        let (got, request) =
            one(&mut ring, Request::Read { file, at: 0, payload: Payload::Data(Data::zeroed(1536)), skip: 0 });
        let Request::Read { payload, .. } = request else { panic!("another request came back") };
        assert_eq!(got, 1536);
        let expected: Vec<u8> = [(0, 768), (2, 256), (3, 512)].iter().flat_map(|(b, n)| vec![*b; *n]).collect();
        assert_eq!(bytes(&payload), expected);
    }

    #[test]
    #[should_panic(expected = "skip")]
    fn skipping_past_the_memory_never_reaches_the_kernel() {
        let (mut ring, file) = (Ring::<squeue::Entry>::new().unwrap(), scratch_file());
        let payload = Payload::Data(Data::zeroed(512));
        let _ = ring.submit(token(0), Request::Read { file, at: 0, payload, skip: 513 });
    }

    #[test]
    fn sizes_change_with_and_without_kernel_support() {
        let (mut ring, file) = (Ring::<squeue::Entry>::new().unwrap(), scratch_file());
        for (supported, len) in [(ring.can_truncate, 10_000), (false, 5_000)] {
            ring.can_truncate = supported;
            assert_eq!(one(&mut ring, Request::Truncate { file: file.clone(), len }).0, 0);
            assert_eq!(File::from(file.as_fd().try_clone_to_owned().unwrap()).metadata().unwrap().len(), len);
        }
        assert_eq!(one(&mut ring, Request::Truncate { file: file.clone(), len: u64::MAX }).0, -libc::EFBIG);
        let punch = Request::Allocate { file: file.clone(), mode: Allocate::PunchHole, at: 0, len: 4096 };
        assert_eq!(one(&mut ring, punch).0, 0);
        assert_eq!(one(&mut ring, Request::Sync { file, metadata: false }).0, 0);
    }

    #[test]
    fn a_connection_is_accepted_and_parts_arrive_in_order() {
        let mut ring = Ring::<squeue::Entry>::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (result, request) = one(&mut ring, Request::Accept { listener: listener.into(), accepted: None });
        let Request::Accept { accepted: Some(server), .. } = request else { panic!("no connection: {result}") };
        let socket = Fd::from(server);
        let data = Data::zeroed(16);
        data.fill(b'd');
        let parts = vec![Part::Bytes(b"head".to_vec()), Part::Payload(Payload::Data(data)), Part::Bytes(b"t".to_vec())];
        assert_eq!(one(&mut ring, Request::Send { socket: socket.clone(), parts, skip: 2 }).0, 19);
        let mut got = [0; 19];
        client.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"adddddddddddddddddt");
        client.write_all(&[5; 20]).unwrap();
        let receive = Request::ReceiveAll { socket: socket.clone(), payload: segments(&[8, 8]), skip: 0 };
        let (result, request) = one(&mut ring, receive);
        let Request::ReceiveAll { payload, .. } = request else { panic!("another request came back") };
        assert_eq!((result, bytes(&payload)), (16, vec![5; 16]));
        let (result, request) = one(&mut ring, Request::Receive { socket: socket.clone(), into: vec![0; 64], at: 60 });
        let Request::Receive { into, .. } = request else { panic!("another request came back") };
        assert_eq!((result, &into[58..]), (4, &[0, 0, 5, 5, 5, 5][..]));
        drop(client);
        assert_eq!(one(&mut ring, Request::Receive { socket, into: vec![0; 8], at: 0 }).0, 0, "the peer is gone");
    }

    #[test]
    fn a_cancelled_request_comes_back_as_cancelled() {
        let mut ring = Ring::<squeue::Entry>::new().unwrap();
        let (quiet, _peer) = UnixStream::pair().unwrap();
        ring.submit(token(9), Request::Readable { file: quiet.into() }).unwrap();
        ring.wait(Some(Duration::ZERO)).unwrap();
        assert!(ring.pop().is_none());
        ring.cancel(token(9));
        let done = next(&mut ring);
        assert_eq!((done.token, done.result), (token(9), -libc::ECANCELED));
        assert_eq!(ring.in_flight(), 0);
    }

    #[test]
    fn more_requests_than_the_queues_hold_all_complete_and_beyond_the_bound_they_come_back() {
        let mut ring = Ring::<squeue::Entry>::new().unwrap();
        let (quiet, peer) = UnixStream::pair().unwrap();
        let file = Fd::from(quiet);
        for word in 0..MOST_REQUESTS as u64 {
            ring.submit(token(word), Request::Readable { file: file.clone() }).unwrap();
        }
        assert!(ring.submit(token(0), Request::Readable { file: file.clone() }).is_err());
        ring.cancel(token(MOST_REQUESTS as u64 - 1));
        let done = next(&mut ring);
        assert_eq!(
            (done.token.word, done.result),
            (MOST_REQUESTS as u64 - 1, -libc::ECANCELED),
            "it was in the backlog"
        );
        (&peer).write_all(b"x").unwrap();
        let mut seen = vec![false; MOST_REQUESTS - 1];
        for _ in 0..seen.len() {
            let done = next(&mut ring);
            assert!(!mem::replace(&mut seen[done.token.word as usize], true), "{} completed twice", done.token.word);
        }
        assert_eq!(ring.in_flight(), 0);
    }

    #[test]
    fn dropping_the_ring_takes_back_what_is_in_flight() {
        let (quiet, peer) = UnixStream::pair().unwrap();
        let mut ring = Ring::<squeue::Entry>::new().unwrap();
        let payload = Payload::Data(Data::zeroed(4096));
        ring.submit(token(1), Request::ReceiveAll { socket: quiet.into(), payload, skip: 0 }).unwrap();
        ring.wait(Some(Duration::ZERO)).unwrap();
        drop(ring);
        let error = (&peer).write_all(b"nobody reads this").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "the last owner of the socket was the request");
    }
}
