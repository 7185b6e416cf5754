//! Arbitrary bios through a real stack, a null device with `linear` layers on it, against a model that shares no code with
//! it: statuses, contents, append sectors, write pointers and conditions have to agree after every turn.

mod model;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use arbitrary::{Arbitrary, Unstructured};
use model::{Answer, Model, PlainBio};
use shingle_core::block::{Bio, Completion, Data, DeviceId, Flags, Op, Payload, PortId, Stack};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::Table;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, ZoneNo};

/// The device under test.
#[derive(Arbitrary, Debug)]
struct Shape {
    zoned: bool,
    zone_shift: u8,
    zones: u8,
    short_last: u8,
    capacity_cut: u8,
    conventional: u8,
    max_open: Option<u8>,
    max_active: Option<u8>,
    max_append: Option<u8>,
    zone_full: bool,
    block_shift: u8,
    max_sectors: Option<u8>,
    forgetful: bool,
    unwritten: u8,
    completion_ns: u8,
    write_cache: bool,
    read_only: bool,
    write_zeroes: bool,
    discard: bool,
    bad_once: bool,
    bad_partial: bool,
    layers: u8,
}

/// What happens to it.
#[derive(Debug)]
enum Step {
    /// Any bio at all. The sector is in 256ths of the device, and some more.
    Any { op: u8, sector: u8, more: u8, sectors: u8, flags: u8 },
    /// A write that has a chance: some blocks, or all the rest of the zone, or just some sectors.
    AtPointer { op: u8, zone: u8, size: u8, flags: u8 },
    /// Zone management of a zone.
    Manage { op: u8, zone: u8 },
    /// A zone fails or is revived.
    Fail { zone: u8, how: u8 },
    /// Sectors become bad or good. The first is in 256ths of the device.
    Bad { sector: u8, sectors: u8, bad: bool },
    /// Time passes.
    Turn { ns: u8 },
}

impl Step {
    /// Every four bytes are a step, and most steps write: the fuzzer finds long sequences sooner in a dense code.
    fn decode([kind, a, b, c]: [u8; 4]) -> Step {
        let high = kind >> 4;
        match kind & 15 {
            0..=6 => Step::AtPointer { op: high, zone: a, size: b, flags: c },
            7..=9 => Step::Manage { op: high, zone: a },
            10..=12 => Step::Any { op: a, sector: b, more: high, sectors: c & 63, flags: c >> 3 },
            13 => Step::Bad { sector: a, sectors: b & 15, bad: c & 1 == 0 },
            14 if high == 0 => Step::Fail { zone: a, how: b },
            _ => Step::Turn { ns: a },
        }
    }
}

impl Shape {
    fn config(&self) -> NullConfig {
        let block = 1 << (self.block_shift % 4);
        let whole = |sectors: u64| sectors - sectors % block;
        let zone_sectors = 8 << (self.zone_shift % 4);
        let zones = 1 + u64::from(self.zones % 6);
        let cut = whole(u64::from(self.capacity_cut) % zone_sectors);
        let short = if cut == 0 { whole(u64::from(self.short_last) % zone_sectors) } else { 0 };
        let at_most = |limit: &u8| 1 + u32::from(limit % 4);
        let max_active = self.max_active.as_ref().map(at_most);
        let max_open = self.max_open.as_ref().map(|limit| at_most(limit).min(max_active.unwrap_or(u32::MAX)));
        let append = |limit: u8| whole(1 + u64::from(limit) % (zone_sectors - cut)).max(block) as u32;
        let zoned = NullZones {
            zone_capacity: Some(zone_sectors - cut),
            conventional: u32::from(self.conventional) % zones as u32,
            max_open,
            max_active,
            max_append: self.max_append.map(append),
            zone_full: self.zone_full,
            ..NullZones::new(zone_sectors)
        };
        NullConfig {
            block_bytes: 512 * block as u32,
            max_sectors: self.max_sectors.map(|n| (block as u32).max(n.into())),
            memory_backed: !self.forgetful,
            unwritten: self.unwritten,
            completion: Duration(u64::from(self.completion_ns & 7)),
            write_cache: self.write_cache,
            read_only: self.read_only,
            write_zeroes: self.write_zeroes,
            discard: self.discard && !self.zoned,
            bad_blocks_once: self.bad_once,
            bad_blocks_partial_io: self.bad_partial,
            zoned: self.zoned.then_some(zoned),
            ..NullConfig::new(zones * zone_sectors - short)
        }
    }
}

