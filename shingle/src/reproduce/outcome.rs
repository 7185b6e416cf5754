//! What came out: ours beside the published figures, and what follows from the two.

use serde::{Deserialize, Serialize};

use super::plan::{Cell, Class, PlannedTable, Policy, Publication};
use super::published::Unit;

/// A figure of ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ours {
    /// In the unit of the cell; measured on one core.
    pub value: f64,
    /// The longest time any write took, from its submission to its completion.
    pub longest_wait_ns: u64,
    /// Times the baseline's, if that was measured in the same rounds.
    pub to_baseline: Option<f64>,
    /// Measured on all cores at once, a stack each.
    pub all_cores: Option<f64>,
    /// The same, times the baseline's.
    pub all_cores_to_baseline: Option<f64>,
    /// How long it took by the clock of the simulated world.
    pub virtual_ns: Option<u64>,
}

impl Ours {
    /// With as many digits as mean something, so that it reads the same after it was written as text.
    #[must_use]
    pub fn rounded(self) -> Self {
        let to = |value: f64, digits: f64| (value * digits).round() / digits;
        let ratio = |value: Option<f64>| value.map(|value| to(value, 1e4));
        Self {
            value: to(self.value, 10.0),
            to_baseline: ratio(self.to_baseline),
            all_cores: self.all_cores.map(|value| to(value, 10.0)),
            all_cores_to_baseline: ratio(self.all_cores_to_baseline),
            ..self
        }
    }
}

/// A cell and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellOutcome {
    /// The row of the published table; empty beside it.
    pub row: String,
    /// The column of the published table; empty beside it.
    pub column: String,
    /// The device, where a table has several.
    pub group: String,
    /// The load.
    pub load: String,
    /// Kernel and scheduler, or our policy.
    pub system: String,
    /// The policy that ran.
    pub policy: String,
    /// What the figures count.
    pub unit: Unit,
    /// What ours is.
    pub class: Class,
    /// Whether the others under this load are compared with this one.
    pub is_baseline: bool,
    /// The load under which the baseline ran that this is compared with.
    pub against: String,
    /// Whether a model ran, and not this machine.
    pub simulated: bool,
    /// The published figure.
    pub published: Option<f64>,
    /// Ours.
    pub ours: Ours,
}

impl CellOutcome {
    /// `cell` with what came out.
    #[must_use]
    pub fn new(cell: &Cell, ours: Ours) -> Self {
        Self {
            row: cell.row.clone(),
            column: cell.column.clone(),
            group: cell.group.to_owned(),
            load: cell.load.clone(),
            system: cell.system.clone(),
            policy: cell.experiment.policy.name().to_owned(),
            unit: cell.unit,
            class: cell.class,
            is_baseline: cell.is_baseline,
            against: cell.against.clone(),
            simulated: ours.virtual_ns.is_some(),
            published: cell.published,
            ours,
        }
    }

    /// Ours, times the published figure.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.published.map(|published| self.ours.value / published)
    }

    /// Whether ours is as near to the published figure as its class has to be; `None` if that is not asked.
    #[must_use]
    pub fn is_within(&self) -> Option<bool> {
        let off = (self.ratio()? - 1.0).abs();
        self.class.tolerance().map(|tolerance| off <= tolerance)
    }

    /// Whether it is our own policy's.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.class == Class::Own && self.policy == Policy::Elevator.name()
    }

    /// Its name: what `--only` looks in.
    #[must_use]
    pub fn name(&self, table: &str) -> String {
        cell_name(table, &self.group, &self.load, &self.system)
    }
}

/// The name of a cell, as it is shown and filtered.
#[must_use]
pub fn cell_name(table: &str, group: &str, load: &str, system: &str) -> String {
    let parts = [table, group, load, system];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" / ")
}

/// A table and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableOutcome {
    /// The name of the published table.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// What the numbers along its x-axis are, if its loads differ in a number.
    pub axis: Option<String>,
    /// Where it was published, and what was measured.
    pub source: String,
    /// The cells, load by load.
    pub cells: Vec<CellOutcome>,
}

impl TableOutcome {
    /// `table` with its cells.
    #[must_use]
    pub fn new(table: &PlannedTable, cells: Vec<CellOutcome>) -> Self {
        Self {
            name: table.name.to_owned(),
            title: table.title.to_owned(),
            axis: table.axis.map(str::to_owned),
            source: table.source.clone(),
            cells,
        }
    }

    /// The cell that `cell` is compared with.
    #[must_use]
    pub fn baseline_of(&self, cell: &CellOutcome) -> Option<&CellOutcome> {
        self.cells.iter().find(|other| other.is_baseline && other.group == cell.group && other.load == cell.against)
    }

    /// Times the baseline: as published, and ours.
    #[must_use]
    pub fn to_baseline(&self, cell: &CellOutcome) -> (Option<f64>, Option<f64>) {
        let Some(baseline) = self.baseline_of(cell) else { return (None, None) };
        let published = cell.published.zip(baseline.published).map(|(figure, base)| figure / base);
        let ours = cell.ours.to_baseline.unwrap_or(cell.ours.value / baseline.ours.value);
        (published, Some(ours))
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

/// A profile that models were made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileFacts {
    /// Its name.
    pub name: String,
    /// FNV-1a of its text, 64 bits in hexadecimal: the same hash, the same parameters.
    pub hash: String,
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
    /// The cell that is furthest off, with its ratio.
    pub worst: Option<(String, f64)>,
}

impl Report {
    /// Every cell, with its table.
    pub fn cells(&self) -> impl Iterator<Item = (&TableOutcome, &CellOutcome)> {
        self.tables.iter().flat_map(|table| table.cells.iter().map(move |cell| (table, cell)))
    }

    /// The classes that occur.
    #[must_use]
    pub fn summary(&self) -> Vec<ClassSummary> {
        let of = |class| {
            let cells: Vec<_> = self.cells().filter(|(_, cell)| cell.class == class).collect();
            let judged: Vec<_> = cells.iter().filter(|(_, cell)| cell.is_within().is_some()).collect();
            let off = |ratio: f64| (ratio - 1.0).abs();
            let ratios = judged.iter().filter_map(|(table, cell)| Some((cell.name(&table.name), cell.ratio()?)));
            ClassSummary {
                class,
                cells: cells.len(),
                judged: judged.len(),
                within: judged.iter().filter(|(_, cell)| cell.is_within() == Some(true)).count(),
                worst: ratios.max_by(|a, b| off(a.1).total_cmp(&off(b.1))),
            }
        };
        Class::ALL.into_iter().map(of).filter(|summary| summary.cells > 0).collect()
    }
}
