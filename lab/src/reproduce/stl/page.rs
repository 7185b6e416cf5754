//! The report as one page.

use std::fmt::Write;

use super::outcome::{Report, Run};
use super::plan::{Row, System};
use super::text::figures;
use crate::reproduce::Goal;
use crate::reproduce::figures::{grouped, span};
use crate::reproduce::page::course::{Chart, Series};
use crate::reproduce::page::markup::Escaped;
use crate::reproduce::page::{Sheet, profiles};

/// What is this publication's own on its page.
pub fn sheet(report: &Report, goals: Vec<Goal>) -> Sheet {
    let mut sections = String::new();
    for row in Row::ALL {
        let runs: Vec<&Run> = report.runs.iter().filter(|run| run.row == row).collect();
        if !runs.is_empty() {
            write_row(&mut sections, row, &runs);
        }
    }
    let warning = "Runs were cut short: the figures show that everything runs, no more.".to_owned();
    Sheet {
        name: "stl",
        title: "A log-structured target on zoned disks",
        lead: "What the target stl makes of a zoned disk: files, random writes, flushes, an aged volume, reads and starts, beside \
               dm-zoned under both policies and the drive itself.",
        link: None,
        warning: report.is_cut.then_some(warning),
        summary: String::new(),
        goals,
        key: KEY,
        sections,
        foot: format!(
            "In virtual time, seed {}, but for the device in memory.{}",
            report.seed,
            profiles(&report.profiles)
        ),
    }
}

const KEY: &str = "<ul class=\"key\">\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line class=\"series own\" y1=\"7\" y2=\"7\" x2=\"28\"/></svg>stl</li>\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line class=\"series new\" y1=\"7\" y2=\"7\" x2=\"28\"/></svg>stl otherwise, and dm-zoned with our policy</li>\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line class=\"series old\" y1=\"7\" y2=\"7\" x2=\"28\"/></svg>dm-zoned with the kernel's policy, and the bare drive</li>\n</ul>\n\
<p>Where a file system that knows zones can be used on the raw disk, btrfs or XFS, it serves better: it knows what belongs together and what \
was deleted, and pays for one map instead of two. stl is for what needs an ordinary block device: other file systems, virtual machines, exports.</p>\n";

/// The class of a system in the style sheet.
fn class(system: System) -> &'static str {
    match system {
        System::Stl => "own",
        System::Greedy | System::InMemory | System::Shingle => "new",
        System::Kernel | System::Drive => "old",
    }
}

fn write_row(page: &mut String, row: Row, runs: &[&Run]) {
    let id = row.name();
    let _ = writeln!(
        page,
        "<section class=\"full\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>",
        Escaped(row.title())
    );
    if runs.iter().any(|run| run.samples.len() > 1) {
        let rate =
            chart(row, runs, "Rate that users see", |run| run.samples.iter().map(|sample| sample.mb_per_s).collect());
        let _ = writeln!(page, "<figure class=\"wide\">{}</figure>", rate.draw(&format!("{id}-0")));
    }
    if row.is_aged() {
        let slope = chart(row, runs, "Written to the drive", |run| {
            run.samples.iter().map(|sample| sample.written_mb_per_s).collect()
        });
        let _ = writeln!(page, "<figure class=\"wide\">{}</figure>", slope.draw(&format!("{id}-1")));
    }
    write_table(page, runs);
    page.push_str("</section>\n");
}

fn chart(row: Row, runs: &[&Run], title: &str, of: impl Fn(&Run) -> Vec<f64>) -> Chart {
    let series = runs.iter().filter(|run| run.samples.len() > 1);
    let series = series.map(|run| Series {
        name: run.system.name(),
        class: class(run.system),
        values: of(run),
        seconds: run.seconds(),
    });
    Chart {
        title: title.to_owned(),
        unit: "MB/s",
        seconds: runs.iter().map(|run| run.seconds()).max().unwrap_or(0),
        size: (900.0, if row == Row::Files { 330.0 } else { 240.0 }),
        most: None,
        bands: Vec::new(),
        series: series.collect(),
    }
}

fn write_table(page: &mut String, runs: &[&Run]) {
    page.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Figures\"><table>\n<thead><tr><th class=\"text\">system</th>\
         <th>MB/s</th><th>I/Os a second</th><th>slowest 10 min</th><th>slowest 10 s</th><th>slowest second</th>\
         <th>99.99 % of writes within</th><th>slowest write</th><th class=\"text\">more</th></tr></thead>\n<tbody>\n",
    );
    for run in runs {
        let _ = write!(page, "<tr><th>{}</th>", run.system.name());
        match &run.excuse() {
            Some(why) => _ = write!(page, "<td colspan=\"8\" class=\"text\">{}</td>", Escaped(why)),
            None => write_run(page, run),
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn write_run(page: &mut String, run: &Run) {
    let slowest = |seconds| run.slowest(seconds).map_or(String::new(), |(rate, _)| format!("{rate:.1}"));
    let of_time = |figure: String| if run.samples.is_empty() { String::new() } else { figure };
    let cells = [
        of_time(format!("{:.1}", run.mb_per_s())),
        of_time(grouped(run.mean(|sample| sample.ios_per_s))),
        slowest(600),
        slowest(10),
        of_time(format!("{:.1}", run.slowest_second_mb)),
        of_time(span(run.p9999_ns)),
        of_time(span(run.slowest_ns)),
    ];
    cells.iter().for_each(|cell| _ = write!(page, "<td>{cell}</td>"));
    let more: Vec<String> = figures(run).map(|(name, value)| format!("{name} {value}")).collect();
    let _ = write!(page, "<td class=\"text\">{}</td>", Escaped(&more.join(", ")));
}
