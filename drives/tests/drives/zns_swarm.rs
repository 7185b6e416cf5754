//! Random loads on random zoned SSDs below every policy that keeps an order, and power cuts at random times: everything comes
//! back once, what was written reads back, and what was flushed survives.

use shingle_core::block::{Bio, Completion, Data, DeviceId, Op, Payload, PortId, Stack, Status};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::ZoneNo;
use shingle_drives::{ZnsConfig, ZnsSsd};

const ZONES: u32 = 6;
const ZONE: u32 = 1024;
const CAPACITY: u32 = 800;
const BLOCK: u32 = 8;

fn config(rng: &mut Rng) -> ZnsConfig {
    let mut ns = |most| Duration(rng.below(most));
    let times = (ns(5_000), ns(20_000), ns(10_000), ns(2_000), ns(600_000), ns(80_000), ns(3_000_000));
    let (read_command, write_command, zone_switch, completion, program, read, erase) = times;
    let channels = 1 + rng.below(4) as u32;
    let dies_per_channel = 1 + rng.below(3) as u32;
    let whole = rng.chance(1, 2);
    ZnsConfig {
        capacity: u64::from(ZONES * ZONE),
        zone_sectors: ZONE.into(),
        zone_capacity: CAPACITY.into(),
        max_append: Some(64),
        write_cache: rng.chance(2, 3),
        memory_backed: true,
        read_command,
        write_command,
        append_command: write_command,
        zone_switch,
        completion,
        program,
        read,
        read_ahead_bytes: 8192 * rng.below(8) as u32,
        reset: Duration(rng.below(5_000)),
        erase,
        channels,
        dies_per_channel,
        dies_per_zone: if whole { channels * dies_per_channel } else { channels },
        link_rate: 100_000_000 + rng.below(4_000_000_000),
        channel_rate: 100_000_000 + rng.below(1_000_000_000),
        drain_rate: 100_000_000 + rng.below(4_000_000_000),
        program_unit_bytes: 4096 * (1 + rng.below(12) as u32),
        buffer_units: 1 + rng.below(8) as u32,
        page_bytes: 4096 << rng.below(3),
        erase_block_bytes: 65536,
        finish_rate: 400_000_000,
        ..ZnsConfig::new(1)
    }
}

/// What the host knows of a zone. Offsets are in sectors.
#[derive(Default, Clone)]
struct Known {
    /// Resets it has seen: its data differs after each.
    age: u8,
    issued: u32,
    acknowledged: u32,
    flushed: u32,
    writes: u32,
    reads: u32,
    managed: bool,
    full: bool,
}

/// The byte that fills a block.
fn fill(zone: u32, offset: u32, age: u8) -> u8 {
    1 + ((zone * 31 + offset / BLOCK * 7 + u32::from(age) * 101) % 251) as u8
}

fn pattern(op: Op, zone: u32, offset: u32, sectors: u32, age: u8) -> Bio {
    let data = Data::zeroed(sectors as usize * 512);
    if op != Op::Read {
        for n in 0..sectors / BLOCK {
            data.slice((n * BLOCK * 512) as usize, 4096).fill(fill(zone, offset + n * BLOCK, age));
        }
    }
    Bio::new(op, Sector(u64::from(zone * ZONE + offset)), sectors, Payload::Data(data))
}

fn bytes(zone: u32, offset: u32, sectors: u32, age: u8) -> Vec<u8> {
    (0..sectors / BLOCK).flat_map(|n| [fill(zone, offset + n * BLOCK, age); 4096]).collect()
}

struct Swarm {
    stack: Stack,
    port: PortId,
    drive: DeviceId,
    top: DeviceId,
    now: Instant,
    rng: Rng,
    zones: Vec<Known>,
    /// What was acknowledged when a flush was sent.
    flushes: std::collections::BTreeMap<u64, Vec<(u8, u32)>>,
    sent: u64,
    returned: u64,
}

const FLUSH: u64 = 1 << 40;

