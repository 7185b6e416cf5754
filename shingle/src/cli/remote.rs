//! How commands find the daemon.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::CliError;
use crate::control::{ControlClient, ControlError};

/// Which daemon to ask.
#[derive(Args, Clone, Default)]
pub struct RemoteArgs {
    /// Control socket of the daemon; $SHINGLE_CONTROL or ./control.sock if left out
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
}

impl From<ControlError> for CliError {
    fn from(error: ControlError) -> Self {
        CliError::Failed(error.to_string())
    }
}

impl RemoteArgs {
    /// The socket that was named on the command line.
    #[must_use]
    pub fn named(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    /// The socket to use.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let from_environment = || std::env::var_os("SHINGLE_CONTROL").map(PathBuf::from);
        self.control.clone().or_else(from_environment).unwrap_or_else(|| PathBuf::from("control.sock"))
    }

    /// Connects to the daemon.
    pub fn connect(&self) -> Result<ControlClient, CliError> {
        Ok(ControlClient::connect(&self.path())?)
    }

    /// The daemon that serves the disk in `directory`, and what it calls the disk.
    #[must_use]
    pub fn server_of(&self, directory: &Path) -> Option<(ControlClient, String)> {
        let beside = directory.canonicalize().ok()?.parent()?.join("control.sock");
        [self.path(), beside].iter().find_map(|socket| {
            let mut client = ControlClient::connect(socket).ok()?;
            let status = client.call("status", Value::Null).ok()?;
            let name = name_of(&status, directory)?;
            Some((client, name))
        })
    }
}

/// What a daemon with this status calls the disk in `directory`.
pub fn name_of(status: &Value, directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let devices = status.get("devices")?.as_array()?;
    let ours =
        devices.iter().find(|device| device["path"].as_str().is_some_and(|path| Path::new(path) == directory))?;
    ours["name"].as_str().map(str::to_owned)
}
