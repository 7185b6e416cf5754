//! Asking a running stack: some devices at a time, so that no shard stands still.

use std::collections::BTreeMap;

use shingle_core::block::{Counters, DeviceId, Figure, Op, Stack, Status};
use shingle_core::device::NullDevice;
use shingle_core::mapper::TargetFigures;
use shingle_core::multipath::{Access, Head, IoClass, PathHealth, PathReport, PathWindow};
use shingle_core::plug::ZonePlug;
use shingle_core::time::Duration;
use shingle_core::zone::{Condition, ZoneNo, ZonedDisk};
use shingle_drives::live::{LiveDrive, Power, Times};

use super::figures;
use crate::daemon_state::{DaemonState, ShardInfo};
use crate::devices::Named;
use crate::disk::file::FileDisk;
use crate::disk::zoned_blk::ZonedBlk;
use crate::disk::zoned_dir::ZonedDir;
use crate::mailbox::MailboxError;
use crate::serve::Export;
use crate::shard::Shard;
use crate::tally::{Latency, Tally, Work};
use crate::zone_reports::{FIRST_WAIT, Need, SHARE, ZoneReports, reader};

/// Devices that a shard is asked about at a time.
const DEVICES: usize = 32;
/// Zones that it looks at for one message: these take it some tenths of a millisecond.
const ZONES: u32 = 1 << 17;
/// Age from which a bio counts as stuck.
const STUCK: Duration = Duration::from_millis(1000);
/// How old the conditions of zones may be that only the disk knows.
const ZONES_AGE: std::time::Duration = std::time::Duration::from_secs(10);
/// What is older than so many times that, or so many times the period of reports, is told no more.
const MOST_PERIODS: u32 = 6;

/// A value, and what tells it apart from others of its family.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// A value for each label of the family.
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter.
    Count(u64),
    /// Of a counter that is no whole number, or of a gauge.
    Number(f64),
    /// Of a histogram.
    Latency(Latency),
}

/// All values, by the name of their family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot(pub(super) BTreeMap<&'static str, Vec<Sample>>);

impl Snapshot {
    /// What a stack says now.
    ///
    /// # Errors
    /// If a shard does not answer.
    pub fn take(daemon: &DaemonState) -> Result<Self, MailboxError> {
        let mut all = Self::default();
        all.number("build_info", &[env!("CARGO_PKG_VERSION")], 1.0);
        all.number("uptime_seconds", &[], daemon.started.elapsed().as_secs_f64());
        let (mut names, mut asked) = (Vec::new(), Vec::new());
        for (number, shard) in daemon.shards.iter().enumerate() {
            names.push(all.take_shard(daemon, number, shard, &mut asked)?);
        }
        // All disks have been asked by now, so that one waits for them no longer than for the slowest.
        asked.iter().for_each(|name| all.add_report(name, &daemon.zone_reports));
        for (export, health) in daemon.export_health()? {
            all.number("export_health", &[&export.name, health.name()], 1.0);
        }
        for (export, clients) in daemon.exports.used() {
            let of_it = |named: &&Named| named.device == export.device;
            let device = names[export.shard].iter().find(of_it).map_or("", |named| &named.name);
            all.add_export(&export, device, clients);
        }
        Ok(all)
    }

    /// What one shard says; its devices. Disks that have to be asked for their zones are asked and noted.
    fn take_shard(
        &mut self,
        daemon: &DaemonState,
        number: usize,
        shard: &ShardInfo,
        asked: &mut Vec<String>,
    ) -> Result<Vec<Named>, MailboxError> {
        let label = number.to_string();
        let of_shard = [label.as_str()];
        let (named, stuck) = shard.mailbox.ask(|shard| (shard.devices.list(), shard.count_stuck(STUCK)))?;
        let connections: usize = daemon.services.iter().map(|service| service.connections(number)).sum();
        self.number("connections", &of_shard, connections as f64);
        self.number("stuck_bios", &of_shard, stuck as f64);
        let mut next = 0;
        while next < named.len() {
            let wanted = named[next..].iter().take(DEVICES).cloned().collect();
            let looked = shard.mailbox.ask(|shard| look(shard, wanted))?;
            for (named, device) in named[next..].iter().zip(&looked) {
                self.add_device(named, &label, device);
                if device.has_to_be_asked {
                    let read = reader(shard.mailbox.clone(), named.name.clone());
                    daemon.zone_reports.begin(&named.name, (Need::Counts, ZONES_AGE), read);
                    asked.push(named.name.clone());
                }
            }
            next += looked.len();
        }
        Ok(named)
    }

