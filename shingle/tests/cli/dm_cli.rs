//! `shingle dm` as users run it: every verb with what dmsetup(8) prints for it, every error, and tables that are swapped
//! under a client that checks what it reads.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use serde_json::{Value, json};

use crate::program;
use crate::program::nbd::{BLOCK, Nbd, READ, WRITE, pattern, verified_random_load};
use crate::program::{Control, Ends, Scratch};

/// Two regular disks on shard 0, a zoned one on shard 1, and a device of two lines that is exported.
const STACK: &str = "\
[disk.a]
type = \"null\"
size = \"16MiB\"
memory-backed = true
[disk.b]
type = \"null\"
size = \"16MiB\"
memory-backed = true
completion = \"100us\"
[disk.z]
type = \"null\"
size = \"64MiB\"
zone-size = \"1MiB\"
memory-backed = true
completion = \"50us\"
shard = 1
[device.x]
table = '''
0 2048 linear a 8
2048 100 error
'''
[export.x]
device = \"x\"
[listen]
unix = \"nbd.sock\"
[control]
socket = \"control.sock\"
";

impl Scratch {
    /// Runs `shingle dm` with `input` on standard input.
    #[track_caller]
    fn dm_with(&self, input: &str, words: &[&str]) {
        let mut child = self.shingle().arg("dm").args(words).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "dm {words:?}");
    }
}

#[test]
fn a_device_of_the_stack_file_is_shown_as_dmsetup_shows_it() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    assert_eq!(scratch.ok("dm table x"), "0 2048 linear a 8\n2048 100 error \n");
    assert_eq!(scratch.ok("dm table"), "x: 0 2048 linear a 8\nx: 2048 100 error \n");
    assert_eq!(scratch.ok("dm table x --target error"), "2048 100 error \n");
    assert_eq!(scratch.ok("dm table x --inactive"), "\n");
    assert_eq!(scratch.ok("dm status x"), "0 2048 linear \n2048 100 error \n");
    let info = "Name:              x\nState:             ACTIVE\nTables present:    LIVE\nOpen count:        1\n\
                Event number:      1\nMajor, minor:      253, 0\nNumber of targets: 2\n\n";
    assert_eq!(scratch.ok("dm info"), info);
    assert_eq!(scratch.ok("dm deps x"), "1 dependencies\t: (252, 0)\n");
    assert_eq!(scratch.ok("dm deps -o devname"), "x: 1 dependencies\t: (a)\n");
    assert_eq!(scratch.ok("dm ls"), "x\t(253:0)\n");
    assert_eq!(scratch.ok("dm ls -o blkdevname"), "x\t(dm-0)\n");
    assert_eq!(scratch.ok("dm ls --target linear"), "x\t(253:0)\n");
    assert_eq!(scratch.ok("dm ls --target crypt"), "No devices found\n");
    assert_eq!(scratch.ok("dm ls --tree"), "x (253:0)\n └─a (252:0)\n");
    let targets = scratch.ok("dm targets");
    assert!(targets.lines().any(|line| line.starts_with("linear           v1.")), "{targets}");
    daemon.stop();
}

#[test]
fn columns_have_the_headings_widths_and_separators_of_dmsetup() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.dm(&["create", "a-device-with-a-long-name", "-u", "U-1", "-r", "--table", "0 8 linear x 0"]);
    scratch.dm(&["load", "x", "--table", "0 4096 linear a 0"]);
    let lines = [
        format!("{:<25} Maj Min Stat Open Targ Event  {:<32}", "Name", "UUID"),
        format!("{:<25} 253   2 L--r    0    1      1 {:<32}", "a-device-with-a-long-name", "U-1"),
        format!("{:<25} 253   0 LI-w    2    2      1 {:<32}", "x", ""),
    ];
    assert_eq!(scratch.ok("dm info -c"), lines.join("\n") + "\n");
    let words = "dm info x -c --noheadings -o name,attr,tables_loaded,devs_used,devno,device_count --separator :";
    assert_eq!(scratch.ok(words), "x:LI-w:Both:a:253:0:1\n");
    assert_eq!(scratch.ok("dm info x -c -o suspended,readonly"), "Suspended Read-only\nActive    Writeable\n");
    assert!(scratch.ok("dm info x -C --noheadings -o +blkdevname").trim_end().ends_with(" dm-0"));
    let said = scratch.dm_fails(&["info", "-c", "-o", "colour"], 2);
    assert!(said.contains("no column `colour`; there are: name, uuid"), "{said}");
}

