//! The program as users run it: every command, a daemon that lives, dies and comes back, and wrong input.

use std::fs;
use std::io::{BufRead, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::nbd::Nbd;
use crate::program::{Control, Scratch};

const STACK: &str = "\
[disk.smr]
type = \"zoned-dir\"
path = \"disk0\"
[disk.mem]
type = \"null\"
size = \"16MiB\"
zone-size = \"1MiB\"
memory-backed = true
shard = 1
[device.seq]
table = \"0 28672 linear smr 4096\"
[export.seq]
device = \"seq\"
[export.mem]
device = \"mem\"
read-only = true
[listen]
unix = \"nbd.sock\"
[control]
socket = \"control.sock\"
";

/// A disk of 16 zones of 1 MiB, 2 of them conventional, and a stack over it.
fn with_disk() -> Scratch {
    let scratch = Scratch::new();
    scratch.ok("create disk0 --size 16MiB --zone-size 1MiB --conventional 2 --max-open 4");
    scratch.file("stack.toml", STACK);
    scratch
}

/// Writes 64 KiB into the first four zones of device `smr` of a stopped stack.
fn write_some(scratch: &Scratch) {
    scratch.ok(
        "bench --stack stack.toml --device seq --rw=write --bs=4k --iodepth=8 --size=1MiB --io_size=64KiB --randseed=7",
    );
}

#[test]
fn a_new_disk_says_what_it_is_and_cannot_be_made_twice() {
    let scratch = Scratch::new();
    let made = scratch.ok("create d --size 16MiB --zone-size 1MiB --conventional 2");
    assert!(made.contains("16 zones of 1 MiB (2 conventional, 14 sequential"), "{made}");
    assert!(made.contains("next: shingle zones report d"), "{made}");
    scratch.fails("create d --size 16MiB --zone-size 1MiB", 1, &["d: ", "empty directory"]);
    let made = scratch.json("create e --size 8MiB --zone-size 1MiB --zone-capacity 512KiB --no-append --json");
    assert_eq!(
        (&made["zones"], &made["zone_capacity_bytes"], &made["append"]),
        (&json!(8), &json!(524288), &json!(false))
    );
}

#[test]
fn a_directory_of_zone_files_is_adopted_with_what_it_holds() {
    let scratch = with_disk();
    write_some(&scratch);
    let before = scratch.json("zones report disk0 --json")["zones"].clone();
    let geometry = scratch.0.join("disk0/shingle-disk.toml");
    let text = fs::read_to_string(&geometry).unwrap();
    fs::write(&geometry, "nonsense").unwrap();
    scratch.fails("zones report disk0", 1, &["move it away and let `shingle create --adopt` write it anew"]);
    fs::remove_file(&geometry).unwrap();
    scratch.fails(
        "zones report disk0",
        1,
        &["there is no shingle-disk.toml", "`shingle create --adopt` with its sizes"],
    );
    let adopt = "create --adopt disk0 --zone-size 1MiB --max-open 4";
    scratch.fails(&format!("{adopt} --size 16MiB --conventional 3"), 1, &["seq-000002", "check the geometry"]);
    scratch.fails(&format!("{adopt} --size 32MiB --conventional 2"), 1, &["is missing"]);
    assert!(!geometry.exists(), "what does not fit is left alone");
    let said = scratch.ok(&format!("{adopt} --size 16MiB --conventional 2"));
    assert!(said.starts_with("adopted disk0: 16 MiB, 16 zones of 1 MiB"), "{said}");
    assert_eq!(scratch.json("zones report disk0 --json")["zones"], before);
    assert_eq!(fs::read_to_string(&geometry).unwrap(), text);
    let said = scratch.ok(&format!("{adopt} --size 16MiB --conventional 2"));
    assert!(said.starts_with("adopted"), "again changes nothing: {said}");
    scratch.fails("create --adopt none --size 16MiB --zone-size 1MiB", 1, &["there is no such directory"]);
}

#[test]
fn impossible_disks_are_refused_and_nothing_is_made() {
    let scratch = Scratch::new();
    for (words, says) in [
        (
            "--size 16MiB --zone-size 3MiB",
            "--zone-size of 3 MiB is not a power of two from 512 B to 1 TiB: use 2 MiB or 4 MiB",
        ),
        ("--size 8TiB --zone-size 2TiB", "not a power of two from 512 B to 1 TiB: use 1 TiB\n"),
        (
            "--size 16MiB --zone-size 0",
            "--zone-size of 0 B is not a power of two from 512 B to 1 TiB: use 512 B or 1 KiB",
        ),
        (
            "--size 16MiB --zone-size 1MiB --conventional 16",
            "leaves none of the 16 zones to be sequential: use 15 or less",
        ),
        ("--size 16MiB --zone-size 1MiB --zone-capacity 2MiB", "capacity"),
        ("--size 16MiB --zone-size 1MiB --max-open 5 --max-active 4", "max_open"),
        ("--size 16MB --zone-size 1MiB", "16MiB"),
        ("--size 16MiB --zone-size 1MiB --block-size 3000", "power of two"),
        ("--size 1000 --zone-size 1MiB", "multiple of 512"),
    ] {
        scratch.fails(&format!("create d {words}"), 2, &[says]);
        assert!(!scratch.0.join("d").exists(), "{words}");
    }
    scratch.fails(
        "create missing/d --size 16MiB --zone-size 1MiB",
        1,
        &["missing/d", "check the path, and that the directory above exists"],
    );
}

#[test]
fn zones_of_a_directory_are_reported_and_changed_as_blkzone_does() {
    let scratch = with_disk();
    write_some(&scratch);
    let report = scratch.ok("zones report disk0 --offset 0x1000 --count 2");
    let expected = "  start: 0x000001000, len 0x000800, cap 0x000800, wptr 0x000080 reset:0 non-seq:0, zcond: 4(cl) \
                    [type: 2(SEQ_WRITE_REQUIRED)]\n  start: 0x000001800, len 0x000800, cap 0x000800, wptr 0x000000 \
                    reset:0 non-seq:0, zcond: 1(em) [type: 2(SEQ_WRITE_REQUIRED)]\n";
    assert_eq!(report, expected);
    assert_eq!(scratch.ok("zones capacity disk0"), "0x000008000\n");
    assert_eq!(scratch.ok("zones report disk0 --type conv").lines().count(), 2);
    assert_eq!(scratch.ok("zones report disk0 --cond cl,fu").lines().count(), 1);
    assert_eq!(scratch.json("zones report disk0 -o 4096 -c 1 --json")["zones"][0]["wp"], json!(4224));
    scratch.ok("zones finish disk0 -o 4096 -c 2 --verbose");
    assert_eq!(scratch.ok("zones report disk0 --cond fu").lines().count(), 2);
    scratch.ok("zones reset disk0");
    assert_eq!(scratch.ok("zones report disk0 --cond em").lines().count(), 14);
}

#[test]
fn zone_ranges_that_are_none_are_refused() {
    let scratch = with_disk();
    scratch.fails("zones reset disk0 -o 100", 1, &["not the start of a zone", "use 0"]);
    scratch.fails("zones reset disk0 -o 4096 -l 100", 1, &["not a whole number of zones", "use 2048"]);
    scratch.fails("zones reset disk0 -o 99999999", 1, &["past the end"]);
    scratch.fails("zones report disk0 -o 99999999", 1, &["past the end"]);
    scratch.fails("zones reset disk0 -o 4096 -l 2048 -c 1", 2, &["cannot be used with"]);
    scratch.fails("zones close disk0 -o 0 -c 1", 1, &["cnv-000000: zone 0 is conventional"]);
    scratch.fails("zones close disk0 -o 4096 -c 1", 1, &["seq-000002: zone 2 is in condition EMPTY"]);
    scratch.fails("zones open disk0 -o 4096 -c 1", 1, &["disk0: zones stay open as long as", "shingle up"]);
    scratch.fails("zones report nothing", 1, &["there is no directory `nothing`", "shingle up"]);
    fs::write(scratch.0.join("disk0/seq-000005"), vec![0; (1 << 20) + 4096]).unwrap();
    scratch.fails("zones report disk0", 1, &["seq-000005", "takes 1048576 bytes"]);
}

#[test]
fn a_daemon_says_when_it_is_ready_answers_and_stops_cleanly() {
    let scratch = with_disk();
    let daemon = scratch.up();
    let expected = [
        "export seq: 14 MiB",
        "export mem: 16 MiB, read-only",
        "listening on unix:nbd.sock (for who may use the socket file)",
        "control socket control.sock",
        "ready",
    ];
    assert_eq!(daemon.notice, expected);
    let mode = fs::metadata(scratch.0.join("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let status = scratch.ok("status");
    assert!(status.lines().all(|line| line.chars().count() <= 80), "{status}");
    assert!(status.contains("smr") && status.contains("zoned-dir") && status.contains("plug"), "{status}");
    let status = scratch.json("status --json");
    let names: Vec<&str> = status["devices"].as_array().unwrap().iter().map(|d| d["name"].as_str().unwrap()).collect();
    assert_eq!((names, &status["shards"], &status["stuck"]), (vec!["smr", "mem", "seq"], &json!(2), &json!([])));
    daemon.stop();
    assert!(!scratch.0.join("control.sock").exists() && !scratch.0.join("nbd.sock").exists(), "sockets are left over");
    scratch.fails("status", 1, &["cannot reach a daemon at control.sock", "shingle up"]);
}

#[test]
fn profile_list_says_which_drives_lose_unflushed_writes() {
    let scratch = Scratch::new();
    let text = scratch.ok("profile list");
    let row = |name: &str| text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap().to_owned();
    for (name, words) in [
        ("smr-14tb", "loses unflushed writes"),
        ("zns-1tb", "keeps acknowledged writes"),
        ("zns-1tb-volatile", "loses unflushed writes"),
        ("ssd-500gb", "loses unflushed writes"),
        ("ram", "keeps acknowledged writes"),
        ("null", "-"),
    ] {
        assert!(row(name)[name.len()..].trim_start().starts_with(&format!("{words}  ")), "{text}");
    }
    let list = scratch.json("profile list --json");
    let list = list["profiles"].as_array().unwrap();
    let loses = |name: &str| &list.iter().find(|profile| profile["name"] == name).unwrap()["loses_unflushed_writes"];
    let found = ["zns-1tb", "zns-1tb-volatile", "null"].map(loses);
    assert_eq!(found, [&json!(false), &json!(true), &json!(null)]);
}

#[test]
fn a_socket_path_that_is_too_long_is_shown_with_the_limit() {
    let scratch = with_disk();
    let long = format!("/nonexistent/{}.sock", "x".repeat(110));
    let words = [long.as_str(), "the path has 128 bytes, and that of a unix socket at most 107"];
    scratch.fails(
        &format!("status --control {long}"),
        1,
        &[&words[..], &["change to its directory", ".sock`"]].concat(),
    );
    scratch.file(
        "stack.toml",
        &format!("[disk.d]\ntype = \"zoned-dir\"\npath = \"disk0\"\n[control]\nsocket = \"{long}\"\n"),
    );
    scratch.fails("up stack.toml", 1, &[&words[..], &["use a shorter path"]].concat());
}

#[test]
fn zones_are_reached_through_the_daemon_by_name_and_by_directory() {
    let scratch = with_disk();
    write_some(&scratch);
    let daemon = scratch.up();
    let by_name = scratch.ok("zones report smr");
    assert_eq!((by_name.lines().count(), scratch.ok("zones report disk0")), (16, by_name), "the daemon has it open");
    assert_eq!(scratch.ok("zones report seq").lines().count(), 14, "a device that is a part of the disk");
    assert_eq!(scratch.ok("zones capacity seq --control control.sock"), "0x000007000\n");
    scratch.ok("zones open smr -o 6144 -c 2 --force");
    assert_eq!(scratch.ok("zones report smr --cond oe").lines().count(), 2);
    scratch.ok("zones close smr -o 6144 -c 2 --force");
    scratch.ok("zones finish seq -o 2048 -c 1 --force");
    assert_eq!(scratch.ok("zones report smr --cond fu"), scratch.ok("zones report smr -o 6144 -c 1"));
    let why = "smr/disk: ZONE_OPEN 6144+0: zone 3 is in condition FULL";
    scratch.fails("zones open smr -o 4096 -c 6 -f", 1, &["ZONE_OPEN of `smr` at sector 6144", why]);
    scratch.fails("zones reset smr -o 1 -c 1", 1, &["not the start of a zone"]);
    scratch.fails("zones report nothing", 1, &["there is no device `nothing`", "smr, seq, mem"]);
    scratch.ok("zones reset disk0 --force");
    assert_eq!(scratch.ok("zones report smr --cond em").lines().count(), 14);
    daemon.stop();
    let said = scratch.stderr();
    assert_eq!(said.matches(why).count(), 1, "a failure is one line in the log:\n{said}");
}

#[test]
fn zones_on_which_a_table_or_an_export_lies_are_changed_by_force_alone() {
    let scratch = with_disk();
    write_some(&scratch);
    let _daemon = scratch.up();
    let before = scratch.ok("zones report smr");
    for action in ["reset", "finish", "open", "close"] {
        for (target, user) in [("smr", "the table of `seq`"), ("disk0", "the table of `seq`"), ("seq", "export `seq`")]
        {
            scratch.fails(&format!("zones {action} {target}"), 1, &[user, "in use", "--force"]);
        }
    }
    let request = r#"{"v":1,"op":"zones.reset","device":"smr","start":4096,"length":2048}"#;
    assert_eq!(scratch.control().error_kind(request), "busy");
    assert_eq!(scratch.ok("zones report smr"), before);
    scratch.ok("zones reset smr -o 4096 -c 1 --force");
    assert_ne!(scratch.ok("zones report smr"), before);
    // Nobody has data there any more.
    scratch.ok("export remove seq");
    scratch.ok("zones finish seq -c 1");
    scratch.ok("dm remove seq");
    scratch.ok("zones reset smr");
    // A table that only waits to be used counts.
    scratch.ok("dm create later --notable");
    let load = scratch.shingle().args(["dm", "load", "later", "--table", "0 4096 linear smr 4096"]).status().unwrap();
    assert!(load.success());
    scratch.fails("zones reset smr", 1, &["the table of `later`"]);
}

#[test]
fn plugs_are_dumped_and_the_policy_changes_while_the_disk_is_in_use() {
    let scratch = with_disk();
    write_some(&scratch);
    let _daemon = scratch.up();
    assert_eq!(scratch.ok("plugs smr"), "Zone no: 2, flags: 0x0, ref: 1, cond: ACTIVE, wp ofst: 128, pending BIO: 0\n");
    assert_eq!(scratch.ok("plugs smr --format debugfs-6.12"), "2 0x0 1 128 0\n");
    assert_eq!(scratch.json("plugs smr --json")["active"], json!(0));
    assert_eq!(scratch.ok("policy smr"), "plug\n");
    for policy in ["qd1", "elevator", "zone-lock", "none", "plug"] {
        scratch.ok(&format!("policy smr {policy}"));
        assert_eq!(scratch.ok("policy smr"), format!("{policy}\n"));
    }
    scratch.fails("policy smr fifo", 1, &["unknown write policy", "zone-lock"]);
    scratch.fails("plugs seq", 1, &["`seq` has no plugs and no policy"]);
}

#[test]
fn scheduler_changes_while_the_disk_is_in_use() {
    let scratch = with_disk();
    write_some(&scratch);
    let keys = "path = \"disk0\"\nscheduler = \"mq-deadline\"\nqueue-depth = 8";
    scratch.file("stack.toml", &STACK.replace("path = \"disk0\"", keys));
    let _daemon = scratch.up();
    assert_eq!(scratch.ok("scheduler smr"), "mq-deadline, queue depth 8\n");
    let devices = scratch.json("status --json")["devices"].clone();
    let smr = devices.as_array().unwrap().iter().find(|device| device["name"] == "smr").unwrap();
    assert_eq!((&smr["scheduler"], &smr["queue_depth"]), (&json!("mq-deadline"), &json!(8)));
    assert!(scratch.ok("status").lines().any(|line| line.starts_with("smr ") && line.contains("mq-deadline")));
    assert_eq!(scratch.ok("scheduler smr none"), "smr: mq-deadline -> none\n");
    assert_eq!(scratch.ok("scheduler smr mq-deadline"), "smr: none -> mq-deadline, queue depth 8\n");
    assert_eq!(scratch.ok("scheduler smr --queue-depth 2"), "smr: mq-deadline -> mq-deadline, queue depth 2\n");
    let answer = json!({"scheduler": "none", "before": "none", "queue_depth": null});
    assert_eq!(scratch.json("scheduler mem --json"), answer);
    scratch.fails("scheduler smr kyber", 1, &["unknown scheduler; use one of: none, mq-deadline"]);
    scratch.fails("scheduler smr --queue-depth 0", 1, &["1 to 10240"]);
    scratch.fails("scheduler mem --queue-depth 4", 1, &["belongs to scheduler `mq-deadline`"]);
    scratch.fails("scheduler seq", 1, &["`seq` is not a disk"]);
    scratch.fails("scheduler nothing", 1, &["there is no device `nothing`"]);
    scratch.file("stack.toml", STACK);
    assert!(scratch.ok("reload").contains("smr"));
    assert_eq!(scratch.ok("scheduler smr"), "none\n");
}

#[test]
fn a_zoned_disk_that_turns_gets_qd1_unless_a_policy_is_named() {
    let scratch = with_disk();
    let turning = "type = \"null\"\nsize = \"64MiB\"\nzone-size = \"1MiB\"\nrotational = true";
    let control = "[control]\nsocket = \"control.sock\"";
    let stack = format!("[disk.a]\n{turning}\n[disk.b]\n{turning}\npolicy = \"elevator\"\n{control}\n");
    scratch.file("stack.toml", &stack);
    let _daemon = scratch.up();
    assert_eq!([scratch.ok("policy a"), scratch.ok("policy b")], ["qd1\n", "elevator\n"]);
    assert_eq!(scratch.json("plugs b --json")["longest_wait_ns"], json!(0));
    assert_eq!(scratch.json("policy a elevator --json"), json!({"policy": "elevator", "before": "qd1"}));
}

#[test]
fn a_killed_daemon_leaves_nothing_that_keeps_the_next_one_from_starting() {
    let scratch = with_disk();
    write_some(&scratch);
    let daemon = scratch.up();
    let before = scratch.ok("zones report smr");
    daemon.kill();
    assert!(scratch.0.join("control.sock").exists(), "there is a stale socket to get over");
    let daemon = scratch.up();
    assert_eq!(scratch.ok("zones report smr"), before);
    daemon.stop();
    scratch.ok("bench --stack stack.toml --device seq --rw=read --bs=4k --size=1MiB --io_size=64KiB");
}

#[test]
fn two_daemons_cannot_have_one_disk_and_the_second_says_so() {
    let scratch = with_disk();
    let daemon = scratch.up();
    scratch.file("second.toml", &STACK.replace("nbd.sock", "other.sock").replace("control.sock", "c2.sock"));
    scratch.fails(
        "up second.toml",
        1,
        &["disk `smr` cannot be opened", "second.toml:3", "another process has this disk open"],
    );
    daemon.stop();
}

#[test]
fn a_zone_file_that_vanishes_under_a_daemon_is_named() {
    let scratch = with_disk();
    let daemon = scratch.up();
    fs::remove_file(scratch.0.join("disk0/seq-000005")).unwrap();
    scratch.fails("zones finish smr --offset 10240 --count 1 --force", 1, &["10240"]);
    daemon.stop_with(1);
    let said = scratch.stderr();
    // The look of every second may see it before the command does: both tell the same.
    for words in ["disk=\"smr\"", "seq-000005", "restore the file", "the last flush failed"] {
        assert!(said.contains(words), "{words} is missing in {said}");
    }
}

#[test]
fn an_interrupt_is_a_clean_stop() {
    let scratch = with_disk();
    let mut daemon = scratch.up();
    daemon.signal(rustix::process::Signal::INT);
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_service_manager_is_told_that_the_daemon_is_ready_and_that_it_goes_round() {
    let scratch = with_disk();
    let socket = std::os::unix::net::UnixDatagram::bind(scratch.0.join("notify")).unwrap();
    let mut command = scratch.shingle();
    let mut child = command
        .args(["up", "stack.toml"])
        .env("NOTIFY_SOCKET", scratch.0.join("notify"))
        .env("WATCHDOG_USEC", "400000")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut told = [0; 64];
    let length = socket.recv(&mut told).unwrap();
    assert_eq!(&told[..length], b"READY=1\nSTATUS=serving");
    // Again and again, as long as all shards answer.
    for _ in 0..3 {
        let length = socket.recv(&mut told).unwrap();
        assert_eq!(&told[..length], b"WATCHDOG=1");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn sockets_lie_where_a_service_manager_has_made_a_place_for_them() {
    let scratch = with_disk();
    let place = scratch.0.join("run");
    std::fs::create_dir(&place).unwrap();
    // Of several the first.
    let daemon = scratch.up_as(
        scratch.shingle().args(["up", "stack.toml"]).env("RUNTIME_DIRECTORY", format!("{}:/nowhere", place.display())),
    );
    assert!(place.join("control.sock").exists() && !scratch.0.join("control.sock").exists());
    scratch.ok(&format!("status --control {}", place.join("control.sock").display()));
    daemon.stop();
}

#[test]
fn a_disk_that_comes_late_is_waited_for() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(600));
            scratch.ok("create disk0 --size 16MiB --zone-size 1MiB --conventional 2");
        });
        let daemon =
            scratch.up_as(scratch.shingle().args(["up", "stack.toml", "--wait", "60s"]).stderr(scratch.stderr_file()));
        late.join().unwrap();
        daemon
    });
    assert!(scratch.stderr().contains("waiting for disk `smr`"), "{}", scratch.stderr());
    daemon.stop();
    std::fs::remove_dir_all(scratch.0.join("disk0")).unwrap();
    scratch.fails("up stack.toml --wait 300ms", 1, &["disk `smr` cannot be opened"]);
}

