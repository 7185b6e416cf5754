//! The NBD server and the clients that people use: libnbd's tools and QEMU's.

use shingle_host::serve::listen::Address;

use crate::support::{CONVENTIONAL, Disk, SIZE, Scratch, Server, ZONE, fail, run, succeed};

fn read_back(server: &Server, export: &str, name: &str) -> Vec<u8> {
    let copy = Scratch::new(name);
    succeed("nbdcopy", &["--requests=64", &server.uri(export), copy.text()]);
    copy.bytes()
}

#[test]
fn nbdinfo_lists_every_export_with_its_description_and_size() {
    let zoned = Disk { description: "a disk with zones", ..Disk::zoned("tape") };
    let server = Server::start(&[Disk::regular("disk"), zoned]);
    let list = succeed("nbdinfo", &["--list", &server.uri("")]);
    for expected in ["export=\"disk\"", "export=\"tape\"", "a disk with zones", &format!("export-size: {SIZE}")] {
        assert!(list.contains(expected), "{expected} is not in:\n{list}");
    }
}

#[test]
fn nbdinfo_sees_the_features_and_block_sizes_of_an_export() {
    let server = Server::start(&[Disk::regular("disk"), Disk { read_only: true, ..Disk::zoned("tape") }]);
    let info = succeed("nbdinfo", &[&server.uri("disk")]);
    for expected in [
        "protocol: newstyle-fixed without TLS",
        "base:allocation",
        "is_read_only: false",
        "can_flush: true",
        "can_fua: true",
        "can_df: true",
        "can_trim: true",
        "can_zero: true",
        "can_fast_zero: true",
        "can_multi_conn: true",
        "can_cache: false",
        "block_size_minimum: 512",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(info.contains(expected), "{expected} is not in:\n{info}");
    }
    let info = succeed("nbdinfo", &[&server.uri("tape")]);
    assert!(info.contains("is_read_only: true") && info.contains("can_zero: false"), "{info}");
}

#[test]
fn an_unknown_export_is_refused_in_words() {
    let server = Server::start(&[Disk::regular("disk")]);
    let error = fail("nbdinfo", &[&server.uri("dsik")]);
    assert!(error.contains("No such file or directory for export: dsik"), "{error}");
    let error = fail("qemu-img", &["info", "-f", "raw", &server.uri("dsik")]);
    assert!(error.contains("no export 'dsik'"), "{error}");
}

#[test]
fn nbdcopy_copies_in_and_out_with_64_requests_on_several_connections() {
    let server = Server::start(&[Disk::regular("disk")]);
    let source = Scratch::noise("copy-source", SIZE);
    let target = server.uri("disk");
    succeed("nbdcopy", &["--requests=64", "--connections=4", "--flush", source.text(), &target]);
    assert!(read_back(&server, "disk", "copy-back") == source.bytes(), "other bytes came back");
}

#[test]
fn nbdcopy_fills_sequential_zones_with_64_requests_in_flight() {
    let server = Server::start(&[Disk::zoned("tape")]);
    let source = Scratch::noise("zoned-source", 16 * ZONE + ZONE / 2);
    let target = server.uri("tape");
    succeed("nbdcopy", &["--requests=64", "--connections=1", "--flush", source.text(), &target]);
    let back = read_back(&server, "tape", "zoned-back");
    let expected = source.bytes();
    assert!(back[..expected.len()] == expected[..], "other bytes came back");
    assert!(back[expected.len()..].iter().all(|byte| *byte == 0), "something lies behind the write pointer");
}

#[test]
fn a_zoned_disk_shows_holes_behind_its_write_pointers() {
    let server = Server::start(&[Disk::zoned("tape")]);
    let first = CONVENTIONAL * ZONE;
    succeed("qemu-io", &["-f", "raw", "-c", &format!("write -P 7 {first} 64k"), &server.uri("tape")]);
    let map = succeed("nbdinfo", &["--map", &server.uri("tape")]);
    let extents: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
    let written = (first + (64 << 10)).to_string();
    let rest = (SIZE - first - (64 << 10)).to_string();
    assert_eq!(extents[0][..3], ["0", &written, "0"], "{map}");
    assert_eq!(extents[1][..3], [&written, &rest, "3"], "{map}");
    assert_eq!(extents.len(), 2, "{map}");
    let map = succeed("qemu-img", &["map", "-f", "raw", "--output=json", &server.uri("tape")]);
    assert!(map.contains(&format!("\"start\": {written}, \"length\": {rest}")), "{map}");
}

