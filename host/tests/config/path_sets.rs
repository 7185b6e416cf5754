//! Sets of paths: those that ship are right and do what they say, and a wrong one says what, where and what is allowed.

use shingle_core::block::{Bio, Data, Op, Payload, Silence, Stack, Status};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_drives::{ServiceTime, Windows};
use shingle_host::config::Source;
use shingle_host::profile::{BuiltPath, PathSet};

fn shipped(name: &str) -> String {
    let path = format!("{}/profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn parse(text: &str) -> Result<PathSet, String> {
    PathSet::parse("mine", Source { path: "mine.toml".into(), text: text.into() }).map_err(|error| error.to_string())
}

/// What a host does over paths in turn with `jobs` bios always under way, until `end`: time of each and its status, and how many went over each.
struct Run {
    us: Vec<f64>,
    failed: usize,
}

fn in_turn(set: &PathSet, host: &str, (op, sectors, jobs): (Op, u32, u64), end: Instant) -> Run {
    let mut stack = Stack::new();
    let paths: Vec<BuiltPath> = set.add_to(&mut stack, false, 7).unwrap();
    let paths: Vec<BuiltPath> = paths.into_iter().filter(|path| path.host == host).collect();
    let port = stack.open_port();
    let (mut rng, mut sent) = (Rng::new(1), 0);
    let mut send = |stack: &mut Stack| {
        let data = Payload::Data(Data::zeroed(sectors as usize * 512));
        let bio = Bio::new(op, Sector(rng.below(1 << 20) * u64::from(sectors)), sectors, data);
        stack.submit(port, 0, paths[sent % paths.len()].device, Box::new(bio));
        sent += 1;
    };
    (0..jobs).for_each(|_| send(&mut stack));
    let (mut now, mut run) = (Instant::ZERO, Run { us: Vec::new(), failed: 0 });
    while now < end {
        let next = stack.turn(now);
        while let Some(done) = stack.poll_completion(port) {
            run.us.push(now.since(done.bio.since).0 as f64 / 1e3);
            run.failed += usize::from(!done.status.is_ok());
            send(&mut stack);
        }
        now = if stack.has_arrivals() { now } else { next.expect("something is always under way").max(now) };
    }
    run
}

impl Run {
    fn mean(&self) -> f64 {
        self.us.iter().sum::<f64>() / self.us.len() as f64
    }

    fn deviation(&self) -> f64 {
        let mean = self.mean();
        (self.us.iter().map(|us| (us - mean).powi(2)).sum::<f64>() / self.us.len() as f64).sqrt()
    }
}

#[test]
fn every_set_that_ships_is_right_and_says_unit_or_source_of_every_number() {
    for name in PathSet::names() {
        let set = PathSet::find(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!set.description.is_empty() && set.paths.len() >= 2);
        for line in shipped(name).lines().filter(|line| line.contains(" = ") && !line.starts_with(['#', 'd', 'm'])) {
            assert!(line.contains(" # "), "{name}: `{line}` says neither unit nor source");
        }
    }
}

#[test]
fn through_every_path_of_every_set_the_same_disk_is_reached() {
    for name in PathSet::names() {
        let mut stack = Stack::new();
        let paths = PathSet::find(name).unwrap().add_to(&mut stack, true, 3).unwrap();
        let port = stack.open_port();
        let mut now = Instant::ZERO;
        let mut transfer = |path: &BuiltPath, op, byte: u8| {
            let data = Data::zeroed(512);
            data.fill(byte);
            stack.submit(port, 0, path.device, Box::new(Bio::new(op, Sector(77), 1, Payload::Data(data.clone()))));
            loop {
                let next = stack.turn(now);
                if let Some(done) = stack.poll_completion(port) {
                    return (done.status, data.to_vec()[0]);
                }
                now = next.expect("it ends");
            }
        };
        for (n, path) in paths.iter().enumerate() {
            let byte = n as u8 + 1;
            assert_eq!(transfer(path, Op::Write, byte).0, Status::Ok, "{name}: {}", path.name);
            paths.iter().for_each(|path| assert_eq!(transfer(path, Op::Read, 0), (Status::Ok, byte), "{name}"));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_times_over_every_set_and_another_seed_others() {
    for name in PathSet::names() {
        let set = PathSet::find(name).unwrap();
        let host = set.hosts()[0];
        let times = || in_turn(&set, host, (Op::Write, 8, 16), Instant(50_000_000)).us;
        assert!(times() == times(), "{name}");
    }
}

#[test]
fn fibre_channel_in_turn_has_the_published_means_and_deviations() {
    for name in ["paths-fc32-two", "paths-fc32-four"] {
        let set = PathSet::find(name).unwrap();
        for (op, mean, deviation) in [(Op::Read, 149.0, 65.0), (Op::Write, 186.0, 331.0)] {
            let run = in_turn(&set, "host", (op, 1, 48), Instant(4_000_000_000));
            let near = |found: f64, wanted: f64, by: f64| (found / wanted - 1.0).abs() < by;
            assert!(near(run.mean(), mean, 0.05), "{name} {op:?}: mean {} us", run.mean());
            assert!(near(run.deviation(), deviation, 0.1), "{name} {op:?}: deviation {} us", run.deviation());
        }
    }
}

#[test]
fn the_sets_do_to_a_host_that_takes_its_paths_in_turn_what_they_are_called_after() {
    let second = |name, until: u64| {
        let set = PathSet::find(name).unwrap();
        in_turn(&set, set.hosts()[0], (Op::Read, 8, 32), Instant(until * 1_000_000_000))
    };
    let slow = second("paths-tcp-30ms", 1);
    let late = slow.us.iter().filter(|us| **us > 30_000.0).count();
    assert!((0.4..0.6).contains(&(late as f64 / slow.us.len() as f64)), "every other bio takes the slow path");
    let stalled = second("paths-stall", 10);
    let longest = stalled.us.iter().copied().fold(0.0, f64::max);
    assert!((150_000.0..201_000.0).contains(&longest), "{longest} us");
    assert!(second("paths-jitter", 1).deviation() > 150.0);
    assert_eq!(second("paths-fast-fail", 1).failed, 0);
    assert!(second("paths-fast-fail", 2).failed > 1000);
    assert!(second("paths-burst", 10).failed > 100);
}

/// A set with a path that has these lines.
fn with(lines: &str) -> Result<PathSet, String> {
    parse(&format!(
        "description = \"mine\"\nmodel = \"paths\"\n\n[ram]\nsize = \"1GiB\"\nblock = \"512B\"\nservers = 4\nread = \"1us\"\n\
         write = \"1us\"\n\n[[path]]\nname = \"a\"\nordered = true\nthere = \"1us\"\nback = \"1us\"\n{lines}"
    ))
}

#[test]
fn a_set_needs_no_more_than_a_disk_and_a_path() {
    let set = with("").unwrap();
    assert_eq!((set.hosts(), set.paths.len(), set.paths[0].optimized), (vec!["host"], 1, true));
    assert_eq!(set.paths[0].link.there, ServiceTime::Constant(Duration::from_micros(1)));
}

#[test]
fn windows_are_blocks_with_times_or_keys_with_a_mean() {
    let link = |lines| with(lines).unwrap().paths.remove(0).link;
    let fixed = link("[[path.stall]]\nat = \"1s\"\nfor = \"200ms\"\n[[path.stall]]\nat = \"3s\"\n");
    let Windows::At(windows) = fixed.stalls else { panic!("they are fixed") };
    let found: Vec<_> = windows.iter().map(|window| (window.from.0, window.length)).collect();
    assert_eq!(found, [(1_000_000_000, Some(Duration::from_millis(200))), (3_000_000_000, None)]);
    let drawn = link("down-every = \"5s\"\ndown-every-shape = \"exponential\"\ndown-for = \"1s\"\n");
    let second = Duration::from_millis(1000);
    let (every, length) = (ServiceTime::Exponential(Duration(5 * second.0)), ServiceTime::Constant(second));
    assert_eq!(drawn.downs, Windows::Drawn { every, length });
    assert_eq!(link("[[path.refuse]]\nat = \"1s\"\nfor = \"1s\"\n").refusals.ppm, 1_000_000);
}

#[test]
fn a_path_that_states_when_it_is_silent_says_so_in_the_stack() {
    let silence = |lines| {
        let mut stack = Stack::new();
        let paths = with(lines).unwrap().add_to(&mut stack, false, 1).unwrap();
        stack.silence(paths[0].device)
    };
    assert_eq!(silence(""), Silence::Told);
    assert_eq!(silence("silent-after = \"10s\"\n"), Silence::After(Duration::from_millis(10_000)));
}

#[test]
fn a_mistake_in_a_set_is_shown_with_its_line_and_what_is_allowed() {
    let cases: &[(&str, &[&str])] = &[
        ("latency = \"1us\"\n", &["mine.toml:16", "no key `latency`"]),
        ("depth = 0\n", &["mine.toml:16", "`depth` is out of range", "1 to 65536"]),
        ("lost-ppm = 600000\n", &["mine.toml:16", "500000"]),
        ("rate = 0.0\n", &["mine.toml:16", "`rate`", "100000 MB/s"]),
        ("state = \"fast\"\n", &["mine.toml:16", "optimized, non-optimized"]),
        ("through = \"left\"\n", &["mine.toml:16", "names nothing", "there are none"]),
        ("controller = \"left\"\n", &["mine.toml:16", "no key `controller`"]),
        ("stall-every = \"1s\"\n", &["`stall-for`"]),
        ("stall-every = \"10us\"\nstall-for = \"1us\"\n", &["stalls", "millisecond"]),
        ("stall-every = \"1s\"\nstall-for = \"1s\"\n[[path.stall]]\nat = \"1s\"\n", &["both", "stall-every"]),
        ("stall = 5\n", &["mine.toml:16", "list of tables", "[[...stall]]"]),
        ("[[path.stall]]\nat = \"1s\"\nfor = \"2s\"\n[[path.stall]]\nat = \"2s\"\n", &["stalls overlap"]),
        ("[[path.stall]]\nat = \"1s\"\nlength = \"2s\"\n", &["mine.toml:18", "no key `length`"]),
        ("[[path.stall]]\nfor = \"1s\"\n", &["has no `at`"]),
        ("[[path.step]]\nat = \"1s\"\nthere = \"2h\"\nback = \"0s\"\n", &["mine.toml:18", "`there` is out of range"]),
        ("traffic-every = \"10us\"\ntraffic-busy = \"10us\"\n", &["leaves less"]),
        ("segment-lost-ppm = 10\n", &["`segment-bytes`", "`min-timeout`"]),
        ("give-up-after = \"0s\"\n", &["mine.toml:16", "out of range"]),
        ("refuse-after = \"0s\"\n", &["mine.toml:16", "out of range"]),
        ("[[path]]\nname = \"a\"\nordered = true\nthere = \"1us\"\nback = \"1us\"\n", &["mine.toml:17", "another `a`"]),
        ("[link]\nrate = 1.0\n", &["mine.toml:16", "no table `[link]`"]),
        (
            "[array]\nservers = 1\nread = \"1us\"\nwrite = \"1us\"\n",
            &["[[controller]]", "1 to 16", "has no `controller`"],
        ),
    ];
    let wrong = cases.iter().filter_map(|(lines, parts)| {
        let error = with(lines).unwrap_err();
        let missing: Vec<_> = parts.iter().filter(|part| !error.contains(**part)).collect();
        (!missing.is_empty()).then(|| format!("no {missing:?} for {lines:?} in:\n{error}\n"))
    });
    assert_eq!(wrong.collect::<String>(), "");
}

#[test]
fn a_disk_or_an_array_that_cannot_be_is_a_mistake_of_the_set() {
    let set = |ram: &str, rest: &str| {
        let head = "description = \"mine\"\nmodel = \"paths\"\n\n[ram]\nservers = 4\nread = \"1us\"\nwrite = \"1us\"\n";
        let path = "[[path]]\nname = \"a\"\nordered = true\nthere = \"1us\"\nback = \"1us\"\n";
        parse(&format!("{head}{ram}\n{path}{rest}")).unwrap_err()
    };
    let block = set("size = \"1GiB\"\nblock = \"64501B\"", "");
    assert!(block.contains("64501") && block.contains("power of two"), "{block}");
    let size = set("size = \"4608B\"\nblock = \"4096B\"", "");
    assert!(size.contains("capacity") && size.contains("RAM disk"), "{size}");
}

#[test]
fn a_set_has_as_many_hosts_paths_and_segments_as_there_may_be() {
    let path = |n: usize, host: usize| {
        format!("[[path]]\nname = \"p{n}\"\nhost = \"h{host}\"\nordered = true\nthere = \"1us\"\nback = \"1us\"\n")
    };
    let paths = |count: usize, hosts: usize| with(&(0..count).map(|n| path(n, n % hosts)).collect::<String>());
    assert_eq!(paths(24, 3).unwrap().hosts().len(), 4);
    assert!(paths(9, 1).unwrap_err().contains("8 are the most"));
    assert!(paths(8, 5).unwrap_err().contains("hosts are more than 4"));
    assert!(paths(40, 4).unwrap_err().contains("1 to 32"));
    let error = parse("description = \"mine\"\nmodel = \"paths\"\n").unwrap_err();
    assert!(error.contains("`[ram]`") && error.contains("0 of [[path]]"), "{error}");
}

#[test]
fn a_segment_leads_to_one_before_it_so_that_there_are_no_circles() {
    let segment = |name: &str, to: &str| {
        format!("[[segment]]\nname = \"{name}\"\n{to}ordered = true\nthere = \"1us\"\nback = \"1us\"\n")
    };
    let set = with(&(segment("core", "") + &segment("edge", "to = \"core\"\n"))).unwrap();
    assert_eq!(set.segments.iter().map(|segment| segment.to).collect::<Vec<_>>(), [None, Some(0)]);
    let error = with(&(segment("edge", "to = \"core\"\n") + &segment("core", ""))).unwrap_err();
    assert!(error.contains("`to` names nothing that stands before it"), "{error}");
    let error = with(&segment("core", "to = \"core\"\n")).unwrap_err();
    assert!(error.contains("`to` names nothing"), "{error}");
    let error = with(&segment("core", "give-up-after = \"1s\"\n")).unwrap_err();
    assert!(error.contains("no key `give-up-after`"), "a segment is no path: {error}");
}

#[test]
fn an_unknown_set_is_answered_with_those_there_are() {
    let error = PathSet::find("paths-stal").unwrap_err().to_string();
    assert!(error.contains("but `paths-stall`"), "{error}");
    assert!(parse(&shipped("ram")).unwrap_err().contains("known are: paths"));
}
