//! `striped` over zoned disks: wide zones behave as the zones of one disk, also after failures and power cuts.

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Flags, Limits, Op, Payload, Status, ZonedLimits};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::{OpSet, Trigger};
use shingle_core::harness::MockDevice;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::{Condition, Zone, ZoneGeometry, ZoneKind};
use shingle_sim::Choices;
use shingle_sim::disk::{CrashConfig, CrashDisk, Medium};
use shingle_sim::fault::{Fault, FaultPlan};

use crate::desk::{at_desk_of, preflush};
use crate::tables::{Mapped, data, pattern, range};

/// Sectors of a zone of the disks, and those that can be written.
const ZONE: u64 = 64;
const CAPACITY: u64 = 56;
const ZONES: u64 = 6;
const CONVENTIONAL: u32 = 2;
const CHUNK: u64 = 8;

fn zones(zone_sectors: u64, capacity: u64) -> NullZones {
    NullZones { zone_capacity: Some(capacity), conventional: CONVENTIONAL, ..NullZones::new(zone_sectors) }
}

/// A disk of such zones that does everything at once and keeps what is written.
fn disk(zones: NullZones) -> Box<dyn BlockDevice> {
    let config = NullConfig::zoned(ZONES * zones.zone_sectors, zones);
    Box::new(NullDevice::new(&NullConfig { memory_backed: true, write_zeroes: true, ..config }).unwrap())
}

/// `count` disks in stripes.
fn striped(count: u64) -> Mapped {
    let mut mapped = Mapped::over((0..count).map(|_| disk(zones(ZONE, CAPACITY))));
    mapped.add("wide", &line(count)).unwrap();
    mapped
}

/// All zones of the first `count` disks in stripes.
fn line(count: u64) -> String {
    let parts = (0..count).map(|disk| format!(" {} 0", char::from(b'a' + disk as u8)));
    format!("0 {} striped {count} {CHUNK}{}", ZONES * ZONE * count, parts.collect::<String>())
}

/// One disk that has from the start the zones that striped ones are to have.
fn model(count: u64) -> Mapped {
    let mut mapped = Mapped::over([disk(zones(ZONE * count, CAPACITY * count))]);
    // A line with errors beside it would change the limits: the plug alone is what the other has, too.
    let limits = mapped.rig.stack.limits(DeviceId(0)).clone();
    let plug = shingle_core::dm::Resolver::plug(&mapped.shelf, DeviceId(0), &limits).unwrap().unwrap();
    mapped.rig.top = mapped.rig.stack.add(plug).unwrap();
    mapped.rig.settle();
    mapped
}

fn manage(op: Op, sector: u64) -> Bio {
    Bio::new(op, Sector(sector), 0, Payload::None)
}

/// A bio that a host could send to zones as these: mostly fine, some wrong.
fn random_bio(rng: &mut Rng, zones: &[Zone]) -> Bio {
    let zone = zones[rng.below(ZONES) as usize];
    let longest = if rng.chance(1, 4) { 3 * CHUNK * 4 } else { 2 * CHUNK };
    let sectors = 1 + rng.below(longest) as u32;
    let byte = rng.below(256) as u8;
    let offset = if zone.cond == Condition::NotWp { rng.below(zone.capacity) } else { zone.wp - zone.start };
    let (start, at) = (zone.start.0, zone.start.0 + offset.min(zone.len - 1));
    match rng.below(40) {
        0..12 => data(Op::Write, at, sectors, byte),
        12..20 => data(Op::ZoneAppend, start, sectors, byte),
        20..24 => range(Op::WriteZeroes, at, sectors),
        24..32 => data(Op::Read, start + rng.below(zone.capacity), sectors, byte),
        32 => data(Op::Write, start + rng.below(zone.len), sectors, byte),
        33 => manage(Op::ZoneFinish, start),
        34 | 35 => manage(Op::ZoneReset, start),
        36 => manage(Op::ZoneOpen, start),
        37 => manage(Op::ZoneClose, start),
        _ if rng.chance(1, 20) => manage(Op::ZoneResetAll, 0),
        _ => manage(Op::ZoneFinish, start),
    }
}

