//! The data path allocates nothing once it is warm: every policy, with queues, merges, appends and layers.

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Flags, Op, Payload, PortId, Stack};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::{Table, build_table, parse_table};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::scheduler::{SchedulerKind, SchedulerOptions};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

use crate::allocator::allocations;

const ZONE: u64 = 4096;
const ZONES: u64 = 64;
const DEPTH: u64 = 64;

struct Load {
    stack: Stack,
    port: PortId,
    top: DeviceId,
    now: Instant,
    seed: u64,
    next: [u64; ZONES as usize],
    done: u64,
}

impl Load {
    /// A disk that takes 10 us for a command, a plug and two linear layers over it.
    fn new(policy: WritePolicy, rotational: bool) -> Load {
        let config = NullConfig {
            rotational,
            completion: Duration::from_micros(10),
            max_sectors: Some(64),
            ..NullConfig::zoned(ZONE * ZONES, NullZones::new(ZONE))
        };
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions { policy, ..PlugOptions::default() }).unwrap();
        let mut top = stack.add(Box::new(plug)).unwrap();
        for _ in 0..2 {
            let limits = stack.limits(top).clone();
            top = stack.add(Box::new(Table::linear(top, &limits, 0, limits.capacity).unwrap())).unwrap();
        }
        let port = stack.open_port();
        let mut load = Load { stack, port, top, now: Instant::ZERO, seed: 9, next: [0; ZONES as usize], done: 0 };
        for tag in 0..DEPTH {
            load.send(tag, Box::new(Bio::new(Op::Read, Sector(0), 8, Payload::Data(Data::zeroed(4096)))));
        }
        load
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) % below
    }

    /// Mostly writes to a few zones, so that they queue and merge; some reads, appends, and resets of full zones.
    fn send(&mut self, tag: u64, mut bio: Box<Bio>) {
        let zone = self.random(4);
        let next = self.next[zone as usize];
        let kind = self.random(10);
        (bio.op, bio.sector) = match kind {
            _ if next + 8 > ZONE => (Op::ZoneReset, Sector(zone * ZONE)),
            0..=1 => (Op::Read, Sector(self.random(ZONE * ZONES / 8) * 8)),
            // Appends have zones of their own: a writer that mixes both cannot know where it is.
            2 => (Op::ZoneAppend, Sector((8 + zone) * ZONE)),
            _ => (Op::Write, Sector(zone * ZONE + next)),
        };
        match bio.op {
            Op::Write => self.next[zone as usize] += 8,
            Op::ZoneReset => self.next[zone as usize] = 0,
            _ => (),
        }
        bio.sectors = if bio.op == Op::ZoneReset { 0 } else { 8 };
        self.stack.submit(self.port, tag, self.top, bio);
    }

    fn run(&mut self, bios: u64) {
        let until = self.done + bios;
        while self.done < until {
            self.now = self.stack.turn(self.now).unwrap_or(self.now);
            while let Some(done) = self.stack.poll_completion(self.port) {
                self.done += 1;
                self.send(done.tag, done.bio);
            }
        }
    }
}

#[test]
fn a_warm_stack_allocates_nothing() {
    for (policy, rotational) in WritePolicy::ALL.into_iter().flat_map(|policy| [(policy, false), (policy, true)]) {
        let mut load = Load::new(policy, rotational);
        load.run(200_000);
        let before = allocations();
        load.run(200_000);
        assert_eq!(allocations() - before, 0, "allocations under the policy {policy}");
        let plugged = load.stack.counters(DeviceId(1));
        assert!(policy == WritePolicy::None || plugged.merges > 10_000, "nothing was merged under {policy}");
    }
}

#[test]
fn warm_scheduler_allocates_nothing() {
    for policy in WritePolicy::ALL {
        let mut load = Load::new(policy, true);
        let options = SchedulerOptions { kind: SchedulerKind::MqDeadline, queue_depth: 2, ..Default::default() };
        options.apply(&mut load.stack, DeviceId(0));
        load.run(200_000);
        let before = allocations();
        load.run(200_000);
        assert_eq!(allocations() - before, 0, "allocations under the policy {policy}");
    }
}