#[test]
fn a_regular_disk_is_one_allocated_extent() {
    let server = Server::start(&[Disk::regular("disk")]);
    let map = succeed("nbdinfo", &["--map", &server.uri("disk")]);
    assert_eq!(map.split_whitespace().take(3).collect::<Vec<_>>(), ["0", &SIZE.to_string(), "0"], "{map}");
}

#[test]
fn qemu_io_writes_with_fua_zeroes_trims_and_flushes() {
    let server = Server::start(&[Disk::regular("disk")]);
    let out = succeed(
        "qemu-io",
        &[
            "-f",
            "raw",
            "-t",
            "none",
            "-c",
            "write -f -P 0x5a 64k 256k",
            "-c",
            "read -P 0x5a 64k 256k",
            "-c",
            "write -z -f 128k 64k",
            "-c",
            "read -P 0 128k 64k",
            "-c",
            "write -z -n 64k 4k",
            "-c",
            "discard 256k 32k",
            "-c",
            "read -P 0 256k 32k",
            "-c",
            "read -P 0x5a 200k 4k",
            "-c",
            "flush",
            &server.uri("disk"),
        ],
    );
    assert!(!out.contains("Pattern verification failed") && !out.contains("error"), "{out}");
}

#[test]
fn qemu_img_converts_to_and_from_a_zoned_disk() {
    let server = Server::start(&[Disk::zoned("tape")]);
    let source = Scratch::noise("convert-source", SIZE);
    let back = Scratch::new("convert-back");
    succeed("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", source.text(), &server.uri("tape")]);
    succeed("qemu-img", &["compare", "-f", "raw", "-F", "raw", source.text(), &server.uri("tape")]);
    succeed("qemu-img", &["convert", "-f", "raw", "-O", "raw", &server.uri("tape"), back.text()]);
    assert!(back.bytes() == source.bytes(), "other bytes came back");
}

#[test]
fn a_write_that_breaks_the_zone_rules_fails_and_the_connection_lives_on() {
    let server = Server::start(&[Disk::zoned("tape")]);
    let (first, middle) = (CONVENTIONAL * ZONE, CONVENTIONAL * ZONE + 32768);
    let output = run(
        "qemu-io",
        &[
            "-f",
            "raw",
            "-c",
            &format!("write {middle} 4k"),
            "-c",
            &format!("write -P 3 {first} 4k"),
            "-c",
            &format!("read -P 3 {first} 4k"),
            &server.uri("tape"),
        ],
    );
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("write failed"), "{out}");
    assert!(out.contains("wrote 4096/4096") && out.contains("read 4096/4096"), "{out}");
}

#[test]
fn a_read_only_export_can_be_read_and_not_written() {
    let server = Server::start(&[Disk { read_only: true, ..Disk::regular("disk") }]);
    let error = fail("qemu-io", &["-f", "raw", "-c", "write 0 4k", &server.uri("disk")]);
    assert!(error.contains("Permission denied"), "{error}");
    succeed("qemu-io", &["-r", "-f", "raw", "-c", "read 0 4k", &server.uri("disk")]);
    let source = Scratch::noise("read-only-source", 1 << 20);
    fail("nbdcopy", &[source.text(), &server.uri("disk")]);
}

#[test]
fn clients_come_over_tcp_too() {
    let server = Server::start(&[Disk::regular("disk")]);
    let Address::Tcp(address) = server.listen(&"tcp:0".parse().unwrap()) else { panic!("no TCP address") };
    assert!(address.ip().is_loopback() && address.port() != 0);
    let source = Scratch::noise("tcp-source", 8 << 20);
    let (uri, back) = (format!("nbd://{address}/disk"), Scratch::new("tcp-back"));
    succeed("nbdcopy", &["--requests=64", "--connections=2", source.text(), &uri]);
    succeed("nbdcopy", &[&uri, back.text()]);
    assert!(back.bytes()[..8 << 20] == source.bytes()[..], "other bytes came back");
}

#[test]
fn exports_of_two_shards_are_reached_through_one_socket() {
    let server = Server::with(&[&[Disk::regular("one")], &[Disk::regular("two")]], Default::default());
    let source = Scratch::noise("shards-source", 8 << 20);
    for export in ["one", "two"] {
        let uri = server.uri(export);
        succeed("nbdcopy", &["--requests=64", "--connections=2", source.text(), &uri]);
        assert!(read_back(&server, export, export)[..8 << 20] == source.bytes()[..], "{export}");
    }
    server.wait_until_empty();
    assert_eq!(server.log(), Vec::<String>::new());
}
