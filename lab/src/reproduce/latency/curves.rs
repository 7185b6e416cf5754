//! How many I/Os take longer than how long, by policy: logarithms both ways, so that one of a million is seen beside all.

use std::fmt::Write;

use super::outcome::{Row, SceneOutcome, share_slower};
use super::{DECAY_10, ORACLE, text};
use crate::reproduce::figures::{grouped, span};
use crate::reproduce::page::markup::Escaped;
use crate::reproduce::page::plot;

/// Size in its own units; text is about 11 of them high.
const SIZE: (f64, f64) = (400.0, 260.0);
/// Room for the labels of the y-axis, and what is kept free on the other sides.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 34.0;

/// How the curve of a policy is drawn: its classes in the style sheet. Colour says whose it is, dashes which.
pub fn style(policy: &str) -> &'static str {
    match policy {
        ORACLE => "oracle",
        _ if text::is_ours(policy) => "own thick",
        "round-robin" => "old",
        "queue-depth" => "old dash2",
        "numa" => "old dash3",
        "latency" => "new",
        DECAY_10 => "new dash2",
        "adaptive" => "new dash3",
        "dm-round-robin" => "dm",
        "queue-length" => "dm dash2",
        "service-time" => "dm dash3",
        "historical-service-time" => "dm dash4",
        _ => "other dash3",
    }
}

/// A list of these policies, each with a piece of its curve.
pub fn key<'a>(policies: impl Iterator<Item = &'a str>) -> String {
    let one = |policy: &str| {
        format!(
            "<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line class=\"line {}\" y1=\"7\" y2=\"7\" x2=\"28\"/></svg>{}</li>\n",
            style(policy),
            Escaped(policy)
        )
    };
    format!("<ul class=\"key\">\n{}</ul>\n", policies.map(one).collect::<String>())
}

/// Both axes.
struct Axes {
    /// Logarithms of the latencies at both ends.
    x: (f64, f64),
    /// Powers of ten that the y-axis goes down.
    decades: usize,
}

impl Axes {
    fn new(scene: &SceneOutcome) -> Self {
        let all = || scene.rows.iter().flat_map(|row| row.slower_us.iter().copied().chain([row.slowest_us]));
        let least = all().filter(|us| *us > 0.0).fold(f64::MAX, f64::min);
        let most = all().fold(least * 1.01, f64::max);
        let steps = scene.rows.iter().map(|row| row.slower_us.len()).max().unwrap_or(1);
        let decades = (-share_slower(steps.saturating_sub(1)).log10()).ceil().max(1.0) as usize;
        let least = if least == f64::MAX { 1.0 } else { least };
        Self { x: (least.log10() - 0.03, most.max(least * 1.01).log10() + 0.03), decades }
    }

    fn x(&self, us: f64) -> f64 {
        let share = (us.max(f64::MIN_POSITIVE).log10() - self.x.0) / (self.x.1 - self.x.0);
        LEFT + share.clamp(0.0, 1.0) * (SIZE.0 - LEFT - RIGHT)
    }

    fn y(&self, share: f64) -> f64 {
        TOP + (-share.log10() / self.decades as f64).clamp(0.0, 1.0) * (SIZE.1 - TOP - BOTTOM)
    }

    /// Round latencies: powers of ten, and between them if there are few.
    fn ticks(&self) -> Vec<f64> {
        let factors: &[f64] = if self.x.1 - self.x.0 > 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = (self.x.0.floor() as i32)..=(self.x.1.ceil() as i32);
        let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|us| (self.x.0..=self.x.1).contains(&us.log10())).collect()
    }

    fn draw(&self, svg: &mut String) {
        let (right, floor) = (SIZE.0 - RIGHT, SIZE.1 - BOTTOM);
        for decade in 0..=self.decades {
            let y = self.y(10f64.powi(-(decade as i32)));
            let percent = 100.0 / 10f64.powi(decade as i32);
            let _ = write!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let (x, y) = (LEFT - 6.0, y + 4.0);
            let _ = write!(svg, "<text class=\"soft\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{percent} %</text>");
        }
        for us in self.ticks() {
            let (x, y, text) = (self.x(us), floor + 15.0, span((us * 1e3).round() as u64).replace(".0", ""));
            let _ = write!(svg, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{floor}\"/>");
            let _ = write!(svg, "<text class=\"soft\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
        }
        let _ = write!(svg, "<text class=\"soft\" x=\"0\" y=\"10\">I/Os that take longer</text>");
        let (x, y) = (f64::midpoint(LEFT, right), SIZE.1 - 3.0);
        let _ = write!(svg, "<text class=\"soft\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">than</text>");
    }
}

/// The distributions of all contenders of `scene`; `id` is unique on the page.
pub fn draw(scene: &SceneOutcome, id: &str) -> String {
    let axes = Axes::new(scene);
    let title = format!("{}: share of I/Os that take longer", scene.name());
    let one = |row: &Row| format!("{}: 99 % within {} us", row.policy, grouped(row.p99_us));
    let shows = scene.rows.iter().map(one).collect::<Vec<_>>().join("; ");
    let mut svg = plot::begin(SIZE, id, &title, &shows);
    axes.draw(&mut svg);
    // Ours and the oracle go on top.
    let (above, below): (Vec<&Row>, Vec<&Row>) =
        scene.rows.iter().partition(|row| text::is_ours(&row.policy) || row.policy == ORACLE);
    below.into_iter().chain(above).for_each(|row| draw_curve(&mut svg, row, &axes));
    svg + "</svg>"
}

fn draw_curve(svg: &mut String, row: &Row, axes: &Axes) {
    let point = |(place, us): (usize, &f64)| (axes.x(*us), axes.y(share_slower(place)));
    let mut points: Vec<(f64, f64)> = row.slower_us.iter().enumerate().map(point).collect();
    points.extend(points.last().map(|(_, y)| (axes.x(row.slowest_us), *y)));
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let (style, name) = (style(&row.policy), Escaped(&row.policy));
    let _ = write!(
        svg,
        "<polyline class=\"line {style}\" points=\"{}\"><title>{name}</title></polyline>",
        points.join(" ")
    );
}
