//! The report as lines of tables.

use super::outcome::Report;
use super::page::{Found, when};
use super::published::Published;
use super::{Policy, Setup};
use crate::reproduce::Goal;
use crate::reproduce::text::{Part, of_goals};

/// The runs, then the published phases; and the goals.
pub fn parts(report: &Report, published: &Published, goals: &[Goal]) -> Vec<Part> {
    let mut parts = vec![runs(report), Part::Lines("\n".into()), phases(report, published)];
    parts.extend(of_goals(goals));
    parts
}

/// Published and found, phase by phase.
fn phases(report: &Report, published: &Published) -> Part {
    let header = ["drives", "phase", "seconds", "published", "kernel-2020", "off", "kernel", "off", "shingle", "what"];
    let rows = published.phases.iter().filter(|phase| report.runs.iter().any(|run| run.setup == phase.setup));
    let rows = rows.map(|phase| {
        let of = |policy| report.run(phase.setup, policy).map(|run| Found::new(run, phase)).unwrap_or_default();
        let [then, kernel] = [Policy::Kernel2020, Policy::Kernel].map(of);
        vec![
            phase.setup.name().to_owned(),
            phase.number.to_string(),
            when(phase),
            phase.to_string(),
            then.speed,
            then.off,
            kernel.speed,
            kernel.off,
            of(Policy::Shingle).speed,
            phase.what.clone(),
        ]
    });
    Part::table(&header, &[1, 3, 4, 5, 6, 7, 8], rows.collect())
}

/// Each run in a line.
fn runs(report: &Report) -> Part {
    let header =
        ["drives", "policy", "MB/s", "slowest 10 min", "from minute", "written / stored", "free buffers", "ended"];
    let mut rows = Vec::new();
    for run in Setup::ALL.into_iter().flat_map(|setup| report.runs.iter().filter(move |run| run.setup == setup)) {
        let mean = run.mean(|sample| sample.mb_per_s, 0..run.seconds()).unwrap_or(0.0);
        let (slowest, from) = run
            .slowest(600)
            .map_or((String::new(), String::new()), |(speed, from)| (format!("{speed:.0}"), (from / 60).to_string()));
        let free = run.samples.last().map_or(0.0, |sample| sample.zones.buffers().percent());
        rows.push(vec![
            run.setup.name().to_owned(),
            run.policy.name().to_owned(),
            format!("{mean:.0}"),
            slowest,
            from,
            format!("{:.2}", run.write_amplification()),
            format!("{free:.0} %"),
            run.ending.clone(),
        ]);
    }
    Part::table(&header, &[2, 3, 4, 5, 6], rows)
}
