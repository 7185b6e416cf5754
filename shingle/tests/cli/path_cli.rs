//! Devices with several paths as users run them: I/O goes on while a path fails, `shingle path` shows and changes it.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::program::nbd::{BLOCK, Nbd, WRITE, pattern, verified_random_load};
use crate::program::{Ends, Scratch};

/// A regular disk and a zoned one, each over two mapped devices.
const STACK: &str = "\
[disk.d]
type = \"null\"
size = \"16MiB\"
memory-backed = true
completion = \"50us\"
[disk.z]
type = \"null\"
size = \"64MiB\"
zone-size = \"1MiB\"
memory-backed = true
completion = \"50us\"
shard = 1
[device.p0]
table = \"0 32768 linear d 0\"
[device.p1]
table = \"0 32768 linear d 0\"
[device.m]
paths = [\"p0\", \"p1\"]
policy = \"queue-depth\"
probe = \"100ms\"
[device.z0]
table = \"0 131072 linear z 0\"
[device.z1]
table = \"0 131072 linear z 0\"
[device.n]
paths = [\"z0\", { device = \"z1\", state = \"non-optimized\" }]
no-path-timeout = \"never\"
[export.m]
device = \"m\"
[export.n]
device = \"n\"
[listen]
unix = \"nbd.sock\"
[control]
socket = \"control.sock\"
";

impl Scratch {
    /// Gives a mapped device another table, under I/O.
    #[track_caller]
    fn swap(&self, device: &str, table: &str) {
        self.dm(&["load", device, "--table", table]);
        self.dm(&["resume", device]);
    }

    /// The paths of a device.
    #[track_caller]
    fn paths(&self, device: &str) -> Vec<Value> {
        let list = self.json(&format!("path list {device} --json"));
        list["devices"][0]["paths"].as_array().unwrap().clone()
    }

    /// Asks for the paths until they are as they should be: somebody does I/O meanwhile.
    #[track_caller]
    fn await_paths(&self, device: &str, are_right: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        for _ in 0..600 {
            let paths = self.paths(device);
            if are_right(&paths) {
                return paths;
            }
        }
        panic!("{:?}", self.paths(device))
    }
}

/// Writes eight blocks at a time and reads them again, until `stop`; counts rounds in `rounds`.
fn write_and_read(mut client: Nbd, stop: &AtomicBool, rounds: &AtomicU64) {
    while !stop.load(Relaxed) {
        let round = rounds.load(Relaxed);
        let offsets: Vec<u64> = (0..8).map(|n| (round * 8 + n) * BLOCK as u64 % (16 << 20)).collect();
        offsets.iter().for_each(|offset| client.send(WRITE, *offset, &pattern(*offset, round + 1)));
        client.written(offsets.len());
        offsets.iter().for_each(|offset| assert!(client.read(*offset) == pattern(*offset, round + 1), "{offset}"));
        rounds.store(round + 1, Relaxed);
    }
}

fn health(paths: &[Value]) -> Vec<&str> {
    paths.iter().map(|path| path["health"].as_str().unwrap()).collect()
}

fn number(path: &Value, key: &str) -> u64 {
    path[key].as_u64().unwrap_or_else(|| panic!("{key} of {path}"))
}

#[test]
fn io_goes_on_while_a_path_fails_and_the_path_comes_back() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let client = Nbd::connect(&scratch, "m");
    thread::scope(|scope| {
        let ends = Ends(&stop);
        let load = scope.spawn(|| write_and_read(client, &stop, &rounds));
        let paths = scratch.await_paths("m", |paths| paths.iter().all(|path| path["mean_latency_ns"].is_u64()));
        assert_eq!(health(&paths), ["live", "live"]);
        assert!(paths.iter().all(|path| number(path, "mean_latency_ns") >= 50_000), "{paths:?}");
        let shares: f64 = paths.iter().map(|path| path["share_percent"].as_f64().unwrap()).sum();
        assert!((shares - 100.0).abs() < 1e-6, "{paths:?}");

        scratch.swap("p0", "0 32768 faulty d 0 seed=1 error,op=any,status=transport");
        let paths = scratch.await_paths("m", |paths| health(paths) == ["failed", "live"]);
        assert!(number(&paths[0], "failovers") > 0 && number(&paths[0], "failures") == 1, "{paths:?}");
        let before = rounds.load(Relaxed);
        let paths =
            scratch.await_paths("m", |paths| rounds.load(Relaxed) > before + 2 && number(&paths[0], "probes") > 0);
        assert_eq!(health(&paths), ["failed", "live"], "probes fail too");

        scratch.swap("p0", "0 32768 linear d 0");
        let said = scratch.ok("path restore m p0");
        assert_eq!(said, "m: queue-depth, 2 of 2 paths take I/O: p0 optimized live, p1 optimized live\n");
        let restored = number(&scratch.paths("m")[0], "sent");
        scratch.await_paths("m", |paths| number(&paths[0], "sent") > restored + 10);

        let said = scratch.ok("path fail m p1");
        assert_eq!(said, "m: queue-depth, 1 of 2 paths take I/O: p0 optimized live, p1 optimized offline\n");
        scratch.await_paths("m", |paths| number(&paths[1], "in_flight") == 0);
        let (taken, before) = (number(&scratch.paths("m")[1], "sent"), rounds.load(Relaxed));
        let paths = scratch.await_paths("m", |_| rounds.load(Relaxed) > before + 2);
        assert_eq!((number(&paths[1], "sent"), health(&paths)), (taken, vec!["live", "offline"]));
        drop(ends);
        load.join().unwrap();
    });
    daemon.stop();
}

#[test]
fn a_path_that_failed_comes_back_by_itself() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    scratch.swap("p0", "0 32768 faulty d 0 seed=1 error,op=any,status=transport");
    let mut client = Nbd::connect(&scratch, "m");
    assert_eq!(client.read(0), vec![0; BLOCK]);
    assert_eq!(health(&scratch.paths("m")), ["failed", "live"]);
    scratch.swap("p0", "0 32768 linear d 0");
    let paths = scratch.await_paths("m", |paths| health(paths) == ["live", "live"]);
    assert!(number(&paths[0], "probes") > 0, "{paths:?}");
    // Heads are looked at every second.
    let mut control = scratch.control();
    let told = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(100));
        let events = control.ask(r#"{"v":1,"op":"events"}"#)["ok"]["events"].clone();
        let of_path = |event: &&Value| event["kind"] == "path" && event["device"] == "m";
        let texts: Vec<String> =
            events.as_array().unwrap().iter().filter(of_path).map(|event| event["text"].to_string()).collect();
        texts.iter().any(|text| text.contains("`p0` has failed"))
            && texts.iter().any(|text| text.contains("works again"))
    });
    assert!(told, "{}", control.ask(r#"{"v":1,"op":"events"}"#));
    daemon.stop();
}

/// The first path carries out what it says it did not: a retry that did not look would find the write pointer elsewhere.
#[test]
fn zones_stay_in_order_through_a_failover() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "n");
    let write = |client: &mut Nbd, blocks: std::ops::Range<u64>| {
        blocks.clone().for_each(|block| client.send(WRITE, block * BLOCK as u64, &pattern(block, 1)));
        client.written(blocks.count());
    };
    write(&mut client, 0..16);
    assert_eq!(number(&scratch.paths("n")[1], "sent"), 0, "it is not optimized");
    scratch
        .swap("z0", "0 131072 faulty z 0 seed=1 error-after,op=write,status=transport,count=1 error,status=transport");
    write(&mut client, 16..32);
    let paths = scratch.paths("n");
    assert_eq!(health(&paths), ["failed", "live"]);
    assert!(number(&paths[0], "failovers") > 0 && number(&paths[1], "sent") > 0, "{paths:?}");
    (0..32).for_each(|block| assert!(client.read(block * BLOCK as u64) == pattern(block, 1), "{block}"));
    let zone = &scratch.json("zones report n --json")["zones"][0];
    assert_eq!(number(zone, "wp"), 32 * 8);
    assert_eq!(scratch.ok("policy n"), "plug\n", "zone writes are ordered above the paths");
    daemon.stop();
}

