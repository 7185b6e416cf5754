//! The policies that choose among paths, alone: what they see is made up, and so is the time.

use std::collections::BTreeMap;

use shingle_core::multipath::{
    Access, Adaptive, AdaptiveOptions, Done, HistoricalServiceTime, HistoricalServiceTimeOptions, Io, IoClass, Latency,
    LatencyOptions, Node, PathView, PathWindow, Policy, PolicyKind, PolicyOptions,
};
use shingle_core::time::{Duration, Instant};

use Access::{NonOptimized, Optimized, Unusable};

fn paths(access: &[Access]) -> Vec<PathView> {
    access.iter().map(|access| PathView::new(*access)).collect()
}

fn io(at: Instant) -> Io {
    Io { at, node: Node(0), class: IoClass::Read, bytes: 512, ahead: 0, bytes_ahead: 0 }
}

/// The choices for so many I/Os, one after the other.
fn choices(policy: &mut dyn Policy, paths: &[PathView], count: usize) -> Vec<usize> {
    (0..count).map(|_| policy.choose(paths, &io(Instant::ZERO)).expect("a path")).collect()
}

/// Has an I/O that was sent at one time end at another.
fn end(policy: &mut dyn Policy, path: usize, from: Instant, to: Instant) {
    policy.ended(path, &io(from), Done { at: to, is_ok: true });
}

fn us(us: u64) -> Instant {
    Instant(us * 1000)
}

/// Random accesses and loads of up to five paths.
fn drawn(draw: &mut impl FnMut(u64) -> u64) -> Vec<PathView> {
    let count = 1 + draw(5);
    let access = [Optimized, NonOptimized, Unusable];
    let path = |_| PathView {
        in_flight: draw(4) as u32,
        bytes: draw(4) * 4096,
        node: (draw(2) == 0).then_some(Node(draw(3) as u8)),
        throughput: draw(3) as u32,
        ..PathView::new(access[draw(3) as usize])
    };
    (0..count).map(path).collect()
}

#[test]
fn every_policy_takes_a_path_of_the_best_class_and_none_if_all_are_unusable() {
    for kind in PolicyKind::ALL {
        let mut rng = shingle_core::random::Rng::new(7);
        let mut draw = |below| rng.below(below);
        let (mut policy, mut now) = (kind.build(), Instant::ZERO);
        for round in 0..20_000 {
            let paths = drawn(&mut draw);
            let bytes = draw(9) as u32 * 512;
            let io = Io { bytes, node: Node(draw(3) as u8), class: IoClass::Write, ..io(now) };
            if draw(10) == 0 {
                policy.changed(&paths);
            }
            let chosen = policy.choose(&paths, &io);
            let best = paths.iter().map(|path| path.access).min().filter(|access| *access != Unusable);
            let name = kind.name();
            assert_eq!(chosen.map(|path| paths[path].access), best, "{name}, round {round}: {paths:?}");
            now = now + Duration(draw(40_000_000));
            match chosen {
                Some(path) if draw(20) == 0 => policy.failed(path),
                Some(path) => policy.ended(path, &io, Done { at: now, is_ok: draw(9) > 0 }),
                None => {}
            }
        }
    }
}

#[test]
fn numa_stays_on_the_nearest_path_and_goes_back_to_it_at_once() {
    let mut policy = PolicyKind::Numa.build();
    let mut all = paths(&[Optimized; 3]);
    (0..3).for_each(|node| all[node].node = Some(Node(2 - node as u8)));
    let at = |policy: &mut dyn Policy, all: &[PathView], node| policy.choose(all, &Io { node, ..io(us(0)) });
    assert_eq!([0, 1, 2].map(|node| at(&mut *policy, &all, Node(node))), [Some(2), Some(1), Some(0)]);
    all[2].access = Unusable;
    assert_eq!(at(&mut *policy, &all, Node(0)), Some(0), "the first of those that are equally far");
    all[2].access = Optimized;
    assert_eq!(at(&mut *policy, &all, Node(0)), Some(0), "it stays until somebody says that paths have changed");
    policy.changed(&all);
    assert_eq!(at(&mut *policy, &all, Node(0)), Some(2));
}

/// All paths over TCP are equally near to Linux.
#[test]
fn numa_gives_the_first_of_equal_paths_everything() {
    assert_eq!(choices(&mut *PolicyKind::Numa.build(), &paths(&[NonOptimized, Optimized, Optimized]), 4), [1; 4]);
}

