//! `shingle power`: the power of simulated drives.

use clap::{Args, Subcommand};
use serde_json::json;
use shingle_host::control::protocol::{CutPower, DriveStatus, GetPower, Operation, RestorePower};

use super::remote::AskArgs;
use super::{CliError, output};
use shingle_host::config::format_bytes;

/// Cut the power of simulated drives, and give it back
///
/// A stack file makes them: `type = "profile"` in `[disk.NAME]`.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 it failed, 2 the command line is wrong. More: `man shingle-profile-drives`, or docs/profile-drives.md."
)]
pub struct PowerArgs {
    #[command(subcommand)]
    command: PowerCommand,
}

#[derive(Subcommand)]
enum PowerCommand {
    /// Take the power from a drive: what is in flight fails, and what was not flushed is lost, or a part of it
    Cut(OneArgs),
    /// Give the power back: the drive has what was durable, and its users mount it again
    On(OneArgs),
    Status(StatusArgs),
}

/// A drive.
#[derive(Args)]
struct OneArgs {
    /// The disk
    device: String,
    #[command(flatten)]
    ask: AskArgs,
}

/// Show which drives have power, and how late they are
#[derive(Args)]
struct StatusArgs {
    /// The disk; all of them if left out
    device: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs the command.
pub fn run(args: &PowerArgs) -> Result<(), CliError> {
    match &args.command {
        PowerCommand::Cut(OneArgs { device, ask }) => switch(ask, &CutPower { device: device.clone() }),
        PowerCommand::On(OneArgs { device, ask }) => switch(ask, &RestorePower { device: device.clone() }),
        PowerCommand::Status(StatusArgs { device, ask }) => {
            let drives = ask.remote.connect()?.call(&GetPower { device: device.clone() })?;
            if ask.json {
                return output::print_json(&json!(drives));
            }
            if drives.drives.is_empty() {
                return output::print("no disk is a simulated drive\n");
            }
            output::print(&table(&drives.drives))
        }
    }
}

fn switch<O: Operation<Answer = DriveStatus>>(ask: &AskArgs, request: &O) -> Result<(), CliError> {
    let drive = ask.remote.connect()?.call(request)?;
    if ask.json {
        return output::print_json(&json!(drive));
    }
    let DriveStatus { device, power, cuts, .. } = drive;
    output::print(&format!("{device}: power {power}, lost {cuts} times\n"))
}

/// Drives, with their power and lateness.
pub(super) fn table<'a>(drives: impl IntoIterator<Item = &'a DriveStatus>) -> String {
    let header =
        ["drive", "power", "cuts", "in flight", "answered", "mean lateness", "worst lateness", "data", "where"];
    output::table(&header, &[2, 3, 4, 5, 6, 7], drives.into_iter().map(row))
}

fn row(drive: &DriveStatus) -> Vec<String> {
    let us = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
    vec![
        drive.device.clone(),
        drive.power.clone(),
        drive.cuts.to_string(),
        drive.in_flight.to_string(),
        drive.answered.to_string(),
        drive.mean_lateness_ns.map_or_else(|| "-".to_owned(), us),
        us(drive.max_lateness_ns),
        format_bytes(drive.directory_bytes.unwrap_or(drive.memory_bytes)),
        match (&drive.directory, drive.memory_limit) {
            (Some(directory), _) => directory.clone(),
            (None, Some(most)) => format!("memory, {} at most", format_bytes(most)),
            (None, None) => "not kept".into(),
        },
    ]
}
