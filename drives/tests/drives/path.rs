//! Links as paths: stalls, pulled cables, retransmission, refusals, schedules, shared wires, and giving up.

use core::fmt;
use std::collections::BTreeMap;

use shingle_core::block::{
    Bio, BlockDevice, Cx, Data, DeviceId, Event, Limits, Op, PathEvent, Payload, Silence, Stack, Status,
};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_drives::{
    Link, LinkConfig, RamConfig, RamDisk, Refusals, Retransmission, ServiceTime, Step, Steps, Traffic, Window, Windows,
};

use crate::bench::{Bench, ms, us};

const fn at_us(us: u64) -> Instant {
    Instant(us * 1000)
}

/// 10 us there, 5 us back.
fn quick() -> LinkConfig {
    LinkConfig { there: ServiceTime::Constant(us(10)), back: ServiceTime::Constant(us(5)), ..Default::default() }
}

fn windows(of: &[(Duration, Option<Duration>)]) -> Windows {
    Windows::At(of.iter().map(|(from, length)| Window { from: Instant(from.0), length: *length }).collect())
}

#[test]
fn in_a_stall_what_is_on_the_wire_waits_and_what_is_below_goes_on() {
    let time = |stall: u64| {
        let stalls = windows(&[(us(stall), Some(ms(200)))]);
        let mut bench = Bench::new(us(100), LinkConfig { stalls, ..quick() });
        bench.send(Op::Read, 0, 8);
        bench.run_out();
        bench.times_us()[0]
    };
    // On the way there, below, on the way back; after that it is too late to hold anything up.
    assert_eq!([5, 50, 112, 115].map(time), [200_115, 200_055, 200_115, 115]);
}

#[test]
fn when_the_other_end_has_no_room_for_data_only_writes_wait() {
    let write_stalls = windows(&[(us(50), Some(ms(3)))]);
    let mut bench = Bench::new(us(100), LinkConfig { write_stalls, ordered: false, ..quick() });
    bench.send(Op::Write, 0, 8);
    bench.run_to(at_us(1050));
    bench.send(Op::Write, 0, 8);
    bench.send(Op::Read, 0, 8);
    bench.run_out();
    assert_eq!(bench.times_us(), [115, 3165, 1165]);
}

#[test]
fn drawn_stalls_hold_up_as_much_as_their_mean_says() {
    let stalls = Windows::Drawn { every: ServiceTime::Exponential(ms(90)), length: ServiceTime::Exponential(ms(10)) };
    let config = LinkConfig { there: ServiceTime::Constant(ms(1)), stalls, ..Default::default() };
    let mut bench = Bench::new(Duration::ZERO, config);
    for _ in 0..20_000 {
        bench.send(Op::Read, 0, 8);
        bench.run_out();
    }
    // A millisecond of ten is a stall's: 20 s take 22.2.
    assert!((21_500..23_000).contains(&(bench.now.0 / 1_000_000)), "{} ms", bench.now.0 / 1_000_000);
}

fn tcp(config: LinkConfig) -> LinkConfig {
    LinkConfig { retransmission: Some(Retransmission::new(0)), ..config }
}

#[test]
fn a_lost_segment_that_none_follow_is_sent_again_after_timeouts_that_double() {
    for (down, tries) in [(us(1), 200_000), (ms(199), 200_000), (ms(201), 600_000), (ms(700), 1_400_000)] {
        let downs = windows(&[(Duration::ZERO, Some(down))]);
        let mut bench = Bench::new(us(100), tcp(LinkConfig { downs, ..quick() }));
        bench.send(Op::Write, 0, 8);
        bench.run_out();
        assert_eq!(bench.back, [(0, Status::Ok, at_us(tries + 115))], "down for {} us", down.0 / 1000);
    }
}