#[test]
fn wide_zones_do_what_one_disk_with_such_zones_does() {
    for (count, seed) in [(2, 1), (2, 2), (2, 3), (4, 4), (4, 5)] {
        let (mut striped, mut model, mut rng) = (striped(count), model(count), Rng::new(seed));
        assert_eq!(striped.rig.stack.limits(striped.rig.top).zones(), ZONES as u32);
        for step in 0..2000 {
            let expected = model.report(model.rig.top, 0, 64);
            let found = striped.report(striped.rig.top, 0, 64);
            assert_eq!(found, expected, "before step {step} of {count} stripes");
            let bio = random_bio(&mut rng, &expected);
            let again = Bio::new(bio.op, bio.sector, bio.sectors, bio.payload.slice(0, bio.sectors));
            let text = format!("step {step} of {count} stripes: {bio:?}");
            let ((status, bio), (wanted, model_bio)) =
                (striped.send(striped.rig.top, bio), model.send(model.rig.top, again));
            assert_eq!(status, wanted, "{text}");
            if bio.op == Op::ZoneAppend && status.is_ok() {
                assert_eq!(bio.sector, model_bio.sector, "{text}");
            }
        }
        let len = (ZONES * ZONE * count) as u32;
        for sector in (0..len).step_by(4) {
            let (found, wanted) =
                (striped.read(striped.rig.top, sector.into(), 4), model.read(model.rig.top, sector.into(), 4));
            assert!(found == wanted, "sector {sector} of {count} stripes");
        }
    }
}

#[test]
fn a_report_fills_the_room_it_is_given_and_no_more() {
    let mut mapped = striped(2);
    for room in 1..8 {
        for sector in [0, 1, 127, 128, 640, 767] {
            let all = mapped.report(mapped.rig.top, 0, 64);
            let wanted = &all[sector / 128..][..room.min(6 - sector / 128)];
            assert_eq!(mapped.report(mapped.rig.top, sector as u64, room), wanted);
        }
    }
    assert!(mapped.report(mapped.rig.top, 768, 4).is_empty());
}

#[test]
fn parts_of_disks_and_other_lines_have_their_place_in_one_table() {
    let mut mapped = Mapped::over((0..3).map(|n| disk(zones(if n < 2 { ZONE } else { 2 * ZONE }, CAPACITY))));
    let table = "0 256 striped 2 8 a 128 b 192\n256 128 linear c 256";
    let top = mapped.add("wide", table).unwrap();
    let zoned = mapped.rig.stack.limits(top).zoned.clone().unwrap();
    assert_eq!((zoned.zone_sectors, zoned.conventional.len()), (128, 0));
    assert_eq!(mapped.run(data(Op::Write, 128, 24, 5)), Status::Ok);
    assert_eq!(mapped.run(data(Op::Write, 256, 8, 6)), Status::Ok);
    let pointers: Vec<u64> = mapped.report(top, 0, 8).iter().map(|zone| zone.wp - zone.start).collect();
    assert_eq!(pointers, [0, 24, 8]);
    let at = |mapped: &mut Mapped, device, sector: u64| mapped.report(DeviceId(device), sector, 1)[0].wp.0;
    assert_eq!((at(&mut mapped, 0, 192), at(&mut mapped, 1, 256), at(&mut mapped, 2, 256)), (208, 264, 264));
    assert_eq!(mapped.run(manage(Op::ZoneResetAll, 0)), Status::Ok);
    assert!(mapped.report(top, 0, 8).iter().all(|zone| zone.cond == Condition::Empty));
}

#[test]
fn conventional_zones_alone_are_a_regular_device() {
    let mut mapped = Mapped::over((0..2).map(|_| disk(zones(ZONE, CAPACITY))));
    let top = mapped.add("plain", "0 256 striped 2 8 a 0 b 0").unwrap();
    assert_eq!(mapped.rig.stack.limits(top).zoned, None);
    assert_eq!(mapped.run(data(Op::Write, 100, 100, 5)), Status::Ok);
    assert_eq!(mapped.run(data(Op::Write, 20, 60, 6)), Status::Ok);
    assert!(mapped.read(top, 80, 120).unwrap()[20 * 512..] == pattern(5, 100));
    assert!(mapped.read(top, 20, 60).unwrap() == pattern(6, 60));
}

