//! What came out: throughput and zones over time, beside the published phases.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::published::{self, Published, PublishedPhase};
use super::status::Zones;
use super::{Policy, Setup, goals, page, text};
use crate::reproduce::{Findings, Goal, ProfileFacts};

/// Everything that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seed of the load.
    pub seed: u64,
    /// Minutes of virtual time of each run.
    pub minutes: u32,
    /// What the drives are made from.
    pub profiles: Vec<ProfileFacts>,
    /// The runs.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The drives.
    pub setup: Setup,
    /// The policy of the target.
    pub policy: Policy,
    /// `time`, or `full` if the file system was before.
    pub ending: String,
    /// Length of a sample in seconds.
    pub interval_s: u32,
    /// Samples, from the start of the programs on.
    pub samples: Vec<Sample>,
}

/// An interval of a run. Rates are in millions of bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Files that programs closed.
    pub mb_per_s: f64,
    /// Data and metadata that the file system wrote to the volume.
    pub stored_mb_per_s: f64,
    /// What the drives were written.
    pub written_mb_per_s: f64,
    /// What the drives were read: the load reads nothing, so that is reclaim.
    pub read_mb_per_s: f64,
    /// The zones at its end.
    pub zones: Zones,
}

impl Run {
    /// Mean of `of` from one second to before another; `None` if that is not within the run.
    pub fn mean(&self, of: impl Fn(&Sample) -> f64, span_s: Range<u32>) -> Option<f64> {
        let (from, to) = (span_s.start / self.interval_s, span_s.end / self.interval_s);
        let span = self.samples.get(from as usize..to as usize).filter(|span| !span.is_empty())?;
        Some(span.iter().map(of).sum::<f64>() / span.len() as f64)
    }

    /// Length in seconds.
    pub fn seconds(&self) -> u32 {
        self.samples.len() as u32 * self.interval_s
    }

    /// The slowest stretch of so many seconds, and when it began.
    pub fn slowest(&self, seconds: u32) -> Option<(f64, u32)> {
        let starts = (0..=self.seconds().checked_sub(seconds)?).step_by(self.interval_s as usize);
        let speed = |from: u32| Some((self.mean(|sample| sample.mb_per_s, from..from + seconds)?, from));
        starts.filter_map(speed).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Bytes that the drives were written for each byte of the file system's.
    pub fn write_amplification(&self) -> f64 {
        self.write_amplification_so_far().last().copied().unwrap_or(0.0)
    }

    /// The same from the start to the end of each sample.
    pub fn write_amplification_so_far(&self) -> Vec<f64> {
        let (mut written, mut stored) = (0.0, 0.0);
        let so_far = |sample: &Sample| {
            written += sample.written_mb_per_s;
            stored += sample.stored_mb_per_s;
            written / f64::max(stored, 0.1)
        };
        self.samples.iter().map(so_far).collect()
    }

    /// The speed in a published phase: in its time or, where that was not published, over the minutes whose speed was within
    /// [`TOLERANCE`] of it. With how many seconds that is.
    pub fn in_phase(&self, phase: &PublishedPhase) -> Option<(f64, u32)> {
        let speed = |span: Range<u32>| self.mean(|sample| sample.mb_per_s, span);
        if let (Some(from), Some(to)) = (phase.from_s, phase.to_s) {
            let to = to.min(self.seconds());
            return (to > from).then(|| speed(from..to).map(|found| (found, to - from)))?;
        }
        let minutes = (0..self.seconds() / 60).filter_map(|minute| speed(minute * 60..minute * 60 + 60));
        let like: Vec<f64> = minutes.filter(|speed| phase.off(*speed).abs() <= TOLERANCE).collect();
        (!like.is_empty()).then(|| (like.iter().sum::<f64>() / like.len() as f64, like.len() as u32 * 60))
    }
}

/// How near the policies of kernels have to come to a published phase.
pub const TOLERANCE: f64 = 0.15;

impl Report {
    /// The run of a setup under a policy.
    pub fn run(&self, setup: Setup, policy: Policy) -> Option<&Run> {
        self.runs.iter().find(|run| run.setup == setup && run.policy == policy)
    }