#[test]
fn a_table_waits_in_the_inactive_slot_until_it_is_resumed_or_cleared() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.dm_with("0 4096 linear b 0\n", &["load", "x"]);
    assert_eq!(scratch.ok("dm table x --inactive"), "0 4096 linear b 0\n");
    assert!(scratch.ok("dm info x").contains("Tables present:    LIVE & INACTIVE\n"));
    scratch.ok("dm clear x");
    assert!(scratch.ok("dm info x").contains("Tables present:    LIVE\n"));
    scratch.file("t", "# comments do not count\n\n0 4096 linear b 0\n");
    scratch.ok("dm reload x t");
    scratch.ok("dm suspend x");
    assert!(scratch.ok("dm info x").contains("State:             SUSPENDED\n"));
    assert_eq!(scratch.ok("dm table x"), "0 2048 linear a 8\n2048 100 error \n", "the old table until the resume");
    scratch.ok("dm resume x");
    assert_eq!(scratch.ok("dm table x"), "0 4096 linear b 0\n");
    let info = scratch.json("dm info x --json")["devices"][0].clone();
    assert_eq!((&info["state"], &info["events"], &info["sectors"]), (&json!("active"), &json!(2), &json!(4096)));
    assert_eq!(
        scratch.json("status --json")["exports"][0]["bytes"],
        json!(4096 * 512),
        "the next client sees the size"
    );
}

#[test]
fn devices_are_created_stacked_renamed_and_removed_and_the_daemon_stops_cleanly_afterwards() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    scratch.dm(&["create", "mid", "-u", "U", "--table", "0 1024 linear b 0"]);
    scratch.dm_with("0 512 linear mid 0\n512 512 linear a 0\n", &["create", "top"]);
    scratch.dm(&["create", "later", "--notable"]);
    assert!(scratch.ok("dm info later").contains("SUSPENDED\nTables present:    None\nOpen count:        0\n"));
    assert_eq!(scratch.ok("dm ls"), "later\t(253:6)\nmid\t(253:2)\ntop\t(253:4)\nx\t(253:0)\n");
    let tree = "later (253:6)\ntop (253:4)\n ├─a (252:0)\n └─mid (253:2)\n    └─b (252:1)\nx (253:0)\n └─a (252:0)\n";
    assert_eq!(scratch.ok("dm ls --tree"), tree);
    assert_eq!(scratch.ok("dm deps top"), "2 dependencies\t: (252, 0) (253, 2)\n");
    assert_eq!(scratch.ok("dm table U"), "0 1024 linear b 0\n", "a UUID is as good as a name");
    assert!(scratch.dm_fails(&["rename", "mid", "centre"], 1).contains("the table of `top` names it"));
    assert!(scratch.dm_fails(&["remove", "mid"], 1).contains("`mid` is in use (1 times)"));
    scratch.ok("dm rename top summit");
    scratch.ok("dm rename summit --setuuid V");
    assert!(scratch.ok("dm info V").ends_with("UUID: V\n\n"));
    assert!(scratch.dm_fails(&["rename", "summit", "--setuuid", "W"], 1).contains("has one already"));
    scratch.ok("dm remove --deferred mid");
    assert!(scratch.ok("dm info mid").contains("State:             ACTIVE (DEFERRED REMOVE)\n"));
    scratch.ok("dm remove later summit");
    assert_eq!(scratch.ok("dm ls"), "x\t(253:0)\n", "what was deferred went with its last user");
    daemon.stop();
}

#[test]
fn devices_in_one_line_are_printed_and_read_back() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.dm(&["create", "--concise", "c1,U1,,,0 8 linear a 0,8 8 error; c2,,9,ro,0 1 error"]);
    let line = "c1,U1,2,rw,0 8 linear a 0,8 8 error ;c2,,4,ro,0 1 error ;x,,0,rw,0 2048 linear a 8,2048 100 error \n";
    assert_eq!(scratch.ok("dm table --concise"), line);
    scratch.ok("dm remove c1 c2");
    scratch.dm_with(line.split_once(";x").unwrap().0, &["create", "--concise"]);
    assert_eq!(scratch.ok("dm table --concise"), line);
    let said = scratch.dm_fails(&["create", "--concise", "d,,,,0 8 linear a 0,8 8 liner a 0"], 1);
    assert!(said.contains("--concise, d:2:5") && said.contains("unknown target `liner`"), "{said}");
}

