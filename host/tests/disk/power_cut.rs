//! A power cut that is not a kill: the file system below the disk is shut down without its log.
//!
//! What a killed process wrote stays in the page cache, so a missing `fdatasync` is never seen there. Here dirty pages and the
//! running transaction of ext4's journal are dropped. Every block tells its zone, the generation of the zone (how often it
//! was reset) or the number of the write, and its place. Needs root and a loop device; says so and passes where they are
//! not to be had. `SHINGLE_SEED=N` repeats what was drawn, though not the moment at which the power goes.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Flags, Limits, Op, Status};
use shingle_core::zone::Condition;
use shingle_host::disk::zoned_dir::Options;

use crate::common::power::PowerCut;
use crate::common::{Bench, Random, ZONE, bio, create, fua, small_shape};

const BLOCK: u64 = 8;
/// Blocks of a sequential zone.
const CAPACITY: u64 = 1536 / BLOCK;
const CONVENTIONAL: Range<u64> = 0..2;
const SEQUENTIAL: Range<u64> = 2..8;
/// Blocks of a conventional zone that are used.
const CELLS: u64 = 16;

/// What a sequential zone is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    generation: u64,
    blocks: u64,
    full: bool,
}

/// What may have happened in one generation of a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    blocks: u64,
    finished: bool,
}

/// What is known of a sequential zone.
#[derive(Clone, Debug, Default)]
struct Zone {
    /// What was answered.
    now: State,
    /// What a flush, or the last start, has made of it.
    durable: State,
    /// Blocks of the durable generation that were written with FUA.
    fua: Vec<Range<u64>>,
    tried: BTreeMap<u64, Life>,
}

impl Zone {
    fn found(now: State) -> Self {
        let life = Life { blocks: now.blocks, finished: now.full };
        Self { now, durable: now, fua: vec![], tried: BTreeMap::from([(now.generation, life)]) }
    }

    fn flushed(&mut self, at: State) {
        if at.generation > self.durable.generation {
            (self.durable, self.fua) = (at, vec![]);
        } else if at.generation == self.durable.generation {
            self.durable.blocks = self.durable.blocks.max(at.blocks);
            self.durable.full |= at.full;
        }
    }

    /// Whether the power can have left `blocks` with `generations` in them, 0 for one that reads as zeroes.
    fn allows(&self, full: bool, generations: &[u64]) -> bool {
        let has = |place: u64| generations.get(place as usize).is_some_and(|generation| *generation != 0);
        let one = generations.iter().copied().find(|generation| *generation != 0);
        let same = generations.iter().all(|generation| *generation == 0 || Some(*generation) == one);
        let may_be = |(generation, life): (&u64, &Life)| {
            let told = one.is_none_or(|one| one == *generation);
            let reached = generations.len() as u64 <= life.blocks || full && life.finished;
            let kept = *generation != self.durable.generation
                || generations.len() as u64 >= self.durable.blocks
                    && (0..self.durable.blocks).chain(self.fua.iter().cloned().flatten()).all(has)
                    && (full || !self.durable.full);
            told && reached && kept
        };
        same && self.tried.range(self.durable.generation..).any(may_be)
    }
}

/// What is known of a block of a conventional zone: numbers of writes.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    now: u64,
    durable: u64,
    tried: u64,
}

/// What was asked of one zone.
#[derive(Clone, Copy)]
enum Asked {
    Cells { zone: u64, at: u64, blocks: u64, number: u64, fua: bool },
    Write { zone: u64, at: u64, blocks: u64, fua: bool },
    Reset { zone: u64, generation: u64 },
    Finish { zone: u64 },
    Flush,
}

/// Everything that was promised.
struct Promises {
    zones: Vec<Zone>,
    cells: Vec<Cell>,
    numbers: u64,
    random: Random,
}

