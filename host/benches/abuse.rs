//! What clients of the page, of metrics and of the control socket that mean no good do to a client of an export that keeps to the rules.
//!
//! `cargo bench -p shingle-host --bench abuse [-- ROUNDS]`. The abuse comes from two threads of this process, as if it were another machine: they have a
//! processor of their own, and the daemon and the client that is measured share another one. What they do to each other all the same is in the first
//! row, against a socket of which nobody takes more than the connection.

#[path = "support/client.rs"]
mod client;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use client::{Client, Load, READ};
use shingle_host::config::Plan;
use shingle_host::daemon::Daemon;
use shingle_host::serve::listen::Address;

/// Requests of the client that is measured, and how far apart.
const REQUESTS: usize = 2000;
const PACE: Duration = Duration::from_millis(1);
/// Threads of abuse, connections that each keeps, and its pause between two of them: some thousands of connections a second in all.
const THREADS: usize = 2;
const KEPT: usize = 400;
const PAUSE: Duration = Duration::from_micros(200);
/// The processor of the daemon and of the client that is measured, and that of those who mean no good.
const DAEMON: usize = 0;
const ABUSERS: usize = 1;
const TOKEN: &str = "the-token-of-this-bench";

/// Something to connect to.
#[derive(Clone)]
enum Place {
    Tcp(String),
    Unix(PathBuf),
}

trait Line: Read + Write + Send {}
impl Line for TcpStream {}
impl Line for UnixStream {}

impl Place {
    fn connect(&self) -> Option<Box<dyn Line>> {
        let time = Some(Duration::from_millis(5));
        Some(match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).ok()?;
                stream.set_write_timeout(time).and_then(|()| stream.set_read_timeout(time)).ok()?;
                Box::new(stream)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).ok()?;
                stream.set_write_timeout(time).and_then(|()| stream.set_read_timeout(time)).ok()?;
                Box::new(stream)
            }
        })
    }
}

/// Connects again and again, says one of `words` each time, and takes no answer. Counts connections.
fn abuse(place: &Place, words: &[Vec<u8>], (stop, count): (&AtomicBool, &AtomicUsize)) {
    let mut kept = std::collections::VecDeque::new();
    let mut turn = 0;
    while !stop.load(Relaxed) {
        if let Some(mut line) = place.connect() {
            // It may be cut off while it speaks.
            let _ = line.write_all(&words[turn % words.len()]);
            kept.push_back(line);
            count.fetch_add(1, Relaxed);
        }
        if kept.len() > KEPT {
            kept.pop_front();
        }
        turn += 1;
        thread::sleep(PAUSE);
    }
}

/// The p99 of the client, and connections of the abuse meanwhile.
fn measure(socket: &Path, work: Option<(&Place, &[Vec<u8>])>) -> (Duration, usize) {
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..if work.is_some() { THREADS } else { 0 })
        .map(|_| {
            let (stop, count) = (stop.clone(), count.clone());
            let (place, words) = work.map(|(place, words)| (place.clone(), words.to_vec())).unwrap();
            thread::spawn(move || {
                stay_on(ABUSERS);
                abuse(&place, &words, (&stop, &count));
            })
        })
        .collect();
    let load = Load { command: READ, block: 4096, depth: 1, span: 1 << 30 };
    let mut client = Client::connect(socket, "d").unwrap();
    let took = client.latencies(&load, REQUESTS, PACE).unwrap();
    stop.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    (took[took.len() * 99 / 100], count.load(Relaxed))
}

/// Has this thread, and those that it starts, run on one processor.
fn stay_on(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set).expect("two processors to run on");
}

fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|rounds| rounds.parse().ok()).unwrap_or(5);
    let directory = std::env::temp_dir().join(format!("shingle-bench-abuse-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("stack.toml");
    let text = format!(
        "[disk.d]\ntype = \"null\"\nsize = \"1GiB\"\n[export.d]\ndevice = \"d\"\n[listen]\nunix = \"nbd.sock\"\n\
         [control]\nsocket = \"control.sock\"\n[metrics]\ntcp = \"127.0.0.1:0\"\n[web]\ntcp = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\"\n"
    );
    fs::write(&file, text).unwrap();
    stay_on(DAEMON);
    let daemon = Daemon::start(Plan::load(&file).unwrap_or_else(|error| panic!("{error}")));
    let daemon = daemon.unwrap_or_else(|error| panic!("{error}"));
    let tcp = |address: &Address| match address {
        Address::Tcp(address) => Place::Tcp(address.to_string()),
        Address::Unix(path) => Place::Unix(path.clone()),
    };
    let places = daemon.state().places();
    let metrics = tcp(&places.metrics[0]);
    let web = places.web[0].trim_start_matches("http://").split('/').next().map(ToOwned::to_owned);
    let web = Place::Tcp(web.unwrap());
    let control = Place::Unix(directory.join("control.sock"));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = Place::Tcp(nobody.local_addr().unwrap().to_string());
    thread::spawn(move || {
        shingle_host::priority::give_way();
        nobody.incoming().for_each(drop);
    });
    let garbage = || vec![Vec::new(), b"GET / HT".to_vec(), vec![0xff; 4096], vec![b'y'; 64 << 10]];
    let asks = |path: &str| {
        vec![format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n").into_bytes()]
    };
    let lines =
        vec![vec![b'{'; 256 << 10], b"{\"v\":1,\"op\":\"status\"}\n".to_vec(), b"nonsense\n".to_vec(), Vec::new()];
    let abuses = [
        ("connections at which nobody does anything", &nowhere, garbage()),
        ("silence and garbage at the page", &web, garbage()),
        ("silence and garbage at metrics", &metrics, garbage()),
        ("status of the page, not taken", &web, asks("/api/status")),
        ("files of the page, not taken", &web, asks("/vendor/uPlot.esm.js")),
        ("metrics, not taken", &metrics, asks("/metrics")),
        ("nonsense and status at the control socket", &control, lines),
    ];
    let socket = directory.join("nbd.sock");
    println!(
        "| abuse | p99, us | without, us | ratio | connections | MiB more |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    );
    let before = memory_kib();
    for (name, place, words) in &abuses {
        // In turns, so that what else the machine does meets both alike; the median of the rounds.
        let mut all: Vec<_> =
            (0..rounds).map(|_| (measure(&socket, Some((place, words))), measure(&socket, None))).collect();
        all.sort_by_key(|((with, _), _)| *with);
        let ((with, count), _) = all[all.len() / 2];
        all.sort_by_key(|(_, (without, _))| *without);
        let (_, (without, _)) = all[all.len() / 2];
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        let more = memory_kib().saturating_sub(before) >> 10;
        println!("| {name} | {} | {} | {ratio:.2} | {count} | {more} |", with.as_micros(), without.as_micros());
    }
    daemon.stop().unwrap_or_else(|error| panic!("{error}"));
    fs::remove_dir_all(&directory).unwrap();
}
