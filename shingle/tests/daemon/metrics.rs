//! Metrics of a running stack as those get them who watch it, and what clients that mean no good can do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;
use shingle_host::metrics::FAMILIES;

use crate::program::nbd::{Nbd, pattern};
use crate::program::{Daemon, Scratch};

/// A stack with a volume of each kind, a device with two paths, and all ways to get metrics.
fn stack() -> Scratch {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 96MiB --zone-size 1MiB --conventional 4");
    scratch.ok("create dmz --size 64MiB --zone-size 1MiB --conventional 12");
    scratch.ok("dmz format dmz --seq=4");
    let table = scratch.json("stl format smr --json")["table"].as_str().unwrap().to_owned();
    fs::write(scratch.0.join("plain"), [0; 1 << 20]).unwrap();
    let disk = |name: &str, kind: &str| format!("[disk.{name}]\ntype = \"{kind}\"\npath = \"{name}\"\n");
    let device = |name: &str, table: &str| {
        format!("[device.{name}]\ntable = \"{table}\"\n[export.{name}]\ndevice = \"{name}\"\n")
    };
    let paths = "[disk.flash]\ntype = \"null\"\nsize = \"64MiB\"\n[device.a]\ntable = \"0 131072 linear flash 0\"\n\
                 [device.b]\ntable = \"0 131072 linear flash 0\"\n[device.both]\npaths = [\"a\", \"b\"]\n";
    let ends = "[listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n\
         [metrics]\ntcp = \"127.0.0.1:0\"\nunix = \"metrics.sock\"\nfile = \"shingle.prom\"\ninterval = \"1s\"\n";
    let parts = [
        disk("smr", "zoned-dir"),
        disk("dmz", "zoned-dir"),
        disk("plain", "file"),
        device("vol", &table),
        device("old", "0 1 zoned dmz"),
        "[export.plain]\ndevice = \"plain\"\n".to_owned(),
        paths.to_owned(),
        ends.to_owned(),
    ];
    scratch.file("stack.toml", &parts.concat());
    scratch
}

/// The samples of a text: what stands before the value, and the value.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut all = BTreeMap::new();
    for line in lines {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let before = all.insert(name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")));
        assert!(before.is_none(), "{name} is there twice");
    }
    all
}

/// The head and the body of an answer to this.
fn exchange(mut line: impl Read + Write, request: &str) -> (String, String) {
    line.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}

