//! `shingle stl` as users run it, and a volume that a daemon serves.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::Scratch;
use crate::program::nbd::{Nbd, pattern};

const SMR: &str = "[disk.smr]\ntype = \"zoned-dir\"\npath = \"smr\"\n";

/// A directory with a zoned disk `smr` of 96 zones of 1 MiB, the first 4 conventional.
fn with_disk() -> Scratch {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 96MiB --zone-size 1MiB --conventional 4");
    scratch
}

/// A stack file that serves a volume, as its table line says.
fn serve(scratch: &Scratch, table: &str, more: &str) {
    scratch.file(
        "stack.toml",
        &format!(
            "{SMR}\n[device.vol]\ntable = \"{table}\"\n{more}\n[export.vol]\ndevice = \"vol\"\n\n[listen]\nunix = \
             \"nbd.sock\"\n\n[control]\nsocket = \"control.sock\"\n"
        ),
    );
}

/// Writes block `n` with `pattern(n, version)` for each of them, and waits until that is durable by a clean stop.
fn write(client: &mut Nbd, blocks: std::ops::Range<u64>, version: u64) {
    let count = blocks.clone().count();
    for block in blocks {
        client.send(1, block * 4096, &pattern(block, version));
    }
    client.written(count);
}

/// A volume with 600 blocks, of which every third was written twice; its table line.
fn used() -> (Scratch, String) {
    let scratch = with_disk();
    let made = scratch.json("stl format smr --json");
    let table = made["table"].as_str().unwrap().to_owned();
    serve(&scratch, &table, "");
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "vol");
    write(&mut client, 0..600, 1);
    (0..600).step_by(3).for_each(|block| write(&mut client, block..block + 1, 2));
    drop(client);
    daemon.stop();
    (scratch, table)
}

/// Whether the volume has what [`used`] wrote.
#[track_caller]
fn is_served(scratch: &Scratch) {
    let daemon = scratch.up();
    let mut client = Nbd::connect(scratch, "vol");
    for block in 0..600 {
        let version = if block % 3 == 0 { 2 } else { 1 };
        assert!(client.read(block * 4096) == pattern(block, version), "block {block}");
    }
    drop(client);
    daemon.stop();
}

#[test]
fn a_format_says_what_it_made_what_reserves_cost_and_how_to_serve_it() {
    let scratch = with_disk();
    let said = scratch.ok("stl format smr --reserve 10");
    for words in [
        "disk 0: smr, 96 MiB, 96 zones of 1 MiB, 4 of them conventional",
        "10 % kept back",
        "chosen",
        "[disk.smr]",
        "Done.",
    ] {
        assert!(said.contains(words), "{words} is missing:\n{said}");
    }
    let made = scratch.json("stl format smr --force --json --uuid c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90");
    assert_eq!(made["uuid"], "c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90");
    assert_eq!(made["table"], format!("0 {} stl smr", made["sectors"]));
    assert_eq!(made["reserve_per_mille"], 70);
    let costs = made["reserves"].as_array().unwrap();
    let of = |key: &str| costs.iter().map(|cost| cost[key].as_f64().unwrap()).collect::<Vec<_>>();
    assert!(of("bytes").is_sorted_by(|one, next| one > next), "more is kept back");
    assert!(of("amplification_100").is_sorted_by(|one, next| one > next), "and less is written");
    assert!(of("amplification_80").iter().zip(of("amplification_100")).all(|(some, all)| *some < all));
    let checked = scratch.json("stl check smr --json");
    assert_eq!((&checked["check"]["clean"], &checked["check"]["live_blocks"]), (&json!(true), &json!(0)));
    assert_eq!(checked["check"]["volume"]["sectors"], made["sectors"]);
}

/// A stack file can be lost, and the disks moved to another machine.
#[test]
fn check_and_dump_print_the_table_line_of_a_volume() {
    let scratch = with_disk();
    let made = scratch.json("stl format smr --json");
    let line = format!("\ntable: {}\n", made["table"].as_str().unwrap());
    for command in ["check", "scrub", "dump"] {
        let said = scratch.ok(&format!("stl {command} smr"));
        assert!(said.contains(&line), "{command}:\n{said}");
        assert_eq!(scratch.json(&format!("stl {command} smr --json"))["table"], made["table"]);
    }
}

