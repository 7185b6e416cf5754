//! What the write policies make of a rotational disk, and of one with a price for every command, in virtual time.
//!
//! The disks here are as simple as can be: one command after the other, each with its price. They show what the order of
//! commands is worth, not how fast a product is.

use std::collections::VecDeque;

use shingle_core::block::{
    Bio, BlockDevice, Cx, Data, DeviceId, Event, Limits, Op, Payload, Stack, Status, ZonedLimits,
};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone, ZoneKind};
use shingle_sim::{Actor, Io, World};

const ZONE: u64 = 256 << 11;
const ZONES: u64 = 1024;
const MIB: u32 = 2048;

/// What a command costs beside the transfer, given how far it is from the end of the last one.
type Price = fn(way: u64) -> u64;

/// A disk that does one command after the other, reads and writes alike.
struct OneArm {
    limits: Limits,
    price: Price,
    ns_per_sector: u64,
    least_ns: u64,
    head: u64,
    commands: VecDeque<Box<Bio>>,
}

impl OneArm {
    /// 7200 turns a minute, 250 MB/s. Going on where the last command ended costs nothing but the command.
    fn turning() -> Self {
        let price = |way: u64| match way {
            0 => 50_000,
            _ => 4_200_000 + 500_000 + ((way as f64 / (ZONES * ZONE) as f64).sqrt() * 15e6) as u64,
        };
        Self::new(price, 2_048, true)
    }

    /// 1.1 GB/s, and no command takes less than 20 us.
    fn flash() -> Self {
        Self { least_ns: 20_000, ..Self::new(|_| 1_000, 460, false) }
    }

    fn new(price: Price, ns_per_sector: u64, rotational: bool) -> Self {
        let zoned = Some(ZonedLimits::new(ZONE as u32));
        let limits = Limits { zoned, rotational, max_sectors: Some(32 * MIB), ..Limits::new(ZONES * ZONE) };
        Self { limits, price, ns_per_sector, least_ns: 0, head: 0, commands: VecDeque::new() }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if let Some(bio) = self.commands.front() {
            let price = (self.price)(bio.sector.0.abs_diff(self.head));
            let transfer = (u64::from(bio.sectors) * self.ns_per_sector).max(self.least_ns);
            self.head = bio.end().0;
            cx.wake_at(cx.now() + Duration::from_nanos(price + transfer), 0);
        }
    }
}

impl BlockDevice for OneArm {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if let Payload::Zones(room) = &mut bio.payload {
            let (kind, cond) = (ZoneKind::Sequential, Condition::Empty);
            let zone = |start| Zone { start, len: ZONE, capacity: ZONE, wp: start, kind, cond };
            room.extend((0..ZONES).map(|n| zone(Sector(n * ZONE))));
            return cx.complete(bio, Status::Ok);
        }
        self.commands.push_back(bio);
        if self.commands.len() == 1 {
            self.start(cx);
        }
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        let done = self.commands.pop_front().expect("a command is at the arm");
        cx.complete(done, Status::Ok);
        self.start(cx);
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("one arm")
    }
}

/// Where the next write goes.
#[derive(Clone, Copy)]
enum Pattern {
    /// One zone after the other, each in one go.
    Sequential,
    /// A random one of so many zones.
    Random(u64),
    /// The first zone all the time, but for a write to a far one now and then.
    Hog,
}

/// Keeps a number of writes under way; each answer takes some of its CPU.
struct Writer {
    top: DeviceId,
    pattern: Pattern,
    sectors: u32,
    /// Time between two submissions.
    cpu: Duration,
    rng: Rng,
    next: Vec<u64>,
    memory: Data,
    owed: u64,
    free_at: Instant,
    done_sectors: u64,
    sent: u64,
}

impl Writer {
    fn place(&mut self) -> u64 {
        let zone = match self.pattern {
            Pattern::Sequential => self.next.iter().position(|next| *next < ZONE).expect("the disk is large") as u64,
            Pattern::Random(zones) => self.rng.below(zones) * (ZONES / 2 / zones),
            Pattern::Hog if self.sent.is_multiple_of(64) => ZONES - 1 - self.rng.below(8),
            Pattern::Hog => self.next.iter().position(|next| *next < ZONE).expect("the disk is large") as u64,
        };
        let next = &mut self.next[zone as usize];
        *next += u64::from(self.sectors);
        zone * ZONE + *next - u64::from(self.sectors)
    }
}

impl Actor for Writer {
    fn act(&mut self, io: &mut Io<'_>) {
        while let Some(done) = io.completion() {
            assert_eq!(done.status, Status::Ok, "{:?}", done.bio);
            self.done_sectors += u64::from(self.sectors);
            self.owed += 1;
        }
        while self.owed > 0 && self.free_at <= io.now() {
            let sector = Sector(self.place());
            let payload = Payload::Data(self.memory.clone());
            io.submit(0, self.top, Box::new(Bio::new(Op::Write, sector, self.sectors, payload)));
            self.owed -= 1;
            self.sent += 1;
            self.free_at = io.now() + self.cpu;
        }
        if self.owed > 0 {
            io.wake_at(self.free_at);
        }
    }

