//! The rows of the published tables that were measured on SMR disks, and how each is run.

use shingle::profile::{Model, Profile};
use shingle_core::block::Stack;
use shingle_core::device::{SmrConfig, SmrDisk};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::sim::World;
use shingle_core::sim::workload::fio::{Fio, FioOptions, Host, Pattern};
use shingle_core::sim::workload::xfs::{Xfs, XfsOptions};
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

/// The machine of the tables: a thread spends 5.13 us on a small write and 1.5 us to wake if it slept until one was done
/// (fitted to the zoned SSD in the same machine, `zns_tables.rs`).
const HOST: Host =
    Host { submit: Duration(2_500), complete: Duration(2_630), rouse: WAKE, hop: Duration::ZERO, wake: WAKE };
const WAKE: Duration = Duration(1_500);

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

pub struct Fit {
    pub chunk: u64,
    pub window: u64,
}

fn parameter(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn xfs_run(config: &SmrConfig, policy: WritePolicy, files: (u64, u64), hba: bool) -> f64 {
    const MIB: u64 = 2048;
    let max_sectors = if hba { 2048 } else { config.max_sectors };
    let config = SmrConfig { max_sectors, ..config.clone() };
    let mut stack = Stack::new();
    let disk = SmrDisk::new(&config).unwrap_or_else(|error| panic!("{error}"));
    let disk = stack.add(Box::new(disk)).unwrap();
    let plug = ZonePlug::new(disk, stack.limits(disk), kernel(policy, false)).unwrap();
    let plug = stack.add(Box::new(plug)).unwrap();
    let mut world = World::new(stack);
    let options = XfsOptions {
        writers: 8,
        file_sectors: files.0 * MIB..=files.1 * MIB,
        append_sectors: max_sectors,
        chunk_sectors: parameter("CHUNK", 116) * MIB,
        window_sectors: parameter("WINDOW", 16) * MIB,
        ramp: seconds(20),
        runtime: seconds(200),
        seed: 1,
    };
    let actor = world.add(Box::new(Xfs::new(plug, options)));
    world.run(Instant(u64::MAX));
    let xfs: &Xfs = world.actor(actor).unwrap();
    assert!(!xfs.has_failed() && !xfs.full);
    xfs.tally.mb_per_s(world.now())
}

fn xfs(rows: &mut Vec<Row>) {
    use WritePolicy::{Plug, Qd1};
    let loads: [(&str, (u64, u64), [f64; 4]); 3] = [
        ("256 MiB", (256, 256), [212., 238., 175., 245.]),
        ("4-128 MiB", (4, 128), [213., 243., 174., 244.]),
        ("2-8 MiB", (2, 8), [179., 242., 171., 243.]),
    ];
    let columns = [
        ("ahci_baseline", Plug, false),
        ("ahci_patched", Qd1, false),
        ("hba1m_baseline", Plug, true),
        ("hba1m_patched", Qd1, true),
    ];
    for (load, files, published) in loads {
        for ((column, policy, hba), published) in columns.into_iter().zip(published) {
            rows.push(Row {
                table: "qd1-xfs",
                row: load.to_owned(),
                column,
                published,
                calibrated: policy == Plug,
                drive: "smr-30tb",
                run: Box::new(move |config| xfs_run(config, policy, files, hba)),
            });
        }
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    xfs(&mut rows);
    devices(&mut rows);
    qd1(&mut rows);
    rows
}