    fn add(&mut self, family: &'static str, labels: &[&str], value: Value) {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.0.entry(family).or_default().push(Sample { labels, value });
    }

    fn number(&mut self, family: &'static str, labels: &[&str], value: f64) {
        self.add(family, labels, Value::Number(value));
    }

    fn count(&mut self, family: &'static str, labels: &[&str], count: u64) {
        self.add(family, labels, Value::Count(count));
    }

    /// Counts by operation, bytes, or ways to fail: those that there are.
    fn counts<'a>(&mut self, family: &'static str, of: &str, all: impl IntoIterator<Item = (&'a str, u64)>) {
        let some = all.into_iter().filter(|(_, count)| *count > 0);
        some.for_each(|(what, count)| self.count(family, &[of, what], count));
    }

    fn latencies(&mut self, family: &'static str, of: &str, all: impl IntoIterator<Item = (Work, Latency)>) {
        let some = all.into_iter().filter(|(_, latency)| latency.count() > 0);
        some.for_each(|(work, latency)| self.add(family, &[of, work.name()], Value::Latency(latency)));
    }

    fn add_export(&mut self, export: &Export, device: &str, clients: usize) {
        let (name, tally) = (export.name.as_str(), &export.tally);
        self.number("export_info", &[name, device], 1.0);
        self.number("export_clients", &[name], clients as f64);
        self.counts("export_operations", name, tally.by_op().map(|(op, ios, _)| (label(op), ios)));
        self.counts("export_bytes", name, tally.by_op().map(|(op, _, sectors)| (label(op), sectors * 512)));
        self.counts("export_errors", name, tally.errors().map(|(status, count)| (status.name(), count)));
        self.latencies("export_latency_seconds", name, latencies(tally));
    }

    fn add_device(&mut self, named: &Named, shard: &str, device: &Device) {
        let name = named.name.as_str();
        let Device { bytes, is_suspended, counters, latencies, figures, .. } = device;
        self.number("device_info", &[name, named.kind, shard], 1.0);
        self.number("device_size_bytes", &[name], *bytes as f64);
        self.number("device_suspended", &[name], f64::from(u8::from(*is_suspended)));
        let by_op = |counts: &[u64; Op::COUNT], times| Op::ALL.map(|op| (label(op), counts[op as usize] * times));
        self.counts("device_operations", name, by_op(&counters.ios, 1));
        self.counts("device_bytes", name, by_op(&counters.sectors, 512));
        let statuses = (0..Status::COUNT as u8).filter_map(Status::from_byte);
        self.counts("device_errors", name, statuses.map(|status| (status.name(), counters.errors[status as usize])));
        self.count("device_merges", &[name], counters.merges);
        self.number("device_in_flight", &[name], counters.in_flight as f64);
        self.latencies("disk_latency_seconds", name, latencies.iter().cloned());
        self.add_zones(name, device);
        let several = figures.iter().filter(|(_, figures)| !figures.is_empty()).count() > 1;
        for (line, (target, figures)) in figures.iter().enumerate() {
            let of = if several { format!("{name}/{line}") } else { name.to_owned() };
            figures.iter().for_each(|(figure, value)| self.add_figure(&of, (*target, *figure), *value));
        }
        for (path, report, windows) in &device.paths {
            self.add_path(name, path, report);
            windows.iter().for_each(|window| self.add_window((name, path), window));
        }
        device.drive.iter().for_each(|drive| self.add_drive(name, drive));
        if let Some(waiting) = device.waiting {
            self.number("paths_waiting", &[name], waiting as f64);
        }
    }

    fn add_drive(&mut self, name: &str, drive: &Drive) {
        self.number("drive_power", &[name], f64::from(u8::from(drive.has_power)));
        self.count("drive_power_cuts", &[name], drive.cuts);
        self.number("drive_memory_bytes", &[name], drive.memory_bytes as f64);
        self.add("drive_lateness_seconds", &[name], Value::Latency(drive.lateness.clone()));
    }

    fn add_zones(&mut self, name: &str, device: &Device) {
        for (family, limit) in [("zones_max_open", device.max_open), ("zones_max_active", device.max_active)] {
            limit.into_iter().for_each(|limit| self.number(family, &[name], limit.into()));
        }
        device.zones.iter().for_each(|zones| self.add_conditions(name, zones));
        if let Some(Plug { busy, longest_wait, is_failed }) = device.plug {
            self.number("plug_busy_zones", &[name], busy.into());
            self.number("plug_longest_wait_seconds", &[name], longest_wait.as_nanos() as f64 / 1e9);
            self.number("plug_failed", &[name], f64::from(u8::from(is_failed)));
        }
    }