impl Promises {
    fn new(seed: u64) -> Self {
        let cells = vec![Cell::default(); (CONVENTIONAL.end * CELLS) as usize];
        let mut new =
            Self { zones: vec![Zone::default(); SEQUENTIAL.end as usize], cells, numbers: 0, random: Random(seed) };
        new.zones.iter_mut().for_each(|zone| *zone = Zone::found(State { generation: 1, ..State::default() }));
        new.numbers = 1;
        new
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Something to do in some zones, each at most once, and perhaps a flush.
    fn draw(&mut self) -> Vec<(Asked, Bio)> {
        let mut batch = Vec::new();
        for zone in SEQUENTIAL {
            if self.random.below(3) == 0 {
                batch.push(self.draw_sequential(zone));
            }
        }
        for zone in CONVENTIONAL {
            if self.random.below(3) == 0 {
                batch.push(self.draw_cells(zone));
            }
        }
        if self.random.below(4) == 0 {
            let place = self.random.below(batch.len() as u64 + 1) as usize;
            batch.insert(place, (Asked::Flush, bio(Op::Flush, 0, 0)));
        }
        batch
    }

    fn draw_sequential(&mut self, zone: u64) -> (Asked, Bio) {
        let State { generation, blocks: at, full } = self.zones[zone as usize].now;
        if full || at == CAPACITY || self.random.below(10) == 0 {
            let generation = self.number();
            self.zones[zone as usize].tried.insert(generation, Life::default());
            return (Asked::Reset { zone, generation }, bio(Op::ZoneReset, zone * ZONE, 0));
        }
        let life = self.zones[zone as usize].tried.entry(generation).or_default();
        if self.random.below(20) == 0 {
            life.finished = true;
            return (Asked::Finish { zone }, bio(Op::ZoneFinish, zone * ZONE, 0));
        }
        let blocks = (1 + self.random.below(24)).min(CAPACITY - at);
        life.blocks = life.blocks.max(at + blocks);
        let op = if self.random.below(2) == 0 { Op::Write } else { Op::ZoneAppend };
        let sector = zone * ZONE + if op == Op::Write { at * BLOCK } else { 0 };
        let (bio, durable) = self.marked(op, sector, (zone, generation, at, blocks));
        (Asked::Write { zone, at, blocks, fua: durable }, bio)
    }

    fn draw_cells(&mut self, zone: u64) -> (Asked, Bio) {
        let (at, number) = (self.random.below(CELLS), self.number());
        let blocks = 1 + self.random.below((CELLS - at).min(4));
        for cell in &mut self.cells[(zone * CELLS + at) as usize..][..blocks as usize] {
            cell.tried = number;
        }
        let (bio, fua) = self.marked(Op::Write, zone * ZONE + at * BLOCK, (zone, number, at, blocks));
        (Asked::Cells { zone, at, blocks, number, fua }, bio)
    }

    /// Data that tells what it is; every fifth with FUA.
    fn marked(&mut self, op: Op, sector: u64, (zone, number, at, blocks): (u64, u64, u64, u64)) -> (Bio, bool) {
        let bio = bio(op, sector, (blocks * BLOCK) as u32);
        for n in 0..blocks {
            let words = [zone, number, at + n].map(u64::to_le_bytes);
            bio.payload.segments()[0].write(n as usize * 4096, &words.concat());
        }
        if self.random.below(5) == 0 { (fua(bio), true) } else { (bio, false) }
    }

    /// Takes note of the answers to a batch. Nothing has a reason to fail.
    fn learn(&mut self, asked: &[Asked], answers: &[Status]) {
        assert!(answers.iter().all(|status| status.is_ok()), "{answers:?}");
        let before: Vec<State> = self.zones.iter().map(|zone| zone.now).collect();
        let cells: Vec<u64> = self.cells.iter().map(|cell| cell.now).collect();
        for asked in asked {
            match *asked {
                Asked::Flush => {
                    self.zones.iter_mut().zip(&before).for_each(|(zone, before)| zone.flushed(*before));
                    self.cells.iter_mut().zip(&cells).for_each(|(cell, now)| cell.durable = cell.durable.max(*now));
                }
                Asked::Cells { zone, at, blocks, number, fua } => {
                    for cell in &mut self.cells[(zone * CELLS + at) as usize..][..blocks as usize] {
                        cell.now = number;
                        cell.durable = if fua { number } else { cell.durable };
                    }
                }
                Asked::Write { zone, at, blocks, fua } => {
                    let zone = &mut self.zones[zone as usize];
                    zone.now.blocks = at + blocks;
                    zone.now.full = at + blocks == CAPACITY;
                    if fua {
                        zone.flushed(State { generation: zone.now.generation, ..State::default() });
                        zone.fua.push(at..at + blocks);
                    }
                }
                Asked::Reset { zone, generation } => {
                    self.zones[zone as usize].now = State { generation, ..State::default() };
                }
                Asked::Finish { zone } => self.zones[zone as usize].now.full = true,
            }
        }
    }
}

/// What is left after the power was gone.
impl Promises {
    fn check(&mut self, bench: &mut Bench) -> Result<(), String> {
        SEQUENTIAL.into_iter().try_for_each(|zone| self.check_sequential(bench, zone))?;
        CONVENTIONAL.into_iter().try_for_each(|zone| self.check_cells(bench, zone))
    }

    fn check_sequential(&mut self, bench: &mut Bench, number: u64) -> Result<(), String> {
        let (cond, wp) = bench.zone(number as usize);
        let full = cond == Condition::Full;
        let blocks = if full { CAPACITY } else { wp / BLOCK };
        let generations = marks(bench, number, blocks)?;
        let zone = &self.zones[number as usize];
        if !zone.allows(full, &generations) {
            return Err(format!("zone {number} is {cond:?} with {generations:?}; promised was {zone:?}"));
        }
        let generation = generations.first().copied().unwrap_or(0);
        let is_whole = !generations.contains(&0);
        let found = State { generation, blocks, full };
        // Where there is a hole, and where nothing tells the generation, it begins anew.
        self.zones[number as usize] =
            if is_whole && blocks > 0 { Zone::found(found) } else { self.reset(bench, number) };
        Ok(())
    }

