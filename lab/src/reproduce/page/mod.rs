//! The report as one page: no script, no font, no image, nothing that is loaded from outside.
//!
//! Colour says whose policy it is, the same on the whole page: grey what was before, blue what was published as better, orange
//! ours. It is never alone: marks differ in shape, and everything is labelled.

mod bars;
pub(super) mod imprint;
mod lines;
pub(super) mod markup;
mod numbers;
pub(super) mod scale;

use std::fmt::Write;

use imprint::Imprint;
use markup::Escaped;

use super::figures::off;
use super::outcome::ClassSummary;
use super::{CellOutcome, Class, Goal, Policy, Publication, Report, TableOutcome, goals};

/// Whose policy a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Paint {
    Old,
    New,
    Own,
}

fn paint(cell: &CellOutcome) -> Paint {
    if cell.is_ours() {
        Paint::Own
    } else if cell.is_baseline || cell.policy.starts_with(Policy::ZoneLock.name()) || cell.policy == "cloned" {
        Paint::Old
    } else {
        Paint::New
    }
}

/// The page.
#[must_use]
pub fn to_html(report: &Report, imprint: &Imprint) -> String {
    let (command, title) = match report.publication {
        Publication::Zwp => ("shingle reproduce zwp", "Zone write plugging, run again"),
        Publication::Qd1 => ("shingle reproduce qd1", "QD1 writing, run again"),
        Publication::Noclone => ("shingle reproduce noclone", "Device mapper without clones, run again"),
    };
    let mut page = begin_page(command, title);
    write_head(&mut page, report);
    page.push_str("</header>\n<main>\n");
    report.tables.iter().for_each(|table| write_table(&mut page, report, table));
    page.push_str("</main>\n");
    write_foot(&mut page, report, imprint);
    page.push_str("</body>\n</html>\n");
    page
}

/// The beginning of a page, up to and with its heading; `</header>` is still to come.
pub(super) fn begin_page(command: &str, title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<header>\n<p class=\"command\"><code>{command}</code></p>\n\
         <h1>{title}</h1>\n",
        include_str!("style.css")
    )
}

fn write_head(page: &mut String, report: &Report) {
    let what = match report.publication {
        Publication::Zwp => {
            "The tables of the patch series that replaced zone write locking in Linux, with our figure beside each of theirs, \
             and a row for a policy of our own."
        }
        Publication::Qd1 => {
            "The tables of the patch series that made Linux write to rotating zoned disks one command at a time, with our \
             figure beside each of theirs, and a row for a policy of our own."
        }
        Publication::Noclone => {
            "The table of a patch that let device mapper map a request without cloning it, with our figure beside each of \
             theirs; then every target, and layers on top of each other."
        }
    };
    let _ = writeln!(page, "<p class=\"lead\">{what}</p>");
    if report.quick {
        page.push_str(
            "<p class=\"warning\">Runs were cut short: the figures show that everything runs, no more.</p>\n",
        );
    }
    page.push_str("<dl>\n");
    report.summary().iter().for_each(|class| write_class(page, report, class));
    page.push_str("</dl>\n");
    write_goals(page, &goals(report));
    page.push_str(KEY);
}

const KEY: &str = "<ul class=\"key\">\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><rect class=\"bar old\" y=\"2\" width=\"28\" height=\"10\"/></svg>before</li>\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><rect class=\"bar new\" y=\"2\" width=\"28\" height=\"10\"/></svg>the series</li>\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><rect class=\"bar own\" y=\"2\" width=\"28\" height=\"10\"/></svg>our own</li>\n\
<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line class=\"tick\" x1=\"7\" x2=\"7\" y1=\"0\" y2=\"14\"/>\
<circle class=\"point new\" cx=\"21\" cy=\"7\" r=\"4\"/></svg>published; bars and curves are ours</li>\n</ul>\n";

fn write_class(page: &mut String, report: &Report, summary: &ClassSummary) {
    let (title, figure, text) = match summary.class {
        Class::Calibrated | Class::Predicted => {
            let percent = summary.class.tolerance().unwrap_or(0.0) * 100.0;
            let worst = summary
                .worst
                .as_ref()
                .map_or(String::new(), |(name, ratio)| format!("; furthest off is {name}, {}", off(*ratio)));
            let (title, kind) = match summary.class {
                Class::Calibrated => ("Calibrated", "rows that set the models' parameters"),
                _ => ("Predicted", "rows that the models had not seen"),
            };
            let figure = format!("{} of {}", summary.within, summary.judged);
            let copies = match summary.class {
                Class::Predicted => format!(
                    "; {} would be met by a copy of the old kernel's figure and tell nothing, of the other {} hold {}",
                    summary.judged - summary.telling,
                    summary.telling,
                    summary.telling_within
                ),
                _ => String::new(),
            };
            (title, figure, format!("within {percent:.0} % of the published figure, {kind}{copies}{worst}"))
        }
        Class::Measured => {
            let text =
                format!("run for real on the {} cores of this machine: there, only ratios compare", report.cores);
            ("Measured", summary.cells.to_string(), text)
        }
        // What these show is a list of its own.
        Class::Own => return,
    };
    let _ = writeln!(page, "<div><dt>{title}</dt><dd class=\"figure\">{figure}</dd><dd>{}</dd></div>", Escaped(&text));
}