#[test]
fn round_robin_takes_turns_and_leaves_out_what_is_worse() {
    let mut policy = PolicyKind::RoundRobin.build();
    assert_eq!(choices(&mut *policy, &paths(&[Optimized, NonOptimized, Optimized]), 5), [0, 2, 0, 2, 0]);
    assert_eq!(choices(&mut *policy, &paths(&[Unusable, Optimized, Optimized]), 3), [1, 2, 1]);
}

/// In Linux a scan for the nearest path once pinned everything to one of them.
#[test]
fn round_robin_takes_turns_among_paths_that_are_not_optimized_as_well() {
    let mut policy = PolicyKind::RoundRobin.build();
    assert_eq!(choices(&mut *policy, &paths(&[NonOptimized, Unusable, NonOptimized]), 4), [0, 2, 0, 2]);
}

#[test]
fn queue_depth_takes_the_shortest_queue_and_of_equal_ones_always_the_first() {
    let mut all = paths(&[Optimized, Optimized, NonOptimized]);
    (all[0].in_flight, all[1].in_flight) = (3, 2);
    let mut policy = PolicyKind::QueueDepth.build();
    assert_eq!(choices(&mut *policy, &all, 2), [1, 1]);
    all[1].in_flight = 3;
    assert_eq!(choices(&mut *policy, &all, 3), [0; 3]);
}

#[test]
fn selectors_of_device_mapper_take_turns_among_equal_paths() {
    for kind in
        [PolicyKind::TurnByTurn, PolicyKind::QueueLength, PolicyKind::ServiceTime, PolicyKind::HistoricalServiceTime]
    {
        let taken = choices(&mut *kind.build(), &paths(&[Optimized; 3]), 6);
        assert_eq!(taken, [0, 1, 2, 0, 1, 2], "{}", kind.name());
    }
}

#[test]
fn queue_length_and_service_time_take_what_is_through_first() {
    let mut all = paths(&[Optimized; 2]);
    (all[0].in_flight, all[0].bytes) = (1, 1 << 20);
    (all[1].in_flight, all[1].bytes) = (2, 8192);
    assert_eq!(choices(&mut *PolicyKind::QueueLength.build(), &all, 2), [0, 0]);
    assert_eq!(choices(&mut *PolicyKind::ServiceTime.build(), &all, 2), [1, 1]);
    all[0].throughput = 100;
    all[1].bytes = 16_384;
    assert_eq!(choices(&mut *PolicyKind::ServiceTime.build(), &all, 2), [0, 0], "it carries a hundred times as much");
    all[0].throughput = 0;
    assert_eq!(choices(&mut *PolicyKind::ServiceTime.build(), &all, 2), [1, 1], "it is to carry nothing");
}

#[test]
fn the_historical_service_time_is_that_of_the_path_without_its_queue() {
    let mut policy = HistoricalServiceTime::new(HistoricalServiceTimeOptions { weight: 0, threshold: 0 });
    let mut all = paths(&[Optimized; 2]);
    choices(&mut policy, &all, 2);
    // Ten I/Os that were sent at once, and took 100 us each: the last one was under way for a millisecond.
    (1..=10).for_each(|number| end(&mut policy, 0, us(0), us(100 * number)));
    end(&mut policy, 1, us(900), us(1050));
    (all[0].in_flight, all[1].in_flight) = (1, 1);
    assert_eq!(policy.choose(&all, &io(us(1060))), Some(0));
}

#[test]
fn a_slow_path_of_which_nothing_was_heard_is_tried_once_by_historical_service_time() {
    let mut policy = HistoricalServiceTime::new(HistoricalServiceTimeOptions { weight: 0, threshold: 0 });
    let mut all = paths(&[Optimized; 2]);
    choices(&mut policy, &all, 2);
    end(&mut policy, 1, us(0), us(30_000));
    end(&mut policy, 0, us(29_900), us(30_000));
    all[0].in_flight = 1;
    assert_eq!(policy.choose(&all, &io(us(30_001))), Some(0), "its turn is not yet over");
    end(&mut policy, 0, us(89_900), us(90_000));
    assert_eq!(policy.choose(&all, &io(us(95_000))), Some(1), "60 ms later it is");
    all[1].in_flight = 1;
    end(&mut policy, 0, us(94_900), us(95_000));
    assert_eq!(policy.choose(&all, &io(us(95_001))), Some(0), "one is enough");
}

