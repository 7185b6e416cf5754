//! An NBD client that sends anything, in pieces of any size, to a session over a real stack with disks made of memory: bytes
//! from the start, bytes once it is connected, or requests that are well-formed.
//!
//! What is checked: nothing panics, memory stays within its bounds, everything that was lent comes back, and each request
//! that was well-formed is answered exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitrary::Unstructured;
use shingle_core::block::{DeviceId, PortId, Stack};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::frontend::Pool;
use shingle_core::frontend::nbd::{Close, Export, Exports, Receive, Segment, Session, SessionLimits};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::time::{Duration, Instant};

const ZONE_SECTORS: u64 = 128;
const SIZE: u64 = 16 * ZONE_SECTORS * 512;
const LIMITS: SessionLimits = SessionLimits { requests: 8, bytes: 256 << 10 };
const POOL_BYTES: usize = 1 << 20;
/// What the pool lends beyond its size to a session that holds nothing.
const RESERVE_BYTES: usize = 256 << 10;

/// The next byte of the input; zero at its end.
fn byte(input: &mut Unstructured<'_>) -> u8 {
    input.arbitrary().unwrap_or(0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Headers {
    Simple,
    Structured,
    Extended,
}

struct Server {
    stack: Stack,
    port: PortId,
    session: Session,
    pool: Pool,
    now: Instant,
    /// True if the last client that chose a limited export was refused.
    refused: bool,
    /// Bytes from the client that are not taken yet.
    rest: Vec<u8>,
    wire: Vec<u8>,
}

impl Server {
    fn new(input: &mut Unstructured<'_>) -> Self {
        let mut stack = Stack::new();
        let zones = NullZones { conventional: 2, max_open: Some(3), ..NullZones::new(ZONE_SECTORS) };
        let config = NullConfig {
            memory_backed: true,
            write_zeroes: true,
            write_cache: true,
            completion: Duration::from_nanos(u64::from(byte(input) % 2) * 10),
            ..NullConfig::zoned(SIZE / 512, zones)
        };
        let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
        let zoned = stack.add(Box::new(plug)).unwrap();
        let config =
            NullConfig { memory_backed: true, discard: true, write_zeroes: true, ..NullConfig::new(SIZE / 512) };
        let regular = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        let export = |name, device: DeviceId| Export::new(name, device, stack.limits(device));
        let limited = export("regular", regular).with_admission(true);
        let exports = Exports::new([export("zoned", zoned), limited]).unwrap();
        let session = Session::new(Arc::new(exports), LIMITS);
        let port = stack.open_port();
        let pool = Pool::new(POOL_BYTES, POOL_BYTES);
        Self { stack, port, session, pool, now: Instant::ZERO, refused: false, rest: Vec::new(), wire: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        self.run();
    }

    /// Does what is to be done until only the client or time can make more of it.
    fn run(&mut self) {
        loop {
            while let Some((tag, bio)) = self.session.poll_bio() {
                let device = self.session.export().expect("bios come after the choice").device;
                self.stack.submit(self.port, tag.into(), device, bio);
            }
            while let Some((tag, sectors, mut extents)) = self.session.poll_question() {
                let device = self.session.export().expect("questions come after the choice").device;
                self.stack.extents(device, sectors, &mut extents);
                self.session.handle_extents(tag, extents, &mut self.pool);
            }
            let next = self.stack.turn(self.now);
            let mut progress = false;
            while let Some(done) = self.stack.poll_completion(self.port) {
                let why = done.bio.why().map(ToString::to_string).unwrap_or_default();
                self.session.handle_completion(done.tag as u32, done.bio, (done.status, &why), &mut self.pool);
                progress = true;
            }
            if let Some(batch) = self.session.poll_transmit() {
                for segment in &batch.segments {
                    match segment {
                        Segment::Bytes(bytes) => self.wire.extend_from_slice(bytes),
                        Segment::Data(data) => self.wire.extend(data.to_vec()),
                    }
                }
                self.session.handle_sent(batch, &mut self.pool);
                progress = true;
            }
            let taken = self.session.handle_bytes(&self.rest, &mut self.pool);
            self.rest.drain(..taken);
            if self.session.applied().is_some() {
                // The client that chooses again is admitted.
                self.refused = !self.refused;
                let admitted = if self.refused { Err("it has its client".into()) } else { Ok(()) };
                self.session.handle_admission(admitted, &mut self.pool);
                progress = true;
            }
            assert!(self.pool.used() <= POOL_BYTES + RESERVE_BYTES, "{} bytes are lent", self.pool.used());
            if progress || taken > 0 || self.stack.has_arrivals() {
                continue;
            }
            match next {
                Some(next) => self.now = next,
                None => break,
            }
        }
        assert!(self.rest.is_empty(), "an idle session leaves bytes lying");
        if let Receive::Payload { data, filled } = self.session.poll_receive() {
            // The client's next bytes go in by the other way.
            self.session.handle_payload(data, filled, &mut self.pool);
        }
    }

    fn end(&mut self) {
        self.session.handle_disconnect(&mut self.pool);
        self.run();
        assert!(self.session.is_done(), "something never came back");
        assert_eq!(self.pool.used(), 0, "memory never came back");
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// A client that knows the protocol; the input chooses what it asks for.
struct Client {
    headers: Headers,
    cookie: u64,
    /// Requests that are not answered, with the length of the data that a success brings.
    open: BTreeMap<u64, usize>,
}

impl Client {
    fn connect(server: &mut Server, input: &mut Unstructured<'_>) -> Self {
        let choice = byte(input);
        let export: &[u8] = if choice & 1 == 0 { b"zoned" } else { b"regular" };
        let headers = [Headers::Simple, Headers::Structured, Headers::Extended][usize::from(choice >> 1) % 3];
        server.send(&3_u32.to_be_bytes());
        match headers {
            Headers::Simple => {}
            Headers::Structured => server.send(&option(8, &[])),
            Headers::Extended => server.send(&option(11, &[])),
        }
        let name = [&(export.len() as u32).to_be_bytes()[..], export].concat();
        let query = [&[0, 0, 0, 1, 0, 0, 0, 15][..], b"base:allocation"].concat();
        server.send(&option(10, &[&name[..], &query].concat()));
        let go = option(7, &[&name[..], &[0, 0]].concat());
        server.send(&go);
        if server.session.export().is_none() {
            server.send(&go);
        }
        assert!(server.session.export().is_some());
        server.wire.clear();
        Self { headers, cookie: 0, open: BTreeMap::new() }
    }

    fn request(&mut self, server: &mut Server, input: &mut Unstructured<'_>) {
        let command = u16::from(byte(input) % 10);
        let flags = u16::from(byte(input));
        let (offset, length) = (u64::from(byte(input)), u64::from(byte(input)));
        // Mostly aligned, mostly on the disk.
        let odd = u64::from(byte(input) == 0xff);
        let (offset, length) = (offset * 4096 + odd, length % 64 * 512 + odd);
        if command == 2 {
            return;
        }
        self.cookie += 1;
        let payload = command == 1 || (self.headers == Headers::Extended && flags & 1 << 5 != 0);
        let mut bytes =
            if self.headers == Headers::Extended { 0x21e4_1c71_u32 } else { 0x2560_9513 }.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        match self.headers {
            Headers::Extended => bytes.extend(length.to_be_bytes()),
            _ => bytes.extend((length as u32).to_be_bytes()),
        }
        if payload {
            bytes.resize(bytes.len() + length as usize, self.cookie as u8);
        }
        self.open.insert(self.cookie, if command == 0 { length as usize } else { 0 });
        let piece = usize::from(byte(input)).max(1) * 64;
        bytes.chunks(piece).for_each(|piece| server.send(piece));
        self.read_replies(server);
    }

    fn read_replies(&mut self, server: &mut Server) {
        let wire = std::mem::take(&mut server.wire);
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let number =
                |at: usize, bytes: usize| rest[at..at + bytes].iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
            let cookie = number(8, 8);
            let data = self.open.remove(&cookie).expect("an answer to a request that was answered, or never made");
            let whole = match self.headers {
                Headers::Simple => 16 + if number(4, 4) == 0 { data } else { 0 },
                Headers::Structured => 20 + number(16, 4) as usize,
                Headers::Extended => 32 + number(24, 8) as usize,
            };
            rest = &rest[whole..];
        }
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let input = &mut Unstructured::new(data);
    let mut server = Server::new(input);
    let kind = byte(input) % 3;
    if kind != 0 {
        let mut client = Client::connect(&mut server, input);
        while kind == 1 && !input.is_empty() {
            client.request(&mut server, input);
            assert_eq!(server.session.close(), None, "a well-formed request ended the connection");
        }
        assert!(client.open.is_empty(), "requests without an answer: {:?}", client.open);
    }
    while !input.is_empty() && server.session.close().is_none() {
        let piece = usize::from(byte(input)).min(input.len());
        server.send(input.bytes(piece).unwrap_or_default());
    }
    assert_ne!(server.session.close(), Some(Close::Gone));
    server.end();
}
