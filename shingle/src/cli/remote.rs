//! How commands find the daemon.

use std::path::{Path, PathBuf};

use clap::Args;

use super::CliError;
use shingle_host::control::protocol::{GetStatus, Status};
use shingle_host::control::{ControlClient, ControlError};

/// Which daemon to ask.
#[derive(Args, Clone, Default)]
pub struct RemoteArgs {
    /// Control socket of the daemon; if left out, $SHINGLE_CONTROL or what is there: ./control.sock,
    /// $XDG_RUNTIME_DIR/shingle/control.sock, /run/shingle/control.sock
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
}

/// Which daemon to ask, and how its answer is shown.
#[derive(Args)]
pub struct AskArgs {
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl From<ControlError> for CliError {
    fn from(error: ControlError) -> Self {
        CliError::Failed(error.to_string())
    }
}

impl RemoteArgs {
    /// The socket that was named on the command line.
    pub fn named(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    /// The socket to use.
    pub fn path(&self) -> PathBuf {
        let from_environment = || std::env::var_os("SHINGLE_CONTROL").map(PathBuf::from);
        let there = || usual_places().into_iter().find(|path| path.exists());
        self.control.clone().or_else(from_environment).or_else(there).unwrap_or_else(|| PathBuf::from(NAME))
    }

    /// Connects to the daemon.
    pub fn connect(&self) -> Result<ControlClient, CliError> {
        Ok(ControlClient::connect(&self.path())?)
    }

    /// The daemon that serves the disk in `directory`, and what it calls the disk.
    pub fn server_of(&self, directory: &Path) -> Option<(ControlClient, String)> {
        let beside = directory.canonicalize().ok()?.parent()?.join("control.sock");
        [self.path(), beside].iter().find_map(|socket| {
            let mut client = ControlClient::connect(socket).ok()?;
            let status = client.call(&GetStatus {}).ok()?;
            let name = name_of(&status, directory)?;
            Some((client, name))
        })
    }
}

const NAME: &str = "control.sock";

/// Where daemons have their sockets that nobody named: one that was started here, the user's, and the machine's.
fn usual_places() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|directory| Path::new(&directory).join("shingle").join(NAME));
    [Some(PathBuf::from(NAME)), own, Some(Path::new("/run/shingle").join(NAME))].into_iter().flatten().collect()
}

/// What a daemon with this status calls the disk in `directory`.
pub fn name_of(status: &Status, directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    // A block device may have been named by one of its links.
    let is_it = |path: &String| Path::new(path).canonicalize().is_ok_and(|path| path == directory);
    status.devices.iter().find(|device| device.path.as_ref().is_some_and(is_it)).map(|device| device.name.clone())
}