#[test]
fn a_connection_is_lost_after_fifteen_timeouts_and_what_is_under_way_is_given_up() {
    let downs = windows(&[(Duration::ZERO, None)]);
    let mut bench = Bench::new(us(100), tcp(LinkConfig { downs, ..quick() }));
    (0..2).for_each(|n| bench.send(Op::Write, n * 8, 8));
    bench.run_out();
    // 200 ms and nine times twice as much each, then 120 s.
    let lost = Instant((1023 * 200 + 6 * 120_000) * 1_000_000);
    assert_eq!(bench.back, [(0, Status::Timeout, lost), (1, Status::Timeout, lost)]);
    assert_eq!(bench.figure("repeated"), 30);
}

#[test]
fn a_lost_segment_that_three_follow_is_sent_again_after_a_round_trip_and_in_order_holds_up_those_behind_it() {
    let times = |ordered| {
        let downs = windows(&[(Duration::ZERO, Some(us(1)))]);
        let (there, back) = (ServiceTime::Constant(ms(1)), ServiceTime::Constant(ms(1)));
        let mut bench =
            Bench::new(Duration::ZERO, tcp(LinkConfig { there, back, downs, ordered, ..Default::default() }));
        for n in 0..5 {
            bench.run_to(at_us(n * 1010));
            bench.send(Op::Write, n * 8, 1);
        }
        bench.run_out();
        bench.times_us()
    };
    // The third behind it is sent at 3,030 us: at 5,030 its sender knows, at 6,030 the segment is there.
    assert_eq!(times(true), [7030, 7030, 7030, 7030, 7030]);
    // On a connection of its own nothing follows it.
    assert_eq!(times(false), [202_000, 3010, 4020, 5030, 6040]);
}

#[test]
fn a_long_message_follows_itself() {
    let retransmission = Some(Retransmission { lost_ppm: 1000, ..Retransmission::new(0) });
    let (there, back) = (ServiceTime::Constant(ms(5)), ServiceTime::Constant(ms(5)));
    let mut bench = Bench::new(Duration::ZERO, LinkConfig { there, back, retransmission, ..Default::default() });
    let mut late = [0; 3];
    for _ in 0..2000 {
        let began = bench.now;
        bench.send(Op::Write, 0, 256);
        bench.run_out();
        match bench.back.last().expect("it is back").2.since(began) {
            time if time == ms(10) => late[0] += 1,
            time if time == ms(20) => late[1] += 1,
            time if time >= ms(200) => late[2] += 1,
            time => panic!("{} us", time.0 / 1000),
        }
    }
    // 90 segments of 1460 bytes: 8.6 in 100 lose one there; one in a thousand lacks the answer, or one of the last three.
    assert!((130..210).contains(&late[1]) && (1..30).contains(&late[2]), "{late:?}");
}

#[test]
fn losses_with_retransmission_lose_delay_but_lose_and_reorder_nothing() {
    let retransmission = Some(Retransmission { lost_ppm: 50_000, ..Retransmission::new(0) });
    let jitter = ServiceTime::Exponential(us(300));
    let mut bench =
        Bench::new(us(3), LinkConfig { there: jitter.clone(), back: jitter, retransmission, ..Default::default() });
    for n in 0..5000 {
        bench.run_to(at_us(n * 100));
        bench.send(Op::Write, n * 8, 1);
    }
    bench.run_out();
    assert_eq!(bench.tags(), (0..5000).collect::<Vec<_>>());
    assert!(bench.back.iter().all(|(_, status, _)| status.is_ok()));
    assert!((400..650).contains(&bench.figure("repeated")), "{}", bench.figure("repeated"));
}