#[test]
fn latency_takes_the_path_with_the_least_mean_of_the_last_window_for_a_whole_window() {
    let mut policy = Latency::new(LatencyOptions::default());
    let all = paths(&[Optimized; 2]);
    policy.choose(&all, &io(us(0)));
    for (path, took) in [(0, 300), (0, 100), (1, 150), (1, 160)] {
        end(&mut policy, path, us(0), us(took));
    }
    assert_eq!(policy.choose(&all, &io(us(1999))), Some(0), "nothing is known yet");
    assert_eq!((2000..4000).map(|at| policy.choose(&all, &io(us(at)))).filter(|path| *path == Some(1)).count(), 2000);
}

#[test]
fn latency_decays_over_windows_without_enough_samples_however_slow_what_is_under_way_is() {
    for (decay, windows) in [(50, 8), (10, 3), (0, 1)] {
        let mut policy = Latency::new(LatencyOptions { decay, ..LatencyOptions::default() });
        let all = paths(&[Optimized; 2]);
        policy.choose(&all, &io(us(0)));
        for (path, took) in [(0, 1900), (0, 1900), (1, 9), (1, 9)] {
            end(&mut policy, path, us(0), us(took));
        }
        // The second path is measured in every window, the first never again.
        let taken = |policy: &mut Latency, window: u64| {
            let now = us(2000 * window);
            (0..2).for_each(|_| end(policy, 1, now, Instant(now.0 + 9000)));
            policy.choose(&all, &io(Instant(now.0 + 10_000))).expect("a path")
        };
        let first = (1..100).find(|window| taken(&mut policy, *window) == 0);
        assert_eq!(first, Some(1 + windows), "1900 us to at most 9 with {decay} %");
    }
}

#[test]
fn latency_cuts_off_what_is_less_than_a_microsecond() {
    let mut policy = Latency::new(LatencyOptions::default());
    let all = paths(&[Optimized; 2]);
    policy.choose(&all, &io(us(0)));
    for (path, ns) in [(0, 1999), (0, 1999), (1, 1000), (1, 1000)] {
        end(&mut policy, path, us(0), Instant(ns));
    }
    assert_eq!(policy.choose(&all, &io(us(2001))), Some(0), "both are 1 us");
}

#[test]
fn adaptive_gives_shares_by_latency_in_runs_after_fifteen_seconds() {
    let mut policy = PolicyKind::Adaptive.build();
    let all = paths(&[Optimized; 2]);
    assert_eq!(choices(&mut *policy, &all, 4), [0, 1, 0, 1], "as long as nothing is known they take turns");
    end(&mut *policy, 0, us(0), us(100));
    end(&mut *policy, 1, us(0), us(700));
    end(&mut *policy, 1, us(0), us(2_000_000));
    let later = us(15_000_000);
    let taken: Vec<_> = (0..126).map(|_| policy.choose(&all, &io(later)).expect("a path")).collect();
    assert_eq!(taken.iter().filter(|path| **path == 0).count(), 112, "56 to 7: more than a second is no sample");
    assert_eq!(taken.windows(2).filter(|pair| pair[0] != pair[1]).count(), 3, "{taken:?}");
    assert_eq!(policy.choose(&all, &Io { class: IoClass::Write, ..io(later) }), Some(0), "of writes nothing is known");
}

/// The path that `policy` takes when the first window after these samples of the first path is over; the second has 150 us in each window.
fn after_a_window(kind: PolicyKind, options: PolicyOptions, window: u64, samples: &[u64]) -> Option<usize> {
    let mut policy = kind.build_with(&options);
    let all = paths(&[Optimized; 2]);
    policy.choose(&all, &io(us(0)));
    samples.iter().for_each(|took| end(&mut *policy, 0, us(0), us(*took)));
    (0..20).for_each(|_| end(&mut *policy, 1, us(0), us(150)));
    policy.choose(&all, &io(us(window - 1)));
    policy.choose(&all, &io(us(window)))
}

#[test]
fn a_window_of_latency_is_as_long_as_its_option() {
    let options = PolicyOptions { window: Some(Duration::from_micros(500)), ..PolicyOptions::default() };
    assert_eq!(after_a_window(PolicyKind::Latency, options, 500, &[300, 300]), Some(1));
    assert_eq!(after_a_window(PolicyKind::Latency, PolicyOptions::default(), 500, &[300, 300]), Some(0), "2 ms");
}

