//! The report as lines of tables.

use std::fmt::Write;

use super::outcome::{Report, Run};
use crate::reproduce::figures::{grouped, span};
use crate::reproduce::text::Part;

/// The runs.
pub fn parts(report: &Report) -> Vec<Part> {
    let header = [
        "row",
        "system",
        "MB/s",
        "writes/s",
        "slowest 10 min",
        "slowest 10 s",
        "from s",
        "slowest s",
        "p99.99",
        "slowest write",
        "amplification",
        "CPU s",
    ];
    let rows = report.runs.iter().map(row).collect();
    let mut parts = vec![Part::table(&header, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11], rows)];
    for run in &report.runs {
        let mut lines = format!("\n{} / {}:\n", run.row.name(), run.system.name());
        for (name, count) in &run.counters {
            let _ = writeln!(lines, "  {name} {count}");
        }
        let minutes = run.samples.chunks((60 / run.interval_s).max(1) as usize);
        let minute = |all: &[super::Sample]| {
            let mean = |of: fn(&super::Sample) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
            let of = [mean(|s| s.mb_per_s), mean(|s| s.written_mb_per_s), mean(|s| s.read_mb_per_s)];
            format!("{:.0}({:.0},{:.0})", of[0], of[1], of[2])
        };
        let _ = writeln!(
            lines,
            "  MB/s by minute (drives written, read): {}",
            minutes.map(minute).collect::<Vec<_>>().join(" ")
        );
        parts.push(Part::Lines(lines));
    }
    parts
}

fn row(run: &Run) -> Vec<String> {
    let of_mb = |seconds| run.slowest(seconds, |sample| sample.mb_per_s);
    let slowest = |seconds| of_mb(seconds).map_or(String::new(), |(speed, _)| format!("{speed:.0}"));
    let written = run.mean(|sample| sample.written_mb_per_s) / run.mean(|sample| sample.mb_per_s).max(0.1);
    vec![
        run.row.name().to_owned(),
        run.system.name().to_owned(),
        format!("{:.1}", run.mean(|sample| sample.mb_per_s)),
        grouped(run.mean(|sample| sample.ios_per_s)),
        slowest(600),
        slowest(10),
        of_mb(10).map_or(String::new(), |(_, from)| from.to_string()),
        format!("{:.1}", run.slowest_second_mb),
        span(run.p9999_ns),
        span(run.slowest_ns),
        format!("{written:.3}"),
        format!("{:.1}", run.cpu.0),
    ]
}
