//! `shingle export`: exports that come and go while a daemon runs.

use clap::{Args, Subcommand};

use serde_json::{Map, Value};

use super::remote::RemoteArgs;
use super::{CliError, output};
use shingle_host::config::format_bytes;
use shingle_host::control::protocol::{AddExport, RemoveExport};

/// Add and remove exports of a running daemon
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
    /// Make it a block device of this machine
    #[arg(long)]
    ublk: bool,
    /// Another key of [export.NAME] in a stack file, as ublk-depth=64
    #[arg(long = "set", value_name = "KEY=VALUE")]
    keys: Vec<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// End an export that nobody uses
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
    let AddArgs { name, device, readonly, description, ublk, keys, remote } = args.clone();
    let mut keys = keys.iter().map(|key| read_key(key)).collect::<Result<Map<String, Value>, CliError>>()?;
    if ublk {
        keys.insert("ublk".into(), true.into());
    }
    let added = remote.connect()?.call(&AddExport { name, device, read_only: readonly, description, keys })?;
    let place = added.path.map_or(String::new(), |path| format!(", {path}"));
    output::print(&format!("export {}: {}{place}\n", added.name, format_bytes(added.bytes)))
}

/// `key=value`; a value that is no number, `true` or `false` is a string.
fn read_key(text: &str) -> Result<(String, Value), CliError> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(CliError::Usage(format!("`--set {text}` has no value: write it as KEY=VALUE")));
    };
    Ok((key.to_owned(), value.parse().unwrap_or_else(|_| Value::String(value.to_owned()))))
}