#[test]
fn wrong_stack_files_are_shown_with_their_lines_before_anything_is_touched() {
    let scratch = Scratch::with_stack(STACK);
    scratch.fails(
        "up stack.toml",
        1,
        &["disk `smr` cannot be opened", "stack.toml:3:8", "create it with: shingle create", "disk0"],
    );
    scratch.fails("up --check nothing.toml", 1, &["cannot read the stack file"]);
    scratch.file("bad.toml", "[disk.a]\ntype = \"nul\"\n");
    scratch.fails("up --check bad.toml", 1, &["bad.toml:2:8", "did you mean \"null\"?"]);
    scratch.fails("up --check stack.toml", 1, &["disk `smr` cannot be opened", "stack.toml:3:8"]);
    scratch.ok("create disk0 --size 16MiB --zone-size 1MiB --conventional 2");
    assert!(scratch.ok("up --check stack.toml").contains("no mistakes found"));
    let missing = "[disk.a]\ntype = \"zoned-dir\"\npath = \"no-dir\"\n[disk.b]\ntype = \"file\"\npath = \"no-file\"\n";
    scratch.file("missing.toml", missing);
    let both = ["missing.toml:3:8", "shingle create no-dir", "missing.toml:6:8"];
    scratch.fails("up --check missing.toml", 1, &both);
    scratch.file("busy.toml", &STACK.replace("nbd.sock", "stack.toml").replace("disk0", "d"));
    scratch.ok("create d --size 16MiB --zone-size 1MiB --conventional 2");
    scratch.fails("up busy.toml", 1, &["stack.toml", "no socket"]);
    assert_eq!(
        fs::read_to_string(scratch.0.join("stack.toml")).unwrap(),
        STACK,
        "a file that is no socket is left alone"
    );
}

