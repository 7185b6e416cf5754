//! The SMR disk: what takes time, what is durable, and what is left when power fails.

use shingle_core::block::{Bio, BlockDevice as _, Data, DeviceId, Flags, Op, Payload, PortId, Stack, Status};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, ZoneNo};
use shingle_drives::WrongParameter;
use shingle_drives::smr::Cache;
use shingle_drives::{SmrConfig, SmrDisk};
use shingle_sim::World;
use shingle_sim::workload::fio::{Fio, FioOptions, Pattern};

/// Sectors of a zone.
const ZONE: u64 = 524_288;
const MIB: u32 = 2048;

/// A hundred zones, the first one conventional.
fn config() -> SmrConfig {
    SmrConfig::new(100)
}

/// A disk and its only user, who waits for each bio.
struct Bench {
    stack: Stack,
    disk: DeviceId,
    port: PortId,
    now: Instant,
}

impl Bench {
    fn new(config: &SmrConfig) -> Self {
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(SmrDisk::new(config).unwrap())).unwrap();
        let port = stack.open_port();
        Self { stack, disk, port, now: Instant::ZERO }
    }

    fn send(&mut self, bio: Bio) {
        self.stack.submit(self.port, 0, self.disk, Box::new(bio));
    }

    /// Lets time pass until something is back.
    fn next(&mut self) -> (Box<Bio>, Status) {
        loop {
            let deadline = self.stack.turn(self.now);
            if let Some(done) = self.stack.poll_completion(self.port) {
                return (done.bio, done.status);
            }
            self.now = self.now.max(deadline.expect("something is going on"));
        }
    }

    /// How long `bio` takes alone; it must succeed.
    fn time(&mut self, bio: Bio) -> Duration {
        let before = self.now;
        self.send(bio);
        let (bio, status) = self.next();
        assert!(status.is_ok(), "{bio:?}: {status}");
        self.now.since(before)
    }

    fn write(&mut self, at: u64, sectors: u32, byte: u8) -> Duration {
        self.time(write(at, sectors, byte))
    }

    fn read(&mut self, at: u64, sectors: u32) -> (Vec<u8>, Duration) {
        let data = Data::zeroed(sectors as usize * 512);
        let time = self.time(Bio::new(Op::Read, Sector(at), sectors, Payload::Data(data.clone())));
        (data.to_vec(), time)
    }

    fn flush(&mut self) -> Duration {
        self.time(Bio::new(Op::Flush, Sector(0), 0, Payload::None))
    }

    fn device(&self) -> &SmrDisk {
        self.stack.device(self.disk).unwrap()
    }

    fn wp(&self, zone: u32) -> u32 {
        self.device().zones().state(ZoneNo(zone)).wp
    }

    fn power_cut(&mut self, seed: u64) {
        // What ended before is not lost.
        self.stack.turn(self.now);
        while self.stack.poll_completion(self.port).is_some() {}
        let mut rng = Rng::new(seed);
        self.stack.with_device(self.disk, |disk: &mut SmrDisk, cx| disk.power_cut(&mut rng, cx)).unwrap();
        self.stack.turn(self.now);
        while let Some(done) = self.stack.poll_completion(self.port) {
            assert!(!done.status.is_ok(), "{:?} cannot succeed without power", done.bio);
        }
    }
}

fn write(at: u64, sectors: u32, byte: u8) -> Bio {
    let data = Data::zeroed(sectors as usize * 512);
    data.fill(byte);
    Bio::new(Op::Write, Sector(at), sectors, Payload::Data(data))
}

fn millis(time: Duration) -> f64 {
    time.0 as f64 / 1e6
}

#[test]
fn the_rate_falls_from_the_outer_to_the_inner_zones_as_the_profile_says() {
    let disk = SmrDisk::new(&config()).unwrap();
    let rates: Vec<f64> = (1..100).map(|zone| disk.rate(ZoneNo(zone))).collect();
    assert!(rates.is_sorted_by(|outer, inner| outer > inner));
    assert!((rates[0] / 250e6 - 1.0).abs() < 0.02 && (rates[98] / 125e6 - 1.0).abs() < 0.02, "{rates:?}");
    // Equally dense tracks: capacity outside of a radius goes with its square.
    let middle = 250e6 * (1.0f64 - 0.5 * 0.75).sqrt();
    assert!((rates[49] / middle - 1.0).abs() < 0.01);
}

