//! `shingle dm message`.

use clap::Args;

use super::CliError;
use crate::cli::output;
use crate::cli::remote::RemoteArgs;
use shingle_host::control::protocol::Message;

/// Tell a target something; what it answers is printed
#[derive(Args)]
pub struct MessageArgs {
    /// The device
    device: String,
    /// A sector of the target; 0 if the message is for the device
    sector: u64,
    /// The message; its words are joined by spaces. Behind `--` a word may begin with a hyphen
    #[arg(required = true, allow_negative_numbers = true)]
    message: Vec<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs the command.
pub fn run(args: &MessageArgs) -> Result<(), CliError> {
    let message = Message { device: args.device.clone(), sector: args.sector, message: args.message.join(" ") };
    let answer = args.remote.connect()?.call(&message)?.answer;
    let end = if answer.is_empty() || answer.ends_with('\n') { "" } else { "\n" };
    output::print(&format!("{answer}{end}"))
}
