//! `shingle dmz` as users run it: dmzadm's operations on disks that no daemon serves.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::program::Scratch;

/// A directory with a zoned disk `smr` of 64 zones of 1 MiB, the first 12 conventional.
fn with_disk() -> Scratch {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 64MiB --zone-size 1MiB --conventional 12");
    scratch
}

/// A set of a regular file and two zoned disks.
fn with_three_disks() -> Scratch {
    let scratch = Scratch::new();
    fs::File::create(scratch.0.join("reg")).unwrap().set_len(21 << 20).unwrap();
    scratch.ok("create z1 --size 48MiB --zone-size 1MiB");
    scratch.ok("create z2 --size 48MiB --zone-size 1MiB --conventional 6");
    scratch
}

#[test]
fn a_format_says_what_it_made_and_how_to_serve_it() {
    let scratch = with_disk();
    let said = scratch.ok("dmz format smr --seq=4 --label=fix1");
    let geometry = "smr: 131072 512-byte sectors (0 GiB)\n  Host-managed device\n  64 zones, offset 0\n  64 zones of 2048 \
                    512-byte sectors (1 MiB)\n  256 4KB data blocks per zone\n";
    assert!(said.starts_with(geometry), "{said}");
    for words in ["58 data chunks", "[disk.smr]", "[device.fix1]", "table = \"0 118784 zoned smr\"", "Done."] {
        assert!(said.contains(words), "{words} is missing:\n{said}");
    }
    let size = |name: &str| fs::metadata(scratch.0.join("smr").join(name)).unwrap().len();
    assert_eq!((size("cnv-000000"), size("seq-000012")), (1 << 20, 0));
    let superblock = fs::read(scratch.0.join("smr/cnv-000000")).unwrap();
    assert_eq!((&superblock[..8], &superblock[48..52]), (b"DBZD\x02\0\0\0".as_slice(), b"fix1".as_slice()));
}

#[test]
fn what_is_written_as_for_dmzadm_is_understood() {
    let scratch = with_disk();
    scratch.ok("dmz --format smr --seq=4 --label=fix1");
    assert!(scratch.ok("dmz --check smr").ends_with("No error detected\n"));
    scratch.ok("dmz --repair smr");
    scratch.ok("dmz --relabel smr --label=other");
    assert!(scratch.ok("dmz dump smr").contains("other"));
}

#[test]
fn a_format_of_three_disks_is_told_as_json_too() {
    let scratch = with_three_disks();
    let uuid = "c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90";
    let made = scratch.json(&format!("dmz format reg z1 z2 --seq=6 --uuid={uuid} --json"));
    assert_eq!(
        made["devices"][2],
        json!({"path": "z2", "zoned": true, "bytes": 48 << 20, "first_zone": 69, "zones": 48})
    );
    let numbers = ["zones", "chunks", "reserved", "metadata_blocks", "metadata_zones"].map(|key| made[key].as_u64());
    assert_eq!(numbers, [117, 109, 6, 119, 1].map(Some));
    assert_eq!((&made["label"], &made["uuid"]), (&json!("dmz-reg"), &json!(uuid)));
    assert_eq!(made["table"], "0 223232 zoned reg z1 z2");
    let third = fs::read(scratch.0.join("z1/seq-000000")).unwrap();
    assert_eq!((&third[..4], third[80], third[81]), (b"DBZD".as_slice(), 0xc2, 0x23));
}

#[test]
fn version_1_has_neither_label_nor_uuid() {
    let scratch = with_disk();
    let made = scratch.json("dmz format smr --version=1 --json");
    assert_eq!((&made["version"], &made["label"], &made["uuid"]), (&json!(1), &json!(null), &json!(null)));
    scratch.fails("dmz format smr --force --version=1 --label=x", 2, &["version 1 has no label"]);
    scratch.fails("dmz format smr --force --version=1 --uuid=c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90", 2, &["no UUID"]);
}

