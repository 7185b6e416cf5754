//! Volumes of dm-zoned as the daemon serves them, and what the disks are like after it.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::program::{Daemon, Scratch};

/// Size of the noise that is written.
const NOISE: usize = 24 << 20;

fn stack(disks: &str, table: &str) -> String {
    format!(
        "{disks}\n[device.vol]\ntable = \"{table}\"\n\n[export.vol]\ndevice = \"vol\"\n\n[listen]\nunix = \
         \"nbd.sock\"\n\n[control]\nsocket = \"control.sock\"\n"
    )
}

const SMR: &str = "[disk.smr]\ntype = \"zoned-dir\"\npath = \"smr\"\n";

/// A formatted disk of 128 zones of 1 MiB, and a stack file that serves it.
fn volume() -> Scratch {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 128MiB --zone-size 1MiB --conventional 12");
    scratch.ok("dmz format smr --label=vol --seq=4 --uuid=c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90");
    scratch.file("stack.toml", &stack(SMR, "0 1 zoned smr"));
    scratch
}

/// Runs nbdcopy between a file of the scratch directory and the volume.
#[track_caller]
fn copy(scratch: &Scratch, from: &str, to: &str) {
    let uri = format!("nbd+unix:///vol?socket={}/nbd.sock", scratch.0.display());
    let name = |end: &str| if end == "vol" { uri.clone() } else { end.to_owned() };
    let output = Command::new("nbdcopy")
        .current_dir(&scratch.0)
        .args(["--flush", &name(from), &name(to)])
        .output()
        .unwrap_or_else(|error| panic!("cannot run nbdcopy: {error}; apt-get install libnbd-bin"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Bytes that do not repeat.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let word = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    };
    (0..NOISE / 8).flat_map(word).collect()
}

/// Writes noise, twice at half of the places, and returns what the volume begins with now.
fn write_noise(scratch: &Scratch) -> Vec<u8> {
    let (first, second) = (noise(1), noise(2)[..NOISE / 2].to_vec());
    fs::write(scratch.0.join("first"), &first).unwrap();
    fs::write(scratch.0.join("second"), &second).unwrap();
    copy(scratch, "first", "vol");
    copy(scratch, "second", "vol");
    [&second, &first[NOISE / 2..]].concat()
}

#[track_caller]
fn reads_as(scratch: &Scratch, expected: &[u8]) {
    copy(scratch, "vol", "back");
    let back = fs::read(scratch.0.join("back")).unwrap();
    assert!(back.starts_with(expected) && back[expected.len()..].iter().all(|byte| *byte == 0));
}

#[track_caller]
fn is_clean(scratch: &Scratch, disks: &str) {
    let said = scratch.ok(&format!("dmz check {disks}"));
    assert!(said.ends_with("No error detected\n"), "{said}");
}

fn interrupted(scratch: &Scratch) -> Vec<u8> {
    let daemon = scratch.up();
    let written = write_noise(scratch);
    daemon.kill();
    written
}

#[test]
fn a_volume_is_as_long_as_its_disk_says_and_keeps_what_is_written_over_a_stop() {
    let scratch = volume();
    let daemon = scratch.up();
    assert_eq!(scratch.ok("dm table vol"), "0 249856 zoned smr\n");
    assert!(scratch.ok("dm info vol").contains("UUID: dmz-c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90"));
    let written = write_noise(&scratch);
    let status = scratch.ok("dm status vol");
    assert!(status.starts_with("0 249856 zoned 128 zones 0/0 cache "), "{status}");
    daemon.stop();
    is_clean(&scratch, "smr");
    let daemon = scratch.up();
    reads_as(&scratch, &written);
    daemon.stop();
    is_clean(&scratch, "smr");
}

#[test]
fn what_was_flushed_survives_the_daemons_death_and_a_clean_stop_leaves_nothing_to_repair() {
    let scratch = volume();
    let written = interrupted(&scratch);
    let daemon = scratch.up();
    reads_as(&scratch, &written);
    daemon.stop();
    is_clean(&scratch, "smr");
}

#[test]
fn a_stop_commits_what_nobody_flushed() {
    let scratch = volume();
    let daemon = scratch.up();
    let uri = format!("nbd+unix:///vol?socket={}/nbd.sock", scratch.0.display());
    // A cache of its own would flush when it ends.
    let write = ["-f", "raw", "-t", "unsafe", "-c", "write -P 7 5M 3M", &uri];
    let output = Command::new("qemu-io").args(write).output().expect("qemu-io is missing: apt-get install qemu-utils");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    daemon.stop();
    is_clean(&scratch, "smr");
    let daemon = scratch.up();
    reads_as(&scratch, &[vec![0; 5 << 20], vec![7; 3 << 20]].concat());
    daemon.stop();
}

/// Runs a client on an export of the daemon; what it printed.
#[track_caller]
fn client(scratch: &Scratch, program: &str, words: &[&str]) -> String {
    let output = Command::new(program).current_dir(&scratch.0).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}; see scripts/install-tools.sh"));
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Sectors that were read of a device.
fn sectors_read(scratch: &Scratch, device: &str) -> u64 {
    let status = scratch.json("status --json");
    let devices = status["devices"].as_array().unwrap();
    let device = devices.iter().find(|found| found["name"] == device).unwrap();
    device["counters"]["sectors"]["read"].as_u64().unwrap_or(0)
}

#[test]
fn clients_see_the_holes_of_a_volume_and_copy_only_the_rest() {
    let scratch = volume();
    let half = "[device.half]\ntable = \"0 8192 linear vol 8192\"\n\n[export.half]\ndevice = \"half\"\n";
    scratch.file("stack.toml", &format!("{}\n{half}", stack(SMR, "0 1 zoned smr")));
    let daemon = scratch.up();
    let uri = |export: &str| format!("nbd+unix:///{export}?socket={}/nbd.sock", scratch.0.display());
    let (vol, half) = (uri("vol"), uri("half"));
    let write = ["-f", "raw", "-c", "write -P 7 5M 3M", "-c", "write -P 8 6M 4k", "-c", "discard 7M 64k", &vol];
    client(&scratch, "qemu-io", &write);
    let map = |uri: &str| -> Vec<(u64, u64, u64)> {
        let map = client(&scratch, "nbdinfo", &["--map", uri]);
        let number = |word: Option<&str>| word.unwrap().parse().unwrap();
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            (number(words.next()), number(words.next()), number(words.next()))
        };
        map.lines().map(line).collect()
    };
    let (mib, all) = (1 << 20, 249_856 * 512);
    let (hole, end) = (7 * mib + (64 << 10), 8 * mib);
    let expected = [(0, 5 * mib, 3), (5 * mib, 2 * mib, 0), (7 * mib, 64 << 10, 3), (hole, end - hole, 0)];
    assert_eq!(map(&vol), [&expected[..], &[(end, all - end, 3)]].concat());
    // The line begins 4 MiB into the volume.
    let seen = expected
        .map(|(start, length, kind)| (start.max(4 * mib) - 4 * mib, length.min(start + length - 4 * mib), kind));
    assert_eq!(map(&half), seen);
    let before = sectors_read(&scratch, "vol");
    copy(&scratch, "vol", "back");
    client(&scratch, "qemu-img", &["convert", "-f", "raw", "-O", "raw", &vol, "again"]);
    let read = (sectors_read(&scratch, "vol") - before) * 512;
    assert!(read >= 2 * (3 * mib - (64 << 10)) && read < 2 * 4 * mib, "{read} bytes of {all} were read");
    let [back, again] = ["back", "again"].map(|name| fs::read(scratch.0.join(name)).unwrap());
    let part = |byte: u8, bytes: u64| vec![byte; bytes as usize];
    let expected =
        [part(0, 5 * mib), part(7, mib), part(8, 4096), part(7, mib - 4096), part(0, 64 << 10), part(7, end - hole)];
    let expected = [expected.concat(), part(0, all - end)].concat();
    assert!(back == expected && again == expected, "other bytes came back");
    daemon.stop();
}

