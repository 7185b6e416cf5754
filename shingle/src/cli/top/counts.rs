//! What a daemon has counted, out of the text of its metrics, and what it comes to in an interval.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// What an export or a device has done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub reads: u64,
    pub read_bytes: u64,
    /// Appends and zeroes, too.
    pub writes: u64,
    pub write_bytes: u64,
    pub errors: u64,
    /// Of reads and writes.
    pub latency: Histogram,
}

/// How many values there were up to each bound, in nanoseconds; the last has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram(pub BTreeMap<u64, u64>);

/// What was done in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// Each second.
    pub reads: f64,
    pub read_bytes: f64,
    pub writes: f64,
    pub write_bytes: f64,
    /// In the interval.
    pub errors: u64,
    /// In nanoseconds; `None` if it is not measured, or there was nothing.
    pub p50: Option<u64>,
    pub p99: Option<u64>,
}

/// How much a counter grew each second; `None` if it began anew.
pub fn rate(before: u64, now: u64, seconds: f64) -> Option<f64> {
    Some(now.checked_sub(before)? as f64 / seconds)
}

impl Totals {
    /// What was done since `before`; `None` if a counter began anew.
    pub fn since(&self, before: &Totals, seconds: f64) -> Option<Flow> {
        let latency = self.latency.since(&before.latency);
        Some(Flow {
            reads: rate(before.reads, self.reads, seconds)?,
            read_bytes: rate(before.read_bytes, self.read_bytes, seconds)?,
            writes: rate(before.writes, self.writes, seconds)?,
            write_bytes: rate(before.write_bytes, self.write_bytes, seconds)?,
            errors: self.errors.checked_sub(before.errors)?,
            p50: latency.percentile(0.50),
            p99: latency.percentile(0.99),
        })
    }
}

impl Histogram {
    /// The values since `before`; none if it began anew.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let grown = |(bound, count): (&u64, &u64)| {
            let then = before.0.get(bound).copied().unwrap_or_default();
            Some((*bound, count.checked_sub(then)?))
        };
        Histogram(self.0.iter().map(grown).collect::<Option<_>>().unwrap_or_default())
    }

    /// The value that such a share of all do not exceed. In between two bounds values are taken to be spread evenly.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let all = self.0.values().max().copied().filter(|all| *all > 0)?;
        let rank = (share * all as f64).max(1.0);
        let (mut lower, mut seen) = (0, 0);
        for (bound, count) in &self.0 {
            if *count as f64 >= rank {
                // What exceeds all bounds exceeds the last one.
                let Some(width) = bound.checked_sub(lower).filter(|_| *bound != u64::MAX) else { return Some(lower) };
                let into = (rank - seen as f64) / count.saturating_sub(seen).max(1) as f64;
                return Some(lower + (width as f64 * into.clamp(0.0, 1.0)) as u64);
            }
            (lower, seen) = (*bound, seen.max(*count));
        }
        None
    }

    /// Adds a bucket. What flushes and the like took is beside the point.
    fn add(&mut self, sample: &Sample<'_>) {
        let is_data = sample.label("work").is_none_or(|work| work == "read" || work == "write");
        let bound =
            sample.label("le").and_then(|le| if le == "+Inf" { Some(u64::MAX) } else { le.parse().ok().map(ns) });
        if let Some(bound) = bound.filter(|_| is_data) {
            let count = self.0.entry(bound).or_default();
            *count = count.saturating_add(sample.value as u64);
        }
    }
}

/// What only metrics have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub exports: BTreeMap<String, Totals>,
    pub disks: BTreeMap<String, DiskCounts>,
    /// By device and path.
    pub paths: BTreeMap<(String, String), PathCounts>,
}

/// Of a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskCounts {
    pub latency: Histogram,
    /// How much later a simulated drive has answered than it should.
    pub lateness: Histogram,
    /// The longest that a write has waited in the plug, in nanoseconds.
    pub longest_wait: Option<u64>,
    pub read_only_zones: u64,
    pub offline_zones: u64,
}

