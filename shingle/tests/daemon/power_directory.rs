//! Simulated drives with a directory: what is there after the daemon was stopped, killed, or found the file system full, and
//! which directories are refused.

use std::fs;
use std::process::Command;

use crate::program::nbd::{BLOCK, Nbd, WRITE, pattern};
use crate::program::{Daemon, Scratch};

/// A drive of this profile with more keys, as the export `d`.
fn stack(profile: &str, keys: &str) -> String {
    format!(
        "[disk.d]\ntype = \"profile\"\nprofile = \"{profile}\"\ndirectory = \"drive\"\n{keys}\n\
         [export.d]\ndevice = \"d\"\n[listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n"
    )
}

/// The drives, with the place of the first block that tests write: in a sequential zone, if there are any.
fn drives() -> [(String, u64); 4] {
    [
        (stack("smr-14tb", "zones = 4"), 256 << 20),
        (stack("zns-1tb", "zones = 4"), 0),
        (stack("ssd-500gb", "size = \"64MiB\""), 0),
        (stack("ram", "size = \"64MiB\""), 0),
    ]
}

fn write(client: &mut Nbd, start: u64, blocks: std::ops::Range<u64>) {
    for block in blocks {
        client.send(WRITE, start + block * BLOCK as u64, &pattern(block, 1));
        client.written(1);
    }
}

/// Which of the first blocks are there.
fn there(client: &mut Nbd, start: u64, blocks: u64) -> Vec<bool> {
    (0..blocks).map(|block| client.read(start + block * BLOCK as u64) == pattern(block, 1)).collect()
}

#[test]
fn what_was_answered_is_there_after_the_daemon_was_killed_or_stopped() {
    for (text, start) in drives() {
        let scratch = Scratch::with_stack(&text);
        for (life, end) in [Daemon::kill, Daemon::stop, Daemon::kill].into_iter().enumerate() {
            let daemon = scratch.up();
            let mut client = Nbd::connect(&scratch, "d");
            let before = 16 * life as u64;
            assert_eq!(there(&mut client, start, before), vec![true; before as usize], "life {life} of\n{text}");
            write(&mut client, start, before..before + 16);
            end(daemon);
        }
        let daemon = scratch.up();
        let mut client = Nbd::connect(&scratch, "d");
        assert_eq!(there(&mut client, start, 49), [vec![true; 48], vec![false]].concat());
        if text.contains("zones") {
            let report = scratch.json("zones report d --json");
            let zone = &report["zones"][(start >> 28) as usize];
            assert_eq!(zone["wp"].as_u64().unwrap(), start / 512 + 48 * 8, "{report}");
            assert_eq!(zone["cond"], "closed", "{report}");
        }
        daemon.stop();
    }
}

#[test]
fn a_cut_takes_the_same_from_a_directory_and_what_it_left_is_there_for_the_next_daemon() {
    for (text, start) in drives() {
        let scratch = Scratch::with_stack(&text);
        let daemon = scratch.up();
        let mut client = Nbd::connect(&scratch, "d");
        write(&mut client, start, 0..16);
        client.flush();
        write(&mut client, start, 16..48);
        assert_eq!(scratch.ok("power cut d"), "d: power off, lost 1 times\n");
        assert_ne!(client.read_status(start), 0, "without power nothing is read");
        scratch.ok("power on d");
        let left = there(&mut client, start, 48);
        assert!(left[..16].iter().all(|there| *there), "what was flushed is there: {left:?}");
        assert!(!text.contains("smr") || left.is_sorted_by(|before, after| before >= after), "a prefix: {left:?}");
        // A RAM disk has a battery, and this zoned SSD capacitors.
        let (keeps_all, loses) = (text.contains("ram") || text.contains("zns"), text.contains("ssd"));
        let all = left.iter().all(|there| *there);
        // What an SMR disk has written by then, nobody knows.
        assert!((all || !keeps_all) && !(all && loses), "{left:?} of\n{text}");
        let status = scratch.json("power status --json");
        let (drive, at) = (&status["drives"][0], scratch.0.join("drive"));
        assert_eq!(drive["directory"].as_str().unwrap(), at.to_str().unwrap());
        assert!(drive["directory_bytes"].as_u64().unwrap() >= 16 << 12 && drive["memory_bytes"] == 0, "{drive}");
        assert!(scratch.ok("power status").contains(at.to_str().unwrap()));
        daemon.kill();
        let daemon = scratch.up();
        assert_eq!(there(&mut Nbd::connect(&scratch, "d"), start, 48), left);
        daemon.stop();
    }
}