#[test]
fn a_path_whose_cable_is_pulled_hangs_until_it_is_given_up_then_refuses_and_comes_back() {
    let downs = windows(&[(ms(10), Some(ms(5000)))]);
    let config = LinkConfig { downs, give_up_after: Some(ms(1000)), reconnect: ms(500), ..quick() };
    let mut bench = Bench::new(us(100), config);
    bench.run_to(at_us(20_000));
    (0..3).for_each(|n| bench.send(Op::Write, n * 8, 8));
    bench.run_to(at_us(1_020_000));
    let given_up = |n| (n, Status::Timeout, at_us(1_020_000));
    assert_eq!(bench.back, [given_up(0), given_up(1), given_up(2)]);

    bench.run_to(at_us(2_000_000));
    bench.send(Op::Write, 0, 8);
    bench.run_to(at_us(3_000_000));
    assert_eq!(bench.back[3], (3, Status::Transport, at_us(2_000_005)));

    bench.run_to(at_us(5_010_000));
    bench.send(Op::Write, 0, 8);
    bench.run_out();
    assert_eq!(bench.back[4], (4, Status::Ok, at_us(5_010_115)));
    assert_eq!((bench.figure("given up"), bench.figure("landed"), bench.figure("refused")), (3, 0, 1));
}

#[test]
fn a_path_that_was_given_up_takes_nothing_before_it_could_connect_again() {
    let mut bench = Bench::new(us(100), LinkConfig { reconnect: ms(500), ..quick() });
    let link = bench.link;
    bench.stack.with_device::<Link, _>(link, |link, cx| link.give_up(cx)).unwrap();
    for (at, status) in [(1, Status::Transport), (499_999, Status::Transport), (500_000, Status::Ok)] {
        bench.run_to(at_us(at));
        bench.send(Op::Read, 0, 8);
        bench.run_to(at_us(at + 200));
        assert_eq!(bench.back.last().unwrap().1, status, "{at} us");
    }
}

#[test]
fn refusals_never_reach_the_device_and_end_with_a_path_error_at_once() {
    let refusals = Refusals { ppm: 1_000_000, windows: windows(&[(ms(1), Some(ms(1)))]), after: us(7) };
    let mut bench = Bench::new(us(100), LinkConfig { refusals, ..quick() });
    for n in 0..3 {
        bench.run_to(at_us(n * 1000 + 1));
        bench.send(Op::Write, 0, 8);
    }
    bench.run_out();
    assert_eq!(bench.times_us(), [116, 1008, 2116]);
    let statuses: Vec<Status> = bench.back.iter().map(|(_, status, _)| *status).collect();
    assert_eq!(statuses, [Status::Ok, Status::Transport, Status::Ok]);
    assert!(Status::Transport.is_path_error());
    let below = bench.stack.below(bench.link)[0];
    assert_eq!(bench.stack.counters(below).ios.iter().sum::<u64>(), 2);
}

#[test]
fn of_a_million_bios_as_many_are_refused_as_was_asked_for() {
    let refusals = Refusals { ppm: 100_000, ..Default::default() };
    let mut bench = Bench::new(us(1), LinkConfig { refusals, ..quick() });
    (0..20_000).for_each(|n| bench.send(Op::Write, n, 1));
    bench.run_out();
    assert!((1850..2150).contains(&bench.figure("refused")), "{}", bench.figure("refused"));
}

#[test]
fn latency_follows_its_schedule() {
    let step = |at, there, back| Step { at: ms(at), there: ms(there), back: ms(back) };
    let steps = Steps { steps: [step(10, 30, 0), step(100, 0, 2)].into(), period: Some(ms(1000)) };
    let mut bench = Bench::new(us(100), LinkConfig { steps, ..quick() });
    for at in [0, 10_000, 100_000, 1_000_000, 1_010_000] {
        bench.run_to(at_us(at));
        bench.send(Op::Read, 0, 8);
    }
    bench.run_out();
    assert_eq!(bench.times_us(), [115, 40_115, 102_115, 1_002_115 - 2000, 1_040_115]);
}

#[test]
fn what_others_send_occupies_the_wire() {
    let traffic = Some(Traffic { every: ServiceTime::Constant(us(100)), busy: ServiceTime::Constant(us(60)) });
    let mut bench = Bench::new(Duration::ZERO, LinkConfig { traffic, ..Default::default() });
    for at in [120, 170, 250, 299] {
        bench.run_to(at_us(at));
        bench.send(Op::Read, 0, 8);
    }
    bench.run_out();
    // Others are on the wire from 100 to 160 and from 200 to 260 us, on both.
    assert_eq!(bench.times_us(), [160, 170, 260, 299]);
}

