//! Live drives over a store that outlives them. The program ends between any two steps of the store, the drive is loaded again, and
//! what is there is compared with what was asked and answered. Stores that break their promise are put in the place of the good
//! one, and the same seeds have to notice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::take;
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Completion, Data, Flags, Op, Payload, Reason, Status, Survival};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::{ZoneGeometry, ZoneNo, ZoneState};
use shingle_drives::live::{LiveDrive, Model, adopt};
use shingle_drives::medium::Store;
use shingle_drives::service::ServiceTime;
use shingle_drives::smr::{Cache, Link, Media, Seek, ZoneTimes};
use shingle_drives::{RamConfig, RamDisk, SmrConfig, SmrDisk, Ssd, SsdConfig, ZnsConfig, ZnsSsd};

use crate::desk::Desk;

/// Sectors of a block, and blocks of a zone and of a drive.
const BLOCK: u32 = 8;
const ZONE: u64 = 8;
const BLOCKS: u64 = 6 * ZONE;

/// What is wrong with a store.
#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// A pointer is stored before the data that it covers.
    PointerFirst,
    /// What is discarded is still there.
    DiscardsNothing,
    /// A zone that was reset is not.
    ForgetsResets,
}

struct Files {
    bug: Bug,
    blocks: BTreeMap<u64, Vec<u8>>,
    zones: BTreeMap<ZoneNo, ZoneState>,
    /// What `PointerFirst` has not written yet.
    late: Vec<(u64, Vec<u8>)>,
    /// Steps until the program ends; what it does after that never happens.
    steps: u64,
    full: bool,
}

impl Files {
    /// Whether one more step is done.
    fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }

    fn put(&mut self, blocks: Vec<(u64, Vec<u8>)>) {
        for (number, block) in blocks {
            if self.step() {
                self.blocks.insert(number, block);
            }
        }
    }

    fn catch_up(&mut self) {
        let late = take(&mut self.late);
        self.put(late);
    }
}

struct Shelf(RefCell<Files>);

impl Shelf {
    fn new(bug: Bug) -> Rc<Self> {
        let (blocks, zones) = (BTreeMap::new(), BTreeMap::new());
        Rc::new(Self(RefCell::new(Files { bug, blocks, zones, late: Vec::new(), steps: u64::MAX, full: false })))
    }

    fn has_ended(&self) -> bool {
        self.0.borrow().steps == 0
    }
}

const REFUSED: Reason = Reason::Failing("the store is full");

impl Store for Shelf {
    fn read(&self, at: Sector, payload: &Payload) -> Result<(), Reason> {
        self.0.borrow_mut().catch_up();
        let files = self.0.borrow();
        let first = at.0 / u64::from(BLOCK);
        for (number, part) in (first..).zip(0..payload.bytes() as u32 / 4096) {
            let Payload::Data(part) = payload.slice(part * BLOCK, BLOCK) else { panic!("one segment") };
            part.write(0, files.blocks.get(&number).map_or(&[0; 4096][..], |block| block));
        }
        Ok(())
    }

    fn write(&self, at: Sector, payload: &Payload) -> Result<(), Reason> {
        let mut files = self.0.borrow_mut();
        if files.full {
            return Err(REFUSED);
        }
        files.catch_up();
        let Payload::Data(data) = payload else { panic!("one segment") };
        let data = data.to_vec();
        let blocks = (at.0 / u64::from(BLOCK)..).zip(data.chunks(4096).map(<[u8]>::to_vec)).collect();
        if files.bug == Bug::PointerFirst {
            files.late = blocks
        } else {
            files.put(blocks)
        }
        Ok(())
    }

    fn discard(&self, at: Sector, sectors: u64) -> Result<(), Reason> {
        let mut files = self.0.borrow_mut();
        files.catch_up();
        let (first, last) = (at.0 / u64::from(BLOCK), (at.0 + sectors) / u64::from(BLOCK));
        if files.step() && files.bug != Bug::DiscardsNothing {
            files.blocks.retain(|number, _| !(first..last).contains(number));
        }
        Ok(())
    }

