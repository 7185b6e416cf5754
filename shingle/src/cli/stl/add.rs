//! `shingle stl add`.

use std::path::PathBuf;

use clap::Args;
use shingle_core::dm::stl::CreateError;
use shingle_core::dm::stl::tools::{AddError, Media, add};
use shingle_host::stl::content;
use uuid::Uuid;

use super::set::{Changed, SetArgs, geometry, geometry_json, no_volume, other_zones, serving};
use super::{CliError, output};
use crate::cli::output::with_percent;
use crate::cli::waiting::WaitingArgs;

/// Make another disk a part of a volume, which becomes larger by it
///
/// Everything on the new disk is lost. All disks of the volume have to be named, and it has to be put away cleanly, by a stop of its daemon. Cut
/// off anywhere, the volume is the old one or the new one. The line of its table is another one then: it is printed.
#[derive(Args)]
pub struct AddArgs {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// The new disk
    #[arg(long, value_name = "DISK")]
    new: PathBuf,
    /// Add it although there is something on it
    #[arg(short, long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &AddArgs) -> Result<(), CliError> {
    let mut disks = args.set.open_with(&args.new, &args.waiting)?;
    let last = disks.disks().len() - 1;
    if !args.force
        && let Some(found) = content(&mut disks, last)?
    {
        return Err(CliError::Failed(format!("{found}: use --force to destroy it")));
    }
    let id = Uuid::new_v4().into_bytes();
    let added = with_percent("emptying the new disk", |progress| add(&mut disks, id, progress));
    let added = added.map_err(|error| match error {
        AddError::Volume(_) | AddError::Find(_) => no_volume(
            &mut disks,
            format_args!("{error}: all disks of a volume that is in order have to be named, and then --new"),
        ),
        AddError::Device(CreateError::OtherZones(..)) => CliError::Failed(other_zones(&disks)),
        AddError::Device(_) | AddError::TooShort | AddError::TooSmall => {
            CliError::Failed(format!("{}: {error}", args.new.display()))
        }
        other => CliError::failed(other),
    })?;
    let serving = serving(&disks, added.sectors);
    let changed = Changed { id, before: added.before, sectors: added.sectors, serving };
    if args.set.json {
        return output::print_json(&changed.json(geometry_json(&disks)));
    }
    output::print(&format!("{}{}", geometry(&disks), changed.text()))
}
