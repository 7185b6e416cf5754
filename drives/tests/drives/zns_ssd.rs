//! The zoned SSD as a device: what it promises, whatever its speed.

use shingle_core::block::{Bio, Completion, Data, DeviceId, Flags, Op, Payload, PortId, Stack, Status};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone};
use shingle_drives::{ZnsConfig, ZnsSsd};

/// Zones of 1024 sectors, 768 of them writable: 8 program units of 48 KiB, of which 2 fit into a buffer.
const ZONE: u64 = 1024;
const CAPACITY: u64 = 768;

fn config() -> ZnsConfig {
    ZnsConfig {
        capacity: 16 * ZONE,
        block_bytes: 4096,
        zone_sectors: ZONE,
        zone_capacity: CAPACITY,
        max_open: Some(4),
        max_active: Some(6),
        max_sectors: None,
        max_append: Some(256),
        write_cache: true,
        memory_backed: true,
        read_command: Duration(1_000),
        write_command: Duration(2_000),
        append_command: Duration(2_000),
        zone_switch: Duration(3_000),
        completion: Duration(500),
        append_completion: Duration::ZERO,
        link_rate: 4_096_000_000,
        channels: 2,
        dies_per_channel: 2,
        dies_per_zone: 4,
        channel_rate: 491_520_000,
        drain_rate: 4_915_200_000,
        program_unit_bytes: 48 << 10,
        program: Duration(400_000),
        buffer_units: 2,
        page_bytes: 16 << 10,
        read: Duration(50_000),
        read_ahead_bytes: 0,
        reset: Duration::ZERO,
        erase: Duration(1_000_000),
        erase_block_bytes: 48 << 10,
        finish_rate: 393_216_000,
    }
}

/// A drive alone, and what has come back from it with the time.
struct Bench {
    stack: Stack,
    port: PortId,
    drive: DeviceId,
    now: Instant,
    tags: u64,
}

impl Bench {
    fn new(config: ZnsConfig) -> Self {
        let mut stack = Stack::new();
        let port = stack.open_port();
        let drive = stack.add(Box::new(ZnsSsd::new(config).unwrap())).unwrap();
        Self { stack, port, drive, now: Instant::ZERO, tags: 0 }
    }

    fn send(&mut self, bio: Bio) -> u64 {
        self.tags += 1;
        self.stack.submit(self.port, self.tags, self.drive, Box::new(bio));
        self.tags
    }

    /// Lets time pass until `until` or until nothing happens any more.
    fn run(&mut self, until: Instant) -> Vec<(Instant, Completion)> {
        let mut ended = Vec::new();
        loop {
            let next = self.stack.turn(self.now);
            while let Some(done) = self.stack.poll_completion(self.port) {
                ended.push((self.now, done));
            }
            match next {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => return ended,
            }
        }
    }

    fn run_out(&mut self) -> Vec<(Instant, Completion)> {
        self.run(Instant(u64::MAX))
    }

    /// Does one thing; returns how it ended and how long it took.
    fn time(&mut self, bio: Bio) -> (Completion, Duration) {
        let began = self.now;
        self.send(bio);
        let (at, done) = self.run_out().into_iter().next().expect("it ends");
        (done, at.since(began))
    }

    fn done(&mut self, bio: Bio) -> Duration {
        let (done, took) = self.time(bio);
        assert_eq!(done.status, Status::Ok);
        took
    }

    fn drive(&self) -> &ZnsSsd {
        self.stack.device(self.drive).unwrap()
    }

    fn zone(&self, zone: u64) -> Zone {
        self.drive().zones().zone(shingle_core::zone::ZoneNo(zone as u32))
    }

    fn power_cut(&mut self, seed: u64) {
        self.stack.with_device::<ZnsSsd, _>(self.drive, |drive, _| drive.power_cut(&mut Rng::new(seed))).unwrap();
    }

