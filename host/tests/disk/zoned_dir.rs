//! The disk in a directory as a device: order, limits, errors, durability, and what lies in the directory afterwards.

use std::cell::Cell;
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use shingle_core::block::{Bio, Data, Flags, Op, Payload, Status};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::{Condition, ResourceLimits, ZoneGeometry, ZoneKind, ZoneNo, ZoneState, ZonedDisk};
use shingle_host::disk::files::Files;
use shingle_host::disk::zoned_dir::{self, Options, Shape, ZonedDir};
use shingle_host::shard::Shard;

use crate::common::{
    self, Bench, Random, Scratch, ZONE, bio, child_argument, create, filled, fua, run_in_child, small_shape, write,
};

const CAPACITY: u32 = 1536;

fn disk(shape: Shape, options: Options) -> (Scratch, Bench) {
    let scratch = Scratch::new();
    create(&scratch.path("disk"), &shape);
    let bench = Bench::zoned(&scratch.path("disk"), options);
    (scratch, bench)
}

fn small() -> (Scratch, Bench) {
    disk(small_shape(), Options::default())
}

fn size(scratch: &Scratch, name: &str) -> u64 {
    fs::metadata(scratch.path("disk").join(name)).unwrap().len()
}

fn zone(number: u64) -> u64 {
    number * ZONE
}

#[test]
fn a_new_disk_has_the_files_of_zloop_and_one_of_ours() {
    let (scratch, mut bench) = small();
    let mut names: Vec<_> = common::snapshot(&scratch.path("disk")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.pop().as_deref(), Some("shingle-disk.toml"));
    assert_eq!(names[..3], ["cnv-000000", "cnv-000001", "seq-000002"]);
    assert_eq!((names.len(), size(&scratch, "cnv-000001"), size(&scratch, "seq-000007")), (8, ZONE * 512, 0));
    assert_eq!(bench.zone(0), (Condition::NotWp, 0));
    assert_eq!(bench.zone(7), (Condition::Empty, 0));
}

#[test]
fn the_size_of_the_file_is_the_write_pointer_and_full_is_at_capacity() {
    let (scratch, mut bench) = small();
    assert_eq!(bench.status(write(zone(3), 8, 1)), Status::Ok);
    assert_eq!((bench.zone(3), size(&scratch, "seq-000003")), ((Condition::ImplicitOpen, 8), 4096));
    assert_eq!(bench.status(write(zone(3) + 8, CAPACITY - 8, 2)), Status::Ok);
    assert_eq!((bench.zone(3).0, size(&scratch, "seq-000003")), (Condition::Full, 768 * 1024));
    assert_eq!(bench.status(write(zone(3) + 1536, 8, 1)), Status::Io, "a full zone takes no more");
}

#[test]
fn a_write_that_is_not_at_the_pointer_or_crosses_the_capacity_changes_nothing() {
    let (scratch, mut bench) = small();
    assert_eq!(bench.status(write(zone(2), 16, 1)), Status::Ok);
    for (sector, sectors) in [(0, 8), (8, 8), (24, 8), (16, CAPACITY)] {
        assert_eq!(bench.status(write(zone(2) + sector, sectors, 9)), Status::Io, "{sectors} at {sector}");
    }
    assert_eq!((bench.zone(2), size(&scratch, "seq-000002")), ((Condition::ImplicitOpen, 16), 16 * 512));
    assert_eq!(bench.status(write(zone(2) + 16, 8, 2)), Status::Ok, "the zone is as usable as before");
}

#[test]
fn writes_that_arrive_together_run_in_their_order_and_a_wrong_one_fails_alone() {
    let (_scratch, mut bench) = small();
    let offsets = [0, 8, 24, 16, 24];
    let outcomes = bench.run_all(offsets.iter().map(|at| write(zone(2) + at, 8, *at as u8 + 1)).collect());
    let statuses: Vec<_> = outcomes.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [Status::Ok, Status::Ok, Status::Io, Status::Ok, Status::Ok]);
    let read = bench.read(zone(2), 32);
    assert_eq!([read[0], read[4096], read[8192], read[12288]], [1, 9, 17, 25]);
}