#[test]
fn a_disk_that_is_a_path_has_its_zone_writes_ordered_above_it_alone() {
    let scratch = Scratch::new();
    let disk = "[disk.w]\ntype = \"null\"\nsize = \"8MiB\"\nzone-size = \"1MiB\"\nmemory-backed = true\n";
    let rest = "[device.o]\npaths = [\"w\"]\n[export.o]\ndevice = \"o\"\n[listen]\nunix = \"nbd.sock\"\n\
                [control]\nsocket = \"control.sock\"\n";
    scratch.file("stack.toml", &format!("{disk}{rest}"));
    let daemon = scratch.up();
    assert_eq!((scratch.ok("policy o"), scratch.ok("policy o qd1")), ("plug\n".into(), "o: plug -> qd1\n".into()));
    scratch.fails("policy w", 1, &["`w` is a path of `o`, where its zone writes are ordered"]);
    scratch.fails("zones reset w", 1, &["`o`, whose path it is"]);
    scratch.fails("export add w w", 1, &["`o` alone may write to it"]);
    let mut client = Nbd::connect(&scratch, "o");
    (0..8).rev().for_each(|block| client.send(WRITE, (7 - block) * BLOCK as u64, &pattern(block, 1)));
    client.written(8);
    (0..8).for_each(|block| assert!(client.read(block * BLOCK as u64) == pattern(7 - block, 1), "{block}"));
    assert_eq!(scratch.paths("o")[0]["share_percent"].as_f64(), Some(100.0));
    daemon.stop();
}

