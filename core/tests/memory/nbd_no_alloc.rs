//! The data path of an NBD session allocates nothing once it is warm: counted by the allocator itself.

use std::fmt;
use std::sync::Arc;

use shingle_core::block::{Bio, BlockDevice, Cx, Limits, PortId, Stack, Status};
use shingle_core::frontend::Pool;
use shingle_core::frontend::nbd::{Export, Exports, Receive, Session, SessionLimits};
use shingle_core::time::Instant;

use crate::allocator::allocations;

/// Does everything at once, and nothing.
struct Nothing(Limits);

impl BlockDevice for Nothing {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        cx.complete(bio, Status::Ok);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("nothing")
    }
}

struct Server {
    stack: Stack,
    port: PortId,
    session: Session,
    pool: Pool,
}

impl Server {
    fn new() -> Self {
        let limits = Limits { write_cache: true, max_write_zeroes: Some(1 << 16), ..Limits::new(1 << 20) };
        let mut stack = Stack::new();
        let device = stack.add(Box::new(Nothing(limits.clone()))).unwrap();
        let exports = Exports::new([Export::new("disk", device, &limits)]).unwrap();
        let port = stack.open_port();
        let session = Session::new(Arc::new(exports), SessionLimits::default());
        Self { stack, port, session, pool: Pool::new(1 << 30, 1 << 30) }
    }

    /// Takes in `bytes`, does what they ask for, and returns how many bytes went out.
    fn serve(&mut self, mut bytes: &[u8]) -> usize {
        let mut sent = 0;
        loop {
            let device = self.session.export().map(|export| export.device);
            while let Some((tag, bio)) = self.session.poll_bio() {
                self.stack.submit(self.port, tag.into(), device.unwrap(), bio);
            }
            self.stack.turn(Instant::ZERO);
            while let Some(done) = self.stack.poll_completion(self.port) {
                self.session.handle_completion(done.tag as u32, done.bio, (done.status, ""), &mut self.pool);
            }
            if let Some(batch) = self.session.poll_transmit() {
                use shingle_core::frontend::nbd::Segment;
                let length = |segment: &Segment| match segment {
                    Segment::Bytes(bytes) => bytes.len(),
                    Segment::Data(data) => data.len(),
                };
                sent += batch.segments.iter().map(length).sum::<usize>();
                self.session.handle_sent(batch, &mut self.pool);
                continue;
            }
            let taken = self.session.handle_bytes(bytes, &mut self.pool);
            bytes = &bytes[taken..];
            if taken == 0 && bytes.is_empty() {
                match self.session.poll_receive() {
                    Receive::Payload { data, .. } => {
                        let length = data.len();
                        self.session.handle_payload(data, length, &mut self.pool);
                    }
                    Receive::Bytes | Receive::Nothing => return sent,
                }
            }
        }
    }
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// 64 reads, 64 writes with their payloads, zeroes, a flush, an error, and a write too long to be worth copying.
fn workload() -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..64 {
        bytes.extend(request(0, n, n * 4096, 4096));
        bytes.extend(request(1, n, n * 8192, 8192));
        bytes.extend([n as u8; 8192]);
    }
    bytes.extend(request(6, 100, 0, 1 << 20));
    bytes.extend(request(3, 101, 0, 0));
    bytes.extend(request(99, 102, 0, 0));
    bytes.extend(request(1, 103, 0, 1 << 20));
    bytes
}

#[test]
fn a_warm_session_over_a_warm_stack_allocates_nothing() {
    let mut server = Server::new();
    server.serve(&3_u32.to_be_bytes());
    let structured = [&b"IHAVEOPT"[..], &[0, 0, 0, 8, 0, 0, 0, 0]].concat();
    server.serve(&structured);
    server.serve(&[&b"IHAVEOPT"[..], &[0, 0, 0, 7, 0, 0, 0, 6], &[0; 6]].concat());
    assert!(server.session.export().is_some());
    let workload = workload();
    let first = server.serve(&workload);
    assert!(first > 64 * 4096, "the reads were answered");
    server.serve(&workload);
    let before = allocations();
    let again = server.serve(&workload);
    assert_eq!(allocations() - before, 0, "allocations on the data path");
    assert_eq!(again, first, "the same work was done");
    assert_eq!(server.pool.used(), 0);
}