#[test]
fn what_is_on_a_disk_is_not_destroyed_without_force() {
    let scratch = with_disk();
    scratch.ok("dmz format smr --label=archive");
    scratch.fails("dmz format smr", 1, &["smr holds the dm-zoned set `archive`", "--force"]);
    scratch.ok("dmz format smr --force --yes");
    let scratch = with_three_disks();
    fs::write(scratch.0.join("z2/seq-000009"), [1; 8192]).unwrap();
    scratch.fails("dmz format reg z1 z2", 1, &["z2 holds data in zone 9", "2 blocks"]);
    let mut image = vec![0; 21 << 20];
    image[1080..1082].copy_from_slice(&[0x53, 0xef]);
    fs::write(scratch.0.join("reg"), image).unwrap();
    scratch.fails("dmz format reg z1 z2", 1, &["reg holds an ext2, ext3 or ext4 file system"]);
    scratch.ok("dmz format reg z1 z2 --force");
    assert_eq!(fs::metadata(scratch.0.join("z2/seq-000009")).unwrap().len(), 0, "emptied");
}

#[test]
fn disks_that_are_no_set_are_refused_by_name() {
    let scratch = with_three_disks();
    scratch.ok("create big --size 48MiB --zone-size 2MiB");
    let cases = [
        ("reg", &["reg", "regular device alone"][..]),
        ("z1 reg", &["reg", "only the first may be regular"]),
        ("reg z1 big", &["big", "4096 sectors"]),
        ("z1", &["0 zones that take random writes", "at least 3"]),
        ("reg z1 z1", &["z1", "named twice"]),
        ("nothing", &["nothing", "no such file or directory"]),
    ];
    cases.iter().for_each(|(disks, says)| scratch.fails(&format!("dmz format {disks}"), 1, says));
    scratch.fails("dmz format reg z1 z2 --seq=40", 2, &["--seq=40", "the most is"]);
    scratch.fails("dmz format reg z1 z2 --label=a-label-that-is-longer-than-31-bytes", 2, &["31"]);
    scratch.fails("dmz format reg z1 z2 --uuid=1234", 2, &["`1234` is not a UUID"]);
    scratch.fails("dmz format", 2, &["<DISK>"]);
}

#[test]
fn a_disk_that_a_daemon_serves_is_refused_with_the_daemons_name() {
    let scratch = with_disk();
    scratch.file("stack.toml", "[disk.smr]\ntype = \"zoned-dir\"\npath = \"smr\"\n");
    let daemon = scratch.up();
    let pid = format!("process {}", daemon.child.id());
    scratch.fails("dmz format smr", 1, &["another process has this disk open", &pid, "up stack.toml"]);
    daemon.stop();
    scratch.ok("dmz format smr");
}

/// The bytes of a fixture: runs of equal bytes, each a length (LEB128) and the byte.
fn unpack(name: &str) -> Vec<u8> {
    let packed = fixture(name);
    let (mut bytes, mut count, mut shift, mut rest) = (Vec::new(), 0, 0, packed.iter());
    while let Some(byte) = rest.next() {
        count |= usize::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            bytes.resize(bytes.len() + count, *rest.next().unwrap());
            (count, shift) = (0, 0);
        }
    }
    bytes
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/fixtures/dm-zoned").join(name)).unwrap()
}

/// Makes the directory `name` the disk that the kernel left, with zones of 1 MiB and its zone report.
fn kernels_disk(scratch: &Scratch, name: &str, image: &str, report: &str) {
    let (image, report) = (unpack(image), String::from_utf8(fixture(report)).unwrap());
    let conventional = report.lines().filter(|line| line.contains("CONVENTIONAL")).count();
    let zones = report.lines().count();
    scratch.ok(&format!("create {name} --size {zones}MiB --zone-size 1MiB --conventional {conventional}"));
    for (zone, (line, bytes)) in report.lines().zip(image.chunks(1 << 20)).enumerate() {
        let wptr = line.split("wptr 0x").nth(1).unwrap().split(' ').next().unwrap();
        let written = usize::from_str_radix(wptr, 16).unwrap() * 512;
        let (kind, content) = if zone < conventional { ("cnv", bytes) } else { ("seq", &bytes[..written]) };
        fs::write(scratch.0.join(format!("{name}/{kind}-{zone:06}")), content).unwrap();
    }
}

/// What dmzadm printed of the disks in `fixture`, from the first disk on; there it looked for metadata twice.
fn said_by_dmzadm(name: &str, called: &[(&str, &str)]) -> String {
    let text = String::from_utf8(fixture(name)).unwrap();
    let text = text[text.find("/dev/").unwrap()..].replacen("Locating metadata...\n", "", 1);
    called.iter().fold(text, |text, (theirs, ours)| text.replace(theirs, ours))
}