    fn add_conditions(&mut self, name: &str, zones: &[u32; Condition::ALL.len()]) {
        let all = || Condition::ALL.into_iter().zip(zones.iter().copied());
        let sum = |is: fn(Condition) -> bool| {
            all().filter(|(condition, _)| is(*condition)).map(|(_, count)| f64::from(count)).sum::<f64>()
        };
        for (condition, count) in all() {
            self.number("zones", &[name, &condition.name().to_ascii_lowercase()], count.into());
        }
        self.number("zones_open", &[name], sum(Condition::is_open));
        self.number("zones_active", &[name], sum(Condition::is_active));
    }

    /// The zones of a disk that only knows them itself, unless what is known of them is so old that it means nothing.
    fn add_report(&mut self, name: &str, reports: &ZoneReports) {
        let Ok(report) = reports.get(name, Need::Counts, FIRST_WAIT) else { return };
        let age = report.began.elapsed();
        if age < ZONES_AGE.max(report.took * SHARE) * MOST_PERIODS {
            self.add_conditions(name, &report.counts);
            self.number("zones_age_seconds", &[name], age.as_secs_f64());
        }
    }

    /// A figure that has no family is not shown: `shingle/tests/daemon/metrics.rs` holds that each has one.
    fn add_figure(&mut self, of: &str, (target, figure): (&str, &str), value: Figure) {
        let Some(family) = figures::of(target, figure) else { return };
        match (value, figures::number(family, value)) {
            (Figure::Word(word), _) => self.number(family.name, &[of, word], 1.0),
            (_, number) => self.number(family.name, &[of], number.unwrap_or_default()),
        }
    }

    fn add_window(&mut self, (name, path): (&str, &str), window: &PathWindow) {
        let node = window.node.0.to_string();
        let of = [name, path, &node, window.class.map_or("all", IoClass::name)];
        self.number("path_window_latency_seconds", &of, window.latency.as_nanos() as f64 / 1e9);
        self.number("path_window_samples", &of, window.samples as f64);
        window.weight.into_iter().for_each(|weight| self.number("path_weight", &of, weight.into()));
    }

    fn add_path(&mut self, name: &str, path: &str, report: &PathReport) {
        let (of, counters) = ([name, path], report.counters);
        let usable = report.health == PathHealth::Live && report.state.access() != Access::Unusable;
        self.number("path_usable", &of, f64::from(u8::from(usable)));
        self.number("path_state", &[name, path, report.state.name()], 1.0);
        self.number("path_in_flight", &of, report.in_flight.into());
        self.number("path_busy_seconds", &of, counters.latency.as_nanos() as f64 / 1e9);
        for (family, count) in [
            ("path_operations", counters.sent),
            ("path_done", counters.done),
            ("path_failovers", counters.failovers),
            ("path_retries", counters.retries),
            ("path_errors", counters.errors),
            ("path_failures", counters.failures),
        ] {
            self.count(family, &of, count);
        }
    }
}

/// What a label calls an operation.
const fn label(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::WriteZeroes => "write_zeroes",
        Op::Discard => "discard",
        Op::Flush => "flush",
        Op::ZoneAppend => "zone_append",
        Op::ZoneOpen => "zone_open",
        Op::ZoneClose => "zone_close",
        Op::ZoneFinish => "zone_finish",
        Op::ZoneReset => "zone_reset",
        Op::ZoneResetAll => "zone_reset_all",
        Op::ReportZones => "report_zones",
    }
}

fn latencies(tally: &Tally) -> [(Work, Latency); Work::ALL.len()] {
    Work::ALL.map(|work| (work, tally.latency(work)))
}

/// What a shard says of a device.
struct Device {
    bytes: u64,
    is_suspended: bool,
    counters: Counters,
    /// Of a disk of ours, or a simulated drive.
    latencies: Vec<(Work, Latency)>,
    /// By condition, in the order of [`Condition::ALL`].
    zones: Option<[u32; Condition::ALL.len()]>,
    /// Of a disk that alone knows its zones.
    /// True if only the disk knows the conditions of its zones.
    has_to_be_asked: bool,
    max_open: Option<u32>,
    max_active: Option<u32>,
    plug: Option<Plug>,
    figures: Vec<TargetFigures>,
    paths: Vec<(String, PathReport, Vec<PathWindow>)>,
    /// Bios of a device with paths that are on none.
    waiting: Option<usize>,
    drive: Option<Drive>,
}

/// A simulated drive.
struct Drive {
    has_power: bool,
    cuts: u64,
    memory_bytes: u64,
    lateness: Latency,
}

