//! Recorded work on other devices: where it goes, when, and what became of it.

use shingle_core::block::{Flags, Limits, Op, Stack, Status, ZonedLimits};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone, ZoneKind};
use shingle_sim::workload::replay::{
    Adjusted, Fit, FitError, Next, Origin, OriginZone, Outcome, Pace, PlacedIo, Player, PlayerOptions, Replay, Work,
};
use shingle_sim::{Stop, World};

const ZONE: u64 = 256;

fn work(op: Op, sector: u64, sectors: u32) -> Work {
    Work { at: Duration::ZERO, op, flags: Flags::NONE, sector: Sector(sector), sectors }
}

fn write(sector: u64, sectors: u32) -> Work {
    work(Op::Write, sector, sectors)
}

/// Zones of 256 sectors, the first two conventional, with these write pointers from the third one on.
fn report(pointers: &[u64]) -> Vec<Zone> {
    let conventional = (0..2).map(|n| (n, ZoneKind::Conventional, Condition::NotWp, 0));
    let sequential = pointers.iter().enumerate().map(|(n, wp)| {
        let cond = match *wp {
            0 => Condition::Empty,
            ZONE => Condition::Full,
            _ => Condition::Closed,
        };
        (n as u64 + 2, ZoneKind::Sequential, cond, *wp)
    });
    let zone = |(n, kind, cond, wp)| Zone {
        start: Sector(n * ZONE),
        len: ZONE,
        capacity: ZONE,
        wp: Sector(n * ZONE + wp),
        kind,
        cond,
    };
    conventional.chain(sequential).map(zone).collect()
}

fn limits(zones: &[Zone]) -> Limits {
    Limits { zoned: Some(ZonedLimits::new(ZONE as u32)), ..Limits::new(zones.len() as u64 * ZONE) }
}

/// A zoned device that was recorded, with pointers of its sequential zones.
fn origin(pointers: &[(u32, u32)]) -> Origin {
    let conventional = (0..2).map(|n| (n, OriginZone { kind: ZoneKind::Conventional, wp: 0 }));
    let sequential = pointers.iter().map(|(n, wp)| (*n, OriginZone { kind: ZoneKind::Sequential, wp: *wp }));
    Origin { zone_sectors: Some(ZONE as u32), zones: conventional.chain(sequential).collect() }
}

/// What becomes of the work, as letters and addresses.
fn placed(fit: &mut Fit, script: &[Work]) -> Vec<String> {
    let brief = |r: &PlacedIo| format!("{} {}+{}", r.op.name(), r.sector, r.sectors);
    let line = |work| match fit.place(work) {
        Adjusted::Skip => "-".to_owned(),
        Adjusted::Io(request) => brief(&request),
        Adjusted::AfterReset(reset, request) => format!("{}, {}", brief(&reset), brief(&request)),
    };
    script.iter().map(line).collect()
}

fn fit(origin: Origin, script: &[Work], zones: &[Zone]) -> Fit {
    Fit::new(origin, script, &limits(zones), zones).unwrap()
}

#[test]
fn writes_go_where_the_pointer_is_and_reads_to_what_was_written_in_their_stead() {
    let zones = report(&[100, 0]);
    let script = [write(512 + 40, 8), work(Op::Read, 512 + 40, 8), write(512 + 48, 8), work(Op::Read, 512 + 44, 8)];
    let mut fit = fit(origin(&[(2, 40)]), &script, &zones);
    assert_eq!(placed(&mut fit, &script), ["WRITE 612+8", "READ 612+8", "WRITE 620+8", "READ 616+8"]);
}

#[test]
fn a_zone_is_reset_before_a_write_that_does_not_fit_and_only_then() {
    let zones = report(&[ZONE, 250]);
    let script = [write(512, 16), write(528, 16), write(768, 6), write(774, 6)];
    let mut fit = fit(origin(&[(2, 0), (3, 0)]), &script, &zones);
    let expected = ["ZONE_RESET 512+0, WRITE 512+16", "WRITE 528+16", "WRITE 1018+6", "ZONE_RESET 768+0, WRITE 768+6"];
    assert_eq!((placed(&mut fit, &script), fit.added_resets), (expected.map(str::to_owned).to_vec(), 2));
}

#[test]
fn a_zone_that_the_recording_empties_begins_anew_in_both() {
    let zones = report(&[100]);
    let script = [
        work(Op::ZoneReset, 512, 0),
        write(512, 8),
        work(Op::Read, 512, 8),
        work(Op::ZoneFinish, 512, 0),
        write(520, 8),
    ];
    let mut fit = fit(origin(&[(2, 200)]), &script, &zones);
    let expected =
        ["ZONE_RESET 512+0", "WRITE 512+8", "READ 512+8", "ZONE_FINISH 512+0", "ZONE_RESET 512+0, WRITE 512+8"];
    assert_eq!(placed(&mut fit, &script), expected);
}