#[test]
fn a_full_wide_zone_holds_no_resource_of_disks_whose_zones_have_more() {
    let own = |capacity| NullZones { max_open: Some(1), max_active: Some(1), ..zones(ZONE, capacity) };
    let mut mapped = Mapped::over([disk(own(60)), disk(own(58))]);
    let top = mapped.add("wide", &line(2)).unwrap();
    let first = mapped.report(top, 256, 1)[0];
    assert_eq!((first.capacity, first.len), (112, 128));
    for zone in 2..6 {
        // Some in one write, some in many, and the last by appends.
        let step = [112, 8, 7, 16][zone as usize - 2];
        for at in (0..112).step_by(step) {
            let sectors = step.min(112 - at) as u32;
            let bio = match zone {
                5 => data(Op::ZoneAppend, zone * 128, sectors, 1),
                _ => data(Op::Write, zone * 128 + at as u64, sectors, 1),
            };
            assert_eq!(mapped.run(bio), Status::Ok, "zone {zone} at {at}: no zone may be left active");
        }
        assert_eq!(mapped.report(top, zone * 128, 1)[0].cond, Condition::Full);
        for disk in 0..2 {
            assert_eq!(mapped.report(DeviceId(disk), zone * ZONE, 1)[0].cond, Condition::Full);
        }
    }
}

#[test]
fn a_stripe_gets_one_write_at_a_time_with_no_more_segments_than_its_disk_takes() {
    for most in 1..7 {
        let desk = |_| {
            let mut desk = MockDevice::zoned(4, 256, 256, 0);
            desk.limits_mut().max_segments = Some(most);
            Box::new(desk) as Box<dyn BlockDevice>
        };
        let mut mapped = Mapped::over((0..2).map(desk));
        mapped.add("wide", "0 2048 striped 2 4 a 0 b 0").unwrap();
        let _ = end_all(&mut mapped);
        let (mut rng, mut at) = (Rng::new(most.into()), 0);
        while at < 512 {
            let sectors = (1 + rng.below(60) as u32).min(512 - at);
            let mut bio = data(Op::Write, at.into(), sectors, 9);
            // In as many segments as there are sectors: the entry cuts it to what the device takes.
            let segments = (0..sectors).map(|n| bio.payload.slice(n, 1).segments()[0].clone()).collect();
            bio.payload = Payload::Segments(segments);
            mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(bio));
            mapped.rig.settle();
            at += sectors;
            loop {
                for disk in 0..2 {
                    let desk: &MockDevice = mapped.rig.stack.device(DeviceId(disk)).unwrap();
                    assert!(desk.held().iter().all(|held| held.segments as u32 <= most), "{:?}", desk.held());
                    assert_eq!(desk.violations, Vec::<String>::new(), "at most {most} segments");
                }
                if at_desk_of(&mut mapped.rig.stack, &mapped.shelf.0, Status::Ok).is_empty() {
                    break;
                }
                mapped.rig.settle();
            }
            while let Some(done) = mapped.rig.stack.poll_completion(mapped.rig.port) {
                assert_eq!(done.status, Status::Ok);
            }
        }
    }
}

/// Two desks in stripes, with the first report of the plug behind them.
fn desks() -> Mapped {
    let mut mapped = Mapped::over((0..2).map(|_| Box::new(MockDevice::zoned(4, 64, 64, 0)) as Box<dyn BlockDevice>));
    mapped.add("wide", "0 512 striped 2 8 a 0 b 0").unwrap();
    let _ = end_all(&mut mapped);
    mapped
}

fn end_all(mapped: &mut Mapped) -> Vec<String> {
    let mut seen = vec![];
    loop {
        mapped.rig.settle();
        let now = at_desk_of(&mut mapped.rig.stack, &mapped.shelf.0, Status::Ok);
        if now.is_empty() {
            return seen;
        }
        seen.extend(now);
    }
}

/// What lies on the desks.
fn lying(mapped: &Mapped) -> Vec<String> {
    let held = |disk| mapped.rig.stack.device::<MockDevice>(DeviceId(disk)).unwrap().held();
    (0..2).flat_map(held).map(|held| format!("{} {}+{}", held.op.name(), held.sector, held.sectors)).collect()
}

#[test]
fn a_report_is_taken_while_nothing_changes() {
    let mut mapped = desks();
    let report = || Bio::new(Op::ReportZones, Sector(0), 0, Payload::Zones(Vec::with_capacity(8)));
    for bio in [data(Op::Write, 0, 16, 1), report(), data(Op::Write, 128, 8, 1), data(Op::Read, 8, 8, 1)] {
        mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(bio));
    }
    mapped.rig.settle();
    assert_eq!(lying(&mapped), ["WRITE 0+8", "WRITE 0+8", "READ 0+8"], "reads need not wait");
    at_desk_of(&mut mapped.rig.stack, &mapped.shelf.0, Status::Ok);
    mapped.rig.settle();
    assert_eq!(lying(&mapped), ["REPORT_ZONES 0+0", "REPORT_ZONES 0+0"]);
    assert_eq!(end_all(&mut mapped), ["a REPORT_ZONES 0+0", "b REPORT_ZONES 0+0", "a WRITE 64+8"]);
    let ends: Vec<_> = std::iter::from_fn(|| mapped.rig.stack.poll_completion(mapped.rig.port)).collect();
    assert!(ends.len() == 4 && ends.iter().all(|end| end.status.is_ok()));
    let zones =
        ends.iter().find_map(|end| if let Payload::Zones(zones) = &end.bio.payload { Some(zones) } else { None });
    assert_eq!((zones.unwrap()[0].wp.0, zones.unwrap()[0].cond), (16, Condition::ImplicitOpen));
}

