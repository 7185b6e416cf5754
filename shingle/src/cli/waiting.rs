//! Disks that block devices of killed daemons wait for: commands that write to one are refused.

use std::path::Path;

use clap::Args;
use shingle_host::serve::ublk::waiting_for;

use super::CliError;

/// The override.
#[derive(Args)]
pub struct WaitingArgs {
    /// Write even to a disk that the block device of a killed daemon waits for: its users lose data
    #[arg(long)]
    even_if_waiting: bool,
}

impl WaitingArgs {
    /// Fails if a block device waits for one of these disks, unless that is overridden.
    pub fn check<'a>(&self, disks: impl IntoIterator<Item = &'a Path>) -> Result<(), CliError> {
        if self.even_if_waiting { Ok(()) } else { refuse_waiting(disks, "--even-if-waiting") }
    }
}

/// Fails if a block device waits for one of these disks. `flag` overrides that.
pub fn refuse_waiting<'a>(disks: impl IntoIterator<Item = &'a Path>, flag: &str) -> Result<(), CliError> {
    let found = disks.into_iter().find_map(|disk| Some((disk, waiting_for(disk)?)));
    let Some((disk, waiting)) = found else { return Ok(()) };
    Err(CliError::Failed(format!("{}: {waiting}; {flag} writes to it all the same", disk.display())))
}
