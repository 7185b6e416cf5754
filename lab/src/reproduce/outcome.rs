//! What came out: ours beside the published figures, and what follows from the two.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::goals::goals;
use super::plan::{Cell, Class, Policy, Table};
use super::publication::Publication;

use super::work::{Options, cores};

/// A figure of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ours {
    /// In the unit of the cell; measured on one core.
    pub value: f64,
    /// The longest time any write took, from its submission to its completion.
    pub longest_wait_ns: u64,
    /// Times the baseline's, if that was measured in the same rounds.
    pub to_baseline: Option<f64>,
    /// How far that may be off, as a share of it: half of the range in which the median lies with 95 % confidence.
    pub spread: Option<f64>,
    /// Measured on all cores at once, a stack each.
    pub all_cores: Option<f64>,
    /// The same, times the baseline's.
    pub all_cores_to_baseline: Option<f64>,
    /// How far that may be off.
    pub all_cores_spread: Option<f64>,
    /// How long it took by the clock of the simulated world.
    pub virtual_ns: Option<u64>,
}

impl Ours {
    /// With as many digits as mean something, so that it reads the same after it was written as text.
    pub fn rounded(self) -> Self {
        let rate = |value: f64| (value * 10.0).round() / 10.0;
        Self {
            value: rate(self.value),
            to_baseline: self.to_baseline.map(short),
            spread: self.spread.map(short),
            all_cores: self.all_cores.map(rate),
            all_cores_to_baseline: self.all_cores_to_baseline.map(short),
            all_cores_spread: self.all_cores_spread.map(short),
            ..self
        }
    }
}

/// A ratio with as many digits as mean something.
pub(super) fn short(ratio: f64) -> f64 {
    (ratio * 1e4).round() / 1e4
}

/// A cell and what came out.
pub type CellOutcome = Cell<Ours>;

/// A table and what came out.
pub type TableOutcome = Table<Ours>;

impl CellOutcome {
    /// Ours, times the published figure.
    pub fn ratio(&self) -> Option<f64> {
        self.published.map(|published| self.ours.value / published)
    }

    /// Whether ours is as near to the published figure as its class has to be; `None` if that is not asked.
    pub fn is_within(&self) -> Option<bool> {
        let off = (self.ratio()? - 1.0).abs();
        self.class.tolerance().map(|tolerance| off <= tolerance)
    }

    /// True if its system is the development tree.
    fn is_next(&self) -> bool {
        self.system.split(' ').next() == Some(TableOutcome::NEXT)
    }

    /// Whether it is our own policy's, or our own way through a layer.
    pub fn is_ours(&self) -> bool {
        self.class == Class::Own && [Policy::Elevator.name(), "mapped", "statistics"].contains(&&*self.policy)
    }
}

impl TableOutcome {
    /// The cell that `cell` is compared with.
    pub fn baseline_of(&self, cell: &CellOutcome) -> Option<&CellOutcome> {
        self.cells.iter().find(|other| other.is_baseline && other.group == cell.group && other.load == cell.against)
    }

    /// Whether the published figure of `cell` is so near to that of its baseline that a copy of that would be within the tolerance:
    /// such a row cannot tell a model that knows what changed from one that does not.
    pub fn is_met_by_copy(&self, cell: &CellOutcome) -> bool {
        let baseline = self.baseline_of(cell).filter(|_| !cell.is_baseline).and_then(|baseline| baseline.published);
        let Some((figure, copy)) = cell.published.zip(baseline) else { return false };
        cell.class.tolerance().is_some_and(|tolerance| (copy / figure - 1.0).abs() <= tolerance)
    }

    /// The figures of `cell` times those of its baseline.
    pub fn to_baseline(&self, cell: &CellOutcome) -> TimesBaseline {
        let Some(baseline) = self.baseline_of(cell) else { return TimesBaseline::default() };
        let published = cell.published.zip(baseline.published).map(|(figure, base)| figure / base);
        let ours = cell.ours.to_baseline.unwrap_or(cell.ours.value / baseline.ours.value);
        TimesBaseline { published, ours: Some(ours) }
    }

    /// Name of the published system that is the development tree (`block/for-next`) on which a patch series is based.
    const NEXT: &str = "baseline-next";

    /// True if the publication has figures of the development tree.
    pub fn has_next(&self) -> bool {
        self.cells.iter().any(|cell| cell.is_next())
    }

    /// The figures of `cell` times those of the development tree under the same load.
    pub fn to_next(&self, cell: &CellOutcome) -> TimesBaseline {
        let beside = |other: &&CellOutcome| other.is_next() && other.group == cell.group && other.load == cell.load;
        let Some(next) = self.cells.iter().find(beside) else { return TimesBaseline::default() };
        let published = cell.published.zip(next.published).map(|(figure, next)| figure / next);
        let within_rounds = cell.ours.to_baseline.zip(next.ours.to_baseline);
        let ours = within_rounds.map_or(cell.ours.value / next.ours.value, |(cell, next)| cell / next);
        TimesBaseline { published, ours: Some(ours) }
    }

