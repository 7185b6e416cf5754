//! The page's server as browsers and others meet it: who gets what, and what clients that mean no good can do.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::program::nbd::{Nbd, pattern};
use crate::program::{Daemon, Scratch};

const SMALL: &str = "[disk.d]\ntype = \"null\"\nsize = \"64MiB\"\nzone-size = \"1MiB\"\n[export.d]\ndevice = \"d\"\n\
                     [listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n\
                     [web]\ntcp = \"127.0.0.1:0\"\nunix = \"web.sock\"\n";

/// A daemon with a page: where it is, and its token.
struct Page {
    address: String,
    token: String,
    daemon: Daemon,
}

impl Page {
    fn of(scratch: &Scratch) -> Self {
        let daemon = scratch.up();
        let url = daemon.notice.iter().find_map(|line| line.strip_prefix("web page at http://")).unwrap();
        let (address, token) = url.split_once("/#token=").unwrap();
        Self { address: address.to_owned(), token: token.to_owned(), daemon }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// The head and the body of the answer to a request with these lines behind the first.
    fn ask(&self, line: &str, heads: &str) -> (String, Vec<u8>) {
        exchange(self.connect(), &format!("{line} HTTP/1.1\r\n{heads}\r\n"))
    }

    /// What who knows the token gets.
    fn get(&self, path: &str) -> (String, Vec<u8>) {
        self.ask(&format!("GET {path}"), &format!("Host: localhost\r\nAuthorization: Bearer {}\r\n", self.token))
    }

    fn json(&self, path: &str) -> Value {
        let (head, body) = self.get(path);
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        serde_json::from_slice(&body).unwrap()
    }
}

fn exchange(mut line: impl Read + Write, request: &str) -> (String, Vec<u8>) {
    line.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    line.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
    (String::from_utf8_lossy(&answer[..end]).into_owned(), answer.get(end + 4..).unwrap_or_default().to_vec())
}

/// What browsers have to keep to comes with files, data, and refusals alike.
#[test]
fn every_answer_says_what_browsers_may_do_with_it() {
    let scratch = Scratch::with_stack(SMALL);
    let page = Page::of(&scratch);
    let token = &page.token;
    for (line, heads, says) in [
        ("GET /", "Host: localhost\r\n", "200"),
        ("GET /main.js", "Host: 127.0.0.1:9470\r\n", "200"),
        ("GET /nothing", "Host: [::1]\r\n", "404"),
        ("GET /../../etc/passwd", "Host: localhost\r\n", "404"),
        ("GET /%2e%2e/status", "Host: localhost\r\n", "404"),
        ("POST /", "Host: localhost\r\nContent-Length: 0\r\n", "405"),
        ("DELETE /api/status", &format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n"), "405"),
        ("GET /api/status", "Host: localhost\r\n", "401"),
        ("GET /api/status", "Host: localhost\r\nAuthorization: Bearer 0123\r\n", "401"),
        ("GET /api/status", &format!("Host: localhost\r\nCookie: token={token}\r\n"), "401"),
        (&format!("GET /api/status?token={token}"), "Host: localhost\r\n", "401"),
        ("GET /api/status", &format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n"), "200"),
        ("HEAD /api/status", &format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n"), "200"),
        ("GET /api/nothing", &format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n"), "404"),
        ("GET /api/zones", &format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n"), "404"),
        ("GET /api/zones?device=x", &format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n"), "503"),
        // Names that somebody else may have led here.
        ("GET /", "Host: evil.example\r\n", "403"),
        ("GET /api/status", &format!("Host: evil.example\r\nAuthorization: Bearer {token}\r\n"), "403"),
        ("GET /", "", "403"),
        ("GET /", "Host: localhost\r\nHost: evil.example\r\n", "403"),
        ("GET http://evil.example/", "Host: localhost\r\n", "403"),
    ] {
        let (head, body) = page.ask(line, heads);
        assert!(head.starts_with(&format!("HTTP/1.1 {says}")), "{line}, {heads}: {head}");
        let head = head.to_ascii_lowercase();
        for said in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(said), "{line}: {said} is missing:\n{head}");
        }
        assert!(!String::from_utf8_lossy(&body).contains(token.as_str()), "{line} tells the token");
        assert_eq!(line.starts_with("HEAD"), body.is_empty(), "{line}");
    }
    page.daemon.stop();
}

#[test]
fn the_page_is_told_what_the_stack_is_and_what_has_happened() {
    let scratch = Scratch::with_stack(SMALL);
    let page = Page::of(&scratch);
    let status = page.json("/api/status");
    assert_eq!((&status["devices"][0]["name"], &status["web"]), (&"d".into(), &Value::Array(Vec::new())));
    assert_eq!(page.json("/api/deps")["devices"], Value::Array(Vec::new()));
    assert_eq!(page.json("/api/metrics")["export_info"][0][0][0], "d");
    scratch.ok("zones finish d -o 2048 -c 1 --force");
    let events = page.json("/api/events?since=1")["events"].clone();
    assert_eq!(
        (&events[0]["kind"], &events[0]["device"], &events[0]["number"]),
        (&"zones".into(), &"d".into(), &2.into())
    );
    assert_eq!(page.json("/api/events?since=2")["events"], Value::Array(Vec::new()));
    let asked = scratch.control().ask("{\"v\":1,\"op\":\"events\",\"since\":1}")["ok"]["events"].clone();
    assert_eq!(asked, events, "the control socket tells the same");
    let (head, zones) = page.get("/api/zones?device=d");
    assert!(head.contains("application/octet-stream"), "{head}");
    assert_eq!((&zones[..4], zones.len()), (&b"SHZ1"[..], 32 + 64 * 14));
    // The second zone is full, and sequential.
    assert_eq!(zones[32 + 64 * 12 + 1], 0x2e);
    let version = u32::from_le_bytes(zones[4..8].try_into().unwrap());
    let (_, again) = page.get(&format!("/api/zones?device=d&since={version}"));
    assert_eq!(again.len(), 32, "nothing has changed");
    page.daemon.stop();
}

#[test]
fn the_page_is_at_a_unix_socket_as_well_and_status_tells_where() {
    let scratch = Scratch::with_stack(&format!("{SMALL}token = \"a-token-of-my-own\"\n"));
    let page = Page::of(&scratch);
    assert_eq!(page.token, "a-token-of-my-own");
    let web = scratch.json("status --json")["web"].clone();
    let urls: Vec<&str> = web.as_array().unwrap().iter().map(|url| url.as_str().unwrap()).collect();
    assert!(
        urls.iter().any(|url| url.starts_with("unix:") && url.ends_with("web.sock#token=a-token-of-my-own")),
        "{urls:?}"
    );
    assert!(scratch.ok("status").contains("web page at http://127.0.0.1:"));
    let request = "GET /api/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-token-of-my-own\r\n\r\n";
    let (head, _) = exchange(UnixStream::connect(scratch.0.join("web.sock")).unwrap(), request);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    page.daemon.stop();
    assert!(!scratch.0.join("web.sock").exists());
    assert!(!scratch.stderr().contains("a-token-of-my-own"), "the token is in the log");
}

#[test]
fn what_is_wrong_with_the_section_is_said_at_its_place() {
    for (keys, says) in [
        ("tcp = \"0.0.0.0:9470\"", "an address that others reach"),
        ("tcp = \"localhost\"", "`tcp` is not an address"),
        ("token = \"0123456789abcdef\"", "[web] does not say where to listen"),
        ("tcp = \"127.0.0.1:0\"\ntoken = \"short\"", "16 to 128 letters"),
        ("tcp = \"127.0.0.1:0\"\ntoken = \"with a space and more\"", "`token` is no token"),
        ("tcp = \"127.0.0.1:0\"\ntokn = \"x\"", "tokn"),
    ] {
        let head = SMALL.split("[web]").next().unwrap();
        let scratch = Scratch::with_stack(&format!("{head}[web]\n{keys}\n"));
        scratch.fails("up stack.toml --check", 1, &[says]);
    }
}

#[test]
fn a_page_that_one_address_less_serves_is_the_same_one() {
    let scratch = Scratch::with_stack(SMALL);
    let page = Page::of(&scratch);
    scratch.file("stack.toml", &SMALL.replace("unix = \"web.sock\"\n", ""));
    assert_eq!(scratch.ok("reload"), "change section web: done\n");
    assert!(!page.get("/api/status").1.is_empty());
    assert!(!scratch.0.join("web.sock").exists());
    page.daemon.stop();
}

fn memory_kib(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Two thousand clients that say nothing, half of it, or nonsense, and do not read: who asks meanwhile is answered, by a handful of threads, in no more
/// memory.
#[test]
fn thousands_of_clients_that_mean_no_good_keep_nobody_out_and_take_no_memory() {
    let scratch = Scratch::with_stack(SMALL);
    let page = Page::of(&scratch);
    let before = memory_kib(&page.daemon);
    let mut idle = Vec::new();
    for number in 0..2000 {
        let Ok(mut stream) = TcpStream::connect(&page.address) else { continue };
        let long = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'y'; 64 << 10]].concat();
        let said: &[u8] = [&b""[..], b"GET /api/st", &[0xff; 512], &long][number % 4];
        // Some are cut off while they speak.
        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
        let _ = stream.write_all(said);
        idle.push(stream);
        if idle.len() > 500 {
            idle.remove(0);
        }
    }
    let (head, _) = page.get("/api/status");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let threads = fs::read_dir(format!("/proc/{}/task", page.daemon.child.id())).unwrap().count();
    assert!(threads < 20, "{threads} threads for clients of the page");
    let after = memory_kib(&page.daemon);
    assert!(after < before + (24 << 10), "{before} KiB before them, {after} KiB now");
    page.daemon.stop();
}

/// A hundred that ask for the largest file and do not take it: the system holds what it has room for, and the page comes to others all the same.
#[test]
fn who_does_not_take_an_answer_makes_room_for_others() {
    let scratch = Scratch::with_stack(SMALL);
    let page = Page::of(&scratch);
    let request = b"GET /vendor/uPlot.esm.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = page.connect();
            stream.write_all(request).unwrap();
            stream
        })
        .collect();
    let (head, body) = page.ask("GET /main.js", "Host: localhost\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body.ends_with(b"begin();\n"), "{head}");
    // Who stops to speak in the middle of a request is cut off, and told nothing.
    let mut half = page.connect();
    half.write_all(b"GET / HT").unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    half.read_to_end(&mut answer).unwrap();
    drop(slow);
    page.daemon.stop();
}

/// Who has a disk says what each of its zones is for.
#[test]
fn zones_of_a_volume_are_told_with_what_they_are_used_for() {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 96MiB --zone-size 1MiB --conventional 4");
    scratch.ok("create dmz --size 64MiB --zone-size 1MiB --conventional 12");
    scratch.ok("dmz format dmz --seq=4");
    let table = scratch.json("stl format smr --json")["table"].as_str().unwrap().to_owned();
    let disk = |name: &str| format!("[disk.{name}]\ntype = \"zoned-dir\"\npath = \"{name}\"\n");
    let device = |name: &str, table: &str| {
        format!("[device.{name}]\ntable = \"{table}\"\n[export.{name}]\ndevice = \"{name}\"\n")
    };
    let ends = "[listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n[web]\ntcp = \"127.0.0.1:0\"\n";
    let parts = [disk("smr"), disk("dmz"), device("vol", &table), device("old", "0 1 zoned dmz"), ends.to_owned()];
    scratch.file("stack.toml", &parts.concat());
    let page = Page::of(&scratch);
    for (export, disk, zones, wanted) in
        [("vol", "smr", 96, ["free", "users"]), ("old", "dmz", 64, ["data", "metadata"])]
    {
        let mut client = Nbd::connect(&scratch, export);
        client.send(1, 0, &pattern(0, 1));
        client.written(1);
        let (_, answer) = page.get(&format!("/api/zones?device={disk}"));
        let names = String::from_utf8_lossy(&answer[32 + 14 * zones..]).into_owned();
        let known: Vec<&str> = names.split('\n').collect();
        wanted.iter().for_each(|word| assert!(known.contains(word), "{word} is not among {known:?}"));
        let uses = &answer[32 + 13 * zones..32 + 14 * zones];
        assert!(uses.iter().all(|used_for| usize::from(*used_for) < known.len()), "{uses:?}");
    }
    page.daemon.stop();
}

/// A disk without a daemon, and then with one.
#[test]
fn the_zones_of_a_disk_are_shown_without_a_stack() {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 8MiB --zone-size 1MiB --conventional 2");
    scratch.fails("zones watch nothing", 1, &["there is no directory `nothing`"]);
    scratch.fails("zones watch smr --listen 0.0.0.0:80", 2, &["for this machine alone"]);
    let mut command = scratch.shingle();
    let mut child = command.args(["zones", "watch", "smr"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut said).unwrap();
    let (address, token) = said.trim().strip_prefix("smr: http://").unwrap().split_once("/#token=").unwrap();
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
        exchange(TcpStream::connect(address).unwrap(), &request)
    };
    let (head, body) = ask("/api/status");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&status["shards"], &status["devices"][0]["zoned"]["zones"]), (&0.into(), &8.into()));
    // It is not locked: others change it.
    scratch.ok("zones finish smr -o 4096 -c 1");
    let (_, zones) = ask("/api/zones?device=smr");
    assert_eq!(zones[32 + 8 * 12..][..8], [0x10, 0x10, 0x2e, 0x21, 0x21, 0x21, 0x21, 0x21]);
    assert!(ask("/api/zones?device=other").0.starts_with("HTTP/1.1 503"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
