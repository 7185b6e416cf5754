//! `shingle export`: NBD exports that come and go while a daemon runs.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::remote::RemoteArgs;
use super::{CliError, output};
use crate::config::format_bytes;

/// Add and remove NBD exports of a running daemon
///
/// The stack file stays as it is: what is added here is gone with the daemon.
#[derive(Args)]
pub struct ExportArgs {
    #[command(subcommand)]
    command: ExportCommand,
}

#[derive(Subcommand)]
enum ExportCommand {
    Add(AddArgs),
    Remove(RemoveArgs),
}

/// Export a disk or a mapped device under a name
#[derive(Args)]
struct AddArgs {
    /// Name of the export, as clients ask for it
    name: String,
    /// The disk or mapped device
    device: String,
    /// Refuse writes
    #[arg(short, long, visible_alias = "read-only")]
    readonly: bool,
    /// What a list of exports says about it
    #[arg(long)]
    description: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// End an export that no client is connected to
#[derive(Args)]
struct RemoveArgs {
    /// The export
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<(), CliError> {
    match &args.command {
        ExportCommand::Add(args) => add(args),
        ExportCommand::Remove(args) => {
            args.remote.connect()?.call("export.remove", json!({"name": args.name}))?;
            Ok(())
        }
    }
}

fn add(args: &AddArgs) -> Result<(), CliError> {
    let AddArgs { name, device, readonly, description, remote } = args;
    let fields = json!({"name": name, "device": device, "read_only": readonly, "description": description});
    let answer = remote.connect()?.call("export.add", fields)?;
    let size = answer.get("bytes").and_then(Value::as_u64).map_or_else(String::new, format_bytes);
    output::print(&format!("export {name}: {size}\n"))
}
