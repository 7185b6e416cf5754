//! Systems over a number: ours as curves, the publication as points.

use std::fmt::Write;

use super::markup::Escaped;
use super::plot::{self, BOTTOM, Frame, Label, spread};
use super::scale::Scale;
use super::{Paint, paint};
use crate::reproduce::figures::grouped;
use crate::reproduce::{CellOutcome, TableOutcome};

/// Size in its own units; text is 12 of them high.
const SIZE: (f64, f64) = (400.0, 270.0);
/// Room for the labels of the y-axis.
const LEFT: f64 = 32.0;
/// Least distance of two labels, and how far they are from the curves.
const LABEL: f64 = 15.0;
const GAP: f64 = 4.0;

/// One system.
struct Series<'a> {
    name: &'a str,
    mark: Paint,
    cells: Vec<&'a CellOutcome>,
}

/// The loads along the x-axis: by the logarithm of the number that names them, which doubles as a queue depth does; one that
/// begins at 0 grows in steps.
struct Axes {
    loads: Vec<f64>,
    frame: Frame,
}

impl Axes {
    fn x(&self, load: f64) -> f64 {
        let scale = |load: f64| if self.loads[0] > 0.0 { load.ln() } else { load };
        let (first, last) = (scale(self.loads[0]), scale(self.loads[self.loads.len() - 1]));
        let share = if last > first { (scale(load) - first) / (last - first) } else { 0.5 };
        self.frame.x(share, 6.0)
    }

    fn y(&self, value: f64) -> f64 {
        self.frame.y(value)
    }
}

fn load_of(cell: &CellOutcome) -> Option<f64> {
    cell.load.parse().ok().filter(|load| *load >= 0.0)
}

/// Draws `table`, whose loads are numbers.
pub fn draw(table: &TableOutcome, id: &str) -> String {
    let axis = table.axis.as_deref().unwrap_or("load");
    let mut loads: Vec<f64> = table.cells.iter().filter_map(load_of).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    if loads.is_empty() {
        return String::new();
    }
    let values = table.cells.iter().flat_map(|cell| cell.published.into_iter().chain([cell.ours.value]));
    let (series, unit) = (series(table), table.cells[0].unit.to_string());
    let right = plot::room_for(series.iter().map(|series| series.name), GAP);
    let frame = Frame { size: SIZE, left: LEFT, right, scale: Scale::up_to(values.fold(1.0, f64::max)) };
    let axes = Axes { loads, frame };
    let title = format!("{}: {unit} by {axis}", table.title);
    let mut svg = plot::begin(SIZE, id, &title, &describe(&series));
    let ticks: Vec<(f64, String)> = axes.loads.iter().map(|load| (axes.x(*load), load.to_string())).collect();
    frame.draw_axes(&mut svg, &unit, (&ticks, axis));
    series.iter().for_each(|series| series.draw(&mut svg, &axes));
    draw_labels(&mut svg, &axes, &series);
    svg + "</svg>"
}

fn series(table: &TableOutcome) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for cell in table.cells.iter().filter(|cell| load_of(cell).is_some()) {
        match all.iter_mut().find(|series| series.name == cell.system) {
            Some(series) => series.cells.push(cell),
            None => all.push(Series { name: &cell.system, mark: paint(cell), cells: vec![cell] }),
        }
    }
    all
}

fn describe(series: &[Series<'_>]) -> String {
    let point = |cell: &&CellOutcome| {
        let published = cell.published.map_or(String::new(), |figure| format!(" (published {})", grouped(figure)));
        format!("{} at {}{published}", grouped(cell.ours.value), cell.load)
    };
    let one = |s: &Series<'_>| format!("{}: {}", s.name, s.cells.iter().map(point).collect::<Vec<_>>().join(", "));
    series.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl Series<'_> {
    fn draw(&self, svg: &mut String, axes: &Axes) {
        let place = |cell: &CellOutcome, value| Some((axes.x(load_of(cell)?), axes.y(value)));
        let points = self.cells.iter().filter_map(|cell| place(cell, cell.ours.value));
        let mut points: Vec<(f64, f64)> = points.collect();
        // What ran under one load only is a level that the others are seen against.
        if let [(_, y)] = points[..] {
            points = vec![(axes.x(axes.loads[0]), y), (axes.x(axes.loads[axes.loads.len() - 1]), y)];
        }
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(svg, "<polyline class=\"curve {}\" points=\"{}\"/>", self.mark.class(), points.join(" "));
        for cell in &self.cells {
            let Some((x, y)) = cell.published.and_then(|figure| place(cell, figure)) else { continue };
            let title = format!("{}, {}: published {}", self.name, cell.load, grouped(cell.published.unwrap_or(0.0)));
            self.draw_point(svg, (x, y), &title);
        }
    }

    /// Squares and circles, so that colour is not all that tells them apart.
    fn draw_point(&self, svg: &mut String, (x, y): (f64, f64), title: &str) {
        let (class, title) = (self.mark.class(), Escaped(title));
        let _ = match self.mark {
            Paint::Old => {
                let (x, y) = (x - 3.5, y - 3.5);
                write!(
                    svg,
                    "<rect class=\"point {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"7\" height=\"7\">\
                     <title>{title}</title></rect>"
                )
            }
            _ => write!(
                svg,
                "<circle class=\"point {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{title}</title></circle>"
            ),
        };
    }
}

/// Names at the right ends of the curves, moved apart where those meet.
fn draw_labels(svg: &mut String, axes: &Axes, series: &[Series<'_>]) {
    let ends = series.iter().filter_map(|s| Some((axes.y(s.cells.last()?.ours.value), s)));
    let mut ends: Vec<(f64, &Series<'_>)> = ends.collect();
    // Where two curves meet, ours goes above.
    ends.sort_by(|a, b| a.0.round().total_cmp(&b.0.round()).then(b.1.mark.cmp(&a.1.mark)));
    let mut labels: Vec<Label<'_>> =
        ends.into_iter().map(|(y, s)| Label { y, class: s.mark.class(), name: s.name }).collect();
    spread(&mut labels, LABEL, SIZE.1 - BOTTOM);
    axes.frame.draw_labels(svg, &labels, GAP);
}