#[test]
fn a_wrong_table_is_shown_at_the_word_that_is_wrong() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.file("t", "0 8 linear a 0\n\n# and\n8 8 linear nothing 0\n");
    for (words, place, says) in [
        (&["create", "w", "t"][..], "t:4:12", "there is no device `nothing`"),
        (&["load", "x", "--table", "0 8 linear a zero"], "--table:1:14", "the start on the device is `zero`"),
        (&["load", "x", "--table", "0 8 linear x 0"], "--table:1:12", "the device itself"),
        (&["load", "x", "--table", "0 8 linear z 0"], "--table:1:12", "`x` is on shard 0 and `z` on shard 1"),
        (&["create", "w", "--table", "0 8 linear a 0\n9 8 error"], "--table:2:1", "leaves a gap"),
        (
            &["create", "w", "--table", "0 8 linear a 0\n8 2048 linear z 0"],
            "--table:2:15",
            "on shard 0 and `z` on shard 1",
        ),
        (&["create", "w", "--table", "0 99999999 linear a 0"], "--table:1:21", "past the end"),
    ] {
        let said = scratch.dm_fails(words, 1);
        assert!(said.contains(&format!("--> {place}")) && said.contains(says), "{words:?}:\n{said}");
    }
    assert_eq!(scratch.ok("dm ls"), "x\t(253:0)\n", "nothing is left of what could not be made");
}

