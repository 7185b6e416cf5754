//! A stack file that is changed under a daemon that runs: what becomes of it, and of those who use the stack.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::nbd::{Nbd, pattern, verified_random_load};
use crate::program::{Daemon, Scratch, own_address};

const BASE: &str = "
[disk.a]
type = \"file\"
path = \"a\"
[disk.b]
type = \"file\"
path = \"b\"
[device.vol]
table = \"0 2048 linear a 0\"
[export.vol]
device = \"vol\"
[export.b]
device = \"b\"
[listen]
unix = \"nbd.sock\"
[control]
socket = \"control.sock\"
";

fn up() -> (Scratch, Daemon) {
    let scratch = Scratch::new();
    for name in ["a", "b", "c"] {
        fs::write(scratch.0.join(name), vec![0; 4 << 20]).unwrap();
    }
    scratch.file("stack.toml", BASE);
    let daemon = scratch.up();
    (scratch, daemon)
}

/// What a reload says of each change: `verb part name outcome`.
fn told(answer: &Value) -> Vec<String> {
    let word = |change: &Value, key: &str| change[key].as_str().unwrap().to_owned();
    let changes = answer["changes"].as_array().unwrap().iter();
    changes.map(|change| ["verb", "part", "name", "outcome"].map(|key| word(change, key)).join(" ")).collect()
}

#[test]
fn sighup_reloads_the_stack_file_and_ends_nothing() {
    let (scratch, daemon) = up();
    let mut client = Nbd::connect(&scratch, "vol");
    assert_eq!(client.write_status(0, &pattern(0, 1)), 0);
    scratch.file("stack.toml", &format!("{BASE}[export.again]\ndevice = \"b\"\n"));
    daemon.signal(rustix::process::Signal::HUP);
    let is_there = || scratch.ok("status").contains("again");
    let until = Instant::now() + Duration::from_secs(60);
    while !is_there() {
        assert!(Instant::now() < until, "{}", scratch.stderr());
        thread::sleep(Duration::from_millis(20));
    }
    scratch.stderr_with("SIGHUP: add export again: done");
    // A mistake in the file changes nothing, and the daemon goes on.
    scratch.file("stack.toml", "nonsense");
    daemon.signal(rustix::process::Signal::HUP);
    scratch.stderr_with("SIGHUP: the stack file is not in force");
    assert!(client.read(0) == pattern(0, 1));
    drop(client);
    daemon.stop();
}

#[test]
fn what_is_new_is_made_and_what_is_gone_is_removed_and_a_second_reload_finds_nothing() {
    let (scratch, daemon) = up();
    let changed =
        BASE.replace("[disk.b]\ntype = \"file\"\npath = \"b\"\n", "[disk.c]\ntype = \"file\"\npath = \"c\"\n");
    let changed = changed.replace(
        "[export.b]\ndevice = \"b\"\n",
        "[device.low]\ntable = \"0 4096 linear c 0\"\n[export.low]\ndevice = \"low\"\n",
    );
    scratch.file("stack.toml", &changed);
    let verbs = ["add disk c", "add device low", "remove export b", "add export low", "remove disk b"];
    let planned = verbs.map(|verb| format!("{verb} planned"));
    assert_eq!(told(&scratch.json("reload --dry-run --json")), planned, "and nothing is done");
    assert_eq!(told(&scratch.json("reload -n --json")), planned);
    assert_eq!(told(&scratch.json("reload --json")), verbs.map(|verb| format!("{verb} done")));
    assert!(scratch.ok("reload").ends_with("nothing is changed\n"));
    let mut client = Nbd::connect(&scratch, "low");
    client.send(1, 0, &pattern(0, 1));
    client.written(1);
    assert_eq!(client.read(0), pattern(0, 1));
    // Nobody holds the file of a disk that was closed.
    scratch.file("other.toml", "[disk.b]\ntype = \"file\"\npath = \"b\"\n");
    scratch.ok("up --check other.toml");
    let status = scratch.json("status --json");
    let names: Vec<&str> =
        status["devices"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "c", "vol", "low"]);
    drop(client);
    daemon.stop();
}

