//! `shingle stl remove`.

use std::path::PathBuf;

use clap::Args;
use shingle_core::dm::stl::Step;
use shingle_core::dm::stl::format::MemberState;
use shingle_core::dm::stl::tools::{Removal, RemoveError, finish_removal, plan_removal};
use shingle_host::config::parse_size;
use shingle_host::stl::Disks;

use super::set::{Changed, SetArgs, geometry, geometry_json, no_volume, serving_these};
use super::{CliError, output};
use crate::cli::output::with_percent;
use crate::cli::waiting::WaitingArgs;

/// Take a disk out of a volume, which may become smaller by it
///
/// What is on the disk is moved to the others. All disks of the volume have to be named, and it has to be put away cleanly, by a stop of its
/// daemon. Nothing may be behind its new end: shrink the file system first, and discard what is behind it. Cut off anywhere, nothing is
/// lost: the same command goes on with it, and the volume can be served meanwhile. The line of its table is another one then: it is printed.
#[derive(Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// The disk that leaves
    #[arg(long, value_name = "DISK")]
    device: PathBuf,
    /// How large the volume is to be; what the other disks have room for if left out, but no more than now
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
}

/// Runs the command.
pub fn run(args: &RemoveArgs) -> Result<(), CliError> {
    let size = args.size.map(|bytes| bytes / 4096 * 8);
    let mut disks = args.set.open_up_to(&args.device, &args.waiting)?;
    let removal = with_percent("looking for data behind the new end", |told| plan_removal(&mut disks, size, told));
    let removal = removal.map_err(|error| args.refused(&mut disks, error))?;
    if removal.state != MemberState::Gone {
        args.move_away(&mut disks, &removal)?;
    }
    let finished = with_percent("looking for what is left", |told| finish_removal(&mut disks, told));
    finished.map_err(|error| args.refused(&mut disks, error))?;
    args.tell(&disks, &removal)
}

impl RemoveArgs {
    fn move_away(&self, disks: &mut Disks, removal: &Removal) -> Result<(), CliError> {
        if removal.state == MemberState::Used {
            let made = with_percent("making room", |told| disks.take_step(removal, Step::MakeRoom, told));
            made.map_err(|error| self.failed(&error.to_string()))?;
        }
        let moved = with_percent("moving data", |told| disks.take_step(removal, Step::Leave, told));
        moved.map_err(|error| self.failed(&error.to_string()))
    }

    fn failed(&self, why: &str) -> CliError {
        CliError::Failed(format!("{} is still a disk of the volume: {why}", self.device.display()))
    }

    /// Why the disk cannot be removed, and what to do.
    fn refused(&self, disks: &mut Disks, error: RemoveError) -> CliError {
        let device = self.device.display();
        CliError::Failed(match error {
            RemoveError::Media(_) => error.to_string(),
            RemoveError::NotWiped(_) => format!("{device} is removed: {error}; it may be given away or formatted"),
            RemoveError::Volume(_) | RemoveError::Find(_) => {
                return no_volume(
                    disks,
                    format_args!("{error}: all disks of a volume that is in order have to be named"),
                );
            }
            RemoveError::Data(sectors, _) => {
                let bytes = sectors * 512;
                format!(
                    "{device} cannot be removed: {error}. For ext4: `resize2fs DEVICE {}K`, then `blkdiscard --offset {bytes} DEVICE`",
                    bytes >> 10
                )
            }
            other => format!("{device} cannot be removed: {other}"),
        })
    }

    fn tell(&self, disks: &Disks, removal: &Removal) -> Result<(), CliError> {
        let names: Vec<&str> = disks.names().collect();
        let serving = serving_these(&names[..names.len() - 1], removal.sectors, "");
        let changed = Changed { id: removal.id, before: removal.before, sectors: removal.sectors, serving };
        if self.set.json {
            let mut value = geometry_json(disks);
            value["devices"].as_array_mut().map(Vec::pop);
            return output::print_json(&changed.json(value));
        }
        let device = self.device.display();
        output::print(&format!("{}{device} is none of the volume any more\n{}", geometry(disks), changed.text()))
    }
}