#[test]
fn verbs_that_cannot_be_obeyed_say_why() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.dm(&["create", "empty", "--notable"]);
    for (words, says) in [
        (&["info", "xx"][..], "there is no mapped device `xx`; did you mean `x`? there are: empty, x"),
        (&["create", "x", "--table", "0 1 error"], "`x` is taken"),
        (&["create", "a", "--table", "0 1 error"], "a disk of that name exists"),
        (&["create", "a/b", "--table", "0 1 error"], "`a/b` is not a name"),
        (&["create", "w", "-u", "no good", "--table", "0 1 error"], "is not a UUID"),
        (&["rename", "x", "b"], "a disk of that name exists"),
        (&["resume", "empty"], "it has no table"),
        (&["message", "empty", "0", "hello"], "has no table yet"),
        (&["message", "x", "0", "hello"], "linear target of `x`: it takes no messages"),
        (&["message", "x", "9999", "hello"], "has no sector 9999"),
        (&["remove", "x"], "it is exported as `x`"),
        (&["suspend", "x", "--timeout", "60s"], "at most 20000"),
        (&["load", "x", "nofile"], "cannot open nofile"),
        (&["table", "x", "--control", "nowhere"], "shingle up"),
    ] {
        let said = scratch.dm_fails(words, 1);
        assert!(said.contains(says), "{words:?}:\n{said}");
    }
    for words in
        [&["create"][..], &["suspend"], &["message", "x", "0"], &["wait", "x", "soon"], &["ls", "-o", "colour"]]
    {
        scratch.dm_fails(words, 2);
    }
    let mut control = scratch.control();
    assert_eq!(control.error_kind(r#"{"v":1,"op":"dm.dance"}"#), "unknown-op");
    assert_eq!(control.error_kind(r#"{"v":1,"op":"dm.clear","device":"x","more":1}"#), "bad-request");
    assert_eq!(control.error_kind(r#"{"v":1,"op":"dm.load","device":"x","table":"0 1 liner"}"#), "table");
}

#[test]
fn wiping_and_forced_removal_put_errors_in_the_place_of_data() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.ok("dm wipe_table x");
    assert_eq!(scratch.ok("dm table x"), "0 2148 error \n");
    scratch.dm(&["create", "y", "--table", "0 8 linear a 0"]);
    scratch.ok("export add y y");
    scratch.fails(
        "dm remove -f y",
        1,
        &["`y` is in use", "its table has been replaced by one on which everything fails"],
    );
    assert_eq!(scratch.ok("dm table y"), "0 8 error \n", "it is in use, but nothing is below it");
    scratch.ok("export remove y");
    scratch.ok("dm remove --retry -f y");
    assert_eq!(scratch.ok("dm ls"), "x\t(253:0)\n");
}

#[test]
fn all_devices_are_removed_from_the_top_down_and_what_is_in_use_is_named() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.dm(&["create", "low", "--table", "0 64 linear a 0"]);
    scratch.dm(&["create", "high", "--table", "0 64 linear low 0"]);
    scratch.ok("export remove x");
    scratch.ok("export add held low");
    scratch.fails("dm remove_all", 1, &["`low` is in use", "exported as `held`"]);
    assert_eq!(scratch.json("dm ls --json")["devices"].as_array().unwrap().len(), 1);
    scratch.dm(&["create", "high", "--table", "0 64 linear low 0"]);
    scratch.ok("export remove held");
    scratch.ok("dm remove_all");
    assert_eq!(scratch.ok("dm ls"), "No devices found\n");
    scratch.ok("dm remove_all");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(scratch.ok("dm version"), format!("Library version:   {version}\nDriver version:    {version}\n"));
}

#[test]
fn a_wait_ends_with_the_next_event() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.ok("dm wait x");
    let mut waiting = scratch.shingle().args(["dm", "wait", "-v", "x", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    // It has no way to end before: there is one event.
    scratch.dm(&["load", "x", "--table", "0 64 linear a 0"]);
    assert!(waiting.try_wait().unwrap().is_none());
    scratch.ok("dm resume x");
    assert!(waiting.wait().unwrap().success());
    let mut shown = String::new();
    waiting.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
    assert!(shown.contains("Event number:      2\n"), "{shown}");
}

#[test]
fn the_status_names_the_bios_that_are_stuck_for_longest_and_counts_the_others() {
    let scratch = Scratch::with_stack(&STACK.replace("completion = \"100us\"", "completion = \"1000s\""));
    let daemon = scratch.up();
    scratch.ok("export add slow b");
    let mut client = Nbd::connect(&scratch, "slow");
    (0..12).for_each(|n| client.send(WRITE, n * 512, &[7; 512]));
    while scratch.json("status --json")["stuck_bios"] != json!(12) {
        thread::yield_now();
    }
    let shown = scratch.ok("status");
    assert_eq!(
        shown.split("stuck I/O:\n").nth(1).unwrap().lines().count(),
        10,
        "a header, eight and the rest:\n{shown}"
    );
    assert!(shown.ends_with("and 4 more\n"), "{shown}");
    daemon.kill();
}

#[test]
fn a_device_that_does_not_become_idle_goes_on_and_the_error_names_what_is_stuck() {
    let scratch = Scratch::with_stack(&STACK.replace("completion = \"100us\"", "completion = \"1000s\""));
    let daemon = scratch.up();
    scratch.dm(&["create", "slow", "--table", "0 64 linear b 0"]);
    scratch.ok("export add slow slow");
    let mut client = Nbd::connect(&scratch, "slow");
    client.send(WRITE, 0, &[7; 512]);
    scratch.dm(&["load", "slow", "--table", "0 64 linear a 0"]);
    let mut control = scratch.control();
    // The write is on its way; when it has arrived is the daemon's affair.
    while scratch.json("status --json")["devices"][4]["counters"]["in_flight"] == json!(0) {
        thread::yield_now();
    }
    let answer = control.ask(r#"{"v":1,"op":"dm.resume","device":"slow","timeout_ms":100}"#);
    let (kind, message) = (&answer["error"]["kind"], answer["error"]["message"].as_str().unwrap());
    assert_eq!(*kind, json!("busy"), "{answer}");
    assert!(
        message.contains("`slow` still had 1 bios in flight after 100 ms") && message.contains("WRITE"),
        "{message}"
    );
    let info = scratch.ok("dm info slow");
    assert!(info.contains("ACTIVE\nTables present:    LIVE & INACTIVE"), "{info}");
    daemon.kill();
}

#[test]
fn an_export_comes_and_goes_with_a_device_that_was_made_at_run_time() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    scratch.dm(&["create", "new", "--table", "0 2048 linear z 0"]);
    scratch.fails("export add a/b new", 1, &["`a/b` is not a name: use letters"]);
    assert_eq!(scratch.ok("export add n new --readonly"), "export n: 1 MiB\n");
    scratch.fails("export add n new", 1, &["two exports are named 'n'"]);
    scratch.fails("export add m newt", 1, &["there is no device `newt`; did you mean `new`?"]);
    scratch.fails("export remove nn", 1, &["there is no export `nn`; there are: x, n"]);
    assert!(scratch.ok("dm info new").contains("Open count:        1\n"));
    let client = Nbd::connect(&scratch, "n");
    assert_eq!(client.size, 1 << 20);
    // The client chose on one shard and lives on another: until it has moved there, it is in nobody's list.
    scratch.fails("export remove n", 1, &["export `n` has 1 connections"]);
    drop(client);
    while scratch.run("export remove n").0 != 0 {
        thread::yield_now();
    }
    scratch.ok("dm remove new");
    daemon.stop();
}

#[test]
fn a_suspended_device_does_not_keep_the_daemon_from_stopping() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "x");
    scratch.ok("dm suspend x");
    client.send(WRITE, 4096, &[1; 512]);
    while scratch.json("dm info x --json")["devices"][0]["open"] != json!(1) {}
    daemon.stop();
}

#[test]
fn completions_know_the_verbs() {
    let script = Scratch::new().ok("completions bash");
    for verb in ["create", "reload", "suspend", "wipe_table", "targets", "message", "wait", "deps"] {
        assert!(
            script.contains(&format!("shingle__dm,{verb})")) || script.contains(&format!("__subcmd__dm,{verb})")),
            "{verb}"
        );
    }
}

/// Loads and resumes `tables` in turn, `count` times; the longest time that I/O waited at the door, in ns.
fn swap(control: &mut Control, device: &str, tables: &[&str], count: usize) -> u64 {
    for table in tables.iter().cycle().take(count) {
        let load = json!({"v": 1, "op": "dm.load", "device": device, "table": table});
        let resume = json!({"v": 1, "op": "dm.resume", "device": device});
        for ask in [load, resume] {
            let answer = control.ask(&ask.to_string());
            assert!(answer["ok"].is_object(), "{ask}: {answer}");
        }
    }
    let info = control.ask(&json!({"v": 1, "op": "dm.info", "device": device}).to_string());
    info["ok"]["devices"][0]["longest_swap_ns"].as_u64().unwrap()
}

#[test]
fn a_thousand_swaps_under_a_verified_random_load_lose_nothing() {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    scratch.dm(&["create", "live", "--table", "0 16384 linear b 0"]);
    scratch.ok("export add live live");
    let tables = [
        "0 8192 linear b 0\n8192 8192 linear b 8192",
        "0 4096 linear b 0\n4096 4096 faulty b 4096 error,op=discard\n8192 8192 linear b 8192",
        "0 16384 faulty b 0 delay,op=read,rate=1/8,time=200us",
        "0 16384 linear b 0",
    ];
    let (stop, client) = (AtomicBool::new(false), Nbd::connect(&scratch, "live"));
    let (done, longest) = thread::scope(|scope| {
        let ends = Ends(&stop);
        let load = scope.spawn(|| verified_random_load(client, &stop));
        let longest = swap(&mut scratch.control(), "live", &tables, 1000);
        drop(ends);
        (load.join().unwrap(), longest)
    });
    println!("1000 swaps under {done} verified requests; the longest suspension took {} us", longest / 1000);
    assert!(done >= 1000, "{done} requests are no load");
    let info = scratch.json("dm info live --json")["devices"][0].clone();
    assert_eq!((&info["events"], &info["state"]), (&json!(1001), &json!("active")));
    assert_eq!(scratch.json("status --json")["stuck"], json!([]));
    daemon.stop();
}

/// Fills zone after zone in order, 32 writes in flight, until `stop`, then reads all of it; the number of blocks. `progress`
/// tells how far it is.
fn sequential_load(client: &mut Nbd, stop: &AtomicBool, progress: &AtomicU64) -> u64 {
    let blocks = client.size / BLOCK as u64;
    let (mut sent, mut answered, mut data) = (0, 0, vec![0; BLOCK]);
    while answered < sent || (sent < blocks && !stop.load(Relaxed)) {
        while sent < blocks && sent < answered + 32 && !stop.load(Relaxed) {
            client.send(WRITE, sent * BLOCK as u64, &pattern(sent, 1));
            sent += 1;
        }
        client.receive(|_| false, &mut []);
        answered += 1;
        progress.store(answered, Relaxed);
    }
    for block in 0..sent {
        client.send(READ, block * BLOCK as u64, &data);
        client.receive(|_| true, &mut data);
        assert!(data == pattern(block, 1), "block {block} holds something else");
    }
    sent
}

#[test]
fn swaps_on_a_zoned_disk_do_not_change_the_order_of_writes() {
    let scratch = Scratch::new();
    // It is not to be full before there were some swaps, on a busy machine either.
    scratch.ok("create disk0 --size 512MiB --zone-size 1MiB");
    let disks = STACK.split("[disk.z]").collect::<Vec<_>>();
    let rest = &disks[1][disks[1].find("shard").unwrap()..];
    scratch.file("stack.toml", &format!("{}[disk.z]\ntype = \"zoned-dir\"\npath = \"disk0\"\n{rest}", disks[0]));
    let daemon = scratch.up();
    scratch.dm(&["create", "seq", "--table", "0 1048576 linear z 0"]);
    scratch.ok("export add seq seq");
    let tables = [
        "0 65536 linear z 0\n65536 983040 linear z 65536",
        "0 1048576 faulty z 0 error,op=discard",
        "0 1048576 linear z 0",
    ];
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut client = Nbd::connect(&scratch, "seq");
    let (written, overlapping) = thread::scope(|scope| {
        let ends = Ends(&stop);
        let load = scope.spawn(|| sequential_load(&mut client, &stop, &progress));
        let (mut control, mut overlapping) = (scratch.control(), 0);
        while overlapping < 100 && !load.is_finished() {
            let before = progress.load(Relaxed);
            swap(&mut control, "seq", &tables, tables.len());
            // Writes were answered before the first swap began and after: they were in flight across it.
            overlapping += usize::from(progress.load(Relaxed) > before && before > 0);
        }
        drop(ends);
        (load.join().unwrap(), overlapping)
    });
    println!(
        "{} swaps while writes were in flight; {written} blocks were written in order",
        overlapping * tables.len()
    );
    assert!(written > 1000 && overlapping > 10, "{written} blocks, {overlapping} overlapping swaps");
    let zones = scratch.json("zones report z --json");
    let in_zone = |zone: &Value| match zone["wp"].as_u64() {
        Some(wp) => wp - zone["start"].as_u64().unwrap(),
        None => zone["len"].as_u64().unwrap(),
    };
    assert_eq!(zones["zones"].as_array().unwrap().iter().map(in_zone).sum::<u64>(), written * 8);
    daemon.stop();
}

/// Regions of all kinds on `vol`, made with the options of a session with Debian 13's dmstats; what that printed is expected.
fn with_regions() -> (Scratch, program::Daemon) {
    let scratch = Scratch::with_stack(STACK);
    let daemon = scratch.up();
    scratch.dm(&["create", "vol", "--table", "0 16384 linear a 0"]);
    for (words, made) in [
        ("vol", "vol: Created new region with 1 area(s) as region ID 0\n"),
        ("--areas 4 vol", "vol: Created new region with 4 area(s) as region ID 1\n"),
        (
            "--start 1m --length 2m --areasize 1m --bounds 10ms,20ms,30ms --userdata foo --programid me vol",
            "vol: Created new region with 2 area(s) as region ID 2\n",
        ),
        ("vol --areas 3", "vol: Created new region with 3 area(s) as region ID 3\n"),
    ] {
        assert_eq!(scratch.ok(&format!("dm stats create {words}")), made);
    }
    (scratch, daemon)
}

#[test]
fn statistics_are_listed_as_dmstats_lists_them() {
    let (scratch, _daemon) = with_regions();
    let heading = "Name             GrpID RgID ObjType RgStart RgSize #Areas ArSize ProgID \n";
    let [first, second, third, fourth] = [
        "vol                  -    0 region        0  8.00m      1  8.00m dmstats\n",
        "vol                  -    1 region        0  8.00m      4  2.00m dmstats\n",
        "vol                  -    2 region    1.00m  2.00m      2  1.00m me     \n",
        "vol                  -    3 region        0  8.00m      3  2.67m dmstats\n",
    ];
    assert_eq!(scratch.ok("dm stats list vol"), [heading, first, second, fourth].concat());
    assert_eq!(scratch.ok("dm stats list --allprograms"), [heading, first, second, third, fourth].concat());
    assert_eq!(
        scratch.ok("dm message vol 0 @stats_list"),
        "0: 0+16384 16384 dmstats -\n1: 0+16384 4096 dmstats -\n2: 2048+4096 2048 me foo histogram:10,20,30\n\
         3: 0+16384 5462 dmstats -\n"
    );
    let bins = "Name             GrpID RgID ObjType RgStart RgSize #Areas ArSize #Bins     Histogram Bounds\n\
                vol                  -    2 region    1.00m  2.00m      2  1.00m 4         0s,10ms,20ms,30ms\n";
    let shown = scratch.ok("dm stats list --histogram --programid me");
    assert_eq!(shown.lines().map(str::trim_end).collect::<Vec<_>>(), bins.lines().collect::<Vec<_>>());
    assert_eq!(
        scratch.ok("dm stats list --allprograms -o region_id,bounds,user_data --noheadings --separator :"),
        "0::-\n1::-\n2:0s,10ms,20ms,30ms:foo\n3::-\n"
    );
    let json = scratch.json("dm stats list --json --programid me");
    let expected = json!({"device": "vol", "region": 2, "start": 2048, "length": 4096, "areas": 2, "area_length": 2048,
                          "program": "me", "aux": "foo", "precise": false,
                          "histogram_ns": [10_000_000, 20_000_000, 30_000_000]});
    assert_eq!(json["regions"], json!([expected]));
}

#[test]
fn statistics_finer_than_a_millisecond_are_precise_and_begin_where_they_are_told_to() {
    let (scratch, _daemon) = with_regions();
    scratch.ok("dm stats delete --allregions --allprograms vol");
    scratch.ok("dm stats create x --start 100s --length 50 --bounds 100us,1ms");
    scratch.ok("dm stats create --alldevices --start 2000");
    assert_eq!(
        scratch.ok("dm message x 0 @stats_list"),
        "0: 100+50 50 dmstats - precise_timestamps histogram:100000,1000000\n1: 2000+148 148 dmstats -\n"
    );
    assert_eq!(scratch.ok("dm message vol 0 @stats_list"), "0: 2000+14384 14384 dmstats -\n");
}

#[test]
fn counters_are_printed_cleared_and_forgotten_by_region() {
    let (scratch, _daemon) = with_regions();
    scratch.ok("export add vol vol");
    let mut client = Nbd::connect(&scratch, "vol");
    let mut data = vec![0; BLOCK];
    for (command, offset) in [(WRITE, 0), (WRITE, 3 << 20), (READ, 3 << 20)] {
        client.send(command, offset, &vec![1; BLOCK]);
        client.receive(|_| command == READ, &mut data);
    }
    // Of the counters only those that no clock has a part in.
    let counts = |words: &str| -> Vec<String> {
        let shown = scratch.ok(words);
        let counts = shown.lines().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            [0, 1, 3, 5, 7].map(|place| words[place]).join(" ")
        });
        counts.collect()
    };
    let counted = ["0+4096 0 0 1 8", "4096+4096 1 8 1 8", "8192+4096 0 0 0 0", "12288+4096 0 0 0 0"];
    assert_eq!(counts("dm stats print --regionid 1 vol"), counted);
    assert_eq!(counts("dm stats print --regionid 1 vol --clear"), counted);
    let empty = ["0+4096 0 0 0 0", "4096+4096 0 0 0 0", "8192+4096 0 0 0 0", "12288+4096 0 0 0 0"];
    assert_eq!(counts("dm stats print --regionid 1 vol"), empty);
    let raw = scratch.ok("dm stats report --raw vol -o region_id,obj_type,area_id,read_count,write_sector_count");
    let rows: Vec<Vec<&str>> = raw.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["0", "area", "0", "1", "16"]);
    assert_eq!(rows.last().unwrap(), &["3", "region", "0", "1", "16"], "the sum of its areas: {raw}");
    let json = scratch.json("dm stats print --regionid 0 vol --json");
    let area = &json["regions"][0]["counted"][0];
    assert_eq!((&area["counters"]["writes"], &area["counters"]["read_sectors"]), (&json!(2), &json!(8)));
    scratch.ok("dm stats clear --allregions vol");
    assert_eq!(counts("dm stats print --regionid 0 vol"), ["0+16384 0 0 0 0"]);
    scratch.ok("dm stats delete --regionid 1 vol");
    scratch.ok("dm stats delete --allregions vol");
    assert_eq!(scratch.ok("dm message vol 0 @stats_list"), "2: 2048+4096 2048 me foo histogram:10,20,30\n");
    scratch.ok("dm stats delete --allregions --allprograms --alldevices");
    assert_eq!(scratch.ok("dm message vol 0 @stats_list").trim(), "");
}