#[test]
fn states_and_policies_are_changed_live_and_shown() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    let said = scratch.ok("path state m p0 inaccessible");
    assert_eq!(said, "m: queue-depth, 1 of 2 paths take I/O: p0 inaccessible live, p1 optimized live\n");
    let said = scratch.ok("path policy m latency");
    assert!(said.starts_with("m: latency, 1 of 2 paths"), "{said}");
    Nbd::connect(&scratch, "m").read(0);
    let list = scratch.ok("path list");
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 5, "{list}");
    assert_eq!(rows[1][..8], ["m", "(latency)", "p0", "inaccessible", "live", "0", "0.0", "%"], "{list}");
    assert_eq!(rows[2][..8], ["m", "(latency)", "p1", "optimized", "live", "0", "100.0", "%"], "{list}");
    assert!(scratch.ok("status").contains(&list), "the status has the same table");
    let status = scratch.json("status --json");
    let device = status["devices"].as_array().unwrap().iter().find(|device| device["name"] == "m").unwrap();
    assert_eq!((&device["kind"], &device["multipath"]["policy"]), (&"multipath".into(), &"latency".into()));
    let said = scratch.ok("path state m p1 change");
    assert!(said.contains("0 of 2 paths take I/O") && said.contains("p1 change live"), "{said}");
    assert_eq!(scratch.paths("m")[1]["state"], "change");
    daemon.stop();
}

