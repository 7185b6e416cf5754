//! `shingle dm info -c`: columns with the names, headings and widths of dmsetup's.

use super::deps::Style;
use crate::control::protocol::{Dep, MappedDevice};

/// A device and what it lies on.
pub type Row = (MappedDevice, Vec<Dep>);

/// A column.
pub struct Field {
    name: &'static str,
    heading: &'static str,
    /// At least so wide.
    width: usize,
    /// Numbers stand at the right.
    right: bool,
    value: fn(&Row) -> String,
}

/// What is shown if nothing is asked for.
const USUAL: &str = "name,major,minor,attr,open,segments,events,uuid";

const fn column(name: &'static str, heading: &'static str, width: usize, value: fn(&Row) -> String) -> Field {
    Field { name, heading, width, right: false, value }
}

const fn number(name: &'static str, heading: &'static str, width: usize, value: fn(&Row) -> String) -> Field {
    Field { name, heading, width, right: true, value }
}

static FIELDS: [Field; 17] = [
    column("name", "Name", 16, |(device, _)| device.name.clone()),
    column("uuid", "UUID", 32, |(device, _)| device.uuid.clone()),
    column("blkdevname", "BlkDevName", 16, |(device, _)| format!("dm-{}", device.minor)),
    column("attr", "Stat", 4, |(device, _)| attributes(device)),
    column("tables_loaded", "Tables", 6, |(device, _)| tables(device).to_owned()),
    column("suspended", "Suspended", 9, |(device, _)| {
        if device.is_suspended() { "Suspended" } else { "Active" }.to_owned()
    }),
    column("readonly", "Read-only", 9, |(device, _)| {
        if device.read_only { "Read-only" } else { "Writeable" }.to_owned()
    }),
    column("devno", "DevNo", 5, |(device, _)| format!("{}:{}", device.major, device.minor)),
    number("major", "Maj", 3, |(device, _)| device.major.to_string()),
    number("minor", "Min", 3, |(device, _)| device.minor.to_string()),
    number("open", "Open", 4, |(device, _)| device.open.to_string()),
    number("segments", "Targ", 4, |(device, _)| device.targets.to_string()),
    number("events", "Event", 6, |(device, _)| device.events.to_string()),
    number("device_count", "#Devs", 5, |(_, deps)| deps.len().to_string()),
    column("devs_used", "DevNamesUsed", 16, |(_, deps)| join(deps, Style::Devname)),
    column("devnos_used", "DevNosUsed", 16, |(_, deps)| join(deps, Style::Devno)),
    column("blkdevs_used", "BlkDevNamesUsed", 16, |(_, deps)| join(deps, Style::Devname)),
];

fn attributes(device: &MappedDevice) -> String {
    [
        if device.live { 'L' } else { '-' },
        if device.inactive { 'I' } else { '-' },
        if device.is_suspended() { 's' } else { '-' },
        if device.read_only { 'r' } else { 'w' },
    ]
    .into_iter()
    .collect()
}

fn tables(device: &MappedDevice) -> &'static str {
    match (device.live, device.inactive) {
        (true, true) => "Both",
        (true, false) => "Live",
        (false, true) => "Inactive",
        (false, false) => "None",
    }
}

fn join(deps: &[Dep], style: Style) -> String {
    deps.iter().map(|dep| style.show(dep, ":")).collect::<Vec<_>>().join(",")
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
    pub fn show(&self, devices: &[Row]) -> String {
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