    fn zone(&self, zone: ZoneNo) -> Result<ZoneState, Reason> {
        Ok(self.0.borrow().zones.get(&zone).copied().unwrap_or(ZoneState::EMPTY))
    }

    fn keep_zone(&self, zone: ZoneNo, state: ZoneState) -> Result<(), Reason> {
        let mut files = self.0.borrow_mut();
        if files.full {
            return Err(REFUSED);
        }
        if files.step() && (files.bug != Bug::ForgetsResets || state.wp > 0) {
            files.zones.insert(zone, state);
        }
        files.catch_up();
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.0.borrow().blocks.len() as u64 * 4096
    }

    fn place(&self) -> &str {
        "a shelf"
    }
}

fn smr() -> Box<dyn Model> {
    let us = Duration::from_micros;
    let cache = SmrConfig::new(100).cache;
    let config = SmrConfig {
        capacity: BLOCKS * u64::from(BLOCK),
        zone_sectors: ZONE * u64::from(BLOCK),
        conventional: 2,
        max_open: Some(3),
        logical_block_bytes: 4096,
        physical_block_bytes: 4096,
        max_sectors: 64,
        media: Media { turn: us(80), outer_rate: 250e6, inner_ratio: 0.5, conventional_ratio: 1.0 },
        seek: Seek { track: us(3), average: us(80), full: us(160) },
        link: Link { rate: 560e6, command: us(2), depth: 8 },
        cache: Cache { write_back: true, bytes: 64 << 10, segment_bytes: 8 << 10, entries: 16, ..cache },
        manage: ZoneTimes { reset: us(100), finish: us(100), open_close: us(1) },
        ..SmrConfig::new(100)
    };
    Box::new(SmrDisk::new(&config).unwrap())
}

fn zns() -> Box<dyn Model> {
    let us = Duration::from_micros;
    let config = ZnsConfig {
        capacity: BLOCKS * u64::from(BLOCK),
        zone_sectors: ZONE * u64::from(BLOCK),
        zone_capacity: (ZONE - 1) * u64::from(BLOCK),
        max_open: Some(3),
        max_active: Some(4),
        block_bytes: 4096,
        max_append: None,
        write_cache: true,
        memory_backed: true,
        write_command: us(5),
        completion: us(2),
        program: us(100),
        erase: us(200),
        channels: 2,
        dies_per_zone: 2,
        program_unit_bytes: 16384,
        ..ZnsConfig::new(1)
    };
    Box::new(ZnsSsd::new(config).unwrap())
}

fn ssd() -> Box<dyn Model> {
    let us = Duration::from_micros;
    let config = SsdConfig {
        capacity: BLOCKS * u64::from(BLOCK),
        block_bytes: 4096,
        max_sectors: 64,
        read_rate: 2 << 30,
        write_rate: 1 << 30,
        read: us(10),
        write: us(20),
        flush: us(100),
        memory_backed: true,
    };
    Box::new(Ssd::new(&config).unwrap())
}

fn ram() -> Box<dyn Model> {
    let write = ServiceTime::Constant(Duration::from_micros(15));
    let config = RamConfig { servers: 3, write, block_bytes: 4096, ..RamConfig::new(BLOCKS * u64::from(BLOCK)) };
    Box::new(RamDisk::new(&config).unwrap())
}

