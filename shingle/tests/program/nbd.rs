//! A client of an export that checks what it gets.

#[path = "../../../host/benches/support/client.rs"]
pub mod client;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::Scratch;
use client::{FLUSH, TRIM, option, request};
pub use client::{READ, WRITE};

/// Bytes of a request of most tests.
pub const BLOCK: usize = 4096;

/// A client that waits for every answer when it is told to, and checks it.
pub struct Nbd {
    socket: UnixStream,
    pub size: u64,
}

impl Nbd {
    pub fn connect(scratch: &Scratch, export: &str) -> Self {
        Self::connect_at(&scratch.0.join("nbd.sock"), export).unwrap()
    }

    /// A client at another socket, or the error if the daemon refuses it.
    pub fn connect_at(path: &Path, export: &str) -> io::Result<Self> {
        let mut socket = UnixStream::connect(path)?;
        socket.read_exact(&mut [0; 18])?;
        socket.write_all(&[&3_u32.to_be_bytes()[..], &option(1, export.as_bytes())].concat())?;
        let mut answer = [0; 10];
        socket.read_exact(&mut answer)?;
        Ok(Self { socket, size: u64::from_be_bytes(answer[..8].try_into().unwrap()) })
    }

    /// Sends a write of `data`, or a read of as many bytes; its cookie is the offset.
    pub fn send(&mut self, command: u16, offset: u64, data: &[u8]) {
        let mut bytes = request(command, 0, offset, offset, data.len() as u32).to_vec();
        if command == WRITE {
            bytes.extend_from_slice(data);
        }
        self.socket.write_all(&bytes).unwrap();
    }

    /// Receives an answer: the offset of its request. `reads` says whether that was a read, into `data`.
    pub fn receive(&mut self, reads: impl Fn(u64) -> bool, data: &mut [u8]) -> u64 {
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "a reply without an error");
        let offset = u64::from_be_bytes(reply[8..].try_into().unwrap());
        if reads(offset) {
            self.socket.read_exact(data).unwrap();
        }
        offset
    }

    /// Receives the answers to so many writes.
    pub fn written(&mut self, count: usize) {
        (0..count).for_each(|_| _ = self.receive(|_| false, &mut []));
    }

    /// Waits until the daemon has closed the connection.
    pub fn closed(&mut self) {
        assert_eq!(self.socket.read(&mut [0; 16]).unwrap(), 0);
    }

    /// Makes durable what was written.
    pub fn flush(&mut self) {
        self.socket.write_all(&request(FLUSH, 0, 0, 0, 0)).unwrap();
        self.written(1);
    }

    /// Makes a range read as zeroes.
    pub fn discard(&mut self, offset: u64, len: u32) {
        self.socket.write_all(&request(TRIM, 0, offset, offset, len)).unwrap();
        self.written(1);
    }

    /// Writes, which may fail; the error of the answer.
    pub fn write_status(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.send(WRITE, offset, data);
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).unwrap();
        u32::from_be_bytes(reply[4..8].try_into().unwrap())
    }

    /// Reads a block, which may fail; the error of the answer.
    pub fn read_status(&mut self, offset: u64) -> u32 {
        self.send(READ, offset, &[0; BLOCK]);
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).unwrap();
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        if error == 0 {
            self.socket.read_exact(&mut [0; BLOCK]).unwrap();
        }
        error
    }

    /// Reads a block.
    pub fn read(&mut self, offset: u64) -> Vec<u8> {
        let mut data = vec![0; BLOCK];
        self.send(READ, offset, &data);
        assert_eq!(self.receive(|_| true, &mut data), offset);
        data
    }
}

/// What a block holds in its `version`-th state; 0 is untouched.
pub fn pattern(block: u64, version: u64) -> Vec<u8> {
    let seed = (block << 32 | version) * u64::from(version > 0);
    (0..BLOCK as u64 / 8).flat_map(|word| seed.wrapping_mul(word + 1).to_le_bytes()).collect()
}

/// Reads and writes random blocks of an export, 32 at a time, and checks every byte that it reads, until `stop`; how many
/// requests that were.
pub fn verified_random_load(mut client: Nbd, stop: &AtomicBool) -> u64 {
    let blocks = client.size / BLOCK as u64;
    let mut versions = vec![0_u64; blocks as usize];
    let (mut random, mut done, mut data) = (88_172_645_463_325_252_u64, 0, vec![0; BLOCK]);
    while !stop.load(Relaxed) {
        let mut batch: Vec<(u64, bool)> = Vec::new();
        while batch.len() < 32 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let block = random % blocks;
            if batch.iter().all(|(other, _)| *other != block) {
                batch.push((block, random >> 60 < 8));
            }
        }
        for (block, is_read) in &batch {
            versions[*block as usize] += u64::from(!is_read);
            let command = if *is_read { READ } else { WRITE };
            client.send(command, block * BLOCK as u64, &pattern(*block, versions[*block as usize]));
        }
        for _ in &batch {
            let is_read = |offset: u64| batch.contains(&(offset / BLOCK as u64, true));
            let block = client.receive(is_read, &mut data) / BLOCK as u64;
            if batch.contains(&(block, true)) {
                assert!(data == pattern(block, versions[block as usize]), "block {block} holds something else");
            }
        }
        done += batch.len() as u64;
    }
    done
}
