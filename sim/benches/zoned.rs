//! What the target `zoned` costs on a RAM disk: ns per mapped 4 KiB bio on one core, and the start of a full 15 TB volume.
//!
//! `cargo bench -p shingle-sim --bench zoned`. Every figure is the median of several rounds in which all loads take turns.

use std::time::Instant;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::zoned::format::{FormatOptions, Label, Layout, MapEntry, Media, NO_ZONE, format};
use shingle_core::dm::zoned::{Number, SetZone, Zoned};
use shingle_core::dm::{build_table, parse_table};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_sim::StackMedia;

const SECTORS: u32 = 8;
const DEPTH: u64 = 128;
const ROUNDS: usize = 9;
const IOS_A_ROUND: u64 = 500_000;
/// Time passes for the stack at this pace, whatever it really takes.
const TURN: Duration = Duration::from_micros(10);

/// Zones of the RAM disk: 1 MiB each, so that what is used of it fits the caches: what memory costs is not the question.
const ZONE_SECTORS: u64 = 2_048;
const ZONES: u64 = 64;
const CONVENTIONAL: u32 = 24;

/// The disk of the published figures: 55,880 zones of 256 MiB, one in a hundred conventional.
const LARGE_ZONES: u32 = 55_880;
const LARGE_ZONE_SECTORS: u64 = 524_288;

fn disk(zones: u64, zone_sectors: u64, conventional: u32, zone_full: bool) -> NullDevice {
    let shape = NullZones { conventional, zone_full, ..NullZones::new(zone_sectors) };
    let config = NullConfig::zoned(zones * zone_sectors, shape);
    NullDevice::new(&NullConfig { memory_backed: true, block_bytes: 4096, ..config }).expect("the parameters are right")
}

fn options() -> FormatOptions {
    let label = Label::new("bench").expect("a label");
    FormatOptions { version: 2, label, set_uuid: [1; 16], device_uuids: vec![[2; 16]], reserved: None }
}

/// A zoned volume of so many chunks on device `plug`.
fn volume(stack: &mut Stack, plug: DeviceId, sectors: u64) -> (DeviceId, DeviceId) {
    let lines = parse_table(&format!("0 {sectors} zoned disk")).expect("it can be read");
    let find = move |_: &str| -> Result<DeviceId, Vec<String>> { Ok(plug) };
    let built = build_table(stack, &lines, &find).expect("it can be built");
    let target = built.targets[0].expect("it has a device");
    (stack.add(Box::new(built.table)).expect("fits"), target)
}

/// Bios that circulate, `DEPTH` of them, over so many sectors of a device.
struct Load {
    name: &'static str,
    sectors: u64,
    top: DeviceId,
    stack: Stack,
    port: PortId,
    random: u64,
    now: shingle_core::time::Instant,
    ns: Vec<f64>,
}

impl Load {
    /// The RAM disk itself, or a volume on it whose first chunks are all written; of the kernel's policy they stay in random
    /// zones.
    fn new(name: &'static str, op: Op, policy: Option<&str>) -> Self {
        let mut stack = Stack::new();
        let leaf = stack.add(Box::new(disk(ZONES, ZONE_SECTORS, CONVENTIONAL, false))).expect("fits");
        let limits = stack.limits(leaf).clone();
        let sectors = 12 * ZONE_SECTORS;
        let mut load = Self {
            name,
            sectors,
            top: leaf,
            port: stack.open_port(),
            stack,
            random: 1,
            now: shingle_core::time::Instant::ZERO,
            ns: vec![],
        };
        if let Some(policy) = policy {
            let plug = ZonePlug::new(leaf, &limits, PlugOptions::default()).expect("zoned");
            let plug = load.stack.add(Box::new(plug)).expect("fits");
            let mut media = StackMedia::new(&mut load.stack, &[plug], load.now).expect("a set");
            let layout = format(&mut media, &options(), &mut |_, _| {}).expect("it can be formatted");
            let (top, target) = volume(&mut load.stack, plug, u64::from(layout.chunks) * ZONE_SECTORS);
            load.top = top;
            load.stack.message(target, &["set", "policy", policy]).expect("it is known");
        }
        load.fill();
        for tag in 0..DEPTH {
            let data = Payload::Data(Data::zeroed(SECTORS as usize * 512));
            load.send(tag, Box::new(Bio::new(op, Sector(0), SECTORS, data)));
        }
        load
    }

    fn fill(&mut self) {
        for at in (0..self.sectors).step_by(2048) {
            let data = Payload::Data(Data::zeroed(2048 * 512));
            self.stack.submit(self.port, 0, self.top, Box::new(Bio::new(Op::Write, Sector(at), 2048, data)));
            while self.stack.outstanding(self.port) > 0 {
                self.now = self.now + TURN;
                self.stack.turn(self.now);
                while let Some(done) = self.stack.poll_completion(self.port) {
                    assert_eq!(done.status, Status::Ok, "{}", self.name);
                }
            }
        }
    }