/// A client of the TCP port.
fn connect(scratch: &Scratch) -> TcpStream {
    let status = scratch.json("status --json");
    let address = status["metrics"].as_array().unwrap().iter().find_map(|at| at.as_str()?.strip_prefix("tcp:"));
    let stream = TcpStream::connect(address.unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";

/// Writes 40 blocks and reads one of them.
fn use_export(scratch: &Scratch, export: &str) {
    let mut client = Nbd::connect(scratch, export);
    (0..40).for_each(|block| client.send(1, block * 4096, &pattern(block, 1)));
    client.written(40);
    assert!(client.read(0) == pattern(0, 1));
}

fn up(scratch: &Scratch) -> Daemon {
    let daemon = scratch.up();
    ["vol", "old", "plain"].iter().for_each(|export| use_export(scratch, export));
    daemon
}

#[test]
fn metrics_are_told_in_all_ways_and_are_what_was_done() {
    let scratch = stack();
    let daemon = up(&scratch);
    let all = samples(&scratch.ok("metrics"));
    let is = |name: &str, value: f64| assert_eq!(all.get(name), Some(&value), "{name}");
    for export in ["vol", "old", "plain"] {
        is(&format!("shingle_export_operations_total{{export=\"{export}\",op=\"write\"}}"), 40.0);
        is(&format!("shingle_export_bytes_total{{export=\"{export}\",op=\"read\"}}"), 4096.0);
        is(&format!("shingle_export_latency_seconds_count{{export=\"{export}\",work=\"write\"}}"), 40.0);
    }
    is("shingle_stl_user_blocks_total{device=\"vol\"}", 40.0);
    is("shingle_dmzoned_direct_blocks_total{device=\"old\"}", 40.0);
    is("shingle_zones{device=\"smr\",condition=\"not_wp\"}", 4.0);
    is("shingle_path_usable{device=\"both\",path=\"a\"}", 1.0);
    let told = |name: &str, text: &str| samples(text).get(name).copied();
    let written = "shingle_export_operations_total{export=\"vol\",op=\"write\"}";
    let (head, body) = exchange(connect(&scratch), &format!("{GET}Accept: application/openmetrics-text\r\n\r\n"));
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n"));
    assert_eq!(told(written, &body), Some(40.0));
    let socket = UnixStream::connect(scratch.0.join("metrics.sock")).unwrap();
    let (head, body) = exchange(socket, &format!("{GET}\r\n"));
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert_eq!(told(written, &body), Some(40.0));
    let file = scratch.0.join("shingle.prom");
    let in_file = || told(written, &fs::read_to_string(&file).unwrap());
    let is_told =
        (0..600).any(|_| in_file() == Some(40.0) || (std::thread::sleep(Duration::from_millis(100)), false).1);
    assert!(is_told, "the file keeps what it said at first");
    daemon.stop();
    assert!(!file.exists() && !scratch.0.join("metrics.sock").exists(), "something is left");
}

/// What becomes of a request is said to whoever sent it.
#[test]
fn what_is_no_request_for_metrics_is_refused_in_words() {
    let scratch = Scratch::with_stack(SMALL);
    let daemon = scratch.up();
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(64 << 10));
    for (request, says) in [
        ("GET /zones HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "404"),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "403"),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "403"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "405"),
        ("\u{1}\u{2}\r\n\r\n", "400"),
        (&long, "431"),
    ] {
        let (head, _) = exchange(connect(&scratch), request);
        assert!(head.starts_with(&format!("HTTP/1.1 {says}")), "{says}: {head}");
    }
    daemon.stop();
}

/// Hundreds of clients that say nothing, half of it, or nonsense, and do not read: others wait no longer than it takes to lose patience with those.
#[test]
fn clients_that_say_nothing_keep_nobody_from_metrics_for_long() {
    let scratch = Scratch::with_stack(SMALL);
    let daemon = scratch.up();
    let mut idle: Vec<TcpStream> = (0..300).map(|_| connect(&scratch)).collect();
    for (number, stream) in idle.iter_mut().enumerate() {
        let said: &[u8] = [&b""[..], b"GET /met", &[0xff; 512]][number % 3];
        // Some are cut off while they speak.
        let _ = stream.write_all(said);
    }
    let (head, _) = exchange(connect(&scratch), &format!("{GET}\r\n"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let threads = fs::read_dir(format!("/proc/{}/task", daemon.child.id())).unwrap().count();
    assert!(threads < 20, "{threads} threads for clients of metrics");
    daemon.stop();
}

const SMALL: &str = "[disk.d]\ntype = \"null\"\nsize = \"1MiB\"\n[export.d]\ndevice = \"d\"\n[listen]\nunix = \"nbd.sock\"\n\
                     [control]\nsocket = \"control.sock\"\n[metrics]\ntcp = \"127.0.0.1:0\"\n";

#[test]
fn metrics_are_told_to_this_machine_alone() {
    let scratch = Scratch::with_stack(&SMALL.replace("127.0.0.1:0", "0.0.0.0:9469"));
    scratch.fails("up stack.toml --check", 1, &["an address that others reach", "127.0.0.1"]);
    let scratch = Scratch::with_stack(&SMALL.replace("tcp = \"127.0.0.1:0\"", ""));
    scratch.fails("up stack.toml --check", 1, &["says neither where to listen nor what to write"]);
}

#[test]
fn every_figure_of_a_target_is_a_metric_and_every_metric_is_on_the_page() {
    let scratch = stack();
    let daemon = up(&scratch);
    let all = samples(&scratch.ok("metrics"));
    let families: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(families.len(), FAMILIES.len(), "a name is there twice");
    let shown = |name: &str| {
        let name = name.split('{').next().unwrap().strip_prefix("shingle_").unwrap();
        let ends = ["", "_total", "_count", "_sum", "_bucket"];
        ends.iter().any(|end| name.strip_suffix(end).is_some_and(|name| families.contains(name)))
    };
    all.keys().for_each(|name| assert!(shown(name), "{name} is of no family"));
    let status = scratch.json("status --json");
    for (device, prefix) in [("vol", "stl"), ("old", "dmzoned")] {
        let of_it = |shown: &&Value| shown["name"] == device;
        let found = status["devices"].as_array().unwrap().iter().find(of_it).unwrap();
        let figures = found["figures"][0].as_object().unwrap().len();
        let start = format!("shingle_{prefix}_");
        let told = all.keys().filter(|name| name.starts_with(&start)).count();
        assert_eq!(told, figures, "of `{device}`: {:#}", found["figures"][0]);
    }
    daemon.stop();
}

/// A dashboard that asks for what is not told shows nothing, and nobody knows why.
#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/grafana.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().filter_map(|panel| panel["targets"].as_array());
    let asked: Vec<&str> = targets.flatten().map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(asked.len() > 30, "{asked:?}");
    let told: BTreeSet<String> = FAMILIES.iter().map(|family| format!("shingle_{}", family.sample())).collect();
    for query in asked {
        let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for name in words.filter(|word| word.starts_with("shingle_")) {
            assert!(told.contains(name.strip_suffix("_bucket").unwrap_or(name)), "{name} in {query}");
        }
    }
}
