//! Systems under one load: a bar for each of ours, a tick where the publication is.
//!
//! The label stands above its bar, so that a row needs no width for it and the plot stays readable on a phone.

use std::fmt::Write;

use super::markup::Escaped;
use super::{paint, plot};
use crate::reproduce::figures::{grouped, off, times};
use crate::reproduce::outcome::{CellOutcome, TableOutcome, TimesBaseline};

/// Width of the plot in its own units; text is 12 of them high.
const WIDTH: f64 = 340.0;
const ROW: f64 = 38.0;
const BAR: f64 = 9.0;

/// A row of the plot.
struct Row<'a> {
    cell: &'a CellOutcome,
    published: Option<f64>,
    ours: f64,
}

/// Cells of one load. On this machine only how systems compare says anything, so measured cells are drawn as times their
/// baseline.
pub fn draw(table: &TableOutcome, cells: &[CellOutcome], id: &str) -> String {
    let measured = !cells[0].simulated;
    let row = |cell| {
        let TimesBaseline { published, ours } = table.to_baseline(cell);
        if measured { ours.map(|ours| Row { cell, published, ours }) } else { Some(Row::of(cell)) }
    };
    let rows: Vec<Row<'_>> = cells.iter().map(|cell| row(cell).unwrap_or_else(|| Row::of(cell))).collect();
    let compared = measured && table.baseline_of(&cells[0]).is_some();
    let most =
        rows.iter().flat_map(|row| row.published.into_iter().chain([row.ours])).fold(f64::MIN_POSITIVE, f64::max);
    let height = ROW * rows.len() as f64;
    let mut svg = plot::begin((WIDTH, height), id, &super::load_title(&cells[0]), &describe(&rows, compared));
    for (place, row) in rows.iter().enumerate() {
        row.draw(&mut svg, ROW * place as f64, most, compared);
    }
    svg + "</svg>"
}

fn describe(rows: &[Row<'_>], compared: bool) -> String {
    let one = |row: &Row<'_>| {
        let show = if compared { times } else { grouped };
        let published = row.published.map_or(String::new(), |figure| format!(", published {}", show(figure)));
        format!("{}: ours {}{published}", row.cell.system, show(row.ours))
    };
    rows.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl<'a> Row<'a> {
    fn of(cell: &'a CellOutcome) -> Self {
        Self { cell, published: cell.published, ours: cell.ours.value }
    }

    fn draw(&self, svg: &mut String, y: f64, most: f64, compared: bool) {
        let class = paint(self.cell).class();
        let at = |value: f64| (value / most * WIDTH).max(0.5);
        let (text, top) = (y + 12.0, y + 18.0);
        let _ = write!(svg, "<text x=\"0\" y=\"{text}\">{}</text>", Escaped(&self.cell.system));
        let _ = write!(svg, "<text x=\"{WIDTH}\" y=\"{text}\" text-anchor=\"end\">{}</text>", self.figures(compared));
        let _ =
            write!(svg, "<rect class=\"track\" x=\"0\" y=\"{top}\" width=\"{WIDTH}\" height=\"{BAR}\" rx=\"1.5\"/>");
        let _ = write!(
            svg,
            "<rect class=\"bar {class}\" x=\"0\" y=\"{top}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"1.5\"/>",
            at(self.ours)
        );
        if let Some(published) = self.published {
            let (x, from, to) = (at(published).clamp(1.5, WIDTH - 1.5), top - 3.0, top + BAR + 3.0);
            for class in ["halo", "tick"] {
                let _ = write!(svg, "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from}\" y2=\"{to}\"/>");
            }
        }
    }

    /// `published 181  ours 183 +1.1 %`, the nearer to the edge the more it matters.
    fn figures(&self, compared: bool) -> String {
        let show = if compared { times } else { grouped };
        let unit = if compared { "x" } else { "" };
        let mut text = String::new();
        if let Some(published) = self.published {
            let _ = write!(text, "<tspan class=\"soft\">{}{unit}</tspan> ", show(published));
        }
        // A shift in front of the first piece would push the text out at its end.
        let shift = if self.published.is_some() { " dx=\"6\"" } else { "" };
        let _ = write!(text, "<tspan class=\"bold\"{shift}>{}{unit}</tspan>", show(self.ours));
        if let (false, Some(ratio)) = (compared, self.cell.ratio()) {
            let class = if self.cell.is_within() == Some(false) { "off" } else { "soft" };
            let _ = write!(text, "<tspan class=\"{class}\" dx=\"6\"> {}</tspan>", off(ratio));
        }
        text
    }
}