#[test]
fn a_reset_among_writes_takes_its_turn() {
    let (scratch, mut bench) = small();
    let reset = bio(Op::ZoneReset, zone(2), 0);
    let bios = vec![write(zone(2), 8, 1), reset, write(zone(2), 16, 2), bio(Op::ZoneFinish, zone(2), 0)];
    assert!(bench.run_all(bios).iter().all(|(status, _)| *status == Status::Ok));
    assert_eq!((bench.zone(2).0, size(&scratch, "seq-000002")), (Condition::Full, 768 * 1024));
    let read = bench.read(zone(2), 24);
    assert!(read[..8192].iter().all(|b| *b == 2) && read[8192..].iter().all(|b| *b == 0));
}

#[test]
fn appends_say_where_they_went_and_never_overlap() {
    let (_scratch, mut bench) = small();
    let lengths: Vec<u32> = (1..=10).map(|n| n * 8).collect();
    let outcomes = bench.run_all(lengths.iter().map(|n| filled(Op::ZoneAppend, zone(4), *n, *n as u8)).collect());
    let mut expected = zone(4);
    for ((status, bio), length) in outcomes.iter().zip(&lengths) {
        assert_eq!((*status, bio.sector), (Status::Ok, Sector(expected)));
        assert!(bench.read(expected, *length).iter().all(|b| *b == *length as u8));
        expected += u64::from(*length);
    }
}

/// zloop B42 and B43: an append to a full zone was accepted, and one without enough room wrote past the end of the zone.
#[test]
fn an_append_without_room_is_refused_and_the_zone_stays_as_it_was() {
    let (scratch, mut bench) = small();
    assert_eq!(bench.status(write(zone(2), CAPACITY - 8, 1)), Status::Ok);
    assert_eq!(bench.status(filled(Op::ZoneAppend, zone(2), 16, 2)), Status::Io);
    assert_eq!(bench.zone(2), (Condition::ImplicitOpen, 1528));
    let (status, last) = bench.run(filled(Op::ZoneAppend, zone(2), 8, 3));
    assert_eq!((status, last.sector), (Status::Ok, Sector(zone(2) + 1528)));
    assert_eq!(bench.status(filled(Op::ZoneAppend, zone(2), 8, 4)), Status::Io);
    assert_eq!(size(&scratch, "seq-000002"), 768 * 1024);
}

/// zloop B33: a read that met the end of the file gave zeroes for all of the buffer.
#[test]
fn a_read_across_the_pointer_keeps_the_data_before_it() {
    for most_segments in [1, 3] {
        let (_scratch, mut bench) = small();
        assert_eq!(bench.status(write(zone(2), 8, 7)), Status::Ok);
        let segments = (0..most_segments).map(|_| Data::zeroed(12288 / most_segments)).collect::<Vec<_>>();
        segments.iter().for_each(|data| data.fill(0xee));
        let (status, bio) = bench.run(Bio::new(Op::Read, Sector(zone(2)), 24, Payload::Segments(segments)));
        let read: Vec<u8> = bio.payload.segments().iter().flat_map(Data::to_vec).collect();
        assert_eq!(status, Status::Ok);
        assert!(read[..4096].iter().all(|b| *b == 7) && read[4096..].iter().all(|b| *b == 0));
    }
}

#[test]
fn sectors_between_capacity_and_the_end_of_the_zone_read_as_zeroes() {
    let (_scratch, mut bench) = small();
    assert_eq!(bench.status(write(zone(2), CAPACITY, 5)), Status::Ok);
    let read = bench.read(zone(2) + 1528, 64);
    assert!(read[..4096].iter().all(|b| *b == 5) && read[4096..].iter().all(|b| *b == 0));
    assert!(bench.read(zone(5) - 8, 8).iter().all(|b| *b == 0));
}

#[test]
fn conventional_zones_take_writes_anywhere_and_no_zone_management() {
    let (scratch, mut bench) = small();
    let bios = [1000, 0, 2040, 504].map(|at| write(at, 8, at as u8 | 1)).into();
    assert!(bench.run_all(bios).iter().all(|(status, _)| *status == Status::Ok));
    assert_eq!((bench.read(1000, 8)[0], bench.read(504, 8)[0], bench.read(2040, 8)[0]), (233, 249, 249));
    for op in [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset] {
        assert_eq!(bench.status(bio(op, zone(1), 0)), Status::Io, "{op:?}");
    }
    assert_eq!(bench.status(filled(Op::ZoneAppend, zone(1), 8, 1)), Status::Io);
    assert_eq!(size(&scratch, "cnv-000000"), ZONE * 512);
}