/// A model, with its name.
type Named = (&'static str, fn() -> Box<dyn Model>);

const MODELS: [Named; 4] = [("smr", smr), ("zns", zns), ("ssd", ssd), ("ram", ram)];

/// Begins a life of the program, with the drive of what is on the shelf.
fn begin(model: fn() -> Box<dyn Model>, shelf: &Rc<Shelf>, seed: u64) -> Result<Desk, Reason> {
    let mut model = model();
    adopt(&mut *model, &(shelf.clone() as Rc<dyn Store>))?;
    Ok(Desk::live(model, seed))
}

impl Desk {
    fn geometry(&self) -> Option<ZoneGeometry> {
        self.drive().zones().map(|zones| *zones.geometry())
    }

    fn block(&mut self, number: u64) -> u64 {
        let payload = Payload::Data(Data::zeroed(4096));
        let (status, data) = self.wait(Bio::new(Op::Read, sector(number), BLOCK, payload));
        assert_eq!(status, Status::Ok, "block {number} reads");
        let stamp = u64::from_le_bytes(data[..8].try_into().unwrap());
        assert!(data.chunks(8).all(|word| word == stamp.to_le_bytes()), "block {number} is whole");
        stamp
    }

    /// Blocks of a zone that are written.
    fn written(&self, zone: u64) -> u64 {
        u64::from(self.drive().zones().unwrap().state(ZoneNo(zone as u32)).wp / BLOCK)
    }
}

fn sector(block: u64) -> Sector {
    Sector(block * u64::from(BLOCK))
}

fn stamped(at: u64, stamps: &[u64]) -> Bio {
    let data = Data::zeroed(stamps.len() * 4096);
    stamps.iter().enumerate().for_each(|(at, stamp)| data.write(at * 4096, &stamp.to_le_bytes().repeat(512)));
    Bio::new(Op::Write, sector(at), stamps.len() as u32 * BLOCK, Payload::Data(data))
}

/// How a life ended, or was interrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The program ended: what was answered is there.
    Kill,
    /// The power went: what was made durable is there.
    Cut,
}

/// What may be in a block that can be written anywhere.
#[derive(Clone, Default)]
struct Cell {
    /// What was durable, and what was written since.
    durable: u64,
    since: Vec<u64>,
    /// What was answered last, and what was not answered.
    answered: u64,
    pending: Option<u64>,
}

/// What may be in a sequential zone.
#[derive(Clone, Default)]
struct Row {
    stamps: Vec<u64>,
    answered: usize,
    durable: usize,
    /// A reset or a finish was asked for, and was not answered.
    resets: bool,
    finishes: bool,
    /// It was finished.
    full: bool,
    pending: usize,
}

#[derive(Clone)]
enum Asked {
    Write(u64, Vec<u64>, bool),
    Flush(Vec<(u64, u64)>, Vec<usize>),
    Reset(u64),
    Finish(u64),
}

/// What was asked, what was answered, and so what must be there.
struct Oracle {
    geometry: Option<ZoneGeometry>,
    /// Whether an answer makes durable.
    is_safe: bool,
    cells: BTreeMap<u64, Cell>,
    rows: BTreeMap<u64, Row>,
    asked: BTreeMap<u64, Asked>,
    stamps: u64,
}

impl Oracle {
    fn new(geometry: Option<ZoneGeometry>, is_safe: bool) -> Self {
        let free = geometry.map_or(BLOCKS, |geometry| u64::from(geometry.conventional()) * ZONE);
        let zones = free / ZONE..geometry.map_or(0, |geometry| geometry.zones().into());
        let cells = (0..free).map(|block| (block, Cell::default())).collect();
        let rows = zones.map(|zone| (zone, Row::default())).collect();
        Self { geometry, is_safe, cells, rows, asked: BTreeMap::new(), stamps: 0 }
    }

    fn capacity(&self) -> usize {
        self.geometry.map_or(0, |geometry| (geometry.zone_capacity() / BLOCK) as usize)
    }