#[test]
fn on_a_full_file_system_a_write_fails_and_says_so_and_what_was_written_stays() {
    let scratch = Scratch::with_stack(&stack("ssd-500gb", "size = \"64MiB\"").replace("\"drive\"", "\"small/drive\""));
    fs::create_dir(scratch.0.join("small")).unwrap();
    // A file system of its own, which only the daemon sees.
    let run = format!("mount -t tmpfs -o size=1m none small && exec {} up stack.toml", env!("CARGO_BIN_EXE_shingle"));
    let alone = ["--map-root-user", "--mount", "sh", "-c"];
    if !Command::new("unshare").args(alone).arg("mount -t tmpfs none /mnt").status().is_ok_and(|done| done.success()) {
        return println!("skipped: no file system can be mounted here");
    }
    let mut command = Command::new("unshare");
    let daemon = scratch.up_as(command.args(alone).arg(run).current_dir(&scratch.0).stderr(scratch.stderr_file()));
    let mut client = Nbd::connect(&scratch, "d");
    let errors: Vec<u32> =
        (0..400).map(|block| client.write_status(block * BLOCK as u64, &pattern(block, 1))).collect();
    let fit = errors.iter().filter(|error| **error == 0).count();
    assert!((200..256).contains(&fit) && errors.is_sorted() && errors[399] == 28, "ENOSPC: {errors:?}");
    assert_eq!(there(&mut client, 0, fit as u64), vec![true; fit]);
    scratch.stderr_with("small/drive/data: No space left on device");
    // What is discarded is room again.
    client.discard(0, 1 << 20);
    write(&mut client, 0, 0..8);
    daemon.stop();
}

#[test]
fn a_directory_that_is_no_such_drive_is_refused_and_nothing_in_it_changes() {
    let scratch = Scratch::with_stack(&stack("zns-1tb", "zones = 4"));
    let daemon = scratch.up();
    write(&mut Nbd::connect(&scratch, "d"), 0, 0..1);
    daemon.stop();
    let (place, file) = (scratch.0.join("drive"), |name: &str| scratch.0.join("drive").join(name));
    let description = fs::read_to_string(file("shingle-drive.toml")).unwrap();
    let refuses = |says: &[&str]| {
        scratch.fails("up stack.toml", 1, says);
        scratch.fails("up stack.toml", 1, &["stack.toml:4:13"]);
    };
    // Another drive.
    for (text, says) in [
        (stack("zns-1tb", "zones = 5"), "its size in bytes is"),
        (stack("smr-14tb", "zones = 4"), "its model is zns, not smr"),
    ] {
        scratch.file("stack.toml", &text);
        refuses(&[says, "choose another directory"]);
        scratch.fails("up --check stack.toml", 1, &[says]);
    }
    scratch.file("stack.toml", &stack("zns-1tb", "zones = 4\nmax-open = 2"));
    scratch.up().stop();
    // Damage.
    for (name, bytes, says) in [
        (
            "shingle-drive.toml",
            description.replace("version = 1", "version = 2").into_bytes(),
            "of version 2 of the format",
        ),
        ("shingle-drive.toml", b"version = 1\nmodel = 3".to_vec(), "it says not what drive this is"),
        ("shingle-drive.toml", vec![b'#'; 5000], "no short text"),
        ("shingle-drive.toml", vec![0xff; 10], "no short text"),
        ("zones", vec![0; 32], "what it says of zone 0 is damaged"),
        ("zones", vec![0; 31], "it has 31 bytes instead of 32"),
        ("data", b"short".to_vec(), "it has 5 bytes instead of"),
        ("other", b"foreign".to_vec(), "it holds other, which is of no simulated drive"),
    ] {
        let before = fs::read(file(name)).ok();
        // The data is long: it is put aside.
        let aside = scratch.0.join("aside");
        if before.is_some() {
            fs::rename(file(name), &aside).unwrap();
        }
        fs::write(file(name), &bytes).unwrap();
        refuses(&[says]);
        assert_eq!(fs::read(file(name)).unwrap(), bytes, "{says}");
        fs::remove_file(file(name)).unwrap();
        if before.is_some() {
            refuses(&[]);
            assert!(!file(name).exists() || name == "shingle-drive.toml");
            fs::rename(&aside, file(name)).unwrap();
        }
    }
    scratch.up().stop();
    // No directory.
    fs::remove_dir_all(&place).unwrap();
    fs::write(&place, "a file").unwrap();
    refuses(&["it is not a directory"]);
    scratch.file("stack.toml", &stack("zns-1tb", "zones = 4").replace("\"drive\"", "\"no/drive\""));
    refuses(&["no/drive: the directory that it would be in is not there: make that first"]);
    scratch.fails("up --check stack.toml", 1, &["make that first"]);
}