#[test]
fn zone_management_follows_the_state_machine_and_sizes_the_files() {
    let (scratch, mut bench) = small();
    let mut act = |op, at: u64| bench.status(bio(op, zone(at), 0));
    assert_eq!(
        (act(Op::ZoneClose, 2), act(Op::ZoneOpen, 2), act(Op::ZoneClose, 2)),
        (Status::Io, Status::Ok, Status::Ok)
    );
    assert_eq!(
        (act(Op::ZoneFinish, 3), act(Op::ZoneFinish, 3), act(Op::ZoneOpen, 3)),
        (Status::Ok, Status::Ok, Status::Io)
    );
    assert_eq!(size(&scratch, "seq-000003"), 768 * 1024);
    assert_eq!((act(Op::ZoneReset, 3), act(Op::ZoneReset, 3)), (Status::Ok, Status::Ok));
    assert_eq!(size(&scratch, "seq-000003"), 0);
    assert_eq!(bench.zone(3), (Condition::Empty, 0));
}

#[test]
fn reset_all_empties_every_sequential_zone_and_leaves_the_conventional_ones() {
    let shape = Shape::new(ZoneGeometry::new(64 * ZONE, ZONE, ZONE, 2).unwrap());
    let (scratch, mut bench) = disk(shape, Options { most_files: 4, ..Options::default() });
    let mut bios: Vec<_> = (0..64).map(|n| write(zone(n), 8, n as u8 + 1)).collect();
    bios.push(bio(Op::ZoneResetAll, 0, 0));
    bios.push(write(zone(9), 8, 99));
    assert!(
        bench.run_all(bios).iter().all(|(status, _)| *status == Status::Ok),
        "a reset waits for the writes before it"
    );
    assert_eq!(bench.report().iter().filter(|zone| zone.cond == Condition::Empty).count(), 61);
    assert_eq!((size(&scratch, "seq-000009"), size(&scratch, "seq-000063")), (4096, 0));
    assert_eq!(bench.read(zone(1), 8)[0], 2);
}

#[test]
fn limits_bind_with_the_error_of_each() {
    let limits = ResourceLimits::new(Some(2), Some(3)).unwrap();
    let (_scratch, mut bench) = disk(Shape { limits, ..small_shape() }, Options::default());
    for number in 2..5 {
        assert_eq!(bench.status(write(zone(number), 8, 1)), Status::Ok);
    }
    assert_eq!(bench.zone(2).0, Condition::Closed, "the least recently written one made room");
    assert_eq!(bench.status(write(zone(5), 8, 1)), Status::ZoneActiveResource);
    assert_eq!(bench.status(bio(Op::ZoneOpen, zone(3), 0)), Status::Ok);
    assert_eq!(bench.status(bio(Op::ZoneOpen, zone(4), 0)), Status::Ok);
    assert_eq!(bench.status(write(zone(2) + 8, 8, 1)), Status::ZoneOpenResource);
}

/// A null device of the same shape, whose commands take time.
fn of_memory(shape: &Shape) -> Bench {
    let zoned = NullZones {
        zone_capacity: Some(shape.zones.zone_capacity().into()),
        conventional: shape.zones.conventional(),
        max_open: shape.limits.max_open(),
        max_active: shape.limits.max_active(),
        max_append: Some(shape.zones.zone_capacity()),
        ..NullZones::new(shape.zones.zone_sectors().into())
    };
    let config = NullConfig {
        block_bytes: shape.block_bytes,
        memory_backed: true,
        write_zeroes: true,
        completion: Duration::from_micros(100),
        zoned: Some(zoned),
        ..NullConfig::new(shape.zones.capacity())
    };
    Bench::new(|_| NullDevice::new(&config))
}