    fn read_back(&mut self, sector: u64, sectors: u32) -> Vec<u8> {
        let (done, _) = self.time(data(Op::Read, sector, sectors, 0xff));
        assert_eq!(done.status, Status::Ok);
        let Payload::Data(data) = &done.bio.payload else { panic!("the memory is back") };
        data.to_vec()
    }
}

fn data(op: Op, sector: u64, sectors: u32, byte: u8) -> Bio {
    let memory = Data::zeroed(sectors as usize * 512);
    memory.fill(byte);
    Bio::new(op, Sector(sector), sectors, Payload::Data(memory))
}

fn write(sector: u64, sectors: u32) -> Bio {
    data(Op::Write, sector, sectors, 7)
}

fn manage(op: Op, zone: u64) -> Bio {
    Bio::new(op, Sector(zone * ZONE), 0, Payload::None)
}

fn flush() -> Bio {
    Bio::new(Op::Flush, Sector(0), 0, Payload::None)
}

fn ends(ended: &[(Instant, Completion)]) -> Vec<(u64, u64)> {
    ended.iter().map(|(at, done)| (done.tag, at.0)).collect()
}

#[test]
fn a_small_write_takes_the_front_end_the_transfer_and_the_completion() {
    let mut bench = Bench::new(config());
    // The first write is a switch: 2 us and 3 us, 4 KiB at 4.096 GB/s, 500 ns.
    assert_eq!(bench.done(write(0, 8)), Duration(6_500));
    assert_eq!(bench.done(write(8, 8)), Duration(3_500));
    assert_eq!(bench.done(write(ZONE, 8)), Duration(6_500));
}

#[test]
fn a_write_that_the_buffer_cannot_hold_waits_until_units_are_programmed() {
    let mut bench = Bench::new(config());
    // Two units at 12 us each go into the buffer. The third has to wait until the first is drained (10 us), carried to its
    // die (100 us) and programmed (400 us): that one was complete at 5 + 12 us.
    assert_eq!(bench.done(write(0, 3 * 96)), Duration(5_000 + 12_000 + 510_000 + 12_000 + 500));
}

#[test]
fn all_zones_together_are_bound_by_the_drain_and_one_zone_by_its_buffer() {
    let rate = |drain_rate, zones: u64| {
        let mut bench = Bench::new(ZnsConfig { drain_rate, max_open: None, max_active: None, ..config() });
        for (n, zone) in (0..CAPACITY / 96).flat_map(|n| (0..zones).map(move |zone| (n, zone))) {
            bench.send(write(zone * ZONE + n * 96, 96));
        }
        bench.run_out();
        bench.done(flush());
        CAPACITY * 512 * zones * 1000 / bench.now.0
    };
    // A slow drain is the bound however many zones there are; a fast one leaves it to the dies, four at a time.
    assert!((95..=100).contains(&rate(100_000_000, 8)), "{}", rate(100_000_000, 8));
    let (one, eight) = (rate(4_915_200_000, 1), rate(4_915_200_000, 8));
    assert!((170..=193).contains(&one) && (340..=393).contains(&eight), "{one} {eight}");
}

#[test]
fn appends_land_in_the_order_that_the_device_takes_them_and_without_gaps() {
    let mut bench = Bench::new(config());
    let tags: Vec<u64> = (0..6).map(|n| bench.send(data(Op::ZoneAppend, ZONE, 8, n))).collect();
    let ended = bench.run_out();
    let placed: Vec<(u64, u64)> = ended.iter().map(|(_, done)| (done.tag, done.bio.sector.0)).collect();
    let expected: Vec<(u64, u64)> = tags.iter().zip(0..).map(|(tag, n)| (*tag, ZONE + 8 * n)).collect();
    assert_eq!(placed, expected);
    assert_eq!(bench.read_back(ZONE + 16, 8), [2; 4096]);
}

