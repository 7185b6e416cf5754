//! NBD exports that come and go while the daemon runs.

use super::operations::unknown_device;
use super::protocol::{AddExport, Added, Done, RemoveExport};
use super::{ControlError, ErrorKind, bad};
use crate::config::ExportPlan;
use crate::daemon_state::{DaemonState, close_export, open_export};
use crate::serve::nbd::NbdError;

impl From<NbdError> for ControlError {
    fn from(error: NbdError) -> Self {
        let kind = if matches!(error, NbdError::Exports(_)) { ErrorKind::Exists } else { ErrorKind::Stopped };
        ControlError::new(kind, error.to_string())
    }
}

/// `export.add`.
pub(super) fn add(daemon: &DaemonState, request: AddExport) -> Result<Added, ControlError> {
    let AddExport { name, device, read_only, description } = request;
    let plan = ExportPlan { name, device, read_only, description };
    if daemon.addresses.is_empty() {
        return Err(bad("this daemon listens nowhere: add [listen] to its stack file and start it again".into()));
    }
    let Some((shard, _)) = daemon.find(&plan.device)? else { return Err(unknown_device(daemon, &plan.device)?) };
    let (home, directory) = (shard.nbd.clone(), daemon.exports.clone());
    let added = shard.mailbox.ask(move |shard| {
        let route = match open_export(shard, &plan, &home) {
            Ok(route) => route?,
            Err(error) => return Some(Err(error.into())),
        };
        let size = route.export.size();
        let added = directory.add(route.clone());
        if added.is_err() {
            close_export(shard, &route);
        }
        let added = added.map(|()| Added { name: plan.name, device: plan.device, bytes: size });
        Some(added.map_err(ControlError::from))
    })?;
    added.ok_or_else(|| ControlError::new(ErrorKind::UnknownDevice, "the device was removed meanwhile"))?
}

/// `export.remove`.
pub(super) fn remove(daemon: &DaemonState, RemoveExport { name }: &RemoveExport) -> Result<Done, ControlError> {
    let route = daemon.exports.remove(name).map_err(|users| match users {
        None => {
            let names: Vec<String> = daemon.exports.routes().into_iter().map(|route| route.export.name).collect();
            let message = format!("there is no export `{name}`; there are: {}", names.join(", "));
            ControlError::new(ErrorKind::UnknownDevice, message)
        }
        Some(users) => {
            let message = format!("export `{name}` has {users} connections: end them first");
            ControlError::new(ErrorKind::Busy, message)
        }
    })?;
    if let Some(shard) = daemon.shards.iter().find(|shard| shard.nbd.is(&route.home)) {
        shard.mailbox.ask(move |shard| close_export(shard, &route))?;
    }
    Ok(Done {})
}
