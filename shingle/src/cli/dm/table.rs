//! `shingle dm table` and `shingle dm status`: a line for each target.

use clap::Args;

use super::view::ViewArgs;
use super::{CliError, concise};
use crate::cli::output;
use shingle_host::control::protocol::{GetTable, GetTargetStatus, MappedDevice, TargetLine};

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
    let (inactive, show_keys) = (args.inactive, args.showkeys);
    let devices = args.view.ask(|device| GetTable { device, inactive, show_keys })?;
    let devices = only(devices, args.target.as_deref());
    if args.concise && !devices.is_empty() {
        return output::print(&concise::write(&devices));
    }
    args.view.print(&devices, lines)
}

/// Runs `shingle dm status`.
pub fn status(args: &StatusArgs) -> Result<(), CliError> {
    let devices = args.view.ask(|device| GetTargetStatus { device, inactive: args.inactive })?;
    args.view.print(&only(devices, args.target.as_deref()), lines)
}

/// Drops the lines of other targets, and devices of which nothing is left.
fn only(mut devices: Vec<MappedDevice>, target: Option<&str>) -> Vec<MappedDevice> {
    let Some(target) = target else { return devices };
    devices
        .iter_mut()
        .flat_map(|device| &mut device.lines)
        .for_each(|lines| lines.retain(|line| line.target == target));
    devices.retain(|device| !device.lines().is_empty());
    devices
}

/// As dmsetup prints them: a target without arguments ends in a space, and a device without a table is an empty line.
fn lines(device: &MappedDevice, several: bool) -> String {
    let name = if several { format!("{}: ", device.name) } else { String::new() };
    let line = |TargetLine { start, length, target, arguments, .. }: &TargetLine| {
        format!("{name}{start} {length} {target} {arguments}\n")
    };
    match device.lines() {
        [] => format!("{name}\n"),
        lines => lines.iter().map(line).collect(),
    }
}
