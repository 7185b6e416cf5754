//! Devices with several paths as users run them: I/O goes on while a path fails, `shingle path` shows and changes it.

#[path = "../../host/benches/support/client.rs"]
mod client;
mod program;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use client::{READ, WRITE, option, request};
use program::Scratch;
use serde_json::Value;

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

const BLOCK: usize = 4096;

fn with_stack() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("stack.toml", STACK);
    scratch
}

impl Scratch {
    /// Gives a mapped device another table, under I/O.
    #[track_caller]
    fn swap(&self, device: &str, table: &str) {
        for words in [vec!["load", device, "--table", table], vec!["resume", device]] {
            let output = self.shingle().arg("dm").args(&words).stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "dm {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    #[track_caller]
    fn dm_fails(&self, words: &[&str], says: &str) {
        let output = self.shingle().arg("dm").args(words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(says), "dm {words:?}: {said}");
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

/// An NBD client with one request at a time or several.
struct Nbd(UnixStream);

impl Nbd {
    fn connect(scratch: &Scratch, export: &str) -> Self {
        let mut socket = UnixStream::connect(scratch.0.join("nbd.sock")).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        socket.write_all(&[&3_u32.to_be_bytes()[..], &option(1, export.as_bytes())].concat()).unwrap();
        socket.read_exact(&mut [0; 10]).unwrap();
        Self(socket)
    }

    /// Sends a write of these blocks, or a read; the cookie is the offset.
    fn send(&mut self, command: u16, offset: u64, data: &[u8]) {
        let mut bytes = request(command, 0, offset, offset, data.len() as u32).to_vec();
        if command == WRITE {
            bytes.extend_from_slice(data);
        }
        self.0.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> u64 {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "a reply without an error");
        u64::from_be_bytes(reply[8..].try_into().unwrap())
    }

    fn receive_any(&mut self) {
        let _ = self.receive();
    }

    fn read(&mut self, offset: u64) -> Vec<u8> {
        let mut data = vec![0; BLOCK];
        self.send(READ, offset, &data);
        assert_eq!(self.receive(), offset);
        self.0.read_exact(&mut data).unwrap();
        data
    }
}

fn pattern(seed: u64) -> Vec<u8> {
    (0..BLOCK as u64 / 8).flat_map(|word| (seed.wrapping_mul(2 * word + 1)).to_le_bytes()).collect()
}

/// Writes eight blocks at a time and reads them again, until `stop`; counts rounds in `rounds`.
fn write_and_read(mut client: Nbd, stop: &AtomicBool, rounds: &AtomicU64) {
    while !stop.load(Relaxed) {
        let round = rounds.load(Relaxed);
        let offsets: Vec<u64> = (0..8).map(|n| (round * 8 + n) * BLOCK as u64 % (16 << 20)).collect();
        offsets.iter().for_each(|offset| client.send(WRITE, *offset, &pattern(round ^ offset)));
        (0..offsets.len()).for_each(|_| client.receive_any());
        offsets.iter().for_each(|offset| assert!(client.read(*offset) == pattern(round ^ offset), "{offset}"));
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
    let scratch = with_stack();
    let daemon = scratch.up();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let client = Nbd::connect(&scratch, "m");
    thread::scope(|scope| {
        let load = scope.spawn(|| write_and_read(client, &stop, &rounds));
        let paths = scratch.await_paths("m", |paths| paths.iter().all(|path| number(path, "sent") > 0));
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
        stop.store(true, Relaxed);
        load.join().unwrap();
    });
    daemon.stop();
}

#[test]
fn a_path_that_failed_comes_back_by_itself() {
    let scratch = with_stack();
    let daemon = scratch.up();
    scratch.swap("p0", "0 32768 faulty d 0 seed=1 error,op=any,status=transport");
    let mut client = Nbd::connect(&scratch, "m");
    assert_eq!(client.read(0), vec![0; BLOCK]);
    assert_eq!(health(&scratch.paths("m")), ["failed", "live"]);
    scratch.swap("p0", "0 32768 linear d 0");
    let paths = scratch.await_paths("m", |paths| health(paths) == ["live", "live"]);
    assert!(number(&paths[0], "probes") > 0, "{paths:?}");
    daemon.stop();
}

/// The first path carries out what it says it did not: a retry that did not look would find the write pointer elsewhere.
#[test]
fn zones_stay_in_order_through_a_failover() {
    let scratch = with_stack();
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "n");
    let write = |client: &mut Nbd, blocks: std::ops::Range<u64>| {
        blocks.clone().for_each(|block| client.send(WRITE, block * BLOCK as u64, &pattern(block + 1)));
        blocks.for_each(|_| client.receive_any());
    };
    write(&mut client, 0..16);
    assert_eq!(number(&scratch.paths("n")[1], "sent"), 0, "it is not optimized");
    scratch
        .swap("z0", "0 131072 faulty z 0 seed=1 error-after,op=write,status=transport,count=1 error,status=transport");
    write(&mut client, 16..32);
    let paths = scratch.paths("n");
    assert_eq!(health(&paths), ["failed", "live"]);
    assert!(number(&paths[0], "failovers") > 0 && number(&paths[1], "sent") > 0, "{paths:?}");
    (0..32).for_each(|block| assert!(client.read(block * BLOCK as u64) == pattern(block + 1), "{block}"));
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
    (0..8).rev().for_each(|block| client.send(WRITE, (7 - block) * BLOCK as u64, &pattern(block)));
    (0..8).for_each(|_| client.receive_any());
    (0..8).for_each(|block| assert!(client.read(block * BLOCK as u64) == pattern(7 - block), "{block}"));
    assert_eq!(scratch.paths("o")[0]["share_percent"].as_f64(), Some(100.0));
    daemon.stop();
}

#[test]
fn states_and_policies_are_changed_live_and_shown() {
    let scratch = with_stack();
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
fn what_cannot_be_done_to_paths_says_why_and_what_can() {
    let scratch = with_stack();
    let daemon = scratch.up();
    scratch.fails("path fail m p3", 1, &["`m` has no path `p3`; did you mean `p", "its paths are: p0, p1"]);
    scratch.fails("path list d", 1, &["`d` (null) does not have several paths; devices that do: m, n"]);
    scratch.fails("path list mm", 1, &["there is no device `mm`; did you mean `m`?"]);
    scratch.fails("path policy m latncy", 1, &["there is no policy `latncy` of paths; did you mean `latency`?"]);
    scratch.fails("path state m p0 good", 1, &["known are: optimized, non-optimized, inaccessible"]);
    scratch.dm_fails(&["remove", "p0"], "in use");
    scratch.dm_fails(&["create", "w", "--table", "0 8 linear p0 0"], "`m` alone may write to `p0`");
    scratch.fails("export add w p0", 1, &["`m` alone may write to it"]);
    scratch.fails("zones reset z0", 1, &["in use by", "`n`, whose path it is"]);
    scratch.swap("p1", "0 32768 linear d 0");
    // A table may lie on the device, and the daemon ends in the right order.
    let top = ["dm", "create", "top", "--table", "0 32768 linear m 0"];
    assert!(scratch.shingle().args(top).stdin(Stdio::null()).status().unwrap().success());
    daemon.stop();
}