#[test]
fn zones_keep_their_number_if_they_can_and_else_take_one_that_nobody_has() {
    let mut zones = report(&[0, 0, 0, 0]);
    zones[3].cond = Condition::ReadOnly;
    // A zone number that is not there, one that is read-only here, and one that stays.
    let script = [write(9 * 256, 8), write(3 * 256, 8), write(4 * 256, 8), write(0, 8), write(7, 1)];
    let mut fit = fit(origin(&[(9, 0), (3, 0), (4, 0)]), &script, &zones);
    // In order of their numbers: 3 takes the first free one, 9 the next.
    let expected = ["WRITE 1280+8", "WRITE 512+8", "WRITE 1024+8", "WRITE 0+8", "WRITE 7+1"];
    assert_eq!((placed(&mut fit, &script), fit.moved_zones), (expected.map(str::to_owned).to_vec(), 2));
    let script = [write(512, 1), write(768, 1), write(1024, 1), write(1280, 1)];
    let origin = origin(&[(2, 0), (3, 0), (4, 0), (5, 0)]);
    let error = Fit::new(origin, &script, &limits(&zones), &zones).unwrap_err();
    assert_eq!(error, FitError::TooFewZones { kind: ZoneKind::Sequential, needed: 4 });
    assert!(error.to_string().contains("4 sequential zones") && error.to_string().contains("use a larger one"));
}

#[test]
fn after_a_failed_write_the_zone_is_reset_once_whatever_else_was_in_flight() {
    let zones = report(&[0]);
    let script = [write(512, 8), write(520, 8), write(528, 8), write(536, 8)];
    let mut fit = fit(origin(&[(2, 0)]), &script, &zones);
    let ticket = |adjusted| match adjusted {
        Adjusted::Io(request) | Adjusted::AfterReset(_, request) => request.ticket,
        Adjusted::Skip => panic!("writes are not left out"),
    };
    let (first, second) = (ticket(fit.place(&script[0])), ticket(fit.place(&script[1])));
    fit.failed(first);
    assert!(matches!(fit.place(&script[2]), Adjusted::AfterReset(..)));
    // It was sent before the reset: its failure says nothing about the zone as it is now.
    fit.failed(second);
    assert!(matches!(fit.place(&script[3]), Adjusted::Io(_)));
    assert_eq!(fit.added_resets, 1);
}

#[test]
fn lengths_become_what_the_device_can_do() {
    let zones = report(&[0]);
    let limits = Limits {
        logical_block_bytes: 4096,
        physical_block_bytes: 4096,
        zoned: Some(ZonedLimits { write_granularity_bytes: 4096, ..ZonedLimits::new(ZONE as u32) }),
        ..limits(&zones)
    };
    let script = [write(512, 1), write(513, 9), work(Op::Read, 7, 2), work(Op::Read, 255, 1), write(513, 7)];
    let mut fit = Fit::new(origin(&[(2, 0)]), &script, &limits, &zones).unwrap();
    assert_eq!(placed(&mut fit, &script), ["WRITE 512+8", "WRITE 520+16", "READ 0+16", "READ 248+8", "WRITE 536+8"]);
    assert_eq!(fit.rounded, 5);
}

#[test]
fn what_the_device_cannot_do_is_left_out() {
    let script = [
        work(Op::Discard, 0, 8),
        work(Op::WriteZeroes, 0, 8),
        work(Op::ZoneReset, 256, 0),
        work(Op::ReportZones, 0, 0),
        work(Op::ZoneAppend, 512, 8),
        work(Op::ZoneAppend, 512, 8),
        work(Op::Flush, 0, 0),
    ];
    let mut fit = Fit::new(origin(&[(2, 3)]), &script, &Limits::new(4096), &[]).unwrap();
    assert_eq!(placed(&mut fit, &script), ["-", "-", "-", "-", "WRITE 515+8", "WRITE 523+8", "FLUSH 0+0"]);
}

#[test]
fn work_of_a_regular_device_does_not_go_to_zones_that_refuse_it() {
    let zones = report(&[0, 0]);
    let on = |script: &[Work]| Fit::new(Origin::default(), script, &limits(&zones), &zones).map(|_| ());
    assert_eq!(on(&[write(500, 12)]), Ok(()), "the conventional zones take it");
    assert_eq!(on(&[write(500, 13)]), Err(FitError::NeedsRegular { end: 513, conventional: 512 }));
    assert_eq!(on(&[write(u64::MAX, 8)]), Err(FitError::TooSmall { end: u64::MAX, capacity: 1024 }));
    assert_eq!(on(&[write(0, u32::MAX)]), Err(FitError::TooLong(u32::MAX)));
}

