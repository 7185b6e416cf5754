//! What the `crypt` target costs beside its cipher alone.
//!
//! `cargo bench -p shingle-sys --features fast-crypto --bench crypt` prints a table; words behind `--` choose rows that
//! have all of them. The
//! cipher alone encrypts the same memory with the same IVs in one call a bio; the target does it between a port and a
//! null device. Both take turns within each round, so their ratio holds on a noisy machine; every figure is the median
//! of the rounds.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::crypt::{CipherSpec, Ciphers, Crypt, CryptConfig, Iv, Key, Mode, SectorCipher, Units};
use shingle_core::sector::Sector;
use shingle_sys::crypto::PROVIDERS;

const DEPTH: usize = 32;
const ROUNDS: usize = 1001;
/// Few, so that most rounds are over before somebody else wants the core.
const BYTES_A_ROUND: usize = 256 << 10;
const CAPACITY: u64 = 1 << 20;

/// One row: which cipher, in units of how many bytes, in bios of how many.
struct Case {
    provider: (&'static str, &'static (dyn Ciphers + Sync)),
    mode: Mode,
    unit_bytes: usize,
    bio_bytes: usize,
    op: Op,
}

impl Case {
    fn label(&self) -> String {
        let op = if self.op == Op::Write { "encrypt" } else { "decrypt" };
        let (provider, mode) = (self.provider.0, self.mode.name());
        format!("{provider:<9} {mode:<8} {op} {:>6} {:>6}", self.unit_bytes, self.bio_bytes)
    }
}

/// The cipher alone.
struct Alone {
    cipher: Box<dyn SectorCipher>,
    memory: Vec<Data>,
    to: Data,
    unit_sectors: u64,
    units: usize,
    is_write: bool,
}

/// The target between a port and a null device.
struct Target {
    stack: Stack,
    port: PortId,
    top: DeviceId,
    op: Op,
    sectors: u32,
    next: u64,
}

fn key(mode: Mode) -> Vec<u8> {
    (0..*mode.key_bytes().last().expect("three")).map(|byte| byte as u8).collect()
}

fn memory(case: &Case) -> Vec<Data> {
    (0..DEPTH).map(|_| Data::zeroed(case.bio_bytes)).collect()
}

impl Alone {
    fn new(case: &Case) -> Self {
        Self {
            cipher: case.provider.1.sector_cipher(case.mode, &key(case.mode)).expect("the length fits"),
            memory: memory(case),
            to: Data::zeroed(case.bio_bytes),
            unit_sectors: case.unit_bytes as u64 / 512,
            units: case.bio_bytes / case.unit_bytes,
            is_write: case.op == Op::Write,
        }
    }

    /// `bios` of them; nanoseconds for each.
    fn round(&mut self, bios: usize) -> f64 {
        let mut ivs = vec![Iv::default(); self.units];
        let mut sector = 0;
        let start = Instant::now();
        for n in 0..bios {
            for iv in &mut ivs {
                *iv = u128::from(sector % CAPACITY).to_le_bytes();
                sector += self.unit_sectors;
            }
            let data: &[AtomicU64] = self.memory[n % DEPTH].words();
            if self.is_write {
                self.cipher.encrypt(&ivs, data, self.to.words());
            } else {
                self.cipher.decrypt(&ivs, data, data);
            }
        }
        start.elapsed().as_nanos() as f64 / bios as f64
    }
}

impl Target {
    fn new(case: &Case) -> Self {
        let mut stack = Stack::new();
        let null = NullDevice::new(&NullConfig::new(CAPACITY)).expect("the parameters are right");
        let disk = stack.add(Box::new(null)).expect("fits");
        let config = CryptConfig {
            cipher: CipherSpec::parse(&format!("{}-plain64", case.mode)).expect("a cipher"),
            units: Units { bytes: case.unit_bytes as u32, iv_offset: 0, large: false },
            allows_discards: false,
        };
        let mut crypt = Crypt::new(disk, stack.limits(disk), &config, case.provider.1).expect("fits");
        crypt.set_key(Key::new(key(case.mode))).expect("the length fits");
        let top = stack.add(Box::new(crypt)).expect("fits");
        let port = stack.open_port();
        let mut target = Self { stack, port, top, op: case.op, sectors: (case.bio_bytes / 512) as u32, next: 0 };
        for (tag, data) in memory(case).into_iter().enumerate() {
            target.send(tag as u64, Box::new(Bio::new(case.op, Sector(0), target.sectors, Payload::Data(data))));
        }
        target
    }

    fn send(&mut self, tag: u64, mut bio: Box<Bio>) {
        (bio.op, bio.sector) = (self.op, Sector(self.next));
        self.next = (self.next + u64::from(self.sectors)) % CAPACITY;
        self.stack.submit(self.port, tag, self.top, bio);
    }

    fn round(&mut self, bios: usize) -> f64 {
        let mut done = 0;
        let start = Instant::now();
        while done < bios {
            self.stack.turn(shingle_core::time::Instant::ZERO);
            while let Some(completion) = self.stack.poll_completion(self.port) {
                assert!(completion.status.is_ok(), "{:?} failed", completion.bio);
                self.send(completion.tag, completion.bio);
                done += 1;
            }
        }
        start.elapsed().as_nanos() as f64 / done as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn run(case: &Case) {
    let (mut alone, mut target) = (Alone::new(case), Target::new(case));
    let bios = BYTES_A_ROUND / case.bio_bytes;
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (alone.round(bios), target.round(bios))).collect();
    let cipher_ns = median(rounds.iter().map(|(alone, _)| *alone).collect());
    let target_ns = median(rounds.iter().map(|(_, target)| *target).collect());
    let ratio = median(rounds.iter().map(|(alone, target)| 100.0 * alone / target).collect());
    let gib = |ns: f64| case.bio_bytes as f64 / ns * 1e9 / f64::from(1 << 30);
    println!(
        "{} {cipher_ns:>10.0} {target_ns:>10.0} {:>8.2} {:>8.2} {ratio:>8.1}",
        case.label(),
        gib(cipher_ns),
        gib(target_ns),
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!("256-bit AES, queue depth {DEPTH}, one core; median of {ROUNDS} rounds of {} KiB\n", BYTES_A_ROUND >> 10);
    println!(
        "{:<9} {:<8} {:<7} {:>6} {:>6} {:>10} {:>10} {:>8} {:>8} {:>8}",
        "provider", "cipher", "", "unit", "bio", "cipher ns", "target ns", "GiB/s", "GiB/s", "ratio %"
    );
    for mode in [Mode::AesXts, Mode::AesCbc] {
        for (unit_bytes, bio_bytes) in [(512, 512), (512, 4096), (4096, 4096), (4096, 65536)] {
            for op in [Op::Write, Op::Read] {
                for &provider in PROVIDERS {
                    let case = Case { provider, mode, unit_bytes, bio_bytes, op };
                    if wanted.iter().all(|word| case.label().contains(word)) {
                        run(&case);
                    }
                }
            }
        }
    }
}