fn first_set(scratch: &Scratch) {
    kernels_disk(scratch, "one", "fix1_dev.runs", "fix1_zones.txt");
}

/// The kernel's set of three disks.
fn three_of_the_kernel(scratch: &Scratch) {
    fs::write(scratch.0.join("reg"), unpack("fix2_dev1.runs")).unwrap();
    kernels_disk(scratch, "two", "fix2_dev2.runs", "fix2_zones2.txt");
    kernels_disk(scratch, "three", "fix2_dev3.runs", "fix2_zones3.txt");
}

#[test]
fn a_check_of_the_kernels_disk_prints_what_dmzadm_prints() {
    let scratch = Scratch::new();
    first_set(&scratch);
    assert_eq!(scratch.ok("dmz check one"), said_by_dmzadm("fix1_check.txt", &[("/dev/nullb0", "one")]));
}

#[test]
fn a_check_of_the_kernels_three_disks_prints_what_dmzadm_prints() {
    let scratch = Scratch::new();
    three_of_the_kernel(&scratch);
    let called = [("/dev/nullb1", "reg"), ("/dev/nullb2", "two"), ("/dev/nullb3", "three")];
    assert_eq!(scratch.ok("dmz check reg two three"), said_by_dmzadm("fix2_check.txt", &called));
}

#[test]
fn a_check_that_finds_errors_has_a_code_of_its_own() {
    let scratch = Scratch::new();
    first_set(&scratch);
    let before = fs::read(scratch.0.join("one/cnv-000000")).unwrap();
    let mut damaged = before.clone();
    damaged[60] ^= 1;
    fs::write(scratch.0.join("one/cnv-000000"), damaged).unwrap();
    let (code, said, _) = scratch.run("dmz check one");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("Checking super block... ERROR"), "{said}");
    assert!(said.ends_with("Errors detected: running repair is recommended\n"), "{said}");
    let (code, said, _) = scratch.run("dmz check one --json");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["check"]["clean"]), (3, &json!(false)));
    assert_eq!((&said["check"]["superblocks"]["primary"], &said["check"]["mapped_chunks"]), (&json!(null), &json!(14)));
    scratch.fails("dmz check nothing", 1, &["no such file or directory"]);
}

#[test]
fn disks_in_a_wrong_order_are_refused_with_the_right_one() {
    let scratch = Scratch::new();
    three_of_the_kernel(&scratch);
    let orders = ["reg three two", "two reg three", "three two reg"];
    for command in ["check", "repair", "dump", "salvage -o image", "relabel --label=other"] {
        for order in orders {
            scratch.fails(&format!("dmz {command} {order}"), 1, &["give the disks in this order: reg two three"]);
        }
        scratch.fails(&format!("dmz {command} reg three"), 1, &["of the set is missing; give all its disks"]);
        let alone = ["two: label \"fix2\"", "disk ", "first zone "];
        scratch.fails(&format!("dmz {command} two"), 1, &alone);
        scratch.fails(&format!("dmz {command} reg"), 1, &["a regular device alone", "reg: label \"fix2\""]);
    }
    assert!(!scratch.0.join("image").exists());
    assert!(scratch.ok("dmz dump reg two three").contains("Tertiary superblock of two at block"));
}