/// A write over the end of a zone is cut in two, and both halves are on their way at once.
#[test]
fn a_write_that_fills_its_zone_makes_room_for_the_next_on_every_disk_at_its_limits() {
    for (max_open, max_active, explicit) in [(Some(1), Some(1), false), (Some(1), None, true), (None, Some(1), true)] {
        let shape = Shape { limits: ResourceLimits::new(max_open, max_active).unwrap(), ..small_shape() };
        let (_scratch, of_files) = disk(shape, Options::default());
        for mut bench in [of_files, of_memory(&shape)] {
            if explicit {
                assert_eq!(bench.status(bio(Op::ZoneOpen, zone(2), 0)), Status::Ok);
            }
            assert_eq!(bench.status(write(zone(2), CAPACITY - 8, 1)), Status::Ok);
            let halves = bench.run_all(vec![write(zone(2) + 1528, 8, 2), write(zone(3), 8, 3)]);
            assert_eq!([halves[0].0, halves[1].0], [Status::Ok; 2], "{max_open:?} {max_active:?}");
            assert_eq!((bench.zone(2).0, bench.zone(3)), (Condition::Full, (Condition::ImplicitOpen, 8)));
        }
    }
}

/// What is written in zones at once counts against the limits as if it had been written one after the other.
#[test]
fn at_its_limits_a_disk_of_files_does_what_one_of_memory_does() {
    for ((max_open, max_active), seed) in
        [(Some(1), Some(1)), (Some(1), None), (Some(2), Some(3)), (None, Some(2))].iter().zip(1..)
    {
        let shape = Shape { limits: ResourceLimits::new(*max_open, *max_active).unwrap(), ..small_shape() };
        let (_scratch, mut of_files) = disk(shape, Options::default());
        let (mut of_memory, mut random) = (of_memory(&shape), Random(seed));
        for batch in 0..150 {
            let report = of_memory.report();
            let mut numbers: Vec<u64> = (2..8).collect();
            numbers.sort_by_key(|_| random.next());
            let mut make = |number: u64| {
                let (start, wp) = (report[number as usize].start.0, report[number as usize].wp.0);
                let wp = wp.min(start + u64::from(CAPACITY) - 8);
                let left = (start + u64::from(CAPACITY) - wp) as u32;
                let sectors = if random.below(2) == 0 { left } else { left.min((1 + random.below(60)) as u32 * 8) };
                match random.below(10) {
                    0..6 => write(wp, sectors, number as u8),
                    6 => filled(Op::ZoneAppend, start, sectors, number as u8),
                    7 => bio(Op::WriteZeroes, wp, sectors),
                    8 => bio(Op::ZoneOpen, start, 0),
                    _ => bio(Op::ZoneClose, start, 0),
                }
            };
            // A reset frees what its zone holds when it is done, so it comes alone.
            let bios = |make: &mut dyn FnMut(u64) -> Bio| match batch % 3 {
                0 => vec![bio(Op::ZoneReset, zone(numbers[0]), 0)],
                _ => numbers[..4].iter().map(|number| make(*number)).collect(),
            };
            let commands = bios(&mut make);
            let copies = commands.iter().map(|of| {
                let payload = match of.payload.segments().first() {
                    Some(data) => Payload::Data(data.clone()),
                    None => Payload::None,
                };
                Bio::new(of.op, of.sector, of.sectors, payload)
            });
            let copies = copies.collect();
            let words: Vec<String> = commands.iter().map(|bio| format!("{bio:?}")).collect();
            let statuses =
                |outcomes: Vec<common::Outcome>| outcomes.iter().map(|(status, _)| *status).collect::<Vec<_>>();
            assert_eq!(
                statuses(of_files.run_all(commands)),
                statuses(of_memory.run_all(copies)),
                "{words:?} of batch {batch}, limits {max_open:?} {max_active:?}"
            );
            assert_eq!(of_files.report(), of_memory.report(), "after {words:?} of batch {batch}");
        }
    }
}

#[test]
fn zeroes_move_the_pointer_of_a_sequential_zone_and_punch_holes_in_a_conventional_one() {
    let (scratch, mut bench) = small();
    for (flags, at) in
        [(Flags::NONE, 0), (Flags::NO_UNMAP, 64), (Flags::FUA, 128), (Flags::FUA.with(Flags::NO_UNMAP), 192)]
    {
        for base in [0, zone(2)] {
            if base == 0 {
                assert_eq!(bench.status(write(at, 72, 3)), Status::Ok);
            }
            assert_eq!(bench.status(bio(Op::WriteZeroes, base + at, 64).with_flags(flags)), Status::Ok, "{flags:?}");
            assert!(bench.read(base + at, 64).iter().all(|b| *b == 0));
        }
        assert_eq!(bench.read(at + 64, 8)[0], 3, "what follows is as it was");
    }
    assert_eq!((bench.zone(2), size(&scratch, "seq-000002")), ((Condition::ImplicitOpen, 256), 256 * 512));
    assert_eq!(bench.status(bio(Op::WriteZeroes, zone(2), 8)), Status::Io, "not at the pointer");
    assert_eq!(bench.status(bio(Op::WriteZeroes, zone(2) + 256, 1280)), Status::Ok);
    assert_eq!(bench.zone(2).0, Condition::Full);
}

