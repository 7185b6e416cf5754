//! Volumes of `stl` as the daemon serves them, and what the disks are like after it.

use std::fs;
use std::path::Path;

use crate::program::Scratch;
use crate::program::nbd::{Nbd, pattern};

/// Blocks of 64 KiB that are written.
const BLOCKS: u64 = 500;

/// Writes all blocks in their version.
fn write_all(scratch: &Scratch, version: u64) {
    let mut client = Nbd::connect(scratch, "stl-a");
    for block in 0..BLOCKS {
        let data: Vec<u8> = (0..16).flat_map(|part| pattern(block * 16 + part, version)).collect();
        assert_eq!(client.write_status(block << 16, &data), 0);
    }
    client.flush();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn an_older_copy_of_a_disk_is_refused_and_the_right_one_is_served_again() {
    let scratch = Scratch::new();
    for disk in ["a", "b"] {
        scratch.ok(&format!("create {disk} --size 64MiB --zone-size 1MiB --conventional 2"));
    }
    scratch.ok("stl format a b --stack stack.toml");
    let daemon = scratch.up();
    write_all(&scratch, 1);
    daemon.stop();
    copy(&scratch.0.join("b"), &scratch.0.join("older"));
    let daemon = scratch.up();
    write_all(&scratch, 2);
    write_all(&scratch, 3);
    daemon.stop();
    fs::rename(scratch.0.join("b"), scratch.0.join("right")).unwrap();
    fs::rename(scratch.0.join("older"), scratch.0.join("b")).unwrap();

    let (code, said, _) = scratch.run("stl check a b");
    assert!(code == 3 && said.contains("b is an older copy of a disk of volume"), "{code}: {said}");
    let (code, said, _) = scratch.run("stl salvage a b -o image");
    assert!(code == 3 && said.contains("b is an older copy"), "{code}: {said}");
    scratch.fails("stl salvage a b --in-place --force", 1, &["is an older copy"]);
    scratch.fails("up stack.toml", 1, &["export `stl-a` cannot be used: ", "is an older copy", "not ready"]);
    let daemon = scratch.up_degraded();
    let mut client = Nbd::connect(&scratch, "stl-a");
    assert_ne!(client.read_status(0), 0);
    assert!(scratch.stderr().contains("is an older copy"), "{}", scratch.stderr());
    drop(client);
    daemon.stop();

    fs::rename(scratch.0.join("b"), scratch.0.join("older")).unwrap();
    fs::rename(scratch.0.join("right"), scratch.0.join("b")).unwrap();
    assert!(scratch.ok("stl check a b").ends_with("No error detected\n"));
    let daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "stl-a");
    for block in 0..BLOCKS * 16 {
        assert!(client.read(block << 12) == pattern(block, 3), "block {block}");
    }
    drop(client);
    daemon.stop();
}
