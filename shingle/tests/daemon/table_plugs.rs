//! Plugs of table lines as users see them, how zones are appended to, and control clients beside reloads that wait.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use serde_json::{Value, json};

use crate::program::Scratch;
use crate::program::nbd::{Nbd, pattern};

/// Two lines of stripes over two disks that rotate.
const TABLE: &str = "0 131072 striped 2 128 a 0 b 0\n131072 131072 striped 2 128 a 65536 b 65536";

fn stack() -> Scratch {
    let disk = |name: &str| {
        format!("[disk.{name}]\ntype = \"null\"\nsize = \"64MiB\"\nzone-size = \"1MiB\"\nrotational = true\n")
    };
    let table = format!("[device.wide]\ntable = \"\"\"\n{TABLE}\n\"\"\"\n");
    Scratch::with_stack(&format!("{}{}{table}[control]\nsocket = \"control.sock\"\n", disk("a"), disk("b")))
}

fn device(scratch: &Scratch, name: &str) -> Value {
    let status = scratch.json("status --json");
    let devices = status["devices"].as_array().unwrap();
    devices.iter().find(|device| device["name"] == name).unwrap().clone()
}

#[test]
fn plugs_of_table_lines_are_listed_and_their_policies_are_set_live() {
    let scratch = stack();
    let _daemon = scratch.up();
    let plugs = scratch.json("plugs wide --json");
    let lines: Vec<_> =
        plugs["lines"].as_array().unwrap().iter().map(|line| (&line["line"], &line["policy"])).collect();
    assert_eq!(lines, [(&json!(1), &json!("qd1")), (&json!(2), &json!("qd1"))], "the disks rotate");
    assert_eq!(scratch.ok("policy wide"), "wide/1 (striped): qd1\nwide/2 (striped): qd1\n");
    assert_eq!(scratch.ok("policy wide/2 elevator"), "wide/2: qd1 -> elevator\n");
    assert_eq!(scratch.ok("policy wide/2"), "elevator\n");
    assert_eq!(scratch.json("policy wide --json")["policy"], json!("mixed"));
    assert_eq!(device(&scratch, "wide")["policy"], json!("mixed"));

    scratch.dm(&["load", "wide", "--table", TABLE]);
    scratch.dm(&["resume", "wide"]);
    assert_eq!(
        scratch.ok("policy wide"),
        "wide/1 (striped): qd1\nwide/2 (striped): elevator\n",
        "it outlives the table"
    );
    assert_eq!(scratch.ok("policy wide plug"), "wide: mixed -> plug\n");
    assert_eq!(scratch.ok("policy a"), "qd1\n", "that of the disk is its own");

    scratch.fails("policy wide/3", 1, &["line 3 of `wide` has no plug", "1, 2"]);
    scratch.fails("policy a/1", 1, &["it is a disk, with one plug"]);
    scratch.dm(&["remove", "wide"]);
    scratch.fails("plugs wide", 1, &["there is no device `wide`"]);
}

#[test]
fn status_says_whether_zone_append_is_native_with_both_limits() {
    let scratch = stack();
    let _daemon = scratch.up();
    let of = |name: &str| {
        let zoned = device(&scratch, name)["zoned"].clone();
        ["zone_append", "max_append_sectors", "max_hw_append_sectors"].map(|key| zoned[key].clone())
    };
    assert_eq!(of("a"), [json!("native"), json!(2048), json!(2048)]);
    assert_eq!(of("wide"), [json!("emulated"), json!(4096), json!(2048)], "a zone of two disks");
    let text = scratch.ok("status");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [vec!["a", "native", "1", "MiB", "1", "MiB"], vec!["wide", "emulated", "2", "MiB", "1", "MiB"]] {
        assert!(rows.contains(&row), "{row:?} in\n{text}");
    }
}

#[test]
fn reloads_that_wait_leave_the_control_socket_to_others() {
    let stack = |table: &str| {
        format!(
            "[disk.slow]\ntype = \"null\"\nsize = \"1MiB\"\ncompletion = \"600s\"\n[device.vol]\ntable = \"{table}\"\n\
             [export.vol]\ndevice = \"vol\"\n[listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n"
        )
    };
    let scratch = Scratch::with_stack(&stack("0 1024 linear slow 0"));
    let _daemon = scratch.up();
    let mut client = Nbd::connect(&scratch, "vol");
    // It does not end while the test runs.
    thread::spawn(move || client.write_status(0, &pattern(0, 1)));
    while device(&scratch, "vol")["counters"]["in_flight"] == json!(0) {
        thread::yield_now();
    }
    scratch.file("stack.toml", &stack("0 1024 linear slow 1024"));
    let mut clients: Vec<UnixStream> = Vec::new();
    for _ in 0..20 {
        let mut stream = UnixStream::connect(scratch.0.join("control.sock")).unwrap();
        stream.write_all(b"{\"v\":1,\"op\":\"reload\"}\n").unwrap();
        clients.push(stream);
    }
    // More than there are slots; each of the others is told so at once.
    let mut refusals = 0;
    for stream in clients.iter().skip(8) {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        refusals += usize::from(line.contains("reloads are under way"));
    }
    assert!(refusals > 0);
    for _ in 0..20 {
        assert!(scratch.ok("status").contains("vol"));
    }
}