#[test]
fn windows_of_a_policy_are_listed_and_are_metrics() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    assert_eq!(scratch.paths("m")[0]["windows"], serde_json::json!([]), "queue-depth has none");
    let plain = scratch.ok("path list m");
    assert_eq!(scratch.ok("path list m --verbose"), plain);
    scratch.ok("path policy m adaptive --window 10ms");
    assert!(scratch.ok("path list m --verbose").contains("no window has ended"));
    let mut client = Nbd::connect(&scratch, "m");
    let has_both = |path: &Value| {
        let kinds = path["windows"].as_array().unwrap().iter().map(|window| window["kind"].as_str().unwrap());
        kinds.eq(["read", "write"])
    };
    let measured = (0..600).find_map(|_| {
        client.send(WRITE, 0, &pattern(0, 1));
        client.written(1);
        client.read(0);
        scratch.paths("m").into_iter().find(has_both)
    });
    let measured = measured.expect("a path with windows of reads and writes");
    let window = &measured["windows"][0];
    assert!(number(window, "latency_ns") >= 50_000 && number(window, "weight") >= 1, "{window}");
    let verbose = scratch.ok("path list m --verbose");
    let title = "\nm (adaptive: decay 87.5 %, window 10 ms, low-water 1)\npath";
    assert!(verbose.contains(title) && verbose.contains(" write "), "{verbose}");
    let (path, node) = (&measured["path"], &window["node"]);
    let labels = format!("{{device=\"m\",path={path},node=\"{node}\",kind=\"write\"}}");
    let metrics = scratch.ok("metrics");
    for family in ["path_window_latency_seconds", "path_window_samples", "path_weight"] {
        assert!(metrics.contains(&format!("shingle_{family}{labels} ")), "{family}{labels}: {metrics}");
    }
    scratch.ok("path policy m latency");
    client.read(0);
    thread::sleep(Duration::from_millis(5));
    client.read(0);
    let kinds: Vec<Value> =
        scratch.paths("m").iter().flat_map(|path| path["windows"].as_array().unwrap().clone()).collect();
    assert!(kinds.iter().any(|window| window["kind"] == "all" && window["weight"].is_null()), "{kinds:?}");
    daemon.stop();
}

#[test]
fn the_path_near_to_the_node_of_the_shard_gets_the_io() {
    let scratch = Scratch::new();
    let near = "paths = [{ device = \"p0\", node = 0 }, { device = \"p1\", node = 3 }]\npolicy = \"numa\"\nnode = 3";
    let stack = STACK.replace("paths = [\"p0\", \"p1\"]\npolicy = \"queue-depth\"", near);
    scratch.file("stack.toml", &stack);
    let daemon = scratch.up();
    Nbd::connect(&scratch, "m").read(0);
    let device = scratch.json("path list m --json")["devices"][0].clone();
    let paths = scratch.paths("m");
    assert_eq!((&device["node"], &paths[0]["node"], &paths[1]["node"]), (&3.into(), &0.into(), &3.into()));
    assert_eq!((number(&paths[0], "sent"), number(&paths[1], "sent") > 0), (0, true), "{paths:?}");
    scratch.file(
        "stack.toml",
        &stack.replace("\"p0\", node = 0", "\"p0\", node = 3").replace("\"p1\", node = 3", "\"p1\", node = 0"),
    );
    scratch.ok("reload");
    let before = number(&scratch.paths("m")[1], "sent");
    Nbd::connect(&scratch, "m").read(0);
    let paths = scratch.paths("m");
    assert_eq!((number(&paths[0], "sent") > 0, number(&paths[1], "sent")), (true, before), "{paths:?}");
    scratch.dm(&["create", "p2", "--table", "0 32768 linear d 0"]);
    scratch.fails("path add m p2 --node 256", 1, &["`node` is 256, allowed: 0 to 255"]);
    scratch.ok("path add m p2 --node 7");
    assert_eq!(scratch.paths("m")[2]["node"], 7);
    daemon.stop();
}

#[test]
fn a_latency_below_the_clock_is_shown_as_a_bound() {
    let scratch = Scratch::with_stack(&STACK.replace("completion = \"50us\"\n", ""));
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "m");
    (0..200).for_each(|block| assert!(client.read(block * BLOCK as u64).len() == BLOCK));
    let device = scratch.json("path list m --json")["devices"][0].clone();
    let resolution = number(&device, "latency_resolution_ns");
    assert!(resolution > 0 && number(&device["paths"][0], "mean_latency_ns") < resolution, "{device}");
    let list = scratch.ok("path list m");
    assert!(list.contains("< ") && !list.contains(" 0.0 us"), "{list}");
    daemon.stop();
}

