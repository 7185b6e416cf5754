//! The rows of the published tables that were measured on SMR disks, and how each is run.

use shingle::profile::{Model, Profile};
use shingle_core::block::Stack;
use shingle_core::device::{SmrConfig, SmrDisk};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::sim::World;
use shingle_core::sim::workload::fio::{Fio, FioOptions, Host, Pattern};
use shingle_core::time::{Duration, Instant};

/// A figure of a table.
pub struct Row {
    pub table: &'static str,
    pub row: String,
    pub column: &'static str,
    pub published: f64,
    /// Whether parameters may be fitted to it.
    pub calibrated: bool,
    pub drive: &'static str,
    pub run: Box<dyn Fn(&SmrConfig) -> f64>,
}

pub fn config(profile: &str) -> SmrConfig {
    let profile = Profile::find(profile).unwrap_or_else(|error| panic!("{error}"));
    #[allow(irrefutable_let_patterns)]
    let Model::Smr(config) = profile.model else { panic!("{} is no SMR disk", profile.name) };
    SmrConfig { keep_data: false, ..config }
}

/// Options of a kernel's write path.
fn kernel(policy: WritePolicy, merging: bool) -> PlugOptions {
    PlugOptions { policy, max_segments: if merging { 256 } else { 1 }, queue_depth: 32, ..PlugOptions::default() }
}

/// Host of the 26 TB drive's tables: 8 cores; the 3.9 us are what QD1 takes beside the drive.
const HOST: Host = Host {
    submit: Duration(2_000),
    complete: Duration(1_900),
    rouse: Duration(2_000),
    hop: Duration::ZERO,
    wake: Duration::from_micros(50),
};

pub fn fio(config: &SmrConfig, plug: PlugOptions, options: FioOptions) -> Fio1 {
    let mut stack = Stack::new();
    let disk = SmrDisk::new(config).unwrap_or_else(|error| panic!("{error}"));
    let disk = stack.add(Box::new(disk)).unwrap();
    let plug = ZonePlug::new(disk, stack.limits(disk), plug).unwrap();
    let plug = stack.add(Box::new(plug)).unwrap();
    let mut world = World::new(stack);
    let actor = world.add(Box::new(Fio::new(plug, options)));
    world.run(Instant(u64::MAX));
    let fio: &Fio = world.actor(actor).unwrap();
    assert_eq!(fio.first_error(), None);
    Fio1 { mb: fio.writes().mb_per_s(world.now()), iops: fio.writes().iops(world.now()) }
}

pub struct Fio1 {
    pub mb: f64,
    pub iops: f64,
}

fn seconds(s: u64) -> Duration {
    Duration::from_millis(s * 1000)
}

pub fn sequential(kib: u32, depth: u32, run: u64) -> FioOptions {
    FioOptions {
        pattern: Pattern::Sequential,
        block_sectors: kib * 2,
        iodepth: depth,
        ramp: seconds(2),
        runtime: seconds(run),
        host: HOST,
        ..FioOptions::default()
    }
}

pub fn random(kib: u32, depth: u32, jobs: u32, zones: u32, run: u64) -> FioOptions {
    FioOptions {
        pattern: Pattern::RandomZones,
        jobs,
        max_open_zones: Some(zones),
        ramp: seconds(20),
        ..sequential(kib, depth, run)
    }
}

/// The region is as many zones as may be open.
fn contiguous(options: FioOptions) -> FioOptions {
    let zones = std::env::var("ANYWHERE").is_err().then_some(options.max_open_zones).flatten();
    FioOptions { zones, ..options }
}

type Plan = (&'static str, bool, WritePolicy, bool, [f64; 5]);

fn devices(rows: &mut Vec<Row>) {
    use WritePolicy::{Plug, ZoneLock};
    let plans: [Plan; 4] = [
        ("baseline", true, ZoneLock, true, [121., 251., 251., 2471., 664.]),
        ("baseline-next", true, ZoneLock, false, [121., 137., 249., 2428., 649.]),
        ("zwp/mq-deadline", false, Plug, false, [118., 137., 251., 2415., 651.]),
        ("zwp/none", false, Plug, true, [117., 238., 251., 2400., 666.]),
    ];
    for (name, calibrated, policy, merging, published) in plans {
        let runs: [(&str, fn() -> FioOptions, bool); 5] = [
            ("seqw4K1", || sequential(4, 1, 8), false),
            ("seqw4K16", || sequential(4, 16, 8), false),
            ("seqw1M16", || sequential(1024, 16, 20), false),
            ("rndw4K16", || contiguous(random(4, 16, 1, 128, 60)), true),
            ("rndw128K16", || contiguous(random(128, 16, 1, 128, 60)), true),
        ];
        for ((column, options, iops), published) in runs.into_iter().zip(published) {
            let run = move |config: &SmrConfig| {
                let done = fio(config, kernel(policy, merging), options());
                if iops { done.iops } else { done.mb }
            };
            rows.push(Row {
                table: "zwp-devices",
                row: name.to_owned(),
                column,
                published,
                calibrated,
                drive: "smr-26tb",
                run: Box::new(run),
            });
        }
    }
}

fn qd1(rows: &mut Vec<Row>) {
    use WritePolicy::{Plug, Qd1};
    let sequential_rows = [
        (1, 244., 245.),
        (2, 244., 245.),
        (4, 245., 245.),
        (8, 242., 245.),
        (16, 222., 246.),
        (32, 211., 245.),
        (64, 193., 244.),
        (128, 112., 246.),
    ];
    for (depth, baseline, patched) in sequential_rows {
        for (column, policy, published) in [("baseline", Plug, baseline), ("patched", Qd1, patched)] {
            let run = move |config: &SmrConfig| fio(config, kernel(policy, false), sequential(1024, depth, 300)).mb;
            rows.push(Row {
                table: "qd1-sequential",
                row: format!("QD{depth}"),
                column,
                published,
                calibrated: column == "baseline",
                drive: "smr-30tb",
                run: Box::new(run),
            });
        }
    }
    let random_rows = [
        (1, 191., 192.),
        (2, 101., 128.),
        (4, 115., 123.),
        (8, 90., 120.),
        (16, 64., 115.),
        (32, 58., 105.),
        (64, 56., 101.),
        (128, 55., 99.),
    ];
    for (zones, baseline, patched) in random_rows {
        for (column, policy, published) in [("baseline", Plug, baseline), ("patched", Qd1, patched)] {
            let run = move |config: &SmrConfig| {
                fio(config, kernel(policy, false), contiguous(random(1024, 32, 16, zones, 300))).mb
            };
            rows.push(Row {
                table: "qd1-random-zones",
                row: format!("{zones} zones"),
                column,
                published,
                calibrated: column == "baseline",
                drive: "smr-30tb",
                run: Box::new(run),
            });
        }
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    devices(&mut rows);
    qd1(&mut rows);
    rows
}
