//! Results in fio's words: its JSON field names, and its text.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::job::{Failure, Job};
use super::options::JobOptions;
use super::stats::{Direction, Flow, JobStats};
use shingle_host::config::format_bytes;
use shingle_host::latency::{Summary, short};

/// The percentiles that fio lists.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// A finished job.
pub struct Outcome {
    /// `--name`, with the device if there are several.
    pub name: String,
    /// The device's name.
    pub device: String,
    /// fio's `groupid`: the number of the round of jobs that it ran in.
    pub group: usize,
    /// What it was asked to do.
    pub options: JobOptions,
    /// What it did.
    pub stats: JobStats,
    /// Why it stopped early.
    pub failure: Option<Failure>,
    /// I/Os that never came back.
    pub stuck: usize,
    /// Jobs that it sums up.
    pub jobs: u32,
}

impl Outcome {
    /// The outcome of `job` on `device`.
    pub fn new(job: Job, device: String) -> Self {
        let (options, stuck) = (job.options().clone(), job.in_flight());
        let name = options.name().to_owned();
        Self { name, device, group: 0, options, stats: job.stats, failure: job.failure, stuck, jobs: 1 }
    }

    /// Adds a job of the same group, for `--group_reporting`.
    pub fn merge(&mut self, other: Outcome) {
        self.stats.merge(&other.stats);
        self.failure = self.failure.take().or(other.failure);
        self.stuck += other.stuck;
        self.jobs += other.jobs;
        if self.device != other.device {
            self.device = format!("{}, {}", self.device, other.device);
        }
    }

    /// fio's `error`: 0 or an errno.
    pub fn errno(&self) -> i32 {
        match &self.failure {
            Some(failure) => failure.status.errno(),
            None if self.stuck > 0 => shingle_core::block::Status::Timeout.errno(),
            None => 0,
        }
    }

    /// The failure as a sentence.
    pub fn complaint(&self) -> Option<String> {
        if let Some(Failure { op, sector, status, why, mismatch }) = &self.failure {
            let what = match mismatch {
                Some(mismatch) => format!("verification failed: {mismatch}"),
                None if why.is_none() && status == &shingle_core::block::Status::NoSpace => {
                    "nothing to do there: no zone to write, or nothing written to read".to_owned()
                }
                None => why.as_ref().map_or_else(|| status.to_string(), |why| format!("{status} ({why})")),
            };
            return Some(format!("{} on {}: {} at sector {sector}: {what}", self.name, self.device, op.name()));
        }
        let stuck = self.stuck;
        (stuck > 0).then(|| format!("{} on {}: {stuck} I/Os did not come back in time", self.name, self.device))
    }
}

/// The figures of one direction of one job, or of several.
struct Figures {
    ios: u64,
    bytes: u64,
    seconds: f64,
    latency: Summary,
    rates: Vec<f64>,
    block: u64,
}

impl Figures {
    fn new(flow: &Flow, block: u64) -> Self {
        let (ios, seconds) = (flow.ios(), flow.busy_ns as f64 / 1e9);
        Self {
            ios,
            bytes: ios * block,
            seconds,
            latency: flow.latency.summary(&PERCENTILES),
            rates: flow.rates.clone(),
            block,
        }
    }

    fn per_second(&self, amount: u64) -> f64 {
        if self.seconds > 0.0 { amount as f64 / self.seconds } else { 0.0 }
    }