#[test]
fn a_window_with_samples_below_the_low_water_does_not_count() {
    let options = PolicyOptions { low_water: Some(3), ..PolicyOptions::default() };
    assert_eq!(after_a_window(PolicyKind::Latency, options, 2000, &[300, 300]), Some(0));
    assert_eq!(after_a_window(PolicyKind::Latency, options, 2000, &[300, 300, 300]), Some(1));
}

#[test]
fn options_that_are_left_out_are_those_of_the_publications() {
    let none = PolicyOptions::default();
    assert_eq!(LatencyOptions::from(&none), LatencyOptions::default());
    assert_eq!(AdaptiveOptions::from(&none), AdaptiveOptions::default());
    let options = PolicyOptions { decay: Some(30), window: Some(Duration(7_000_000)), low_water: Some(4) };
    assert_eq!(LatencyOptions::from(&options), LatencyOptions { window: Duration(7_000_000), low_water: 4, decay: 30 });
    let adaptive = AdaptiveOptions { window: Duration(7_000_000), low_water: 4, kept: 300 };
    assert_eq!(AdaptiveOptions::from(&options), adaptive);
}

/// Node, class, latency in us, samples and weight of a window.
type Window = (u8, Option<IoClass>, u64, u64, Option<u32>);

/// All windows that a policy has of a path.
fn windows(policy: &dyn Policy, path: usize) -> Vec<Window> {
    let mut all = Vec::new();
    policy.windows(path, &mut |PathWindow { node, class, latency, samples, weight }| {
        all.push((node.0, class, latency.0 / 1000, samples, weight));
    });
    all
}

#[test]
fn windows_of_latency_are_apart_by_node_reads_and_writes() {
    let mut policy = PolicyKind::Latency.build();
    let all = paths(&[Optimized; 2]);
    policy.choose(&all, &io(us(0)));
    let mut end = |node, class, took: u64| {
        let io = Io { node: Node(node), class, ..io(us(0)) };
        policy.ended(0, &io, Done { at: us(took), is_ok: true });
    };
    let (read, write) = (IoClass::Read, IoClass::Write);
    for (node, class, took) in
        [(0, read, 100), (0, read, 200), (0, write, 400), (0, write, 500), (1, read, 700), (1, read, 900)]
    {
        end(node, class, took);
    }
    policy.choose(&all, &io(us(2_000)));
    let (read, write) = (Some(IoClass::Read), Some(IoClass::Write));
    let of_node_0 = [(0, None, 300, 4, None), (0, read, 150, 2, None), (0, write, 450, 2, None)];
    let of_node_1 = [(1, None, 800, 2, None), (1, read, 800, 2, None)];
    assert_eq!(windows(&*policy, 0), [&of_node_0[..], &of_node_1[..]].concat());
    assert_eq!(windows(&*policy, 1), [(0, None, 0, 0, None)], "nothing was sent there");
    policy.choose(&all, &io(us(4_000)));
    assert_eq!(windows(&*policy, 0)[0], (0, None, 150, 0, None), "a window without samples keeps half");
}

#[test]
fn windows_of_adaptive_have_weights_for_reads_and_writes() {
    let mut policy = PolicyKind::Adaptive.build();
    let all = paths(&[Optimized; 2]);
    policy.choose(&all, &io(us(0)));
    for (path, class, took) in [(0, IoClass::Read, 100), (1, IoClass::Read, 300), (0, IoClass::Write, 50)] {
        policy.ended(path, &Io { class, ..io(us(0)) }, Done { at: us(took), is_ok: true });
    }
    assert_eq!(windows(&*policy, 0), [], "the first window has not ended");
    policy.choose(&all, &io(us(15_000_000)));
    let (read, write) = (Some(IoClass::Read), Some(IoClass::Write));
    assert_eq!(windows(&*policy, 0), [(0, read, 100, 1, Some(48)), (0, write, 50, 1, Some(64))]);
    assert_eq!(windows(&*policy, 1), [(0, read, 300, 1, Some(15))]);
    assert_eq!(windows(&*PolicyKind::QueueDepth.build(), 0), [], "others do not measure in windows");
}

