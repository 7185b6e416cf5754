//! What many seeds did together, in a row of a table or as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use shingle_core::random::Rng;
use shingle_sim::swarm::{Failure, Profile, Report};

use crate::cli::output;

/// What the columns of [`Tally::row`] are called.
const HEADER: [&str; 11] =
    ["SEEDS", "FAILED", "REQUESTS", "POWER CUTS", "KILLS", "FAULTS", "SWAPS", "HOPS", "VIRTUAL", "REAL", "TRACE SUM"];

/// What all seeds did together.
#[derive(Default)]
pub(super) struct Tally {
    pub seeds: u64,
    pub ops: u64,
    pub cuts: u64,
    pub kills: u64,
    pub faults: u64,
    pub swaps: u64,
    /// The longest time that a device let nobody in because of one, in nanoseconds.
    pub longest_swap: u64,
    /// Conditions that occurred, and how often.
    pub noted: BTreeMap<&'static str, u64>,
    pub events: u64,
    pub virtual_ns: u64,
    /// The traces of all seeds in one number, whatever their order.
    pub sum: u64,
    /// A hash of the traces and failures of all seeds, in their order.
    pub digest: u64,
    pub failed: Vec<Failure>,
    pub trace: Option<String>,
    pub real: Duration,
}

impl Tally {
    pub fn add(&mut self, result: Result<Report, Box<Failure>>) {
        self.seeds += 1;
        let word = result.as_ref().map_or_else(|failure| failure.violation.rule as u64, |report| report.sum);
        self.digest = Rng::new(self.digest ^ word).draw();
        match result {
            Err(failure) => self.failed.push(*failure),
            Ok(Report { ops, cuts, kills, faults, virtual_time, swaps, longest_swap, noted, events, sum, trace }) => {
                self.swaps += swaps;
                self.longest_swap = self.longest_swap.max(longest_swap.as_nanos());
                noted.into_iter().for_each(|(what, times)| *self.noted.entry(what).or_default() += times);
                self.ops += ops;
                self.cuts += cuts;
                self.kills += kills;
                self.faults += faults;
                self.events += events;
                self.virtual_ns += virtual_time.as_nanos();
                self.sum ^= sum;
                self.trace = trace;
            }
        }
    }

    fn row(&self) -> Vec<String> {
        let seconds = |time: f64| format!("{time:.1} s");
        let losses = [self.cuts, self.kills, self.faults];
        let counts = [[self.seeds, self.failed.len() as u64, self.ops], losses].concat();
        let counts = counts.into_iter().chain([self.swaps, self.events]);
        let times = [seconds(self.virtual_ns as f64 / 1e9), seconds(self.real.as_secs_f64())];
        counts.map(|count| count.to_string()).chain(times).chain([format!("{:016x}", self.sum)]).collect()
    }

    pub fn text(&self) -> String {
        output::table(&HEADER, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [self.row()])
    }

    /// A table of several, a row each.
    pub fn texts<'a>(tallies: impl Iterator<Item = (Profile, &'a Tally)>) -> String {
        let header: Vec<&str> = ["PROFILE"].into_iter().chain(HEADER).collect();
        let row = |(profile, tally): (Profile, &Tally)| [vec![profile.name().to_owned()], tally.row()].concat();
        output::table(&header, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], tallies.map(row))
    }

    pub fn json(&self, profile: Profile) -> Value {
        let failure = |failure: &Failure| {
            json!({
                "seed": failure.seed,
                "rule": format!("{:?}", failure.violation.rule),
                "what": failure.violation.what,
                "at_ns": failure.violation.at.0,
                "life": failure.life,
                "ops": failure.ops,
                "world": failure.scenario,
                "replay": failure.replay(),
            })
        };
        json!({
            "profile": profile.name(),
            "seeds": self.seeds,
            "ops": self.ops,
            "power_cuts": self.cuts,
            "kills": self.kills,
            "faults": self.faults,
            "swaps": self.swaps,
            "longest_swap_ns": self.longest_swap,
            "noted": self.noted,
            "events": self.events,
            "virtual_ns": self.virtual_ns,
            "real_ns": self.real.as_nanos() as u64,
            "sum": format!("{:016x}", self.sum),
            "failures": self.failed.iter().map(failure).collect::<Vec<_>>(),
        })
    }
}
