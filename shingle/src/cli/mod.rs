//! The command line: one file per command.
//!
//! Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 3 what was checked is not in order, 130 interrupted a second
//! time.

#[cfg(feature = "lab")]
mod bench;
mod create;
mod disks;
mod dm;
mod dmz;
mod error;
mod export;
mod interrupt;
mod metrics;
mod new_file;
#[cfg(any(test, not(feature = "lab")))]
mod no_lab;
mod output;
#[cfg(feature = "lab")]
mod own_paths;
mod path;
mod policy_options;
mod power;
mod profile;
mod reload;
mod remote;
#[cfg(feature = "lab")]
mod reproduce;
mod shells;
#[cfg(feature = "lab")]
mod sim;
mod status;
mod stl;
mod top;
mod trace;
mod ublk;
mod up;
mod waiting;
mod watch;
mod words;
mod zones;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use error::CliError;

use crate::log;

/// The Linux zoned block stack in userspace.
#[derive(Parser)]
#[command(name = "shingle", version, about, long_about = None)]
#[command(
    after_help = "Documentation: man shingle-stack, shingle-stl, shingle-dmz, shingle-control-protocol; in the source README.md and docs/"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Create(create::CreateArgs),
    Disks(disks::DisksArgs),
    Up(up::UpArgs),
    Zones(zones::ZonesArgs),
    /// Show what a running daemon serves and does
    Status(remote::AskArgs),
    Top(top::TopArgs),
    Metrics(metrics::MetricsArgs),
    Reload(reload::ReloadArgs),
    Plugs(status::PlugsArgs),
    Policy(status::PolicyArgs),
    Scheduler(status::SchedulerArgs),
    Path(path::PathArgs),
    Power(power::PowerArgs),
    Dm(dm::DmArgs),
    Dmz(dmz::DmzArgs),
    Stl(stl::StlArgs),
    Export(export::ExportArgs),
    Ublk(ublk::UblkArgs),
    #[cfg(feature = "lab")]
    Bench(Box<bench::BenchArgs>),
    Profile(profile::ProfileArgs),
    Trace(trace::TraceArgs),
    #[cfg(feature = "lab")]
    Reproduce(reproduce::ReproduceArgs),
    #[cfg(feature = "lab")]
    Sim(sim::SimArgs),
    Completions(shells::CompletionsArgs),
    Man(shells::ManArgs),
}

/// Says why a command line was not taken; returns the exit code.
fn refuse(said: &clap::Error) -> u8 {
    #[cfg(not(feature = "lab"))]
    if let Some(complaint) = no_lab::complaint(std::env::args_os().skip(1).filter_map(|word| word.into_string().ok())) {
        let error = CliError::Usage(complaint);
        error.print();
        return error.code();
    }
    output::print_usage(said)
}

/// Runs the program.
pub fn main() -> ExitCode {
    // A write past `ulimit -f` has to be an error of that write, not the end of the program.
    shingle_sys::unix::ignore_file_size_signal();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // The text of --help comes here too.
        Err(said) => return ExitCode::from(refuse(&said)),
    };
    let form = if let Command::Up(args) = &cli.command { args.log } else { log::Form::Text };
    if let Err(error) = log::start(form) {
        CliError::Failed(format!("cannot start the log: {error}")).print();
        return ExitCode::FAILURE;
    }
    let result = match cli.command {
        Command::Create(args) => create::run(&args),
        Command::Disks(args) => disks::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Zones(args) => zones::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Top(args) => top::run(args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Reload(args) => reload::run(&args),
        Command::Plugs(args) => status::plugs(&args),
        Command::Policy(args) => status::policy(&args),
        Command::Scheduler(args) => status::scheduler(&args),
        Command::Path(args) => path::run(&args),
        Command::Power(args) => power::run(&args),
        Command::Dm(args) => dm::run(&args),
        Command::Dmz(args) => dmz::run(&args),
        Command::Stl(args) => stl::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Ublk(args) => ublk::run(&args),
        #[cfg(feature = "lab")]
        Command::Bench(args) => bench::run(*args),
        Command::Profile(args) => profile::run(&args),
        Command::Trace(args) => trace::run(&args),
        #[cfg(feature = "lab")]
        Command::Reproduce(args) => reproduce::run(&args),
        #[cfg(feature = "lab")]
        Command::Sim(args) => sim::run(&args),
        Command::Completions(args) => shells::completions(&args),
        Command::Man(args) => shells::man(&args),
    };
    log::flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.print();
            ExitCode::from(error.code())
        }
    }
}
