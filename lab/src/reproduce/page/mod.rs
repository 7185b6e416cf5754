//! The report as one page: no script, no font, no image, nothing that is loaded from outside.
//!
//! Colour says whose policy it is, the same on the whole page: grey what was before, blue what was published as better, orange
//! ours. It is never alone: marks differ in shape, and everything is labelled.

mod bars;
pub(super) mod course;
pub(super) mod imprint;
mod lines;
pub(super) mod markup;
mod numbers;
pub(super) mod plot;
pub(super) mod scale;

use std::fmt::Write;

use imprint::{Imprint, Link};
use markup::Escaped;

use super::figures::off;
use super::outcome::ClassSummary;
use super::{CellOutcome, Class, Goal, Policy, ProfileFacts, Publication, Report, TableOutcome};

/// Whose policy a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Paint {
    Old,
    New,
    Own,
}

impl Paint {
    /// Its class in the style sheet.
    const fn class(self) -> &'static str {
        match self {
            Paint::Old => "old",
            Paint::New => "new",
            Paint::Own => "own",
        }
    }
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

/// What a publication gives to its page: words, and markup.
pub struct Sheet {
    /// The publication as the command line names it.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What there is to see.
    pub(super) lead: &'static str,
    /// Where it was published, if somebody is known who keeps the mail.
    pub(super) link: Option<Link>,
    /// What a reader has to know before anything else, if there is something.
    pub(super) warning: Option<String>,
    /// What it all amounts to.
    pub(super) summary: String,
    pub(super) goals: Vec<Goal>,
    /// What colours and marks mean.
    pub(super) key: &'static str,
    /// Tables and charts.
    pub(super) sections: String,
    /// What stands at the foot.
    pub(super) foot: String,
}

impl Sheet {
    /// The page.
    pub fn to_html(&self, imprint: &Imprint) -> String {
        let Self { name, title, lead, .. } = self;
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
             <style>\n{}</style>\n</head>\n<body>\n<header>\n<p class=\"command\"><code>shingle reproduce {name}</code></p>\n\
             <h1>{title}</h1>\n<p class=\"lead\">{lead}</p>\n",
            include_str!("style.css")
        );
        if let Some(warning) = &self.warning {
            let _ = writeln!(page, "<p class=\"warning\">{warning}</p>");
        }
        page += &self.summary;
        write_goals(&mut page, &self.goals);
        let _ = write!(page, "{}</header>\n<main>\n{}</main>\n", self.key, self.sections);
        let _ = writeln!(page, "<footer>\n<p>{}</p>", self.foot);
        imprint.write(&mut page, self.link.as_ref());
        page + "</body>\n</html>\n"
    }

    pub(super) fn of_cells(report: &Report, goals: Vec<Goal>) -> Self {
        let (name, title, lead, link) = match report.publication {
            Publication::Qd1 => (
                "qd1",
                "QD1 writing, run again",
                "The tables of the patch series that made Linux write to rotating zoned disks one command at a time, with our \
                 figure beside each of theirs, and a row for a policy of our own.",
                Some(imprint::QD1),
            ),
            Publication::Noclone => (
                "noclone",
                "Device mapper without clones, run again",
                "The table of a patch that let device mapper map a request without cloning it, with our figure beside each of \
                 theirs; then every target, and layers on top of each other.",
                None,
            ),
            _ => (
                "zwp",
                "Zone write plugging, run again",
                "The tables of the patch series that replaced zone write locking in Linux, with our figure beside each of \
                 theirs, and a row for a policy of our own.",
                Some(imprint::ZWP),
            ),
        };
        let mut summary = String::from("<dl>\n");
        report.summary().iter().for_each(|class| write_class(&mut summary, report, class));
        summary.push_str("</dl>\n");
        let mut sections = String::new();
        report.tables.iter().for_each(|table| write_table(&mut sections, report, table));
        let warning = "Runs were cut short: the figures show that everything runs, no more.";
        let warning = report.quick.then(|| warning.to_owned());
        Self { name, title, lead, link, warning, summary, goals, key: KEY, sections, foot: foot(report) }
    }
}

/// What models were made from.
pub(super) fn profiles(all: &[ProfileFacts]) -> String {
    let one = |ProfileFacts { name, hash, .. }: &ProfileFacts| {
        format!(" Profile <code>{}</code>, parameters <code>{}</code>.", Escaped(name), Escaped(hash))
    };
    all.iter().map(one).collect()
}

/// Where a table was published.
pub(super) fn source(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| Escaped(line).to_string()).collect();
    format!("<p class=\"source\">{}</p>\n", lines.join("<br/>"))
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
fn write_goals(page: &mut String, goals: &[Goal]) {
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
    page.push_str(&source(&table.source));
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
            let id = format!("{}-{place}-{number}", table.name);
            let caption = caption(table, cells, device);
            let _ = writeln!(page, "<figure>{caption}{}</figure>", bars::draw(table, cells, &id));
        }
        if !in_one_row {
            page.push_str("</div>\n");
        }
    }
    if in_one_row {
        page.push_str("</div>\n");
    }
}

fn caption(table: &TableOutcome, cells: &[CellOutcome], device: &str) -> String {
    let cell = &cells[0];
    let compared = !cell.simulated && table.baseline_of(cell).is_some();
    let unit = if compared { "times the baseline".to_owned() } else { cell.unit.to_string() };
    let whose = if cells.iter().any(|cell| cell.published.is_some()) { "published, ours" } else { "ours" };
    let title = load_title(cell);
    let title = if device.is_empty() { title } else { format!("{device}: {title}") };
    format!("<figcaption><strong>{}</strong>{unit}: {whose}</figcaption>", Escaped(&title))
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

fn foot(report: &Report) -> String {
    let mut foot = String::new();
    if report.cells().any(|(_, cell)| cell.simulated) {
        let _ = write!(foot, "Seed {} of the simulated cells.", report.seed);
    }
    foot += &profiles(&report.profiles);
    if let Some(spread) = report.spread() {
        let _ = write!(foot, " Ratios of measured cells are right to {:.1} %.", spread * 100.0);
    }
    foot + " Longest waits of measured cells are those of a machine with other work to do."
}
