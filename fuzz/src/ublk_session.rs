//! A kernel that asks the server of a ublk device for anything, over a real stack with a zoned disk or a regular one made of memory; and
//! servers that are killed and leave the next one memory with anything in it.
//!
//! What is checked: nothing panics, every request is answered exactly once, with no more bytes than it has, and what is left by a
//! killed server either is taken over in a bounded number of steps or keeps the device from being served.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitrary::Unstructured;
use shingle_core::block::{Buffer, Data, DeviceId, Memory, PortId, Stack, Status};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::frontend::ublk::{
    Descriptor, Next, RecordsShape, Session, SessionShape, Unflushed, UserCopy, ZoneRecords, log_bytes,
};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::time::Instant;

const ZONES: u32 = 6;
const ZONE_SECTORS: u32 = 32;
const SHAPE: SessionShape = SessionShape { tags: 4, io_bytes: 8192 };
const OWNER: u64 = 7;
/// More than any request, or any log of writes, needs.
const MOST_STEPS: u32 = 100_000;

/// The next byte of the input; zero at its end.
fn byte(input: &mut Unstructured<'_>) -> u8 {
    input.arbitrary().unwrap_or(0)
}

/// The data of requests, which may be gone.
struct Copies {
    is_gone: bool,
    brings: u8,
}

impl UserCopy for Copies {
    fn take(&mut self, _: u32, data: &Data) -> Result<(), Status> {
        data.fill(self.brings);
        if self.is_gone { Err(Status::Io) } else { Ok(()) }
    }

    fn give(&mut self, _: u32, _: &Data) -> Result<(), Status> {
        if self.is_gone { Err(Status::Io) } else { Ok(()) }
    }
}

/// What outlives a server, if it is to know something.
struct Left {
    is_zoned: bool,
    memory: Arc<dyn Memory>,
}

impl Left {
    fn new(is_zoned: bool) -> Self {
        let bytes = if is_zoned { records().bytes() } else { log_bytes(2 * SHAPE.io_bytes as usize) };
        Self { is_zoned, memory: Arc::new(Buffer::try_new(bytes).unwrap()) }
    }

    /// Words anywhere, most of them small, behind a header that is right: near the beginning, where there is something.
    fn disturb(&self, input: &mut Unstructured<'_>) {
        let words = self.memory.words();
        for _ in 0..byte(input) % 32 {
            let place = 8 + usize::from(byte(input)) % (words.len() - 8);
            let value = match byte(input) % 4 {
                0 => input.arbitrary().unwrap_or(0),
                1 => u64::MAX - u64::from(byte(input)),
                _ => u64::from(byte(input)) | u64::from(byte(input) % 16) << 8 | u64::from(byte(input)) << 32,
            };
            words[place].store(value, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn session(&self) -> Session {
        let session = Session::new(SHAPE).unwrap();
        match self.is_zoned {
            true => session.with_records(ZoneRecords::open(self.memory.clone(), OWNER, records())),
            false => session.with_unflushed(Unflushed::open(self.memory.clone(), OWNER)).unwrap(),
        }
    }
}

fn records() -> RecordsShape {
    RecordsShape { zones: ZONES, zone_sectors: ZONE_SECTORS, tags: SHAPE.tags }
}

struct Server {
    stack: Stack,
    port: PortId,
    device: DeviceId,
    session: Session,
    copies: Copies,
    now: Instant,
    /// Requests without an answer, and their bytes.
    open: BTreeMap<u32, u64>,
}

impl Server {
    fn start(left: &Left) -> Self {
        let mut stack = Stack::new();
        let capacity = u64::from(ZONES * ZONE_SECTORS);
        let zones = NullZones { conventional: 1, max_open: Some(3), ..NullZones::new(ZONE_SECTORS.into()) };
        let config = if left.is_zoned { NullConfig::zoned(capacity, zones) } else { NullConfig::new(capacity) };
        let config = NullConfig {
            memory_backed: true,
            write_zeroes: true,
            write_cache: true,
            discard: !left.is_zoned,
            ..config
        };
        let mut device = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        if left.is_zoned {
            let plug = ZonePlug::new(device, stack.limits(device), PlugOptions::default()).unwrap();
            device = stack.add(Box::new(plug)).unwrap();
        }
        let (port, session, copies) = (stack.open_port(), left.session(), Copies { is_gone: false, brings: 0 });
        Self { stack, port, device, session, copies, now: Instant::ZERO, open: BTreeMap::new() }
    }

    fn ask(&mut self, input: &mut Unstructured<'_>) {
        let Some(tag) = (0..SHAPE.tags).find(|tag| !self.open.contains_key(tag)) else { return self.run() };
        let flags = [0, 1 << 13, 1 << 15, u32::MAX << 8][usize::from(byte(input) % 4)];
        let operation = u32::from(byte(input) % 20) | flags;
        let count = if byte(input) == 0xff { input.arbitrary().unwrap_or(0) } else { u32::from(byte(input) % 24) };
        let sector = if byte(input) == 0xff { input.arbitrary().unwrap_or(0) } else { u64::from(byte(input)) };
        (self.copies.brings, self.copies.is_gone) = (byte(input) % 3, byte(input) == 0xff);
        self.open.insert(tag, (u64::from(count) * 512).max(SHAPE.io_bytes.into()));
        self.session.handle_request(tag, Descriptor { operation, count, sector }, &mut self.copies);
        if byte(input) % 2 == 0 {
            self.run();
        }
    }

    /// Takes one step; whether there was one.
    fn step(&mut self) -> bool {
        match self.session.poll() {
            Some(Next::Submit(word, bio)) => self.stack.submit(self.port, word, self.device, bio),
            Some(Next::Answer(tag, answer, clear)) => {
                let bytes = self.open.remove(&tag).expect("an answer to a request that has one, or that nobody made");
                assert!(i64::from(answer.result) <= bytes as i64, "{answer:?} to a request of {bytes} bytes");
                clear.into_iter().for_each(|clear| clear.fill(0));
            }
            None => {
                let next = self.stack.turn(self.now);
                if let Some(done) = self.stack.poll_completion(self.port) {
                    self.session.handle_completion(done.tag, done.bio, done.status, &mut self.copies);
                    return true;
                }
                self.now = self.now.max(next.unwrap_or(self.now));
                return next.is_some() || self.stack.has_arrivals();
            }
        }
        true
    }

    fn run(&mut self) {
        let steps = (0..MOST_STEPS).take_while(|_| self.step()).count();
        assert!(steps < MOST_STEPS as usize, "there is no end to it");
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let input = &mut Unstructured::new(data);
    let left = Left::new(byte(input) % 2 == 0);
    drop(left.session());
    while !input.is_empty() {
        left.disturb(input);
        let mut server = Server::start(&left);
        server.run();
        if server.session.is_ready() != Ok(true) {
            continue;
        }
        for _ in 0..byte(input) % 32 {
            server.ask(input);
        }
        if byte(input) % 2 == 0 {
            server.run();
            assert!(server.open.is_empty() && server.session.busy() == 0, "without an answer: {:?}", server.open);
        }
    }
}
