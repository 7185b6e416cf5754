//! How long a scrape takes, and for how long it keeps a shard from anything else.
//!
//! `cargo bench -p shingle-host --bench metrics [-- DEVICES...]`. Each device is a file that was read and written, so that there are histograms of
//! it; besides there is a zoned disk of 15 TB.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use shingle_core::block::{Bio, Data, Op, Payload};
use shingle_core::sector::Sector;
use shingle_host::config::Plan;
use shingle_host::daemon::Daemon;
use shingle_host::daemon_state::DaemonState;
use shingle_host::mailbox::Reply;
use shingle_host::metrics::{Format, Snapshot};
use shingle_host::shard::Mailbox;

const SCRAPES: usize = 21;

fn plan(directory: &Path, devices: usize) -> Plan {
    let mut text = "[disk.smr]\ntype = \"null\"\nsize = \"14306GiB\"\nzone-size = \"256MiB\"\n".to_owned();
    for n in 0..devices {
        File::create(directory.join(format!("f{n}"))).and_then(|file| file.set_len(1 << 20)).unwrap();
        text += &format!("[disk.f{n}]\ntype = \"file\"\npath = \"f{n}\"\n");
    }
    let file = directory.join("stack.toml");
    fs::write(&file, text).unwrap();
    Plan::load(&file).unwrap_or_else(|error| panic!("{error}"))
}

/// Writes and reads a block of each device.
fn use_all(mailbox: &Mailbox, devices: usize) {
    for (n, op) in (0..devices).flat_map(|n| [(n, Op::Write), (n, Op::Read)]) {
        let done = mailbox.ask_later(move |shard, reply: Reply<bool>| {
            let device = shard.devices.find(&format!("f{n}")).map(|named| named.device);
            let bio = Bio::new(op, Sector(0), 8, Payload::Data(Data::zeroed(4096)));
            shard.submit(device.unwrap(), bio, |_, _, status| reply.send(status.is_ok()));
        });
        assert!(done.unwrap());
    }
}

/// The longest that a shard let somebody wait who asks for nothing, until `stop`.
fn longest_wait(mailbox: &Mailbox, stop: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.load(Relaxed) {
        let asked = Instant::now();
        mailbox.ask(|_| ()).unwrap();
        longest = longest.max(asked.elapsed());
    }
    longest
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Median times of a scrape: of asking, and of writing the text; bytes of that; and the median of the longest waits.
fn scrapes(daemon: &DaemonState) -> ([Duration; 2], usize, Duration) {
    let (mut asked, mut written, mut waits, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..SCRAPES {
        let (mailbox, stop) = (daemon.shards[0].mailbox.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let waiter = thread::spawn(move || longest_wait(&mailbox, &stopped));
        let began = Instant::now();
        let all = Snapshot::take(daemon).unwrap();
        asked.push(began.elapsed());
        stop.store(true, Relaxed);
        waits.push(waiter.join().unwrap());
        let began = Instant::now();
        bytes = all.text(Format::OpenMetrics).len();
        written.push(began.elapsed());
    }
    ([median(asked), median(written)], bytes, median(waits))
}

/// The same without a scrape: what the machine adds.
fn quiet(daemon: &DaemonState) -> Duration {
    let wait = || {
        let (mailbox, stop) = (daemon.shards[0].mailbox.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let waiter = thread::spawn(move || longest_wait(&mailbox, &stopped));
        thread::sleep(Duration::from_millis(20));
        stop.store(true, Relaxed);
        waiter.join().unwrap()
    };
    median((0..SCRAPES).map(|_| wait()).collect())
}

fn main() {
    let counts: Vec<usize> = std::env::args().skip(1).filter_map(|count| count.parse().ok()).collect();
    let counts = if counts.is_empty() { vec![1, 100, 1000] } else { counts };
    println!("| devices | asked, ms | written, ms | KiB | longest wait of others, us | without a scrape |");
    for devices in counts {
        let directory = std::env::temp_dir().join(format!("shingle-bench-metrics-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let daemon = Daemon::start(plan(&directory, devices)).unwrap_or_else(|error| panic!("{error}"));
        use_all(&daemon.state().shards[0].mailbox, devices);
        let ([asked, written], bytes, wait) = scrapes(daemon.state());
        let quiet = quiet(daemon.state());
        let [asked, written] = [asked, written].map(|time| time.as_secs_f64() * 1e3);
        println!(
            "| {devices} | {asked:.1} | {written:.1} | {} | {} | {} |",
            bytes >> 10,
            wait.as_micros(),
            quiet.as_micros()
        );
        daemon.stop().unwrap_or_else(|error| panic!("{error}"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
