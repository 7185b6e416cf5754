//! A snapshot as text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::families::{FAMILIES, Kind};
use super::gather::{Sample, Snapshot, Value};

/// How metrics are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// OpenMetrics 1.0.
    #[default]
    OpenMetrics,
    /// The older text format of Prometheus, which the node exporter reads from files.
    Prometheus,
}

impl Format {
    /// What it is to HTTP.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl Snapshot {
    /// As text.
    #[must_use]
    pub fn text(self, format: Format) -> String {
        let mut registry = Registry::with_prefix("shingle");
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        // A string takes everything.
        let _ = match format {
            Format::OpenMetrics => text::encode(&mut out, &registry),
            Format::Prometheus => prometheus_text::encode(&mut out, &registry),
        };
        out
    }
}

impl Snapshot {
    /// As JSON: by family a list of samples, each its labels and its value. A histogram is the sum and pairs of a bound, `null` for the last,
    /// and a count that is not 0.
    #[must_use]
    pub fn json(&self) -> Json {
        let value = |value: &Value| match value {
            Value::Count(count) => json!(count),
            Value::Number(number) => json!(number),
            Value::Latency(latency) => {
                let some = latency.cells.iter().filter(|(_, count)| *count > 0);
                let cells: Vec<_> = some.map(|(bound, count)| json!([bound, count])).collect();
                json!([latency.sum, cells])
            }
        };
        let sample = |sample: &Sample| json!([sample.labels, value(&sample.value)]);
        let families = self.0.iter();
        families.map(|(name, samples)| ((*name).to_owned(), Json::from_iter(samples.iter().map(sample)))).collect()
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let there = FAMILIES.iter().filter_map(|family| Some((family, self.0.get(family.name)?)));
        for (family, samples) in there {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut of_family = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for sample in samples {
                let values = sample.labels.iter().map(String::as_str);
                let labels: Vec<(&str, &str)> = family.labels.iter().copied().zip(values).collect();
                encode(&sample.value, family.kind, of_family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn encode(value: &Value, kind: Kind, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    match value {
        Value::Number(number) if kind == Kind::Gauge => encoder.encode_gauge(number),
        Value::Number(number) => encoder.encode_counter::<NoLabelSet, _, f64>(number, None),
        Value::Count(count) => encoder.encode_counter::<NoLabelSet, _, f64>(count, None),
        Value::Latency(latency) => {
            encoder.encode_histogram::<NoLabelSet>(latency.sum, latency.count(), &latency.cells, None)
        }
    }
}
