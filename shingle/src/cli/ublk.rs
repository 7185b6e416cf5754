//! `shingle ublk`: block devices of ublk on this machine.

use clap::{Args, Subcommand};
use serde_json::json;
use shingle_host::config::format_bytes;
use shingle_host::serve::ublk::{UblkDevice, devices, remove};

use super::{CliError, output};

/// Look after the block devices of this machine that processes serve
///
/// A stack file makes them: `ublk = true` in `[export.NAME]`. One whose daemon was killed waits for the next daemon of the same stack
/// file, and what its users want meanwhile waits with it.
#[derive(Args)]
pub struct UblkArgs {
    #[command(subcommand)]
    command: UblkCommand,
}

#[derive(Subcommand)]
enum UblkCommand {
    List(ListArgs),
    Remove(RemoveArgs),
}

/// List them, whoever has made them
#[derive(Args)]
struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Remove one that nobody serves any more
#[derive(Args)]
struct RemoveArgs {
    /// N of /dev/ublkbN
    number: u32,
    /// Even if it is in use: what its users have not got answered fails
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &UblkArgs) -> Result<(), CliError> {
    match &args.command {
        UblkCommand::List(args) => list(args),
        UblkCommand::Remove(args) => {
            let number = args.number;
            let holders = remove(number, args.force).map_err(|error| CliError::Failed(error.to_string()))?;
            if holders.is_empty() {
                return Ok(());
            }
            let holders = holders.join(", ");
            output::print(&format!(
                "/dev/ublkb{number} gives errors only; its number is free when it is let go of by {holders}\n"
            ))
        }
    }
}

fn list(args: &ListArgs) -> Result<(), CliError> {
    let devices = devices().map_err(|error| CliError::Failed(error.to_string()))?;
    if args.json {
        let object = |device: &UblkDevice| {
            let UblkDevice { number, path, bytes, state, server, is_registered, users } = device;
            let server = server.as_ref().map(|(pid, command)| json!({"pid": pid, "command": command}));
            let data = data(*is_registered);
            json!({"number": number, "path": path, "bytes": bytes, "state": state, "server": server, "data": data, "users": users})
        };
        return output::print_json(&devices.iter().map(object).collect());
    }
    if devices.is_empty() {
        return output::print("there are none\n");
    }
    let row = |device: &UblkDevice| {
        let server = device.server.as_ref().map(|(pid, command)| format!("{pid} ({command})"));
        vec![
            device.path.display().to_string(),
            format_bytes(device.bytes),
            device.state.to_owned(),
            server.unwrap_or_else(|| "-".to_owned()),
            data(device.is_registered).to_owned(),
            if device.users.is_empty() { "-".to_owned() } else { device.users.join(", ") },
        ]
    };
    let titles = ["device", "size", "state", "served by", "data", "used by"];
    output::print(&output::table(&titles, &[1], devices.iter().map(row)))
}

/// How the data of requests gets to the server.
fn data(is_registered: bool) -> &'static str {
    if is_registered { "registered" } else { "copied" }
}
