//! Tables, `linear` and `error`: what they map, what comes back in the caller's own sectors, and what they refuse.

use shingle_core::block::{Bio, BlockDevice, DeviceId, Limits, Op, Payload, Stack, Status};
use shingle_core::dm::{Table, add_table, parse_table};
use shingle_core::harness::{Harness, MockDevice};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::Zone;

use crate::desk::*;

fn linear_over(desk: MockDevice, start: u64, len: u64) -> Harness {
    let build =
        |below, limits: &Limits| Box::new(Table::linear(below, limits, start, len).unwrap()) as Box<dyn BlockDevice>;
    Harness::new(desk, build, |_, _| ())
}

/// A table over two regular desks of 2^20 sectors, named `a` and `b`; the desks complete nothing by themselves.
fn table(text: &str) -> Result<(Stack, [DeviceId; 2], DeviceId), String> {
    let mut stack = Stack::new();
    let mut disk = || {
        let mut desk = MockDevice::regular();
        desk.limits_mut().write_cache = true;
        stack.add(Box::new(desk)).unwrap()
    };
    let desks = [disk(), disk()];
    let resolve = |name: &str| match name {
        "a" => Ok(desks[0]),
        "b" => Ok(desks[1]),
        _ => Err(vec!["a".into(), "b".into()]),
    };
    let lines = parse_table(text).map_err(|error| error.to_string())?;
    let top = add_table(&mut stack, &lines, &resolve).map_err(|error| error.to_string())?;
    Ok((stack, desks, top))
}

/// Ends everything that lies on the desks, and returns what it was, as `desk op sector+sectors`.
fn end_all(stack: &mut Stack, desks: [DeviceId; 2]) -> Vec<String> {
    let mut seen = vec![];
    loop {
        while stack.step() {}
        let before = seen.len();
        for (desk, name) in desks.into_iter().zip(["a", "b"]) {
            for held in stack.device::<MockDevice>(desk).unwrap().held() {
                seen.push(format!("{name} {} {}+{}", held.op.name(), held.sector, held.sectors));
                stack.with_device(desk, |desk: &mut MockDevice, cx| desk.end(held.number, Status::Ok, 0, cx));
            }
        }
        if seen.len() == before {
            return seen;
        }
    }
}

#[test]
fn bios_that_a_table_makes_know_when_they_were_sent() {
    let (mut stack, _, top) = table("0 512 linear a 0\n512 512 linear b 0").unwrap();
    let port = stack.open_port();
    stack.submit(port, 0, top, Box::new(Bio::new(Op::Flush, Sector(0), 0, Payload::None)));
    let now = Instant(5_000_000_000);
    stack.turn(now);
    let mut since = vec![];
    stack.held(&mut |device, bio| since.extend((device != top).then_some(bio.since)));
    assert_eq!(since, [now, now], "a flush for each disk");
}

#[test]
fn linear_adds_its_start_and_sends_bios_on_for_good() {
    let mut h = linear_over(MockDevice::regular(), 2048, 4096);
    h.submit(write(8, 8));
    h.submit(read(4088, 8));
    assert_eq!(at_desk(&h), ["WRITE 2056+8", "READ 6136+8"]);
    assert_eq!(h.stack.counters(h.top).in_flight, 2, "it counts what went through");
    h.end_all(Status::Ok);
    assert!(h.stack.is_drained(h.top));
    assert_eq!(h.statuses().len(), 2);
    let past_end = h.submit(read(4089, 8));
    assert_eq!(h.statuses(), [(past_end, Status::Io)]);
}

#[test]
fn appends_and_reports_come_back_in_the_sectors_of_the_layer_above() {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    desk.limits_mut().zoned.as_mut().unwrap().max_append = Some(ZONE);
    let mut h = linear_over(desk, zone(2), zone(4));
    let first = h.submit(append(1, 8));
    h.end(Status::Ok);
    let second = h.submit(append(1, 8));
    h.end(Status::Ok);
    let sectors: Vec<_> = h.outcomes().iter().map(|outcome| (outcome.tag, outcome.sector.0)).collect();
    assert_eq!(sectors, [(first, zone(1)), (second, zone(1) + 8)]);

    let zones = report_of(&mut h, 0, 64);
    assert_eq!(zones.len(), 4, "zones past the end are not ours");
    assert_eq!((zones[1].start.0, zones[1].wp.0), (zone(1), zone(1) + 16));
    assert_eq!(report_of(&mut h, zone(2) + 5, 1)[0].start.0, zone(2), "from the zone that holds the sector");
}

