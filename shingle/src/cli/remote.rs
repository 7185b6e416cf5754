//! How commands find the daemon.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{CliError, output};
use shingle_host::control::protocol::{GetStatus, Status};
use shingle_host::control::{ControlClient, ControlError};

/// Which daemon to ask.
#[derive(Args, Clone, Default)]
pub struct RemoteArgs {
    /// Control socket of the daemon; if left out, $SHINGLE_CONTROL or what is there: ./control.sock or the only live ./*control.sock,
    /// $XDG_RUNTIME_DIR/shingle/control.sock, /run/shingle/control.sock, that of the only service, /run/shingle/NAME/control.sock
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
        let several = |all: &[PathBuf]| {
            let all: Vec<String> = all.iter().map(|path| format!("--control {}", path.display())).collect();
            CliError::Failed(format!("several daemons run, say which to ask: {}", all.join(", ")))
        };
        let here = if self.is_chosen() { Vec::new() } else { live_here() };
        let path = match &here[..] {
            [] => self.path(),
            [only] => only.clone(),
            all => return Err(several(all)),
        };
        let services = if path == Path::new(NAME) && !path.exists() { services() } else { Vec::new() };
        if let [_, _, ..] = services[..] {
            return Err(several(&services));
        }
        let client = ControlClient::connect(&path)?;
        match stranger(&client) {
            Some(uid) if !self.is_chosen() => Err(CliError::Failed(format!(
                "{0}: a process of user {uid} listens there, and nobody named it: say so with --control {0} if that is the daemon to ask",
                path.display()
            ))),
            Some(uid) => {
                output::remark(&format!("note: a process of user {uid} listens on {}\n", path.display()));
                Ok(client)
            }
            None => Ok(client),
        }
    }

    /// True if the user said which socket to use.
    fn is_chosen(&self) -> bool {
        self.control.is_some() || std::env::var_os("SHINGLE_CONTROL").is_some()
    }

    /// The daemon that serves the disk in `directory`, and what it calls the disk.
    pub fn server_of(&self, directory: &Path) -> Option<(ControlClient, String)> {
        let beside = directory.canonicalize().ok()?.parent()?.join("control.sock");
        [self.path(), beside].into_iter().chain(services()).find_map(|socket| {
            let mut client = ControlClient::connect(&socket).ok()?;
            if stranger(&client).is_some() && self.control.as_ref() != Some(&socket) {
                return None;
            }
            let status = client.call(&GetStatus {}).ok()?;
            let name = name_of(&status, directory)?;
            Some((client, name))
        })
    }
}

/// User ID of the server if it is neither this user nor root. Any user who can write to a directory can put a socket there, and requests may hold keys.
fn stranger(client: &ControlClient) -> Option<u32> {
    let own = rustix::process::geteuid().as_raw();
    // A kernel that does not tell knows no other users.
    client.server_uid().ok().filter(|uid| *uid != own && *uid != 0)
}

const NAME: &str = "control.sock";

/// Control sockets of this directory at which a daemon listens: `control.sock` and those of stack files of other names, as in `archive.control.sock`.
fn live_here() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
    let names = entries.map(|entry| PathBuf::from(entry.file_name()));
    let is_live = |path: &PathBuf| path.to_string_lossy().ends_with(NAME) && UnixStream::connect(path).is_ok();
    let mut live: Vec<PathBuf> = names.filter(is_live).collect();
    live.sort();
    live
}

/// Where daemons of the machine have theirs.
const RUN: &str = "/run/shingle";

/// Where daemons have their sockets that nobody named: one that was started here, the user's, the machine's, and its only service.
fn usual_places() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|directory| Path::new(&directory).join("shingle").join(NAME));
    let service = Some(services()).filter(|all| all.len() == 1).and_then(|mut all| all.pop());
    [Some(PathBuf::from(NAME)), own, Some(Path::new(RUN).join(NAME)), service].into_iter().flatten().collect()
}

/// The sockets of the machine's services, each in a directory of its own.
fn services() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(RUN).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path().join(NAME)).filter(|path| path.exists()).collect();
    all.sort();
    all
}

/// What a daemon with this status calls the disk in `directory`.
pub fn name_of(status: &Status, directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    // A block device may have been named by one of its links.
    let is_it = |path: &String| Path::new(path).canonicalize().is_ok_and(|path| path == directory);
    status.devices.iter().find(|device| device.path.as_ref().is_some_and(is_it)).map(|device| device.name.clone())
}
