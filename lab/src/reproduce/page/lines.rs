//! Systems over a number: ours as curves, the publication as points.

use std::fmt::Write;

use super::markup::Escaped;
use super::scale::Scale;
use super::{Paint, paint};
use crate::reproduce::figures::grouped;
use crate::reproduce::{CellOutcome, TableOutcome};

/// Size in its own units; text is 12 of them high.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 270.0;
/// Room for the labels: of the axes, and of the curves at their right ends.
const LEFT: f64 = 32.0;
const RIGHT: f64 = 64.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 36.0;
/// Least distance of two labels.
const LABEL: f64 = 15.0;

/// One system.
struct Series<'a> {
    name: &'a str,
    class: &'static str,
    mark: Paint,
    cells: Vec<&'a CellOutcome>,
}

/// The loads along the x-axis: by the logarithm of the number that names them, which doubles as a queue depth does; one that
/// begins at 0 grows in steps.
struct Axes {
    loads: Vec<f64>,
    scale: Scale,
}

impl Axes {
    fn x(&self, load: f64) -> f64 {
        let scale = |load: f64| if self.loads[0] > 0.0 { load.ln() } else { load };
        let (first, last) = (scale(self.loads[0]), scale(self.loads[self.loads.len() - 1]));
        let share = if last > first { (scale(load) - first) / (last - first) } else { 0.5 };
        LEFT + 6.0 + share * (WIDTH - LEFT - RIGHT - 12.0)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.scale.end() * (HEIGHT - TOP - BOTTOM)
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
    let axes = Axes { loads, scale: Scale::up_to(values.fold(1.0, f64::max)) };
    let series = series(table);
    let unit = table.cells[0].unit;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}: {unit} by {}</title><desc id=\"{id}-d\">{}</desc>",
        Escaped(&table.title),
        Escaped(axis),
        Escaped(&describe(&series)),
    );
    draw_axes(&mut svg, &axes, axis, &unit.to_string());
    series.iter().for_each(|series| series.draw(&mut svg, &axes));
    draw_labels(&mut svg, &axes, &series);
    svg + "</svg>"
}

fn series(table: &TableOutcome) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for cell in table.cells.iter().filter(|cell| load_of(cell).is_some()) {
        match all.iter_mut().find(|series| series.name == cell.system) {
            Some(series) => series.cells.push(cell),
            None => {
                let mark = paint(cell);
                let class = match mark {
                    Paint::Old => "old",
                    Paint::New => "new",
                    Paint::Own => "own",
                };
                all.push(Series { name: &cell.system, class, mark, cells: vec![cell] });
            }
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

fn draw_axes(svg: &mut String, axes: &Axes, axis: &str, unit: &str) {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for (value, text) in axes.scale.lines() {
        let y = axes.y(value);
        let _ = write!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        let (x, y) = (LEFT - 6.0, y + 4.0);
        let _ = write!(svg, "<text class=\"soft\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
    }
    let _ = write!(svg, "<text class=\"soft\" x=\"0\" y=\"10\">{}</text>", Escaped(unit));
    for load in &axes.loads {
        let (x, y) = (axes.x(*load), floor + 16.0);
        let _ = write!(svg, "<text class=\"soft\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{load}</text>");
    }
    let (x, y) = (f64::midpoint(LEFT, right), HEIGHT - 3.0);
    let _ = write!(svg, "<text class=\"soft\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", Escaped(axis));
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
        let _ = write!(svg, "<polyline class=\"curve {}\" points=\"{}\"/>", self.class, points.join(" "));
        for cell in &self.cells {
            let Some((x, y)) = cell.published.and_then(|figure| place(cell, figure)) else { continue };
            let title = format!("{}, {}: published {}", self.name, cell.load, grouped(cell.published.unwrap_or(0.0)));
            self.draw_point(svg, (x, y), &title);
        }
    }

    /// Squares and circles, so that colour is not all that tells them apart.
    fn draw_point(&self, svg: &mut String, (x, y): (f64, f64), title: &str) {
        let (class, title) = (self.class, Escaped(title));
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
    let mut labels: Vec<(f64, &Series<'_>)> = ends.collect();
    // Where two curves meet, ours goes above.
    labels.sort_by(|a, b| a.0.round().total_cmp(&b.0.round()).then(b.1.mark.cmp(&a.1.mark)));
    spread(&mut labels);
    for (y, series) in labels {
        let (x, y) = (WIDTH - RIGHT + 4.0, y + 4.0);
        let _ =
            write!(svg, "<text class=\"bold {}\" x=\"{x}\" y=\"{y:.1}\">{}</text>", series.class, Escaped(series.name));
    }
}

/// Moves labels apart by pushing down what is too near to the one above, then up again what left the plot.
fn spread<T>(labels: &mut [(f64, T)]) {
    let mut least = f64::MIN;
    for (y, _) in labels.iter_mut() {
        *y = y.max(least);
        least = *y + LABEL;
    }
    let mut most = HEIGHT - BOTTOM;
    for (y, _) in labels.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LABEL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_stay_in_the_plot() {
        let mut labels = [(50.0, 'a'), (51.0, 'b'), (52.0, 'c'), (300.0, 'd')];
        spread(&mut labels);
        assert_eq!(labels.map(|(y, _)| y), [50.0, 65.0, 80.0, HEIGHT - BOTTOM]);
    }
}
