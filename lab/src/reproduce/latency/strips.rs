//! Which path got how much as time went by: a strip for each policy.

use std::fmt::Write;

use super::lanes::Lane;
use super::outcome::{Row, SceneOutcome};
use super::{ALONE, text};
use crate::reproduce::page::markup::Escaped;
use crate::reproduce::page::plot;

/// Width in its own units; text is about 11 of them high.
const WIDTH: f64 = 400.0;
/// Room for the names of the policies.
const LEFT: f64 = 146.0;
/// Of a policy, its strip, and the names of the paths above all.
const ROW: f64 = 19.0;
const STRIP: f64 = 13.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 32.0;
/// Colours that there are.
const COLOURS: usize = 8;

/// The shares of the paths of `scene` over time; `id` is unique on the page.
pub fn draw(scene: &SceneOutcome, id: &str) -> String {
    // A path alone has everything.
    let rows: Vec<&Row> = scene.rows.iter().filter(|row| row.policy != ALONE).collect();
    let height = TOP + ROW * rows.len() as f64 + BOTTOM;
    let shows: Vec<String> = rows.iter().map(|row| describe(row)).collect();
    let title = format!("{}: share of each path over time", scene.name());
    let mut svg = plot::begin((WIDTH, height), id, &title, &shows.join("; "));
    draw_names(&mut svg, &scene.rows[0].paths);
    for (place, row) in rows.iter().enumerate() {
        draw_row(&mut svg, row, TOP + ROW * place as f64);
    }
    let y = height - BOTTOM + 13.0;
    for (share, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        let (x, seconds) = (LEFT + share * (WIDTH - LEFT), share * scene.seconds);
        let unit = if share == 1.0 { " s" } else { "" };
        let _ = write!(svg, "<text class=\"soft\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{seconds}{unit}</text>");
    }
    svg + "</svg>"
}

fn describe(row: &Row) -> String {
    let one = |(lane, share): (&Lane, f64)| format!("{} {:.1} %", lane.name, share * 100.0);
    let all: Vec<String> = row.paths.iter().zip(row.shares()).map(one).collect();
    format!("{}: {}", row.policy, all.join(", "))
}

/// A colour and a name for each path.
fn draw_names(svg: &mut String, paths: &[Lane]) {
    let step = (WIDTH - LEFT) / paths.len().max(3) as f64;
    for (place, lane) in paths.iter().enumerate() {
        let (x, colour) = (LEFT + step * place as f64, place % COLOURS);
        let _ = write!(svg, "<rect class=\"lane{colour}\" x=\"{x:.1}\" y=\"3\" width=\"11\" height=\"11\"/>");
        let _ = write!(svg, "<text class=\"soft\" x=\"{:.1}\" y=\"13\">{}</text>", x + 15.0, Escaped(&lane.name));
    }
}

fn draw_row(svg: &mut String, row: &Row, y: f64) {
    let (name, right) = (Escaped(&row.policy), WIDTH - LEFT);
    let class = if text::is_ours(&row.policy) { "own bold" } else { "soft" };
    let (x, baseline) = (LEFT - 8.0, y + STRIP - 2.0);
    let _ = write!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{baseline}\" text-anchor=\"end\">{name}</text>");
    let _ = write!(svg, "<rect class=\"track\" x=\"{LEFT}\" y=\"{y}\" width=\"{right}\" height=\"{STRIP}\"/>");
    let parts = row.paths.iter().map(|lane| lane.over_time.len()).min().unwrap_or(0);
    let sent = |part: usize, lanes: &[Lane]| lanes.iter().map(|lane| lane.over_time[part]).sum::<u64>() as f64;
    // Each path is painted from the upper edge down to where it ends, and the next one over it.
    for place in (0..row.paths.len()).rev() {
        let down = |part: usize| sent(part, &row.paths[..=place]) / sent(part, &row.paths).max(1.0) * STRIP;
        let step = (WIDTH - LEFT) / parts.max(1) as f64;
        let mut path = format!("M{LEFT} {y}");
        let mut last = f64::NAN;
        for part in 0..parts {
            let edge = ((y + down(part)) * 10.0).round() / 10.0;
            if edge != last {
                let _ = write!(path, "H{:.1}V{edge}", LEFT + step * part as f64);
                last = edge;
            }
        }
        let _ = write!(svg, "<path class=\"lane{}\" d=\"{path}H{WIDTH}V{y}Z\"/>", place % COLOURS);
    }
}
