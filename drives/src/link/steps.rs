//! Latency that changes by a schedule.

use alloc::boxed::Box;

use crate::error::{Fault, check};
use shingle_core::time::{Duration, Instant};

/// What comes on top of the latencies of a link, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// In order of time. Before the first nothing is added.
    pub steps: Box<[Step]>,
    /// Time after which they begin anew; `None`: the last one stays.
    pub period: Option<Duration>,
}

/// From a time on, until the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Time since the stack, or the period, began.
    pub at: Duration,
    /// What is added on the way there.
    pub there: Duration,
    /// What is added on the way back.
    pub back: Duration,
}

impl Steps {
    /// What is added on both ways to what leaves at `at`.
    pub(super) fn at(&self, at: Instant) -> [Duration; 2] {
        let since = self.period.map_or(at.0, |period| at.0 % period.0);
        let step = self.steps.iter().rev().find(|step| step.at.0 <= since);
        step.map_or([Duration::ZERO; 2], |step| [step.there, step.back])
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        let in_order = self.steps.windows(2).all(|pair| pair[0].at < pair[1].at);
        let last = self.steps.last().map_or(Duration::ZERO, |step| step.at);
        let fits = self.period.is_none_or(|period| period > last);
        let short = |step: &Step| step.there <= LONGEST && step.back <= LONGEST;
        check([
            (in_order, "steps", "are not in order of time: sort them"),
            (fits, "period", "ends before its last step: make it longer"),
            (self.steps.iter().all(short), "steps", "add more than an hour: use a shorter time"),
        ])
    }
}

const LONGEST: Duration = Duration::from_millis(3_600_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_counts_until_the_next_and_a_period_begins_anew() {
        let step = |at, there| Step { at: Duration(at), there: Duration(there), back: Duration(2 * there) };
        let once = Steps { steps: [step(10, 3), step(20, 0)].into(), period: None };
        let again = Steps { period: Some(Duration(30)), ..once.clone() };
        let there = |steps: &Steps, at| steps.at(Instant(at))[0].0;
        assert_eq!([0, 9, 10, 19, 20, 40, 100].map(|at| there(&once, at)), [0, 0, 3, 3, 0, 0, 0]);
        assert_eq!([0, 9, 10, 19, 20, 40, 100].map(|at| there(&again, at)), [0, 0, 3, 3, 0, 3, 3]);
        assert_eq!(once.at(Instant(15)), [Duration(3), Duration(6)]);
    }
}