#[test]
fn a_write_with_preflush_goes_after_the_flush_of_the_other_stripes_and_before_the_next_write() {
    let mut mapped = desks();
    for bio in [preflush(data(Op::Write, 0, 8, 1)), data(Op::Write, 8, 8, 1), preflush(data(Op::Write, 16, 12, 1))] {
        mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(bio));
    }
    let seen = end_all(&mut mapped);
    let wanted = [
        "b FLUSH 0+0",
        "a WRITE 0+8 preflush",
        "b WRITE 0+8",
        "a FLUSH 0+0",
        "b FLUSH 0+0",
        "a WRITE 8+8",
        "b WRITE 8+4",
    ];
    assert_eq!(seen, wanted);
    assert_eq!(std::iter::from_fn(|| mapped.rig.stack.poll_completion(mapped.rig.port)).count(), 3);
}

#[test]
fn a_write_that_fails_on_one_disk_leaves_a_zone_that_can_be_read_finished_and_reset() {
    let mut mapped = striped(2);
    let bad = |mapped: &mut Mapped, is_bad| {
        let range = Sector(2 * ZONE + 8)..Sector(2 * ZONE + 9);
        let change = if is_bad { NullDevice::add_bad_blocks } else { NullDevice::remove_bad_blocks };
        mapped.rig.stack.with_device(DeviceId(0), |disk: &mut NullDevice, _| change(disk, range)).unwrap();
    };
    let start = 4 * ZONE;
    assert_eq!(mapped.run(data(Op::Write, start, 16, 1)), Status::Ok);
    bad(&mut mapped, true);
    assert!(!mapped.run(data(Op::Write, start + 16, 16, 2)).is_ok());
    let zone = mapped.report(mapped.rig.top, start, 1)[0];
    assert_eq!((zone.cond, zone.wp), (Condition::Full, zone.start + zone.len), "it is torn: one disk has its chunk");
    assert_eq!(mapped.run(data(Op::Write, start + 16, 8, 3)), Status::Io);
    assert_eq!(mapped.run(manage(Op::ZoneOpen, start)), Status::Io);
    assert!(mapped.read(mapped.rig.top, start, 16).unwrap() == pattern(1, 16));
    assert_eq!(mapped.run(manage(Op::ZoneFinish, start)), Status::Ok);
    assert!(mapped.read(mapped.rig.top, start, 16).unwrap() == pattern(1, 16));
    bad(&mut mapped, false);
    assert_eq!(mapped.run(manage(Op::ZoneReset, start)), Status::Ok);
    assert_eq!(mapped.run(data(Op::Write, start, 112, 4)), Status::Ok);
    assert!(mapped.read(mapped.rig.top, start, 112).unwrap() == pattern(4, 112));
    let mut status = String::new();
    mapped.rig.stack.status(DeviceId(2), &mut status).unwrap();
    assert_eq!(status, "2 a b 1 DA");
}

#[test]
fn a_wide_zone_is_as_good_as_the_worst_of_its_parts() {
    let mut mapped = striped(2);
    mapped.run(data(Op::Write, 4 * ZONE, 8, 1));
    let zone = shingle_core::zone::ZoneNo;
    mapped.rig.stack.with_device(DeviceId(0), |disk: &mut NullDevice, _| disk.set_read_only(zone(2)).unwrap());
    mapped.rig.stack.with_device(DeviceId(1), |disk: &mut NullDevice, _| disk.set_offline(zone(3)).unwrap());
    let conditions: Vec<_> = mapped.report(mapped.rig.top, 4 * ZONE, 3).iter().map(|zone| zone.cond).collect();
    assert_eq!(conditions, [Condition::ReadOnly, Condition::Offline, Condition::Empty]);
    assert!(mapped.read(mapped.rig.top, 4 * ZONE, 8).unwrap() == pattern(1, 8));
    assert!(!mapped.run(data(Op::Write, 6 * ZONE, 8, 1)).is_ok());
}