fn report_of(h: &mut Harness, from: u64, room: usize) -> Vec<Zone> {
    let port = h.stack.open_port();
    let bio = Bio::new(Op::ReportZones, Sector(from), 0, Payload::Zones(Vec::with_capacity(room)));
    h.stack.submit(port, 0, h.top, Box::new(bio));
    h.run();
    h.end_all(Status::Ok);
    let mut done = h.stack.poll_completion(port).unwrap();
    match std::mem::take(&mut done.bio.payload) {
        Payload::Zones(zones) => zones,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reset_all_of_a_part_resets_just_the_zones_of_that_part_that_need_it() {
    let mut h = linear_over(MockDevice::zoned(8, ZONE, ZONE, 1), zone(0), zone(4));
    h.with_desk(|desk, _| {
        for n in [1, 3, 5] {
            let zone = desk.zone_mut(n);
            (zone.wp, zone.cond) = (zone.start + 8, shingle_core::zone::Condition::Closed);
        }
    });
    let tag = h.submit(reset_all());
    h.end(Status::Ok); // the report
    let mut sent = at_desk(&h);
    sent.sort();
    assert_eq!(sent, ["ZONE_RESET 192+0", "ZONE_RESET 64+0"]);
    h.end_all(Status::Ok);
    assert_eq!(h.statuses(), [(tag, Status::Ok)]);
}

#[test]
fn a_failed_reset_in_a_reset_of_all_is_reported() {
    let mut h = linear_over(MockDevice::zoned(8, ZONE, ZONE, 1), zone(0), zone(4));
    h.with_desk(|desk, _| desk.zone_mut(1).cond = shingle_core::zone::Condition::Full);
    let tag = h.submit(reset_all());
    let second = h.submit(reset_all());
    h.end(Status::Ok);
    h.end(Status::Medium);
    h.end_all(Status::Ok);
    assert_eq!(h.statuses(), [(tag, Status::Medium), (second, Status::Ok)]);
}

#[test]
fn linear_refuses_ranges_that_are_not_whole_zones_or_past_the_end() {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    let limits = desk.limits_mut();
    for (start, len, word) in
        [(8, zone(1), "align"), (0, 8, "align"), (zone(7), zone(2), "past the end"), (1, u64::MAX, "past")]
    {
        let error = Table::linear(DeviceId(0), limits, start, len).err().unwrap();
        assert!(error.contains(word), "{start}+{len}: {error}");
    }
}

#[test]
fn a_table_routes_by_sector_and_cuts_at_the_edges() {
    let (mut stack, desks, top) = table("0 100 linear a 1000\n100 50 error\n150 100 linear b 0\n").unwrap();
    let port = stack.open_port();
    for (tag, (sector, sectors)) in
        [(0, 8), (92, 8), (96, 8), (149, 1), (150, 8), (240, 10), (96, 60)].iter().enumerate()
    {
        stack.submit(port, tag as u64, top, Box::new(read(*sector, *sectors)));
    }
    let seen = end_all(&mut stack, desks);
    let expected = ["a READ 1000+8", "a READ 1092+8", "a READ 1096+4", "a READ 1096+4", "b READ 0+8", "b READ 90+10"];
    let mut sorted = seen.clone();
    sorted.sort();
    let mut wanted: Vec<String> = expected.iter().map(|s| s.to_string()).chain(["b READ 0+6".to_string()]).collect();
    wanted.sort();
    assert_eq!(sorted, wanted);
    let mut statuses: Vec<_> = std::iter::from_fn(|| stack.poll_completion(port)).map(|c| (c.tag, c.status)).collect();
    statuses.sort_by_key(|(tag, _)| *tag);
    let (ok, io) = (Status::Ok, Status::Io);
    assert_eq!(statuses, [(0, ok), (1, ok), (2, io), (3, io), (4, ok), (5, ok), (6, io)]);
}

#[test]
fn a_flush_reaches_every_device_under_a_table_that_can_lose_writes() {
    let (mut stack, desks, top) = table("0 100 linear a 0\n100 50 error\n150 100 linear b 0\n").unwrap();
    let port = stack.open_port();
    stack.submit(port, 7, top, Box::new(flush()));
    assert_eq!(end_all(&mut stack, desks), ["a FLUSH 0+0", "b FLUSH 0+0"]);
    let done = stack.poll_completion(port).unwrap();
    assert_eq!((done.tag, done.status), (7, Status::Ok));
}

#[test]
fn a_wrong_table_is_refused_with_the_line_and_the_next_step() {
    for (text, line, words) in [
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
        ("0 100 linear a 0\n200 8 error", 2, "gap"),
        ("0 100 linear a 0\n50 8 error", 2, "overlaps"),
        ("0 100 raid a 0", 1, "known targets are: "),
        ("0 100", 1, "target is missing"),
        ("0 ten error", 1, "`ten`"),
        ("0 0 error", 1, "at least one sector"),
        ("0 100 linear a", 1, "the start on the device is missing; write `linear <device> <start sector>`"),
        ("0 100 error a 0 9", 1, "argument 3: error: `9` is too much"),
        ("\n0 100 linear c 0", 2, "known devices are: a, b"),
        ("0 9999999 linear a 0", 1, "past the end"),
        ("0 18446744073709551615 error", 1, "less than 2^63 bytes"),
        ("0 18014398509481983 error\n18014398509481983 1 zero", 2, "less than 2^63 bytes"),
        ("0 8 linear a -1", 1, "`-1`"),
    ] {
        let error = table(text).err().unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(error.starts_with(&format!("table line {line}")) && error.contains(words), "{text}: {error}");
    }
}

/// A faulty line over a desk that completes what it is told to, at given times.
struct FaultyBench {
    stack: Stack,
    desk: DeviceId,
    top: DeviceId,
    port: shingle_core::block::PortId,
}

impl FaultyBench {
    fn new(rules: &str) -> Self {
        let mut stack = Stack::new();
        let mut desk = MockDevice::regular();
        desk.limits_mut().write_cache = true;
        let desk = stack.add(Box::new(desk)).unwrap();
        let lines = parse_table(&format!("0 2048 faulty a 1024 {rules}")).unwrap();
        let top = add_table(&mut stack, &lines, &|_: &str| Ok(desk)).unwrap();
        let port = stack.open_port();
        Self { stack, desk, top, port }
    }

    /// Submits `bio` at `at`, and has the desk end it well at once if it comes that far.
    fn submit(&mut self, tag: u64, bio: Bio, at: Instant) -> Option<Instant> {
        self.stack.turn(at);
        self.stack.submit(self.port, tag, self.top, Box::new(bio));
        self.stack.turn(at);
        for held in self.stack.device::<MockDevice>(self.desk).unwrap().held() {
            self.stack.with_device(self.desk, |desk: &mut MockDevice, cx| desk.end(held.number, Status::Ok, 0, cx));
        }
        self.stack.turn(at)
    }

    fn ended(&mut self) -> Vec<(u64, Status)> {
        std::iter::from_fn(|| self.stack.poll_completion(self.port)).map(|back| (back.tag, back.status)).collect()
    }
}

const fn ms(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

#[test]
fn faulty_fails_what_its_rule_picks_and_nothing_else() {
    let mut bench = FaultyBench::new("error,op=write,at=100-199,status=medium error,op=read+flush,skip=1,count=1");
    for (tag, bio) in
        [write(96, 8), write(92, 8), write(200, 8), read(0, 8), read(0, 8), read(0, 8)].into_iter().enumerate()
    {
        bench.submit(tag as u64, bio, ms(0));
    }
    let ok = Status::Ok;
    assert_eq!(bench.ended(), [(0, Status::Medium), (1, ok), (2, ok), (3, ok), (4, Status::Io), (5, ok)]);
    let arrived = bench.stack.counters(bench.desk);
    assert_eq!(arrived.ios[Op::Write as usize], 2, "a bio that fails on the way down reaches nobody");
}

#[test]
fn faulty_carries_out_what_it_reports_as_failed_afterwards() {
    let mut bench = FaultyBench::new("error-after,op=write,status=transport");
    bench.submit(0, write(0, 8), ms(0));
    assert_eq!(bench.ended(), [(0, Status::Transport)]);
    assert_eq!(bench.stack.counters(bench.desk).ios[Op::Write as usize], 1);
}

#[test]
fn a_delay_holds_the_completion_back_and_not_the_bio() {
    let mut bench = FaultyBench::new("delay,time=5ms,window=10ms/20ms");
    assert_eq!(bench.submit(0, write(0, 8), ms(3)), None, "outside of the window");
    assert_eq!(bench.submit(1, write(8, 8), ms(12)), Some(ms(17)));
    assert_eq!(bench.submit(2, write(16, 8), ms(12)), Some(ms(17)));
    assert_eq!(bench.stack.counters(bench.desk).ios[Op::Write as usize], 3, "nobody is overtaken on the way down");
    assert_eq!(bench.ended(), [(0, Status::Ok)]);
    bench.stack.turn(ms(17));
    assert_eq!(bench.ended(), [(1, Status::Ok), (2, Status::Ok)]);
    assert!(bench.stack.is_drained(bench.top));
}

#[test]
fn a_lost_completion_ends_with_a_timeout_when_its_time_is_up() {
    let mut bench = FaultyBench::new("lose,op=flush,timeout=30s,count=1");
    assert_eq!(bench.submit(0, flush(), ms(10)), Some(ms(30_010)));
    let mut held = 0;
    bench.stack.held(&mut |_, _| held += 1);
    assert_eq!(held, 1, "the report of stuck bios shows it");
    bench.stack.turn(ms(30_010));
    assert_eq!(bench.ended(), [(0, Status::Timeout)]);
    bench.submit(1, flush(), ms(30_020));
    assert_eq!(bench.ended(), [(1, Status::Ok)], "there was one to lose");
}

#[test]
fn the_same_seed_picks_the_same_bios() {
    let picks = |seed: u32| -> Vec<u64> {
        let mut bench = FaultyBench::new(&format!("seed={seed} error,rate=1/4"));
        for tag in 0..200 {
            bench.submit(tag, read(0, 8), ms(0));
        }
        bench.ended().into_iter().filter(|(_, status)| !status.is_ok()).map(|(tag, _)| tag).collect()
    };
    assert_eq!(picks(1), picks(1));
    assert_ne!(picks(1), picks(2));
    assert!((30..70).contains(&picks(1).len()), "{}", picks(1).len());
}

#[test]
fn a_wrong_rule_is_refused_with_its_word_and_what_to_write() {
    for (rules, word, says) in [
        ("explode", 5, "rules are error, error-after, delay, lose"),
        ("error,op=format", 5, "unknown operation `format`"),
        ("seed=1 error,rate=2/1", 6, "no rate, as in 1/100"),
        ("delay", 5, "delay needs a time"),
        ("delay,time=5", 5, "as in 500ms"),
        ("error,time=5ms", 5, "has no `time`"),
        ("error,at=9-3", 5, "no range of sectors"),
        ("error,window=5s/2s", 5, "five seconds of every minute"),
        ("error error,status=maybe", 6, "io, medium"),
        ("error,rate=1", 5, "no rate, as in 1/100"),
        ("error,window=5s", 5, "five seconds of every minute"),
        ("error,", 5, "no key=value"),
        ("error,skip=1,count=3,skip=2", 5, "`skip` stands twice"),
    ] {
        let error = parse_table(&format!("0 8 faulty a 0 {rules}")).unwrap_err();
        assert_eq!(error.word, Some(word), "{rules}");
        assert!(error.message.contains(says), "{rules}: {}", error.message);
    }
    assert!(parse_table("0 8 faulty a").unwrap_err().message.contains("faulty <device> <start sector>"));
}
