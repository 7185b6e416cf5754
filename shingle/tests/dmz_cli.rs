//! `shingle dmz` as users run it: dmzadm's operations on disks that no daemon serves.

mod program;

use std::fs;

use program::Scratch;
use serde_json::json;

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
        ("nothing", &["nothing", "no such directory"]),
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