#[test]
fn a_bio_that_must_not_wait_is_not_spread() {
    let mut mapped = striped(2);
    assert_eq!(mapped.run(data(Op::Write, 4 * ZONE, 16, 1).with_flags(Flags::NOWAIT)), Status::Again);
    assert_eq!(mapped.run(manage(Op::ZoneReset, 4 * ZONE)), Status::Ok);
    assert_eq!(mapped.run(data(Op::Write, 4 * ZONE, 8, 1).with_flags(Flags::NOWAIT)), Status::Ok);
}

#[test]
fn zones_that_do_not_go_together_are_refused_with_the_reason() {
    let with = |conventional| NullZones { conventional, ..zones(ZONE, CAPACITY) };
    let coarse = NullConfig { block_bytes: 8192, ..NullConfig::zoned(ZONES * ZONE, zones(ZONE, ZONE)) };
    for (table, words) in [
        ("0 1152 striped 3 8 a 0 b 0 c 0", "argument 1: striped: 3 zoned stripes: write a power of two"),
        ("0 256 striped 2 8 a 0 d 0", "argument 5: zone size in sectors differs: 64 above, 128 below"),
        ("0 256 striped 2 8 a 0 e 0", "argument 5: zoned model differs: host-managed above, none below"),
        ("0 256 striped 2 8 a 32 b 0", "argument 4: `a`: sectors 32+128 are not whole zones of 64 sectors"),
        ("0 160 striped 2 8 a 0 b 0", "argument 4: `a`: sectors 0+80 are not whole zones"),
        ("0 384 striped 2 6 a 0 b 0", "argument 2: striped: the chunk size is 6: over zones of 64 sectors"),
        ("0 512 striped 2 128 a 0 b 0", "argument 2: striped: the chunk size is 128: over zones"),
        ("0 256 striped 2 8 a 0 g 0", "`g` has blocks of 16 sectors"),
        ("0 768 striped 2 8 a 0 c 0", "argument 5: striped: `c` has conventional zones in other places"),
        ("0 512 striped 2 8 a 128 a 128", "argument 5: striped: `a` stands twice"),
        ("0 376 striped 1 8 f 0", "argument 1: striped: one stripe over zones: the kernel refuses it; use `linear f`"),
        ("0 752 striped 2 8 f 0 h 0", "argument 3: striped: `f` has a short last zone there: leave it out"),
    ] {
        let regular = Box::new(NullDevice::new(&NullConfig::new(4096)).unwrap()) as Box<dyn BlockDevice>;
        let coarse = Box::new(NullDevice::new(&coarse).unwrap()) as Box<dyn BlockDevice>;
        let short = || Box::new(NullDevice::new(&NullConfig::zoned(ZONES * ZONE - 8, zones(ZONE, ZONE))).unwrap());
        let disks = [
            disk(with(2)),
            disk(with(2)),
            disk(with(3)),
            disk(zones(2 * ZONE, 100)),
            regular,
            short(),
            coarse,
            short(),
        ];
        let error = Mapped::over(disks).add("wide", table).err().unwrap_or_else(|| panic!("accepted: {table}"));
        assert!(error.starts_with("table line 1") && error.contains(words), "{table}: {error}");
    }
}

#[test]
fn the_limits_on_zones_are_those_of_the_strictest_disk() {
    let own = |open, active| NullZones { max_open: open, max_active: active, ..NullZones::new(ZONE) };
    let mut mapped = Mapped::over([disk(own(Some(3), None)), disk(own(None, Some(2)))]);
    let top = mapped.add("wide", &line(2)).unwrap();
    let ZonedLimits { max_open, max_active, max_append, .. } = mapped.rig.stack.limits(top).zoned.clone().unwrap();
    assert_eq!((max_open, max_active, max_append), (Some(2), Some(2), Some(128)), "the plug makes writes of appends");
    for zone in 0..2 {
        assert_eq!(mapped.run(data(Op::Write, zone * 128, 16, 1)), Status::Ok);
    }
    assert_eq!(mapped.run(data(Op::Write, 256, 16, 1)), Status::ZoneActiveResource);
}

#[test]
fn a_finish_begins_with_the_last_stripe_and_a_reset_with_the_first_and_both_last_before_they_go_on() {
    let mut mapped = desks();
    let mut seen = |op| {
        mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(manage(op, 128)));
        end_all(&mut mapped)
    };
    assert_eq!(seen(Op::ZoneFinish), ["b ZONE_FINISH 64+0", "b FLUSH 0+0", "a ZONE_FINISH 64+0"]);
    assert_eq!(seen(Op::ZoneReset), ["a ZONE_RESET 64+0", "a FLUSH 0+0", "b ZONE_RESET 64+0", "b FLUSH 0+0"]);
    let all = ["a ZONE_RESET_ALL 0+0", "a FLUSH 0+0", "b ZONE_RESET_ALL 0+0", "b FLUSH 0+0"];
    assert_eq!(seen(Op::ZoneResetAll), all);
}