/// README's recipe for those who are not root.
#[test]
fn a_format_writes_the_stack_file_that_serves_the_volume() {
    let scratch = with_disk();
    scratch.ok("stl format smr --stack stack.toml");
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "stl-smr");
    write(&mut client, 0..3, 1);
    drop(client);
    daemon.stop();
    assert!(scratch.ok("stl check smr").contains("live: 3 blocks"));
    scratch.fails("stl format smr --force --stack stack.toml", 1, &["stack.toml is there already"]);
    assert!(scratch.ok("stl check smr").contains("live: 3 blocks"), "nothing was done");
}

#[test]
fn what_is_on_a_disk_is_not_destroyed_without_force_and_wrong_words_are_told() {
    let scratch = with_disk();
    scratch.ok("stl format smr");
    scratch.fails("stl format smr", 1, &["smr holds an stl volume", "--force"]);
    scratch.fails("dmz format smr", 1, &["smr holds an stl volume", "--force"]);
    scratch.ok("dmz format smr --force --label=old");
    scratch.fails("stl format smr", 1, &["the dm-zoned set `old`"]);
    for reserve in ["2", "91", "x", "-1"] {
        scratch.fails(&format!("stl format smr --force --reserve={reserve}"), 2, &["no percentage from 3 to 90"]);
    }
    scratch.ok("create few --size 6MiB --zone-size 1MiB");
    scratch.fails("stl format few", 1, &["few: 6 zones can be written", "take a larger disk"]);
    scratch.ok("create big --size 48MiB --zone-size 2MiB");
    let lengths = "few has zones of 1 MiB, big has zones of 2 MiB: choose disks with zones of one length";
    scratch.fails("stl format few big", 1, &[lengths]);
    scratch.fails("stl format few few", 1, &["few", "named twice"]);
    scratch.fails("stl format", 2, &["<DISK>"]);
    scratch.fails("stl check few", 3, &[]);
    scratch.fails("stl dump few", 1, &["no root was found", "stl salvage"]);
    scratch.fails("stl salvage few -o image", 1, &["hold no volume", "nothing to salvage"]);
}

#[test]
fn tools_say_what_a_disk_of_another_kind_holds() {
    let scratch = Scratch::new();
    for disk in ["log", "set", "fs", "new"] {
        scratch.ok(&format!("create {disk} --size 64MiB --zone-size 1MiB --conventional 8"));
    }
    scratch.ok("stl format log");
    scratch.ok("dmz format set --label old");
    let mut head = vec![0; 4096];
    head[1080..1082].copy_from_slice(b"\x53\xef");
    let first = std::fs::OpenOptions::new().write(true).open(scratch.0.join("fs/cnv-000000")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&first, &head, 0).unwrap();

    for command in ["check", "dump", "repair", "relabel --label x", "salvage -o image"] {
        let says = |disk: &str, what: &str| scratch.fails(&format!("dmz {command} {disk}"), 1, &[what]);
        says("log", "log holds no dm-zoned set but an stl volume: use `shingle stl`");
        says("fs", "fs holds no dm-zoned set but an ext2, ext3 or ext4 file system: name another disk");
    }
    for command in ["check", "scrub", "dump", "salvage -o image", "add --new new", "remove --device new new"] {
        let says = |disk: &str, what: &str| scratch.fails(&format!("stl {command} {disk}"), 1, &[what]);
        says("set", "set holds no stl volume but the dm-zoned set `old`: use `shingle dmz`");
        says("fs", "fs holds no stl volume but an ext2, ext3 or ext4 file system: name another disk");
    }
    // A disk of which nothing is known: no command is advised that destroys it, but as one that does.
    let (code, said, _) = scratch.run("dmz check new");
    assert!(code == 3 && said.contains("destroys what they hold"), "{said}");
}

#[test]
fn a_path_without_a_disk_is_named_with_what_is_there() {
    let scratch = Scratch::new();
    scratch.file("passwd", &"root:x:0:0:\n".repeat(100));
    scratch.fails("stl format /dev/no-such", 1, &["/dev/no-such: there is no such device", "shingle disks"]);
    scratch.fails("stl format nowhere", 1, &["nowhere: there is no such file or directory", "shingle create"]);
    let (code, _, said) = scratch.run("stl format passwd");
    assert!(code == 1 && said.contains("look whether it is the right file") && !said.contains("truncate"), "{said}");
}