    /// Something to do; `None` if what was drawn cannot be done now.
    fn draw(&mut self, rng: &mut Rng) -> Option<Bio> {
        let tag = self.stamps + 1;
        self.stamps += 8;
        let flags = if rng.chance(1, 8) { Flags::FUA } else { Flags::NONE };
        let wants_zone = !self.rows.is_empty() && (self.cells.is_empty() || rng.chance(2, 3));
        let (bio, asked) = match rng.below(20) {
            0 | 1 => {
                let cells = self.cells.iter().map(|(at, cell)| (*at, cell.answered));
                let rows = self.rows.values().map(|row| row.answered).collect();
                (Bio::new(Op::Flush, Sector(0), 0, Payload::None), Asked::Flush(cells.collect(), rows))
            }
            kind @ (2 | 3) if wants_zone => {
                let zone = *self.rows.keys().nth(rng.below(self.rows.len() as u64) as usize)?;
                let row = self.rows.get_mut(&zone).filter(|row| row.pending == 0)?;
                row.pending = 1;
                *(if kind == 2 { &mut row.resets } else { &mut row.finishes }) = true;
                let op = if kind == 2 { Op::ZoneReset } else { Op::ZoneFinish };
                let asked = if kind == 2 { Asked::Reset(zone) } else { Asked::Finish(zone) };
                (Bio::new(op, sector(zone * ZONE), 0, Payload::None), asked)
            }
            _ if wants_zone => {
                let (zone, capacity) =
                    (*self.rows.keys().nth(rng.below(self.rows.len() as u64) as usize)?, self.capacity());
                // Few zones at once: the limit of active ones is not what this is about.
                let used =
                    self.rows.values().filter(|row| !row.stamps.is_empty() && !row.full && row.stamps.len() < capacity);
                let used = used.count();
                let row = self.rows.get_mut(&zone).filter(|row| !row.full && !row.resets && !row.finishes)?;
                let room = capacity - row.stamps.len();
                if room == 0 || (row.stamps.is_empty() && used >= 3) {
                    return None;
                }
                let stamps: Vec<u64> = (tag..=tag + rng.below(3.min(room as u64))).collect();
                let at = zone * ZONE + row.stamps.len() as u64;
                row.stamps.extend(&stamps);
                row.pending += 1;
                (stamped(at, &stamps).with_flags(flags), Asked::Write(at, stamps, flags == Flags::FUA))
            }
            _ => {
                let at = rng.below(self.cells.len() as u64);
                let len = 1 + rng.below(3.min(self.cells.len() as u64 - at));
                // Not across conventional zones either.
                let len = len.min(ZONE - at % ZONE);
                let mut range = self.cells.range_mut(at..at + len);
                if range.any(|(_, cell)| cell.pending.is_some()) {
                    return None;
                }
                let stamps: Vec<u64> = (tag..tag + len).collect();
                self.cells
                    .range_mut(at..at + len)
                    .zip(&stamps)
                    .for_each(|((_, cell), stamp)| cell.pending = Some(*stamp));
                (stamped(at, &stamps).with_flags(flags), Asked::Write(at, stamps, flags == Flags::FUA))
            }
        };
        self.asked.insert(tag, asked);
        Some(bio)
    }

    fn last_tag(&self) -> u64 {
        self.stamps - 7
    }

    fn answered(&mut self, tag: u64) {
        let is_safe = self.is_safe;
        match self.asked.remove(&tag).expect("it was asked for") {
            Asked::Write(at, stamps, is_fua) if self.cells.contains_key(&at) => {
                for (cell, stamp) in self.cells.range_mut(at..).map(|(_, cell)| cell).zip(stamps) {
                    (cell.answered, cell.pending) = (stamp, None);
                    cell.since.push(stamp);
                    if is_fua || is_safe {
                        cell.durable = stamp;
                        cell.since.clear();
                    }
                }
            }
            Asked::Write(at, stamps, is_fua) => {
                let row = self.rows.get_mut(&(at / ZONE)).unwrap();
                let end = (at % ZONE) as usize + stamps.len();
                row.pending -= 1;
                row.answered = row.answered.max(end);
                if is_fua || is_safe {
                    row.durable = row.durable.max(end);
                }
            }
            Asked::Flush(cells, rows) => {
                for (at, seen) in cells {
                    let cell = self.cells.get_mut(&at).unwrap();
                    // What was answered when the flush was asked for is durable, or what was written over it is.
                    if let Some(place) = cell.since.iter().position(|stamp| *stamp == seen) {
                        cell.durable = seen;
                        cell.since.drain(..=place);
                    }
                }
                self.rows.values_mut().zip(rows).for_each(|(row, end)| {
                    row.durable = row.durable.max(end.min(row.answered));
                });
            }
            Asked::Reset(zone) => {
                *self.rows.get_mut(&zone).unwrap() = Row::default();
                // Flushes that are under way were of what was there before.
                let place = self.rows.keys().position(|key| *key == zone).unwrap();
                for asked in self.asked.values_mut() {
                    if let Asked::Flush(_, rows) = asked {
                        rows[place] = 0;
                    }
                }
            }
            Asked::Finish(zone) => {
                let row = self.rows.get_mut(&zone).unwrap();
                (row.pending, row.finishes, row.full) = (0, false, true);
            }
        }
    }