#[test]
fn requests_that_make_no_sense_are_answered_with_their_kind() {
    let scratch = with_disk();
    let _daemon = scratch.up();
    let mut control = scratch.control();
    let kinds = [
        ("this is no JSON", "bad-request"),
        ("[1, 2]", "bad-request"),
        ("{\"op\":\"status\"}", "unsupported-version"),
        ("{\"v\":2,\"op\":\"status\"}", "unsupported-version"),
        ("{\"v\":1}", "bad-request"),
        ("{\"v\":1,\"op\":\"destroy\"}", "unknown-op"),
        ("{\"v\":1,\"op\":\"zones.destroy\",\"device\":\"smr\"}", "unknown-op"),
        ("{\"v\":1,\"op\":\"status\",\"verbose\":true}", "bad-request"),
        ("{\"v\":1,\"op\":\"zones.report\"}", "bad-request"),
        ("{\"v\":1,\"op\":\"zones.report\",\"device\":5}", "bad-request"),
        ("{\"v\":1,\"op\":\"zones.report\",\"device\":\"smr\",\"start\":-1}", "bad-request"),
        ("{\"v\":1,\"op\":\"zones.report\",\"device\":\"nosuch\"}", "unknown-device"),
        ("{\"v\":1,\"op\":\"zones.reset\",\"device\":\"smr\",\"start\":1}", "invalid"),
        ("{\"v\":1,\"op\":\"zones.finish\",\"device\":\"smr\",\"start\":0,\"length\":2048,\"force\":true}", "io"),
        ("{\"v\":1,\"op\":\"plugs\",\"device\":\"seq\"}", "not-zoned"),
        ("{\"v\":1,\"op\":\"policy\",\"device\":\"smr\",\"policy\":\"fifo\"}", "bad-request"),
    ];
    for (request, kind) in kinds {
        assert_eq!(control.error_kind(request), kind, "{request}");
    }
    for (fields, says) in [
        ("\"device\":\"smr\",\"start\":-1", "`start`: invalid value"),
        ("\"device\":\"smr\",\"begin\":1", "unknown field `begin`, expected one of `device`, `start`, `count`"),
        (
            "\"device\":null",
            "missing field `device`; `man shingle-control-protocol` (docs/control-protocol.md) has what `zones.report` takes",
        ),
    ] {
        let answer = control.ask(&format!("{{\"v\":1,\"op\":\"zones.report\",{fields}}}"));
        assert!(answer["error"]["message"].as_str().unwrap().contains(says), "{answer}");
    }
    let answer = control.ask("{\"v\":1,\"id\":[\"any\",1],\"op\":\"status\"}");
    assert_eq!((&answer["id"], &answer["v"]), (&json!(["any", 1]), &json!(1)));
}

