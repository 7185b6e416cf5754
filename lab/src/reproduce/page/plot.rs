//! What plots have in common: a drawing that says what it shows, axes, and the names of curves at their right ends.

use std::fmt::Write;

use super::markup::Escaped;
use super::scale::Scale;

/// Least room for the names of curves.
const LEAST_RIGHT: f64 = 64.0;
/// Room for the labels: above, and of the x-axis.
pub const TOP: f64 = 20.0;
pub const BOTTOM: f64 = 36.0;

/// The beginning of a drawing of this size in its own units, with its title and what it shows in words; `id` is unique on the
/// page.
pub fn begin((width, height): (f64, f64), id: &str, title: &str, shows: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        Escaped(title),
        Escaped(shows),
    )
}

/// Room for the names of curves at their right ends, `gap` from these: a bold letter takes 8 at most.
pub fn room_for<'a>(names: impl Iterator<Item = &'a str>, gap: f64) -> f64 {
    names.map(|name| gap + 8.0 * name.chars().count() as f64).fold(LEAST_RIGHT, f64::max)
}

/// Where a plot lies in its drawing, and its y-axis.
#[derive(Clone, Copy)]
pub struct Frame {
    /// Width and height of the drawing.
    pub size: (f64, f64),
    /// Room for the labels of the y-axis.
    pub left: f64,
    /// Room for the names of curves.
    pub right: f64,
    /// The y-axis.
    pub scale: Scale,
}

/// The name of a curve.
pub struct Label<'a> {
    /// How high the curve ends.
    pub y: f64,
    /// Its class in the style sheet.
    pub class: &'static str,
    /// The name.
    pub name: &'a str,
}

impl Frame {
    /// Where the share of the x-axis from its left end lies; both ends keep `margin` free.
    pub fn x(&self, share: f64, margin: f64) -> f64 {
        self.left + margin + share * (self.size.0 - self.left - self.right - 2.0 * margin)
    }

    /// Where `value` lies; what is beyond an end of the axis lies there.
    pub fn y(&self, value: f64) -> f64 {
        let floor = self.size.1 - BOTTOM;
        floor - (value / self.scale.end()).clamp(0.0, 1.0) * (floor - TOP)
    }

    /// Draws the axes: the lines of the y-axis and its unit, `ticks` along the x-axis and its title.
    pub fn draw_axes(&self, svg: &mut String, unit: &str, (ticks, axis): (&[(f64, String)], &str)) {
        let (left, right, floor) = (self.left, self.size.0 - self.right, self.size.1 - BOTTOM);
        for (value, text) in self.scale.lines() {
            let y = self.y(value);
            let _ = write!(svg, "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let (x, y) = (left - 6.0, y + 4.0);
            let _ = write!(svg, "<text class=\"soft\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
        }
        let _ = write!(svg, "<text class=\"soft\" x=\"0\" y=\"10\">{}</text>", Escaped(unit));
        let y = floor + 16.0;
        for (x, text) in ticks {
            let _ = write!(svg, "<text class=\"soft\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
        }
        let (x, y) = (f64::midpoint(left, right), self.size.1 - 3.0);
        let _ = write!(svg, "<text class=\"soft\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", Escaped(axis));
    }

    /// Draws labels, which are in order, at the right ends of the curves, so far from these.
    pub fn draw_labels(&self, svg: &mut String, labels: &[Label<'_>], gap: f64) {
        let x = self.size.0 - self.right + gap;
        for Label { y, class, name } in labels {
            let _ = write!(svg, "<text class=\"bold {class}\" x=\"{x}\" y=\"{:.1}\">{}</text>", y + 4.0, Escaped(name));
        }
    }
}

/// Moves labels, which are in order, at least `apart`: pushes down what is too near to the one above, then up again what is
/// below `most`.
pub fn spread(labels: &mut [Label<'_>], apart: f64, mut most: f64) {
    let mut least = f64::MIN;
    for label in labels.iter_mut() {
        label.y = label.y.max(least);
        least = label.y + apart;
    }
    for label in labels.iter_mut().rev() {
        label.y = label.y.min(most);
        most = label.y - apart;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_stay_in_the_plot() {
        let mut labels = [50.0, 51.0, 52.0, 300.0].map(|y| Label { y, class: "old", name: "a curve" });
        spread(&mut labels, 15.0, 234.0);
        assert_eq!(labels.map(|label| label.y), [50.0, 65.0, 80.0, 234.0]);
    }
}
