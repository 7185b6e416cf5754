//! Exports that come and go while the daemon runs.

use super::operations::unknown_device;
use super::protocol::{AddExport, Added, Done, RemoveExport};
use super::{ControlError, ErrorKind, bad};
use crate::config::ExportPlan;
use crate::daemon_state::{DaemonState, close_export, open_export};
use crate::serve::{ExportKeys, ServeError};

impl From<ServeError> for ControlError {
    fn from(error: ServeError) -> Self {
        let is_of_exports = matches!(error, ServeError::Exports { .. } | ServeError::Taken(_));
        let kind = if is_of_exports { ErrorKind::Exists } else { ErrorKind::Stopped };
        ControlError::new(kind, error.to_string())
    }
}

/// `export.add`.
pub(super) fn add(daemon: &DaemonState, request: AddExport) -> Result<Added, ControlError> {
    let AddExport { name, device, read_only, description } = request;
    let plan = ExportPlan { name, device, read_only, description, keys: ExportKeys::default() };
    if !daemon.plan.front_ends.iter().any(|front_end| front_end.offers(&plan.keys)) {
        return Err(bad("this daemon listens nowhere: add [listen] to its stack file and start it again".into()));
    }
    let Some((shard, _)) = daemon.find(&plan.device)? else { return Err(unknown_device(daemon, &plan.device)?) };
    let (number, directory) = (shard.number, daemon.exports.clone());
    let added = shard.mailbox.ask(move |shard| {
        let export = match open_export(shard, number, &plan) {
            Ok(export) => export?,
            Err(error) => return Some(Err(error.into())),
        };
        let added = directory.add(export.clone());
        if added.is_err() {
            close_export(shard, &export);
        }
        let added = added.map(|()| Added { name: plan.name, device: plan.device, bytes: export.bytes() });
        Some(added.map_err(ControlError::from))
    })?;
    added.ok_or_else(|| ControlError::new(ErrorKind::UnknownDevice, "the device was removed meanwhile"))?
}

/// `export.remove`.
pub(super) fn remove(daemon: &DaemonState, RemoveExport { name }: &RemoveExport) -> Result<Done, ControlError> {
    let export = daemon.exports.remove(name).map_err(|users| match users {
        None => {
            let names: Vec<String> = daemon.exports.exports().into_iter().map(|export| export.name).collect();
            let message = format!("there is no export `{name}`; there are: {}", names.join(", "));
            ControlError::new(ErrorKind::UnknownDevice, message)
        }
        Some(users) => {
            let message = format!("export `{name}` has {users} connections: end them first");
            ControlError::new(ErrorKind::Busy, message)
        }
    })?;
    daemon.shards[export.shard].mailbox.ask(move |shard| close_export(shard, &export))?;
    Ok(Done {})
}