#[test]
fn a_client_of_small_requests_is_served_through_nbdkit() {
    let scratch = volume();
    let daemon = scratch.up();
    let vol = format!("uri=nbd+unix:///vol?socket={}/nbd.sock", scratch.0.display());
    // It runs the shell with the socket that it serves, and ends with it.
    let steps = "qemu-io -f raw -c 'write -P 7 0 8k' -c 'write -P 9 513 512' -c 'write -z 5000 1' \
                 -c 'read -P 7 0 513' -c 'read -P 9 513 512' -c 'read -P 7 1025 3975' -c 'read -P 0 5000 1' \"$uri\"";
    let words = ["-U", "-", "--filter=blocksize", "nbd", &vol, "minblock=4096", "--run", steps];
    let said = client(&scratch, "nbdkit", &words);
    assert!(said.contains("wrote 512/512 bytes at offset 513") && !said.contains("failed"), "{said}");
    daemon.stop();
    is_clean(&scratch, "smr");
}

#[test]
fn a_regular_disk_is_the_cache_of_two_zoned_ones() {
    let scratch = Scratch::new();
    fs::File::create(scratch.0.join("reg")).unwrap().set_len(20 << 20).unwrap();
    scratch.ok("create z1 --size 48MiB --zone-size 1MiB");
    scratch.ok("create z2 --size 48MiB --zone-size 1MiB --conventional 6");
    let next = scratch.json("dmz format reg z1 z2 --label=vol --seq=6 --json")["stack"].as_str().unwrap().to_owned();
    scratch.file("stack.toml", &next);
    let daemon = scratch.up();
    let written = write_noise(&scratch);
    assert!(scratch.ok("dm status vol").contains(" cache "));
    daemon.stop();
    is_clean(&scratch, "reg z1 z2");
    let daemon = scratch.up();
    reads_as(&scratch, &written);
    daemon.stop();
}

