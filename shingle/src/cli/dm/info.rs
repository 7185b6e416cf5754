//! `shingle dm info`.

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use super::columns::{Layout, parse_fields};
use super::{CliError, ViewArgs, text};
use crate::cli::output;

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
    let fields = parse_fields(args.fields.as_deref()).map_err(CliError::Usage)?;
    let mut devices = args.view.ask("dm.info", &json!({}))?;
    if !args.columns || args.view.json || devices.is_empty() {
        return args.view.print(devices, |device, _| block(device));
    }
    // What lies on what is another question.
    for (device, deps) in devices.iter_mut().zip(args.view.ask("dm.deps", &json!({}))?) {
        device["deps"] = deps["deps"].clone();
    }
    let layout = Layout { fields, headings: !args.noheadings, separator: args.separator.clone() };
    output::print(&layout.show(&devices))
}

/// A device as a block of lines.
pub fn block(device: &Value) -> String {
    let mut shown = String::new();
    let mut line = |label: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(shown, "{label:<18} {value}");
    };
    let suspended = if is_suspended(device) { "SUSPENDED" } else { "ACTIVE" };
    let read_only = if device["read_only"] == true { " (READ-ONLY)" } else { "" };
    let deferred = if device["deferred_remove"] == true { " (DEFERRED REMOVE)" } else { "" };
    let tables = match (device["live"] == true, device["inactive"] == true) {
        (false, false) => "None",
        (true, false) => "LIVE",
        (false, true) => "INACTIVE",
        (true, true) => "LIVE & INACTIVE",
    };
    line("Name:", text(device, "name").to_owned());
    line("State:", format!("{suspended}{read_only}{deferred}"));
    line("Tables present:", tables.to_owned());
    line("Open count:", device["open"].to_string());
    line("Event number:", device["events"].to_string());
    line("Major, minor:", format!("{}, {}", device["major"], device["minor"]));
    line("Number of targets:", device["targets"].to_string());
    let uuid = text(device, "uuid");
    if !uuid.is_empty() {
        shown += &format!("UUID: {uuid}\n");
    }
    shown + "\n"
}

/// Whether I/O waits at its door.
pub fn is_suspended(device: &Value) -> bool {
    text(device, "state") != "active"
}