/// A disk with zones of `ZONE` sectors and a write cache.
fn cached(plan: FaultPlan, medium: Option<Medium>, seed: u64) -> Box<dyn BlockDevice> {
    let config = CrashConfig::new(ZoneGeometry::new(2 * ZONE, ZONE, ZONE, 0).unwrap());
    let disk = match medium {
        None => CrashDisk::new(config, plan, seed),
        Some(medium) => CrashDisk::restart(config, plan, seed, medium),
    };
    Box::new(disk.unwrap())
}

/// Two of them in stripes, in which all of a stripe's zone is one chunk.
const ONE_CHUNK: &str = "0 256 striped 2 64 a 0 b 0";

#[test]
fn a_finish_that_fails_on_one_disk_leaves_no_zone_that_looks_written() {
    for bad in 0..2 {
        let trigger = || Trigger { ops: OpSet::of(&[Op::ZoneFinish]), ..Trigger::default() };
        let failing = || FaultPlan::none().with(trigger(), Fault::Fail(Status::Io));
        let plan = |disk| if disk == bad { failing() } else { FaultPlan::none() };
        let mut mapped = Mapped::over((0..2).map(|disk| cached(plan(disk), None, disk)));
        mapped.add("wide", ONE_CHUNK).unwrap();
        assert_eq!(mapped.run(data(Op::Write, 0, 13, 1)), Status::Ok);
        assert_eq!(mapped.run(manage(Op::ZoneFinish, 0)), Status::Io);
        let zone = mapped.report(mapped.rig.top, 0, 1)[0];
        let is_torn = zone.cond == Condition::Full;
        assert!(is_torn || zone.wp == Sector(13), "disk {bad} fails: {zone:?}, and 13 sectors were written");
    }
}

/// What is done wrong below the stripes.
#[derive(Clone, Copy, PartialEq)]
enum Bug {
    /// A flush ends before anything is durable.
    Flush,
    /// A change of a zone is told before it is done.
    Change,
}

struct Hasty {
    below: [DeviceId; 1],
    limits: Limits,
    bug: Bug,
}

impl BlockDevice for Hasty {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::Flush if self.bug == Bug::Flush => cx.complete(bio, Status::Ok),
            Op::ZoneReset | Op::ZoneFinish if self.bug == Bug::Change => {
                let own = cx.own_bio(Bio::new(bio.op, bio.sector, 0, Payload::None));
                cx.complete(bio, Status::Ok);
                cx.submit(self.below[0], own, 0);
            }
            _ => cx.remap(self.below[0], bio),
        }
    }

    fn end_io(&mut self, own: Box<Bio>, _: Status, _: u64, cx: &mut Cx<'_>) {
        cx.recycle(own);
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("a bug")
    }
}