impl Drive {
    fn of(drive: &LiveDrive) -> Self {
        let (has_power, lateness) = (drive.power() == Power::On, in_seconds(drive.lateness()));
        Self { has_power, cuts: drive.cuts(), memory_bytes: drive.memory_bytes(), lateness }
    }
}

fn in_seconds(times: &Times) -> Latency {
    let seconds = |time: Duration| time.as_nanos() as f64 / 1e9;
    let cells = times.cells().map(|(bound, count)| (bound.map_or(f64::INFINITY, seconds), count)).collect();
    Latency { cells, sum: seconds(times.sum()) }
}

fn latencies_of_drive(drive: &LiveDrive) -> [(Work, Latency); Work::ALL.len()] {
    Work::ALL.map(|work| {
        let ops = Op::ALL.into_iter().filter(|op| Work::of(*op) == work);
        let all = ops.map(|op| in_seconds(drive.times(op))).reduce(Latency::plus);
        (work, all.unwrap_or_default())
    })
}

#[derive(Clone, Copy)]
struct Plug {
    busy: u32,
    longest_wait: Duration,
    is_failed: bool,
}

impl Plug {
    /// This plug and another one of the same device.
    fn with(self, other: Self) -> Self {
        Self {
            busy: self.busy + other.busy,
            longest_wait: self.longest_wait.max(other.longest_wait),
            is_failed: self.is_failed || other.is_failed,
        }
    }
}

/// Looks at the first of these devices: not at all of them if that takes too long. One is always looked at.
fn look(shard: &Shard, wanted: Vec<Named>) -> Vec<Device> {
    let (mut looked, mut zones) = (Vec::with_capacity(wanted.len()), 0);
    for named in wanted {
        zones += shard.stack.limits(named.device).zones();
        if zones > ZONES && !looked.is_empty() {
            break;
        }
        looked.push(look_at(shard, &named));
    }
    looked
}

fn look_at(shard: &Shard, named: &Named) -> Device {
    let stack = &shard.stack;
    let limits = stack.limits(named.device);
    let dir = || stack.device::<ZonedDir>(named.leaf).map(ZonedDir::zones);
    let drive = stack.device::<LiveDrive>(named.leaf);
    let zones = stack.device::<NullDevice>(named.leaf).and_then(NullDevice::zones).or_else(dir);
    let zones = zones.or_else(|| drive.and_then(LiveDrive::zones));
    let plugs = shard.devices.plugs_of(named, stack).into_iter().filter_map(|(_, id)| stack.device::<ZonePlug>(id));
    let plug = plugs.map(|plug| Plug {
        busy: plug.active(),
        longest_wait: plug.longest_wait(),
        is_failed: plug.failure().is_some(),
    });
    let head = stack.device::<Head>(named.leaf);
    let paths = head.into_iter().flat_map(|head| {
        let path = move |path: PathReport| (shard.devices.label(path.device), path, head.windows(path.number));
        head.paths().map(path)
    });
    Device {
        bytes: limits.capacity * 512,
        is_suspended: stack.is_suspended(named.device),
        counters: stack.counters(named.device),
        latencies: latencies_of(stack, named.leaf).map_or(Vec::new(), Vec::from),
        zones: zones.map(by_condition),
        has_to_be_asked: stack.device::<ZonedBlk>(named.leaf).is_some(),
        max_open: limits.zoned.as_ref().and_then(|zoned| zoned.max_open),
        max_active: limits.max_active(),
        plug: plug.reduce(Plug::with),
        figures: shard.devices.mapper.figures(&named.name, false, stack).unwrap_or_default(),
        paths: paths.collect(),
        waiting: head.map(Head::waiting),
        drive: drive.map(Drive::of),
    }
}

/// How long a disk took, if the device in this place is one of ours or a simulated drive.
fn latencies_of(stack: &Stack, id: DeviceId) -> Option<[(Work, Latency); Work::ALL.len()]> {
    tally_of(stack, id).map(latencies).or_else(|| stack.device(id).map(latencies_of_drive))
}

/// What a disk has done, if the device in this place is one of ours.
fn tally_of(stack: &Stack, id: DeviceId) -> Option<&Tally> {
    let dir = || stack.device(id).map(ZonedDir::tally);
    stack.device(id).map(FileDisk::tally).or_else(dir).or_else(|| stack.device(id).map(ZonedBlk::tally))
}

fn by_condition(disk: &ZonedDisk) -> [u32; Condition::ALL.len()] {
    Condition::count((0..disk.geometry().zones()).map(|zone| disk.state(ZoneNo(zone)).cond))
}
