//! What each layer costs: ns per bio, on one core, without I/O.
//!
//! `cargo bench -p shingle-core` prints a table; with `-- --json` one JSON object. Every figure is the median of several
//! rounds; all configurations take turns within each round, so their ratios hold on a noisy machine. With `-- --instructions`
//! it counts instructions per bio instead, which does not depend on the day: needs valgrind.

#[path = "counting/callgrind.rs"]
mod callgrind;
#[path = "../../lab/src/reproduce/noclone/clone_layer.rs"]
mod clone_layer;

use std::time::Instant;

use clone_layer::CloneLayer;
use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::{Options, Part, Sizing, Stl, create};
use shingle_core::dm::{Table, add_table, parse_table};
use shingle_core::mapper::stats::DmStats;
use shingle_core::multipath::{Head, HeadOptions, PathConfig, PolicyKind};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::scheduler::{SchedulerKind, SchedulerOptions};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::ZonedDisk;

/// 4 KiB.
const SECTORS: u32 = 8;
const DEPTH: u64 = 128;
const ZONE_SECTORS: u64 = 256 << 11;
const ZONES: u64 = 256;
const ROUNDS: usize = 15;
const IOS_A_ROUND: u64 = 1_000_000;
/// Time passes for the stack at this pace, whatever it really takes.
const TURN: Duration = Duration::from_micros(10);
/// Blocks of a volume that are read and written: 8 MiB.
const MAPPED: u64 = 1 << 11;
/// Most layers on top of each other.
const DEEPEST: usize = 8;

/// A stack under load: bios circulate between the port and the device, always `DEPTH` of them.
struct Load {
    name: String,
    stack: Stack,
    port: PortId,
    top: DeviceId,
    pattern: Pattern,
    random: u64,
    /// Next offset in each zone, in sectors.
    pointers: Vec<u64>,
    now: shingle_core::time::Instant,
    ns: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Pattern {
    RandomRead,
    RandomZoneWrite,
    /// All writes to one zone: they queue behind each other and merge.
    OneZoneWrite,
    /// Blocks of a volume that maps them, as many as the map of is in memory.
    MappedRead,
    MappedWrite,
}

/// What is put on top of a device, many times.
#[derive(Clone, Copy)]
enum Layer {
    /// A table of one linear line.
    Linear,
    /// A clone of each bio, as device mapper makes it.
    Clone,
    /// A table of one line with another target.
    Target(&'static str),
    /// A head over so many devices of its own, with a policy that costs next to nothing.
    Head(usize),
}

/// Numbers of paths.
const HEADS: [usize; 3] = [2, 4, 8];

/// Targets and their arguments. Encryption is that in software.
const TARGETS: [&str; 4] = [
    "zero",
    "striped 2 128 null 0 null 67108864",
    "delay null 0 0",
    "crypt aes-xts-plain64 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 0 null 0",
];

impl Layer {
    /// Those that are put on top of each other.
    const STACKED: [Layer; 2] = [Layer::Linear, Layer::Clone];

    fn name(self) -> String {
        match self {
            Layer::Linear => "linear".into(),
            Layer::Clone => "clone".into(),
            Layer::Target(line) => line.split(' ').next().unwrap_or(line).into(),
            Layer::Head(paths) => format!("head of {paths} paths"),
        }
    }