/// What is asked of our own policy, with a word for whether it holds: a colour alone would not tell everybody.
pub(super) fn write_goals(page: &mut String, goals: &[Goal]) {
    if goals.is_empty() {
        return;
    }
    page.push_str("<h2 class=\"goals\">What ours has to show</h2>\n<ul class=\"goals\">\n");
    for Goal { text, is_reached, found } in goals {
        let (class, word) = if *is_reached { ("yes", "Reached") } else { ("no", "Missed") };
        let (text, found) = (Escaped(text), Escaped(found));
        let _ = writeln!(page, "<li class=\"{class}\"><b>{word}</b><span>{text}<small>{found}</small></span></li>");
    }
    page.push_str("</ul>\n");
}

fn write_table(page: &mut String, report: &Report, table: &TableOutcome) {
    let id = &table.name;
    let (half, title) = (if table.axis.is_some() { "half" } else { "full" }, Escaped(&table.title));
    let _ = writeln!(page, "<section class=\"{half}\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>");
    let source: Vec<String> = table.source.lines().map(|line| Escaped(line).to_string()).collect();
    let _ = writeln!(page, "<p class=\"source\">{}</p>", source.join("<br/>"));
    if table.axis.is_some() {
        let _ = writeln!(page, "<figure class=\"curves\">{}</figure>", lines::draw(table, &format!("{id}-0")));
    } else {
        write_groups(page, table);
    }
    let _ = writeln!(page, "<details>\n<summary>All numbers of this table</summary>");
    page.push_str(&numbers::draw(report, table));
    page.push_str("</details>\n</section>\n");
}

/// A row of plots for each device; one row for all where each device has few of them.
fn write_groups(page: &mut String, table: &TableOutcome) {
    let loads = |group: &[CellOutcome]| group.chunk_by(|a, b| a.load == b.load).count();
    let in_one_row = table.groups().all(|group| loads(group) <= 2);
    if in_one_row {
        page.push_str("<div class=\"panels\">\n");
    }
    for (place, group) in table.groups().enumerate() {
        if !in_one_row {
            let _ = writeln!(page, "<h3>{}</h3>\n<div class=\"panels\">", Escaped(device_title(&group[0].group)));
        }
        for (number, cells) in group.chunk_by(|a, b| a.load == b.load).enumerate() {
            let device = if in_one_row { device_title(&group[0].group) } else { "" };
            write_plot(page, table, cells, (device, &format!("{}-{place}-{number}", table.name)));
        }
        if !in_one_row {
            page.push_str("</div>\n");
        }
    }
    if in_one_row {
        page.push_str("</div>\n");
    }
}

fn write_plot(page: &mut String, table: &TableOutcome, cells: &[CellOutcome], (device, id): (&str, &str)) {
    let cell = &cells[0];
    let compared = !cell.simulated && table.baseline_of(cell).is_some();
    let unit = if compared { "times the baseline".to_owned() } else { cell.unit.to_string() };
    let whose = if cells.iter().any(|cell| cell.published.is_some()) { "published, ours" } else { "ours" };
    let title = load_title(cell);
    let title = if device.is_empty() { title } else { format!("{device}: {title}") };
    let _ = writeln!(
        page,
        "<figure><figcaption><strong>{}</strong>{unit}: {whose}</figcaption>{}</figure>",
        Escaped(&title),
        bars::draw(table, cells, id),
    );
}

fn device_title(group: &str) -> &str {
    match group {
        "x86-64" => "Published for two x86-64 of six cores",
        "arm64" => "Published for an arm64 of four cores",
        "sequential" => "Sequential reads",
        "random" => "Random reads",
        "nullblk" => "null_blk, for real",
        "zns" => "ZNS SSD, 1 TB",
        "smr" => "SMR disk, 26 TB",
        "ahci" => "At AHCI",
        "hba1m" => "At an adapter that takes 1 MiB at most",
        other => other,
    }
}

fn load_title(cell: &CellOutcome) -> String {
    let words = match cell.load.as_str() {
        "seqw4K1" => "4 KiB sequential, one in flight",
        "seqw4K16" => "4 KiB sequential, 16 in flight",
        "seqw1M16" => "1 MiB sequential, 16 in flight",
        "rndw4K16" => "4 KiB to random zones, 16 in flight",
        "rndw128K16" => "128 KiB to random zones, 16 in flight",
        other => other,
    };
    words.to_owned()
}

fn write_foot(page: &mut String, report: &Report, imprint: &Imprint) {
    page.push_str("<footer>\n<p>");
    if report.cells().any(|(_, cell)| cell.simulated) {
        let _ = write!(page, "Seed {} of the simulated cells.", report.seed);
    }
    for profile in &report.profiles {
        let _ = write!(
            page,
            " Profile <code>{}</code>, parameters <code>{}</code>.",
            Escaped(&profile.name),
            Escaped(&profile.hash)
        );
    }
    if let Some(spread) = report.spread() {
        let _ = write!(page, " Ratios of measured cells are right to {:.1} %.", spread * 100.0);
    }
    page.push_str(" Longest waits of measured cells are those of a machine with other work to do.</p>\n");
    let link = match report.publication {
        Publication::Zwp => Some(&imprint::ZWP),
        Publication::Qd1 => Some(&imprint::QD1),
        // Nobody who keeps the mail is known.
        Publication::Noclone => None,
    };
    imprint.write(page, link);
}
