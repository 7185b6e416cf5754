//! A daemon that is killed at any moment loses nothing that it has answered.
//!
//! A child works on a disk and says what is done; the parent kills it and looks. Every block tells its zone, the
//! generation of the zone (how often it was reset) and its place, so old data in a new place is found, too.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use shingle_core::block::{Bio, Op, Status};
use shingle_core::zone::Condition;
use shingle_host::disk::zoned_dir::Options;

use crate::common::{Bench, Random, Scratch, ZONE, bio, child_argument, create, fua, small_shape, spawn_child};

const NAME: &str = "zoned_dir_crash::a_killed_process_loses_nothing_that_was_answered";
const ZONES: std::ops::Range<u64> = 2..8;
const BLOCK: u64 = 8;
const CAPACITY: u64 = 1536;

/// The words at the start of a block.
fn mark(zone: u64, generation: u64, block: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    [zone, generation, block].iter().zip(bytes.chunks_mut(8)).for_each(|(n, to)| to.copy_from_slice(&n.to_le_bytes()));
    bytes
}

fn marked(op: Op, zone: u64, generation: u64, at: u64, blocks: u64) -> Bio {
    let sector = if op == Op::Write { zone * ZONE + at } else { zone * ZONE };
    let bio = bio(op, sector, (blocks * BLOCK) as u32);
    for n in 0..blocks {
        bio.payload.segments()[0].write(n as usize * 4096, &mark(zone, generation, at / BLOCK + n));
    }
    bio
}

fn say(line: &str) {
    // One call per line, so that a killed process has said a line in full or not at all.
    std::io::stdout().write_all(format!("\n{line}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

/// The generation that the first block of a zone tells; 0 for an empty zone.
fn generation_of(bench: &mut Bench, zone: u64) -> u64 {
    u64::from_le_bytes(bench.read(zone * ZONE, 8)[8..16].try_into().unwrap())
}

fn work(path: &Path) {
    let mut bench = Bench::zoned(path, Options { most_files: 3, ..Options::default() });
    let mut random = Random(u64::from(std::process::id()) << 20 | 1);
    let mut generations: Vec<u64> = (0..8).map(|zone| generation_of(&mut bench, zone).max(1)).collect();
    loop {
        let zone = ZONES.start + random.below(ZONES.end - ZONES.start);
        let (cond, at) = bench.zone(zone as usize);
        let generation = &mut generations[zone as usize];
        if cond == Condition::Full || random.below(30) == 0 {
            say(&format!("RESET {zone}"));
            assert_eq!(bench.status(bio(Op::ZoneReset, zone * ZONE, 0)), Status::Ok);
            *generation += 1;
            continue;
        }
        let blocks = (1 + random.below(20)).min((CAPACITY - at) / BLOCK);
        let op = if random.below(2) == 0 { Op::Write } else { Op::ZoneAppend };
        let bio = marked(op, zone, *generation, at, blocks);
        let bio = if random.below(4) == 0 { fua(bio) } else { bio };
        assert_eq!(bench.status(bio), Status::Ok);
        if random.below(6) == 0 {
            assert_eq!(bench.flush(), Status::Ok);
        }
        say(&format!("DONE {zone} {generation} {}", at + blocks * BLOCK));
    }
}

/// What the child has said about a zone since it started.
#[derive(Clone, Copy, Default)]
struct Said {
    generation: u64,
    wp: u64,
    reset_begun: bool,
}

fn check(bench: &mut Bench, zone: u64, said: Said) {
    let (cond, wp) = bench.zone(zone as usize);
    let wp = if cond == Condition::Full { CAPACITY } else { wp };
    let generation = if wp == 0 { 0 } else { generation_of(bench, zone) };
    for block in 0..wp / BLOCK {
        let bytes = bench.read(zone * ZONE + block * BLOCK, 8);
        let word = |n: usize| u64::from_le_bytes(bytes[n * 8..n * 8 + 8].try_into().unwrap());
        assert_eq!(
            [word(0), word(1), word(2)],
            [zone, generation, block],
            "zone {zone}, block {block} of {wp} sectors"
        );
    }
    let is_later = said.reset_begun && (wp == 0 || generation > said.generation);
    let is_same = wp >= said.wp && (generation == said.generation || said.wp == 0);
    assert!(is_later || is_same, "zone {zone}: {wp} sectors of generation {generation} are left of {}", said.wp);
}

#[test]
fn a_killed_process_loses_nothing_that_was_answered() {
    if let Some(path) = child_argument() {
        return work(&path);
    }
    let scratch = Scratch::new();
    let path = scratch.path("disk");
    create(&path, &small_shape());
    let mut random = Random(2026);
    for round in 0..12 {
        let mut child = spawn_child(NAME, &path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut said = [Said::default(); 8];
        let mut hear = |line: &str| {
            let words: Vec<u64> = line.split(' ').skip(1).map_while(|word| word.parse().ok()).collect();
            match (line.split(' ').next(), &words[..]) {
                (Some("RESET"), [zone]) => said[*zone as usize].reset_begun = true,
                (Some("DONE"), [zone, generation, wp]) => {
                    said[*zone as usize] = Said { generation: *generation, wp: *wp, reset_begun: false };
                }
                _ => (),
            }
        };
        // Hear it for a while, so that it is well under way, then kill it in the middle of something.
        let enough = 1 + random.below(40);
        let mut heard = 0;
        while heard < enough {
            let line = lines.next().expect("the child works until it is killed");
            heard += u64::from(line.starts_with("DONE"));
            hear(&line);
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(9),
            "round {round}: the child ended by itself: {:?}",
            lines.collect::<Vec<_>>()
        );
        lines.for_each(|line| hear(&line));
        let mut bench = Bench::zoned(&path, Options::default());
        ZONES.for_each(|zone| check(&mut bench, zone, said[zone as usize]));
    }
}