#[test]
fn conventional_zones_lie_where_the_profile_puts_them_and_keep_their_addresses() {
    let disk = SmrDisk::new(&SmrConfig { conventional: 10, conventional_at: 0.5, ..config() }).unwrap();
    assert!(disk.rate(ZoneNo(0)) < disk.rate(ZoneNo(10)), "the first sequential zone is at the outer edge");
    assert!(disk.rate(ZoneNo(0)) < disk.rate(ZoneNo(54)) && disk.rate(ZoneNo(9)) > disk.rate(ZoneNo(55)));
    assert_eq!(disk.zones().zone(ZoneNo(0)).cond, Condition::NotWp);
}

#[test]
fn a_seek_costs_more_the_farther_it_goes_and_a_third_of_the_stroke_is_the_average() {
    let disk = SmrDisk::new(&config()).unwrap();
    let times: Vec<f64> = (1..100).map(|zone| millis(disk.seek_time(ZoneNo(0), ZoneNo(zone)))).collect();
    assert!(times.is_sorted_by(|near, far| near < far), "{times:?}");
    assert_eq!(disk.seek_time(ZoneNo(7), ZoneNo(7)), Duration::from_micros(320));
    assert!(times[98] > 15.5 && times[98] <= 16.0, "full stroke: {}", times[98]);
    assert!(times.iter().any(|time| (time - 8.2).abs() < 0.2), "the average seek: {times:?}");
}

#[test]
fn a_stream_goes_at_the_media_rate_and_jumping_between_zones_costs_seek_and_rotation() {
    let mut bench = Bench::new(&SmrConfig { keep_data: false, ..config() });
    let start = bench.now;
    for n in 0..100 {
        bench.write(ZONE + n * u64::from(MIB), MIB, 0);
    }
    bench.flush();
    let streamed = millis(bench.now.since(start));
    let alone = 100.0 * 1_048_576.0 / bench.device().rate(ZoneNo(1)) * 1e3;
    assert!(streamed > alone && streamed < alone + 20.0, "{streamed} ms against {alone} ms");
    let start = bench.now;
    for n in 0..50 {
        bench.write(20 * ZONE + n * u64::from(MIB), MIB, 0);
        bench.write(80 * ZONE + n * u64::from(MIB), MIB, 0);
    }
    bench.flush();
    let per_jump = (millis(bench.now.since(start)) - alone) / 100.0;
    assert!(per_jump > 9.0 && per_jump < 20.0, "{per_jump} ms for each of 100 jumps");
}

/// The zones of writes that the cache took at once, in the order in which they are on the medium.
fn order_on_the_medium(nearest: bool, zones: &[u64]) -> Vec<u64> {
    let config = config();
    let cache = Cache { write_back: false, nearest, run_bytes: 4096, bytes: 1 << 30, ..config.cache };
    let link = shingle_drives::smr::Link { depth: 1024, ..config.link };
    let mut bench = Bench::new(&SmrConfig { cache, link, max_open: None, ..config });
    zones.iter().for_each(|zone| bench.send(write(zone * ZONE, 8, 1)));
    zones.iter().map(|_| bench.next().0.sector.0 / ZONE).collect()
}

#[test]
fn the_head_serves_what_waits_longest_or_what_is_nearest_but_nothing_waits_for_ever() {
    // While it writes the first, the others come in.
    let sent = [2, 90, 3, 91, 4];
    assert_eq!(order_on_the_medium(false, &sent), sent);
    let near = order_on_the_medium(true, &sent);
    assert_ne!(near, sent);
    assert_eq!(near.iter().filter(|zone| **zone > 50).count(), 2);
    let jumps = |order: &[u64]| order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > 50).count();
    assert!(jumps(&near) < jumps(&sent), "{near:?}");
    // One far away, and then again and again others nearby: it has its turn before they end.
    let cache = Cache { write_back: false, nearest: true, run_bytes: 4096, ..config().cache };
    let mut bench = Bench::new(&SmrConfig { cache, max_open: None, ..config() });
    let mut pointers = [0; 100];
    let mut send = |bench: &mut Bench, zone: usize| {
        bench.send(write(zone as u64 * ZONE + pointers[zone], 8, 1));
        pointers[zone] += 8;
    };
    [1, 2, 3, 99].into_iter().for_each(|zone| send(&mut bench, zone));
    for served in 0.. {
        let zone = (bench.next().0.sector.0 / ZONE) as usize;
        if zone == 99 {
            break;
        }
        assert!(served < 400, "zone 99 still waits");
        send(&mut bench, zone);
    }
}

