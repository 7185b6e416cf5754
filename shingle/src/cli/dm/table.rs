//! `shingle dm table` and `shingle dm status`: a line for each target.

use clap::Args;
use serde_json::{Value, json};

use super::{CliError, ViewArgs, concise, list, text};
use crate::cli::output;

/// Show tables so that they can be loaded again
#[derive(Args)]
pub struct TableArgs {
    #[command(flatten)]
    view: ViewArgs,
    /// Only targets of this kind
    #[arg(long, value_name = "TYPE")]
    target: Option<String>,
    /// The table in the inactive slot
    #[arg(long)]
    inactive: bool,
    /// Keys too, which are otherwise shown as zeros
    #[arg(long)]
    showkeys: bool,
    /// In one line, as `create --concise` reads it
    #[arg(long, conflicts_with = "json")]
    concise: bool,
}

/// Show what targets have to say
#[derive(Args)]
pub struct StatusArgs {
    #[command(flatten)]
    view: ViewArgs,
    /// Only targets of this kind
    #[arg(long, value_name = "TYPE")]
    target: Option<String>,
    /// Of the table in the inactive slot
    #[arg(long)]
    inactive: bool,
    /// As with dmsetup; to ask for the status flushes nothing here
    #[arg(long)]
    noflush: bool,
}

/// Runs `shingle dm table`.
pub fn table(args: &TableArgs) -> Result<(), CliError> {
    let devices = args.view.ask("dm.table", &json!({"inactive": args.inactive, "show_keys": args.showkeys}))?;
    let devices = only(devices, args.target.as_deref());
    if args.concise && !devices.is_empty() {
        return output::print(&concise::write(&devices));
    }
    args.view.print(devices, lines)
}

/// Runs `shingle dm status`.
pub fn status(args: &StatusArgs) -> Result<(), CliError> {
    let devices = args.view.ask("dm.status", &json!({"inactive": args.inactive}))?;
    args.view.print(only(devices, args.target.as_deref()), lines)
}

/// Drops the lines of other targets, and devices of which nothing is left.
fn only(mut devices: Vec<Value>, target: Option<&str>) -> Vec<Value> {
    let Some(target) = target else { return devices };
    devices.retain_mut(|device| {
        let lines: Vec<Value> = list(device, "lines").iter().filter(|line| line["target"] == target).cloned().collect();
        let any = !lines.is_empty();
        device["lines"] = json!(lines);
        any
    });
    devices
}

/// As dmsetup prints them: a target without arguments ends in a space, and a device without a table is an empty line.
fn lines(device: &Value, several: bool) -> String {
    let name = if several { format!("{}: ", text(device, "name")) } else { String::new() };
    let line = |line: &Value| {
        let (target, arguments) = (text(line, "target"), text(line, "arguments"));
        format!("{name}{} {} {target} {arguments}\n", line["start"], line["length"])
    };
    match list(device, "lines") {
        [] => format!("{name}\n"),
        lines => lines.iter().map(line).collect(),
    }
}