#[test]
fn a_directory_has_one_user_and_one_that_was_half_made_is_made() {
    let scratch = Scratch::with_stack(&stack("zns-1tb", "zones = 4"));
    let other = stack("zns-1tb", "zones = 4").replace("nbd.sock", "other.sock").replace("control.sock", "two.sock");
    scratch.file("other.toml", &other);
    fs::create_dir(scratch.0.join("drive")).unwrap();
    fs::write(scratch.0.join("drive/zones"), "begun").unwrap();
    fs::write(scratch.0.join("drive/shingle-drive.toml.new"), "vers").unwrap();
    let daemon = scratch.up();
    scratch.fails("up other.toml", 1, &["another process has this drive", "up stack.toml", "choose another directory"]);
    scratch.ok("up --check other.toml");
    daemon.kill();
    scratch.up().stop();
}

#[test]
fn a_directory_that_is_removed_harms_nobody_and_the_next_daemon_begins_anew() {
    let scratch = Scratch::with_stack(&stack("smr-14tb", "zones = 4"));
    let daemon = scratch.up();
    let (mut client, start) = (Nbd::connect(&scratch, "d"), 256 << 20);
    write(&mut client, start, 0..8);
    fs::remove_dir_all(scratch.0.join("drive")).unwrap();
    write(&mut client, start, 8..16);
    assert_eq!(there(&mut client, start, 16), [true; 16]);
    daemon.stop();
    let daemon = scratch.up();
    assert_eq!(there(&mut Nbd::connect(&scratch, "d"), start, 16), [false; 16]);
    daemon.stop();
}

#[test]
fn a_volume_on_a_drive_in_a_directory_outlives_cuts_and_daemons() {
    for format in ["stl format drive --stack volume.toml", "dmz format drive"] {
        let scratch = Scratch::with_stack(&stack("smr-14tb", "zones = 400"));
        scratch.up().stop();
        let said = scratch.ok(format);
        let lines = fs::read_to_string(scratch.0.join("volume.toml"));
        let lines = lines.unwrap_or_else(|_| said[said.find("[disk.drive]").expect(&said)..].to_owned());
        assert!(lines.contains("profile = \"smr-14tb\"\nsize = 107374182400\ndirectory = \"/"), "{lines}");
        scratch.file("stack.toml", &lines.replace("volume.nbd.sock", "nbd.sock").replace("volume.control", "control"));
        let export = lines.split("[export.").nth(1).and_then(|rest| rest.split(']').next()).expect(&lines);
        for life in 0..3 {
            let daemon = scratch.up();
            let mut client = Nbd::connect(&scratch, export);
            assert_eq!(there(&mut client, 0, 16 * life), vec![true; 16 * life as usize], "life {life} after {format}");
            write(&mut client, 0, 16 * life..16 * (life + 1));
            client.flush();
            if life == 1 {
                scratch.ok("power cut drive");
                scratch.ok("power on drive");
            }
            daemon.kill();
        }
    }
}