#[test]
fn a_loaded_wire_delays_as_queueing_theory_says() {
    let (every, busy) = (ServiceTime::Exponential(us(200)), ServiceTime::Exponential(us(100)));
    let mut bench =
        Bench::new(Duration::ZERO, LinkConfig { traffic: Some(Traffic { every, busy }), ..Default::default() });
    let (mut waited, mut at) = (0, 0);
    for _ in 0..20_000 {
        // Longer apart than what is remembered in between.
        at += 5_001;
        bench.run_to(at_us(at));
        let began = bench.now;
        bench.send(Op::Read, 0, 8);
        bench.run_out();
        waited += bench.now.since(began).0;
    }
    // M/M/1 with half of the time taken: 100 us of waiting, each way; it is back before the other way's queue can change.
    let mean = waited as f64 / 2e4 / 1e3;
    assert!((185.0..215.0).contains(&mean), "{mean} us");
}

/// A device that notes what comes when, and takes a time for each.
struct Recorder {
    limits: Limits,
    takes: ServiceTime,
    rng: Rng,
    inside: BTreeMap<u64, Box<Bio>>,
    came: Vec<(Op, u64, Instant)>,
    done: Vec<(u64, Instant)>,
}

impl BlockDevice for Recorder {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let word = self.came.len() as u64;
        self.came.push((bio.op, bio.sector.0, cx.now()));
        self.inside.insert(word, bio);
        cx.wake_at(cx.now() + self.takes.draw(&mut self.rng), word);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Event::Timer(word) = event else { return };
        let bio = self.inside.remove(&word).unwrap();
        self.done.push((bio.sector.0, cx.now()));
        cx.complete(bio, Status::Ok);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("recorder")
    }
}

fn recorder(takes: ServiceTime, seed: u64) -> Recorder {
    let limits = Limits::new(1 << 20);
    Recorder { limits, takes, rng: Rng::new(seed), inside: BTreeMap::new(), came: Vec::new(), done: Vec::new() }
}

#[test]
fn paths_through_one_segment_share_its_rate() {
    let mut stack = Stack::new();
    let port = stack.open_port();
    let disk = stack.add(Box::new(NullDevice::new(&NullConfig::new(1 << 20)).unwrap())).unwrap();
    let mut link = |below, rate| {
        let config = LinkConfig { rate: Some(rate), ..Default::default() };
        let link = Link::new(below, stack.limits(below), config).unwrap();
        stack.add(Box::new(link)).unwrap()
    };
    let segment = link(disk, 512_000_000);
    let paths = [link(segment, 1_024_000_000), link(segment, 1_024_000_000)];
    for n in 0..40 {
        let data = Payload::Data(Data::zeroed(51_200));
        stack.submit(port, n, paths[n as usize % 2], Box::new(Bio::new(Op::Write, Sector(0), 100, data)));
    }
    let (mut now, mut done) = (Instant::ZERO, 0);
    while done < 40 {
        let next = stack.turn(now);
        while stack.poll_completion(port).is_some() {
            done += 1;
        }
        now = if done < 40 { next.expect("it ends") } else { now };
    }
    // Each alone would take 40 * 50 us / 2 = 1 ms; the segment takes 100 us for each, after the first has come to it.
    assert_eq!(now, at_us(4050));
}

/// The smallest head: it passes everything on and notes when its path is silent.
struct Head {
    below: [DeviceId; 1],
    limits: Limits,
    silent: Vec<Instant>,
}

impl BlockDevice for Head {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        cx.submit(self.below[0], bio, 0);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, _: u64, cx: &mut Cx<'_>) {
        cx.complete(bio, status);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        assert!(
            matches!(event, Event::Path(PathEvent::Silent { path, question: 7 }) if path == self.below[0]),
            "{event:?}"
        );
        self.silent.push(cx.now());
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("head")
    }
}