/// The stack and the model side by side.
struct Pair {
    stack: Stack,
    null: DeviceId,
    top: DeviceId,
    port: PortId,
    now: Instant,
    model: Model,
    capacity: u64,
    block: u64,
    keeps_data: bool,
    expected: BTreeMap<u64, (PlainBio, Answer)>,
    next_tag: u64,
}

impl Pair {
    fn new(config: &NullConfig, layers: u8) -> Self {
        let mut stack = Stack::new();
        let device = NullDevice::new(config).expect("a shape is always a device");
        let null = stack.add(Box::new(device)).expect("its limits are valid");
        let mut top = null;
        for _ in 0..layers % 4 {
            let linear = Table::linear(top, stack.limits(top), 0, config.capacity).expect("the whole device");
            top = stack.add(Box::new(linear)).expect("few layers");
        }
        let port = stack.open_port();
        let (model, now, expected) = (Model::new(config), Instant::ZERO, BTreeMap::new());
        let (capacity, block, keeps_data) = (config.capacity, config.block_bytes as u64 / 512, config.memory_backed);
        Self { stack, null, top, port, now, model, capacity, block, keeps_data, expected, next_tag: 0 }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Any { op, sector, more, sectors, flags } => {
                let near = u64::from(sector) * self.capacity / 256 + u64::from(more & 7);
                let sector = if more == 15 { u64::MAX - u64::from(sector) } else { near };
                self.submit(Op::ALL[usize::from(op) % Op::COUNT], sector, sectors.into(), flags, op < 240);
            }
            Step::AtPointer { op, zone, size, flags } if self.model.zones() > 0 => {
                let zone = usize::from(zone) % self.model.zones();
                let (report, pointer) = (self.model.report(zone), self.model.pointer(zone));
                let sectors = match size {
                    0..192 => (u64::from(size & 3) + 1) * self.block,
                    192..224 => (report.start.0 + report.capacity).saturating_sub(pointer),
                    _ => u64::from(size & 31),
                };
                let op = [Op::Write, Op::Write, Op::ZoneAppend, Op::WriteZeroes][usize::from(op & 3)];
                let sector = if op == Op::ZoneAppend { report.start.0 } else { pointer };
                self.submit(op, sector, sectors as u32, flags & !4, true);
            }
            Step::Manage { op, zone } if self.model.zones() > 0 => {
                let start = self.model.report(usize::from(zone) % self.model.zones()).start.0;
                let ops = [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset, Op::ZoneResetAll];
                self.submit(ops[usize::from(op) % 5], start, 0, 0, true);
            }
            Step::Fail { zone, how } if self.model.zones() > 0 => {
                self.fail(usize::from(zone) % self.model.zones(), how)
            }
            Step::Bad { sector, sectors, bad } => {
                self.set_bad(u64::from(sector) * self.capacity / 256, sectors.into(), bad)
            }
            Step::Turn { ns } => {
                self.now = Instant(self.now.0 + u64::from(ns & 7));
                self.turn();
            }
            _ => {}
        }
    }

    fn submit(&mut self, op: Op, sector: u64, sectors: u32, flags: u8, payload_fits: bool) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let content = (tag + 1) << 16;
        let request = PlainBio { op, sector, sectors: sectors.into(), nowait: flags & 4 != 0, payload_fits, content };
        let payload = payload(&request, flags);
        let flags = [(1, Flags::FUA), (2, Flags::PREFLUSH), (4, Flags::NOWAIT)]
            .into_iter()
            .filter(|(bit, _)| flags & bit != 0)
            .fold(Flags::NONE, |all, (_, flag)| all.with(flag));
        self.expected.insert(tag, (request, self.model.run(request)));
        let bio = Bio::new(op, Sector(sector), sectors, payload).with_flags(flags);
        self.stack.submit(self.port, tag, self.top, Box::new(bio));
        // A report tells of the moment at which it is asked: the model has to be in that moment.
        if op == Op::ReportZones {
            self.drain();
        }
    }

    fn fail(&mut self, zone: usize, how: u8) {
        self.turn();
        let (no, null) = (ZoneNo(zone as u32), self.null);
        let cond = [Condition::ReadOnly, Condition::Offline, Condition::Empty][usize::from(how) % 3];
        let done = self.stack.with_device(null, |device: &mut NullDevice, _| match cond {
            Condition::ReadOnly => device.set_read_only(no).is_ok(),
            Condition::Offline => device.set_offline(no).is_ok(),
            _ => device.revive(no).is_ok(),
        });
        assert_eq!(done, Some(self.model.fail(zone, cond)), "zone {zone} to {cond:?}");
    }

    fn set_bad(&mut self, from: u64, sectors: u64, bad: bool) {
        self.turn();
        let range = Sector(from)..Sector((from + sectors).min(self.capacity));
        self.model.set_bad(from, sectors, bad);
        self.stack.with_device(self.null, |device: &mut NullDevice, _| {
            if bad { device.add_bad_blocks(range) } else { device.remove_bad_blocks(range) }
        });
    }

    /// Runs what is due, and compares all that can be seen.
    fn turn(&mut self) -> Option<Instant> {
        let next = self.stack.turn(self.now);
        while let Some(done) = self.stack.poll_completion(self.port) {
            self.compare(done);
        }
        let device = self.stack.device::<NullDevice>(self.null).expect("it is there");
        for zone in 0..self.model.zones() {
            assert_eq!(device.zone(ZoneNo(zone as u32)), self.model.report(zone), "zone {zone}");
        }
        next
    }

    fn drain(&mut self) {
        while let Some(next) = self.turn() {
            assert!(next > self.now, "time stands still");
            self.now = next;
        }
        assert!(self.expected.is_empty(), "never completed: {:?}", self.expected);
    }

    fn compare(&mut self, done: Completion) {
        let Completion { tag, bio, status } = done;
        let (request, answer) = self.expected.remove(&tag).expect("completed twice");
        assert_eq!(status, answer.status, "{request:?}");
        if !status.is_ok() {
            return;
        }
        match request.op {
            Op::Read if !self.keeps_data => {}
            Op::Read => assert_eq!(words(&bio.payload), answer.read, "{request:?}"),
            Op::ZoneAppend => assert_eq!(bio.sector, Sector(answer.at), "{request:?}"),
            Op::ReportZones => {
                let Payload::Zones(zones) = &bio.payload else { panic!("{request:?} lost its payload") };
                let first = (0..self.model.zones())
                    .find(|n| self.model.report(*n).start.0 + self.model.report(*n).len > request.sector);
                let there = (first.unwrap_or(self.model.zones())..self.model.zones()).map(|n| self.model.report(n));
                assert_eq!(*zones, there.take(zones.capacity()).collect::<Vec<_>>(), "{request:?}");
            }
            _ => {}
        }
    }

    /// Reads all that can be read.
    fn finish(mut self) {
        self.set_bad(0, self.capacity, false);
        let len = if self.model.zones() == 0 { self.capacity } else { self.model.report(0).len };
        for start in (0..self.capacity).step_by(len as usize) {
            self.submit(Op::Read, start, len.min(self.capacity - start) as u32, 0, true);
        }
        self.drain();
    }
}