#[test]
fn options_of_a_policy_are_set_live_and_by_reload() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    let options = || scratch.json("path list m --json")["devices"][0]["options"].clone();
    assert_eq!(options(), Value::Null, "queue-depth has none");
    scratch.ok("path policy m latency");
    let default = serde_json::json!({"decay_percent": 50.0, "window_ns": 2_000_000, "low_water": 2});
    assert_eq!(options(), default);
    scratch.ok("path policy m latency --decay 10 --window 500us --low-water 8");
    assert_eq!(options(), serde_json::json!({"decay_percent": 10.0, "window_ns": 500_000, "low_water": 8}));
    scratch.fails("path policy m latency --decay 101", 1, &["`decay` is 101 %, allowed: 0 to 100 %"]);
    scratch.fails("path policy m latency --window 10us", 1, &["`window` is 10 us, allowed: 100 us to 1 h"]);
    scratch.fails("path policy m adaptive --low-water 0", 1, &["`low-water` is 0 samples, allowed: 1 to 1000000"]);
    scratch.fails("path policy m numa --decay 5", 1, &["policy `numa` has no option `decay`"]);
    assert_eq!(options()["low_water"], 8, "a mistake changes nothing");
    scratch.ok("path policy m adaptive");
    let default = serde_json::json!({"decay_percent": 87.5, "window_ns": 15_000_000_000_u64, "low_water": 1});
    assert_eq!(options(), default);
    let policy = "policy = \"latency\"\ndecay = 20\nwindow = \"1ms\"\nlow-water = 5";
    scratch.file("stack.toml", &STACK.replace("policy = \"queue-depth\"", policy));
    scratch.ok("reload");
    assert_eq!(options(), serde_json::json!({"decay_percent": 20.0, "window_ns": 1_000_000, "low_water": 5}));
    daemon.stop();
}

#[test]
fn what_cannot_be_done_to_paths_says_why_and_what_can() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    scratch.fails("path fail m p3", 1, &["`m` has no path `p3`; did you mean `p", "its paths are: p0, p1"]);
    scratch.fails("path list d", 1, &["`d` (null) does not have several paths; devices that do: m, n"]);
    scratch.fails("path list mm", 1, &["there is no device `mm`; did you mean `m`?"]);
    scratch.fails("path policy m latncy", 1, &["there is no policy `latncy` of paths; did you mean `latency`?"]);
    scratch.fails("path state m p0 good", 1, &["known are: optimized, non-optimized, inaccessible"]);
    assert!(scratch.dm_fails(&["remove", "p0"], 1).contains("in use"));
    let said = scratch.dm_fails(&["create", "w", "--table", "0 8 linear p0 0"], 1);
    assert!(said.contains("`m` alone may write to `p0`"), "{said}");
    scratch.fails("export add w p0", 1, &["`m` alone may write to it"]);
    scratch.fails("zones reset z0", 1, &["in use by", "`n`, whose path it is"]);
    scratch.swap("p1", "0 32768 linear d 0");
    // A table may lie on the device, and the daemon ends in the right order.
    let top = ["dm", "create", "top", "--table", "0 32768 linear m 0"];
    assert!(scratch.shingle().args(top).stdin(Stdio::null()).status().unwrap().success());
    daemon.stop();
}

#[test]
fn paths_come_and_go_under_a_verified_load_and_a_removed_one_is_free() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    scratch.dm(&["create", "p2", "--table", "0 32768 delay d 0 1"]);
    let (stop, client) = (AtomicBool::new(false), Nbd::connect(&scratch, "m"));
    thread::scope(|scope| {
        let ends = Ends(&stop);
        let load = scope.spawn(|| verified_random_load(client, &stop));
        let said = scratch.ok("path add m p2");
        assert!(said.starts_with("m: queue-depth, 3 of 3 paths take I/O: "), "{said}");
        scratch.await_paths("m", |paths| paths.len() == 3 && number(&paths[2], "sent") > 20);
        for _ in 0..3 {
            for path in ["p0", "p1", "p2"] {
                scratch.ok(&format!("path remove m {path}"));
                scratch.await_paths("m", |paths| paths.len() == 2 && paths.iter().all(|other| other["path"] != path));
                scratch.dm(&["create", "look", "--table", &format!("0 8 linear {path} 0")]);
                scratch.fails(&format!("path add m {path}"), 1, &["it is used by the table of `look`"]);
                scratch.dm(&["remove", "look"]);
                scratch.ok(&format!("path add m {path} --state optimized"));
                scratch.await_paths("m", |paths| paths.iter().any(|it| it["path"] == path && number(it, "sent") > 3));
            }
        }
        scratch.ok("path remove m p0");
        scratch.await_paths("m", |paths| paths.len() == 2);
        scratch.dm(&["remove", "p0"]);
        drop(ends);
        assert!(load.join().unwrap() > 100);
    });
    let list = scratch.ok("path list m");
    assert!(!list.contains("p0") && list.contains("p1") && list.contains("p2"), "{list}");
    daemon.stop();
}