    fn add(self, stack: &mut Stack, below: DeviceId) -> DeviceId {
        let limits = stack.limits(below).clone();
        let device: Box<dyn BlockDevice> = match self {
            Layer::Target(line) => return add_line(stack, line, below),
            Layer::Head(paths) => Box::new(head(stack, below, paths)),
            Layer::Linear => Box::new(Table::linear(below, &limits, 0, limits.capacity).expect("whole")),
            Layer::Clone => Box::new(CloneLayer::new(below, &limits, 0)),
        };
        stack.add(device).expect("fits")
    }
}

fn add_line(stack: &mut Stack, line: &str, below: DeviceId) -> DeviceId {
    let text = format!("0 {} {line}", stack.limits(below).capacity);
    let lines = parse_table(&text).expect("it can be read");
    let device = move |_: &str| -> Result<DeviceId, Vec<String>> { Ok(below) };
    add_table(stack, &lines, &device).expect("it can be built")
}

/// A head over `first` and further null devices.
fn head(stack: &mut Stack, first: DeviceId, paths: usize) -> Head {
    let limits = stack.limits(first).clone();
    let others = (1..paths).map(|_| stack.add(Box::new(null(false))).expect("fits"));
    let all: Vec<_> = [first].into_iter().chain(others).map(|path| (PathConfig::new(path), &limits)).collect();
    Head::new(&all, PolicyKind::Numa, HeadOptions::default()).expect("the paths are alike")
}

fn null(zoned: bool) -> NullDevice {
    let zones = NullZones::new(ZONE_SECTORS);
    let capacity = ZONE_SECTORS * ZONES;
    let config = if zoned { NullConfig::zoned(capacity, zones) } else { NullConfig::new(capacity) };
    NullDevice::new(&config).expect("the parameters are right")
}

impl Load {
    fn new(name: &str, pattern: Pattern, policy: Option<WritePolicy>, (layer, depth): (Layer, usize)) -> Load {
        let mut stack = Stack::new();
        let mut top = stack.add(Box::new(null(policy.is_some()))).expect("fits");
        if let Some(policy) = policy {
            let options = PlugOptions { policy, ..PlugOptions::default() };
            let plug = ZonePlug::new(top, stack.limits(top), options).expect("zoned");
            top = stack.add(Box::new(plug)).expect("fits");
        }
        for _ in 0..depth {
            top = layer.add(&mut stack, top);
        }
        let now = shingle_core::time::Instant::ZERO;
        stack.turn(now);
        let port = stack.open_port();
        let pointers = vec![0; ZONES as usize];
        Load { name: name.into(), stack, port, top, pattern, random: 1, pointers, now, ns: vec![] }.started()
    }

    /// Random reads of a null device that takes some time for each, so that bios wait in its scheduler.
    fn slow(name: &str, scheduler: SchedulerKind) -> Load {
        let mut stack = Stack::new();
        let config = NullConfig { completion: TURN, ..NullConfig::new(ZONE_SECTORS * ZONES) };
        let top = stack.add(Box::new(NullDevice::new(&config).expect("the parameters are right"))).expect("fits");
        let (now, port) = (shingle_core::time::Instant::ZERO, stack.open_port());
        let pattern = Pattern::RandomRead;
        let load = Load { name: name.into(), stack, port, top, pattern, random: 1, pointers: vec![], now, ns: vec![] };
        load.scheduled(top, scheduler).started()
    }

    /// Sets the scheduler of the disk.
    fn scheduled(mut self, disk: DeviceId, kind: SchedulerKind) -> Load {
        SchedulerOptions { kind, ..SchedulerOptions::default() }.apply(&mut self.stack, disk);
        self
    }

    /// A volume of `stl` on a device in memory, with data in each block.
    fn stl(name: &str, pattern: Pattern) -> Load {
        let (zone_sectors, zones) = (1 << 15, 64);
        let mut stack = Stack::new();
        let config =
            NullConfig { memory_backed: true, ..NullConfig::zoned(zones * zone_sectors, NullZones::new(zone_sectors)) };
        let device = NullDevice::new(&config).expect("the parameters are right");
        let reported = device.zones().expect("it is zoned").zones(Sector::ZERO).collect();
        let disk = stack.add(Box::new(device)).expect("fits");
        let part = Part { id: [1; 16], zones: reported, sectors: zones * zone_sectors, max_active: None };
        let created = create(SetId([1; 16]), &[part], Sizing::with_reserve(50)).expect("there is room");
        let limits = stack.limits(disk).clone();
        let target = Stl::new(vec![disk], &[limits], created.sectors, Options::default());
        let top = stack.add(Box::new(target)).expect("fits");
        let (now, port) = (shingle_core::time::Instant::ZERO, stack.open_port());
        let (sector, bytes) = &created.roots[0];
        let root = Data::zeroed(bytes.len());
        root.write(0, bytes);
        stack.submit(
            port,
            0,
            disk,
            Box::new(Bio::new(Op::Write, *sector, bytes.len() as u32 / 512, Payload::Data(root))),
        );
        stack.turn(now);
        for block in 0..MAPPED {
            let data = Payload::Data(Data::zeroed(SECTORS as usize * 512));
            stack.submit(
                port,
                0,
                top,
                Box::new(Bio::new(Op::Write, Sector(block * u64::from(SECTORS)), SECTORS, data)),
            );
        }
        while stack.outstanding(port) > 0 {
            stack.turn(now);
            while stack.poll_completion(port).is_some() {}
        }
        Load { name: name.into(), stack, port, top, pattern, random: 1, pointers: vec![], now, ns: vec![] }.started()
    }