#[test]
fn a_table_is_swapped_under_users_who_read_what_they_wrote() {
    let (scratch, daemon) = up();
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (client, stop) = (Nbd::connect(&scratch, "vol"), stop.clone());
        thread::spawn(move || verified_random_load(client, &stop))
    };
    for parts in [2, 4, 1] {
        thread::sleep(Duration::from_millis(100));
        let sectors = 2048 / parts;
        let lines = (0..parts).map(|part| format!("{} {sectors} linear a {}", part * sectors, part * sectors));
        let table = lines.collect::<Vec<_>>().join("\\n");
        scratch.file("stack.toml", &BASE.replace("0 2048 linear a 0", &table));
        assert_eq!(told(&scratch.json("reload --json")), ["swap device vol done"], "{parts} lines");
    }
    stop.store(true, Ordering::Relaxed);
    assert!(load.join().unwrap() > 0, "nothing was written");
    daemon.stop();
}

#[test]
fn a_mistake_in_the_file_changes_nothing_and_is_shown_with_its_line() {
    let (scratch, daemon) = up();
    scratch.file("stack.toml", &BASE.replace("linear a 0", "linear nosuch 0"));
    let (code, _, err) = scratch.run("reload");
    assert_eq!((code, err.matches("error").count()), (1, 1), "{err}");
    assert!(err.contains("stack.toml") && err.contains("there is no `nosuch`"), "{err}");
    scratch.file(
        "stack.toml",
        &format!("{BASE}[disk.d]\ntype = \"file\"\npath = \"nosuch\"\n[device.e]\ntable = \"0 8 linear d 0\"\n"),
    );
    let (code, out, _) = scratch.run("reload");
    assert!(code == 1 && out.contains("add disk d: failed") && out.contains("add device e: not tried"), "{out}");
    scratch.file("stack.toml", BASE);
    assert!(scratch.ok("reload").ends_with("nothing is changed\n"));
    daemon.stop();
}

#[test]
fn what_is_in_use_stays_until_it_is_not_and_what_takes_a_restart_is_told() {
    let (scratch, daemon) = up();
    let client = Nbd::connect(&scratch, "b");
    let without =
        BASE.replace("[export.b]\ndevice = \"b\"\n", "").replace("[disk.b]\ntype = \"file\"\npath = \"b\"\n", "");
    scratch.file("stack.toml", &without);
    let (code, out, err) = scratch.run("reload");
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("remove export b: failed: export `b` has 1 connections"), "{out}");
    assert!(out.contains("remove disk b: failed: disk `b` is in use by export `b`"), "{out}");
    drop(client);
    let patience = Instant::now() + Duration::from_secs(10);
    while scratch.run("reload").0 != 0 {
        assert!(Instant::now() < patience, "{}", scratch.run("reload").1);
        thread::sleep(Duration::from_millis(20));
    }
    let moved = without.replace("path = \"a\"", "path = \"c\"").replace("[control]\nsocket = \"control.sock\"\n", "");
    scratch.file("stack.toml", &moved);
    let (code, out, _) = scratch.run("reload");
    assert!(code == 1 && out.contains("change section control: takes a restart: without a control socket"), "{out}");
    assert!(out.contains("change disk a: takes a restart: `path` of a disk that is open stays as it is"), "{out}");
    daemon.stop();
}

#[test]
fn a_device_that_was_made_by_hand_is_left_alone() {
    let (scratch, daemon) = up();
    scratch.dm(&["create", "mine", "--table", "0 8 linear a 2048"]);
    assert!(scratch.ok("reload").ends_with("nothing is changed\n"));
    scratch.file("stack.toml", &format!("{BASE}[device.mine]\ntable = \"0 16 linear a 2048\"\n"));
    let (code, out, _) = scratch.run("reload");
    assert!(code == 1 && out.contains("there is a device `mine` that no stack file has made"), "{out}");
    daemon.stop();
}

/// Whether a server greets there.
fn greets(client: std::io::Result<impl Read>) -> bool {
    let mut greeting = [0; 8];
    client.is_ok_and(|mut client| client.read_exact(&mut greeting).is_ok() && greeting == *b"NBDMAGIC")
}