/// A head over a path to a RAM disk that takes 100 us; a second way to that disk.
struct Hazard {
    bench: Bench,
    head: DeviceId,
    disk: DeviceId,
}

impl Hazard {
    fn new(config: LinkConfig) -> Self {
        let ram = RamConfig { servers: 8, write: ServiceTime::Constant(us(100)), ..RamConfig::new(1024) };
        let add = |stack: &mut Stack| stack.add(Box::new(RamDisk::new(&ram).unwrap())).unwrap();
        let mut bench = Bench::over(add, Some(config));
        let (link, stack) = (bench.link, &mut bench.stack);
        let head = Head { below: [link], limits: stack.limits(link).clone(), silent: Vec::new() };
        let (head, disk) = (stack.add(Box::new(head)).unwrap(), stack.below(link)[0]);
        Self { bench, head, disk }
    }

    fn tell(&mut self, event: PathEvent) {
        let link = self.bench.link;
        self.bench.stack.with_device::<Head, _>(self.head, |_, cx| cx.tell_path(link, event)).unwrap();
        self.bench.run(self.bench.now);
    }

    fn give_up_and_ask(&mut self) {
        let by = self.head;
        self.tell(PathEvent::GiveUp);
        self.tell(PathEvent::AskSilence { by, question: 7 });
    }

    fn write(&mut self, to: DeviceId, byte: u8) -> Data {
        let data = Data::zeroed(512);
        data.fill(byte);
        let bio = Bio::new(Op::Write, Sector(0), 1, Payload::Data(data.clone()));
        self.bench.stack.submit(self.bench.port, byte.into(), to, Box::new(bio));
        data
    }

    fn byte(&mut self) -> u8 {
        let data = Data::zeroed(512);
        let bio = Bio::new(Op::Read, Sector(0), 1, Payload::Data(data.clone()));
        self.bench.stack.submit(self.bench.port, 99, self.disk, Box::new(bio));
        self.bench.run_to(self.bench.now + us(1));
        data.to_vec()[0]
    }

    fn silent_us(&self) -> Vec<u64> {
        self.bench.stack.device::<Head>(self.head).unwrap().silent.iter().map(|at| at.0 / 1000).collect()
    }
}

/// What stands still from 5 us to 1 s.
fn stalled() -> LinkConfig {
    LinkConfig { stalls: windows(&[(us(5), Some(us(999_995)))]), ..quick() }
}

#[test]
fn a_write_that_was_given_up_lands_later_as_it_was_and_the_path_is_silent_only_then() {
    let mut hazard = Hazard::new(stalled());
    let data = hazard.write(hazard.head, 1);
    hazard.bench.run_to(at_us(1000));
    hazard.give_up_and_ask();
    assert_eq!(hazard.bench.back, [(1, Status::Timeout, at_us(1000))]);
    assert_eq!(hazard.bench.link().leftovers(), 1);
    // Its memory is the host's again; and the other path's write takes effect in between.
    data.fill(7);
    hazard.write(hazard.disk, 2);
    hazard.bench.run_to(at_us(999_000));
    assert_eq!(hazard.byte(), 2);
    assert_eq!(hazard.silent_us(), []);
    hazard.bench.run_to(at_us(1_001_000));
    assert_eq!(hazard.byte(), 1, "the stale write has landed");
    assert_eq!(hazard.silent_us(), [1_000_105]);
    assert_eq!((hazard.bench.figure("landed"), hazard.bench.figure("landed late")), (1, 0));
}

#[test]
fn what_is_below_when_it_is_given_up_takes_effect_though_its_bio_is_back() {
    let mut hazard = Hazard::new(quick());
    hazard.write(hazard.head, 1);
    hazard.bench.run_to(at_us(50));
    hazard.give_up_and_ask();
    assert_eq!(hazard.bench.back, [(1, Status::Timeout, at_us(50))]);
    assert_eq!((hazard.byte(), hazard.silent_us()), (0, vec![]));
    hazard.bench.run_to(at_us(200));
    assert_eq!((hazard.byte(), hazard.silent_us()), (1, vec![110]));
}

