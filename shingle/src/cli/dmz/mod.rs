//! `shingle dmz`: dmzadm's work on the disks of a set that no daemon serves.

mod check;
mod dump;
mod format;
pub mod image;
pub mod next;
mod repair;
mod salvage;
mod set;

use clap::{Args, Subcommand};

use super::{CliError, output};

/// Make, check, mend and look at dm-zoned sets, as dmzadm does
///
/// A set is one zoned disk, or a regular disk and one or more zoned ones behind it, in this order. A disk is a directory made by
/// `shingle create`, a regular file or a block device; a daemon must not have it open. dmzadm's own `--format`, `--check`, `--repair`
/// and `--relabel` are taken for the commands.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 done and in order, 1 it failed, 2 the command line is wrong, 3 errors were found. More: `man shingle-dmz`, or docs/dmz.md.")]
pub struct DmzArgs {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Subcommand)]
enum Operation {
    #[command(long_flag = "format")]
    Format(format::FormatArgs),
    /// Check the metadata of a set: both copies, the mapping and the bitmaps
    ///
    /// Nothing is changed, and several checks may run at once. What is printed is what dmzadm prints; the last line is
    /// "No error detected" or "Errors detected: " and what to do, with exit code 0 or 3.
    #[command(long_flag = "check")]
    Check(set::SetArgs),
    #[command(long_flag = "repair")]
    Repair(repair::RepairArgs),
    #[command(long_flag = "relabel")]
    Relabel(repair::RelabelArgs),
    /// Print what a set has on its disks: superblocks, zones, mapping and how many blocks of each zone are valid
    ///
    /// Zones that hold nothing are left out without --verbose.
    Dump(set::SetArgs),
    Salvage(salvage::SalvageArgs),
}

/// Runs the command.
pub fn run(args: &DmzArgs) -> Result<(), CliError> {
    match &args.operation {
        Operation::Format(args) => format::run(args),
        Operation::Check(args) => check::run(args),
        Operation::Repair(args) => repair::run(args),
        Operation::Relabel(args) => repair::run_relabel(args),
        Operation::Dump(args) => dump::run(args),
        Operation::Salvage(args) => salvage::run(args),
    }
}
