//! How long bios take, and how late answers are: counted.

use shingle_core::time::Duration;

/// Bounds between which times are counted.
const BOUNDS: usize = 26;
/// The first bound is 2 to the power of this, in nanoseconds: 1.024 us. Each is twice the one before; the last is 34 s.
const FIRST_BOUND: u32 = 10;

/// How long something took each time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// By the first bound that they do not exceed; what exceeds all of them is the last.
    cells: [u64; BOUNDS + 1],
    sum: Duration,
    max: Duration,
}

impl Times {
    /// Counts one.
    pub(super) fn record(&mut self, time: Duration) {
        // The power of two that is no less.
        let power = u64::BITS - time.0.saturating_sub(1).leading_zeros();
        self.cells[(power.saturating_sub(FIRST_BOUND) as usize).min(BOUNDS)] += 1;
        self.sum = Duration(self.sum.0.saturating_add(time.0));
        self.max = self.max.max(time);
    }

    /// How many so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// The sum of all.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The mean, if there was one.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.sum.0.checked_div(self.count()).map(Duration)
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Upper bounds, and how many were longer than the bound before and no longer than this one. The last has no bound.
    pub fn cells(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let bound = |cell| (cell < BOUNDS).then_some(Duration(1 << (FIRST_BOUND + cell as u32)));
        self.cells.iter().enumerate().map(move |(cell, count)| (bound(cell), *count))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_time_is_counted_below_the_first_bound_that_it_does_not_exceed() {
        let mut times = Times::default();
        [0, 1024, 1025, 1 << 35, (1 << 35) + 1].into_iter().for_each(|ns| times.record(Duration(ns)));
        let filled: Vec<_> = times.cells().filter(|(_, count)| *count > 0).collect();
        let bound = |ns| Some(Duration(ns));
        assert_eq!(filled, [(bound(1024), 2), (bound(2048), 1), (bound(1 << 35), 1), (None, 1)]);
        assert_eq!((times.count(), times.max()), (5, Duration((1 << 35) + 1)));
        assert_eq!(times.mean(), Some(Duration(times.sum().0 / 5)));
    }
}
