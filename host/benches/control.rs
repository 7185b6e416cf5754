//! How long a stack of many mapped devices takes to start, to grow by `dm.create` and to stop.
//!
//! `cargo bench -p shingle-host --bench control [-- DEVICES...]`. Two shapes: a fan, all devices on one disk, and towers of
//! [`LAYERS`] devices on each other.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shingle_host::config::Plan;
use shingle_host::control::ControlClient;
use shingle_host::control::protocol::Create;
use shingle_host::daemon::Daemon;

/// Devices on each other in a tower: with the disk about as many as a bio has frames for.
const LAYERS: usize = 10;
/// Sectors of a device.
const SECTORS: usize = 8;

#[derive(Clone, Copy)]
enum Shape {
    Fan,
    Towers,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Fan => "fan",
            Shape::Towers => "towers",
        }
    }

    /// The table of device number `n`.
    fn table(self, n: usize) -> String {
        match self {
            Shape::Towers if !n.is_multiple_of(LAYERS) => format!("0 {SECTORS} linear d{} 0", n - 1),
            _ => format!("0 {SECTORS} linear mem 0"),
        }
    }
}

fn plan(directory: &Path, shape: Shape, devices: usize) -> Plan {
    let control = directory.join("control.sock");
    let mut text = format!("[disk.mem]\ntype = \"null\"\nsize = \"1MiB\"\n[control]\nsocket = {control:?}\n");
    (0..devices).for_each(|n| text += &format!("[device.d{n}]\ntable = \"{}\"\n", shape.table(n)));
    let file = directory.join("stack.toml");
    fs::write(&file, text).unwrap();
    Plan::load(&file).unwrap_or_else(|error| panic!("{error}"))
}

/// Times of a start with all devices in the stack file, and of its stop.
fn start_and_stop(directory: &Path, shape: Shape, devices: usize) -> (Duration, Duration) {
    let began = Instant::now();
    let daemon = Daemon::start(plan(directory, shape, devices)).unwrap_or_else(|error| panic!("{error}"));
    let started = began.elapsed();
    (started, stop(daemon))
}

fn stop(daemon: Daemon) -> Duration {
    let began = Instant::now();
    daemon.stop().unwrap_or_else(|error| panic!("{error}"));
    began.elapsed()
}

/// Times of the first and the last hundred of so many `dm.create`, for each device, and of all of them.
fn create(directory: &Path, shape: Shape, devices: usize) -> [Duration; 3] {
    let daemon = Daemon::start(plan(directory, shape, 0)).unwrap_or_else(|error| panic!("{error}"));
    let mut client = ControlClient::connect(&directory.join("control.sock")).unwrap_or_else(|error| panic!("{error}"));
    let began = Instant::now();
    let times = (0..devices).map(|n| {
        let create = Create { name: format!("d{n}"), table: Some(shape.table(n)), ..Create::default() };
        client.call(&create).unwrap_or_else(|error| panic!("{error}"));
        began.elapsed()
    });
    let times: Vec<Duration> = times.collect();
    stop(daemon);
    let some = devices.min(100);
    let last = times[devices - 1] - times.get(devices.wrapping_sub(some + 1)).copied().unwrap_or_default();
    [times[some - 1] / some as u32, last / some as u32, times[devices - 1]]
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).filter(|n| *n > 0).collect();
    let numbers = if numbers.is_empty() { vec![1000, 4000] } else { numbers };
    let directory: PathBuf = std::env::temp_dir().join(format!("shingle-bench-control-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    println!(
        "{:8} {:>7} {:>9} {:>9} {:>14} {:>13} {:>9}",
        "shape", "devices", "start ms", "stop ms", "first create us", "last create us", "create ms"
    );
    for shape in [Shape::Fan, Shape::Towers] {
        for devices in &numbers {
            let (start, stop) = start_and_stop(&directory, shape, *devices);
            let [first, last, all] = create(&directory, shape, *devices);
            println!(
                "{:8} {devices:>7} {:>9} {:>9} {:>15} {:>14} {:>9}",
                shape.name(),
                start.as_millis(),
                stop.as_millis(),
                first.as_micros(),
                last.as_micros(),
                all.as_millis()
            );
        }
    }
    fs::remove_dir_all(&directory).unwrap();
}
