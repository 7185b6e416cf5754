//! `shingle dm info -c`: columns with the names, headings and widths of dmsetup's.

use serde_json::Value;

use super::info::is_suspended;
use super::{list, text};

/// A column.
pub struct Field {
    name: &'static str,
    heading: &'static str,
    /// At least so wide.
    width: usize,
    /// Numbers stand at the right.
    right: bool,
    value: fn(&Value) -> String,
}

/// What is shown if nothing is asked for.
const USUAL: &str = "name,major,minor,attr,open,segments,events,uuid";

const fn column(name: &'static str, heading: &'static str, width: usize, value: fn(&Value) -> String) -> Field {
    Field { name, heading, width, right: false, value }
}

const fn number(name: &'static str, heading: &'static str, width: usize, value: fn(&Value) -> String) -> Field {
    Field { name, heading, width, right: true, value }
}

static FIELDS: [Field; 17] = [
    column("name", "Name", 16, |device| text(device, "name").to_owned()),
    column("uuid", "UUID", 32, |device| text(device, "uuid").to_owned()),
    column("blkdevname", "BlkDevName", 16, |device| format!("dm-{}", device["minor"])),
    column("attr", "Stat", 4, attributes),
    column("tables_loaded", "Tables", 6, |device| tables(device).to_owned()),
    column("suspended", "Suspended", 9, |device| if is_suspended(device) { "Suspended" } else { "Active" }.to_owned()),
    column("readonly", "Read-only", 9, |device| {
        if holds(device, "read_only") { "Read-only" } else { "Writeable" }.to_owned()
    }),
    column("devno", "DevNo", 5, |device| format!("{}:{}", device["major"], device["minor"])),
    number("major", "Maj", 3, |device| device["major"].to_string()),
    number("minor", "Min", 3, |device| device["minor"].to_string()),
    number("open", "Open", 4, |device| device["open"].to_string()),
    number("segments", "Targ", 4, |device| device["targets"].to_string()),
    number("events", "Event", 6, |device| device["events"].to_string()),
    number("device_count", "#Devs", 5, |device| list(device, "deps").len().to_string()),
    column("devs_used", "DevNamesUsed", 16, |device| deps(device, |dep| text(dep, "name").to_owned())),
    column("devnos_used", "DevNosUsed", 16, |device| deps(device, |dep| format!("{}:{}", dep["major"], dep["minor"]))),
    column("blkdevs_used", "BlkDevNamesUsed", 16, |device| deps(device, |dep| text(dep, "name").to_owned())),
];

fn holds(device: &Value, key: &str) -> bool {
    device[key] == true
}

fn attributes(device: &Value) -> String {
    [
        if holds(device, "live") { 'L' } else { '-' },
        if holds(device, "inactive") { 'I' } else { '-' },
        if is_suspended(device) { 's' } else { '-' },
        if holds(device, "read_only") { 'r' } else { 'w' },
    ]
    .into_iter()
    .collect()
}

fn tables(device: &Value) -> &'static str {
    match (holds(device, "live"), holds(device, "inactive")) {
        (true, true) => "Both",
        (true, false) => "Live",
        (false, true) => "Inactive",
        (false, false) => "None",
    }
}

fn deps(device: &Value, show: impl Fn(&Value) -> String) -> String {
    list(device, "deps").iter().map(show).collect::<Vec<_>>().join(",")
}

/// The columns of a list of names.
///
/// # Errors
/// If there is no column of a name: all names that there are.
pub fn parse_fields(wanted: Option<&str>) -> Result<Vec<&'static Field>, String> {
    let names = match wanted {
        None => USUAL.to_owned(),
        Some(wanted) => wanted.strip_prefix('+').map_or_else(|| wanted.to_owned(), |more| format!("{USUAL},{more}")),
    };
    let known = || FIELDS.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
    let find = |name: &str| FIELDS.iter().find(|field| field.name == name);
    names
        .split(',')
        .map(|name| find(name).ok_or_else(|| format!("there is no column `{name}`; there are: {}", known())))
        .collect()
}

/// How a table is laid out.
pub struct Layout {
    /// Its columns.
    pub fields: Vec<&'static Field>,
    /// Whether they have headings.
    pub headings: bool,
    /// What stands between columns, if they are not aligned.
    pub separator: Option<String>,
}

impl Layout {
    /// The table of `devices`. As dmsetup does, a column is filled up with spaces even if it is the last one, and headings
    /// stand at the left.
    pub fn show(&self, devices: &[Value]) -> String {
        let rows: Vec<Vec<String>> =
            devices.iter().map(|device| self.fields.iter().map(|field| (field.value)(device)).collect()).collect();
        let heading: Vec<String> = self.fields.iter().map(|field| field.heading.to_owned()).collect();
        let widths: Vec<usize> = self
            .fields
            .iter()
            .enumerate()
            .map(|(place, field)| {
                let longest = rows.iter().map(|row| row[place].chars().count()).max().unwrap_or(0);
                longest.max(field.width).max(field.heading.len())
            })
            .collect();
        let line = |cells: &[String], is_heading: bool| {
            let cells = cells.iter().zip(&self.fields).zip(&widths).map(|((cell, field), width)| {
                match (&self.separator, field.right && !is_heading) {
                    (Some(_), _) => cell.clone(),
                    (None, true) => format!("{cell:>width$}"),
                    (None, false) => format!("{cell:<width$}"),
                }
            });
            cells.collect::<Vec<_>>().join(self.separator.as_deref().unwrap_or(" ")) + "\n"
        };
        let heading = self.headings.then(|| line(&heading, true));
        heading.into_iter().chain(rows.iter().map(|row| line(row, false))).collect()
    }
}