    /// The same with bios on their way.
    fn started(mut self) -> Load {
        let is_read = matches!(self.pattern, Pattern::RandomRead | Pattern::MappedRead);
        let op = if is_read { Op::Read } else { Op::Write };
        for tag in 0..DEPTH {
            let data = Payload::Data(Data::zeroed(SECTORS as usize * 512));
            self.send(tag, Box::new(Bio::new(op, Sector(0), SECTORS, data)));
        }
        self
    }

    /// The same with statistics of the top device: one region with areas of `step`.
    fn counted(mut self, step: &str) -> Load {
        let mut stats = DmStats::new();
        let capacity = self.stack.limits(self.top).capacity;
        stats.message(&["@stats_create", "-", step], capacity, self.now).expect("the message is right");
        self.stack.observe(self.top, Some(Box::new(stats)));
        self.name = format!("{}, areas {step}", self.name);
        self
    }

    #[inline]
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    #[inline]
    fn send(&mut self, tag: u64, mut bio: Box<Bio>) {
        let random = self.next_random();
        bio.sector = match self.pattern {
            Pattern::RandomRead => Sector((random % (ZONE_SECTORS * ZONES / 8)) * 8),
            Pattern::RandomZoneWrite => self.next_in_zone(random % ZONES),
            Pattern::OneZoneWrite => self.next_in_zone(0),
            Pattern::MappedRead | Pattern::MappedWrite => Sector(random % MAPPED * u64::from(SECTORS)),
        };
        self.stack.submit(self.port, tag, self.top, bio);
    }

    #[inline]
    fn next_in_zone(&mut self, zone: u64) -> Sector {
        if self.pointers[zone as usize] == ZONE_SECTORS {
            self.reset(zone);
        }
        let at = &mut self.pointers[zone as usize];
        *at += u64::from(SECTORS);
        Sector(zone * ZONE_SECTORS + *at - u64::from(SECTORS))
    }

    #[cold]
    fn reset(&mut self, zone: u64) {
        let reset = Bio::new(Op::ZoneReset, Sector(zone * ZONE_SECTORS), 0, Payload::None);
        self.stack.submit(self.port, u64::MAX, self.top, Box::new(reset));
        self.pointers[zone as usize] = 0;
    }

    /// One round; its cost per bio in ns is kept.
    fn round(&mut self) {
        let start = Instant::now();
        let done = self.carry(IOS_A_ROUND);
        self.ns.push(start.elapsed().as_nanos() as f64 / done as f64);
    }

    /// At least so many bios, and not many more; how many they were.
    fn carry(&mut self, bios: u64) -> u64 {
        let mut done = 0;
        while done < bios {
            self.now = self.now + TURN;
            self.stack.turn(self.now);
            while let Some(completion) = self.stack.poll_completion(self.port) {
                assert!(completion.status.is_ok(), "{}: {:?} failed", self.name, completion.bio);
                if completion.tag != u64::MAX {
                    self.send(completion.tag, completion.bio);
                    done += 1;
                }
            }
        }
        done
    }

