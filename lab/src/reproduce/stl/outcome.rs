//! What came out.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Row, System, text};
use crate::reproduce::page::Sheet;
use crate::reproduce::{Findings, ProfileFacts};

/// Everything that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seed of the loads.
    pub seed: u64,
    /// What the drives are made from.
    pub profiles: Vec<ProfileFacts>,
    /// The runs.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The load.
    pub row: Row,
    /// What was under it.
    pub system: System,
    /// Length of a sample in seconds.
    pub interval_s: u32,
    /// Samples.
    pub samples: Vec<Sample>,
    /// The time that 99.99 % of the writes do not exceed.
    pub p9999_ns: u64,
    /// The time of the slowest write.
    pub slowest_ns: u64,
    /// What was written in the slowest second.
    pub slowest_second_mb: f64,
    /// What the target counted.
    pub counters: Vec<(String, u64)>,
    /// What it cost.
    #[serde(skip)]
    pub cpu: Cpu,
}

/// An interval of a run. Rates are in millions of bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What users got.
    pub mb_per_s: f64,
    /// Their writes a second.
    pub ios_per_s: f64,
    /// What the drives were written.
    pub written_mb_per_s: f64,
    /// What the drives were read.
    pub read_mb_per_s: f64,
}

/// Seconds of a processor of this machine: never the same twice, and so no part of what is compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu(pub f64);

impl PartialEq for Cpu {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Cpu {
    /// What this thread has had so far.
    pub fn of_this_thread() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let ns = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
        Self(ns.unwrap_or(0.0) / 1e9)
    }

    /// What it has had since.
    pub fn until_now(self) -> Self {
        Self(Self::of_this_thread().0 - self.0)
    }
}

impl Run {
    /// Mean of `of`.
    pub fn mean(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.samples.iter().map(of).sum::<f64>() / self.samples.len().max(1) as f64
    }

    /// The least mean of so many seconds, and when that began.
    pub fn slowest(&self, seconds: u32, of: impl Fn(&Sample) -> f64) -> Option<(f64, u32)> {
        let width = (seconds / self.interval_s).max(1) as usize;
        let means = self.samples.windows(width).map(|span| span.iter().map(&of).sum::<f64>() / width as f64);
        means.zip((0..).step_by(self.interval_s as usize)).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl Report {
    /// It in each form in which it is shown.
    pub fn findings(&self) -> Findings {
        let sheet = Sheet {
            name: "stl",
            title: "stl",
            lead: "",
            link: None,
            warning: None,
            summary: String::new(),
            goals: Vec::new(),
            key: "",
            sections: String::new(),
            foot: String::new(),
        };
        Findings { json: self.json(), text: text::parts(self), sheet }
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

/// Reads the JSON of a report.
///
/// # Errors
/// If it is no such report.
pub fn from_json(text: &str) -> Result<Report, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no report of `shingle reproduce stl --json`: {error}"))
}