#[test]
fn a_report_has_the_columns_and_rows_of_dmstats() {
    let (scratch, _daemon) = with_regions();
    scratch.ok("dm stats delete --regionid 3 vol");
    // Nothing happens meanwhile, so that all rates are known.
    let rates = "   0.00   0.00 0.00 0.00     0     0       0  0.00  0.00  0.00    0.00    0.00\n";
    let rows: String = [
        "vol                  -    0 area       0       0  8.00m",
        "vol                  -    1 area       0       0  2.00m",
        "vol                  -    1 area       1   2.00m  2.00m",
        "vol                  -    1 area       2   4.00m  2.00m",
        "vol                  -    1 area       3   6.00m  2.00m",
        "vol                  -    1 region     0       0  2.00m",
    ]
    .map(|row| row.to_owned() + rates)
    .concat();
    let heading = "Name             GrpID RgID ObjType ArID ArStart ArSize RMrg/s WMrg/s R/s  W/s  RSz/s WSz/s AvgRqSz QSize \
                   Util% AWait RdAWait WrAWait\n";
    let report = format!("{heading}{rows}");
    assert_eq!(scratch.ok("dm stats report --interval 1ms --count 2"), format!("{report}\n{report}"));
    let histogram = scratch.ok("dm stats report --interval 1ms --count 1 --programid me --histogram --noheadings");
    let bins = "    0s:     0,  10ms:     0,  20ms:     0,  30ms:     0";
    let row = format!("vol                  -    2 area      1.00m  2.00m      2  1.00m  0.00  0.00 {bins}\n");
    assert!(histogram.starts_with(&row), "{histogram}");
    let json = scratch.json("dm stats report --interval 1ms --count 1 --regionid 0 --json");
    assert_eq!((&json["objects"][0]["rates"]["reads_per_second"], &json["objects"][1]), (&json!(0.0), &json!(null)));
}