    fn reset(&mut self, bench: &mut Bench, zone: u64) -> Zone {
        assert_eq!(bench.status(bio(Op::ZoneReset, zone * ZONE, 0)), Status::Ok);
        assert_eq!(bench.flush(), Status::Ok);
        Zone::found(State { generation: self.number(), ..State::default() })
    }

    fn check_cells(&mut self, bench: &mut Bench, zone: u64) -> Result<(), String> {
        let numbers = marks(bench, zone, CELLS)?;
        for (place, number) in (0..).zip(numbers) {
            let cell = &mut self.cells[(zone * CELLS + place) as usize];
            if number < cell.durable || number > cell.tried {
                return Err(format!("zone {zone}, block {place} has write {number}; promised was {cell:?}"));
            }
            *cell = Cell { now: number, durable: number, tried: number };
        }
        Ok(())
    }
}

/// What the first blocks of a zone tell; 0 for zeroes.
fn marks(bench: &mut Bench, zone: u64, blocks: u64) -> Result<Vec<u64>, String> {
    let bytes = if blocks == 0 { vec![] } else { bench.read(zone * ZONE, (blocks * BLOCK) as u32) };
    let told = |(place, block): (u64, &[u8])| {
        let word = |n: usize| u64::from_le_bytes(block[n * 8..n * 8 + 8].try_into().unwrap());
        match [word(0), word(1), word(2)] {
            [0, 0, 0] => Ok(0),
            [of, number, at] if (of, at) == (zone, place) => Ok(number),
            other => Err(format!("zone {zone}, block {place} tells {other:?}")),
        }
    };
    (0..).zip(bytes.chunks(4096)).map(told).collect()
}

/// Puts a bug above the disk.
type Bug = fn(DeviceId, &Limits) -> Box<dyn BlockDevice>;

fn start(power: &PowerCut, bug: Option<Bug>) -> Bench {
    let mut bench = Bench::zoned(&power.path("disk"), Options { most_files: 3, ..Options::default() });
    if let Some(bug) = bug {
        let device = bug(bench.disk, bench.shard.stack.limits(bench.disk));
        bench.disk = bench.shard.stack.add(device).unwrap();
    }
    bench
}

/// Cuts the power so many times; what the first broken promise is.
fn rounds(count: u32, bug: Option<Bug>) -> Result<(), String> {
    let seed = std::env::var("SHINGLE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0) | 1);
    println!("seed {seed}");
    let mut power = match PowerCut::new() {
        Ok(power) => power,
        Err(reason) => {
            println!("skipped, as there is no file system to cut the power of: {reason}");
            return Ok(());
        }
    };
    create(&power.path("disk"), &small_shape());
    let mut promises = Promises::new(seed);
    for round in 0..count {
        let mut bench = start(&power, bug);
        promises.check(&mut bench).map_err(|what| format!("seed {seed}, round {round}: {what}"))?;
        let mut cutter = power.cut(promises.random.below(60_000));
        let mut batches = 0;
        loop {
            let (asked, bios): (Vec<Asked>, Vec<Bio>) = promises.draw().into_iter().unzip();
            let answers: Vec<Status> = bench.run_all(bios).into_iter().map(|(status, _)| status).collect();
            if power.is_cut() {
                break;
            }
            promises.learn(&asked, &answers);
            batches += 1;
            assert!(batches < 1_000_000, "the power does not go");
        }
        assert!(cutter.wait().unwrap().success(), "the file system cannot be shut down");
        drop(bench);
        power = power.restart();
    }
    let mut bench = start(&power, bug);
    promises.check(&mut bench).map_err(|what| format!("seed {seed}, at the end: {what}"))
}

#[test]
fn what_was_flushed_is_there_after_the_file_system_lost_its_power() {
    rounds(20, None).unwrap();
}

/// A disk that answers flushes without a sync, or takes FUA for decoration.
struct Careless {
    below: [DeviceId; 1],
    limits: Limits,
    flushes: bool,
}

impl BlockDevice for Careless {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.flushes {
            bio.flags = bio.flags.without(Flags::FUA);
        } else if bio.op == Op::Flush {
            return cx.complete(bio, Status::Ok);
        }
        cx.remap(self.below[0], bio);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("planted bug")
    }
}

fn is_found(bug: Bug) {
    let is_skipped = PowerCut::new().is_err();
    // On a busy machine most of what was not synced is on the disk all the same, since its file system has written it back meanwhile.
    let found = rounds(200, Some(bug));
    println!("{found:?}");
    assert!(is_skipped || found.is_err(), "200 losses of power did not show the bug");
}

#[test]
fn a_flush_that_syncs_nothing_is_found_when_the_power_goes() {
    is_found(|id, limits| Box::new(Careless { below: [id], limits: limits.clone(), flushes: false }));
}

#[test]
fn fua_that_is_ignored_is_found_when_the_power_goes() {
    is_found(|id, limits| Box::new(Careless { below: [id], limits: limits.clone(), flushes: true }));
}