/// Of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathCounts {
    pub busy_seconds: f64,
    pub done: u64,
}

impl Counts {
    /// Out of OpenMetrics text. What is unknown or makes no sense is passed by.
    pub fn read(text: &str) -> Self {
        let mut counts = Self::default();
        for line in text.lines() {
            if let Some(sample) = Sample::read(line) {
                counts.add(&sample);
            }
        }
        counts
    }

    fn add(&mut self, sample: &Sample<'_>) {
        let is = |name| sample.label(name);
        if let Some(export) = is("export") {
            self.exports.entry(export.to_owned()).or_default().add(sample);
        } else if let (Some(device), Some(path)) = (is("device"), is("path")) {
            self.paths.entry((device.to_owned(), path.to_owned())).or_default().add(sample);
        } else if let Some(device) = is("device") {
            self.disks.entry(device.to_owned()).or_default().add(sample);
        }
    }
}

impl Totals {
    fn add(&mut self, sample: &Sample<'_>) {
        let is_write = |op| ["write", "zone_append", "write_zeroes"].contains(&op);
        let at = match (sample.name, sample.label("op")) {
            ("export_operations_total", Some("read")) => &mut self.reads,
            ("export_operations_total", Some(op)) if is_write(op) => &mut self.writes,
            ("export_bytes_total", Some("read")) => &mut self.read_bytes,
            ("export_bytes_total", Some(op)) if is_write(op) => &mut self.write_bytes,
            ("export_errors_total", _) => &mut self.errors,
            ("export_latency_seconds_bucket", _) => return self.latency.add(sample),
            _ => return,
        };
        *at = at.saturating_add(sample.value as u64);
    }
}

impl DiskCounts {
    fn add(&mut self, sample: &Sample<'_>) {
        match (sample.name, sample.label("condition")) {
            ("disk_latency_seconds_bucket", _) => self.latency.add(sample),
            ("drive_lateness_seconds_bucket", _) => self.lateness.add(sample),
            ("plug_longest_wait_seconds", _) => self.longest_wait = Some(ns(sample.value)),
            ("zones", Some("readonly")) => self.read_only_zones = sample.value as u64,
            ("zones", Some("offline")) => self.offline_zones = sample.value as u64,
            _ => {}
        }
    }
}

impl PathCounts {
    fn add(&mut self, sample: &Sample<'_>) {
        match sample.name {
            "path_busy_seconds_total" => self.busy_seconds = sample.value,
            "path_done_total" => self.done = sample.value as u64,
            _ => {}
        }
    }
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A line of the text.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, Cow<'a, str>)>,
    value: f64,
}

/// What is read; all else would cost time for nothing.
const WANTED: [&str; 10] = [
    "export_operations_total",
    "export_bytes_total",
    "export_errors_total",
    "export_latency_seconds_bucket",
    "disk_latency_seconds_bucket",
    "drive_lateness_seconds_bucket",
    "plug_longest_wait_seconds",
    "path_busy_seconds_total",
    "path_done_total",
    "zones",
];

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (name, rest) = line.strip_prefix("shingle_")?.split_once('{')?;
        if !WANTED.contains(&name) {
            return None;
        }
        // A label may hold anything, a value no brace.
        let (mut rest, value) = rest.rsplit_once('}')?;
        let value = value.trim().parse::<f64>().ok().filter(|value| value.is_finite())?;
        let mut labels = Vec::new();
        while let Some((name, after)) = rest.split_once("=\"") {
            let (value, after) = quoted(after)?;
            labels.push((name.trim_start_matches(','), value));
            rest = after;
        }
        Some(Self { name, labels, value })
    }

    fn label(&self, wanted: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| *name == wanted).map(|(_, value)| &**value)
    }
}

/// What stands before a quotation mark, and what comes behind it.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if text[end..].starts_with('"') {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((place, char)) = chars.next() {
        match char {
            '"' => return Some((Cow::Owned(value), &text[place + 1..])),
            '\\' => value.push(chars.next().map(|(_, char)| if char == 'n' { '\n' } else { char })?),
            char => value.push(char),
        }
    }
    None
}