    fn json(&self) -> Value {
        let (iops, bw) = (self.per_second(self.ios), self.per_second(self.bytes));
        let nothing = json!({"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0});
        let to_kib = self.block as f64 / 1024.0;
        let spread = Spread::of(&self.rates);
        json!({
            "io_bytes": self.bytes,
            "io_kbytes": self.bytes / 1024,
            "bw_bytes": bw as u64,
            "bw": (bw / 1024.0) as u64,
            "iops": iops,
            "runtime": (self.seconds * 1000.0).round() as u64,
            "total_ios": self.ios,
            "short_ios": 0,
            "drop_ios": 0,
            "slat_ns": nothing,
            "clat_ns": latency_json(&self.latency, true),
            "lat_ns": latency_json(&self.latency, false),
            "bw_min": (spread.min * to_kib) as u64,
            "bw_max": (spread.max * to_kib) as u64,
            "bw_agg": 100.0,
            "bw_mean": spread.mean * to_kib,
            "bw_dev": spread.stddev * to_kib,
            "bw_samples": self.rates.len(),
            "iops_min": spread.min as u64,
            "iops_max": spread.max as u64,
            "iops_mean": spread.mean,
            "iops_stddev": spread.stddev,
            "iops_samples": self.rates.len(),
        })
    }
}

fn latency_json(summary: &Summary, percentiles: bool) -> Value {
    let Summary { count, min, max, mean, stddev, percentiles: list } = summary;
    let mut object = json!({"min": min, "max": max, "mean": mean, "stddev": stddev, "N": count});
    if percentiles && *count > 0 {
        let list: Map<String, Value> = list.iter().map(|(percent, ns)| (format!("{percent:.6}"), json!(ns))).collect();
        object["percentile"] = Value::Object(list);
    }
    object
}

#[derive(Default)]
struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    stddev: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        Self { min, max: values.iter().copied().fold(0.0, f64::max), mean, stddev: variance.sqrt() }
    }
}

/// The whole result as fio's JSON.
pub fn json_report(outcomes: &[Outcome], stack: &str) -> Value {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    json!({
        "shingle version": env!("CARGO_PKG_VERSION"),
        "timestamp": now.as_secs(),
        "timestamp_ms": now.as_millis() as u64,
        "global options": {"ioengine": "shingle", "stack": stack},
        "jobs": outcomes.iter().map(job_json).collect::<Vec<_>>(),
    })
}

fn job_json(outcome: &Outcome) -> Value {
    let block = u64::from(outcome.options.block_bytes);
    let mut options: Map<String, Value> =
        outcome.options.listed().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    options.insert("filename".into(), json!(outcome.device));
    let flow = |direction| Figures::new(outcome.stats.flow(direction), block).json();
    let busiest = outcome.stats.flows.iter().map(|flow| flow.busy_ns).max().unwrap_or(0);
    json!({
        "jobname": outcome.name,
        "groupid": outcome.group,
        "error": outcome.errno(),
        "elapsed": busiest.div_ceil(1_000_000_000),
        "job options": options,
        "read": flow(Direction::Read),
        "write": flow(Direction::Write),
        "trim": flow(Direction::Trim),
        "sync": {"total_ios": outcome.stats.syncs.count(), "lat_ns": latency_json(&outcome.stats.syncs.summary(&PERCENTILES), true)},
        "job_runtime": busiest / 1_000_000,
        "zone_resets": outcome.stats.zone_resets,
        "verified_blocks": outcome.stats.verified,
    })
}

/// The whole result as fio's text.
pub fn text_report(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        write_job(&mut text, outcome);
    }
    for group in outcomes.chunk_by(|one, next| one.group == next.group) {
        let number = group.first().map_or(0, |outcome| outcome.group);
        let _ = writeln!(text, "\nRun status group {number} (all jobs):");
        for direction in Direction::ALL {
            write_group(&mut text, group, direction);
        }
    }
    text
}

fn write_job(text: &mut String, outcome: &Outcome) {
    let Outcome { name, device, group, options, stats, .. } = outcome;
    let _ = writeln!(text, "\n{name}: (groupid={group}, jobs={}): err={:2}: {device}", outcome.jobs, outcome.errno());
    for direction in Direction::ALL {
        let figures = Figures::new(stats.flow(direction), options.block_bytes.into());
        if figures.ios > 0 {
            let resets = if direction == Direction::Write && stats.zone_resets > 0 {
                format!("; {} zone resets", stats.zone_resets)
            } else {
                String::new()
            };
            write_flow(text, direction, &figures, &resets);
        }
    }
    let syncs = stats.syncs.summary(&[99.0]);
    if syncs.count > 0 {
        let (unit, scale) = unit_of(syncs.mean);
        let (avg, p99, max) = (syncs.mean / scale, syncs.percentiles[0].1 as f64 / scale, syncs.max as f64 / scale);
        let _ = writeln!(text, "  fsync: {}: avg={avg:.2}, 99th={p99:.1}, max={max:.1} {unit}", syncs.count);
    }
    if options.verify.is_some() {
        let _ = writeln!(text, "  verify: {} blocks read back and compared", stats.verified);
    }
}

