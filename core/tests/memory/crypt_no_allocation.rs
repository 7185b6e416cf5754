//! An encrypted zoned disk allocates nothing once it is warm, also when writes wait for memory, and for any segments.

use shingle_core::block::{Bio, Data, Op, Payload, PortId, Stack};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::crypt::{CipherSpec, Crypt, CryptConfig, Key, SoftwareCiphers, Units};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

use crate::allocator::allocations;

const ZONE: u64 = 1 << 15;
const ZONES: u64 = 64;
/// Each in a zone of its own; most of them write at a time, and want more than twice the memory that there is.
const WRITERS: u64 = 24;
const LONG: u32 = 1024;

/// A disk that takes 10 us for a command, encrypted, with a plug above.
struct Load {
    stack: Stack,
    port: PortId,
    top: shingle_core::block::DeviceId,
    crypt: shingle_core::block::DeviceId,
    now: Instant,
    next: [u64; WRITERS as usize],
    waited: u64,
}

fn payload(tag: u64) -> Payload {
    let data = Data::zeroed(LONG as usize * 512);
    if tag.is_multiple_of(2) {
        return Payload::Data(data);
    }
    // The segments end inside of units.
    let cut = 4096 + 24;
    Payload::Segments(vec![data.slice(0, cut), data.slice(cut, data.len() - cut)])
}

impl Load {
    fn new() -> Load {
        let config = NullConfig {
            completion: Duration::from_micros(10),
            ..NullConfig::zoned(ZONE * ZONES, NullZones::new(ZONE))
        };
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        let config = CryptConfig {
            cipher: CipherSpec::parse("aes-xts-essiv:sha256").unwrap(),
            units: Units { bytes: 4096, iv_offset: 0, large: true },
            allows_discards: false,
        };
        let mut crypt = Crypt::new(disk, stack.limits(disk), &config, &SoftwareCiphers).unwrap();
        crypt.set_key(Key::new(vec![1; 32])).unwrap();
        let crypt = stack.add(Box::new(crypt)).unwrap();
        let plug = ZonePlug::new(crypt, stack.limits(crypt), PlugOptions::default()).unwrap();
        let top = stack.add(Box::new(plug)).unwrap();
        let port = stack.open_port();
        let mut load = Load { stack, port, top, crypt, now: Instant::ZERO, next: [0; WRITERS as usize], waited: 0 };
        for tag in 0..WRITERS {
            load.send(tag, Box::new(Bio::new(Op::Read, Sector(0), LONG, payload(tag))));
        }
        load
    }

    /// Writes a zone from its start, reads now and then, and resets it when it is full.
    fn send(&mut self, tag: u64, mut bio: Box<Bio>) {
        let next = &mut self.next[tag as usize];
        let is_full = *next + u64::from(LONG) > ZONE;
        bio.op = match bio.op {
            _ if is_full => Op::ZoneReset,
            Op::Write if next.is_multiple_of(u64::from(4 * LONG)) => Op::Read,
            _ => Op::Write,
        };
        (bio.sectors, bio.sector) = (LONG, Sector(tag * ZONE + *next));
        match bio.op {
            Op::Write => *next += u64::from(LONG),
            Op::ZoneReset => (bio.sectors, bio.sector, *next) = (0, Sector(tag * ZONE), 0),
            _ => {}
        }
        self.stack.submit(self.port, tag, self.top, bio);
    }

    fn run(&mut self, bios: u64) {
        let mut done = 0;
        while done < bios {
            self.now = self.stack.turn(self.now).unwrap_or(self.now);
            self.stack.held(&mut |device, _| self.waited += u64::from(device == self.crypt));
            while let Some(completion) = self.stack.poll_completion(self.port) {
                assert!(completion.status.is_ok(), "{:?}: {}", completion.bio, completion.status);
                done += 1;
                self.send(completion.tag, completion.bio);
            }
        }
    }
}

#[test]
fn a_warm_encrypted_disk_allocates_nothing_and_writes_wait_for_its_memory() {
    let mut load = Load::new();
    load.run(300);
    let (before, waited) = (allocations(), load.waited);
    load.run(500);
    assert_eq!(allocations() - before, 0);
    assert!(load.waited - waited > 100, "no write had to wait: the test shows less than it should");
}