#[test]
fn a_volume_comes_and_goes_while_the_daemon_runs() {
    let scratch = volume();
    scratch.file("stack.toml", &format!("{SMR}\n[control]\nsocket = \"control.sock\"\n"));
    let daemon: Daemon = scratch.up();
    let create = |table: &str| scratch.shingle().args(["dm", "create", "vol", "--table", table]).output().unwrap();
    for (table, says) in [
        ("0 1 zoned smr\n1 8 zero", "partial mapping is not supported"),
        ("0 1 zoned smr smr", "named twice"),
        ("0 1 zoned nothing", "there is no device `nothing`"),
    ] {
        let said = create(table);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains(says), "{table}:\n{said}");
    }
    assert!(create("0 1 zoned smr").status.success());
    assert_eq!(scratch.ok("dm table vol"), "0 249856 zoned smr\n");
    scratch.ok("dm message vol 0 reclaim");
    scratch.fails("dm message vol 0 nonsense", 1, &["nonsense"]);
    scratch.ok("dm remove dmz-c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90");
    daemon.stop();
    is_clean(&scratch, "smr");
}

#[test]
fn a_disk_below_a_volume_is_exported_to_readers_alone() {
    let scratch = volume();
    let stack = stack(SMR, "0 1 zoned smr");
    let daemon = scratch.up();
    scratch.fails("export add raw smr", 1, &["`smr` cannot be exported as `raw`", "`vol` alone", "read-only"]);
    scratch.ok("export add raw smr --read-only");
    scratch.ok("export remove raw");
    scratch.fails("export add raw smr", 1, &["`vol` alone"]);
    daemon.stop();
    scratch.file("stack.toml", &format!("{stack}\n[export.raw]\ndevice = \"smr\"\n"));
    scratch.fails("up stack.toml", 1, &["`smr` cannot be exported as `raw`", "`vol` alone"]);
    scratch.file("stack.toml", &format!("{stack}\n[export.raw]\ndevice = \"smr\"\nread-only = true\n"));
    scratch.up().stop();
}

