//! `shingle reload`: a stack file that was changed, applied to the daemon that runs.

use clap::Args;
use serde_json::json;
use shingle_host::control::protocol::{Outcome, Reload, Reloaded, StackChange};

use super::remote::AskArgs;
use super::{CliError, output};

/// Apply a changed stack file to the daemon that runs
///
/// The daemon reads its stack file again. What is new is made; a table that is written otherwise is swapped under its users, as `shingle dm` does; what is
/// gone is removed if nobody uses it. Nothing else is touched, nor is what was made while it ran. A mistake in the file changes nothing.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 all of it is in force, or would be; 1 something failed or has to wait for a restart. What is done stays, and the next
`shingle reload` goes on from there. What can be changed: `man shingle-stack`, or docs/stack-file.md.")]
pub struct ReloadArgs {
    /// Only tell what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs the command.
pub fn run(args: &ReloadArgs) -> Result<(), CliError> {
    let reloaded = args.ask.remote.connect()?.call(&Reload { dry_run: args.dry_run })?;
    if args.ask.json {
        output::print_json(&json!(reloaded))?;
    } else {
        output::print(&describe(&reloaded))?;
    }
    let open = reloaded.changes.iter().filter(|change| !matches!(change.outcome, Outcome::Done | Outcome::Planned));
    match open.count() {
        0 => Ok(()),
        count => Err(CliError::Failed(format!(
            "{}: {count} of {} changes are not in force",
            reloaded.stack,
            reloaded.changes.len()
        ))),
    }
}

fn describe(Reloaded { stack, changes }: &Reloaded) -> String {
    if changes.is_empty() {
        return format!("{stack}: nothing is changed\n");
    }
    changes.iter().map(line).collect()
}

/// Formats a change and its outcome as a line.
pub fn line(StackChange { part, name, verb, outcome, why }: &StackChange) -> String {
    let outcome = match outcome {
        Outcome::Done => "done",
        Outcome::Planned => "would be done",
        Outcome::Failed => "failed",
        Outcome::Skipped => "not tried",
        Outcome::AfterRestart => "takes a restart",
    };
    let why = why.as_ref().map_or(String::new(), |why| format!(": {}", why.trim_end()));
    format!("{} {} {name}: {outcome}{why}\n", verb.name(), part.name())
}