#[test]
fn after_the_bound_nothing_that_was_given_up_lands_and_the_path_is_silent() {
    let mut hazard = Hazard::new(LinkConfig { silent_after: Some(ms(300)), ..stalled() });
    assert_eq!(hazard.bench.stack.silence(hazard.bench.link), Silence::After(ms(300)));
    hazard.write(hazard.head, 1);
    hazard.bench.run_to(at_us(1000));
    hazard.give_up_and_ask();
    hazard.bench.run_to(at_us(2_000_000));
    assert_eq!((hazard.byte(), hazard.silent_us()), (0, vec![301_000]));
    assert_eq!((hazard.bench.figure("landed"), hazard.bench.link().leftovers()), (0, 0));
}

#[test]
fn a_path_with_nothing_left_says_at_once_that_it_is_silent() {
    let refusals = Refusals { ppm: 1_000_000, ..Default::default() };
    let mut hazard = Hazard::new(LinkConfig { refusals, ..quick() });
    hazard.write(hazard.head, 1);
    hazard.bench.run_to(at_us(5));
    assert_eq!(hazard.bench.back, [(1, Status::Transport, at_us(5))]);
    let by = hazard.head;
    hazard.tell(PathEvent::AskSilence { by, question: 7 });
    assert_eq!(hazard.silent_us(), [5]);
}

#[test]
fn what_lacks_a_segment_when_it_is_given_up_never_lands_nor_does_what_is_behind_it() {
    for (ordered, lands) in [(true, 0), (false, 1)] {
        let downs = windows(&[(Duration::ZERO, Some(us(1)))]);
        let mut hazard = Hazard::new(tcp(LinkConfig { downs, ordered, ..quick() }));
        hazard.write(hazard.head, 1);
        hazard.bench.run_to(at_us(15));
        hazard.write(hazard.head, 2);
        hazard.bench.run_to(at_us(20));
        hazard.give_up_and_ask();
        hazard.bench.run_to(at_us(1_000_000));
        assert_eq!(hazard.byte(), 2 * lands, "ordered: {ordered}");
        assert_eq!(hazard.bench.figure("landed"), lands.into());
        assert_eq!(hazard.silent_us(), [if ordered { 20 } else { 125 }]);
    }
}

#[test]
fn who_stands_above_paths_is_told_the_longest_silence_of_those_below_and_disks_are_silent_at_once() {
    let hazard = Hazard::new(quick());
    let stack = &hazard.bench.stack;
    assert_eq!(stack.silence(hazard.disk), Silence::AtOnce);
    assert_eq!((stack.silence(hazard.bench.link), stack.silence(hazard.head)), (Silence::Told, Silence::Told));
    assert!(Silence::AtOnce < Silence::After(us(1)) && Silence::After(ms(9)) < Silence::Told);
}