/// The failed path is the last one, and what it failed waits for another.
#[test]
fn io_that_waits_goes_over_a_path_that_is_added() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    scratch.dm(&["create", "p2", "--table", "0 32768 linear d 0"]);
    scratch.ok("path remove m p1");
    scratch.swap("p0", "0 32768 faulty d 0 seed=1 error,op=any,status=transport");
    let mut client = Nbd::connect(&scratch, "m");
    client.send(WRITE, 0, &pattern(0, 1));
    scratch.await_paths("m", |paths| health(paths) == ["failed"]);
    scratch.ok("path add m p2");
    client.written(1);
    assert!(client.read(0) == pattern(0, 1));
    daemon.stop();
}

#[test]
fn a_path_that_leads_elsewhere_or_is_none_is_refused() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    let create = |name: &str, table: &str| scratch.dm(&["create", name, "--table", table]);
    create("q", "0 131072 linear z 0");
    create("part", "0 16384 linear d 0");
    create("moved", "0 32760 linear d 8\n32760 8 linear d 0");
    create("other", "0 32768 zero");
    create("e", "0 32768 linear d 0");
    scratch.ok("export add e e");
    scratch.fails("path add m nothing", 1, &["there is no device `nothing`"]);
    scratch.fails("path add m p1", 1, &["`m` needs it for itself", "used by `m`"]);
    scratch.fails("path add m n", 1, &["there is no `n` on the shard of `m`"]);
    scratch.fails("path add m m", 1, &["`m` has paths itself, and is no path"]);
    scratch.fails("path add m part", 1, &["`part` does not go with the paths of `m`", "16384 sectors, and the others"]);
    scratch.fails(
        "path add m moved",
        1,
        &["`moved` leads to disk `d` +8 (", "disk `d` -32760 (", "do not lead to one disk"],
    );
    scratch.fails("path add m e", 1, &["used by clients of an export"]);
    scratch.fails("path add n z", 1, &["`z` keeps its zone writes in order itself"]);
    scratch.fails("path remove m p7", 1, &["`m` has no path `p7`", "its paths are: p0, p1"]);
    create("top", "0 32768 linear m 0");
    scratch.fails("path add m top", 1, &["would be below itself"]);
    assert_eq!(scratch.paths("m").len(), 2);
    scratch.dm(&["remove", "q"]);
    scratch.dm(&["remove", "top"]);
    for path in ["p0", "p1"] {
        scratch.ok(&format!("path remove m {path}"));
    }
    let said = scratch.ok("path add m other --state non-optimized");
    assert_eq!(
        said, "m: queue-depth, 1 of 1 paths take I/O: other non-optimized live\n",
        "nothing tells where it leads"
    );
    daemon.stop();
}

