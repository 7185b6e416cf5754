//! Paths as readers tell them apart: those in the same place of several hosts are one.

use serde::{Deserialize, Serialize};
use shingle_host::profile::PathSet;

use crate::multipath::Outcome;

/// A path, or the paths in one place of all hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// What it is called.
    pub name: String,
    /// I/Os that it has got.
    pub sent: u64,
    /// Mean of the I/Os under way on it.
    pub in_flight: f64,
    /// Their standard deviation.
    pub in_flight_deviation: f64,
    /// I/Os that it has got in each part of the time.
    pub over_time: Vec<u64>,
}

/// The lanes of a set, by the place that a path has at its host.
pub fn lanes(set: &PathSet, outcome: &Outcome) -> Vec<Lane> {
    let hosts = set.hosts();
    let of_host =
        |host: &str| -> Vec<usize> { (0..set.paths.len()).filter(|place| set.paths[*place].host == host).collect() };
    let by_host: Vec<Vec<usize>> = hosts.iter().map(|host| of_host(host)).collect();
    let count = by_host.iter().map(Vec::len).max().unwrap_or(0);
    let members = |lane: usize| by_host.iter().filter_map(|places| places.get(lane).copied()).collect();
    (0..count).map(members).map(|places: Vec<usize>| lane(set, outcome, &places)).collect()
}

fn lane(set: &PathSet, outcome: &Outcome, places: &[usize]) -> Lane {
    let paths = || places.iter().map(|place| &outcome.paths[*place]);
    let names: Vec<&str> = places.iter().map(|place| &*set.paths[*place].name).collect();
    let sample = |sample: &crate::multipath::Sample| places.iter().map(|place| sample.sent[*place]).sum();
    // Hosts do not see each other: their deviations add as those of independent numbers do.
    let variance = paths().map(|path| path.in_flight_deviation.powi(2)).sum::<f64>();
    Lane {
        name: common(&names),
        sent: paths().map(|path| path.sent).sum(),
        in_flight: short(paths().map(|path| path.in_flight).sum()),
        in_flight_deviation: short(variance.sqrt()),
        over_time: outcome.samples.iter().map(sample).collect(),
    }
}

fn short(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// What several names have in common behind their last `-`, or the first of them.
fn common(names: &[&str]) -> String {
    let end = |name: &str| name.rsplit('-').next().unwrap_or_default().to_owned();
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, others @ ..] if others.iter().all(|name| end(name) == end(first)) => end(first),
        [first, ..] => (*first).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multipath::{Contender, Load, Trial};
    use shingle_core::multipath::PolicyKind;
    use shingle_core::time::Duration;

    #[test]
    fn paths_in_the_same_place_of_several_hosts_are_one_lane() {
        let set = PathSet::find("paths-hosts").unwrap();
        let millis = Duration::from_millis;
        let load = Load { ramp: millis(1), length: millis(10), ..Load::closed(4, 100, 4096) };
        let trial = Trial { set: &set, load: &load, seed: 1, samples: 5 };
        let outcome = trial.run(Contender::Policy(PolicyKind::RoundRobin)).unwrap();
        let lanes = lanes(&set, &outcome);
        assert_eq!(lanes.iter().map(|lane| &*lane.name).collect::<Vec<_>>(), ["left", "right"]);
        let all: u64 = outcome.paths.iter().map(|path| path.sent).sum();
        assert_eq!(lanes.iter().map(|lane| lane.sent).sum::<u64>(), all);
        for lane in &lanes {
            assert_eq!((lane.over_time.len(), lane.over_time.iter().sum::<u64>()), (5, lane.sent));
        }
        let under_way: f64 = lanes.iter().map(|lane| lane.in_flight).sum();
        assert!((under_way - 16.0).abs() < 0.5, "four jobs of four hosts: {under_way}");
    }

    #[test]
    fn a_lane_is_called_what_its_paths_have_in_common() {
        let all = [vec!["fast"], vec!["h1-left", "h2-left"], vec!["a", "b"], vec![]];
        assert_eq!(all.map(|names| common(&names)), ["fast", "left", "a", ""]);
    }
}
