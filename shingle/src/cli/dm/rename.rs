//! `shingle dm rename`.

use clap::Args;

use super::CliError;
use crate::cli::remote::RemoteArgs;
use shingle_host::control::protocol::Rename;

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
    let new = |is_it: bool| is_it.then(|| args.new.clone());
    let (name, uuid) = (new(!args.setuuid), new(args.setuuid));
    args.remote.connect()?.call(&Rename { device: args.device.clone(), name, uuid })?;
    Ok(())
}