    #[inline]
    fn send(&mut self, tag: u64, mut bio: Box<Bio>) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        bio.sector = Sector(self.random % (self.sectors / 8) * 8);
        self.stack.submit(self.port, tag, self.top, bio);
    }

    fn round(&mut self) {
        let (mut done, start) = (0, Instant::now());
        while done < IOS_A_ROUND {
            self.now = self.now + TURN;
            self.stack.turn(self.now);
            while let Some(completion) = self.stack.poll_completion(self.port) {
                assert!(completion.status.is_ok(), "{}: {:?} failed", self.name, completion.bio);
                self.send(completion.tag, completion.bio);
                done += 1;
            }
        }
        self.ns.push(start.elapsed().as_nanos() as f64 / done as f64);
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// A 15 TB volume every chunk of which is mapped and wholly valid; returns the seconds that its start takes.
fn start_full_disk() -> f64 {
    let mut stack = Stack::new();
    let conventional = LARGE_ZONES / 100;
    let leaf = disk(u64::from(LARGE_ZONES), LARGE_ZONE_SECTORS, conventional, true);
    let leaf = stack.add(Box::new(leaf)).expect("fits");
    let now = shingle_core::time::Instant::ZERO;
    let layout = {
        let mut media = StackMedia::new(&mut stack, &[leaf], now).expect("a set");
        let layout = Layout::choose(media.space(), None).expect("it has one");
        write_full(&mut media, &layout);
        layout
    };
    let (top, target) = volume(&mut stack, leaf, u64::from(layout.chunks) * LARGE_ZONE_SECTORS);
    let port = stack.open_port();
    let data = Payload::Data(Data::zeroed(4096));
    let begin = Instant::now();
    stack.submit(port, 0, top, Box::new(Bio::new(Op::Read, Sector(0), SECTORS, data)));
    let mut now = now;
    while stack.poll_completion(port).is_none() {
        now = now + TURN;
        stack.turn(now);
    }
    assert!(stack.device::<Zoned>(target).expect("the target").is_loaded());
    begin.elapsed().as_secs_f64()
}

/// Metadata in which each chunk has a sequential zone, or a random one when those are used up, all of it valid.
fn write_full(media: &mut dyn Media, layout: &Layout) {
    let random = LARGE_ZONES / 100;
    let first_random = layout.first_zone + 2 * layout.metadata_zones;
    let zone_of = |chunk: u32| {
        let sequential = random + chunk;
        if sequential < LARGE_ZONES { SetZone(sequential) } else { first_random + (sequential - LARGE_ZONES) }
    };
    let mut map = vec![0xff; layout.map_blocks as usize * 4096];
    let mut bits = vec![0; layout.bitmap_blocks as usize * 4096];
    let of_zone = layout.bitmap_blocks as usize * 4096 / LARGE_ZONES as usize;
    for chunk in 0..layout.chunks {
        let entry = MapEntry { dzone: zone_of(chunk), bzone: NO_ZONE };
        map[chunk as usize * 8..][..8].copy_from_slice(&entry.encode());
        bits[entry.dzone.index() * of_zone..][..of_zone].fill(0xff);
    }
    for set in 0..2 {
        let start = layout.set_start(media.space(), set);
        let superblock = layout.superblock(media.space(), set, &options()).encode();
        let all = [&superblock[..], &map, &bits].concat();
        // A range of blocks lies in one zone.
        let zone_bytes = media.space().zone_blocks() as usize * 4096;
        for (at, zone) in all.chunks(zone_bytes).enumerate() {
            let first = start + at as u64 * u64::from(media.space().zone_blocks());
            media.write(first, zone).expect("it can be written");
        }
    }
}

fn main() {
    let mut loads = [
        Load::new("RAM disk, random reads", Op::Read, None),
        Load::new("zoned, random reads of sequential zones", Op::Read, Some("shingle")),
        Load::new("zoned, random reads of random zones", Op::Read, Some("kernel")),
        Load::new("zoned, random writes in place", Op::Write, Some("kernel")),
    ];
    for _ in 0..ROUNDS {
        loads.iter_mut().for_each(Load::round);
    }
    println!("4 KiB, queue depth {DEPTH}, one core; median of {ROUNDS} rounds of {IOS_A_ROUND} bios\n");
    println!("{:<42} {:>10} {:>10}", "load", "ns/bio", "M IOPS");
    for load in &mut loads {
        let ns = median(&mut load.ns);
        println!("{:<42} {ns:>10.1} {:>10.2}", load.name, 1e3 / ns);
    }
    let mut starts: Vec<f64> = (0..3).map(|_| start_full_disk()).collect();
    println!("\nstart of a full 15 TB volume, {LARGE_ZONES} zones: {:.2} s (median of 3)", median(&mut starts));
}