#[test]
fn a_sector_is_waited_for_until_it_comes_round_and_a_turn_later_if_it_has_just_passed() {
    let mut bench = Bench::new(&SmrConfig { cache: Cache { look_ahead_bytes: 0, ..config().cache }, ..config() });
    bench.write(ZONE, 8 * MIB, 1);
    bench.flush();
    bench.read(ZONE, 8);
    // The same sector again: it comes round after a turn.
    let (_, again) = bench.read(ZONE, 8);
    assert!((millis(again) - 8.33).abs() < 0.1, "{}", millis(again));
    // Others wait for a part of a turn, and not all for the same.
    let waits: Vec<f64> = (1..20).map(|n| millis(bench.read(ZONE + n * n % 16 * 1000, 8).1)).collect();
    let mean = waits.iter().sum::<f64>() / 19.0;
    assert!(waits.iter().all(|wait| *wait < 8.9) && mean > 1.0 && mean < 8.4, "{waits:?}");
}

#[test]
fn reading_on_where_a_read_ended_needs_no_turn() {
    let mut bench = Bench::new(&config());
    bench.write(ZONE, 8 * MIB, 1);
    bench.flush();
    bench.read(ZONE, 256);
    let on: Vec<f64> = (1..9).map(|n| millis(bench.read(ZONE + n * 256, 256).1)).collect();
    assert!(on.iter().all(|time| *time < 1.0), "{on:?}");
}

#[test]
fn a_read_of_what_was_never_written_or_is_in_the_cache_needs_no_head() {
    let mut bench = Bench::new(&config());
    let (data, unwritten) = bench.read(50 * ZONE, MIB);
    assert!(data.iter().all(|byte| *byte == 0));
    let link = 1_048_576.0 / 560e6 * 1e3;
    assert!((millis(unwritten) - link).abs() < 0.1, "{} ms, the link takes {link}", millis(unwritten));
    bench.write(50 * ZONE, 8, 1);
    bench.write(50 * ZONE + 8, 8, 2);
    let (data, cached) = bench.read(50 * ZONE + 8, 8);
    assert!(data.iter().all(|byte| *byte == 2) && millis(cached) < 0.2, "{} ms", millis(cached));
    bench.flush();
    bench.read(90 * ZONE, 8);
    let (_, from_medium) = bench.read(50 * ZONE, 8);
    assert!(millis(from_medium) > 0.3, "{} ms", millis(from_medium));
}

#[test]
fn a_write_is_acknowledged_by_the_cache_and_a_flush_waits_for_the_medium() {
    let mut bench = Bench::new(&config());
    let cached = bench.write(40 * ZONE, 8, 1);
    assert!(millis(cached) < 0.05, "{} ms", millis(cached));
    assert_eq!(bench.device().dirty_bytes(), 4096);
    let flush = bench.flush();
    assert!(millis(flush) > 0.3, "{} ms", millis(flush));
    assert_eq!(bench.device().dirty_bytes(), 0);
    assert!(millis(bench.flush()) < 0.05, "nothing is left to flush");
}

#[test]
fn a_forced_write_waits_for_the_medium_and_so_does_every_write_without_the_cache() {
    let mut bench = Bench::new(&config());
    let forced = bench.time(write(40 * ZONE, 8, 1).with_flags(Flags::FUA));
    assert!(millis(forced) > 0.3 && bench.device().dirty_bytes() == 0, "{} ms", millis(forced));
    let through = SmrConfig { cache: Cache { write_back: false, ..config().cache }, ..config() };
    let mut bench = Bench::new(&through);
    assert!(!bench.device().zones().zone(ZoneNo(1)).cond.is_open());
    let through = bench.write(40 * ZONE, 8, 1);
    assert!(millis(through) > 0.3 && bench.device().dirty_bytes() == 0, "{} ms", millis(through));
}

/// A disk with its write cache disabled and a non-volatile cache of 1 MiB.
fn with_non_volatile_cache() -> SmrConfig {
    let cache =
        Cache { write_back: false, non_volatile_bytes: Some(1 << 20), segment_bytes: 1 << 18, ..config().cache };
    SmrConfig { cache, ..config() }
}

