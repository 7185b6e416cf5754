//! Links and RAM disks: times, bounds, order, and that nothing gets lost unless it was asked for.

use shingle_core::block::{Bio, Data, Op, Payload, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_drives::{Link, LinkConfig, RamConfig, RamDisk, ServiceTime};

use crate::bench::{Bench, us};

#[test]
fn a_bio_takes_the_way_there_the_device_and_the_way_back() {
    let config =
        LinkConfig { there: ServiceTime::Constant(us(10)), back: ServiceTime::Constant(us(5)), ..Default::default() };
    let mut bench = Bench::new(us(100), config);
    bench.send(Op::Read, 0, 8);
    bench.run_out();
    assert_eq!(bench.back, [(0, Status::Ok, Instant(115_000))]);
}

#[test]
fn each_direction_carries_its_data_at_the_rate_of_the_link_and_both_at_once() {
    let config = LinkConfig { rate: Some(512_000_000), ..Default::default() };
    let time = |ops: &[Op]| {
        let mut bench = Bench::new(Duration::ZERO, config.clone());
        ops.iter().for_each(|op| bench.send(*op, 0, 100));
        bench.run_out();
        assert_eq!(bench.back.len(), ops.len());
        bench.now
    };
    // 100 sectors are 100 us.
    assert_eq!(time(&[Op::Write; 20]), Instant(2_000_000));
    assert_eq!(time(&[Op::Read; 20]), Instant(2_000_000));
    assert_eq!(time(&[[Op::Read; 10], [Op::Write; 10]].concat()), Instant(1_000_000));
}

#[test]
fn no_more_than_the_depth_are_below_and_the_rest_follows_in_order() {
    let config = LinkConfig { depth: Some(3), there: ServiceTime::Constant(us(10)), ..Default::default() };
    let mut bench = Bench::new(us(40), config);
    (0..10).for_each(|n| bench.send(Op::Write, n * 8, 8));
    bench.run_out();
    // Three every 50 us.
    let times: Vec<u64> = bench.back.iter().map(|(.., at)| at.0 / 1000).collect();
    assert_eq!(times, [50, 50, 50, 100, 100, 100, 150, 150, 150, 200]);
    assert_eq!(bench.tags(), (0..10).collect::<Vec<_>>());
}

#[test]
fn an_ordered_link_keeps_the_order_of_each_direction_and_another_one_does_not() {
    let jitter = || ServiceTime::LogNormal(us(50), us(80));
    let tags = |ordered| {
        let config = LinkConfig { there: jitter(), back: jitter(), ordered, ..Default::default() };
        let mut bench = Bench::new(us(1), config);
        for n in 0..500 {
            bench.send(Op::Write, n * 8, 8);
            bench.run(Instant(n * 1000));
        }
        bench.run_out();
        bench.tags()
    };
    let all: Vec<u64> = (0..500).collect();
    assert_eq!(tags(true), all);
    let mut mixed = tags(false);
    assert_ne!(mixed, all);
    mixed.sort_unstable();
    assert_eq!(mixed, all);
}

#[test]
fn the_latency_of_a_link_has_the_mean_and_the_deviation_of_its_profile() {
    let config = LinkConfig {
        there: ServiceTime::Constant(us(10)),
        back: ServiceTime::Gamma(us(139), us(66)),
        ..Default::default()
    };
    let mut bench = Bench::new(Duration::ZERO, config);
    let mut times = Vec::new();
    for _ in 0..50_000 {
        let began = bench.now;
        bench.send(Op::Read, 0, 1);
        bench.run_out();
        times.push(bench.now.since(began).0 as f64 / 1e3);
    }
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let sd = (times.iter().map(|time| (time - mean) * (time - mean)).sum::<f64>() / times.len() as f64).sqrt();
    assert!((147.0..151.0).contains(&mean) && (64.7..67.3).contains(&sd), "{mean} us, deviation {sd} us");
}

#[test]
fn whatever_is_asked_for_every_bio_comes_back_once_or_is_known_to_be_lost() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let faults = if rng.chance(1, 2) { 50_000 } else { 0 };
        let config = LinkConfig {
            there: ServiceTime::Exponential(us(1 + rng.below(50))),
            back: ServiceTime::Uniform(us(0), us(rng.below(50))),
            rate: rng.chance(1, 2).then(|| 1_000_000 + rng.below(1_000_000_000)),
            depth: rng.chance(1, 2).then(|| 64 + rng.below(64) as u32),
            ordered: rng.chance(1, 2),
            lost_ppm: faults,
            failed_ppm: faults,
            seed,
            ..Default::default()
        };
        let mut bench = Bench::new(us(rng.below(20)), config);
        for n in 0..300 {
            let op = if rng.chance(1, 2) { Op::Read } else { Op::Write };
            bench.send(op, n * 8, 1 + rng.below(8) as u32);
            bench.run(Instant(n * 10_000));
        }
        bench.run_out();
        let lost = bench.link().lost();
        assert_eq!(bench.back.len() + lost, 300, "seed {seed}");
        assert_eq!(lost > 0, faults > 0, "seed {seed}: {lost} lost");
        let failed = bench.back.iter().filter(|(_, status, _)| *status == Status::Transport).count();
        assert_eq!(failed > 0, faults > 0, "seed {seed}: {failed} failed");

        let link = bench.link;
        bench.stack.with_device::<Link, _>(link, |link, cx| link.give_up(cx)).unwrap();
        bench.run_out();
        let mut tags = bench.tags();
        tags.sort_unstable();
        assert_eq!(tags, (0..300).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(bench.back.iter().filter(|(_, status, _)| *status == Status::Timeout).count(), lost);
    }
}

