//! `shingle export`: NBD exports that come and go while a daemon runs.

use clap::{Args, Subcommand};

use super::remote::RemoteArgs;
use super::{CliError, output};
use shingle_host::config::format_bytes;
use shingle_host::control::protocol::{AddExport, RemoveExport};

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
#[derive(Args, Clone)]
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
            args.remote.connect()?.call(&RemoveExport { name: args.name.clone() })?;
            Ok(())
        }
    }
}

fn add(args: &AddArgs) -> Result<(), CliError> {
    let AddArgs { name, device, readonly, description, remote } = args.clone();
    let added = remote.connect()?.call(&AddExport { name, device, read_only: readonly, description })?;
    output::print(&format!("export {}: {}\n", added.name, format_bytes(added.bytes)))
}
