//! `shingle dm`: dmsetup's verbs, options and output, on the devices of a running daemon.

mod change;
mod columns;
mod concise;
mod create;
mod deps;
mod info;
mod ls;
mod message;
mod source;
mod stats;
mod table;
mod tree;
mod view;
mod wait;

use clap::{Args, Subcommand};

use super::CliError;
use super::remote::{AskArgs, RemoteArgs};

/// Create, load, swap, look at and remove mapped devices while the daemon runs, as dmsetup does
///
/// A device has two tables: the live one, and an inactive one that `load` fills and `resume` makes the live one. A device is
/// named by its name or its UUID.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 it failed, 2 the command line is wrong. More: `man shingle-device-mapper`, or docs/device-mapper.md."
)]
pub struct DmArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Create(create::CreateArgs),
    #[command(visible_alias = "reload")]
    Load(create::LoadArgs),
    /// Let no more I/O in, and finish what is inside
    Suspend(change::DrainedArgs),
    /// Let I/O in again; if a table is loaded, through that
    Resume(change::DrainedArgs),
    /// Drop the table in the inactive slot
    Clear(change::DevicesArgs),
    Remove(change::RemoveArgs),
    #[command(name = "remove_all")]
    RemoveAll(change::RemoveAllArgs),
    Rename(change::RenameArgs),
    Table(table::TableArgs),
    Status(table::StatusArgs),
    Info(info::InfoArgs),
    Deps(deps::DepsArgs),
    Message(message::MessageArgs),
    Wait(wait::WaitArgs),
    Stats(stats::StatsArgs),
    /// List the kinds of targets that tables can have, with their versions
    Targets(AskArgs),
    /// Print the versions of this program and of the daemon
    Version(RemoteArgs),
    Ls(ls::LsArgs),
    #[command(name = "wipe_table")]
    WipeTable(change::WipeTableArgs),
}

/// Runs the command.
pub fn run(args: &DmArgs) -> Result<(), CliError> {
    match &args.verb {
        Verb::Create(args) => create::create(args),
        Verb::Load(args) => create::load(args),
        Verb::Suspend(args) => change::suspend(args),
        Verb::Resume(args) => change::resume(args),
        Verb::Clear(args) => change::clear(args),
        Verb::Remove(args) => change::remove(args),
        Verb::RemoveAll(args) => change::remove_all(args),
        Verb::Rename(args) => change::rename(args),
        Verb::Table(args) => table::table(args),
        Verb::Status(args) => table::status(args),
        Verb::Info(args) => info::run(args),
        Verb::Deps(args) => deps::run(args),
        Verb::Message(args) => message::run(args),
        Verb::Wait(args) => wait::run(args),
        Verb::Stats(args) => stats::run(args),
        Verb::Targets(args) => ls::targets(args),
        Verb::Version(args) => ls::version(args),
        Verb::Ls(args) => ls::run(args),
        Verb::WipeTable(args) => change::wipe_table(args),
    }
}
