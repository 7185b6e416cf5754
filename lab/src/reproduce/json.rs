//! A report as JSON: what was found, and beside it what follows from that, so that a reader need not compute it.

use serde_json::{Value, json};

use super::goals::goals;
use super::outcome::{CellOutcome, Report, TableOutcome, short};

/// The report with ratios, verdicts and the summary written out.
#[must_use]
pub fn to_json(report: &Report) -> Value {
    // A report is numbers, strings and lists: there is nothing in it that JSON has no word for.
    let mut value = serde_json::to_value(report).unwrap_or_default();
    for (place, table) in report.tables.iter().enumerate() {
        for (number, cell) in table.cells.iter().enumerate() {
            let Some(Value::Object(object)) = value.pointer_mut(&format!("/tables/{place}/cells/{number}")) else {
                continue;
            };
            object.insert("derived".into(), derived(table, cell));
        }
    }
    if let Value::Object(object) = &mut value {
        object.insert("summary".into(), json!(report.summary()));
        object.insert("goals".into(), json!(goals(report)));
    }
    value
}

fn derived(table: &TableOutcome, cell: &CellOutcome) -> Value {
    let (published, ours) = table.to_baseline(cell);
    json!({
        "name": cell.name(&table.name),
        "ratio": cell.ratio().map(short),
        "tolerance": cell.class.tolerance(),
        "within_tolerance": cell.is_within(),
        "published_to_baseline": published.map(short),
        "ours_to_baseline": ours.map(short),
    })
}

/// Reads what [`to_json`] wrote. What follows from the figures is not taken from the text but computed anew.
pub fn from_json(text: &str) -> Result<Report, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no report of `shingle reproduce --json`: {error}"))
}