    /// Compares what there is, and goes on from that.
    fn check(&mut self, life: &mut Desk, end: End) -> Result<(), String> {
        let capacity = self.capacity();
        for (at, cell) in &mut self.cells {
            let is = life.block(*at);
            let mut may = vec![if end == End::Kill { cell.answered } else { cell.durable }];
            may.extend(cell.pending);
            may.extend(cell.since.iter().filter(|_| end == End::Cut));
            if !may.contains(&is) {
                return Err(format!("block {at} holds {is} after a {end:?}, not one of {may:?}"));
            }
            *cell = Cell { durable: is, answered: is, ..Cell::default() };
        }
        for (zone, row) in &mut self.rows {
            let (written, least) =
                (life.written(*zone) as usize, if end == End::Kill { row.answered } else { row.durable });
            let is_full = written == capacity && (row.full || row.finishes);
            let is_prefix = (least..=row.stamps.len()).contains(&written) && !(row.full && end == End::Kill);
            if !(is_full || is_prefix || row.resets && written == 0) {
                let has = row.stamps.len();
                return Err(format!("zone {zone} has {written} blocks after a {end:?}, not {least} to {has}"));
            }
            for offset in 0..ZONE {
                let is = life.block(zone * ZONE + offset);
                let inside = (offset as usize) < written.min(row.stamps.len());
                let should_be = if inside { row.stamps[offset as usize] } else { 0 };
                // Of a zone that was finished what was not written, and behind it whatever a cut took.
                let may_be_gone = is_full && is == 0 && offset as usize >= least;
                if is != should_be && !may_be_gone {
                    return Err(format!("block {offset} of zone {zone}, of {written}, holds {is} and not {should_be}"));
                }
            }
            row.stamps.truncate(written);
            let (answered, durable) = (row.stamps.len(), row.stamps.len());
            *row = Row { stamps: take(&mut row.stamps), answered, durable, full: is_full, ..Row::default() };
        }
        self.asked.clear();
        Ok(())
    }
}

/// Several lives of one drive. Returns how often the power went and how often the program ended, or what is wrong.
fn lives((name, model): Named, bug: Bug, seed: u64) -> Result<[u32; 2], String> {
    let mut rng = Rng::new(seed);
    let shelf = Shelf::new(bug);
    let mut oracle: Option<Oracle> = None;
    let (mut end, mut counts) = (End::Kill, [0, 0]);
    for number in 0..6 {
        shelf.0.borrow_mut().late.clear();
        shelf.0.borrow_mut().steps = u64::MAX;
        let mut life = begin(model, &shelf, seed + number).map_err(|reason| reason.to_string())?;
        let geometry = life.geometry();
        let oracle = oracle.get_or_insert_with(|| Oracle::new(geometry, name == "ram"));
        oracle.check(&mut life, end).map_err(|error| format!("{name}, seed {seed}, life {number}: {error}"))?;
        end = End::Kill;
        shelf.0.borrow_mut().steps = 1 + rng.below(100);
        for _ in 0..400 {
            if rng.chance(1, 100) {
                // Whoever answers to what was due before the cut answers before it.
                life.stack.with_device(life.device, LiveDrive::cut_power);
                counts[0] += 1;
                end = End::Cut;
            } else if rng.chance(1, 2) {
                if let Some(bio) = oracle.draw(&mut rng) {
                    life.submit(oracle.last_tag(), bio);
                }
            } else {
                life.now = life.now + Duration::from_micros(1 + rng.below(60));
            }
            life.stack.turn(life.now);
            if shelf.has_ended() {
                break;
            }
            while let Some(Completion { tag, bio, status }) = life.stack.poll_completion(life.port) {
                match status {
                    Status::Ok => oracle.answered(tag),
                    Status::Offline if end == End::Cut => {}
                    _ => return Err(format!("{name}, seed {seed}: {status}, {:?}", bio.why())),
                }
            }
            if end == End::Cut {
                life.stack.with_device(life.device, LiveDrive::restore_power);
                let checked = oracle.check(&mut life, end);
                if shelf.has_ended() {
                    break;
                }
                checked.map_err(|error| format!("{name}, seed {seed}, life {number}, live: {error}"))?;
                end = End::Kill;
            }
        }
        counts[1] += u32::from(shelf.has_ended());
    }
    Ok(counts)
}