#[test]
fn a_flush_reaches_files_that_were_closed_since() {
    let shape = Shape::new(ZoneGeometry::new(64 * ZONE, ZONE, ZONE, 1).unwrap());
    let (scratch, mut bench) = disk(shape, Options { most_files: 2, ..Options::default() });
    for round in 0..3 {
        let mut bios: Vec<_> = (1..64).map(|n| write(zone(n) + round * 8, 8, n as u8)).collect();
        bios.push(bio(Op::Flush, 0, 0));
        bios.push(bio(Op::Flush, 0, 0));
        assert!(bench.run_all(bios).iter().all(|(status, _)| *status == Status::Ok));
        assert_eq!(bench.flush(), Status::Ok);
    }
    bench.read(0, 8);
    let mut text = String::new();
    bench.shard.stack.describe(bench.disk, &mut text).unwrap();
    assert!(text.ends_with("open_files=2"), "with nothing in flight the bound holds: {text}");
    drop(bench);
    assert_eq!(fs::read(scratch.path("disk/seq-000063")).unwrap(), vec![63; 12288]);
}

#[test]
fn preflush_and_fua_writes_land_where_they_belong() {
    let (scratch, mut bench) = small();
    let both = Flags::FUA.with(Flags::PREFLUSH);
    let bios = vec![
        write(zone(2), 8, 1).with_flags(both),
        write(zone(2) + 8, 8, 2),
        fua(write(16, 8, 3)),
        write(0, 8, 4).with_flags(Flags::PREFLUSH),
        filled(Op::ZoneAppend, zone(3), 8, 5).with_flags(both),
    ];
    assert!(bench.run_all(bios).iter().all(|(status, _)| *status == Status::Ok));
    assert_eq!(size(&scratch, "seq-000002"), 8192);
    assert_eq!((bench.read(zone(2) + 8, 8)[0], bench.read(16, 8)[0], bench.read(zone(3), 8)[0]), (2, 3, 5));
}

#[test]
fn a_file_that_vanished_is_an_error_with_a_notice_and_its_neighbours_live_on() {
    let (scratch, mut bench) = small();
    fs::remove_file(scratch.path("disk/seq-000004")).unwrap();
    assert_eq!(bench.status(write(zone(4), 8, 1)), Status::Io);
    assert_eq!(bench.status(write(zone(5), 8, 1)), Status::Ok);
    assert_eq!(bench.zone(4), (Condition::Empty, 0));
    let notices = bench.notices();
    assert!(notices[0].contains("disk/seq-000004") && notices[0].contains("restore the file"), "{notices:?}");
}

/// A model of the disk: the shared state machine and the bytes.
struct Model {
    zones: ZonedDisk,
    bytes: Vec<Vec<u8>>,
}

impl Model {
    fn new(shape: &Shape) -> Self {
        let zones = ZonedDisk::new(shape.zones, shape.limits);
        let bytes =
            (0..shape.zones.zones()).map(|zone| vec![0; shape.zones.len(ZoneNo(zone)) as usize * 512]).collect();
        Self { zones, bytes }
    }

    /// After a restart nothing is open.
    fn restart(&mut self, shape: &Shape) {
        let state = |zone| ZoneState::at_rest(self.zones.state(zone).wp, shape.zones.capacity_of(zone));
        self.zones = ZonedDisk::restore(shape.zones, shape.limits, state).unwrap();
    }

    fn store(&mut self, zone: ZoneNo, offset: u32, sectors: u32, fill: u8) {
        let from = offset as usize * 512;
        self.bytes[zone.index()][from..from + sectors as usize * 512].fill(fill);
        self.zones.advance(zone, sectors);
    }

