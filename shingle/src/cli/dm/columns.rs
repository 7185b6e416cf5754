//! Tables of columns that can be chosen, as dmsetup and dmstats lay them out; and the columns of `shingle dm info -c`.

use super::deps::Style;
use shingle_host::control::protocol::{Dep, MappedDevice};

/// A device and what it lies on.
pub type Row = (MappedDevice, Vec<Dep>);

/// A column of a table with rows of `R`.
pub struct Field<R> {
    name: &'static str,
    heading: &'static str,
    /// At least so wide.
    width: usize,
    /// Numbers stand at the right.
    right: bool,
    value: fn(&R) -> String,
}

/// What is shown if nothing is asked for.
pub const USUAL: &str = "name,major,minor,attr,open,segments,events,uuid";

/// A column of words.
pub const fn column<R>(name: &'static str, heading: &'static str, width: usize, value: fn(&R) -> String) -> Field<R> {
    Field { name, heading, width, right: false, value }
}

/// A column of numbers.
pub const fn number<R>(name: &'static str, heading: &'static str, width: usize, value: fn(&R) -> String) -> Field<R> {
    Field { name, heading, width, right: true, value }
}

/// The columns of `info -c`.
pub static FIELDS: [Field<Row>; 17] = [
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

/// The columns of a list of names among `fields`; the `usual` ones if nothing is wanted, and before what follows a `+`.
///
/// # Errors
/// If there is no column of a name: all names that there are.
pub fn parse_fields<R>(
    fields: &'static [Field<R>],
    usual: &str,
    wanted: Option<&str>,
) -> Result<Vec<&'static Field<R>>, String> {
    let names = match wanted {
        None => usual.to_owned(),
        Some(wanted) => wanted.strip_prefix('+').map_or_else(|| wanted.to_owned(), |more| format!("{usual},{more}")),
    };
    let known = || fields.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
    let find = |name: &str| fields.iter().find(|field| field.name == name);
    names
        .split(',')
        .map(|name| find(name).ok_or_else(|| format!("there is no column `{name}`; there are: {}", known())))
        .collect()
}

/// How a table is laid out.
pub struct Layout<R: 'static> {
    /// Its columns.
    pub fields: Vec<&'static Field<R>>,
    /// Whether they have headings.
    pub headings: bool,
    /// What stands between columns, if they are not aligned.
    pub separator: Option<String>,
}

impl<R> Layout<R> {
    /// The table. As dmsetup does, a column is filled up with spaces even if it is the last one, and headings
    /// stand at the left.
    pub fn show(&self, rows: &[R]) -> String {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| self.fields.iter().map(|field| (field.value)(row)).collect()).collect();
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