#[test]
fn a_write_off_the_pointer_or_past_the_capacity_fails_alone() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.time(write(8, 8)).0.status, Status::Io);
    bench.done(write(0, CAPACITY as u32 - 8));
    assert_eq!(bench.time(write(CAPACITY - 8, 16)).0.status, Status::Io);
    bench.done(write(CAPACITY - 8, 8));
    assert_eq!(bench.zone(0).cond, Condition::Full);
    assert_eq!(bench.time(data(Op::ZoneAppend, 0, 8, 1)).0.status, Status::Io);
}

#[test]
fn active_zones_are_bounded_and_the_host_learns_why() {
    let mut bench = Bench::new(config());
    for zone in 0..6 {
        bench.done(write(zone * ZONE, 8));
    }
    assert_eq!(bench.time(write(6 * ZONE, 8)).0.status, Status::ZoneActiveResource);
    bench.done(manage(Op::ZoneReset, 0));
    bench.done(write(6 * ZONE, 8));
}

#[test]
fn a_read_waits_for_the_die_that_programs_and_not_for_what_is_in_the_buffer() {
    let mut bench = Bench::new(config());
    bench.done(write(0, 8));
    // From the buffer: 1 us, 1 us of transfer, 500 ns.
    assert_eq!(bench.done(data(Op::Read, 0, 8, 0)), Duration(2_500));
    bench.done(write(8, 96 - 8));
    // From the die: one page, 4 KiB on the channel.
    assert_eq!(bench.done(data(Op::Read, 0, 8, 0)), Duration(1_000 + 50_000 + 8_333 + 1_000 + 500));
    // Of zone 4, the first unit is on the same die. Its program begins about 20 us after the write is sent and 110 us later
    // the data is there; the read that comes in between waits for all of it.
    bench.send(write(4 * ZONE, 96));
    let before = bench.now;
    bench.run(before + Duration(200_000));
    let read = bench.send(data(Op::Read, 0, 8, 0));
    let (at, _) = bench.run_out().into_iter().find(|(_, done)| done.tag == read).unwrap();
    assert!(at.since(before) > Duration(500_000), "{}", at.since(before).0);
}

#[test]
fn reset_and_finish_take_longer_the_more_there_is_to_erase_or_to_fill() {
    let mut bench = Bench::new(config());
    let empty = bench.done(manage(Op::ZoneReset, 0));
    bench.done(write(0, 96));
    let one_row = bench.done(manage(Op::ZoneReset, 0));
    bench.done(write(0, CAPACITY as u32));
    let full = bench.done(manage(Op::ZoneReset, 0));
    assert_eq!((empty, one_row, full), (Duration(2_500), Duration(1_002_500), Duration(2_002_500)));
    // 384 KiB at 393 MB/s are a millisecond.
    assert_eq!(bench.done(manage(Op::ZoneFinish, 1)), Duration(1_002_500));
    bench.done(write(2 * ZONE, CAPACITY as u32 - 96));
    bench.run_out();
    assert_eq!(bench.done(manage(Op::ZoneFinish, 2)), Duration(127_500));
}

#[test]
fn a_reset_costs_something_beside_the_erasing_unless_the_zone_is_empty() {
    let mut bench = Bench::new(ZnsConfig { reset: Duration(700_000), ..config() });
    assert_eq!(bench.done(manage(Op::ZoneReset, 0)), Duration(2_500));
    bench.done(write(0, 96));
    assert_eq!(bench.done(manage(Op::ZoneReset, 0)), Duration(1_702_500));
}

#[test]
fn an_append_costs_the_front_end_its_own_time_and_its_host_more_than_that() {
    let costs = ZnsConfig { append_command: Duration(4_000), append_completion: Duration(1_500), ..config() };
    let mut bench = Bench::new(costs);
    bench.done(write(0, 8));
    assert_eq!(bench.done(write(8, 8)), Duration(3_500));
    // 4 us, 1 us of transfer, 500 ns and 1.5 us more.
    assert_eq!(bench.done(data(Op::ZoneAppend, 0, 8, 1)), Duration(7_000));
    // For the last of four, the front end is busy four times and the rest comes once.
    let began = bench.now;
    for _ in 0..4 {
        bench.send(data(Op::ZoneAppend, 0, 8, 1));
    }
    assert_eq!(bench.run_out().last().unwrap().0.since(began), Duration(4 * 4_000 + 3_000));
}