#[test]
fn a_volume_is_served_checked_scrubbed_and_dumped() {
    let (scratch, table) = used();
    let said = scratch.ok("stl check smr --data");
    assert!(said.contains("live: 600 blocks") && said.ends_with("No error detected\n"), "{said}");
    let scrubbed = scratch.json("stl scrub smr --rate 64MiB --json");
    assert_eq!(scrubbed["check"]["read_blocks"], 600);
    scratch.fails("stl scrub smr --rate 0", 2, &["for ever"]);
    let dumped = scratch.json("stl dump smr --json");
    let zones = dumped["zone_list"].as_array().unwrap();
    assert_eq!((zones.len(), &zones[0]["use"], &zones[1]["use"]), (96, &json!("roots"), &json!("roots")));
    let written = zones.iter().find(|zone| zone["stream"] == "users").unwrap()["zone"].clone();
    let batches = scratch.json(&format!("stl dump smr --zone {written} --json"));
    let first = &batches["batches"][0];
    assert_eq!(
        (&first["kind"], &first["number"], &first["records"][0]["block"]),
        (&json!("users"), &json!(1), &json!(0))
    );
    assert!(scratch.ok(&format!("stl dump smr --zone {written}")).contains("its batches end at block"));
    assert!(scratch.ok("stl dump smr").contains("stream"));
    scratch.fails("stl dump smr --zone 96", 2, &["there is no zone 96"]);
    serve(&scratch, &table, "");
    is_served(&scratch);
}

#[test]
fn a_volume_that_is_served_tells_its_figures_takes_knobs_and_refuses_the_tools() {
    let (scratch, table) = used();
    serve(&scratch, &format!("{table} memory:16"), "knobs = { batch = 64, runs = 9 }\n");
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "vol");
    write(&mut client, 0..10, 3);
    assert_eq!(scratch.ok("dm table vol"), format!("{table} memory:16\n"));
    assert!(scratch.ok("dm status vol").contains(" stl 96 zones "), "{}", scratch.ok("dm status vol"));
    assert_eq!(scratch.ok("dm message vol 0 knobs"), "memory 16\nbatch 64\nreplay 3\nturn 4096\nruns 9\nidle 10\n");
    let said = scratch.ok("status");
    assert!(said.contains("data/copies/map zones") && said.contains("resting"), "{said}");
    let status = scratch.json("status --json");
    let device = status["devices"].as_array().unwrap().iter().find(|device| device["name"] == "vol").unwrap();
    assert_eq!((&device["figures"][0]["volume"], &device["figures"][0]["zones"]), (&json!("ready"), &json!(96)));
    scratch.fails("stl check smr", 1, &["smr", &format!("process {}", daemon.child.id())]);
    is_watched(&scratch);
    drop(client);
    daemon.stop();
    serve(&scratch, &table, "knobs = { batch = 0 }\n");
    scratch.fails("up --check stack.toml", 1, &["batch is `0`: write a number from 1 to 4096"]);
}

#[test]
fn a_disk_is_added_and_the_volume_is_larger_and_has_what_it_had() {
    let (scratch, table) = used();
    scratch.ok("create more --size 48MiB --zone-size 1MiB");
    scratch.ok("create other --size 48MiB --zone-size 2MiB");
    scratch.fails("stl add smr --new smr", 1, &["smr", "named twice"]);
    scratch.fails("stl add smr --new other", 1, &["smr has zones of 1 MiB, other has zones of 2 MiB: choose"]);
    scratch.fails("stl add more --new smr", 1, &["smr holds an stl volume", "--force"]);
    scratch.fails("stl add more --new other", 1, &["no root was found", "all disks of a volume"]);
    let added = scratch.json("stl add smr --new more --json");
    assert_eq!(format!("0 {} stl smr", added["sectors_before"]), table);
    assert!(added["sectors"].as_u64() > added["sectors_before"].as_u64());
    assert_eq!(added["table"], format!("0 {} stl smr more", added["sectors"]));
    assert!(scratch.ok("stl check more smr --data").ends_with("No error detected\n"));
    scratch.fails("stl check smr", 3, &[]);
    let one = added["stack"].as_str().unwrap().replace("stl-smr", "vol");
    scratch.file("stack.toml", &one);
    is_served(&scratch);
    scratch.fails("stl add smr --new other", 1, &["is missing", "all disks of a volume"]);
}