#[test]
fn a_dump_shows_superblocks_mapping_and_weights() {
    let scratch = Scratch::new();
    first_set(&scratch);
    let dump = scratch.json("dmz dump one --json");
    assert_eq!((&dump["primary"]["label"], &dump["primary"]["generation"]), (&json!("fix1"), &json!(137)));
    let mapping = dump["mapping"].as_array().unwrap();
    let buffered = mapping.iter().filter(|entry| !entry["bzone"].is_null()).count();
    assert_eq!((mapping.len(), buffered), (14, 6));
    let zone = |number: &serde_json::Value| &dump["zone_list"][number.as_u64().unwrap() as usize];
    for entry in mapping {
        let data = zone(&entry["dzone"]);
        assert_eq!((&data["use"], &data["chunk"]), (&json!("data"), &entry["chunk"]));
        assert!(data["valid_blocks"].as_u64() > Some(0) || !entry["bzone"].is_null(), "{data}");
    }
    let text = scratch.ok("dmz dump one");
    for words in
        ["Primary superblock at block 0, in force: version 2, generation 137", "label \"fix1\"", "data of chunk"]
    {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
    assert!(scratch.ok("dmz dump one --verbose").lines().count() > text.lines().count(), "free zones too");
}

#[test]
fn looking_at_a_set_changes_nothing() {
    let scratch = Scratch::new();
    first_set(&scratch);
    let snapshot = || -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let mut files: Vec<_> =
            fs::read_dir(scratch.0.join("one")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = snapshot();
    scratch.ok("dmz check one --vverbose");
    scratch.ok("dmz dump one");
    assert!(before == snapshot());
}

#[test]
fn a_repair_mends_what_a_check_finds_and_says_what_it_was() {
    let scratch = Scratch::new();
    first_set(&scratch);
    let clean = scratch.ok("dmz repair one");
    assert!(clean.ends_with("No error detected\nNothing to repair.\n"), "{clean}");
    let path = scratch.0.join("one/cnv-000000");
    let mut damaged = fs::read(&path).unwrap();
    damaged[60] ^= 1;
    fs::write(&path, damaged).unwrap();
    assert_eq!(scratch.run("dmz check one").0, 3);
    let said = scratch.ok("dmz repair one");
    assert!(said.contains("Repaired:\n  primary superblock: checksum"), "{said}");
    assert!(said.ends_with("No error detected\n"), "{said}");
    assert!(scratch.ok("dmz check one").ends_with("No error detected\n"));
    assert_eq!(scratch.json("dmz dump one --json")["mapping"].as_array().unwrap().len(), 14);
    let again = scratch.json("dmz repair one --json");
    assert_eq!((&again["before"]["clean"], &again["after"]["clean"]), (&json!(true), &json!(true)));
}

#[test]
fn a_set_without_any_superblock_cannot_be_repaired() {
    let scratch = with_disk();
    let (code, said, _) = scratch.run("dmz check smr");
    assert!(code == 3 && said.contains("no set was found on these disks, nor anything of one"), "{code}: {said}");
    scratch.fails("dmz repair smr", 1, &["no valid superblock", "dmz format"]);
    scratch.fails("dmz dump smr", 1, &["no valid superblock", "dmz check"]);
}

/// Fills block `block` of these zones of the kernel's disk with `byte`.
fn spoil(scratch: &Scratch, zones: &[&str], block: usize, byte: u8) {
    for zone in zones {
        let path = scratch.0.join(zone);
        let mut bytes = fs::read(&path).unwrap();
        bytes[block * 4096..][..4096].fill(byte);
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_mapping_table_that_one_copy_lost_is_repaired_from_the_other_one() {
    for byte in [0, 0xff] {
        let scratch = Scratch::new();
        first_set(&scratch);
        spoil(&scratch, &["one/cnv-000000"], 1, byte);
        let (code, said, _) = scratch.run("dmz check one");
        assert!(code == 3 && said.ends_with("running repair is recommended\n"), "{code}: {said}");
        assert!(scratch.ok("dmz repair one").ends_with("No error detected\n"));
        assert!(scratch.ok("dmz salvage one -o image").ends_with("Nothing is lost.\n"));
        assert!(fs::read(scratch.0.join("image")).unwrap() == unpack("fix1_logical.runs"));
    }
}

#[test]
fn what_both_copies_lost_is_given_up_only_when_that_is_asked_for() {
    let scratch = Scratch::new();
    first_set(&scratch);
    let zones = ["one/cnv-000000", "one/cnv-000001"];
    spoil(&scratch, &zones, 1, 0xff);
    let (code, said, _) = scratch.run("dmz check one");
    let last = "run `shingle dmz salvage` before `shingle dmz repair --lossy`\n";
    assert!(code == 3 && said.ends_with(last) && said.contains("In neither set:\n    zone "), "{code}: {said}");
    let before = fs::read(scratch.0.join(zones[0])).unwrap();
    scratch.fails(
        "dmz repair one",
        1,
        &["nothing was changed", "shingle dmz salvage", "--lossy", "valid blocks of no chunk"],
    );
    assert!(fs::read(scratch.0.join(zones[0])).unwrap() == before);
    let said = scratch.ok("dmz repair one --lossy --json");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(said["before"]["lost"].as_array().unwrap().len() > 10, "{said}");
    assert_eq!((&said["after"]["clean"], &said["after"]["lost"]), (&json!(true), &json!([])));
}

#[test]
fn without_superblocks_all_advice_is_to_salvage_what_is_left() {
    let scratch = Scratch::new();
    first_set(&scratch);
    spoil(&scratch, &["one/cnv-000000", "one/cnv-000001"], 0, 0);
    let (code, said, _) = scratch.run("dmz check one");
    assert!(code == 3 && said.ends_with("run `shingle dmz salvage` before anything is written\n"), "{code}: {said}");
    assert!(!said.contains("dmz format"), "{said}");
    scratch.fails("dmz repair one", 1, &["no valid superblock", "run `shingle dmz salvage`"]);
    scratch.fails("dmz dump one", 1, &["no valid superblock", "`shingle dmz check`"]);
}

#[test]
fn a_relabel_names_the_set_everywhere() {
    let scratch = with_three_disks();
    scratch.ok("dmz format reg z1 z2 --label=before --seq=6");
    scratch.ok("dmz relabel reg z1 z2 --label=after");
    assert!(scratch.ok("dmz check reg z1 z2").ends_with("No error detected\n"));
    let dump = scratch.json("dmz dump reg z1 z2 --json");
    assert_eq!((&dump["primary"]["label"], &dump["secondary"]["label"]), (&json!("after"), &json!("after")));
    assert_eq!(&fs::read(scratch.0.join("z1/seq-000000")).unwrap()[48..54], b"after\0");
    scratch.fails("dmz relabel reg z1 z2", 2, &["--label"]);
    scratch.fails("dmz relabel reg z1 z2 --label=", 1, &["needs a label"]);
}

#[test]
fn what_is_salvaged_of_a_whole_set_is_what_the_kernel_read_from_it() {
    let scratch = Scratch::new();
    first_set(&scratch);
    let said = scratch.ok("dmz salvage one -o image --report lost.json");
    assert!(said.ends_with("Nothing is lost.\n"), "{said}");
    assert!(fs::read(scratch.0.join("image")).unwrap() == unpack("fix1_logical.runs"));
    assert_eq!(fs::read_to_string(scratch.0.join("lost.json")).unwrap(), "[]\n");
    scratch.fails("dmz salvage one -o image", 1, &["image exists already"]);
}

#[test]
fn an_image_in_pieces_is_the_image() {
    let scratch = Scratch::new();
    first_set(&scratch);
    let made = scratch.json("dmz salvage one -o image --split 20M --json");
    let pieces: Vec<Vec<u8>> =
        (0..3).map(|piece| fs::read(scratch.0.join(format!("image.00{piece}"))).unwrap()).collect();
    assert_eq!((&made["pieces"], pieces[0].len(), pieces[1].len()), (&json!(3), 20 << 20, 20 << 20));
    assert!(pieces.concat() == unpack("fix1_logical.runs") && !scratch.0.join("image.003").exists());
    scratch.fails("dmz salvage one -o image --split 20M", 1, &["image.000 exists already"]);
    scratch.fails("dmz salvage one -o image --split 4K", 2, &["--split", "chunks of 1 MiB"]);
}

#[test]
fn what_is_left_of_a_damaged_set_is_salvaged_and_the_rest_is_named() {
    let scratch = Scratch::new();
    first_set(&scratch);
    for zone in ["one/cnv-000000", "one/cnv-000001"] {
        let path = scratch.0.join(zone);
        let mut damaged = fs::read(&path).unwrap();
        damaged[..4096].fill(0);
        fs::write(path, damaged).unwrap();
    }
    let (code, said, _) = scratch.run("dmz salvage one -o image --json");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["lost"][0]["what"], &said["mapped_chunks"]), (3, &json!("superblocks"), &json!(14)));
    let (image, kernels) = (fs::read(scratch.0.join("image")).unwrap(), unpack("fix1_logical.runs"));
    let common = image.len().min(kernels.len());
    assert!(image[..common] == kernels[..common]);
    let scratch = with_disk();
    scratch.fails("dmz salvage smr -o image", 1, &["nothing to salvage"]);
}

#[test]
fn a_disk_with_few_active_zones_is_refused_by_format() {
    let scratch = Scratch::new();
    scratch.ok("create few --size 64MiB --zone-size 1MiB --conventional 16 --max-active 14");
    scratch.fails(
        "dmz format few",
        1,
        &["few allows 14 active zones at a time and has 48 sequential ones", "shingle stl"],
    );
    scratch.ok("create enough --size 64MiB --zone-size 1MiB --conventional 16 --max-active 48");
    scratch.ok("dmz format enough");
}