#[test]
fn clients_come_elsewhere_and_those_who_are_there_stay() {
    let (scratch, daemon) = up();
    let file = |name: &str| scratch.0.join(name);
    let mut there = Nbd::connect(&scratch, "vol");
    there.send(1, 0, &pattern(0, 1));
    there.written(1);
    let moved = BASE.replace("unix = \"nbd.sock\"", "unix = \"other.sock\"\ntcp = \"127.0.0.1:0\"\nconnections = 1");
    scratch.file("stack.toml", &moved);
    assert_eq!(told(&scratch.json("reload --json")), ["change section listen done"]);
    let tcp = scratch.tcp_address();
    assert!(greets(UnixStream::connect(file("other.sock"))) && greets(TcpStream::connect(tcp)));
    assert!(UnixStream::connect(file("nbd.sock")).is_err() && !file("nbd.sock").exists());
    assert_eq!(there.read(0), pattern(0, 1), "who was there stays");
    let places = ["other.sock", &tcp.to_string()];
    let listen = scratch.json("status --json")["listen"].clone();
    assert!(
        places.iter().zip(listen.as_array().unwrap()).all(|(place, told)| told.as_str().unwrap().ends_with(place)),
        "{listen}"
    );
    // One client at each address, as the file says now, that has chosen an export.
    let _one = Nbd::connect_at(&file("other.sock"), "vol").unwrap();
    assert!(Nbd::connect_at(&file("other.sock"), "vol").is_err(), "more than one client");
    // Back again: the limit is that of old, also for who comes to an address that was there before.
    scratch.file("stack.toml", &moved.replace("connections = 1", ""));
    assert_eq!(told(&scratch.json("reload --json")), ["change section listen done"]);
    let _two = Nbd::connect_at(&file("other.sock"), "vol").unwrap();
    daemon.stop();
    assert!(!file("other.sock").exists());
}

#[test]
fn up_and_status_tell_the_port_that_the_system_chose() {
    let (scratch, daemon) = up();
    daemon.stop();
    let stack = BASE.replace("unix = \"nbd.sock\"", "tcp = \"127.0.0.1:0\"");
    scratch.file("stack.toml", &stack);
    let daemon = scratch.up();
    let address = scratch.tcp_address();
    assert_ne!(address.port(), 0);
    assert!(greets(TcpStream::connect(address)));
    let told = format!("listening on tcp:{address} (for this machine, without TLS)");
    assert!(daemon.notice.contains(&told), "{:?}", daemon.notice);
    assert!(scratch.ok("status").contains(&told));
    scratch.file("stack.toml", &stack.replace("[export.b]\ndevice = \"b\"\n", ""));
    scratch.ok("reload");
    assert_eq!(scratch.tcp_address(), address, "a reload leaves it as it is");
    daemon.stop();
}

#[test]
fn an_address_that_cannot_be_had_leaves_everything_where_it_was() {
    let (scratch, daemon) = up();
    let address = own_address();
    let taken = TcpListener::bind(address).unwrap();
    let moved = BASE.replace("nbd.sock\"", &format!("new.sock\"\ntcp = \"{address}\""));
    scratch.file("stack.toml", &moved);
    let (code, out, _) = scratch.run("reload");
    let failed = format!("change section listen: failed: cannot listen on tcp:{address}:");
    assert!(code == 1 && out.contains(&failed), "{out}");
    assert!(!scratch.0.join("new.sock").exists(), "the one that could be had is given back");
    Nbd::connect(&scratch, "vol").read(0);
    drop(taken);
    assert_eq!(told(&scratch.json("reload --json")), ["change section listen done"]);
    daemon.stop();
}