#[test]
fn requests_may_be_sent_ahead_and_are_answered_in_order() {
    let scratch = with_disk();
    let _daemon = scratch.up();
    let mut control = scratch.control();
    for id in 0..50 {
        control.say(&format!("{{\"v\":1,\"id\":{id},\"op\":\"zones.report\",\"device\":\"smr\",\"count\":1}}"));
    }
    for id in 0..50 {
        assert_eq!(control.hear()["id"], json!(id));
    }
}

#[test]
fn a_report_is_given_in_parts() {
    let scratch = with_disk();
    let _daemon = scratch.up();
    let mut control = scratch.control();
    let (mut next, mut seen) = (json!(0), 0);
    while !next.is_null() {
        let request = json!({"v": 1, "op": "zones.report", "device": "smr", "start": next, "count": 5});
        let answer = control.ask(&request.to_string());
        seen += answer["ok"]["zones"].as_array().unwrap().len();
        next = answer["ok"]["next"].clone();
    }
    assert_eq!(seen, 16);
}

#[test]
fn a_line_without_end_harms_nobody() {
    let scratch = with_disk();
    let _daemon = scratch.up();
    let mut endless = scratch.control();
    let chunk = vec![b'x'; (1 << 20) + 4096];
    // The daemon may close before it has read all of it.
    let _ = endless.0.get_mut().write_all(&chunk);
    let mut line = String::new();
    if endless.0.read_line(&mut line).is_ok() && !line.is_empty() {
        assert!(line.contains("at most 1048576 bytes"), "{line}");
    }
    drop(endless);
}

