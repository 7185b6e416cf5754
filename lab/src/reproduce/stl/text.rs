//! The report as lines of tables.

use std::fmt::Write;

use super::outcome::{Report, Run, Sample};
use crate::reproduce::Goal;
use crate::reproduce::figures::{grouped, span};
use crate::reproduce::text::{Part, of_goals};

const HEADER: [&str; 12] = [
    "row",
    "system",
    "MB/s",
    "I/Os a second",
    "slowest 10 min",
    "slowest 10 s",
    "slowest s",
    "p99.99",
    "slowest write",
    "written / user's",
    "CPU s",
    "minutes",
];

/// The runs, what each has of its own, and the goals.
pub fn parts(report: &Report, goals: &[Goal]) -> Vec<Part> {
    let is_run = |run: &&Run| !run.samples.is_empty();
    let rows = report.runs.iter().filter(is_run).map(row).collect();
    let mut parts = vec![Part::table(&HEADER, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11], rows)];
    parts.extend(report.runs.iter().map(|run| Part::Lines(details(run))));
    parts.extend(of_goals(goals));
    parts
}

fn row(run: &Run) -> Vec<String> {
    let slowest = |seconds| run.slowest(seconds).map_or(String::new(), |(rate, _)| format!("{rate:.1}"));
    let user = run.mean(|sample| sample.mb_per_s);
    let written = run.mean(|sample| sample.written_mb_per_s) / user.max(1e-3);
    vec![
        run.row.name().to_owned(),
        run.system.name().to_owned(),
        format!("{user:.1}"),
        grouped(run.mean(|sample| sample.ios_per_s)),
        slowest(600),
        slowest(10),
        format!("{:.1}", run.slowest_second_mb),
        span(run.p9999_ns),
        span(run.slowest_ns),
        format!("{written:.2}"),
        format!("{:.1}", run.cpu.0),
        format!("{:.1}", run.samples.len() as f64 * f64::from(run.interval_s) / 60.0),
    ]
}

/// What a row has of its own.
pub fn figures(run: &Run) -> impl Iterator<Item = (&str, String)> {
    run.figures.iter().map(|(name, value)| match name.strip_suffix("_ns") {
        Some(name) => (name, span(*value as u64)),
        None if *value < 1000.0 => (name.as_str(), format!("{value:.3}")),
        None => (name.as_str(), grouped(*value)),
    })
}

/// Stretches that a run is shown in.
const STRETCHES: usize = 30;

fn details(run: &Run) -> String {
    let mut lines = format!("\n{} / {}", run.row.name(), run.system.name());
    if let Some(why) = run.excuse() {
        let _ = writeln!(lines, ": {why}");
        return lines;
    }
    lines.push('\n');
    figures(run).for_each(|(name, value)| _ = writeln!(lines, "  {name} {value}"));
    let counters: Vec<String> =
        run.counters.iter().filter(|it| *it.1 > 0).map(|it| format!("{} {}", it.0, it.1)).collect();
    if !counters.is_empty() {
        let _ = writeln!(lines, "  {}", counters.join(", "));
    }
    if !run.samples.is_empty() {
        let size = run.samples.len().div_ceil(STRETCHES);
        let all: Vec<String> = run.samples.chunks(size).map(stretch).collect();
        let _ =
            writeln!(lines, "  MB/s in turns of {} s (written, read): {}", size as u32 * run.interval_s, all.join(" "));
    }
    lines
}

fn stretch(samples: &[Sample]) -> String {
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
    let (written, read) = (mean(|sample| sample.written_mb_per_s), mean(|sample| sample.read_mb_per_s));
    format!("{:.0}({written:.0},{read:.0})", mean(|sample| sample.mb_per_s))
}