#[test]
fn whatever_ends_the_program_all_that_was_answered_is_there_and_after_a_cut_all_that_was_durable() {
    for model in MODELS {
        let mut sums = [0, 0];
        for seed in 0..std::env::var("LIVES").map_or(150, |seeds| seeds.parse().unwrap()) {
            let counts = lives(model, Bug::None, seed).unwrap_or_else(|error| panic!("{error}"));
            sums = [sums[0] + counts[0], sums[1] + counts[1]];
        }
        println!("{}: {} cuts, {} ends", model.0, sums[0], sums[1]);
        assert!(sums.iter().all(|sum| *sum > 300), "{sums:?}");
    }
}

/// The models with which one of the first seeds notices.
fn finders(bug: Bug) -> Vec<&'static str> {
    let finds = |model| (0..150).find_map(|seed| lives(model, bug, seed).err());
    let found = MODELS.into_iter().filter_map(|model| Some((model.0, finds(model)?)));
    found.inspect(|(_, error)| println!("{error}")).map(|(name, _)| name).collect()
}

#[test]
fn a_pointer_that_is_stored_before_its_data_is_found() {
    assert_eq!(finders(Bug::PointerFirst)[..2], ["smr", "zns"]);
}

#[test]
fn data_that_is_left_behind_a_pointer_is_found() {
    assert_eq!(finders(Bug::DiscardsNothing), ["smr", "zns"]);
}

#[test]
fn a_reset_that_is_not_stored_is_found() {
    assert_eq!(finders(Bug::ForgetsResets), ["smr", "zns"]);
}

/// Who serves a block device of one in memory must not let its users go on with the next one.
#[test]
fn a_drive_outlives_its_program_only_if_it_has_a_store() {
    for (name, model) in MODELS {
        let survival = |model| LiveDrive::new(model, None, 1).unwrap().survival();
        assert_eq!(survival(model()), Survival::Nothing, "{name}");
        let (mut model, shelf) = (model(), Shelf::new(Bug::None) as Rc<dyn Store>);
        adopt(&mut *model, &shelf).unwrap();
        assert_eq!(survival(model), Survival::All, "{name}");
    }
}

#[test]
fn what_a_store_refuses_fails_and_nothing_else_changes() {
    for (name, model) in MODELS {
        let shelf = Shelf::new(Bug::None);
        let mut life = begin(model, &shelf, 1).unwrap();
        let place = life.geometry().map_or(0, |geometry| u64::from(geometry.conventional()) * ZONE);
        assert_eq!(life.wait(stamped(place, &[1])).0, Status::Ok);
        shelf.0.borrow_mut().full = true;
        assert_eq!(life.wait(stamped(place + 1, &[2])).0, Status::Io, "{name}");
        if life.geometry().is_some() {
            for op in [Op::ZoneReset, Op::ZoneFinish, Op::ZoneResetAll] {
                assert_eq!(life.wait(Bio::new(op, sector(place), 0, Payload::None)).0, Status::Io, "{name}: {op:?}");
            }
            assert_eq!(life.written(place / ZONE), 1, "{name}");
        }
        assert_eq!((life.block(place), life.block(place + 1)), (1, 0), "{name}");
        shelf.0.borrow_mut().full = false;
        assert_eq!(life.wait(stamped(place + 1, &[3])).0, Status::Ok, "{name}: it goes on where it was");
        let mut next = begin(model, &shelf, 1).unwrap();
        assert_eq!((next.block(place), next.block(place + 1)), (1, 3), "{name}");
    }
}

#[test]
fn a_pointer_beyond_the_zone_makes_no_drive() {
    let shelf = Shelf::new(Bug::None);
    shelf.keep_zone(ZoneNo(3), ZoneState::full(ZONE as u32 * BLOCK + 1)).unwrap();
    let error = begin(zns, &shelf, 1).err().unwrap();
    assert!(error.to_string().contains("zone 3: write pointer 65 lies beyond the zone capacity of 56"), "{error}");
}