#[test]
fn a_daemon_is_found_at_the_users_socket_by_a_command_that_names_none() {
    let (scratch, elsewhere) = (with_disk(), Scratch::new());
    fs::create_dir(scratch.0.join("shingle")).unwrap();
    scratch.file("stack.toml", &STACK.replace("control.sock", "shingle/control.sock"));
    let _daemon = scratch.up();
    let mut status = elsewhere.shingle();
    assert!(!status.env("XDG_RUNTIME_DIR", &elsewhere.0).arg("status").output().unwrap().status.success());
    let mut status = elsewhere.shingle();
    assert!(status.env("XDG_RUNTIME_DIR", &scratch.0).arg("status").output().unwrap().status.success());
}

#[test]
fn clients_of_the_control_socket_that_say_nothing_make_room_for_one_that_asks() {
    let scratch = with_disk();
    let _daemon = scratch.up();
    let mut crowd: Vec<Control> = (0..64).map(|_| scratch.control()).collect();
    scratch.ok("status");
    let told = crowd[0].hear();
    assert!(told["error"]["message"].as_str().unwrap().contains("silent for longest"), "{told}");
    assert_eq!(scratch.json("status --json")["stuck"], json!([]));
    // Half a request is silence, too. On a busy machine some of these had to go before they said it.
    crowd.iter_mut().rev().take(4).for_each(|client| drop(client.0.get_mut().write_all(b"{\"v\":1,")));
    (0..16).for_each(|_| drop(scratch.ok("status")));
}