/// The runs that the first of two paths gets of `adaptive` after two windows of 10 ms: 100 us and then 700, and always 100 on the other.
fn run_after_a_change(options: AdaptiveOptions, samples: usize) -> usize {
    let mut policy = Adaptive::new(AdaptiveOptions { window: Duration::from_millis(10), ..options });
    let all = paths(&[Optimized; 2]);
    for (window, took) in [(0, 100), (1, 700)] {
        let at = us(10_000 * window);
        policy.choose(&all, &io(at));
        (0..samples).for_each(|_| end(&mut policy, 0, at, us(10_000 * window + took)));
        (0..samples).for_each(|_| end(&mut policy, 1, at, us(10_000 * window + 100)));
    }
    // The runs that were given out in the first window end before the new ones begin.
    let taken: Vec<_> = (0..256).map(|_| policy.choose(&all, &io(us(20_000))).expect("a path")).collect();
    let runs: Vec<_> = taken.chunk_by(|a, b| a == b).filter(|run| run[0] == 0).map(<[usize]>::len).collect();
    runs[1]
}

#[test]
fn adaptive_keeps_as_much_of_an_old_latency_as_its_decay() {
    let run = |kept| run_after_a_change(AdaptiveOptions { kept, ..AdaptiveOptions::default() }, 1);
    assert_eq!(run(0), 7, "700 us to 100");
    assert_eq!(run(875), 23, "175 us to 100");
    assert!(run(990) > run(875));
    let options = AdaptiveOptions { kept: 0, low_water: 2, ..AdaptiveOptions::default() };
    assert_eq!((run_after_a_change(options, 1), run_after_a_change(options, 2)), (1, 7), "one sample is too few");
}

#[test]
fn options_out_of_range_name_themselves_range_and_unit() {
    let said = |kind: PolicyKind, options: PolicyOptions| options.check(kind).map_err(|error| error.to_string());
    let none = PolicyOptions::default();
    PolicyKind::ALL.iter().for_each(|kind| assert_eq!(said(*kind, none), Ok(())));
    let decay = |percent| PolicyOptions { decay: Some(percent), ..none };
    assert_eq!(said(PolicyKind::Latency, decay(100)), Ok(()));
    assert_eq!(said(PolicyKind::Latency, decay(101)), Err("`decay` is 101 %, allowed: 0 to 100 %".into()));
    assert_eq!(said(PolicyKind::Adaptive, decay(100)), Err("`decay` is 100 %, allowed: 0 to 99 %".into()));
    let window = |ns| PolicyOptions { window: Some(Duration(ns)), ..none };
    assert_eq!(said(PolicyKind::Latency, window(100_000)), Ok(()));
    assert_eq!(said(PolicyKind::Latency, window(1_500)), Err("`window` is 1.5 us, allowed: 100 us to 1 h".into()));
    assert!(said(PolicyKind::Adaptive, window(3_600_000_000_001)).is_err());
    let low_water = PolicyOptions { low_water: Some(0), ..none };
    assert_eq!(said(PolicyKind::Latency, low_water), Err("`low-water` is 0 samples, allowed: 1 to 1000000".into()));
    let other = "policy `queue-depth` has no option `decay`; `latency` and `adaptive` have it";
    assert_eq!(said(PolicyKind::QueueDepth, decay(50)), Err(other.into()));
}

#[test]
fn time_that_passes_without_io_costs_nothing_and_ends() {
    for decay in [0, 50, 99, 100] {
        let mut policy = Latency::new(LatencyOptions { decay, window: Duration(1), ..LatencyOptions::default() });
        let all = paths(&[Optimized; 2]);
        for _ in 0..3 {
            let path = policy.choose(&all, &io(us(0))).expect("a path");
            end(&mut policy, path, us(0), Instant(u64::MAX >> 1));
        }
        assert!(policy.choose(&all, &io(Instant(u64::MAX >> 1))).is_some());
    }
}

/// Paths that serve so many I/Os at once, each for so long.
struct Served {
    policy: Box<dyn Policy>,
    views: Vec<PathView>,
    /// When each server is free.
    servers: Vec<Vec<Instant>>,
    times: Vec<Duration>,
    under_way: BTreeMap<(Instant, u64), (usize, Io)>,
    sent: Vec<u64>,
}