#[test]
fn an_operator_sees_what_a_volume_does_in_figures() {
    let scratch = volume();
    let daemon = scratch.up();
    let written = write_noise(&scratch);
    let figures = &scratch.json("dm status vol --json")["devices"][0]["lines"][0]["figures"];
    let count = |name: &str| figures[name].as_u64().unwrap_or_else(|| panic!("{name} is missing: {figures}"));
    assert_eq!((count("direct_blocks") + count("random_blocks")) * 4096, (NOISE + NOISE / 2) as u64);
    assert!(count("commits") > 0 && figures["amplification"].as_f64() >= Some(1.0), "{figures}");
    assert_eq!((&figures["policy"], &figures["waiting_writes"]), (&json!("shingle"), &json!(0)));
    let lines = scratch.ok("dm message vol 0 counters");
    assert!(lines.contains(&format!("direct_blocks {}\n", count("direct_blocks"))), "{lines}");
    let status = scratch.json("status --json");
    let vol = status["devices"].as_array().unwrap().iter().find(|device| device["name"] == "vol").unwrap();
    assert_eq!(vol["description"], "0 249856 zoned smr");
    assert_eq!(vol["figures"][0]["direct_blocks"], figures["direct_blocks"]);
    assert!(scratch.ok("status").contains("amplification"));
    reads_as(&scratch, &written);
    daemon.stop();
}

#[test]
fn knobs_of_the_stack_file_hold_after_every_start() {
    let scratch = volume();
    let with = |knobs: &str| {
        let table = "table = \"0 1 zoned smr\"";
        let stack = stack(SMR, "0 1 zoned smr").replace(table, &format!("{table}\nknobs = {{ {knobs} }}"));
        scratch.file("stack.toml", &stack);
    };
    // Each alone would not fit between the others.
    with("start_percent = 30, stop_percent = 50, policy = \"kernel\"");
    for _ in 0..2 {
        let daemon = scratch.up();
        let knobs = scratch.ok("dm message vol 0 knobs");
        for line in ["start_percent 30\n", "stop_percent 50\n", "policy kernel\n"] {
            assert!(knobs.contains(line), "{line:?} is missing:\n{knobs}");
        }
        scratch.fails("dm message vol 0 set start_percent 60", 1, &["below stop_percent, which is 50"]);
        daemon.stop();
    }
    with("speed = 9");
    scratch.fails("up --check stack.toml", 1, &["stack.toml:7", "there is no knob `speed`"]);
    with("start_percent = 70");
    scratch.fails("up --check stack.toml", 1, &["it has to be below stop_percent, which is 15"]);
    with("start_percent = [1]");
    scratch.fails("up --check stack.toml", 1, &["write a number or a word"]);
    scratch.file("stack.toml", &stack(SMR, "0 8 linear smr 0\"\nknobs = { pieces = 9 }\n#"));
    scratch.fails("up --check stack.toml", 1, &["only a volume has knobs"]);
}

#[test]
fn a_disk_that_is_no_set_is_refused_with_what_to_do() {
    let scratch = volume();
    fs::write(scratch.0.join("smr/cnv-000000"), vec![0; 1 << 20]).unwrap();
    fs::write(scratch.0.join("smr/cnv-000001"), vec![0; 1 << 20]).unwrap();
    scratch.fails("up stack.toml", 1, &["stack.toml:6", "no dm-zoned set", "shingle dmz check"]);
}

#[test]
fn a_set_on_a_disk_with_few_active_zones_is_read_only_and_says_why() {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 64MiB --zone-size 1MiB --conventional 16");
    let formatted = scratch.ok("dmz format smr --label set");
    scratch.file("stack.toml", &formatted[formatted.find("[disk").unwrap()..]);
    // As a disk says that was formatted elsewhere.
    std::fs::remove_file(scratch.0.join("smr/shingle-disk.toml")).unwrap();
    scratch.ok("create --adopt smr --size 64MiB --zone-size 1MiB --conventional 16 --max-active 14");
    let daemon = scratch.up();
    let mut client = crate::program::nbd::Nbd::connect(&scratch, "set");
    assert_eq!((client.read_status(0), client.write_status(0, &[1; 4096])), (0, 1));
    assert!(scratch.ok("status").contains("set is read-only: device 0 allows 14 active zones at a time"));
    drop(client);
    daemon.stop();
}