/// A wide zone is written, finished, reset and written again, and the power goes somewhere on the way. Of so many seeds, how
/// many leave a zone that says or holds what nobody has written so.
fn wrong_after_a_cut(bug: Option<Bug>) -> usize {
    let stack = |media: [Option<Medium>; 2], seed| {
        let mut mapped = Mapped::over(media.into_iter().map(|medium| cached(FaultPlan::none(), medium, seed)));
        for (disk, bug) in [0, 1].into_iter().zip([bug; 2]) {
            let Some(bug) = bug else { continue };
            let limits = mapped.rig.stack.limits(DeviceId(disk)).clone();
            let hasty = Hasty { below: [DeviceId(disk)], limits, bug };
            mapped.shelf.0[usize::from(disk)].1 = mapped.rig.stack.add(Box::new(hasty)).unwrap();
        }
        mapped.add("wide", ONE_CHUNK).unwrap();
        mapped
    };
    let is_wrong = |seed: &u64| {
        let mut rng = Rng::new(*seed);
        let mut mapped = stack([None, None], *seed);
        let (old, new) = (1 + rng.below(2 * ZONE - 1), 1 + rng.below(ZONE));
        assert_eq!(mapped.run(data(Op::Write, 0, old as u32, 1)), Status::Ok);
        assert_eq!(mapped.run(manage(Op::Flush, 0)), Status::Ok);
        let steps = [manage(Op::ZoneFinish, 0), manage(Op::ZoneReset, 0), data(Op::Write, 0, new as u32, 2)];
        let done = rng.below(steps.len() as u64) as usize;
        for (step, bio) in steps.into_iter().enumerate().take(done + 1) {
            mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(bio));
            let soon = Instant(mapped.rig.now.0 + rng.below(1_000_000));
            while step == done && mapped.rig.now < soon {
                mapped.rig.now = mapped.rig.stack.turn(mapped.rig.now).map_or(soon, |next| next.min(soon));
            }
            if step < done {
                mapped.rig.settle();
            }
        }
        let media = [0, 1].map(|disk| {
            let cut = |disk: &mut CrashDisk, _: &mut Cx<'_>| disk.cut_power(&mut Choices::new(rng.fork()));
            mapped.rig.stack.with_device(DeviceId(disk), cut)
        });
        let mut mapped = stack(media, *seed);
        let zone = mapped.report(mapped.rig.top, 0, 1)[0];
        let found = mapped.read(mapped.rig.top, 0, 2 * ZONE as u32).unwrap();
        let kept = |byte: u8, sectors: u64| found[..sectors as usize * 512] == pattern(byte, sectors as u32);
        match zone.wp.0 {
            // Finished, or torn by a reset that was not over.
            _ if zone.cond == Condition::Full => done == 2 || done == 0 && !kept(1, old),
            0 => done == 0,
            wp if done < 2 => wp != old || !kept(1, old),
            wp => wp > new || !kept(2, wp),
        }
    };
    (0..300).filter(is_wrong).count()
}

#[test]
fn a_finish_or_reset_that_a_power_cut_stops_leaves_no_zone_that_looks_written_and_no_data_of_two_lives() {
    assert_eq!(wrong_after_a_cut(None), 0);
    for bug in [Bug::Flush, Bug::Change] {
        assert!(wrong_after_a_cut(Some(bug)) > 5, "the test sees no bug");
    }
}

/// Two disks with write caches that lose power together, in stripes, and what was promised about them.
struct Crashing {
    mapped: Mapped,
    rng: Rng,
    /// For each wide zone the bytes that were written, and how many sectors of them are durable.
    written: Vec<Vec<u8>>,
    durable: Vec<usize>,
}

const CRASH_ZONES: u64 = 6;

impl Crashing {
    fn config() -> CrashConfig {
        CrashConfig::new(ZoneGeometry::new(CRASH_ZONES * ZONE, ZONE, CAPACITY, 0).unwrap())
    }

    /// The stack over two disks, which start from `media` if they are not new.
    fn stack(media: Option<[Medium; 2]>, seed: u64) -> Mapped {
        let disks: Vec<CrashDisk> = match media {
            None => (0..2).map(|n| CrashDisk::new(Self::config(), FaultPlan::none(), seed + n).unwrap()).collect(),
            Some(media) => {
                let restart = |medium| CrashDisk::restart(Self::config(), FaultPlan::none(), seed, medium).unwrap();
                media.into_iter().map(restart).collect()
            }
        };
        let mut mapped = Mapped::over(disks.into_iter().map(|disk| Box::new(disk) as Box<dyn BlockDevice>));
        mapped.add("wide", &format!("0 {} striped 2 {CHUNK} a 0 b 0", 2 * CRASH_ZONES * ZONE)).unwrap();
        mapped
    }

    fn new(seed: u64) -> Self {
        let (written, durable) = (vec![vec![]; CRASH_ZONES as usize], vec![0; CRASH_ZONES as usize]);
        Self { mapped: Self::stack(None, seed), rng: Rng::new(seed), written, durable }
    }

    /// Writes to random zones, some in flight at once, with a flush now and then; stops in the middle of it.
    fn work(&mut self) {
        for _ in 0..1 + self.rng.below(8) {
            let mut next: Vec<usize> = self.written.iter().map(|bytes| bytes.len() / 512).collect();
            let mut sent = vec![];
            for _ in 0..1 + self.rng.below(6) {
                let zone = self.rng.below(CRASH_ZONES) as usize;
                let room = 2 * CAPACITY as usize - next[zone];
                let sectors = (1 + self.rng.below(30) as usize).min(room);
                if sectors > 0 {
                    let (at, byte) = (zone as u64 * 2 * ZONE + next[zone] as u64, self.rng.below(256) as u8);
                    sent.push((zone, byte, sectors as u32));
                    next[zone] += sectors;
                    let (port, top) = (self.mapped.rig.port, self.mapped.rig.top);
                    self.mapped.rig.stack.submit(port, 0, top, Box::new(data(Op::Write, at, sectors as u32, byte)));
                }
            }
            self.mapped.rig.settle();
            for (zone, byte, sectors) in sent {
                assert_eq!(self.mapped.rig.stack.poll_completion(self.mapped.rig.port).unwrap().status, Status::Ok);
                self.written[zone].extend(pattern(byte, sectors));
            }
            if self.rng.chance(1, 4) {
                assert_eq!(self.mapped.run(manage(Op::Flush, 0)), Status::Ok);
                self.durable = self.written.iter().map(|bytes| bytes.len() / 512).collect();
            }
        }
    }

