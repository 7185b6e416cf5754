//! `shingle trace`: record what a daemon's devices are asked, show it, and do it again.

mod record;
#[cfg(feature = "lab")]
mod replay;
mod show;

use clap::{Args, Subcommand};

use super::CliError;

/// Record, show and replay what the devices of a stack are asked to do
///
/// A recording says which bios there were, when, where to, and how they ended. It does not say what was in them.
#[derive(Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand)]
enum TraceCommand {
    Record(record::RecordArgs),
    Show(show::ShowArgs),
    #[cfg(feature = "lab")]
    Replay(Box<replay::ReplayArgs>),
}

/// Runs the command.
pub fn run(args: &TraceArgs) -> Result<(), CliError> {
    match &args.command {
        TraceCommand::Record(args) => record::run(args),
        TraceCommand::Show(args) => show::run(args),
        #[cfg(feature = "lab")]
        TraceCommand::Replay(args) => replay::run(args),
    }
}
