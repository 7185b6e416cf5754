//! A value over time: curves, and behind them what was published.

use std::fmt::Write;

use crate::reproduce::page::markup::Escaped;
use crate::reproduce::page::plot::{self, Frame, Label, spread};
use crate::reproduce::page::scale::Scale;

/// Room for the labels of the y-axis.
const LEFT: f64 = 40.0;
/// Most points of a curve: samples are averaged to fewer.
const POINTS: usize = 240;
/// Least distance of two labels, and how far they are from the curves.
const LABEL: f64 = 14.0;
const GAP: f64 = 5.0;

/// A curve.
pub struct Series {
    /// Its name, at its right end.
    pub name: &'static str,
    /// Its class in the style sheet.
    pub class: &'static str,
    /// Values at equal distances.
    pub values: Vec<f64>,
    /// The time in which they were.
    pub seconds: u32,
}

/// A published range of values.
pub struct Band {
    /// In seconds; the whole chart if it is not known.
    pub span_s: Option<(u32, u32)>,
    /// The lower and the upper end.
    pub range: (f64, f64),
    /// What it is.
    pub title: String,
}

/// A chart over the time of a run.
pub struct Chart {
    /// What it shows, and what that counts.
    pub title: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// The length of the time axis.
    pub seconds: u32,
    /// Width and height in units of which text is about 11 high.
    pub size: (f64, f64),
    /// The end of the scale; `None`: what the values need.
    pub most: Option<f64>,
    /// What was published.
    pub bands: Vec<Band>,
    /// The curves.
    pub series: Vec<Series>,
}

impl Chart {
    /// The chart as SVG; `id` is unique on the page.
    pub fn draw(&self, id: &str) -> String {
        let right = plot::room_for(self.series.iter().map(|series| series.name), GAP);
        let frame = Frame { size: self.size, left: LEFT, right, scale: self.scale() };
        let mut svg = plot::begin(self.size, id, &self.title, &self.describe());
        let minutes = self.seconds / 60;
        let step = [1, 2, 5, 10, 20, 30, 60].into_iter().find(|step| minutes / step <= 8).unwrap_or(120);
        let tick = |minute: u32| (self.x(frame, f64::from(minute * 60)), minute.to_string());
        let ticks: Vec<_> = (0..=minutes).step_by(step as usize).map(tick).collect();
        frame.draw_axes(&mut svg, self.unit, (&ticks, "minutes"));
        self.bands.iter().for_each(|band| self.draw_band(&mut svg, band, frame));
        self.series.iter().for_each(|series| self.draw_curve(&mut svg, series, frame));
        self.draw_labels(&mut svg, frame);
        svg + "</svg>"
    }

    /// The scale of the values.
    fn scale(&self) -> Scale {
        let values = self.series.iter().flat_map(|series| smooth(&series.values));
        let published = self.bands.iter().map(|band| band.range.1);
        Scale::up_to(self.most.unwrap_or_else(|| values.chain(published).fold(1.0, f64::max)))
    }

    fn describe(&self) -> String {
        let one = |series: &Series| {
            let mean = series.values.iter().sum::<f64>() / series.values.len().max(1) as f64;
            format!("{}: {mean:.1} {} on average", series.name, self.unit)
        };
        self.series.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    fn x(&self, frame: Frame, seconds: f64) -> f64 {
        frame.x(seconds / f64::from(self.seconds.max(1)), 0.0)
    }

    fn draw_band(&self, svg: &mut String, band: &Band, frame: Frame) {
        let (from, to) = band.span_s.unwrap_or((0, self.seconds));
        if from >= self.seconds {
            return;
        }
        let (x, end) = (self.x(frame, f64::from(from)), self.x(frame, f64::from(to.min(self.seconds))));
        let (top, bottom) = (frame.y(band.range.1), frame.y(band.range.0));
        // A single figure is a line, too thin to be seen as a band.
        let (top, height) = (top - 1.5, bottom - top + 3.0);
        let class = if band.span_s.is_some() { "band" } else { "band faint" };
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
             <title>{}</title></rect>",
            end - x,
            Escaped(&band.title)
        );
    }

    fn draw_curve(&self, svg: &mut String, series: &Series, frame: Frame) {
        let values = smooth(&series.values);
        let step = f64::from(series.seconds) / values.len().max(1) as f64;
        let at = |(place, value): (usize, &f64)| {
            format!("{:.1},{:.1}", self.x(frame, (place as f64 + 0.5) * step), frame.y(*value))
        };
        let points: Vec<String> = values.iter().enumerate().map(at).collect();
        let _ = write!(svg, "<polyline class=\"series {}\" points=\"{}\"/>", series.class, points.join(" "));
    }

    /// Names at the right ends of the curves, at the height of the last tenth, moved apart where they meet.
    fn draw_labels(&self, svg: &mut String, frame: Frame) {
        let label = |series: &Series| {
            let tail = &series.values[series.values.len() * 9 / 10..];
            let y = frame.y(tail.iter().sum::<f64>() / tail.len().max(1) as f64);
            Label { y, class: series.class, name: series.name }
        };
        let mut labels: Vec<Label<'_>> = self.series.iter().map(label).collect();
        labels.sort_by(|a, b| a.y.total_cmp(&b.y));
        spread(&mut labels, LABEL, f64::MAX);
        frame.draw_labels(svg, &labels, GAP);
    }
}

/// At most [`POINTS`] means of neighbouring values.
fn smooth(values: &[f64]) -> Vec<f64> {
    let size = values.len().div_ceil(POINTS).max(1);
    values.chunks(size).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::page::plot::{BOTTOM, TOP};

    fn chart(values: Vec<f64>) -> Chart {
        let series = vec![Series { name: "kernel", class: "old", values, seconds: 7200 }];
        let band = Band { span_s: Some((0, 400)), range: (110.0, 110.0), title: "<110>".into() };
        let (title, size) = ("Speed".to_owned(), (400.0, 200.0));
        Chart { title, unit: "MB/s", seconds: 7200, size, most: None, bands: vec![band], series }
    }

    #[test]
    fn a_curve_has_a_bounded_number_of_points_and_stays_in_the_chart() {
        let svg = chart((0..720).map(f64::from).collect()).draw("c");
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.split(' ').count(), POINTS);
        let right = plot::room_for(["kernel"].into_iter(), GAP);
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            assert!((LEFT..=400.0 - right).contains(&x.parse().unwrap()), "{point}");
            assert!((TOP..=200.0 - BOTTOM).contains(&y.parse().unwrap()), "{point}");
        }
        assert!(svg.contains("&lt;110&gt;"));
    }

    #[test]
    fn the_scale_takes_in_what_was_published() {
        assert_eq!(chart(vec![1.0]).scale().end(), 125.0);
        assert_eq!(chart(vec![260.0; 3]).scale().end(), 300.0);
    }
}