#[test]
fn only_the_policy_zone_lock_pays_for_its_scheduler() {
    let disk = NullDevice::new(&NullConfig::zoned(ZONE * ZONES, NullZones::new(ZONE))).unwrap();
    for policy in WritePolicy::ALL {
        let (before, options) = (allocations(), PlugOptions { policy, ..PlugOptions::default() });
        let plug = ZonePlug::new(DeviceId(0), disk.limits(), options).unwrap();
        let made = allocations() - before;
        // Nodes for bios that wait, slots for their zones, and the line in front of the disk.
        assert_eq!(made > 3, policy == WritePolicy::ZoneLock, "{made} allocations for the policy {}", plug.policy());
    }
}

/// Lines of targets, with what costs them most, and what they are told first.
const TARGETS: [(&str, &[&str]); 8] = [
    ("delay disk 0 1 disk 0 2 disk 0 3", &[]),
    ("dust disk 0 512", &["enable"]),
    ("error", &[]),
    ("multipath 0 0 2 1 historical-service-time 0 1 1 disk 1 service-time 0 1 1 log 1", &[]),
    ("flakey disk 0 0 1 9 corrupt_bio_byte 9 w 1 0 random_read_corrupt 500000000 random_write_corrupt 500000000", &[]),
    ("log-writes disk log", &[]),
    ("striped 2 128 disk 0 log 0", &[]),
    ("zero", &[]),
];

/// A target over a disk with a cache, under reads, writes and flushes.
struct TargetLoad {
    stack: Stack,
    port: PortId,
    top: DeviceId,
    now: Instant,
    sent: u64,
}

impl TargetLoad {
    fn new(line: &str, message: &[&str]) -> Self {
        let config =
            NullConfig { write_cache: true, completion: Duration::from_micros(10), ..NullConfig::new(1 << 40) };
        let mut stack = Stack::new();
        let [disk, log] = [0, 1].map(|_| stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap());
        let resolver = |name: &str| if name == "disk" { Ok(disk) } else { Ok(log) };
        let lines = parse_table(&format!("0 1048576 {line}")).unwrap();
        let built = build_table(&mut stack, &lines, &resolver).unwrap();
        if !message.is_empty() {
            stack.message(built.targets[0].unwrap(), message).unwrap();
        }
        let top = stack.add(Box::new(built.table)).unwrap();
        let port = stack.open_port();
        let mut load = Self { stack, port, top, now: Instant::ZERO, sent: 0 };
        for _ in 0..DEPTH {
            load.send(Box::new(Bio::new(Op::Read, Sector(0), 8, Payload::Data(Data::zeroed(4096)))));
        }
        load
    }

    fn send(&mut self, mut bio: Box<Bio>) {
        self.sent += 1;
        bio.op = if self.sent.is_multiple_of(3) { Op::Read } else { Op::Write };
        bio.flags = if self.sent.is_multiple_of(50) { Flags::PREFLUSH.with(Flags::FUA) } else { Flags::NONE };
        bio.sector = Sector(self.sent * 7919 % 100_000 * 8);
        self.stack.submit(self.port, 0, self.top, bio);
    }

    fn run(&mut self, bios: u64) {
        let until = self.sent + bios;
        while self.sent < until {
            self.now = self.stack.turn(self.now).unwrap_or(self.now);
            while let Some(done) = self.stack.poll_completion(self.port) {
                self.send(done.bio);
            }
        }
    }
}

#[test]
fn warm_targets_allocate_nothing() {
    for (line, message) in TARGETS {
        let mut load = TargetLoad::new(line, message);
        load.run(20_000);
        let before = allocations();
        load.run(20_000);
        assert_eq!(allocations() - before, 0, "allocations under {line}");
    }
}
