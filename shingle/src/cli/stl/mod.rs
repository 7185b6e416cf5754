//! `shingle stl`: the disks of an `stl` volume that no daemon serves, and what is known of one that is served.

mod add;
mod check;
mod dump;
mod format;
mod remove;
mod salvage;
mod set;
mod status;

use clap::{Args, Subcommand};

use super::{CliError, output};

/// Make, check and look at stl volumes, which write nothing in place
///
/// A volume is one or more disks, at least one of them zoned, all with zones of one size; regular disks are cut into zones. A disk is a
/// directory made by `shingle create`, a regular file or a block device; a daemon must not have it open, but for `status`, which asks one. But for `format` the order of
/// the disks does not matter.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 done and in order, 1 it failed, 2 the command line is wrong, 3 errors were found. More: `man shingle-stl`, or docs/stl.md.")]
pub struct StlArgs {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Subcommand)]
enum Operation {
    Format(format::FormatArgs),
    Add(add::AddArgs),
    Remove(remove::RemoveArgs),
    Check(check::CheckArgs),
    Scrub(check::ScrubArgs),
    Dump(dump::DumpArgs),
    Salvage(salvage::SalvageArgs),
    Status(status::StatusArgs),
}

/// Runs the command.
pub fn run(args: &StlArgs) -> Result<(), CliError> {
    match &args.operation {
        Operation::Format(args) => format::run(args),
        Operation::Add(args) => add::run(args),
        Operation::Remove(args) => remove::run(args),
        Operation::Check(args) => check::run(args),
        Operation::Scrub(args) => check::run_scrub(args),
        Operation::Dump(args) => dump::run(args),
        Operation::Salvage(args) => salvage::run(args),
        Operation::Status(args) => status::run(args),
    }
}