#[test]
fn a_non_volatile_cache_acknowledges_writes_and_has_nothing_to_flush() {
    let mut bench = Bench::new(&with_non_volatile_cache());
    assert!(!bench.device().limits().write_cache, "to its users it is a disk without a volatile cache");
    let buffered = bench.write(40 * ZONE, 8, 1);
    assert!(millis(buffered) < 0.05, "{} ms", millis(buffered));
    assert_eq!(bench.device().dirty_bytes(), 4096);
    assert!(millis(bench.flush()) < 0.05 && bench.device().dirty_bytes() == 4096, "it is durable where it is");
    let forced = bench.time(write(60 * ZONE, 8, 2).with_flags(Flags::FUA.with(Flags::PREFLUSH)));
    assert!(millis(forced) < 0.05, "{} ms", millis(forced));
}

#[test]
fn a_full_non_volatile_cache_makes_writes_wait_for_the_medium() {
    let mut bench = Bench::new(&SmrConfig { keep_data: false, ..with_non_volatile_cache() });
    let first = bench.write(ZONE, MIB, 0);
    let link = 1_048_576.0 / 560e6 * 1e3;
    assert!((millis(first) - link).abs() < 0.1, "{} ms, the link takes {link}", millis(first));
    let start = bench.now;
    for n in 1..101 {
        bench.write(ZONE + n * u64::from(MIB), MIB, 0);
        assert!(bench.device().dirty_bytes() <= 1 << 20);
    }
    let (took, alone) = (millis(bench.now.since(start)), 100.0 * 1_048_576.0 / bench.device().rate(ZoneNo(1)) * 1e3);
    assert!((took / alone - 1.0).abs() < 0.05, "{took} ms against {alone} ms at the rate of the medium");
}

#[test]
fn a_power_loss_takes_nothing_that_a_non_volatile_cache_acknowledged() {
    for seed in 0..40 {
        let mut bench = Bench::new(&with_non_volatile_cache());
        bench.write(1024, 256, 1);
        bench.write(1024 + 64, 64, 2);
        for n in 0..20 {
            bench.write(3 * ZONE + n * 64, 64, 1 + n as u8);
        }
        bench.send(write(3 * ZONE + 20 * 64, 2 * MIB, 21));
        bench.stack.turn(bench.now);
        assert!(bench.device().dirty_bytes() > 0);
        bench.power_cut(seed);
        let wp = bench.wp(3);
        assert!((20 * 64..=20 * 64 + 2 * MIB).contains(&wp), "seed {seed}: pointer at {wp}");
        assert_eq!(bench.device().dirty_bytes(), 0);
        let (data, _) = bench.read(3 * ZONE, 20 * 64);
        assert!(
            data.chunks(512).enumerate().all(|(at, sector)| sector.iter().all(|byte| *byte == 1 + (at / 64) as u8))
        );
        let (data, _) = bench.read(1024, 256);
        let expected = |sector: usize| if (64..128).contains(&sector) { 2 } else { 1 };
        assert!(data.chunks(512).enumerate().all(|(at, sector)| sector.iter().all(|byte| *byte == expected(at))));
        bench.write(3 * ZONE + u64::from(wp), 8, 50);
    }
}

#[test]
fn a_non_volatile_cache_is_not_used_while_the_write_cache_is_enabled() {
    let cached = SmrConfig { cache: Cache { write_back: true, ..with_non_volatile_cache().cache }, ..config() };
    let left = |seed| {
        let mut bench = Bench::new(&cached);
        assert!(bench.device().limits().write_cache);
        for n in 0..8 {
            bench.write(ZONE + n * 64, 64, 1);
        }
        bench.power_cut(seed);
        bench.wp(1)
    };
    assert!((0..16).any(|seed| left(seed) < 8 * 64));
}

#[test]
fn a_write_that_flushes_first_comes_in_when_all_before_it_is_on_the_medium() {
    let mut bench = Bench::new(&config());
    bench.write(40 * ZONE, MIB, 1);
    let flushed = bench.time(write(60 * ZONE, 8, 2).with_flags(Flags::PREFLUSH));
    assert!(millis(flushed) > 4.0, "{} ms", millis(flushed));
    assert_eq!(bench.device().dirty_bytes(), 4096, "only its own data is in the cache");
}