    /// The median of all rounds, and the range of all but the two best and the two worst.
    fn spread(&mut self) -> Row {
        self.ns.sort_by(f64::total_cmp);
        let (ns, last) = (&self.ns, self.ns.len() - 1);
        Row { name: self.name.clone(), ns: ns[ns.len() / 2], range: [ns[2], ns[last - 2]] }
    }
}

/// Seconds to put a plug over a null device of `zones` zones, and the bytes it keeps for each.
fn attach(zones: u64) -> f64 {
    let start = Instant::now();
    let zoned = NullZones::new(8);
    let null = NullDevice::new(&NullConfig::zoned(zones * 8, zoned)).expect("the parameters are right");
    let mut stack = Stack::new();
    let below = stack.add(Box::new(null)).expect("fits");
    let plug = ZonePlug::new(below, stack.limits(below), PlugOptions::default()).expect("zoned");
    let top = stack.add(Box::new(plug)).expect("fits");
    stack.turn(shingle_core::time::Instant::ZERO);
    assert!(stack.device::<ZonePlug>(top).expect("a plug").is_ready());
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What a stack costs for each bio, in ns.
struct Row {
    name: String,
    ns: f64,
    range: [f64; 2],
}

/// All stacks that are measured.
fn stacks() -> Vec<Load> {
    let plug = Some(WritePolicy::Plug);
    let none = (Layer::Linear, 0);
    let mut loads = vec![
        Load::new("null, random read", Pattern::RandomRead, None, none),
        Load::new("zoned null, policy none", Pattern::RandomZoneWrite, Some(WritePolicy::None), none),
        Load::new("zoned null + plug", Pattern::RandomZoneWrite, plug, none),
        Load::new("zoned null + plug + 1 linear", Pattern::RandomZoneWrite, plug, (Layer::Linear, 1)),
        Load::new("zoned null + plug, one zone", Pattern::OneZoneWrite, plug, none),
        Load::new("zoned null + qd1", Pattern::RandomZoneWrite, Some(WritePolicy::Qd1), none),
        Load::new("zoned null + elevator", Pattern::RandomZoneWrite, Some(WritePolicy::Elevator), none),
        Load::new("zoned null + zone-lock", Pattern::RandomZoneWrite, Some(WritePolicy::ZoneLock), none),
    ];
    let deadline = SchedulerKind::MqDeadline;
    let reads = Load::new("null, random read, mq-deadline", Pattern::RandomRead, None, none);
    let disk = reads.top;
    loads.push(reads.scheduled(disk, deadline));
    let writes = Load::new("zoned null + plug, mq-deadline", Pattern::RandomZoneWrite, plug, none);
    let disk = writes.stack.below(writes.top)[0];
    loads.push(writes.scheduled(disk, deadline));
    loads.push(Load::slow("null of 10 us, random read", SchedulerKind::None));
    loads.push(Load::slow("null of 10 us, random read, mq-deadline", deadline));
    let on_null = |layer, depth| Load::new(&stacked(layer, depth), Pattern::RandomRead, None, (layer, depth));
    for layer in Layer::STACKED {
        loads.extend((1..=DEEPEST).map(|depth| on_null(layer, depth)));
    }
    loads.extend(TARGETS.map(|line| on_null(Layer::Target(line), 1)));
    loads.extend(HEADS.map(|paths| on_null(Layer::Head(paths), 1)));
    loads.extend(["/1", "/100"].map(|step| on_null(Layer::Linear, 1).counted(step)));
    loads.push(Load::stl("stl, random read", Pattern::MappedRead));
    loads.push(Load::stl("stl, random write", Pattern::MappedWrite));
    loads
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if let Some((name, bios)) = callgrind::asked(&arguments) {
        let mut stack = stacks().into_iter().find(|load| load.name == name).expect("there is such a stack");
        stack.carry(bios);
    } else if has("--instructions") {
        print_instructions();
    } else {
        measure(has("--json"));
    }
}

/// Runs each stack under callgrind.
fn print_instructions() {
    println!("{:<40} {:>16}", "stack", "instructions/bio");
    for Load { name, .. } in stacks() {
        println!("{name:<40} {:>16.0}", callgrind::per_bio(&name));
    }
}

fn measure(json: bool) {
    let mut loads = stacks();
    for _ in 0..ROUNDS {
        loads.iter_mut().for_each(Load::round);
    }
    let attach = median((0..9).map(|_| attach(100_000)).collect());
    let rows: Vec<Row> = loads.iter_mut().map(Load::spread).collect();
    let ns = |name: &str| rows.iter().find(|row| row.name == name).map_or(f64::NAN, |row| row.ns);
    let single = [
        ("ns per submit and complete (null)", ns("null, random read")),
        ("ns per plugged write, its zone included", ns("zoned null + plug") - ns("null, random read")),
        ("ns per bio, mq-deadline, none waits", ns("null, random read, mq-deadline") - ns("null, random read")),
        (
            "ns per bio, mq-deadline, 64 wait",
            ns("null of 10 us, random read, mq-deadline") - ns("null of 10 us, random read"),
        ),
        ("ns per bio, statistics of one area", ns("null + 1 linear, areas /1") - ns("null + 1 linear")),
        ("ns per bio, statistics of 100 areas", ns("null + 1 linear, areas /100") - ns("null + 1 linear")),
        ("bytes per idle zone, plug", ZonePlug::BYTES_PER_ZONE as f64),
        ("bytes per idle zone, plug and null", (ZonePlug::BYTES_PER_ZONE + ZonedDisk::BYTES_PER_ZONE) as f64),
        ("ms to attach 100,000 zones", attach * 1e3),
    ];
    let mut derived: Vec<(String, f64)> = single.map(|(name, value)| (name.to_owned(), value)).into();
    let of = |layer, depth| (ns(&stacked(layer, depth)) - ns("null, random read")) / depth as f64;
    for layer in Layer::STACKED {
        let name = |depth| format!("ns per {} layer, of {depth}", layer.name());
        derived.extend((1..=DEEPEST).map(|depth| (name(depth), of(layer, depth))));
    }
    let single = TARGETS.map(Layer::Target).into_iter().chain(HEADS.map(Layer::Head));
    derived.extend(single.map(|layer| (format!("ns per {} layer", layer.name()), of(layer, 1))));
    if json { print_json(&rows, &derived) } else { print_table(&rows, &derived) }
}

/// The name of so many layers on a null device.
fn stacked(layer: Layer, depth: usize) -> String {
    format!("null + {depth} {}", layer.name())
}

fn print_table(rows: &[Row], derived: &[(String, f64)]) {
    println!(
        "4 KiB, queue depth {DEPTH}, one core; median of {ROUNDS} rounds of {IOS_A_ROUND} bios, all but 2 at each end in the range\n"
    );
    println!("{:<40} {:>10} {:>15} {:>10} {:>10}", "stack", "ns/bio", "range", "M IOPS", "to null");
    for Row { name, ns, range: [from, to] } in rows {
        let range = format!("{from:.1}-{to:.1}");
        println!("{name:<40} {ns:>10.1} {range:>15} {:>10.1} {:>10.2}", 1e3 / ns, rows[0].ns / ns);
    }
    println!();
    derived.iter().for_each(|(name, value)| println!("{name:<40} {value:>10.1}"));
}

fn print_json(rows: &[Row], derived: &[(String, f64)]) {
    let stacks = rows.iter().map(|Row { name, ns, range: [from, to] }| {
        format!("{{\"stack\": \"{name}\", \"ns\": {ns:.2}, \"range\": [{from:.2}, {to:.2}]}}")
    });
    let figures: Vec<String> = derived.iter().map(|(name, value)| format!("\"{name}\": {value:.2}")).collect();
    println!("{{\"stacks\": [{}], \"figures\": {{{}}}}}", stacks.collect::<Vec<_>>().join(", "), figures.join(", "));
}