/// A drive that reads ahead, whose zone 0 is written and on the dies.
fn written(read_ahead_bytes: u32) -> Bench {
    let mut bench = Bench::new(ZnsConfig { read_ahead_bytes, ..config() });
    bench.done(write(0, CAPACITY as u32));
    bench.run_out();
    bench
}

#[test]
fn who_reads_on_where_he_ended_finds_the_data_read_and_who_jumps_does_not() {
    const FROM_BUFFER: Duration = Duration(1_000 + 1_000 + 500);
    let mut bench = written(64 << 10);
    let read = |bench: &mut Bench, sector| bench.done(data(Op::Read, sector, 8, 0));
    assert!(read(&mut bench, 0) > Duration(50_000) && read(&mut bench, 8) > Duration(50_000));
    // The rest of the page came with the second read, and the pages behind it while it was on its way.
    (2..16).for_each(|n| assert_eq!(read(&mut bench, n * 8), FROM_BUFFER, "read {n}"));
    assert!(read(&mut bench, 400) > Duration(50_000));
    assert_eq!(read(&mut bench, 16 * 8), FROM_BUFFER);
    let mut without = written(0);
    (0..16).for_each(|n| assert!(read(&mut without, n * 8) > Duration(50_000)));
}

#[test]
fn what_was_read_ahead_is_not_taken_for_what_is_written_after_a_reset() {
    let mut bench = written(64 << 10);
    for n in 0..4 {
        bench.done(data(Op::Read, n * 8, 8, 0));
    }
    bench.done(manage(Op::ZoneReset, 0));
    for offset in (0..CAPACITY).step_by(96) {
        bench.done(data(Op::Write, offset, 96, 9));
    }
    bench.run_out();
    // It has to come from the dies again.
    let (done, took) = bench.time(data(Op::Read, 4 * 8, 8, 0));
    let Payload::Data(read) = &done.bio.payload else { panic!("the memory is back") };
    assert_eq!(read.to_vec(), [9; 4096]);
    assert!(took > Duration(50_000), "{}", took.0);
}

#[test]
fn a_flush_ends_when_all_that_was_acknowledged_is_on_the_dies() {
    let mut bench = Bench::new(config());
    bench.done(write(0, 8));
    // 2 us, 10 us of drain, 100 us on the channel, 400 us of programming, 500 ns: a unit is programmed as it is.
    assert_eq!(bench.done(flush()), Duration(512_500));
    assert_eq!(bench.done(flush()), Duration(2_500));
    let fua = bench.done(write(8, 8).with_flags(Flags::FUA));
    assert!(fua > Duration(510_000), "{}", fua.0);
    bench.power_cut(3);
    assert_eq!(bench.zone(0).wp, Sector(16));
}

#[test]
fn after_a_power_cut_each_zone_holds_a_prefix_with_all_that_was_flushed() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut bench = Bench::new(config());
        bench.done(data(Op::Write, 0, 40, 1));
        bench.done(flush());
        bench.send(data(Op::Write, 40, 40, 2));
        bench.send(data(Op::Write, ZONE, 24, 3));
        let soon = bench.now + Duration(60_000);
        assert_eq!(bench.run(soon).len(), 2);
        bench.power_cut(seed);
        let (first, second) = (bench.zone(0).wp.0, bench.zone(1).wp.0 - ZONE);
        assert!((40..=80).contains(&first) && second <= 24 && first % 8 == 0 && second % 8 == 0);
        let expected: Vec<u8> = (0..80)
            .flat_map(|n| {
                [if n < 40 {
                    1
                } else if n < first {
                    2
                } else {
                    0
                }; 512]
            })
            .collect();
        assert!(bench.read_back(0, 80) == expected);
        assert!(matches!(bench.zone(0).cond, Condition::Closed), "{:?}", bench.zone(0).cond);
        // The rest can be written again from there.
        bench.done(write(first, 8));
        seen.insert((first, second));
    }
    assert!(seen.len() > 10, "the cut hits different places: {seen:?}");
}