#[test]
fn a_full_cache_makes_writes_wait_and_is_never_exceeded() {
    let cache = Cache { bytes: 1 << 20, segment_bytes: 1 << 18, entries: 6, ..config().cache };
    let mut bench = Bench::new(&SmrConfig { cache, keep_data: false, ..config() });
    for n in 0..64 {
        bench.send(write((1 + n % 8) * ZONE + n / 8 * 512, 512, 0));
    }
    for _ in 0..64 {
        assert!(bench.next().1.is_ok());
        assert!(bench.device().dirty_bytes() <= 1 << 20);
    }
    let mut bench = Bench::new(&SmrConfig { cache, keep_data: false, ..config() });
    (0..64).for_each(|n| bench.send(write((1 + n % 8) * ZONE + n / 8 * 8, 8, 0)));
    for _ in 0..64 {
        bench.next();
        assert!(bench.device().dirty_bytes() <= 6 * 4096);
    }
}

#[test]
fn a_command_longer_than_the_cache_streams_through_it() {
    let cache = Cache { bytes: 1 << 20, segment_bytes: 1 << 18, ..config().cache };
    let mut bench = Bench::new(&SmrConfig { cache, max_sectors: 16 * MIB, keep_data: false, ..config() });
    let start = bench.now;
    for n in 0..4 {
        bench.write(ZONE + n * 16 * u64::from(MIB), 16 * MIB, 0);
    }
    bench.flush();
    let took = millis(bench.now.since(start));
    let alone = 64.0 * 1_048_576.0 / bench.device().rate(ZoneNo(1)) * 1e3;
    assert!(took < alone + 15.0, "{took} ms against {alone} ms");
}

#[test]
fn more_commands_than_the_queue_takes_wait_outside_and_all_come_back_in_the_order_of_their_zone() {
    let mut bench = Bench::new(&config());
    for n in 0..100 {
        bench.send(write(ZONE + n * 8, 8, n as u8));
    }
    for n in 0..100 {
        assert_eq!(bench.next().0.sector, Sector(ZONE + n * 8));
    }
    assert_eq!(bench.wp(1), 800);
    let (data, _) = bench.read(ZONE, 800);
    assert!(data.chunks(4096).enumerate().all(|(n, block)| block.iter().all(|byte| *byte == n as u8)));
}

#[test]
fn the_rules_of_zones_hold_on_arrival() {
    let mut bench = Bench::new(&SmrConfig { max_open: Some(2), ..config() });
    bench.send(write(ZONE + 8, 8, 0));
    assert_eq!(bench.next().1, Status::Io, "not at the write pointer");
    let manage = |op, zone: u64| Bio::new(op, Sector(zone * ZONE), 0, Payload::None);
    bench.time(manage(Op::ZoneOpen, 5));
    bench.time(manage(Op::ZoneOpen, 6));
    bench.send(manage(Op::ZoneOpen, 7));
    assert_eq!(bench.next().1, Status::ZoneOpenResource);
    bench.time(manage(Op::ZoneClose, 5));
    bench.write(7 * ZONE, 8, 1);
    bench.time(manage(Op::ZoneFinish, 7));
    assert_eq!(bench.device().zones().zone(ZoneNo(7)).cond, Condition::Full);
    bench.send(write(7 * ZONE + 8, 8, 0));
    assert_eq!(bench.next().1, Status::Io, "the zone is full");
    assert!(bench.time(manage(Op::ZoneReset, 7)) >= config().manage.reset);
    assert!(bench.time(manage(Op::ZoneReset, 7)) < config().manage.reset, "an empty zone is as it should be");
    bench.time(manage(Op::ZoneResetAll, 0));
    bench.send(Bio::new(Op::ZoneAppend, Sector(ZONE), 8, Payload::Data(Data::zeroed(4096))));
    assert_eq!(bench.next().1, Status::NotSupported, "a plug emulates appends");
}

#[test]
fn a_reset_takes_the_data_with_it_even_that_which_is_still_on_its_way() {
    let mut bench = Bench::new(&config());
    (0..20).for_each(|n| bench.send(write(ZONE + n * 512, 512, 7)));
    bench.send(Bio::new(Op::ZoneReset, Sector(ZONE), 0, Payload::None));
    (0..21).for_each(|_| assert!(bench.next().1.is_ok()));
    bench.flush();
    assert_eq!((bench.wp(1), bench.device().memory_bytes()), (0, 0));
    bench.write(ZONE, 8, 9);
    assert!(bench.read(ZONE, 16).0.iter().enumerate().all(|(at, byte)| *byte == if at < 4096 { 9 } else { 0 }));
}