    /// It in each form in which it is shown.
    pub fn findings(&self) -> Findings {
        let published = published::read();
        let goals = goals::goals(self, &published.phases);
        let (json, text) = (self.to_json(&published, &goals), text::parts(self, &published, &goals));
        Findings { json, text, sheet: page::sheet(self, &published, goals) }
    }

    /// The report with the phases and the goals written out.
    fn to_json(&self, published: &Published, goals: &[Goal]) -> Value {
        // A report is numbers, strings and lists: there is nothing in it that JSON has no word for.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        let found = |phase: &PublishedPhase, policy| {
            let (mb_per_s, seconds) = self.run(phase.setup, policy)?.in_phase(phase)?;
            let short = |value: f64| (value * 1e3).round() / 1e3;
            // Minutes that were chosen for their speed are not off by anything.
            let off = phase.is_timed().then(|| short(phase.off(mb_per_s)));
            Some(json!({ "mb_per_s": short(mb_per_s), "seconds": seconds, "chosen": !phase.is_timed(), "off": off }))
        };
        let phase = |phase: &PublishedPhase| {
            json!({
                "setup": phase.setup.name(), "phase": phase.number, "published": [phase.low, phase.high],
                "computed": phase.computed,
                "kernel-2020": found(phase, Policy::Kernel2020), "kernel": found(phase, Policy::Kernel),
                "shingle": found(phase, Policy::Shingle),
            })
        };
        (value["phases"], value["goals"]) = (published.phases.iter().map(phase).collect(), json!(goals));
        value
    }
}

/// Reads the JSON of a report. What follows from the samples is computed anew.
///
/// # Errors
/// If it is no such report.
pub fn from_json(text: &str) -> Result<Report, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("this is no report of `shingle reproduce dmzoned --json`: {error}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A run with a sample of ten seconds for each speed.
    pub fn run(policy: Policy, speeds: impl IntoIterator<Item = f64>) -> Run {
        let sample = |mb_per_s| Sample {
            mb_per_s,
            stored_mb_per_s: mb_per_s,
            written_mb_per_s: 2.0 * mb_per_s,
            ..Sample::default()
        };
        let samples = speeds.into_iter().map(sample).collect();
        Run { setup: Setup::Single, policy, ending: "time".into(), interval_s: 10, samples }
    }

    #[test]
    fn a_phase_with_times_is_found_in_its_time_and_another_by_its_speed() {
        let speeds = (0..720).map(|n| [110.0, 65.0, 25.0][usize::from(n >= 40) + usize::from(n >= 80)]);
        let run = run(Policy::Kernel, speeds);
        let phases = published::read().phases;
        let found: Vec<_> = phases.iter().map(|phase| run.in_phase(phase)).collect();
        assert_eq!(found[..3], [Some((110.0, 400)), Some((65.0, 400)), Some((25.0, 6400))]);
        assert_eq!(found[3], None, "nothing was at 425 MB/s");
        let (speed, seconds) = found[4].unwrap();
        assert_eq!((speed.round(), seconds), (108.0, 420), "six minutes at 110 and one at 95 are within 15 % of 100");
    }

    #[test]
    fn the_slowest_stretch_is_found_wherever_it_begins() {
        let run = run(Policy::Shingle, (0..100).map(|n| if (31..37).contains(&n) { 10.0 } else { 100.0 }));
        assert_eq!(run.slowest(60), Some((10.0, 310)));
        assert_eq!(run.slowest(2_000), None);
        assert_eq!(run.write_amplification(), 2.0);
    }

    #[test]
    fn a_report_reads_the_same_after_it_was_written() {
        let runs = vec![run(Policy::Kernel, [110.0; 60])];
        let report = Report { seed: 1, minutes: 10, profiles: Vec::new(), runs };
        let json = report.findings().json;
        assert_eq!(from_json(&json.to_string()).unwrap(), report);
        assert_eq!(json["phases"][0]["kernel"]["mb_per_s"], 110.0);
        assert!(from_json("{}").unwrap_err().contains("dmzoned"));
    }
}
