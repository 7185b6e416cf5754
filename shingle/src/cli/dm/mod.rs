//! `shingle dm`: dmsetup's verbs, options and output, on the devices of a running daemon.

mod change;
mod columns;
mod concise;
mod create;
mod deps;
mod info;
mod ls;
mod message;
mod rename;
mod source;
mod stats;
mod table;
mod tree;
mod wait;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::remote::RemoteArgs;
use super::{CliError, output};
use shingle_host::control::ControlClient;
use shingle_host::control::protocol::{Devices, Operation};

/// Create, load, swap, look at and remove mapped devices while the daemon runs, as dmsetup does
///
/// A device has two tables: the live one, and an inactive one that `load` fills and `resume` makes the live one. A device is
/// named by its name or its UUID.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 done, 1 it failed, 2 the command line is wrong. More in docs/device-mapper.md.")]
pub struct DmArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Create(create::CreateArgs),
    #[command(visible_alias = "reload")]
    Load(create::LoadArgs),
    Suspend(change::SuspendArgs),
    Resume(change::ResumeArgs),
    Clear(change::ClearArgs),
    Remove(change::RemoveArgs),
    #[command(name = "remove_all")]
    RemoveAll(change::RemoveAllArgs),
    Rename(rename::RenameArgs),
    Table(table::TableArgs),
    Status(table::StatusArgs),
    Info(info::InfoArgs),
    Deps(deps::DepsArgs),
    Message(message::MessageArgs),
    Wait(wait::WaitArgs),
    Stats(stats::StatsArgs),
    Targets(ls::TargetsArgs),
    Version(ls::VersionArgs),
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
        Verb::Rename(args) => rename::run(args),
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

/// How devices are shown.
#[derive(Args)]
struct ViewArgs {
    /// The devices; all of them if left out
    devices: Vec<String>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ViewArgs {
    /// Asks for the devices that were named, or all.
    fn ask<O, T>(&self, request: impl Fn(Option<String>) -> O) -> Result<Vec<T>, CliError>
    where
        O: Operation<Answer = Devices<T>>,
    {
        ask(&mut self.remote.connect()?, &self.devices, request)
    }

    /// Prints devices: as JSON, or each as `show` does. As with dmsetup, `show` is told whether there can be several.
    fn print<T: Serialize>(&self, devices: &[T], show: impl Fn(&T, bool) -> String) -> Result<(), CliError> {
        if self.json {
            return output::print_json(&json!({"devices": devices}));
        }
        if devices.is_empty() {
            return output::print(NO_DEVICES);
        }
        let several = self.devices.len() != 1;
        output::print(&devices.iter().map(|device| show(device, several)).collect::<String>())
    }
}

const NO_DEVICES: &str = "No devices found\n";

/// Asks for devices by their names, one by one; for all if none is named.
fn ask<O, T>(
    client: &mut ControlClient,
    names: &[String],
    request: impl Fn(Option<String>) -> O,
) -> Result<Vec<T>, CliError>
where
    O: Operation<Answer = Devices<T>>,
{
    if names.is_empty() {
        return Ok(client.call(&request(None))?.devices);
    }
    let mut devices = Vec::new();
    for name in names {
        devices.extend(client.call(&request(Some(name.clone())))?.devices);
    }
    Ok(devices)
}

/// A mapped device for tests.
#[cfg(test)]
fn example(name: &str, minor: usize) -> shingle_host::control::protocol::MappedDevice {
    shingle_host::control::protocol::MappedDevice {
        name: name.into(),
        uuid: "u".into(),
        major: shingle_host::control::MAPPED_MAJOR,
        minor,
        state: shingle_host::control::protocol::State::Active,
        read_only: false,
        live: true,
        inactive: false,
        deferred_remove: false,
        open: 1,
        targets: 1,
        events: 0,
        sectors: 8,
        shard: 0,
        longest_swap_ns: 0,
        lines: None,
    }
}