#[test]
fn the_pointer_never_goes_back_without_a_loss_of_power_and_what_is_flushed_survives_one() {
    for seed in 0..40 {
        let mut bench = Bench::new(&config());
        let mut before = 0;
        for n in 0..40 {
            bench.write(3 * ZONE + n * 64, 64, 1 + n as u8);
            assert!(bench.wp(3) > before);
            before = bench.wp(3);
            if n == 19 {
                bench.flush();
            }
        }
        bench.send(write(3 * ZONE + 40 * 64, 64, 41));
        bench.stack.turn(bench.now);
        bench.power_cut(seed);
        let wp = bench.wp(3);
        assert!((20 * 64..=41 * 64).contains(&wp) && wp.is_multiple_of(8), "pointer at {wp}");
        assert!(!bench.device().zones().zone(ZoneNo(3)).cond.is_open());
        let (data, _) = bench.read(3 * ZONE, 41 * 64);
        let expected = |sector: usize| if sector < wp as usize { 1 + (sector / 64) as u8 } else { 0 };
        assert!(data.chunks(512).enumerate().all(|(at, sector)| sector.iter().all(|byte| *byte == expected(at))));
        bench.write(3 * ZONE + u64::from(wp), 8, 50);
    }
}

#[test]
fn different_seeds_lose_different_amounts_and_the_same_seed_the_same() {
    let left = |seed| {
        let mut bench = Bench::new(&config());
        (0..8).for_each(|n| bench.send(write(ZONE + n * 2048, 2048, 1)));
        (0..8).for_each(|_| drop(bench.next()));
        bench.power_cut(seed);
        bench.wp(1)
    };
    let all: Vec<u32> = (0..16).map(left).collect();
    assert!(all.iter().any(|wp| *wp != all[0]), "{all:?}");
    assert_eq!(all, (0..16).map(left).collect::<Vec<_>>());
}

#[test]
fn a_zone_that_was_filled_or_finished_in_time_stays_full_and_else_goes_back() {
    let finish = || Bio::new(Op::ZoneFinish, Sector(5 * ZONE), 0, Payload::None);
    let mut bench = Bench::new(&config());
    bench.write(5 * ZONE, 64, 1);
    bench.time(finish());
    bench.power_cut(1);
    assert_eq!(bench.device().zones().zone(ZoneNo(5)).cond, Condition::Full);
    assert!(bench.read(5 * ZONE, 64).0.iter().all(|byte| *byte == 1), "a finish has its data on the medium");
    let mut bench = Bench::new(&config());
    bench.write(5 * ZONE, 64, 1);
    bench.send(finish());
    bench.stack.turn(bench.now);
    bench.power_cut(1);
    assert!(bench.wp(5) <= 64);
}

#[test]
fn conventional_zones_keep_old_or_new_blocks_and_nothing_else() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..20 {
        let mut bench = Bench::new(&config());
        bench.write(1024, 256, 1);
        bench.flush();
        bench.write(1024, 256, 2);
        bench.write(1024 + 64, 64, 3);
        bench.power_cut(seed);
        let (data, _) = bench.read(1024, 256);
        for (at, block) in data.chunks(4096).enumerate() {
            assert!(block.iter().all(|byte| *byte == block[0]), "block {at} is torn within");
            assert!((1..=if (8..16).contains(&at) { 3 } else { 2 }).contains(&block[0]));
            if block[0] == 1 { old += 1 } else { new += 1 }
        }
    }
    assert!(old > 50 && new > 50, "{old} old and {new} new blocks");
}

#[test]
fn a_disk_that_keeps_no_data_takes_no_more_memory_for_more_writes() {
    let mut bench = Bench::new(&SmrConfig { keep_data: false, ..config() });
    for n in 0..200 {
        bench.write(ZONE + n * u64::from(MIB), MIB, 1);
    }
    assert_eq!(bench.device().memory_bytes(), 0);
}