#[test]
fn metrics_the_page_and_the_control_socket_move_and_go() {
    let (scratch, daemon) = up();
    let connects = |name: &str| UnixStream::connect(scratch.0.join(name)).is_ok();
    let sections = |text: &str| scratch.file("stack.toml", &(BASE.to_owned() + text));
    sections("[metrics]\nunix = \"m.sock\"\nfile = \"m.prom\"\n[web]\nunix = \"w.sock\"\n");
    assert_eq!(told(&scratch.json("reload --json")), ["change section metrics done", "change section web done"]);
    assert!(connects("m.sock") && connects("w.sock") && scratch.0.join("m.prom").exists());
    let token = |scratch: &Scratch| {
        let web = scratch.json("status --json")["web"][0].as_str().unwrap().to_owned();
        web.split_once("#token=").unwrap().1.to_owned()
    };
    let made = token(&scratch);
    sections("[metrics]\nunix = \"m.sock\"\n[web]\nunix = \"w2.sock\"\n");
    scratch.ok("reload");
    assert!(connects("m.sock") && connects("w2.sock") && !connects("w.sock") && !scratch.0.join("m.prom").exists());
    assert_eq!(token(&scratch), made, "who has the page open goes on");
    let chosen = "a-token-that-somebody-chose";
    let told_token = format!("[web]\nunix = \"w2.sock\"\ntoken = \"{chosen}\"\n");
    scratch.file("stack.toml", &(BASE.replace("control.sock", "c.sock") + &told_token));
    let verbs = ["change section metrics done", "change section web done", "change section control done"];
    assert_eq!(told(&scratch.json("reload --json")), verbs);
    assert!(!connects("control.sock") && !connects("m.sock") && connects("c.sock"));
    let status = scratch.json("status --json --control c.sock");
    assert!(status["web"][0].as_str().unwrap().ends_with(chosen) && status["metrics"] == serde_json::json!([]));
    assert!(scratch.ok("reload --control c.sock").ends_with("nothing is changed\n"));
    daemon.stop();
    assert!(["c.sock", "w2.sock"].iter().all(|name| !scratch.0.join(name).exists()));
}

#[test]
fn paths_come_and_go_under_io_and_their_device_goes_when_nobody_uses_it() {
    const PATHS: &str = "
[device.p0]
table = \"0 2048 linear c 0\"
[device.p1]
table = \"0 2048 linear c 0\"
[device.m]
paths = [\"p0\", { device = \"p1\", state = \"non-optimized\" }]
[export.m]
device = \"m\"
[disk.c]
type = \"file\"
path = \"c\"
";
    let (scratch, daemon) = up();
    let stack = |text: &str| scratch.file("stack.toml", &(BASE.to_owned() + text));
    stack(PATHS);
    scratch.ok("reload");
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (client, stop) = (Nbd::connect(&scratch, "m"), stop.clone());
        thread::spawn(move || verified_random_load(client, &stop))
    };
    let paths = || scratch.json("path list m --json")["devices"][0]["paths"].clone();
    let state = |number: usize| paths()[number]["state"].as_str().unwrap().to_owned();
    // What an operator added is nobody's part of the file.
    scratch.dm(&["create", "mine", "--table", "0 2048 linear c 0"]);
    scratch.ok("path add m mine");
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(50));
        stack(
            &PATHS
                .replace("[device.p1]\ntable = \"0 2048 linear c 0\"\n", "")
                .replace(", { device = \"p1\", state = \"non-optimized\" }", ""),
        );
        assert_eq!(told(&scratch.json("reload --json")), ["change device m done", "remove device p1 done"]);
        assert_eq!(paths().as_array().unwrap().len(), 2);
        thread::sleep(Duration::from_millis(50));
        stack(PATHS);
        assert_eq!(told(&scratch.json("reload --json")), ["add device p1 done", "change device m done"]);
        assert_eq!(state(1), "non-optimized");
    }
    stack(&PATHS.replace("state = \"non-optimized\" }]", "state = \"optimized\" }]\npolicy = \"round-robin\""));
    assert_eq!(told(&scratch.json("reload --json")), ["change device m done", "set device m done"]);
    assert_eq!((state(1).as_str(), paths().as_array().unwrap().len()), ("optimized", 3));
    let gone = PATHS.split("[device.m]").next().unwrap();
    let disk = "[disk.c]\ntype = \"file\"\npath = \"c\"\n";
    stack(&(gone.to_owned() + disk));
    let (code, out, _) = scratch.run("reload");
    assert!(code == 1 && out.contains("remove device m: failed: device `m` is in use by export `m`"), "{out}");
    stop.store(true, Ordering::Relaxed);
    assert!(load.join().unwrap() > 0, "nothing was written");
    let patience = Instant::now() + Duration::from_secs(10);
    while scratch.run("reload").0 != 0 {
        assert!(Instant::now() < patience, "{}", scratch.run("reload").1);
        thread::sleep(Duration::from_millis(20));
    }
    scratch.dm(&["remove", "mine"]);
    stack("");
    let removed = ["remove device p1 done", "remove device p0 done", "remove disk c done"];
    assert_eq!(told(&scratch.json("reload --json")), removed, "they are nobody's paths any more");
    daemon.stop();
}
