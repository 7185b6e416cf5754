//! The report as one page.

use std::fmt::Write;

use super::outcome::{Report, Run, Sample};
use super::published::{Published, PublishedPhase};
use super::{MINUTES, Setup};
use crate::reproduce::Goal;
use crate::reproduce::figures::off;
use crate::reproduce::page::course::{Band, Chart, Series};
use crate::reproduce::page::markup::Escaped;
use crate::reproduce::page::{Sheet, imprint, profiles, source};

/// What is this publication's own on its page.
pub fn sheet(report: &Report, published: &Published, goals: Vec<Goal>) -> Sheet {
    let minutes = report.minutes;
    let mut sections = String::new();
    for setup in Setup::ALL {
        let runs: Vec<&Run> = report.runs.iter().filter(|run| run.setup == setup).collect();
        if !runs.is_empty() {
            write_setup(&mut sections, (setup, &runs), published);
        }
    }
    let foot = format!(
        "All of it in virtual time, seed {}.{} What was fitted to the published phases: docs/simulator.md.",
        report.seed,
        profiles(&report.profiles)
    );
    let warning =
        (minutes < MINUTES).then(|| format!("Runs were cut to {minutes} minutes of the published {MINUTES}."));
    Sheet {
        name: "dmzoned",
        title: "Two hours of files on dm-zoned, run again",
        lead: "An SMR disk used as an ordinary one: what twenty programs get that write files through ext4, as a user \
               published it for the kernel's target, beside the same format under the policy of that kernel, of today's, and \
               under ours.",
        link: Some(imprint::DMZONED),
        warning,
        summary: String::new(),
        goals,
        key: KEY,
        sections,
        foot,
    }
}

const KEY: &str = "<ul class=\"key\">\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line class=\"series new\" y1=\"7\" y2=\"7\" x2=\"28\"/></svg>the policy of the kernel of 2020</li>\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line class=\"series old\" y1=\"7\" y2=\"7\" x2=\"28\"/></svg>of today's kernel</li>\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line class=\"series own\" y1=\"7\" y2=\"7\" x2=\"28\"/></svg>ours</li>\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><rect class=\"band\" y=\"3\" width=\"28\" height=\"8\"/></svg>published</li>\n</ul>\n";

fn write_setup(page: &mut String, (setup, runs): (Setup, &[&Run]), published: &Published) {
    let id = setup.name();
    let _ =
        writeln!(page, "<section class=\"full\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>", setup.heading());
    page.push_str(&source(&published.source));
    let phases: Vec<&PublishedPhase> = published.phases.iter().filter(|phase| phase.setup == setup).collect();
    let speed = Panel {
        title: "Speed that programs see",
        unit: "MB/s",
        most: None,
        of: |run| each(run, |sample| sample.mb_per_s),
    };
    let bands = phases.iter().map(|phase| band(phase)).collect();
    let _ = writeln!(
        page,
        "<figure class=\"wide\">{}</figure>\n<div class=\"panels pairs\">",
        speed.draw(runs, bands, (id, 0))
    );
    for (panel, number) in PANELS.iter().zip(1..) {
        let _ = writeln!(
            page,
            "<figure><figcaption><strong>{}</strong></figcaption>{}</figure>",
            Escaped(panel.title),
            panel.draw(runs, Vec::new(), (id, number))
        );
    }
    page.push_str("</div>\n");
    write_phases(page, runs, &phases);
    page.push_str("</section>\n");
}

/// A chart of one thing over time.
struct Panel {
    title: &'static str,
    unit: &'static str,
    most: Option<f64>,
    of: fn(&Run) -> Vec<f64>,
}

/// A number of each sample.
fn each(run: &Run, of: fn(&Sample) -> f64) -> Vec<f64> {
    run.samples.iter().map(of).collect()
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Free zones of those that take random writes",
        unit: "percent",
        most: Some(100.0),
        of: |run| each(run, |sample| sample.zones.buffers().percent()),
    },
    Panel {
        title: "Free sequential zones",
        unit: "percent",
        most: Some(100.0),
        of: |run| each(run, |sample| sample.zones.sequential.percent()),
    },
    Panel { title: "What reclaim reads", unit: "MB/s", most: None, of: |run| each(run, |sample| sample.read_mb_per_s) },
    Panel {
        title: "Bytes written to drives for one stored, so far",
        unit: "times",
        most: None,
        of: Run::write_amplification_so_far,
    },
];

impl Panel {
    fn draw(&self, runs: &[&Run], bands: Vec<Band>, (setup, number): (&str, u32)) -> String {
        let one = |run: &&Run| Series {
            name: run.policy.name(),
            class: run.policy.class(),
            values: (self.of)(run),
            seconds: run.seconds(),
        };
        let chart = Chart {
            title: self.title.to_owned(),
            unit: self.unit,
            seconds: runs.iter().map(|run| run.seconds()).max().unwrap_or(0),
            size: if number == 0 { (900.0, 330.0) } else { (400.0, 220.0) },
            most: self.most,
            bands,
            series: runs.iter().map(one).collect(),
        };
        chart.draw(&format!("{setup}-{number}"))
    }
}

fn band(phase: &PublishedPhase) -> Band {
    let title = format!("published: {phase} MB/s, {}", phase.what);
    Band { span_s: phase.from_s.zip(phase.to_s), range: (phase.low, phase.high), title }
}

fn write_phases(page: &mut String, runs: &[&Run], phases: &[&PublishedPhase]) {
    page.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Phases\"><table>\n<thead><tr><th class=\"text\">phase</th><th>seconds</th><th>published, MB/s</th>");
    for run in runs {
        let _ = write!(page, "<th>{}</th>", run.policy.name());
        if run.policy.is_kernel() {
            page.push_str("<th>off</th>");
        }
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for phase in phases {
        let (number, what) = (phase.number, Escaped(&phase.what));
        let _ = write!(page, "<tr><th>{number}: {what}</th><td>{}</td><td>{phase}</td>", when(phase));
        for run in runs {
            write_found(page, run, phase);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// When a phase was, as far as that was published.
pub fn when(phase: &PublishedPhase) -> String {
    match (phase.from_s, phase.to_s) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        _ => String::new(),
    }
}

fn write_found(page: &mut String, run: &Run, phase: &PublishedPhase) {
    let Found { speed, off } = Found::new(run, phase);
    let _ = write!(page, "<td>{speed}</td>");
    if run.policy.is_kernel() {
        let _ = write!(page, "<td>{off}</td>");
    }
}

/// The speed of a run in a phase, and how far off that is; empty if the run ended before. Where nobody published when a phase
/// was, the minutes were chosen for their speed: only whether there are any says something.
#[derive(Default)]
pub struct Found {
    /// The speed.
    pub speed: String,
    /// How far off.
    pub off: String,
}

impl Found {
    /// What `run` did in `phase`.
    pub fn new(run: &Run, phase: &PublishedPhase) -> Self {
        match run.in_phase(phase) {
            None if phase.is_timed() => Self::default(),
            None => Self { speed: "never".into(), off: "NOT MET".into() },
            Some((speed, _)) if phase.is_timed() => {
                Self { speed: format!("{speed:.0}"), off: off(1.0 + phase.off(speed)) }
            }
            Some((speed, seconds)) => {
                Self { speed: format!("{speed:.0} for {} min", seconds / 60), off: "chosen".into() }
            }
        }
    }
}
