//! The drawn sets: a mark for each, where a policy's mean is times the oracle's.

use std::fmt::Write;

use super::ORACLE;
use super::drawn::{DrawnOutcome, Standing};
use super::text;
use crate::reproduce::figures::times;
use crate::reproduce::page::markup::Escaped;
use crate::reproduce::page::plot;

/// Width in its own units; text is about 11 of them high.
const WIDTH: f64 = 400.0;
const ROW: f64 = 36.0;
const STRIP: f64 = 13.0;
const BOTTOM: f64 = 32.0;
/// Ratios with a line, as far as the axis goes.
const TICKS: [f64; 6] = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0];
/// The least that the axis goes to; what is beyond its ends lies there.
const LEAST: f64 = 0.85;
const MOST: f64 = 20.0;

/// Where a ratio lies.
struct Axis {
    end: f64,
}

impl Axis {
    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio.clamp(LEAST, self.end) / LEAST).ln() / (self.end / LEAST).ln();
        4.0 + share * (WIDTH - 8.0)
    }
}

/// The ratios of all policies; `id` is unique on the page.
pub fn draw(drawn: &DrawnOutcome, id: &str) -> String {
    let standings: Vec<Standing> = drawn.standings().into_iter().filter(|of| of.policy != ORACLE).collect();
    let most = standings.iter().map(|standing| standing.worst).fold(2.0, f64::max);
    let axis = Axis { end: most.min(MOST) * 1.03 };
    let height = ROW * standings.len() as f64 + BOTTOM;
    let one = |of: &Standing| format!("{}: {} on average, {} at worst", of.policy, times(of.average), times(of.worst));
    let shows: Vec<String> = standings.iter().map(one).collect();
    let mut svg = plot::begin((WIDTH, height), id, "Mean latency in drawn sets, times the oracle's", &shows.join("; "));
    for ratio in TICKS.into_iter().filter(|ratio| *ratio < axis.end) {
        let (x, floor) = (axis.x(ratio), height - BOTTOM);
        let _ = write!(svg, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{floor}\"/>");
        let y = floor + 14.0;
        let _ = write!(svg, "<text class=\"soft\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{ratio}</text>");
    }
    let (x, y) = (WIDTH / 2.0, height - 3.0);
    let _ =
        write!(svg, "<text class=\"soft\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">times the oracle's mean</text>");
    for (place, standing) in standings.iter().enumerate() {
        let ratios = drawn.place(&standing.policy).map_or_else(Vec::new, |place| drawn.ratios(place));
        draw_row(&mut svg, (standing, &ratios), ROW * place as f64, &axis);
    }
    svg + "</svg>"
}

fn draw_row(svg: &mut String, (standing, ratios): (&Standing, &[f64]), y: f64, axis: &Axis) {
    let (own, text) = (text::is_ours(&standing.policy), y + 12.0);
    let class = if own { "own bold" } else { "bold" };
    let _ = write!(svg, "<text class=\"{class} halo\" x=\"0\" y=\"{text}\">{}</text>", Escaped(&standing.policy));
    let _ = write!(
        svg,
        "<text class=\"soft halo\" x=\"{WIDTH}\" y=\"{text}\" text-anchor=\"end\">{} on average</text>",
        times(standing.average)
    );
    let top = y + 17.0;
    let marks: String = ratios.iter().map(|ratio| format!("M{:.1} {top}v{STRIP}", axis.x(*ratio))).collect();
    let class = if own { "own" } else { "plain" };
    let _ = write!(svg, "<path class=\"mark {class}\" d=\"{marks}\"/>");
    let (x, from, to) = (axis.x(standing.median), top - 2.0, top + STRIP + 2.0);
    for class in ["halo", "tick"] {
        let _ = write!(svg, "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from}\" y2=\"{to}\"/>");
    }
}
