//! A recording of one device in figures.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};
use shingle_core::block::Op;

use super::device::RecordedDevice;
use super::work::Asked;
use crate::latency::{Histogram, Summary as Latency};

/// The percentiles that are shown of a recording and of its replays.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// How many streams are looked for at a time.
const STREAMS: usize = 64;

/// What was asked of a device.
pub struct Summary {
    /// By operation.
    pub ops: BTreeMap<Op, OpSummary>,
    /// Zones that were read, written (with data) and managed; empty for a regular device.
    pub zones: [BTreeSet<u32>; 3],
    /// Most bios in the device at once.
    pub most_in_flight: u32,
    /// Bios in the device at once, on average over time.
    pub mean_in_flight: f64,
    /// From the first bio to the last event of one, in ns.
    pub span: u64,
}

/// What was asked with one operation.
#[derive(Default)]
pub struct OpSummary {
    /// How often.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How many went on where another one of the last ones ended.
    pub sequential: u64,
    /// How many failed.
    pub errors: u64,
    /// How many the recording has no end of.
    pub unfinished: u64,
    latency: Histogram,
}

impl OpSummary {
    /// Times from in to out.
    #[must_use]
    pub fn latency(&self) -> Latency {
        self.latency.summary(&PERCENTILES)
    }
}

impl Summary {
    /// The figures of `work` on `device`.
    #[must_use]
    pub fn new(device: &RecordedDevice, work: &[Asked]) -> Self {
        let mut summary = Self {
            ops: BTreeMap::new(),
            zones: [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()],
            most_in_flight: 0,
            mean_in_flight: 0.0,
            span: 0,
        };
        let mut streams: BTreeMap<Op, VecDeque<u64>> = BTreeMap::new();
        for asked in work {
            let op = summary.ops.entry(asked.op).or_default();
            op.add(asked);
            if asked.op.has_data() {
                op.sequential += u64::from(continues(streams.entry(asked.op).or_default(), asked));
            }
            summary.touch(device, asked);
        }
        summary.flights(work);
        summary
    }

    fn touch(&mut self, device: &RecordedDevice, asked: &Asked) {
        let kind = match asked.op {
            Op::Read => 0,
            op if op.writes_data() => 1,
            op if op.is_zone_management() && op != Op::ZoneResetAll => 2,
            _ => return,
        };
        self.zones[kind].extend(device.zone_of(asked.sector.0));
    }

    fn flights(&mut self, work: &[Asked]) {
        let Some(first) = work.first().map(|asked| asked.at) else { return };
        let ends = work.iter().map(|asked| asked.done.map_or(asked.at, |(end, _)| end));
        self.span = ends.max().unwrap_or(first).since(first).as_nanos();
        self.most_in_flight = work.iter().map(|asked| asked.in_flight).max().unwrap_or(0);
        // Little's law: what each one stays, over all the time there is.
        let stayed = work.iter().filter_map(|asked| Some(asked.done?.0.since(asked.at).as_nanos()));
        let stayed: u128 = stayed.map(u128::from).sum();
        self.mean_in_flight = if self.span > 0 { stayed as f64 / self.span as f64 } else { 0.0 };
    }

    /// Bios of all operations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ops.values().map(|op| op.count).sum()
    }

    /// The figures as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let ops: Map<String, Value> =
            self.ops.iter().map(|(op, s)| (op.name().to_ascii_lowercase(), s.to_json())).collect();
        let [read, written, managed] = &self.zones;
        json!({
            "ops": ops,
            "zones": {"read": read.len(), "written": written.len(), "managed": managed.len()},
            "in_flight": {"most": self.most_in_flight, "mean": self.mean_in_flight},
            "span_ns": self.span,
        })
    }
}

impl OpSummary {
    fn add(&mut self, asked: &Asked) {
        self.count += 1;
        self.bytes += u64::from(asked.sectors) * 512;
        match asked.done {
            Some((end, status)) => {
                self.errors += u64::from(!status.is_ok());
                self.latency.record(end.since(asked.at).as_nanos());
            }
            None => self.unfinished += 1,
        }
    }

    fn to_json(&self) -> Value {
        let latency = self.latency();
        let percentiles: Map<String, Value> =
            latency.percentiles.iter().map(|(p, ns)| (p.to_string(), json!(ns))).collect();
        json!({
            "count": self.count,
            "bytes": self.bytes,
            "sequential": self.sequential,
            "errors": self.errors,
            "unfinished": self.unfinished,
            "latency_ns": {"min": latency.min, "mean": latency.mean, "max": latency.max, "percentile": percentiles},
        })
    }
}

/// Whether it begins where one of the last ones ended; then it is that stream's end now.
fn continues(ends: &mut VecDeque<u64>, asked: &Asked) -> bool {
    let end = asked.sector.0.saturating_add(asked.sectors.into());
    let stream = ends.iter().rposition(|end| *end == asked.sector.0).and_then(|place| ends.remove(place));
    if ends.len() == STREAMS {
        ends.pop_front();
    }
    ends.push_back(end);
    stream.is_some()
}
