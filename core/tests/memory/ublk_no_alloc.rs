//! The server of a ublk device allocates nothing for a request: those who write may be those who would have to free memory.

use std::fmt;
use std::sync::Arc;

use shingle_core::block::{
    Bio, BlockDevice, Buffer, Cx, Data, DeviceId, Limits, Memory, PortId, Stack, Status, ZonedLimits,
};
use shingle_core::frontend::ublk::{
    Descriptor, Next, RecordsShape, Session, SessionShape, Unflushed, UserCopy, ZoneRecords, log_bytes,
};
use shingle_core::time::Instant;

use crate::allocator::allocations;

const SHAPE: SessionShape = SessionShape { tags: 16, io_bytes: 16_384 };

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

struct Copies;

impl UserCopy for Copies {
    fn take(&mut self, tag: u32, data: &Data) -> Result<(), Status> {
        data.fill(tag as u8);
        Ok(())
    }

    fn give(&mut self, _: u32, _: &Data) -> Result<(), Status> {
        Ok(())
    }
}

struct Server {
    stack: Stack,
    device: DeviceId,
    port: PortId,
    session: Session,
}

impl Server {
    fn new(limits: Limits, furnish: impl FnOnce(Session) -> Session) -> Self {
        let mut stack = Stack::new();
        let device = stack.add(Box::new(Nothing(limits))).unwrap();
        let port = stack.open_port();
        Self { stack, device, port, session: furnish(Session::new(SHAPE).unwrap()) }
    }

    /// Serves these requests, as many at once as there are tags; returns the answers that were no error.
    fn serve(&mut self, requests: &[(u32, u64, u32)]) -> usize {
        let mut good = 0;
        for batch in requests.chunks(SHAPE.tags as usize) {
            for (tag, (operation, sector, count)) in (0..).zip(batch) {
                let request = Descriptor { operation: *operation, sector: *sector, count: *count };
                self.session.handle_request(tag, request, &mut Copies);
            }
            while self.session.busy() > 0 {
                while let Some(next) = self.session.poll() {
                    match next {
                        Next::Submit(word, bio) => self.stack.submit(self.port, word, self.device, bio),
                        Next::Answer(_, answer, clear) => {
                            good += usize::from(answer.result >= 0);
                            clear.into_iter().for_each(|clear| clear.fill(0));
                        }
                    }
                }
                self.stack.turn(Instant::ZERO);
                while let Some(done) = self.stack.poll_completion(self.port) {
                    self.session.handle_completion(done.tag, done.bio, done.status, &mut Copies);
                }
            }
            while let Some(next) = self.session.poll() {
                good += usize::from(matches!(next, Next::Answer(_, answer, _) if answer.result >= 0));
            }
        }
        good
    }

    /// Allocations for requests that were served before.
    fn again(&mut self, requests: &[(u32, u64, u32)]) -> u64 {
        for _ in 0..3 {
            assert_eq!(self.serve(requests), requests.len());
        }
        let before = allocations();
        self.serve(requests);
        allocations() - before
    }
}

fn regular() -> Limits {
    let most = Some(1 << 16);
    Limits { write_cache: true, max_write_zeroes: most, max_discard: most, ..Limits::new(1 << 20) }
}

/// Reads and writes of all lengths, zeroes, discards, with a flush among them.
fn requests() -> Vec<(u32, u64, u32)> {
    let of = |n: u64| [(0, n * 32, 8), (1, n * 32, 32), (1, n * 8, 1), (5, n * 32, 64), (3, n * 8, 8)];
    (0..16).flat_map(of).chain([(2, 0, 0)]).collect()
}

#[test]
fn requests_of_a_device_that_keeps_nothing_allocate_nothing() {
    assert_eq!(Server::new(regular(), |session| session).again(&requests()), 0);
}

#[test]
fn writes_that_are_remembered_allocate_nothing() {
    let memory: Arc<dyn Memory> = Arc::new(Buffer::try_new(log_bytes(16 << 20)).unwrap());
    let mut server = Server::new(regular(), |session| session.with_unflushed(Unflushed::open(memory, 1)).unwrap());
    assert_eq!(server.again(&requests()), 0);
}

#[test]
fn requests_that_have_records_allocate_nothing() {
    let shape = RecordsShape { zones: 64, zone_sectors: 1 << 14, tags: SHAPE.tags };
    let memory: Arc<dyn Memory> = Arc::new(Buffer::try_new(shape.bytes()).unwrap());
    let limits = Limits { write_cache: true, zoned: Some(ZonedLimits::new(1 << 14)), ..Limits::new(1 << 20) };
    let mut server = Server::new(limits, |session| session.with_records(ZoneRecords::open(memory, 1, shape)));
    let zone = |n: u64| n << 14;
    let of =
        |n| [(1, zone(n), 8), (13, zone(n), 8), (13, zone(n), 16), (15, zone(n), 0), (12, zone(n), 0), (0, zone(n), 8)];
    let requests: Vec<_> = (0..16).flat_map(of).chain([(14, 0, 0), (2, 0, 0)]).collect();
    assert_eq!(server.again(&requests), 0);
}