    /// The power goes while some writes are in flight, and comes back.
    fn crash(&mut self) {
        for zone in 0..CRASH_ZONES {
            let at = self.written[zone as usize].len() as u64 / 512;
            if at + 20 <= 2 * CAPACITY {
                let bio = Box::new(data(Op::Write, zone * 2 * ZONE + at, 20, 0x77));
                self.mapped.rig.stack.submit(self.mapped.rig.port, 0, self.mapped.rig.top, bio);
                self.written[zone as usize].extend(pattern(0x77, 20));
            }
        }
        let soon = Instant(self.mapped.rig.now.0 + self.rng.below(1_000_000));
        while self.mapped.rig.now < soon {
            self.mapped.rig.now = self.mapped.rig.stack.turn(self.mapped.rig.now).map_or(soon, |next| next.min(soon));
        }
        let rng = &mut self.rng;
        let media = [0, 1].map(|disk| {
            self.mapped
                .rig
                .stack
                .with_device(DeviceId(disk), |disk: &mut CrashDisk, _| disk.cut_power(&mut Choices::new(rng.fork())))
                .unwrap()
        });
        self.mapped = Self::stack(Some(media), self.rng.draw());
    }

    /// Compares what the zones say and hold with what was promised; returns how many are torn.
    fn check(&mut self) -> usize {
        let mut torn = 0;
        let top = self.mapped.rig.top;
        let disks = [0, 1].map(|disk| self.mapped.report(DeviceId(disk), 0, 64));
        for (n, zone) in self.mapped.report(top, 0, 64).into_iter().enumerate() {
            let parts = [&disks[0][n], &disks[1][n]].map(|part| part.wp.0.min(part.start.0 + CAPACITY) - part.start.0);
            // As it is told: the sectors that each disk has of the first so many of a zone.
            let has = |total: u64, disk: u64| (0..total).filter(|sector| sector / CHUNK % 2 == disk).count() as u64;
            let total: u64 = parts.iter().sum();
            let in_order = (0..2).all(|disk| has(total, disk) == parts[disk as usize]);
            assert_eq!(zone.kind, ZoneKind::Sequential);
            torn += usize::from(!in_order);
            let offset = if zone.cond == Condition::Full { zone.len } else { zone.wp - zone.start };
            let wanted = if in_order && total < 2 * CAPACITY { total } else { zone.len };
            assert_eq!(offset, wanted, "zone {n}: {zone:?} of {parts:?}");
            let safe = self.durable[n];
            assert!(offset >= safe as u64, "zone {n} lost {safe} durable sectors");
            if safe > 0 {
                let found = self.mapped.read(top, zone.start.0, safe as u32).unwrap();
                assert!(found == self.written[n][..safe * 512], "zone {n}: durable data changed");
            }
            if !in_order {
                let at = zone.start.0 + total.min(2 * CAPACITY - 1);
                assert_eq!(self.mapped.run(data(Op::Write, at, 1, 9)), Status::Io, "a torn zone takes no writes");
                let op = if self.rng.chance(1, 2) { Op::ZoneFinish } else { Op::ZoneReset };
                assert_eq!(self.mapped.run(manage(op, zone.start.0)), Status::Ok);
                let cond = self.mapped.report(top, zone.start.0, 1)[0].cond;
                assert_eq!(cond, if op == Op::ZoneFinish { Condition::Full } else { Condition::Empty });
            }
        }
        torn
    }
}

#[test]
fn after_a_power_cut_zones_are_in_order_or_full_and_durable_data_is_there() {
    let mut torn = 0;
    for seed in 0..60 {
        let mut crashing = Crashing::new(seed);
        crashing.work();
        crashing.crash();
        torn += crashing.check();
    }
    assert!((20..300).contains(&torn), "{torn} of 360 zones are torn: the test tests nothing");
}