fn device(zones: u64, completion: Duration) -> (Stack, shingle_core::block::DeviceId) {
    let config = NullConfig {
        completion,
        ..NullConfig::zoned(zones * ZONE, NullZones { conventional: 2, ..NullZones::new(ZONE) })
    };
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
    let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
    let plug = stack.add(Box::new(plug)).unwrap();
    (stack, plug)
}

fn play(script: Vec<Work>, options: PlayerOptions) -> (World, usize) {
    let (stack, top) = device(16, Duration::from_micros(100));
    let mut world = World::new(stack);
    let origin = origin(&(2..16).map(|zone| (zone, 0)).collect::<Vec<_>>());
    let number = world.add(Box::new(Replay::new(top, origin, script.into(), options)));
    assert_eq!(world.run(Instant(u64::MAX)), Stop::Done);
    (world, number)
}

fn outcomes(world: &World, number: usize) -> Vec<Outcome> {
    let player = world.actor::<Replay>(number).unwrap().player().unwrap().unwrap();
    player.outcomes().map(|(_, outcome)| *outcome).collect()
}

#[test]
fn bios_go_out_at_their_times_and_no_earlier_than_the_depth_allows() {
    let us = Duration::from_micros;
    let script: Vec<Work> = (0..4).map(|n| Work { at: us(n * 30), ..work(Op::Read, 512 + n * 8, 8) }).collect();
    let ends = |pace, depth| -> Vec<u64> {
        let (world, number) = play(script.clone(), PlayerOptions { pace, depth });
        let end = |outcome: &Outcome| match outcome {
            Outcome::Done { at, status: Status::Ok, .. } => at.as_nanos() / 1000,
            other => panic!("{other:?}"),
        };
        outcomes(&world, number).iter().map(end).collect()
    };
    assert_eq!(ends(Pace::AsRecorded, 8), [100, 130, 160, 190]);
    assert_eq!(ends(Pace::AsRecorded, 2), [100, 130, 200, 230]);
    assert_eq!(ends(Pace::Max, 8), [100, 100, 100, 100]);
    assert_eq!(ends(Pace::Max, 1), [100, 200, 300, 400]);
}

#[test]
fn any_zoned_work_is_done_without_an_error_on_a_device_that_can_do_it() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut step = |n: u64| {
            let zone = rng.below(16) * ZONE;
            let offset = rng.below(ZONE);
            let sectors = (1 + rng.below(ZONE - offset)) as u32;
            let at = Duration(n * 20_000);
            let any = match rng.below(10) {
                0 => work(Op::ZoneReset, zone, 0),
                1 => work(Op::ZoneFinish, zone, 0),
                2 => work(Op::Flush, 0, 0),
                3 => work(Op::ZoneAppend, zone.max(512), sectors),
                4 | 5 => work(Op::Read, zone + offset, sectors),
                _ => write(zone + offset, sectors),
            };
            Work { at, ..any }
        };
        let script: Vec<Work> = (0..300).map(&mut step).collect();
        for pace in [Pace::AsRecorded, Pace::Max] {
            let (world, number) = play(script.clone(), PlayerOptions { pace, depth: 32 });
            for (work, outcome) in script.iter().zip(outcomes(&world, number)) {
                let fine = match outcome {
                    Outcome::Done { status, .. } => status.is_ok(),
                    // The first two zones are conventional: there is nothing to manage.
                    Outcome::Skipped => work.op.is_zone_management() && work.sector.0 < 512,
                    Outcome::Pending => false,
                };
                assert!(fine, "seed {seed}, {pace:?}: {work:?} ended as {outcome:?}");
            }
        }
    }
}

#[test]
fn a_player_takes_wrong_tags_for_nothing() {
    let zones = report(&[0]);
    let fit = fit(origin(&[(2, 0)]), &[write(512, 8)], &zones);
    let mut player = Player::new([write(512, 8)].into(), fit, PlayerOptions { pace: Pace::Max, depth: 1 });
    player.complete(7, Status::Ok, Instant::ZERO);
    let Next::Submit(tag, bio) = player.next(Instant::ZERO) else { panic!("there is work") };
    assert_eq!((bio.op, bio.sector, bio.payload.bytes()), (Op::Write, Sector(512), 4096));
    assert!(matches!(player.next(Instant::ZERO), Next::Wait));
    player.complete(tag, Status::Ok, Instant(5));
    player.complete(tag, Status::Io, Instant(6));
    assert!(player.is_done() && matches!(player.next(Instant(6)), Next::Done));
    assert_eq!((player.span(), player.in_flight()), (Duration(5), 0));
}