impl Swarm {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let config = config(&mut rng);
        let ordered: Vec<WritePolicy> = WritePolicy::ALL.into_iter().filter(|of| *of != WritePolicy::None).collect();
        let policy = ordered[rng.below(ordered.len() as u64) as usize];
        let mut stack = Stack::new();
        let port = stack.open_port();
        let drive = stack.add(Box::new(ZnsSsd::new(config).unwrap())).unwrap();
        let options = PlugOptions { policy, ..PlugOptions::default() };
        let plug = ZonePlug::new(drive, stack.limits(drive), options).unwrap();
        let top = stack.add(Box::new(plug)).unwrap();
        let zones = vec![Known::default(); ZONES as usize];
        let flushes = Default::default();
        Self { stack, port, drive, top, now: Instant::ZERO, rng, zones, flushes, sent: 0, returned: 0 }
    }

    fn send(&mut self, tag: u64, bio: Bio) {
        self.sent += 1;
        self.stack.submit(self.port, tag, self.top, Box::new(bio));
    }

    /// Sends one thing that a host with some sense could send now.
    fn act(&mut self) {
        let number = self.rng.below(ZONES.into()) as u32;
        let lot = self.rng.below(100);
        let sectors = BLOCK * (1 + self.rng.below(8) as u32);
        let zone = self.zones[number as usize].clone();
        let tag = u64::from(number);
        match lot {
            0..60 if !zone.managed && !zone.full && zone.issued + sectors <= CAPACITY => {
                let known = &mut self.zones[number as usize];
                known.issued += sectors;
                known.writes += 1;
                self.send(tag, pattern(Op::Write, number, zone.issued, sectors, zone.age));
            }
            60..80 if !zone.managed && zone.acknowledged >= sectors => {
                let blocks = u64::from((zone.acknowledged - sectors) / BLOCK);
                let offset = self.rng.below(blocks + 1) as u32 * BLOCK;
                self.zones[number as usize].reads += 1;
                self.send(tag, pattern(Op::Read, number, offset, sectors, zone.age));
            }
            80..88 => {
                let marks = self.zones.iter().map(|zone| (zone.age, zone.acknowledged)).collect();
                let tag = FLUSH + self.sent;
                self.flushes.insert(tag, marks);
                self.send(tag, Bio::new(Op::Flush, Sector(0), 0, Payload::None));
            }
            88..92 if !zone.managed && zone.writes == 0 && zone.reads == 0 => {
                let op = if self.rng.chance(2, 3) { Op::ZoneReset } else { Op::ZoneFinish };
                self.zones[number as usize].managed = true;
                self.send(tag, Bio::new(op, Sector(u64::from(number * ZONE)), 0, Payload::None));
            }
            _ => {}
        }
    }

    fn take(&mut self, Completion { tag, bio, status }: Completion) {
        assert_eq!(status, Status::Ok, "{bio:?}");
        self.returned += 1;
        if let Some(marks) = self.flushes.remove(&tag) {
            for (zone, (age, offset)) in self.zones.iter_mut().zip(marks) {
                if zone.age == age {
                    zone.flushed = zone.flushed.max(offset);
                }
            }
            return;
        }
        if tag >= FLUSH {
            return;
        }
        let number = tag as u32;
        let zone = &mut self.zones[number as usize];
        let offset = (bio.sector.0 % u64::from(ZONE)) as u32;
        match bio.op {
            Op::Write => {
                assert_eq!(zone.acknowledged, offset, "writes of a zone end in order");
                zone.acknowledged = offset + bio.sectors;
                zone.writes -= 1;
            }
            Op::Read => {
                zone.reads -= 1;
                let Payload::Data(data) = &bio.payload else { panic!("the memory is back") };
                assert!(data.to_vec() == bytes(number, offset, bio.sectors, zone.age), "{bio:?}");
            }
            Op::ZoneReset => *zone = Known { age: zone.age.wrapping_add(1), ..Known::default() },
            _ => *zone = Known { managed: false, full: true, flushed: zone.acknowledged, ..zone.clone() },
        }
    }

    fn run(&mut self, until: Instant) {
        loop {
            let next = self.stack.turn(self.now);
            while let Some(done) = self.stack.poll_completion(self.port) {
                self.take(done);
            }
            match next {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => return,
            }
        }
    }

    /// Lets some time pass, sometimes.
    fn wait(&mut self) {
        if self.rng.chance(1, 3) {
            let until = self.now + Duration(self.rng.below(200_000));
            self.run(until);
        }
    }

    /// Cuts the power and looks at the medium, past the plug.
    fn cut(mut self, seed: u64) -> u64 {
        let volatile = self.stack.limits(self.drive).write_cache;
        let mut rng = Rng::new(seed);
        self.stack.with_device::<ZnsSsd, _>(self.drive, |drive, _| drive.power_cut(&mut rng)).unwrap();
        let pointers = |stack: &Stack| -> Vec<u32> {
            let zones = stack.device::<ZnsSsd>(self.drive).unwrap().zones();
            (0..ZONES).map(|zone| zones.state(ZoneNo(zone)).wp).collect()
        };
        let after = pointers(&self.stack);
        // What the cut caught ends, and what waited in the plug may still go on from where a zone's pointer is now.
        while let Some(next) = self.stack.turn(self.now) {
            self.now = self.now.max(next);
            while self.stack.poll_completion(self.port).is_some() {}
        }
        let at_rest = pointers(&self.stack);
        let mut lost = 0;
        for number in 0..ZONES {
            let (known, wp) = (self.zones[number as usize].clone(), after[number as usize]);
            if known.managed || known.full {
                continue;
            }
            let promised = if volatile { known.flushed } else { known.acknowledged };
            assert!((promised..=known.issued).contains(&wp), "zone {number}: {wp} of {promised}..={}", known.issued);
            assert!(wp.is_multiple_of(BLOCK));
            lost += u64::from(known.acknowledged.saturating_sub(wp));
            self.check(number, at_rest[number as usize], known.age);
        }
        lost
    }

    /// Reads what the medium holds of a zone: data up to `wp`, then nothing.
    fn check(&mut self, zone: u32, wp: u32, age: u8) {
        let port = self.stack.open_port();
        self.stack.submit(port, 0, self.drive, Box::new(pattern(Op::Read, zone, 0, CAPACITY, age)));
        loop {
            let next = self.stack.turn(self.now);
            if let Some(done) = self.stack.poll_completion(port) {
                let Payload::Data(data) = &done.bio.payload else { panic!("the memory is back") };
                let mut expected = bytes(zone, 0, wp, age);
                expected.resize(CAPACITY as usize * 512, 0);
                assert!(data.to_vec() == expected, "zone {zone} to {wp}");
                return;
            }
            self.now = next.expect("the read ends").max(self.now);
        }
    }
}

#[test]
fn whatever_the_drive_and_the_policy_everything_comes_back_once_and_reads_back() {
    for seed in 0..150 {
        let mut swarm = Swarm::new(seed);
        for _ in 0..400 {
            swarm.act();
            swarm.wait();
        }
        swarm.run(Instant(u64::MAX));
        assert_eq!((swarm.returned, swarm.stack.outstanding(swarm.port)), (swarm.sent, 0), "seed {seed}");
        assert!(swarm.sent > 100, "seed {seed}: {}", swarm.sent);
        for number in 0..ZONES {
            let Known { acknowledged, issued, age, full, .. } = swarm.zones[number as usize];
            assert_eq!(acknowledged, issued);
            if !full {
                swarm.check(number, acknowledged, age);
            }
        }
    }
}

#[test]
fn whenever_the_power_is_cut_each_zone_holds_a_prefix_with_all_that_was_promised() {
    let mut lost = 0;
    for seed in 0..200 {
        let mut swarm = Swarm::new(seed);
        let actions = 50 + swarm.rng.below(300);
        for _ in 0..actions {
            swarm.act();
            swarm.wait();
        }
        lost += swarm.cut(seed);
    }
    assert!(lost > 1000, "a volatile cache loses something: {lost} sectors");
}