#[test]
fn parameters_that_make_no_disk_are_refused_by_name() {
    let error = |config: SmrConfig| match SmrDisk::new(&config) {
        Err(error) if error.fault.is::<WrongParameter>() => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{config:?} makes a disk"),
    };
    let mut wrong = config();
    wrong.seek.average = Duration::from_millis(20);
    assert!(error(wrong).contains("seek times"));
    let mut wrong = config();
    wrong.media.inner_ratio = f64::NAN;
    assert!(error(wrong).contains("inner_ratio"));
    let mut wrong = config();
    wrong.cache.segment_bytes = 1 << 30;
    assert!(error(wrong).contains("segment"));
    let mut wrong = config();
    wrong.cache.non_volatile_bytes = Some(4096);
    assert!(error(wrong).contains("non-volatile cache"));
    assert!(SmrDisk::new(&SmrConfig { conventional: 100, ..config() }).is_err());
}

/// A bio of any kind, to a few zones, mostly at their write pointers.
fn any_bio(bench: &Bench, rng: &mut Rng) -> Bio {
    let zone = rng.below(5);
    let sectors = 8 * (1 + rng.below(64) as u32);
    let wp = u64::from(bench.wp(zone as u32));
    let data = Payload::Data(Data::zeroed(sectors as usize * 512));
    let flags = [Flags::NONE, Flags::NONE, Flags::FUA, Flags::PREFLUSH][rng.below(4) as usize];
    let manage = |op| Bio::new(op, Sector(zone * ZONE), 0, Payload::None);
    match rng.below(16) {
        0..8 => Bio::new(Op::Write, Sector(zone * ZONE + wp), sectors, data).with_flags(flags),
        8..12 => Bio::new(Op::Read, Sector(zone * ZONE + 8 * rng.below(64)), sectors, data),
        12 => Bio::new(Op::Flush, Sector(0), 0, Payload::None),
        13 => manage(Op::ZoneReset),
        14 => manage(Op::ZoneFinish),
        _ => manage([Op::ZoneOpen, Op::ZoneClose, Op::ZoneResetAll][rng.below(3) as usize]),
    }
}

#[test]
fn whatever_is_asked_and_whenever_power_fails_every_bio_comes_back_and_flushed_pointers_stay() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let cache = Cache { bytes: 1 << 18, segment_bytes: 1 << 14, entries: 7, ..config().cache };
        let non_volatile_bytes = rng.chance(1, 2).then_some(1 << 16);
        let cache = Cache { write_back: rng.chance(1, 2), non_volatile_bytes, ..cache };
        let mut bench = Bench::new(&SmrConfig { cache, conventional: 2, ..config() });
        for _ in 0..4 {
            for _ in 0..rng.below(60) {
                let bio = any_bio(&bench, &mut rng);
                bench.send(bio);
                bench.stack.turn(bench.now);
                bench.now = bench.now + Duration(rng.below(3_000_000));
            }
            if rng.chance(1, 2) {
                bench.power_cut(rng.draw());
                assert_eq!(bench.stack.outstanding(bench.port), 0, "seed {seed}: lost in the power cut");
                continue;
            }
            while bench.stack.outstanding(bench.port) > 0 {
                bench.next();
            }
            bench.flush();
            let before: Vec<u32> = (2..5).map(|zone| bench.wp(zone)).collect();
            bench.power_cut(rng.draw());
            assert_eq!(before, (2..5).map(|zone| bench.wp(zone)).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

/// Two minutes at depth 128: the whole stack, twice, to the same nanosecond.
#[test]
fn the_same_run_takes_the_same_time_to_the_nanosecond() {
    let run = || {
        let mut stack = Stack::new();
        let config = SmrConfig { keep_data: false, ..SmrConfig::new(1000) };
        let disk = stack.add(Box::new(SmrDisk::new(&config).unwrap())).unwrap();
        let options = PlugOptions { policy: WritePolicy::Plug, max_segments: 1, ..PlugOptions::default() };
        let plug = stack.add(Box::new(ZonePlug::new(disk, stack.limits(disk), options).unwrap())).unwrap();
        let mut world = World::new(stack);
        let random = FioOptions {
            pattern: Pattern::RandomZones,
            jobs: 4,
            iodepth: 32,
            max_open_zones: Some(16),
            runtime: Duration::from_millis(120_000),
            ..FioOptions::default()
        };
        let fio = world.add(Box::new(Fio::new(plug, random)));
        world.run(Instant(u64::MAX));
        let fio: &Fio = world.actor(fio).unwrap();
        (fio.writes().ios, fio.writes().longest, world.now())
    };
    let first = run();
    assert!(first.0 > 1000);
    assert_eq!(first, run());
}
