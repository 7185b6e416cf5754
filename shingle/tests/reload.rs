//! A stack file that is changed under a daemon that runs: what becomes of it, and of those who use the stack.

mod program;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use program::nbd::{Nbd, pattern, verified_random_load};
use program::{Daemon, Scratch};
use serde_json::Value;

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
    scratch.fails("reload", 1, &["stack.toml", "there is no `nosuch`"]);
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
    let patience = std::time::Instant::now() + Duration::from_secs(10);
    while scratch.run("reload").0 != 0 {
        assert!(std::time::Instant::now() < patience, "{}", scratch.run("reload").1);
        thread::sleep(Duration::from_millis(20));
    }
    let moved = without.replace("path = \"a\"", "path = \"c\"").replace("nbd.sock", "other.sock");
    scratch.file("stack.toml", &moved);
    let (code, out, _) = scratch.run("reload");
    assert!(code == 1 && out.contains("change section listen: takes a restart"), "{out}");
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
