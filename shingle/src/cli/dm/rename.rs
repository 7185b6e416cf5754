//! `shingle dm rename`.

use clap::Args;
use serde_json::json;

use super::CliError;
use crate::cli::remote::RemoteArgs;

/// Give a device another name, or a UUID if it has none
#[derive(Args)]
pub struct RenameArgs {
    /// The device
    device: String,
    /// The new name, or with --setuuid the UUID
    new: String,
    /// Give it a UUID
    #[arg(long)]
    setuuid: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs the command.
pub fn run(args: &RenameArgs) -> Result<(), CliError> {
    let key = if args.setuuid { "uuid" } else { "name" };
    args.remote.connect()?.call("dm.rename", json!({"device": args.device, key: args.new}))?;
    Ok(())
}