    fn is_done(&self) -> bool {
        false
    }
}

struct Load {
    pattern: Pattern,
    depth: u64,
    sectors: u32,
    cpu_ns: u64,
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    mb_per_s: f64,
    longest_wait_ms: u64,
}

fn run(disk: OneArm, options: PlugOptions, load: Load, seconds: u64) -> Outcome {
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(disk)).unwrap();
    let top = stack.add(Box::new(ZonePlug::new(disk, stack.limits(disk), options).unwrap())).unwrap();
    let mut world = World::new(stack);
    let Load { pattern, depth, sectors, cpu_ns } = load;
    let writer = world.add(Box::new(Writer {
        top,
        pattern,
        sectors,
        cpu: Duration::from_nanos(cpu_ns),
        rng: Rng::new(1),
        next: vec![0; ZONES as usize],
        memory: Data::zeroed(sectors as usize * 512),
        owed: depth,
        free_at: Instant::ZERO,
        done_sectors: 0,
        sent: 0,
    }));
    let end = Instant::ZERO + Duration::from_millis(seconds * 1_000);
    world.run(end);
    world.stack.device::<ZonePlug>(top).unwrap().verify().unwrap();
    let writer: &Writer = world.actor(writer).unwrap();
    let mb_per_s = writer.done_sectors as f64 * 512.0 / 1e6 / seconds as f64;
    let longest_wait = world.stack.device::<ZonePlug>(top).unwrap().longest_wait();
    Outcome { mb_per_s, longest_wait_ms: longest_wait.as_nanos() / 1_000_000 }
}

fn under(policy: WritePolicy) -> PlugOptions {
    PlugOptions { policy, ..PlugOptions::default() }
}

const ORDERED: [WritePolicy; 3] = [WritePolicy::Plug, WritePolicy::Qd1, WritePolicy::Elevator];
/// What the turning disk writes at most.
const MEDIA_MB_PER_S: f64 = 250.0;

/// 1 MiB writes to a rotational disk, under each policy in turn.
fn turning(pattern: Pattern, depth: u64, seconds: u64) -> [Outcome; 3] {
    let load = || Load { pattern, depth, sectors: MIB, cpu_ns: 5_000 };
    ORDERED.map(|policy| run(OneArm::turning(), under(policy), load(), seconds))
}

#[test]
fn sequential_writing_reaches_the_media_rate_at_every_depth() {
    for depth in [1, 2, 4, 8, 16, 32, 64, 128] {
        let [plug, qd1, elevator] = turning(Pattern::Sequential, depth, 10);
        println!("{depth:>3} deep: {plug:?} {qd1:?} {elevator:?}");
        let alone = turning(Pattern::Sequential, 1, 10)[0].mb_per_s;
        assert!(qd1.mb_per_s >= 0.99 * alone.min(MEDIA_MB_PER_S), "{depth} deep: {qd1:?}");
        assert!(elevator.mb_per_s >= 0.99 * alone.min(MEDIA_MB_PER_S), "{depth} deep: {elevator:?}");
    }
}

#[test]
fn over_random_zones_each_policy_is_faster_than_the_one_before() {
    for (zones, depth) in
        [1, 2, 4, 8, 16, 32, 64, 128].into_iter().flat_map(|zones| [(zones, 16), (zones, 64), (zones, 512)])
    {
        let [plug, qd1, elevator] = turning(Pattern::Random(zones), depth, 20);
        println!("{zones:>3} zones, {depth:>3} deep: {plug:?} {qd1:?} {elevator:?}");
        assert!(qd1.mb_per_s >= plug.mb_per_s, "{zones} zones, {depth} deep");
        assert!(elevator.mb_per_s >= 0.999 * qd1.mb_per_s, "{zones} zones, {depth} deep");
    }
}

#[test]
fn a_zone_that_never_runs_empty_does_not_starve_others() {
    let [_, qd1, elevator] = turning(Pattern::Hog, 64, 60);
    println!("{qd1:?} {elevator:?}");
    assert!(elevator.mb_per_s >= qd1.mb_per_s);
    // Of 64 bios at most 63 are older, but a batch takes many of the hog's: one batch at hand and one in between.
    assert!(elevator.longest_wait_ms <= 5_000 + 2 * 1_700, "{elevator:?}");
}

#[test]
fn small_sequential_writes_to_flash_leave_in_commands_of_even_size() {
    for (depth, cpu_ns) in [(1, 500), (4, 500), (16, 0), (16, 500), (16, 1_000), (64, 500)] {
        let load = || Load { pattern: Pattern::Sequential, depth, sectors: 8, cpu_ns };
        let [plug, _, elevator] = ORDERED.map(|policy| run(OneArm::flash(), under(policy), load(), 1));
        println!("{depth:>2} deep, {cpu_ns:>4} ns of CPU: {plug:?} {elevator:?}");
        assert!(elevator.mb_per_s >= 0.995 * plug.mb_per_s, "{depth} deep");
        assert!(depth != 16 || elevator.mb_per_s >= 1_000.0, "{elevator:?}");
    }
}
