//! `shingle profile`: profiles of simulated drives.

#[cfg(feature = "lab")]
mod fit;

use clap::{Args, Subcommand};

use super::{CliError, output};
use shingle_host::profile::Profile;

/// List the drives that can be simulated, and make profiles of others out of measurements
#[derive(Args)]
pub struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Subcommand)]
enum ProfileCommand {
    /// List the profiles that ship
    List,
    #[cfg(feature = "lab")]
    Fit(fit::FitArgs),
}

/// Runs the command.
pub fn run(args: &ProfileArgs) -> Result<(), CliError> {
    match &args.command {
        ProfileCommand::List => list(),
        #[cfg(feature = "lab")]
        ProfileCommand::Fit(args) => fit::run(args),
    }
}

fn list() -> Result<(), CliError> {
    let profiles: Vec<Profile> = Profile::names().map(Profile::find).collect::<Result<_, _>>()?;
    let rows = profiles.into_iter().map(|profile| vec![profile.name, profile.description]);
    output::print(&output::table(&["profile", "drive"], &[], rows))
}