/// Its users go on when the disk has grown below all paths.
/// Two files as disks, and two paths to the first.
const FILES: &str = "\
[disk.a]
type = \"file\"
path = \"a.img\"
[disk.b]
type = \"file\"
path = \"b.img\"
[device.p]
table = \"0 2048 linear a 0\"
[device.q]
table = \"0 2048 linear a 0\"
[device.m]
paths = [\"p\", \"q\"]
[control]
socket = \"control.sock\"
";

#[test]
fn every_way_to_a_path_of_another_disk_is_refused_at_run_time() {
    let scratch = Scratch::with_stack(FILES);
    ["a.img", "b.img"].iter().for_each(|name| scratch.file(name, &"x".repeat(1 << 20)));
    let daemon = scratch.up();
    let says = ["disk `b` (file ", "disk `a` (file ", "write the same `identity = \"NAME\"` into [disk."];
    let refused = |words: &[&str], subject: &str| {
        let said = scratch.dm_fails(words, 1);
        says.iter().chain([&subject]).for_each(|say| assert!(said.contains(say), "{say:?} is missing in:\n{said}"));
    };
    scratch.fails("path add m b", 1, &[&["the paths of `m` do not lead to one disk: `b` leads"], &says[..]].concat());
    refused(&["load", "p", "--table", "0 2048 linear b 0"], "the table of `p` does not fit the paths of `m`");
    let multipath = "0 2048 multipath 0 0 1 1 round-robin 0 2 1 r 1 b 1";
    scratch.dm(&["create", "r", "--table", "0 2048 linear a 0"]);
    refused(&["create", "x", "--table", multipath], "the table is wrong in line 1");
    scratch.dm(&["create", "x", "--table", "0 2048 error"]);
    refused(&["load", "x", "--table", multipath], "the table is wrong in line 1");
    // A table that was right when it was loaded is checked again when it replaces another.
    scratch.dm(&["create", "s", "--table", "0 2048 linear a 0"]);
    scratch.dm(&["load", "s", "--table", "0 2048 linear b 0"]);
    scratch.swap("x", &multipath.replace(" b ", " s "));
    refused(&["resume", "s"], "the table of `s` does not fit the paths of `x`");
    scratch.file("stack.toml", &FILES.replace("\"q\"]", "\"q\", \"b\"]"));
    scratch.fails("reload", 1, &says);
    daemon.stop();
}

#[test]
fn disks_of_one_identity_are_paths_at_run_time() {
    let same = |name: &str| format!("path = \"{name}.img\"\nidentity = \"x\"");
    let stack = FILES.replace("path = \"a.img\"", &same("a")).replace("path = \"b.img\"", &same("b"));
    let scratch = Scratch::with_stack(&stack);
    ["a.img", "b.img"].iter().for_each(|name| scratch.file(name, &"x".repeat(1 << 20)));
    let daemon = scratch.up();
    scratch.ok("path add m b");
    assert_eq!(scratch.paths("m").len(), 3);
    daemon.stop();
}

#[test]
fn a_device_grows_with_its_paths() {
    let scratch = Scratch::with_stack(&STACK.replace("linear d 0\"", "zero\""));
    let daemon = scratch.up();
    let size = || {
        scratch.json("status --json")["devices"].as_array().unwrap().iter().find(|it| it["name"] == "m").unwrap()["bytes"].clone()
    };
    scratch.swap("p0", "0 65536 zero");
    assert_eq!(size(), 16 << 20);
    scratch.swap("p1", "0 49152 zero");
    assert_eq!(size(), 24 << 20);
    daemon.stop();
}

#[test]
fn a_disk_that_is_a_path_can_be_removed_and_comes_back_and_nobody_else_writes_to_its_zones() {
    let scratch = Scratch::new();
    let disk = "[disk.w]\ntype = \"null\"\nsize = \"8MiB\"\nzone-size = \"1MiB\"\nmemory-backed = true\n";
    let rest = "[device.o]\npaths = [\"w\"]\ndelayed-removal = \"1h\"\n[export.o]\ndevice = \"o\"\n[listen]\nunix = \"nbd.sock\"\n\
                [control]\nsocket = \"control.sock\"\n";
    scratch.file("stack.toml", &format!("{disk}{rest}"));
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "o");
    client.send(WRITE, 0, &pattern(0, 1));
    client.written(1);
    assert_eq!(scratch.ok("path remove o w"), "o: expected-delay, 0 of 0 paths take I/O: none\n");
    client.send(WRITE, BLOCK as u64, &pattern(1, 1));
    scratch.fails("export add w w", 1, &["`o` alone may write to it"]);
    scratch.ok("path add o w");
    client.written(1);
    (0..2).for_each(|block| assert!(client.read(block * BLOCK as u64) == pattern(block, 1)));
    daemon.stop();
}
