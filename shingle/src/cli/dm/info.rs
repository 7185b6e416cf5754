//! `shingle dm info`.

use std::fmt::{Display, Write};

use clap::Args;

use super::CliError;
use super::columns::{FIELDS, Layout, Row, USUAL, parse_fields};
use super::view::ViewArgs;
use crate::cli::output;
use shingle_host::control::protocol::{Deps, GetDeps, GetInfo, MappedDevice};

/// Show the state of devices
#[derive(Args)]
pub struct InfoArgs {
    #[command(flatten)]
    view: ViewArgs,
    /// As a table
    #[arg(short, short_alias = 'C', long)]
    columns: bool,
    /// The columns, with commas between them; `+` in front adds them to the usual ones. `help` lists them
    #[arg(short = 'o', long = "options", value_name = "FIELDS", requires = "columns")]
    fields: Option<String>,
    /// Without the first line
    #[arg(long, requires = "columns")]
    noheadings: bool,
    /// What stands between columns, which are not aligned then
    #[arg(long, requires = "columns")]
    separator: Option<String>,
}

/// Runs the command.
pub fn run(args: &InfoArgs) -> Result<(), CliError> {
    let fields = parse_fields(&FIELDS, USUAL, args.fields.as_deref()).map_err(CliError::Usage)?;
    let devices = args.view.ask(|device| GetInfo { device })?;
    if !args.columns || args.view.ask.json || devices.is_empty() {
        return args.view.print(&devices, |device, _| block(device));
    }
    // What lies on what is another question.
    let deps = args.view.ask(|device| GetDeps { device })?;
    let devices: Vec<Row> = devices.into_iter().zip(deps).map(|(device, Deps { deps, .. })| (device, deps)).collect();
    let layout = Layout { fields, headings: !args.noheadings, separator: args.separator.clone() };
    output::print(&layout.show(&devices))
}

/// A device as a block of lines.
pub fn block(device: &MappedDevice) -> String {
    let mut shown = String::new();
    let mut line = |label: &str, value: &dyn Display| {
        // Writing to a string does not fail.
        let _ = writeln!(shown, "{label:<18} {value}");
    };
    let suspended = if device.is_suspended() { "SUSPENDED" } else { "ACTIVE" };
    let read_only = if device.read_only { " (READ-ONLY)" } else { "" };
    let deferred = if device.deferred_remove { " (DEFERRED REMOVE)" } else { "" };
    let tables = match (device.live, device.inactive) {
        (false, false) => "None",
        (true, false) => "LIVE",
        (false, true) => "INACTIVE",
        (true, true) => "LIVE & INACTIVE",
    };
    line("Name:", &device.name);
    line("State:", &format_args!("{suspended}{read_only}{deferred}"));
    line("Tables present:", &tables);
    line("Open count:", &device.open);
    line("Event number:", &device.events);
    line("Major, minor:", &format_args!("{}, {}", device.major, device.minor));
    line("Number of targets:", &device.targets);
    if !device.uuid.is_empty() {
        shown += &format!("UUID: {}\n", device.uuid);
    }
    shown + "\n"
}