    /// The cells, cut where the load or the device changes.
    pub fn loads(&self) -> impl Iterator<Item = &[CellOutcome]> {
        self.cells.chunk_by(|a, b| (&a.group, &a.load) == (&b.group, &b.load))
    }

    /// The cells, cut where the device changes.
    pub fn groups(&self) -> impl Iterator<Item = &[CellOutcome]> {
        self.cells.chunk_by(|a, b| a.group == b.group)
    }
}

/// Figures times those of a baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimesBaseline {
    /// As published.
    pub published: Option<f64>,
    /// Ours.
    pub ours: Option<f64>,
}

/// A profile that models were made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileFacts {
    /// Its name.
    pub name: String,
    /// FNV-1a of its text, 64 bits in hexadecimal: the same hash, the same parameters.
    pub hash: String,
    /// What passes under the head at the outer edge of a disk, in MB/s.
    pub media_mb_per_s: Option<f64>,
}

/// Everything that a run of the command found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which tables.
    pub publication: Publication,
    /// The seed of the simulated cells.
    pub seed: u64,
    /// Whether runs were cut short: the figures show that it runs, no more.
    pub quick: bool,
    /// Cores of the machine that the measured cells ran on.
    pub cores: usize,
    /// What the models were made from.
    pub profiles: Vec<ProfileFacts>,
    /// The tables.
    pub tables: Vec<TableOutcome>,
}

/// How the cells of a class fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassSummary {
    /// The class.
    pub class: Class,
    /// Its cells.
    pub cells: usize,
    /// Those that have a published figure and a tolerance.
    pub judged: usize,
    /// Those within it.
    pub within: usize,
    /// Those that have a tolerance and that a copy of the baseline's figure would not meet.
    pub telling: usize,
    /// Those of them within it.
    pub telling_within: usize,
    /// The cell that is furthest off, with its ratio.
    pub worst: Option<(String, f64)>,
}

impl Report {
    /// What came out for those cells of `tables` that `outcome` knows, on this machine and without models.
    pub(super) fn new<O>(
        options: &Options,
        tables: Vec<Table<O>>,
        outcome: impl Fn(&Cell<O>) -> Option<CellOutcome>,
    ) -> Self {
        let table = |Table { name, title, axis, source, cells }| Table {
            name,
            title,
            axis,
            source,
            cells: cells.iter().filter_map(&outcome).collect(),
        };
        Self {
            publication: options.publication,
            seed: options.seed,
            quick: options.quick,
            cores: cores(),
            profiles: Vec::new(),
            tables: tables.into_iter().map(table).collect(),
        }
    }

    /// Every cell, with its table.
    pub fn cells(&self) -> impl Iterator<Item = (&TableOutcome, &CellOutcome)> {
        self.tables.iter().flat_map(|table| table.cells.iter().map(move |cell| (table, cell)))
    }

    /// How far the measured ratios may be off: the worst of all.
    pub fn spread(&self) -> Option<f64> {
        let spreads = self.cells().flat_map(|(_, cell)| [cell.ours.spread, cell.ours.all_cores_spread]);
        spreads.flatten().max_by(f64::total_cmp)
    }

    /// The classes that occur.
    pub fn summary(&self) -> Vec<ClassSummary> {
        let of = |class| {
            let cells: Vec<_> = self.cells().filter(|(_, cell)| cell.class == class).collect();
            let judged: Vec<_> = cells.iter().filter(|(_, cell)| cell.is_within().is_some()).collect();
            let off = |ratio: f64| (ratio - 1.0).abs();
            let ratios = judged.iter().filter_map(|(table, cell)| Some((cell.name(&table.name), cell.ratio()?)));
            let is_telling = |(table, cell): &&&(&TableOutcome, &CellOutcome)| !table.is_met_by_copy(cell);
            let is_within = |(_, cell): &&&(&TableOutcome, &CellOutcome)| cell.is_within() == Some(true);
            ClassSummary {
                class,
                cells: cells.len(),
                judged: judged.len(),
                within: judged.iter().filter(is_within).count(),
                telling: judged.iter().filter(is_telling).count(),
                telling_within: judged.iter().filter(is_telling).filter(is_within).count(),
                worst: ratios.max_by(|a, b| off(a.1).total_cmp(&off(b.1))).map(|(name, ratio)| (name, short(ratio))),
            }
        };
        Class::ALL.into_iter().map(of).filter(|summary| summary.cells > 0).collect()
    }
}