#[test]
fn a_disk_is_removed_and_what_was_on_it_is_on_the_others() {
    let (scratch, _) = used();
    for (name, zone) in [("more", 1), ("other", 1), ("wide", 2)] {
        scratch.ok(&format!("create {name} --size 48MiB --zone-size {zone}MiB"));
    }
    scratch.fails("stl remove smr --device smr", 1, &["smr cannot be removed", "no zoned disk would be left"]);
    let added = scratch.json("stl add smr --new more --json");
    scratch.file("stack.toml", &added["stack"].as_str().unwrap().replace("stl-smr", "vol"));
    is_served(&scratch);
    for (other, why) in [("other", "does not belong to volume"), ("wide", "does not belong to volume")] {
        scratch.fails(&format!("stl remove smr more --device {other}"), 1, &[why, "all disks of a volume"]);
    }
    scratch.fails("stl remove more --device more", 1, &["is missing", "all disks of a volume"]);
    scratch.fails("stl remove smr --device more --size 1MiB", 1, &["data up to sector 4800", "resize2fs DEVICE 1024K"]);
    scratch.fails(
        "stl remove smr --device more --size 1GiB",
        1,
        &["more cannot be removed", "the other disks have room for"],
    );
    // The disk with all that was written first: what is left has less room than now.
    let removed = scratch.json("stl remove smr more --device smr --json");
    assert_eq!(removed["sectors_before"], added["sectors"]);
    assert!(removed["sectors"].as_u64() < added["sectors_before"].as_u64());
    assert_eq!(removed["table"], format!("0 {} stl more", removed["sectors"]));
    assert_eq!(removed["devices"].as_array().unwrap().len(), 1);
    let said = scratch.ok("stl check more --data");
    assert!(said.ends_with("No error detected\n"), "{said}");
    scratch.fails("stl check more smr", 3, &[]);
    scratch.file("stack.toml", &removed["stack"].as_str().unwrap().replace("stl-more", "vol"));
    is_served(&scratch);
    assert!(scratch.ok("stl check more --data").ends_with("No error detected\n"));
    let again = scratch.json("stl add more --new smr --json --force");
    assert!(again["sectors"].as_u64() > again["sectors_before"].as_u64());
    let said = scratch.ok("stl remove more --device smr --size 8MiB");
    assert!(said.contains("smr is none of the volume any more\n") && said.contains(", 8 MiB now\n"), "{said}");
    assert!(scratch.ok("stl dump more").contains(" is gone\n"));
}

/// `stl status`, of a volume of 96 zones to which 10 blocks were written.
#[track_caller]
fn is_watched(scratch: &Scratch) {
    let said = scratch.ok("stl status vol");
    let lines = [
        "vol: ready\n",
        " exposed, ",
        " MiB of it used at most\n",
        "96, ",
        "resting: 0 zones cleaned, 0 marked",
        "40 KiB by users; 1.00 times that with copies, ",
        " batches, 0 written again; 0 writes wait; the slowest took ",
        "0 blocks were not what was written",
    ];
    lines.iter().for_each(|words| assert!(said.contains(words), "{words} is missing:\n{said}"));
    assert_eq!(scratch.ok("stl status"), said, "there is one");
    let volumes = scratch.json("stl status --json")["volumes"].clone();
    let figures = &volumes[0]["figures"];
    assert_eq!((&volumes[0]["name"], &figures["user_blocks"]), (&json!("vol"), &json!(10)));
    assert!(figures["slowest_write_us"].as_u64().unwrap() > 0 && figures["memory_bytes"].as_u64().unwrap() > 0);
    scratch.fails("stl status smr", 1, &["no stl volume `smr`", "there are: vol"]);
}

/// Cuts all of both zones of roots off.
fn lose_roots(scratch: &Scratch) {
    for name in ["cnv-000000", "cnv-000001"] {
        fs::write(scratch.0.join("smr").join(name), vec![0; 1 << 20]).unwrap();
    }
    scratch.fails("stl check smr", 3, &[]);
}