#[test]
fn completions_and_manual_pages_are_written() {
    let scratch = Scratch::new();
    assert!(scratch.ok("completions bash").contains("_shingle"));
    assert!(scratch.ok("man").contains(".TH"));
    scratch.ok("man pages");
    let pages = ["shingle.1", "shingle-up.1", "shingle-zones-report.1"];
    pages.iter().for_each(|page| assert!(scratch.0.join("pages").join(page).exists(), "{page}"));
    scratch.fails("completions tcsh", 2, &["bash"]);
    scratch.fails("nonsense", 2, &["unrecognized subcommand"]);
}

#[test]
fn completions_know_policies_profiles_and_kinds_of_io() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = scratch.ok(&format!("completions {shell}"));
        // bash's and zsh's are the ones that complete the values of arguments of their own kind.
        let words: &[&str] = match shell {
            "bash" | "zsh" => &["zone-lock", "elevator", "smr-30tb", "zns-1tb", "randwrite"],
            "fish" => &["zone-lock", "smr-30tb"],
            _ => &["completions"],
        };
        words.iter().for_each(|word| assert!(script.contains(word), "{word} is missing for {shell}"));
    }
}

#[test]
fn bash_completes_the_devices_of_the_running_daemon() {
    let scratch = with_disk();
    scratch.file("complete", &scratch.ok("completions bash"));
    let complete = |words: &[&str]| {
        let program = Path::new(env!("CARGO_BIN_EXE_shingle")).parent().unwrap();
        let run = format!(
            "PATH={}:$PATH; source ./complete; COMP_WORDS=({}); COMP_CWORD={}; \
             _shingle_and_devices shingle \"${{COMP_WORDS[COMP_CWORD]}}\" x; echo \"${{COMPREPLY[*]}}\"",
            program.display(),
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1
        );
        let output =
            Command::new("bash").args(["-c", &run]).current_dir(&scratch.0).env_remove("SHINGLE_CONTROL").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(!complete(&["shingle", "dm", "table", ""]).contains("seq"), "nobody to ask");
    let _daemon = scratch.up();
    assert_eq!(complete(&["shingle", "dm", "table", "se"]).trim(), "seq");
    assert_eq!(complete(&["shingle", "policy", "sm"]).trim(), "smr");
    assert!(complete(&["shingle", "policy", "smr", "el"]).contains("elevator"));
    assert_eq!(complete(&["shingle", "scheduler", "sm"]).trim(), "smr");
    assert!(complete(&["shingle", "scheduler", "smr", "mq"]).contains("mq-deadline"));
    assert!(!complete(&["shingle", "bench", "se"]).contains("seq"));
}

#[test]
fn jobs_of_a_file_run_on_the_devices_that_they_name_and_keep_what_was_written() {
    let scratch = with_disk();
    let write = "[w]\nfilename=seq\nrw=write\nsize=2m\nnumjobs=2\n";
    scratch.file("jobs.fio", &format!("{write}[r]\nstonewall\nfilename=seq\nrw=read\nsize=2m\n"));
    let report = scratch.json("bench --stack stack.toml jobs.fio --output-format=json");
    let jobs = report["jobs"].as_array().unwrap();
    let brief: Vec<_> = jobs.iter().map(|job| (&job["jobname"], &job["groupid"], &job["error"])).collect();
    let (w, r) = (json!("w"), json!("r"));
    assert_eq!(brief, [(&w, &json!(0), &json!(0)), (&w, &json!(0), &json!(0)), (&r, &json!(1), &json!(0))]);
    assert_eq!(jobs[2]["read"]["total_ios"], json!(512));
    let zones = scratch.json("zones report disk0 --json")["zones"].clone();
    let empty = |zone: &&Value| zone["cond"] == "empty";
    assert_eq!(
        zones.as_array().unwrap().iter().filter(empty).count(),
        12,
        "the jobs share the two of their region: {zones}"
    );
    scratch.file("two.fio", &format!("{write}[r]\nfilename=mem\nrw=read\nzonemode=none\n"));
    let report = scratch.json("bench --stack stack.toml two.fio --output-format=json");
    assert_eq!(report["jobs"].as_array().unwrap().len(), 3);
    scratch.file("two.fio", &format!("{write}[r]\nstonewall\nfilename=mem\nrw=read\n"));
    scratch.fails("bench --stack stack.toml two.fio", 2, &["stonewall: the jobs are on devices of several shards"]);
    scratch.file("none.fio", "[r]\nfilename=sequ\n");
    scratch.fails("bench --stack stack.toml none.fio", 2, &["has no device `sequ`: it has seq"]);
    scratch.file("none.fio", "[r]\nrw=read\n");
    scratch.fails("bench --stack stack.toml none.fio", 2, &["say which --device"]);
}

#[test]
fn bench_results_have_fios_field_names() {
    let scratch = Scratch::new();
    let words = "bench --stack null,plug --null size=64MiB,zone-size=1MiB,memory-backed --rw=randwrite --bs=4k --iodepth=32 \
                 --numjobs=2 --verify=crc32c --output-format=json --output r.json --name=check";
    assert_eq!(scratch.ok(words), "");
    let result: Value = serde_json::from_str(&fs::read_to_string(scratch.0.join("r.json")).unwrap()).unwrap();
    let jobs = result["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    for job in jobs {
        let write = &job["write"];
        assert_eq!((&job["error"], &job["jobname"], &write["total_ios"]), (&json!(0), &json!("check"), &json!(16384)));
        assert_eq!((&write["io_bytes"], &job["verified_blocks"]), (&json!(64 << 20), &json!(16384)));
        for field in ["iops", "bw", "bw_bytes", "runtime", "slat_ns", "clat_ns", "lat_ns"] {
            assert!(!write[field].is_null(), "{field}");
        }
        assert!(write["clat_ns"]["percentile"]["99.990000"].is_u64(), "{write}");
    }
}

#[test]
fn bench_on_a_stack_file_writes_what_reads_back() {
    let scratch = with_disk();
    let text = scratch
        .ok("bench --stack stack.toml --device seq --device mem --rw=write --bs=16k --iodepth=16 --verify=crc32c");
    assert!(text.contains("write:seq:") && text.contains("write:mem:") && text.contains("WRITE:"), "{text}");
    assert_eq!(scratch.ok("zones report disk0 --cond fu").lines().count(), 14);
    let again = scratch.ok("bench --stack stack.toml --device seq --rw=read --bs=16k --iodepth=16 --verify=crc32c");
    assert!(again.contains("verify: 896 blocks"), "{again}");
    scratch.file("bad.toml", "[disk.bad]\ntype = \"null\"\nsize = \"1MiB\"\nbad-blocks = [\"16-23\"]\n");
    let bad = ["READ at sector 16: I/O error (sector 16 is bad)"];
    scratch.fails("bench --stack bad.toml --device bad --rw=read --bs=4k", 1, &bad);
    scratch.fails("bench --stack stack.toml", 2, &["say which --device: seq, smr, mem"]);
    scratch.fails("bench --stack stack.toml --device x", 2, &["no device `x`"]);
    scratch.fails("bench --stack stack.toml --device mem --rw=read --verify=pattern", 2, &["--verify_pattern"]);
}

#[test]
fn bench_finds_a_damaged_block_and_fails() {
    let scratch = with_disk();
    scratch.ok("bench --stack stack.toml --device seq --rw=write --bs=4k --size=1MiB --verify=crc32c");
    let zone: &Path = &scratch.0.join("disk0/seq-000002");
    let mut bytes = fs::read(zone).unwrap();
    bytes[40_000] ^= 1;
    fs::write(zone, bytes).unwrap();
    let words = "bench --stack stack.toml --device seq --rw=read --bs=4k --size=1MiB --verify=crc32c";
    scratch.fails(words, 1, &["READ at sector 72", "CRC-32C"]);
}

/// What operators did, as programs read it, without a key.
#[test]
fn a_log_of_json_tells_who_did_what_and_no_key() {
    let scratch = Scratch::with_stack(
        "[disk.d]\ntype = \"null\"\nsize = \"1MiB\"\n[export.d]\ndevice = \"d\"\n[listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \
         \"control.sock\"\n",
    );
    let mut up = scratch.shingle();
    let daemon = scratch.up_as(up.args(["up", "stack.toml", "--log", "json"]).stderr(scratch.stderr_file()));
    let key = "c0ffee".repeat(10) + "c0ff";
    scratch.dm(&["create", "secret", "--table", &format!("0 2048 crypt aes-xts-plain64 {key} 0 d 0")]);
    scratch.ok("status");
    scratch.fails("export remove nobody", 1, &["nobody"]);
    let mut client = Nbd::connect(&scratch, "d");
    assert_eq!(client.write_status(8192, &[0; 100]), 22);
    daemon.stop();
    let said = scratch.stderr();
    assert!(!said.contains("c0ffee"), "{said}");
    let all: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let deed = |op: &str| all.iter().find(|event| event["op"] == op).unwrap_or_else(|| panic!("no {op}:\n{said}"));
    let (made, failed) = (deed("dm.create"), deed("export.remove"));
    assert_eq!((&made["level"], &made["to"]), (&json!("info"), &json!("name `secret`")));
    assert_eq!(made["uid"], json!(rustix::process::getuid().as_raw()));
    assert_eq!(failed["level"], "warn");
    assert!(failed["error"].as_str().unwrap().contains("nobody"));
    assert!(all.iter().all(|event| event["op"] != "status"), "who asks changes nothing:\n{said}");
    let complaint = all.iter().find(|event| event["export"] == "d").unwrap_or_else(|| panic!("no complaint:\n{said}"));
    let place = complaint["listen"].as_str().unwrap();
    assert!(place.starts_with("unix:") && place.ends_with("nbd.sock"), "{place}");
    assert_eq!(complaint["client"], json!(format!("{place} client 1")));
    assert!(complaint["message"].as_str().unwrap().contains("client 1: 100 bytes at 8192 are no whole blocks"));
}
