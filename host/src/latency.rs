//! Latencies, counted: a log-linear array of 64 cells per power of two, so a percentile is right to 1.6 %.
//!
//! A run of equal values, which is what one turn of the loop produces, costs one comparison and one addition each.

const CELL_BITS: u32 = 6;
const CELLS: usize = (64 - CELL_BITS as usize + 1) << CELL_BITS;

/// How often each latency occurred, in ns.
#[derive(Clone)]
pub struct Histogram {
    cells: Box<[u64; CELLS]>,
    count: u64,
    sum: u128,
    sum_of_squares: f64,
    min: u64,
    max: u64,
    run_value: u64,
    run_length: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        let cells = Box::new([0; CELLS]);
        let (count, sum, sum_of_squares, min, max) = (0, 0, 0.0, u64::MAX, 0);
        Self { cells, count, sum, sum_of_squares, min, max, run_value: 0, run_length: 0 }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        if ns != self.run_value {
            self.settle();
            self.run_value = ns;
        }
        self.run_length += 1;
    }

    /// Puts the values of the current run into their cell; every reader needs it done before.
    pub fn settle(&mut self) {
        let (ns, times) = (self.run_value, std::mem::take(&mut self.run_length));
        if times == 0 {
            return;
        }
        self.cells[cell_of(ns)] += times;
        self.count += times;
        self.sum += u128::from(ns) * u128::from(times);
        self.sum_of_squares += (ns as f64).powi(2) * times as f64;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count + self.run_length
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        let mut other = other.clone();
        other.settle();
        self.settle();
        self.cells.iter_mut().zip(other.cells.iter()).for_each(|(to, from)| *to += from);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The figures, and the values below which each of `percents` of all values lie.
    #[must_use]
    pub fn summary(&self, percents: &[f64]) -> Summary {
        let mut whole = self.clone();
        whole.settle();
        if whole.count == 0 {
            return Summary { percentiles: percents.iter().map(|p| (*p, 0)).collect(), ..Summary::default() };
        }
        let n = whole.count as f64;
        let mean = whole.sum as f64 / n;
        let variance = (whole.sum_of_squares / n - mean * mean).max(0.0);
        let percentiles = percents.iter().map(|p| (*p, whole.percentile(*p))).collect();
        Summary { count: whole.count, min: whole.min, max: whole.max, mean, stddev: variance.sqrt(), percentiles }
    }

    fn percentile(&self, percent: f64) -> u64 {
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let cell = self.cells.iter().position(|n| {
            seen += n;
            seen >= rank
        });
        cell.map_or(self.max, middle_of).clamp(self.min, self.max)
    }
}

/// What a histogram amounts to; times in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub stddev: f64,
    /// Percent and value, as asked.
    pub percentiles: Vec<(f64, u64)>,
}

#[inline]
fn cell_of(ns: u64) -> usize {
    let shift = (64 - CELL_BITS).saturating_sub(ns.leading_zeros()).saturating_sub(1);
    ((shift as usize) << CELL_BITS) + (ns >> shift) as usize
}

/// The value that stands for all of a cell's.
fn middle_of(cell: usize) -> u64 {
    let shift = (cell >> CELL_BITS).saturating_sub(1);
    let low = ((cell - (shift << CELL_BITS)) as u64) << shift;
    low + ((1u64 << shift) >> 1)
}

/// Three digits or so and a decimal letter: `21.3M`.
#[must_use]
pub fn short(number: f64) -> String {
    let (scaled, letter) = match number {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let digits = if scaled >= 100.0 || letter.is_empty() { 0 } else { 1 };
    format!("{scaled:.digits$}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_stands_for_its_values_within_one_part_in_64() {
        for ns in (0..2000).chain((11..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 12345])) {
            let cell = cell_of(ns);
            assert!(cell < CELLS, "{ns} is in cell {cell}");
            assert!(middle_of(cell).abs_diff(ns) <= ns / 64, "{ns} reads as {}", middle_of(cell));
        }
        assert!(cell_of(u64::MAX) < CELLS);
    }

    #[test]
    fn cells_are_in_the_order_of_their_values() {
        let cells: Vec<usize> = (0..100_000).map(cell_of).collect();
        assert!(cells.is_sorted());
        assert_eq!(cells.last().copied().unwrap() + 1, cells.iter().collect::<std::collections::BTreeSet<_>>().len());
    }

    #[test]
    fn percentiles_mean_and_deviation_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|ns| histogram.record(ns));
        let summary = histogram.summary(&[1.0, 50.0, 99.0, 100.0]);
        assert_eq!((summary.count, summary.min, summary.max, summary.mean), (1000, 1, 1000, 500.5));
        assert!((summary.stddev - 288.7).abs() < 0.1, "{}", summary.stddev);
        for ((_, value), exact) in summary.percentiles.iter().zip([10, 500, 990, 1000]) {
            assert!(value.abs_diff(exact) <= exact / 64 + 1, "{value} instead of {exact}");
        }
    }

    #[test]
    fn merging_is_the_same_as_recording_everything_in_one() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for ns in [5, 5, 90, 4000, 1 << 40] {
            a.record(ns);
            b.record(ns * 3);
            both.record(ns);
            both.record(ns * 3);
        }
        a.merge(&b);
        assert_eq!(a.summary(&[50.0, 99.9]), both.summary(&[50.0, 99.9]));
    }

    #[test]
    fn an_empty_histogram_has_an_empty_summary() {
        assert_eq!(Histogram::new().summary(&[50.0]).percentiles, [(50.0, 0)]);
    }
}