/// The report with ratios, verdicts, the summary and the goals written out.
pub fn to_json(report: &Report) -> Value {
    // A report is numbers, strings and lists: there is nothing in it that JSON has no word for.
    let mut value = serde_json::to_value(report).unwrap_or_default();
    for (place, table) in report.tables.iter().enumerate() {
        for (number, cell) in table.cells.iter().enumerate() {
            let TimesBaseline { published, ours } = table.to_baseline(cell);
            let next = table.to_next(cell);
            value["tables"][place]["cells"][number]["derived"] = json!({
                "name": cell.name(&table.name),
                "ratio": cell.ratio().map(short),
                "tolerance": cell.class.tolerance(),
                "within_tolerance": cell.is_within(),
                "published_to_baseline": published.map(short),
                "ours_to_baseline": ours.map(short),
                "published_to_next": next.published.map(short),
                "ours_to_next": next.ours.map(short),
            });
        }
    }
    (value["summary"], value["goals"]) = (json!(report.summary()), json!(goals(report)));
    value
}

/// Reads what [`to_json`] wrote. What follows from the figures is not taken from the text but computed anew.
pub fn from_json(text: &str) -> Result<Report, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no report of `shingle reproduce --json`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::plan::plan;

    /// The table of queue depths, with these figures for depth 128.
    fn table(baseline: f64, patched: f64) -> TableOutcome {
        let planned = plan(Publication::Qd1).unwrap().remove(0);
        let value = |cell: &Cell| if cell.is_baseline { baseline } else { patched };
        let outcome = |cell| {
            let ours = Ours { value: value(cell), longest_wait_ns: 1, virtual_ns: Some(1), ..Ours::default() };
            cell.with(ours, None)
        };
        let Table { name, title, axis, source, cells } = planned;
        Table {
            name,
            title,
            axis,
            source,
            cells: cells.iter().filter(|cell| cell.load == "128").map(outcome).collect(),
        }
    }

    fn report(tables: Vec<TableOutcome>) -> Report {
        Report { publication: Publication::Qd1, seed: 1, quick: false, cores: 1, profiles: Vec::new(), tables }
    }

    #[test]
    fn ratios_are_ours_over_theirs_and_over_the_baseline_beside() {
        // Published: 112 and 246.
        let table = table(56.0, 123.0);
        let [baseline, patched, own] = &table.cells[..] else { panic!("{:?}", table.cells) };
        assert_eq!((baseline.ratio(), patched.ratio(), own.ratio()), (Some(0.5), Some(0.5), None));
        let times = |published, ours| TimesBaseline { published, ours };
        assert_eq!(table.to_baseline(patched), times(Some(246.0 / 112.0), Some(123.0 / 56.0)));
        assert_eq!(table.to_baseline(own), times(None, Some(123.0 / 56.0)));
    }

    #[test]
    fn five_percent_are_near_enough_for_a_calibrated_cell_and_ten_for_a_predicted_one() {
        let verdict = |baseline, patched| {
            let table = table(baseline, patched);
            (table.cells[0].is_within(), table.cells[1].is_within(), table.cells[2].is_within())
        };
        assert_eq!(verdict(112.0 * 1.049, 246.0 * 1.099), (Some(true), Some(true), None));
        assert_eq!(verdict(112.0 * 0.949, 246.0 * 0.899), (Some(false), Some(false), None));
        assert_eq!(verdict(112.0 * 0.951, 246.0 * 0.901), (Some(true), Some(true), None));
    }

    #[test]
    fn the_summary_counts_each_class_and_names_the_cell_that_is_furthest_off() {
        let summary = report(vec![table(112.0, 123.0), table(100.0, 246.0)]).summary();
        let counts: Vec<_> = summary.iter().map(|s| (s.class, s.cells, s.judged, s.within)).collect();
        let expected = [(Class::Calibrated, 2, 2, 1), (Class::Predicted, 2, 2, 1), (Class::Own, 2, 0, 0)];
        assert_eq!(counts, expected);
        assert_eq!((summary[1].telling, summary[1].telling_within), (2, 1), "112 is no copy of 246");
        assert_eq!(summary[1].worst, Some(("qd1-sequential / 128 / patched".into(), 0.5)));
        assert_eq!(summary[2].worst, None);
    }

    #[test]
    fn figures_keep_the_digits_that_mean_something() {
        let ours = Ours {
            value: 1_234.567,
            longest_wait_ns: 9,
            to_baseline: Some(1.000_04),
            spread: Some(0.012_34),
            all_cores_to_baseline: Some(2.345_678),
            ..Ours::default()
        };
        let rounded = ours.rounded();
        assert_eq!(
            (rounded.value, rounded.to_baseline, rounded.all_cores_to_baseline),
            (1234.6, Some(1.0), Some(2.3457))
        );
    }
}
