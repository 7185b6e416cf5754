//! The numbers of a table, as a table.

use std::fmt::Write;

use super::markup::Escaped;
use super::{Paint, paint};
use crate::reproduce::text::{begins_load, figures};
use crate::reproduce::{CellOutcome, Report, TableOutcome};

/// A table in a frame that scrolls sideways where the page is narrow.
pub fn draw(report: &Report, table: &TableOutcome) -> String {
    let mut html = String::new();
    for group in table.groups() {
        html.push_str(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Numbers\"><table>\n<thead><tr>",
        );
        let names = header(report, table, group);
        for (place, name) in names.iter().enumerate() {
            let class = if place < 2 || place + 1 == names.len() { " class=\"text\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", Escaped(name));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (place, cell) in group.iter().enumerate() {
            write_row(&mut html, table, cell, begins_load(group, place));
        }
        html.push_str("</tbody>\n</table></div>\n");
    }
    html
}

fn header(report: &Report, table: &TableOutcome, group: &[CellOutcome]) -> Vec<String> {
    let first = [group[0].group.as_str(), "system", "published"].map(String::from);
    let middle = if group[0].simulated {
        ["ours", "off", "published x baseline", "ours x baseline"].map(String::from).to_vec()
    } else {
        let cores = format!("{} cores", report.cores);
        let times = format!("{cores} x baseline");
        ["1 core", &cores, "published x baseline", "1 core x baseline", &times].map(String::from).to_vec()
    };
    let next: &[&str] = if table.has_next() { &["published to for-next", "ours to for-next"] } else { &[] };
    let middle = middle.into_iter().chain(next.iter().map(ToString::to_string));
    first.into_iter().chain(middle).chain(["longest wait", "class"].map(String::from)).collect()
}

fn write_row(html: &mut String, table: &TableOutcome, cell: &CellOutcome, is_first: bool) {
    let classes = [(is_first, "first"), (paint(cell) == Paint::Own, "own")];
    let classes: Vec<&str> = classes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, class)| class).collect();
    let load = if is_first { format!("{}, {}", cell.load, cell.unit) } else { String::new() };
    let _ = write!(
        html,
        "<tr class=\"{}\"><th scope=\"row\">{}</th><td class=\"text\">{}</td>",
        classes.join(" "),
        Escaped(&load),
        Escaped(&cell.system)
    );
    let figures = figures(table, cell);
    for (place, text) in figures.iter().enumerate() {
        let class = match place {
            // How far off it is.
            2 if cell.simulated && cell.is_within() == Some(false) => " class=\"miss\"",
            _ if place + 1 == figures.len() => " class=\"text\"",
            _ => "",
        };
        let _ = write!(html, "<td{class}>{text}</td>");
    }
    html.push_str("</tr>\n");
}
