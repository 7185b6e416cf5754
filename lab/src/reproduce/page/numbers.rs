//! The numbers of a table, as a table.

use std::fmt::Write;

use super::markup::Escaped;
use super::{Paint, paint};
use crate::reproduce::figures::{grouped, off, span, times};
use crate::reproduce::{CellOutcome, Report, TableOutcome};

/// A table in a frame that scrolls sideways where the page is narrow.
pub fn draw(report: &Report, table: &TableOutcome) -> String {
    let mut html = String::new();
    for group in table.groups() {
        html.push_str(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Numbers\"><table>\n<thead><tr>",
        );
        let names = header(report, group);
        for (place, name) in names.iter().enumerate() {
            let class = if place < 2 || place + 1 == names.len() { " class=\"text\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", Escaped(name));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (place, cell) in group.iter().enumerate() {
            let is_first = place == 0 || group[place - 1].load != cell.load;
            write_row(&mut html, table, cell, is_first);
        }
        html.push_str("</tbody>\n</table></div>\n");
    }
    html
}

fn header(report: &Report, group: &[CellOutcome]) -> Vec<String> {
    let first = [group[0].group.as_str(), "system", "published"].map(String::from);
    let middle = if group[0].simulated {
        ["ours", "off", "published x baseline", "ours x baseline"].map(String::from).to_vec()
    } else {
        let cores = format!("{} cores", report.cores);
        let times = format!("{cores} x baseline");
        ["1 core", &cores, "published x baseline", "1 core x baseline", &times].map(String::from).to_vec()
    };
    first.into_iter().chain(middle).chain(["longest wait", "class"].map(String::from)).collect()
}

fn write_row(html: &mut String, table: &TableOutcome, cell: &CellOutcome, is_first: bool) {
    let mut classes = Vec::new();
    if is_first {
        classes.push("first");
    }
    if paint(cell) == Paint::Own {
        classes.push("own");
    }
    let load = if is_first { format!("{}, {}", cell.load, cell.unit) } else { String::new() };
    let _ = write!(
        html,
        "<tr class=\"{}\"><th scope=\"row\">{}</th><td class=\"text\">{}</td>",
        classes.join(" "),
        Escaped(&load),
        Escaped(&cell.system)
    );
    let mut field = |text: Option<String>, class: &str| {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = write!(html, "<td{class}>{}</td>", text.as_deref().map_or("", |text| text));
    };
    let (published, ours) = table.to_baseline(cell);
    field(cell.published.map(grouped), "");
    field(Some(grouped(cell.ours.value)), "");
    if cell.simulated {
        field(cell.ratio().map(off), if cell.is_within() == Some(false) { "miss" } else { "" });
    } else {
        field(cell.ours.all_cores.map(grouped), "");
    }
    field(published.map(times), "");
    field(ours.map(times), "");
    if !cell.simulated {
        field(cell.ours.all_cores_to_baseline.map(times), "");
    }
    field(Some(span(cell.ours.longest_wait_ns)), "");
    field(Some(cell.class.to_string()), "text");
    html.push_str("</tr>\n");
}
