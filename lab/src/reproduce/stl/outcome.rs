//! What came out: rates over time, times of writes, and what each row has of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::measure::Found;
use super::plan::{Experiment, Row, System};
use super::{goals, page, text};
use crate::reproduce::{Findings, Goal, ProfileFacts};

/// Everything that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seed of the loads.
    pub seed: u64,
    /// Whether runs were cut short: then it shows that everything runs, no more.
    pub is_cut: bool,
    /// Whether a drive is a user's own: then goals are shares of what it does itself.
    pub has_own: bool,
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
    /// Why there is no such run.
    pub refused: Option<String>,
    /// Why it came to no end.
    pub failure: Option<String>,
    /// Length of a sample in seconds.
    pub interval_s: u32,
    /// Samples.
    pub samples: Vec<Sample>,
    /// The time that 99.99 % of the writes do not exceed.
    pub p9999_ns: u64,
    /// The time of the slowest write.
    pub slowest_ns: u64,
    /// Millions of bytes that users wrote and read in the slowest second.
    pub slowest_second_mb: f64,
    /// What the target counted, in the time of the samples.
    pub counters: BTreeMap<String, u64>,
    /// What the row has of its own.
    pub figures: BTreeMap<String, f64>,
    /// What it cost.
    #[serde(skip)]
    pub cpu: Cpu,
}

/// An interval of a run. Rates are in millions of bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What users got.
    pub mb_per_s: f64,
    /// Their I/Os a second.
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
    /// One of which nothing is known yet.
    pub fn empty(Experiment { row, system }: Experiment) -> Self {
        Self {
            row,
            system,
            refused: None,
            failure: None,
            interval_s: row.interval_s(),
            samples: Vec::new(),
            p9999_ns: 0,
            slowest_ns: 0,
            slowest_second_mb: 0.0,
            counters: BTreeMap::new(),
            figures: BTreeMap::new(),
            cpu: Cpu::default(),
        }
    }

    /// One that there cannot be.
    pub fn refused(experiment: Experiment, why: String) -> Self {
        Self { refused: Some(why), ..Self::empty(experiment) }
    }

    /// One that came to no end.
    pub fn failed(experiment: Experiment, why: String) -> Self {
        Self { failure: Some(why), ..Self::empty(experiment) }
    }

    /// Why there are no figures, if there are none.
    pub fn excuse(&self) -> Option<String> {
        let refused = self.refused.as_ref().map(|why| format!("not possible: {why}"));
        refused.or_else(|| self.failure.as_ref().map(|why| format!("FAILED: {why}")))
    }

    /// What was found.
    pub fn new(experiment: Experiment, found: Found, cpu: Cpu) -> Self {
        let Found { phase, figures } = found;
        let slowest = phase.seconds.iter().map(|second| second.written + second.read).min().unwrap_or(0);
        Self {
            p9999_ns: phase.writes_ns.0,
            slowest_ns: phase.writes_ns.1,
            slowest_second_mb: (slowest as f64 / 1e4).round() / 100.0,
            counters: phase.counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            samples: phase.samples,
            cpu,
            ..Self::with(experiment, figures)
        }
    }

    /// One with these figures alone, so far as they mean something.
    pub fn with(experiment: Experiment, figures: BTreeMap<String, f64>) -> Self {
        let figures = figures.into_iter().map(|(name, value)| (name, (value * 1e3).round() / 1e3)).collect();
        Self { figures, ..Self::empty(experiment) }
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> u32 {
        self.samples.len() as u32 * self.interval_s
    }

    /// Mean of `of`.
    pub fn mean(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.samples.iter().map(of).sum::<f64>() / self.samples.len().max(1) as f64
    }

    /// The mean rate of users in MB/s.
    pub fn mb_per_s(&self) -> f64 {
        self.mean(|sample| sample.mb_per_s)
    }

    /// One of its own figures.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    /// The least mean rate of so many seconds, and when that began; `None` if it was not that long.
    pub fn slowest(&self, seconds: u32) -> Option<(f64, u32)> {
        let width = (seconds / self.interval_s).max(1) as usize;
        let means = self.samples.windows(width);
        let means = means.map(|span| span.iter().map(|sample| sample.mb_per_s).sum::<f64>() / width as f64);
        means.zip((0..).step_by(self.interval_s as usize)).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl Report {
    /// The run of a row on a system, if there is one.
    pub fn run(&self, row: Row, system: System) -> Option<&Run> {
        self.runs.iter().find(|run| run.row == row && run.system == system && run.excuse().is_none())
    }

    /// It in each form in which it is shown.
    pub fn findings(&self) -> Findings {
        let goals = goals::goals(self);
        Findings { json: self.json(&goals), text: text::parts(self, &goals), sheet: page::sheet(self, goals) }
    }

    /// As JSON. What follows from the samples stands beside them, so that a reader need not compute it.
    fn json(&self, goals: &[Goal]) -> Value {
        let mut value = json!(self);
        value["goals"] = json!(goals);
        value
    }
}

/// Reads the JSON of a report. What follows from the samples is computed anew.
///
/// # Errors
/// If it is no such report.
pub fn from_json(text: &str) -> Result<Report, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no report of `shingle reproduce stl --json`: {error}"))
}