/// Memory for a request, in one or two segments; or one that does not fit.
fn payload(request: &PlainBio, flags: u8) -> Payload {
    let PlainBio { op, sectors, payload_fits, content, .. } = *request;
    if op == Op::ReportZones {
        return if payload_fits { Payload::Zones(Vec::with_capacity(sectors as usize % 8)) } else { Payload::None };
    }
    if !matches!(op, Op::Read | Op::Write | Op::ZoneAppend) || sectors == 0 {
        return Payload::None;
    }
    if !payload_fits {
        return Payload::Data(Data::zeroed(sectors as usize * 512 + 512));
    }
    let data = Data::zeroed(sectors as usize * 512);
    for (n, word) in data.words().iter().enumerate() {
        word.store(content + n as u64 / 64, Relaxed);
    }
    let cut = usize::from(flags >> 3) * 8 % data.len();
    if cut == 0 {
        return Payload::Data(data);
    }
    Payload::Segments(vec![data.slice(0, cut), data.slice(cut, data.len() - cut)])
}

/// The word that each sector of a payload is filled with.
fn words(payload: &Payload) -> Vec<u64> {
    let segments = payload.segments().iter().flat_map(|data| data.words());
    let words: Vec<u64> = segments.map(|word| word.load(Relaxed)).collect();
    let sectors = words.chunks(64);
    sectors.clone().for_each(|sector| assert_eq!(sector, [sector[0]; 64], "a sector that was torn"));
    sectors.map(|sector| sector[0]).collect()
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    let Ok(shape) = Shape::arbitrary(&mut bytes) else { return };
    let (steps, _) = bytes.take_rest().as_chunks::<4>();
    let mut pair = Pair::new(&shape.config(), shape.layers);
    steps.iter().for_each(|step| pair.step(&Step::decode(*step)));
    pair.drain();
    pair.finish();
}