#[test]
fn statistics_that_cannot_be_had_say_what_to_do() {
    let (scratch, _daemon) = with_regions();
    for (words, code, says) in [
        ("dm stats delete --regionid 9 vol", 1, "`vol` has no region 9: `shingle dm stats list --allprograms vol`"),
        ("dm stats print --regionid 0 --alldevices", 1, "`x` has no region 0"),
        ("dm stats create voll", 1, "there is no mapped device `voll`; did you mean `vol`?"),
        ("dm stats create --start 5g vol", 2, "`vol` has 16384 sectors; begin before its end"),
        ("dm stats create --areas 0 vol", 2, "--areas"),
        ("dm stats create --areasize 1b vol", 2, "multiple of 512 bytes"),
        ("dm stats create --bounds 30ms,20ms vol", 2, "write ascending times"),
        ("dm stats create", 2, "<DEVICES"),
        ("dm stats print vol", 2, "--regionid"),
        ("dm stats clear --allregions", 2, "<DEVICES"),
        ("dm stats list -o colour", 2, "no column `colour`; there are: name, group_id"),
        ("dm stats report --interval 0", 2, "greater than 0"),
    ] {
        scratch.fails(words, code, &[says]);
    }
    let (code, stdout, stderr) = scratch.run("dm stats list --programid nobody");
    assert_eq!((code, stdout.as_str()), (0, ""));
    assert!(stderr.contains("no regions of program nobody, and 4 of others: --allprograms"), "{stderr}");
    let (_, _, stderr) = scratch.run("dm stats list x");
    assert!(stderr.contains("`shingle dm stats create DEVICE` makes one"), "{stderr}");
}

#[test]
fn counters_of_more_areas_than_fit_in_one_answer_are_printed_in_parts() {
    let scratch = Scratch::with_stack(STACK);
    let _daemon = scratch.up();
    scratch.dm(&["create", "vol", "--table", "0 16384 linear a 0"]);
    scratch.ok("dm stats create vol --areasize 1s");
    let shown = scratch.ok("dm stats print vol --regionid 0");
    let starts: Vec<u64> = shown.lines().map(|line| line.split_once('+').unwrap().0.parse().unwrap()).collect();
    assert_eq!(starts, (0..16384).collect::<Vec<u64>>());
    // More than any device here has: 20,480 areas of 14 numbers.
    scratch.dm(&["create", "far", "--table", "0 8 error"]);
    scratch.ok("dm stats create far --length 20480 --areasize 1s");
    for words in ["dm stats report far --raw", "dm stats print far --regionid 0 --json"] {
        scratch.fails(words, 1, &["these regions have 286720 counters, and 262144 can be looked at together"]);
    }
}
