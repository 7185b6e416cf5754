//! A small NBD client on raw blocking sockets, fast enough not to be what is measured: it sends many requests with one
//! call and receives many replies with one call.
#![allow(dead_code, reason = "each bench and test uses its part")]

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;

const REPLY_BYTES: usize = 16;
const RECEIVE_BYTES: usize = 512 << 10;

/// What to do over and over.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// [`READ`] or [`WRITE`].
    pub command: u16,
    /// Bytes of one request.
    pub block: usize,
    /// Requests in flight.
    pub depth: usize,
    /// Bytes of the export to spread them over.
    pub span: u64,
}

/// A connection in transmission, with simple replies.
pub struct Client {
    socket: UnixStream,
    sent: Vec<u8>,
    received: Vec<u8>,
    filled: usize,
    random: u64,
    /// Size of the export.
    pub size: u64,
}

impl Client {
    /// Connects and chooses `export`.
    pub fn connect(path: &Path, export: &str) -> io::Result<Self> {
        let mut socket = UnixStream::connect(path)?;
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting)?;
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend(option(1, export.as_bytes()));
        socket.write_all(&hello)?;
        let mut answer = [0; 10];
        socket.read_exact(&mut answer)?;
        let size = u64::from_be_bytes(answer[..8].try_into().expect("8 bytes"));
        Ok(Self { socket, sent: Vec::new(), received: vec![0; RECEIVE_BYTES], filled: 0, random: 88_172_645, size })
    }

    /// Keeps `load.depth` requests in flight for `time`, after `warm_up`; returns requests per second.
    pub fn run(&mut self, load: &Load, warm_up: Duration, time: Duration) -> io::Result<f64> {
        self.received.resize(RECEIVE_BYTES.max(2 * load.block), 0);
        self.queue(load, load.depth);
        self.send()?;
        let mut in_flight = load.depth;
        let mut start = Instant::now() + warm_up;
        let mut counted = None;
        loop {
            let done = self.receive(load)?;
            in_flight -= done;
            let now = Instant::now();
            match &mut counted {
                None if now >= start => (start, counted) = (now, Some(0)),
                None => {}
                Some(total) => *total += done,
            }
            if now >= start + time {
                break;
            }
            self.queue(load, done);
            self.send()?;
            in_flight += done;
        }
        let rate = counted.unwrap_or(0) as f64 / start.elapsed().as_secs_f64();
        while in_flight > 0 {
            in_flight -= self.receive(load)?;
        }
        Ok(rate)
    }

    /// Sends `count` requests, one each `pace`, and waits for each: how long each took, the shortest first.
    pub fn latencies(&mut self, load: &Load, count: usize, pace: Duration) -> io::Result<Vec<Duration>> {
        let mut took = Vec::with_capacity(count);
        for _ in 0..count {
            let began = Instant::now();
            self.queue(load, 1);
            self.send()?;
            while self.receive(load)? == 0 {}
            took.push(began.elapsed());
            std::thread::sleep(pace.saturating_sub(began.elapsed()));
        }
        took.sort();
        Ok(took)
    }

    fn queue(&mut self, load: &Load, count: usize) {
        for _ in 0..count {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let offset = self.random % (load.span / load.block as u64) * load.block as u64;
            self.sent.extend(request(load.command, 0, self.random, offset, load.block as u32));
            if load.command == WRITE {
                self.sent.resize(self.sent.len() + load.block, 0xa5);
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.sent)?;
        self.sent.clear();
        Ok(())
    }

    /// Receives what is there, once; the number of whole replies.
    fn receive(&mut self, load: &Load) -> io::Result<usize> {
        let got = self.socket.read(&mut self.received[self.filled..])?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.filled += got;
        let whole = REPLY_BYTES + if load.command == READ { load.block } else { 0 };
        let (count, rest) = (self.filled / whole, self.filled % whole);
        for reply in self.received[..count * whole].chunks_exact(whole) {
            assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "a reply without an error");
        }
        self.received.copy_within(count * whole..self.filled, 0);
        self.filled = rest;
        Ok(count)
    }
}

/// The bytes of an option.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The bytes of a compact request.
pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..4].copy_from_slice(&0x2560_9513_u32.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&command.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&offset.to_be_bytes());
    bytes[24..].copy_from_slice(&length.to_be_bytes());
    bytes
}
