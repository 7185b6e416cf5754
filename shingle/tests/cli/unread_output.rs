//! A program whose standard output or standard error goes nowhere: a full disk, a pipe that nobody reads, nothing at all.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::json;

use crate::program::{self, Scratch};

const STACK: &str = "\
[disk.smr]
type = \"zoned-dir\"
path = \"disk0\"
[export.smr]
device = \"smr\"
[listen]
unix = \"nbd.sock\"
[control]
socket = \"control.sock\"
";

/// A disk that has something to say when it is opened and while it is used, and a stack over it.
fn stack() -> Scratch {
    let scratch = Scratch::new();
    scratch.ok("create disk0 --size 16MiB --zone-size 1MiB --conventional 2");
    scratch.file("stack.toml", STACK);
    scratch
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// The writing end of a pipe whose reader is gone.
fn torn() -> Stdio {
    io::pipe().unwrap().1.into()
}

/// The writing end of a pipe in which there is no room left, and the end that nobody reads.
fn clogged() -> (Stdio, PipeReader) {
    let (reader, mut writer) = io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (writer.into(), reader)
}

/// Has the daemon complain about clients and about a disk, and sees that it serves on.
fn complain_and_be_served(scratch: &Scratch) {
    for _ in 0..20 {
        let mut client = UnixStream::connect(scratch.0.join("nbd.sock")).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: this is not NBD\r\n\r\n").unwrap();
        // The daemon ends the connection, and says why.
        let _ = client.read_to_end(&mut Vec::new());
    }
    fs::remove_file(scratch.0.join("disk0/seq-000005")).unwrap();
    scratch.fails("zones finish smr --offset 10240 --count 1 --force", 1, &["10240"]);
    assert_eq!(scratch.control().ask(r#"{"v":1,"id":1,"op":"status"}"#)["id"], json!(1));
    let mut client = UnixStream::connect(scratch.0.join("nbd.sock")).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
}

#[test]
fn a_daemon_lives_and_serves_with_its_standard_error_on_a_full_disk() {
    let scratch = stack();
    let daemon = scratch.up_as(scratch.shingle().args(["up", "stack.toml"]).stderr(full()));
    complain_and_be_served(&scratch);
    // A zone's file is gone: the last flush fails.
    daemon.stop_with(1);
}

#[test]
fn a_daemon_lives_and_serves_when_the_reader_of_its_standard_error_is_gone() {
    let scratch = stack();
    let daemon = scratch.up_as(scratch.shingle().args(["up", "stack.toml"]).stderr(torn()));
    complain_and_be_served(&scratch);
    // A zone's file is gone: the last flush fails.
    daemon.stop_with(1);
}

#[test]
fn a_daemon_lives_and_serves_when_nobody_reads_its_standard_error() {
    let scratch = stack();
    let (stderr, _reader) = clogged();
    let daemon = scratch.up_as(scratch.shingle().args(["up", "stack.toml"]).stderr(stderr));
    complain_and_be_served(&scratch);
    // A zone's file is gone: the last flush fails.
    daemon.stop_with(1);
}

#[test]
fn a_daemon_lives_and_serves_without_a_standard_error() {
    let scratch = stack();
    let script = "exec \"$0\" up stack.toml 2>&-";
    let mut shell = Command::new("sh");
    let daemon = scratch.up_as(shell.args(["-c", script, env!("CARGO_BIN_EXE_shingle")]).current_dir(&scratch.0));
    complain_and_be_served(&scratch);
    // A zone's file is gone: the last flush fails.
    daemon.stop_with(1);
}

#[test]
fn a_daemon_that_finds_a_fault_at_its_start_starts_although_it_cannot_say_so() {
    let scratch = stack();
    // A block that was never completely written.
    fs::write(scratch.0.join("disk0/seq-000005"), [1; 100]).unwrap();
    let daemon = scratch.up_as(scratch.shingle().args(["up", "stack.toml"]).stderr(full()));
    daemon.stop();
}

#[test]
fn a_daemon_that_cannot_say_that_it_is_ready_serves_all_the_same_and_says_so() {
    let scratch = stack();
    let stderr = File::create(scratch.0.join("stderr")).unwrap();
    let child = scratch.shingle().args(["up", "stack.toml"]).stdout(full()).stderr(stderr).spawn().unwrap();
    let daemon = program::Daemon { child, notice: Vec::new() };
    // There is no other sign of its start; a daemon that ended instead would say that.
    scratch.stderr_with("cannot write to stdout");
    assert_eq!(scratch.control().ask(r#"{"v":1,"id":1,"op":"status"}"#)["id"], json!(1));
    daemon.stop();
}

/// Commands that print something on standard output, with a daemon over [`stack`] running.
const PRINTERS: [&str; 16] = [
    "--help",
    "--version",
    "help up",
    "completions bash",
    "man",
    "create disk1 --size 16MiB --zone-size 1MiB",
    "up --check stack.toml",
    "zones report smr",
    "zones capacity smr",
    "zones open smr --offset 4096 --count 1 --force --verbose",
    "status",
    "plugs smr --json",
    "policy smr",
    "dm targets",
    "sim --seeds 1..2 --ops 10",
    "bench --stack stack2.toml --device mem --rw=read --bs=4k --size=1MiB --io_size=64KiB",
];

fn run(scratch: &Scratch, words: &str, stdout: Stdio, stderr: Stdio) -> Option<i32> {
    let mut command = scratch.shingle();
    command.args(words.split_whitespace()).stdout(stdout).stderr(stderr).status().unwrap().code()
}

#[test]
fn a_command_says_with_its_exit_code_that_its_result_found_no_room_and_is_quiet_when_nobody_reads_it() {
    let scratch = stack();
    scratch.file("stack2.toml", "[disk.mem]\ntype = \"null\"\nsize = \"16MiB\"\nmemory-backed = true\n");
    let daemon = scratch.up();
    for words in PRINTERS {
        let _ = fs::remove_dir_all(scratch.0.join("disk1"));
        assert_eq!(run(&scratch, words, full(), Stdio::null()), Some(1), "shingle {words} > /dev/full");
        let _ = fs::remove_dir_all(scratch.0.join("disk1"));
        let output = scratch.shingle().args(words.split_whitespace()).stdout(torn()).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "shingle {words} | true: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "shingle {words} | true");
    }
    daemon.stop();
}

#[test]
fn a_command_that_cannot_say_what_is_wrong_says_it_with_its_exit_code() {
    let scratch = stack();
    for (words, code) in [
        ("status", 1),
        ("frobnicate", 2),
        ("up missing.toml", 1),
        ("zones report disk0 --verbose", 0),
        ("zones reset nothing", 1),
        ("create disk0 --size 16MiB --zone-size 1MiB", 1),
    ] {
        for stderr in [full(), torn()] {
            assert_eq!(run(&scratch, words, Stdio::null(), stderr), Some(code), "shingle {words} 2> /dev/full");
        }
    }
}