/// A path of which anything may be wrong.
fn any_path(rng: &mut Rng, seed: u64) -> LinkConfig {
    let any_windows = |rng: &mut Rng| match rng.below(4) {
        0 => Windows::Drawn { every: ServiceTime::Exponential(ms(3)), length: ServiceTime::Exponential(ms(1)) },
        1 => windows(&[(us(rng.below(3000)), Some(us(1 + rng.below(3000))))]),
        // Rarely, and without an end only from the beginning.
        2 if rng.chance(1, 4) => windows(&[(Duration::ZERO, None)]),
        _ => Windows::default(),
    };
    let (mut stalls, downs, refused) = (any_windows(rng), any_windows(rng), any_windows(rng));
    if stalls == windows(&[(Duration::ZERO, None)]) {
        stalls = Windows::default();
    }
    LinkConfig {
        there: ServiceTime::Exponential(us(1 + rng.below(200))),
        back: ServiceTime::Uniform(us(0), us(rng.below(200))),
        steps: Steps {
            steps: [Step { at: ms(2), there: us(rng.below(900)), back: us(9) }].into(),
            period: Some(ms(4)),
        },
        rate: rng.chance(1, 2).then(|| 10_000_000 + rng.below(1_000_000_000)),
        traffic: rng
            .chance(1, 3)
            .then_some(Traffic { every: ServiceTime::Exponential(us(20)), busy: ServiceTime::Exponential(us(5)) }),
        depth: rng.chance(1, 2).then(|| 1 + rng.below(64) as u32),
        ordered: rng.chance(1, 2),
        lost_ppm: if rng.chance(1, 4) { 20_000 } else { 0 },
        failed_ppm: if rng.chance(1, 4) { 20_000 } else { 0 },
        retransmission: rng.chance(1, 2).then_some(Retransmission {
            lost_ppm: 20_000,
            segment_bytes: 1460,
            min_timeout: ms(1),
        }),
        stalls,
        write_stalls: if rng.chance(1, 3) { windows(&[(ms(1), Some(ms(1)))]) } else { Windows::default() },
        downs,
        refusals: Refusals { ppm: if rng.chance(1, 3) { 100_000 } else { 0 }, windows: refused, after: us(1) },
        give_up_after: rng.chance(1, 3).then(|| us(200 + rng.below(5000))),
        silent_after: rng.chance(1, 2).then(|| us(500 + rng.below(5000))),
        reconnect: us(rng.below(500)),
        keep_data: rng.chance(1, 2),
        seed,
    }
}

/// 300 writes over a path of which anything may be wrong, which is given up now and then; what came of it.
fn any_run(seed: u64) -> (Bench, LinkConfig, Vec<Instant>) {
    let mut rng = Rng::new(seed);
    let config = any_path(&mut rng, seed);
    let disk = recorder(ServiceTime::Uniform(us(1), us(100)), seed);
    let mut bench = Bench::over(|stack| stack.add(Box::new(disk)).unwrap(), Some(config.clone()));
    let (link, mut given_up) = (bench.link, Vec::new());
    let gives_up = rng.chance(2, 3);
    for n in 0..300 {
        bench.send(Op::Write, n * 8, 8);
        bench.run_to(Instant(n * 30_000));
        if gives_up && rng.chance(1, 60) {
            bench.stack.with_device::<Link, _>(link, |link, cx| link.give_up(cx)).unwrap();
            given_up.push(bench.now);
        }
    }
    bench.run_out();
    // Who waits for a path that never moves again gives up.
    bench.stack.with_device::<Link, _>(link, |link, cx| link.give_up(cx)).unwrap();
    bench.run_out();
    (bench, config, given_up)
}

fn record(bench: &Bench) -> &Recorder {
    bench.stack.device(bench.stack.below(bench.link)[0]).unwrap()
}

