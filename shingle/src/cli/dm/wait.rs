//! `shingle dm wait`.

use clap::Args;

use super::CliError;
use super::info::block;
use crate::cli::output;
use crate::cli::remote::RemoteArgs;
use shingle_host::control::protocol::{GetInfo, Wait};

/// Wait until a device has had more events than a number
///
/// Events are what targets report, such as a device that fails, and swaps of tables.
#[derive(Args)]
pub struct WaitArgs {
    /// The device
    device: String,
    /// The number of events that were seen already, as `info` shows it
    #[arg(default_value_t = 0)]
    event_nr: u64,
    /// As with dmsetup; there is nothing to flush
    #[arg(long)]
    noflush: bool,
    /// Print what `info` does, afterwards
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs the command.
pub fn run(args: &WaitArgs) -> Result<(), CliError> {
    let mut client = args.remote.connect()?;
    // A request waits for some seconds only, so that the daemon need not wait for those who are gone.
    let request = Wait { device: args.device.clone(), event_nr: args.event_nr, timeout_ms: None };
    while !client.call(&request)?.passed {}
    if !args.verbose {
        return Ok(());
    }
    let devices = client.call(&GetInfo { device: Some(args.device.clone()) })?.devices;
    output::print(&devices.iter().map(block).collect::<String>())
}