fn write_flow(text: &mut String, direction: Direction, figures: &Figures, resets: &str) {
    let (iops, bw) = (figures.per_second(figures.ios), figures.per_second(figures.bytes));
    let _ = writeln!(
        text,
        "  {}: IOPS={}, BW={}/s ({}B/s)({}/{}msec){resets}",
        direction.name(),
        short(iops),
        format_rate(bw),
        short(bw),
        format_bytes(figures.bytes).replace(' ', ""),
        (figures.seconds * 1000.0).round(),
    );
    let (unit, scale) = unit_of(figures.latency.mean);
    let Summary { min, max, mean, stddev, percentiles, .. } = &figures.latency;
    let scaled = |ns: f64| ns / scale;
    let _ = writeln!(
        text,
        "    clat ({unit}): min={:.1}, max={:.1}, avg={:.2}, stdev={:.2}",
        scaled(*min as f64),
        scaled(*max as f64),
        scaled(*mean),
        scaled(*stddev)
    );
    let _ = writeln!(text, "    clat percentiles ({unit}):");
    for row in percentiles.chunks(4) {
        let cells: Vec<String> = row.iter().map(|(p, ns)| format!("{p:5.2}th=[{:7.1}]", scaled(*ns as f64))).collect();
        let _ = writeln!(text, "     | {}", cells.join(", "));
    }
    let spread = Spread::of(&figures.rates);
    let (samples, to_kib) = (figures.rates.len(), figures.block as f64 / 1024.0);
    if samples > 0 {
        let _ = writeln!(
            text,
            "   bw (  KiB/s): min={:.0}, max={:.0}, avg={:.2}, stdev={:.2}, samples={samples}",
            spread.min * to_kib,
            spread.max * to_kib,
            spread.mean * to_kib,
            spread.stddev * to_kib
        );
        let _ = writeln!(
            text,
            "   iops        : min={:.0}, max={:.0}, avg={:.2}, stdev={:.2}, samples={samples}",
            spread.min, spread.max, spread.mean, spread.stddev
        );
    }
}

fn write_group(text: &mut String, outcomes: &[Outcome], direction: Direction) {
    let all: Vec<Figures> = outcomes
        .iter()
        .map(|outcome| Figures::new(outcome.stats.flow(direction), outcome.options.block_bytes.into()))
        .filter(|figures| figures.ios > 0)
        .collect();
    if all.is_empty() {
        return;
    }
    let bw: f64 = all.iter().map(|figures| figures.per_second(figures.bytes)).sum();
    let iops: f64 = all.iter().map(|figures| figures.per_second(figures.ios)).sum();
    let bytes: u64 = all.iter().map(|figures| figures.bytes).sum();
    let longest = all.iter().map(|figures| figures.seconds).fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "{:>7}: IOPS={}, bw={}/s ({}B/s), io={} ({bytes} B), run={}msec",
        direction.name().to_uppercase(),
        short(iops),
        format_rate(bw),
        short(bw),
        format_bytes(bytes).replace(' ', ""),
        (longest * 1000.0).round()
    );
}

/// fio's unit for latencies of about `ns`, and how many ns it has.
fn unit_of(ns: f64) -> (&'static str, f64) {
    match ns {
        ns if ns < 10_000.0 => ("nsec", 1.0),
        ns if ns < 10_000_000.0 => ("usec", 1e3),
        _ => ("msec", 1e6),
    }
}

/// Bytes per second in fio's binary units, without the `/s`.
pub fn format_rate(bytes: f64) -> String {
    let (scaled, unit) = match bytes {
        b if b >= 1073741824.0 => (b / 1073741824.0, "GiB"),
        b if b >= 1048576.0 => (b / 1048576.0, "MiB"),
        b => (b / 1024.0, "KiB"),
    };
    format!("{scaled:.1}{unit}")
}