impl Served {
    fn new(paths: &[(u64, usize)]) -> Self {
        let views = paths.iter().map(|_| PathView::new(Optimized)).collect();
        let servers = paths.iter().map(|(_, servers)| vec![Instant::ZERO; *servers]).collect();
        let times = paths.iter().map(|(us, _)| Duration::from_micros(*us)).collect();
        let policy = PolicyKind::ExpectedDelay.build();
        Self { policy, views, servers, times, under_way: BTreeMap::new(), sent: vec![0; paths.len()] }
    }

    fn send(&mut self, now: Instant) -> usize {
        let path = self.policy.choose(&self.views, &io(now)).expect("a path");
        let sent = Io { ahead: self.views[path].pending[IoClass::Read as usize].count, ..io(now) };
        self.views[path].add(&sent);
        let server = self.servers[path].iter_mut().min().expect("a server");
        *server = now.max(*server) + self.times[path];
        let number = self.sent.iter().sum();
        self.under_way.insert((*server, number), (path, sent));
        self.sent[path] += 1;
        path
    }

    /// Lets `jobs` do one I/O after the other until `end`; the mean latency in us.
    fn run(&mut self, jobs: usize, now: Instant, end: Instant) -> u64 {
        (0..jobs).for_each(|_| _ = self.send(now));
        let (mut sum, mut count) = (0, 0);
        while let Some(((at, _), (path, sent))) = self.under_way.pop_first() {
            self.views[path].remove(&sent);
            self.policy.ended(path, &sent, Done { at, is_ok: true });
            (sum, count) = (sum + at.since(sent.at).0, count + 1);
            if at < end {
                self.send(at);
            }
        }
        sum / count / 1000
    }
}

#[test]
fn expected_delay_gives_equal_paths_equal_shares() {
    let mut all = Served::new(&[(100, 1); 3]);
    all.run(12, us(0), us(1_000_000));
    let whole: u64 = all.sent.iter().sum();
    assert!(all.sent.iter().all(|sent| sent.abs_diff(whole / 3) * 50 < whole), "{:?}", all.sent);
}

#[test]
fn expected_delay_shares_by_what_paths_carry() {
    let mut all = Served::new(&[(100, 1), (300, 1)]);
    let mean = all.run(40, us(0), us(3_000_000));
    // Both together do an I/O in 75 us, so 40 jobs wait for 3 ms.
    assert!(mean < 3_100, "{mean} us with {:?}", all.sent);
    let share = all.sent[1] as f64 / all.sent.iter().sum::<u64>() as f64;
    assert!((0.23..0.27).contains(&share), "{:?}", all.sent);
}

#[test]
fn expected_delay_sends_no_more_to_a_far_path_than_it_takes_to_know_it() {
    let mut all = Served::new(&[(170, 64), (30_170, 64)]);
    let mean = all.run(40, us(0), us(2_000_000));
    assert!(mean < 175, "{mean} us");
    let [near, far] = all.sent[..] else { unreachable!("two") };
    assert!(far > 1 && far * 10_000 < near, "{far} beside {near}: it is tried now and then");
}

#[test]
fn expected_delay_notices_that_a_far_path_has_come_nearer() {
    let mut all = Served::new(&[(400, 64), (1_000, 64)]);
    all.run(8, us(0), us(500_000));
    all.times[1] = Duration::from_micros(100);
    let before = all.sent.clone();
    all.run(8, us(600_000), us(2_600_000));
    assert!(all.sent[1] - before[1] > 3 * (all.sent[0] - before[0]), "{:?} after {before:?}", all.sent);
}

#[test]
fn expected_delay_leaves_a_path_that_falls_silent_before_anything_has_ended_there() {
    let mut all = Served::new(&[(100, 64); 2]);
    all.run(16, us(0), us(100_000));
    // From now on the first path answers nothing.
    let taken: Vec<usize> = (0..400)
        .map(|n| {
            let at = us(200_000 + 10 * n);
            let path = all.send(at);
            all.under_way.retain(|_, (path, _)| *path == 0);
            if path == 1 {
                let sent = Io { ahead: 0, ..io(at) };
                all.views[1].remove(&sent);
                all.policy.ended(1, &sent, Done { at: at + Duration::from_micros(100), is_ok: true });
            }
            path
        })
        .collect();
    let late = taken.iter().skip(60).filter(|path| **path == 0).count();
    assert!(taken[..60].contains(&0) && late <= 1, "{late} of those after 600 us: {taken:?}");
}

