//! What came out of a trial.

use serde::Serialize;
use shingle_host::latency::Histogram;

/// The paths at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// I/Os that each has got since the sample before.
    pub sent: Vec<u64>,
    /// I/Os under way on each.
    pub in_flight: Vec<u32>,
}

/// A path over the whole time that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PathOutcome {
    /// What it is called.
    pub name: String,
    /// I/Os that it has got.
    pub sent: u64,
    /// Mean of the I/Os under way on it.
    pub in_flight: f64,
    /// Their standard deviation.
    pub in_flight_deviation: f64,
}

/// What came out of a trial.
#[derive(Clone)]
pub struct Outcome {
    /// Times from when an I/O was asked for until it was done, failovers included, in ns.
    pub latency: Histogram,
    /// I/Os that failed.
    pub failed: u64,
    /// I/Os that were not done long after the end.
    pub lost: u64,
    /// Reads of heads that looked whether a path works again.
    pub probes: u64,
    /// The paths.
    pub paths: Vec<PathOutcome>,
    /// The paths as time went by, at equal distances.
    pub samples: Vec<Sample>,
}

impl Outcome {
    /// Mean latency, in us.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.latency.summary(&[]).mean / 1e3
    }

    /// Standard deviation of it, in us.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.latency.summary(&[]).stddev / 1e3
    }

    /// The latency that so many percent of the I/Os do not exceed, in us.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        self.latency.summary(&[percent]).percentiles[0].1 as f64 / 1e3
    }
}

/// Mean and standard deviation.
pub(super) fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / n;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}