    /// What the bio does to the model; whether it succeeds.
    fn apply(&mut self, bio: &Bio, fill: u8) -> bool {
        let zone = self.zones.zone_at(bio.sector).unwrap();
        let offset = self.zones.geometry().offset_in_zone(bio.sector);
        let wp = self.zones.state(zone).wp;
        match bio.op {
            Op::Write | Op::WriteZeroes => {
                let fill = if bio.op == Op::Write { fill } else { 0 };
                let begun = self.zones.begin_write(bio.sector, bio.sectors).is_ok();
                begun.then(|| self.store(zone, offset, bio.sectors, fill)).is_some()
            }
            Op::ZoneAppend => {
                let begun = self.zones.begin_append(zone, bio.sectors).is_ok();
                begun.then(|| self.store(zone, wp, bio.sectors, fill)).is_some()
            }
            Op::ZoneReset => {
                let done = self.zones.reset(zone).is_ok();
                if done {
                    self.bytes[zone.index()].fill(0);
                }
                done
            }
            Op::ZoneFinish => self.zones.finish(zone).is_ok(),
            Op::ZoneOpen => self.zones.open(zone).is_ok(),
            Op::ZoneClose => self.zones.close(zone).is_ok(),
            Op::ZoneResetAll => {
                let bytes = &mut self.bytes;
                self.zones.reset_all(|zone| bytes[zone.index()].fill(0));
                true
            }
            _ => true,
        }
    }

    fn compare(&self, bench: &mut Bench) {
        let report = bench.report();
        for (zone, expected) in report.iter().zip(self.zones.zones(Sector::ZERO)) {
            assert_eq!(*zone, expected);
            let got = bench.read(zone.start.0, zone.len as u32);
            let bytes = &self.bytes[(zone.start.0 / ZONE) as usize];
            assert!(got == *bytes, "the bytes of the zone at {} differ", zone.start);
        }
    }
}

fn random_bio(random: &mut Random, model: &Model, fill: u8) -> Bio {
    let zones = u64::from(model.zones.geometry().zones());
    let number = random.below(zones);
    let state = model.zones.state(ZoneNo(number as u32));
    let len = u64::from(model.zones.geometry().len(ZoneNo(number as u32)));
    let sectors = (1 + random.below(24)) as u32 * 8;
    let at = match model.zones.geometry().kind(ZoneNo(number as u32)) {
        ZoneKind::Sequential if random.below(8) > 0 => u64::from(state.wp),
        _ => random.below(len / 8) * 8,
    };
    let at = zone(number) + at.min(len.saturating_sub(u64::from(sectors)));
    let flags = [Flags::NONE, Flags::NONE, Flags::FUA, Flags::PREFLUSH][random.below(4) as usize];
    match random.below(40) {
        0..20 => write(at, sectors, fill).with_flags(flags),
        20..26 => filled(Op::ZoneAppend, zone(number), sectors, fill).with_flags(flags),
        26..30 => bio(Op::WriteZeroes, at, sectors).with_flags(flags),
        30..32 => bio(Op::ZoneReset, zone(number), 0),
        32 => bio(Op::ZoneFinish, zone(number), 0),
        33..35 => bio(Op::ZoneOpen, zone(number), 0),
        35..37 => bio(Op::ZoneClose, zone(number), 0),
        37 if random.below(6) == 0 => bio(Op::ZoneResetAll, 0, 0),
        _ => bio(Op::Flush, 0, 0),
    }
}

/// Random work in batches, compared with the model after every batch, with a restart after every few.
fn work_and_restart(path: &Path, shape: Shape, options: Options, seed: u64) {
    create(path, &shape);
    let (mut random, mut model) = (Random(seed), Model::new(&shape));
    for _ in 0..6 {
        let mut bench = Bench::zoned(path, options);
        model.compare(&mut bench);
        for _ in 0..25 {
            let mut bios = Vec::new();
            let mut expected = Vec::new();
            // One bio per conventional zone and batch: nothing orders two writes of one place that are in flight together.
            let mut touched = [false; 2];
            for _ in 0..random.below(8) + 1 {
                let fill = random.below(255) as u8 + 1;
                let bio = random_bio(&mut random, &model, fill);
                let conventional = touched.get_mut((bio.sector.0 / ZONE) as usize).filter(|_| bio.op.has_range());
                let again = conventional.is_some_and(|touched| std::mem::replace(touched, true));
                if again || bio.op == Op::ZoneResetAll && !bios.is_empty() {
                    continue;
                }
                let ends_batch = bio.op == Op::ZoneResetAll;
                expected.push((model.apply(&bio, fill), format!("{bio:?}")));
                bios.push(bio);
                if ends_batch {
                    break;
                }
            }
            for ((status, _), (succeeds, what)) in bench.run_all(bios).iter().zip(&expected) {
                assert_eq!(status.is_ok(), *succeeds, "{what}: {status}, seed {seed}");
            }
        }
        model.compare(&mut bench);
        model.restart(&shape);
    }
}

