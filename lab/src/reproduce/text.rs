//! Reports as people read them: lines and tables, whoever prints them.

use std::fmt::Write;

use super::figures::{grouped, off, span, times};
use super::goals::Goal;
use super::outcome::{CellOutcome, ClassSummary, Report, TableOutcome, TimesBaseline};
use super::plan::Class;

/// A piece of a report as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Lines.
    Lines(String),
    /// A table.
    Table {
        /// The names of its columns.
        header: Vec<String>,
        /// The columns with numbers.
        right: Vec<usize>,
        /// The rows.
        rows: Vec<Vec<String>>,
    },
}

impl Part {
    pub(super) fn table<T: ToString>(header: &[T], right: &[usize], rows: Vec<Vec<String>>) -> Self {
        Part::Table { header: header.iter().map(T::to_string).collect(), right: right.to_vec(), rows }
    }
}

/// A cell's figures: published, ours, how far off or on all cores, times the baseline, percentages against the development tree if the
/// publication has it, the longest wait, the class.
pub(super) fn figures(table: &TableOutcome, cell: &CellOutcome) -> Vec<String> {
    let TimesBaseline { published, ours } = table.to_baseline(cell);
    let or_nothing = |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(String::new, show);
    let second =
        if cell.simulated { (cell.ratio(), off as fn(f64) -> String) } else { (cell.ours.all_cores, grouped as _) };
    let mut figures = vec![
        or_nothing(cell.published, grouped),
        grouped(cell.ours.value),
        or_nothing(second.0, second.1),
        or_nothing(published, times),
        or_nothing(ours, times),
    ];
    if !cell.simulated {
        figures.push(or_nothing(cell.ours.all_cores_to_baseline, times));
    }
    if table.has_next() {
        let TimesBaseline { published, ours } = table.to_next(cell);
        figures.extend([published, ours].map(|ratio| or_nothing(ratio, off)));
    }
    figures.extend([span(cell.ours.longest_wait_ns), cell.class.to_string()]);
    figures
}

/// Whether the cell in this `place` is the first one of its load: the others leave that out.
pub(super) fn begins_load(cells: &[CellOutcome], place: usize) -> bool {
    place == 0 || cells[place - 1].load != cells[place].load
}

/// The goals as a table, an empty line in front of it.
pub(super) fn of_goals(goals: &[Goal]) -> Vec<Part> {
    if goals.is_empty() {
        return Vec::new();
    }
    let row = |Goal { text, is_reached, found }: &Goal| {
        vec![if *is_reached { "yes" } else { "NO" }.to_owned(), text.clone(), found.clone()]
    };
    let rows = goals.iter().map(row).collect();
    vec![Part::Lines("\n".into()), Part::table(&["goal", "of ours", "found"], &[], rows)]
}

/// Tables of cells, and what they amount to.
pub(super) fn of_cells(report: &Report, goals: &[Goal]) -> Vec<Part> {
    let mut parts = Vec::new();
    for table in &report.tables {
        let mut lines = format!("{}: {}\n", table.name, table.title);
        table.source.lines().for_each(|line| _ = writeln!(lines, "  {line}"));
        parts.push(Part::Lines(lines));
        for group in table.groups() {
            parts.extend([Part::Lines("\n".into()), of_group(report, table, group)]);
        }
        parts.push(Part::Lines("\n".into()));
    }
    parts.extend(summary(report, goals));
    parts
}

fn of_group(report: &Report, table: &TableOutcome, cells: &[CellOutcome]) -> Part {
    let (is_model, cores) = (cells[0].simulated, format!("{} cores", report.cores));
    let title = if is_model && cells[0].group.is_empty() { "model" } else { &cells[0].group };
    let row = |place: usize| {
        let cell = &cells[place];
        let label = if begins_load(cells, place) { format!("{} ({})", cell.load, cell.unit) } else { String::new() };
        let mut row = vec![label, cell.system.clone()];
        row.extend(figures(table, cell));
        if is_model {
            row.insert(5, cell.is_within().map_or("", |within| if within { "ok" } else { "OFF" }).to_owned());
        }
        row
    };
    let rows = (0..cells.len()).map(row).collect();
    let (mut header, mut right) = match is_model {
        true => (vec![title, "", "published", "ours", "off", "", "x baseline", "ours"], vec![2, 3, 4, 6, 7]),
        false => {
            (vec![title, "", "published", "1 core", &cores, "x baseline", "1 core", &cores], vec![2, 3, 4, 5, 6, 7])
        }
    };
    if table.has_next() {
        header.extend(["to for-next", "ours"]);
        right.extend([8, 9]);
    }
    right.push(header.len());
    header.extend(["longest wait", "class"]);
    Part::table(&header, &right, rows)
}

fn summary(report: &Report, goals: &[Goal]) -> Vec<Part> {
    let classes = report.summary();
    let row = |class: &ClassSummary| {
        let judged = |text: fn(&ClassSummary, f64) -> String| {
            class.class.tolerance().map_or_else(String::new, |tolerance| text(class, tolerance))
        };
        let telling = match class.class {
            Class::Predicted => format!("{} of {}", class.telling_within, class.telling),
            _ => String::new(),
        };
        vec![
            class.class.to_string(),
            class.cells.to_string(),
            judged(|_, tolerance| format!("within {:.0} %", tolerance * 100.0)),
            judged(|class, _| format!("{} of {}", class.within, class.judged)),
            telling,
            class.worst.as_ref().map_or(String::new(), |(name, ratio)| format!("{} {name}", off(*ratio))),
        ]
    };
    let header = ["summary", "cells", "tolerance", "within", "no copies", "furthest off"];
    let mut parts = vec![Part::table(&header, &[1], classes.iter().map(row).collect())];
    if classes.iter().any(|class| class.class == Class::Predicted) {
        let note = "\nno copies: predicted rows that the figure of the old kernel would not meet. The others are met by copying it, \
                    and tell nothing.\n";
        parts.push(Part::Lines(note.into()));
    }
    parts.extend(of_goals(goals));
    if report.quick {
        let note = "\nRuns were cut short by --quick: the figures show that everything runs, no more.\n";
        parts.push(Part::Lines(note.into()));
    }
    if report.cells().any(|(_, cell)| cell.class == Class::Measured) {
        let note = "\nMeasured rows are this machine's: hold only the columns `x baseline` against each other.\n";
        parts.push(Part::Lines(note.into()));
    }
    if let Some(spread) = report.spread() {
        let percent = spread * 100.0;
        parts.push(Part::Lines(format!("Measured ratios are right to {percent:.1} % in 95 of 100 cases.\n")));
    }
    parts
}