#[test]
fn an_error_that_comes_fast_does_not_make_a_path_cheaper_for_expected_delay() {
    let mut all = Served::new(&[(100, 64), (120, 64)]);
    all.run(8, us(0), us(100_000));
    for n in 0..1000 {
        let sent = io(us(200_000 + n));
        all.policy.ended(1, &sent, Done { at: us(200_001 + n), is_ok: false });
    }
    assert_eq!(all.policy.choose(&all.views, &io(us(202_000))), Some(0));
    all.policy.failed(1);
    let taken: Vec<usize> = (0..3).map(|n| all.send(us(203_000 + n))).collect();
    assert_eq!(taken, [1, 0, 0], "what failed is known anew by one I/O");
}

/// An I/O of so many bytes behind another one of so many.
fn behind(ahead: u64, bytes: u32, at: Instant) -> Io {
    Io { bytes, ahead: 1, bytes_ahead: ahead, ..io(at) }
}

/// Teaches a policy what I/Os of two lengths take behind others of two lengths.
fn teach(policy: &mut dyn Policy, path: usize, takes: impl Fn(u64, u32) -> u64) {
    assert!(policy.choose(&paths(&[Optimized; 2]), &io(us(0))).is_some());
    for n in 0..256 {
        let (ahead, bytes) = ([4 << 10, 64 << 10][n as usize % 2], [4 << 10, 64 << 10][n as usize / 2 % 2]);
        let sent = behind(ahead, bytes, us(n * 1_000));
        policy.ended(path, &sent, Done { at: sent.at + Duration::from_micros(takes(ahead, bytes)), is_ok: true });
    }
}

#[test]
fn expected_delay_counts_a_stall_once_however_many_ios_hung_in_it() {
    let mut all = Served::new(&[(100, 64), (1_000, 64)]);
    all.run(8, us(0), us(100_000));
    for n in 0..32 {
        all.policy.ended(0, &Io { ahead: n, ..io(us(200_000)) }, Done { at: us(250_000), is_ok: true });
    }
    assert_eq!(all.policy.choose(&all.views, &io(us(250_001))), Some(0), "all of them would make 11 ms of its mean");
}

#[test]
fn expected_delay_takes_a_path_again_after_a_few_trials_that_went_well() {
    let mut all = Served::new(&[(1_000, 64), (300, 64)]);
    teach(&mut *all.policy, 0, |_, _| 1_000);
    all.times[0] = Duration::from_micros(100);
    all.run(8, us(300_000), us(1_300_000));
    let before = all.sent.clone();
    all.run(8, us(1_400_000), us(1_500_000));
    let sent = [all.sent[0] - before[0], all.sent[1] - before[1]];
    assert!(sent[0] > 9 * sent[1], "{sent:?} after {before:?}");
}

#[test]
fn expected_delay_waits_behind_many_short_ios_rather_than_behind_a_long_one() {
    let mut policy = PolicyKind::ExpectedDelay.build();
    let mut views = paths(&[Optimized; 2]);
    (0..2).for_each(|path| teach(&mut *policy, path, |ahead, _| 100 + ahead / 100));
    views[0].add(&behind(0, 64 << 10, us(300_000)));
    (0..2).for_each(|_| views[1].add(&behind(0, 4 << 10, us(300_000))));
    assert_eq!(policy.choose(&views, &behind(0, 4 << 10, us(300_000))), Some(1));
}

#[test]
fn expected_delay_sends_long_ios_over_the_fast_wire_and_short_ones_over_the_near_one() {
    let mut policy = PolicyKind::ExpectedDelay.build();
    teach(&mut *policy, 0, |_, bytes| 100 + u64::from(bytes) / 400);
    teach(&mut *policy, 1, |_, bytes| 150 + u64::from(bytes) / 4_000);
    let views = paths(&[Optimized; 2]);
    let mut chosen = |bytes| policy.choose(&views, &behind(0, bytes, us(300_000)));
    assert_eq!([chosen(4 << 10), chosen(64 << 10)], [Some(0), Some(1)]);
}

#[test]
fn expected_delay_sends_a_few_ios_all_over_the_nearest_path_while_none_waits_there() {
    let mut all = Served::new(&[(700, 64), (850, 64), (850, 64)]);
    all.run(5, us(0), us(1_000_000));
    assert!(all.sent[0] > 9 * (all.sent[1] + all.sent[2]), "{:?}", all.sent);
}