#[test]
fn capacitors_save_all_that_was_acknowledged() {
    for seed in 0..20 {
        let mut bench = Bench::new(ZnsConfig { write_cache: false, ..config() });
        bench.done(write(0, 40));
        bench.send(write(40, 256));
        bench.run(Instant(40_000));
        bench.power_cut(seed);
        assert!(bench.zone(0).wp >= Sector(40), "{:?}", bench.zone(0));
    }
}

#[test]
fn what_a_power_cut_catches_in_flight_fails_and_nothing_is_lost() {
    let mut bench = Bench::new(config());
    for zone in 0..5 {
        bench.send(write(zone * ZONE, 200));
    }
    bench.send(data(Op::Read, 0, 8, 0));
    bench.send(flush());
    let mut ended = bench.run(Instant(30_000));
    bench.power_cut(1);
    ended.extend(bench.run_out());
    assert_eq!(ended.len(), 7);
    let failed = ended.iter().filter(|(_, done)| done.status == Status::Transport).count();
    assert!(failed >= 5, "{:?}", ends(&ended));
    assert_eq!(bench.drive().zones().open_zones(), 0);
}

#[test]
fn a_write_with_preflush_reaches_the_dies_after_what_ended_before() {
    let mut reached = 0;
    for seed in 0..40 {
        let mut bench = Bench::new(config());
        bench.done(write(0, 40));
        bench.send(data(Op::Write, ZONE, 8, 9).with_flags(Flags::PREFLUSH));
        bench.run(bench.now + Duration(seed * 40_000));
        bench.power_cut(seed);
        let (journal, data) = (bench.zone(1).wp.0 - ZONE, bench.zone(0).wp.0);
        assert!(journal == 0 || data == 40, "after {seed}: journal at {journal}, data at {data}");
        reached += u64::from(journal > 0);
    }
    assert!((5..35).contains(&reached), "{reached}");
}

#[test]
fn a_reset_under_writes_ends_them_all() {
    let mut bench = Bench::new(config());
    bench.send(write(0, 700).with_flags(Flags::FUA));
    bench.send(manage(Op::ZoneReset, 0));
    bench.send(write(0, 8));
    let statuses: Vec<Status> = bench.run_out().into_iter().map(|(_, done)| done.status).collect();
    assert_eq!(statuses.len(), 3);
    assert_eq!(bench.zone(0).wp, Sector(8));
}

#[test]
fn wrong_parameters_are_named() {
    let refused = |config: ZnsConfig| ZnsSsd::new(config).err().expect("refused").to_string();
    let cases = [
        (ZnsConfig { dies_per_zone: 3, ..config() }, "dies_per_zone is 3"),
        (ZnsConfig { program_unit_bytes: 1000, ..config() }, "program_unit_bytes is 1000"),
        (ZnsConfig { channel_rate: 0, ..config() }, "channel_rate is 0"),
        (ZnsConfig { buffer_units: 0, ..config() }, "buffer_units is 0"),
        (ZnsConfig { zone_capacity: 2048, ..config() }, "2048"),
        (ZnsConfig { zone_capacity: 764, ..config() }, "zone_capacity is 764"),
        (ZnsConfig { capacity: 16 * ZONE + 8, ..config() }, "capacity is"),
        (ZnsConfig { max_append: Some(1024), ..config() }, "max_append is 1024"),
        (ZnsConfig { max_open: Some(7), ..config() }, "max_open is 7"),
    ];
    for (config, words) in cases {
        let message = refused(config);
        assert!(message.contains(words), "{message}");
    }
}
