//! `shingle profile`: profiles of simulated drives.

#[cfg(feature = "lab")]
mod fit;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

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
    ///
    /// The column `power cut` says if a drive loses acknowledged writes that were not flushed. A test finds a missing flush only on such a
    /// drive; the others save acknowledged writes, as with capacitors.
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
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
        ProfileCommand::List { json } => list(*json),
        ProfileCommand::Show { name } => show(name),
        #[cfg(feature = "lab")]
        ProfileCommand::Fit(args) => fit::run(args),
    }
}

fn list(json: bool) -> Result<(), CliError> {
    let profiles: Vec<Profile> = Profile::names().map(Profile::find).collect::<Result<_, _>>()?;
    if json {
        let profiles: Vec<Value> = profiles.iter().map(to_json).collect();
        return output::print_json(&json!({"profiles": profiles}));
    }
    let rows = profiles.into_iter().map(|profile| {
        let power_cut = match profile.model.loses_unflushed_writes() {
            Some(true) => "loses unflushed writes",
            Some(false) => "keeps acknowledged writes",
            None => "-",
        };
        vec![profile.name, power_cut.into(), profile.description]
    });
    output::print(&output::table(&["profile", "power cut", "drive"], &[], rows))
}

fn to_json(profile: &Profile) -> Value {
    json!({
        "name": profile.name,
        "model": profile.model.name(),
        "description": profile.description,
        "loses_unflushed_writes": profile.model.loses_unflushed_writes(),
    })
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