#[test]
fn a_restart_finds_every_byte_and_write_pointer_again() {
    let runt = Shape::new(ZoneGeometry::new(7 * ZONE + 512, ZONE, ZONE, 1).unwrap());
    let appendless = Shape { append: false, ..small_shape() };
    let few_files = Options { most_files: 2, ..Options::default() };
    let direct = Options { direct: true, ..Options::default() };
    let setups =
        [(small_shape(), Options::default()), (runt, few_files), (small_shape(), direct), (appendless, few_files)];
    for (seed, (shape, options)) in setups.into_iter().enumerate() {
        let scratch = Scratch::new();
        work_and_restart(&scratch.path("disk"), shape, options, seed as u64 + 1);
    }
}

#[test]
fn after_every_flush_a_copy_of_the_directory_is_a_disk_with_all_that_was_written() {
    let (scratch, shape) = (Scratch::new(), small_shape());
    let path = scratch.path("disk");
    create(&path, &shape);
    let (mut random, mut model) = (Random(77), Model::new(&shape));
    let mut bench = Bench::zoned(&path, Options::default());
    for stop in 0..12 {
        for _ in 0..random.below(12) {
            let fill = random.below(255) as u8 + 1;
            let bio = random_bio(&mut random, &model, fill);
            let succeeds = model.apply(&bio, fill);
            assert_eq!(bench.status(bio).is_ok(), succeeds);
        }
        assert_eq!(bench.flush(), Status::Ok);
        let copy = scratch.path(&format!("copy-{stop}"));
        fs::create_dir(&copy).unwrap();
        for (name, bytes) in common::snapshot(&path) {
            fs::write(copy.join(name), bytes).unwrap();
        }
        let mut then = Model { zones: ZonedDisk::new(shape.zones, shape.limits), bytes: model.bytes.clone() };
        std::mem::swap(&mut then.zones, &mut model.zones);
        let states: Vec<_> = (0..8).map(|n| then.zones.state(ZoneNo(n))).collect();
        model.zones = ZonedDisk::restore(shape.zones, shape.limits, |zone| states[zone.index()]).unwrap();
        then.restart(&shape);
        then.compare(&mut Bench::zoned(&copy, Options::default()));
        fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
fn memory_that_is_not_aligned_for_direct_io_is_written_and_read_all_the_same() {
    let (_scratch, mut bench) = disk(small_shape(), Options { direct: true, ..Options::default() });
    let odd = |fill: u8| {
        let data = Data::zeroed(8192).slice(8, 4096);
        data.fill(fill);
        Payload::Data(data)
    };
    assert_eq!(bench.status(Bio::new(Op::Write, Sector(zone(2)), 8, odd(6))), Status::Ok);
    let (status, bio) = bench.run(Bio::new(Op::Read, Sector(zone(2)), 8, odd(0)));
    assert_eq!((status, bio.payload.segments()[0].to_vec()), (Status::Ok, vec![6; 4096]));
}

/// The file size limit of a process stands for a full file system: it needs no privilege.
#[test]
fn a_full_file_system_is_no_space_and_the_pointer_is_what_fitted() {
    let Some(path) = child_argument() else {
        let scratch = Scratch::new();
        create(&scratch.path("disk"), &small_shape());
        return run_in_child(
            "zoned_dir::a_full_file_system_is_no_space_and_the_pointer_is_what_fitted",
            &scratch.path("disk"),
        );
    };
    shingle_sys::unix::ignore_file_size_signal();
    let mut bench = Bench::zoned(&path, Options::default());
    let limit = rustix::process::Rlimit { current: Some(100_000), maximum: None };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    let outcomes = bench.run_all(vec![write(zone(2), 64, 1), write(zone(2) + 64, 256, 2), write(zone(2) + 320, 8, 3)]);
    let statuses: Vec<_> = outcomes.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [Status::Ok, Status::NoSpace, Status::Io], "the third is no longer at the pointer");
    let fitted = 100_000 / 4096 * 8;
    assert_eq!(bench.zone(2), (Condition::ImplicitOpen, fitted), "whole blocks that fitted count");
    assert_eq!(bench.read(zone(2) + fitted - 8, 8), vec![2; 4096]);
    assert_eq!(bench.status(bio(Op::ZoneFinish, zone(2), 0)), Status::NoSpace);
    assert_eq!(bench.zone(2), (Condition::ImplicitOpen, fitted), "a finish that failed changes nothing");
    assert_eq!(bench.status(bio(Op::WriteZeroes, zone(3), 400)), Status::NoSpace);
    assert_eq!(bench.zone(3), (Condition::ImplicitOpen, 0));
    assert_eq!(bench.status(bio(Op::ZoneReset, zone(2), 0)), Status::Ok);
    assert_eq!(bench.status(write(zone(2), 8, 4)), Status::Ok, "and after a reset there is room again");
    assert_eq!(bench.flush(), Status::Ok);
    let notices = bench.notices();
    let words = ["seq-000002: a change failed: no space", "free space"];
    assert!(words.iter().all(|word| notices[0].contains(word)), "{notices:?}");
}

/// Files of the machine, until they are sealed: then every call that may wait for a file system is a failure.
#[derive(Default)]
struct Sealable(Cell<bool>);

impl Sealable {
    fn check(&self, call: &str) {
        assert!(!self.0.get(), "{call} was called beside the ring");
    }
}

impl Files for Sealable {
    fn open(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        self.check("open");
        rustix::fs::open(path, flags, Mode::empty())
    }

    fn stat(&self, path: &Path) -> rustix::io::Result<Stat> {
        self.check("stat");
        rustix::fs::stat(path)
    }

    fn openat(&self, directory: BorrowedFd<'_>, name: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        self.check("openat");
        rustix::fs::openat(directory, name, flags, mode)
    }

    fn statat(&self, directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<Stat> {
        self.check("statat");
        rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn fstat(&self, file: BorrowedFd<'_>) -> rustix::io::Result<Stat> {
        self.check("fstat");
        rustix::fs::fstat(file)
    }

    fn ftruncate(&self, file: BorrowedFd<'_>, len: u64) -> rustix::io::Result<()> {
        self.check("ftruncate");
        rustix::fs::ftruncate(file, len)
    }

    fn fsync(&self, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.check("fsync");
        rustix::fs::fsync(file)
    }
}

/// One that waited for the server of a network file system would keep all disks of its shard waiting.
#[test]
fn an_open_disk_asks_its_file_system_through_the_ring_alone() {
    let scratch = Scratch::new();
    create(&scratch.path("disk"), &small_shape());
    let files = Rc::new(Sealable::default());
    let mut shard = Shard::new().unwrap();
    let options = Options { most_files: 1, ..Options::default() };
    let disk = zoned_dir::open_on(files.clone(), &scratch.path("disk"), &options, shard.ring()).unwrap();
    let disk = shard.stack.add(Box::new(disk)).unwrap();
    let mut bench = Bench { shard, disk };
    files.0.set(true);
    for zone in [2, 3, 4] {
        assert_eq!(bench.status(write(zone * ZONE, 64, 1)), Status::Ok);
        assert_eq!(bench.status(write(zone * ZONE + 64, 64, 1).with_flags(Flags::FUA)), Status::Ok);
        assert_eq!(bench.status(bio(Op::WriteZeroes, zone * ZONE + 128, 64)), Status::Ok);
        assert_eq!(bench.status(write(0, 64, 1)), Status::Ok);
    }
    assert_eq!(bench.flush(), Status::Ok);
    std::fs::remove_file(scratch.path("disk/seq-000005")).unwrap();
    assert_eq!(bench.flush(), Status::Io, "names were looked at");
    assert_ne!(bench.status(write(5 * ZONE, 64, 1)), Status::Ok);
    assert_eq!(bench.status(bio(Op::ZoneFinish, 2 * ZONE, 0)), Status::Ok);
    assert_eq!(bench.status(bio(Op::ZoneResetAll, 0, 0)), Status::Ok);
    let told = bench.shard.stack.with_device(disk, |disk: &mut ZonedDir, cx| disk.check(cx.now(), cx)).unwrap();
    assert!(told.iter().any(|line| line.contains("seq-000005")), "{told:?}");
}