#[test]
fn lost_bios_keep_their_place_in_the_depth_until_they_are_given_up() {
    let config = LinkConfig { depth: Some(2), lost_ppm: 1_000_000, ..Default::default() };
    let mut bench = Bench::new(us(1), config);
    (0..5).for_each(|n| bench.send(Op::Write, n * 8, 8));
    bench.run_out();
    assert_eq!((bench.back.len(), bench.link().lost()), (0, 2));
    let mut held = 0;
    let link = bench.stack.device::<Link>(bench.link).expect("the link is where it was put");
    shingle_core::block::BlockDevice::held(link, &mut |_| held += 1);
    assert!(held >= 4, "the report of what is stuck shows them: {held}");
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let run = |seed| {
        let config =
            LinkConfig { back: ServiceTime::LogNormal(us(149), us(66)), lost_ppm: 10_000, seed, ..Default::default() };
        let mut bench = Bench::new(us(1), config);
        (0..200).for_each(|n| bench.send(Op::Read, n * 8, 8));
        bench.run_out();
        bench.back
    };
    assert!(run(5) == run(5));
    assert!(run(5) != run(6));
}

#[test]
fn wrong_parameters_of_a_link_are_named() {
    let refused = |config: LinkConfig| {
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(NullDevice::new(&NullConfig::new(8)).unwrap())).unwrap();
        Link::new(disk, stack.limits(disk), config).err().expect("refused").to_string()
    };
    let base = LinkConfig::default;
    let cases = [
        (LinkConfig { depth: Some(0), ..base() }, "depth"),
        (LinkConfig { rate: Some(0), ..base() }, "rate"),
        (LinkConfig { lost_ppm: 600_000, failed_ppm: 500_000, ..base() }, "lost_ppm"),
        (LinkConfig { back: ServiceTime::Exponential(us(0)), ..base() }, "back"),
    ];
    cases.into_iter().for_each(|(config, words)| {
        let message = refused(config);
        assert!(message.contains(words), "{message}");
    });
}

fn ram(config: RamConfig) -> Bench {
    Bench::over(|stack| stack.add(Box::new(RamDisk::new(&config).unwrap())).unwrap(), None)
}

#[test]
fn a_ram_disk_serves_as_many_at_once_as_it_has_servers() {
    for (servers, end) in [(1, 200_000), (4, 50_000), (100, 10_000)] {
        let mut bench = ram(RamConfig { servers, read: ServiceTime::Constant(us(10)), ..RamConfig::new(1024) });
        (0..20).for_each(|n| bench.send(Op::Read, n, 1));
        bench.run_out();
        assert_eq!((bench.now, bench.back.len()), (Instant(end), 20));
    }
}

#[test]
fn a_ram_disk_gives_back_what_was_written_and_zeroes_what_was_discarded() {
    let mut stack = Stack::new();
    let port = stack.open_port();
    let disk = stack.add(Box::new(RamDisk::new(&RamConfig::new(1024)).unwrap())).unwrap();
    let mut transfer = |op, byte: u8| {
        let data = Data::zeroed(1024);
        data.fill(byte);
        stack.submit(port, 0, disk, Box::new(Bio::new(op, Sector(7), 2, Payload::Data(data.clone()))));
        // Even no time is a timer, which goes off in the turn after.
        stack.turn(Instant::ZERO);
        stack.turn(Instant::ZERO);
        stack.poll_completion(port).map(|done| (done.status, data.to_vec()))
    };
    assert_eq!(transfer(Op::Write, 5).unwrap().0, Status::Ok);
    assert_eq!(transfer(Op::Read, 9), Some((Status::Ok, vec![5; 1024])));
    assert_eq!(transfer(Op::Discard, 0).unwrap().0, Status::Ok);
    assert_eq!(transfer(Op::Read, 9), Some((Status::Ok, vec![0; 1024])));
}

/// Found by the swarm, which has a path of its own: a table of several lines hands the same zones on from line to line.
#[test]
fn a_report_over_a_link_keeps_the_zones_that_it_has_already() {
    let null = NullDevice::new(&NullConfig { zoned: Some(NullZones::new(64)), ..NullConfig::new(256) }).unwrap();
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(null)).unwrap();
    let link = Link::new(disk, stack.limits(disk), LinkConfig::default()).unwrap();
    let link = stack.add(Box::new(link)).unwrap();
    let port = stack.open_port();
    let (mut zones, mut now) = (Vec::new(), Instant::ZERO);
    for sector in [0, 128] {
        zones.reserve_exact(2);
        let report = Bio::new(Op::ReportZones, Sector(sector), 0, Payload::Zones(zones));
        stack.submit(port, sector, link, Box::new(report));
        while let Some(next) = stack.turn(now) {
            now = next;
        }
        let mut done = stack.poll_completion(port).unwrap();
        let Payload::Zones(found) = &mut done.bio.payload else { panic!("zones") };
        zones = std::mem::take(found);
    }
    assert_eq!(zones.iter().map(|zone| zone.start.0).collect::<Vec<_>>(), [0, 64, 128, 192]);
}
