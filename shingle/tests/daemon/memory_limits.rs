//! What clients can do to the memory of the daemon, and what they cannot.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::program;
use crate::program::Scratch;
use crate::program::nbd::client::{READ, option, request};
use crate::program::nbd::{Nbd, pattern};

const STACK: &str = "\
[disk.mem]
type = \"null\"
size = \"1GiB\"
[export.mem]
device = \"mem\"
";

/// A client that has chosen the export.
fn connected(scratch: &Scratch) -> UnixStream {
    let mut socket = UnixStream::connect(scratch.0.join("nbd.sock")).unwrap();
    socket.write_all(&[&3_u32.to_be_bytes()[..], &option(1, b"mem")].concat()).unwrap();
    socket.read_exact(&mut [0; 28]).unwrap();
    socket
}

/// Reads so much; the NBD error.
fn read(socket: &mut UnixStream, bytes: u32) -> u32 {
    socket.write_all(&request(READ, 0, 1, 0, bytes)).unwrap();
    let mut header = [0; 16];
    socket.read_exact(&mut header).unwrap();
    let error = u32::from_be_bytes(header[4..8].try_into().unwrap());
    if error == 0 {
        socket.read_exact(&mut vec![0; bytes as usize]).unwrap();
    }
    error
}

fn resident(daemon: &program::Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_daemon_whose_memory_is_used_up_refuses_large_requests_and_serves_small_ones() {
    const ENOMEM: u32 = 12;
    let scratch = Scratch::with_stack(&format!("{STACK}[listen]\nunix = \"nbd.sock\"\n"));
    let daemon = scratch.up_within(200 << 10);
    let gluttons: Vec<UnixStream> = (0..6)
        .map(|_| {
            let mut socket = connected(&scratch);
            (0..36).for_each(|n| socket.write_all(&request(READ, 0, n, 0, 32 << 20)).unwrap());
            socket
        })
        .collect();
    let mut client = connected(&scratch);
    while read(&mut client, 32 << 20) != ENOMEM {}
    for _ in 0..100 {
        assert_eq!(read(&mut client, 4096), 0);
    }
    drop(gluttons);
    while read(&mut client, 32 << 20) != 0 {}
    daemon.stop();
}

#[test]
fn clients_that_never_read_hold_no_more_than_the_stack_file_allows_and_it_is_given_back() {
    let scratch = Scratch::new();
    let listen = "[listen]\nunix = \"nbd.sock\"\nmemory = \"32MiB\"\nclient-memory = \"4MiB\"\nidle-timeout = \"1s\"\n";
    scratch.file("stack.toml", &format!("{STACK}{listen}"));
    let daemon = scratch.up();
    let before = resident(&daemon);
    let gluttons: Vec<UnixStream> = (0..60)
        .map(|_| {
            let mut socket = connected(&scratch);
            (0..36).for_each(|n| socket.write_all(&request(READ, 0, n, 0, 1 << 20)).unwrap());
            socket
        })
        .collect();
    assert_eq!(read(&mut connected(&scratch), 4096), 0);
    // 32 MiB, 256 KiB for each client beside that, and its socket's.
    assert!(resident(&daemon) - before < 72 << 10, "{} KiB", resident(&daemon) - before);
    // All of them are sent away, and what they had goes back to the system.
    for mut socket in gluttons {
        let _ = socket.read_to_end(&mut Vec::new());
    }
    while resident(&daemon) > before + (8 << 10) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    daemon.stop();
}

#[test]
fn disks_with_more_zones_than_files_may_be_open_are_served() {
    let scratch = Scratch::new();
    let mut stack = String::from("[listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n");
    for disk in ["a", "b", "c"] {
        scratch.ok(&format!("create {disk} --size 60MiB --zone-size 1MiB"));
        stack +=
            &format!("[disk.{disk}]\ntype = \"zoned-dir\"\npath = \"{disk}\"\n[export.{disk}]\ndevice = \"{disk}\"\n");
    }
    scratch.file("stack.toml", &stack);
    // 180 zones, and a hard limit below that.
    let run = format!("ulimit -n 140; exec {} up stack.toml", env!("CARGO_BIN_EXE_shingle"));
    let mut command = std::process::Command::new("sh");
    let daemon = scratch.up_as(command.args(["-c", &run]).current_dir(&scratch.0).stderr(scratch.stderr_file()));
    for disk in ["a", "b", "c"] {
        let mut client = Nbd::connect(&scratch, disk);
        for zone in 0..60 {
            assert_eq!(client.write_status(zone << 20, &pattern(zone, 1)), 0, "zone {zone} of {disk}");
        }
        client.flush();
    }
    let mut clients: Vec<Nbd> = (0..20).map(|_| Nbd::connect(&scratch, "a")).collect();
    for (zone, client) in (0..).zip(&mut clients) {
        assert!(client.read(zone << 20) == pattern(zone, 1));
    }
    drop(clients);
    daemon.stop();
}

#[test]
fn a_soft_limit_of_open_files_is_raised() {
    let scratch = Scratch::with_stack(STACK);
    scratch.file("stack.toml", &format!("{STACK}[listen]\nunix = \"nbd.sock\"\n"));
    let run = format!("ulimit -S -n 100; exec {} up stack.toml", env!("CARGO_BIN_EXE_shingle"));
    let mut command = std::process::Command::new("sh");
    let daemon = scratch.up_as(command.args(["-c", &run]).current_dir(&scratch.0).stderr(scratch.stderr_file()));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.child.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
    daemon.stop();
}