#[test]
fn whatever_goes_wrong_every_bio_comes_back_once_and_every_command_lands_once_at_most() {
    let mut seen = [0; 4];
    for seed in 0..400 {
        let (bench, config, _) = any_run(seed);
        let mut tags = bench.tags();
        tags.sort_unstable();
        assert_eq!(tags, (0..300).collect::<Vec<_>>(), "seed {seed}");
        let mut landed: Vec<u64> = record(&bench).done.iter().map(|(sector, _)| sector / 8).collect();
        landed.sort_unstable();
        assert!(landed.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: landed twice");
        for (tag, status, at) in &bench.back {
            let when = record(&bench).done.iter().find(|(sector, _)| sector / 8 == *tag).map(|(_, at)| *at);
            assert!(!status.is_ok() || when.is_some_and(|when| when <= *at), "seed {seed}: {tag} is not on the disk");
            let is_stale = *status == Status::Timeout && when.is_some_and(|when| when > *at);
            seen[match *status {
                Status::Ok => 0,
                Status::Transport => 1,
                _ if is_stale => 2,
                _ => 3,
            }] += 1;
            // What is below cannot be taken back, and takes 100 us at most here.
            let bound = config.silent_after.map(|bound| *at + bound + us(100));
            assert!(!is_stale || bound.is_none_or(|bound| when < Some(bound)), "seed {seed}: {tag} landed too late");
        }
        assert_eq!(bench.link().leftovers(), 0, "seed {seed}");
        let custody = bench.stack.is_drained(bench.link);
        assert!(custody, "seed {seed}: something is left in the link");
    }
    assert!(seen.iter().all(|count| *count > 500), "every end was met: {seen:?}");
}

#[test]
fn an_ordered_path_delivers_what_it_delivers_in_order_until_it_is_given_up() {
    let mut compared = 0;
    for seed in 0..400 {
        let (bench, config, given_up) = any_run(seed);
        if config.ordered && config.give_up_after.is_none() && given_up.is_empty() {
            let came = &record(&bench).came;
            assert!(came.windows(2).all(|pair| pair[0].1 < pair[1].1), "seed {seed}: not in order");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} of them");
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 0..40 {
        let run = || {
            let (bench, ..) = any_run(seed);
            let landed = record(&bench).done.clone();
            (bench.back, landed)
        };
        assert!(run() == run(), "seed {seed}");
    }
    assert!(any_run(1).0.back != any_run(2).0.back);
}

#[test]
fn wrong_parameters_of_a_path_are_named() {
    let base = LinkConfig::default;
    let drawn =
        |every, length| Windows::Drawn { every: ServiceTime::Constant(every), length: ServiceTime::Constant(length) };
    let step = |at| Step { at: ms(at), ..Default::default() };
    let traffic = |every, busy| {
        let (every, busy) = (ServiceTime::Constant(us(every)), ServiceTime::Constant(us(busy)));
        LinkConfig { traffic: Some(Traffic { every, busy }), ..base() }
    };
    let again = |retransmission| LinkConfig { retransmission: Some(retransmission), ..base() };
    let cases = [
        (LinkConfig { stalls: windows(&[(ms(5), Some(ms(1))), (ms(1), Some(ms(1)))]), ..base() }, "stalls overlap"),
        (LinkConfig { stalls: windows(&[(ms(5), None), (ms(8), Some(ms(1)))]), ..base() }, "stalls overlap"),
        (LinkConfig { downs: windows(&[(ms(5), Some(Duration::ZERO))]), ..base() }, "downs have one of no length"),
        (LinkConfig { stalls: drawn(us(10), us(10)), ..base() }, "millisecond"),
        (LinkConfig { downs: drawn(ms(10), us(0)), ..base() }, "downs have no length"),
        (LinkConfig { steps: Steps { steps: [step(2), step(1)].into(), period: None }, ..base() }, "in order"),
        (LinkConfig { steps: Steps { steps: [step(2)].into(), period: Some(ms(2)) }, ..base() }, "period"),
        (traffic(100, 100), "leaves less"),
        (traffic(0, 0), "traffic comes more often"),
        (again(Retransmission::new(600_000)), "retransmission.lost_ppm"),
        (again(Retransmission { segment_bytes: 0, ..Retransmission::new(1) }), "segment_bytes"),
        (again(Retransmission { min_timeout: us(1), ..Retransmission::new(1) }), "min_timeout"),
        (LinkConfig { refusals: Refusals { ppm: 1_000_001, ..Default::default() }, ..base() }, "refusals.ppm"),
        (LinkConfig { refusals: Refusals { after: us(0), ..Default::default() }, ..base() }, "refusals.after"),
        (LinkConfig { give_up_after: Some(us(0)), ..base() }, "give_up_after"),
        (LinkConfig { silent_after: Some(us(0)), ..base() }, "silent_after"),
    ];
    for (config, words) in cases {
        let error = Link::new(DeviceId(0), &Limits::new(8), config).err().expect(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}
