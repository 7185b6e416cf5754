//! What is measured on a shared machine: rates of runs that take turns in rounds.
//!
//! What counts is how systems compare, and such a machine is faster in one second than in the next. So everything that is
//! compared runs within every round, and the comparison is the median over the rounds of the ratio within a round.

use super::outcome::Ours;

/// What was measured in one round: the rates on one core and on all, and the longest wait on one.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub rate: f64,
    pub all_cores: f64,
    pub longest_ns: u64,
}

/// What `samples` amount to, beside those of the `first` in the same rounds.
pub fn summarize(samples: &[Sample], first: &[Sample]) -> Ours {
    let each = |pick: fn(&Sample) -> f64| sorted(samples.iter().map(pick));
    let ratios = |pick: fn(&Sample) -> f64| sorted(samples.iter().zip(first).map(|(a, b)| pick(a) / pick(b)));
    let (on_one, on_all) = (ratios(|sample| sample.rate), ratios(|sample| sample.all_cores));
    Ours {
        value: median(&each(|sample| sample.rate)),
        longest_wait_ns: samples.iter().map(|sample| sample.longest_ns).max().unwrap_or(0),
        to_baseline: Some(median(&on_one)),
        spread: spread(&on_one),
        all_cores: Some(median(&each(|sample| sample.all_cores))),
        all_cores_to_baseline: Some(median(&on_all)),
        all_cores_spread: spread(&on_all),
        virtual_ns: None,
    }
    .rounded()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of values in order; of an even number, the mean of the two.
fn median(values: &[f64]) -> f64 {
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// Half of the range in which the median lies with 95 % confidence, as a share of it. The ranks at its ends are about `sqrt(n)`
/// from the middle, whatever the values are distributed like; `None` for so few values that there are no such ranks.
fn spread(values: &[f64]) -> Option<f64> {
    let (n, away) = (values.len() as f64, 0.98 * (values.len() as f64).sqrt());
    let rank = |rank: f64| values.get(rank as usize);
    let (low, high) = ((n / 2.0 - away).floor(), (n / 2.0 + away).ceil());
    let range = if low < 0.0 { None } else { rank(low).zip(rank(high)) };
    range.map(|(low, high)| (high - low) / 2.0 / median(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median(&[1.0, 5.0, 9.0]), 5.0);
        assert_eq!(median(&[1.0, 5.0, 6.0, 9.0]), 5.5);
    }

    #[test]
    fn the_comparison_is_taken_within_each_round() {
        let sample = |rate| Sample { rate, all_cores: rate * 2.0, longest_ns: rate as u64 };
        // The machine is ten times slower in the second round; the policy stays twice as fast as the first.
        let first = [sample(100.0), sample(10.0), sample(100.0)];
        let second = [sample(200.0), sample(20.0), sample(200.0)];
        let ours = summarize(&second, &first);
        assert_eq!((ours.value, ours.to_baseline, ours.all_cores), (200.0, Some(2.0), Some(400.0)));
        assert_eq!(ours.longest_wait_ns, 200);
    }

    #[test]
    fn the_spread_is_that_of_the_median_and_shrinks_with_the_number_of_rounds() {
        let even = |n: u32| (0..n).map(|place| 0.9 + 0.2 * f64::from(place) / f64::from(n - 1)).collect::<Vec<_>>();
        assert_eq!(spread(&even(3)), None, "three values say nothing about 95 %");
        let spreads = [16, 100, 10_000].map(|n| spread(&even(n)).unwrap());
        assert!(spreads.is_sorted_by(|a, b| a > b), "{spreads:?}");
        // 98 of 10,000 ranks to either side, of values that cover 0.2.
        assert!((spreads[2] - 0.001_96).abs() < 0.000_05, "{spreads:?}");
        assert_eq!(spread(&[1.0; 50]), Some(0.0));
    }
}
