//! Requests to the control socket of a daemon that lives as long as the run: it answers every line, in order, with an object
//! that has `ok` or `error`, and does not end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::Corpus;
use serde_json::{Value, json};
use shingle_host::config::{Plan, Source};
use shingle_host::daemon::Daemon;

use crate::of_value;

#[derive(Arbitrary, Debug)]
enum Line {
    Bytes(Vec<u8>),
    Request(u8, Vec<(u8, Field)>),
}

#[derive(Arbitrary, Debug)]
enum Field {
    Number(u64),
    Small(u8),
    Flag(bool),
    Name(u8),
    Words(u8, u8),
    Text(String),
    Nested(u8),
}

const OPS: &str = "status zones.report zones.reset zones.open zones.close zones.finish plugs policy trace.start \
    trace.read trace.stop export.add export.remove dm.create dm.load dm.clear dm.suspend dm.resume dm.wipe_table \
    dm.remove dm.rename dm.message dm.table dm.status dm.info dm.ls dm.deps dm.targets";
const KEYS: &str = "v id op device name table start length count sector force noflush deferred inactive \
    read_only show_keys policy message uuid target description timeout_ms event_nr";
const NAMES: [&str; 8] = ["smr", "mem", "plain", "x", "y", "", "plug", "elevator"];
const WORDS: [&str; 12] = [
    "0 1024 linear plain 0",
    "0 64 zero",
    "0 64 error",
    "0 1024 delay plain 0 1",
    "0 8192 zoned smr",
    "0 2048 linear smr 4096",
    "@stats_create - /4",
    "@stats_list",
    "set start_percent 30",
    "counters",
    "0 1024 striped 2 8 plain 0 mem 0",
    "0 8 dust plain 0 512",
];

/// The word of `list` that this number stands for.
fn word(list: &'static str, number: u8) -> &'static str {
    let words: Vec<&str> = list.split(' ').collect();
    words[usize::from(number) % words.len()]
}

const STACK: &str = "
[disk.smr]
type = \"null\"
size = \"32MiB\"
zone-size = \"1MiB\"
conventional = 4
memory-backed = true
[disk.mem]
type = \"null\"
size = \"1MiB\"
[disk.plain]
type = \"null\"
size = \"1MiB\"
[listen]
unix = \"nbd.sock\"
[export.mem]
device = \"mem\"
[control]
socket = \"control.sock\"
";

struct Server {
    daemon: Daemon,
    socket: std::path::PathBuf,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("shingle-fuzz-control-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = directory.join("stack.toml");
    let plan = Plan::parse(Source { path, text: STACK.into() }).expect("a stack");
    Server { daemon: Daemon::start(plan).expect("a daemon"), socket: directory.join("control.sock") }
});

impl Line {
    /// What is sent: one line.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match self {
            Line::Bytes(bytes) => bytes.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect(),
            Line::Request(op, fields) => {
                let mut request = json!({"v": 1, "op": word(OPS, *op)});
                for (key, field) in fields.iter().take(16) {
                    request[word(KEYS, *key)] = field.value();
                }
                request.to_string().into_bytes()
            }
        };
        bytes.push(b'\n');
        bytes
    }
}

impl Field {
    fn value(&self) -> Value {
        match self {
            Field::Number(number) => json!(number),
            Field::Small(number) => json!(u64::from(*number) * 512),
            Field::Flag(flag) => json!(flag),
            Field::Name(name) => json!(NAMES[usize::from(*name) % NAMES.len()]),
            Field::Words(a, b) if a == b => json!(WORDS[usize::from(*a) % WORDS.len()]),
            Field::Words(a, b) => {
                json!([a, b].map(|word| WORDS[usize::from(*word) % WORDS.len()]).join("\n"))
            }
            Field::Text(text) => json!(text),
            Field::Nested(depth) => (0..*depth).fold(json!(0), |inner, _| json!([inner])),
        }
    }
}

fn ask(client: &mut BufReader<UnixStream>, line: &[u8]) -> Value {
    client.get_mut().write_all(line).expect("the daemon reads");
    let mut answer = String::new();
    client.read_line(&mut answer).expect("the daemon answers");
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{answer:?}: {error}"));
    assert!(answer["ok"].is_object() != answer["error"]["kind"].is_string(), "{answer}");
    answer
}

/// Takes away what an input has made, so that the next one finds the daemon as it was.
fn tidy(client: &mut BufReader<UnixStream>) {
    for _ in 0..4 {
        let listed = ask(client, b"{\"v\":1,\"op\":\"dm.ls\"}\n");
        let devices = listed["ok"]["devices"].as_array().cloned().unwrap_or_default();
        if devices.is_empty() {
            break;
        }
        for device in devices {
            ask(client, format!("{}\n", json!({"v": 1, "op": "dm.resume", "device": device["name"]})).as_bytes());
            ask(client, format!("{}\n", json!({"v": 1, "op": "dm.remove", "device": device["name"]})).as_bytes());
        }
    }
    let status = ask(client, b"{\"v\":1,\"op\":\"status\"}\n");
    for export in status["ok"]["exports"].as_array().expect("exports") {
        if export["name"] != "mem" {
            ask(client, format!("{}\n", json!({"v": 1, "op": "export.remove", "name": export["name"]})).as_bytes());
        }
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) -> Corpus {
    of_value(bytes, fuzz)
}

fn fuzz(lines: Vec<Line>) {
    let server = &*SERVER;
    let mut client = BufReader::new(UnixStream::connect(&server.socket).expect("a control socket"));
    for line in lines.iter().take(16) {
        ask(&mut client, &line.bytes());
    }
    tidy(&mut client);
    assert!(!server.daemon.is_broken(), "a shard has ended");
}