#[test]
fn a_volume_without_roots_is_copied_into_an_image_and_made_a_volume_again() {
    let (scratch, table) = used();
    let sectors = table.split(' ').nth(1).unwrap();
    scratch.fails("stl salvage smr --in-place", 1, &["a root of this volume can be read", "--force"]);
    lose_roots(&scratch);
    let said = scratch.json("stl salvage smr -o image --json --report lost");
    assert_eq!(
        (&said["lost"], &said["source"], &said["sectors"]),
        (&json!([]), &json!("the disks"), &json!(sectors.parse::<u64>().unwrap()))
    );
    let image = fs::read(scratch.0.join("image")).unwrap();
    assert_eq!(image.len() as u64, sectors.parse::<u64>().unwrap() * 512);
    for (block, bytes) in (0..).zip(image.chunks(4096)) {
        let expected = if block < 600 { pattern(block, if block % 3 == 0 { 2 } else { 1 }) } else { vec![0; 4096] };
        assert!(bytes == expected, "block {block}");
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(scratch.0.join("lost")).unwrap()).unwrap();
    assert_eq!(report, json!([]));
    scratch.fails("stl salvage smr", 2, &["--output", "--in-place"]);
    scratch.fails("stl salvage smr --in-place", 2, &["write --sectors"]);
    scratch.fails("stl salvage smr --in-place --sectors 80", 2, &["blocks up to sector 4800"]);
    let said = scratch.ok(&format!("stl salvage smr --in-place --sectors {sectors}"));
    assert!(said.contains("a new map of 600 blocks") && said.contains("Nothing is known to be lost"), "{said}");
    // Cut off behind its last write, it is done again.
    let said = scratch.ok("stl salvage smr --in-place");
    assert!(said.contains("a new map of 600 blocks") && said.contains("Nothing is known to be lost"), "{said}");
    assert!(scratch.ok("stl check smr --data").ends_with("No error detected\n"));
    serve(&scratch, &table, "");
    is_served(&scratch);
    assert!(scratch.ok("stl check smr --data").ends_with("No error detected\n"));
    scratch.fails("stl salvage smr --in-place", 1, &["a root of this volume can be read", "--force"]);
}

/// The files of the disk that have data of users.
fn files_with(scratch: &Scratch, block: &[u8]) -> Vec<(PathBuf, usize)> {
    let files = fs::read_dir(scratch.0.join("smr")).unwrap().map(|entry| entry.unwrap().path());
    let at = |path: PathBuf| {
        let bytes = fs::read(&path).ok()?;
        let found = bytes.chunks(4096).position(|found| found == block)?;
        Some((path, found * 4096))
    };
    files.filter_map(at).collect()
}

fn harm(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn data_that_is_damaged_is_told_by_block_with_exit_code_3() {
    let (scratch, _) = used();
    let found = files_with(&scratch, &pattern(7, 1));
    let [(path, at)] = &found[..] else { panic!("{found:?}") };
    harm(path, *at);
    assert!(scratch.ok("stl check smr").ends_with("No error detected\n"), "data is not read");
    let (code, said, _) = scratch.run("stl check smr --data");
    assert!(code == 3 && said.contains("block 7 at block") && said.contains("Errors detected"), "{said}");
    let (code, said, _) = scratch.run("stl scrub smr --json");
    let value: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &value["check"]["findings"][0]["kind"]), (3, &json!("checksum")));
    lose_roots(&scratch);
    let (code, said, _) = scratch.run("stl salvage smr -o image");
    assert!(code == 3 && said.contains("block 7 at block"), "{said}");
}

#[test]
fn stack_files_of_one_directory_have_sockets_of_their_own() {
    let scratch = Scratch::new();
    for disk in ["a", "b"] {
        scratch.ok(&format!("create {disk} --size 64MiB --zone-size 1MiB"));
    }
    let said = scratch.ok("stl format a --stack one.toml");
    let written = fs::read_to_string(scratch.0.join("one.toml")).unwrap();
    assert!(said.ends_with(&written), "the stack file that is shown is the one that is written: {said}");
    scratch.ok("stl format b --stack two.toml");
    let up = |file: &str| scratch.up_as(scratch.shingle().args(["up", file]).stderr(scratch.stderr_file()));
    let one = up("one.toml");
    assert!(scratch.ok("status").contains("unix:one.nbd.sock"), "the only live socket is found");
    let two = up("two.toml");
    scratch.fails("status", 1, &["several daemons run", "--control one.control.sock, --control two.control.sock"]);
    assert!(scratch.ok("status --control two.control.sock").contains("unix:two.nbd.sock"));
    one.stop();
    assert!(scratch.ok("status").contains("unix:two.nbd.sock"));
    two.stop();
}

#[test]
fn a_stack_file_that_cannot_be_written_is_found_out_before_the_disks_are_formatted() {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 64MiB --zone-size 1MiB");
    scratch.fails("stl format smr --stack no/such/folder.toml", 1, &["--stack: cannot create no/such/folder.toml"]);
    scratch.fails("stl dump smr", 1, &["no root was found"]);
    // A format that fails leaves no empty file behind, so the next one works.
    scratch.ok("create tiny --size 4MiB --zone-size 1MiB");
    scratch.fails("stl format tiny --stack s.toml", 1, &["a volume needs"]);
    scratch.ok("stl format smr --stack s.toml");
}
