//! Sets that were drawn: how far each policy is behind the oracle, and behind the best of the others.

use serde::{Deserialize, Serialize};

use super::ORACLE;
use super::outcome::us;
use super::scene::words;
use crate::multipath::{AFTERWARDS, Drawn, Outcome};
use crate::reproduce::outcome::short;

/// Drawn sets under drawn loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnOutcome {
    /// The contenders: the oracle first.
    pub policies: Vec<String>,
    /// The sets.
    pub sets: Vec<DrawnSet>,
}

/// A drawn set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnSet {
    /// Its number.
    pub number: u64,
    /// Its paths, of all hosts.
    pub paths: usize,
    /// The load in words.
    pub load: String,
    /// What came out, in the order of the policies.
    pub found: Vec<Found>,
}

/// A contender on a drawn set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Mean latency, in us.
    pub mean_us: f64,
    /// Standard deviation of it.
    pub deviation_us: f64,
    /// I/Os that failed or were not done long after the end.
    pub lost: u64,
}

/// How a policy stands over all drawn sets. Ratios are to the oracle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Its name.
    pub policy: String,
    /// Ratio of the means, on average.
    pub average: f64,
    /// In the middle.
    pub median: f64,
    /// What nine of ten do not exceed.
    pub p90: f64,
    /// At worst.
    pub worst: f64,
    /// The set in which it is.
    pub worst_set: u64,
    /// Ratio of the deviations, on average.
    pub deviation: f64,
    /// Sets in which its mean is more than 2 % above that of the best other policy.
    pub behind: usize,
    /// Its mean, times that of the best other policy, at worst.
    pub behind_at_worst: f64,
    /// The set in which it is.
    pub behind_set: u64,
    /// That policy.
    pub behind_whom: String,
    /// I/Os that failed or were not done, in all sets.
    pub lost: u64,
}

/// What a mean may be above the best other policy's and not count as behind.
pub const BEHIND: f64 = 1.02;

impl Found {
    /// What `outcome` says.
    pub fn new(outcome: &Outcome) -> Self {
        // What did nothing at all was not fast: it took longer than anybody waited.
        let did_nothing = outcome.latency.count() == 0;
        let mean_us = if did_nothing { us(AFTERWARDS.0 as f64 / 1e3) } else { us(outcome.mean()) };
        let deviation_us = us(outcome.deviation());
        Self { mean_us, deviation_us, lost: outcome.failed + outcome.lost }
    }
}

impl DrawnSet {
    /// What came out of the set of this `number`.
    pub fn new(number: u64, drawn: &Drawn, found: Vec<Found>) -> Self {
        Self { number, paths: drawn.set.paths.len(), load: words(&drawn.load), found }
    }

    /// The mean of the policy in this place, times the oracle's.
    pub fn ratio(&self, place: usize) -> f64 {
        ratio(self.found[place].mean_us, self.found[0].mean_us)
    }
}

fn ratio(ours: f64, other: f64) -> f64 {
    ours.max(0.1) / other.max(0.1)
}

impl DrawnOutcome {
    /// Whether each set has a figure for each policy, and there are any.
    pub fn is_whole(&self) -> bool {
        let is_whole = |set: &DrawnSet| set.found.len() == self.policies.len();
        self.policies.first().is_some_and(|first| first == ORACLE)
            && !self.sets.is_empty()
            && self.sets.iter().all(is_whole)
    }

    /// The place of a policy.
    pub fn place(&self, policy: &str) -> Option<usize> {
        self.policies.iter().position(|known| known == policy)
    }

    /// Ratios of the means of the policy in this place to the oracle's, the least first.
    pub fn ratios(&self, place: usize) -> Vec<f64> {
        let mut ratios: Vec<f64> = self.sets.iter().map(|set| set.ratio(place)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// How each policy stands, in their order.
    pub fn standings(&self) -> Vec<Standing> {
        (0..self.policies.len()).map(|place| self.standing(place)).collect()
    }

    fn standing(&self, place: usize) -> Standing {
        let (ratios, count) = (self.ratios(place), self.sets.len());
        let by_ratio = |a: &&DrawnSet, b: &&DrawnSet| a.ratio(place).total_cmp(&b.ratio(place));
        let behind = |set: &DrawnSet| self.behind(set, place);
        let of_all = |of: &dyn Fn(&DrawnSet) -> f64| short(self.sets.iter().map(of).sum::<f64>() / count.max(1) as f64);
        let most = self.sets.iter().map(|set| (behind(set), set.number)).max_by(|a, b| a.0.0.total_cmp(&b.0.0));
        let ((behind_at_worst, whom), behind_set) = most.unwrap_or(((1.0, 0), 0));
        Standing {
            policy: self.policies[place].clone(),
            average: of_all(&|set| set.ratio(place)),
            median: short(ratios[count / 2]),
            p90: short(ratios[count * 9 / 10]),
            worst: short(ratios[count - 1]),
            worst_set: self.sets.iter().max_by(by_ratio).map_or(0, |set| set.number),
            deviation: of_all(&|set| ratio(set.found[place].deviation_us, set.found[0].deviation_us)),
            behind: self.sets.iter().filter(|set| behind(set).0 > BEHIND).count(),
            behind_at_worst: short(behind_at_worst),
            behind_set,
            behind_whom: self.policies[whom].clone(),
            lost: self.sets.iter().map(|set| set.found[place].lost).sum(),
        }
    }

    /// The mean of the policy in this place, times that of the best other one, and which that is. The oracle is none.
    fn behind(&self, set: &DrawnSet, place: usize) -> (f64, usize) {
        let others = (1..self.policies.len()).filter(|other| *other != place);
        let best = others.min_by(|a, b| set.found[*a].mean_us.total_cmp(&set.found[*b].mean_us));
        best.map_or((1.0, place), |best| (ratio(set.found[place].mean_us, set.found[best].mean_us), best))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A set for each list of means; deviations are the same numbers.
    pub fn drawn(policies: &[&str], means: &[&[f64]]) -> DrawnOutcome {
        let found = |mean: &f64| Found { mean_us: *mean, deviation_us: *mean, lost: 1 };
        let set = |(number, means): (u64, &&[f64])| DrawnSet {
            number,
            paths: 2,
            load: String::new(),
            found: means.iter().map(found).collect(),
        };
        let sets = (1000..).zip(means).map(set).collect();
        DrawnOutcome { policies: policies.iter().map(|policy| (*policy).to_owned()).collect(), sets }
    }

    #[test]
    fn a_policy_is_held_against_the_oracle_and_against_the_best_of_the_others() {
        let all =
            drawn(&["oracle", "a", "b"], &[&[100.0, 100.0, 200.0], &[100.0, 103.0, 100.0], &[100.0, 150.0, 149.0]]);
        let standings = all.standings();
        let a = &standings[1];
        assert_eq!((a.average, a.median, a.worst, a.worst_set), (1.1767, 1.03, 1.5, 1002));
        assert_eq!((a.behind, a.behind_at_worst, a.behind_set, &*a.behind_whom), (1, 1.03, 1001, "b"));
        let b = &standings[2];
        assert_eq!((b.behind, b.behind_at_worst, b.behind_set, &*b.behind_whom, b.lost), (1, 2.0, 1000, "a", 3));
        assert_eq!(standings[0].average, 1.0);
        assert!(
            all.is_whole() && !drawn(&["oracle", "a"], &[&[1.0]]).is_whole() && !drawn(&["oracle"], &[]).is_whole()
        );
    }
}
