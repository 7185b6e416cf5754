//! `shingle profile`: profiles of simulated drives.

#[cfg(feature = "lab")]
mod fit;

use clap::{Args, Subcommand};

use super::{CliError, output};
use shingle_host::profile::{PathSet, Profile, ProfileError};

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
    /// Print a profile, or a set of paths, to be copied and edited
    ///
    /// shingle profile show smr-15tb > mine.toml
    Show {
        /// The name of a profile or of a set of paths
        name: String,
    },
    #[cfg(feature = "lab")]
    Fit(fit::FitArgs),
}

/// Runs the command.
pub fn run(args: &ProfileArgs) -> Result<(), CliError> {
    match &args.command {
        ProfileCommand::List => list(),
        ProfileCommand::Show { name } => show(name),
        #[cfg(feature = "lab")]
        ProfileCommand::Fit(args) => fit::run(args),
    }
}

fn list() -> Result<(), CliError> {
    let profiles: Vec<Profile> = Profile::names().map(Profile::find).collect::<Result<_, _>>()?;
    let rows = profiles.into_iter().map(|profile| vec![profile.name, profile.description]);
    output::print(&output::table(&["profile", "drive"], &[], rows))
}

fn show(name: &str) -> Result<(), CliError> {
    let source = match Profile::source(name) {
        Err(ProfileError::Unknown { name, known }) => PathSet::source(&name).map_err(|error| match error {
            ProfileError::Unknown { known: sets, .. } => ProfileError::Unknown { name, known: [known, sets].concat() },
            other => other,
        }),
        found => found,
    };
    output::print(&source?.text)
}
